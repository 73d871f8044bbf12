from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from softmargin import monitor as monitor_module
from softmargin import steps
from softmargin.chunks import Table
from softmargin.engine import Problem, objective
from softmargin.gaussian import Belief
from softmargin.kernels import RBF
from softmargin.likelihoods import (
    AugmentedHinge,
    Gaussian,
    Hinge,
    JaakkolaJordan,
    Logistic,
    Probit,
    Quadrature,
    Taylor,
)
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import Ascender, Natural

BOUNDS = [Hinge(), AugmentedHinge(), JaakkolaJordan(), Quadrature(Logistic()), Quadrature(Probit()), Gaussian(0.7)]


def linear_problem(likelihood, prior=None, n=60):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 2))
    y = np.sign(X @ [2.0, -1.0] + 0.3 + rng.normal(size=n))
    rows = LinearRows(np.zeros(2), np.ones(2))
    return Problem(Table(X, y, np.ones(n), 64), rows, likelihood, prior or Ridge(np.array([0.5, 0.5, 0.01])))


def inducing_problem(likelihood, n=200, m=15, variance=4.0):
    rng = np.random.default_rng(12)
    X = rng.normal(size=(n, 2))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + 0.3 * rng.normal(size=n))
    rows = InducingRows.at(variance * RBF(0.7), X[:m])
    return Problem(Table(X, y, np.ones(n), 64), rows, likelihood, Ridge.isotropic(m))


def ascender(problem, stats_at=None, **options):
    return Ascender(stats_at or problem.stats, problem.prior, problem.likelihood, problem.table.reference, **options)


# The guard ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("make", [linear_problem, inducing_problem])
@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_the_objective_never_falls(likelihood, make, memory):
    monitor = Monitor()
    problem = make(likelihood)
    end = ascender(problem, memory=memory, monitor=monitor, tol=1e-9, max_passes=400).run()
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert end.reason == "converged"
    assert np.all(np.diff(accepted) >= -1e-10 * abs(accepted[-1]))
    assert accepted[-1] > accepted[0] + 1
    assert end.point.objective == accepted[-1]
    bound = problem.stats(end.point.belief).bound
    assert_allclose(end.point.objective, objective(bound, problem.prior, end.point.belief))


@pytest.mark.parametrize("prior", [VarianceComponents(np.array([0, 0, -1])), VarianceComponents(np.array([0, 1, -1]))])
@pytest.mark.parametrize("likelihood", BOUNDS[:4], ids=repr)
def test_the_objective_never_falls_while_variances_are_inferred(likelihood, prior):
    monitor = Monitor()
    ascender(linear_problem(likelihood, prior), monitor=monitor, tol=1e-9, max_passes=400).run()
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert np.all(np.diff(accepted) >= -1e-10 * abs(accepted[-1]))
    assert accepted[-1] > accepted[0] + 1


def test_memory_saves_passes():
    passes = {}
    for memory in (0, 5):
        monitor = Monitor()
        ascender(inducing_problem(AugmentedHinge()), memory=memory, monitor=monitor, tol=1e-7, max_passes=1000).run()
        passes[memory] = len(monitor.history)
    assert passes[5] < 0.6 * passes[0]


def test_a_large_prior_variance_does_not_stop_the_ascent():
    # Hardly any precision is seen from far away: the first full steps of the exact hinge overshoot.
    for likelihood in (Hinge(), Quadrature(Logistic())):
        problem = inducing_problem(likelihood, variance=1e4)
        plain = ascender(problem, memory=0, tol=1e-10, max_passes=3000).run()
        fast = ascender(problem, memory=5, tol=1e-10, max_passes=3000).run()
        assert fast.reason == "converged"
        assert_allclose(fast.point.objective, plain.point.objective, rtol=1e-5)


# Where it ends -----------------------------------------------------------------------------------


def belief_of(x):
    root = np.zeros((3, 3))
    root[np.tril_indices(3)] = x[3:]
    return Belief(x[:3], root, 2 * np.sum(np.log(np.abs(np.diag(root)))))


@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("likelihood", BOUNDS[:5], ids=repr)
def test_ends_where_a_general_optimiser_ends(likelihood, memory):
    problem = linear_problem(likelihood)
    end = ascender(problem, memory=memory, tol=1e-11, max_passes=2000).run()

    def negative(x):
        belief = belief_of(x)
        return -objective(problem.stats(belief).bound, problem.prior, belief)

    start = np.concatenate([np.zeros(3), 0.3 * np.eye(3)[np.tril_indices(3)]])
    best = minimize(negative, start, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-7})
    assert_allclose(end.point.objective, -best.fun, atol=1e-6)
    assert_allclose(end.point.belief.mean, best.x[:3], atol=2e-3)
    assert_allclose(end.point.belief.covariance, belief_of(best.x).covariance, atol=2e-3)


@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_the_end_is_a_fixed_point(likelihood):
    problem = inducing_problem(likelihood)
    point = ascender(problem, tol=1e-13, max_passes=2000).run().point
    again = problem.prior.update(point.stats.G, point.stats.h, point.belief)
    assert_allclose(again.mean, point.belief.mean, atol=1e-4)
    assert_allclose(again.covariance, point.belief.covariance, atol=1e-4)


@pytest.mark.parametrize("model", [Logistic(), Probit()], ids=repr)
@pytest.mark.parametrize("make", [linear_problem, inducing_problem])
def test_expansion_ends_at_the_mode(model, make):
    problem = make(Taylor(model))
    end = ascender(problem, tol=1e-16, max_passes=200).run()
    m = end.point.belief.mean
    phi = np.vstack([problem.features(index).phi for index in range(problem.table.n_blocks)])
    _, slope, curvature = model.derivatives(problem.table.y, phi @ m)
    assert end.reason == "converged"
    assert_allclose(phi.T @ slope - problem.prior.precision * m, 0, atol=1e-6)
    hessian = np.diag(problem.prior.precision) - (phi.T * curvature) @ phi
    assert_allclose(end.point.belief.covariance, np.linalg.inv(hessian), rtol=1e-4, atol=1e-7)


def test_one_pass_is_enough_for_a_gaussian_likelihood():
    monitor = Monitor()
    ascender(linear_problem(Gaussian(0.7)), memory=0, monitor=monitor).run()
    values = [entry["objective"] for entry in monitor.history]
    assert_allclose(values[1:], values[1], rtol=1e-12)


# Why it ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 6])
def test_an_interruption_in_any_pass_keeps_the_best_point(k):
    problem, monitor = linear_problem(Hinge()), Monitor()
    passes = []

    def interrupted(belief):
        passes.append(belief)
        if len(passes) == k:
            raise KeyboardInterrupt
        return problem.stats(belief)

    point, reason = ascender(problem, interrupted, monitor=monitor, tol=0).run()
    assert reason == "interrupt"
    assert len(monitor.history) == k - 1
    assert point.objective == max(entry["objective"] for entry in monitor.history if entry["accepted"])
    assert_allclose(objective(problem.stats(point.belief).bound, problem.prior, point.belief), point.objective)


def test_an_interruption_before_there_is_a_point_is_an_interruption():
    def interrupted(belief):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ascender(linear_problem(Hinge()), interrupted).run()


def test_a_time_budget_ends_the_ascent(monkeypatch):
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(monitor_module, "time", SimpleNamespace(perf_counter=lambda: clock.seconds))
    problem, monitor = linear_problem(AugmentedHinge()), Monitor(max_time=3.5)

    def a_second_each(belief):
        clock.seconds += 1
        return problem.stats(belief)

    end = ascender(problem, a_second_each, monitor=monitor, tol=0).run()
    assert end.reason == "time"
    assert len(monitor.history) == 4
    assert end.point.objective == max(entry["objective"] for entry in monitor.history)


@pytest.mark.parametrize("make", [linear_problem, inducing_problem])
@pytest.mark.parametrize("likelihood", [one for one in BOUNDS if one.needs_guard], ids=repr)
def test_what_a_full_step_promises_is_what_is_still_to_gain(likelihood, make):
    problem = make(likelihood)
    best = ascender(problem, tol=1e-12, max_passes=400).run().point
    for tol in (1e-2, 1e-3, 1e-4):
        point = ascender(problem, tol=tol, max_passes=400).run().point
        still = best.objective - point.objective
        assert 0 <= still <= 1.1 * steps._MOST_PROMISED * steps.promised(point, problem.prior) + 1e-9
        assert still <= tol * abs(best.objective)


def test_no_time_at_all_still_gives_a_belief():
    problem = linear_problem(Hinge())
    end = ascender(problem, monitor=Monitor(max_time=0.0)).run()
    assert end.reason == "time"
    assert end.point.stats.n > 0
    assert np.abs(end.point.belief.mean).max() > 0  # a step further than the prior, which predicts nothing
    start = Natural(*(0.5 * part for part in end.point.natural))
    assert ascender(problem, monitor=Monitor(max_time=0.0)).run(start).point.natural is start


@pytest.mark.parametrize("max_passes", [1, 2, 7])
@pytest.mark.parametrize("likelihood", [Hinge(), Taylor(Logistic())], ids=repr)
def test_no_more_passes_than_allowed(likelihood, max_passes):
    problem, passes = linear_problem(likelihood), []

    def counted(belief):
        passes.append(belief)
        return problem.stats(belief)

    end = ascender(problem, counted, max_passes=max_passes, tol=0).run()
    assert end.reason == "passes"
    assert len(passes) == max_passes


def test_the_monitor_is_closed_however_it_ends():
    closed = []

    class Watched(Monitor):
        def close(self):
            closed.append(True)

    def broken(belief, problem=linear_problem(Hinge()), calls=[]):  # noqa: B006, B008
        calls.append(belief)
        if len(calls) == 3:
            raise ZeroDivisionError
        return problem.stats(belief)

    ascender(linear_problem(Hinge()), monitor=Watched()).run()
    with pytest.raises(ZeroDivisionError):
        ascender(linear_problem(Hinge()), broken, monitor=Watched()).run()
    assert len(closed) == 2


# Bad candidates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nonsense", [-100.0, np.nan, 1e200])
@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge()], ids=repr)
def test_extrapolations_that_are_no_belief_are_survived(likelihood, nonsense, monkeypatch):
    def out_of_the_cone(points, prior, rate=1.0):
        return Natural(nonsense * np.eye(3), points[-1].natural.h)

    plain = ascender(linear_problem(likelihood), memory=0, tol=1e-10, max_passes=2000).run()
    monkeypatch.setattr(steps, "extrapolate", out_of_the_cone)
    monitor = Monitor()
    end = ascender(linear_problem(likelihood), memory=5, tol=1e-10, max_passes=4000, monitor=monitor).run()
    # Where nothing was visited there is nothing to tell: rows are seen only where the precision is enormous.
    assert any(not entry["accepted"] for entry in monitor.history) or nonsense != 1e200
    assert not np.isnan([entry["objective"] for entry in monitor.history]).any()
    assert_allclose(end.point.objective, plain.point.objective, atol=1e-6)


@pytest.mark.parametrize("likelihood", [AugmentedHinge(), Taylor(Logistic())], ids=repr)
def test_stats_that_are_not_finite_are_never_accepted(likelihood):
    problem, calls, monitor = linear_problem(likelihood), [], Monitor()

    def sometimes_nan(belief):
        calls.append(belief)
        stats = problem.stats(belief)
        return stats._replace(bound=float("nan")) if len(calls) == 3 else stats

    end = ascender(problem, sometimes_nan, tol=1e-10, monitor=monitor).run()
    assert end.reason == "converged"
    assert [entry["accepted"] for entry in monitor.history[:3]] == [True, True, False]
    assert monitor.history[2]["objective"] == -np.inf
    assert_allclose(end.point.belief.mean, ascender(problem, tol=1e-10).run().point.belief.mean, atol=1e-3)
