"""The parts that give every class weights of its own, and the ascent that moves all of them."""

import numpy as np
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal

import contracts
import references
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem, add, block_stats
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
from softmargin.priors import Classwise, LaplaceZero, Ridge, Structured, VarianceComponents
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows
from softmargin.single_precision import in_single, may_be_single
from softmargin.steps import ascend

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


def test_about_an_alternative_all_other_classes_stay():
    prior = Classwise.alike(Structured(LaplaceZero(3, 0)), 2)
    (G, h), (other_G, other_h) = sums(3, n_classes=2), sums(3, n_classes=2, seed=1)
    belief = prior.update(G, h)
    other = prior.alternatives(G, h, belief)[-1]
    assert other.parts[0] is belief.parts[0]
    about = prior.about(belief, other)
    assert about.is_plain == prior.is_plain
    assert about.is_gaussian == prior.is_gaussian
    moved, whole = about.update(other_G, other_h, other), prior.update(other_G, other_h, other)
    assert moved.parts[0] is belief.parts[0]
    assert_allclose(moved.parts[1].mean, whole.parts[1].mean)
    assert about.given(other_G, other_h, other.hyper).parts[0] is belief.parts[0]
    assert about.settled(other_G, moved)[1].parts[0] is belief.parts[0]
    assert_allclose(about.kl(moved), prior.kl(moved))
    assert_allclose(about.effective(moved).means, prior.effective(moved).means)
    assert len(about.felt(moved, G, h)) == len(prior.priors[1].felt(moved.parts[1], G[1], h[1]))


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
    assert_allclose(features.latent_of(weights), seen, rtol=1e-10)
    assert_allclose(features.pulled(values), pulled, rtol=1e-10, atol=1e-12)
    assert_allclose(features.at(tuple(weights.T)), seen, rtol=1e-10)
    # The two are each other's transpose.
    assert_allclose(np.sum(values * features.latent_of(weights)), np.sum(weights * features.pulled(values)), rtol=1e-9)


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
