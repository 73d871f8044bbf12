"""Tables that are not in memory: batches of frames, encoded one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..chunks import Batch, Parquet, Source
from ..chunks.survey import MOST_ROWS, keys
from .lazily import pandas

__all__ = ["Encoded", "representative"]


class Encoded(NamedTuple):
    """A source whose rows an encoder has turned into numbers, each batch when it is read."""

    source: Source
    encoder: Any

    def items(self) -> Iterator[Any]:
        return self.source.items()

    def unpack(self, item: Any, frames: bool = False) -> Batch:
        batch = self.source.unpack(item, frames=True)
        if not len(batch.X):
            return batch
        rows = self.encoder.transform(batch.X)
        return batch._replace(X=rows, names=None if frames else tuple(self.encoder.get_feature_names_out().tolist()))


def representative(source: Source, n_rows: int = MOST_ROWS) -> Any:
    """Random rows of a source as one frame, by which to decide what becomes of its columns.

    They are those of smallest keys, as in `softmargin.chunks`: batches make no difference.
    """
    kept, first = [], 0
    for item in source.items():
        batch = source.unpack(item, frames=True)
        frame = batch.X
        if not hasattr(frame, "columns"):
            raise ValueError(
                f"A table has columns with names, and this source has rows of type {type(frame).__name__}: pass "
                f"frames, or the model itself such arrays."
            )
        key = keys(np.arange(first, first + len(frame)))
        first += len(frame)
        counts = slice(None) if batch.weight is None else np.asarray(batch.weight) != 0
        kept.append((frame[counts], key[counts]))
        if sum(len(part) for _, part in kept) > 2 * n_rows:
            kept = [_smallest(kept, n_rows)]
    if not first:
        raise ValueError("The source has no rows.")
    frame, _ = _smallest(kept, n_rows)
    return frame.reset_index(drop=True)


def _smallest(parts: list[tuple[Any, np.ndarray]], n: int) -> tuple[Any, np.ndarray]:
    """The rows of smallest keys, in their order."""
    frame = pandas().concat([part for part, _ in parts], ignore_index=True)
    key = np.concatenate([part for _, part in parts])
    if len(key) <= n:
        return frame, key
    chosen = np.sort(np.argpartition(key, n)[:n])
    return frame.iloc[chosen], key[chosen]


def by_columns(source: Source, names: Any) -> Source:
    """A source by the columns that a model knows, if these have names."""
    return source.only(list(names)) if isinstance(source, Parquet) and names is not None else source
