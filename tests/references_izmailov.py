"""Izmailov and Kropotov (2017) as printed, unwhitened, with the corrections that their own derivation asks for.

``lambda(xi) = tanh(xi/2) / (4 xi)``, ``S_t`` in Algorithm 1 is ``S_t^2``, and the objectives are maximised.  Weights
count rows as copies.
"""

import numpy as np
from scipy.special import expit, log_expit

from references import kl_gaussians


def jj_lambda(xi):
    return np.tanh(xi / 2) / (4 * xi)


def jj_bound(t, xi):
    """The quadratic lower bound of ``log sigma(t)``."""
    return t / 2 - xi / 2 + log_expit(xi) - jj_lambda(xi) * (t**2 - xi**2)


def taylor_expansion(y, f, xi):
    """(15): ``log sigma(y f)`` to second order about ``xi``."""
    slope, curvature = y * expit(-y * xi), expit(xi) * expit(-xi)
    return log_expit(y * xi) + slope * (f - xi) - curvature / 2 * (f - xi) ** 2


def optimum(K_mm, K_nm, precision, linear):
    """(12) and (13), (16) and (17): the best ``Sigma`` and ``mu`` given quadratics ``linear f - precision f^2``."""
    A = np.linalg.solve(K_mm, K_nm.T)
    Sigma = np.linalg.inv(2 * (A * precision) @ A.T + np.linalg.inv(K_mm))
    return Sigma @ A @ linear, Sigma


def moments(K_mm, K_nm, k_nn, mu, Sigma):
    """(10): mean and variance of each row's latent value."""
    A = np.linalg.solve(K_mm, K_nm.T)
    return A.T @ mu, k_nn + np.sum(A * ((Sigma - K_mm) @ A), axis=0)


def jj_objective(K_mm, K_nm, k_nn, y, weight, xi):
    """The compact bound, constants and all."""
    precision = weight * jj_lambda(xi)
    B = 2 * (K_nm.T * precision) @ K_nm + K_mm
    leftover = k_nn - np.sum(K_nm * np.linalg.solve(K_mm, K_nm.T).T, axis=1)
    h = K_nm.T @ (weight * y)
    return (
        weight @ (log_expit(xi) - xi / 2 + jj_lambda(xi) * xi**2) + h @ np.linalg.solve(B, h) / 8
        + np.linalg.slogdet(K_mm)[1] / 2 - np.linalg.slogdet(B)[1] / 2 - precision @ leftover
    )  # fmt: skip


def taylor_objective(K_mm, K_nm, k_nn, y, weight, xi):
    """The approximate bound before (16) and (17) are put into it: expectations of (15) from moments, less the KL."""
    curvature = expit(xi) * expit(-xi)
    linear = weight * (y * expit(-y * xi) + curvature * xi)
    mu, Sigma = optimum(K_mm, K_nm, weight * curvature / 2, linear)
    mean, variance = moments(K_mm, K_nm, k_nn, mu, Sigma)
    rows = taylor_expansion(y, mean, xi) - curvature / 2 * variance
    return weight @ rows - kl_gaussians(mu, Sigma, K_mm)


def first_stage(K_mm, K_nm, k_nn, y, weight, xi, n_upd):
    """The first stage of Algorithm 1 from given ``xi``: a belief from it, and ``n_upd - 1`` times both again."""
    for _ in range(n_upd):
        mu, Sigma = optimum(K_mm, K_nm, weight * jj_lambda(xi), weight * y / 2)
        mean, variance = moments(K_mm, K_nm, k_nn, mu, Sigma)
        xi = np.sqrt(mean**2 + variance)
    return mu, Sigma, xi
