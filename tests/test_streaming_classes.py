"""Streams of several classes that a likelihood couples: what past rows say of differences between classes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianLinearSVC, coupling, load
from softmargin.arrays import combined, to_numpy
from softmargin.chunks import Table
from softmargin.coupling import CoupledProblem, Coupling
from softmargin.likelihoods import AugmentedHinge, CrammerSinger, Gaussian, Hinge, OneVersusRest, Rivals, Softmax
from softmargin.rows import IncompleteRows
from softmargin.streaming import absorb, begun
from test_classwise import K, fitted, small_problem, three_classes
from test_likelihoods_classes import whole_hessians
from test_streaming import part, streamed

COUPLED = [Softmax(), Rivals(Hinge()), Rivals(AugmentedHinge()), CrammerSinger()]
EXACTLY = {"tol": 1e-12, "max_passes": 500}


def by_loops(problem, belief):
    """Minus the coupling of all pairs of classes, row by row."""
    latent, (X, y, weight, _) = problem.latent(belief), problem.table
    phi, hessians = problem.rows.rows.lift(X).phi, whole_hessians(problem.likelihood, y, latent.mu, latent.v)
    pairs = [(j, k) for j in range(K) for k in range(j + 1, K)]
    rows = range(len(y))
    return [-sum(weight[i] * hessians[i, j, k] * np.outer(phi[i], phi[i]) for i in rows) for j, k in pairs]


@pytest.mark.parametrize("likelihood", COUPLED, ids=repr)
def test_the_coupling_of_rows_is_their_curvature_between_classes(likelihood, rng):
    problem = small_problem(likelihood, weight=rng.integers(0, 3, size=60).astype(float))
    stream, ascent = absorb(None, problem)
    assert_allclose(stream.coupling.pairs, by_loops(problem, ascent.point.belief), atol=1e-10)


def test_slopes_change_by_the_coupling_with_all_other_classes(rng):
    A, x = rng.normal(size=(6, 5, 5)), rng.normal(size=(5, 4))
    pairs = dict(zip([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], A, strict=True))
    wanted = [sum(pairs[min(j, k), max(j, k)] @ x[:, j] for j in range(4) if j != k) for k in range(4)]
    assert_allclose(Coupling(A).pulled(x), np.stack(wanted, axis=1))


@pytest.mark.parametrize("size", [1, 7, 30])
def test_a_quadratic_loss_of_differences_loses_nothing(size):
    """Past rows class by class would be a third too weak for differences between three classes."""
    problem = small_problem(Rivals(Gaussian(0.7)))
    stream, whole = streamed(problem, size, **EXACTLY), fitted(problem)
    assert_allclose(stream.belief.means, whole.belief.means, atol=1e-5)
    for one, other in zip(stream.belief.parts, whole.belief.parts, strict=True):
        assert_allclose(one.covariance, other.covariance, rtol=1e-8, atol=1e-12)


def test_a_quadratic_loss_loses_nothing_by_batches_that_have_not_converged():
    """What a joint step would have changed is not counted twice."""
    problem = small_problem(Rivals(Gaussian(0.7)))
    stream = None
    for start, options in ((0, {"tol": 0.3}), (20, {"max_passes": 1}), (40, EXACTLY)):
        stream, _ = absorb(stream, part(problem, np.arange(start, start + 20)), **options)
    assert_allclose(stream.belief.means, fitted(problem).belief.means, atol=1e-5)


def apart(stream, problem):
    """How far differences between classes lie from those of one fit, in deviations of the fit."""
    ours, theirs = problem.latent(stream.belief), problem.latent(fitted(problem).belief)
    away = ours.mu - theirs.mu
    return np.sqrt(np.mean((away - away.mean(axis=1, keepdims=True)) ** 2 / theirs.spread))


@pytest.mark.parametrize(("likelihood", "share"), [(Softmax(), 0.7), (Rivals(Hinge()), 0.95)], ids=repr)
def test_batches_come_closer_to_one_fit(monkeypatch, likelihood, share):
    """The shares that were measured are .57 and .90."""
    X, y = three_classes(n=400)
    together, alone = [], []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(400)
        problem = replace(small_problem(likelihood), table=Table(X[order], y[order], np.ones(400), 64), _kept={})
        together.append(apart(streamed(problem, 20), problem))
        with monkeypatch.context() as patch:
            patch.setattr(coupling, "_MOST", 0)
            alone.append(apart(streamed(problem, 20), problem))
    assert np.mean(together) < share * np.mean(alone)


def test_the_objective_of_a_batch_is_measured_from_the_past_alone():
    """Nothing is gained or lost where the past is centred, and slopes are the derivatives of the objective."""
    problem = small_problem(Softmax())
    stream, _ = absorb(None, problem, **EXACTLY)
    coupled = CoupledProblem.of(problem, stream.coupling, stream.belief)
    assert_array_equal(coupled.stats(stream.belief).bound, problem.stats(stream.belief).bound)
    away = stream.belief.shifted(np.random.default_rng(0).normal(size=(6, K)))
    change = np.random.default_rng(1).normal(size=(6, K))

    def gained(length):
        there = replace_means(away, away.means + length * change)
        return float(coupled.stats(there).bound - problem.stats(there).bound)

    slopes = np.stack(coupled.slopes_at(away), axis=1)
    assert_allclose((gained(1e-4) - gained(-1e-4)) / 2e-4, np.sum(slopes * change), rtol=1e-6)


def test_joint_steps_answer_for_past_rows_too(rng):
    problem = small_problem(Softmax())
    stream, _ = absorb(None, problem, **EXACTLY)
    coupled, x = CoupledProblem.of(problem, stream.coupling, stream.belief), rng.normal(size=(6, K))
    (_, own), (_, answer) = (each.stats_and_answer(stream.belief) for each in (problem, coupled))
    assert_allclose(answer(x), own(x) + stream.coupling.pulled(x))
    assert np.abs(answer(x) - own(x)).max() > 1


def replace_means(belief, means):
    return belief._replace(parts=tuple(one._replace(mean=means[:, k]) for k, one in enumerate(belief.parts)))


@pytest.mark.parametrize("likelihood", [Softmax(), Rivals(Hinge())], ids=repr)
def test_forgetting_weakens_the_coupling(likelihood):
    problem = small_problem(likelihood)
    first, _ = absorb(None, part(problem, np.arange(30)))
    both, _ = absorb(first, part(problem, np.arange(30, 60)), forgetting=0.25)
    new = Coupling.of(part(problem, np.arange(30, 60)), both.belief)
    assert_allclose(both.coupling.pairs, combined(new, 0.75, first.coupling).pairs)
    fresh, _ = absorb(first, part(problem, np.arange(30, 60)), forgetting=1.0)
    assert_allclose(fresh.coupling.pairs, Coupling.of(part(problem, np.arange(30, 60)), fresh.belief).pairs)


def test_there_is_no_coupling_without_need_or_room(monkeypatch):
    assert absorb(None, small_problem(OneVersusRest(Hinge())))[0].coupling is None
    problem = small_problem(Softmax())
    monkeypatch.setattr(coupling, "_MOST", 3 * 6**2)
    stream, ascent = absorb(None, problem)
    assert stream.coupling is not None
    assert begun(problem, ascent, stream.record).coupling is None  # a fit does not pay for what only streams need
    monkeypatch.setattr(coupling, "_MOST", 3 * 6**2 - 1)
    assert absorb(None, problem)[0].coupling is None


def test_there_is_no_coupling_of_rows_that_are_not_dense():
    """Of rows with missing entries features depend on the belief."""
    problem = small_problem(Softmax())
    belief = absorb(None, problem)[0].belief
    assert Coupling.of(problem, belief) is not None
    assert Coupling.of(replace(problem, rows=IncompleteRows(problem.rows, 2)), belief) is None


def test_torch_equals_numpy():
    problem = small_problem(Softmax())
    X, y, weight, size = problem.table
    tensors = replace(problem, table=Table(*map(torch.from_numpy, (X, y, weight)), size), _kept={})
    one, other = (streamed(each, 20, **EXACTLY) for each in (problem, tensors))
    assert isinstance(other.coupling.pairs, torch.Tensor)
    assert_allclose(to_numpy(other.coupling.pairs), one.coupling.pairs, atol=1e-6)
    assert_allclose(to_numpy(other.belief.means), one.belief.means, atol=1e-6)


def test_a_stored_stream_goes_on_as_before(tmp_path):
    X, y = three_classes(n=120)
    model = BayesianLinearSVC().partial_fit(X[:80], y[:80], classes=[0.0, 1.0, 2.0])
    model.save(tmp_path / "model.sm")
    again = load(tmp_path / "model.sm")
    more = partial(BayesianLinearSVC.partial_fit, X=X[80:], y=y[80:])
    assert_array_equal(more(again).predict_proba(X), more(model).predict_proba(X))
