"""Tables in files: CSV, Parquet and Arrow, recognised by suffix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..chunks.files import KINDS, suffix_of
from ..chunks.texts import GAPS, LOOK, encoding_of, refuse_twice, text_form
from ..extras import needed
from ..parameters import meant
from .frames import names_of
from .lazily import pandas

__all__ = ["SUFFIXES", "read_table", "write_table"]

SUFFIXES = tuple(KINDS)
_PACKED = (".gz", ".bz2", ".xz", ".zip")
#: What to do about errors of pandas that contain these words.
_HINTS = {
    "Expected": "every row needs one entry for each column name",
    "inside string": "a quotation mark is never closed",
}


def read_table(path: str | PathLike[str], *, like: Any = None, texts: Iterable[str] = ()) -> Any:
    """Read a table into a pandas frame.

    Parameters
    ----------
    path : str or path
        A file of comma-, semicolon- or tab-separated values (``.csv``, ``.tsv``, ``.txt``, optionally compressed), of
        Parquet (``.parquet``) or of Arrow (``.feather``, ``.arrow``, ``.ipc``).
    like : fitted `TableClassifier`, `TableEncoder`, or other model, optional
        Columns that held strings in its fit are read as strings.  Otherwise a column of codes that was read as strings
        there, because of an entry such as A12, may be read as numbers here: 007 would become 7, another code.
    texts : sequence of column names
        Columns of text files to read as strings: codes of regions or products, which may start with a zero.

    Notes
    -----
    Column names must differ, and no row of a text file may have more entries than there are names.
    Texts must be in UTF-8, or in UTF-16 with a byte order mark.  Missing values are empty entries, ``NA``, ``N/A``,
    ``NaN``, ``nan``, ``null``, ``NULL`` and ``?``, and nothing else: ``None`` is a level.  Spaces around entries are
    removed.  With semicolons as separators, 1,5 is a number.

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
        raise FileNotFoundError(f"There is no file {str(path)!r}; {meant(path.name, _tables_in(path.parent))}")
    if path.is_dir() and KINDS.get(suffix_of(path)) != "parquet":
        raise ValueError(f"{str(path)!r} is a folder: name a table in it; {meant('', _tables_in(path))}")
    suffix = _suffix(path)
    with _naming(path):
        if KINDS[suffix] == "csv":
            frame = _read_text(path, suffix, (*texts_of(like), *names_of(texts)))
        else:
            frame = (_read_parquet if KINDS[suffix] == "parquet" else _read_arrow)(path)
    refuse_twice(map(str, frame.columns), repr(str(path)))
    if not len(frame.columns) or not len(frame):
        raise ValueError(f"{str(path)!r} holds no rows.")
    frame.columns = [str(name).strip() for name in frame.columns]
    return frame


def write_table(frame: Any, path: str | PathLike[str]) -> None:
    """Write a pandas frame to a file, in the format given by its suffix.

    >>> import tempfile
    >>> import pandas as pd
    >>> from softmargin.tables import read_table, write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(pd.DataFrame({"dose": [0.5, 1.0]}), f"{folder}/doses.csv")
    ...     read_table(f"{folder}/doses.csv")["dose"].tolist()
    [0.5, 1.0]
    """
    path = Path(path)
    suffix = _suffix(path)
    if KINDS[suffix] == "csv":
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
        return
    needed("pyarrow", "parquet", f"A table in {suffix[1:]}")
    (frame.to_parquet if KINDS[suffix] == "parquet" else frame.reset_index(drop=True).to_feather)(path)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Adds the name of the file to errors in its content."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # compressions and Arrow have errors of their own, without a common class
        comes_from_system = getattr(error, "errno", None) is not None  # and has the name already
        if comes_from_system or repr(str(path)) in str(error):
            raise
        raise ValueError(f"{str(path)!r} cannot be read: {str(error).strip()}") from error


def _tables_in(folder: Path) -> list[str]:
    """The names of the tables in a folder; none if there is no such folder."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [file.name for file in files if set(file.suffixes) & set(SUFFIXES)]


def _suffix(path: Path) -> str:
    suffix = suffix_of(path, _PACKED)
    if suffix not in SUFFIXES:
        raise ValueError(f"{str(path)!r} must end in one of {', '.join(SUFFIXES)}, so that its format is known.")
    return suffix


def texts_of(model: Any) -> tuple[str, ...]:
    """The columns that held strings when a model was fitted, including that of its labels."""
    texts: list[str] = list(getattr(getattr(model, "encoder_", model), "texts_", ()))
    classes, target = np.asarray(getattr(model, "classes_", ())), getattr(model, "target_", None)
    if target is not None and any(isinstance(label, str) for label in classes.tolist()):
        texts.append(target)
    return tuple(texts)


def _read_text(path: Path, suffix: str, texts: tuple[str, ...]) -> Any:
    pd = pandas()
    encoding = _encoding(path)
    form = text_form(_beginning(path, encoding), suffix)
    options = {"sep": form.separator, "decimal": form.decimal, "encoding": encoding, "skipinitialspace": True}
    options |= {"keep_default_na": False, "na_values": list(GAPS), "low_memory": False}
    try:
        # In silence, pandas would rename columns of equal names; and if the first row had more entries than there are
        # names, it would take its first entries for the name of the row, and move all others to the wrong columns.
        above = pd.read_csv(path, header=None, nrows=2, dtype=str, na_filter=False, **options)
        refuse_twice(filter(str.strip, above.iloc[0]), repr(str(path)))  # several may be without a name
        written = pd.read_csv(path, nrows=0, **options).columns if texts else ()
        frame = pd.read_csv(path, dtype={name: str for name in written if name.strip() in texts}, **options)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{str(path)!r} is empty.") from error
    except pd.errors.ParserError as error:
        reason = str(error).rpartition("C error: ")[2].strip()
        hint = next((f"; {hint}" for sign, hint in _HINTS.items() if sign in reason), "")
        raise ValueError(f"{str(path)!r} cannot be read as a CSV table: {reason}{hint}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{str(path)!r} is not in UTF-8: save it as UTF-8 ({error}).") from error
    return frame.apply(_stripped)


def _stripped(column: Any) -> Any:
    """Strings without the spaces around them; those that then mean a missing value become missing."""
    if column.dtype.kind != "O":  # also true of pandas' string dtypes
        return column
    texts = column.map(lambda entry: entry.strip() if isinstance(entry, str) else entry, na_action="ignore")
    return texts.mask(texts.isin(GAPS))


def _encoding(path: Path) -> str:
    from pandas.io.common import get_handle

    with get_handle(path, "rb", compression="infer", is_text=False) as handle:
        mark: Any = handle.handle.read(2)
    return encoding_of(mark)


def _beginning(path: Path, encoding: str) -> str:
    from pandas.io.common import get_handle

    with get_handle(path, "r", encoding=encoding, errors="replace", compression="infer") as handle:
        return handle.handle.read(LOOK)


def _read_parquet(path: Path) -> Any:
    parquet = needed("pyarrow.parquet", "parquet", "A table in Parquet")
    if path.is_file():  # Arrow also refuses columns of equal names, but does not say which
        refuse_twice(parquet.read_schema(path).names, repr(str(path)))
    return parquet.read_table(path).to_pandas()


def _read_arrow(path: Path) -> Any:
    arrow = needed("pyarrow", "parquet", "A table in Arrow")
    ipc = needed("pyarrow.ipc", "parquet", "A table in Arrow")
    try:
        return ipc.open_file(path).read_all().to_pandas()
    except arrow.ArrowInvalid:  # the streaming format
        with open(path, "rb") as stream:
            return ipc.open_stream(stream).read_all().to_pandas()
