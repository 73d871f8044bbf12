"""Stationary kernels: ``k = g(s)``, with ``s`` the squared distance in units of the length-scales."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Array, bessel_k, clipped, clipped_at_zero, like, namespace, precision_of, row_squares, to_numpy
from .base import Kernel, filled, positive

#: Scaled coordinates are clipped to this, so that their squares stay finite in float32.
_FAR = 1e15
#: Distances below which a general Matern kernel is 1, and beyond which it is 0.
_NEAR, _FADED = 1e-8, 1e3
#: The largest smoothness: beyond it `RBF` differs by less than .01, and factors of the general formula overflow.
_SMOOTHEST = 30.0
#: Squared distances within this many rounding errors of the squared lengths are zero.
_ROUNDING = 32


@dataclass(frozen=True)
class _Stationary(Kernel):
    r"""A stationary kernel; subclasses add the shape ``g`` and its derivative ``g'``.

    With :math:`a = x / \ell`, :math:`b = z / \ell` and :math:`s = |a - b|^2`,

    .. math:: \partial k / \partial \log \ell_c = -2 g'(s) (a_c - b_c)^2, \quad
              \partial k / \partial x_c = 2 g'(s) (a_c - b_c) / \ell_c,

    and with the squares expanded the sums over rows and points are matrix products.
    """

    length_scale: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.length_scale is not None:
            object.__setattr__(self, "length_scale", positive("length_scale", self.length_scale))

    @abstractmethod
    def _shape(self, s: Array) -> Array:
        """``g(s)``."""

    @abstractmethod
    def _slope(self, s: Array) -> Array:
        """``g'(s)``."""

    def _pulled(self, A: Array, B: Array, dK: Array, K: Array | None) -> Array:
        """``-2 dK g'(s)`` for rows in units of the length-scales; ``K`` is the value of the kernel, if known."""
        return -2 * dK * self._slope(self._distance(A, B))

    def _distance(self, A: Array, B: Array) -> Array:
        """``s`` for rows in units of the length-scales."""
        return _squared_distance(A, B)

    def __call__(self, X: Array, Z: Array) -> Array:
        A, B, _ = self._scaled(X, Z)
        return self._shape(self._distance(A, B))

    def diagonal(self, X: Array) -> Array:
        return filled(X, 1.0)

    @property
    def theta(self) -> np.ndarray:
        return np.log(np.atleast_1d(np.asarray(self.length_scale, dtype=float)))

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        return (("length_scale", len(self.theta)),)

    def with_theta(self, theta: np.ndarray) -> Kernel:
        values = tuple(map(float, np.exp(theta)))
        return replace(self, length_scale=values[0] if isinstance(self.length_scale, float) else values)

    def with_length_scale(self, length_scale: Any) -> Kernel:
        return replace(self, length_scale=length_scale) if self.length_scale is None else self

    def refuse_width(self, n_columns: int) -> None:
        if self.length_scale is None:
            raise ValueError("length_scale=None is set by fit; give a number to use the kernel on its own.")
        if isinstance(self.length_scale, tuple) and len(self.length_scale) != n_columns:
            raise ValueError(
                f"The kernel has {len(self.length_scale)} length-scales, but the data has {n_columns} columns: give "
                f"one length-scale per column, or a single number for all."
            )

    def units(self, spread: np.ndarray) -> np.ndarray:
        return spread if self.length_scale is None else np.broadcast_to(np.asarray(self.length_scale), spread.shape)

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        A, B, _ = self._scaled(X, Z)
        W = self._pulled(A, B, dK, K)
        xp = namespace(W)
        per_column = xp.sum(W, axis=1) @ (A * A) + xp.sum(W, axis=0) @ (B * B) - 2 * xp.sum(A * (W @ B), axis=0)
        gradient = to_numpy(per_column).astype(float)
        return gradient.sum(keepdims=True) if isinstance(self.length_scale, float) else gradient

    def pullback_diagonal(self, X: Array, dk: Array) -> np.ndarray:
        return np.zeros_like(self.theta)

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        A, B, units = self._scaled(X, Z)
        W = 2 * dK * self._slope(self._distance(A, B))
        return (namespace(W).sum(W, axis=1)[:, None] * A - W @ B) / units

    def _scaled(self, X: Array, Z: Array) -> tuple[Array, Array, Any]:
        """Both sets of rows, centred at the mean of ``Z`` and in units of the length-scales, and those units."""
        self.refuse_width(X.shape[1])
        assert self.length_scale is not None
        xp = namespace(X)
        share = 2.0 ** -len(Z).bit_length()  # a power of two, so that sums cannot overflow, but round as without it
        center = xp.mean(share * Z, axis=0) / share
        least = float(xp.finfo(X.dtype).smallest_normal)  # a length-scale may underflow to 0 in single precision
        with np.errstate(over="ignore"):  # infinite coordinates are clipped, infinite length-scales give zeros
            # A scalar stays a scalar, and need not be copied to a device.
            one = isinstance(self.length_scale, float)
            units: Any = max(self.length_scale, least) if one else like(np.maximum(self.length_scale, least), X)
            return clipped((X - center) / units, -_FAR, _FAR), clipped((Z - center) / units, -_FAR, _FAR), units


def _squared_distance(A: Array, B: Array) -> Array:
    """``|a_i - b_j|^2``."""
    return clipped_at_zero(_distance_times(1.0, A, B))


def _distance_times(factor: float, A: Array, B: Array) -> Array:
    """``factor |a_i - b_j|^2`` as one product; the squared lengths are two more columns."""
    xp = namespace(A)
    left = xp.concat([A, xp.stack([factor * row_squares(A), filled(A, 1.0)], axis=1)], axis=1)
    right = xp.concat([-2 * factor * B, xp.stack([filled(B, 1.0), factor * row_squares(B)], axis=1)], axis=1)
    return left @ right.T


@dataclass(frozen=True, repr=False)
class RBF(_Stationary):
    r"""Squared exponential kernel, :math:`\exp(-s/2)`, :math:`s = \sum_c (x_c - z_c)^2 / \ell_c^2`.

    One length-scale for all columns, or one for each (automatic relevance determination).
    In `sklearn.svm.SVC`, ``gamma`` is :math:`1 / (2 \ell^2)`.

    >>> import numpy as np
    >>> round(float(RBF(2.0)(np.array([[0.0]]), np.array([[2.0]]))[0, 0]), 4)
    0.6065
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        A, B, _ = self._scaled(X, Z)
        exponent = clipped(_distance_times(-0.5, A, B), -math.inf, 0.0)
        return np.exp(exponent, out=exponent) if isinstance(exponent, np.ndarray) else namespace(exponent).exp(exponent)

    def _shape(self, s: Array) -> Array:
        return namespace(s).exp(-0.5 * s)

    def _slope(self, s: Array) -> Array:
        return -0.5 * namespace(s).exp(-0.5 * s)

    def _pulled(self, A: Array, B: Array, dK: Array, K: Array | None) -> Array:
        return super()._pulled(A, B, dK, K) if K is None else dK * K

    def __repr__(self) -> str:
        return f"RBF(length_scale={self.length_scale})"


@dataclass(frozen=True)
class Matern(_Stationary):
    r"""Matern kernel with smoothness ``nu``: rougher functions than `RBF`, its limit for large ``nu``.

    With :math:`t = \sqrt{2 \nu s}`,
    :math:`g = 2^{1-\nu} t^\nu K_\nu(t) / \Gamma(\nu)` and
    :math:`g' = -\nu\, 2^{1-\nu} t^{\nu-1} K_{\nu-1}(t) / \Gamma(\nu)`.
    For ``nu`` of 1/2, 3/2 and 5/2 both are an exponential times a polynomial.  ``nu`` may be at most 30, where the
    kernel differs from `RBF` by less than .01.

    >>> import numpy as np
    >>> round(float(Matern(1.0, nu=0.5)(np.array([[0.0]]), np.array([[1.0]]))[0, 0]), 4)
    0.3679
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isscalar(self.nu) and 0 < float(self.nu) < math.inf):  # type: ignore[arg-type]
            raise ValueError(f"nu must be positive and finite, got {self.nu!r}; RBF is the kernel with nu = inf.")
        if float(self.nu) > _SMOOTHEST:  # type: ignore[arg-type]
            raise ValueError(
                f"nu must be at most {_SMOOTHEST:g}, got {self.nu!r}; use RBF, the limit of large nu, which differs "
                f"from this kernel by less than .01."
            )

    def _distance(self, A: Array, B: Array) -> Array:
        """``s``, zero up to rounding for coincident rows, since rough kernels depend on its square root."""
        s = _squared_distance(A, B)
        rounding = _ROUNDING * precision_of(s) * row_squares(A)[:, None]  # coincident rows have the same length
        return namespace(s).where(s <= rounding, namespace(s).zeros_like(s), s)

    def _shape(self, s: Array) -> Array:
        xp = namespace(s)
        t = xp.sqrt(2 * self.nu * s)
        if self.nu == 0.5:
            return xp.exp(-t)
        if self.nu == 1.5:
            return (1 + t) * xp.exp(-t)
        if self.nu == 2.5:
            return (1 + t + t * t / 3) * xp.exp(-t)
        value = clipped(self._times_bessel(2 ** (1 - self.nu), self.nu, t), 0.0, 1.0)
        return xp.where(t > _NEAR, value, xp.ones_like(t))

    def _slope(self, s: Array) -> Array:
        xp = namespace(s)
        t = xp.clip(xp.sqrt(2 * self.nu * s), _NEAR, _FADED)
        if self.nu == 1.5:
            return -1.5 * xp.exp(-t)
        if self.nu == 2.5:
            return -5 / 6 * (1 + t) * xp.exp(-t)
        rough = self.nu == 0.5
        slope = -0.5 * xp.exp(-t) / t if rough else self._times_bessel(-self.nu * 2 ** (1 - self.nu), self.nu - 1, t)
        return xp.where(s > 0, slope, xp.zeros_like(s))  # where there is no limit, the factor is a difference of zero

    def _times_bessel(self, factor: float, order: float, t: Array) -> Array:
        r""":math:`c\, t^k K_k(t) / \Gamma(\nu)`, in double precision: either factor is soon beyond single precision."""
        safe = np.clip(to_numpy(t).astype(np.float64), _NEAR, _FADED)
        return like(factor / math.gamma(self.nu) * safe**order * bessel_k(order, safe), t)
