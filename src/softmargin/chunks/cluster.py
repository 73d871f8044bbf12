"""Rows in the partitions of Dask, on this machine or on a cluster.

Partitions stay where they are: a belief is sent to them, and sums come back, reduced in a tree of tasks.  The shape of
the tree depends only on the number of partitions, so retries, duplicated tasks and lost workers change nothing, not
even the last digit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from numbers import Real
from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from ..extras import needed
from ..parameters import meant
from .labels import LabelTypes
from .passes import summed
from .sources import Batch
from .survey import Checked, Kept, Reservoir, Survey, Totals, sample_rows

#: Number of partial sums added by one task.
_BRANCHES = 8


class Partitions(NamedTuple):
    """The partitions of a Dask array or frame, with those of labels and weights.

    References to the collections are kept as well, since workers keep persisted data only while these exist.
    """

    X: tuple[Any, ...]
    y: tuple[Any, ...]
    weight: tuple[Any, ...]
    collections: tuple[Any, ...] = ()

    @classmethod
    def of(cls, X: Any, y: Any = None, weight: Any = None) -> Partitions:
        named = [name for name in (y, weight) if isinstance(name, str)]
        known = list(getattr(X, "columns", ()))
        unknown = [name for name in named if name not in known]
        if unknown:
            raise ValueError(f"There is no column {unknown[0]!r}: {meant(unknown[0], known)}")
        if getattr(X, "ndim", 0) != 2:
            raise ValueError(
                f"X is a Dask {type(X).__name__}, not a table of rows and columns: pass a frame, or an array of "
                f"two dimensions."
            )
        parts = _partitions(X, "X")
        beside = _beside(X, parts, y, "y"), _beside(X, parts, weight, "sample_weight")
        if len({len(parts), *map(len, beside)}) > 1:  # Dask merges small files where few columns are read
            parts = _partitions(X, "X", as_given=True)
            beside = _beside(X, parts, y, "y", True), _beside(X, parts, weight, "sample_weight", True)
            _refuse_other_cuts(len(parts), y=len(beside[0]), sample_weight=len(beside[1]))
        if named:
            without = _dask().delayed(_without, pure=False)
            parts = tuple(without(part, named) for part in parts)
        return cls(parts, *beside, collections=(X, y, weight))

    @property
    def _parts(self) -> list[tuple[Any, ...]]:
        return list(zip(self.X, self.y, self.weight, strict=True))

    def items(self) -> Iterator[Any]:
        """The partitions, computed one after the other."""
        dask = _dask()
        return (dask.compute(*item) for item in self._parts)

    @staticmethod
    def unpack(item: Any, frames: bool = False) -> Batch:
        return Batch(*item)

    def each(self, task: Callable[[Any], Any]) -> list[Any]:
        """The result of ``task`` for every partition."""
        return _computed(self._mapped(task))

    def total(self, task: Callable[[Any], Any]) -> Any:
        """The sum of ``task`` over all partitions, added up by the workers."""
        return _computed(_tree(self._mapped(task), summed))[0]

    def surveyed(self, check: Callable[[Any, bool], Checked | None]) -> Survey:
        """`survey.surveyed` in two steps: with totals known first, little more than the sample is transferred."""
        check(self._first_rows(), True)
        totals_of_each = self.each(_Totals(check))
        totals = _merged(totals_of_each)
        if totals is None:
            raise ValueError("There are no rows of positive weight to fit.")
        sizes = [0 if part is None else part.n_rows for part in totals_of_each]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        reservoir = Reservoir.near(totals, sample_rows(len(totals.moments.mean)))
        delayed = _dask().delayed
        look = delayed(_Candidates(check, reservoir), pure=False)
        parts = [look(item, int(number)) for item, number in zip(self._parts, first, strict=True)]
        for kept in _computed(parts):
            if kept is not None:
                reservoir.add(kept)
        return reservoir.survey(totals)

    def _mapped(self, task: Callable[[Any], Any]) -> list[Any]:
        one = _dask().delayed(task, pure=False)
        return [one(item) for item in self._parts]

    def _first_rows(self) -> Any:
        """The first row, for a check of names and types."""
        head = _dask().delayed(_head, pure=False)
        for item in self._parts:
            (found,) = _computed([head(item)])
            if found is not None:
                return found
        raise ValueError("There are no rows to fit.")


class _Totals(NamedTuple):
    check: Callable[[Any, bool], Checked | None]

    def __call__(self, item: Any) -> Totals | None:
        batch = self.check(item, False)
        return Totals.of(batch) if batch is not None and len(batch.y) else None


class _Candidates(NamedTuple):
    check: Callable[[Any, bool], Checked | None]
    reservoir: Reservoir

    def __call__(self, item: Any, first: int) -> Kept | None:
        batch = self.check(item, False)
        return None if batch is None else self.reservoir.candidates(batch, first)


def mapped(model: Any, method: str, X: Any, shapes: list[tuple[int, ...]], dtype: Any) -> Any:
    """The results of a fitted model's method for the partitions of ``X``, as Dask arrays that are not computed yet.

    ``shapes`` are the shapes of a row's results, one for each array that the method returns.
    """
    dask, array = _dask(), needed("dask.array", "dask", "Predicting Dask partitions")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and set(names) < set(getattr(X, "columns", ())):
        X = X[list(names)]  # labels may still be among the columns
    there = dask.delayed(model, pure=False)
    chunks = X.chunks[0] if hasattr(X, "chunks") else [math.nan] * X.npartitions
    answers = [dask.delayed(_answer, pure=False)(there, method, part) for part in _partitions(X, "X")]
    found = []
    for index, shape in enumerate(shapes):
        own = [answer[index] for answer in answers]
        parts = [array.from_delayed(a, (n, *shape), dtype=dtype) for a, n in zip(own, chunks, strict=True)]
        found.append(array.concatenate(parts, allow_unknown_chunksizes=True))
    return found[0] if len(found) == 1 else tuple(found)


def _answer(model: Any, method: str, rows: Any) -> tuple[Any, ...]:
    if rows.shape[0] == 0:
        kind = model.classes_.dtype if method == "predict" else np.float64
        return tuple(np.empty((0, *shape), dtype=kind) for shape in model._shape_of_row(method))
    answer = getattr(model, method)(rows)
    return answer if isinstance(answer, tuple) else (answer,)


def _dask() -> Any:
    return needed("dask", "dask", "A Dask collection")


def _partitions(X: Any, name: str, as_given: bool = False) -> tuple[Any, ...]:
    """The partitions, as given or as Dask's optimiser arranges them."""
    if hasattr(X, "rechunk") and X.ndim == 2 and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if not hasattr(X, "to_delayed"):
        raise TypeError(
            f"{name} is a {type(X).__name__}, but X is a Dask collection: it must be a Dask array or series too."
        )
    return tuple(np.asarray(X.to_delayed(optimize_graph=not as_given), dtype=object).ravel().tolist())


def _beside(X: Any, parts: tuple[Any, ...], other: Any, name: str, as_given: bool = False) -> tuple[Any, ...]:
    """The partitions of labels or weights, to match those of the rows; None or one number stands for all of them."""
    if other is None or isinstance(other, Real):
        return (other,) * len(parts)
    if isinstance(other, str):  # taken from the same partitions: for a single column, Dask may split files differently
        column = _dask().delayed(getitem, pure=False)
        return tuple(column(part, other) for part in parts)
    if getattr(other, "ndim", 1) == 2 and other.shape[1] == 1:
        other = other.iloc[:, 0] if hasattr(other, "iloc") else other[:, 0]
    n, own_n = _n_rows(X), _n_rows(other)
    if getattr(other, "ndim", 1) != 1 or not (math.isnan(n) or math.isnan(own_n) or n == own_n):
        shape = tuple(size if isinstance(size, int) else "?" for size in other.shape)
        raise ValueError(f"X has {n:,} rows, but {name} has shape {shape}: there must be one entry per row.")
    if hasattr(other, "rechunk") and hasattr(X, "chunks") and not math.isnan(n + own_n):
        other = other.rechunk((X.chunks[0],))
    return _partitions(other, name, as_given)


def _refuse_other_cuts(n: int, **others: int) -> None:
    for name, own in others.items():
        if own != n:
            raise ValueError(f"X has {n} partitions, but {name} has {own}: they must be partitioned in the same way.")


def _without(frame: Any, names: list[str]) -> Any:
    return frame.drop(columns=names)


def _n_rows(part: Any) -> float:
    """The number of rows; NaN if it is unknown until computed."""
    n = part.shape[0] if hasattr(part, "shape") else math.nan
    return n if isinstance(n, (int, float)) else math.nan


def _head(item: Any) -> Any:
    if item[0].shape[0] == 0:
        return None
    return tuple(part if part is None or isinstance(part, Real) else part[:1] for part in item)


def _merged(parts: list[Totals | None]) -> Totals | None:
    total, types = None, LabelTypes("partition")
    for number, part in enumerate(parts):
        if part is not None:
            types.meet(part.labels, number)
        total = part if total is None else total if part is None else total.merged(part)
    return total


def _tree(parts: list[Any], together: Callable[[list[Any]], Any]) -> list[Any]:
    """One task that combines all parts, through a tree of tasks that take a few each."""
    join = _dask().delayed(together, pure=False)
    while len(parts) > 1:
        parts = [join(parts[start : start + _BRANCHES]) for start in range(0, len(parts), _BRANCHES)]
    return parts


def _computed(parts: list[Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")  # because of the belief: some megabytes
        return list(_dask().compute(*parts))
