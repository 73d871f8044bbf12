"""What an ascent is made of: blends, extrapolations, what is to come, parting."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import contracts
from softmargin import steps
from softmargin.chunks import Table
from softmargin.engine import Problem, Stats
from softmargin.gaussian import ClassBelief
from softmargin.likelihoods import (
    Hinge,
    OneVersusRest,
    Softmax,
)
from softmargin.priors import Classwise, Ridge
from softmargin.rows import ClasswiseRows, LinearRows
from softmargin.steps import Ascender, Natural, Point, blend, extrapolate
from test_steps import ascender, linear_problem


def test_blend_is_a_convex_combination(rng):
    old, new = Natural(np.eye(2), np.ones(2)), Natural(3 * np.eye(2), np.zeros(2))
    G, h = blend(old, new, 0.25)
    assert_allclose(G, 1.5 * np.eye(2))
    assert_allclose(h, 0.75)
    assert blend(old, new, 1) is new


def point_of(natural, target, contraction):
    """A point whose full step shrinks the distance to ``target`` by a factor for each of two directions."""
    (g0, h0), (g1, h1) = natural, target
    image = Stats(g1 + contraction[0] * (g0 - g1), h1 + contraction[1] * (h0 - h1), 0.0, 1.0)
    return Point(Natural(*natural), contracts.random_belief(2), image, 0.0)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_extrapolation_solves_linear_maps_exactly(rate, convert):
    target = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([1.0, -2.0])
    # The steps are linear in the distance, and these distances lie in one plane with the target.
    starts = [(target[0] + a * np.eye(2), target[1] + b * np.ones(2)) for a, b in ((1, 2), (-0.5, 0.3), (2, -1))]
    points = [point_of(start, target, (0.9, -0.4)) for start in starts]
    like = convert(np.zeros(1))
    points = [
        Point(Natural(*map(convert, natural)), belief.seen_by(like), Stats(convert(G), convert(h), 0.0, 1.0), 0.0)
        for natural, belief, (G, h, *_), _ in points
    ]
    G, h = extrapolate(points, Ridge.isotropic(len(points[-1].natural.h)), rate)
    assert_allclose(np.asarray(G), target[0], atol=1e-5)
    assert_allclose(np.asarray(h), target[1], atol=1e-5)


def test_extrapolation_of_points_that_do_not_move_is_a_plain_step():
    point = point_of((np.eye(2), np.ones(2)), (2 * np.eye(2), np.zeros(2)), (0.5, 0.5))
    G, h = extrapolate([point, point, point], Ridge.isotropic(len(point.natural.h)))
    assert_allclose(G, point.image.G)
    assert_allclose(h, point.image.h)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_extrapolation_does_not_depend_on_units_whose_squares_are_no_numbers(unit):
    prior, belief = Ridge.isotropic(2), contracts.random_belief(2)
    residuals = np.array([[1.0, 2.0], [-0.5, 0.3], [2.0, -1.0]])
    points = [
        Point(Natural(np.eye(2), unit * k * np.ones(2)), belief, Stats(np.eye(2), unit * (k + residual), 0.0, 1.0), 0.0)
        for k, residual in enumerate(residuals)
    ]
    changes = np.diff(residuals, axis=0)
    gamma = np.linalg.solve(changes @ changes.T, changes @ residuals[-1])  # two changes in a plane leave nothing
    wanted = 2 - gamma.sum()
    assert_allclose(extrapolate(points, prior).h / unit, [wanted, wanted], rtol=1e-8)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_points_that_are_no_numbers_are_not_combined(value, capfd):
    belief = contracts.random_belief(2)
    far = Point(Natural(np.eye(2), np.ones(2)), belief, Stats(np.eye(2), np.array([1.0, value]), 0.0, 1.0), 0.0)
    last = far._replace(stats=Stats(2 * np.eye(2), np.zeros(2), 0.0, 1.0))
    G, h = extrapolate([far, far, last], Ridge.isotropic(2), 0.5)
    assert_allclose(G, 1.5 * np.eye(2))
    assert_allclose(h, [0.5, 0.5])
    assert capfd.readouterr() == ("", "")  # LAPACK would tell of it


@pytest.mark.parametrize(("ascending", "share"), [(True, 0.5), (False, 0.25)])
def test_what_is_to_come_does_not_depend_on_the_length_of_the_last_step(ascending, share):
    # Half a step gains half of what a whole one does; a mean goes half the way, a quarter of it squared.
    to_come = []
    for rate, gain in ((1.0, 0.8), (0.5, share * 0.8)):
        state = steps._AscentState(SimpleNamespace(objective=0.0), 5, np.inf)
        state.rate = rate
        state.accept(SimpleNamespace(objective=1.0), gain, extrapolated=False, ascending=ascending)
        to_come.append(state.to_come)
    assert_allclose(to_come[1], to_come[0])
    assert to_come[0] == 0.8


@pytest.mark.parametrize("taken_along", [0.3, -0.3])
def test_classes_that_take_each_other_along_promise_their_decrement(taken_along, rng):
    parts = tuple(contracts.random_belief(3, seed) for seed in range(2))
    slope = tuple(rng.normal(size=(2, 3)))
    along = tuple(taken_along * own for own in slope)
    G, h = tuple(np.linalg.inv(part.covariance) - np.eye(3) for part in parts), tuple(rng.normal(size=(2, 3)))
    asked = tuple(a + b + c for a, b, c in zip(h, slope, along, strict=True))
    point = Point(Natural(G, h), ClassBelief(parts), Stats(G, asked, 0.0, 1.0, along), 0.0)
    alone = sum(0.5 * g @ part.covariance @ g for g, part in zip(slope, parts, strict=True))
    # The decrement is half of slope times step; no less is promised than by the slopes alone.
    wanted = steps._BEYOND * alone * max(1.0, 1.0 + taken_along)
    assert_allclose(steps.promised(point, Classwise.alike(Ridge.isotropic(3), 2)), wanted, rtol=1e-9)


@pytest.mark.parametrize(("before", "ratio"), [(1.0, 0.9), (0.02, 0.7), (5.0, 0.1)])
def test_slow_gains_are_taken_for_a_geometric_series(before, ratio):
    gain = ratio * before
    series = sum(gain * ratio**k for k in range(1, 400))
    # Where gains fall fast what is to come is at most the last of them, as far as anybody knows.
    assert_allclose(steps._still_to_come(gain, before, 1.0), max(series, gain), rtol=1e-9)


def test_a_rejected_step_and_a_parting_begin_anew():
    state = steps._AscentState(Point(Natural(0.0, 0.0), None, "together", 0.0), 5, np.inf)
    state.calm, state.parts = 1, True
    state.reject(extrapolated=False)
    assert state.calm == 0
    state.part("apart", 0.5)
    assert state.point.stats == "apart"
    assert not state.parts


def test_classes_part_only_after_steps_that_are_too_short(monkeypatch):
    problem = linear_problem(Hinge())
    point = Point(Natural(0.0, 0.0), None, None, 0.0)
    for stats_apart, apart, parts in ((problem.stats, 0, True), (problem.stats, 1, False), (None, 0, False)):
        ascent, state = ascender(problem, stats_apart=stats_apart), steps._AscentState(point, 5, np.inf)
        state.apart = apart
        history = []
        for _ in range(3):  # to steps of a half, a quarter, an eighth
            ascent._reject(state, extrapolated=False)
            history.append(state.parts)
        assert history == [False, False, parts]


@pytest.mark.parametrize(("likelihood", "may_part"), [(Softmax(), True), (OneVersusRest(), False)], ids=repr)
def test_classes_that_go_together_may_part(likelihood, may_part, monkeypatch, rng):
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 3, size=30).astype(float)
    rows, prior = ClasswiseRows(LinearRows(np.zeros(2), np.ones(2)), 3), Classwise.alike(Ridge.isotropic(3), 3)
    problem = Problem(Table(X, y, np.ones(30), 64), rows, likelihood, prior)
    given = {}

    def watched(*args, **options):
        given.update(options)
        return Ascender(*args, **options)

    monkeypatch.setattr(steps, "Ascender", watched)
    steps.ascend(problem, tol=1e-3, max_passes=3)
    assert given["stats_apart"] == (problem.stats if may_part else None)


@pytest.mark.parametrize(("steps_apart", "by_itself"), [(0, False), (1, False), (2, True)])
def test_the_last_step_apart_leads_to_where_classes_go_together(steps_apart, by_itself):
    problem, passes = linear_problem(Hinge()), []

    def watched(name):
        return lambda belief: (passes.append(name), problem.stats(belief))[1]

    ascent = ascender(problem, watched("together"), stats_apart=watched("apart"))
    start = Natural(*problem.prior.start(problem.table.reference))
    state = steps._AscentState(ascent._visit(start, None), 5, np.inf)
    state.apart = steps_apart
    assert ascent._try(state.point.towards_image(1.0), state.point, state) is not None
    assert passes == ["together", "apart" if by_itself else "together"]
