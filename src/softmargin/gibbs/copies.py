r"""Rows of several copies, each with missing entries of its own.

A row of weight k stands for k rows that are alike in what was observed.  Their missing entries are k independent
unknowns: if they shared one draw, the model of the columns would count that draw k times, and learn from its own guess.
So rows with missing entries are repeated, until the weight of each copy is about 1.  Complete rows need no copies.

This is exact for integer weights.  For other weights the number of copies is rounded, and copies of weight 1 + x leave
the variance of the columns' means off by a share of up to x / 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..arrays import to_numpy
from ..chunks import Table
from ..rows import IncompleteRows, Rows

#: The most copies of a row, whose joint leave-one-out step takes a matrix of copies by copies; and the most in all:
#: so many times the rows, or this number if it is more.
_MOST_OF_A_ROW, _MOST_TIMES, _MOST = 1000, 10, 1_000_000
#: Numbers in the stacks of such matrices.
_NUMBERS_AT_ONCE = 2**20


class Copies(NamedTuple):
    """The copies in a block, those of a row in succession: the row of each within the block, where each row begins,
    and how many copies of a row make one ``unit`` of its weight, which is what leave-one-out moments leave out."""

    rows: np.ndarray
    starts: np.ndarray
    of_unit: np.ndarray

    @classmethod
    def of(cls, n_copies: np.ndarray, of_unit: np.ndarray) -> Copies:
        return cls(np.repeat(np.arange(len(n_copies)), n_copies), np.cumsum(n_copies) - n_copies, of_unit)

    def shared(self, values: np.ndarray) -> np.ndarray:
        """The weights of rows, shared by their copies."""
        return (values / np.bincount(self.rows))[self.rows]

    def units(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of equally large units, with the indices of the copies of one unit: (rows, copies)."""
        for size in np.unique(self.of_unit):
            rows = np.flatnonzero(self.of_unit == size)
            step = max(1, _NUMBERS_AT_ONCE // int(size) ** 2)
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                yield some, self.starts[some, None] + np.arange(size)


def copies_of(table: Table, rows: Rows, weight: np.ndarray, unit: np.ndarray) -> list[Copies] | None:
    """The copies in each block; None if every row is its only copy.

    A unit that weighs more than 1, as class weights make it, is several copies as well.
    """
    if not isinstance(rows, IncompleteRows):
        return None
    missing = np.isnan(to_numpy(table.X)[:, : rows.n_columns]).any(axis=1)
    of_unit = np.where(missing, _rounded(unit), 1.0)
    n_units = np.divide(weight, unit, out=np.ones(len(unit)), where=missing & (unit > 0))
    n_copies = of_unit * _rounded(n_units)
    if n_copies.max(initial=1) == 1:
        return None
    total = n_copies.sum()
    if n_copies.max() > _MOST_OF_A_ROW or total > max(_MOST_TIMES * table.n_rows, _MOST):
        raise ValueError(
            f"inference='gibbs' draws the missing entries of a row of weight k for k copies of the row: here for up to "
            f"{n_copies.max():.0f} copies of a row, and {total:.0f} rows in place of {table.n_rows}. Divide the "
            f"weights by a common factor, impute X first, or use inference='cavi', which needs no copies."
        )
    cuts = np.arange(table.block_rows, table.n_rows, table.block_rows)
    parts = (np.split(part.astype(int), cuts) for part in (n_copies, of_unit))
    return [Copies.of(*part) for part in zip(*parts, strict=True)]


def _rounded(weight: np.ndarray) -> np.ndarray:
    """The nearest number of copies, as a float, which a huge weight does not overflow."""
    return np.maximum(np.floor(weight + 0.5), 1.0)
