r"""Kernels of uncertain rows: the expected covariance with points that are known exactly.

The entries of a row are independent Gaussians, :math:`x_c \sim N(m_c, s_c^2)`. The row is stored with twice as many
columns: means, then standard deviations. With :math:`a = m / \ell`, :math:`b = z / \ell` and
:math:`r_c = \ell_c^2 / (\ell_c^2 + s_c^2)`, a squared exponential has

.. math:: E\, k(x, z) = \prod_c \sqrt{r_c}\; \exp\big(-\tfrac12 \sum_c r_c (a_c - b_c)^2\big), \quad
          \frac{\partial \log E\, k}{\partial \log \ell_c} = 1 - r_c + r_c^2 (a_c - b_c)^2,

and with the squares expanded all sums are matrix products. A row that is known exactly has :math:`r = 1`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, clipped, namespace, to_numpy
from .base import Kernel
from .combine import Product, Sum
from .stationary import _FAR, RBF
from .variance import Constant, White


@dataclass(frozen=True, repr=False)
class BlurredRBF(RBF):
    """The squared exponential for rows with twice as many columns as the points; for other rows it is `RBF`."""

    def __call__(self, X: Array, Z: Array) -> Array:
        if X.shape[1] == Z.shape[1]:
            return super().__call__(X, Z)
        if X.shape[1] < Z.shape[1]:
            return self(Z, X).T
        A, B, r, _ = self._blurred(X, Z)
        xp = namespace(A)
        # One product; the terms that depend on the row alone are one more column.
        own = xp.sum(xp.log(r) - r * A * A, axis=1)[:, None] / 2
        exponent = xp.concat([r * A, -r / 2, own], axis=1) @ xp.concat([B, B * B, xp.ones_like(B[:, :1])], axis=1).T
        return xp.exp(clipped(exponent, -np.inf, 0.0))

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        if X.shape[1] == Z.shape[1]:
            return super().pullback(X, Z, dK, K)
        A, B, r, _ = self._blurred(X, Z)
        xp = namespace(A)
        W = dK * (self(X, Z) if K is None else K)
        own = xp.sum(W, axis=1)[:, None] * (1 - r + (r * A) ** 2)
        gradient = to_numpy(xp.sum(own + r * r * (W @ (B * B) - 2 * A * (W @ B)), axis=0)).astype(float)
        return gradient.sum(keepdims=True) if isinstance(self.length_scale, float) else gradient

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        """Gradient in points ``X`` that are known exactly; the rows ``Z`` may be uncertain."""
        if X.shape[1] == Z.shape[1]:
            return super().pullback_inputs(X, Z, dK)
        A, B, r, units = self._blurred(Z, X)
        W = dK * self(X, Z)
        return (W @ (r * A) - (W @ r) * B) / units

    def _blurred(self, X: Array, Z: Array) -> tuple[Array, Array, Array, Array]:
        """Means and points in units of the length-scales, ``r``, and those units."""
        n = Z.shape[1]
        A, B, units = self._scaled(X[:, :n], Z)
        s = clipped(X[:, n:] / units, 0.0, _FAR)
        return A, B, 1 / (1 + s * s), units


def blurred(kernel: Kernel) -> Kernel | None:
    """The same kernel for uncertain rows; None if the expectation has no closed form.

    >>> blurred(2.0 * RBF(0.5) + Constant(0.1)) is None, blurred(RBF(0.5) * RBF(2.0)) is None
    (False, True)
    """
    return _with_rbf(kernel, BlurredRBF)


def sharp(kernel: Kernel) -> Kernel:
    """The inverse of `blurred`.

    >>> sharp(blurred(2.0 * RBF(0.5)))
    2.0 * RBF(length_scale=0.5)
    """
    plain = _with_rbf(kernel, RBF)
    return kernel if plain is None else plain


def _with_rbf(kernel: Kernel, kind: type[RBF]) -> Kernel | None:
    if isinstance(kernel, RBF) and type(kernel) in (RBF, BlurredRBF):
        return kind(kernel.length_scale)
    if isinstance(kernel, (Constant, White)):
        return kernel
    if not isinstance(kernel, (Sum, Product)):
        return None
    given = kernel.first, kernel.second
    # The expectation of a product is the product of expectations if one factor is constant.
    apart = isinstance(kernel, Sum) or any(isinstance(part, Constant) for part in given)
    first, second = (_with_rbf(part, kind) for part in given)
    return type(kernel)(first, second) if apart and first is not None and second is not None else None
