import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import contracts
import references
from softmargin import engine, together
from softmargin.chunks import Table
from softmargin.engine import Problem, Stats, add, block_stats, objective
from softmargin.gaussian import ClassBelief
from softmargin.kernels import RBF
from softmargin.likelihoods import AugmentedHinge, Hinge, Softmax
from softmargin.priors import Classwise, Ridge, VarianceComponents
from softmargin.rows import ClasswiseRows, InducingRows, LinearRows

ROWS = LinearRows(np.array([0.1, -0.2]), np.array([1.0, 2.0]))


@pytest.fixture
def data(rng):
    X = rng.normal(size=(29, 2))
    return X, np.sign(X[:, 0] + 0.3), rng.integers(0, 4, size=29).astype(float)


def naive_stats(phi, likelihood, belief, y, weight):
    mu, spread, leftover = references.moments_by_loops(phi, np.zeros(len(phi)), belief.mean, belief.covariance)
    l, w, b = likelihood.sites(y, mu, spread + leftover)  # noqa: E741
    return *references.gather_by_loops(phi, weight * w, weight * b), weight @ l, weight.sum()


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge()], ids=repr)
def test_stats_of_a_block_equal_loops(likelihood, data):
    X, y, weight = data
    belief = contracts.random_belief(3)
    wanted = naive_stats(ROWS.lift(X).phi, likelihood, belief, y, weight)
    for got, part in zip(block_stats(ROWS.lift(X), likelihood, belief, y, weight)[:4], wanted, strict=True):
        assert_allclose(got, part, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("block_rows", [1, 7, 28, 29, 100])
@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_passes_over_blocks_equal_loops_over_rows(convert, block_rows, n_jobs, data):
    X, y, weight = data
    belief = contracts.random_belief(3)
    problem = Problem(Table(convert(X), y, weight, block_rows), ROWS, Hinge(), Ridge.isotropic(3), n_jobs)
    wanted = naive_stats(ROWS.lift(X).phi, Hinge(), belief, y, weight)
    for _ in range(2):  # the second pass runs on kept features
        for got, part in zip(problem.stats(belief)[:4], wanted, strict=True):
            assert_allclose(got, part, rtol=1e-10, atol=1e-12)
    mu, spread, leftover = references.moments_by_loops(ROWS.lift(X).phi, 0 * y, belief.mean, belief.covariance)
    latent = problem.latent(belief)
    assert_allclose(latent.mu, mu, rtol=1e-10)
    assert_allclose(latent.spread, spread, rtol=1e-10)
    assert_allclose(latent.leftover, leftover)


def test_features_are_kept_only_where_they_fit(data, monkeypatch):
    X, y, weight = data
    lifted = []

    class CountingRows(LinearRows):
        def lift(self, X):
            lifted.append(len(X))
            return super().lift(X)

    rows = CountingRows(*ROWS)
    belief = contracts.random_belief(3)
    problem = Problem(Table(X, y, weight, 10), rows, Hinge(), Ridge.isotropic(3))
    problem.stats(belief), problem.stats(belief)
    assert lifted == [10, 10, 9]
    monkeypatch.setattr(engine, "_CACHE_BYTES", 29 * 3 * 8 - 1)
    lifted.clear()
    problem = Problem(Table(X, y, weight, 10), rows, Hinge(), Ridge.isotropic(3))
    problem.stats(belief), problem.stats(belief)
    assert lifted == [10, 10, 9, 10, 10, 9]


def test_stats_add_up():
    one, other = Stats(np.eye(2), np.ones(2), -1.0, 3.0), Stats(2 * np.eye(2), -np.ones(2), -2.5, 1.0)
    G, h, bound, n, _ = add(one, other)
    assert_allclose(G, 3 * np.eye(2))
    assert_allclose(h, 0)
    assert (bound, n) == (-3.5, 4.0)


@pytest.mark.parametrize("prior", [Ridge.isotropic(3), VarianceComponents(np.array([0, 0, -1]))], ids=type)
def test_objective_is_the_bound_less_the_divergence(prior, data):
    X, y, weight = data
    belief = prior.update(*contracts._sums(3), None)
    stats = block_stats(ROWS.lift(X), Hinge(), belief, y, weight)
    assert_allclose(objective(stats.bound, prior, belief), stats.bound - prior.kl(belief), rtol=1e-12)


def test_rows_of_no_weight_are_not_there(data):
    X, y, weight = data
    there = weight > 0
    belief = contracts.random_belief(3)
    every = Problem(Table(X, y, weight, 8), ROWS, Hinge(), Ridge.isotropic(3)).stats(belief)
    some = Problem(Table(X[there], y[there], weight[there], 8), ROWS, Hinge(), Ridge.isotropic(3)).stats(belief)
    assert not there.all()
    for got, wanted in zip(every, some, strict=True):
        assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def test_single_precision_rows_give_double_precision_stats(rng):
    X = rng.normal(size=(500, 2))
    y, weight = np.sign(X[:, 0]), np.ones(500)
    points = X[:20]
    parts = []
    for dtype in (np.float64, np.float32):
        rows = InducingRows.at(RBF(0.5), points.astype(dtype))
        table = Table(X.astype(dtype), y.astype(dtype), weight.astype(dtype), 64)
        # The jitter differs with the dtype, and with it the weights; the belief of no data is the same function.
        belief = Ridge.isotropic(20).update(np.zeros((20, 20)), np.zeros(20))
        parts.append(Problem(table, rows, Hinge(), Ridge.isotropic(20)).stats(belief))
    assert parts[1].G.dtype == parts[1].h.dtype == np.float64
    assert_allclose(parts[1].bound, parts[0].bound, rtol=1e-6)
    assert_allclose(np.trace(parts[1].G), np.trace(parts[0].G), rtol=1e-3)


def test_what_it_costs_to_settle_rows_is_taken_off_the_bound(data):
    X, y, weight = data

    class Uncertain(type(ROWS.lift(X))):
        def settled(self, belief, likelihood, y, weight):
            return self, np.arange(29.0)

    belief, plain = contracts.random_belief(3), ROWS.lift(X)
    with_cost = block_stats(Uncertain(*plain), Hinge(), belief, y, weight)
    without = block_stats(plain, Hinge(), belief, y, weight)
    assert_allclose(with_cost.bound, without.bound - weight @ np.arange(29.0), rtol=1e-12)


class Source:
    """Rows that are read anew for each pass."""

    def __init__(self, *rows):
        self.rows, self.n_rows = rows, len(rows[0])

    def total(self, block):
        return block(*self.rows)


def test_passes_over_a_source_are_those_over_its_rows(data):
    X, y, weight = data
    belief, parts = contracts.random_belief(3), (ROWS, Hinge(), Ridge.isotropic(3))
    problem = Problem(Table(X[:20], y[:20], weight[:20], 8), *parts, whole=Source(X[:20], y[:20], weight[:20]))
    wanted = naive_stats(ROWS.lift(X[:20]).phi, Hinge(), belief, y[:20], weight[:20])
    for got, part in zip(problem.stats(belief)[:4], wanted, strict=True):
        assert_allclose(got, part, rtol=1e-10, atol=1e-12)
    assert problem.n_rows == 20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("n_rows", [10, 29])
def test_a_source_that_gives_other_rows_is_noticed(n_rows, scale, data):
    X, y, weight = data[0], data[1], scale * (1 + data[2])
    source = Source(X[:n_rows], y[:n_rows], weight[:n_rows])
    problem = Problem(Table(X[:20], y[:20], weight[:20], 8), ROWS, Hinge(), Ridge.isotropic(3), whole=source)
    belief = contracts.random_belief(3)
    with pytest.raises(ValueError, match="different rows than when it was first read"):
        problem.stats(belief)
    source.total = lambda block: None  # no rows at all
    with pytest.raises(ValueError, match="different rows than when it was first read"):
        problem.stats(belief)
    # Sums in another order round otherwise, and that is no other weight.
    source.total = lambda block: block(X[:20], y[:20], (1 + 1e-8) * weight[:20])
    assert_allclose(problem.stats(belief).n, weight[:20].sum(), rtol=1e-7)


def of_classes(rng, whole, cache_bytes=None):
    X, y, weight = rng.normal(size=(40, 2)), rng.integers(0, 3, size=40).astype(float), rng.uniform(0.5, 2, size=40)
    rows, prior = ClasswiseRows(ROWS, 3), Classwise.alike(Ridge.isotropic(3), 3)
    source = Source(X, y, weight) if whole else None
    return Problem(Table(X, y, weight, 16), rows, Softmax(), prior, whole=source, cache_bytes=cache_bytes)


def test_classes_of_a_source_go_together_as_those_of_a_table(monkeypatch):
    monkeypatch.setattr(together, "_ENOUGH", 1e-26)
    monkeypatch.setattr(together, "_MOST_ITERATIONS", 200)
    belief = ClassBelief(tuple(contracts.random_belief(3, seed) for seed in range(3)))
    kept, read = (of_classes(np.random.default_rng(1), whole) for whole in (False, True))
    assert kept.goes_together
    assert read.goes_together
    assert read.longest_step == 1.0
    one, other = kept.stats_together(belief), read.stats_together(belief)
    for k in range(3):
        assert_allclose(other.G[k], one.G[k], rtol=1e-10)
        assert_allclose(other.h[k], one.h[k], rtol=1e-8, atol=1e-8)
        assert_allclose(other.h[k] - read.stats(belief).h[k], other.along[k], rtol=1e-8, atol=1e-10)
        assert np.abs(other.along[k]).max() > 0.01


def test_some_rows_of_a_source_answer_for_all(monkeypatch):
    monkeypatch.setattr(engine, "_LEAST_ANSWERING", 10)
    answering = {}
    for room in (0, 25 * 3 * 8, 10**6):
        problem = of_classes(np.random.default_rng(1), True, cache_bytes=room)
        answering[room] = problem._answering
        assert problem._answering is answering[room]
        assert_allclose(answering[room].table.weight.sum(), problem.table.weight.sum(), rtol=1e-12)
    # No fewer than the least, and as many as have features that fit.
    assert [some.table.n_rows for some in answering.values()] == [10, 25, 40]
    some = answering[0].table
    before = dict(zip(problem.table.X[:, 0], problem.table.weight, strict=True))
    growth = some.weight / [before[x] for x in some.X[:, 0]]
    assert_allclose(growth, growth[0], rtol=1e-12)
    # They answer; the sums are those of all rows.
    few = of_classes(np.random.default_rng(1), True, cache_bytes=0)
    belief = ClassBelief(tuple(contracts.random_belief(3, seed) for seed in range(3)))
    one, other = few.stats_together(belief), few.stats(belief)
    assert_allclose(one.G, other.G, rtol=1e-12)
    assert_allclose([one.bound, one.n], [other.bound, other.n], rtol=1e-12)
