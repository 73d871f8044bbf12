r"""Likelihoods as scale mixtures of Gaussians: given its scale, a row is a site :math:`e^{b f - w f^2 / 2}`.

* `HingeScales`.  A row of weight :math:`c` has the pseudo-likelihood :math:`\exp(-2 c \max(0, z))`, :math:`z = 1 - y f`
  (Polson and Scott 2011; at :math:`c = 1` Wenzel 2017, (3)):

  .. math:: e^{-2 c \max(0, z)} = \int_0^\infty \sqrt{\frac{c}{2 \pi \lambda}}
            \exp\Big(-\frac{c\, (z + \lambda)^2}{2 \lambda}\Big) d\lambda.

  Given the scale, the row is a measurement :math:`y (1 + \lambda)` of ``f`` with noise :math:`\lambda / c`; given
  ``f``, :math:`t = 1 / \lambda` is inverse Gaussian.
* `PolyaGamma`.  The logistic likelihood is a mixture over :math:`\omega \sim PG(c, 0)` (Polson, Scott and Windle 2013),

  .. math:: \sigma(y f)^c = 2^{-c} e^{c y f / 2}\, E\, e^{-\omega f^2 / 2},

  and :math:`\omega` given ``f`` is :math:`PG(c, f)`.

All functions work row by row, and are finite for weights ``c = 0``, unbounded scales, and rows at any distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import expit, log_expit, log_ndtr

from ..extras import needed
from ..likelihoods import AugmentedHinge, Hinge, JaakkolaJordan, Likelihood, Logistic, PointHinge, Quadrature

#: Rows closer to their margin than this count as on it: their scale is then chi-squared, whatever the distance.
_NEAREST = 1e-10
#: Beyond this ``|f|``, where the package fails, Polya-Gamma is inverse Gaussian up to a share ``c exp(-|f|)``.
_FAR = 20.0
#: Below this weight, which the package does not support, a sum of this many gammas has all but 1e-6 of the variance.
_LEAST_SHAPE, _N_GAMMAS = 2e-3, 32
#: Nodes for a Gaussian times a logistic power, their range in standard deviations, and iterations for its mode.
_N_NODES, _REACH, _N_STEPS = 65, 8.5, 16
#: The widest spacing of these nodes at which the bend of the logistic factor is resolved.  Otherwise there are panels:
#: edges around the mode in standard deviations, as many on either side of the bend, and nodes of each panel.
_RESOLVED, _N_EDGES, _PANEL_NODES = 0.7, 12, 10
_EDGES = np.array([-_REACH, -5.0, -2.5, 0.0, 2.5, 5.0, _REACH])


class Site(NamedTuple):
    """A row given its scale: precision and linear term of a Gaussian in ``f``."""

    w: np.ndarray
    b: np.ndarray

    def spared(self, leftover: np.ndarray) -> Site:
        r"""The site of :math:`\phi^T u`, with ``e`` integrated out: both terms over :math:`1 + w\, leftover`."""
        kept = 1 / (1 + self.w * leftover)
        return Site(kept * self.w, kept * self.b)

    def draw_leftover(self, explained: np.ndarray, leftover: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        r"""Draws ``e`` given :math:`\phi^T u`: variance :math:`v_e = leftover / (1 + w\, leftover)`, mean
        :math:`v_e\, (b - w\, \phi^T u)`."""
        if not leftover.any():
            return np.zeros_like(explained)
        v = leftover / (1 + self.w * leftover)
        return v * (self.b - self.w * explained) + np.sqrt(v) * rng.standard_normal(len(v))


class Tilted(NamedTuple):
    """A Gaussian of ``f`` times a power of the likelihood: the logarithm of its integral, its mean and its variance."""

    log_total: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class Augmentation(Protocol):
    """What the sampler needs of a likelihood; ``c`` is the weight of each row."""

    def start(self, y: np.ndarray, c: np.ndarray) -> Site:
        """The mean site at ``f = 0``."""
        ...

    def drawn(self, y: np.ndarray, f: np.ndarray, c: np.ndarray, largest: float, rng: np.random.Generator) -> Site:
        """The site for a scale drawn given ``f``, with at most the ``largest`` precision."""
        ...

    def tilted(self, y: np.ndarray, mu: np.ndarray, v: np.ndarray, k: np.ndarray) -> Tilted:
        r"""The moments of :math:`N(f; \mu, v)\, p(y \mid f)^k`."""
        ...


def augmentation_of(likelihood: Likelihood) -> Augmentation:
    """The augmentation of a likelihood, or of the one that it bounds; raises TypeError if there is none."""
    if isinstance(likelihood, (Hinge, AugmentedHinge, PointHinge)):
        return HingeScales()
    quadrature = isinstance(likelihood, Quadrature) and isinstance(likelihood.model, Logistic)
    if quadrature or isinstance(likelihood, JaakkolaJordan):
        package = needed("polyagamma", "gibbs", "Drawing from the logistic likelihood")
        return PolyaGamma(package.random_polyagamma)
    raise TypeError(f"Gibbs sampling is available for the hinge and the logistic likelihood only, got {likelihood!r}.")


@dataclass(frozen=True)
class HingeScales:
    r"""Given ``f``, :math:`t \sim IG(1 / |1 - y f|, c)`; given ``t``, :math:`w = c t` and :math:`b = c (1 + t) y`."""

    def start(self, y: np.ndarray, c: np.ndarray) -> Site:
        return Site(c, 2 * c * y)

    def drawn(self, y: np.ndarray, f: np.ndarray, c: np.ndarray, largest: float, rng: np.random.Generator) -> Site:
        t = rng.wald(1 / np.maximum(np.abs(1 - y * f), _NEAREST), np.where(c > 0, c, 1.0))
        w = np.minimum(c * t, largest)
        return Site(w, (c + w) * y)

    def tilted(self, y: np.ndarray, mu: np.ndarray, v: np.ndarray, k: np.ndarray) -> Tilted:
        r"""With :math:`z = 1 - y \mu`, :math:`s = \sqrt v`, ``N`` the normal density:

        .. math:: Z = \Phi(-z/s) + e^{2 k (k v - z)} \Phi(z/s - 2 k s), \quad
                  E z = z - 2 k v p, \quad Var = v + (2 k v)^2 p (1 - p) - 2 k v^2 N(z/s) / (s Z),

        where ``p`` is the share of the second term of ``Z``.  This follows from
        :math:`\partial \log Z / \partial z = -2 k p`, since the derivatives of the two :math:`\Phi` cancel.
        """
        v = np.maximum(v, 1e-24)
        z, s = 1 - y * mu, np.sqrt(v)
        beyond, within = log_ndtr(-z / s), 2 * k * (k * v - z) + log_ndtr(z / s - 2 * k * s)
        log_total = np.logaddexp(beyond, within)
        p = np.exp(within - log_total)
        density = np.exp(-(z**2) / (2 * v) - log_total) / np.sqrt(2 * np.pi * v)
        variance = v + (2 * k * v) ** 2 * p * (1 - p) - 2 * k * v**2 * density
        return Tilted(log_total, mu + 2 * k * v * p * y, np.maximum(variance, 0.0))


@dataclass(frozen=True)
class PolyaGamma:
    r"""Given ``f``, :math:`\omega \sim PG(c, f)`; given :math:`\omega`, :math:`w = \omega` and :math:`b = c y / 2`."""

    #: ``polyagamma.random_polyagamma``.
    random: Any

    def start(self, y: np.ndarray, c: np.ndarray) -> Site:
        return Site(c / 4, c * y / 2)

    def drawn(self, y: np.ndarray, f: np.ndarray, c: np.ndarray, largest: float, rng: np.random.Generator) -> Site:
        far, some = np.abs(f) > _FAR, c > 0
        small = some & ~far & (c < _LEAST_SHAPE)
        near, far = some & ~far & ~small, some & far
        w = np.zeros_like(f)
        w[near] = self.random(c[near], f[near], random_state=rng)
        w[far] = _far_polya_gamma(c[far], f[far], rng)
        w[small] = _small_polya_gamma(c[small], f[small], rng)
        return Site(np.minimum(w, largest), c * y / 2)

    def tilted(self, y: np.ndarray, mu: np.ndarray, v: np.ndarray, k: np.ndarray) -> Tilted:
        r"""By the trapezoidal rule in ``x``, with :math:`y f = t + \delta \sinh x` around the mode ``t``.

        The negative log-density has a curvature of at least :math:`1/v`, so its mass beyond a few :math:`\sqrt v` from
        the mode is negligible, and of :math:`\delta^{-2} = 1/v + k \sigma(t) \sigma(-t)` at the mode.  So nodes are
        dense where either the Gaussian or the logistic factor requires it, and the rule converges exponentially.  If
        the Gaussian is so wide that nodes around a distant mode would miss the bend of the logistic factor at zero,
        there are panels around both.
        """
        v = np.maximum(v, 1e-24)
        nu = y * mu
        gap = _mode_gap(nu, v, k)
        t = nu + gap
        width = 1 / np.sqrt(1 / v + k * expit(t) * expit(-t))
        x = np.linspace(-1, 1, _N_NODES)[:, None] * np.arcsinh(_REACH * np.sqrt(v) / width)
        step = x[1] - x[0]
        found = _moments_at(width * np.sinh(x), step * width * np.cosh(x), gap, t, v, k)
        missed = (step * np.hypot(width, t) > _RESOLVED) & (np.abs(t) < _REACH * np.sqrt(v)) & (k > 0)
        if missed.any():
            few = [np.broadcast_to(part, missed.shape)[missed] for part in (gap, t, v, k)]
            for part, better in zip(found, _moments_at(*_panels(*few[1:3]), *few), strict=True):
                part[missed] = better
        log_total, mean, variance = found
        return Tilted(log_total, y * (t + mean), variance)


def _moments_at(
    away: np.ndarray, weights: np.ndarray, gap: np.ndarray, t: np.ndarray, v: np.ndarray, k: np.ndarray
) -> Any:
    """The logarithm of the integral, and mean and variance of the distance from the mode, by nodes and weights."""
    log_density = k * log_expit(t + away) - (gap + away) ** 2 / (2 * v)
    top = log_density.max(axis=0)
    share = np.exp(log_density - top) * weights
    total = share.sum(axis=0)
    mean = np.sum(share * away, axis=0) / total
    variance = np.sum(share * (away - mean) ** 2, axis=0) / total
    return top + np.log(total) - 0.5 * np.log(2 * np.pi * v), mean, variance


def _panels(t: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes, as distances from the mode, and weights: on panels around it, and on wider and wider ones
    on either side of zero."""
    reach = _REACH * np.sqrt(v)
    grown = np.geomspace(1.0, np.maximum(reach + np.abs(t), 2.0), _N_EDGES)
    edges = np.concatenate([_EDGES[:, None] * np.sqrt(v), -t - grown, -t[None], -t + grown])
    edges = np.sort(np.clip(edges, -reach, reach), axis=0)
    nodes, weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    half = np.diff(edges, axis=0)[:, None] / 2
    away = edges[:-1, None] + half * (1 + nodes[:, None])
    return away.reshape(-1, len(t)), (half * weights[:, None]).reshape(-1, len(t))


def _mode_gap(nu: np.ndarray, v: np.ndarray, k: np.ndarray) -> np.ndarray:
    r"""The distance of the mode from the mean, :math:`g = k v \sigma(-\nu - g)`, by Newton steps, with bisection where
    these would leave the bracket.

    The upper end of the bracket: at :math:`g = \max(-\nu, 0) + \log(1 + k v)` the right side is at most
    :math:`k v / (2 + k v) \le \log(1 + k v)`.
    """
    low, high = np.zeros_like(nu), np.maximum(-nu, 0) + np.log1p(k * v)
    gap = high
    for _ in range(_N_STEPS):
        t = nu + gap
        excess = gap - k * v * expit(-t)
        low, high = np.where(excess < 0, gap, low), np.where(excess < 0, high, gap)
        gap = gap - excess / (1 + k * v * expit(t) * expit(-t))
        gap = np.where((gap >= low) & (gap <= high), gap, (low + high) / 2)
    return gap


def _far_polya_gamma(c: np.ndarray, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    r""":math:`PG(c, f)` for large :math:`|f|`: the first term of its density, an inverse Gaussian of mean
    :math:`c / (2 |f|)` and shape :math:`c^2 / 4`, has the mass :math:`(1 + e^{-|f|})^c`.  The other terms, which
    offset the excess, are negligible.
    """
    least = np.finfo(float).tiny  # for tiny weights, squares underflow
    return rng.wald(np.maximum(c / (2 * np.abs(f)), least), np.maximum(c**2 / 4, least))


def _small_polya_gamma(c: np.ndarray, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    r""":math:`\frac{1}{2 \pi^2} \sum_{k \ge 1} g_k / ((k - \frac12)^2 + f^2 / (4 \pi^2))` with
    :math:`g_k \sim Gamma(c, 1)`: the first terms are drawn, and the others replaced by their mean."""
    part = 1 / (2 * np.pi**2 * ((np.arange(_N_GAMMAS)[:, None] + 0.5) ** 2 + (f / (2 * np.pi)) ** 2))
    x = np.maximum(np.abs(f), 1e-6) / 2
    rest = np.tanh(x) / (4 * x) - part.sum(axis=0)
    return np.sum(rng.standard_gamma(c, size=part.shape) * part, axis=0) + c * rest
