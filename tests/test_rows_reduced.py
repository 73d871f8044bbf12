"""Rows with more columns than rows: the same model in as many weights as there are rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.likelihoods import AugmentedHinge, Hinge
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import LinearRows
from softmargin.rows.reduced import ReducedRows
from softmargin.steps import ascend


def fitted(rows, n_directions, X, y, likelihood, prior):
    """The belief at its optimum, for as many directions and an intercept."""
    group = np.append(np.zeros(n_directions, dtype=int), -1)
    chosen = VarianceComponents(group, 5.0, 1.0) if prior == "inferred" else Ridge(np.where(group < 0, 1e-8, 4.0))
    problem = Problem(Table.of(X, y, np.ones(len(y)), rows.n_weights), rows, likelihood, chosen)
    return ascend(problem, tol=1e-11, max_passes=3000).point.belief


@pytest.fixture
def wide(rng):
    X = rng.normal(size=(30, 80))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge()], ids=type)
@pytest.mark.parametrize("prior", ["inferred", "known"])
def test_few_directions_say_all_that_many_columns_do(wide, rng, likelihood, prior):
    X, y = wide
    columns = LinearRows(X.mean(axis=0), X.std(axis=0))
    reduced = ReducedRows.of(columns, X)
    assert reduced.basis.shape == (80, 29)  # centred rows lie in one direction less
    whole = fitted(columns, 80, X, y, likelihood, prior)
    few = fitted(reduced, 29, X, y, likelihood, prior)
    variance = 0.25 if prior == "known" else float(1 / few.hyper.mean_precision[0])
    if prior == "inferred":
        assert_allclose(variance, 1 / whole.hyper.mean_precision[0], rtol=1e-4)
    reduced = reduced._replace(variance=variance)
    mean, variances = reduced.weights_of_columns(few.mean, few.covariance)
    assert_allclose(mean, whole.mean[:80], atol=1e-4)
    assert_allclose(variances, whole.variances[:80], rtol=1e-4)
    to_come = rng.normal(size=(6, 80))
    for one, other in zip(
        columns.lift(to_come).moments(whole)[:1], reduced.lift(to_come).moments(few)[:1], strict=True
    ):
        assert_allclose(one, other, atol=1e-3)
    assert_allclose(columns.lift(to_come).moments(whole).v, reduced.lift(to_come).moments(few).v, rtol=1e-4)
    direction = rng.normal(size=81)
    expected = direction @ whole.mean, direction @ whole.covariance @ direction
    assert_allclose(reduced.moments_in(few.mean, few.covariance, direction)[1], expected[1], rtol=1e-4)


def test_rows_of_the_fit_have_nothing_outside(wide):
    X, _ = wide
    columns = LinearRows(X.mean(axis=0), X.std(axis=0))
    reduced = ReducedRows.of(columns, X)._replace(variance=2.0)
    assert_allclose(reduced.lift(X).leftover, 0, atol=1e-9)
    inside = reduced.lift(X).phi[:, :-1]
    assert_allclose(inside @ inside.T, columns.lift(X).phi[:, :-1] @ columns.lift(X).phi[:, :-1].T, atol=1e-9)


def test_what_is_outside_varies_together(wide, rng):
    X, _ = wide
    columns = LinearRows(np.zeros(80), np.ones(80))
    reduced = ReducedRows.of(columns, X)._replace(variance=2.0)
    to_come = rng.normal(size=(5, 80))
    root = reduced.leftover_root(to_come)
    away = to_come - to_come @ reduced.basis @ reduced.basis.T
    assert_allclose(root @ root.T, 2.0 * away @ away.T, atol=1e-9)
    assert_allclose(np.diagonal(root @ root.T), reduced.lift(to_come).leftover)
    assert ReducedRows.of(columns, X).leftover_root(to_come) is None


def test_repeated_rows_add_no_direction(wide):
    X, _ = wide
    columns = LinearRows(np.zeros(80), np.ones(80))
    assert ReducedRows.of(columns, np.vstack([X, X[:10]])).basis.shape == (80, 30)
