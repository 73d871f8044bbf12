"""Samples of rows that represent all rows, and distinct rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: The least share in a sample of the rarer of two classes, if it has enough rows; with K classes, 2/K of this for each.
_LEAST_SHARE = 0.25
#: A column counts as continuous if, of so many of its entries, at least this share is distinct.
_LOOKED_AT, _VARIED = 512, 0.9
#: The size of the sample that is searched for repeated rows.
_ASKED = 4096


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in lexicographic order, and for each row the index of its own among them.

    `numpy.unique` compares whole rows, which takes several times as long.

    >>> distinct(np.array([[2.0, 1.0], [1.0, 5.0], [2.0, 1.0]]))
    (array([[1., 5.],
           [2., 1.]]), array([1, 0, 1]))
    """
    order = _lexicographic(rows)
    ordered = rows[order]
    is_new = np.ones(len(rows), dtype=bool)
    is_new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    which = np.empty(len(rows), dtype=np.intp)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which


def _lexicographic(rows: np.ndarray) -> np.ndarray:
    """The lexicographic order of the rows; only rows with equal first entries are compared by further columns.

    If the first column is continuous, this is a single sort. Otherwise that would save nothing.
    """
    if rows.shape[1] < 2 or len(np.unique(rows[:_LOOKED_AT, 0])) < _VARIED * min(len(rows), _LOOKED_AT):
        return np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    order = np.argsort(rows[:, 0])
    first = rows[order, 0]
    same = (first[1:] == first[:-1]) | np.isnan(first[:-1])  # NaN is sorted last
    alike = np.flatnonzero(np.append(same, False) | np.append(False, same))
    some = order[alike]
    order[alike] = some[np.lexsort(rows[some].T[::-1])]  # the order between groups is kept
    return order


def merged_rows(
    X: np.ndarray, y: np.ndarray, unit: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows with their labels, the largest ``unit`` of each, and the index of every row's own among them.

    >>> merged_rows(np.array([[2.0], [1.0], [2.0]]), np.array([1.0, 1.0, 1.0]), np.array([0.5, 1.0, 1.0]))
    (array([[1.],
           [2.]]), array([1., 1.]), array([1., 1.]), array([1, 0, 1]))
    """
    both, which = distinct(np.column_stack([X, y.astype(X.dtype, copy=False)]))
    largest = np.zeros(len(both))
    np.maximum.at(largest, which, unit)
    return both[:, :-1], both[:, -1].astype(np.float64), largest, which


def repeats_itself(rows: np.ndarray, at_most: float) -> bool:
    r"""Whether at most this share of the rows is likely to be distinct, judged by the repeats in a sample.

    If :math:`D` of ``n`` rows are distinct, all repeated equally often, then ``k`` sampled rows contain about
    :math:`\tfrac{k (k - 1)}{2} (\tfrac1D - \tfrac1n)` pairs of equal rows, and more if repeats are uneven.
    """
    n, some = len(rows), rows[scattered(len(rows), _ASKED)]
    unique, which = distinct(some)
    counts = np.bincount(which, minlength=len(unique))
    pairs = float(counts @ (counts - 1)) / 2
    expected = len(some) * (len(some) - 1) / 2 * (1 / (at_most * n) - 1 / n)
    return pairs >= expected


def scattered(n: int, size: int) -> np.ndarray:
    """``size`` of ``n`` rows in order, always the same ones, but at random, so that no period of a table matters.

    >>> scattered(10, 3).shape, scattered(3, 10).tolist()
    ((3,), [0, 1, 2])
    """
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, size, replace=False, shuffle=False))


def drawn_by_weight(weight: np.ndarray, size: int, rng: np.random.RandomState) -> np.ndarray:
    """``size`` rows, drawn in proportion to weight by systematic sampling with a random offset in each slice."""
    return drawn_from(np.cumsum(weight), size, rng)


def drawn_from(cumulative: np.ndarray, size: int, rng: np.random.RandomState) -> np.ndarray:
    """The same, from cumulative weights."""
    draws = (np.arange(size) + rng.uniform(size=size)) / size * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, draws, side="right"), len(cumulative) - 1)


def by_class(y: np.ndarray) -> list[np.ndarray]:
    """The indices of the rows of each class that occurs."""
    return [np.flatnonzero(y == label) for label in np.unique(y)]


def allotted(counts: Sequence[int], size: int) -> list[int]:
    """The number of rows of each class in a sample: proportional, but with a minimum for rare classes.

    >>> allotted([9000, 1000], 1000), allotted([9990, 10], 1000), allotted([300, 300], 400)
    ([750, 250], [990, 10], [200, 200])
    >>> allotted([9000, 500, 500, 3], 1000)
    [747, 125, 125, 3]
    """
    share, left, rows = [0] * len(counts), size, sum(counts)
    least = int(_LEAST_SHARE * size * 2 / max(len(counts), 1))
    for index in np.argsort(counts, kind="stable"):  # what rare classes cannot use goes to the others
        share[index] = min(counts[index], left, max(round(left * counts[index] / max(rows, 1)), least))
        left, rows = left - share[index], rows - counts[index]
    return share
