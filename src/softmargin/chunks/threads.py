"""Sweeps over blocks in threads, one BLAS thread each.

Results come in the order of the blocks, so that sums do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from threading import Lock, current_thread
from typing import TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")

#: Blocks in flight for each thread: enough to keep it busy, but not so many that results fill memory.
_AHEAD = 3
#: Prefix of the names of worker threads.
_POOL = "softmargin"


class _OneBlasThread:
    """Limits BLAS to one thread while any user is inside, and restores the setting when the last one leaves.

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
    """The loaded BLAS libraries; cached, since finding them takes longer than a small pass."""
    return ThreadpoolController()


#: A context in which BLAS uses one thread: with small matrices, several threads spend their time waiting for each
#: other, which on a busy machine takes a hundred times as long as the work.
one_blas_thread = _OneBlasThread()


def n_threads(n_jobs: int | None) -> int:
    """The number of threads for ``n_jobs``: -1 means all cores, -2 all but one; None means as many as BLAS may use, so
    that nested jobs do not oversubscribe the machine."""
    if n_jobs is None:
        allowed = [library["num_threads"] for library in _blas().info() if library["user_api"] == "blas"]
        return max(allowed) if allowed else cpu_count()  # only if needed: counting cores reads files
    return max(1, cpu_count() + 1 + n_jobs) if n_jobs < 0 else n_jobs


@lru_cache(maxsize=4)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """A pool of threads, cached: on a busy machine, starting threads takes longer than computing a small block."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix=_POOL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process inherits no threads


def sweep(function: Callable[[int], T], n_blocks: int, n_jobs: int = 1) -> Iterator[T]:
    """``function(0), function(1), ...`` in order, computed by ``n_jobs`` threads of one BLAS thread each."""
    return swept(function, range(n_blocks), 1 if n_blocks == 1 else n_jobs)


def swept(function: Callable[[S], T], items: Iterable[S], n_jobs: int = 1) -> Iterator[T]:
    """The results of ``function`` for each item in order, computed by ``n_jobs`` threads of one BLAS thread each.

    Only a few items are read ahead, so that few are in memory, however many there are.
    """
    within = current_thread().name.startswith(_POOL)  # a thread of the pool must not wait for others
    if n_jobs == 1 or within:
        with one_blas_thread:
            yield from map(function, items)
        return
    waiting: deque[Future[T]] = deque()
    pool = _pool(n_jobs)
    with one_blas_thread:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= _AHEAD * n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)
