"""
Fewer labels: choosing which images to label
============================================

**The question.** Images are free; labels are not. If a model chooses which images a person labels next, how many labels
does it save compared with choosing at random?

**The data.** The 1,797 handwritten digits that come with scikit-learn, 8 by 8 pixels each. A thousand form the pool of
images to label, and the rest are the test set, with a new split for each of four seeds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from softmargin import BayesianSVC
from softmargin.active import ActiveLearner, scores
from softmargin.plot import LearningCurveDisplay

X, y = load_digits(return_X_y=True)

# %%
# The fit
# -------
# ``ActiveLearner`` starts with one labelled image of each digit and queries ten more in each round. The kernel stays
# fixed: a few labels, chosen because they are unusual, say little about the kernel, and rounds are faster without
# tuning.
STRATEGIES, N_SEEDS = ("margin", "variation_ratio", "random"), 4


def learned(strategy, seed):
    """A learner that has spent its whole label budget."""
    order = np.random.default_rng(seed).permutation(len(X))
    pool, test = order[:1000], order[1000:]
    learner = ActiveLearner(BayesianSVC(tune=None), strategy, n_per_query=10, random_state=seed)
    return learner.learn(X[pool], y[pool], n_queries=80, X_test=X[test], y_test=y[test])


learners = {strategy: [learned(strategy, seed) for seed in range(N_SEEDS)] for strategy in STRATEGIES}

# %%
# The final accuracy of each strategy, and how many labels it needed to classify nine in ten images correctly (the mean
# over the seeds that got there):
for strategy, every in learners.items():
    final = np.array([learner.history_[-1]["score"] for learner in every])
    enough = [next((r["n_labelled"] for r in learner.history_ if r["score"] >= 0.9), None) for learner in every]
    there = [n for n in enough if n is not None]
    needed = f"{np.mean(there):.0f} labels" if there else "more labels than the budget"
    print(f"{strategy:<16} final accuracy {final.mean():.3f}; 90 % after {needed} ({len(there)} of {N_SEEDS} seeds)")

# %%
# All strategies share the same pools, so they can be compared seed by seed.
final = {name: np.array([learner.history_[-1]["score"] for learner in every]) for name, every in learners.items()}
for name in STRATEGIES[:2]:
    gain = final[name] - final["random"]
    print(
        f"{name} minus random, at the end: {gain.mean():+.3f}, standard error {gain.std(ddof=1) / np.sqrt(N_SEEDS):.3f}"
    )

# %%
# The picture
# -----------
# Accuracy on the test images; bands are 95 % intervals for the mean over seeds.
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for strategy, every in learners.items():
    LearningCurveDisplay.from_learners(
        every, name=strategy.replace("_", " "), score_name="accuracy on test images", ax=ax
    )
ax.grid(axis="y", alpha=0.3)

# %%
# Which images does it query? The top row shows the pool images about which the final model of the first seed is most
# uncertain; the bottom row, those about which it is least uncertain. None of them has been labelled yet.
learner = learners["variation_ratio"][0]
pool = np.random.default_rng(0).permutation(len(X))[:1000]
open_rows = np.setdiff1d(np.arange(1000), learner.labelled_)
doubt = scores(learner.model_, X[pool][open_rows])
figure, axes = plt.subplots(2, 10, figsize=(10, 2.6), layout="constrained")
for row, places in zip(axes, (np.argsort(-doubt)[:10], np.argsort(doubt)[:10]), strict=True):
    for ax, place in zip(row, places, strict=True):
        image = X[pool][open_rows[place]]
        ax.imshow(image.reshape(8, 8), cmap="Greys")
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"a {y[pool][open_rows[place]]}, predicted {learner.model_.predict([image])[0]}", fontsize=7)
plt.show()

# %%
# **What to read from it.** Querying images whose two likeliest digits are about equally likely, or whose likeliest
# digit could well change, needs only part of the labels to match what random choice reaches with all of them. In the
# first rounds there is no gain: a model that has seen one image of each digit does not know what it does not know.
#
# **What it does not show.** The labels here were known in advance and free of errors. People make mistakes, mostly on
# the very images that a learner queries. No strategy is best on every data set, and neither is random choice. And
# queried images are not a random sample of the pool: a test set must be drawn at random, as it is here.
