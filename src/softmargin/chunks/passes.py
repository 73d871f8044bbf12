"""Passes over all rows of a source: sums over its blocks, computed where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

from ..arrays import Array, combined
from .sources import Source
from .threads import swept

#: What a pass adds up: a function from a block's rows, labels and weights to a sum, or nested tuples of sums.
BlockSum = Callable[[Array, Array, Array], Any]


class Whole(NamedTuple):
    """Access to all rows of a source, of which those in memory are a sample.

    ``read`` turns an item of the source into rows, labels and weights.  A ``journal`` records the progress of passes.
    """

    source: Source
    read: Callable[[Any], tuple[Any, Any, Any]]
    n_rows: int
    block_rows: int
    n_jobs: int = 1
    journal: Any = None

    def total(self, block_sum: BlockSum) -> Any:
        """The sum over all blocks, added in the order of the items."""
        task = ItemSum(block_sum, self.read, self.block_rows)
        if hasattr(self.source, "total"):
            return self.source.total(task)  # type: ignore[attr-defined]
        return self.added(block_sum, lambda items: swept(task, items, self.n_jobs))

    def added(self, block_sum: BlockSum, sums: Callable[[Iterable[Any]], Iterable[Any]]) -> Any:
        """The total of ``sums``, in the order of the items; an interrupted pass resumes after its last saved item."""
        if self.journal is None:
            return summed(sums(self.source.items()))
        tag, done, total = self.journal.part_of(block_sum)
        for number, part in enumerate(sums(islice(self.source.items(), done, None)), done + 1):
            total = summed((total, part))
            self.journal.keep_part(tag, number, total)
        return total


class ItemSum(NamedTuple):
    """The sum over the blocks of one item; None if it has no rows."""

    block_sum: BlockSum
    read: Callable[[Any], tuple[Any, Any, Any]]
    block_rows: int

    def __call__(self, item: Any) -> Any:
        X, y, weight = self.read(item)
        blocks = (slice(start, start + self.block_rows) for start in range(0, len(y), self.block_rows))
        return summed(self.block_sum(X[rows], y[rows], weight[rows]) for rows in blocks)


def of_each(source: Source, task: Callable[[Any], Any], n_jobs: int = 1) -> list[Any]:
    """The results of ``task`` for every item of a source, in order."""
    if hasattr(source, "each"):
        return source.each(task)  # type: ignore[attr-defined]
    return list(swept(task, source.items(), n_jobs))


def summed(parts: Iterable[Any]) -> Any:
    """The sum of all parts that are not None, in their order; None if there are none."""
    return reduce(lambda a, b: b if a is None else a if b is None else combined(a, 1, b), parts, None)
