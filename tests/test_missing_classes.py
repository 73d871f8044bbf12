"""Missing entries where there are more than two classes: rows the long way, and the bound."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references
import references_grouped as dense
import references_structured as naive
from softmargin import arrow, gaussian
from softmargin.chunks import Table
from softmargin.engine import Problem, add, block_stats
from softmargin.gaussian import ClassBelief
from softmargin.imputation import ColumnModel, Imputation, Sums
from softmargin.likelihoods import AugmentedHinge, JaakkolaJordan, OneVersusRest
from softmargin.loo import _foretold, left_out
from softmargin.priors import Classwise, Imputing, Inferred, LaplaceZero, Ridge, Structured
from softmargin.rows import ClasswiseRows, Factor, GroupedRows, IncompleteRows, LinearRows
from softmargin.steps import ascend
from softmargin.wishart import InverseWishart

N, D, K = 24, 4, 3
HINGE, JJ = OneVersusRest(AugmentedHinge()), OneVersusRest(JaakkolaJordan())
FIXED = LinearRows(np.array([0.3, -1.0, 0.0, 0.5]), np.array([2.0, 0.5, 1.0, 1.5]))
#: Columns: four that may be missing, one that may not, then codes of two nested factors and a crossed one.
PARENTS = np.array([0, 0, 1, 1, 2])
#: Of unseen groups, in each class.
POPULATION = (
    np.stack([np.diag([0.5, 0.2]), np.array([[1.0, 0.3], [0.3, 0.4]]), 2 * np.eye(2)]),
    np.array([1.0, 0.1, 3.0]).reshape(3, 1, 1),
    np.array([2.0, 0.5, 0.7]).reshape(3, 1, 1),
)
GROUPED = GroupedRows(
    FIXED,
    D,
    (Factor((4,), True, 5), Factor((), True, 6)),
    (5, 3),
    (PARENTS,),
    (4,),
    (Factor((), True, 7),),
    (4,),
    POPULATION,
)


# Rows the long way -------------------------------------------------------------------------------------------------


def filled_row(phi, gone, sites, moments, imputation, start):
    """Missing entries that maximise ``E[sum_k (b_k f_k - w_k f_k^2 / 2) + log p(d)]``, by differences of that
    quadratic itself; ``sites`` and ``moments`` are those of each class."""

    def value(entries):
        row = phi.copy()
        row[gone] = entries
        about = row[start : start + D] - imputation.mean
        total = -0.5 * about @ imputation.precision @ about
        for (w, b), (m, S) in zip(sites, moments, strict=True):
            total += b * m @ row - 0.5 * w * row @ (S + np.outer(m, m)) @ row
        return total

    n, unit = len(gone), np.eye(len(gone))
    slope = np.array([value(e) - value(-e) for e in unit]).reshape(n) / 2
    bend = np.array([[value(e + o) - value(e) - value(o) + value(0 * e) for o in unit] for e in unit]).reshape(n, n)
    mean, covariance = phi.copy(), np.zeros((len(phi), len(phi)))
    covariance[np.ix_(gone, gone)] = np.linalg.inv(-bend)
    mean[gone] = np.linalg.solve(-bend, slope)
    return naive.Entries(mean, covariance)


class Case:
    """Some rows, complete and with holes, a belief about the weights of each class, and both the long way."""

    def __init__(self, label, rng):
        self.base: Any = FIXED if label == "linear" else GROUPED
        self.rows = ClasswiseRows(self.base, K)
        self.incomplete = IncompleteRows(self.rows, D)
        values = rng.normal(size=(N, D)) @ (np.eye(D) + 0.4 * rng.normal(size=(D, D)))
        codes = rng.integers(5, size=N)
        others = np.column_stack([rng.normal(size=N), codes, PARENTS[codes], rng.integers(4, size=N)])
        self.complete = values if self.base is FIXED else np.hstack([values, others])
        if label == "unseen groups":
            self.complete[:8, 5] = -1
            self.complete[3:8, 6] = -1
        self.missing = rng.random((N, D)) < 0.35
        self.missing[:5] = False
        self.missing[5] = True  # all entries of one row
        self.X = self.complete.copy()
        self.X[:, :D][self.missing] = np.nan
        self.y, self.weight = rng.integers(K, size=N).astype(float), rng.uniform(0.2, 3, size=N)
        self.imputation = ColumnModel.standard(D).updated(sums_of(values, np.ones(N)))
        parts, self.moments = zip(*(self._belief(label, rng) for _ in range(K)), strict=True)
        self.belief = ClassBelief(parts, self.imputation)
        self.phi = self._dense_features()
        self.leftover = self.rows.lift(self.complete).moments(self.belief).leftover
        self.start = 0 if self.base is FIXED else GROUPED.layout.core.start

    def _belief(self, label, rng):
        n = self.base.n_weights
        if self.base is FIXED:
            A = rng.normal(size=(n, n))
            belief = gaussian.from_natural(A @ A.T + 0.5 * np.eye(n), 2 * rng.normal(size=n))
            return belief, (belief.mean, belief.covariance)
        layout = GROUPED.layout
        G, h = GROUPED.lift(self.complete).gather(rng.uniform(0.2, 2, size=N), 2 * rng.normal(size=N))
        belief = arrow.from_natural(arrow.with_precision(G, [np.eye(2), np.eye(1)], np.ones(layout.n_core)), h, layout)
        if label == "chosen":
            fixed = LaplaceZero(D, layout.n_core - D)
            hyper = Inferred(fixed.begin()._replace(included=rng.uniform(size=D)))
            belief = Structured(fixed, layout=layout).effective(belief._replace(hyper=hyper))
            return belief, (belief.mean, dense.dense_from_arrow((belief.blocks, belief.core_covariance), layout))
        return belief, (belief.mean, belief.covariance)

    def _dense_features(self):
        phi = np.column_stack([(self.complete[:, :D] - FIXED.center) / FIXED.scale, np.ones(N)])
        if self.base is FIXED:
            return phi
        X, ones = self.complete, np.ones((N, 1))
        phi = np.column_stack([phi, X[:, 4]])
        levels = [(np.column_stack([ones, X[:, 4]]), X[:, 5].astype(int), 5), (ones, X[:, 6].astype(int), 3)]
        return dense.dense_features(phi, levels, [(ones, X[:, 7].astype(int), 4)], GROUPED.layout)

    def lifted(self, rows=slice(None)):
        return self.incomplete.lift(self.X[rows].copy())

    def entries(self, i, sites):
        gone = self.start + np.flatnonzero(self.missing[i])
        return filled_row(self.phi[i], gone, sites, self.moments, self.imputation, self.start)

    def latent(self, i, entries):
        """Means, variances from the weights, and the rest of the variances, in each class."""
        mu, spread, rest = np.transpose([naive.row_moments(entries, moments) for moments in self.moments])
        return mu, spread, rest + self.leftover[i]

    def settled(self, likelihood, turns):
        """The entries of all rows, sites and entries by turns from sites that say nothing."""
        found = []
        for i in range(N):
            sites, entries = [(0.0, 0.0)] * K, None
            for _ in range(turns):
                entries = self.entries(i, sites)
                mu, spread, rest = self.latent(i, entries)
                _, w, b = likelihood.sites(self.y[i : i + 1], mu[None], (spread + rest)[None])
                sites = list(zip(w[0], b[0], strict=True))
            assert entries is not None
            found.append(entries)
        return found

    def stats(self, rows=slice(None), weight=None, turns=1):
        features, weight = self.lifted(rows), self.weight[rows] if weight is None else weight
        for _ in range(turns):
            stats = block_stats(features, HINGE, self.belief, self.y[rows], weight)  # pyright: ignore
        return stats


def sums_of(values, weight):
    return Sums(weight @ values, (weight[:, None] * values).T @ values, float(weight.sum()))


@pytest.fixture(params=["linear", "groups", "chosen", "unseen groups"])
def case(request) -> Case:
    return Case(request.param, np.random.default_rng(1))


def assert_filled(case, features, entries, rtol=1e-8):
    """Features hold the entries, and say of the latent values of all classes what follows from them."""
    columns = slice(case.start, case.start + D)
    assert_allclose(features.values, [e.mean[columns] for e in entries], rtol=rtol, atol=1e-8)
    sds = [np.sqrt(np.diag(e.covariance)[columns]) for e in entries]
    assert_allclose(features.deviations, sds, rtol=rtol, atol=1e-10)
    latent = features.moments(case.belief)
    wanted = [case.latent(i, e) for i, e in enumerate(entries)]
    for got, parts in zip(latent, zip(*wanted, strict=True), strict=True):
        assert got.shape == (N, K)
        assert_allclose(got, parts, rtol=rtol, atol=1e-8)


def test_foreseen_entries_do_not_depend_on_classes_and_their_latent_values_do(case):
    features = case.lifted()
    nothing = [case.entries(i, [(0.0, 0.0)] * K) for i in range(N)]
    assert_filled(case, features.foreseen(case.belief), nothing)
    latent = features.moments(case.belief)
    mu, v = case.incomplete.view(case.belief, case.X).moments(case.X)
    assert_allclose(mu, latent.mu)
    assert_allclose(v, latent.v)


@pytest.mark.parametrize("likelihood", [HINGE, JJ], ids=["hinge", "logistic"])
def test_settled_entries_are_those_of_loops_over_rows_and_classes(case, likelihood):
    features = case.lifted()
    for turns in (6, 8):  # six turns the first time, two more the second
        entries = case.settled(likelihood, turns)
        filled, cost = features.settled(case.belief, likelihood, case.y, case.weight)
        assert_filled(case, filled, entries, rtol=1e-7)
        assert_allclose(cost, [naive.row_cost(e, case.imputation, D, case.start) for e in entries], rtol=1e-8)


def test_sums_are_those_of_loops_over_rows_and_classes(case, rng):
    filled, _ = case.lifted().settled(case.belief, HINGE, case.y, case.weight)
    entries = case.settled(HINGE, 6)
    w, b = rng.uniform(0, 2, size=(N, K)), rng.normal(size=(N, K))
    (G, sums), h = filled.gather(w, b)
    assert len(G) == len(h) == K
    for k in range(K):
        wanted = sum(wi * (np.outer(e.mean, e.mean) + e.covariance) for wi, e in zip(w[:, k], entries, strict=True))
        matrix = G[k] if case.base is FIXED else dense.dense_from_arrow(G[k], GROUPED.layout)
        assert_allclose(matrix, wanted, rtol=1e-7, atol=1e-8)
        linear = sum(bi * e.mean for bi, e in zip(b[:, k], entries, strict=True))
        assert_allclose(h[k], linear, rtol=1e-7, atol=1e-8)
    columns = slice(case.start, case.start + D)
    second = sum(
        c * (np.outer(e.mean, e.mean) + e.covariance)[columns, columns]
        for c, e in zip(case.weight, entries, strict=True)
    )
    first = sum(c * e.mean[columns] for c, e in zip(case.weight, entries, strict=True))
    assert_allclose(sums[0], first, rtol=1e-7)
    assert_allclose(sums[1], second, rtol=1e-7)
    assert_allclose(sums[2], case.weight.sum())


def test_what_a_row_shares_with_itself_filled_otherwise(case):
    features = case.lifted()
    before, after = features.foreseen(case.belief), features.settled(case.belief, HINGE, case.y, case.weight)[0]
    one = np.array([case.entries(i, [(0.0, 0.0)] * K).mean for i in range(N)])
    other = np.array([e.mean for e in case.settled(HINGE, 6)])
    wanted = np.stack([np.einsum("ij,jk,ik->i", one, S, other) for _, S in case.moments], axis=1)
    assert_allclose(after.shared(before, case.belief), wanted, rtol=1e-6, atol=1e-8)


def test_draws_are_those_of_weights_that_are_known(case, rng):
    weights = tuple(mean + 0.3 for mean, _ in case.moments)
    site = rng.uniform(0.1, 2, size=(N, K)), rng.normal(size=(N, K))
    case.moments = [(u, np.zeros_like(S)) for u, (_, S) in zip(weights, case.moments, strict=True)]
    entries = [case.entries(i, list(zip(site[0][i], site[1][i], strict=True))) for i in range(N)]
    features, columns = case.lifted(), slice(case.start, case.start + D)
    draws = [features.drawn(weights, case.imputation, site, case.weight, rng) for _ in range(1500)]
    values = np.array([draw.values for draw in draws])
    for i, wanted in enumerate(entries):
        mean = wanted.mean[columns]
        naive.agrees(values[:, i], mean)
        about = values[:, i] - mean
        naive.agrees(np.einsum("na,nb->nab", about, about), wanted.covariance[columns, columns])
    filled = np.array(case.phi)
    filled[:, columns] = values[0]
    assert_allclose(draws[0].at(weights), np.stack([filled @ u for u in weights], axis=1), rtol=1e-7, atol=1e-9)


def test_without_missing_entries_rows_are_as_ever(case):
    features, base = case.incomplete.lift(case.complete.copy()), case.rows.lift(case.complete)
    for got, wanted in zip(features.moments(case.belief), base.moments(case.belief), strict=True):
        assert_allclose(got, wanted, rtol=1e-12)
    stats, wanted = (block_stats(part, HINGE, case.belief, case.y, case.weight) for part in (features, base))
    own, sums = stats.G
    assert_allclose(naive.flattened(own), naive.flattened(wanted.G), rtol=1e-12)
    assert_allclose(naive.flattened(stats.h), naive.flattened(wanted.h), rtol=1e-12)
    values = (case.complete[:, :D] - FIXED.center) / FIXED.scale
    assert_allclose(float(stats.bound), float(wanted.bound) - case.weight @ case.imputation.cost(values), rtol=1e-12)
    assert_allclose(naive.flattened(sums), naive.flattened(tuple(sums_of(values, case.weight))), rtol=1e-12)


def test_parts_add_up_to_the_whole_in_any_order_and_copies_are_weights(case, rng):
    whole = naive.flattened(case.stats())
    parts = add(case.stats(slice(0, 9)), case.stats(slice(9, N)))
    assert_allclose(naive.flattened(parts), whole, rtol=1e-9, atol=1e-9)
    assert_allclose(naive.flattened(case.stats(rng.permutation(N))), whole, rtol=1e-9, atol=1e-9)
    counts = rng.integers(4, size=N)
    copies = case.stats(np.repeat(np.arange(N), counts), weight=np.ones(counts.sum()), turns=2)
    weighted = case.stats(weight=counts.astype(float), turns=2)
    assert_allclose(naive.flattened(weighted), naive.flattened(copies), rtol=1e-9, atol=1e-9)


def test_single_precision_comes_close(case):
    base = case.base
    if base is FIXED:
        base = LinearRows(FIXED.center.astype(np.float32), FIXED.scale.astype(np.float32))
    X = case.X.astype(np.float32)
    features = IncompleteRows(ClasswiseRows(base, K), D).lift(X)
    got = block_stats(features, HINGE, case.belief.seen_by(X), case.y, case.weight)  # pyright: ignore
    wanted = naive.flattened(case.stats())
    assert_allclose(naive.flattened(got), wanted, rtol=1e-2, atol=1e-3 * np.abs(wanted).max())


# The bound ---------------------------------------------------------------------------------------------------------


def test_the_bound_of_rows_lies_below_their_expectation_and_touches_it(case, rng):
    """Weights and entries drawn from the belief: the latent values of all classes, which vary together."""
    filled, _ = case.lifted().settled(case.belief, HINGE, case.y, case.weight)
    latent, draws = filled.moments(case.belief), 4000
    ours = HINGE.sites(case.y, latent.mu, latent.v).l
    for i, e in enumerate(case.settled(HINGE, 6)):
        met = np.flatnonzero((e.mean != 0) | (np.diag(e.covariance) > 0))  # weights of other groups are far away
        rows = rng.multivariate_normal(e.mean[met], e.covariance[np.ix_(met, met)], size=draws)
        weights = [rng.multivariate_normal(m[met], S[np.ix_(met, met)], size=draws) for m, S in case.moments]
        f = np.stack([np.sum(rows * u, axis=1) for u in weights], axis=1)
        f += np.sqrt(case.leftover[i]) * rng.normal(size=f.shape)
        truth = HINGE.log_density(np.full(draws, case.y[i]), f)
        assert ours[i] < truth.mean() + naive.ERRORS * truth.std() / np.sqrt(draws)
    sure = HINGE.sites(case.y, latent.mu, 0 * latent.v).l
    assert_allclose(sure, HINGE.log_density(case.y, latent.mu), rtol=1e-9, atol=2e-6)


def test_entries_come_to_rest_where_the_bound_is_highest(case, rng):
    features, y, one = case.lifted(), case.y, np.ones(N)
    filled, cost = features.settled(case.belief, HINGE, y, one)
    value = np.full(N, -np.inf)
    for _ in range(60):
        latent = filled.moments(case.belief)
        before, value = value, HINGE.sites(y, latent.mu, latent.v).l - cost
        assert np.all(value >= before - 1e-10)
        filled, cost = features.settled(case.belief, HINGE, y, one)
    columns = slice(case.start, case.start + D)

    def bound(i, mean, V):
        entries = naive.Entries(case.phi[i].copy(), np.zeros((case.phi.shape[1],) * 2))
        entries.mean[columns], entries.covariance[columns, columns] = mean, V
        mu, spread, rest = case.latent(i, entries)
        l = HINGE.sites(y[i : i + 1], mu[None], (spread + rest)[None]).l[0]  # noqa: E741
        return l - naive.row_cost(entries, case.imputation, D, case.start)

    for batch, covariances in zip(filled.batches, filled.covariances, strict=True):
        for i, gone, block in zip(batch.rows, batch.columns, covariances, strict=True):
            V = np.zeros((D, D))
            V[np.ix_(gone, gone)] = block
            mean = filled.values[i]
            assert_allclose(bound(i, mean, V), value[i], rtol=1e-9)
            for _ in range(4):
                step = np.where(case.missing[i], 1e-2 * rng.normal(size=D), 0)
                bump = np.eye(D) + 1e-2 * rng.normal(size=(D, D)) * np.outer(case.missing[i], case.missing[i])
                assert bound(i, mean + step, V) < value[i]
                assert bound(i, mean, bump @ V @ bump.T) < value[i]


class Whole:
    """A whole problem of few rows, and its objective by loops over rows, classes and entries."""

    def __init__(self, rng, n=14, d=2, likelihood=HINGE):
        X = rng.normal(size=(n, d)) @ np.array([[1, 0.5], [0, 1]])
        self.y = np.append([0.0, 1.0, 2.0], (X @ [[1, 0, -1], [0, 1, -1]] + rng.gumbel(size=(n, 3))).argmax(axis=1)[3:])
        X[1, 0] = X[3, 1] = X[4, 0] = np.nan
        X[6] = np.nan
        self.X, self.n, self.d, self.likelihood = X, n, d, likelihood
        self.precision = np.array([0.5, 0.8, 1.0])
        self.columns = ColumnModel(np.zeros(d), np.ones(d), 2.0, 3.0)
        self.prior = Imputing(Classwise.alike(Ridge(self.precision), K), self.columns, float(n))
        rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(d), np.ones(d)), K), d)
        self.problem = Problem(Table(X, self.y, np.ones(n), 5), rows, likelihood, self.prior)  # pyright: ignore

    def parameters(self, belief):
        """All that the objective depends on, in one vector: weights, columns and entries."""
        weights = [(part.mean, np.linalg.cholesky(part.covariance)) for part in belief.parts]
        q = belief.hyper.columns
        of_columns = (q.mean, np.linalg.cholesky(q.mean_covariance), np.linalg.cholesky(q.covariance.scale))
        entries = []
        for index in range(self.problem.table.n_blocks):
            for _ in range(100):  # entries and sites settle by turns
                filled: Any = self.problem.settled(index, self.problem.seen(belief))
            V = np.zeros((len(filled.values), self.d, self.d))
            for batch, covariances in zip(filled.batches, filled.covariances, strict=True):
                for i, gone, block in zip(batch.rows, batch.columns, covariances, strict=True):
                    V[i][np.ix_(gone, gone)] = block
            entries += list(zip(filled.values, V, strict=True))
        return weights, of_columns, q.covariance.dof, entries

    def objective(self, weights, of_columns, dof, entries):
        mean, root, scale = of_columns
        scale = InverseWishart(scale @ scale.T, dof)
        q = Imputation(mean, root @ root.T, scale, scale.mean_precision)
        total = -self.columns.kl(q)
        for m, L in weights:
            total -= references.kl_gaussians(m, L @ L.T, np.diag(1 / self.precision))
        for i, (d, V) in enumerate(entries):
            row = naive.Entries(np.append(d, 1.0), np.zeros((self.d + 1, self.d + 1)))
            row.covariance[: self.d, : self.d] = V
            moments = np.array([naive.row_moments(row, (m, L @ L.T)) for m, L in weights])
            mu, v = moments[:, 0], moments[:, 1] + moments[:, 2]
            total += self.likelihood.sites(self.y[i : i + 1], mu[None], v[None]).l[0]
            total -= naive.row_cost(row, q, self.d, 0)
        return total


@pytest.mark.parametrize("likelihood", [HINGE, JJ], ids=["hinge", "logistic"])
def test_the_ascent_ends_where_the_objective_by_loops_is_flat(likelihood, rng):
    whole = Whole(rng, likelihood=likelihood)
    point = ascend(whole.problem, tol=1e-13, max_passes=3000).point
    weights, of_columns, dof, entries = whole.parameters(point.belief)
    assert_allclose(whole.objective(weights, of_columns, dof, entries), point.objective, rtol=1e-7)

    def moved(step, at):
        """The objective with one number of one array changed."""
        arrays = [part.copy() for pair in weights for part in pair]
        arrays += [part.copy() for part in of_columns] + [part.copy() for pair in entries for part in pair]
        arrays[at[0]][at[1]] += step
        if at[0] >= 2 * K + 3 and len(at[1]) == 2:  # covariances of entries stay symmetric
            arrays[at[0]][at[1][::-1]] = arrays[at[0]][at[1]]
        pairs = list(zip(arrays[: 2 * K : 2], arrays[1 : 2 * K : 2], strict=True))
        rest = arrays[2 * K + 3 :]
        return whole.objective(pairs, arrays[2 * K : 2 * K + 3], dof, list(zip(rest[::2], rest[1::2], strict=True)))

    places = [(2 * k, (j,)) for k in range(K) for j in range(3)]
    places += [(2 * k + 1, (i, j)) for k in range(K) for i in range(3) for j in range(i + 1)]
    places += [(2 * K, (j,)) for j in range(2)]
    places += [(2 * K + part, (i, j)) for part in (1, 2) for i in range(2) for j in range(i + 1)]
    for row in range(whole.n):
        gone = np.flatnonzero(np.isnan(whole.X[row]))
        places += [(2 * K + 3 + 2 * row, (j,)) for j in gone]
        places += [(2 * K + 4 + 2 * row, (i, j)) for i in gone for j in gone if j <= i]
    for at in places:
        slope = (moved(1e-5, at) - moved(-1e-5, at)) / 2e-5
        assert abs(slope) < 2e-3, at


def test_the_objective_never_falls(rng):
    whole = Whole(rng)
    history = []
    stats = whole.problem.stats
    belief = whole.prior.update(*whole.prior.start(whole.X))
    for _ in range(30):
        found = stats(belief)
        history.append(float(found.bound) - float(whole.prior.kl(belief)))
        belief = whole.prior.update(found.G, found.h, belief)
    assert np.all(np.diff(history) > -1e-8)
    assert history[-1] > history[0] + 1


def test_classes_that_must_not_matter_leave_the_model_of_two(rng):
    """Weights of two classes are held at zero: what remains is the third against the rest, entries and all."""
    whole = Whole(rng)
    held, free = Ridge(np.full(3, 1e12)), Ridge(whole.precision)
    many: Any = whole.problem
    many = Problem(many.table, many.rows, HINGE, whole.prior._replace(prior=Classwise((held, free, held))))  # pyright: ignore
    table = many.table._replace(y=np.where(whole.y == 1, 1.0, -1.0))
    rows: Any = IncompleteRows(many.rows.rows.rows, whole.d)
    two = Problem(table, rows, AugmentedHinge(), whole.prior._replace(prior=free))  # pyright: ignore
    one, other = (ascend(problem, tol=1e-12, max_passes=2000).point for problem in (many, two))
    assert_allclose(one.belief.parts[1].mean, other.belief.mean, rtol=1e-4, atol=1e-6)
    assert_allclose(one.belief.parts[1].covariance, other.belief.covariance, rtol=1e-4, atol=1e-6)
    for got, wanted in zip(one.belief.hyper.columns, other.belief.hyper.columns, strict=True):
        assert_allclose(naive.flattened(got), naive.flattened(wanted), rtol=1e-3, atol=1e-5)
    # At weights of zero every other class costs two nats a row.
    assert_allclose(one.objective, other.objective - 2 * 2 * whole.n, rtol=1e-5)


def test_alternatives_are_those_of_each_class_and_known_as_such(rng):
    """What a flip of one column changes, all that is asked for what is believed beside the weights is told."""
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3.0
    X[0, 0] = np.nan
    own = Structured(LaplaceZero(3, 1))
    prior: Any = Imputing(Classwise.alike(own, K), ColumnModel.standard(3), 40.0)
    rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(3), np.ones(3)), K), 3)
    point = ascend(Problem(Table(X, y, np.ones(40), 40), rows, HINGE, prior), tol=1e-6, max_passes=50).point
    others = prior.alternatives(*point.image, point.belief)
    assert len(others) >= K
    before = np.array([part.hyper.fixed.included for part in point.belief.parts])
    for other in others:
        assert other.hyper.columns is point.belief.hyper.columns
        after = np.array([part.hyper.fixed.included for part in other.parts])
        assert_array_equal(after, [of_class.fixed.included for of_class in other.hyper.weights])
        assert np.count_nonzero((after > 0.5) != (before > 0.5)) == 1


def test_rows_left_out_are_those_of_refits():
    rng = np.random.default_rng(3)
    n, d = 60, 3
    X = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(d), np.ones(d)), K), d)
    prior: Any = Imputing(Classwise.alike(Ridge(np.ones(d + 1)), K), ColumnModel.standard(d), float(n))

    def ascended(keep):
        problem = Problem(Table(X[keep], y[keep], np.ones(keep.sum()), 17), rows, HINGE, prior)
        return problem, ascend(problem, tol=1e-9, max_passes=2000).point.belief

    problem, belief = ascended(np.ones(n, dtype=bool))
    out, latent = left_out(problem, belief, np.ones(n)), problem.latent(belief)
    assert out.usable.shape == (n,)
    chosen = np.flatnonzero(np.isnan(X).any(axis=1))[:12]
    found = []
    for k in chosen:
        _, refit = ascended(np.arange(n) != k)
        found.append([part[0] for part in rows.view(prior.effective(refit), np.zeros(1)).moments(X[k : k + 1])])
    mu, v = np.moveaxis(np.array(found), 1, 0)
    error, foretold = np.abs(out.mu[chosen] - mu), _foretold(problem, belief)
    assert np.mean(error) < 0.25 * np.mean(np.abs(latent.mu[chosen] - mu))
    assert foretold is not None
    # To forget what the label said of the entries is not all: it had moved the weights as well.
    assert np.mean(error) < 0.8 * np.mean(np.abs(foretold.latent.mu[chosen] - mu))
    assert np.corrcoef(out.mu[chosen].ravel(), mu.ravel())[0, 1] > 0.98
    assert np.median(np.abs(out.v[chosen] / v - 1)) < 0.1
    assert_allclose(out.v[chosen], v, rtol=0.5)
