"""Blocks of rows, and sweeps over them.

A `Table` cuts rows into blocks that fit the cache; `sweep` runs a function over the blocks in threads,
one BLAS thread each, and yields the results in the order of the blocks, so that sums do not depend on
the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from threading import Lock, current_thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
from array_api_compat import device
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from .arrays import Array, namespace

T = TypeVar("T")

#: A block of features takes about this much: larger ones fault in fresh memory on every pass.
_BLOCK_BYTES = 4 * 2**20
_MIN_ROWS, _MAX_ROWS = 256, 8192
#: Blocks in flight for each thread: enough to keep it busy, few enough to keep results few.
_AHEAD = 3
#: How the names of threads over blocks begin.
_POOL = "softmargin"


class Table(NamedTuple):
    """Rows in memory, dense or CSR, with their labels and weights.

    Sparse blocks are made dense one at a time: the algebra behind them is dense in any case.
    """

    X: Any
    y: Array
    weight: Array
    block_rows: int

    @classmethod
    def of(cls, X: Any, y: Array, weight: Array, n_features: int, at_least: int = 1) -> Table:
        """A table in blocks that suit rows of ``n_features`` features, of at least so many rows."""
        return cls(X, y, weight, max(at_least, rows_in_block(max(n_features, X.shape[1]), X.dtype.itemsize)))

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.block_rows)

    @property
    def reference(self) -> Array:
        """An array of the library and dtype of the blocks."""
        return dense(self.X[:1])

    def rows(self, index: np.ndarray) -> Table:
        """Some of the rows, as a table of their own."""
        return self._replace(X=_taken(self.X, index), y=_taken(self.y, index), weight=_taken(self.weight, index))

    def block(self, index: int) -> tuple[Array, Array, Array]:
        rows = slice(index * self.block_rows, (index + 1) * self.block_rows)
        return dense(self.X[rows]), self.y[rows], self.weight[rows]


def rows_in_block(width: int, itemsize: int = 8) -> int:
    """How many rows of ``width`` numbers of ``itemsize`` bytes make a block that fits the cache."""
    return int(np.clip(_BLOCK_BYTES // (max(width, 1) * itemsize), _MIN_ROWS, _MAX_ROWS))


def _taken(A: Any, index: np.ndarray) -> Any:
    if scipy.sparse.issparse(A):
        return A[index]
    xp = namespace(A)
    return xp.take(A, xp.asarray(index, device=device(A)), axis=0)


def dense(X: Any) -> Array:
    """A block as a dense array."""
    return X.toarray() if scipy.sparse.issparse(X) else X


class _OneBlasThread:
    """Holds BLAS to one thread while anybody needs it, and puts back what was there when the last one leaves.

    BLAS threads are a setting of the whole process, so fits in several threads share one limit.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._limit = Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._limit = _blas().limit(limits=1, user_api="blas")
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._limit is not None:
                self._limit.restore_original_limits()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """The loaded BLAS libraries; looking for them takes longer than a small pass."""
    return ThreadpoolController()


#: A context in which BLAS uses one thread: several spend their time waiting for each other over small matrices,
#: and on a busy machine that is a hundred times the work.
one_blas_thread = _OneBlasThread()


def n_threads(n_jobs: int | None) -> int:
    """``n_jobs`` as a count: -1 is all cores, -2 all but one; None as many as BLAS may use, so that jobs within jobs
    do not crowd the machine."""
    if n_jobs is None:
        return max(
            (library["num_threads"] for library in _blas().info() if library["user_api"] == "blas"), default=cpu_count()
        )
    return max(1, cpu_count() + 1 + n_jobs) if n_jobs < 0 else n_jobs


@lru_cache(maxsize=4)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """So many threads, which are kept: on a busy machine they take longer to start than a small block to compute."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix=_POOL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process inherits no threads


def sweep(function: Callable[[int], T], n_blocks: int, n_jobs: int = 1) -> Iterator[T]:
    """``function(0), function(1), ...`` in order, computed by ``n_jobs`` threads of one BLAS thread each."""
    within = current_thread().name.startswith(_POOL)  # who waits for threads of the pool must not be one of them
    if n_jobs == 1 or n_blocks == 1 or within:
        with one_blas_thread:
            yield from map(function, range(n_blocks))
        return
    waiting: deque[Future[T]] = deque()
    pool = _pool(n_jobs)
    with one_blas_thread:
        try:
            for index in range(n_blocks):
                waiting.append(pool.submit(function, index))
                if len(waiting) >= _AHEAD * n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)


def gather_rows(blocks: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Whole arrays from the tuples of arrays of consecutive blocks."""
    return tuple(namespace(*arrays).concat(arrays) for arrays in zip(*blocks, strict=True))
