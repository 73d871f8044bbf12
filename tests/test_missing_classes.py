"""Missing entries where there are more than two classes: rows the long way."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references_grouped as dense
import references_structured as naive
from softmargin import arrow, gaussian
from softmargin.engine import add, block_stats
from softmargin.gaussian import ClassBelief
from softmargin.imputation import ColumnModel, Sums
from softmargin.likelihoods import AugmentedHinge, JaakkolaJordan, OneVersusRest
from softmargin.priors import Inferred, LaplaceZero, Structured
from softmargin.rows import ClasswiseRows, Factor, GroupedRows, IncompleteRows, LinearRows

N, D, K = 24, 4, 3
CASES = ["linear", "groups", "chosen", "unseen groups"]
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


@pytest.fixture(params=CASES)
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
    draws = [features.drawn(weights, case.imputation, site, case.weight, rng) for _ in range(800)]
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
