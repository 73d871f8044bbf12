from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references
import references_grouped as dense
from softmargin import arrow, gaussian
from softmargin.arrays import combined
from softmargin.engine import add, block_stats
from softmargin.likelihoods import Hinge
from softmargin.rows import ClasswiseRows, LinearRows
from softmargin.rows.grouped import Factor, GroupedRows

N_ROWS = 60


@dataclass(frozen=True)
class Case:
    """Factors as (groups, slope columns, intercept); ``parents`` lists those of each level in the next."""

    label: str
    levels: tuple[tuple[int, tuple[int, ...], bool], ...] = ()
    parents: tuple[tuple[int, ...], ...] = ()
    crossed: tuple[tuple[int, tuple[int, ...], bool], ...] = ()
    plain: tuple[int, ...] = ()
    intercept: bool = True

    def rows(self, dtype=np.float64) -> GroupedRows:
        # Columns of X: two fixed, two for slopes and splines, then the codes.
        factors = [Factor(slopes, own, 4 + i) for i, (_, slopes, own) in enumerate(self.levels + self.crossed)]
        fixed = LinearRows(np.array([0.3, -1.0], dtype), np.array([2.0, 0.5], dtype), self.intercept)
        n, groups = len(self.levels), [J for J, _, _ in self.levels + self.crossed]
        return GroupedRows(
            fixed,
            2,
            tuple(factors[:n]),
            tuple(groups[:n]),
            tuple(np.array(parents) for parents in self.parents),
            self.plain,
            tuple(factors[n:]),
            tuple(groups[n:]),
        )

    def data(self, rng, n_rows=N_ROWS) -> np.ndarray:
        X = rng.normal(size=(n_rows, 4 + len(self.levels) + len(self.crossed)))
        codes = rng.integers(self.levels[0][0] if self.levels else 1, size=n_rows)
        for level in range(len(self.levels)):
            codes = codes if level == 0 else np.array(self.parents[level - 1])[codes]
            X[:, 4 + level] = codes
        for index, (J, _, _) in enumerate(self.crossed, start=4 + len(self.levels)):
            X[:, index] = rng.integers(J, size=n_rows)
        return X

    def features(self, X: np.ndarray) -> np.ndarray:
        """All of ``X`` with dummies, by loops."""
        phi, _ = references.linear_features(X[:, :2], np.array([0.3, -1.0]), np.array([2.0, 0.5]), self.intercept)
        phi = np.concatenate([phi, X[:, list(self.plain)]], axis=1)
        factors = []
        for index, (J, slopes, intercept) in enumerate(self.levels + self.crossed, start=4):
            z = np.array([[1.0] * intercept + [row[column] for column in slopes] for row in X])
            factors.append((z, X[:, index].astype(int), J))
        n = len(self.levels)
        return dense.dense_features(phi, factors[:n], factors[n:], self.rows().layout)


CASES = [
    Case("intercepts", ((7, (), True),)),
    Case("slopes", ((6, (2, 0), True),)),
    Case("slopes without intercepts", ((6, (2, 3), False),), plain=(3,), intercept=False),
    Case("more groups than rows", ((90, (2,), True),)),
    Case("two levels", ((9, (2,), True), (4, (), True)), ((0, 0, 1, 3, 1, 0, 3, 3, 1),)),
    Case(
        "three levels",
        ((12, (), True), (6, (2, 3), True), (3, (2,), True)),
        ((0, 0, 1, 3, 1, 0, 3, 3, 1, 4, 5, 5), (0, 1, 1, 2, 0, 2)),
        plain=(2, 3),
    ),
    Case("a crossed factor", ((7, (), True),), crossed=((5, (), True),)),
    Case(
        "two crossed factors with slopes beside two levels",
        ((9, (2,), True), (4, (3,), True)),
        ((0, 0, 1, 3, 1, 0, 3, 3, 1),),
        crossed=((5, (2,), True), (4, (3, 0), True)),
        plain=(3,),
    ),
    Case("crossed factors alone", crossed=((5, (), True), (8, (2,), True))),
    Case("no factors"),
]


@pytest.fixture(params=CASES, ids=lambda case: case.label)
def case(request):
    return request.param


def beliefs(layout, phi, rng) -> tuple[Any, gaussian.Belief]:
    """One Gaussian of some rows' making, as an arrow and densely."""
    precision = (phi.T * rng.uniform(0.1, 2, size=len(phi))) @ phi + 0.3 * np.eye(layout.n_weights)
    h = 2 * rng.normal(size=layout.n_weights)
    return arrow.from_natural(dense.arrow_from_dense(precision, layout), h, layout), gaussian.from_natural(precision, h)


def assert_sums_equal(got, wanted, **tolerance):
    if isinstance(wanted, tuple):
        for one, other in zip(got, wanted, strict=True):
            assert_sums_equal(one, other, **tolerance)
    else:
        assert_allclose(got, wanted, **tolerance)


def test_moments_are_those_of_dummies_and_a_dense_belief(case, rng):
    rows, X = case.rows(), case.data(rng)
    phi = case.features(X)
    belief, wanted = beliefs(rows.layout, phi, rng)
    new = case.data(rng)  # other rows of the same groups: those that made the belief are the easiest
    for block in (X, new, X[:1]):
        latent, full = rows.lift(block).moments(belief), case.features(block)
        mu, spread, leftover = references.moments_by_loops(full, np.zeros(len(block)), wanted.mean, wanted.covariance)
        assert_allclose(latent.mu, mu, rtol=1e-8, atol=1e-9)
        assert_allclose(latent.spread, spread, rtol=1e-8, atol=1e-10)
        assert_allclose(latent.leftover, leftover)


def test_sums_are_those_of_dummies(case, rng):
    rows, X = case.rows(), case.data(rng)
    w, b = rng.uniform(0, 2, size=len(X)), rng.normal(size=len(X))
    w[::7] = 0
    G, h = rows.lift(X).gather(w, b)
    wanted_G, wanted_h = references.gather_by_loops(case.features(X), w, b)
    assert_allclose(dense.dense_from_arrow(G, rows.layout), wanted_G, rtol=1e-9, atol=1e-10)
    assert_allclose(h, wanted_h, rtol=1e-9, atol=1e-10)
    assert_allclose(G[1], G[1].T, rtol=1e-12)


def test_groups_without_rows_have_no_sums(rng):
    case = CASES[3]
    rows, X = case.rows(), case.data(rng)
    (((A, C),), _), h = rows.lift(X).gather(np.ones(N_ROWS), np.ones(N_ROWS))
    counts = np.bincount(X[:, 4].astype(int), minlength=90)
    assert set(counts) >= {0, 1}  # singletons among them
    assert_allclose(A[:, 0, 0], counts)
    assert not C[counts == 0].any()
    assert not rows.layout.split(h)[0][0][counts == 0].any()


def test_groups_alone_are_means_by_group(rng):
    rows = GroupedRows(LinearRows(np.zeros(0), np.ones(0), intercept=False), 0, (Factor((), True, 0),), (5,))
    codes = rng.integers(5, size=N_ROWS)
    features = rows.lift(codes[:, None].astype(float))
    w, b = rng.uniform(size=(2, N_ROWS))
    G, h = features.gather(w, b)
    belief = arrow.from_natural(arrow.with_precision(G, [np.eye(1)], np.zeros(0)), h, rows.layout)
    variance = 1 / (1 + np.bincount(codes, w, 5))
    latent = features.moments(belief)
    assert_allclose(latent.mu, (variance * np.bincount(codes, b, 5))[codes], rtol=1e-10)
    assert_allclose(latent.spread, variance[codes], rtol=1e-10)
    assert features.cross(belief).shape == (N_ROWS, 0)


def test_values_at_known_weights(case, rng):
    rows, X = case.rows(), case.data(rng)
    weights = rng.normal(size=rows.n_weights)
    assert_allclose(rows.lift(X).at(weights), case.features(X) @ weights, rtol=1e-9, atol=1e-10)
    assert_allclose(rows.lift(X).core_of(weights), weights[rows.layout.core], rtol=0)


def test_covariances_with_the_core(case, rng):
    rows, X = case.rows(), case.data(rng)
    phi = case.features(X)
    belief, wanted = beliefs(rows.layout, phi, rng)
    core = wanted.covariance[:, rows.layout.core]
    assert_allclose(rows.lift(X).cross(belief), phi @ core, rtol=1e-8, atol=1e-10)


def test_other_core_columns_replace_the_first(case, rng):
    rows, X, other = case.rows(), case.data(rng), rng.normal(size=N_ROWS)
    features, full = rows.lift(X), case.features(X)
    belief, wanted = beliefs(rows.layout, full, rng)
    phi = features.phi.copy()
    phi[:, 0] = full[:, rows.layout.core.start] = other
    changed, w = features._replace(phi=phi), rng.uniform(size=N_ROWS)
    mu, spread, _ = references.moments_by_loops(full, np.zeros(N_ROWS), wanted.mean, wanted.covariance)
    assert_allclose(changed.moments(belief).mu, mu, rtol=1e-8, atol=1e-9)
    assert_allclose(changed.moments(belief).spread, spread, rtol=1e-8, atol=1e-10)
    G, _ = changed.gather(w, w)
    assert_allclose(dense.dense_from_arrow(G, rows.layout), (full.T * w) @ full, rtol=1e-9, atol=1e-10)


def stats(rows, belief, X, y, weight):
    return block_stats(rows.lift(X), Hinge(), belief, y, weight)  # pyright: ignore


def test_parts_add_up_to_the_whole_in_any_order(case, rng):
    rows, X = case.rows(), case.data(rng)
    belief, _ = beliefs(rows.layout, case.features(X), rng)
    y, weight = np.sign(rng.normal(size=N_ROWS)), rng.uniform(0, 3, size=N_ROWS)
    whole = stats(rows, belief, X, y, weight)
    parts = add(*(stats(rows, belief, X[part], y[part], weight[part]) for part in (slice(0, 9), slice(9, None))))
    assert_sums_equal(parts, whole, rtol=1e-9, atol=1e-10)
    order = rng.permutation(N_ROWS)
    assert_sums_equal(stats(rows, belief, X[order], y[order], weight[order]), whole, rtol=1e-9, atol=1e-10)


def test_a_row_of_weight_three_is_three_rows(case, rng):
    rows, X = case.rows(), case.data(rng)
    belief, _ = beliefs(rows.layout, case.features(X), rng)
    y, counts = np.sign(rng.normal(size=N_ROWS)), rng.integers(4, size=N_ROWS)
    copies = stats(rows, belief, np.repeat(X, counts, axis=0), np.repeat(y, counts), np.ones(counts.sum()))
    assert_sums_equal(stats(rows, belief, X, y, counts.astype(float)), copies, rtol=1e-9, atol=1e-10)


def test_single_precision_comes_close_and_sums_in_double(case, rng):
    rows, X = case.rows(), case.data(rng)
    belief, _ = beliefs(rows.layout, case.features(X), rng)
    w, block = rng.uniform(size=N_ROWS), X.astype(np.float32)
    exact, features = rows.lift(X), case.rows(np.float32).lift(block)
    assert features.phi.dtype == np.float32
    latent = features.moments(belief.seen_by(block))
    for got, wanted in zip(latent, exact.moments(belief), strict=True):
        assert got.dtype == np.float64
        assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    (G, h), wanted = features.gather(w, w), exact.gather(w, w)
    assert G[1].dtype == h.dtype == np.float64
    assert_sums_equal((G, h), wanted, rtol=1e-4, atol=1e-4)


def test_nothing_is_uncertain_about_these_rows(case, rng):
    features = case.rows().lift(case.data(rng))
    same, cost = features.settled(None, Hinge(), np.ones(N_ROWS), np.ones(N_ROWS))
    assert same is features
    assert cost == 0
    assert features.drawn(np.zeros(1), None, (np.ones(N_ROWS), np.ones(N_ROWS)), np.ones(N_ROWS), rng) is features


# Groups that were not there ------------------------------------------------------------------------------------------


def population(case, rng):
    """A covariance for the effects of every factor."""
    roots = [rng.normal(size=(factor.q, factor.q)) for factor in case.rows().levels + case.rows().crossed]
    return tuple(root @ root.T + np.eye(len(root)) for root in roots)


@pytest.mark.parametrize("case", [case for case in CASES if case.levels or case.crossed], ids=lambda case: case.label)
def test_unseen_groups_are_drawn_from_the_population(case, rng):
    covariances, X = population(case, rng), case.data(rng)
    rows = case.rows()._replace(population=covariances)
    belief, wanted = beliefs(rows.layout, case.features(X), rng)
    n_factors = len(case.levels + case.crossed)
    X[:20, 4] = -1  # the finest factor alone: its parents still count
    X[20:30, 4:] = -1
    X[30:40, 3 + n_factors] = -1
    if len(case.levels) > 1:
        X[30:40, 4 : 3 + n_factors] = -1  # no group is known whose parent is not
    mu, v = rows.view(belief, X).moments(X)
    phi, extra = case.features(X), np.zeros(N_ROWS)
    for i, row in enumerate(X):
        for index, (factor, S) in enumerate(zip(rows.levels + rows.crossed, covariances, strict=True), start=4):
            if row[index] < 0:
                z = np.array([1.0] * factor.intercept + [row[column] for column in factor.columns])
                extra[i] += z @ S @ z
    wanted_mu, spread, _ = references.moments_by_loops(phi, extra, wanted.mean, wanted.covariance)
    assert_allclose(mu, wanted_mu, rtol=1e-8, atol=1e-9)
    assert_allclose(v, spread + extra, rtol=1e-8)
    root = rows.leftover_root(X)
    assert root is not None
    assert_allclose(root @ root.T, np.diag(extra), rtol=1e-10)
    w = rng.uniform(size=N_ROWS)
    G, h = rows.lift(X).gather(w, w)
    assert_allclose(dense.dense_from_arrow(G, rows.layout), (phi.T * w) @ phi, rtol=1e-9, atol=1e-10)
    assert_allclose(h, w @ phi, rtol=1e-9, atol=1e-10)


def test_the_caller_keeps_the_rows_as_they_were(rng):
    case = CASES[1]
    X = case.data(rng)
    X[:5, 4] = -1
    kept = X.copy()
    case.rows()._replace(population=population(case, rng)).lift(X)
    assert_allclose(X, kept, rtol=0)


def test_known_groups_leave_nothing_over(case, rng):
    rows, X = case.rows(), case.data(rng)
    assert rows.leftover_root(X) is None


def test_codes_that_cannot_be_are_refused(rng):
    case = CASES[0]
    rows, X = case.rows(), case.data(rng)
    X[3, 4] = 7
    with pytest.raises(ValueError, match="code 7"):
        rows.lift(X)
    X[3, 4] = -1
    with pytest.raises(ValueError, match="population"):
        rows.lift(X)


def test_no_rows_at_all(case, rng):
    rows = case.rows()
    features = rows.lift(case.data(rng)[:0])
    belief, _ = beliefs(rows.layout, case.features(case.data(rng)), rng)
    assert features.moments(belief).mu.shape == (0,)
    sums = features.gather(np.zeros(0), np.zeros(0))
    assert_sums_equal(combined(sums, 1, sums), arrow.zeros(rows.layout))


def test_blocks_outweigh_their_sums():
    few, many = CASES[0].rows(), CASES[0].rows()._replace(sizes=(50_000,))
    assert few.width == 3 + 2
    assert few.least_rows == 32_768
    assert (many.least_rows + 1) * many.width >= 50_000 * 4


def test_values_of_classes_and_the_way_back_are_products_with_dummies(case, rng):
    rows, X = case.rows(), case.data(rng)
    features, full = rows.lift(X), case.features(X)
    weights, values = rng.normal(size=(rows.n_weights, 3)), rng.normal(size=(len(X), 3))
    assert_allclose(features.latent_of(weights), full @ weights, rtol=1e-9, atol=1e-10)
    assert_allclose(features.pulled(values), full.T @ values, rtol=1e-9, atol=1e-10)


def test_effects_of_a_factor_are_where_its_dummies_are(case, rng):
    rows, X = case.rows(), case.data(rng)
    full, factors = case.features(X), rows.levels + rows.crossed
    for index, factor in enumerate(factors):
        places, z = rows.weights_of(index), factor.z(X)
        assert places.shape == ((rows.sizes + rows.crossed_sizes)[index], factor.q)
        for group, own in enumerate(places):
            member = X[:, factor.code] == group
            assert_allclose(full[:, own], np.where(member[:, None], z, 0))


def test_a_row_is_as_wide_as_its_features(case, rng):
    rows = case.rows()
    features = rows.lift(case.data(rng))
    numbers = features.phi.shape[1] + sum(part.z.shape[1] + 1 for part in features.levels + features.crossed)
    assert rows.width == numbers


def test_groups_that_nobody_has_seen_vary_as_the_population_of_each_class(rng):
    case = Case("a crossed factor", ((1, (2,), True),), crossed=((5, (), True),))
    A = rng.normal(size=(2, 2, 2))
    covariances, variances = A @ A.transpose(0, 2, 1), rng.uniform(1, 2, size=(2, 1, 1))
    rows, X = case.rows()._replace(population=(covariances, variances)), case.data(rng, 9)
    X[:6, 4], X[3:, 5] = -1, -1  # three rows new in the first factor, three in both, three in the second
    z = np.column_stack([np.ones(9), X[:, 2]])
    new = (np.arange(9) < 6)[:, None] * np.einsum("ij,kjl,il->ik", z, covariances, z)
    wanted = new + (np.arange(9) >= 3)[:, None] * variances[:, 0, 0]
    features = ClasswiseRows(rows, 2).lift(X)
    assert_allclose(features.leftover, wanted, rtol=1e-10)
    belief = beliefs(rows.layout, np.eye(rows.n_weights), rng)[0]
    latent = features.moments(gaussian.ClassBelief((belief, belief)))
    assert_allclose(latent.leftover, wanted, rtol=1e-10)
    assert_allclose(latent.mu[3:6, 0], X[3:6, :2] @ (belief.core_mean[:2] / [2.0, 0.5]) + rest(belief), rtol=1e-8)


def rest(belief):
    """What rows of new groups have in common: the intercept, about the centre of the columns."""
    return belief.core_mean[2] - np.array([0.3, -1.0]) / [2.0, 0.5] @ belief.core_mean[:2]
