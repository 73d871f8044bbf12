import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import BayesianKernelMachine, BayesianLinearSVC, BayesianSVC
from softmargin.plot import BoundHistoryDisplay
from softmargin.plot.history import Phase

matplotlib.use("Agg")


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def table():
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def model(table):
    return BayesianSVC(random_state=0).fit(*table)


class Finished(BaseEstimator):
    """A model with a history, and nothing else."""

    def __init__(self, history=()):
        self.history = history

    def fit(self, X=None, y=None):
        self.history_ = list(self.history)
        return self


def entry(objective, **more):
    return {"seconds": 1.0, "objective": objective, "accepted": True} | more


def test_the_line_goes_through_steps_that_were_taken(model, ax):
    display = BoundHistoryDisplay.from_estimator(model, ax=ax)
    taken = [(one["pass"], one["objective"]) for one in model.history_ if one["accepted"]]
    np.testing.assert_array_equal(display.lines_[0].get_xydata(), taken)
    assert np.all(np.diff(display.lines_[0].get_ydata()) >= -1e-9)
    assert display.bound == model.bound_ == display.objective[display.accepted][-1]
    assert ax.lines[1].get_ydata()[0] == model.bound_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("pass", "bound")
    assert display.ax_ is ax


def test_crosses_are_steps_that_were_refused(model, ax):
    display = BoundHistoryDisplay.from_estimator(model, ax=ax)
    refused = [one for one in model.history_ if not one["accepted"]]
    assert refused
    crosses = display.refused_.get_offsets()
    np.testing.assert_array_equal(crosses[:, 0], [one["pass"] for one in refused])
    low = ax.get_ylim()[0]
    np.testing.assert_allclose(crosses[:, 1], [max(one["objective"], low) for one in refused])


def test_time_runs_to_the_right(model, ax):
    display = BoundHistoryDisplay.from_estimator(model, ax=ax, axis="seconds")
    np.testing.assert_array_equal(display.seconds, [one["seconds"] for one in model.history_])
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), display.seconds[display.accepted])
    assert ax.get_xlabel() == "seconds"


def test_what_lies_far_below_leaves_the_picture(ax):
    values = np.concatenate([[-1e6], -100 + np.arange(20.0)])
    display = BoundHistoryDisplay(
        seconds=np.arange(21.0), objective=values, accepted=np.ones(21, dtype=bool), bound=-81.0
    ).plot(ax=ax)
    low, high = ax.get_ylim()
    assert -130 < low < -100
    assert -81 < high < -75
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), values)


def test_a_step_without_an_objective_is_a_cross_on_the_edge(ax):
    history = [entry(-5.0), entry(np.nan, accepted=False), entry(-2.0), entry(-1.0)]
    display = BoundHistoryDisplay.from_estimator(Finished(history).fit(), ax=ax)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), [1, 3, 4])
    np.testing.assert_allclose(display.refused_.get_offsets(), [[2, ax.get_ylim()[0]]])


def test_particles_have_an_axis_of_their_own(table, ax):
    model = BayesianKernelMachine(inference="stein", n_steps=30, random_state=0).fit(*table)
    display = BoundHistoryDisplay.from_estimator(model, ax=ax)
    passes, particles = display.phases
    assert (passes.name, particles.name) == ("passes", "particles")
    assert model.history_[passes.stop - 1]["objective"] == model.bound_
    assert particles.stop == len(model.history_)
    np.testing.assert_array_equal(
        display.lines_[1].get_ydata(), [one["objective"] for one in model.history_[particles.start :]]
    )
    assert display.lines_[1].axes is display.right_ax_ is not ax
    assert display.right_ax_.get_ylabel() == "mean log-density of particles"


def test_draws_have_a_warm_up(table, ax):
    X, y = table
    model = BayesianLinearSVC(inference="gibbs", n_draws=300, warm_up=70, thin=2, random_state=0).fit(X[:, :3], y)
    display = BoundHistoryDisplay.from_estimator(model, ax=ax)
    assert display.phases == [Phase("warm-up", 0, 70), Phase("draws", 70, 670)]
    assert ax.get_ylabel() == "mean log-likelihood of draws"
    assert display.right_ax_ is None
    assert len(ax.lines) == 2  # no bound among likelihoods


def test_phases_that_a_history_names(ax):
    words = ["minibatches"] * 3 + ["passes"] * 2
    history = [entry(-10.0 + k, phase=word) for k, word in enumerate(words)]
    display = BoundHistoryDisplay.from_estimator(Finished(history).fit(), ax=ax)
    assert display.phases == [Phase("minibatches", 0, 3), Phase("passes", 3, 5)]
    assert [text.get_text() for text in ax.texts] == ["minibatches", "passes"]
    assert display.right_ax_ is None


def test_several_fits_share_axes(table, ax):
    X, y = table
    for loss in ("hinge", "hinge-augmented"):
        display = BoundHistoryDisplay.from_estimator(BayesianLinearSVC(loss=loss).fit(X, y), name=loss, ax=ax)
        assert ax.get_ylim()[0] < display.bound < ax.get_ylim()[1]
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words.count("refused") == 1
    assert {*words} == {"hinge", "hinge-augmented", "refused"}


def test_histories_of_networks_and_pipelines(table, ax):
    epochs = [{"seconds": 0.1 * k, "objective": -1.0 / k, "log_loss": 0.5} for k in range(1, 5)]
    display = BoundHistoryDisplay.from_estimator(Finished(epochs).fit(), ax=ax)
    assert display.accepted.all()
    assert display.bound is None
    fitted = make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(*table)
    inside = BoundHistoryDisplay.from_estimator(fitted, ax=Figure().subplots())
    assert len(inside.objective) == fitted[-1].n_iter_


def test_clear_errors(table, model):
    with pytest.raises(NotFittedError):
        BoundHistoryDisplay.from_estimator(BayesianSVC())
    with pytest.raises(ValueError, match="LogisticRegression has no history"):
        BoundHistoryDisplay.from_estimator(LogisticRegression().fit([[0], [1]], [0, 1]))
    with pytest.raises(ValueError, match="is empty: its fit made no passes"):
        BoundHistoryDisplay.from_estimator(Finished().fit())
    with pytest.raises(ValueError, match="axis must be one of 'pass', 'seconds'"):
        BoundHistoryDisplay.from_estimator(model, axis="time")
