r"""The first reading of a source: describes its columns and labels, and draws a sample.

Rows are numbered in the order in which they are read, and each number is hashed to a pseudo-random key.  The sample
consists of the rows with the smallest keys, among all rows and in each class, so that rare classes have enough rows.
It does not depend on batches, threads or workers, nor, as files may be sorted by label, on positions in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..columns import ColumnMoments
from ..sampling import allotted
from .blocks import dense, rows_in_block
from .labels import LabelTypes
from .sources import Source
from .threads import swept

#: Size of a sample: largest numbers of rows and bytes, and the fewest rows whatever the bytes.  Each class keeps at
#: least that size divided by the last number as candidates, if it has as many rows.
MOST_ROWS, _MOST_BYTES, _LEAST_ROWS, _SHARE_OF_CLASS = 131_072, 2**28, 16_384, 16
#: Candidates are pruned when there are more than this multiple of the sample's size.
_SLACK = 2
#: Safety margin, in standard deviations, against ending with fewer candidates than wanted.
_DEVIATIONS = 8.0
#: Odd constants of SplitMix64, which mix all bits of a row's number.
_STEP, _FIRST, _SECOND = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
#: With more classes than this, the target was probably meant as a number.
_MOST_CLASSES = 10_000


class Checked(NamedTuple):
    """A checked batch: numbers, labels, and weights without class weights; rows of weight 0 have been dropped."""

    X: Any
    y: np.ndarray
    copies: np.ndarray

    def blocks(self) -> Iterator[tuple[int, Checked]]:
        """The batch in blocks, each with its first row: sparse rows are made dense one block at a time."""
        size = rows_in_block(self.X.shape[1])
        for start in range(0, len(self.y), size):
            yield start, Checked(*(part[start : start + size] for part in self))


class Kept(NamedTuple):
    """Candidate rows for the sample, with their numbers and keys."""

    X: np.ndarray
    y: np.ndarray
    copies: np.ndarray
    number: np.ndarray
    key: np.ndarray

    def rows(self, index: np.ndarray) -> Kept:
        return Kept(*(part[index] for part in self))

    @property
    def in_order(self) -> Kept:
        return self.rows(np.argsort(self.number))


class Totals(NamedTuple):
    """For each label, the number of rows and their total weight; the moments of the columns; and the number of rows."""

    labels: np.ndarray
    rows: np.ndarray
    copies: np.ndarray
    moments: ColumnMoments
    n_rows: int

    @classmethod
    def of(cls, batch: Checked) -> Totals:
        labels, codes = np.unique(batch.y, return_inverse=True)
        rows, copies = (np.bincount(codes, each, len(labels)) for each in (None, batch.copies))
        moments = reduce(ColumnMoments.merged, (ColumnMoments.of(block.X, block.copies) for _, block in batch.blocks()))
        return cls(labels, rows, copies, moments, len(batch.y))

    def merged(self, other: Totals) -> Totals:
        labels = np.union1d(self.labels, other.labels)
        if len(labels) > _MOST_CLASSES:
            raise ValueError(f"There are more than {_MOST_CLASSES:,} different labels; is the target a number?")
        rows, copies = np.zeros(len(labels)), np.zeros(len(labels))
        for part in (self, other):
            where = np.searchsorted(labels, part.labels)
            rows[where] += part.rows
            copies[where] += part.copies
        return Totals(labels, rows, copies, self.moments.merged(other.moments), self.n_rows + other.n_rows)


class Survey(NamedTuple):
    """Totals of a source, a sample in the order of the source, and the factor for each sampled row's weight."""

    totals: Totals
    sample: Kept
    growth: np.ndarray

    @property
    def is_whole(self) -> bool:
        """Whether the sample contains all rows."""
        return len(self.sample.y) == self.totals.n_rows


def sample_rows(n_columns: int) -> int:
    """The number of rows in a sample with ``n_columns`` columns."""
    return int(np.clip(_MOST_BYTES // (8 * max(n_columns, 1)), _LEAST_ROWS, MOST_ROWS))


def keys(number: np.ndarray) -> np.ndarray:
    """A distinct pseudo-random key for each row number.

    >>> keys(np.arange(3)) // np.uint64(10**16)
    array([1629,  796,   48], dtype=uint64)
    """
    z = (number.astype(np.uint64) + np.uint64(1)) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


class Reservoir:
    """Keeps the rows with the smallest keys so far, overall and in each class.

    Limits only decrease, so a row above both the overall limit and that of its class can be dropped at any time.
    """

    def __init__(self, size: int | None = None) -> None:
        self._size, self._parts, self._n = size, [], 0
        self._limit: Any = np.uint64(2**64 - 1)
        self._limits: dict[Any, Any] = {}

    @classmethod
    def near(cls, totals: Totals, size: int) -> Reservoir:
        """A reservoir with limits on keys estimated from the number of rows, overall and in each class."""
        found, most = cls(size), np.uint64(2**64 - 1)

        def limit(wanted: int, n: float) -> Any:
            # The number of keys below the limit exceeds ``wanted`` with near certainty.
            share = (wanted + _DEVIATIONS * np.sqrt(wanted)) / n
            return most if share >= 1 else np.uint64(share * 2.0**64)

        found._limit = limit(size, totals.n_rows)
        own = (limit(size // _SHARE_OF_CLASS, n) for n in totals.rows)
        found._limits = dict(zip(totals.labels.tolist(), own, strict=True))
        return found

    def candidates(self, batch: Checked, first: int) -> Kept:
        """The rows of a batch that may be part of the sample; ``first`` is the number of the batch's first row."""
        number = np.arange(first, first + len(batch.y))
        key, keep = keys(number), None
        if self._limits:
            keep = key <= self._limit
            for label, limit in list(self._limits.items()):
                keep |= (batch.y == label) & (key <= limit)
            keep |= ~np.isin(batch.y, list(self._limits))
        chosen = slice(None) if keep is None else keep
        return Kept(batch.X[chosen], batch.y[chosen], batch.copies[chosen], number[chosen], key[chosen])

    def look_at(self, batch: Checked, first: int) -> None:
        """Adds the candidates of a batch; ``first`` is the number of its first row."""
        for start, block in batch.blocks():
            self.add(self.candidates(block, first + start))

    def add(self, kept: Kept) -> None:
        """Adds candidates."""
        self._parts.append(kept._replace(X=dense(kept.X)))
        self._n += len(kept.y)
        self._size = self._size or sample_rows(kept.X.shape[1])
        if self._n > _SLACK * self._size + len(self._limits) * self._size // _SHARE_OF_CLASS:
            self._prune()

    def _prune(self) -> None:
        assert self._size is not None
        every, few = self.everything, self._size // _SHARE_OF_CLASS
        order = np.argsort(every.key)
        keep = np.zeros(len(order), dtype=bool)
        keep[order[: self._size]] = True
        if len(order) > self._size:
            self._limit = every.key[order[self._size - 1]]
        for label in np.unique(every.y).tolist():
            own = order[every.y[order] == label]
            keep[own[:few]] = True
            self._limits[label] = every.key[own[few - 1]] if len(own) >= few else np.uint64(2**64 - 1)
        self._parts, self._n = [every.rows(keep)], int(keep.sum())

    @property
    def everything(self) -> Kept:
        return Kept(*(np.concatenate(parts) for parts in zip(*self._parts, strict=True)))

    def survey(self, totals: Totals) -> Survey:
        """The sample: classes in proportion to their sizes, but with enough rows of rare ones."""
        assert self._size is not None
        if totals.n_rows <= self._size:
            kept = self.everything.in_order
            return Survey(totals, kept, np.ones(len(kept.y)))
        self._prune()
        every = self.everything
        order, chosen = np.argsort(every.key), []
        for label, count in zip(totals.labels, allotted(totals.rows.astype(int).tolist(), self._size), strict=True):
            chosen.append(order[every.y[order] == label][:count])
        kept = every.rows(np.concatenate(chosen)).in_order
        codes = np.searchsorted(totals.labels, kept.y)
        weights = np.bincount(codes, kept.copies, len(totals.labels))
        return Survey(totals, kept, (totals.copies / np.where(weights > 0, weights, 1.0))[codes])


def surveyed(source: Source, check: Callable[[Any, bool], Checked | None], n_jobs: int) -> Survey:
    """Reads a source once.  ``check`` unpacks and checks an item, and returns None if it has no rows; its second
    argument is true until an item has had rows."""
    if hasattr(source, "surveyed"):
        return source.surveyed(check)  # type: ignore[attr-defined]
    reservoir, types, totals, first = Reservoir(), LabelTypes("batch"), None, 0

    def look(item: Any) -> tuple[Totals, Checked] | None:
        batch = check(item, False)
        return None if batch is None or len(batch.y) == 0 else (Totals.of(batch), batch)

    def items() -> Any:
        named = False
        for item in source.items():
            named = named or check(item, True) is not None
            yield item

    for number, seen in enumerate(swept(look, items(), n_jobs)):
        if seen is None:
            continue
        part, batch = seen
        types.meet(part.labels, number)
        reservoir.look_at(batch, first)
        totals, first = part if totals is None else totals.merged(part), first + part.n_rows
    if totals is None:
        raise ValueError("There are no rows of positive weight to fit.")
    return reservoir.survey(totals)
