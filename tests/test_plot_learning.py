import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import t
from sklearn.datasets import make_moons

from softmargin import BayesianSVC
from softmargin.active import ActiveLearner
from softmargin.plot import LearningCurveDisplay
from softmargin.plot.learning import together

matplotlib.use("Agg")


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def learners():
    X, y = make_moons(300, noise=0.2, random_state=0)
    options = {"n_queries": 6, "X_test": X[150:], "y_test": y[150:]}
    model = BayesianSVC(n_inducing=20)
    return [ActiveLearner(model, random_state=seed).learn(X[:150], y[:150], **options) for seed in range(3)]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_scores_are_those_of_the_histories(learners, ax):
    display = LearningCurveDisplay.from_learners(learners, ax=ax)
    np.testing.assert_array_equal(display.n_labelled, np.arange(2, 9))
    np.testing.assert_array_equal(
        display.scores, [[entry["score"] for entry in learner.history_] for learner in learners]
    )
    np.testing.assert_allclose(display.mean, display.scores.mean(axis=0))
    half = t.ppf(0.975, 2) * display.scores.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(display.high - display.mean, half)
    np.testing.assert_allclose(display.mean - display.low, half)
    assert legend_of(ax) == ["variation ratio"]


def test_curve_and_band_carry_the_numbers(learners, ax):
    display = LearningCurveDisplay.from_learners(learners, ax=ax, runs=True)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([display.n_labelled, display.mean]))
    corners = {tuple(corner) for corner in display.band_.get_paths()[0].vertices}
    assert corners >= set(zip(display.n_labelled.astype(float), display.low, strict=True))
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines[1:]], display.scores)
    assert display.ax_ is ax


def test_one_run_has_no_band(learners, ax):
    display = LearningCurveDisplay.from_learners(learners[0], ax=ax)
    assert display.band_ is None
    assert np.isnan(display.low).all()
    np.testing.assert_array_equal(display.mean, [entry["score"] for entry in learners[0].history_])


def test_rounds_without_a_model_do_not_count(learners, ax):
    class Late:
        strategy, history_ = (
            "random",
            [{"n_labelled": 2, "score": None}, {"n_labelled": 4, "score": 0.5}, {"n_labelled": 9, "score": 0.8}],
        )

        def learn(self):
            """Has been done."""

    display = LearningCurveDisplay.from_learners([Late(), learners[0]], ax=ax)
    np.testing.assert_array_equal(display.n_labelled, [4, 5, 6, 7, 8])
    np.testing.assert_array_equal(display.scores[0], 0.5)
    assert ax.get_legend() is None  # two strategies, and no name


def test_between_rounds_the_last_model_is_in_use(rng):
    runs = [(np.array([2, 5, 9]), rng.random(3)), (np.array([3, 4, 8, 12]), rng.random(4))]
    n, scores = together(runs)
    np.testing.assert_array_equal(n, [3, 4, 5, 8, 9])
    for k, number in enumerate(n):
        for row, (own, values) in zip(scores, runs, strict=True):
            assert row[k] == values[max(j for j in range(len(own)) if own[j] <= number)]


def test_arrays_of_one_run_or_several_share_axes(rng, ax):
    LearningCurveDisplay.from_arrays([5, 10, 20], rng.random((4, 3)), name="active $", ax=ax)
    display = LearningCurveDisplay.from_arrays([5, 10], [0.7, 0.5], name="_random", score_name="log loss", ax=ax)
    assert legend_of(ax) == [r"active \$", " _random"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("labelled rows", "log loss")
    assert len({line.get_color() for line in ax.lines}) == 2
    assert display.scores.shape == (1, 2)


def test_clear_errors(learners):
    X, y = make_moons(40, random_state=0)
    with pytest.raises(ValueError, match="has no history yet: call learn first"):
        LearningCurveDisplay.from_learners(ActiveLearner(BayesianSVC()))
    silent = ActiveLearner(BayesianSVC(), random_state=0).learn(X, y, n_queries=1)
    with pytest.raises(ValueError, match="no scores: give X_test and y_test"):
        LearningCurveDisplay.from_learners([silent])
    with pytest.raises(ValueError, match="There are no learners"):
        LearningCurveDisplay.from_learners([])
    with pytest.raises(ValueError, match="a column for each entry of n_labelled"):
        LearningCurveDisplay.from_arrays([1, 2, 3], [[0.1, 0.2]])
    with pytest.raises(ValueError, match="must be strictly increasing"):
        LearningCurveDisplay.from_arrays([1, 1], [0.1, 0.2])
    with pytest.raises(ValueError, match="level must lie between"):
        LearningCurveDisplay.from_arrays([1, 2], [0.1, 0.2], level=95)
    with pytest.raises(ValueError, match="no number of labels in common"):
        together([(np.array([1, 2]), np.zeros(2)), (np.array([3]), np.zeros(1))])
