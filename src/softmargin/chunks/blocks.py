"""Rows in memory, in blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from array_api_compat import device

from ..arrays import Array, namespace

#: Approximate size of a block of features; larger ones cause page faults on every pass.
_BLOCK_BYTES = 4 * 2**20
_MIN_ROWS, _MAX_ROWS = 256, 8192


class Table(NamedTuple):
    """Rows in memory, dense or CSR, with their labels and weights.

    Sparse rows are made dense one block at a time; the algebra that follows is dense in any case.
    """

    X: Any
    y: Array
    weight: Array
    block_rows: int

    @classmethod
    def of(cls, X: Any, y: Array, weight: Array, n_features: int, at_least: int = 1) -> Table:
        """A table whose blocks suit rows of ``n_features`` features and have at least ``at_least`` rows."""
        return cls(X, y, weight, max(at_least, rows_in_block(max(n_features, X.shape[1]), X.dtype.itemsize)))

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.block_rows)

    @property
    def reference(self) -> Array:
        """An array of the same library and dtype as the blocks."""
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


def gather_rows(blocks: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Concatenates the arrays of consecutive blocks, entry by entry of their tuples."""
    return tuple(namespace(*arrays).concat(arrays) for arrays in zip(*blocks, strict=True))
