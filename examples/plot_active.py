"""
Fewer labels: which rows to ask for
===================================

**The question.** Images are free and labels are not. If a model may choose which images a person labels next, how many
labels does it save against labels drawn at random?

**The data.** The 1,797 handwritten digits that come with scikit-learn, 8 by 8 pixels each. A thousand are the pool to
ask from, and the others the test, split anew for each of four seeds.
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
# ``ActiveLearner`` begins with one image of each digit and asks for ten more in each round. The kernel is held: what a
# few labels, chosen for being odd, say about a kernel is not worth much, and rounds are faster without.
STRATEGIES, N_SEEDS = ("margin", "variation_ratio", "random"), 4


def learned(strategy, seed):
    """A learner that has asked for all its labels."""
    order = np.random.default_rng(seed).permutation(len(X))
    pool, test = order[:1000], order[1000:]
    learner = ActiveLearner(BayesianSVC(tune=None), strategy, n_per_query=10, random_state=seed)
    return learner.learn(X[pool], y[pool], n_queries=80, X_test=X[test], y_test=y[test])


learners = {strategy: [learned(strategy, seed) for seed in range(N_SEEDS)] for strategy in STRATEGIES}

# %%
# What each policy came to, and how many labels it took to classify nine of ten images correctly (the mean over seeds,
# of those that got there):
for strategy, every in learners.items():
    final = np.array([learner.history_[-1]["score"] for learner in every])
    enough = [next((r["n_labelled"] for r in learner.history_ if r["score"] >= 0.9), None) for learner in every]
    there = [n for n in enough if n is not None]
    needed = f"{np.mean(there):.0f} labels" if there else "more labels than were asked for"
    print(f"{strategy:<16} {final.mean():.3f} with all labels; 90 % after {needed} ({len(there)} of {N_SEEDS} seeds)")

# %%
# Every policy had the same pools, so that differences can be taken seed by seed.
final = {name: np.array([learner.history_[-1]["score"] for learner in every]) for name, every in learners.items()}
for name in STRATEGIES[:2]:
    gain = final[name] - final["random"]
    print(
        f"{name} over random, all labels: {gain.mean():+.3f}, standard error {gain.std(ddof=1) / np.sqrt(N_SEEDS):.3f}"
    )

# %%
# The picture
# -----------
# Accuracy on the test images; bands are 95 % intervals of the mean over seeds.
figure, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
for strategy, every in learners.items():
    LearningCurveDisplay.from_learners(
        every, name=strategy.replace("_", " "), score_name="accuracy on test images", ax=ax
    )
ax.grid(axis="y", alpha=0.3)

# %%
# What does it ask for? Above, the images of the pool that the last model of the first seed doubts most, and below those
# that it doubts least, all of them without a label so far.
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
        ax.set_title(f"a {y[pool][open_rows[place]]}, said {learner.model_.predict([image])[0]}", fontsize=7)
plt.show()

# %%
# **What to read from it.** Asking where the two likeliest digits are about as likely, or where the favourite may well
# change, reaches with a part of the labels what random ones reach with all of them. In the first rounds there is
# nothing in it: a model that knows one image of each digit does not know what it does not know.
#
# **What it does not show.** The labels here were known all along and free of errors; a person makes mistakes, and most
# of them on just the images that are asked for. No policy is best on every table, random ones included. And images that
# were chosen are no sample of the pool: a test set must be drawn at random, as it is here.
