"""Large tables: where minibatches lead astray, where time is short, and where rows are repeated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_moons

from softmargin import BayesianGPC, BayesianSVC, inference
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant
from softmargin.monitor import InterruptedFitWarning, Monitor
from softmargin.stochastic import _Wanderer
from softmargin.tune.evidence import Evidence

SETTINGS = {"kernel": 4.0 * RBF(0.8) + Constant(1.0), "tune": None, "n_inducing": 30, "random_state": 0, "tol": 1e-4}


@pytest.fixture(scope="module")
def moons():
    return make_moons(10_000, noise=0.3, random_state=0)


@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented"])
def test_what_minibatches_lose_is_found_by_the_ascent(loss, moons, monkeypatch):
    X, y = moons
    ascended = BayesianSVC(**SETTINGS, loss=loss, inference="cavi").fit(X, y)
    monkeypatch.setattr(inference, "LARGE", 5000)
    polished = BayesianSVC(**SETTINGS, loss=loss).fit(X, y)
    assert polished.stop_reason_ == "polished"
    monkeypatch.setattr(_Wanderer, "_objective_of_nothing", lambda *args: np.inf)
    lost = BayesianSVC(**SETTINGS, loss=loss).fit(X, y)
    assert lost.stop_reason_ == ascended.stop_reason_
    assert_allclose(lost.belief_.mean, ascended.belief_.mean)


def test_a_last_step_too_long_is_left_to_an_ascent_in_single_precision(moons, monkeypatch):
    X, y = moons
    monkeypatch.setattr(inference, "LARGE", 5000)
    monkeypatch.setattr(inference, "_SHORT", 0.0)
    guarded = BayesianSVC(**SETTINGS).fit(X, y)
    assert guarded.stop_reason_ == "converged"
    best = BayesianSVC(**SETTINGS | {"tol": 1e-7}, inference="cavi").fit(X, y)
    # Both lack about a ten-thousandth of a bound of some 3,000.
    assert abs(guarded.bound_ - best.bound_) < 2e-4 * abs(best.bound_)


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize("classifier", [BayesianSVC, BayesianGPC])
def test_without_time_some_rows_stand_for_all(classifier, moons):
    X, y = moons
    whole, hurried = (classifier(**SETTINGS, max_time=most).fit(X, y) for most in (None, 1e-9))
    assert (hurried.stop_reason_, hurried.n_iter_) == ("time", 1)
    # The first step of an eighth of the rows, and their bound scaled up.
    assert 1.5 * whole.bound_ < hurried.bound_ < whole.bound_
    assert hurried.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("classes", [2, 3])
def test_more_time_never_ends_lower(loss, classes, moons, monkeypatch):
    """A step too long: under a wide prior, one full step from where time ends can lose all that was gained."""
    (X, y), bounds = moons, []
    for n_looks in range(0, 6, 2):
        looks = iter(range(1000))
        monkeypatch.setattr(Monitor, "out_of_time", property(lambda self, n=n_looks, looks=looks: next(looks) >= n))
        model = BayesianSVC(**SETTINGS | {"kernel": 100.0 * RBF(0.8)}, loss=loss).fit(
            X, y + (X[:, 0] > 1) * (classes - 2)
        )
        assert model.stop_reason_ == "time"
        bounds.append(model.bound_)
    assert bounds == sorted(bounds)


@pytest.mark.filterwarnings("ignore:Time was up")
def test_without_time_the_link_is_that_of_some_rows(moons, monkeypatch):
    n_rows = []

    class Counted(BayesianSVC):
        def _fit_link(self, record, *arguments, **options):
            n_rows.append(len(record.y))
            return super()._fit_link(record, *arguments, **options)

    monkeypatch.setattr(inference, "ROWS_IN_HASTE", 1500)
    for most in (None, 1e-9):
        Counted(**SETTINGS, max_time=most).fit(*moons)
    assert n_rows == [10_000, 1500]


@pytest.mark.parametrize("large", [5000, 50_000])
def test_after_an_interrupted_tuning_no_pass_takes_all_rows(large, moons, monkeypatch):
    at, calls, visited = Evidence.at, iter(range(1000)), []

    def interrupted(self, kernel):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return at(self, kernel)

    def counted(problem, *arguments, stats=Problem.stats):
        visited.append(problem.n_rows)
        return stats(problem, *arguments)

    monkeypatch.setattr(inference, "LARGE", large)
    monkeypatch.setattr(Evidence, "at", interrupted)
    monkeypatch.setattr(Problem, "stats", counted)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianSVC(random_state=0).fit(*moons)
    assert model.stop_reason_ == "interrupt"
    assert max(visited) < 5000
    assert len(visited) <= 2 or large == 5000  # minibatches go their short way
    assert model.score(*moons) > 0.85


@pytest.mark.parametrize("classifier", [BayesianSVC, BayesianGPC])
def test_a_table_of_repeats_is_fitted_by_its_distinct_rows(classifier, rng):
    X, y = make_moons(2000, noise=0.3, random_state=0)
    copies = rng.integers(1, 11, size=2000)
    order = rng.permutation(np.repeat(np.arange(2000), copies))
    repeated = classifier(random_state=0).fit(X[order], y[order])
    weighted = classifier(random_state=0).fit(X, y, sample_weight=copies)
    assert_allclose(repeated.kernel_.theta, weighted.kernel_.theta)
    assert repeated.bound_ == pytest.approx(weighted.bound_, rel=1e-9)
    assert repeated.loo_log_loss_ == pytest.approx(weighted.loo_log_loss_, rel=1e-6)
    assert_allclose(repeated.predict_proba(X), weighted.predict_proba(X), atol=1e-6)
    assert_allclose(repeated.data_prior_, weighted.data_prior_)
