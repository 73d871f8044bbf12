"""Naive, slow and obviously right versions of what the library does fast.

Nothing here is imported from the library except the containers that a result is compared in.
"""

import numpy as np
from scipy.special import digamma, gammaln, kv
from scipy.stats import invgamma, multivariate_normal, norm

# Calculus ----------------------------------------------------------------------------------------


def derivative(function, x, step):
    """Central differences of fourth order, for a number or for each entry of an array on its own."""
    ahead, far_ahead = function(x + step), function(x + 2 * step)
    behind, far_behind = function(x - step), function(x - 2 * step)
    return (8 * (ahead - behind) - (far_ahead - far_behind)) / (12 * step)


def gradient(function, x, step):
    """Central differences of a number in each entry of an array."""
    x = np.asarray(x, dtype=float)
    out = np.empty(x.shape)
    for index in np.ndindex(x.shape):
        away = np.zeros(x.shape)
        away[index] = 1
        out[index] = derivative(lambda t, away=away: function(x + t * away), 0.0, step)
    return out


def normal_expectation(function, mu, v, kinks=(0.0,)):
    """``E function(f)``, ``f ~ N(mu, v)``: Gauss-Legendre on panels that end at the kinks and crowd around them."""
    if v == 0:
        return function(np.array([mu]))[0]
    s = np.sqrt(v)
    around = np.array([0, 0.3, 1, 2, 4, 8, 16, 32, 64])
    edges = [np.linspace(-12, 12, 25)]
    edges += [(kink + sign * around - mu) / s for kink in kinks for sign in (-1, 1)]
    edges = np.unique(np.clip(np.concatenate(edges), -12, 12))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (1 + nodes)
    density = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return float(np.sum(half * weights * density * function(mu + s * x)))


# Kernels -----------------------------------------------------------------------------------------


def squared_distances(X, Z, length_scale):
    difference = (X[:, None, :] - Z[None, :, :]) / length_scale
    return np.sum(difference**2, axis=2)


# Gaussians ---------------------------------------------------------------------------------------


def kl_gaussians(mean, covariance, prior_covariance):
    """``KL(N(mean, covariance) || N(0, prior_covariance))`` as in any textbook."""
    P = np.linalg.inv(prior_covariance)
    _, log_det = np.linalg.slogdet(covariance)
    _, prior_log_det = np.linalg.slogdet(prior_covariance)
    return 0.5 * (np.trace(P @ covariance) + mean @ P @ mean - len(mean) + prior_log_det - log_det)


def kl_by_monte_carlo(mean, covariance, shape, rate, group, prior_shape, prior_rate, loose, n_draws, rng):
    """The divergence of ``q(u) q(sigma^2)`` from ``p(u | sigma^2) p(sigma^2)``, and its standard error."""
    u = rng.multivariate_normal(mean, covariance, size=n_draws)
    variances = rate / rng.gamma(shape, size=(n_draws, len(shape)))
    of_weight = np.where(group >= 0, variances[:, group], 1 / loose)
    log_q = multivariate_normal(mean, covariance).logpdf(u)
    log_q += invgamma.logpdf(variances, shape, scale=rate).sum(axis=1)
    log_p = -0.5 * np.sum(np.log(2 * np.pi * of_weight) + u**2 / of_weight, axis=1)
    log_p += invgamma.logpdf(variances, prior_shape, scale=prior_rate).sum(axis=1)
    ratio = log_q - log_p
    return ratio.mean(), ratio.std() / np.sqrt(n_draws)


def kl_inverse_gammas(a, b, A, B):
    """``KL(IG(a, b) || IG(A, B))`` from the entropies' own terms: E log q - E log p."""
    e_log, e_inverse = np.log(b) - digamma(a), a / b
    log_q = a * np.log(b) - gammaln(a) - (a + 1) * e_log - b * e_inverse
    log_p = A * np.log(B) - gammaln(A) - (A + 1) * e_log - B * e_inverse
    return log_q - log_p


def perturbed(belief, size, rng):
    """A belief nearby in everything that it says: mean, covariance, and what the prior inferred."""
    root = belief.root + size * np.tril(rng.normal(size=belief.root.shape)) * np.sqrt(np.diag(belief.root))
    hyper = belief.hyper
    if hyper is not None:
        hyper = type(hyper)(*(part * np.exp(size * rng.normal(size=np.shape(part))) for part in hyper))
    log_det = 2 * np.sum(np.log(np.abs(np.diag(root))))
    return type(belief)(belief.mean + size * rng.normal(size=belief.mean.shape), root, log_det, hyper)


# Rows --------------------------------------------------------------------------------------------


def moments_by_loops(phi, leftover, mean, covariance):
    mu, spread = np.empty(len(phi)), np.empty(len(phi))
    for i, row in enumerate(phi):
        mu[i] = row @ mean
        spread[i] = row @ covariance @ row
    return mu, spread, np.asarray(leftover)


def gather_by_loops(phi, w, b):
    G, h = np.zeros((phi.shape[1],) * 2), np.zeros(phi.shape[1])
    for row, precision, linear in zip(phi, w, b, strict=True):
        G += precision * np.outer(row, row)
        h += linear * row
    return G, h


def linear_features(X, center, scale, intercept):
    rows = [np.append((x - center) / scale, [1.0] * intercept) for x in X]
    return np.array(rows), np.zeros(len(X))


def inducing_features(K_zz, K_zx, k_xx):
    """Whitened features and leftover variance from covariance matrices, one row at a time."""
    L = np.linalg.cholesky(K_zz)
    phi = np.array([np.linalg.solve(L, column) for column in K_zx.T])
    leftover = [k - column @ np.linalg.solve(K_zz, column) for k, column in zip(k_xx, K_zx.T, strict=True)]
    return phi, np.array(leftover)


# Dense models ------------------------------------------------------------------------------------


def gaussian_process_posterior(K, w, b):
    """The n x n posterior of a Gaussian process under given sites ``exp(b f - w f^2 / 2)``."""
    covariance = K - K @ np.linalg.solve(K + np.diag(1 / w), K)
    return covariance @ b, covariance


def left_out_by_refitting(phi, leftover, prior_precision, w, b, weight):
    """Moments of each row under the belief without (one unit of) its own site; all other sites held."""
    mu, v = np.empty(len(phi)), np.empty(len(phi))
    for i, row in enumerate(phi):
        rest = weight.copy()
        rest[i] = max(0.0, weight[i] - 1)
        covariance = np.linalg.inv(prior_precision + (phi.T * (rest * w)) @ phi)
        mean = covariance @ (phi.T @ (rest * b))
        mu[i], v[i] = row @ mean, row @ covariance @ row + leftover[i]
    return mu, v


def wenzel_dense(K, y, n_sweeps=3000):
    """Wenzel 2017, 4.1, with ERRATA's corrections: zeta = (A^-1/2 + K^-1)^-1, alpha_i = (1 - y mu)^2 + zeta_ii."""
    alpha = np.ones(len(y))
    for _ in range(n_sweeps):
        root = alpha**-0.5
        zeta = K - K @ np.linalg.solve(K + np.diag(1 / root), K)
        mu = zeta @ (y * (root + 1))
        alpha = (1 - y * mu) ** 2 + np.diag(zeta)
    return mu, zeta


def wenzel_inducing(K_mm, K_nm, k_nn, y, n_sweeps=3000):
    """Wenzel 2017, (9)-(11) in full batches, unwhitened: belief about the process at the inducing points."""
    kappa = np.linalg.solve(K_mm, K_nm.T).T
    leftover = k_nn - np.sum(kappa * K_nm, axis=1)
    alpha = np.ones(len(y))
    for _ in range(n_sweeps):
        root = alpha**-0.5
        zeta = np.linalg.inv((kappa.T * root) @ kappa + np.linalg.inv(K_mm))
        mu = zeta @ (kappa.T @ (y * (root + 1)))
        alpha = (1 - y * (kappa @ mu)) ** 2 + np.sum(kappa @ zeta * kappa, axis=1) + leftover
    return mu, zeta, np.sum(-(1 - y * (kappa @ mu)) - np.sqrt(alpha)) - kl_gaussians(mu, zeta, K_mm)


# Luts 2014 ---------------------------------------------------------------------------------------


def luts_algorithm_1(X, y, alpha, n_loops=3000):
    """Algorithm 1 as printed, and its printed lower bound after each loop."""
    n, p = X.shape
    Y, w, bounds = np.diag(y), np.ones(n), []
    for _ in range(n_loops):
        W = np.diag(w)
        Sigma = np.linalg.inv(X.T @ W @ X + 4 * alpha * np.eye(p))
        mu = Sigma @ X.T @ (np.eye(n) + W) @ y
        chi = (1 - Y @ X @ mu) ** 2 + np.diag(X @ Sigma @ X.T)
        w = chi**-0.5
        bounds.append(
            p / 2 - n + n * np.log(2) - n / 2 * np.log(2 * np.pi) + p / 2 * np.log(4 * alpha)
            + np.linalg.slogdet(Sigma)[1] / 2 - 2 * alpha * (mu @ mu + np.trace(Sigma)) + y @ X @ mu
            + np.sum(np.log(chi)) / 4 + np.sum(np.log(kv(0.5, np.sqrt(chi))))
        )  # fmt: skip
    return mu, Sigma, bounds


def luts_algorithm_2(X, Z, y, sigma2_beta, A_u, B_u, n_loops=3000):
    """Algorithm 2 as printed, and its printed lower bound after each loop."""
    (n, p), m = X.shape, Z.shape[1]
    C, Y = np.hstack([X, Z]), np.diag(y)
    w, precision, bounds = np.ones(n), 1.0, []
    for _ in range(n_loops):
        W = np.diag(w)
        Sigma = np.linalg.inv(C.T @ W @ C + np.diag([1 / sigma2_beta] * p + [precision] * m))
        mu = Sigma @ C.T @ (np.eye(n) + W) @ y
        chi = (1 - Y @ C @ mu) ** 2 + np.diag(C @ Sigma @ C.T)
        w = chi**-0.5
        B_q = B_u + (mu[p:] @ mu[p:] + np.trace(Sigma[p:, p:])) / 2
        precision = (A_u + m / 2) / B_q
        bounds.append(
            (p + m) / 2 - n + n * np.log(2) - n / 2 * np.log(2 * np.pi) - p / 2 * np.log(sigma2_beta)
            + np.linalg.slogdet(Sigma)[1] / 2 - (mu[:p] @ mu[:p] + np.trace(Sigma[:p, :p])) / (2 * sigma2_beta)
            + A_u * np.log(B_u) - gammaln(A_u) - (A_u + m / 2) * np.log(B_q) + gammaln(A_u + m / 2)
            + y @ C @ mu + np.sum(np.log(chi)) / 4 + np.sum(np.log(kv(0.5, np.sqrt(chi))))
        )  # fmt: skip
    return mu, Sigma, B_q, bounds


# The hinge's posterior, by brute force -------------------------------------------------------------


def grid_moments(log_density, edges, n_points):
    """Mean and covariance of an unnormalised density over a few variables, summed on a grid; edges are (low, high)."""
    axes = [np.linspace(low, high, n_points) for low, high in edges]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_p = log_density(points)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ points
    return mean, (points - mean).T @ ((points - mean) * p[:, None])


def hinge_log_posterior(phi, leftover, y, weight, precision):
    """``log p(u | y)`` up to a constant, for points ``u`` in rows, each row's independent leftover integrated out.

    With ``z = 1 - y phi'u`` and ``s^2`` the leftover, ``E exp(-2 c max(0, z + s e))``
    ``= Phi(-z/s) + exp(2 c (c s^2 - z)) Phi(z/s - 2 c s)``.
    """

    def log_density(points):
        total = -0.5 * np.einsum("ij,jk,ik->i", points, precision, points)
        for row, s2, label, c in zip(phi, leftover, y, weight, strict=True):
            z = 1 - label * (points @ row)
            if s2 == 0:
                total += -2 * c * np.maximum(z, 0)
            else:
                s = np.sqrt(s2)
                total += np.logaddexp(norm.logcdf(-z / s), 2 * c * (c * s2 - z) + norm.logcdf(z / s - 2 * c * s))
        return total

    return log_density


def svm_by_coordinates(K, y, C, n_sweeps=20_000, tol=1e-10):
    """Latent values of ``min f'K^-1 f / 2 + C sum max(0, 1 - y f)``, no intercept: its dual, one row at a time."""
    alpha, f = np.zeros(len(y)), np.zeros(len(y))
    for _ in range(n_sweeps):
        largest = 0.0
        for i in range(len(y)):
            step = np.clip(alpha[i] + (1 - y[i] * f[i]) / K[i, i], 0, C) - alpha[i]
            alpha[i] += step
            f += step * y[i] * K[i]
            largest = max(largest, abs(step))
        if largest < tol:
            break
    return f


# Stochastic and streaming ------------------------------------------------------------------------


def wenzel_stochastic(K_mm, K_nm, k_nn, y, batches, rates, mu, zeta):
    """Wenzel 2017, Algorithm 1 with ERRATA's scaling by n / |S|: the beliefs after each minibatch, unwhitened."""
    inverse = np.linalg.inv(K_mm)
    eta_1, eta_2 = np.linalg.solve(zeta, mu), -0.5 * np.linalg.inv(zeta)
    beliefs = []
    for rows, rho in zip(batches, rates, strict=True):
        kappa, labels = K_nm[rows] @ inverse, y[rows]
        leftover = k_nn[rows] - np.sum(kappa * K_nm[rows], axis=1)
        alpha = (1 - labels * (kappa @ mu)) ** 2 + np.sum(kappa @ zeta * kappa, axis=1) + leftover
        scale = len(y) / len(rows)
        target_1 = scale * kappa.T @ (labels * (alpha**-0.5 + 1))
        target_2 = -0.5 * (inverse + scale * (kappa.T * alpha**-0.5) @ kappa)
        eta_1, eta_2 = (1 - rho) * eta_1 + rho * target_1, (1 - rho) * eta_2 + rho * target_2
        zeta = -0.5 * np.linalg.inv(eta_2)
        mu = zeta @ eta_1
        beliefs.append((mu, zeta))
    return beliefs


def ranganath_rates(gradients, n_opening):
    """Ranganath 2013: the first gradients give the averages and their memory; then a rate for each further one."""
    mean, square = np.mean(gradients[:n_opening], axis=0), np.mean([g @ g for g in gradients[:n_opening]])
    tau, rates = float(n_opening), [mean @ mean / square]
    for g in gradients[n_opening:]:
        tau = tau * (1 - rates[-1]) + 1
        mean, square = (1 - 1 / tau) * mean + g / tau, (1 - 1 / tau) * square + (g @ g) / tau
        rates.append(mean @ mean / square)
    return rates
