"""Adam's steps: slopes, where they end, and what estimators make of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from softmargin import adam
from softmargin.adam import AdamOfBeliefs, Coordinates, Lengths, before_rows, climb
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem, objective
from softmargin.gaussian import Belief, class_parts
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import (
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    JaakkolaJordan,
    Logistic,
    OneVersusRest,
    Quadrature,
    Rivals,
    Softmax,
    Taylor,
)
from softmargin.loo import left_out
from softmargin.monitor import Monitor
from softmargin.priors import Classwise, Ridge, VarianceComponents
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows
from softmargin.steps import Natural, ascend
from softmargin.streaming import Past

LOGISTIC = Quadrature(Logistic())
KERNEL = 4.0 * RBF(0.8) + Constant(1.0)


def moons_problem(likelihood, n=300, m=30, kernel=KERNEL):
    X, y = make_moons(n, noise=0.3, random_state=0)
    rows = InducingRows.at(kernel, X[:m])
    return Problem(Table(X, 2.0 * y - 1, np.ones(n), 512), rows, likelihood, Ridge.isotropic(m))


def blobs_problem(likelihood, n=150, m=12, prior=None):
    X, y = make_blobs(n, centers=3, cluster_std=2.5, random_state=0)
    rows = ClasswiseRows(InducingRows.at(4.0 * RBF(3.0) + Constant(1.0), X[:m]), 3)
    return Problem(
        Table(X, y.astype(float), np.ones(n), 512), rows, likelihood, prior or Classwise.alike(Ridge.isotropic(m), 3)
    )


def linear_problem(likelihood, n=300):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    y = np.sign(X @ [1.0, -1.0, 0.5, 0.0, 0.2] + 0.3 + rng.normal(size=n))
    prior = VarianceComponents(np.array([0, 0, 0, 0, 0, -1]), 5.0, 1.0)
    return Problem(Table(X, y, np.ones(n), 512), LinearRows(np.zeros(5), np.ones(5)), likelihood, prior)


def climbed(problem, seed=0, **options):
    return climb(problem, rng=np.random.RandomState(seed), **options)


def height(problem, belief):
    return objective(problem.stats(belief).bound, problem.prior, belief)


def lacking(problem, belief, optimum=None):
    """The share of the objective that a belief falls short of the optimum."""
    optimum = optimum or ascend(problem, tol=1e-9, max_passes=500).point
    return (optimum.objective - height(problem, belief)) / abs(optimum.objective)


# Slopes ------------------------------------------------------------------------------------------

ONE_OUTPUT = [
    (moons_problem, Hinge()),
    (moons_problem, AugmentedHinge()),
    (moons_problem, LOGISTIC),
    (moons_problem, JaakkolaJordan()),
    (linear_problem, Hinge()),
]
MANY_CLASSES = [
    (blobs_problem, likelihood)
    for likelihood in (Rivals(), Rivals(AugmentedHinge()), Rivals(LOGISTIC), OneVersusRest(), Softmax())
]


def named(case):
    return getattr(case, "__name__", None) or repr(case)


def somewhere(problem, rng):
    """Coordinates about a belief after some passes, and a point that is not its origin."""
    units = ascend(problem, tol=1e-9, max_passes=3).point.belief
    coordinates = Coordinates(units)
    z = coordinates.of(units)
    K, m = z.shape[0], z.shape[2]
    lower = np.concatenate([np.tril(np.ones((m, m))), np.ones((1, m))])
    return coordinates, 0.2 * lower * rng.normal(size=(K, m + 1, m)), lower


@pytest.mark.parametrize(("make", "likelihood"), ONE_OUTPUT + MANY_CLASSES, ids=named)
def test_slopes_are_those_of_the_objective(make, likelihood, rng):
    problem = make(likelihood)
    prior, (coordinates, z, lower) = problem.prior, somewhere(problem, rng)

    def at(z):
        # What is inferred beside the weights is settled everywhere, and leaves no trace in the slopes.
        return prior.settled(problem.stats(coordinates.units).G, coordinates.belief(z))[1]

    belief = at(z)
    stats = problem.stats(belief)
    sums = Natural(stats.G, stats.h)
    slopes = coordinates.slopes(z, before_rows(prior, sums, belief.hyper), sums)
    assert not slopes[:, lower == 0].any()
    for _ in range(5):
        direction = lower * rng.normal(size=z.shape)
        step = 1e-5
        rise = height(problem, at(z + step * direction)) - height(problem, at(z - step * direction))
        assert_allclose(np.sum(slopes * direction), rise / (2 * step), rtol=1e-5, atol=1e-4)
    # In the mean alone, and in single entries of the factor.
    for entry in [(0, -1, 2), (0, 1, 1), (0, 3, 2), (z.shape[0] - 1, 2, 2)]:
        direction = np.zeros_like(z)
        direction[entry] = 1e-5
        rise = height(problem, at(z + direction)) - height(problem, at(z - direction))
        assert_allclose(slopes[entry], rise / 2e-5, rtol=1e-4, atol=1e-4)


def test_slopes_see_a_prior_with_a_mean(rng):
    problem = moons_problem(Hinge())
    half = replace(problem, table=problem.table.rows(np.arange(150)), _kept={})
    point = ascend(half, tol=1e-6, max_passes=100).point
    past = Past.of(problem.prior, point.image, point.belief)
    later = replace(problem, prior=past, table=problem.table.rows(np.arange(150, 300)), _kept={})
    assert lacking(later, climbed(later, tol=1e-6).point.belief) < 1e-5


@pytest.mark.parametrize("make", [moons_problem, blobs_problem])
def test_a_belief_is_found_where_it_was_put(make, rng):
    problem = make(Hinge() if make is moons_problem else Rivals())
    coordinates, z, _ = somewhere(problem, rng)
    belief = coordinates.belief(z)
    assert_allclose(coordinates.of(belief), z, atol=1e-10)
    assert_allclose(coordinates.of(coordinates.units), 0.0, atol=1e-12)
    for part in class_parts(belief):
        assert_array_equal(part.root, np.tril(part.root))
        assert_allclose(part.log_det, np.linalg.slogdet(part.covariance)[1])


def test_steps_are_alike_for_large_slopes_and_short_for_small_ones():
    once = AdamOfBeliefs().saw(np.array([5e3, -5e5, 1e-3, 0.0]))
    assert_allclose(once.direction, [1.0, -1.0, 1.2e-3, 0.0], rtol=1e-2)
    often = AdamOfBeliefs()
    for sign in (1, -1) * 200:
        often = often.saw(np.array([100.0 * sign, 100.0, 1e-3]))
    assert_allclose(often.direction, [0.0, 1.0, 1e-3 / (1e-3 + 1 / (1 + 400 / 5))], atol=0.1)


def test_lengths_fall():
    assert Lengths().at(0) == Lengths(5.0, 1.0).at(0) == 0.5
    assert_allclose(Lengths(5.0, 1.0).at(15), 0.125)
    assert Lengths(0.0, 1.0).at(1) == 0.25


# Where it ends -----------------------------------------------------------------------------------

ENDS = [
    *ONE_OUTPUT,
    (linear_problem, LOGISTIC),
    (blobs_problem, Rivals()),
    (blobs_problem, Rivals(LOGISTIC)),
    (blobs_problem, OneVersusRest()),
    (blobs_problem, Softmax()),
]


@pytest.mark.parametrize(("make", "likelihood"), ENDS, ids=named)
def test_with_all_rows_it_ends_where_coordinate_ascent_does(make, likelihood):
    problem = make(likelihood)
    optimum = ascend(problem, tol=1e-9, max_passes=500).point
    monitor = Monitor()
    end = climbed(problem, tol=1e-4, monitor=monitor)
    assert end.reason == "converged"
    assert -1e-9 < lacking(problem, end.point.belief, optimum) < 1e-4
    # Nothing is estimated here.  What is wider than the prior is made narrower in the end, and nothing is lost by it.
    assert 0 <= height(problem, end.point.belief) - end.point.objective + 1e-9 < 1e-4 * abs(optimum.objective)
    assert_allclose(max(entry["objective"] for entry in monitor.history), end.point.objective)
    assert end.point.belief.moved_from(optimum.belief) < 0.02 * optimum.belief.n_weights


@pytest.mark.parametrize(
    ("likelihood", "seed"), [(Hinge(), 0), (Hinge(), 1), (LOGISTIC, 0), (Rivals(), 0), (Softmax(), 0)], ids=repr
)
def test_minibatches_come_near(likelihood, seed):
    make = moons_problem if likelihood in (Hinge(), LOGISTIC) else blobs_problem
    problem = make(likelihood, n=4000)
    optimum = ascend(problem, tol=1e-9, max_passes=500).point
    monitor = Monitor()
    end = climbed(problem, seed, tol=1e-3, batch_rows=400, max_passes=100, monitor=monitor)
    assert end.reason == "converged"
    assert lacking(problem, end.point.belief, optimum) < 2e-3
    assert_allclose(end.point.objective, optimum.objective, rtol=0.02)
    assert end.point.stats.n == pytest.approx(4000)
    assert monitor.history[-1]["objective"] == end.point.objective
    # The start is not where it ends.
    assert lacking(problem, climbed(problem, seed, batch_rows=400, max_passes=0.1).point.belief, optimum) > 5e-3


@pytest.mark.parametrize("likelihood", [Taylor(Logistic()), CrammerSinger()], ids=repr)
def test_what_has_no_bound_comes_to_rest_at_the_same_place(likelihood):
    problem = moons_problem(likelihood) if isinstance(likelihood, Taylor) else blobs_problem(likelihood)
    optimum = ascend(problem, tol=1e-12, max_passes=1000).point
    end = climbed(problem, tol=1e-4, max_passes=500)
    assert end.reason == "converged"
    assert end.point.belief.moved_from(optimum.belief) < 0.01 * optimum.belief.n_weights


@pytest.mark.parametrize("likelihood", [Hinge(), LOGISTIC], ids=repr)
def test_a_large_prior_variance_does_not_lead_astray(likelihood):
    problem = moons_problem(likelihood, kernel=1e4 * RBF(0.8) + Constant(1.0))
    assert lacking(problem, climbed(problem).point.belief) < 5e-3


@pytest.mark.parametrize("batch_rows", ["auto", 64])
@pytest.mark.parametrize("make", [moons_problem, linear_problem, blobs_problem])
def test_natural_parameters_are_those_of_the_belief(make, batch_rows):
    problem = make(Rivals() if make is blobs_problem else Hinge())
    point = climbed(problem, tol=1e-3, batch_rows=batch_rows, max_passes=10).point
    given = problem.prior.given(*point.natural, point.belief.hyper)
    sums = zip(*point.natural, strict=True) if make is blobs_problem else [tuple(point.natural)]
    before = before_rows(problem.prior, point.natural, point.belief.hyper)
    every = zip(class_parts(point.belief), class_parts(given), before, sums, strict=True)
    for part, again, prior, (G, h) in every:
        assert_allclose(again.mean, part.mean, rtol=1e-8, atol=1e-10)
        assert_allclose(again.root, part.root, rtol=1e-8, atol=1e-10)
        precision = np.linalg.inv(part.covariance)
        assert_allclose(prior.P + G, precision, rtol=1e-6, atol=1e-6 * precision.max())
        assert_allclose(h, precision @ part.mean, rtol=1e-6, atol=1e-6 * abs(h).max())
        # No belief is wider than its prior.
        whitener = np.linalg.inv(prior.C)
        assert np.linalg.eigvalsh(whitener @ G @ whitener.T)[0] > -1e-8 * max(1.0, np.linalg.norm(whitener) ** 2)


def test_rows_can_be_left_out(rng):
    problem = moons_problem(Hinge())
    ours, best = (end.point.belief for end in (climbed(problem, tol=1e-6), ascend(problem, tol=1e-9, max_passes=300)))
    ours, best = (left_out(problem, belief, np.ones(300)) for belief in (ours, best))
    assert_allclose(ours.mu, best.mu, atol=0.02)
    assert_allclose(ours.v, best.v, rtol=0.02)


def test_variances_are_inferred_along():
    problem = linear_problem(Hinge())
    ours, best = (end.point.belief for end in (climbed(problem, tol=1e-6), ascend(problem, tol=1e-9, max_passes=300)))
    assert_allclose(ours.hyper.mean_precision, best.hyper.mean_precision, rtol=1e-3)


@pytest.mark.parametrize("batch_rows", ["auto", 50])
def test_the_seed_decides(batch_rows):
    problem = moons_problem(Hinge())
    one, same, other = (climbed(problem, seed, batch_rows=batch_rows, max_passes=5).point for seed in (0, 0, 1))
    assert_array_equal(one.belief.mean, same.belief.mean)
    assert one.objective == same.objective != other.objective


def test_tensors_take_the_same_way():
    problem = blobs_problem(Softmax())
    rows = problem.rows.rows
    beneath = rows._replace(points=torch.asarray(rows.points), whitener=torch.asarray(rows.whitener))
    table = Table(*map(torch.asarray, problem.table[:3]), problem.table.block_rows)
    there = replace(problem, table=table, rows=problem.rows._replace(rows=beneath), _kept={})
    ours, theirs = (climbed(one, batch_rows=50, max_passes=5).point.belief for one in (problem, there))
    assert isinstance(theirs.parts[0].mean, torch.Tensor)
    for part, other in zip(ours.parts, theirs.parts, strict=True):
        assert_allclose(to_numpy(other.mean), part.mean, atol=1e-6)


def test_single_precision_is_enough():
    problem = moons_problem(Hinge())
    single = replace(problem, table=problem.table._replace(X=problem.table.X.astype(np.float32)), _kept={})
    end = climbed(single, tol=0.0)
    assert end.reason == "converged"
    assert end.point.belief.mean.dtype == np.float64
    assert lacking(problem, end.point.belief) < 1e-5


def test_the_best_is_kept_of_steps_that_go_too_far(monkeypatch):
    monkeypatch.setattr(adam, "_LENGTH", 3.0)
    monitor = Monitor()
    end = climbed(moons_problem(Hinge()), tol=0.0, max_passes=30, monitor=monitor)
    heights = [entry["objective"] for entry in monitor.history]
    assert not all(entry["accepted"] for entry in monitor.history)
    assert end.point.objective == pytest.approx(max(heights), rel=1e-12)
    assert end.point.objective > heights[-1] + 0.1


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_few_rows_will_do(n):
    problem = moons_problem(Hinge(), n=n, m=1)
    assert lacking(problem, climbed(problem).point.belief) < 2e-3


# Ends that come early ----------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", ["auto", 50])
def test_an_interruption_keeps_the_best_so_far(batch_rows, interrupt_pass):
    problem = moons_problem(Hinge())
    pilot, whole = Monitor(), climbed(problem, batch_rows=batch_rows)
    interrupt_pass(30)
    end = climbed(problem, batch_rows=batch_rows, monitor=pilot)
    assert end.reason == "interrupt"
    assert pilot.history
    assert isinstance(end.point.belief, Belief)
    assert height(replace(problem, _kept={}), end.point.belief) < height(problem, whole.point.belief) + 1.0
    if batch_rows == "auto":
        assert_allclose(end.point.objective, max(entry["objective"] for entry in pilot.history))


def test_an_interruption_before_the_first_step_keeps_the_start(interrupt_pass):
    problem = moons_problem(Hinge())
    interrupt_pass(3)
    monitor = Monitor()
    end = climbed(problem, monitor=monitor)
    assert end.reason == "interrupt"
    assert [entry["objective"] for entry in monitor.history] == [end.point.objective]


class Hasty(Monitor):
    """One whose time is up after 10 passes."""

    @property
    def out_of_time(self):
        return len(self.history) >= 10


def test_time_and_passes_are_kept():
    problem = moons_problem(Hinge())
    assert climbed(problem, monitor=Monitor(max_time=1e-9)).reason == "time"
    hasty = Hasty()
    end = climbed(problem, monitor=hasty)
    assert (end.reason, len(hasty.history)) == ("time", 10)
    assert_allclose(end.point.objective, max(entry["objective"] for entry in hasty.history))
    assert end.point.objective > hasty.history[0]["objective"] + 10
    monitor = Monitor()
    end = climbed(problem, tol=0.0, max_passes=5, monitor=monitor)
    assert end.reason == "passes"
    assert len(monitor.history) == 5
