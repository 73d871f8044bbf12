"""Files of rows: which files a path means, their format, and the column types that suit all of them."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..extras import needed
from ..parameters import meant

#: File formats, as `pyarrow.dataset` calls them, by suffix; a suffix for compression (below) may follow.
KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".ipc": "feather",
}
_PACKED = (".gz", ".bz2", ".zst", ".lz4")
#: Files and folders whose names start with one of these are not part of a dataset.
_HIDDEN = (".", "_")


def arrow() -> Any:
    """PyArrow, or an error that says how to install it."""
    return needed("pyarrow", "parquet", "Reading files")


def arrow_dataset() -> Any:
    """`pyarrow.dataset`, or an error that says how to install it."""
    return needed("pyarrow.dataset", "parquet", "Reading files")


def located(path: Any) -> Any:
    """The path of a file or folder, or a list of paths, with patterns resolved; raises an error if any is missing."""
    if not isinstance(path, (str, os.PathLike)):
        each = (located(one) for one in path)
        return [one for found in each for one in (found if isinstance(found, list) else [found])]
    path = os.fspath(path)
    if "://" in path or Path(path).exists():
        return path
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    if not found:
        raise FileNotFoundError(_not_there(path))
    return found


def _not_there(path: str) -> str:
    """An error message: what was looked for, and similar names that exist."""
    missing = Path(path)
    while not missing.parent.is_dir():
        missing = missing.parent
    if glob.has_magic(path):
        what = f"No file matches {path!r}. Looked"
    elif missing == Path(path):
        what = f"There is no file or folder {path!r}. Looked"
    else:
        what = f"There is no file {path!r}, because there is no folder {missing.name!r}"
    names = sorted(other.name for other in missing.parent.iterdir())
    return f"{what} in {str(missing.parent.resolve())!r}: {meant(missing.name, names)}"


def kind_of(files: Any) -> str:
    """The format of files by their suffixes; Parquet if these are unknown.

    >>> kind_of("rows.csv.gz"), kind_of(["1.arrow", "2.feather"]), kind_of("rows")
    ('csv', 'feather', 'parquet')
    """
    names = [name for one in (files if isinstance(files, list) else [files]) for name in names_in(one)]
    suffixes = {suffix for suffix in map(suffix_of, names) if suffix in KINDS}
    kinds = {KINDS[suffix] for suffix in suffixes}
    if len(kinds) > 1:
        raise ValueError(
            f"The files are of several types ({', '.join(sorted(suffixes))}): choose one with a pattern, such as "
            f"'folder/*{min(suffixes)}'."
        )
    return kinds.pop() if kinds else "parquet"


def names_in(path: str) -> Iterator[str]:
    """The path itself if it is a file, or the paths of all files in a folder."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        yield from (os.path.join(folder, name) for name in sorted(names) if not name.startswith(_HIDDEN))


def suffix_of(name: str | os.PathLike[str], packed: tuple[str, ...] = _PACKED) -> str:
    """The suffix that determines the format, without that of compression.

    >>> suffix_of("rows.CSV.gz"), suffix_of("rows")
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if len(suffixes) > 1 and suffixes[-1] in packed:
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def index_columns(schema: Any) -> list[str]:
    """The columns that were the index of a pandas frame."""
    written = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in written.get("index_columns", ()) if isinstance(name, str)]


def agreed_schema(dataset: Any, columns: list[str], strict: bool) -> Any:
    """Types in which the given columns can be read from all files: for numbers, the widest.

    A dataset takes its types from the first file, fills columns that are absent from others with nulls, and rounds or
    fails where they hold other numbers.  Unless ``strict``, incompatible types are left to the dataset.
    """
    fields, first = {name: dataset.schema.field(name) for name in columns}, {}
    for fragment, file in fragments_of(dataset):
        own, given = fragment.physical_schema, _partition_keys(fragment)
        for name in columns:
            if name in given:
                continue
            if name not in own.names:
                raise ValueError(
                    f"{file} has no column {name!r}, unlike other files: {meant(name, own.names)} Write it into all "
                    f"files, or leave it out with columns=[...]."
                )
            where = first.setdefault(name, file)
            if fields[name].type == own.field(name).type:
                continue
            pair = [arrow().schema([_plain(field)]) for field in (fields[name], own.field(name))]
            try:
                fields[name] = arrow().unify_schemas(pair, promote_options="permissive").field(name)
            except arrow().ArrowTypeError as error:
                if strict:
                    raise ValueError(
                        f"Column {name!r} is of type {fields[name].type} in {where}, and of type "
                        f"{own.field(name).type} in {file}: write it as one type."
                    ) from error
    return arrow().schema(list(fields.values()))


def fragments_of(dataset: Any) -> Iterator[tuple[Any, str]]:
    """The fragments of a dataset with their names, mostly the paths of files.  No items if the dataset is filtered."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # a filtered dataset does not list its fragments
        return
    for number, fragment in enumerate(fragments):
        yield fragment, repr(fragment.path) if hasattr(fragment, "path") else f"part {number}"


def _partition_keys(fragment: Any) -> dict[str, Any]:
    """Columns that a fragment does not contain because they are encoded in the names of its folders."""
    return arrow_dataset().get_partition_keys(fragment.partition_expression)


def _plain(field: Any) -> Any:
    """A field without dictionary encoding, which may differ between files."""
    return field.with_type(field.type.value_type) if arrow().types.is_dictionary(field.type) else field


def empty_entries(dataset: Any, name: str) -> str:
    """For an error message: the number of empty entries of a column, and the place of the first."""
    n_empty, first = 0, ""
    for fragment, file in fragments_of(dataset):
        n_rows = 0
        for batch in fragment.to_batches(schema=dataset.schema, columns=[name]):
            empty = np.flatnonzero(batch.column(0).is_null().to_numpy(zero_copy_only=False))
            if len(empty) and not first:
                first = f", the first in row {n_rows + empty[0]:,} of {file}, counted from 0"
            n_empty, n_rows = n_empty + len(empty), n_rows + batch.num_rows
    noun = "entry" if n_empty == 1 else "entries"
    return f"{n_empty:,} empty {noun}{first}" if n_empty else "empty entries"


def unreadable(dataset: Any, columns: list[str], error: Exception) -> str:
    """For an error message: which column of which file cannot be read like the others."""
    for fragment, file in fragments_of(dataset):
        for name in columns:
            try:
                for _ in fragment.to_batches(schema=dataset.schema, columns=[name]):
                    pass
            except arrow().ArrowInvalid as reason:
                return (
                    f"Column {name!r} of {file} cannot be read as {dataset.schema.field(name).type}, the type in its "
                    f"first rows or in another file ({reason}). Give its type in a pyarrow.dataset.dataset(..., "
                    f"schema=...), and pass that instead of a path."
                )
    return f"The files cannot be read: {error}."
