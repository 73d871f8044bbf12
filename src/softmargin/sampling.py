"""Some rows that stand for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: The rarer of two classes is at least this share of a sample, as far as it has rows; of many, each in proportion.
_LEAST_SHARE = 0.25


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows in lexicographic order, and for each row which of them it is.

    `numpy.unique` compares whole rows, which takes several times as long.

    >>> distinct(np.array([[2.0, 1.0], [1.0, 5.0], [2.0, 1.0]]))
    (array([[1., 5.],
           [2., 1.]]), array([1, 0, 1]))
    """
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    is_new = np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)])
    which = np.empty(len(rows), dtype=np.intp)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which


def distinct_labelled(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct rows with their labels, and for each row which of them it is."""
    both, which = distinct(np.column_stack([X, y.astype(X.dtype, copy=False)]))
    return both[:, :-1], both[:, -1].astype(np.float64), which


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
