"""Columns selected by name: numbers unchanged, categories as dummy variables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import tables
from .levels import Levels, categories, category_codes


class PlainColumns(NamedTuple):
    """Numeric columns unchanged, including NaN; others in treatment coding, with a column for each level but the first.

    Without an intercept, the first categorical column has all its levels.  If ``use`` says what the columns are for,
    numbers must be complete.
    """

    columns: tuple[Any, ...]
    titles: tuple[str, ...]
    levels: tuple[Levels | None, ...]
    intercept: bool
    use: str | None = None

    @classmethod
    def of(
        cls, X: Any, columns: list[Any], titles: dict[Any, str], intercept: bool, use: str | None = None
    ) -> PlainColumns:
        numeric = [tables.is_numeric(tables.column(X, name)) for name in columns]
        levels = (None if plain else categories(X, name) for name, plain in zip(columns, numeric, strict=True))
        return cls(tuple(columns), tuple(titles[name] for name in columns), tuple(levels), intercept, use)

    @property
    def inputs(self) -> tuple[Any, ...]:
        return self.columns

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            name
            for title, levels, first in zip(self.titles, self.levels, self._firsts, strict=True)
            for name in ([title] if levels is None else [f"{title}[{label}]" for label in levels.labels[first:]])
        )

    @property
    def _firsts(self) -> list[int]:
        """The first level with its own column, for each input column."""
        is_category = [levels is not None for levels in self.levels]
        whole = is_category.index(True) if not self.intercept and any(is_category) else None
        return [0 if place == whole else 1 for place in range(len(self.columns))]

    def matrix(self, X: Any) -> np.ndarray:
        """One row for each row of ``X``, and one column for each of ``names``."""
        matrix, start = np.empty((X.shape[0], len(self.names))), 0
        for column, levels, first in zip(self.columns, self.levels, self._firsts, strict=True):
            if levels is None:
                block = (tables.numbers(X, column, self.use) if self.use else _numeric(X, column))[:, None]
            else:
                block = category_codes(X, column, levels)[:, None] == np.arange(first, len(levels.labels))
            matrix[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        return matrix


def _numeric(X: Any, name: Any) -> np.ndarray:
    values = tables.column(X, name)
    if not tables.is_numeric(values):
        raise ValueError(f"Column {name!r} held numbers when the model was fitted, but does not now.")
    tables.refuse_infinite(values, f"Column {name!r}")
    return values
