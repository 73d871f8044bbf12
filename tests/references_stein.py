"""Stein directions by their definition: one pair of particles after the other, slopes of kernels by hand."""

import numpy as np


def direction(x, scores, kernel):
    """``phi_j = mean_s [k(x_s, x_j) score_s + slope of k in x_s]``; ``kernel(a, b)`` gives value and slope in ``a``.

    A value and a slope are vectors where each coordinate has a kernel of its own.
    """
    out = np.zeros_like(x)
    for j in range(len(x)):
        for s in range(len(x)):
            value, slope = kernel(x[s], x[j])
            out[j] += (value * scores[s] + slope) / len(x)
    return out


def rbf(sigma):
    def kernel(a, b):
        value = np.exp(-np.sum((a - b) ** 2) / (2 * sigma**2))
        return value, -(a - b) / sigma**2 * value

    return kernel


def linear(center, tau):
    return lambda a, b: (1 + (a - center) @ (b - center) / tau, (b - center) / tau)


def coordinates(center, variances):
    return lambda a, b: (1 + (a - center) * (b - center) / variances, (b - center) / variances)


def median_width(x):
    """``sigma^2 = .5 med^2 / log(S + 1)`` over pairs of different particles."""
    distances = [np.linalg.norm(x[s] - x[j]) for s in range(len(x)) for j in range(s)]
    return np.sqrt(0.5 * np.median(distances) ** 2 / np.log(len(x) + 1))


def whitened(x, scores, factor, directed):
    """``directed(z, scores)`` in the coordinates of ``x = factor z``."""
    return directed(np.linalg.solve(factor, x.T).T, scores @ factor) @ factor.T
