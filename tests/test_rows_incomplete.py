from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references_grouped as dense
import references_structured as naive
from softmargin import arrow, gaussian
from softmargin.engine import Stats, add, block_stats
from softmargin.imputation import ColumnModel, Sums
from softmargin.likelihoods import AugmentedHinge, JaakkolaJordan
from softmargin.priors import Inferred, LaplaceZero, Structured
from softmargin.rows import IncompleteRows, LinearRows
from softmargin.rows.grouped import Factor, GroupedRows
from softmargin.rows.incomplete import Batch

N, D = 24, 4
FIXED = LinearRows(np.array([0.3, -1.0, 0.0, 0.5]), np.array([2.0, 0.5, 1.0, 1.5]))
#: Columns: four that may be missing, one that may not, then codes of two nested factors and a crossed one.
PARENTS = np.array([0, 0, 1, 1, 2])
GROUPED = GroupedRows(
    FIXED,
    D,
    (Factor((4,), True, 5), Factor((), True, 6)),
    (5, 3),
    (PARENTS,),
    (4,),
    (Factor((), True, 7),),
    (4,),
    (np.diag([0.5, 0.2]), np.eye(1), 2 * np.eye(1)),
)


class Case:
    """Some rows, complete and with holes, a belief about their weights, and both the long way."""

    def __init__(self, label, rng):
        self.rows: Any = FIXED if label == "linear" else GROUPED
        self.incomplete = IncompleteRows(self.rows, D)
        values = rng.normal(size=(N, D)) @ (np.eye(D) + 0.4 * rng.normal(size=(D, D)))
        codes = rng.integers(5, size=N)
        others = np.column_stack([rng.normal(size=N), codes, PARENTS[codes], rng.integers(4, size=N)])
        self.complete = values if self.rows is FIXED else np.hstack([values, others])
        if label == "unseen groups":
            self.complete[:8, 5] = -1
            self.complete[3:8, 6] = -1
        self.missing = rng.random((N, D)) < 0.35
        self.missing[:5] = False
        self.missing[5] = True  # all entries of one row
        self.X = self.complete.copy()
        self.X[:, :D][self.missing] = np.nan
        self.y, self.weight = np.sign(rng.normal(size=N)), rng.uniform(0.2, 3, size=N)
        self.imputation = ColumnModel.standard(D).updated(sums_of(values, np.ones(N)))
        self.belief, self.moments = self._belief(label, rng)
        self.phi = self._dense_features()
        self.leftover = np.asarray(self.rows.lift(self.complete).leftover)
        self.start = 0 if self.rows is FIXED else GROUPED.layout.core.start

    def _belief(self, label, rng):
        n = self.rows.n_weights
        if self.rows is FIXED:
            A = rng.normal(size=(n, n))
            belief = gaussian.from_natural(A @ A.T + 0.5 * np.eye(n), 2 * rng.normal(size=n), self.imputation)
            return belief, (belief.mean, belief.covariance)
        layout = GROUPED.layout
        G, h = self.rows.lift(self.complete).gather(rng.uniform(0.2, 2, size=N), 2 * rng.normal(size=N))
        belief = arrow.from_natural(arrow.with_precision(G, [np.eye(2), np.eye(1)], np.ones(layout.n_core)), h, layout)
        if label == "chosen":
            fixed = LaplaceZero(D, layout.n_core - D)
            hyper = Inferred(fixed.begin()._replace(included=np.array([0.9, 0.3, 1.0, 0.6])))
            belief = Structured(fixed, layout=layout).effective(belief._replace(hyper=hyper))
            S = dense.dense_from_arrow((belief.blocks, belief.core_covariance), layout)
            return belief._replace(hyper=self.imputation), (belief.mean, S)
        return belief._replace(hyper=self.imputation), (belief.mean, belief.covariance)

    def _dense_features(self):
        phi = np.column_stack([(self.complete[:, :D] - FIXED.center) / FIXED.scale, np.ones(N)])
        if self.rows is FIXED:
            return phi
        X, ones = self.complete, np.ones((N, 1))
        phi = np.column_stack([phi, X[:, 4]])
        levels = [(np.column_stack([ones, X[:, 4]]), X[:, 5].astype(int), 5), (ones, X[:, 6].astype(int), 3)]
        return dense.dense_features(phi, levels, [(ones, X[:, 7].astype(int), 4)], GROUPED.layout)

    def lifted(self, rows=slice(None)):
        return self.incomplete.lift(self.X[rows].copy())

    def entries(self, i, site):
        """The belief about the entries of a row, given its site."""
        gone = self.start + np.flatnonzero(self.missing[i])
        return naive.filled_row(self.phi[i], gone, site, self.moments, self.imputation, D, self.start)

    def settled(self, likelihood, turns):
        """The same for all rows, sites and entries by turns from sites that say nothing."""
        found = []
        for i in range(N):
            site, entries = (0.0, 0.0), None
            for _ in range(turns):
                entries = self.entries(i, site)
                mu, spread, rest = naive.row_moments(entries, self.moments)
                v = spread + rest + self.leftover[i]
                _, w, b = likelihood.sites(self.y[i : i + 1], np.array([mu]), np.array([v]))
                site = float(w[0]), float(b[0])
            assert entries is not None
            found.append(entries)
        return found

    def stats(self, rows=slice(None), weight=None, turns=1) -> Stats:
        features, weight = self.lifted(rows), self.weight[rows] if weight is None else weight
        for _ in range(turns):
            stats = block_stats(features, AugmentedHinge(), self.belief, self.y[rows], weight)  # pyright: ignore
        return stats


def sums_of(values, weight):
    return Sums(weight @ values, (weight[:, None] * values).T @ values, float(weight.sum()))


@pytest.fixture(params=["linear", "groups", "chosen", "unseen groups"])
def case(request) -> Case:
    return Case(request.param, np.random.default_rng(1))


def assert_filled(case, features, entries, rtol=1e-8):
    """Features hold the entries, and say of latent values what follows from them."""
    columns = slice(case.start, case.start + D)
    assert_allclose(features.values, [e.mean[columns] for e in entries], rtol=rtol, atol=1e-8)
    sds = [np.sqrt(np.diag(e.covariance)[columns]) for e in entries]
    assert_allclose(features.deviations, sds, rtol=rtol, atol=1e-10)
    assert_array_equal(features.deviations > 0, case.missing)
    latent = features.moments(case.belief)
    wanted = np.array([naive.row_moments(e, case.moments) for e in entries])
    assert_allclose(latent.mu, wanted[:, 0], rtol=rtol, atol=1e-8)
    assert_allclose(latent.spread, wanted[:, 1], rtol=rtol, atol=1e-8)
    assert_allclose(latent.leftover, case.leftover + wanted[:, 2], rtol=rtol, atol=1e-8)


# Entries and what follows from them --------------------------------------------------------------------------------


def test_foreseen_entries_are_conditional_means(case):
    features = case.lifted()
    entries = [case.entries(i, (0.0, 0.0)) for i in range(N)]
    assert_filled(case, features.foreseen(case.belief), entries)
    Sigma = np.linalg.inv(case.imputation.precision)
    for i, row in enumerate(entries):
        gone, seen = np.flatnonzero(case.missing[i]), np.flatnonzero(~case.missing[i])
        slope = Sigma[np.ix_(gone, seen)] @ np.linalg.inv(Sigma[np.ix_(seen, seen)])
        values = row.mean[case.start : case.start + D]
        about = values - case.imputation.mean
        assert_allclose(about[gone], slope @ about[seen], rtol=1e-8, atol=1e-9)
    latent = features.moments(case.belief)
    for got, wanted in zip(latent, features.foreseen(case.belief).moments(case.belief), strict=True):
        assert_allclose(got, wanted)
    mu, v = case.incomplete.view(case.belief, case.X).moments(case.X)
    assert_allclose(mu, latent.mu)
    assert_allclose(v, latent.v)


@pytest.mark.parametrize("likelihood", [AugmentedHinge(), JaakkolaJordan()], ids=repr)
def test_settled_entries_are_those_of_loops_over_rows(case, likelihood):
    features = case.lifted()
    for turns in (6, 8):  # six turns the first time, two more the second
        entries = case.settled(likelihood, turns)
        filled, cost = features.settled(case.belief, likelihood, case.y, case.weight)
        assert_filled(case, filled, entries, rtol=1e-7)
        wanted = [naive.row_cost(e, case.imputation, D, case.start) for e in entries]
        assert_allclose(cost, wanted, rtol=1e-8)


def test_sums_are_those_of_loops_over_rows(case, rng):
    filled, _ = case.lifted().settled(case.belief, AugmentedHinge(), case.y, case.weight)
    entries = case.settled(AugmentedHinge(), 6)
    w, b = rng.uniform(0, 2, size=N), rng.normal(size=N)
    (G, sums), h = filled.gather(w, b)
    wanted = sum(wi * (np.outer(e.mean, e.mean) + e.covariance) for wi, e in zip(w, entries, strict=True))
    matrix = G if case.rows is FIXED else dense.dense_from_arrow(G, GROUPED.layout)
    assert_allclose(matrix, wanted, rtol=1e-7, atol=1e-8)
    assert_allclose(h, sum(bi * e.mean for bi, e in zip(b, entries, strict=True)), rtol=1e-7, atol=1e-8)
    columns = slice(case.start, case.start + D)
    first = sum(c * e.mean[columns] for c, e in zip(case.weight, entries, strict=True))
    second = sum(
        c * (np.outer(e.mean, e.mean) + e.covariance)[columns, columns]
        for c, e in zip(case.weight, entries, strict=True)
    )
    assert_allclose(sums[0], first, rtol=1e-7)
    assert_allclose(sums[1], second, rtol=1e-7)
    assert_allclose(sums[2], case.weight.sum())


def test_values_and_covariances_with_the_core_are_those_of_filled_rows(case, rng):
    filled, _ = case.lifted().settled(case.belief, AugmentedHinge(), case.y, case.weight)
    rows = np.array([e.mean for e in case.settled(AugmentedHinge(), 6)])
    weights = rng.normal(size=case.rows.n_weights)
    assert_allclose(filled.at(weights), rows @ weights, rtol=1e-7)
    core = slice(case.start, case.start + filled.phi.shape[1])
    assert_allclose(
        filled.cross(case.belief)[:, : filled.phi.shape[1]], rows @ case.moments[1][:, core], rtol=1e-6, atol=1e-8
    )


def test_draws_are_those_of_weights_that_are_known(case, rng):
    weights = case.moments[0] + 0.3
    site = rng.uniform(0.1, 2, size=N), rng.normal(size=N)
    case.moments = weights, np.zeros_like(case.moments[1])
    entries = [case.entries(i, (site[0][i], site[1][i])) for i in range(N)]
    features, columns = case.lifted(), slice(case.start, case.start + D)
    draws = [features.drawn(weights, case.imputation, site, case.weight, rng) for _ in range(1500)]
    values = np.array([draw.values for draw in draws])
    assert not draws[0].deviations.any()
    assert_allclose(draws[0].weight, case.weight)
    for i, wanted in enumerate(entries):
        mean = wanted.mean[columns]
        naive.agrees(values[:, i], mean)
        about = values[:, i] - mean
        naive.agrees(np.einsum("na,nb->nab", about, about), wanted.covariance[columns, columns])


# What does not matter --------------------------------------------------------------------------------------------


def test_without_missing_entries_rows_are_as_ever(case):
    weight = case.weight
    features, base = case.incomplete.lift(case.complete.copy()), case.rows.lift(case.complete)
    for got, wanted in zip(features.moments(case.belief), base.moments(case.belief), strict=True):
        assert_allclose(got, wanted, rtol=1e-12)
    stats = block_stats(features, AugmentedHinge(), case.belief, case.y, weight)  # pyright: ignore
    wanted = block_stats(base, AugmentedHinge(), case.belief, case.y, weight)
    own, sums = stats.G
    assert_allclose(naive.flattened(own), naive.flattened(wanted.G), rtol=1e-12)
    assert_allclose(stats.h, wanted.h, rtol=1e-12)
    values = (case.complete[:, :D] - FIXED.center) / FIXED.scale
    assert_allclose(float(stats.bound), float(wanted.bound) - weight @ case.imputation.cost(values), rtol=1e-12)
    assert_allclose(naive.flattened(sums), naive.flattened(tuple(sums_of(values, weight))), rtol=1e-12)


def test_parts_add_up_to_the_whole_in_any_order(case):
    whole = naive.flattened(case.stats())
    parts = add(case.stats(slice(0, 9)), case.stats(slice(9, N)))
    assert_allclose(naive.flattened(parts), whole, rtol=1e-9, atol=1e-9)
    order = np.random.default_rng(3).permutation(N)
    assert_allclose(naive.flattened(case.stats(order)), whole, rtol=1e-9, atol=1e-9)


def test_a_row_of_weight_three_is_three_rows(case, rng):
    counts = rng.integers(4, size=N)
    copies = case.stats(np.repeat(np.arange(N), counts), weight=np.ones(counts.sum()), turns=2)
    weighted = case.stats(weight=counts.astype(float), turns=2)
    assert_allclose(naive.flattened(weighted), naive.flattened(copies), rtol=1e-9, atol=1e-9)


def test_rows_are_batched_by_how_many_entries_they_lack():
    missing = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]], dtype=bool)
    one, two = Batch.all_of(missing)
    assert one.rows.tolist() == [2, 4]
    assert one.columns.tolist() == [[0], [2]]
    assert two.rows.tolist() == [0, 3]
    assert two.columns.tolist() == [[1, 2], [0, 2]]
    matrix, table = np.arange(9).reshape(3, 3), np.arange(15).reshape(5, 3)
    assert two.pairs(matrix).tolist() == [[[4, 5], [7, 8]], [[0, 2], [6, 8]]]
    assert two.of(matrix[0]).tolist() == [[1, 2], [0, 2]]
    assert two.of(table).tolist() == [[1, 2], [9, 11]]
    assert Batch.all_of(missing[1:2]) == ()


def test_the_caller_keeps_the_rows_as_they_were(case):
    kept = case.X.copy()
    case.incomplete.lift(case.X)
    assert_array_equal(case.X, kept)


def test_single_precision_comes_close(case):
    rows = case.rows
    if rows is FIXED:
        rows = LinearRows(FIXED.center.astype(np.float32), FIXED.scale.astype(np.float32))
    X = case.X.astype(np.float32)
    features = IncompleteRows(rows, D).lift(X)
    belief = case.belief.seen_by(X)
    got = block_stats(features, AugmentedHinge(), belief, case.y, case.weight)  # pyright: ignore
    wanted = naive.flattened(case.stats())
    assert_allclose(naive.flattened(got), wanted, rtol=1e-2, atol=1e-3 * np.abs(wanted).max())
    assert all(part.dtype == np.float64 for part in got.G[1][:2])


def test_entries_come_to_rest_where_the_bound_is_highest(case, rng):
    features, y, one = case.lifted(), case.y, np.ones(N)
    filled, cost = features.settled(case.belief, AugmentedHinge(), y, one)
    value = np.full(N, -np.inf)
    for _ in range(60):
        latent = filled.moments(case.belief)
        before, value = value, AugmentedHinge().sites(y, latent.mu, latent.v).l - cost
        assert np.all(value >= before - 1e-10)
        filled, cost = features.settled(case.belief, AugmentedHinge(), y, one)

    columns = slice(case.start, case.start + D)

    def bound(i, mean, V):
        entries = naive.Entries(case.phi[i].copy(), np.zeros((case.phi.shape[1],) * 2))
        entries.mean[columns], entries.covariance[columns, columns] = mean, V
        mu, spread, rest = naive.row_moments(entries, case.moments)
        v = np.array([spread + rest + case.leftover[i]])
        l = AugmentedHinge().sites(y[i : i + 1], np.array([mu]), v).l[0]  # noqa: E741
        return l - naive.row_cost(entries, case.imputation, D, case.start)

    naive.assert_highest_at(filled, case.missing, value, bound, rng)
