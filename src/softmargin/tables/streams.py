"""Tables that are not in memory: batches of frames, encoded one by one."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..chunks import Batch, Parquet, Source
from ..chunks.survey import MOST_ROWS, keys
from ..validation import check_weights
from .encoder import encoded
from .frames import frame_of, names_of
from .lazily import pandas

__all__ = ["Encoded", "by_columns", "representative", "with_texts"]


class Encoded(NamedTuple):
    """A source whose rows are encoded as numbers, batch by batch, as they are read.

    ``told`` has the columns that a warning has named, so that it is given only once; without it, none is given.
    """

    source: Source
    encoder: Any
    told: set[str] | None = None

    def items(self) -> Iterator[Any]:
        return self.source.items()

    def unpack(self, item: Any, frames: bool = False) -> Batch:
        batch = self.source.unpack(item, frames=True)
        if not len(batch.X):
            return batch
        rows = encoded(self.encoder, batch.X, self._tell)
        return batch._replace(X=rows, names=None if frames else tuple(self.encoder.get_feature_names_out().tolist()))

    def _tell(self, name: str, message: str) -> None:
        if self.told is not None and name not in self.told:
            self.told.add(name)
            warnings.warn(message, stacklevel=2)


class _Part(NamedTuple):
    """Candidate rows, with the keys by which the sample is chosen, and their weights."""

    frame: Any
    key: np.ndarray
    weight: np.ndarray


def representative(source: Source, n_rows: int = MOST_ROWS) -> tuple[Any, np.ndarray | None]:
    """A random sample of a source as one frame, to decide how columns are encoded, and its weights, if any.

    It consists of the rows with the smallest keys, as in `softmargin.chunks`, and does not depend on the batches.
    """
    kept: list[_Part] = []
    first, is_weighted = 0, False
    for item in source.items():
        batch = source.unpack(item, frames=True)
        frame = frame_of(batch.X)
        if frame is None:
            raise ValueError(
                f"A table needs named columns, but this source has rows of type {type(batch.X).__name__}: pass "
                f"frames, or pass such arrays to the classifier itself."
            )
        key = keys(np.arange(first, first + len(frame)))
        first += len(frame)
        is_weighted = is_weighted or batch.weight is not None
        weight = check_weights(batch.weight, len(frame))
        kept.append(_Part(frame[weight > 0], key[weight > 0], weight[weight > 0]))
        if sum(len(part.key) for part in kept) > 2 * n_rows:
            kept = [_smallest(kept, n_rows)]
    if not first:
        raise ValueError("The source has no rows.")
    some = _smallest(kept, n_rows)
    return some.frame.reset_index(drop=True), some.weight if is_weighted else None


def _smallest(parts: list[_Part], n: int) -> _Part:
    """The ``n`` rows with the smallest keys, in their original order."""
    frame = pandas().concat([part.frame for part in parts], ignore_index=True)
    key, weight = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    if len(key) <= n:
        return _Part(frame, key, weight)
    chosen = np.sort(np.argpartition(key, n)[:n])
    return _Part(frame.iloc[chosen], key[chosen], weight[chosen])


def with_texts(source: Source, texts: str | Iterable[str]) -> Source:
    """The same source; from text files, these columns are read as strings."""
    texts = names_of(texts)
    return source.only(source.columns, True, texts) if isinstance(source, Parquet) and texts else source


def by_columns(source: Source, names: Any, texts: tuple[str, ...] = ()) -> Source:
    """A source restricted to the columns of a model, if these have names, with strings where its fit had strings."""
    return source.only(list(names), texts=texts) if isinstance(source, Parquet) and names is not None else source
