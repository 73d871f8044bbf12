"""Entries of tables before they are numbers: gaps of every kind, dates, and what is not a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from .parameters import meant

__all__ = ["listed", "name_unreadable_columns", "named_apart", "refuse_dates", "refuse_namesakes", "with_gaps"]

_NAMES_SHOWN = 5


def with_gaps(X: Any) -> Any:
    """``X`` with NaN for entries that are masked, or pandas' NA among objects; unchanged if there are none.

    >>> with_gaps(np.ma.masked_equal([[1, 2], [3, 4]], 3))
    array([[ 1.,  2.],
           [nan,  4.]])
    """
    if isinstance(X, np.ma.MaskedArray):
        masked, values = np.ma.getmaskarray(X), np.asarray(X.data)
        if not masked.any():
            return values
        dtype = np.result_type(values.dtype, np.float32) if values.dtype.kind in "biuf" else object
        return np.where(masked, np.nan, values.astype(dtype))
    if hasattr(X, "columns") and hasattr(X, "isna"):
        objects = [name for name, dtype in X.dtypes.items() if dtype.kind == "O" and X[name].isna().any()]
        X = X.copy(deep=False) if objects else X
        for name in objects:
            X[name] = X[name].astype(object).where(X[name].notna(), np.nan)
        return X
    if isinstance(X, np.ndarray) and X.dtype == object:
        absent = np.reshape([type(value).__name__ == "NAType" for value in X.ravel().tolist()], X.shape)
        return np.where(absent, np.nan, X) if absent.any() else X
    return X


def named_apart(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Rows, labels and weights, where the last two may be names of columns of a frame, which are then taken from it."""
    named = {word: name for word, name in (("y", y), ("sample_weight", weight)) if isinstance(name, str)}
    if not named or hasattr(X, "__fspath__") or isinstance(X, str):
        return X, y, weight
    is_frame = type(X).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(X, "to_numpy")
    if not is_frame or not hasattr(X, "columns"):
        _refuse_named(X, named)
        return X, y, weight
    for word, name in named.items():
        if name not in X.columns:
            raise ValueError(f"{word}={name!r} names no column of X; {meant(name, map(str, X.columns))}")
    apart = list(dict.fromkeys(named.values()))
    rows = X.drop(columns=apart) if hasattr(X, "iloc") else X.drop(apart)
    return rows, *(X[given] if isinstance(given, str) else given for given in (y, weight))


def _refuse_named(X: Any, named: dict[str, str]) -> None:
    """Raises an error where names of columns were given for an array, which has none."""
    if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "tocsr"):
        word, name = next(iter(named.items()))
        raise ValueError(
            f"{word}={name!r} is a string, but X is no frame with such a column: pass a frame, or one entry per row."
        )


def refuse_namesakes(X: Any) -> None:
    """Raises an error if two columns of a frame have the same name, or if it has no columns."""
    names = list(getattr(X, "columns", ()))
    if hasattr(X, "columns") and not names:
        raise ValueError("X is a frame without columns, while a minimum of 1 is required.")
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise ValueError(f"{names.count(twice)} columns are called {twice!r}: rename all but one.")


def refuse_dates(X: Any) -> None:
    """Raises an error for dates, which would silently be converted to nanoseconds."""
    if any(map(_is_of_dates, X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", None)])):
        name_unreadable_columns(X, None)
        raise ValueError("X holds dates or times: convert them to numbers, such as days since the first of them.")


def _is_of_dates(dtype: Any) -> bool:
    """Whether a dtype of NumPy, pandas or polars holds dates or times."""
    return getattr(dtype, "kind", "") in ("m", "M") or bool(getattr(dtype, "is_temporal", bool)())


def name_unreadable_columns(X: Any, error: Exception | None) -> None:
    """Raises an error that names the columns of a frame that are not numeric, if there are any."""
    unreadable = {name: _unreadable_value(X[name]) for name in getattr(X, "columns", ())}
    unreadable = {name: found for name, found in unreadable.items() if found is not None}
    if unreadable:
        raise ValueError(
            f"{listed(list(unreadable))} not numeric (such as {next(iter(unreadable.values()))}). "
            f"softmargin.tables.TableClassifier accepts tables with text, dates and missing values; or encode such "
            f"columns first, for example with sklearn.preprocessing.OneHotEncoder or OrdinalEncoder in a "
            f"ColumnTransformer."
        ) from error


def _unreadable_value(column: Any) -> str | None:
    """The first entry of a column that is not a number; None if all are.

    >>> _unreadable_value(["1.5", "many"])
    "'many'"
    """
    values = np.asarray(column).ravel()
    if getattr(getattr(column, "dtype", values.dtype), "kind", values.dtype.kind) in "mM":
        return next((str(value) for value in values if value == value), "a date")  # NaT is not itself
    try:
        np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        return next((repr(value) for value in values.tolist() if not _is_number(value)), "an empty entry")
    return None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def listed(names: list[Any], verb: str = "is") -> str:
    """Columns by name, as the beginning of a sentence; a few of them if there are many."""
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    shown = ", ".join(repr(name.item() if isinstance(name, np.generic) else name) for name in names[:_NAMES_SHOWN])
    plural = {"is": "are", "has": "have"}[verb]
    return f"column {shown} {verb}" if len(names) == 1 else f"columns {shown}{more} {plural}"
