"""The parts of stochastic inference: the walk over rows, sums, rates."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose

import references
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem, Stats
from softmargin.kernels import RBF
from softmargin.likelihoods import AugmentedHinge, Hinge, Logistic, Quadrature
from softmargin.minibatches import Adaptive, Schedule, Walk, _largest_quotient
from softmargin.priors import Ridge
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import Natural, ascend
from softmargin.stochastic import averaged, batch_size, scaled, stirred
from test_stochastic import kernel_problem, linear_problem

# The walk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 12, 97, 4096, 100_003])
@pytest.mark.parametrize("first", [0, 5])
def test_a_pass_visits_every_row_once(n, first):
    walk = Walk.random(n, np.random.RandomState(n))
    assert_allclose(np.sort(walk.rows(first, n)), np.arange(n))
    joined = np.concatenate([walk.rows(start, 7) for start in range(first, first + 70, 7)])
    assert np.all(joined == walk.rows(first, 70))


def test_every_size_of_table_has_a_stride():
    for n in range(2, 2000):
        assert any(math.gcd(s, n) == 1 and _largest_quotient(s, n) <= 10 for s in range(1, n))


def test_no_table_is_too_long_for_the_arithmetic():
    n = 2**31 + 11
    walk = Walk.random(n, np.random.RandomState(0))
    wanted = [(walk.offset + j * walk.stride) % n for j in range(n - 3, n + 3)]  # integers of any size
    assert walk.rows(n - 3, 6).tolist() == wanted


@pytest.mark.parametrize("seed", range(5))
def test_minibatches_are_spread_evenly(seed):
    n, size = 1_000_000, 2048
    walk = Walk.random(n, np.random.RandomState(seed))
    for first in (0, 123_456):
        rows = np.sort(walk.rows(first, size))
        gaps = np.diff(np.append(rows, rows[0] + n))
        # With partial quotients of up to 10 no gap is longer than 10 + 2 times the mean one.
        assert gaps.max() <= 12 * n / size
        # In a table sorted by its labels the share of each is exact to some tens of rows: quotients add up over
        # log(size) terms, while independent draws would stray by sqrt(size / 4) = 23, and three times that at times.
        assert abs(np.sum(rows < 0.3 * n) - 0.3 * size) < 25


@pytest.mark.parametrize("kind", ["numpy", "csr", "torch"])
def test_rows_of_a_table(kind, rng):
    X, y, weight = rng.normal(size=(30, 4)), rng.normal(size=30), rng.uniform(size=30)
    index = np.array([29, 3, 3, 17])
    convert = {"numpy": np.asarray, "csr": scipy.sparse.csr_matrix, "torch": torch.from_numpy}[kind]
    others = torch.from_numpy if kind == "torch" else np.asarray
    part = Table(convert(X), others(y), others(weight), 2).rows(index)
    blocks = [part.block(i) for i in range(part.n_blocks)]
    got = [np.concatenate([to_numpy(block[k]) for block in blocks]) for k in range(3)]
    for have, want in zip(got, (X, y, weight), strict=True):
        assert_allclose(have, want[index])


# Sums --------------------------------------------------------------------------------------------


def batches_of(problem, size, seed=0):
    walk = Walk.random(problem.table.n_rows, np.random.RandomState(seed))
    for first in range(0, problem.table.n_rows, size):
        yield replace(problem, table=problem.table.rows(walk.rows(first, size)), _kept={})


@pytest.mark.parametrize("make", [linear_problem, kernel_problem])
@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), Quadrature(Logistic())], ids=repr)
def test_all_rows_at_full_rate_are_coordinate_ascent(likelihood, make):
    problem = make(likelihood, n=300)
    belief = problem.prior.update(*problem.prior.start(problem.table.reference))
    whole = scaled(problem.stats(belief), 0.5)._replace(n=300.0)
    for _ in range(3):
        stats = problem.stats(belief)
        whole = stirred(whole, stats, 1.0)
        one, other = (problem.prior.update(s.G, s.h, belief) for s in (whole, stats))
        assert_allclose(one.mean, other.mean, rtol=0, atol=0)
        assert_allclose(one.root, other.root, rtol=0, atol=0)
        belief = one


@pytest.mark.parametrize("weighted", [False, True])
def test_minibatches_estimate_the_whole_without_bias(weighted, rng):
    problem = kernel_problem(Hinge(), n=600, weight=rng.uniform(0.5, 2, size=600) if weighted else None)
    belief = problem.prior.update(*problem.prior.start(problem.table.reference))
    whole, old = problem.stats(belief), scaled(problem.stats(belief), 3.0)._replace(n=problem.table.weight.sum())
    parts = [batch.stats(belief) for batch in batches_of(problem, 50)]
    blended = [stirred(old, part, 0.3) for part in parts]
    # Every row is in one minibatch, and minibatches count by their weight: equally, where all rows weigh the same.
    share = np.array([part.n for part in parts]) / whole.n
    for name in Stats._fields:
        mean = sum(s * getattr(b, name) for s, b in zip(share, blended, strict=True))
        wanted = 0.7 * getattr(old, name) + 0.3 * getattr(whole, name)
        assert_allclose(mean, wanted, rtol=1e-10, atol=1e-8)


def test_steps_are_those_of_algorithm_1_of_wenzel(rng):
    X = rng.normal(size=(60, 2))
    y, kernel = np.sign(X[:, 0] + 0.5 * rng.normal(size=60)), 1.3 * RBF(0.9)
    problem = Problem(
        Table(X, y, np.ones(60), 16), InducingRows.at(kernel, X[:8]), AugmentedHinge(), Ridge.isotropic(8)
    )
    L = np.linalg.cholesky(kernel(X[:8], X[:8]))
    belief = problem.prior.update(np.zeros((8, 8)), np.zeros(8))
    whole = Stats(np.zeros((8, 8)), np.zeros(8), 0.0, 60.0)
    batches, rates = [rng.permutation(60)[:12] for _ in range(6)], [0.9, 0.5, 0.4, 0.3, 0.3, 0.2]
    theirs = references.wenzel_stochastic(
        L @ L.T, kernel(X, X[:8]), np.full(60, 1.3), y, batches, rates, np.zeros(8), L @ L.T
    )
    for rows, rate, (mu, zeta) in zip(batches, rates, theirs, strict=True):
        batch = replace(problem, table=problem.table.rows(rows), _kept={}).stats(belief)
        whole = stirred(whole, batch, rate)
        belief = problem.prior.update(whole.G, whole.h)
        # The jitter on the diagonal of the kernel matrix, 1e-14 of it, is all that differs.
        assert_allclose(L @ belief.mean, mu, atol=1e-7)
        assert_allclose(L @ belief.covariance @ L.T, zeta, atol=1e-7)


def test_later_steps_weigh_more_in_the_average(rng):
    steps = [Stats(*rng.normal(size=4)) for _ in range(9)]
    average = Stats(*rng.normal(size=4))  # is not remembered
    for t, step in enumerate(steps, start=1):
        average = averaged(average, step, t)
    assert_allclose(average, np.average(np.array(steps), axis=0, weights=np.arange(1, 10)))


@pytest.mark.parametrize(
    ("n", "m", "rows"),
    [(5_000_000, 64, 8192), (5_000_000, 1500, 12000), (5_000_000, 4096, 16384), (50_000, 64, 3125), (9_000, 64, 1024)],
)
def test_minibatches_outweigh_the_update(n, m, rows):
    table = Table(np.broadcast_to(np.zeros((1, 2)), (n, 2)), np.ones(1), np.ones(1), 64)
    problem = Problem(table, LinearRows(np.zeros(m), np.ones(m), intercept=False), Hinge(), Ridge.isotropic(m))
    assert batch_size(problem, "auto") == rows
    assert batch_size(problem, 77) == 77
    assert batch_size(problem, 2 * n) == n


# Rates -------------------------------------------------------------------------------------------


def test_schedule():
    rule, rates = Schedule(delay=2.0, power=0.5), []
    for _ in range(3):
        rule = rule.saw(None, 0.0)
        rates.append(rule.rate)
    assert_allclose(rates, np.array([3.0, 4.0, 5.0]) ** -0.5)


def test_adaptive_rates_are_those_of_ranganath(rng):
    gradients = list(rng.normal(size=(30, 40)) + 0.6)
    rule, taken, rates = Adaptive(power=9.0), 0.0, []  # falls so fast that it is no limit
    for gradient in gradients:
        rule = rule.saw(lambda gradient=gradient: gradient, taken)
        taken = rule.rate
        rates.append(taken)
    assert rates[:3] == [0.0, 0.0, 0.0]
    assert_allclose(rates[3:], references.ranganath_rates(gradients, 4), rtol=1e-10)


def rates_at(problem, belief, whole, n_gradients=12):
    """Adaptive rates for a belief that is held where it is."""
    rule = Adaptive(power=9.0)
    weight = problem.table.weight.sum()
    for batch in list(batches_of(problem, 1000))[:n_gradients]:
        stats = batch.stats(belief)
        change = [getattr(stats, name) * weight / stats.n - getattr(whole, name) for name in "Gh"]
        rule = rule.saw(lambda change=change: belief.felt(*change), 0.0)
    return rule.rate


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), Quadrature(Logistic())], ids=repr)
def test_adaptive_rates_are_long_far_away_and_short_at_the_optimum(likelihood):
    problem = kernel_problem(likelihood)
    belief = problem.prior.update(*problem.prior.start(problem.table.reference))
    start = Natural(*problem.prior.start(problem.table.reference))
    point = ascend(problem, tol=1e-10, max_passes=300).point
    assert rates_at(problem, belief, start) > 0.9
    # Twelve gradients of pure noise leave 1/12 of their squared length in the mean.
    assert rates_at(problem, point.belief, point.natural) < 2 / 12


def test_rates_fall_no_faster_than_said():
    rule, rng = Adaptive(power=0.5), np.random.default_rng(0)
    for _ in range(99):
        rule = rule.saw(lambda: rng.normal(size=1000), 0.0)
    assert rule.rate == 100**-0.5
