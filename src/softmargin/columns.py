"""Where columns lie and how far they spread: the units in which everything scale-free is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .chunks import dense, rows_in_block

#: A column whose spread is a rounding error of its centre is constant.
_CONSTANT = 1e-13
#: Binary digits that are kept where rounding must not decide: about ten decimal ones.
_BITS = 34


class Columns(NamedTuple):
    """The weighted mean and standard deviation of each column; the spread of a constant column is 1 or its size."""

    center: np.ndarray
    spread: np.ndarray

    def rounded(self) -> Columns:
        """To as many digits as sums in whatever order agree on: what is chosen by them is then the very same."""
        return Columns(rounded(self.center, self.spread), rounded(self.spread, self.spread))


def rounded(values: np.ndarray, unit: np.ndarray | float) -> np.ndarray:
    """Values to ten digits of a unit, or more: its power of two counts.

    >>> rounded(np.array([1 / 3 + 1e-16]), 1.0) == rounded(np.array([1 / 3]), 1.0)
    array([ True])
    """
    grain = 2.0 ** (np.floor(np.log2(unit)) - _BITS)
    return np.round(values / grain) * grain


def describe(X: Any, weight: np.ndarray) -> Columns:
    """Weighted moments of what is there, in two passes and in float64, safe for far offsets and squares that overflow.

    >>> describe(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    Columns(center=array([2., 5.]), spread=array([1., 5.]))
    """
    share = weight / weight.sum()
    nothing, present = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    total, low, high = nothing, nothing + np.inf, nothing - np.inf
    for block, w, there in _blocks(X, share):
        present = present + (w.sum() if there is None else w @ there)
        total = total + w @ (block if there is None else np.where(there, block, 0))
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
    present = np.where(present > 0, present, 1.0)
    center = total / present
    largest = np.maximum(high - center, center - low)
    constant = largest <= _CONSTANT * np.abs(center)
    unit = np.where(constant | (largest == 0), 1.0, largest)
    variance = nothing
    for block, w, there in _blocks(X, share):
        away = ((block - center) / unit) ** 2
        variance = variance + w @ (away if there is None else np.where(there, away, 0))
    spread = np.where(constant, np.maximum(1.0, np.abs(center)), unit * np.sqrt(variance / present))
    return Columns(center, spread)


def _blocks(X: Any, share: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Blocks of rows, their shares, and where entries are not missing; None if none are."""
    size = rows_in_block(X.shape[1])
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        block = dense(X[rows]).astype(np.float64, copy=False)
        there = ~np.isnan(block) if np.isnan(block.min(initial=0)) else None  # a minimum passes NaN on
        yield block, share[rows], there
