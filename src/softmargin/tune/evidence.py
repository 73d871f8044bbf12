"""How well a kernel explains some rows: the objective at its optimum over beliefs, and its slopes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import combined
from ..gaussian import Belief
from ..kernels import Kernel
from ..likelihoods import Likelihood, Logistic, Quadrature, Sites
from ..priors import Ridge
from ..rows import Features, InducingRows
from ..rows.slopes import Slopes, bound_slopes, in_points, in_theta

#: Nats within which a belief is at its optimum, also as a share of the rows, and most updates on the way.
_SETTLED, _SETTLED_SHARE, MOST_UPDATES = 1e-2, 5e-5, 20
#: The logistic likelihood with as many nodes as a judge needs.
LOGISTIC_JUDGE = Quadrature(Logistic(), n_nodes=12)


class Judged(NamedTuple):
    """A kernel's objective, its slopes in ``theta``, and the belief at which they were found."""

    value: float
    slopes: np.ndarray
    rows: InducingRows
    belief: Belief


class _Settling(NamedTuple):
    """A belief on its way to the optimum: the sites it came from, and those that it asks for."""

    value: float
    belief: Belief
    sites: Sites
    asked: Sites


class Evidence:
    """The objective at a kernel with the belief at its optimum, on rows that fit in memory.

    The sites of the last kernel are kept as the start for the next.  ``n_updates`` limits the updates of the belief
    before the slopes are taken; the paper takes ten.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        points: np.ndarray,
        likelihood: Likelihood = LOGISTIC_JUDGE,
        n_updates: int = MOST_UPDATES,
    ) -> None:
        self._X, self._y, self._weight, self._points = X, y, weight, points
        self._likelihood, self._n_updates = likelihood, n_updates
        self._prior = Ridge.isotropic(len(points))
        self._sites = likelihood.sites(y, np.zeros(len(y)), np.ones(len(y)))
        self._tolerance = max(_SETTLED, _SETTLED_SHARE * float(weight.sum()))

    def begin_from(self, judged: Judged) -> None:
        """Takes the sites from a belief found on other rows."""
        latent = judged.rows.lift(self._X).moments(judged.belief)
        self._sites = self._likelihood.sites(self._y, latent.mu, latent.v)

    def at(self, kernel: Kernel) -> Judged:
        """The objective and its slopes in ``theta`` at a kernel."""
        rows = InducingRows.at(kernel, self._points)
        value, belief, slopes = self._settled(rows)
        return Judged(value, in_theta(rows, slopes), rows, belief)

    def through(self, kernel: Kernel, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective through other points, and its slopes in them."""
        rows = InducingRows.at(kernel, points)
        value, _, slopes = self._settled(rows, points=True)
        return value, in_points(rows, slopes)

    def _settled(self, rows: InducingRows, points: bool = False) -> tuple[float, Belief, Slopes]:
        features = rows.lift(self._X)
        value, belief, _, sites = self._settle(features)
        self._sites = sites
        w, b = self._weight * sites.w, self._weight * sites.b
        return value, belief, bound_slopes(rows, self._X, features.phi, belief, w, b, points)

    def _settle(self, features: Features) -> _Settling:
        """Updates of the belief, shortened where a full one descends, until they gain nothing more."""
        best = self._update(features, self._sites)
        rate = 1.0
        for _ in range(self._n_updates - 1):
            sites = combined(best.sites, rate, combined(best.asked, -1, best.sites)) if rate < 1 else best.asked
            tried = self._update(features, sites)
            gain = tried.value - best.value
            if gain < -self._tolerance:
                rate /= 2
                continue
            best = tried
            if gain < self._tolerance:
                break
        return best

    def _update(self, features: Features, sites: Sites) -> _Settling:
        belief = self._prior.given(*features.gather(self._weight * sites.w, self._weight * sites.b))
        latent = features.moments(belief)
        asked = self._likelihood.sites(self._y, latent.mu, latent.v)
        return _Settling(float(self._weight @ asked.l) - float(self._prior.kl(belief)), belief, sites, asked)
