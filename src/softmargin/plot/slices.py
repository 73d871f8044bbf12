"""Slices: two columns of a table vary while all others are held fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

#: Margin beyond the data on each side, as a fraction of a column's range.
_MARGIN = 0.2


class Slice(NamedTuple):
    """The columns of a table in order, the positions of the two that vary, and the values at which others are held.

    ``frame`` is the type of the table if it has column names, and None for an array.
    """

    names: list[str]
    places: tuple[int, int]
    held: dict[int, Any]
    points: np.ndarray
    frame: Any

    @classmethod
    def of(cls, model: Any, X: Any, columns: Sequence[int | str], at: Mapping[Any, Any] | None) -> Slice:
        """The slice for a model that was fitted on the columns of ``X``, or on exactly two of them."""
        is_frame = hasattr(X, "columns")
        table: Any = X if is_frame else np.asarray(X)
        every = list(table.columns) if is_frame else list(range(table.shape[1]))
        two = tuple(_place(column, every, "columns", is_frame) for column in columns)
        if len(two) != 2 or two[0] == two[1]:
            raise ValueError(f"columns must be two different positions or names, got {columns!r}.")
        used = _used(model, every, two, is_frame)
        values = [np.asarray(table[every[place]] if is_frame else table[:, place]) for place in used]
        given = {_place(name, every, "at", is_frame): value for name, value in (at or {}).items()}
        refused = [every[place] for place in given if place in two or place not in used]
        if refused:
            raise ValueError(f"at names columns that cannot be fixed: {refused} vary, or the model does not use them.")
        held = {
            index: given[place] if place in given else _middle(values[index])
            for index, place in enumerate(used)
            if place not in two
        }
        places = (used.index(two[0]), used.index(two[1]))
        names = [str(every[place]) if is_frame else f"x{place}" for place in used]
        points = np.column_stack([_numbers(values[place], names[place]) for place in places])
        return cls(names, places, held, points, type(X) if is_frame else None)

    def axes(self, n: int) -> list[np.ndarray]:
        """``n`` values along each of the two columns, from a little below the data to a little above."""
        return [_axis(values, n) for values in self.points.T]

    def rows(self, grid: np.ndarray) -> Any:
        """A table with the rows of ``grid`` in the two columns, and the others at their fixed values."""
        varying = dict(zip(self.places, grid.T, strict=True))
        columns = [
            varying[index] if index in varying else np.full(len(grid), self.held[index])
            for index in range(len(self.names))
        ]
        if self.frame is None:
            return np.column_stack(columns)
        # pandas and polars both make frames from a dict of columns.
        return self.frame(dict(zip(self.names, columns, strict=True)))


def _place(column: int | str, every: list[Any], what: str, is_frame: bool) -> int:
    """The position of a column that is given by its name or its position."""
    if isinstance(column, str) and not is_frame:
        raise ValueError(f"X has no column names: {what} must be given by position, got {column!r}.")
    if column in every:
        return every.index(column)
    if isinstance(column, str) or not -len(every) <= column < len(every):
        raise ValueError(f"{what} holds {column!r}, which is not a column of X; there are {_shown(every)}.")
    return int(column) % len(every)


def _shown(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _used(model: Any, every: list[Any], two: tuple[int, ...], is_frame: bool) -> list[int]:
    """The positions of the columns that the model uses, in its order."""
    n = getattr(model, "n_features_in_", len(every))
    names = list(getattr(model, "feature_names_in_", ())) if is_frame else []
    if names and all(name in every for name in names):
        used = [every.index(name) for name in names]
    elif n == 2:
        return list(two)
    elif n == len(every):
        return list(range(n))
    else:
        raise ValueError(
            f"This {type(model).__name__} was fitted on {n} columns, but X has {len(every)}: give those of the fit."
        )
    absent = [every[place] for place in two if place not in used]
    if absent:
        raise ValueError(f"The model was not fitted on the columns {absent}; choose two of {_shown(names)}.")
    return used


def _middle(values: np.ndarray) -> Any:
    """The median of numbers, or the most frequent of other values, ignoring missing ones."""
    if values.dtype.kind in "iuf":
        return float(np.nanmedian(values)) if not np.isnan(values.astype(float)).all() else np.nan
    there = [value for value in values.tolist() if value is not None and value == value]
    if not there:
        return None
    return Counter(there).most_common(1)[0][0]


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        return values.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {name!r} is not numeric and cannot be an axis; choose other columns.") from error


def _axis(values: np.ndarray, n: int) -> np.ndarray:
    low, high = np.nanmin(values), np.nanmax(values)
    room = _MARGIN * (high - low) or 1.0
    return np.linspace(low - room, high + room, n)
