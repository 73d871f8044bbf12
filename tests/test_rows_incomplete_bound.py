"""Rows with gaps: where entries come to rest, and the bound."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import invwishart, norm

import references_structured as naive
from softmargin import gaussian
from softmargin.chunks import Table
from softmargin.engine import Problem, block_stats
from softmargin.imputation import ColumnModel, Imputation
from softmargin.likelihoods import AugmentedHinge
from softmargin.priors import Imputing, Ridge
from softmargin.rows import ClasswiseRows, IncompleteRows, LinearRows
from softmargin.rows.incomplete import _joined, beneath
from softmargin.steps import ascend
from softmargin.wishart import InverseWishart
from test_rows_incomplete import FIXED, Case, D, N


def certain(mean, covariance, dof=1e9):
    """A model of columns that is known."""
    d = len(mean)
    return Imputation(mean, np.zeros((d, d)), InverseWishart(dof * covariance, dof), np.linalg.inv(covariance))


def test_bound_is_exact_where_a_missing_column_does_not_matter(rng):
    """Its weight is zero, and the columns' model is known: what is left are complete rows, and the observed columns'
    own likelihood."""
    mean, covariance = np.array([0.5, -0.2, 0.1]), np.array([[1.0, 0.6, 0.2], [0.6, 1.5, -0.3], [0.2, -0.3, 0.8]])
    X, y, weight = rng.normal(size=(30, 3)), np.sign(rng.normal(size=30)), rng.uniform(0.5, 2, size=30)
    missing = rng.random(30) < 0.5
    X[missing, 1] = np.nan
    rows = LinearRows(np.zeros(3), np.ones(3))
    A = rng.normal(size=(4, 4))
    precision = A @ A.T + np.eye(4)
    precision[1], precision[:, 1], h = 0, 0, rng.normal(size=4)
    precision[1, 1], h[1] = 1e14, 0
    belief = gaussian.from_natural(precision, h, certain(mean, covariance))
    stats = block_stats(IncompleteRows(rows, 3).lift(X.copy()), AugmentedHinge(), belief, y, weight)  # pyright: ignore
    wanted = block_stats(rows.lift(np.nan_to_num(X)), AugmentedHinge(), belief, y, weight)
    total = float(wanted.bound)
    for x, c in zip(X, weight, strict=True):
        seen = np.flatnonzero(~np.isnan(x))
        total += c * naive.log_normal(x[seen], mean[seen], covariance[np.ix_(seen, seen)])
    assert_allclose(float(stats.bound), total, rtol=1e-8)
    filled = IncompleteRows(rows, 3).lift(X.copy()).settled(belief, AugmentedHinge(), y, weight)[0]
    others = [0, 2]
    slope = np.linalg.solve(covariance[np.ix_(others, others)], covariance[others, 1])
    assert_allclose(filled.values[missing, 1], mean[1] + (X[missing][:, others] - mean[others]) @ slope, atol=1e-6)


def test_objective_lies_below_the_evidence(rng):
    """``log p(y, D_observed)`` by importance sampling of weights, mean and covariance; entries integrated out."""
    n, d = 8, 2
    X = rng.normal(size=(n, d)) @ np.array([[1, 0.5], [0, 1]])
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    X[1, 0] = X[3, 1] = X[4, 0] = np.nan
    X[6] = np.nan
    columns = ColumnModel(np.zeros(d), np.ones(d), 2.0, 3.0)
    prior = Imputing(Ridge(np.array([0.5, 0.5, 1.0])), columns, float(n))
    rows = IncompleteRows(LinearRows(np.zeros(d), np.ones(d)), d)
    point = ascend(
        Problem(Table(X, y, np.ones(n), n), rows, AugmentedHinge(), prior),  # pyright: ignore
        tol=1e-10,
        max_passes=300,
    ).point
    belief, q = point.belief, point.belief.hyper.columns
    draws = 40_000
    wide_u, wide_mu, dof = 8 * belief.covariance + 0.05 * np.eye(3), 2 * q.mean_covariance, q.covariance.dof - 3
    u = rng.multivariate_normal(belief.mean, wide_u, size=draws)
    mu = rng.multivariate_normal(q.mean, wide_mu, size=draws)
    Sigma = invwishart.rvs(dof, q.covariance.scale, size=draws, random_state=rng)
    log_p = naive.log_normal(u, np.zeros(3), np.diag([2.0, 2.0, 1.0])) - naive.log_normal(u, belief.mean, wide_u)
    log_p += naive.log_normal(mu, np.zeros(d), 2.0 * np.eye(d)) - naive.log_normal(mu, q.mean, wide_mu)
    log_p += naive.log_inverse_wishart(Sigma, 3.0 * np.eye(d), d + 1)
    log_p -= naive.log_inverse_wishart(Sigma, q.covariance.scale, dof)
    for x, label in zip(X, y, strict=True):
        gone, seen = np.flatnonzero(np.isnan(x)), np.flatnonzero(~np.isnan(x))
        log_p += naive.log_normal(x[seen], mu[:, seen], Sigma[:, seen][:, :, seen]) if len(seen) else 0.0
        slope = np.linalg.solve(Sigma[:, seen][:, :, seen], Sigma[:, seen][:, :, gone])
        mean = mu[:, gone] + np.einsum("nsg,ns->ng", slope, x[seen] - mu[:, seen])
        V = Sigma[:, gone][:, :, gone] - np.einsum("nsg,nsh->ngh", slope, Sigma[:, seen][:, :, gone])
        z = 1 - label * (u[:, 2] + u[:, seen] @ x[seen] + np.sum(u[:, gone] * mean, axis=1))
        s = np.sqrt(np.einsum("ng,ngh,nh->n", u[:, gone], V, u[:, gone]) + 1e-12)
        # E exp(-2 max(0, z + s e)) for a standard normal e.
        log_p += np.logaddexp(norm.logcdf(-z / s), 2 * (s**2 - z) + norm.logcdf(z / s - 2 * s))
    weights = np.exp(log_p - log_p.max())
    evidence = np.log(weights.mean()) + log_p.max()
    error = weights.std() / weights.mean() / np.sqrt(draws)
    assert error < 0.05
    assert evidence - 5 < point.objective < evidence + naive.ERRORS * error


def test_rows_beneath_are_those_without_gaps_and_classes():
    assert beneath(FIXED) is FIXED
    assert beneath(IncompleteRows(ClasswiseRows(FIXED, 3), D)) is FIXED


def test_vectors_of_classes_become_columns():
    one, other = np.arange(3.0), np.ones(3)
    assert_array_equal(_joined([one]), one)
    assert_array_equal(_joined([one, other]), np.column_stack([one, other]))


def test_entries_are_drawn_where_all_weights_are_zero(rng):
    case = Case("linear", rng)
    site = rng.uniform(0.2, 1, size=N), rng.normal(size=N)
    filled = case.incomplete.lift(case.X).drawn(np.zeros(D + 1), case.imputation, site, case.weight, rng)
    assert np.isfinite(filled.base.phi).all()
