"""The base class of all kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from array_api_compat import device

from ..arrays import Array, namespace


class Kernel(ABC):
    """A covariance function; see `softmargin.kernels` for the protocol."""

    @abstractmethod
    def __call__(self, X: Array, Z: Array) -> Array:
        """Covariances between the rows of ``X`` and those of ``Z``."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Variance at each row of ``X``."""

    @property
    @abstractmethod
    def theta(self) -> np.ndarray:
        """Logarithms of the positive parameters, as one flat vector."""

    @property
    @abstractmethod
    def roles(self) -> tuple[tuple[str, int], ...]:
        """The meaning of the entries of ``theta``, in order: ``("variance", 1)``, or ``("length_scale", how_many)``."""

    @abstractmethod
    def with_theta(self, theta: np.ndarray) -> Kernel:
        """The same kernel with other log-parameters."""

    @abstractmethod
    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        """Gradient in ``theta``, given the gradient ``dK`` in ``kernel(X, Z)``; ``K`` is its value, if known."""

    @abstractmethod
    def pullback_diagonal(self, X: Array, dk: Array) -> np.ndarray:
        """Gradient in ``theta``, given the gradient ``dk`` in ``kernel.diagonal(X)``."""

    @abstractmethod
    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        """Gradient in the rows of ``X``, given the gradient ``dK`` in ``kernel(X, Z)``."""

    def pullback_diagonal_inputs(self, X: Array, dk: Array) -> Array:
        """Gradient in the rows of ``X``, given the gradient ``dk`` in ``kernel.diagonal(X)``: zero if constant."""
        return namespace(X).zeros_like(X)

    def _repr_html_(self) -> str:
        """The representation in notebooks."""
        from .shown import as_html

        return as_html(self)

    def has_role(self, role: str) -> np.ndarray:
        """Mask of the entries of ``theta`` with a given role."""
        return np.concatenate([np.full(size, name == role) for name, size in self.roles])

    def with_length_scale(self, length_scale: Any) -> Kernel:
        """The same kernel, with every length-scale of None replaced."""
        return self

    def units(self, spread: np.ndarray) -> np.ndarray:
        """Units of each column for comparing rows: the length-scales, or the given spread."""
        return spread

    def __add__(self, other: Any) -> Kernel:
        from .combine import Sum, as_kernel

        return Sum(self, as_kernel(other))

    def __radd__(self, other: Any) -> Kernel:
        from .combine import Sum, as_kernel

        return Sum(as_kernel(other), self)

    def __mul__(self, other: Any) -> Kernel:
        from .combine import Product, as_kernel

        return Product(self, as_kernel(other))

    def __rmul__(self, other: Any) -> Kernel:
        from .combine import Product, as_kernel

        return Product(as_kernel(other), self)


def positive(name: str, value: Any) -> float | tuple[float, ...]:
    """``value`` as a positive number, or a tuple of them; raises an error that names the parameter otherwise."""
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if numbers.ndim != 1 or numbers.size == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"{name} must be positive and finite (a number, or one per column), got {value!r}.")
    return float(numbers[0]) if np.ndim(value) == 0 else tuple(map(float, numbers))


def filled(X: Array, value: float) -> Array:
    """A constant vector with one entry for each row of ``X``."""
    return namespace(X).full(X.shape[0], value, dtype=X.dtype, device=device(X))
