"""Levels of categories in the fixed part, and of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import repeat
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from . import tables

#: A column with more levels than this in the fixed part was probably meant as groups.
_MOST_LEVELS = 1000
_LEVELS_SHOWN = 8
_EXACT_INTEGERS = 2.0**53


#: The most entries of a lookup table of integers for each integer in use.
_MOST_GAPS = 16


class Levels(NamedTuple):
    """The distinct labels of a column in sorted order, which does not depend on the order of rows."""

    labels: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Levels:
        """The labels of a complete column, sorted; whole numbers as integers, even if given as floats."""
        if tables.is_numeric(values):
            labels = _distinct(values)
            size = abs(labels.astype(np.float64))  # half precision cannot represent the limit
            whole = labels.dtype.kind == "f" and np.all((labels == np.rint(labels)) & (size < _EXACT_INTEGERS))
            return cls(labels.astype(np.int64) if whole else labels)
        try:
            return cls(as_objects(_in_order(set(values.tolist()))))
        except TypeError as error:
            raise ValueError(f"Labels must be strings, numbers or the like; one is not: {error}.") from error

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The index of each label among the levels; -1 for labels that are not among them."""
        if tables.is_numeric(values) and tables.is_numeric(self.labels):
            if self._are_dense and values.dtype.kind in "iu":
                return self._looked_up(values)
            place = np.minimum(np.searchsorted(self.labels, values), max(len(self.labels) - 1, 0))
            return np.where(self.labels[place] == values, place, -1)
        # Dictionary lookups in C: as fast for a million strings as binary search is for numbers.
        place = dict(zip(self.labels.tolist(), range(len(self.labels)), strict=True))
        return np.fromiter(map(place.get, values.tolist(), repeat(-1)), np.int64, len(values))

    @property
    def _are_dense(self) -> bool:
        """Whether labels are integers so dense that a lookup table over their range is not too large."""
        whole = self.labels.dtype.kind in "iu" and len(self.labels) > 0
        return whole and int(self.labels[-1]) - int(self.labels[0]) < _MOST_GAPS * len(self.labels)

    def _looked_up(self, values: np.ndarray) -> np.ndarray:
        """Codes of integers from a lookup table, which is many times as fast as a search."""
        first, last = int(self.labels[0]), int(self.labels[-1])
        table = np.full(last - first + 2, -1, dtype=np.int64)  # the last entry is for values outside the range
        table[self.labels.astype(np.int64) - first] = np.arange(len(self.labels))
        inside = (values >= first) & (values <= last)
        return table[np.where(inside, values.astype(np.int64), last + 1) - first]


def _distinct(values: np.ndarray) -> np.ndarray:
    """The distinct numbers, sorted; dense integers are counted instead of sorted."""
    if values.dtype.kind not in "iu" or len(values) == 0:
        return np.unique(values)
    first, last = int(values.min()), int(values.max())
    if last - first >= len(values):
        return np.unique(values)
    return (first + np.flatnonzero(np.bincount(values.astype(np.int64) - first))).astype(values.dtype)


def as_objects(labels: Iterable[Any]) -> np.ndarray:
    """Labels, which may be tuples, in a one-dimensional array."""
    labels = list(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _in_order(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


# The fixed part ----------------------------------------------------------------------------------


def categories(X: Any, name: Any) -> Levels:
    """The levels of a category in the fixed part, of which the first is the reference."""
    values = _categorical(X, name)
    levels = Levels.of(values)
    if any(isinstance(label, (date, timedelta, np.datetime64, np.timedelta64)) for label in levels.labels.tolist()):
        raise ValueError(f"Column {name!r} holds dates: convert them to numbers, such as days since the first.")
    if len(levels.labels) > _MOST_LEVELS:
        raise ValueError(
            f"Column {name!r} has {len(levels.labels)} levels, too many for fixed effects: drop it, or make it a group."
        )
    order = tables.declared_order(X, name)
    present = set(levels.labels.tolist())
    return levels if order is None else Levels(as_objects(label for label in order if label in present))


def category_codes(X: Any, name: Any, levels: Levels) -> np.ndarray:
    """Codes of a category in the fixed part; raises an error for unknown levels."""
    values = _categorical(X, name)
    codes = levels.codes(values)
    unseen = _in_order(set(values[codes < 0].tolist()))
    if unseen:
        raise ValueError(
            f"Column {name!r} has the level{'s' * (len(unseen) > 1)} {_shown(unseen)}, not seen when the model was "
            f"fitted; the known ones are {_shown(levels.labels.tolist())}."
        )
    return codes


def _categorical(X: Any, name: Any) -> np.ndarray:
    values = tables.column(X, name)
    remedy = "missing values are modelled in numeric columns only. Drop those rows, or give them a separate level."
    tables.refuse_missing(values, name, remedy)
    return values


def _shown(labels: list[Any]) -> str:
    more = ", ..." if len(labels) > _LEVELS_SHOWN else ""
    return ", ".join(map(repr, labels[:_LEVELS_SHOWN])) + more


# Groups ------------------------------------------------------------------------------------------


class Grouping(NamedTuple):
    """Groups of rows: the labels of one column, or the combinations of several that occur."""

    name: str
    columns: tuple[Any, ...]
    levels: tuple[Levels, ...]
    keys: np.ndarray

    @classmethod
    def of(cls, X: Any, columns: tuple[Any, ...], titles: Sequence[str]) -> Grouping:
        levels = tuple(Levels.of(_grouped(X, name)) for name in columns)
        every = cls(":".join(titles), columns, levels, np.arange(len(levels[0].labels)))
        return every if len(columns) == 1 else every._replace(keys=np.unique(every._keys(X)))

    @property
    def labels(self) -> np.ndarray:
        """The label of each group; tuples if several columns define a group."""
        places = np.unravel_index(self.keys, [len(levels.labels) for levels in self.levels])
        labels = [levels.labels[place] for levels, place in zip(self.levels, places, strict=True)]
        if len(labels) == 1:
            return labels[0]
        return as_objects(zip(*(part.tolist() for part in labels), strict=True))

    def codes(self, X: Any) -> np.ndarray:
        """The group of each row; -1 if it is new."""
        keys = self._keys(X)
        return keys if len(self.columns) == 1 else Levels(self.keys).codes(keys)

    def _keys(self, X: Any) -> np.ndarray:
        """One integer for each combination of labels; -1 if any label is new."""
        keys, known = np.zeros(X.shape[0], dtype=np.int64), np.ones(X.shape[0], dtype=bool)
        for name, levels in zip(self.columns, self.levels, strict=True):
            values = _grouped(X, name)
            _refuse_other_type(values, levels, name)
            codes = levels.codes(values)
            known &= codes >= 0
            keys = keys * len(levels.labels) + codes
        return np.where(known, keys, -1)


def _refuse_other_type(values: np.ndarray, levels: Levels, name: Any) -> None:
    """Raises an error for labels of which no type occurred in the fit: 3 and '3' would be different groups."""
    known, found = _types(levels.labels), _types(values)
    if found and not known & found:
        raise ValueError(
            f"Column {name!r} held {' and '.join(sorted(known))} when the model was fitted, such as "
            f"{levels.labels.tolist()[0]!r}, but holds {' and '.join(sorted(found))} now, such as "
            f"{values.tolist()[0]!r}: all groups would be new. Convert the column to the type that it had."
        )


def _types(labels: np.ndarray) -> set[str]:
    """The types of labels, in words.

    >>> sorted(_types(as_objects(["3", 3, 2.5])))
    ['numbers', 'strings']
    """
    if tables.is_numeric(labels):
        return {"numbers"} if len(labels) else set()
    return {_word(kind) for kind in set(map(type, labels.tolist()))}


def _word(kind: type) -> str:
    if issubclass(kind, (Real, Decimal, np.bool_)):
        return "numbers"
    return "strings" if issubclass(kind, str) else "objects of another type"


def _grouped(X: Any, name: Any) -> np.ndarray:
    values = tables.column(X, name)
    tables.refuse_missing(values, name, "every row needs a group. Drop those rows, or give them a separate label.")
    return values
