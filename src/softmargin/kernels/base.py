"""The base class of all kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device

from ..arrays import Array, namespace
from ..parameters import by_part, meant


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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that make this kernel; with ``deep``, those of its parts as well, as ``second__length_scale``.

        scikit-learn's searches use these names: ``kernel__second__length_scale`` is a parameter of an estimator.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)} if is_dataclass(self) else {}
        found = dict(own)
        for name, part in own.items():
            if deep and isinstance(part, Kernel):
                found |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return found

    def with_params(self, **params: Any) -> Kernel:
        """The same kernel with other arguments, by the names of `get_params`.

        >>> from softmargin.kernels import RBF
        >>> (2.0 * RBF(0.5)).with_params(first__variance=3.0, second=RBF(1.0))
        3.0 * RBF(length_scale=1.0)
        """
        own, (given, of_parts) = self.get_params(deep=False), by_part(params)
        for name in (*given, *of_parts):
            if name not in own:
                raise ValueError(f"{self!r} has no parameter {name!r}: {meant(name, self.get_params())}")
        own |= given
        for name, some in of_parts.items():
            if not isinstance(own[name], Kernel):
                raise ValueError(f"{name} of {self!r} is not a kernel, and has no parameter {next(iter(some))!r}.")
            own[name] = own[name].with_params(**some)
        return replace(self, **own) if is_dataclass(self) else self  # type: ignore[return-value]

    def __sklearn_clone__(self) -> Kernel:
        """The kernel itself: it never changes, so clones of an estimator can share it."""
        return self

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

    def refuse_width(self, n_columns: int) -> None:  # noqa: B027 (most suit any)
        """Raises an error if a kernel with a length-scale for each column does not fit the number of columns."""

    def units(self, spread: np.ndarray) -> np.ndarray:
        """Units of each column for comparing rows: the length-scales, or the given spread."""
        return spread

    def __add__(self, other: Any) -> Kernel:
        from .combine import Sum

        return Sum(self, other)

    def __radd__(self, other: Any) -> Kernel:
        from .combine import Sum

        return Sum(other, self)

    def __mul__(self, other: Any) -> Kernel:
        from .combine import Product

        return Product(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        from .combine import Product

        return Product(other, self)


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
