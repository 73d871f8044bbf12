"""Centre and spread of columns: the units in which all scale-free computations are done."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from .chunks import dense, rows_in_block

#: A column is constant if its spread is a rounding error of its centre, or close to the smallest number.
_CONSTANT, _LEAST = 1e-13, 1e-300
#: Binary digits, about ten decimal ones, that are kept where rounding errors must not decide.
_BITS = 34


class Columns(NamedTuple):
    """The weighted mean and standard deviation of each column; for constant columns, the larger of 1 and their size."""

    center: np.ndarray
    spread: np.ndarray

    def of(self, n_columns: int) -> Columns:
        """Centre and spread of the first ``n_columns`` columns."""
        return Columns(self.center[:n_columns], self.spread[:n_columns])

    def rounded(self) -> Columns:
        """Rounded to digits that do not depend on the order of sums, so that choices based on them do not either."""
        return Columns(rounded(self.center, self.spread), rounded(self.spread, self.spread))


def rounded(values: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """Values rounded to at least ten digits of a unit, or rather of its power of two.

    >>> rounded(np.array([1 / 3 + 1e-16]), 1.0) == rounded(np.array([1 / 3]), 1.0)
    array([ True])
    """
    grain = 2.0 ** (np.floor(np.log2(unit)) - _BITS)
    return np.round(values / grain) * grain


class ColumnMoments(NamedTuple):
    r"""Weighted means, standard deviations and ranges of the observed entries of each column, over a set of rows.

    With :math:`\delta` the difference of two means, the union of two sets of rows has the variance

    .. math:: \frac{w_1 s_1^2 + w_2 s_2^2}{w_1 + w_2} + \frac{w_1 w_2}{(w_1 + w_2)^2}\, \delta^2,

    computed in units of the largest of :math:`s_1, s_2, \delta`, so that no square overflows.
    """

    weight: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X: Any, weight: np.ndarray) -> ColumnMoments:
        """The moments of a block of rows, in float64; NaN is missing."""
        block = dense(X).astype(np.float64, copy=False)
        there = ~np.isnan(block) if np.isnan(block.min(initial=0)) else None  # a minimum propagates NaN
        present = np.full(block.shape[1], weight.sum()) if there is None else weight @ there
        each = np.where(present > 0, present, 1.0)
        mean = (weight / each.max(initial=1.0)) @ (block if there is None else np.where(there, block, 0))
        mean *= each.max(initial=1.0) / each
        low, high = np.fmin.reduce(block, initial=np.inf), np.fmax.reduce(block, initial=-np.inf)
        unit = np.maximum(high - mean, mean - low)
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
        away = ((block - mean) / unit) ** 2
        variance = weight @ (away if there is None else np.where(there, away, 0)) / each
        return cls(present, mean, unit * np.sqrt(variance), low, high)

    def merged(self, other: ColumnMoments) -> ColumnMoments:
        """The moments of the union of two sets of rows."""
        weight = self.weight + other.weight
        share = other.weight / np.where(weight > 0, weight, 1.0)
        way = other.mean - self.mean
        unit = np.maximum(np.maximum(self.spread, other.spread), np.abs(way))
        unit = np.where(unit > 0, unit, 1.0)
        inner = (1 - share) * (self.spread / unit) ** 2 + share * (other.spread / unit) ** 2
        spread = unit * np.sqrt(inner + share * (1 - share) * (way / unit) ** 2)
        low, high = np.fmin(self.low, other.low), np.fmax(self.high, other.high)
        return ColumnMoments(weight, self.mean + share * way, spread, low, high)

    @property
    def columns(self) -> Columns:
        largest = np.maximum(self.high - self.mean, self.mean - self.low)
        constant = largest <= np.maximum(_CONSTANT * np.abs(self.mean), _LEAST)
        constant |= self.spread <= _LEAST  # all rows but one have negligible weight
        return Columns(self.mean, np.where(constant, np.maximum(1.0, np.abs(self.mean)), self.spread))


def describe(X: Any, weight: np.ndarray) -> Columns:
    """Weighted moments of the observed entries, in float64, safe for large offsets and squares that overflow.

    >>> describe(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    Columns(center=array([2., 5.]), spread=array([1., 5.]))
    """
    size = rows_in_block(X.shape[1])
    blocks = (slice(start, start + size) for start in range(0, max(X.shape[0], 1), size))
    return reduce(ColumnMoments.merged, (ColumnMoments.of(X[rows], weight[rows]) for rows in blocks)).columns
