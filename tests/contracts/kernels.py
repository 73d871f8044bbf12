"""What every kernel must do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

import references
from softmargin.arrays import to_numpy
from softmargin.kernels import as_kernel


@dataclass(frozen=True)
class KernelCase:
    """``own``: the variance of rows that no covariance between rows has (White). ``sk``: scikit-learn's kernel."""

    kernel: Any
    sk: Any = None
    own: float = 0.0


def _two_tables() -> tuple[np.ndarray, np.ndarray]:
    """Rows and points; one of the points is one of the rows."""
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    Z[2] = X[4]
    return X, Z


def gram_is_a_covariance(case: KernelCase) -> None:
    X = np.vstack(_two_tables())
    K = case.kernel(X, X)
    assert K.shape == (16, 16)
    assert_allclose(K, K.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() >= -1e-9 * np.trace(K) / 16
    assert_allclose(case.kernel.diagonal(X), np.diag(K) + case.own, rtol=1e-9)


def theta_makes_a_round_trip(case: KernelCase) -> None:
    X, Z = _two_tables()
    theta = case.kernel.theta
    assert theta.ndim == 1
    same = case.kernel.with_theta(theta)
    assert type(same) is type(case.kernel)
    assert_allclose(same(X, Z), case.kernel(X, Z), rtol=1e-12)
    for unit in np.eye(len(theta)):
        other = case.kernel.with_theta(theta + 0.3 * unit)
        assert_allclose(other.theta, theta + 0.3 * unit, rtol=1e-12, atol=1e-14)
        assert not np.allclose(np.append(other(X, Z), other.diagonal(X)), np.append(same(X, Z), same.diagonal(X)))


def pullbacks_are_finite_differences(case: KernelCase) -> None:
    X, Z = _two_tables()
    dK, dk = np.random.default_rng(6).normal(size=(9, 7)), np.linspace(-1, 2, 9)
    kernel = case.kernel

    def value(theta):
        return np.sum(dK * kernel.with_theta(theta)(X, Z))

    def on_diagonal(theta):
        return dk @ kernel.with_theta(theta).diagonal(X)

    assert_allclose(kernel.pullback(X, Z, dK), references.gradient(value, kernel.theta, 1e-3), rtol=1e-7, atol=1e-7)
    assert_allclose(
        kernel.pullback_diagonal(X, dk), references.gradient(on_diagonal, kernel.theta, 1e-3), rtol=1e-7, atol=1e-9
    )
    in_inputs = references.gradient(lambda X: np.sum(dK * kernel(X, Z)), X, 1e-3)
    assert_allclose(kernel.pullback_inputs(X, Z, dK), in_inputs, rtol=1e-6, atol=1e-6)


def equals_the_kernel_of_scikit_learn(case: KernelCase) -> None:
    if case.sk is None:
        return
    X, Z = _two_tables()
    assert repr(as_kernel(case.sk)) == repr(case.kernel)
    assert_allclose(case.kernel(X, Z), case.sk(X, Z), rtol=1e-9, atol=1e-14)
    assert_allclose(case.kernel.diagonal(X), case.sk.diag(X), rtol=1e-12)


def kernel_agrees_in_torch_and_in_single_precision(case: KernelCase) -> None:
    X, Z = _two_tables()
    dK, dk = np.random.default_rng(6).normal(size=(9, 7)), np.linspace(-1, 2, 9)

    kernel = case.kernel

    def everything(X, Z, dK, dk):
        parts = kernel(X, Z), kernel.diagonal(X), kernel.pullback_inputs(X, Z, dK)
        assert all(part.dtype == X.dtype for part in parts)
        slopes = kernel.pullback(X, Z, dK), kernel.pullback_diagonal(X, dk)
        return [to_numpy(part) for part in parts + slopes]

    exact = everything(X, Z, dK, dk)
    for convert, tolerance in (
        (torch.from_numpy, 1e-11),
        (lambda a: a.astype(np.float32), 3e-4),
        (lambda a: torch.from_numpy(a.astype(np.float32)), 3e-4),
    ):
        for got, wanted in zip(everything(*map(convert, (X, Z, dK, dk))), exact, strict=True):
            assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max(initial=0)))


KERNEL: list[Callable[[KernelCase], None]] = [
    gram_is_a_covariance,
    theta_makes_a_round_trip,
    pullbacks_are_finite_differences,
    equals_the_kernel_of_scikit_learn,
    kernel_agrees_in_torch_and_in_single_precision,
]
