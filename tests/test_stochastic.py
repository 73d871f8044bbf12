from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose

from softmargin import BayesianLinearSVC
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem, objective
from softmargin.gaussian import Belief
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge, Gaussian, Hinge, JaakkolaJordan, Logistic, Quadrature, Taylor
from softmargin.minibatches import Schedule, Walk
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import Ascent, Natural, Point, ascend
from softmargin.stochastic import Gauge, _Wanderer, polish, wander

TOL = 1e-4
#: What is still to come is estimated, by a chi-squared number with a degree for each weight: right to a factor of two.
NEAR = 2 * TOL


def linear_problem(likelihood, n=20_000, prior=None, weight=None, dtype=np.float64):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5)).astype(dtype)
    y = np.sign(X @ [1.0, -1.0, 0.5, 0.0, 0.2] + 0.3 + rng.normal(size=n))
    prior = prior or VarianceComponents(np.array([0, 0, 0, 0, 0, -1]), 5.0, 1.0)
    weight = np.ones(n) if weight is None else weight
    return Problem(Table(X, y, weight, 512), LinearRows(np.zeros(5), np.ones(5)), likelihood, prior)


def kernel_problem(likelihood, n=20_000, m=25, variance=10.0, weight=None, dtype=np.float64):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2)).astype(dtype)
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + 0.5 * rng.normal(size=n))
    rows = InducingRows.at(variance * RBF(1.0) + Constant(1.0), X[:m])
    weight = np.ones(n) if weight is None else weight
    return Problem(Table(X, y, weight, 512), rows, likelihood, Ridge.isotropic(m))


def wandered(problem, seed=0, **options):
    return wander(problem, rng=np.random.RandomState(seed), **{"tol": TOL, "max_passes": 15.0} | options)


def lacking(problem, belief, optimum=None):
    """The share of the objective that a belief falls short of the optimum."""
    optimum = optimum or ascend(problem, tol=1e-9, max_passes=500).point
    return (optimum.objective - objective(problem.stats(belief).bound, problem.prior, belief)) / abs(optimum.objective)


def latent_error(problem, belief, optimum):
    """How far latent means lie from those of the optimum, in its standard deviations; root mean square over rows."""
    ours, best = problem.latent(belief), problem.latent(optimum)
    return np.sqrt(np.mean((ours.mu - best.mu) ** 2 / best.spread))


@pytest.mark.parametrize(("likelihood", "longest"), [(Hinge(), 0.5), (AugmentedHinge(), 1.0)], ids=repr)
def test_steps_that_may_overshoot_are_never_full(likelihood, longest):
    problem = linear_problem(likelihood, n=5000)
    walk = Walk.random(5000, np.random.RandomState(0))
    wanderer = _Wanderer(problem, walk, 500, Schedule(delay=1.0, power=0.0), Monitor(), None)
    wanderer.run(tol=0.0, max_passes=1.0)
    assert wanderer._rate == longest


# Where it ends -----------------------------------------------------------------------------------

LIKELIHOODS = [Hinge(), AugmentedHinge(), Quadrature(Logistic()), JaakkolaJordan(), Gaussian(0.7)]


@pytest.mark.parametrize("make", [linear_problem, kernel_problem])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_ends_within_its_tolerance_of_the_optimum(likelihood, make):
    problem = make(likelihood)
    optimum = ascend(problem, tol=1e-9, max_passes=500).point
    for seed in range(2):
        end = wandered(problem, seed)
        # Where full steps are short (and coordinate ascent takes a hundred passes) the way may be longer than allowed.
        assert end.reason == "converged" or not likelihood.needs_guard
        assert lacking(problem, end.point.belief, optimum) <= (NEAR if end.reason == "converged" else 5 * TOL)
        # TOL of the objective is one or two nats, half of the weights' squared errors in deviations, which rows share.
        # The deviations of augmented bounds are 2-3 times too small, and the objective is flatter than they tell.
        limit = 1.0 if likelihood.needs_guard or isinstance(likelihood, Gaussian) else 6.0
        assert latent_error(problem, end.point.belief, optimum.belief) < limit
        # Noise of estimates from minibatches, and of beliefs on the way: a percent.
        assert_allclose(end.point.objective, optimum.objective, rtol=0.02)
        assert end.point.stats.n == pytest.approx(20_000)


def test_an_expansion_ends_at_its_mode():
    problem = kernel_problem(Taylor(Logistic()))
    optimum = ascend(problem, tol=1e-14, max_passes=200).point
    end = wandered(problem)
    assert end.reason == "converged"
    assert latent_error(problem, end.point.belief, optimum.belief) < 0.6


@pytest.mark.parametrize("likelihood", [Hinge(), Quadrature(Logistic())], ids=repr)
def test_a_large_prior_variance_does_not_lead_astray(likelihood):
    problem = kernel_problem(likelihood, variance=1e4)
    assert lacking(problem, wandered(problem).point.belief) <= NEAR


def test_schedules_arrive_too():
    problem = kernel_problem(Hinge())
    assert lacking(problem, wandered(problem, rate=Schedule(delay=1.0, power=0.7)).point.belief) <= NEAR


@pytest.mark.parametrize("column", ["label", "first"])
def test_a_sorted_table_is_no_trouble(column):
    problem = kernel_problem(Hinge())
    order = np.argsort(problem.table.y if column == "label" else problem.table.X[:, 0], kind="stable")
    ordered = replace(problem, table=problem.table.rows(order), _kept={})
    end = wandered(ordered)
    assert end.reason == "converged"
    assert lacking(ordered, end.point.belief) <= NEAR


@pytest.mark.parametrize("make", [linear_problem, kernel_problem])
def test_weights_count(make, rng):
    times = rng.integers(1, 4, size=20_000).astype(float)
    problem = make(Hinge(), weight=times)
    end = wandered(problem)
    assert lacking(problem, end.point.belief) <= NEAR
    assert end.point.stats.n == pytest.approx(times.sum())


def test_single_precision():
    problem = kernel_problem(Hinge(), dtype=np.float32)
    end = wandered(problem)
    assert end.reason == "converged"
    assert end.point.belief.mean.dtype == np.float64
    assert lacking(problem, end.point.belief, ascend(problem, tol=1e-7, max_passes=100).point) <= NEAR


@pytest.mark.parametrize("kind", ["csr", "torch", "threads"])
def test_other_tables_take_the_same_steps(kind):
    problem = kernel_problem(Hinge(), n=4000)
    X, y, weight, size = problem.table
    if kind == "torch":
        tensors = map(torch.from_numpy, (X, y, weight))
        table = Table(*tensors, size)
        rows = InducingRows.at(problem.rows.kernel, torch.from_numpy(problem.rows.points))
        other = Problem(table, rows, Hinge(), problem.prior)
    else:
        table = problem.table._replace(X=scipy.sparse.csr_matrix(X)) if kind == "csr" else problem.table
        other = replace(problem, table=table, n_jobs=2 if kind == "threads" else 1, _kept={})
    one, two = (wandered(p, max_passes=2.0, tol=0.0).point for p in (problem, other))
    # Sums in another order: rounding, carried through two passes of steps.
    assert_allclose(to_numpy(two.belief.mean), one.belief.mean, atol=1e-6)
    assert_allclose(two.objective, one.objective, rtol=1e-8)


def test_the_same_seed_takes_the_same_walk():
    problem = linear_problem(Hinge(), n=5000)
    one, two, other = (wandered(problem, seed, max_passes=1.0).point.belief.mean for seed in (0, 0, 1))
    assert np.all(one == two)
    assert not np.any(one == other)


def test_averaging_takes_out_the_noise():
    problem = kernel_problem(Hinge())
    optimum = ascend(problem, tol=1e-9, max_passes=300).point
    walk = Walk.random(20_000, np.random.RandomState(0))
    wanderer = _Wanderer(problem, walk, 1000, Schedule(delay=1.0, power=0.5), Monitor(), None)
    end = wanderer.run(tol=0.0, max_passes=5.0)
    # Rates of t^-1/2 after 100 steps leave the last one a tenth of a minibatch's variance, and averages a hundredth.
    last, average = (latent_error(problem, b, optimum.belief) for b in (wanderer._belief, end.point.belief))
    assert average < last / 2


def test_what_is_still_to_come_of_averages_of_noise(rng):
    # An average of t standard normal steps is N(0, 1/t): it lacks m / (2 t) of the objective.
    m, gauge, total = 1000, Gauge(), np.zeros(1000)
    for t in range(1, 100):
        total += rng.normal(size=m)
        if t >= gauge.next_look:
            gauge = gauge.look(t, Belief(total / t, np.eye(m), 0.0))
    # A thousand squares of normals have a relative error of sqrt(2 / 1000).
    assert_allclose(gauge.to_come, m / (2 * gauge.step), rtol=0.15)
    assert gauge.is_calm(1.1 * gauge.before)
    assert not gauge.is_calm(0.9 * gauge.before)


# Why it ends -------------------------------------------------------------------------------------


def test_one_minibatch_of_all_rows_is_an_ascent():
    problem, monitor = linear_problem(Hinge(), n=500), Monitor()
    one = wandered(problem, monitor=monitor, max_passes=50.0)
    other = ascend(problem, tol=TOL, max_passes=50)
    assert one.reason == other.reason == "converged"
    assert np.all(one.point.belief.mean == other.point.belief.mean)


@pytest.mark.parametrize("max_passes", [0.2, 0.5, 2.0])
def test_no_more_passes_than_allowed(max_passes):
    seen = []
    problem = linear_problem(Hinge())
    end = wandered(problem, batch_rows=500, tol=0.0, max_passes=max_passes, watch=lambda passes, _: seen.append(passes))
    assert end.reason == "passes"
    assert seen[-1] == pytest.approx(max_passes)
    assert_allclose(np.diff(seen), 500 / 20_000)


def test_no_time_at_all_still_gives_a_belief():
    problem = linear_problem(Hinge())
    end = wandered(problem, monitor=Monitor(max_time=0.0))
    assert end.reason == "time"
    # What a sixteenth of the rows knows: its own noise is of the order of the weights over its rows, 6 / 1250.
    assert lacking(problem, end.point.belief) < 0.02


@pytest.mark.parametrize("likelihood", [Hinge(), Quadrature(Logistic())], ids=repr)
def test_however_little_time_some_rows_of_a_minibatch_are_fitted(likelihood):
    problem = kernel_problem(likelihood)
    end = wandered(problem, batch_rows=8192, monitor=Monitor(max_time=0.0))
    assert end.reason == "time"
    # A thousand rows know 25 weights to about 25 / 1024 of a nat a row, where the best has about a third of a nat.
    assert lacking(problem, end.point.belief) < 0.1


@pytest.mark.parametrize("likelihood", [Hinge(), Quadrature(Logistic())], ids=repr)
def test_minibatches_in_single_precision_lead_to_the_same_place(likelihood):
    problem = kernel_problem(likelihood)
    double, single = (wandered(problem, single=single, tol=1e-3) for single in (False, True))
    assert double.reason == single.reason
    assert latent_error(problem, single.point.belief, double.point.belief) < 1e-2
    assert single.point.belief.mean.dtype == np.float64


def test_a_walk_gives_up_only_where_it_is_worse_than_the_prior(monkeypatch):
    problem = kernel_problem(Hinge())
    start = problem.prior.update(*problem.prior.start(problem.table.reference))
    seen = []
    of_nothing = _Wanderer._objective_of_nothing
    monkeypatch.setattr(_Wanderer, "_objective_of_nothing", lambda *args: seen.append(of_nothing(*args)) or seen[-1])
    assert wandered(problem, gives_up=True).reason == "converged"
    # A minibatch is a sixteenth of the rows, whose hinge losses at zero vary by a few percent of their mean.
    assert_allclose(seen, objective(problem.stats(start).bound, problem.prior, start), rtol=0.05)
    monkeypatch.setattr(_Wanderer, "_objective_of_nothing", lambda *args: np.inf)
    assert wandered(problem, gives_up=True).reason == "lost"
    assert wandered(problem).reason == "converged"


class Interrupted(Monitor):
    """Interrupts when it is asked for the time for the k-th time."""

    def __init__(self, k):
        super().__init__()
        self.left, self.closed = k, 0

    @property
    def out_of_time(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return False

    def close(self):
        self.closed += 1


@pytest.mark.parametrize("k", [1, 3, 20])
def test_an_interruption_keeps_the_belief_so_far(k):
    problem, monitor = linear_problem(Hinge()), Interrupted(k)
    averages = []
    end = wandered(problem, monitor=monitor, tol=0.0, watch=lambda _, natural: averages.append(natural))
    assert end.reason == "interrupt"
    assert monitor.closed == 1
    assert lacking(problem, end.point.belief) < 0.02
    if averages:
        assert_allclose(end.point.natural.h, averages[-1].h)


def test_an_interruption_of_the_first_minibatch(monkeypatch):
    problem, passes = linear_problem(Hinge()), []
    stats = Problem.stats

    def interrupted(self, belief):
        passes.append(belief)
        if len(passes) == interrupted.at:
            raise KeyboardInterrupt
        return stats(self, belief)

    monkeypatch.setattr(Problem, "stats", interrupted)
    interrupted.at = 3
    assert wandered(problem).reason == "interrupt"
    interrupted.at = len(passes) + 1
    with pytest.raises(KeyboardInterrupt):
        wandered(problem)


def test_the_monitor_hears_of_every_look():
    monitor, problem = Monitor(), kernel_problem(Hinge())
    end = wandered(problem, monitor=monitor)
    values = [entry["objective"] for entry in monitor.history]
    assert len(values) >= 4
    assert all(entry["accepted"] for entry in monitor.history)
    # The last look is the end; estimates on the way are within the noise of minibatches, sd(l) / sqrt(rows) < 2 %.
    assert values[-1] == end.point.objective
    assert_allclose(values, values[-1], rtol=0.1)


# Polish ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [linear_problem, kernel_problem])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_polish_is_exact_and_takes_a_step(likelihood, make):
    problem = make(likelihood)
    rough = wandered(problem, max_passes=0.5, tol=0.0)
    end = polish(problem, rough)
    assert end.reason == rough.reason
    exact = problem.stats(rough.point.belief)
    assert_allclose(end.point.stats.G, exact.G)
    assert_allclose(end.point.objective, objective(exact.bound, problem.prior, rough.point.belief))
    assert_allclose(end.point.natural.h, exact.h)
    assert lacking(problem, end.point.belief) < lacking(problem, rough.point.belief)


def test_polish_does_not_overshoot():
    # Far out, hardly any row's slope bends: a full step of the exact hinge goes much too far.
    problem = linear_problem(Hinge(), prior=Ridge.isotropic(6, variance=1e4))
    natural = Natural(np.eye(6), np.full(6, 30.0))
    belief = problem.prior.update(*natural)
    far = Ascent(Point(natural, belief, problem.stats(belief), 0.0), "passes")
    end = polish(problem, far)
    step = problem.prior.update(*end.point.image)
    assert objective(problem.stats(step).bound, problem.prior, step) < end.point.objective
    assert end.point.belief is belief
    assert_allclose(end.point.objective, objective(problem.stats(belief).bound, problem.prior, belief))


def test_histories_name_their_phases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=400) > 0
    model = BayesianLinearSVC(inference="svi", batch_size=64, random_state=0).fit(X, y)
    assert {entry["phase"] for entry in model.history_} == {"minibatches"}
    assert {entry["phase"] for entry in BayesianLinearSVC().fit(X, y).history_} == {"passes"}
