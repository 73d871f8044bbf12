"""The parts that give every class weights of its own, and the ascent that moves all of them."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.datasets import load_iris

import contracts
import references
import references_classes as naive
from softmargin import engine, together
from softmargin.arrays import combined, to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem, add, block_stats, objective
from softmargin.gaussian import Belief, ClassBelief, class_parts, with_hyper
from softmargin.kernels import RBF
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
from softmargin.loo import left_out, thinned
from softmargin.monitor import Monitor
from softmargin.priors import Classwise, LaplaceZero, Ridge, Structured, VarianceComponents
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows
from softmargin.single import in_single, may_be_single
from softmargin.steps import Ascender, Natural, Point, _Climb, ascend
from softmargin.streaming import Past, absorb
from softmargin.together import step_together

K = 3
PRIOR = Classwise((Ridge(np.array([0.5, 2.0, 0.01])), VarianceComponents(np.array([0, 0, -1])), Ridge.isotropic(3)))
PLAIN = Classwise.alike(Ridge.isotropic(6), K)
COUPLED = [Rivals(Hinge()), Rivals(AugmentedHinge()), Rivals(JaakkolaJordan()), Rivals(Quadrature()), Softmax()]
BOUNDS = [*COUPLED, OneVersusRest(JaakkolaJordan()), OneVersusRest(Hinge())]


def three_classes(n=60, seed=7, n_classes=K):
    """Rows whose classes overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = 1.5 * np.sin(X @ rng.normal(size=(2, n_classes)) * 1.5) + 0.6 * rng.normal(size=(n, n_classes))
    return X, f.argmax(axis=1).astype(float)


def small_problem(likelihood, weight=None, variance=4.0, block_rows=16, n_jobs=1, m=6, seed=7):
    X, y = three_classes(seed=seed)
    rows = ClasswiseRows(InducingRows.at(variance * RBF(1.0), X[:m]), K)
    weight = np.ones(len(y)) if weight is None else weight
    return Problem(Table(X, y, weight, block_rows), rows, likelihood, Classwise.alike(Ridge.isotropic(m), K), n_jobs)


def random_beliefs(n_weights, n_classes=K):
    return ClassBelief(tuple(contracts.random_belief(n_weights, seed) for seed in range(n_classes)))


def sums(n_weights, seed=3, n_classes=K):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n_classes, 2 * n_weights, n_weights))
    return tuple(part.T @ part for part in phi), tuple(3 * rng.normal(size=(n_classes, n_weights)))


def fitted(problem, **options):
    return ascend(problem, **({"tol": 1e-12, "max_passes": 1000} | options)).point


# Beliefs -----------------------------------------------------------------------------------------


def test_a_belief_of_classes_is_their_beliefs():
    belief, other = random_beliefs(4), ClassBelief(tuple(contracts.random_belief(4, 10 + k) for k in range(K)))
    assert belief.n_weights == 12
    assert belief.means.shape == (4, K)
    for k, part in enumerate(belief.parts):
        assert_array_equal(belief.means[:, k], part.mean)
    moved = sum(part.moved_from(before) for part, before in zip(belief.parts, other.parts, strict=True))
    assert_allclose(belief.moved_from(other), moved)
    replaced = belief.with_part(1, other.parts[0])
    assert [part is one for part, one in zip(replaced.parts, belief.parts, strict=True)] == [True, False, True]
    assert replaced.parts[1] is other.parts[0]
    assert class_parts(belief) == belief.parts
    assert class_parts(belief.parts[0]) == (belief.parts[0],)


def test_other_linear_terms_shift_the_means_of_each_class(rng):
    belief, change = random_beliefs(4), rng.normal(size=(4, K))
    shifted = belief.shifted(change)
    for k, (part, before) in enumerate(zip(shifted.parts, belief.parts, strict=True)):
        natural = np.linalg.solve(before.covariance, before.mean) + change[:, k]
        assert_allclose(part.mean, before.covariance @ natural, rtol=1e-8)
        assert_array_equal(part.root, before.root)


def test_products_with_the_covariance_and_its_inverse(rng):
    belief, x = contracts.random_belief(5), rng.normal(size=5)
    for convert in (np.asarray, torch.from_numpy):
        seen = Belief(*(convert(np.asarray(part)) for part in belief[:3]))
        assert_allclose(to_numpy(seen.covariance_times(convert(x))), belief.covariance @ x, rtol=1e-10)
        assert_allclose(to_numpy(seen.precision_times(convert(x))), np.linalg.solve(belief.covariance, x), rtol=1e-8)


def test_what_is_inferred_beside_the_weights_is_that_of_each_class_or_of_all():
    belief = ClassBelief(tuple(part._replace(hyper=k) for k, part in enumerate(random_beliefs(2).parts)))
    assert belief.hyper == (0, 1, 2)
    assert with_hyper(belief, "columns").hyper == "columns"
    assert with_hyper(belief, "columns").parts == belief.parts
    assert with_hyper(belief.parts[0], 7).hyper == 7


def test_draws_and_views_are_those_of_each_class():
    belief = random_beliefs(3)
    draws = belief.sample(5, np.random.RandomState(0))
    rng = np.random.RandomState(0)
    for own, part in zip(draws, belief.parts, strict=True):
        assert_array_equal(own, part.sample(5, rng))
    seen = belief.seen_by(torch.zeros(1, dtype=torch.float32))
    assert all(part.mean.dtype == part.root.dtype == torch.float32 for part in seen.parts)


# Priors ------------------------------------------------------------------------------------------


def test_a_prior_of_classes_is_their_priors():
    G, h = sums(3)
    alone = [prior.update(*part) for prior, *part in zip(PRIOR.priors, G, h, strict=True)]
    again = [prior.update(*part) for prior, *part in zip(PRIOR.priors, G, h, alone, strict=True)]
    belief = PRIOR.update(G, h)
    for got, wanted in ((belief, alone), (PRIOR.update(G, h, belief), again)):
        for part, one in zip(got.parts, wanted, strict=True):
            assert_allclose(part.mean, one.mean, rtol=1e-12)
            assert_allclose(part.covariance, one.covariance, rtol=1e-12)
    assert_allclose(PRIOR.kl(belief), sum(prior.kl(one) for prior, one in zip(PRIOR.priors, alone, strict=True)))
    given = PRIOR.given(G, h, belief.hyper)
    for prior, part, *rest in zip(PRIOR.priors, given.parts, G, h, alone, strict=True):
        assert_allclose(part.mean, prior.given(*rest[:2], rest[2].hyper).mean, rtol=1e-12)
    own, settled = PRIOR.settled(G, belief)
    for prior, part, *rest in zip(PRIOR.priors, settled.parts, own, G, alone, strict=True):
        wanted_G, wanted = prior.settled(rest[1], rest[2])
        assert_allclose(rest[0], wanted_G)
        assert_allclose(part.mean, wanted.mean)
    assert_array_equal(PRIOR.effective(belief).means, belief.means)


def test_changes_felt_by_classes_lie_side_by_side():
    belief = PRIOR.update(*sums(3))
    (G, _), (dG, dh), n = sums(3), sums(3, seed=5), 3 * 3 + 3
    felt = PRIOR.felt(belief, dG, dh)
    assert felt.shape == (K * n,)
    for k, (prior, part) in enumerate(zip(PRIOR.priors, belief.parts, strict=True)):
        assert_allclose(felt[k * n : (k + 1) * n], prior.felt(part, dG[k], dh[k]))
    alone = [prior.promised(*parts) for prior, *parts in zip(PRIOR.priors, G, dG, dh, belief.parts, strict=True)]
    assert_allclose(PRIOR.promised(G, dG, dh, belief), sum(alone))


def test_classes_start_as_each_would_alone():
    for reference in (np.zeros((1, 2), dtype=np.float32), torch.zeros((1, 2))):
        G, h = PRIOR.start(reference)
        for prior, own, linear in zip(PRIOR.priors, G, h, strict=True):
            wanted_G, wanted_h = prior.start(reference)
            assert type(own) is type(reference)
            assert_array_equal(to_numpy(own), to_numpy(wanted_G))
            assert_array_equal(to_numpy(linear), to_numpy(wanted_h))


def test_words_that_hold_for_all_classes_or_for_none():
    plain = Classwise.alike(Ridge.isotropic(2), 4)
    assert len(plain.priors) == 4
    assert plain.is_plain
    assert plain.is_gaussian
    assert plain.rough() is None
    choosing = Classwise((Ridge.isotropic(3), Structured(LaplaceZero(3, 0))))
    assert not choosing.is_plain
    assert not choosing.is_gaussian
    easier = choosing.rough()
    assert easier is not None
    assert easier.priors[0] == choosing.priors[0]
    assert easier.priors[1] != choosing.priors[1]


def test_alternatives_change_one_class_at_a_time():
    prior = Classwise.alike(Structured(LaplaceZero(3, 0)), 2)
    G, h = sums(3, n_classes=2)
    belief = prior.update(G, h)
    found = prior.alternatives(G, h, belief)
    alone = [prior.priors[k].alternatives(G[k], h[k], belief.parts[k]) for k in range(2)]
    assert len(found) == sum(map(len, alone)) > 0
    for k, other in zip(np.repeat([0, 1], [len(alone[0]), len(alone[1])]), found, strict=True):
        assert other.parts[1 - k] is belief.parts[1 - k]
        assert other.parts[k] is not belief.parts[k]


def test_drawn_weights_are_those_of_each_class():
    G, h = sums(3)
    belief = PRIOR.update(G, h)
    weights, hyper = PRIOR.drawn(G, h, belief, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    for prior, own, *rest in zip(PRIOR.priors, weights, G, h, belief.parts, strict=True):
        assert_allclose(own, prior.drawn(*rest, rng)[0])
    seen = PRIOR.seen_weights(weights, hyper)
    assert all(one is other for one, other in zip(seen, weights, strict=True))


# Rows --------------------------------------------------------------------------------------------


@pytest.fixture(params=["linear", "inducing"])
def rows(request, rng):
    Z = rng.normal(size=(5, 2))
    inducing = InducingRows.at(1.3 * RBF(0.9), Z)
    return ClasswiseRows(LinearRows(np.zeros(2), np.ones(2)) if request.param == "linear" else inducing, K)


def test_moments_and_sums_equal_loops_over_classes(rows, rng):
    X, base = rng.normal(size=(23, 2)), rows.rows
    belief, features = random_beliefs(rows.n_weights), rows.lift(X)
    latent, plain = features.moments(belief), base.lift(X)
    w, b = rng.uniform(0, 2, size=(23, K)), rng.normal(size=(23, K))
    G, h = features.gather(w, b)
    for k, part in enumerate(belief.parts):
        mu, spread, leftover = references.moments_by_loops(plain.phi, plain.leftover, part.mean, part.covariance)
        assert_allclose(latent.mu[:, k], mu, rtol=1e-9, atol=1e-12)
        assert_allclose(latent.spread[:, k], spread, rtol=1e-9)
        assert_allclose(latent.leftover[:, k], leftover, atol=1e-12)
        for got, wanted in zip((G[k], h[k]), references.gather_by_loops(plain.phi, w[:, k], b[:, k]), strict=True):
            assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)
    assert latent.v.shape == (23, K)
    assert (rows.n_weights, rows.width, rows.least_rows) == (base.n_weights, base.width, base.least_rows)


def test_latent_values_and_the_way_back_equal_loops(rows, rng):
    X = rng.normal(size=(11, 2))
    features, weights, values = rows.lift(X), rng.normal(size=(rows.n_weights, K)), rng.normal(size=(11, K))
    seen, pulled = np.zeros((11, K)), np.zeros((rows.n_weights, K))
    for i, phi in enumerate(features.phi):
        for k in range(K):
            seen[i, k] = phi @ weights[:, k]
            pulled[:, k] += phi * values[i, k]
    assert_allclose(features.seen(weights), seen, rtol=1e-10)
    assert_allclose(features.pulled(values), pulled, rtol=1e-10, atol=1e-12)
    assert_allclose(features.at(tuple(weights.T)), seen, rtol=1e-10)
    # The two are each other's transpose.
    assert_allclose(np.sum(values * features.seen(weights)), np.sum(weights * features.pulled(values)), rtol=1e-9)


def test_nothing_is_uncertain_about_these_rows(rows, rng):
    features = rows.lift(rng.normal(size=(4, 2)))
    assert features.settled(random_beliefs(rows.n_weights), Softmax(), np.zeros(4), np.ones(4)) == (features, 0.0)
    assert features.drawn(None, None, (None, None), None, None) is features
    assert features.leftover is features.base.leftover


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_quickest_way_to_new_rows_is_the_same_way(rows, dtype, rng):
    X, belief = rng.normal(size=(9, 2)).astype(dtype), random_beliefs(rows.n_weights)
    mu, v = rows.view(belief, X).moments(X)
    latent = rows.lift(X.astype(float)).moments(belief)
    tolerance = 1e-9 if dtype is np.float64 else 1e-3
    assert_allclose(mu, latent.mu, rtol=tolerance, atol=tolerance)
    assert_allclose(v, latent.v, rtol=tolerance, atol=tolerance)
    assert mu.shape == v.shape == (9, K)


@pytest.mark.parametrize("likelihood", [*COUPLED, CrammerSinger(), OneVersusRest()], ids=repr)
def test_parts_add_up_to_the_whole(rows, likelihood, rng):
    X, belief, weight = rng.normal(size=(23, 2)), random_beliefs(rows.n_weights), np.linspace(0, 3, 23)
    y = rng.integers(K, size=23).astype(float)

    def stats(part):
        return block_stats(rows.lift(X[part]), likelihood, belief, y[part], weight[part])

    whole, parts = stats(slice(None)), add(stats(slice(0, 9)), stats(slice(9, None)))
    assert_allclose(parts.bound, whole.bound, rtol=1e-10)
    for k in range(K):
        assert_allclose(parts.G[k], whole.G[k], rtol=1e-9, atol=1e-10)
        assert_allclose(parts.h[k], whole.h[k], rtol=1e-9, atol=1e-10)


def test_rows_agree_in_torch(rows, rng):
    X, w = rng.normal(size=(9, 2)), rng.uniform(size=(9, K))
    belief, tensor = random_beliefs(rows.n_weights), torch.from_numpy(X)
    ours, theirs = rows.lift(X), rows.lift(tensor)
    for got, wanted in zip(theirs.moments(belief.seen_by(tensor)), ours.moments(belief), strict=True):
        assert_allclose(to_numpy(got), wanted, rtol=1e-9, atol=1e-10)
    G, h = theirs.gather(torch.from_numpy(w), torch.from_numpy(w))
    for k, (own, linear) in enumerate(zip(*ours.gather(w, w), strict=True)):
        assert_allclose(G[k].numpy(), own, rtol=1e-9, atol=1e-10)
        assert_allclose(h[k].numpy(), linear, rtol=1e-9, atol=1e-10)
    values = torch.from_numpy(w)
    assert_allclose(theirs.pulled(values).numpy(), ours.pulled(w), rtol=1e-9)


# One pass ----------------------------------------------------------------------------------------


def naive_stats(problem, belief):
    X, y, weight, _ = problem.table
    features = problem.rows.rows.lift(scipy.sparse.csr_array(X).toarray())
    parts = [
        references.moments_by_loops(features.phi, features.leftover, part.mean, part.covariance)
        for part in belief.parts
    ]
    mu = np.stack([part[0] for part in parts], axis=1)
    v = np.stack([part[1] + part[2] for part in parts], axis=1)
    l, w, b = problem.likelihood.sites(y, mu, v)  # noqa: E741
    each = [references.gather_by_loops(features.phi, weight * w[:, k], weight * b[:, k]) for k in range(K)]
    return *zip(*each, strict=True), weight @ l, weight.sum()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("block_rows", [1, 7, 60, 100])
@pytest.mark.parametrize("likelihood", [Rivals(), OneVersusRest(AugmentedHinge()), Softmax()], ids=repr)
def test_passes_over_blocks_equal_loops_over_rows(likelihood, block_rows, n_jobs, rng):
    weight = rng.integers(0, 4, size=60).astype(float)
    problem = small_problem(likelihood, weight, block_rows=block_rows, n_jobs=n_jobs)
    belief = random_beliefs(6)
    G, h, bound, n = naive_stats(problem, belief)
    for _ in range(2):  # the second pass runs on kept features
        stats = problem.stats(belief)
        assert_allclose(stats.bound, bound, rtol=1e-10)
        assert stats.n == n
        for k in range(K):
            assert_allclose(stats.G[k], G[k], rtol=1e-8, atol=1e-9)
            assert_allclose(stats.h[k], h[k], rtol=1e-8, atol=1e-9)


def test_sparse_rows_are_the_same_rows():
    problem, belief = small_problem(Softmax()), random_beliefs(6)
    sparse = Problem(
        problem.table._replace(X=scipy.sparse.csr_array(problem.table.X)), problem.rows, Softmax(), problem.prior
    )
    assert_allclose(sparse.stats(belief).bound, problem.stats(belief).bound, rtol=1e-12)


def test_single_precision_features_serve_classes():
    problem = small_problem(Softmax())
    assert may_be_single(problem)
    assert not may_be_single(small_problem(CrammerSinger()))
    belief = random_beliefs(6)
    single = in_single(problem)
    wide, narrow = problem.stats_together(belief), single.stats_together(belief)
    assert single.features(0).phi.dtype == np.float32
    assert_allclose(narrow.bound, wide.bound, rtol=1e-5)
    for k in range(K):
        assert narrow.h[k].dtype == np.float64
        assert_allclose(narrow.h[k], wide.h[k], rtol=1e-3, atol=1e-3)


# All classes together ----------------------------------------------------------------------------


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


def test_a_climb_parts_for_twice_as_long_each_time_and_comes_together_again():
    climb = climb_of()
    climb.point = Point(None, None, None, 0.0)
    climb.part("each by itself", longest=0.5)
    assert (climb.rate, climb.apart, climb.point.stats) == (0.5, 2, "each by itself")
    accept(climb)
    assert (climb.rate, climb.apart) == (0.5, 1)
    accept(climb)
    assert climb.apart == 0
    assert len(climb.recent) == 1
    accept(climb)
    assert climb.rate == 1.0
    climb.point = Point(None, None, None, 0.0)
    climb.part("again", longest=0.5)
    assert climb.apart == 4


# Lengths of steps --------------------------------------------------------------------------------


def test_steps_are_never_longer_than_the_longest(monkeypatch):
    problem, rates = small_problem(Rivals()), []
    try_ = Ascender._try

    def watched(self, natural, point, climb):
        rates.append(climb.rate)
        return try_(self, natural, point, climb)

    monkeypatch.setattr(Ascender, "_try", watched)
    Ascender(problem.stats, problem.prior, problem.likelihood, problem.table.reference, longest=0.5).run()
    assert rates[0] == 0.5
    assert max(rates) == 0.5


class _Somewhere:
    """A point as far as a climb looks at it."""

    def __init__(self, objective=0.0):
        self.objective = objective


def climb_of(longest=1.0):
    return _Climb(_Somewhere(), 0, np.inf, longest)


def accept(climb, times=1, gain=1.0, ascending=True):
    for _ in range(times):
        climb.accept(_Somewhere(), gain, extrapolated=False, ascending=ascending)


def test_a_step_that_was_too_long_is_tried_again_after_twice_as_many():
    climb = climb_of(longest=0.5)
    assert climb.rate == 0.5
    climb.reject(extrapolated=False)
    assert climb.rate == 0.25
    accept(climb)
    assert climb.rate == 0.5  # the first shorter step that ascends is enough
    waits = []
    for _ in range(6):  # each time it grows and fails
        climb.reject(extrapolated=False)
        wait = 0
        while climb.rate < 0.5:
            accept(climb)
            wait += 1
        waits.append(wait)
    assert waits[0] <= waits[1] <= waits[2]
    assert waits[-1] == max(waits) > waits[0]
    assert max(waits) <= 10  # and not for ever


def test_a_step_that_did_not_grow_is_not_held_against_growth():
    climb = climb_of()
    for _ in range(3):
        climb.reject(extrapolated=False)  # the first steps of a climb, none of which grew
    accept(climb)
    assert climb.rate == 0.25
    accept(climb, 2)
    assert climb.rate == 1.0


def test_without_a_bound_steps_shorten_when_the_way_does_not():
    climb = climb_of(longest=0.5)
    accept(climb, gain=1.0, ascending=False)
    accept(climb, gain=2.0, ascending=False)
    assert climb.rate == 0.25
    accept(climb, gain=1.0, ascending=False)
    assert climb.rate == 0.5


# Leaving out, and rows that are gone -------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [*BOUNDS, CrammerSinger(), CrammerSinger(Hinge())], ids=repr)
def test_leaving_out_is_a_newton_step_of_each_class_without_the_row(likelihood, rng):
    weight = rng.choice([0.5, 1.0, 2.0], size=60)
    problem = small_problem(likelihood, weight)
    belief = fitted(problem, tol=1e-14).belief
    unit = np.minimum(weight, 1)
    without = left_out(problem, belief, unit)
    latent, y = problem.latent(belief), problem.table.y
    sites = likelihood.sites(y, latent.mu, latent.v)
    phi = problem.rows.rows.lift(problem.table.X).phi
    slopes, bends = sites.b - sites.w * latent.mu, likelihood.curvature(y, latent.mu, latent.v)
    wanted = naive.left_out_means(phi, [np.eye(6)] * K, slopes, bends, weight, unit, belief.means)
    assert without.usable.shape == (60,)
    assert_allclose(without.mu[without.usable], wanted[without.usable], atol=2e-4)
    for k in range(K):
        _, v = references.left_out_by_refitting(
            phi, latent.leftover[:, k], np.eye(6), sites.w[:, k], sites.b[:, k], np.ones(60)
        )
        share = unit * sites.w[:, k] * latent.spread[:, k]
        assert_allclose(without.v[:, k], latent.leftover[:, k] + latent.spread[:, k] / (1 - share), rtol=1e-9)
        assert v.shape == (60,)


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
