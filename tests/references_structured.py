"""Covariances, inclusion variables and missing entries the long way: densities, draws, grids and loops over rows."""

import numpy as np
from scipy.special import gammaln

#: Standard errors that a mean of draws may lie from the truth: of some hundred numbers in each test file, less than one
#: in a hundred seeds would exceed it.
ERRORS = 5.0


def agrees(values, wanted, smallest=None):
    """The mean of independent draws, one in each row, is as expected to a few standard errors."""
    error = values.std(axis=0) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - wanted) <= ERRORS * error + 1e-12)
    if smallest is not None:  # guards against errors so large that anything would agree
        assert np.all(error < smallest)


def chain_agrees(values, wanted, n_batches=40):
    """The same for a chain: errors from the means of long batches, which are nearly independent."""
    batches = values[: len(values) // n_batches * n_batches].reshape(n_batches, -1, *values.shape[1:]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(n_batches)
    assert np.all(np.abs(batches.mean(axis=0) - wanted) < ERRORS * error)


def log_normal(x, mean, covariance):
    """``log N(x; mean, covariance)`` of draws in rows, each under its own moments or all under the same."""
    about = x - mean
    covariance = np.broadcast_to(covariance, (*about.shape, about.shape[-1]))
    square = np.sum(about * np.linalg.solve(covariance, about[..., None])[..., 0], axis=-1)
    return -0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1])


def log_inverse_wishart(covariances, scale, dof):
    """The density of each matrix of a stack, as in any textbook."""
    q = len(scale)
    log_gamma = q * (q - 1) / 4 * np.log(np.pi) + np.sum(gammaln((dof - np.arange(q)) / 2))
    log_det = np.linalg.slogdet(covariances)[1]
    trace = np.trace(scale @ np.linalg.inv(covariances), axis1=-2, axis2=-1)
    constant = dof / 2 * np.linalg.slogdet(scale)[1] - dof * q / 2 * np.log(2) - log_gamma
    return constant - (dof + q + 1) / 2 * log_det - trace / 2
