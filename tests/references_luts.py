"""Luts and Ormerod (2014) as printed, errors corrected: Algorithms 3 and 4, and the samplers of the appendices.

Plain transcriptions in the paper's letters, to compare the library with: loops over rows and columns, matrices with a
row for each row.  What was corrected is said where it stands.  A row's scale ``a`` appears through ``1 / a`` only.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, kv, logit

# Variational -------------------------------------------------------------------------------------


class Selected(NamedTuple):
    """What Algorithm 3 finds: ``q(beta, v)``, ``E 1/a``, and the parameters of the rest."""

    mu: np.ndarray
    Sigma: np.ndarray
    mu_gamma: np.ndarray
    mu_b: np.ndarray
    B_q: float
    w: np.ndarray
    bounds: list[float]


class Started(NamedTuple):
    """What Algorithm 3 requires: ``E 1/a``, ``E 1/sigma_u^2``, ``E b`` and ``E gamma``."""

    w: np.ndarray
    precision: float
    mu_b: np.ndarray
    mu_gamma: np.ndarray


def luts_algorithm_3(X, Z, y, sigma2_beta, A_u, B_u, rho, n_loops=1000, start=None):
    """Algorithm 3, and its lower bound after each loop (with ``A_u + m/2`` where ``A + m/2`` is printed).

    ``start`` is a `Started`, by default ones.
    """
    (n, p), m = X.shape, Z.shape[1]
    C, Y = np.hstack([X, Z]), np.diag(y)
    w, precision, mu_b, mu_gamma = start or Started(np.ones(n), 1.0, np.ones(m), np.ones(m))
    mu_gamma, bounds = np.array(mu_gamma, dtype=float), []
    gamma, Omega_gamma = _moments_of_inclusion(p, mu_gamma)
    for _ in range(n_loops):
        W = np.diag(w)
        Sigma = np.linalg.inv((C.T @ W @ C) * Omega_gamma + np.diag([1 / sigma2_beta] * p + list(precision * mu_b)))
        mu = Sigma @ np.diag(gamma) @ C.T @ (np.eye(n) + W) @ y
        Omega = Sigma + np.outer(mu, mu)
        mu_b = (precision * np.diag(Omega)[p:]) ** -0.5
        for k in range(m):
            z_k, others = Z[:, k], np.delete(np.arange(m), k)
            eta = logit(rho) - z_k @ W @ z_k * Omega[p + k, p + k] / 2 + z_k @ y * mu[p + k]
            eta += (
                z_k
                @ W
                @ (y * mu[p + k] - X @ Omega[:p, p + k] - Z[:, others] @ (mu_gamma[others] * Omega[p + others, p + k]))
            )
            mu_gamma[k] = expit(eta)
        gamma, Omega_gamma = _moments_of_inclusion(p, mu_gamma)
        chi = 1 - 2 * Y @ C @ (gamma * mu) + np.diag(C @ (Omega_gamma * Omega) @ C.T)
        w = chi**-0.5
        B_q = B_u + mu_b @ np.diag(Omega)[p:] / 2
        precision = (A_u + m / 2) / B_q
        bounds.append(
            (n - m) * np.log(2) - n + (p + m) / 2 - (n - m) / 2 * np.log(2 * np.pi)
            + y @ C @ (gamma * mu) + np.sum(np.log(chi)) / 4 + np.sum(np.log(kv(0.5, np.sqrt(chi))))
            + np.linalg.slogdet(Sigma)[1] / 2 - p / 2 * np.log(sigma2_beta)
            - (mu[:p] @ mu[:p] + np.trace(Sigma[:p, :p])) / (2 * sigma2_beta) - np.sum(1 / mu_b) / 2
            + A_u * np.log(B_u) - gammaln(A_u) - (A_u + m / 2) * np.log(B_q) + gammaln(A_u + m / 2)
            - _times_log(mu_gamma, mu_gamma / rho) - _times_log(1 - mu_gamma, (1 - mu_gamma) / (1 - rho))
        )  # fmt: skip
    return Selected(mu, Sigma, mu_gamma.copy(), mu_b, B_q, w, bounds)


def _moments_of_inclusion(p, mu_gamma):
    """``E gamma~`` and ``E gamma~ gamma~'``, where ``p`` columns are always included."""
    gamma = np.concatenate([np.ones(p), mu_gamma])
    return gamma, np.diag(gamma * (1 - gamma)) + np.outer(gamma, gamma)


def _times_log(share, ratio):
    """``sum share log ratio``, where ``0 log 0 = 0``."""
    return np.sum(share * np.log(np.where(share > 0, ratio, 1)))


class Imputed(NamedTuple):
    """What Algorithm 4 finds; ``mean_d`` and ``Sigma_d`` are the moments of each row, observed entries included."""

    mu: np.ndarray
    Sigma: np.ndarray
    B_q: float
    w: np.ndarray
    mean_d: np.ndarray
    Sigma_d: np.ndarray
    mean_mu: np.ndarray
    Sigma_mu: np.ndarray
    Psi_q: np.ndarray
    bounds: list[float]


def luts_algorithm_4(D, y, sigma2_beta, A_u, B_u, sigma2_mu, Psi, nu, n_loops=1000):
    """Algorithm 4 for rows with NaN, and its lower bound after each loop.

    Corrected: ``mu_q(beta, u) = Sigma C~'(I + W) y``, ``E 1/a`` has its row's index, and ``mu ~ N(0, sigma_mu^2 I)``.
    The paper's ``nu = 3`` leaves ``Gamma_d(nu / 2)`` undefined for four columns and more.
    """
    n, d = D.shape
    missing = np.isnan(D)
    mean_mu, mean_d, Sigma_d = np.nanmean(D, axis=0), np.where(missing, np.nanmean(D, axis=0), D), np.zeros((n, d, d))
    w, precision, precision_d, bounds = np.ones(n), 1.0, np.diag(1 / np.nanvar(D, axis=0)), []
    for _ in range(n_loops):
        W, C = np.diag(w), np.column_stack([np.ones(n), mean_d])
        G = C.T @ W @ C
        G[1:, 1:] += np.sum(w[:, None, None] * Sigma_d, axis=0)
        Sigma = np.linalg.inv(G + np.diag([1 / sigma2_beta] + [precision] * d))
        mu = Sigma @ C.T @ (np.eye(n) + W) @ y
        Omega, chi, entropy = Sigma + np.outer(mu, mu), np.empty(n), 0.0
        for i in range(n):
            gone, seen = np.flatnonzero(missing[i]), np.flatnonzero(~missing[i])
            if len(gone) > 0:
                precision_i = precision_d + w[i] * Omega[1:, 1:]
                linear = precision_d @ mean_mu + y[i] * (1 + w[i]) * mu[1:] - w[i] * Omega[1:, 0]
                linear = linear - precision_i[:, seen] @ D[i, seen]
                Sigma_i = np.linalg.inv(precision_i[np.ix_(gone, gone)])
                mean_d[i, gone] = Sigma_i @ linear[gone]
                Sigma_d[i][np.ix_(gone, gone)] = Sigma_i
                entropy += len(gone) / 2 * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(Sigma_i)[1] / 2
            c_i = np.append(1, mean_d[i])
            chi[i] = (1 - y[i] * c_i @ mu) ** 2 + c_i @ Sigma @ c_i + np.trace(Omega[1:, 1:] @ Sigma_d[i])
        w = chi**-0.5
        Sigma_mu = np.linalg.inv(np.eye(d) / sigma2_mu + n * precision_d)
        mean_mu = Sigma_mu @ precision_d @ mean_d.sum(axis=0)
        about = mean_d - mean_mu
        Psi_q = Psi + n * Sigma_mu + about.T @ about + Sigma_d.sum(axis=0)
        precision_d = (nu + n) * np.linalg.inv(Psi_q)
        B_q = B_u + (mu[1:] @ mu[1:] + np.trace(Sigma[1:, 1:])) / 2
        precision = (A_u + d / 2) / B_q
        bounds.append(
            n * np.log(2) - n - n / 2 * np.log(2 * np.pi)
            + y @ np.column_stack([np.ones(n), mean_d]) @ mu
            + np.sum(np.log(chi)) / 4 + np.sum(np.log(kv(0.5, np.sqrt(chi))))
            + A_u * np.log(B_u) - gammaln(A_u) - (A_u + d / 2) * np.log(B_q) + gammaln(A_u + d / 2)
            - np.log(sigma2_beta) / 2 - (mu[0] ** 2 + Sigma[0, 0]) / (2 * sigma2_beta)
            + (1 + d) / 2 + np.linalg.slogdet(Sigma)[1] / 2
            + imputation_bound(mean_mu, Sigma_mu, Psi_q, n, sigma2_mu, Psi, nu) + entropy
        )  # fmt: skip
    return Imputed(mu, Sigma, B_q, w, mean_d, Sigma_d, mean_mu, Sigma_mu, Psi_q, bounds)


def log_multigamma(a, d):
    """``log Gamma_d(a)``."""
    return d * (d - 1) / 4 * np.log(np.pi) + np.sum(gammaln(a - np.arange(d) / 2))


def imputation_bound(mean_mu, Sigma_mu, Psi_q, n, sigma2_mu, Psi, nu):
    """The part of Algorithm 4's lower bound that ``mu`` and ``Sigma`` have to themselves."""
    d = len(mean_mu)
    return (
        d / 2 + np.linalg.slogdet(Sigma_mu)[1] / 2 - n * d / 2 * np.log(2 * np.pi) - d / 2 * np.log(sigma2_mu)
        - (mean_mu @ mean_mu + np.trace(Sigma_mu)) / (2 * sigma2_mu)
        + nu / 2 * np.linalg.slogdet(Psi)[1] - log_multigamma(nu / 2, d)
        - (nu + n) / 2 * np.linalg.slogdet(Psi_q)[1] + d * n / 2 * np.log(2) + log_multigamma((nu + n) / 2, d)
    )  # fmt: skip


# Conditionals of the samplers --------------------------------------------------------------------


def draw_scales(y, f, rng):
    """``1 / a`` given the latent values: ``a ~ GIG(1/2, 1, (1 - y f)^2)``, so it is inverse Gaussian."""
    return rng.wald(1 / np.maximum(np.abs(1 - y * f), 1e-10), 1.0)


def draw_weights(C, y, t, precision, rng):
    """Weights of the columns of ``C`` given ``t = 1 / a`` and their prior precisions."""
    Sigma = np.linalg.inv((C.T * t) @ C + np.diag(precision))
    return rng.multivariate_normal(Sigma @ C.T @ (y * (1 + t)), Sigma, method="cholesky")


def draw_variance(squares, A, B, rng):
    """``sigma_u^2 ~ IG(A + m/2, B + sum squares / 2)`` given ``m`` weights, squared."""
    return (B + np.sum(squares) / 2) / rng.gamma(A + len(squares) / 2)


def draw_inclusion(X, Z, y, t, beta, v, gamma, rho, rng):
    """``gamma`` given everything else, one column after another."""
    gamma = gamma.copy()
    for k in range(len(v)):
        z_k, others = Z[:, k], np.delete(np.arange(len(v)), k)
        rest = X @ beta + Z[:, others] @ (gamma[others] * v[others])
        eta = logit(rho) - z_k @ (t * z_k) * v[k] ** 2 / 2 + v[k] * z_k @ ((1 + t) * y) - v[k] * z_k @ (t * rest)
        gamma[k] = rng.random() < expit(eta)
    return gamma


def draw_missing(D, missing, y, t, rest, u, mu, precision_d, rng):
    """The missing entries of each row, whose latent value is ``rest + d'u``."""
    D = D.copy()
    for i in np.flatnonzero(missing.any(axis=1)):
        gone, seen = np.flatnonzero(missing[i]), np.flatnonzero(~missing[i])
        precision_i = precision_d + t[i] * np.outer(u, u)
        linear = precision_d @ mu + y[i] * (1 + t[i]) * u - t[i] * rest[i] * u - precision_i[:, seen] @ D[i, seen]
        Sigma_i = np.linalg.inv(precision_i[np.ix_(gone, gone)])
        D[i, gone] = rng.multivariate_normal(Sigma_i @ linear[gone], Sigma_i, method="cholesky")
    return D


def draw_imputation(D, precision_d, sigma2_mu, Psi, nu, rng):
    """``mu`` and then ``Sigma``; the scale of the latter as it must be: ``Psi + sum (d_i - mu)(d_i - mu)'``."""
    n, d = D.shape
    Sigma_mu = np.linalg.inv(n * precision_d + np.eye(d) / sigma2_mu)
    mu = rng.multivariate_normal(Sigma_mu @ precision_d @ D.sum(axis=0), Sigma_mu, method="cholesky")
    return mu, draw_inverse_wishart(Psi + (D - mu).T @ (D - mu), nu + n, rng)


def draw_inverse_wishart(scale, nu, rng):
    """Bartlett: the inverse is ``L A A'L'``, ``L L' = scale^-1``, ``A`` triangular of normal and chi numbers."""
    d = len(scale)
    A = np.tril(rng.normal(size=(d, d)), -1) + np.diag(np.sqrt(rng.chisquare(nu - np.arange(d))))
    root = np.linalg.cholesky(np.linalg.inv(scale)) @ A
    return np.linalg.inv(root @ root.T)


# Samplers: each returns a dictionary of draws, the first axis of each array counting them ----------


def gibbs_a(X, Z, y, sigma2_beta, A_u, B_u, n_draws, rng, burn_in=100):
    """Appendix A: an inferred penalty, or a random intercept."""
    p, m, C = X.shape[1], Z.shape[1], np.hstack([X, Z])
    weights, sigma2_u, draws = np.zeros(p + m), 1.0, []
    for _ in range(burn_in + n_draws):
        t = draw_scales(y, C @ weights, rng)
        weights = draw_weights(C, y, t, [1 / sigma2_beta] * p + [1 / sigma2_u] * m, rng)
        sigma2_u = draw_variance(weights[p:] ** 2, A_u, B_u, rng)
        draws.append({"beta": weights[:p], "u": weights[p:], "sigma2_u": sigma2_u})
    return _stacked(draws[burn_in:])


def gibbs_b(X, Z, y, sigma2_beta, A_u, B_u, rho, n_draws, rng, burn_in=100):
    """Appendix B: the Laplace-zero prior; ``u = gamma v``."""
    p, m, C = X.shape[1], Z.shape[1], np.hstack([X, Z])
    weights, gamma, b, sigma2_u, draws = np.zeros(p + m), np.ones(m), np.ones(m), 1.0, []
    for _ in range(burn_in + n_draws):
        included = np.append(np.ones(p), gamma)
        t = draw_scales(y, C @ (included * weights), rng)
        weights = draw_weights(C * included, y, t, [1 / sigma2_beta] * p + list(b / sigma2_u), rng)
        beta, v = weights[:p], weights[p:]
        sigma2_u = draw_variance(b * v**2, A_u, B_u, rng)
        b = rng.wald(np.sqrt(sigma2_u) / np.abs(v), 1.0)
        gamma = draw_inclusion(X, Z, y, t, beta, v, gamma, rho, rng)
        draws.append({"beta": beta, "v": v, "gamma": gamma, "u": gamma * v, "b": b, "sigma2_u": sigma2_u})
    return _stacked(draws[burn_in:])


def gibbs_c(D, y, sigma2_beta, A_u, B_u, sigma2_mu, Psi, nu, n_draws, rng, burn_in=100):
    """Appendix C: an inferred penalty, and NaN in ``D``."""
    (n, d), missing = D.shape, np.isnan(D)
    D, mu, Sigma_d = _filled(D)
    weights, sigma2_u, draws = np.zeros(1 + d), 1.0, []
    for _ in range(burn_in + n_draws):
        precision_d = np.linalg.inv(Sigma_d)
        C = np.column_stack([np.ones(n), D])
        t = draw_scales(y, C @ weights, rng)
        weights = draw_weights(C, y, t, [1 / sigma2_beta] + [1 / sigma2_u] * d, rng)
        beta, u = weights[:1], weights[1:]
        sigma2_u = draw_variance(u**2, A_u, B_u, rng)
        D = draw_missing(D, missing, y, t, np.full(n, beta[0]), u, mu, precision_d, rng)
        mu, Sigma_d = draw_imputation(D, precision_d, sigma2_mu, Psi, nu, rng)
        draws.append({"beta": beta, "u": u, "sigma2_u": sigma2_u, "missing": D[missing], "mu": mu, "Sigma": Sigma_d})
    return _stacked(draws[burn_in:])


def gibbs_selection_missing(D, y, sigma2_beta, A_u, B_u, rho, sigma2_mu, Psi, nu, n_draws, rng, burn_in=100):
    """Appendices B and C together: the Laplace-zero prior on all columns of ``D``, which has NaN."""
    (n, d), missing = D.shape, np.isnan(D)
    D, mu, Sigma_d = _filled(D)
    ones, weights, gamma, b, sigma2_u, draws = np.ones((n, 1)), np.zeros(1 + d), np.ones(d), np.ones(d), 1.0, []
    for _ in range(burn_in + n_draws):
        precision_d = np.linalg.inv(Sigma_d)
        C, included = np.hstack([ones, D]), np.append(1, gamma)
        t = draw_scales(y, C @ (included * weights), rng)
        weights = draw_weights(C * included, y, t, [1 / sigma2_beta, *(b / sigma2_u)], rng)
        beta, v = weights[:1], weights[1:]
        sigma2_u = draw_variance(b * v**2, A_u, B_u, rng)
        b = rng.wald(np.sqrt(sigma2_u) / np.abs(v), 1.0)
        gamma = draw_inclusion(ones, D, y, t, beta, v, gamma, rho, rng)
        D = draw_missing(D, missing, y, t, np.full(n, beta[0]), gamma * v, mu, precision_d, rng)
        mu, Sigma_d = draw_imputation(D, precision_d, sigma2_mu, Psi, nu, rng)
        draws.append({"beta": beta, "gamma": gamma, "u": gamma * v, "sigma2_u": sigma2_u, "missing": D[missing]})
    return _stacked(draws[burn_in:])


def gibbs_intercept_missing(D, group, y, sigma2_beta, A_u, B_u, sigma2_mu, Psi, nu, n_draws, rng, burn_in=100):
    """Appendices A and C together: ``beta = (intercept, slopes of D)`` fixed, ``u`` an intercept of each group."""
    (n, d), missing, Z = D.shape, np.isnan(D), np.eye(group.max() + 1)[group]
    D, mu, Sigma_d = _filled(D)
    m = Z.shape[1]
    weights, sigma2_u, draws = np.zeros(1 + d + m), 1.0, []
    for _ in range(burn_in + n_draws):
        precision_d = np.linalg.inv(Sigma_d)
        C = np.hstack([np.ones((n, 1)), D, Z])
        t = draw_scales(y, C @ weights, rng)
        weights = draw_weights(C, y, t, [1 / sigma2_beta] * (1 + d) + [1 / sigma2_u] * m, rng)
        beta, u = weights[: 1 + d], weights[1 + d :]
        sigma2_u = draw_variance(u**2, A_u, B_u, rng)
        D = draw_missing(D, missing, y, t, beta[0] + u[group], beta[1:], mu, precision_d, rng)
        mu, Sigma_d = draw_imputation(D, precision_d, sigma2_mu, Psi, nu, rng)
        draws.append({"beta": beta, "u": u, "sigma2_u": sigma2_u, "missing": D[missing]})
    return _stacked(draws[burn_in:])


def _filled(D):
    """A place to begin: missing entries at the means of their columns, and a mean and covariance."""
    mean = np.nanmean(D, axis=0)
    return np.where(np.isnan(D), mean, D), mean, np.diag(np.nanvar(D, axis=0) + 1e-3)


def _stacked(draws):
    return {name: np.array([draw[name] for draw in draws]) for name in draws[0]}
