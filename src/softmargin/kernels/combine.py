"""Sums and products of kernels, and conversion of numbers and scikit-learn kernels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..arrays import Array, plus, times
from .base import Kernel
from .stationary import RBF, Matern
from .variance import Constant, Linear, White


@dataclass(frozen=True, repr=False)
class _Pair(Kernel):
    """A pair of kernels; ``theta`` has the parameters of the first kernel first."""

    first: Kernel
    second: Kernel

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            part = getattr(self, name)
            object.__setattr__(self, name, as_kernel(part))
            _warn_of_lost_bounds(part)

    @property
    def theta(self) -> np.ndarray:
        return np.concatenate([self.first.theta, self.second.theta])

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        return self.first.roles + self.second.roles

    def units(self, spread: np.ndarray) -> np.ndarray:
        return self.second.units(self.first.units(spread))

    def refuse_width(self, n_columns: int) -> None:
        self.first.refuse_width(n_columns)
        self.second.refuse_width(n_columns)

    def with_theta(self, theta: np.ndarray) -> Kernel:
        split = len(self.first.theta)
        return type(self)(self.first.with_theta(theta[:split]), self.second.with_theta(theta[split:]))

    def with_length_scale(self, length_scale: Any) -> Kernel:
        return type(self)(self.first.with_length_scale(length_scale), self.second.with_length_scale(length_scale))


class Sum(_Pair):
    """Sum of two kernels: the kernel of a sum of independent functions.

    >>> RBF(1.0) + White(0.1)
    RBF(length_scale=1.0) + White(variance=0.1)
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        K = self.first(X, Z)
        return plus(K, self.second.variance if isinstance(self.second, Constant) else self.second(X, Z))

    def diagonal(self, X: Array) -> Array:
        return self.first.diagonal(X) + self.second.diagonal(X)

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        return np.concatenate([part.pullback(X, Z, dK) for part in (self.first, self.second)])

    def pullback_diagonal(self, X: Array, dk: Array) -> np.ndarray:
        return np.concatenate([part.pullback_diagonal(X, dk) for part in (self.first, self.second)])

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        return self.first.pullback_inputs(X, Z, dK) + self.second.pullback_inputs(X, Z, dK)

    def pullback_diagonal_inputs(self, X: Array, dk: Array) -> Array:
        return self.first.pullback_diagonal_inputs(X, dk) + self.second.pullback_diagonal_inputs(X, dk)

    def __repr__(self) -> str:
        return f"{self.first} + {self.second}"


class Product(_Pair):
    """Product of two kernels: rows are similar if they are similar under both.

    >>> 3.0 * RBF(1.0)
    3.0 * RBF(length_scale=1.0)
    """

    def __call__(self, X: Array, Z: Array) -> Array:
        K = self.second(X, Z)
        return times(K, self._factor(X, Z))

    def diagonal(self, X: Array) -> Array:
        return self.first.diagonal(X) * self.second.diagonal(X)

    def pullback(self, X: Array, Z: Array, dK: Array, K: Array | None = None) -> np.ndarray:
        first, second = self._factor(X, Z), self.second(X, Z)
        return np.concatenate([self.first.pullback(X, Z, dK * second), self.second.pullback(X, Z, dK * first, second)])

    def pullback_diagonal(self, X: Array, dk: Array) -> np.ndarray:
        first, second = self.first.diagonal(X), self.second.diagonal(X)
        return np.concatenate(
            [self.first.pullback_diagonal(X, dk * second), self.second.pullback_diagonal(X, dk * first)]
        )

    def pullback_inputs(self, X: Array, Z: Array, dK: Array) -> Array:
        second = self.second.pullback_inputs(X, Z, dK * self._factor(X, Z))
        if isinstance(self.first, Constant):
            return second
        return second + self.first.pullback_inputs(X, Z, dK * self.second(X, Z))

    def pullback_diagonal_inputs(self, X: Array, dk: Array) -> Array:
        first = self.first.pullback_diagonal_inputs(X, dk * self.second.diagonal(X))
        return first + self.second.pullback_diagonal_inputs(X, dk * self.first.diagonal(X))

    def _factor(self, X: Array, Z: Array) -> Array | float:
        """The value of the first kernel, as a plain number if it is constant."""
        return self.first.variance if isinstance(self.first, Constant) else self.first(X, Z)

    def __repr__(self) -> str:
        return " * ".join(_factor(part) for part in (self.first, self.second))


def _factor(kernel: Kernel) -> str:
    if isinstance(kernel, Constant):
        return f"{kernel.variance}"
    return f"({kernel})" if isinstance(kernel, Sum) else f"{kernel}"


def given_kernel(kernel: Any) -> Kernel:
    """A kernel that was passed to an estimator: as `as_kernel`, but not a number, which is the same for all rows.

    >>> given_kernel(2.5 * RBF())
    2.5 * RBF(length_scale=None)
    """
    if isinstance(kernel, Real):
        raise ValueError(
            f"kernel={kernel!r} is a number, and would tell no row from another: pass a kernel, such as 'rbf' or "
            f"{kernel!r} * RBF() of softmargin.kernels."
        )
    return as_kernel(kernel)


#: The bounds that scikit-learn gives to all parameters.
_USUAL_BOUNDS = (1e-5, 1e5)


def _own_bounds(kernel: Any, name: str = "") -> tuple[list[str], list[str]]:
    """The parameters of a scikit-learn kernel that are fixed, and those with bounds other than the usual ones."""
    given = [own for own in getattr(kernel, "hyperparameters", ()) if own.name.endswith(name)]
    fixed = [own.name for own in given if own.fixed]
    return fixed, [own.name for own in given if not own.fixed and not _usual(own.bounds)]


def _usual(bounds: Any) -> bool:
    return np.array_equal(np.unique(bounds), _USUAL_BOUNDS)


def _warn_of_lost_bounds(kernel: Any) -> None:
    """Warns of bounds of a part of a sum or product: no estimator will see them, so none can heed them."""
    fixed, bounded = _own_bounds(kernel)
    if fixed or bounded:
        warnings.warn(
            f"The bounds of {' and '.join(fixed + bounded)} in {kernel} are lost in a sum or product with a kernel of "
            "softmargin: a fit tunes all parameters of a kernel without bounds, or, with tune=None, none.",
            UserWarning,
            stacklevel=5,
        )


def heed_bounds(kernel: Any, instead: str = "tune=None", name: str = "") -> None:
    """Refuses a scikit-learn kernel with fixed parameters that would change, and warns of other bounds.

    ``instead`` is the argument that keeps them; only parameters whose names end in ``name`` would change.
    """
    fixed, bounded = _own_bounds(kernel, name)
    if fixed:
        raise ValueError(
            f"In kernel={kernel}, {' and '.join(fixed)} should stay fixed, but a fit tunes all parameters of a kernel "
            f"or none: pass {instead} to keep the kernel as it is, or give it no bounds."
        )
    if bounded:
        warnings.warn(
            f"The bounds of {' and '.join(bounded)} in kernel={kernel} are ignored: a fit changes kernels without "
            f"bounds. Pass {instead} to keep the kernel as it is.",
            UserWarning,
            stacklevel=5,
        )


def as_kernel(kernel: Any) -> Kernel:
    """``kernel`` itself, a positive number as `Constant`, or a scikit-learn kernel converted.

    Bounds of scikit-learn's kernels are not converted, since tuning changes all parameters of a kernel or none.
    Estimators that would tune a scikit-learn kernel refuse it if any of its parameters is ``"fixed"`` (``tune=None``
    keeps all of them), and warn of other bounds than scikit-learn's own. So do sums and products with our kernels,
    of fixed parameters too.

    >>> from sklearn.gaussian_process import kernels as sk
    >>> as_kernel(sk.ConstantKernel(2.0) * sk.RBF(0.5) + sk.WhiteKernel(0.1))
    2.0 * RBF(length_scale=0.5) + White(variance=0.1)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, Real) and not isinstance(kernel, bool):
        return Constant(float(kernel))
    from sklearn.gaussian_process import kernels as sk

    if isinstance(kernel, (sk.Sum, sk.Product)):
        combined = Sum if isinstance(kernel, sk.Sum) else Product
        return combined(as_kernel(kernel.k1), as_kernel(kernel.k2))
    if isinstance(kernel, sk.Matern):  # a subclass of scikit-learn's RBF, so it is checked first
        return RBF(kernel.length_scale) if np.isinf(kernel.nu) else Matern(kernel.length_scale, nu=kernel.nu)
    if isinstance(kernel, sk.RBF):
        return RBF(kernel.length_scale)
    if isinstance(kernel, sk.ConstantKernel):
        if isinstance(kernel.constant_value, Kernel):  # it takes whatever is added to its kernels for a number
            raise ValueError(
                f"A scikit-learn kernel cannot hold {kernel.constant_value}, a kernel of softmargin. Write the sum or "
                "product with the kernel of softmargin first, as in RBF() + WhiteKernel()."
            )
        return Constant(kernel.constant_value)
    if isinstance(kernel, sk.WhiteKernel):
        return White(kernel.noise_level)
    if isinstance(kernel, sk.DotProduct):
        return Linear() if kernel.sigma_0 == 0 else Linear() + Constant(kernel.sigma_0**2)
    raise ValueError(
        f"kernel must be a kernel of softmargin.kernels (RBF, Matern, Linear, Constant, White, their sums and "
        f"products) or one of the corresponding scikit-learn kernels, got {kernel!r}."
    )
