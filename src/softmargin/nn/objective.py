"""What a head computes for a minibatch besides moments: units, and the likelihood with its gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..likelihoods import Sites

#: Added to the variances of features: a fraction of their mean, and a constant against division by zero.
_FLOOR, _LEAST = 1e-4, 1e-24


class Moments(NamedTuple):
    """Mean and variance of the latent values of rows: (row, class), or (row,) for two classes."""

    mean: Tensor
    variance: Tensor


class BatchResult(NamedTuple):
    """Results for a minibatch: mean log-likelihood, its gradient in the features, their units, and the sums."""

    likelihood: Tensor
    slopes: Tensor
    center: Tensor
    spread: Tensor
    G: Tensor
    h: Tensor


class Terms(NamedTuple):
    """The terms of the objective, per row of the table: the expected log-likelihood, and the divergence."""

    likelihood: float
    divergence: float

    @property
    def objective(self) -> float:
        return self.likelihood - self.divergence


def units_of(X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature, the latter at least a small fraction of a typical one."""
    variance = X.var(dim=0, correction=0)
    return X.mean(dim=0), torch.sqrt(variance + _FLOOR * variance.mean() + _LEAST)


class _Expected(torch.autograd.Function):
    r"""The expected log-likelihood of rows, with derivatives from the sites: :math:`b - w \mu` and :math:`-w / 2`."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, variance: Tensor, l: Tensor, w: Tensor, b: Tensor) -> Tensor:  # noqa: E741
        ctx.save_for_backward(b - w * mean, -0.5 * w)
        return l

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        in_mean, in_variance = ctx.saved_tensors
        slope = slopes[0] if in_mean.ndim == 1 else slopes[0][:, None]
        return slope * in_mean, slope * in_variance, None, None, None


def expected_log_likelihood(mean: Tensor, variance: Tensor, labels: Tensor, likelihood: Any) -> tuple[Tensor, Sites]:
    """The expected log-likelihood of each row, differentiable in its moments, and the sites."""
    with torch.no_grad():
        sites = likelihood.sites(labels, mean, variance)
    apply: Any = _Expected.apply
    return apply(mean, variance, *sites), sites


class _WithSlopes(torch.autograd.Function):
    """A scalar with a known gradient in the features."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, value: Tensor, slopes: Tensor) -> Tensor:
        ctx.save_for_backward(slopes)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        return slopes[0] * ctx.saved_tensors[0], None, None


def with_slopes(features: Tensor, value: Tensor, slopes: Tensor) -> Tensor:
    """``value``, as a function of the features with the gradient ``slopes``.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with_slopes(x, torch.tensor(3.0), torch.tensor([1.0, 2.0])).backward()
    >>> x.grad
    tensor([1., 2.])
    """
    apply: Any = _WithSlopes.apply
    return apply(features, value, slopes)
