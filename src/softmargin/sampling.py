"""Some rows that stand for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: The rarer of two classes is at least this share of a sample, as far as it has rows; of many, each in proportion.
_LEAST_SHARE = 0.25
#: A column is continuous if so many of its entries are nearly all different.
_LOOKED_AT, _VARIED = 512, 0.9
#: Rows that are asked whether a table repeats itself.
_ASKED = 4096


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in lexicographic order, and for each row which of them it is.

    `numpy.unique` compares whole rows, which takes several times as long.

    >>> distinct(np.array([[2.0, 1.0], [1.0, 5.0], [2.0, 1.0]]))
    (array([[1., 5.],
           [2., 1.]]), array([1, 0, 1]))
    """
    order = _lexicographic(rows)
    ordered = rows[order]
    is_new = np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)])
    which = np.empty(len(rows), dtype=np.intp)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which


def _lexicographic(rows: np.ndarray) -> np.ndarray:
    """An order of the rows: by their first column, and only those that are alike in it by the others.

    Where that column is continuous this is one sort, however many columns there are; where it is not, it saves nothing.
    """
    if rows.shape[1] < 2 or len(np.unique(rows[:_LOOKED_AT, 0])) < _VARIED * min(len(rows), _LOOKED_AT):
        return np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    order = np.argsort(rows[:, 0])
    first = rows[order, 0]
    same = (first[1:] == first[:-1]) | np.isnan(first[:-1])  # what is no number comes last
    alike = np.flatnonzero(np.append(same, False) | np.append(False, same))
    some = order[alike]
    order[alike] = some[np.lexsort(rows[some].T[::-1])]  # each group stays where it is
    return order


def distinct_labelled(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows with their labels, and for each row which of them it is."""
    both, which = distinct(np.column_stack([X, y.astype(X.dtype, copy=False)]))
    return both[:, :-1], both[:, -1].astype(np.float64), which


def repeats_itself(rows: np.ndarray, at_most: float) -> bool:
    r"""Whether no more than this share of the rows is likely to be distinct, by the repeats in some of them.

    If :math:`D` of ``n`` rows are distinct, each repeated alike, then of ``k`` rows about
    :math:`\tfrac{k (k - 1)}{2} (\tfrac1D - \tfrac1n)` pairs are; where some are repeated more than others, more.
    """
    n, some = len(rows), rows[scattered(len(rows), _ASKED)]
    unique, which = distinct(some)
    counts = np.bincount(which, minlength=len(unique))
    pairs = float(counts @ (counts - 1)) / 2
    expected = len(some) * (len(some) - 1) / 2 * (1 / (at_most * n) - 1 / n)
    return pairs >= expected


def scattered(n: int, size: int, seed: int = 0) -> np.ndarray:
    """``size`` of ``n`` rows in order, always the same ones, chosen by chance: no period of a table can meet it.

    >>> scattered(10, 3).shape, scattered(3, 10).tolist()
    ((3,), [0, 1, 2])
    """
    if n <= size:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False, shuffle=False))


def drawn_by_weight(weight: np.ndarray, size: int, rng: np.random.RandomState) -> np.ndarray:
    """``size`` rows, drawn in proportion to weight: one from each of as many slices of the total."""
    return drawn_from(np.cumsum(weight), size, rng)


def drawn_from(cumulative: np.ndarray, size: int, rng: np.random.RandomState) -> np.ndarray:
    """The same, where it is known how much each row and all before it weigh."""
    draws = (np.arange(size) + rng.uniform(size=size)) / size * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, draws, side="right"), len(cumulative) - 1)


def by_class(y: np.ndarray) -> list[np.ndarray]:
    """The rows of each class that is there, in order."""
    return [np.flatnonzero(y == label) for label in np.unique(y)]


def allotted(counts: Sequence[int], size: int) -> list[int]:
    """How many of the rows of each class make a sample: in proportion, but enough of the rarer.

    >>> allotted([9000, 1000], 1000), allotted([9990, 10], 1000), allotted([300, 300], 400)
    ([750, 250], [990, 10], [200, 200])
    >>> allotted([9000, 500, 500, 3], 1000)
    [747, 125, 125, 3]
    """
    share, left, rows = [0] * len(counts), size, sum(counts)
    least = int(_LEAST_SHARE * size * 2 / max(len(counts), 1))
    for index in np.argsort(counts, kind="stable"):  # what the rarer do not use is for the others
        share[index] = min(counts[index], left, max(round(left * counts[index] / max(rows, 1)), least))
        left, rows = left - share[index], rows - counts[index]
    return share
