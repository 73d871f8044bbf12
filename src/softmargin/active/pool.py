"""Pools of rows, of any kind and size, read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

#: Entries in a block, and limits on its rows; a model's results (means, variances, probabilities) take a few times as
#: much memory.
_NUMBERS_AT_ONCE = 2**22
_LEAST_ROWS, _MOST_ROWS = 1024, 2**16


def as_pool(X: Any, name: str = "X_pool") -> Any:
    """A pool whose rows can be sliced, with at least one of them.

    >>> as_pool([[1.0, 2.0]]).shape
    (1, 2)
    """
    if scipy.sparse.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "shape"):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(f"{name} must be a table of rows and columns, got an array of shape {tuple(X.shape)}.")
    if X.shape[0] == 0:
        raise ValueError(f"{name} has no rows.")
    return X


def taken(X: Any, rows: Any) -> Any:
    """Some rows of an array, a CSR matrix or a frame: a slice, or their numbers."""
    return _safe_indexing(X, rows)


def blocks(X: Any, rows: np.ndarray, n_classes: int = 2) -> Iterator[np.ndarray]:
    """Splits row numbers, in the given order, into blocks whose rows take little memory.

    >>> [len(block) for block in blocks(np.zeros((10**5, 100)), np.arange(10**5))]
    [41943, 41943, 16114]
    """
    size = int(np.clip(_NUMBERS_AT_ONCE // max(X.shape[1], n_classes, 1), _LEAST_ROWS, _MOST_ROWS))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def block_of(X: Any, rows: np.ndarray) -> Any:
    """The given rows, which are in ascending order; consecutive ones are sliced, not copied."""
    first, last = int(rows[0]), int(rows[-1])
    return taken(X, slice(first, last + 1) if last - first + 1 == len(rows) else rows)


def allowed_rows(exclude: Any, n_rows: int) -> np.ndarray:
    """The rows that may be chosen, in order: all except those excluded by number or by a mask.

    >>> allowed_rows([1, -1], 4)
    array([0, 2])
    """
    if exclude is None:
        return np.arange(n_rows)
    exclude = np.asarray(exclude)
    if exclude.dtype == bool and exclude.shape != (n_rows,):
        raise ValueError(f"exclude must have an entry for each of the {n_rows} rows, got shape {exclude.shape}.")
    if exclude.dtype != bool:
        exclude = row_numbers("exclude", exclude, n_rows)
    allowed = np.ones(n_rows, dtype=bool)
    allowed[exclude] = False
    return np.flatnonzero(allowed)


def row_numbers(name: str, value: Any, n_rows: int) -> np.ndarray:
    """Numbers of rows of the pool, after checks."""
    rows = np.asarray(value)
    if rows.ndim != 1 or (rows.dtype.kind not in "iu" and len(rows)):
        raise ValueError(f"{name} must be row numbers, got {value!r}.")
    wrong = rows[(rows < -n_rows) | (rows >= n_rows)]
    if len(wrong):
        raise ValueError(f"{name} has row {wrong[0]}, but X_pool has {n_rows} rows.")
    return rows.astype(np.intp) % n_rows


def last_step(model: Any, X: Any) -> tuple[Any, Any]:
    """The classifier at the end of a pipeline, and the rows transformed by the steps before it."""
    if not isinstance(model, Pipeline):
        return model, X
    return model[-1], (model[:-1].transform(X) if len(model) > 1 else X)
