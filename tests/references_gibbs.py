"""Small problems for the sampler, their posteriors by brute force, and what it takes to agree with them."""

import numpy as np
from scipy.special import log_expit

import references
from softmargin.chunks import Table
from softmargin.diagnostics import ess
from softmargin.engine import Problem
from softmargin.kernels import RBF
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows, LinearRows

#: Standard errors that a Monte Carlo estimate may lie from the truth: for the few hundred numbers compared here, each
#: with a standard error that is itself estimated, less than one in a hundred seeds would exceed it.
ERRORS = 5.0


def two_columns(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0, 1.0, -1.0)


def linear_problem(X, y, weight, prior=None, block_rows=1000, n_jobs=1, likelihood=None):
    rows = LinearRows(np.zeros(2), np.ones(2), intercept=False)
    prior = Ridge(np.array([0.5, 2.0])) if prior is None else prior
    return Problem(Table(X, y, weight, block_rows), rows, likelihood or Hinge(), prior, n_jobs)


def inducing_problem(n_rows, n_points, likelihood=None):
    X, y = two_columns(n_rows)
    rows = InducingRows.at(2.0 * RBF(1.0), X[:n_points])
    return Problem(Table(X, y, np.ones(n_rows), 1000), rows, likelihood or Hinge(), Ridge.isotropic(n_points))


def logistic_log_posterior(phi, leftover, y, weight, precision):
    """``log p(u | y)`` up to a constant, for points ``u`` in rows, each row's leftover integrated out on a grid."""
    x = np.linspace(-8, 8, 161)

    def log_density(points):
        total = -0.5 * np.einsum("ij,jk,ik->i", points, precision, points)
        for row, s2, label, c in zip(phi, leftover, y, weight, strict=True):
            if s2 == 0:
                total += c * log_expit(label * (points @ row))
                continue
            f = (points @ row)[:, None] + np.sqrt(s2) * x
            total += np.logaddexp.reduce(c * log_expit(label * f) - x**2 / 2, axis=1)
        return total

    return log_density


def true_moments(problem, weight=None, half_width=6.0, n_points=201):
    """Moments of the weights by brute force; ``weight`` in place of the rows' own."""
    table = problem.table
    phi, leftover = problem.rows.lift(table.X)
    leftover = np.where(leftover > 1e-9, leftover, 0.0)
    weight = table.weight if weight is None else weight
    log_posterior = references.hinge_log_posterior if isinstance(problem.likelihood, Hinge) else logistic_log_posterior
    log_density = log_posterior(phi, leftover, table.y, weight, np.diag(problem.prior.precision))
    return references.grid_moments(log_density, [(-half_width, half_width)] * phi.shape[1], n_points)


def agrees(chains, mean, covariance, belief=None):
    """Means and variances of draws (chain, draw, number), and of the belief, agree to their standard errors."""
    sd, draws = np.sqrt(np.diag(covariance)), chains.reshape(-1, chains.shape[2])
    of_mean = sd / np.sqrt(ess(chains))
    squares = (chains - mean) ** 2
    of_variance = squares.std(axis=(0, 1)) / np.sqrt(ess(squares))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < ERRORS * of_mean)
    assert np.all(np.abs(squares.mean(axis=(0, 1)) - sd**2) < ERRORS * of_variance)
    if belief is not None:  # it averages conditional moments, and can only scatter less
        assert np.all(np.abs(belief.mean - mean) < ERRORS * of_mean)
        assert np.all(np.abs(belief.variances - sd**2) < ERRORS * of_variance)
    # Guards against errors so large that anything would agree.
    assert np.all(of_mean < 0.06 * sd)
    assert np.all(of_variance < 0.12 * sd**2)
