"""Fourier features by loops over rows and frequencies; nothing here is imported from the library."""

import math

import numpy as np


def waves(X, frequencies, length_scale, variance, center):
    """``sqrt(variance / D)`` times all cosines, then all sines, of ``e_i . (x - center) / length_scale``."""
    n, D = len(X), len(frequencies)
    lengths = np.broadcast_to(length_scale, X.shape[1])
    phi = np.empty((n, 2 * D))
    for row in range(n):
        for i in range(D):
            angle = sum(e * (x - c) / s for e, x, c, s in zip(frequencies[i], X[row], center, lengths, strict=True))
            phi[row, i] = math.sqrt(variance / D) * math.cos(angle)
            phi[row, D + i] = math.sqrt(variance / D) * math.sin(angle)
    return phi


def wave_variance(kernel_at, shifts):
    """``Var cos(e . shift)`` of one frequency, from ``cos^2 = (1 + cos(2 .)) / 2``; ``kernel_at`` maps shifts to k."""
    return (1 + kernel_at(2 * shifts)) / 2 - kernel_at(shifts) ** 2
