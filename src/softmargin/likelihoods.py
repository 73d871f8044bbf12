r"""Likelihoods: what one row says about its latent value ``f``.

A likelihood is one function, ``sites(y, mu, v)``.  For ``f ~ N(mu, v)`` it returns, row by row,

* ``l``, the expected log-likelihood :math:`E \log p(y \mid f)` or a lower bound of it;
* the Gaussian :math:`\exp(b f - w f^2 / 2)` that stands in for the row, from the slopes of ``l``:
  :math:`w = -2\, \partial l / \partial v` and :math:`b = \partial l / \partial \mu + w \mu`.

All of these are finite at ``v = 0``.  A likelihood also says of itself

* ``is_bound``: ``l`` is the expected log-likelihood or lies below it (up to the error of a quadrature rule), and
  ``w`` and ``b`` come from its slopes, so that there is an objective to watch and to guard;
* ``needs_guard``: a full step may overshoot and must be checked against the objective;
* ``two_moment``: ``l`` uses nothing of ``f`` but its first two moments, so that the bound
  holds for latent values that are not Gaussian;
* ``site_is_curvature``: ``w`` is also the curvature :math:`-\partial^2 l / \partial \mu^2`, which the function
  ``curvature(y, mu, v)`` gives in any case.

Labels ``y`` are -1 or +1, except for `Gaussian`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from .arrays import Array, erfcx, expit, like, log_expit, log_ndtr, namespace, ndtr, normal_density


class Sites(NamedTuple):
    """What each row contributes: expected log-likelihood, precision and linear term."""

    l: Array  # noqa: E741 - the letter of GLOSSARY.md
    w: Array
    b: Array


class Likelihood(Protocol):
    """The protocol of this module; see its docstring."""

    is_bound: ClassVar[bool]
    needs_guard: ClassVar[bool]
    two_moment: ClassVar[bool]
    site_is_curvature: ClassVar[bool]

    def log_density(self, y: Array, f: Array) -> Array:
        """``log p(y | f)``, for the hinge without its normalising constant."""
        ...

    def sites(self, y: Array, mu: Array, v: Array) -> Sites: ...

    def curvature(self, y: Array, mu: Array, v: Array) -> Array: ...


class _SiteIsCurvature:
    """For likelihoods whose site bends just as ``l`` does."""

    site_is_curvature: ClassVar[bool] = True

    def curvature(self: Likelihood, y: Array, mu: Array, v: Array) -> Array:
        return self.sites(y, mu, v).w


@dataclass(frozen=True)
class Hinge(_SiteIsCurvature):
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

    is_bound: ClassVar[bool] = True
    needs_guard: ClassVar[bool] = True
    two_moment: ClassVar[bool] = False
    #: Below this variance the kink counts as smoothed over a width of 1e-6.
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
    :math:`c = z^2 + v`; put back into the bound every Bessel function cancels and leaves

    .. math:: l = -z - \sqrt{z^2 + v}, \quad w = 1 / \sqrt{z^2 + v}, \quad b = y (1 + w).

    >>> import numpy as np
    >>> [float(part[0]) for part in AugmentedHinge().sites(np.ones(1), np.zeros(1), np.zeros(1))]
    [-2.0, 1.0, 2.0]
    """

    is_bound: ClassVar[bool] = True
    needs_guard: ClassVar[bool] = False
    two_moment: ClassVar[bool] = True
    site_is_curvature: ClassVar[bool] = False
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

    The mean then rests where :math:`\sum_i g_i \phi_i = P m` for the slopes
    :math:`g = b - w \mu = y (1 + \mathrm{clip}(z / \delta, -1, 1))`: at the support vector machine whose kink is
    rounded over :math:`\delta` to either side.  Full steps never lower that objective, which is not the one of the
    belief: ``w`` is no slope of ``l`` in ``v``, so there is no bound to watch.

    The floor is in units of the margin.  Latent means come as near to the machine's, about half a floor in root mean
    square; with much less, rows on the margin own all of their spread, and none of them can be left out.

    >>> import numpy as np
    >>> [float(part[0]) for part in PointHinge().sites(np.ones(1), np.zeros(1), np.full(1, 7.0))]
    [-2.0, 1.0, 2.0]
    """

    floor: float = 0.03
    is_bound: ClassVar[bool] = False
    needs_guard: ClassVar[bool] = False
    two_moment: ClassVar[bool] = True
    # The belief contains 1/|z| of every row, which is no curvature: taken for one, it holds means that would give way.
    site_is_curvature: ClassVar[bool] = False

    def log_density(self, y: Array, f: Array) -> Array:
        return Hinge().log_density(y, f)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        z = 1 - y * mu
        w = 1 / xp.maximum(xp.abs(z), xp.full_like(z, self.floor))
        return Sites(self.log_density(y, mu), w, y * (1 + w))

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        """That of the hinge averaged over the belief.

        The slope ``g`` itself bends on the margin only, where support vectors hold, and nowhere else.  But a row left
        out moves the others by as much as the belief is unsure of them, and those that meet the margin on the way hold.
        """
        return Hinge().curvature(y, mu, v)


@dataclass(frozen=True)
class JaakkolaJordan:
    r"""The logistic likelihood under Jaakkola and Jordan's quadratic bound (vi-JJ of Izmailov 2017).

    With :math:`\xi = \sqrt{\mu^2 + v}`,

    .. math:: l = (y \mu - \xi) / 2 + \log \sigma(\xi), \quad w = \tanh(\xi / 2) / (2 \xi), \quad b = y / 2.

    >>> import numpy as np
    >>> [round(float(part[0]), 4) for part in JaakkolaJordan().sites(np.ones(1), np.zeros(1), np.zeros(1))]
    [-0.6931, 0.25, 0.5]
    """

    is_bound: ClassVar[bool] = True
    needs_guard: ClassVar[bool] = False
    two_moment: ClassVar[bool] = True
    site_is_curvature: ClassVar[bool] = False

    def log_density(self, y: Array, f: Array) -> Array:
        return log_expit(y * f)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        xi = xp.sqrt(mu * mu + v)
        # tanh(xi/2) / (2 xi) -> 1/4 - xi^2/48: below 1e-4 the quotient has nothing to add.
        safe = xp.where(xi > 1e-4, xi, xp.ones_like(xi))
        w = xp.where(xi > 1e-4, xp.tanh(safe / 2) / (2 * safe), 0.25 - xi * xi / 48)
        return Sites((y * mu - xi) / 2 + log_expit(xi), w, y / 2)

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        r""":math:`w + (\mu/\xi)^2 (\sigma(\xi) \sigma(-\xi) - w)`."""
        xp = namespace(mu)
        w, square = self.sites(y, mu, v).w, mu * mu + v
        xi, share = xp.sqrt(square), mu * mu / xp.where(square > 0, square, xp.ones_like(square))
        return w + share * (expit(xi) * expit(-xi) - w)


class Derivatives(NamedTuple):
    """A log-likelihood and its first two derivatives in ``f``."""

    value: Array
    slope: Array
    curvature: Array


class SmoothModel(Protocol):
    """A twice differentiable log-likelihood, for `Quadrature` and `Taylor`."""

    def derivatives(self, y: Array, f: Array) -> Derivatives: ...


@dataclass(frozen=True)
class Logistic:
    r""":math:`\log p = \log \sigma(y f)`."""

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        xp = namespace(f)
        t = y * f
        e = xp.exp(-xp.abs(t))  # serves the logarithm and the slope
        miss = xp.where(t > 0, e, xp.ones_like(e)) / (1 + e)
        return Derivatives(xp.minimum(t, xp.zeros_like(t)) - xp.log1p(e), y * miss, -miss * (1 - miss))


@dataclass(frozen=True)
class Probit:
    r""":math:`\log p = \log \Phi(y f)`, with slope :math:`y r`, :math:`r = N(t)/\Phi(t)`, :math:`t = y f`,
    and curvature :math:`-r (r + t)`."""

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        xp = namespace(f)
        t = y * f
        value = log_ndtr(t)
        r = math.sqrt(2 / math.pi) / erfcx(-t / math.sqrt(2))
        # r + t cancels in the far left tail, where r (r + t) tends to 1 - 1/t^2.
        far = xp.minimum(t, xp.full_like(t, -1e3))
        curvature = xp.where(t > -1e3, r * (r + t), 1 - 1 / far**2)
        return Derivatives(value, y * r, -xp.clip(curvature, 0.0, 1.0))


def _joined(parts: list[Sites]) -> Sites:
    """The sites of rows and of those after them."""
    return Sites(*(namespace(*part).concat(part) for part in zip(*parts, strict=True)))


@lru_cache(maxsize=8)
def _hermite(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of ``E g(x)``, ``x ~ N(0, 1)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, weights / weights.sum()


@dataclass(frozen=True)
class Quadrature(_SiteIsCurvature):
    r"""A smooth log-likelihood, its expectation taken by Gauss-Hermite quadrature (Hensman's svi).

    The slopes are those of the rule itself, from the same nodes :math:`f = \mu + s x`:
    :math:`\partial l/\partial\mu = E[\partial_f \log p]` and
    :math:`\partial l / \partial v = E[x\, \partial_f \log p] / (2 s)`, at small ``s`` in its limit
    :math:`E[\partial^2_f \log p] / 2`.

    >>> import numpy as np
    >>> round(float(Quadrature(Logistic()).sites(np.ones(1), np.zeros(1), np.zeros(1)).l[0]), 4)
    -0.6931
    """

    model: SmoothModel = field(default_factory=Logistic)
    n_nodes: int = 24
    is_bound: ClassVar[bool] = True
    needs_guard: ClassVar[bool] = True
    two_moment: ClassVar[bool] = False
    #: Standard deviations below which the quotient by ``s`` is taken in its limit.
    _NARROW: ClassVar[float] = 1e-2
    #: Up to these variances so few nodes are exact to about 1e-10.
    _FEW_NODES: ClassVar[tuple[tuple[float, int], ...]] = ((0.03, 6), (0.1, 8), (0.3, 12))
    #: Nodes that fit the cache together.
    _NODES_AT_ONCE: ClassVar[int] = 98_304

    def log_density(self, y: Array, f: Array) -> Array:
        return self.model.derivatives(y, f).value

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        """Each row with as many nodes as its variance needs, whatever rows it comes with."""
        xp = namespace(v)
        nodes = [min(few, self.n_nodes) for _, few in self._FEW_NODES] + [self.n_nodes]
        widths = sum(xp.astype(v > edge, xp.int64) for edge, _ in self._FEW_NODES)
        least, most = (int(xp.min(widths)), int(xp.max(widths))) if v.shape[0] else (0, 0)
        if least == most:
            return self._in_turn(y, mu, v, nodes[most])
        places = [xp.nonzero(widths == width)[0] for width in range(least, most + 1)]
        parts = [self._in_turn(y[at], mu[at], v[at], n) for at, n in zip(places, nodes[least : most + 1], strict=True)]
        back = xp.argsort(xp.concat(places))
        return Sites(*(part[back] for part in _joined(parts)))

    def _in_turn(self, y: Array, mu: Array, v: Array, n_nodes: int) -> Sites:
        """As many rows at once as have nodes that fit the cache together."""
        n_rows, at_once = mu.shape[0], self._NODES_AT_ONCE // n_nodes
        if n_rows <= at_once:
            return self._sites(y, mu, v, n_nodes)
        cuts = [slice(start, start + at_once) for start in range(0, n_rows, at_once)]
        return _joined([self._sites(y[cut], mu[cut], v[cut], n_nodes) for cut in cuts])

    def _sites(self, y: Array, mu: Array, v: Array, n_nodes: int) -> Sites:
        xp = namespace(mu)
        s = xp.sqrt(v)
        nodes, weights = (like(part, s) for part in _hermite(n_nodes))
        at_nodes = self.model.derivatives(y, mu + nodes[:, None] * s)
        slope, tilt = weights @ at_nodes.slope, (weights * nodes) @ at_nodes.slope
        wide = s > self._NARROW
        w = -tilt / xp.where(wide, s, xp.ones_like(s))
        if not xp.all(wide):
            w = xp.where(wide, w, -(weights @ at_nodes.curvature))
        w = xp.maximum(w, xp.zeros_like(w))  # rounding
        return Sites(weights @ at_nodes.value, w, slope + w * mu)


@dataclass(frozen=True)
class Taylor(_SiteIsCurvature):
    r"""A smooth log-likelihood, expanded to second order about the mean (vi-Taylor of Izmailov 2017).

    .. math:: l = \log p(y \mid \mu) - w v / 2, \quad w = -\partial^2_f \log p, \quad b = \partial_f \log p + w \mu,

    all at :math:`f = \mu`.  The point of expansion is held while ``b`` is formed, so this is Newton's
    method on the mode, not ascent of ``l``: there is no bound to watch, and ``b`` is not its slope.
    """

    model: SmoothModel = field(default_factory=Logistic)
    is_bound: ClassVar[bool] = False
    needs_guard: ClassVar[bool] = True
    two_moment: ClassVar[bool] = True

    def log_density(self, y: Array, f: Array) -> Array:
        return self.model.derivatives(y, f).value

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        value, slope, curvature = self.model.derivatives(y, mu)
        return Sites(value + curvature * v / 2, -curvature, slope - curvature * mu)


@dataclass(frozen=True)
class Gaussian(_SiteIsCurvature):
    r"""A real-valued ``y`` with noise variance ``noise``: exact, and the reference of many tests.

    .. math:: l = -\tfrac12 \log(2 \pi \tau) - ((y - \mu)^2 + v) / (2 \tau), \quad w = 1/\tau, \quad b = y / \tau.
    """

    noise: float = 1.0
    is_bound: ClassVar[bool] = True
    needs_guard: ClassVar[bool] = False
    two_moment: ClassVar[bool] = True

    def log_density(self, y: Array, f: Array) -> Array:
        return -0.5 * (math.log(2 * math.pi * self.noise) + (y - f) ** 2 / self.noise)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        w = xp.full_like(mu, 1 / self.noise)
        return Sites(self.log_density(y, mu) - v / (2 * self.noise), w, like(y, mu) * w)


#: The words of ``loss=`` and the likelihoods behind them.
LOSSES: dict[str, Likelihood] = {
    "hinge": Hinge(),
    "hinge-augmented": AugmentedHinge(),
    "logistic": Quadrature(Logistic()),
    "logistic-jj": JaakkolaJordan(),
    "logistic-taylor": Taylor(Logistic()),
    "probit": Quadrature(Probit()),
    "probit-taylor": Taylor(Probit()),
}
