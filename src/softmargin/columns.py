"""Where columns lie and how far they spread: the units in which everything scale-free is done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .chunks import dense, rows_in_block

#: A column whose spread is a rounding error of its centre is constant.
_CONSTANT = 1e-13


class Columns(NamedTuple):
    """The weighted mean and standard deviation of each column; the spread of a constant column is 1 or its size."""

    center: np.ndarray
    spread: np.ndarray


def describe(X: Any, weight: np.ndarray) -> Columns:
    """Weighted moments in two passes and in float64, safe for far offsets and for squares that would overflow.

    >>> describe(np.array([[1.0, 5.0], [3.0, 5.0]]), np.ones(2))
    Columns(center=array([2., 5.]), spread=array([1., 5.]))
    """
    share = weight / weight.sum()
    center, low, high = np.zeros(X.shape[1]), np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    for block, w in _blocks(X, share):
        center = center + w @ block
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    largest = np.maximum(high - center, center - low)
    constant = largest <= _CONSTANT * np.abs(center)
    unit = np.where(constant | (largest == 0), 1.0, largest)
    variance = sum(w @ ((block - center) / unit) ** 2 for block, w in _blocks(X, share))
    spread = np.where(constant, np.maximum(1.0, np.abs(center)), unit * np.sqrt(variance))
    return Columns(np.asarray(center), spread)


def _blocks(X: Any, share: np.ndarray) -> Any:
    size = rows_in_block(X.shape[1])
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        yield dense(X[rows]).astype(np.float64, copy=False), share[rows]
