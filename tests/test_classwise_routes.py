"""Classes by several routes that end alike, and rows that are left out or gone."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import references
import references_classes as naive
from softmargin.arrays import combined, to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.likelihoods import (
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    JaakkolaJordan,
    OneVersusRest,
    Quadrature,
    Rivals,
    Softmax,
)
from softmargin.loo import LeftOut, _by_squares, _responding, joint_share, left_out, thinned
from softmargin.priors import Classwise, Ridge
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows
from softmargin.steps import Natural
from softmargin.streaming import Past, absorb
from test_classwise import BOUNDS, K, fitted, small_problem
from test_likelihoods_classes import whole_hessians

# One model, several routes -----------------------------------------------------------------------


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge(), JaakkolaJordan(), Quadrature()], ids=repr)
def test_one_versus_rest_is_as_many_models_of_two_classes(base):
    problem = small_problem(OneVersusRest(base))
    X, y, weight, block_rows = problem.table
    point, total = fitted(problem), 0.0
    latent = problem.latent(point.belief)
    without = left_out(problem, point.belief, np.ones(60))
    for k, part in enumerate(point.belief.parts):
        signs = np.where(y == k, 1.0, -1.0)
        alone = Problem(Table(X, signs, weight, block_rows), problem.rows.rows, base, Ridge.isotropic(6))
        one = fitted(alone)
        total += one.objective
        assert_allclose(part.mean, one.belief.mean, atol=2e-5)
        assert_allclose(part.covariance, one.belief.covariance, atol=2e-5)
        assert_allclose(latent.mu[:, k], alone.latent(one.belief).mu, atol=2e-5)
        left = left_out(alone, one.belief, np.ones(60))
        assert_allclose(without.mu[:, k], left.mu, atol=1e-4)
        assert_allclose(without.v[:, k], left.v, atol=1e-4)
        # At one and the same belief it is the same to the last digits.
        sites = problem.stats(point.belief)
        same = alone.stats(part)
        assert_allclose(sites.G[k], same.G, rtol=1e-12, atol=1e-13)
        assert_allclose(sites.h[k], same.h, rtol=1e-12, atol=1e-13)
    assert_allclose(point.objective, total, rtol=1e-10)


@pytest.mark.parametrize("likelihood", [Rivals(), Softmax(), CrammerSinger()], ids=repr)
def test_blocks_and_threads_change_nothing(likelihood):
    whole = fitted(small_problem(likelihood, block_rows=60), tol=1e-8)
    for block_rows in (1, 13, 59):
        runs = [
            fitted(small_problem(likelihood, block_rows=block_rows, n_jobs=jobs), tol=1e-8, max_passes=50)
            for jobs in (1, 2)
        ]
        # Blocks are added in their order whoever computes them: threads agree to the last bit.
        assert_array_equal(runs[1].belief.means, runs[0].belief.means)
        assert_allclose(runs[0].objective, whole.objective, rtol=1e-9)
        assert_allclose(runs[0].belief.means, whole.belief.means, atol=1e-5)


@pytest.mark.parametrize("likelihood", [*BOUNDS, CrammerSinger()], ids=repr)
def test_weight_k_equals_k_repeats_in_any_order(likelihood, rng):
    times = rng.integers(0, 4, size=60)
    weighted = small_problem(likelihood, times.astype(float))
    X, y, _, _ = weighted.table
    copies = rng.permutation(np.repeat(np.arange(60), times))
    repeated = Problem(Table(X[copies], y[copies], np.ones(len(copies)), 16), weighted.rows, likelihood, weighted.prior)
    one, other = fitted(weighted, tol=1e-9), fitted(repeated, tol=1e-9)
    assert_allclose(one.objective, other.objective, rtol=1e-9)
    assert_allclose(one.belief.means, other.belief.means, atol=1e-5)
    assert one.stats.n == other.stats.n == times.sum()


@pytest.mark.parametrize("likelihood", [*BOUNDS, CrammerSinger()], ids=repr)
def test_classes_in_another_order_have_their_beliefs_in_that_order(likelihood):
    problem, order = small_problem(likelihood), np.array([2, 0, 1])
    X, y, weight, block_rows = problem.table
    renamed = Table(X, np.argsort(order)[y.astype(int)].astype(float), weight, block_rows)
    one = fitted(problem, tol=1e-9)
    other = fitted(Problem(renamed, problem.rows, likelihood, problem.prior), tol=1e-9)
    assert_allclose(other.objective, one.objective, rtol=1e-9)
    assert_allclose(other.belief.means, one.belief.means[:, order], atol=1e-5)


@pytest.mark.parametrize(
    "likelihood", [Rivals(), Softmax(), OneVersusRest(JaakkolaJordan()), CrammerSinger()], ids=repr
)
def test_torch_equals_numpy(likelihood):
    ours = small_problem(likelihood)
    X, y, weight, block_rows = ours.table
    tensors = Table(*map(torch.from_numpy, (X, y, weight)), block_rows)
    rows = ClasswiseRows(InducingRows.at(ours.rows.rows.kernel, tensors.X[:6]), K)
    theirs = Problem(tensors, rows, likelihood, ours.prior)
    one, other = fitted(theirs, tol=1e-8), fitted(ours, tol=1e-8)
    assert isinstance(one.belief.parts[0].mean, torch.Tensor)
    assert_allclose(one.objective, other.objective, rtol=1e-7)
    assert_allclose(to_numpy(one.belief.means), other.belief.means, atol=1e-4)


# Leaving out, and rows that are gone -------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [*BOUNDS, CrammerSinger(), CrammerSinger(Hinge())], ids=repr)
def test_leaving_out_is_a_newton_step_of_each_class_as_far_as_a_joint_one(likelihood, rng):
    weight = rng.choice([0.5, 1.0, 2.0], size=60)
    problem = small_problem(likelihood, weight)
    belief = fitted(problem, tol=1e-14).belief
    unit = np.minimum(weight, 1)
    without = left_out(problem, belief, unit)
    latent, y = problem.latent(belief), problem.table.y
    sites = likelihood.sites(y, latent.mu, latent.v)
    phi = problem.rows.rows.lift(problem.table.X).phi
    slopes, bends = sites.b - sites.w * latent.mu, likelihood.curvature(y, latent.mu, latent.v)
    alone = naive.left_out_means(phi, [np.eye(6)] * K, slopes, bends, weight, unit, belief.means) - latent.mu
    assert without.usable.shape == (60,)
    moved = without.mu - latent.mu
    if likelihood.couples:
        hessians = whole_hessians(likelihood, y, latent.mu, latent.v)
        to = naive.jointly_left_out_means(phi, [np.eye(6)] * K, slopes, hessians, weight, unit, belief.means)
        joint, apart = (part - part.mean(axis=1, keepdims=True) for part in (to - latent.mu, alone))
        each = np.sum(joint * apart, axis=1) / np.sum(apart**2, axis=1)
        share = np.average(each, weights=weight * np.sum(apart**2, axis=1))
        assert 0.4 < share < 0.95
        # It is estimated from 24 of the 60 rows, by conjugate gradients that end at 3 % of the slope.
        assert np.sum(moved * alone) / np.sum(alone**2) == pytest.approx(share, rel=0.05)
        alone = alone * np.sum(moved * alone) / np.sum(alone**2)
    assert_allclose(moved[without.usable], alone[without.usable], atol=2e-4)
    for k in range(K):
        _, v = references.left_out_by_refitting(
            phi, latent.leftover[:, k], np.eye(6), sites.w[:, k], sites.b[:, k], np.ones(60)
        )
        share = unit * sites.w[:, k] * latent.spread[:, k]
        assert_allclose(without.v[:, k], latent.leftover[:, k] + latent.spread[:, k] / (1 - share), rtol=1e-9)
        assert v.shape == (60,)


@pytest.mark.parametrize("likelihood", [Rivals(), Softmax(), CrammerSinger()], ids=repr)
def test_the_share_of_joint_steps_is_that_of_the_rows_that_are_drawn(likelihood, rng, monkeypatch):
    """To all digits, if the conjugate gradients go on; classes of unequal size have unequal steps."""
    monkeypatch.setattr("softmargin.together._ENOUGH", 1e-24)
    weight = rng.choice([0.5, 1.0, 2.0], size=60) * np.where(small_problem(likelihood).table.y == 0, 3.0, 0.5)
    problem, unit = small_problem(likelihood, weight), np.minimum(weight, 1)
    belief = fitted(problem, tol=1e-14).belief
    latent, y = problem.latent(belief), problem.table.y
    sites, phi = likelihood.sites(y, latent.mu, latent.v), problem.rows.rows.lift(problem.table.X).phi
    slopes, bends = sites.b - sites.w * latent.mu, likelihood.curvature(y, latent.mu, latent.v)
    rest = [np.eye(6)] * K, slopes
    # Class-wise steps of which one row is not usable.
    apart = LeftOut(naive.left_out_means(phi, *rest, bends, weight, unit, belief.means), latent.v, np.arange(60) != 7)
    hessians = whole_hessians(likelihood, y, latent.mu, latent.v)
    # At the end of an ascent, the gradient without a row is minus that of the row.
    joint = naive.jointly_left_out_means(phi, *rest, hessians, weight, unit, belief.means) - latent.mu
    alone, joint = (part - part.mean(axis=1, keepdims=True) for part in (apart.mu - latent.mu, joint))
    alone[7] = 0
    drawn = _by_squares(alone, weight)
    wanted = np.mean(np.sum(alone * joint, axis=1)[drawn] / np.sum(alone**2, axis=1)[drawn])
    responding = belief if likelihood.site_is_curvature else _responding(problem, belief, bends)
    share = joint_share(problem, responding, (latent.mu, latent.v), slopes, unit, apart)
    assert share == pytest.approx(wanted, rel=1e-3)
    nothing = apart._replace(mu=latent.mu)
    assert joint_share(problem, responding, (latent.mu, latent.v), slopes, unit, nothing) == 1.0


def test_rows_for_joint_steps_are_drawn_by_the_squares_of_their_steps():
    steps = np.zeros((48, 2))
    steps[:, 0] = 1e-3
    assert _by_squares(steps, np.ones(48)).tolist() == list(range(0, 48, 2))
    steps[40] = [0.0, 1.0]  # as good as all there is
    assert _by_squares(steps, np.ones(48)).tolist() == [40] * 24
    steps[3] = [1.0, 1e-9]  # and one that is as long: each gets half, in the order of their lengths
    assert sorted(_by_squares(steps, np.ones(48)).tolist()) == [3] * 12 + [40] * 12
    assert sorted(_by_squares(steps, np.where(np.arange(48) == 3, 3.0, 1.0)).tolist()) == [3] * 18 + [40] * 6
    assert _by_squares(np.eye(5)[:, :1], np.ones(5)).tolist() == [0] * 24
    assert _by_squares(np.zeros((5, 2)), np.ones(5)).tolist() == []
    assert _by_squares(np.full((5, 2), np.inf), np.ones(5)).tolist() == []


@pytest.mark.parametrize("likelihood", [Rivals(), Softmax(), OneVersusRest(), CrammerSinger()], ids=repr)
def test_a_row_is_usable_if_all_of_its_classes_are(likelihood):
    problem = small_problem(likelihood, np.full(60, 1.0))
    belief = fitted(problem, tol=1e-6).belief
    usable = left_out(problem, belief, np.ones(60)).usable
    none = left_out(problem, belief, np.full(60, 1e9)).usable
    assert usable.all()
    assert none.shape == (60,)
    assert none.sum() < 60


def test_a_thinned_problem_keeps_what_each_class_weighs(rng):
    y = rng.choice(4, size=5000, p=[0.9, 0.07, 0.02, 0.01]).astype(float)
    X, weight = rng.normal(size=(5000, 2)), rng.uniform(0.5, 2, size=5000)
    rows = ClasswiseRows(LinearRows(np.zeros(2), np.ones(2)), 4)
    problem = Problem(Table(X, y, weight, 256), rows, Rivals(), Classwise.alike(Ridge.isotropic(3), 4))
    some, unit = thinned(problem, weight, at_most=400)
    assert len(unit) == some.table.n_rows == 400
    for k in range(4):
        assert_allclose(some.table.weight[some.table.y == k].sum(), weight[y == k].sum())
        assert np.sum(some.table.y == k) >= min(np.sum(y == k), 50)


def test_the_past_of_classes_is_a_gaussian_for_each(rng):
    problem = small_problem(Softmax())
    stream, ascent = absorb(None, problem, tol=1e-9)
    again, more = absorb(stream, problem, tol=1e-9)
    assert again.weight == 120
    assert again.record.mu.shape == (120, K)
    assert more.point.belief.moved_from(ascent.point.belief) > 0.01
    prior, natural = Ridge.isotropic(6), Natural(stream.natural.G[1], stream.natural.h[1])
    past = Past.of(prior, natural, stream.belief.parts[1])
    zero = combined(natural, -1, natural)
    assert abs(float(past.kl(past.update(*zero)))) < 1e-9  # nothing new, nothing moves
    assert_allclose(past.update(*zero).mean, np.linalg.solve(natural.G + np.eye(6), natural.h))


@pytest.mark.parametrize("likelihood", [Softmax(), Rivals(JaakkolaJordan())], ids=repr)
def test_rows_of_the_past_are_remembered_by_their_curvature(likelihood):
    """``sum k phi phi'`` and ``sum (g + k mu) phi``: the slope of each class is what it was, where the belief was."""
    problem = small_problem(likelihood)
    stream, ascent = absorb(None, problem, tol=1e-12, max_passes=500)
    latent, y = problem.latent(ascent.point.belief), problem.table.y
    phi = problem.rows.rows.lift(problem.table.X).phi
    _, w, b = likelihood.sites(y, latent.mu, latent.v)
    k = likelihood.curvature(y, latent.mu, latent.v)
    for j in range(K):
        G, h = references.gather_by_loops(phi, k[:, j], b[:, j] + (k[:, j] - w[:, j]) * latent.mu[:, j])
        assert_allclose(stream.natural.G[j], G, rtol=1e-9, atol=1e-10)
        assert_allclose(stream.natural.h[j], h, rtol=1e-9, atol=1e-10)
