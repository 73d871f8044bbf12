"""Tables in files: CSV, Parquet and Arrow, known by their suffixes."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path
from typing import Any

from ..extras import needed
from ..validation import meant
from .lazily import pandas

__all__ = ["SUFFIXES", "read_table", "write_table"]

_TEXT = {".csv": None, ".tsv": "\t", ".txt": None}
_PARQUET, _ARROW = (".parquet", ".pq"), (".feather", ".arrow", ".ipc")
SUFFIXES = (*_TEXT, *_PARQUET, *_ARROW)
_PACKED = (".gz", ".bz2", ".xz", ".zip")
#: Bytes of a text file in which its separator is looked for, and what it may be.
_LOOK, _SEPARATORS = 65_536, ",;\t|"


def read_table(path: str | PathLike[str]) -> Any:
    """Reads a table into a frame of pandas.

    Parameters
    ----------
    path : str or path
        A file of comma-, semicolon- or tab-separated values (``.csv``, ``.tsv``, ``.txt``, packed or not), of Parquet
        (``.parquet``) or of Arrow (``.feather``, ``.arrow``, ``.ipc``).  In texts, an empty entry, ``NA`` and ``?`` are
        gaps.

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     _ = path.write_text("age;city\\n31;Rome\\n?;Oslo\\n")
    ...     read_table(path)
        age  city
    0  31.0  Rome
    1   NaN  Oslo
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}; {meant(path.name, _tables_beside(path))}")
    suffix = _suffix(path)
    if suffix in _TEXT:
        frame = _read_text(path, _TEXT[suffix])
    elif suffix in _PARQUET:
        frame = needed("pyarrow.parquet", "parquet", "A table in Parquet").read_table(path).to_pandas()
    else:
        frame = _read_arrow(path)
    if not len(frame.columns) or not len(frame):
        raise ValueError(f"{str(path)!r} holds no rows.")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def write_table(frame: Any, path: str | PathLike[str]) -> None:
    """Writes a frame of pandas to a file of the kind that its suffix names."""
    path = Path(path)
    suffix = _suffix(path)
    if suffix in _TEXT:
        frame.to_csv(path, index=False, sep=_TEXT[suffix] or ",")
        return
    needed("pyarrow", "parquet", f"A table in {suffix[1:]}")
    (frame.to_parquet if suffix in _PARQUET else frame.reset_index(drop=True).to_feather)(path)


def _tables_beside(path: Path) -> list[str]:
    """The names of other tables in the same folder."""
    others = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    return [other.name for other in others if set(other.suffixes) & set(SUFFIXES)]


def _suffix(path: Path) -> str:
    names = [suffix.lower() for suffix in path.suffixes]
    suffix = names[-2] if len(names) > 1 and names[-1] in _PACKED else names[-1] if names else ""
    if suffix not in SUFFIXES:
        raise ValueError(f"{str(path)!r} must end in one of {', '.join(SUFFIXES)} to say what kind of table it is.")
    return suffix


def _read_text(path: Path, separator: str | None) -> Any:
    pd = pandas()
    try:
        return pd.read_csv(path, sep=separator or _separator(path), na_values=["?"], low_memory=False)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{str(path)!r} is empty.") from error
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as a table of separated values in UTF-8: {error}.") from error


def _separator(path: Path) -> str:
    """What separates the entries of the first lines."""
    from pandas.io.common import get_handle

    with get_handle(path, "r", encoding="utf-8", errors="replace", compression="infer") as handle:
        text = handle.handle.read(_LOOK)
    try:
        return csv.Sniffer().sniff(text.rpartition("\n")[0] or text, _SEPARATORS).delimiter
    except csv.Error:  # one column, or none
        return ","


def _read_arrow(path: Path) -> Any:
    arrow = needed("pyarrow", "parquet", "A table in Arrow")
    ipc = needed("pyarrow.ipc", "parquet", "A table in Arrow")
    try:
        return ipc.open_file(path).read_all().to_pandas()
    except arrow.ArrowInvalid:  # the form for streams
        with open(path, "rb") as stream:
            return ipc.open_stream(stream).read_all().to_pandas()
