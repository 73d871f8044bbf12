"""Splits of a table into training and test rows: folds, rows held out, and detection of rows that occur in both.

Rows that belong together (visits of a patient, photographs of a scene) should be on one side of a split. Otherwise a
model may recognise the patient, and look better than it will be for others. The same holds for copies of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, train_test_split
from sklearn.utils import _safe_indexing

__all__ = [
    "TwinRowsWarning",
    "fingerprints",
    "folds",
    "held_out",
    "n_among",
    "sketch",
    "told_of_twins",
    "without_counts",
]

#: Copies are reported if they are at least this share of rows, this many times as many as by chance, and this many.
_SHARE, _TIMES_CHANCE, _FEWEST_TWINS = 0.02, 10, 3
#: Distinct rows from which the number of chance agreements is estimated.
_LOOKED_AT = 1000
#: The fewest rows for a column of distinct integers to count as an identifier; fewer may differ by chance.
_FEWEST_COUNTED = 50
#: Rows in a sketch: all of a small table, and enough of a large one for an estimate.
_REMEMBERED = 4096
#: Random selections of groups to hold out, of which the best is used.
_TRIES = 200
#: Odd constants for hashing.
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class TwinRowsWarning(UserWarning):
    """Warning that evaluation rows are equal to training rows of the model."""


def folds(y: np.ndarray, n_splits: int, random_state: int, groups: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Stratified folds: pairs of training and test indices; with groups, each of them lies in one fold.

    Examples
    --------
    >>> y, patients = np.array([0, 1, 0, 1, 0, 1, 0, 1]), np.array([1, 1, 2, 2, 3, 3, 4, 4])
    >>> [sorted(set(patients[test].tolist())) for _, test in folds(y, 2, 0, patients)]
    [[2, 3], [1, 4]]
    """
    rows = np.zeros(len(y))
    if groups is None:
        return list(StratifiedKFold(n_splits, shuffle=True, random_state=random_state).split(rows, y))
    groups = np.asarray(groups)
    n_groups = len(np.unique(groups))
    if n_groups < n_splits:
        raise ValueError(f"There are {n_groups} groups, fewer than the {n_splits} folds: use fewer folds.")
    made = list(StratifiedGroupKFold(n_splits, shuffle=True, random_state=random_state).split(rows, y, groups))
    for train, _ in made:
        _refuse_lost_classes(y, train)
    return made


def held_out(y: np.ndarray, share: float, random_state: int, groups: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Indices of training rows and of a share of test rows, in order, stratified by class.

    With groups, each group lies on one side; of many random selections, the one is used whose counts of classes come
    nearest to that share.
    """
    places = np.arange(len(y))
    if groups is None:
        kept, held = train_test_split(places, test_size=share, random_state=random_state, stratify=y)
        return np.sort(kept), np.sort(held)
    labels, codes = np.unique(y, return_inverse=True)
    members = np.unique(np.asarray(groups), return_inverse=True)[1]
    counts = np.zeros((members.max() + 1, len(labels)))
    np.add.at(counts, (members, codes), 1)
    best = min(_draws(counts, share, random_state), key=lambda drawn: _miss(counts, drawn, share))
    kept, held = np.flatnonzero(~best[members]), np.flatnonzero(best[members])
    if not len(held) or not len(kept):
        raise ValueError("All rows belong to one group: there is nothing to hold out.")
    _refuse_lost_classes(y, kept)
    return kept, held


def _draws(counts: np.ndarray, share: float, random_state: int) -> Iterator[np.ndarray]:
    """Random selections of groups with about this share of the rows, as boolean masks."""
    rng, sizes = np.random.RandomState(random_state), counts.sum(axis=1)
    for _ in range(_TRIES):
        order = rng.permutation(len(sizes))
        n = 1 + int(np.argmin(np.abs(np.cumsum(sizes[order]) - share * sizes.sum())))
        drawn = np.zeros(len(sizes), dtype=bool)
        drawn[order[: min(n, len(sizes) - 1)]] = True
        yield drawn


def _miss(counts: np.ndarray, drawn: np.ndarray, share: float) -> float:
    """How far the shares of classes in the selected groups are from ``share``, with a penalty for lost classes."""
    total = counts.sum(axis=0)
    held = counts[drawn].sum(axis=0)
    return float(np.sum((held / total - share) ** 2)) + float(np.sum((held == 0) | (held == total)))


def _refuse_lost_classes(y: np.ndarray, train: np.ndarray) -> None:
    lost = np.setdiff1d(y, y[train])
    if len(lost):
        raise ValueError(
            f"Class {lost.tolist()[0]!r} occurs in so few groups that some split has none of it to train on: use "
            f"fewer folds, or leave it out."
        )


def fingerprints(X: Any) -> np.ndarray:
    """A hash of each row of an array or frame: equal for equal rows, and hardly ever for others.

    Examples
    --------
    >>> one, two, three = fingerprints(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    found: Any = None
    for column in _columns(X):
        found = _mixed(_bits(column) if found is None else _bits(column) ^ (found * _SECOND))
    return found


def without_counts(X: Any) -> Any:
    """A table without columns that only number the rows; None if nothing is left, or rows cannot be inspected.

    In tables of fifty rows or more, these are columns of integers that are all different.
    """
    if getattr(X, "ndim", 0) != 2 or not (hasattr(X, "iloc") or isinstance(X, np.ndarray)):
        return None
    kept = [k for k, column in enumerate(_columns(X)) if not _counts(column)]
    return _safe_indexing(X, kept, axis=1) if kept else None


def _counts(column: np.ndarray) -> bool:
    if column.dtype.kind not in "iuf" or len(column) < _FEWEST_COUNTED:
        return False
    return bool(np.all(column == np.floor(column)) and len(np.unique(column)) == len(column))


def _columns(X: Any) -> Iterator[np.ndarray]:
    for k in range(X.shape[1]):
        yield np.asarray(_safe_indexing(X, k, axis=1))


def _bits(column: np.ndarray) -> np.ndarray:
    """Hashes of entries: of numbers in single precision, since texts may lose digits; of anything else as text."""
    if column.dtype.kind in "fiub":
        with np.errstate(over="ignore"):  # values beyond single precision become infinite
            return (column.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)
    import pandas.util

    hashed: Any = pandas.util.hash_array
    return hashed(np.array([str(entry) for entry in column.tolist()], dtype=object))


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits + _FIRST) * _SECOND
    return bits ^ (bits >> np.uint64(29))


def sketch(prints: np.ndarray) -> np.ndarray:
    """The smallest distinct fingerprints, by which rows can be recognised; all of them in a small table."""
    return np.unique(prints)[:_REMEMBERED]


def n_among(prints: np.ndarray, seen: np.ndarray) -> int:
    """The number of rows that occur in the table of a sketch; an estimate if that table is large."""
    known = prints if len(seen) < _REMEMBERED else prints[prints <= seen[-1]]
    return round(float(np.isin(known, seen).mean()) * len(prints)) if len(known) else 0


def n_sketched(seen: np.ndarray) -> int:
    """The number of distinct rows in the table of a sketch, as fingerprints are spread evenly."""
    if len(seen) < _REMEMBERED:
        return len(seen)
    return round(len(seen) * 2.0**64 / float(seen[-1]))


def told_of_twins(X: Any, n_twins: int, n_others: int) -> str | None:
    """The warning about rows that are equal to others; None if there are few, or about as many as by chance.

    Chance is computed as if columns were independent, except those that another one determines: two rows then agree
    with the product over columns of the probability that two entries agree.
    """
    n = X.shape[0]
    if n_twins < max(_FEWEST_TWINS, _SHARE * n):
        return None
    once = np.unique(fingerprints(X), return_index=True)[1][:_LOOKED_AT]  # copies do not agree by chance
    agree = float(np.prod([_agreement(codes) for codes in _free(_bits(column)[once] for column in _columns(X))]))
    if n_twins < _TIMES_CHANCE * n * -np.expm1(n_others * np.log1p(-min(agree, 1 - 1e-12))):
        return None
    return (
        f"{n_twins:,} of {n:,} evaluation rows are equal to training rows of the model: if these are copies, all "
        f"measures are too optimistic."
    )


def _free(columns: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Columns as 0, 1, 2, ..., without functions of an earlier one, such as a time in years after one in months."""
    kept: list[np.ndarray] = []
    for bits in columns:
        codes = np.unique(bits, return_inverse=True)[1]
        if not any(len(np.unique(other * len(codes) + codes)) == other.max() + 1 for other in kept):
            kept.append(codes)
    return kept


def _agreement(codes: np.ndarray) -> float:
    """An unbiased estimate of the probability that two rows have the same entry; zero if all entries differ."""
    counts = np.bincount(codes)
    return float(counts @ (counts - 1)) / max(len(codes) * (len(codes) - 1), 1)
