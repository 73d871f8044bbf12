"""Columns of any kind of table as NumPy arrays: numbers, with NaN for gaps, or objects, with None for gaps."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse

from ..entries import with_gaps
from ..parameters import how_many, meant
from ..validation import refuse_unread

_NUMERIC = "biuf"
#: In an array, so that comparisons with it are elementwise.
_NOTHING = np.array(None, dtype=object)


def as_table(X: Any) -> Any:
    """``X`` unchanged if it is a frame (pandas, polars), else as a two-dimensional array."""
    refuse_unread(X)
    if hasattr(X, "columns"):
        return X
    if scipy.sparse.issparse(X):
        raise ValueError("X must be a frame or a dense array, not a sparse matrix.")
    X = np.asarray(with_gaps(X))
    if X.ndim != 2:
        raise ValueError(f"X must be a frame or an array of two dimensions, got {X.ndim}.")
    if X.dtype.kind not in _NUMERIC + "O":
        raise ValueError(f"X is an array of {X.dtype}: pass a frame, or an array of numbers or objects.")
    return X


def names(X: Any) -> list[Any]:
    """The names of a frame's columns, or the positions of an array's."""
    return list(X.columns) if hasattr(X, "columns") else list(range(X.shape[1]))


def check_names(X: Any, wanted: Iterable[Any]) -> None:
    """Raises an error unless every wanted column occurs exactly once."""
    known = names(X)
    for name in wanted:
        if known.count(name) > 1:
            raise ValueError(f"There are {known.count(name)} columns named {name!r}: rename all but one.")
        if name not in known:
            raise ValueError(f"There is no column {name!r}; {meant(name, known)}")


def column(X: Any, name: Any) -> np.ndarray:
    """A column as numbers (NaN where missing) or as objects (None where missing); declared categories are objects."""
    check_names(X, [name])
    values = X[name] if hasattr(X, "columns") else X[:, name]
    if hasattr(values, "isna"):
        return _of_pandas(values)
    values = values if isinstance(values, np.ndarray) else values.to_numpy()
    if values.dtype.kind in _NUMERIC:
        return values
    objects = values.astype(object)
    return _with_none(objects, (objects != objects) | (objects == _NOTHING))


def _of_pandas(series: Any) -> np.ndarray:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in _NUMERIC:
        return series.to_numpy()
    if series.dtype.kind in _NUMERIC:
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    return _with_none(series.to_numpy(dtype=object), series.isna().to_numpy(), hasattr(series.dtype, "categories"))


def _with_none(objects: np.ndarray, missing: np.ndarray, categories: bool = False) -> np.ndarray:
    """Objects with None where missing; converted to numbers if all are numbers and not declared as categories."""
    objects = objects.copy()
    objects[missing] = None
    kinds = set(map(type, objects[~missing].tolist()))
    if categories or not all(issubclass(kind, (Real, Decimal, np.bool_)) for kind in kinds):
        return objects
    numbers = objects.astype(np.float64) if missing.any() else np.asarray(objects.tolist())
    return numbers if numbers.dtype.kind in _NUMERIC else numbers.astype(np.float64)


def is_numeric(values: np.ndarray) -> bool:
    """Whether a column holds numbers."""
    return values.dtype.kind in _NUMERIC


def missing(values: np.ndarray) -> np.ndarray:
    """Which entries are missing."""
    return np.isnan(values) if is_numeric(values) else values == _NOTHING


def refuse_missing(values: np.ndarray, name: Any, remedy: str) -> None:
    """Raises an error that names the column if anything is missing."""
    count = int(missing(values).sum())
    if count:
        raise ValueError(f"Column {name!r} is missing in {how_many(count, 'row')}: {remedy}")


def numbers(X: Any, name: Any, use: str) -> np.ndarray:
    """A column in float64; raises an error unless all its entries are finite numbers."""
    values = column(X, name)
    if not is_numeric(values):
        raise ValueError(f"Column {name!r} is not numeric, but {use} needs numbers.")
    refuse_missing(values, name, f"{use} needs it in every row. Impute it, or drop those rows.")
    refuse_infinite(values, f"Column {name!r}")
    return values.astype(np.float64)


def refuse_infinite(values: np.ndarray, what: str) -> None:
    """Raises an error if any value is infinite."""
    count = int(np.isinf(values).sum())
    if count:
        raise ValueError(f"{what} is infinite in {count} row{'s' * (count > 1)}: replace or drop such values.")


def declared_order(X: Any, name: Any) -> list[Any] | None:
    """The order of a column's categories if the frame declares one, else None."""
    dtype = getattr(X[name], "dtype", None) if hasattr(X, "columns") else None
    ordered = getattr(dtype, "ordered", type(dtype).__name__ == "Enum")  # in polars, an Enum is ordered
    return list(getattr(dtype, "categories", [])) if ordered else None
