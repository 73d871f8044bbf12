import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.plot import DecisionSurfaceDisplay, ReliabilityDisplay

matplotlib.use("Agg")
GRID = 30


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.2, random_state=0)
    return X, np.array(["down", "up"])[y]


@pytest.fixture(scope="module")
def model(moons):
    return BayesianSVC(random_state=0).fit(*moons)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_name_the_axes_and_classes_the_legend(frame, moons, ax):
    X, y = moons
    table = frame({"other": X[:, 0], "width": X[:, 0], "height": X[:, 1]})
    fitted = BayesianSVC(random_state=0).fit(table[["width", "height"]], y)
    by_name = DecisionSurfaceDisplay.from_estimator(
        fitted, table, y, columns=("width", "height"), grid_resolution=GRID, ax=ax
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    assert legend_of(ax) == ["down", "up", "probability 0.5", "one latent sd away"]
    by_position = DecisionSurfaceDisplay.from_estimator(
        fitted, table, y, columns=(1, 2), grid_resolution=GRID, ax=Figure().subplots()
    )
    np.testing.assert_array_equal(by_name.probability, by_position.probability)


def test_grid_values_are_the_models_own(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    i, j = 7, 19
    row = [[display.xx0[i, j], display.xx1[i, j]]]
    _, v = model.latent_mean_and_variance(row)
    assert display.probability[i, j] == pytest.approx(model.predict_proba(row)[0, 1])
    assert display.knowledge[i, j] == pytest.approx(1 - v[0] / model.kernel_.diagonal(np.array(row))[0])
    np.testing.assert_array_equal(np.sign(display.distance), np.sign(display.probability - 0.5))
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_less_is_known_far_from_the_data(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    assert display.knowledge[0, 0] < 0.5 < display.knowledge.max() <= 1
    assert display.knowledge.min() >= 0


def test_a_pipeline_shows_the_uncertainty_of_its_last_step(moons, ax):
    fitted = make_pipeline(StandardScaler(), BayesianSVC(random_state=0)).fit(*moons)
    display = DecisionSurfaceDisplay.from_estimator(fitted, *moons, grid_resolution=GRID, ax=ax)
    np.testing.assert_array_equal(np.sign(display.distance), np.sign(display.probability - 0.5))


def test_other_classifiers_are_drawn_without_uncertainty(moons, ax):
    fitted = CalibratedClassifierCV(SVC(), ensemble=False).fit(*moons)
    display = DecisionSurfaceDisplay.from_estimator(fitted, *moons, grid_resolution=GRID, ax=ax)
    assert display.distance is None
    assert legend_of(ax) == ["down", "up", "probability 0.5"]


def test_linear_model_has_a_band_and_no_veil(moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(
        BayesianLinearSVC().fit(*moons), *moons, grid_resolution=GRID, ax=ax
    )
    assert display.distance is not None
    assert display.knowledge is None
    assert not ax.images


def test_a_surface_that_never_crosses_one_half_has_no_line(moons, ax):
    X, _ = moons
    y = np.arange(len(X)) == 0
    fitted = BayesianLinearSVC(prior=1e-6).fit(X, y)
    DecisionSurfaceDisplay.from_estimator(fitted, X, y, grid_resolution=GRID, ax=ax)
    assert "probability 0.5" not in legend_of(ax)


def test_plot_again_elsewhere(model, moons, ax):
    display = DecisionSurfaceDisplay.from_estimator(model, *moons, grid_resolution=GRID, ax=ax)
    other = Figure().subplots()
    assert display.plot(ax=other, legend=False) is display
    assert display.ax_ is other
    assert other.get_legend() is None


@pytest.mark.parametrize(
    ("fitted", "options", "message"),
    [
        (lambda X, y: BayesianSVC().fit(np.hstack([X, X]), y), {}, "fitted on 4 columns"),
        (lambda X, y: SVC().fit(X, y), {}, "needs predict_proba"),
        (lambda X, y: BayesianSVC().fit(X, y), {"columns": (0,)}, "two positions"),
        (lambda X, y: BayesianSVC().fit(X, y), {"columns": ("a", "b")}, "no column names"),
        (
            lambda X, y: CalibratedClassifierCV(SVC(), ensemble=False).fit(X, np.arange(len(X)) % 3),
            {},
            "shows two classes",
        ),
    ],
)
def test_clear_errors(fitted, options, message, moons):
    with pytest.raises(ValueError, match=message):
        DecisionSurfaceDisplay.from_estimator(fitted(*moons), *moons, **options)


def test_unfitted_models_are_refused(moons):
    with pytest.raises(NotFittedError):
        DecisionSurfaceDisplay.from_estimator(BayesianSVC(), *moons)


def test_reliability_counts_by_hand(ax):
    display = ReliabilityDisplay.from_predictions(
        ["no", "no", "yes", "yes"], [0.1, 0.3, 0.4, 1.0], n_bins=2, name="a model", ax=ax
    )
    np.testing.assert_allclose(display.probability, [0.8 / 3, 1.0])
    np.testing.assert_allclose(display.frequency, [1 / 3, 1.0])
    # Wilson's interval of 1 in 3, and of 1 in 1.
    np.testing.assert_allclose(display.lower, [0.0615, 0.2065], atol=1e-4)
    np.testing.assert_allclose(display.upper, [0.7923, 1.0], atol=1e-4)
    assert legend_of(ax) == ["a model"]


def test_absent_matplotlib_is_named():
    code = """
import sys
sys.modules["matplotlib"] = None
from softmargin.plot import ReliabilityDisplay
try:
    ReliabilityDisplay.from_predictions([0, 1], [0.1, 0.9])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'softmargin.plot needs matplotlib: pip install "softmargin[cli]"\n'
