"""The hinge of support vector machines: its exact expectation, its augmentation, and its value at a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..arrays import Array, namespace, ndtr, normal_density
from .protocol import SiteIsCurvature, Sites


@dataclass(frozen=True)
class Hinge(SiteIsCurvature):
    r"""The hinge pseudo-likelihood :math:`\exp(-2 \max(0, 1 - y f))`, its expectation taken exactly.

    With :math:`z = 1 - y \mu`, :math:`s = \sqrt v`, ``N`` and :math:`\Phi` the normal density and
    distribution function,

    .. math:: l = -2 (s N(z/s) + z \Phi(z/s)), \quad w = 2 N(z/s) / s, \quad b = 2 y \Phi(z/s) + w \mu.

    At ``v = 0`` these tend to the hinge itself and its slope; the variance is kept above a floor
    because ``w`` has no limit where ``z = 0`` too.

    >>> import numpy as np
    >>> l, w, b = Hinge().sites(np.array([1.0]), np.array([0.0]), np.array([0.0]))
    >>> float(l[0]), float(w[0]), float(b[0])
    (-2.0, 0.0, 2.0)
    """

    is_bound = True
    needs_guard = True
    couples = False
    longest_step = 1.0
    two_moment = False
    #: The least variance that is used, which smooths the kink over a width of 1e-6.
    _FLOOR: ClassVar[float] = 1e-12

    def log_density(self, y: Array, f: Array) -> Array:
        xp = namespace(f)
        z = 1 - y * f
        return -2 * xp.maximum(z, xp.zeros_like(z))

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        s = xp.sqrt(xp.maximum(v, xp.full_like(v, self._FLOOR)))
        z = 1 - y * mu
        t = z / s
        density, below = normal_density(t), ndtr(t)
        w = 2 * density / s
        return Sites(-2 * (s * density + z * below), w, 2 * y * below + w * mu)


@dataclass(frozen=True)
class AugmentedHinge:
    r"""The hinge pseudo-likelihood under Polson and Scott's augmentation (Luts 2014, Wenzel 2017).

    The scale of each row has the optimal :math:`q(\lambda) = GIG(1/2, 1, c)`,
    :math:`c = z^2 + v`; in the bound all Bessel functions cancel, which leaves

    .. math:: l = -z - \sqrt{z^2 + v}, \quad w = 1 / \sqrt{z^2 + v}, \quad b = y (1 + w).

    >>> import numpy as np
    >>> [float(part[0]) for part in AugmentedHinge().sites(np.ones(1), np.zeros(1), np.zeros(1))]
    [-2.0, 1.0, 2.0]
    """

    is_bound = True
    needs_guard = False
    couples = False
    longest_step = 1.0
    two_moment = True
    site_is_curvature = False
    _FLOOR: ClassVar[float] = 1e-12

    def log_density(self, y: Array, f: Array) -> Array:
        return Hinge().log_density(y, f)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        z = 1 - y * mu
        root = xp.sqrt(xp.maximum(z * z + v, xp.full_like(v, self._FLOOR)))
        w = 1 / root
        return Sites(-z - root, w, y * (1 + w))

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        r""":math:`w v / (z^2 + v)`."""
        w = self.sites(y, mu, v).w
        return w * w * w * v


@dataclass(frozen=True)
class PointHinge:
    r"""The augmented hinge with ``v = 0``: the expectation-conditional-maximisation of Henao et al. (2014).

    With :math:`z = 1 - y \mu` and a small :math:`\delta`, ``floor``, whatever ``v`` is,

    .. math:: l = -2 \max(0, z), \quad w = 1 / \max(|z|, \delta), \quad b = y (1 + w).

    The mean then converges to the solution of :math:`\sum_i g_i \phi_i = P m` for the slopes
    :math:`g = b - w \mu = y (1 + \mathrm{clip}(z / \delta, -1, 1))`: to the support vector machine whose kink is
    rounded over :math:`\delta` to either side. Full steps never decrease that objective. It is not the objective of the
    belief, because ``w`` is not the derivative of ``l`` in ``v``, so there is no bound to check.

    The floor is in units of the margin. Latent means differ from those of the machine by about half a floor in root
    mean square; with a much smaller floor, rows on the margin make up all of their spread, and cannot be left out.

    >>> import numpy as np
    >>> [float(part[0]) for part in PointHinge().sites(np.ones(1), np.zeros(1), np.full(1, 7.0))]
    [-2.0, 1.0, 2.0]
    """

    floor: float = 0.03
    is_bound = False
    needs_guard = False
    couples = False
    longest_step = 1.0
    two_moment = True
    # The belief contains 1/|z| of every row, which is not a curvature: as one, it would keep means from moving.
    site_is_curvature = False

    def log_density(self, y: Array, f: Array) -> Array:
        return Hinge().log_density(y, f)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        z = 1 - y * mu
        w = 1 / xp.maximum(xp.abs(z), xp.full_like(z, self.floor))
        return Sites(self.log_density(y, mu), w, y * (1 + w))

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        r"""The curvature averaged over the belief: :math:`P(|z + s \epsilon| < \delta) / \delta`, :math:`s = \sqrt v`.

        The slope ``g`` itself changes only near the margin, at the support vectors. But leaving a row out moves the
        others by as much as the belief is uncertain about them, and rows that reach the margin on the way resist. For
        large ``v`` this is the curvature of `Hinge`; if rows are so many that ``v`` vanishes, that of the rounded kink.
        """
        xp = namespace(z := 1 - y * mu)
        s = xp.sqrt(xp.clip(v, 1e-300))
        return (ndtr((self.floor - z) / s) - ndtr((-self.floor - z) / s)) / self.floor
