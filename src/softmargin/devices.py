"""Passes over rows on a GPU: where rows are stored, and how they and the results are transferred.

Rows that fit are stored on the device as one table, and so are their features if there is room. Others stay on the
host, in pinned memory, and are sent in blocks, each while the one before is processed. The computations in between use
the namespace of their arrays and do not depend on any of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_torch_array

from .arrays import Array, to_numpy
from .chunks import Table, Whole, dense, gather_rows, summed, swept
from .chunks.passes import BlockSum, ItemSum
from .chunks.survey import MOST_ROWS
from .engine import Problem
from .extras import needed
from .loo import thinned
from .rows import ClasswiseRows, InducingRows

PRECISIONS = ("auto", "float32", "tf32", "float64")
#: A block of features on a device, in bytes and in rows: large enough that launching takes less time than computing.
_BLOCK_BYTES, _BLOCK_ROWS = 2**28, (4096, 2**20)
#: The shares of a device's free memory that rows and features may take.
_ROWS_SHARE, _FEATURES_SHARE = 0.4, 0.4


class Place(NamedTuple):
    """A device, and the precision of matrix products on it."""

    device: Any
    dtype: Any
    short: bool = False
    memory: float | None = None

    @classmethod
    def of(cls, device: Any, precision: str, X: Any = None) -> Place | None:
        """The place for these parameters and rows, which may be tensors; None is the host, with NumPy."""
        tensor: Any = X if is_torch_array(X) else None
        if device is None and tensor is None:
            if precision == "tf32":
                raise ValueError("precision='tf32' requires a graphics processor: pass device='cuda'.")
            return None
        torch: Any = needed("torch", "torch", "A device")
        try:
            there = tensor.device if device is None else torch.device(device)
            torch.empty(0, device=there)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise ValueError(f"device={device!r} cannot be used: {str(error).splitlines()[0]}") from error
        if precision == "auto":
            dtype = torch.float64 if tensor is not None and tensor.dtype == torch.float64 else torch.float32
        else:
            dtype = torch.float64 if precision == "float64" else torch.float32
        return cls(there, dtype, precision == "tf32")

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def room(self) -> float:
        """Free memory of the device, in bytes."""
        if self.memory is not None:
            return self.memory
        if not self.is_cuda:
            return float("inf")
        import torch

        return float(torch.cuda.mem_get_info(self.device)[0])

    def put(self, values: Any, dtype: Any = None) -> Any:
        """An array on the device, in the precision of products unless another dtype is given."""
        import torch

        values = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        return values.to(device=self.device, dtype=dtype or self.dtype)

    def block_rows(self, width: int) -> int:
        return int(np.clip(_BLOCK_BYTES // (max(width, 1) * self.dtype.itemsize), *_BLOCK_ROWS))

    def rows_for(self, rows: Any) -> Any:
        """The same rows, with as much jitter in the factor of their points as the precision requires."""
        if isinstance(rows, ClasswiseRows):
            return rows._replace(rows=self.rows_for(rows.rows))
        if isinstance(rows, InducingRows) and rows.points.dtype.itemsize > self.dtype.itemsize:
            return rows.seen_with(float(np.finfo(np.float32).eps))
        return rows

    def table(self, table: Table, width: int) -> Table:
        """A table on the device; labels and weights in double precision."""
        import torch

        y, weight = (self.put(part, torch.float64) for part in (table.y, table.weight))
        return Table(self.put(dense(table.X)), y, weight, self.block_rows(max(width, table.X.shape[1])))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Sets the precision of products, and restores the settings of the process afterwards."""
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.short else "highest")
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_float32_matmul_precision(before)


def placed(problem: Problem, unit: np.ndarray, place: Place) -> tuple[Problem, np.ndarray]:
    """The same problem on a device, and the weight of one copy of each row of its table."""
    rows, width = _placed_rows(problem.rows, place), problem.rows.width
    room, n_rows = place.room, problem.table.n_rows
    bytes_of_rows = n_rows * (problem.table.X.shape[1] * place.dtype.itemsize + 16)
    whole: Any = None
    if problem.whole is not None and hasattr(problem.whole.source, "total"):
        raise ValueError("Sums over the rows of a Dask collection are computed by its workers: leave device as None.")
    if problem.whole is not None:
        whole = Sent(problem.whole, place, place.block_rows(width))
    elif bytes_of_rows > _ROWS_SHARE * room:
        whole = Pinned.of(problem.table, place, place.block_rows(width))
        problem, unit = thinned(problem, unit, MOST_ROWS)
    table = place.table(problem.table, width)
    cache = int(_FEATURES_SHARE * room) if place.is_cuda else None
    there = replace(problem, table=table, rows=rows, whole=whole, cache_bytes=cache, n_jobs=1, _kept={}, _some=None)
    return there, unit


def _placed_rows(rows: Any, place: Place) -> Any:
    """Inducing rows with their arrays on the device; other rows have small arrays, and send them with every block."""
    if isinstance(rows, ClasswiseRows):
        return rows._replace(rows=_placed_rows(rows.rows, place))
    if isinstance(rows, InducingRows):
        return rows._replace(points=place.put(rows.points), whitener=place.put(rows.whitener))
    return rows


def moments_there(view: Any, X: Any, place: Place, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The latent moments of rows, computed by a view on the device and returned on the host."""
    size = place.block_rows(max(width, X.shape[1]))
    cuts = (slice(start, start + size) for start in range(0, X.shape[0], size))
    mu, v = gather_rows(on_host(view.moments(place.put(dense(X[cut])))) for cut in cuts)
    return mu, v


def on_host(value: Any) -> Any:
    """The same value with tensors, also in nested tuples, as NumPy arrays."""
    if is_torch_array(value):
        return to_numpy(value)
    if isinstance(value, tuple):
        parts = map(on_host, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def beside(answer: Any, X: Any) -> Any:
    """Numerical arrays as tensors on the device of ``X``; others as they are."""
    import torch

    if isinstance(answer, tuple):
        return tuple(beside(part, X) for part in answer)
    return torch.as_tensor(answer).to(X.device) if answer.dtype.kind in "fiub" else answer


class Pinned(NamedTuple):
    """A table in pinned memory of the host, from which a device reads blocks."""

    X: Any
    y: Any
    weight: Any
    n_rows: int
    block_rows: int
    place: Place

    @classmethod
    def of(cls, table: Table, place: Place, block_rows: int) -> Pinned:
        import torch

        def pinned(values: Any, dtype: Any) -> Any:
            tensor = torch.as_tensor(np.ascontiguousarray(to_numpy(values))).to(dtype)
            return tensor.pin_memory() if place.is_cuda else tensor

        weight = pinned(table.weight, _dtype_of_weights(to_numpy(table.weight)))
        return cls(
            pinned(dense(table.X), place.dtype), pinned(table.y, torch.int32), weight, table.n_rows, block_rows, place
        )

    def total(self, block_sum: BlockSum) -> Any:
        """The sum over all blocks."""
        starts = range(0, self.n_rows, self.block_rows)
        cuts = (slice(start, start + self.block_rows) for start in starts)
        blocks = ((self.X[cut], self.y[cut], self.weight[cut]) for cut in cuts)
        return summed(block_sum(*block) for block in travelling(blocks, self.place))


class Sent(NamedTuple):
    """All rows of a source, read by threads on the host and sent to a device."""

    whole: Whole
    place: Place
    block_rows: int

    @property
    def n_rows(self) -> int:
        return self.whole.n_rows

    def total(self, block_sum: BlockSum) -> Any:
        import torch

        def read(item: Any) -> tuple[Any, ...]:
            X, y, weight = self.whole.read(item)
            block = (
                torch.from_numpy(np.ascontiguousarray(dense(X))).to(self.place.dtype),
                torch.from_numpy(y).to(torch.int32),
                torch.from_numpy(weight).to(_dtype_of_weights(weight)),
            )
            return tuple(part.pin_memory() for part in block) if self.place.is_cuda else block

        task = ItemSum(block_sum, lambda block: block, self.block_rows)

        def sums(items: Iterable[Any]) -> Iterator[Any]:
            return map(task, travelling(swept(read, items, self.whole.n_jobs), self.place))

        return self.whole.added(block_sum, sums)


def _dtype_of_weights(weight: np.ndarray) -> Any:
    """Single precision if it represents all weights exactly, so that fewer bytes are sent."""
    import torch

    return torch.float32 if np.array_equal(weight.astype(np.float32), weight) else torch.float64


def travelling(blocks: Iterable[tuple[Any, ...]], place: Place) -> Iterator[tuple[Array, Array, Array]]:
    """Blocks of rows, labels and weights on a device; each is sent while the one before is processed."""
    import torch

    def widened(X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
        return X, y.to(torch.float64), weight.to(torch.float64)

    if not place.is_cuda:
        yield from (widened(*(part.to(place.device) for part in block)) for block in blocks)
        return
    way, work = torch.cuda.Stream(place.device), torch.cuda.current_stream(place.device)
    ahead: tuple[Any, ...] | None = None
    for block in blocks:
        with torch.cuda.stream(way):
            sent = tuple(part.to(place.device, non_blocking=True) for part in block)
        here, ahead = ahead, (sent, way.record_event())
        if here is not None:
            yield widened(*_arrived(here, work))
    if ahead is not None:
        yield widened(*_arrived(ahead, work))


def _arrived(sent: tuple[Any, ...], work: Any) -> tuple[Any, ...]:
    """The arrays that were sent; the stream that processes them waits for their arrival."""
    parts, event = sent
    work.wait_event(event)
    for part in parts:
        part.record_stream(work)
    return parts
