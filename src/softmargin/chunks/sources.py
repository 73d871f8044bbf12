"""Sources of rows that are not in memory, read a batch at a time.

A source can be read repeatedly, always in the same order.  `source_of` recognises sources among the arguments of
``fit`` and ``predict``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike, fspath
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

#: Rows of a batch where the source leaves the choice: some megabytes.
BATCH_ROWS = 65_536


class Batch(NamedTuple):
    """Some rows, with labels and weights if any; ``names`` are the column names of rows converted to an array."""

    X: Any
    y: Any = None
    weight: Any = None
    names: tuple[str, ...] | None = None


@runtime_checkable
class Source(Protocol):
    """Rows that can be read repeatedly: items are read one by one, and unpacked in threads."""

    def items(self) -> Iterator[Any]:
        """The items of the source, read one after the other."""
        ...

    def unpack(self, item: Any, frames: bool = False) -> Batch:
        """The rows of an item: as an array where that is possible, unless frames are wanted."""
        ...


class Arrays(NamedTuple):
    """Arrays that need not be in memory: memory maps, or any object with a shape whose row slices are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import BayesianSVC, chunks
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> rows = chunks.Arrays(X, X[:, 0] > 0, batch_rows=100)
    >>> bool(BayesianSVC(random_state=0).fit(rows).score(X, X[:, 0] > 0) > 0.95)
    True
    """

    X: Any
    y: Any = None
    weight: Any = None
    batch_rows: int = BATCH_ROWS

    def items(self) -> Iterator[slice]:
        n = self.X.shape[0]
        for name, other in (("y", self.y), ("sample_weight", self.weight)):
            if other is not None and len(other) != n:
                raise ValueError(f"X has {n} rows, but {name} has {len(other)} entries: there must be one per row.")
        return (slice(start, min(start + self.batch_rows, n)) for start in range(0, n, self.batch_rows))

    def unpack(self, item: slice, frames: bool = False) -> Batch:
        return Batch(*(None if part is None else part[item] for part in (self.X, self.y, self.weight)))


class Batches:
    """Batches of ``(X, y)`` or ``(X, y, weight)`` from anything that can be iterated over repeatedly.

    For predictions, which need no labels, a batch may also be ``X`` alone.

    Parameters
    ----------
    batches : list, or other object that can be iterated over repeatedly; or a function that returns a new iterator

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import BayesianLinearSVC, chunks
    >>> def batches():
    ...     for seed in range(5):
    ...         X = np.random.default_rng(seed).normal(size=(100, 2))
    ...         yield X, X[:, 0] > 0
    >>> model = BayesianLinearSVC().fit(chunks.Batches(batches))
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]])
    array([ True, False])
    >>> model.predict(chunks.Batches([np.array([[2.0, 0.0]]), np.array([[-2.0, 0.0]])]))
    array([ True, False])
    """

    def __init__(self, batches: Any) -> None:
        if not callable(batches) and hasattr(batches, "__next__"):
            raise TypeError(
                "These batches can be iterated over only once, but a fit reads its rows several times; pass a list, or "
                "the function that creates them: chunks.Batches(function)."
            )
        self.batches: Any = batches

    def items(self) -> Iterator[Any]:
        batches: Any = self.batches() if callable(self.batches) else self.batches
        return iter(batches)

    def unpack(self, item: Any, frames: bool = False) -> Batch:
        if isinstance(item, Batch):
            return item
        if _is_table(item):
            return Batch(item)
        if not isinstance(item, (tuple, list)) or not 1 <= len(item) <= 3:
            shape = getattr(item, "shape", None)
            raise ValueError(
                f"A batch must be (X, y) or (X, y, weight), or X alone for predictions, got {type(item).__name__}"
                f"{'' if shape is None else f' of shape {tuple(shape)}'}; if this was meant as a table, fit requires "
                f"y to be passed, but the target y is None."
            )
        if len(item) > 1 and _is_table(item[1]) and item[1].shape[1] > 1:
            raise ValueError(
                f"The labels of a batch have {item[1].shape[1]} columns. If these are rows to predict, pass them as a "
                f"batch of their own."
            )
        return Batch(*item)


def source_of(X: Any, y: Any = None, weight: Any = None) -> Source | None:
    """The argument of ``fit`` or ``predict`` as a source; None for a table in memory."""
    for is_kind, kind in _KINDS:
        if is_kind(X, y):
            return kind(X, y, weight)
    return None


def kind_of_source(X: Any, y: Any = None) -> str | None:
    """A description of ``X``, for messages, if it is a source and not an array; otherwise None."""
    if isinstance(X, np.memmap) or not any(is_kind(X, y) for is_kind, _ in _KINDS):
        return None
    if isinstance(X, (str, PathLike)):
        return f"the path {fspath(X)!r}"
    return f"a source of rows ({type(X).__module__.partition('.')[0]}'s {type(X).__name__})"


def _as_it_is(source: Any, y: Any, weight: Any) -> Any:
    if y is not None or weight is not None:
        raise ValueError(f"{type(source).__name__} already holds labels and weights: pass it alone.")
    return source


def _of_arrays(X: Any, y: Any, weight: Any) -> Arrays:
    return Arrays(X, y, np.full(X.shape[0], float(weight)) if isinstance(weight, (int, float)) else weight)


def _of_files(X: Any, y: Any, weight: Any) -> Any:
    from .parquet import Parquet

    return Parquet(X, target=y, weight=weight)


def _of_cluster(X: Any, y: Any, weight: Any) -> Any:
    from .cluster import Partitions

    return Partitions.of(X, y, weight)


def _of_batches(X: Any, y: Any, weight: Any) -> Batches:
    if weight is not None:
        raise ValueError("Batches hold their own weights, as (X, y, weight): pass them alone.")
    return Batches(X)


def _is_of(package: str) -> Callable[[Any, Any], bool]:
    """A test of whether an object's class is from a package, which need not be installed."""
    return lambda X, y: type(X).__module__.partition(".")[0] == package


def _is_dataset(X: Any, y: Any) -> bool:
    return type(X).__module__ == "pyarrow._dataset" or isinstance(X, (str, PathLike))


def _is_batches(X: Any, y: Any) -> bool:
    """Whether ``X`` consists of batches: iterable, no table, without ``y``.  Lists of lists of numbers are tables."""
    if y is not None or not hasattr(X, "__iter__"):
        return False
    if any(hasattr(X, name) for name in ("shape", "columns", "__array__", "__dataframe__", "schema")):
        return False
    return not (isinstance(X, (list, tuple)) and (len(X) == 0 or not _is_batch(X[0])))


def _is_table(item: Any) -> bool:
    """Whether an object is an array, matrix or frame of rows and columns."""
    return len(getattr(item, "shape", ())) == 2


def _is_batch(item: Any) -> bool:
    if _is_table(item) or isinstance(item, Batch):
        return True
    return isinstance(item, (tuple, list)) and len(item) in (2, 3) and np.ndim(getattr(item[0], "values", item[0])) == 2


_KINDS: tuple[tuple[Callable[[Any, Any], bool], Callable[[Any, Any, Any], Any]], ...] = (
    (lambda X, y: isinstance(X, Source), _as_it_is),
    (lambda X, y: isinstance(X, np.memmap), _of_arrays),
    (_is_dataset, _of_files),
    (_is_of("dask"), _of_cluster),
    (_is_of("dask_expr"), _of_cluster),
    (_is_batches, _of_batches),
)
