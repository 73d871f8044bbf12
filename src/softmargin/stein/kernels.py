"""Kernels between particles, and the directions that they imply."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from array_api_compat import device

from ..arrays import Array, clipped_at_zero, like, namespace, row_squares, to_numpy


class SteinKernel(ABC):
    """Kernel between particles, which may depend on all of them (for its width, its centre or its units).

    Define your own by its direction, here one without interaction:

    >>> import numpy as np
    >>> class Alone(SteinKernel):
    ...     def direction(self, particles, scores):
    ...         return scores
    >>> direction(np.zeros((2, 1)), np.array([[1.0], [3.0]]), Alone())
    array([[1.],
           [3.]])
    """

    @abstractmethod
    def direction(self, particles: Array, scores: Array) -> Array:
        r""":math:`\varphi`, particle by coordinate."""

    def size(self, particles: Array, direction: Array) -> float:
        """Distance from convergence: the largest root mean square of a coordinate of the direction.

        Directions are in units of scores; multiplied by the spread of the particles they have no units.
        """
        largest = namespace(direction).max(spread(direction) * or_one(spread(centred(particles))))
        return float(largest) / self.strength(particles.shape[0])

    def strength(self, n_particles: int) -> float:
        """The factor by which a particle's own score enters its direction."""
        return 1.0


@dataclass(frozen=True)
class RBFStein(SteinKernel):
    r""":math:`k(x, y) = \exp(-|x - y|^2 / 2\sigma^2)`, with ``width`` :math:`\sigma`.

    By default :math:`\sigma^2 = \tfrac12 \mathrm{med}^2 / \log(S + 1)`, where ``med`` is the median distance between
    particles: repulsion by the others then about balances a particle's own drift.  All gradients are

    .. math:: \sum_s \nabla_{x_s} k(x_s, x_j) = \sigma^{-2} \textstyle\sum_s k_{sj} (x_j - x_s).

    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> RBFStein(width=1.0).direction(x, np.zeros((2, 1))).round(3)  # nothing but pushes apart
    array([[-0.303],
           [ 0.303]])
    """

    width: float | str = "median"

    def __post_init__(self) -> None:
        _number_or("median", "width", self.width)

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = centred(particles)  # far from the origin, differences would be lost in rounding
        squares = row_squares(x)
        apart = 1 - xp.eye(x.shape[0], dtype=x.dtype, device=device(x))
        distance = clipped_at_zero(squares[:, None] + squares[None, :] - 2 * (x @ x.T)) * apart
        sigma2 = _median_width(distance) if isinstance(self.width, str) else self.width**2
        k = xp.exp(-0.5 * distance / sigma2)
        repulsion = (xp.sum(k, axis=1)[:, None] * x - k @ x) / sigma2
        return (k @ scores + repulsion) / x.shape[0]

    def strength(self, n_particles: int) -> float:
        """That of a narrow kernel, which is conservative: a wide one converges earlier than its size suggests."""
        return 1 / n_particles


@dataclass(frozen=True)
class LinearStein(SteinKernel):
    r""":math:`k(x, y) = 1 + (x - \bar x)^T (y - \bar x) / \tau` about the mean of the particles.

    ``scale`` is :math:`\tau`, by default the mean variance of the particles' coordinates.  It only controls how fast
    the covariance converges relative to the mean.

    >>> import numpy as np
    >>> x = np.array([[-1.0], [1.0]])
    >>> LinearStein().direction(x, -x)  # of a standard normal density: mean 0 and variance 1, at rest
    array([[0.],
           [0.]])
    """

    scale: float | str = "variance"

    def __post_init__(self) -> None:
        _number_or("variance", "scale", self.scale)

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = centred(particles)
        tau = or_one(xp.mean(x * x, axis=(0, 1), keepdims=True)) if isinstance(self.scale, str) else self.scale
        return xp.mean(scores, axis=0) + ((x @ x.T) @ scores / x.shape[0] + x) / tau


@dataclass(frozen=True)
class CoordinateStein(SteinKernel):
    r"""Separate linear kernel for each coordinate: :math:`k_i(x, y) = 1 + (x_i - \bar x_i)(y_i - \bar x_i) / v_i`.

    ``v_i`` is the variance of the particles.  There are no sums over pairs of particles.

    >>> import numpy as np
    >>> x = np.array([[-1.0, 0.5], [1.0, -0.5]])
    >>> CoordinateStein().direction(x, -x)  # the second coordinate is too narrow
    array([[ 0. ,  1.5],
           [ 0. , -1.5]])
    """

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = centred(particles)
        return xp.mean(scores, axis=0) + x * (xp.mean(scores * x, axis=0) + 1) / or_one(xp.mean(x * x, axis=0))


@dataclass(frozen=True)
class MixedStein(SteinKernel):
    """Weighted mean of a linear kernel, with weight ``share``, and an RBF.

    >>> import numpy as np
    >>> x, scores = np.array([[-1.0], [1.0]]), np.array([[0.5], [0.0]])
    >>> half = (RBFStein().direction(x, scores) + LinearStein().direction(x, scores)) / 2
    >>> np.allclose(MixedStein().direction(x, scores), half)
    True
    """

    share: float = 0.5
    rbf: RBFStein = field(default_factory=RBFStein)
    linear: SteinKernel = field(default_factory=LinearStein)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share!r}")

    def direction(self, particles: Array, scores: Array) -> Array:
        rbf = self.rbf.direction(particles, scores)
        return rbf + self.share * (self.linear.direction(particles, scores) - rbf)


@dataclass(frozen=True, eq=False)
class Whitened(SteinKernel):
    r"""Another kernel, applied in coordinates ``z`` with :math:`x - \bar x = A z`.

    By the chain rule, scores become :math:`A^T g`, and a direction :math:`\varphi_z` is mapped to :math:`A \varphi_z`.
    ``scale`` defines ``A``: a root of the particles' ``"covariance"`` (by a QR decomposition, without an inverse),
    their ``"spread"`` coordinate by coordinate, or given units, one for each.  The first needs more particles than
    coordinates, spread in all directions, as particles never leave the directions in which they start.

    >>> import numpy as np
    >>> x, unit = np.array([[-1.0], [2.0], [3.0]]), 1000.0
    >>> small = direction(x, -x, Whitened(RBFStein()))
    >>> large = direction(unit * x, -x / unit, Whitened(RBFStein()))  # the same density in other units
    >>> np.allclose(large, unit * small)
    True
    """

    kernel: SteinKernel
    scale: Any = "covariance"

    def __post_init__(self) -> None:
        named = isinstance(self.scale, str)
        if not (self.scale in ("covariance", "spread") if named else bool((to_numpy(self.scale) > 0).all())):
            raise ValueError(f"scale must be 'covariance', 'spread' or positive units, got {self.scale!r}")

    def direction(self, particles: Array, scores: Array) -> Array:
        x = centred(particles)
        if isinstance(self.scale, str) and self.scale == "covariance":
            return self._turned(x, scores)
        unit = or_one(spread(x)) if isinstance(self.scale, str) else like(self.scale, x)
        return unit * self.kernel.direction(x / unit, unit * scores)

    def _turned(self, x: Array, scores: Array) -> Array:
        """The direction for ``"covariance"``: ``x = Q R``, so that ``z = sqrt(S) Q`` and ``A' = R / sqrt(S)``."""
        S, p = x.shape
        if p >= S:
            raise ValueError(f"{S} particles are too few for a covariance in {p} coordinates: use scale='spread'")
        Q, R = namespace(x).linalg.qr(x)
        root = R / math.sqrt(S)
        return self.kernel.direction(math.sqrt(S) * Q, scores @ root.T) @ root

    def size(self, particles: Array, direction: Array) -> float:
        """Here, directions have the units of the particles."""
        largest = namespace(direction).max(spread(direction) / or_one(spread(centred(particles))))
        return float(largest) / self.kernel.strength(particles.shape[0])


def direction(particles: Array, scores: Array, kernel: SteinKernel) -> Array:
    r"""Direction of each particle: :math:`\varphi_j = \frac1S \sum_s [k(x_s, x_j) g_s + \nabla_{x_s} k(x_s, x_j)]`.

    ``particles`` and ``scores`` have a row per particle.  No matrix larger than particle by particle is formed.

    >>> import numpy as np
    >>> direction(np.array([[0.0, 2.0]]), np.array([[3.0, -1.0]]), RBFStein())  # one particle goes uphill
    array([[ 3., -1.]])
    """
    if particles.ndim != 2 or particles.shape != scores.shape:
        shapes = f"{tuple(particles.shape)} and {tuple(scores.shape)}"
        raise ValueError(f"particles and scores must be tables of one shape, got {shapes}")
    return kernel.direction(particles, scores)


def default_kernel(n_particles: int, n_coordinates: int) -> SteinKernel:
    """The kernel with the best variances: mixed and whitened, or by coordinates if there are too few particles.

    >>> default_kernel(50, 50)
    Whitened(kernel=CoordinateStein(), scale='spread')
    """
    if n_particles > n_coordinates:
        return Whitened(MixedStein())
    return Whitened(CoordinateStein(), "spread")


def centred(x: Array) -> Array:
    """Rows minus their mean."""
    return x - namespace(x).mean(x, axis=0)


def spread(x: Array) -> Array:
    """Root mean squares of the columns."""
    xp = namespace(x)
    return xp.sqrt(xp.mean(x * x, axis=0))


def or_one(value: Array) -> Array:
    """The value, or one where it is zero, for safe division."""
    xp = namespace(value)
    return xp.where(value > 0, value, xp.ones_like(value))


def _median_width(distance: Array) -> Array:
    """``.5 med^2 / log(S + 1)`` from the squared distances, as an array, so that a device need not synchronise."""
    xp = namespace(distance)
    S = distance.shape[0]
    if S == 1:
        return xp.ones_like(distance)
    both = xp.sqrt(xp.sort(xp.reshape(distance, (-1,)))[S:])  # without the diagonal; every pair occurs twice
    low, high = (both.shape[0] // 2 - 1) // 2, both.shape[0] // 2 // 2
    med = 0.5 * (both[2 * low : 2 * low + 1] + both[2 * high : 2 * high + 1])
    return or_one(0.5 * med * med / math.log(S + 1))


def _number_or(word: str, name: str, value: Any) -> None:
    if value != word and not (isinstance(value, (int, float)) and 0 < value < math.inf):
        raise ValueError(f"{name} must be {word!r} or a positive number, got {value!r}")
