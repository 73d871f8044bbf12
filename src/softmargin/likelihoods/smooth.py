"""Smooth likelihoods, logistic and probit: by a quadratic bound, by quadrature, and by Taylor expansion."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from ..arrays import Array, erfcx, expit, like, log_expit, log_ndtr, namespace
from ..parameters import positive_integer
from .protocol import SiteIsCurvature, Sites


@dataclass(frozen=True)
class JaakkolaJordan:
    r"""The logistic likelihood under Jaakkola and Jordan's quadratic bound (vi-JJ of Izmailov 2017).

    With :math:`\xi = \sqrt{\mu^2 + v}`,

    .. math:: l = (y \mu - \xi) / 2 + \log \sigma(\xi), \quad w = \tanh(\xi / 2) / (2 \xi), \quad b = y / 2.

    >>> import numpy as np
    >>> [round(float(part[0]), 4) for part in JaakkolaJordan().sites(np.ones(1), np.zeros(1), np.zeros(1))]
    [-0.6931, 0.25, 0.5]
    """

    is_bound = True
    needs_guard = False
    couples = False
    longest_step = 1.0
    two_moment = True
    site_is_curvature = False

    def log_density(self, y: Array, f: Array) -> Array:
        return log_expit(y * f)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        xi = xp.sqrt(mu * mu + v)
        # tanh(xi/2) / (2 xi) -> 1/4 - xi^2/48, which is exact to rounding below 1e-4.
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
    r""":math:`\log p = \log \sigma(y f)`, with slope :math:`y\, \sigma(-y f)` and curvature
    :math:`-\sigma(f)\, \sigma(-f)`.

    >>> import numpy as np
    >>> value, slope, curvature = Logistic().derivatives(np.array([1.0, -1.0]), np.array([0.0, 2.0]))
    >>> value.round(4), slope.round(4), curvature.round(4)
    (array([-0.6931, -2.1269]), array([ 0.5   , -0.8808]), array([-0.25 , -0.105]))
    """

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        xp = namespace(f)
        t = y * f
        e = xp.exp(-xp.abs(t))  # used for both the value and the slope
        miss = xp.where(t > 0, e, xp.ones_like(e)) / (1 + e)
        return Derivatives(xp.minimum(t, xp.zeros_like(t)) - xp.log1p(e), y * miss, -miss * (1 - miss))


@dataclass(frozen=True)
class Probit:
    r""":math:`\log p = \log \Phi(y f)`, with slope :math:`y r`, :math:`r = N(t)/\Phi(t)`, :math:`t = y f`,
    and curvature :math:`-r (r + t)`.

    >>> import numpy as np
    >>> value, slope, curvature = Probit().derivatives(np.array([1.0, -1.0]), np.array([0.0, 2.0]))
    >>> value.round(4), slope.round(4), curvature.round(4)
    (array([-0.6931, -3.7832]), array([ 0.7979, -2.3732]), array([-0.6366, -0.8857]))
    """

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        xp = namespace(f)
        t = y * f
        value = log_ndtr(t)
        r = math.sqrt(2 / math.pi) / erfcx(-t / math.sqrt(2))
        # r + t cancels in the far left tail, where r (r + t) tends to 1 - 1/t^2.
        far = xp.minimum(t, xp.full_like(t, -1e3))
        curvature = xp.where(t > -1e3, r * (r + t), 1 - 1 / far**2)
        return Derivatives(value, y * r, -xp.clip(curvature, 0.0, 1.0))


def _derivatives(model: SmoothModel, y: Array, f: Array) -> Derivatives:
    """The derivatives of a model with names, even if it returns a plain tuple."""
    return Derivatives(*model.derivatives(y, f))


def _joined(parts: list[Sites]) -> Sites:
    """The sites of consecutive blocks of rows, concatenated."""
    return Sites(*(namespace(*part).concat(part) for part in zip(*parts, strict=True)))


@lru_cache(maxsize=32)
def _hermite(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of ``E g(x)``, ``x ~ N(0, 1)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, weights / weights.sum()


@dataclass(frozen=True)
class Quadrature(SiteIsCurvature):
    r"""A smooth log-likelihood, its expectation taken by Gauss-Hermite quadrature (Hensman's svi).

    The slopes are those of the rule itself, from the same nodes :math:`f = \mu + s x`:
    :math:`\partial l/\partial\mu = E[\partial_f \log p]` and
    :math:`\partial l / \partial v = E[x\, \partial_f \log p] / (2 s)`, at small ``s`` in its limit
    :math:`E[\partial^2_f \log p] / 2`.

    ``n_nodes`` are the most that a row has, and 300 at most; rows of small variance have down to a quarter of them.
    For the logistic likelihood 24 are exact to 1e-10 up to a variance of one.  A log-likelihood that turns within a
    width ``c`` of ``f`` needs up to :math:`1 / c^2` times as many.

    >>> import numpy as np
    >>> round(float(Quadrature(Logistic()).sites(np.ones(1), np.zeros(1), np.zeros(1)).l[0]), 4)
    -0.6931
    """

    model: SmoothModel = field(default_factory=Logistic)
    n_nodes: int = 24
    is_bound = True
    needs_guard = True
    couples = False
    longest_step = 1.0
    two_moment = False
    #: Below this standard deviation the quotient by ``s`` is replaced by its limit.
    _NARROW: ClassVar[float] = 1e-2
    #: Up to these variances this many nodes of 24 are exact to about 1e-10; with more, the same share of them.
    _FEW_NODES: ClassVar[tuple[tuple[float, int], ...]] = ((0.03, 6), (0.1, 8), (0.3, 12))
    _USUAL_NODES: ClassVar[int] = 24
    #: Beyond this the weights of the rule overflow.
    _MOST_NODES: ClassVar[int] = 300
    #: The number of nodes, of all rows together, that fit the cache.
    _NODES_AT_ONCE: ClassVar[int] = 98_304

    def __post_init__(self) -> None:
        positive_integer("n_nodes", self.n_nodes)
        if self.n_nodes > self._MOST_NODES:
            raise ValueError(
                f"n_nodes must be at most {self._MOST_NODES}, got {self.n_nodes}; so sharp a log-likelihood needs "
                f"its own expectation, as `sites`."
            )

    def log_density(self, y: Array, f: Array) -> Array:
        return _derivatives(self.model, y, f).value

    def slope(self, y: Array, f: Array) -> Array:
        return _derivatives(self.model, y, f).slope

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        """Uses as many nodes for each row as its variance requires, whatever the other rows are."""
        xp = namespace(v)
        more = max(1.0, self.n_nodes / self._USUAL_NODES)
        nodes = [min(math.ceil(more * few), self.n_nodes) for _, few in self._FEW_NODES] + [self.n_nodes]
        widths = sum(xp.astype(v > edge, xp.int64) for edge, _ in self._FEW_NODES)
        least, most = (int(xp.min(widths)), int(xp.max(widths))) if v.shape[0] else (0, 0)
        if least == most:
            return self._in_turn(y, mu, v, nodes[most])
        places = [xp.nonzero(widths == width)[0] for width in range(least, most + 1)]
        parts = [self._in_turn(y[at], mu[at], v[at], n) for at, n in zip(places, nodes[least : most + 1], strict=True)]
        back = xp.argsort(xp.concat(places))
        return Sites(*(part[back] for part in _joined(parts)))

    def _in_turn(self, y: Array, mu: Array, v: Array, n_nodes: int) -> Sites:
        """The sites, computed in blocks of rows whose nodes fit the cache."""
        n_rows, at_once = mu.shape[0], self._NODES_AT_ONCE // n_nodes
        if n_rows <= at_once:
            return self._sites(y, mu, v, n_nodes)
        cuts = [slice(start, start + at_once) for start in range(0, n_rows, at_once)]
        return _joined([self._sites(y[cut], mu[cut], v[cut], n_nodes) for cut in cuts])

    def _sites(self, y: Array, mu: Array, v: Array, n_nodes: int) -> Sites:
        xp = namespace(mu)
        s = xp.sqrt(v)
        nodes, weights = (like(part, s) for part in _hermite(n_nodes))
        at_nodes = _derivatives(self.model, y, mu + nodes[:, None] * s)
        slope, tilt = weights @ at_nodes.slope, (weights * nodes) @ at_nodes.slope
        wide = s > self._NARROW
        w = -tilt / xp.where(wide, s, xp.ones_like(s))
        if not xp.all(wide):
            w = xp.where(wide, w, -(weights @ at_nodes.curvature))
        w = xp.maximum(w, xp.zeros_like(w))  # negative only by rounding
        return Sites(weights @ at_nodes.value, w, slope + w * mu)


@dataclass(frozen=True)
class Taylor(SiteIsCurvature):
    r"""A smooth log-likelihood, expanded to second order about the mean (vi-Taylor of Izmailov 2017).

    .. math:: l = \log p(y \mid \mu) - w v / 2, \quad w = -\partial^2_f \log p, \quad b = \partial_f \log p + w \mu,

    all at :math:`f = \mu`.  The point of expansion is held while ``b`` is formed, so this is Newton's
    method on the mode, not ascent of ``l``: there is no bound to check steps by, and ``b`` is not its derivative.

    >>> import numpy as np
    >>> l, w, b = Taylor(Logistic()).sites(np.ones(1), np.zeros(1), np.ones(1))
    >>> float(l[0].round(4)), float(w[0]), float(b[0])
    (-0.8181, 0.25, 0.5)

    The expectation itself lies above: to second order, variance costs too much here.

    >>> float(Quadrature(Logistic()).sites(np.ones(1), np.zeros(1), np.ones(1)).l[0].round(4))
    -0.8061
    """

    model: SmoothModel = field(default_factory=Logistic)
    is_bound = False
    needs_guard = True
    couples = False
    longest_step = 1.0
    two_moment = True

    def log_density(self, y: Array, f: Array) -> Array:
        return _derivatives(self.model, y, f).value

    def slope(self, y: Array, f: Array) -> Array:
        return _derivatives(self.model, y, f).slope

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        value, slope, curvature = _derivatives(self.model, y, mu)
        return Sites(value + curvature * v / 2, -curvature, slope - curvature * mu)
