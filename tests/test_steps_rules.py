"""The rules of an ascent, one by one: what is accepted, how long steps are, when they are combined, and the end."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
from softmargin import steps
from softmargin.chunks import Table
from softmargin.engine import Problem, Stats
from softmargin.gaussian import ClassBelief
from softmargin.likelihoods import AugmentedHinge, Hinge, Logistic, Taylor
from softmargin.monitor import Monitor
from softmargin.priors import Classwise, Ridge, VarianceComponents
from softmargin.rows import LinearRows
from softmargin.steps import Ascender, Natural, Point, extrapolate


def scripted(objectives, likelihood, reference=None, **options):
    """An ascent whose passes find these objectives one after the other, then are interrupted; weights stay as they are.

    Returns how it ended, and which of the passes after the first were accepted.
    """
    script, monitor = iter(objectives), Monitor()

    def stats_at(belief):
        value = next(script, None)
        if value is None:
            raise KeyboardInterrupt
        return Stats(np.zeros((1, 1)), np.zeros(1), value, 1.0)  # of a belief that is the prior, which costs nothing

    reference = np.zeros(1) if reference is None else reference
    ascent = Ascender(stats_at, Ridge.isotropic(1), likelihood, reference, memory=0, monitor=monitor, **options)
    return ascent.run(), [entry["accepted"] for entry in monitor.history[1:]]


# What is accepted --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.3, 1.5, 1e3])
@pytest.mark.parametrize(
    ("likelihood", "dtype", "share"),
    [
        (AugmentedHinge(), np.float64, 1e-12),
        (AugmentedHinge(), np.float32, steps._ROUNDING * np.finfo(np.float32).eps),
        (Taylor(Logistic()), np.float64, steps._MOST_LOST),
    ],
)
def test_a_fall_counts_beyond_a_share_of_the_objective_or_of_one(likelihood, dtype, share, size):
    for fall, accepted in ((0.9, True), (1.1, False)):
        after = -size - fall * share * max(1.0, size)
        _, history = scripted([-size, after], likelihood, np.zeros(1, dtype=dtype), tol=0.0)
        assert history == [accepted]


def test_the_best_point_is_kept_of_a_bound_and_the_last_of_what_is_none():
    within_rounding = -1 - 5e-13
    end, history = scripted([-2.0, -1.0, within_rounding], AugmentedHinge(), tol=0.0)
    assert history == [True, True]
    assert end.point.objective == -1.0
    end, history = scripted([-1.0, -1.1, -1.2], Taylor(Logistic()))
    assert (end.reason, history) == ("converged", [True, True])
    assert end.point.objective == -1.2


# When it ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gains",
    [
        (0.1, 1e-3),  # from the first on
        (100.0, 0.1, 5.0, 0.1, 1e-3),  # each of the others is followed by one that promises more
    ],
)
def test_less_than_the_tolerance_must_be_to_come_twice_in_a_row(gains):
    objectives = -1000 + np.cumsum([0.0, *gains])
    end, history = scripted(objectives, AugmentedHinge(), tol=1e-3)
    assert end.reason == "converged"
    assert len(history) == len(gains)
    # One pass less, and it would have gone on.
    assert scripted(objectives[:-1], AugmentedHinge(), tol=1e-3)[0].reason == "interrupt"


@pytest.mark.parametrize(("likelihood", "apart"), [(Hinge(), 0), (Hinge(), 2), (AugmentedHinge(), 2)], ids=repr)
def test_a_step_after_which_more_may_come_is_not_calm_at_all(likelihood, apart):
    problem = small_problem(likelihood, Ridge.isotropic(3))
    # Classes that go each by itself do not know, however little they gain: a tolerance that any step meets.
    tol = 1e9 if apart else 1e-9
    ascent = Ascender(problem.stats, problem.prior, likelihood, np.zeros(1), tol=tol, stats_apart=problem.stats)
    state = ascent._begun(None, None)
    state.apart = apart
    ascent._step(state)
    assert state.recent[-1].objective > state.recent[0].objective
    assert state.calm == 0


# How far a step goes -----------------------------------------------------------------------------


def state_from(objective=0.0, memory=5, near=np.inf, longest=1.0):
    return steps._AscentState(Point(Natural(0.0, 0.0), None, None, objective), memory, near, longest)


def accept(state, objective=0.0, gain=1.0, extrapolated=False):
    candidate = Point(Natural(0.0, 0.0), None, None, objective)
    state.accept(candidate, gain, extrapolated, ascending=True)
    return candidate


def accepted_until(state, condition):
    """How many accepted steps it takes."""
    for count in range(100):
        if condition():
            return count
        accept(state)
    raise AssertionError("never")


def steps_to_grow(state):
    rate = state.rate
    return accepted_until(state, lambda: state.rate > rate)


def test_steps_that_grew_too_soon_wait_twice_as_long_each_time():
    state, waited = state_from(), []
    for _ in range(5):
        state.reject(extrapolated=False)
        waited.append(steps_to_grow(state))
        assert state.rate == 1.0
    assert waited == [1, 1 + 2, 1 + 4, 1 + 8, 1 + 8]


def test_a_step_that_did_not_grow_was_not_grown_too_soon():
    # Full steps cannot grow.
    state = state_from()
    accept(state)
    state.reject(extrapolated=False)
    assert steps_to_grow(state) == 1
    # Neither did the last of two that had to wait.
    state.reject(extrapolated=False)
    for _ in range(2):
        accept(state)
    state.reject(extrapolated=False)
    assert state.rate == 0.25
    assert steps_to_grow(state) == 1


def test_steps_apart_have_a_length_of_their_own_and_are_not_combined_with_others():
    state = state_from()
    state.part("apart", 0.5)
    rates, kept = [], []
    for _ in range(steps._FIRST_APART + 1):
        last = accept(state)
        rates.append(state.rate)
        kept.append(len(state.recent))
        assert state.recent[-1] is last
    assert rates == [0.5, 0.5, 1.0]
    assert kept == [2, 1, 2]


def test_classes_part_once_steps_together_are_too_short():
    problem, passes = small_problem(Hinge(), Ridge.isotropic(3)), []

    def together(belief):
        """Falls with every pass."""
        passes.append("together")
        return problem.stats(belief)._replace(bound=-100.0 * len(passes))

    def apart(belief):
        passes.append("apart")
        return problem.stats(belief)._replace(bound=-1.0)

    options = {"max_passes": 7, "memory": 0, "tol": 0.0}
    Ascender(together, problem.prior, problem.likelihood, np.zeros(1), stats_apart=apart, **options).run()
    # Steps of one, a half and a quarter fall.  From there a pass that shows how each class goes, steps that do, and the
    # last of them to where they go together again.
    assert passes == ["together"] * 4 + ["apart"] * 2 + ["together"] * 2


# When steps are combined -------------------------------------------------------------------------


def steps_to_extrapolate(state):
    return accepted_until(state, lambda: state.may_extrapolate)


def test_each_rejected_extrapolation_in_a_row_takes_twice_as_many_plain_steps():
    state = state_from()
    waited = [steps_to_extrapolate(state)]
    for _ in range(5):
        state.reject(extrapolated=True)
        waited.append(steps_to_extrapolate(state))
    assert waited == [1, 1, 2, 4, 8, 8]
    # One that is accepted ends the row.
    accept(state, extrapolated=True)
    for plain in (1, 2):
        state.reject(extrapolated=True)
        assert steps_to_extrapolate(state) == plain


@pytest.mark.parametrize(("objective", "largest_gain"), [(-1000.0, 1.0), (0.01, 1e-3)])
def test_steps_are_combined_once_they_gain_little_of_the_objective_or_of_one(objective, largest_gain):
    for gain, may in ((0.9 * largest_gain, True), (1.1 * largest_gain, False)):
        state = state_from(objective, near=1e-3)
        accept(state, objective, gain)
        assert state.may_extrapolate == may


@pytest.mark.parametrize(
    ("likelihood", "large_gain", "small_gain"),
    [(AugmentedHinge(), True, True), (Hinge(), False, True), (Taylor(Logistic()), False, False)],
    ids=repr,
)
def test_steps_near_newtons_are_combined_late_and_those_without_a_bound_never(likelihood, large_gain, small_gain):
    problem = small_problem(likelihood, Ridge.isotropic(3))
    for gain, may in ((10.0, large_gain), (1e-6, small_gain)):
        state = Ascender(problem.stats, problem.prior, likelihood, np.zeros(1))._begun(None, None)
        accept(state, state.point.objective, gain)
        assert state.may_extrapolate == may


@pytest.mark.parametrize("memory", [0, 1, 3])
def test_as_many_earlier_points_are_kept_as_memory_says(memory):
    state = state_from(memory=memory)
    points = [accept(state) for _ in range(6)]
    assert len(state.recent) == memory + 1
    assert all(one is other for one, other in zip(state.recent, points[-(memory + 1) :], strict=True))
    assert state.may_extrapolate == (memory > 0)


@pytest.mark.parametrize("shape", [(1, 1), (30, 30), (2**12, 2**12)])
def test_as_many_points_are_affordable_as_fit(shape):
    point = SimpleNamespace(stats=SimpleNamespace(G=np.broadcast_to(0.0, shape)))
    five_matrices = 5 * 8 * shape[0] * shape[1]
    memory = steps._affordable_memory(point)
    assert memory * five_matrices <= steps._MEMORY_BYTES < (memory + 1) * five_matrices


# What they are combined to -----------------------------------------------------------------------


def test_differences_that_are_nearly_parallel_are_held_by_a_ridge(rng):
    belief, prior = contracts.random_belief(3), Ridge.isotropic(3)
    along, across, residual = rng.normal(size=(3, 3))
    points = []
    # Residuals whose differences are nearly the same, to about the root of the ridge's 1e-12.
    for residual_now in (residual, residual + along, residual + 2 * along + 1e-6 * across):
        G, h = np.eye(3), rng.normal(size=3)
        points.append(Point(Natural(G, h), belief, Stats(G, h + residual_now, 0.0, 1.0), 0.0))
    felt = [prior.felt(belief, np.zeros((3, 3)), point.stats.h - point.natural.h) for point in points]
    changes = np.stack([felt[1] - felt[0], felt[2] - felt[1]], axis=1)
    ridge = 1e-12 * np.sum(changes**2)
    penalised = np.concatenate([changes, np.sqrt(ridge) * np.eye(2)])
    gamma = np.linalg.lstsq(penalised, np.append(felt[-1], np.zeros(2)), rcond=None)[0]
    images = [point.stats.h for point in points]
    wanted = images[2] - gamma[0] * (images[1] - images[0]) - gamma[1] * (images[2] - images[1])
    # The squares lose twice as many digits as the differences do; without the ridge the weights are twice as large.
    assert_allclose(extrapolate(points, prior).h, wanted, rtol=1e-2)
    assert np.abs(gamma).max() > 1e4


def test_what_classes_take_along_promises_nothing_of_their_covariances(rng):
    parts = tuple(contracts.random_belief(3, seed) for seed in range(2))
    changes = rng.normal(size=(2, 3, 3))
    dG = tuple(0.1 * (change + change.T) for change in changes)
    slope = tuple(rng.normal(size=(2, 3)))
    along = tuple(0.4 * own for own in slope)
    dh = tuple(d @ part.mean + g + c for d, part, g, c in zip(dG, parts, slope, along, strict=True))
    G, h = tuple(np.linalg.inv(part.covariance) - np.eye(3) for part in parts), tuple(np.zeros((2, 3)))
    image = Stats(tuple(g + d for g, d in zip(G, dG, strict=True)), dh, 0.0, 1.0, along)
    S = [part.covariance for part in parts]
    spread = sum(0.25 * np.trace(s @ d @ s @ d) for s, d in zip(S, dG, strict=True))
    decrement = sum(0.5 * g @ s @ (g + c) for s, g, c in zip(S, slope, along, strict=True))
    found = steps.promised(Point(Natural(G, h), ClassBelief(parts), image, 0.0), Classwise.alike(Ridge.isotropic(3), 2))
    assert_allclose(found, steps._BEYOND * (spread + decrement), rtol=1e-9)


# What a step moves -------------------------------------------------------------------------------


def small_problem(likelihood, prior):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y = np.sign(X @ [1.0, -0.5] + rng.normal(size=30))
    return Problem(Table(X, y, np.ones(30), 64), LinearRows(np.zeros(2), np.ones(2)), likelihood, prior)


@pytest.mark.parametrize("longest", [1.0, 0.5])
def test_full_steps_move_all_at_once_and_shorter_ones_the_weights_first(longest):
    problem = small_problem(AugmentedHinge(), VarianceComponents(np.array([0, 0, -1])))
    prior, reference = problem.prior, problem.table.reference
    ascent = Ascender(problem.stats, prior, problem.likelihood, reference, longest=longest)
    natural = Natural(*prior.start(reference))
    first = ascent._visit(natural, None)
    assert_allclose(first.belief.covariance, prior.update(*natural).covariance)
    there = first.towards_image(longest)
    full = ascent._visit(there, first.belief, longest)
    updated = prior.update(*there, first.belief)
    assert_allclose(full.belief.mean, updated.mean)
    assert_allclose(full.belief.hyper.rate, updated.hyper.rate)
    assert full.natural is there
    short = ascent._visit(there, first.belief, longest / 2)
    weights = prior.given(*there, first.belief.hyper)
    assert_allclose(short.belief.mean, weights.mean)
    assert_allclose(short.belief.covariance, weights.covariance)
    assert_allclose(short.belief.hyper.rate, prior.learned(weights.mean, weights.variances).rate)
    # What the variances have come to is in the natural parameters: they imply the weights that were found.
    again = prior.given(*short.natural, short.belief.hyper)
    assert_allclose(again.mean, weights.mean)
    assert_allclose(again.covariance, weights.covariance)
    assert not np.allclose(updated.mean, weights.mean, rtol=1e-2)
