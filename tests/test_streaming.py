from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import contracts
import references
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge, Gaussian, Hinge, JaakkolaJordan, Logistic, Quadrature, Taylor
from softmargin.links import fit_logistic_link
from softmargin.loo import left_out
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import Natural, ascend
from softmargin.streaming import Past, Record, absorb

RIDGE, INFERRED = Ridge(np.array([0.5, 0.5, 0.5, 0.01])), VarianceComponents(np.array([0, 0, 0, -1]), 5.0, 1.0)


def linear_problem(likelihood, prior=RIDGE, n=600, seed=3, coefficients=(1.0, -1.0, 0.5)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.sign(X @ np.array(coefficients) + 0.3 + rng.normal(size=n))
    return Problem(Table(X, y, np.ones(n), 128), LinearRows(np.zeros(3), np.ones(3)), likelihood, prior)


def kernel_problem(likelihood, n=10_000, m=30):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + 0.5 * rng.normal(size=n))
    rows = InducingRows.at(10.0 * RBF(1.0) + Constant(1.0), X[:m])
    return Problem(Table(X, y, np.ones(n), 512), rows, likelihood, Ridge.isotropic(m))


def part(problem, rows):
    return replace(problem, table=problem.table.rows(np.asarray(rows)), _kept={})


def streamed(problem, size, order=None, **options):
    order = np.arange(problem.table.n_rows) if order is None else order
    stream = None
    for start in range(0, len(order), size):
        stream, _ = absorb(stream, part(problem, order[start : start + size]), **options)
    return stream


def fitted(problem, **options):
    return ascend(problem, **{"tol": 1e-10, "max_passes": 500} | options).point


# The past as a prior -----------------------------------------------------------------------------


@pytest.fixture
def past_and_belief(rng):
    A, h = rng.normal(size=(4, 4)), rng.normal(size=4)
    natural = Natural(A @ A.T, h)
    return Past.of(RIDGE, natural, None), contracts.random_belief(4, seed=7)


def test_the_divergence_is_that_from_the_belief_of_the_past(past_and_belief):
    past, belief = past_and_belief
    old = RIDGE.update(*past.natural)
    wanted = references.kl_gaussians(belief.mean - old.mean, belief.covariance, old.covariance)
    assert_allclose(past.kl(belief), wanted, rtol=1e-10)
    assert_allclose(past.kl(old), 0, atol=1e-12)


def test_new_sums_are_added_to_the_old(past_and_belief, rng):
    past, _ = past_and_belief
    B, h = rng.normal(size=(4, 4)), rng.normal(size=4)
    G = B @ B.T
    wanted = RIDGE.update(past.natural.G + G, past.natural.h + h)
    for belief in (past.update(G, h), past.given(G, h, None)):
        assert_allclose(belief.mean, wanted.mean)
        assert_allclose(belief.covariance, wanted.covariance)
    start = past.update(*past.start(np.zeros(1)))
    assert_allclose(start.mean, RIDGE.update(*past.natural).mean)


def test_settling_with_a_past_implies_the_same_weights(rng):
    A, B, h = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
    past = Past.of(INFERRED, Natural(A @ A.T, h), None)
    moved = past.given(B @ B.T, h, past.update(*past.start(np.zeros(1))).hyper)
    G, settled = past.settled(B @ B.T, moved)
    again = past.given(G, h, settled.hyper)
    assert_allclose(again.mean, moved.mean)
    assert_allclose(again.covariance, moved.covariance, atol=1e-12)
    assert np.all(settled.hyper.rate != moved.hyper.rate)


@pytest.mark.parametrize("prior", [RIDGE, INFERRED], ids=type)
def test_the_belief_of_the_past_diverges_least(prior, rng):
    A, h = rng.normal(size=(4, 4)), 3 * rng.normal(size=4)
    natural = Natural(A @ A.T, h)
    old = prior.update(*natural, None)
    for _ in range(100):  # variances and weights at their common optimum
        old = prior.update(*natural, old)
    past = Past.of(prior, natural, old)
    # The least is found to the tolerance of the variances' inner updates, 1e-5 of them.
    assert abs(past.kl(old)) < 1e-6
    for size in (1e-2, 1e-1):
        for _ in range(10):
            assert past.kl(references.perturbed(old, size, rng)) > past.kl(old)


# Against one fit on everything -------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 100, 600])
@pytest.mark.parametrize("prior", [RIDGE, INFERRED], ids=type)
def test_a_gaussian_likelihood_loses_nothing(prior, size):
    problem = linear_problem(Gaussian(0.7), prior)
    stream, whole = streamed(problem, size), fitted(problem)
    # Inferred variances are found to 1e-5 in every update.
    rtol = 1e-8 if prior is RIDGE else 1e-4
    assert_allclose(stream.belief.mean, whole.belief.mean, rtol=rtol)
    assert_allclose(stream.belief.covariance, whole.belief.covariance, rtol=rtol, atol=1e-12)
    assert_allclose(stream.natural.G, whole.stats.G, rtol=1e-10)
    assert_allclose(stream.natural.h, whole.stats.h, rtol=1e-10, atol=1e-10)
    assert stream.weight == 600


#: Likelihoods, and how far latent means may lie from those of one fit, in its deviations: somewhat more than the
#: 1.1, .35, .35, 9.8 and .9 that were measured.  Deviations of the augmented hinge are far too small: those are .4.
CLOSE = [(Hinge(), 1.3), (Quadrature(Logistic()), 0.5), (Taylor(Logistic()), 0.5)]
CLOSE += [(AugmentedHinge(), 12.0), (JaakkolaJordan(), 1.2)]


def held_out_loss(problem, stream_or_belief, record, table):
    link = fit_logistic_link(*record)
    latent = replace(problem, table=table, _kept={}).latent(stream_or_belief)
    return np.mean(np.logaddexp(0, -table.y * link.score(latent.mu, latent.v)))


@pytest.mark.parametrize(("likelihood", "limit"), CLOSE, ids=repr)
def test_twenty_batches_come_close_to_one_fit(likelihood, limit):
    everything = kernel_problem(likelihood, n=15_000)
    problem = part(everything, np.arange(10_000))
    stream, whole = streamed(problem, 500), fitted(problem)
    ours, theirs = problem.latent(stream.belief), problem.latent(whole.belief)
    assert np.sqrt(np.mean((ours.mu - theirs.mu) ** 2 / theirs.spread)) < limit
    new = everything.table.rows(np.arange(10_000, 15_000))
    mu, v, usable = left_out(problem, whole.belief, np.ones(10_000))
    at_once = held_out_loss(problem, whole.belief, (mu, v, problem.table.y, 1.0 * usable), new)
    # Links and beliefs differ: together they cost less than the sd of a mean of 5000 losses, about .004.
    assert held_out_loss(problem, stream.belief, stream.record, new) < at_once + 0.004


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge()], ids=repr)
def test_variances_are_inferred_from_all_batches(likelihood):
    problem = linear_problem(likelihood, INFERRED, n=4000)
    stream, whole = streamed(problem, 400), fitted(problem)
    # The sum of squared coefficients, about 2, is known to a few percent of itself.
    assert_allclose(stream.belief.hyper.rate, whole.belief.hyper.rate, rtol=0.05)


def test_the_order_of_batches_hardly_matters(rng):
    problem = linear_problem(Hinge(), n=4000)
    whole = fitted(problem)
    for order in (np.arange(4000), rng.permutation(4000), np.argsort(problem.table.X[:, 0], kind="stable")):
        stream = streamed(problem, 400, order)
        # A table sorted by a column is the worst of these: one deviation a weight, against .2 in chance order.
        assert np.sqrt(stream.belief.moved_from(whole.belief) / 4) < 1.5


@pytest.mark.parametrize("prior", [RIDGE, INFERRED], ids=type)
@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), Quadrature(Logistic())], ids=repr)
def test_batches_of_one_class_are_taken(likelihood, prior):
    problem = linear_problem(likelihood, prior)
    of_class = [np.flatnonzero(problem.table.y == label) for label in (-1, 1)]
    stream, accuracy = None, []
    for start in range(0, 250, 50):
        for rows in of_class:
            stream, _ = absorb(stream, part(problem, rows[start : start + 50]))
            assert np.isfinite(stream.record.link().slope)
        accuracy.append(np.mean(np.sign(problem.latent(stream.belief).mu) == problem.table.y))
    # Noise of the labels leaves .82.  The augmented hinge is so sure of one class that a flat prior of the intercept
    # keeps nothing of it when the other comes: mixed batches are the cure.
    if not (prior is INFERRED and isinstance(likelihood, AugmentedHinge)):
        assert accuracy[-1] > 0.75


def test_weight_k_equals_k_repeats(rng):
    problem = linear_problem(Hinge())
    times = rng.integers(1, 4, size=600)
    heavy = replace(problem, table=problem.table._replace(weight=times.astype(float)), _kept={})
    repeated = part(problem, np.repeat(np.arange(600), times))
    ends = np.cumsum(times)
    one = streamed(heavy, 200, tol=1e-9)
    other, _ = absorb(None, part(repeated, np.arange(ends[199])), tol=1e-9)
    for start, stop in ((199, 399), (399, 599)):
        other, _ = absorb(other, part(repeated, np.arange(ends[start], ends[stop])), tol=1e-9)
    assert_allclose(one.belief.mean, other.belief.mean, atol=1e-5)
    assert one.weight == other.weight == times.sum()
    assert_allclose(one.record.link(), other.record.link(), atol=1e-4)


def test_torch_equals_numpy():
    problem = linear_problem(AugmentedHinge(), INFERRED)
    X, y, weight, size = problem.table
    tensors = replace(problem, table=Table(*map(torch.from_numpy, (X, y, weight)), size), _kept={})
    one, other = streamed(problem, 200), streamed(tensors, 200)
    assert isinstance(other.belief.mean, torch.Tensor)
    assert_allclose(to_numpy(other.belief.mean), one.belief.mean, atol=1e-6)
    assert_allclose(other.record.mu, one.record.mu, atol=1e-6)


# Forgetting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [RIDGE, INFERRED], ids=type)
def test_forgetting_everything_is_a_fit_on_the_last_batch(prior):
    problem = linear_problem(Hinge(), prior)
    stream, last = streamed(problem, 200, forgetting=1.0), part(problem, np.arange(400, 600))
    fresh = ascend(last, tol=1e-6, max_passes=50).point
    assert np.all(stream.belief.mean == fresh.belief.mean)
    assert stream.weight == 200
    assert len(stream.record.mu) == 200  # scored by the belief before, of which nothing else is left


def test_the_past_is_weakened_once_a_batch():
    problem = linear_problem(Gaussian(0.7))
    stream = streamed(problem, 200, forgetting=0.25)
    weight = np.repeat([0.75**2, 0.75, 1.0], 200)
    weighted = fitted(replace(problem, table=problem.table._replace(weight=weight), _kept={}))
    assert_allclose(stream.belief.mean, weighted.belief.mean, rtol=1e-8)
    assert_allclose(stream.weight, weight.sum())
    assert_allclose(stream.record.weight, weight)


def test_forgetting_follows_a_concept_that_drifts():
    before = linear_problem(Quadrature(Logistic()), n=4000)
    after = linear_problem(Quadrature(Logistic()), n=1000, seed=5, coefficients=(-1.0, 1.0, 0.5))
    errors = {}
    for forgetting in (0.0, 0.3):
        stream = streamed(before, 200, forgetting=forgetting)
        for start in range(0, 1000, 200):
            stream, _ = absorb(stream, part(after, np.arange(start, start + 200)), forgetting=forgetting)
        errors[forgetting] = np.mean(np.sign(after.latent(stream.belief).mu) != after.table.y)
    # Noise of the labels alone makes a fifth of them wrong; four fifths of all rows contradict the latest.
    assert errors[0.3] < 0.25
    assert errors[0.0] > errors[0.3] + 0.1


# The record --------------------------------------------------------------------------------------


def test_the_first_batch_is_scored_by_leaving_rows_out():
    problem = linear_problem(Hinge())
    stream, ascent = absorb(None, problem)
    mu, v, usable = left_out(problem, ascent.point.belief, np.ones(600))
    assert_allclose(stream.record.mu, mu)
    assert_allclose(stream.record.v, v)
    assert_allclose(stream.record.weight, usable)
    assert stream.record.link() == fit_logistic_link(mu, v, problem.table.y, 1.0 * usable)


def test_later_batches_are_scored_by_the_belief_before_them():
    problem = linear_problem(Hinge())
    first, _ = absorb(None, part(problem, np.arange(300)))
    second, ascent = absorb(first, part(problem, np.arange(300, 600)))
    latent = part(problem, np.arange(300, 600)).latent(first.belief)
    assert_allclose(second.record.mu, np.append(first.record.mu, latent.mu))
    assert_allclose(second.record.v, np.append(first.record.v, latent.v))
    assert_allclose(second.record.y, problem.table.y)
    assert ascent.point.belief is second.belief
    assert len(first.record.mu) == 300  # nothing is changed in place


def test_the_record_keeps_the_latest_rows(monkeypatch):
    monkeypatch.setattr("softmargin.streaming._RECORDED_ROWS", 250)
    problem = linear_problem(Hinge())
    assert len(streamed(problem, 600).record.y) == 250
    assert_allclose(streamed(problem, 100).record.y, problem.table.y[-250:])


def test_rows_of_no_weight_leave_the_record():
    old, new = (Record(*np.full((4, 3), value)) for value in (1.0, 2.0))
    new = new._replace(weight=np.array([1.0, 0.0, 2.0]))
    joined = old.followed_by(new, 0.5)
    assert_allclose(joined.weight, [0.5, 0.5, 0.5, 1, 2])
    assert_allclose(old.followed_by(new, 0.0).mu, [2, 2])


def test_one_ascent_is_watched_and_bounded():
    problem, monitor = linear_problem(Hinge()), Monitor()
    first, _ = absorb(None, part(problem, np.arange(300)), monitor=monitor, max_passes=2, tol=0.0)
    _, ascent = absorb(first, part(problem, np.arange(300, 600)), monitor=monitor, max_passes=3, tol=0.0)
    assert ascent.reason == "passes"
    assert len(monitor.history) == 5
