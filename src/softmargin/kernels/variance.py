"""Kernels whose only parameter is a variance."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import device

from ..arrays import Array, namespace, row_squares
from .base import Kernel, filled, positive


@dataclass(frozen=True)
class _Variance(Kernel):
    """``variance`` times a fixed kernel, so that the derivative in its logarithm is the kernel itself."""

    variance: float = 1.0

    def __post_init__(self) -> None:
        if np.ndim(self.variance) != 0:
            raise ValueError(f"variance must be one number, got {self.variance!r}.")
        object.__setattr__(self, "variance", positive("variance", self.variance))

    @property
    def theta(self) -> np.ndarray:
        return np.log([self.variance])

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        return (("variance", 1),)

    def with_theta(self, theta: np.ndarray) -> Kernel:
        return replace(self, variance=float(np.exp(theta[0])))

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        return np.array([float(namespace(dK).sum(dK * (self(X, Z) if K is None else K)))])

    def pullback_diagonal(self, X: Array, dk: Array) -> np.ndarray:
        return np.array([float(namespace(dk).sum(dk * self.diagonal(X)))])

    @abstractmethod
    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array: ...


class Constant(_Variance):
    """Constant covariance between all rows: a shared offset or, in a product, the prior variance.

    >>> Constant(2.0) * Linear(3.0)
    2.0 * Linear(variance=3.0)
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        return namespace(X).full((X.shape[0], Z.shape[0]), self.variance, dtype=X.dtype, device=device(X))

    def diagonal(self, X: Array) -> Array:
        return filled(X, self.variance)

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        return np.array([self.variance * float(namespace(dK).sum(dK))])

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        return namespace(X).zeros_like(X)


class White(_Variance):
    """White noise: adds to ``k(x, x)``, and not to covariances between rows.

    >>> import numpy as np
    >>> White(0.5).diagonal(np.zeros((2, 1)))
    array([0.5, 0.5])
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        return namespace(X).zeros((X.shape[0], Z.shape[0]), dtype=X.dtype, device=device(X))

    def diagonal(self, X: Array) -> Array:
        return filled(X, self.variance)

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        return namespace(X).zeros_like(X)


class Linear(_Variance):
    """Linear kernel, ``variance * x.z``: the kernel of a linear classifier.

    >>> import numpy as np
    >>> Linear(2.0)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[22.]])
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.variance * (X @ Z.T)

    def diagonal(self, X: Array) -> Array:
        return self.variance * row_squares(X)

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        return self.variance * (dK @ Z)

    def pullback_diagonal_inputs(self, X: Array, dk: Array) -> Array:
        return 2 * self.variance * dk[:, None] * X
