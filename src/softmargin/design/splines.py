r"""Penalised splines as random effects (Wand and Ormerod, 2008: O'Sullivan splines).

A smooth curve is :math:`f(x) = \beta_0 + \beta_1 x + \sum_k u_k z_k(x)`, cubic between knots and linear beyond the
data.  The functions :math:`z_k` are such that

.. math:: \int f''(x)^2 dx \;\propto\; |u|^2,

so that the prior of independent :math:`u_k \sim N(0, \sigma^2)` penalises curvature.  The line is not penalised, and
belongs to the fixed effects.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import BSpline

from . import tables

_DEGREE = 3
_USUAL_DF = 20
_FEWEST_VALUES = 4
#: The least gap between knots, as a share of the column's range; with smaller ones, second derivatives are inaccurate.
_LEAST_GAP = 1e-9
#: Values are clipped at this many ranges from the data.
_FAR = 1e15


class Spline(NamedTuple):
    r"""The functions :math:`z_k` of one column: B-splines of :math:`t = (x - low) / (high - low)`.

    They are orthogonal to lines over the rows from which they were learned, and scaled such that
    :math:`\sum_k z_k(x)^2` averages 1 over them.  So :math:`\sigma` is the size of the curve's deviation from a line,
    whatever the units of ``x``.
    """

    name: str
    column: Any
    low: float
    high: float
    knots: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def of(
        cls, X: Any, column: Any, df: int | None = None, title: str | None = None, weight: np.ndarray | None = None
    ) -> Spline:
        """``df`` functions (by default 20, or fewer if a column has few values), with knots at quantiles."""
        x, place = np.unique(tables.numbers(X, column, "a spline"), return_inverse=True)
        counts = np.bincount(place, weights=weight)
        df = _checked_df(df, column, len(x))
        low, high = float(x[0]), float(x[-1])
        with np.errstate(over="ignore", invalid="ignore"):
            inner = np.quantile((x - low) / (high - low), np.linspace(0, 1, df)[1:-1])
        if not np.all(np.diff(inner, prepend=0.0, append=1.0) > _LEAST_GAP):
            raise ValueError(
                f"A spline in column {column!r} would need knots at values that are almost equal compared to its "
                f"range, from {low:g} to {high:g}; take its logarithm or its ranks, or drop outlying rows."
            )
        knots = np.concatenate([np.zeros(_DEGREE + 1), inner, np.ones(_DEGREE + 1)])
        spline = cls(f"s({column if title is None else title})", column, low, high, knots, _unit_curvature(knots))
        return spline._replace(coefficients=_off_the_line(spline, x, counts / counts.sum()))

    @property
    def n_columns(self) -> int:
        return self.coefficients.shape[1]

    def matrix(self, X: Any) -> np.ndarray:
        """One row for each row of ``X``, and one column for each function."""
        return self.at(tables.numbers(X, self.column, "a spline"))

    def at(self, x: np.ndarray) -> np.ndarray:
        """The functions at ``x``, extrapolated linearly beyond the data."""
        with np.errstate(over="ignore"):
            t = np.clip((x - self.low) / (self.high - self.low), -_FAR, _FAR)
        functions = BSpline(self.knots, self.coefficients, _DEGREE)
        inside = np.clip(t, 0.0, 1.0)
        values = functions(inside)
        beyond = np.flatnonzero(inside != t)
        if len(beyond):
            values[beyond] += (t - inside)[beyond, None] * functions.derivative()(inside[beyond])
        return values


def _checked_df(df: int | None, column: Any, n_values: int) -> int:
    if n_values < _FEWEST_VALUES:
        raise ValueError(
            f"A spline needs a column with at least {_FEWEST_VALUES} distinct values, but {column!r} has {n_values}."
        )
    if df is None:
        return min(_USUAL_DF, n_values - 2)
    if not isinstance(df, Integral) or isinstance(df, bool) or not 2 <= df <= n_values - 2:
        raise ValueError(
            f"df of s({column}) must be an integer from 2 to {n_values - 2} (two less than the distinct values of "
            f"the column), got {df!r}."
        )
    return int(df)


def _unit_curvature(knots: np.ndarray) -> np.ndarray:
    r"""Coefficients ``T`` of functions with :math:`\int z_j'' z_k'' = \delta_{jk}`.

    Second derivatives are linear between knots, so two Gauss points per interval make :math:`\Omega = D^T D` exact.
    ``T`` has the singular vectors of ``D`` divided by its singular values; with the eigenvectors of :math:`\Omega`,
    half of the digits would be lost where knots are close.  The two directions left out are the lines.
    """
    n_functions = len(knots) - _DEGREE - 1
    ends = np.unique(knots)
    half, middle = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    points = np.concatenate([middle - half / np.sqrt(3), middle + half / np.sqrt(3)])
    second = BSpline(knots, np.eye(n_functions), _DEGREE).derivative(2)(points)
    _, lengths, directions = np.linalg.svd(np.sqrt(np.concatenate([half, half]))[:, None] * second)
    return directions[: n_functions - 2].T / lengths[: n_functions - 2]


def _off_the_line(spline: Spline, x: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The coefficients after subtracting the regression line from each function and scaling all of them.

    The B-spline coefficients of a line are its values at the Greville abscissae.
    """
    line = np.column_stack([np.ones_like(x), (x - spline.low) / (spline.high - spline.low)])
    root = np.sqrt(share)[:, None]
    line, functions = root * line, root * spline.at(x)
    slopes = np.linalg.lstsq(line, functions, rcond=None)[0]
    greville = np.array([spline.knots[k + 1 : k + 1 + _DEGREE].mean() for k in range(len(spline.coefficients))])
    coefficients = spline.coefficients - np.column_stack([np.ones_like(greville), greville]) @ slopes
    return coefficients / np.linalg.norm(functions - line @ slopes)
