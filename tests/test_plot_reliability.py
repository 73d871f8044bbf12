import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.metrics import reliability_curve
from softmargin.plot import ReliabilityDisplay

matplotlib.use("Agg")


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    y = load_iris().target_names[y]
    return BayesianLinearSVC().fit(X[::2], y[::2]), X[1::2], y[1::2]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_reliability_counts_by_hand(ax):
    display = ReliabilityDisplay.from_predictions(
        ["no", "no", "yes", "yes"], [0.1, 0.3, 0.4, 1.0], n_bins=2, name="a model", ax=ax
    )
    np.testing.assert_allclose(display.probability, [0.8 / 3, 1.0])
    np.testing.assert_allclose(display.frequency, [1 / 3, 1.0])
    # Wilson's interval of 1 in 3, and of 1 in 1.
    np.testing.assert_allclose(display.lower, [0.0615, 0.2065], atol=1e-4)
    np.testing.assert_allclose(display.upper, [0.7923, 1.0], atol=1e-4)
    np.testing.assert_array_equal(display.weight, [3, 1])
    assert legend_of(ax) == ["a model"]
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_curve_band_and_histogram_carry_the_numbers(rng, ax):
    p = rng.random(500)
    y, weight = rng.random(500) < p, rng.integers(0, 4, 500)
    display = ReliabilityDisplay.from_predictions(y, p, sample_weight=weight, ax=ax)
    curve = reliability_curve(y, p, sample_weight=weight)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([curve.probability, curve.frequency]))
    corners = {tuple(corner) for corner in display.band_.get_paths()[0].vertices}
    assert corners >= set(zip(curve.probability, curve.low, strict=True))
    assert corners >= set(zip(curve.probability, curve.high, strict=True))
    bars = display.counts_ax_.patches
    np.testing.assert_array_equal([bar.get_height() for bar in bars], curve.weight)
    np.testing.assert_allclose([bar.get_x() for bar in bars], curve.left)
    assert sum(bar.get_height() for bar in bars) == weight.sum()


def test_areas_of_uneven_bins_are_rows(rng, ax):
    p = rng.beta(0.5, 2, 400)
    display = ReliabilityDisplay.from_predictions(rng.random(400) < p, p, n_bins=8, strategy="quantile", ax=ax)
    np.testing.assert_array_equal(display.weight, 50)
    areas = [bar.get_height() * bar.get_width() for bar in display.counts_ax_.patches]
    np.testing.assert_allclose(areas, 50)


def test_several_models_share_axes_diagonal_and_histogram(rng, ax):
    p = rng.random(300)
    y = rng.random(300) < p
    first = ReliabilityDisplay.from_predictions(y, p, name="one", ax=ax)
    second = ReliabilityDisplay.from_predictions(y, p**2, name="other $", ax=ax)
    assert legend_of(ax) == ["one", r"other \$"]
    assert len(ax.lines) == 3
    assert first.counts_ax_ is second.counts_ax_
    assert not same_color(first.line_.get_color(), second.line_.get_color())
    assert first.line_.get_marker() != second.line_.get_marker()


def test_counts_may_be_left_out_and_lines_styled(rng, ax):
    p = rng.random(50)
    display = ReliabilityDisplay.from_predictions(rng.random(50) < p, p, ax=ax, counts=False, color="black")
    assert display.counts_ax_ is None
    assert not ax.child_axes
    assert display.line_.get_color() == "black"
    assert ax.get_legend() is None


def test_estimators_are_judged_by_the_column_of_the_class(iris, ax):
    model, X, y = iris
    display = ReliabilityDisplay.from_estimator(model, X, y, pos_label="versicolor", n_bins=5, ax=ax)
    curve = reliability_curve(y == "versicolor", model.predict_proba(X)[:, 1], n_bins=5)
    np.testing.assert_allclose(display.frequency, curve.frequency)
    np.testing.assert_allclose(display.probability, curve.probability)
    assert ax.get_xlabel() == "predicted probability of versicolor"
    assert legend_of(ax) == ["BayesianLinearSVC"]
    same = ReliabilityDisplay.from_predictions(
        y, model.predict_proba(X), pos_label="versicolor", n_bins=5, ax=Figure().subplots()
    )
    np.testing.assert_allclose(same.frequency, curve.frequency)


def test_the_first_of_two_classes_has_the_first_column(ax):
    X, y = make_moons(200, noise=0.3, random_state=0)
    model = BayesianLinearSVC().fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, pos_label=0, ax=ax)
    curve = reliability_curve(1 - y, model.predict_proba(X)[:, 0])
    np.testing.assert_allclose(display.frequency, curve.frequency)
    default = ReliabilityDisplay.from_estimator(model, X, y, ax=Figure().subplots())
    assert default.label == 1


def test_plot_again_elsewhere(rng, ax):
    p = rng.random(50)
    display = ReliabilityDisplay.from_predictions(rng.random(50) < p, p, ax=ax)
    other = Figure().subplots()
    assert display.plot(ax=other) is display
    assert display.ax_ is other


def test_nothing_is_cut_off(rng):
    p = rng.random(200)
    figure = ReliabilityDisplay.from_predictions(rng.random(200) < p, p, name="model", pos_label=True).figure_
    figure.canvas.draw()
    drawn = figure.get_tightbbox()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= figure.get_figwidth()
    assert drawn.y1 <= figure.get_figheight()
    plt.close(figure)


def test_clear_errors(iris):
    model, X, y = iris
    with pytest.raises(ValueError, match="3 classes; choose one with pos_label"):
        ReliabilityDisplay.from_estimator(model, X, y)
    with pytest.raises(ValueError, match="'rose' is not one of the classes"):
        ReliabilityDisplay.from_estimator(model, X, y, pos_label="rose")
    with pytest.raises(ValueError, match="needs predict_proba"):
        ReliabilityDisplay.from_estimator(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        ReliabilityDisplay.from_estimator(BayesianSVC(), X, y)
    with pytest.raises(ValueError, match="strategy must be one of 'uniform', 'quantile'"):
        ReliabilityDisplay.from_predictions([0, 1], [0.1, 0.9], strategy="width")
