"""All classes climb together: their steps, where these end, and how long they may be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.datasets import load_iris

import contracts
import references
import references_classes as naive
from softmargin import engine, together
from softmargin.chunks import Table
from softmargin.engine import Problem, objective
from softmargin.gaussian import Belief, ClassBelief
from softmargin.kernels import RBF
from softmargin.likelihoods import (
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    OneVersusRest,
    Rivals,
    Softmax,
)
from softmargin.monitor import Monitor
from softmargin.priors import Classwise, LaplaceZero, Ridge, Structured, VarianceComponents
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows
from softmargin.steps import Ascender, Point, _AscentState, ascend
from softmargin.together import step_together
from test_classwise import BOUNDS, COUPLED, K, fitted, random_beliefs, small_problem, three_classes


def bends_and_slopes(problem, belief):
    """Of each row: how it bends in its latent means, as ``ties`` say, and its slopes."""
    latent, y = problem.latent(belief), problem.table.y
    likelihood = problem.likelihood
    sites = likelihood.sites(y, latent.mu, latent.v)
    ties = likelihood.ties(y, latent.mu, latent.v, sites)
    unit = [likelihood.answer(y, ties, np.tile(np.eye(K)[k], (len(y), 1))) for k in range(K)]
    return sites.w[:, :, None] * np.eye(K) - np.stack(unit, axis=2), sites.b - sites.w * latent.mu


@pytest.mark.parametrize("likelihood", [*COUPLED, CrammerSinger(), CrammerSinger(Hinge())], ids=repr)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_step_of_all_classes_is_that_of_a_dense_solve(likelihood, n_jobs, monkeypatch, rng):
    monkeypatch.setattr(together, "_ENOUGH", 1e-26)
    monkeypatch.setattr(together, "_MOST_ITERATIONS", 200)
    weight = rng.uniform(0.2, 3, size=60)
    problem = small_problem(likelihood, weight, n_jobs=n_jobs)
    belief = random_beliefs(6)
    bends, slopes = bends_and_slopes(problem, belief)
    phi = problem.rows.rows.lift(problem.table.X).phi
    step = naive.newton_step(phi, [np.eye(6)] * K, bends, slopes, weight, belief.means)
    stats = problem.stats_together(belief)
    after = problem.prior.update(stats.G, stats.h, belief)
    assert_allclose(after.means, belief.means + step, rtol=1e-6, atol=1e-8)
    # Precisions are those of the sites: only the linear terms took the other classes along.
    plain = problem.stats(belief)
    for k in range(K):
        assert_allclose(stats.G[k], plain.G[k], rtol=1e-12)
        assert not np.allclose(stats.h[k], plain.h[k])
    assert stats.bound == plain.bound


@pytest.mark.parametrize("likelihood", COUPLED, ids=repr)
def test_few_iterations_come_near_the_dense_solve(likelihood):
    problem, belief = small_problem(likelihood), random_beliefs(6)
    bends, slopes = bends_and_slopes(problem, belief)
    phi = problem.rows.rows.lift(problem.table.X).phi
    A = naive.coupled_matrix(phi, [np.eye(6)] * K, bends, np.ones(60))
    step = naive.newton_step(phi, [np.eye(6)] * K, bends, slopes, np.ones(60), belief.means).T.ravel()
    stats = problem.stats_together(belief)
    away = (problem.prior.update(stats.G, stats.h, belief).means - belief.means).T.ravel() - step
    # A hundredth of the first residual in the metric of sites is left at most; the step itself is what sites imply.
    assert away @ A @ away < 0.02 * step @ A @ step


def test_without_answers_the_step_is_that_of_the_sites():
    alone, before = random_beliefs(4), ClassBelief(tuple(contracts.random_belief(4, 10 + k) for k in range(K)))
    assert_allclose(step_together(np.zeros_like, alone, before), alone.means - before.means, rtol=1e-9)
    assert_array_equal(step_together(np.zeros_like, alone, alone), np.zeros((4, K)))


def test_the_step_together_solves_its_own_equations(monkeypatch, rng):
    monkeypatch.setattr(together, "_ENOUGH", 1e-28)
    monkeypatch.setattr(together, "_MOST_ITERATIONS", 100)
    alone, before = random_beliefs(4), ClassBelief(tuple(contracts.random_belief(4, 10 + k) for k in range(K)))
    precision = np.zeros((12, 12))
    for k, part in enumerate(alone.parts):
        precision[4 * k : 4 * k + 4, 4 * k : 4 * k + 4] = np.linalg.inv(part.covariance)
    B = rng.normal(size=(12, 12))
    O = 0.9 * B @ B.T * np.linalg.eigvalsh(precision).min() / np.linalg.eigvalsh(B @ B.T).max()  # noqa: E741

    def answer(x):
        return (O @ x.T.ravel()).reshape(K, 4).T

    step = step_together(answer, alone, before)
    # (A - O) x = A (alone - before)
    wanted = np.linalg.solve(precision - O, precision @ (alone.means - before.means).T.ravel())
    assert_allclose(step.T.ravel(), wanted, rtol=1e-8, atol=1e-9)


def test_classes_go_together_only_where_they_answer_and_all_can_be_seen(monkeypatch):
    assert small_problem(Softmax()).goes_together
    assert not small_problem(OneVersusRest()).goes_together
    problem = small_problem(Softmax())
    problem.prior = Classwise.alike(Structured(LaplaceZero(6, 0)), K)
    assert not problem.goes_together
    assert small_problem(Softmax()).longest_step == 1.0
    assert small_problem(CrammerSinger()).longest_step == 0.5
    monkeypatch.setattr(engine, "_CACHE_BYTES", 100)
    assert not small_problem(Softmax()).goes_together
    assert small_problem(Softmax()).longest_step == 0.5
    assert small_problem(OneVersusRest()).longest_step == 1.0


# The ascent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 5])
@pytest.mark.parametrize("variance", [4.0, 1e3])
@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_the_objective_never_falls(likelihood, variance, memory):
    monitor, problem = Monitor(), small_problem(likelihood, variance=variance)
    end = ascend(problem, tol=1e-9, max_passes=2000, monitor=monitor, memory=memory)
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert end.reason == "converged"
    assert np.all(np.diff(accepted) >= -1e-10 * abs(accepted[-1]))
    assert accepted[-1] > accepted[0] + 1
    assert end.point.objective == accepted[-1]
    bound = problem.stats(end.point.belief).bound
    assert_allclose(end.point.objective, objective(bound, problem.prior, end.point.belief), rtol=1e-12)


@pytest.mark.parametrize("likelihood", COUPLED, ids=repr)
def test_the_objective_never_falls_while_variances_are_inferred(likelihood):
    X, y = three_classes()
    prior = Classwise.alike(VarianceComponents(np.array([0, 0, -1])), K)
    problem = Problem(
        Table(X, y, np.ones(60), 16), ClasswiseRows(LinearRows(np.zeros(2), np.ones(2)), K), likelihood, prior
    )
    monitor = Monitor()
    end = ascend(problem, tol=1e-9, max_passes=1000, monitor=monitor)
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert end.reason == "converged"
    assert np.all(np.diff(accepted) >= -1e-10 * abs(accepted[-1]))


LOWER = np.tril_indices(6)


def belief_of(x):
    """From the means and the lower triangles of all classes, one class after the other."""
    parts = []
    for own in x.reshape(K, -1):
        root = np.zeros((6, 6))
        root[LOWER] = own[6:]
        parts.append(Belief(own[:6], root, 2 * np.sum(np.log(np.abs(np.diag(root))))))
    return ClassBelief(tuple(parts))


def negative(x, problem):
    """The objective over means and factors, and its slopes: ``dF/dm = h - G m - m``, ``dF/dS = (S^-1 - G - I) / 2``."""
    belief = belief_of(x)
    stats, slopes = problem.stats(belief), []
    for G, h, part in zip(stats.G, stats.h, belief.parts, strict=True):
        in_root = np.diag(1 / np.diag(part.root)) - part.root @ (G + np.eye(6))
        slopes += [h - G @ part.mean - part.mean, in_root[LOWER]]
    return -objective(stats.bound, problem.prior, belief), -np.concatenate(slopes)


def start_of_search(seed=0):
    rng = np.random.default_rng(seed)
    return np.tile(np.concatenate([np.zeros(6), 0.5 * np.eye(6)[LOWER]]), K) + 0.05 * rng.normal(size=K * 27)


@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_slopes_of_the_objective_are_finite_differences(likelihood):
    problem, x = small_problem(likelihood), start_of_search()
    wanted = references.gradient(lambda x: negative(x, problem)[0], x, 1e-4)
    assert_allclose(negative(x, problem)[1], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("variance", [4.0, 100.0])
@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_ends_where_a_general_optimiser_ends(likelihood, variance):
    problem = small_problem(likelihood, variance=variance)
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-7, "maxcor": 30}
    best = minimize(negative, start_of_search(), (problem,), jac=True, method="L-BFGS-B", options=options)
    for tol in (1e-6, 1e-10):
        end = ascend(problem, tol=tol, max_passes=1000)
        assert end.reason == "converged"
        assert abs(end.point.objective + best.fun) <= 1e-6 * abs(best.fun)
    found = belief_of(best.x)
    # The objective is flat to 1e-9 of itself within about 1e-3 of a deviation.
    assert_allclose(end.point.belief.means, found.means, atol=5e-3)
    for part, other in zip(end.point.belief.parts, found.parts, strict=True):
        assert_allclose(part.covariance, other.covariance, atol=5e-3)


@pytest.mark.parametrize("likelihood", COUPLED, ids=repr)
def test_classes_that_cannot_go_together_end_at_the_same_place(likelihood, monkeypatch):
    together_at = fitted(small_problem(likelihood), tol=1e-10)
    monkeypatch.setattr(engine, "_CACHE_BYTES", 100)
    monitor = Monitor()
    alone = fitted(small_problem(likelihood), tol=1e-10, monitor=monitor)
    assert_allclose(alone.objective, together_at.objective, rtol=1e-8)
    assert_allclose(alone.belief.means, together_at.belief.means, atol=1e-3)
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert np.all(np.diff(accepted) >= -1e-10 * abs(accepted[-1]))


@pytest.mark.parametrize("likelihood", [*BOUNDS, CrammerSinger()], ids=repr)
def test_the_end_is_a_fixed_point(likelihood):
    problem = small_problem(likelihood)
    point = fitted(problem, tol=1e-14)
    again = problem.prior.update(*problem.stats(point.belief)[:2], point.belief)
    assert_allclose(again.means, point.belief.means, atol=1e-4)
    for part, before in zip(again.parts, point.belief.parts, strict=True):
        assert_allclose(part.covariance, before.covariance, atol=1e-4)


# Rivals that settle ------------------------------------------------------------------------------


def settling_tables():
    iris, kinds = load_iris(return_X_y=True)
    iris = (iris - iris.mean(axis=0)) / iris.std(axis=0)
    tables = [("iris", iris, kinds.astype(float), 3)]
    for seed, n_classes in enumerate((3, 4, 5)):
        tables.append((f"{n_classes} classes", *three_classes(150, seed, n_classes), n_classes))
    return tables


def strongest_rivals(likelihood, X, y, n_classes, variance, tol, max_passes=400):
    """Which rival is the strongest of each row, pass by pass, and the end of the ascent."""
    prior = Classwise.alike(Ridge.isotropic(30), n_classes)
    rows = ClasswiseRows(InducingRows.at(variance * RBF(1.5), X[:: len(X) // 30][:30]), n_classes)
    problem, history = Problem(Table(X, y, np.ones(len(y)), 64), rows, likelihood, prior), []

    def watched(belief):
        history.append(likelihood.shares(y, problem.latent(belief).mu).argmax(axis=1))
        return problem.stats_together(belief)

    reference, longest = problem.table.reference, problem.longest_step
    end = Ascender(watched, prior, likelihood, reference, tol=tol, max_passes=max_passes, longest=longest).run()
    return np.array(history), end, problem


@pytest.mark.parametrize("base", [AugmentedHinge(), Hinge()], ids=repr)
@pytest.mark.parametrize("table", settling_tables(), ids=lambda table: table[0])
def test_the_strongest_rivals_settle(base, table):
    _, X, y, n_classes = table
    history, end, _ = strongest_rivals(CrammerSinger(base), X, y, n_classes, variance=4.0, tol=1e-9, max_passes=1500)
    assert end.reason == "converged"
    assert np.any(history[0] != history[-1])
    # In the last five passes no row changes its mind.
    assert_array_equal(history[-6:], np.tile(history[-1], (6, 1)))


@pytest.mark.parametrize("table", settling_tables(), ids=lambda table: table[0])
def test_rivals_do_not_wander_where_the_prior_says_little(table):
    _, X, y, n_classes = table
    history, end, problem = strongest_rivals(CrammerSinger(), X, y, n_classes, variance=100.0, tol=1e-3)
    sums = Problem(problem.table, problem.rows, Rivals(), problem.prior)
    right, at_sums = (
        np.mean(problem.latent(point.belief).mu.argmax(axis=1) == y) for point in (end.point, fitted(sums, tol=1e-6))
    )
    assert np.mean(history[-1] != history[-2]) < 0.05
    assert right > at_sums - 0.05


# Apart where together does not ascend ------------------------------------------------------------


def stepwise_problem(seed, variance=1e4, m=20):
    """Classes that are steps of a sum, without noise, under a wide prior: Newton's steps are far too long."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (200, 4)).astype(float)
    y, points = np.digitize(X.sum(axis=1), [4, 6, 8]).astype(float), np.unique(X, axis=0)
    rows = ClasswiseRows(InducingRows.at(variance * RBF(3.0), points[rng.permutation(len(points))[:m]]), 4)
    return Problem(Table(X, y, np.ones(200), 64), rows, Rivals(), Classwise.alike(Ridge.isotropic(m), 4))


@pytest.mark.parametrize("seed", range(3))
def test_an_ascent_goes_on_where_classes_together_cannot(seed):
    problem = stepwise_problem(seed)
    end = ascend(problem, tol=1e-7, max_passes=1000)
    assert end.reason == "converged"
    parts = problem.prior, problem.likelihood, problem.table.reference
    plain = Ascender(problem.stats, *parts, tol=1e-10, max_passes=5000, longest=0.5).run()
    assert_allclose(end.point.objective, plain.point.objective, rtol=1e-5)


def test_without_parting_such_an_ascent_stalls():
    problem, monitor = stepwise_problem(1), Monitor()
    parts = problem.prior, problem.likelihood, problem.table.reference
    stuck = Ascender(problem.stats_together, *parts, max_passes=1000).run()
    assert stuck.reason == "stalled"
    free = ascend(problem, tol=1e-6, max_passes=1000, monitor=monitor)
    assert free.point.objective > stuck.point.objective + 100
    accepted = [entry["objective"] for entry in monitor.history if entry["accepted"]]
    assert np.all(np.diff(accepted) >= -1e-9 * np.abs(accepted[1:]))


def test_an_ascent_parts_for_twice_as_long_each_time_and_comes_together_again():
    state = state_of()
    state.point = Point(None, None, None, 0.0)
    state.part("each by itself", longest=0.5)
    assert (state.rate, state.apart, state.point.stats) == (0.5, 2, "each by itself")
    accept(state)
    assert (state.rate, state.apart) == (0.5, 1)
    accept(state)
    assert state.apart == 0
    assert len(state.recent) == 1
    accept(state)
    assert state.rate == 1.0
    state.point = Point(None, None, None, 0.0)
    state.part("again", longest=0.5)
    assert state.apart == 4


# Lengths of steps --------------------------------------------------------------------------------


def test_steps_are_never_longer_than_the_longest(monkeypatch):
    problem, rates = small_problem(Rivals()), []
    try_ = Ascender._try

    def watched(self, natural, point, state):
        rates.append(state.rate)
        return try_(self, natural, point, state)

    monkeypatch.setattr(Ascender, "_try", watched)
    Ascender(problem.stats, problem.prior, problem.likelihood, problem.table.reference, longest=0.5).run()
    assert rates[0] == 0.5
    assert max(rates) == 0.5


class _Somewhere:
    """A point as far as an ascent looks at it."""

    def __init__(self, objective=0.0):
        self.objective = objective


def state_of(longest=1.0):
    return _AscentState(_Somewhere(), 0, np.inf, longest)


def accept(state, times=1, gain=1.0, ascending=True):
    for _ in range(times):
        state.accept(_Somewhere(), gain, extrapolated=False, ascending=ascending)


def test_a_step_that_was_too_long_is_tried_again_after_twice_as_many():
    state = state_of(longest=0.5)
    assert state.rate == 0.5
    state.reject(extrapolated=False)
    assert state.rate == 0.25
    accept(state)
    assert state.rate == 0.5  # the first shorter step that ascends is enough
    waits = []
    for _ in range(6):  # each time it grows and fails
        state.reject(extrapolated=False)
        wait = 0
        while state.rate < 0.5:
            accept(state)
            wait += 1
        waits.append(wait)
    assert waits[0] <= waits[1] <= waits[2]
    assert waits[-1] == max(waits) > waits[0]
    assert max(waits) <= 10  # and not for ever


def test_a_step_that_did_not_grow_is_not_held_against_growth():
    state = state_of()
    for _ in range(3):
        state.reject(extrapolated=False)  # the first steps of an ascent, none of which grew
    accept(state)
    assert state.rate == 0.25
    accept(state, 2)
    assert state.rate == 1.0


def test_without_a_bound_steps_shorten_when_the_way_does_not():
    state = state_of(longest=0.5)
    accept(state, gain=1.0, ascending=False)
    accept(state, gain=2.0, ascending=False)
    assert state.rate == 0.25
    accept(state, gain=1.0, ascending=False)
    assert state.rate == 0.5
