"""Naive versions of what the library does for more than two classes: loops over rows and classes, draws, dense algebra.

Nothing here is imported from the library.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, wrightomega
from scipy.stats import norm

import references

# Log-densities of one row and a vector of latent values ----------------------------------------------


def hinge(y, f):
    return -2 * np.maximum(0, 1 - y * f)


def logistic(y, f):
    return -np.logaddexp(0, -y * f)


def rivals(base, y, f):
    """Weston and Watkins (base hinge), one-vs-each (base logistic)."""
    return sum(base(1.0, f[..., y] - f[..., t]) for t in range(f.shape[-1]) if t != y)


def strongest(y, f):
    """Crammer and Singer: the strongest rival alone."""
    others = np.delete(f, y, axis=-1)
    return hinge(1.0, f[..., y] - others.max(axis=-1))


def one_versus_rest(base, y, f):
    return sum(base(1.0 if k == y else -1.0, f[..., k]) for k in range(f.shape[-1]))


def log_softmax(y, f):
    return f[..., y] - logsumexp(f, axis=-1)


# Expectations ----------------------------------------------------------------------------------------


def expectation_by_draws(log_density, mu, v, n_draws, rng):
    """``E log p`` of one row whose latent values are independent, and its standard error."""
    values = log_density(mu + np.sqrt(v) * rng.normal(size=(n_draws, len(mu))))
    return values.mean(), values.std() / np.sqrt(n_draws)


def expected_rivals(base, y, mu, v):
    """Rival by rival, each by quadrature of one difference."""
    return sum(
        references.normal_expectation(lambda f: base(1.0, f), mu[y] - mu[t], v[y] + v[t], (0.0, 1.0))
        for t in range(len(mu))
        if t != y
    )


def expected_one_versus_rest(base, y, mu, v):
    total = 0.0
    for k in range(len(mu)):
        label = 1.0 if k == y else -1.0
        total += references.normal_expectation(lambda f, label=label: base(label, f), mu[k], v[k], (0.0, label))
    return total


# Sites by loops --------------------------------------------------------------------------------------


def augmented_hinge(z, v):
    """The optimum of the augmented bound: value, precision, slope in the mean (of a row labelled +1)."""
    root = np.sqrt(z**2 + v)
    return -z - root, 1 / root, 1 + z / root


def exact_hinge(z, v):
    s = np.sqrt(v)
    return -2 * (s * norm.pdf(z / s) + z * norm.cdf(z / s)), 2 * norm.pdf(z / s) / s, 2 * norm.cdf(z / s)


def pairwise_sites(hinge_of, y, mu, v, shares=None):
    """``l``, ``w`` and ``b`` of rows whose own class meets every rival, each counted by its share (by default 1).

    A pair's slope goes to the row's own class and, with the other sign, to the rival; its precision to both.
    """
    n, K = mu.shape
    l, w, slope = np.zeros(n), np.zeros((n, K)), np.zeros((n, K))  # noqa: E741
    for i in range(n):
        own = int(y[i])
        for t in range(K):
            if t == own:
                continue
            share = 1.0 if shares is None else shares[i, t]
            value, precision, push = hinge_of(1 - (mu[i, own] - mu[i, t]), v[i, own] + v[i, t])
            l[i] += share * value
            for k, sign in ((own, 1.0), (t, -1.0)):
                w[i, k] += share * precision
                slope[i, k] += sign * share * push
    return l, w, slope + w * mu


def soft_rivals(y, mu):
    """The share of each rival of each row: softmax of twice its mean, without the row's own class."""
    shares = np.zeros(mu.shape)
    for i, own in enumerate(y.astype(int)):
        others = [t for t in range(mu.shape[1]) if t != own]
        weight = np.exp(2 * (mu[i, others] - mu[i, others].max()))
        shares[i, others] = weight / weight.sum()
    return shares


def laplacian_of_pairs(own, of_rivals):
    """The matrix that bends in ``f_own - f_t`` by so much for every rival: a graph's Laplacian, edge by edge."""
    K = len(of_rivals)
    L = np.zeros((K, K))
    for t in range(K):
        if t != own:
            edge = np.eye(K)[own] - np.eye(K)[t]
            L += of_rivals[t] * np.outer(edge, edge)
    return L


# The tilted bound of softmax -------------------------------------------------------------------------


def tilted_bound(y, mu, v, a):
    """Knowles and Minka's lower bound of ``E log softmax`` of one row, for any shares."""
    return mu[y] - 0.5 * np.sum(a**2 * v) - logsumexp(mu + (1 - 2 * a) * v / 2)


def tilted_shares(mu, v):
    r"""Of one row, by bisection of ``c`` in :math:`\sum p = 1`.

    :math:`\log p + v p = c + \mu + v / 2` is Wright's omega function, :math:`v p = \omega(c + \mu + v/2 + \log v)`.
    """
    mu = mu - mu.max()
    flat = v < 1e-200  # what is left of so little has no digits
    log_v = np.log(np.where(flat, 1.0, v))

    def p(c):
        s = c + mu + v / 2
        return np.where(flat, np.exp(np.minimum(s, 700)), wrightomega(s + log_v) / np.exp(log_v))

    low, high = -1.0, 1.0
    while p(low).sum() > 1:
        low *= 2
    while p(high).sum() < 1:
        high *= 2
    return p(brentq(lambda c: p(c).sum() - 1, low, high, xtol=1e-14, rtol=1e-14, maxiter=500))


def tilted_logistic(m, v):
    r"""The same bound of ``E log sigma(d)`` for one difference of mean ``m`` and variance ``v``.

    :math:`\max_\xi -(\xi^2 v / 2 + \log(1 + \exp(-m + (1 - 2 \xi) v / 2)))`.
    """

    def slope(xi):
        return xi - expit(-m + (1 - 2 * xi) * v / 2)

    xi = brentq(slope, 0, 1, xtol=1e-15)
    return -(0.5 * xi**2 * v + np.logaddexp(0, -m + (1 - 2 * xi) * v / 2))


# Classes that move together --------------------------------------------------------------------------


def coupled_matrix(phi, precisions, bends, weight):
    r"""The curvature of the objective in the means of all classes, weights of one class after those of another.

    ``bends`` is a classes x classes matrix for each row; block (j, k) is :math:`[j = k] P_k + \sum_i weight_i
    bend_{ijk} \phi_i \phi_i^T`.
    """
    K, m = len(precisions), phi.shape[1]
    A = np.zeros((K * m, K * m))
    for k, precision in enumerate(precisions):
        A[k * m : (k + 1) * m, k * m : (k + 1) * m] += precision
    for row, bend, each in zip(phi, bends, weight, strict=True):
        A += each * np.kron(bend, np.outer(row, row))
    return A


def newton_step(phi, precisions, bends, slopes, weight, means):
    """The step of Newton's method in the means (weights by classes) of all classes at once, by a dense solve."""
    K, m = len(precisions), phi.shape[1]
    gradient = [phi.T @ (weight * slopes[:, k]) - precisions[k] @ means[:, k] for k in range(K)]
    step = np.linalg.solve(coupled_matrix(phi, precisions, bends, weight), np.concatenate(gradient))
    return step.reshape(K, m).T


# Leaving a row out -----------------------------------------------------------------------------------


def left_out_means(phi, precisions, slopes, bends, weight, unit, means):
    """Each class of each row after one Newton step of that class alone, with the row's term gone."""
    n, K = slopes.shape
    out = np.empty((n, K))
    for i in range(n):
        kept = weight - np.where(np.arange(n) == i, unit, 0)
        for k in range(K):
            hessian = precisions[k] + (phi.T * (kept * bends[:, k])) @ phi
            gradient = phi.T @ (kept * slopes[:, k]) - precisions[k] @ means[:, k]
            out[i, k] = phi[i] @ (means[:, k] + np.linalg.solve(hessian, gradient))
    return out


def jointly_left_out_means(phi, precisions, slopes, hessians, weight, unit, means):
    """Every row after one Newton step of all classes together, with the row's term gone: Kronecker products."""
    n, K = slopes.shape
    prior = np.kron(np.eye(K), np.zeros((phi.shape[1],) * 2))
    for k in range(K):
        unit_of_class = np.diag((np.arange(K) == k).astype(float))
        prior += np.kron(unit_of_class, precisions[k])
    out = np.empty((n, K))
    for i in range(n):
        kept = weight - np.where(np.arange(n) == i, unit, 0)
        hessian = prior + sum(kept[j] * np.kron(hessians[j], np.outer(phi[j], phi[j])) for j in range(n))
        gradient = sum(kept[j] * np.kron(slopes[j], phi[j]) for j in range(n)) - prior @ means.T.ravel()
        moved = means + np.linalg.solve(hessian, gradient).reshape(K, -1).T
        out[i] = phi[i] @ moved
    return out


# Links -----------------------------------------------------------------------------------------------


def softmax_link_loss(x, mu, v, y, weight, prior_weight=1.0):
    """The log loss of rows under slope ``e^x0``, damping ``e^x1`` and offsets ``x2 ...``, and the priors of these."""
    total = 0.0
    for i in range(len(y)):
        score = [(np.exp(x[0]) * mu[i, k] + x[2 + k]) / np.sqrt(1 + np.exp(x[1]) * v[i, k]) for k in range(mu.shape[1])]
        total -= weight[i] * (score[int(y[i])] - np.log(np.sum(np.exp(score))))
    prior = ((x[0] - np.log(1.7)) / 0.5) ** 2 + (x[1] - np.log(1.7**2 * np.pi / 8)) ** 2 + np.sum((x[2:] / 0.5) ** 2)
    return total + prior_weight * 0.5 * prior
