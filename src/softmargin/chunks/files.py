"""Files of rows: which of them are meant, of which kind they are, and what all of them agree on."""

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

#: Kinds of files, as `pyarrow.dataset` calls them, by their suffixes; these may be followed by one of the others.
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
#: Files and folders whose names begin so are no part of a dataset.
_HIDDEN = (".", "_")


def arrow() -> Any:
    """Arrow, or an error that says how to get it."""
    return needed("pyarrow", "parquet", "Reading files")


def arrow_dataset() -> Any:
    """What Arrow knows of files."""
    return needed("pyarrow.dataset", "parquet", "Reading files")


def located(path: Any) -> Any:
    """The path of a file or folder, or a list of paths; patterns are resolved, and all of them are there."""
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
    """What was looked for, and what is there instead."""
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
    """The kind of files by their suffixes; Parquet where these tell nothing.

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
    """The file of a path, or all files in a folder."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith(_HIDDEN))
        yield from (os.path.join(folder, name) for name in sorted(names) if not name.startswith(_HIDDEN))


def suffix_of(name: str | os.PathLike[str], packed: tuple[str, ...] = _PACKED) -> str:
    """The suffix that says what a file is, before that of its packing.

    >>> suffix_of("rows.CSV.gz"), suffix_of("rows")
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if len(suffixes) > 1 and suffixes[-1] in packed:
        return suffixes[-2]
    return suffixes[-1] if suffixes else ""


def index_columns(schema: Any) -> list[str]:
    """The columns that were the index of a frame of pandas, which numbers or names its rows."""
    written = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in written.get("index_columns", ()) if isinstance(name, str)]


def agreed_schema(dataset: Any, columns: list[str], strict: bool) -> Any:
    """The types in which some columns of all files can be read: of numbers the widest.

    A dataset takes its types from the first file, fills columns that others lack with nulls, and rounds or fails where
    they hold other numbers.  Unless ``strict``, types that have nothing in common are left to the dataset.
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
    """The fragments of a dataset, and what they are called: mostly the paths of files.  None if it is filtered."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # Arrow does not tell
        return
    for number, fragment in enumerate(fragments):
        yield fragment, repr(fragment.path) if hasattr(fragment, "path") else f"part {number}"


def _partition_keys(fragment: Any) -> dict[str, Any]:
    """Columns that a fragment does not hold, for they are in the names of its folders."""
    return arrow_dataset().get_partition_keys(fragment.partition_expression)


def _plain(field: Any) -> Any:
    """A column without its dictionary, which some files may have and others not."""
    return field.with_type(field.type.value_type) if arrow().types.is_dictionary(field.type) else field


def empty_entries(dataset: Any, name: str) -> str:
    """How many entries of a column are empty, and where the first of them is."""
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
    """Which file, and which of its columns, cannot be read as the others are."""
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
