"""Rows in Parquet and other files that Arrow reads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..parameters import meant
from .files import (
    agreed_schema,
    arrow,
    arrow_dataset,
    empty_entries,
    fragments_of,
    index_columns,
    kind_of,
    located,
    unreadable,
)
from .sources import BATCH_ROWS, Batch
from .texts import refuse_twice, text_format, tidy

#: Batches and files to read ahead; Arrow's defaults take gigabytes.
_BATCHES_AHEAD, _FILES_AHEAD = 2, 1


class Parquet:
    """A table in Parquet, Feather or CSV files, or an Arrow dataset.

    Parameters
    ----------
    path : path of a file or folder, pattern such as ``"rows/*.parquet"``, list of paths, or `pyarrow.dataset.Dataset`
    target : str, optional
        The column with the labels; required for ``fit``.
    columns : sequence of str, optional
        The columns to use as features; by default all except labels, weights, and an index written by pandas.
    weight : str, optional
        The column with the weights.
    batch_rows : int
        Maximum number of rows unpacked at once.
    format : str
        Format of the files, as in `pyarrow.dataset.dataset`; by default inferred from suffixes (``.parquet``,
        ``.feather``, ``.arrow``, ``.ipc``, ``.csv``, ``.tsv``, ``.txt``, ``.csv.gz``), and Parquet for files without
        a known one.
    texts : sequence of str
        Columns of text files that are read as strings: 007 is a string, not seven.

    Notes
    -----
    All files must have the columns that are read.  If their types differ, numbers are read in the widest type.
    Text files are read as by `softmargin.tables.read_table`, with separators, encoding and missing values as detected
    in the first file.  Spaces around column names are removed.

    Examples
    --------
    >>> import tempfile, numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from softmargin import BayesianLinearSVC, chunks
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> folder = tempfile.TemporaryDirectory()
    >>> pq.write_table(pa.table({"x": x, "noise": x**2, "y": x > 0}), f"{folder.name}/rows.parquet")
    >>> rows = chunks.Parquet(f"{folder.name}/*.parquet", target="y", columns=["x"])
    >>> model = BayesianLinearSVC().fit(rows)
    >>> model.feature_names_in_.tolist(), model.predict_proba(rows).shape
    (['x'], (1000, 2))
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: Any,
        target: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        batch_rows: int = BATCH_ROWS,
        format: str = "auto",  # noqa: A002
        texts: Sequence[str] = (),
    ) -> None:
        for name, value in (("target", target), ("weight", weight)):
            if value is not None and not isinstance(value, str):
                raise TypeError(
                    f"{name} must be the name of a column of the files, got {type(value).__name__}; to pass it "
                    f"separately, use chunks.Batches."
                )
        self.target, self.weight, self.batch_rows, self.format = target, weight, batch_rows, format
        self.path, self.texts = path, tuple(texts)
        self._schema: Any = None
        with self._naming_twice():
            schema = self.dataset.schema
        self._has_texts = self._is_text
        refuse_twice(schema.names, repr(str(path)) if isinstance(path, (str, os.PathLike)) else "The table")
        self._written = {name.strip(): name for name in schema.names}
        names, aside = list(self._written), (target, weight, *index_columns(schema))
        used = [name for name in names if name not in aside] if columns is None else list(columns)
        self.columns = tuple(used)
        if target in used or len(set(used)) < len(used) or not used or isinstance(columns, str):
            raise ValueError(f"columns must be a list of distinct columns without the target, got {columns!r}.")
        missing = [name for name in self._wanted if name not in names]
        if missing:
            listed = ", ".join(map(repr, missing))
            raise ValueError(f"The files have no column {listed}: {meant(missing[0], names)}")
        with self._naming_twice():
            self._schema = agreed_schema(self.dataset, self._wanted_as_written, strict=self._found_here)
        self._refuse_other_encodings()

    @property
    def _wanted(self) -> list[str]:
        """All columns that are read."""
        return [name for name in dict.fromkeys((*self.columns, self.target, self.weight)) if name is not None]

    @property
    def _wanted_as_written(self) -> list[str]:
        """The names of these columns in the files."""
        return [self._written[name] for name in self._wanted]

    @property
    def _is_text(self) -> bool:
        if not self._found_here:
            return False
        return (kind_of(located(self.path)) if self.format == "auto" else self.format) == "csv"

    def _refuse_other_encodings(self) -> None:
        """Refuses text files that are not in UTF-8, whose columns Arrow reads as bytes."""
        strange = [field.name for field in self._schema if arrow().types.is_binary(field.type)]
        if strange and self._has_texts:
            raise ValueError(f"{str(self.path)!r} is not in UTF-8 (column {strange[0].strip()!r}): save it as UTF-8.")

    @property
    def _found_here(self) -> bool:
        """Whether ``path`` is a path or several, and not an Arrow dataset."""
        return not isinstance(self.path, arrow_dataset().Dataset)

    @contextlib.contextmanager
    def _naming_twice(self) -> Iterator[None]:
        """Names the file and the column if two columns of equal names stop Arrow, which says neither."""
        try:
            yield
        except (arrow().ArrowInvalid, KeyError):
            files = self._files(arrow().schema([])) if self._found_here else self.path
            with contextlib.suppress(arrow().ArrowInvalid):  # something else is wrong with the files
                for fragment, file in fragments_of(files):
                    refuse_twice(fragment.physical_schema.names, file)
            raise

    def _files(self, schema: Any) -> Any:
        """The files as an Arrow dataset with this schema; by default with that of the first file."""
        files = located(self.path)
        kind = kind_of(files) if self.format == "auto" else self.format
        form = text_format(files, self.texts) if kind == "csv" else kind
        return arrow_dataset().dataset(files, format=form, schema=schema)

    @property
    def dataset(self) -> Any:
        """The rows as an Arrow dataset."""
        if self._found_here:
            return self._files(self._schema)
        dataset, given, schema = arrow_dataset(), self.path, self._schema
        as_given = schema is None or all(given.schema.field(field.name).type == field.type for field in schema)
        if as_given or not isinstance(given, dataset.FileSystemDataset):
            return given
        return dataset.FileSystemDataset(list(given.get_fragments()), schema, given.format, given.filesystem)

    def only(self, columns: Sequence[str], labelled: bool = False, texts: Sequence[str] = ()) -> Parquet:
        """The same files restricted to some columns, for predictions; with labels and weights for scoring."""
        kept: dict[str, Any] = {"target": self.target, "weight": self.weight} if labelled else {}
        kept |= {"texts": (*self.texts, *texts), "format": self.format, "batch_rows": self.batch_rows}
        return Parquet(self.path, columns=columns, **kept)

    def items(self) -> Iterator[Any]:
        read = self.dataset.to_batches(
            columns=self._wanted_as_written,
            batch_size=self.batch_rows,
            batch_readahead=_BATCHES_AHEAD,
            fragment_readahead=_FILES_AHEAD,
        )
        invalid = arrow().ArrowInvalid
        try:
            yield from read
        except invalid as error:
            raise ValueError(unreadable(self.dataset, self._wanted_as_written, error)) from error

    def unpack(self, item: Any, frames: bool = False) -> Batch:
        item = self._tidy(item)
        y, weight = (None if name is None else self._complete(item, name) for name in (self.target, self.weight))
        if frames:
            return Batch(item.select(list(self.columns)).to_pandas(), y, weight)
        parts = [_numbers(name, item.column(name)) for name in self.columns]
        dtype = np.result_type(np.float32, *(part.dtype for part in parts))
        X = np.empty((item.num_rows, len(parts)), dtype=dtype)
        for index, part in enumerate(parts):
            X[:, index] = part
        return Batch(X, y, weight, self.columns)

    def _tidy(self, item: Any) -> Any:
        """A batch with spaces stripped from column names and, for text files, from entries."""
        columns = [tidy(column) if self._has_texts else column for column in item.columns]
        return arrow().RecordBatch.from_arrays(columns, names=[name.strip() for name in item.schema.names])

    def _complete(self, item: Any, name: str) -> np.ndarray:
        """Labels or weights as an array."""
        column = item.column(name)
        values = column.dictionary_decode() if hasattr(column, "dictionary_decode") else column
        if values.null_count:
            what = "labels" if name == self.target else "weights"
            where = empty_entries(self.dataset, self._written[name])
            raise ValueError(f"Column {name!r} holds the {what}, but has {where}: drop such rows.")
        return values.to_numpy(zero_copy_only=False)


def _numbers(name: str, column: Any) -> np.ndarray:
    """A column as numbers, with NaN for empty entries."""
    if column.null_count and column.type == arrow().bool_():
        column = column.cast("int8")  # otherwise it would become an array of objects
    values = _as_written(column).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"column {name!r} is not numeric ({column.type}). Leave it out with chunks.Parquet(..., columns=[...]), or "
            f"write it as numbers; BayesianMixedSVC takes such columns as groups."
        )
    return values if values.dtype.kind == "f" or values.dtype.itemsize <= 2 else values.astype(np.float64)


def _as_written(column: Any) -> Any:
    """Converts back a column of numbers that became strings because of padded missing values; others unchanged."""
    if not arrow().types.is_string(column.type):
        return column
    try:
        return column.cast("float64")
    except arrow().ArrowInvalid:
        return column
