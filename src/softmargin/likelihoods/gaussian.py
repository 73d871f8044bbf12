"""The Gaussian likelihood for real-valued labels, with everything in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..arrays import Array, like, namespace
from .protocol import SiteIsCurvature, Sites


@dataclass(frozen=True)
class Gaussian(SiteIsCurvature):
    r"""A real-valued ``y`` with noise variance ``noise``: exact, and the reference of many tests.

    .. math:: l = -\tfrac12 \log(2 \pi \tau) - ((y - \mu)^2 + v) / (2 \tau), \quad w = 1/\tau, \quad b = y / \tau.

    >>> import numpy as np
    >>> l, w, b = Gaussian(noise=0.5).sites(np.array([3.0]), np.array([2.0]), np.array([0.1]))
    >>> float(l[0].round(4)), float(w[0]), float(b[0])
    (-1.6724, 2.0, 6.0)
    """

    noise: float = 1.0
    is_bound = True
    needs_guard = False
    couples = False
    longest_step = 1.0
    two_moment = True

    def log_density(self, y: Array, f: Array) -> Array:
        return -0.5 * (math.log(2 * math.pi * self.noise) + (y - f) ** 2 / self.noise)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        w = xp.full_like(mu, 1 / self.noise)
        return Sites(self.log_density(y, mu) - v / (2 * self.noise), w, like(y, mu) * w)
