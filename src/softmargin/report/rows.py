"""Raw tables, in pandas or polars frames, arrays or sparse matrices: their columns, missing values and entries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from .numbers import NOTHING, count, number, percent
from .page import listed, shown


class RawColumn(NamedTuple):
    """A column of the raw table."""

    name: str
    values: np.ndarray
    is_gap: np.ndarray

    @property
    def n_gaps(self) -> int:
        return int(self.is_gap.sum())

    @property
    def kind(self) -> str:
        letter = self.values.dtype.kind
        return {"b": "yes or no", "M": "date", "m": "duration"}.get(letter, "number" if letter in "iuf" else "text")

    def summary(self) -> str:
        """The range or the most common entries, in words."""
        present = self.values[~self.is_gap]
        if not len(present):
            return "all missing"
        if self.kind == "number":
            low, middle, high = np.quantile(present.astype(float), [0, 0.5, 1])
            return f"{number(low)} to {number(high)}, median {number(middle)}"
        if self.kind in ("date", "duration"):
            return f"{shown(present.min())} to {shown(present.max())}"
        common = Counter(map(str, present.tolist())).most_common()
        # Ties are sorted alphabetically, so that the order of rows does not matter.
        common.sort(key=lambda pair: (-pair[1], pair[0]))
        most = [f"{shown(value, 30)} ({percent(times / len(present))})" for value, times in common[:3]]
        return (
            f"{count(len(common))} different: {listed(most)}"
            if len(common) <= 3
            else (f"{count(len(common))} different, most often {listed(most)}")
        )

    def entry(self, row: int) -> Any:
        """One raw entry; None if it is missing."""
        return None if self.is_gap[row] else self.values[row]


class Rows:
    """Column-wise access to the rows of an evaluation, whatever their container."""

    def __init__(self, X: Any, names: Sequence[Any] | None = None) -> None:
        self._X: Any = X if hasattr(X, "columns") or scipy.sparse.issparse(X) else np.asarray(X)
        if scipy.sparse.issparse(self._X):
            self._X = self._X.tocsc()
        if len(self._X.shape) != 2:
            raise ValueError(f"X must be a table of rows and columns, got shape {self._X.shape}.")
        self.n_rows, self.n_columns = (int(size) for size in self._X.shape)
        if hasattr(X, "columns"):
            names = list(X.columns)
        elif names is None or len(names) != self.n_columns:
            names = [f"x{k}" for k in range(self.n_columns)]
        self.names = [str(name) for name in names]
        index = getattr(X, "index", None)
        self.labels: np.ndarray = np.arange(self.n_rows) if index is None or callable(index) else np.asarray(index)

    def column(self, k: int) -> RawColumn:
        """The column at a place."""
        values = self._values(k)
        return RawColumn(self.names[k], values, _gaps(values))

    def _values(self, k: int) -> np.ndarray:
        if scipy.sparse.issparse(self._X):
            return self._X[:, [k]].toarray().ravel()
        if hasattr(self._X, "iloc"):
            return np.asarray(_told(self._X.iloc[:, k]))
        if hasattr(self._X, "to_series"):
            return np.asarray(_told(self._X.to_series(k)))
        return self._X[:, k]


def _told(series: Any) -> Any:
    """A column of a frame as numbers or dates if possible, and as objects otherwise."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "biufMm" or not hasattr(series, "dtype"):
        plain = series.to_numpy()
        if plain.dtype.kind in "biufMm":
            return plain
        # Nullable numbers: missing values become NaN.
        return series.to_numpy(dtype=float, na_value=math.nan) if kind in "iuf" else plain
    return series.to_numpy()


def _gaps(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "Mm":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(map(_is_gap, values.tolist()), dtype=bool, count=len(values))


def _is_gap(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def entry_text(value: Any) -> str:
    """An entry of a table, formatted for readers."""
    if value is None:
        return NOTHING
    if isinstance(value, (float, np.floating)):
        return number(value, 4)
    return shown(value, 30)
