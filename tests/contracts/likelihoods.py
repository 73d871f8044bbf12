"""What every likelihood must do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

import references
from softmargin.arrays import to_numpy


@dataclass(frozen=True)
class LikelihoodCase:
    """``exact``: up to what variance ``l`` is the expectation itself (to ``tolerance``), infinity for a closed form.

    ``expanded``: ``w`` and ``b`` come from derivatives of the log-density at the mean, not from slopes of ``l``.
    """

    likelihood: Any
    exact: float = 0.0
    tolerance: float = 1e-9
    expanded: bool = False


def _site_grid(variances=(1e-3, 0.05, 1.0, 7.0, 100.0, 1e4)) -> tuple[np.ndarray, ...]:
    means = [-30.0, -3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 2.5, 30.0]
    grid = np.meshgrid([-1.0, 1.0], means, list(variances), indexing="ij")
    return tuple(part.ravel() for part in grid)


def slopes_are_finite_differences(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid()
    sites = case.likelihood.sites
    if case.expanded:
        in_mu = references.derivative(lambda f: case.likelihood.log_density(y, f), mu, 1e-3)
        step = 1e-2
        values = [case.likelihood.log_density(y, mu + k * step) for k in (-2, -1, 0, 1, 2)]
        minus_w = np.tensordot([-1, 16, -30, 16, -1], values, axes=1) / (12 * step**2)
    else:
        # The hinge turns within a standard deviation, the logistic function within one unit.
        in_mu = references.derivative(lambda t: sites(y, t, v).l, mu, 1e-2 * np.minimum(1, np.sqrt(v)))
        minus_w = 2 * references.derivative(lambda t: sites(y, mu, t).l, v, 1e-2 * v)
    _, w, b = sites(y, mu, v)
    # Truncation is of order step^4 = 1e-8 of the fifth derivatives; rounding 1e-15 |l| / step is below it.
    scale = 1e-6 + 1e-11 * np.abs(sites(y, mu, v).l) / np.minimum(1, v)
    assert np.all(np.abs(b - w * mu - in_mu) < 1e-6 * np.abs(in_mu) + scale)
    assert np.all(np.abs(w + minus_w) < 1e-6 * np.abs(w) + scale)


def bound_lies_below_the_expectation(case: LikelihoodCase) -> None:
    if not case.likelihood.is_bound:
        return
    for y, mu, v in zip(*_site_grid((0.01, 1.0, 7.0, 100.0, 1e8)), strict=True):
        l = float(case.likelihood.sites(np.array([y]), np.array([mu]), np.array([v])).l[0])  # noqa: E741
        truth = references.normal_expectation(lambda f, y=y: case.likelihood.log_density(y, f), mu, v, (0.0, y))
        if case.exact >= v:
            assert_allclose(l, truth, rtol=case.tolerance, atol=case.tolerance)
        elif case.exact > 0:  # a rule of finitely many nodes: near, but neither above nor below
            assert_allclose(l, truth, rtol=0.03, atol=1e-3)
        else:
            assert l <= truth + 1e-9 * abs(truth)


def bound_touches_where_nothing_is_uncertain(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.0,))
    assert_allclose(case.likelihood.sites(y, mu, v).l, case.likelihood.log_density(y, mu), rtol=1e-9, atol=2e-6)


def sites_are_finite_and_precisions_not_negative(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.0, 1e-300, 1e-12, 1.0, 1e8))
    mu = np.concatenate([mu, y, 1e8 * mu])  # mu = y is z = 0, the kink of the hinge
    y, v = np.tile(y, 3), np.tile(v, 3)
    parts = case.likelihood.sites(y, mu, v)
    assert all(np.isfinite(part).all() for part in parts)
    assert np.all(parts.w >= 0)


def curvature_is_the_slope_of_the_slope(case: LikelihoodCase) -> None:
    if case.expanded:
        return
    y, mu, v = _site_grid((0.05, 1.0, 7.0) if case.exact in (0.0, np.inf) else (0.05, 1.0))

    def slope(t):
        _, w, b = case.likelihood.sites(y, t, v)
        return b - w * t

    k = case.likelihood.curvature(y, mu, v)
    assert_allclose(k, -references.derivative(slope, mu, 1e-2 * np.minimum(1, np.sqrt(v))), rtol=2e-5, atol=1e-6)
    assert np.all(k >= 0)
    if case.likelihood.site_is_curvature:
        assert_allclose(k, case.likelihood.sites(y, mu, v).w)


def labels_are_symmetric(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid()
    one, other = case.likelihood.sites(y, mu, v), case.likelihood.sites(-y, -mu, v)
    assert_allclose(other.l, one.l, rtol=1e-12, atol=1e-12)
    assert_allclose(other.w, one.w, rtol=1e-9, atol=1e-12)
    assert_allclose(other.b, -one.b, rtol=1e-9, atol=1e-9)


def sites_agree_in_torch_and_in_single_precision(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.05, 1.0, 7.0))
    near = np.abs(mu) <= 3
    arrays = y[near], mu[near], v[near]
    exact = case.likelihood.sites(*arrays)
    for torch_dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        for ours in (
            case.likelihood.sites(*(torch.as_tensor(a, dtype=torch_dtype) for a in arrays)),
            case.likelihood.sites(*(a.astype(str(torch_dtype).removeprefix("torch.")) for a in arrays)),
        ):
            for got, wanted in zip(ours, exact, strict=True):
                assert str(got.dtype).endswith(str(torch_dtype).removeprefix("torch."))
                assert_allclose(to_numpy(got), wanted, rtol=tolerance, atol=tolerance)


LIKELIHOOD: list[Callable[[LikelihoodCase], None]] = [
    slopes_are_finite_differences,
    bound_lies_below_the_expectation,
    bound_touches_where_nothing_is_uncertain,
    sites_are_finite_and_precisions_not_negative,
    curvature_is_the_slope_of_the_slope,
    labels_are_symmetric,
    sites_agree_in_torch_and_in_single_precision,
]
