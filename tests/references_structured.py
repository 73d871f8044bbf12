"""Covariances, inclusion variables and missing entries the long way: densities, draws, and loops over rows."""

from typing import NamedTuple

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import digamma, gammaln

from softmargin.priors.variance import InverseGamma
from softmargin.wishart import InverseWishart

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


def mean_log_beta(odds):
    """``E log p`` and ``E log(1 - p)`` of a beta distribution."""
    return digamma(odds) - digamma(np.sum(odds))


# Priors ------------------------------------------------------------------------------------------


def some_sums(n_weights, rng, n_rows=None, noise=1.0):
    """Sums over random rows, with labels that weights explain but for noise."""
    A = rng.normal(size=(n_rows or 2 * n_weights, n_weights))
    G = A.T @ A
    return G, G @ rng.normal(size=n_weights) + noise * A.T @ rng.normal(size=len(A))


def permuted(G, h, order):
    """Sums over rows with their weights in another order."""
    return G[np.ix_(order, order)], h[order]


def fixed_site_objective(prior, belief, G, h) -> float:
    """``E[h'u - u'Gu/2]`` as the rows see the weights, less the divergence."""
    seen = prior.effective(belief)
    m, S = np.asarray(seen.mean), np.asarray(seen.covariance)
    return float(h @ m - 0.5 * np.sum(G * (S + np.outer(m, m))) - prior.kl(belief))


def neighbours(hyper, size, rng):
    """Beliefs about a covariance nearby, each different in one of its parameters."""
    if isinstance(hyper, InverseWishart):
        bump = np.eye(hyper.size) + size * rng.normal(size=(hyper.size, hyper.size))
        yield hyper._replace(scale=bump @ hyper.scale @ bump.T)
        yield hyper._replace(dof=hyper.dof * (1 + size))
        yield hyper._replace(dof=hyper.dof * (1 - size))
        return
    for part in range(2):
        bent = list(hyper.variance)
        bent[part] = bent[part] * np.exp(size * rng.normal(size=bent[part].shape))
        yield hyper._replace(variance=InverseGamma(*bent))


def flattened(nested) -> np.ndarray:
    """All numbers of nested tuples."""
    if nested is None:
        return np.zeros(0)
    if isinstance(nested, tuple):
        return np.concatenate([np.zeros(0), *(flattened(part) for part in nested)])
    return np.ravel(nested).astype(float)


# Rows with missing entries -------------------------------------------------------------------------


class Entries(NamedTuple):
    """The belief about a row's missing entries, as moments of all of its features."""

    mean: np.ndarray
    covariance: np.ndarray


def filled_row(phi, gone, site, weights, imputation, n_columns, start):
    """Missing entries that maximise ``E[b f - w f^2 / 2 + log p(d)]``, by differences of that quadratic itself.

    ``phi`` are all features of a row, those at the places ``gone`` missing; its columns begin at ``start``, and
    ``weights`` are mean and covariance of all weights.
    """
    (w, b), (m, S) = site, weights
    Omega = S + np.outer(m, m)

    def value(entries):
        row = phi.copy()
        row[gone] = entries
        about = row[start : start + n_columns] - imputation.mean
        return b * m @ row - 0.5 * w * row @ Omega @ row - 0.5 * about @ imputation.precision @ about

    k, unit = len(gone), np.eye(len(gone))
    slope = np.array([value(e) - value(-e) for e in unit]).reshape(k) / 2
    bend = np.array([[value(e + o) - value(e) - value(o) + value(0 * e) for o in unit] for e in unit]).reshape(k, k)
    mean, covariance = phi.copy(), np.zeros((len(phi), len(phi)))
    covariance[np.ix_(gone, gone)] = np.linalg.inv(-bend)
    mean[gone] = np.linalg.solve(-bend, slope)
    return Entries(mean, covariance)


def row_moments(entries, weights):
    """Mean of a row's latent value, its variance from the weights at the mean entries, and the rest of its variance."""
    (row, V), (m, S) = entries, weights
    mu = m @ row
    total = np.sum((S + np.outer(m, m)) * (V + np.outer(row, row))) - mu**2
    return mu, row @ S @ row, total - row @ S @ row


def row_cost(entries, imputation, n_columns, start):
    """``-E log N(d; mu, Sigma)`` less the entropy of the missing entries."""
    columns = slice(start, start + n_columns)
    about, V = entries.mean[columns] - imputation.mean, entries.covariance[columns, columns]
    second = np.outer(about, about) + V + imputation.mean_covariance
    cost = 0.5 * (n_columns * np.log(2 * np.pi) + imputation.covariance.mean_log_det)
    cost += 0.5 * np.trace(imputation.precision @ second)
    gone = np.flatnonzero(np.diag(V))
    return cost - 0.5 * np.linalg.slogdet(2 * np.pi * np.e * V[np.ix_(gone, gone)])[1]


def assert_highest_at(filled, missing, value, bound, rng):
    """The bound of each row with gaps is ``value`` at the moments that fill them, and less at others near them."""
    n_columns = missing.shape[1]
    for batch, covariances in zip(filled.batches, filled.covariances, strict=True):
        for i, gone, block in zip(batch.rows, batch.columns, covariances, strict=True):
            V, mean = np.zeros((n_columns, n_columns)), filled.values[i]
            V[np.ix_(gone, gone)] = block
            assert_allclose(bound(i, mean, V), value[i], rtol=1e-9)
            for _ in range(4):
                step = np.where(missing[i], 1e-2 * rng.normal(size=n_columns), 0)
                turn = 1e-2 * rng.normal(size=V.shape) * np.outer(missing[i], missing[i])
                bump = np.eye(n_columns) + turn
                assert bound(i, mean + step, V) < value[i]
                assert bound(i, mean, bump @ V @ bump.T) < value[i]
