"""A Gaussian process beside random intercepts the long way: matrices of all pairs of rows."""

import numpy as np


def intercepts(codes, n_groups):
    """A column of ones and zeros for each group."""
    return (codes[:, None] == np.arange(n_groups)).astype(float)


def through_points(kernel, points, X, Z):
    """The covariance that inducing points explain of the function at two sets of rows."""
    return kernel(X, points) @ np.linalg.solve(kernel(points, points), kernel(points, Z))


def posterior(prior, own, y, noise):
    """Mean and covariance of rows with that prior covariance ``own``, whose covariance with the rows of ``y`` is in the
    first part of ``prior`` and those rows' own in the second, under Gaussian noise."""
    across, among = prior
    gain = np.linalg.solve(among + noise * np.eye(len(y)), across.T).T
    return gain @ y, own - gain @ across.T


def log_evidence(covariance, y, noise):
    """The log density of ``y``."""
    among = covariance + noise * np.eye(len(y))
    return -0.5 * (y @ np.linalg.solve(among, y) + np.linalg.slogdet(2 * np.pi * among)[1])
