import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from softmargin import BayesianSVC
from softmargin.adversarial import AdversarialDetector
from softmargin.plot import DetectionDisplay

matplotlib.use("Agg")


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def rows():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = BayesianSVC(random_state=0).fit(X[:150], y[:150])
    return AdversarialDetector(model).fit(X[150:220]), X[220:], X[220:] + np.array([3.0, 1.0])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_curve_counts_alarms(rng, ax):
    ordinary, strange = rng.normal(size=40).round(1), rng.normal(1, 1, size=25).round(1)
    display = DetectionDisplay.from_scores(ordinary, strange, ax=ax)
    every = np.unique(np.concatenate([ordinary, strange]))
    counted = {(np.mean(ordinary >= one), np.mean(strange >= one)) for one in every} | {(0.0, 0.0)}
    assert set(zip(display.false_alarms, display.true_alarms, strict=True)) <= counted
    pairs = strange[:, None] - ordinary
    assert display.auc == pytest.approx(np.mean(pairs > 0) + np.mean(pairs == 0) / 2)
    np.testing.assert_array_equal(
        display.line_.get_xydata(), np.column_stack([display.false_alarms, display.true_alarms])
    )
    assert legend_of(ax) == [f"AUC {display.auc:.3f}"]
    assert display.ax_ is ax


def test_a_detector_has_its_threshold_marked(rows, ax):
    detector, ordinary, strange = rows
    display = DetectionDisplay.from_estimator(detector, ordinary, strange, ax=ax)
    rates = detector.predict(ordinary).mean(), detector.predict(strange).mean()
    assert display.threshold_point == pytest.approx(rates)
    np.testing.assert_allclose(display.point_.get_offsets(), [rates])
    scores = np.concatenate([detector.score_samples(ordinary), detector.score_samples(strange)])
    assert display.auc == pytest.approx(roc_auc_score(np.arange(160) >= 80, scores))
    assert legend_of(ax) == [f"variation ratio, AUC {display.auc:.3f}"]


def test_several_scores_share_axes(rng, ax):
    is_strange = rng.random(100) < 0.3
    first = DetectionDisplay.from_predictions(is_strange, rng.normal(size=100) + is_strange, name="one", ax=ax)
    second = DetectionDisplay.from_predictions(is_strange, rng.normal(size=100), name="US$", ax=ax)
    assert legend_of(ax) == [f"one, AUC {first.auc:.3f}", rf"US\$, AUC {second.auc:.3f}"]
    assert len(ax.lines) == 3  # two curves, and one diagonal
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()


def test_plot_again_elsewhere(rng, ax):
    # A score that reaches the threshold without exceeding it gives no alarm.
    display = DetectionDisplay.from_scores([0.1, 0.2], [0.15, 0.3], threshold=0.15, ax=ax)
    assert display.threshold_point == (0.5, 0.5)
    other = Figure().subplots()
    assert display.plot(ax=other) is display
    assert display.ax_ is other


def test_clear_errors(rows):
    detector, ordinary, strange = rows
    with pytest.raises(NotFittedError):
        DetectionDisplay.from_estimator(AdversarialDetector(detector.model), ordinary, strange)
    with pytest.raises(ValueError, match="BayesianSVC has no score_samples"):
        DetectionDisplay.from_estimator(detector.model, ordinary, strange)
    with pytest.raises(ValueError, match="scores of strange rows must be one or more finite"):
        DetectionDisplay.from_scores([0.1], [])
    with pytest.raises(ValueError, match="scores of ordinary rows must be one or more finite"):
        DetectionDisplay.from_scores([np.nan], [1.0])
    with pytest.raises(ValueError, match="2 entries, but scores has 3"):
        DetectionDisplay.from_predictions([True, False], [0.1, 0.2, 0.3])
