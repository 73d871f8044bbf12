"""Real-valued labels, for which everything is known in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..arrays import Array, like, namespace
from .protocol import SiteIsCurvature, Sites


@dataclass(frozen=True)
class Gaussian(SiteIsCurvature):
    r"""A real-valued ``y`` with noise variance ``noise``: exact, and the reference of many tests.

    .. math:: l = -\tfrac12 \log(2 \pi \tau) - ((y - \mu)^2 + v) / (2 \tau), \quad w = 1/\tau, \quad b = y / \tau.
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
