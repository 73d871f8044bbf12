"""What the weights leave over at several rows together: of kernels, of new groups, of columns beyond the rows'."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmargin.kernels import RBF
from softmargin.rows import CurvedRows, Factor, GroupedRows, InducingRows, LinearRows, ReducedRows

LINES = LinearRows(np.zeros(2), np.ones(2))


def products(root):
    """The covariance of each class, for a root with classes as its last axis."""
    return np.einsum("irk,jrk->ijk", root, root)


# Groups --------------------------------------------------------------------------------------------------------------


def grouped(fixed, population):
    """Two columns, then the codes of a nested factor with a slope and of a crossed one."""
    factors = (Factor((1,), True, 2),), (Factor((), True, 3),)
    return GroupedRows(fixed, 2, factors[0], (3,), (), (), factors[1], (4,), population)


@pytest.fixture
def members(rng):
    """Rows of groups that are known, new in one factor, or in both."""
    return np.column_stack([rng.normal(size=(5, 2)), [0, -1, -1, 1, 2], [3, 0, -1, -1, 1]])


def new_effects(X, of_level, of_crossed):
    """The variances of the effects of groups that nobody has seen, by row, in one class."""
    z = np.column_stack([np.ones(len(X)), X[:, 1]])
    return (X[:, 2] < 0) * np.einsum("ij,jk,ik->i", z, of_level, z) + (X[:, 3] < 0) * of_crossed[0, 0]


def populations(rng, n_classes):
    A = rng.normal(size=(n_classes, 2, 2))
    return A @ A.transpose(0, 2, 1) + np.eye(2), rng.uniform(0.5, 2, size=(n_classes, 1, 1))


def curved(rng):
    return CurvedRows(LINES, InducingRows.at(1.5 * RBF(0.7), rng.normal(size=(3, 2))))


def of_kernel(fixed, X):
    """What points leave over of a kernel, between all pairs of rows."""
    phi = fixed.curves.lift(X[:, :2]).phi
    return fixed.curves.kernel(X[:, :2], X[:, :2]) - phi @ phi.T


def test_new_groups_vary_alone_and_curves_together(rng, members):
    fixed, (of_level, of_crossed) = curved(rng), populations(rng, 1)
    rows = grouped(fixed, (of_level[0], of_crossed[0]))
    root = rows.leftover_root(members)
    wanted = of_kernel(fixed, members) + np.diag(new_effects(members, of_level[0], of_crossed[0]))
    assert_allclose(root @ root.T, wanted, rtol=1e-7, atol=1e-9)
    assert_allclose(np.diagonal(wanted), rows.lift(members).leftover, rtol=1e-9)


def test_new_groups_have_variances_in_each_class_and_curves_the_same_in_all(rng, members):
    fixed, population = curved(rng), populations(rng, 3)
    rows = grouped(fixed, population)
    found = products(rows.leftover_root(members))
    assert found.shape == (5, 5, 3)
    for k, (of_level, of_crossed) in enumerate(zip(*population, strict=True)):
        wanted = of_kernel(fixed, members) + np.diag(new_effects(members, of_level, of_crossed))
        assert_allclose(found[:, :, k], wanted, rtol=1e-7, atol=1e-9)
        assert_allclose(np.diagonal(wanted), rows.lift(members).leftover[:, k], rtol=1e-9)


def test_lines_leave_nothing_over_beside_new_groups(rng, members):
    population = populations(rng, 2)
    found = products(grouped(LINES, population).leftover_root(members))
    for k, (of_level, of_crossed) in enumerate(zip(*population, strict=True)):
        assert_allclose(found[:, :, k], np.diag(new_effects(members, of_level, of_crossed)), rtol=1e-9)


def test_blocks_of_rows_outweigh_their_sums(rng):
    """As many numbers as ``G`` has, the blocks of all groups and the core, or nearly: it is whole rows."""
    many = grouped(LINES, None)._replace(sizes=(200_000,), crossed_sizes=(1500,))
    layout = many.layout
    own, path, core = 200_000 * 2 * 2, 200_000 * 2 * layout.n_core, layout.n_core**2
    assert layout.n_core == 3 + 1500
    assert 0 <= own + path + core - many.least_rows * many.width < many.width


# More columns than rows ----------------------------------------------------------------------------------------------


@pytest.fixture
def reduced(rng):
    return ReducedRows.of(LinearRows(np.zeros(9), np.ones(9)), rng.normal(size=(4, 9)))


def beyond(reduced, X):
    """The part of each row that lies in no direction of the fit's, by projection."""
    return X - X @ reduced.basis @ reduced.basis.T


def test_directions_and_an_intercept_are_the_weights(reduced, rng):
    X = rng.normal(size=(6, 9))
    for rows, n_weights in ((reduced, 5), (reduced._replace(columns=LinearRows(np.zeros(9), np.ones(9), False)), 4)):
        assert rows.n_weights == rows.width == n_weights
        assert rows.lift(X).phi.shape == (6, n_weights)


@pytest.mark.parametrize("variance", [np.array([0.5, 2.0, 0.1]), np.array([0.0, 2.0, 0.1])], ids=["all", "not all"])
def test_each_class_has_the_variance_of_its_own_weights(reduced, variance, rng):
    X = rng.normal(size=(6, 9))
    rows, away = reduced._replace(variance=variance), beyond(reduced, X)
    leftover, root = rows.lift(X).leftover, rows.leftover_root(X)
    assert leftover.shape == (6, 3)
    assert_allclose(products(root), (away @ away.T)[:, :, None] * variance, rtol=1e-9, atol=1e-12)
    assert_allclose(leftover, np.sum(away**2, axis=1)[:, None] * variance, rtol=1e-9, atol=1e-12)
    for k in range(3):
        assert_allclose(rows.of_class(k).lift(X).leftover, leftover[:, k], atol=1e-12)
    same = reduced._replace(variance=0.7)
    assert_allclose(same.of_class(1).lift(X).leftover, same.lift(X).leftover)


def test_a_combination_of_weights_varies_by_what_is_inside_and_what_is_not(reduced, rng):
    """The covariance of all columns' weights is ``V S V' + sigma^2 (I - V V')``; directions may be of any length."""
    rows, V = reduced._replace(variance=0.7), reduced.basis
    A = rng.normal(size=(5, 5))
    mean, S = rng.normal(size=5), A @ A.T
    whole = np.zeros((10, 5))
    whole[:9, :4], whole[9, 4] = V, 1
    covariance = whole @ S @ whole.T
    covariance[:9, :9] += 0.7 * (np.eye(9) - V @ V.T)
    for length in (0.01, 1.0, 30.0):
        direction = length * rng.normal(size=10)
        found = rows.moments_in(mean, S, direction)
        assert_allclose(found, (direction @ whole @ mean, direction @ covariance @ direction), rtol=1e-9)
    assert_allclose(rows.moments_in(mean, S, np.append(V[:, 0], 0.0))[1], S[0, 0], rtol=1e-9)
