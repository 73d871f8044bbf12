"""Files: one zip of arrays and JSON, checked by hashes and written atomically.

=================  ====================================================================================
member             holds
=================  ====================================================================================
``arrays/0.npy``   the first array, as it is in memory; the others follow
``tree.json``      everything else (`softmargin.store.tree`)
``manifest.json``  format, kind, version of softmargin, size and SHA-256 of each other member
=================  ====================================================================================

The comment of the zip is the SHA-256 of the manifest.  Nothing is read before its declared size has been checked
against that of the file, and nothing is used before its hash has been checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import arrays
from .errors import StoreError

#: Increased by one whenever older versions could not read what is written.
FORMAT = 1
MANIFEST, TREE = "manifest.json", "tree.json"
_ARRAY = re.compile(r"arrays/(0|[1-9][0-9]{0,8})\.npy")
#: JSON that compression would shrink by more than this factor is stored uncompressed: reading refuses such ratios as
#: a zip bomb.
_MOST_SHRINKAGE = 16
#: The largest sizes of JSON and of a manifest, in bytes.
_MOST_TEXT, _MOST_MANIFEST = 2**30, 2**26
_DAMAGED = "the file is damaged, or not a softmargin file; use another copy of it, or save the model again"


class Contents(NamedTuple):
    """The contents of a file: its tree, and its arrays by number."""

    tree: Any
    n_arrays: int
    array: Callable[[int], np.ndarray]


# Writing -----------------------------------------------------------------------------------------


def write_archive(path: Path, tree: Any, numbered: Sequence[np.ndarray], kind: str, version: str) -> None:
    """Writes a file, replacing an existing one; if anything fails, the existing file is unchanged."""
    text = _text(tree)
    if len(text) > _MOST_TEXT:
        raise StoreError("there is too much data besides arrays to store")
    with _replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        members = {}
        for number, array in enumerate(numbered):
            name = f"arrays/{number}.npy"
            members[name] = _put(archive, name, arrays.parts(array), zipfile.ZIP_STORED)
        members[TREE] = _put(archive, TREE, [text], _method(text))
        manifest = _text({"format": FORMAT, "kind": kind, "softmargin": version, "members": members})
        _put(archive, MANIFEST, [manifest], _method(manifest))
        archive.comment = hashlib.sha256(manifest).hexdigest().encode()


def _text(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _method(text: bytes) -> int:
    small = len(zlib.compress(text, 1)) * _MOST_SHRINKAGE < len(text)
    return zipfile.ZIP_STORED if small else zipfile.ZIP_DEFLATED


def _put(archive: zipfile.ZipFile, name: str, parts: Sequence[Any], method: int) -> list[Any]:
    """Writes a member and returns its size and hash."""
    info = zipfile.ZipInfo(name)  # without a date: the same model makes the same file
    info.compress_type, size, digest = method, sum(map(len, parts)), hashlib.sha256()
    info._compresslevel = 1  # type: ignore[attr-defined]
    with archive.open(info, "w", force_zip64=size > 2**30) as member:
        for part in parts:
            digest.update(part)
            member.write(part)
    return [size, digest.hexdigest()]


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces ``path`` once it is complete and synced to disk."""
    target = Path(os.path.realpath(path))  # replaces the target of a link, not the link
    if target.is_dir():
        raise StoreError("this is a directory; give the name of a file in it")
    if not target.parent.is_dir():
        raise StoreError(f"there is no directory {str(target.parent)!r}; create it first")
    beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"could not be written ({reason}); what was there before is unchanged") from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
    _settle(target.parent)


def _settle(directory: Path) -> None:
    """Syncs the directory, where the system supports it, so that the new name reaches the disk too."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Reading -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_archive(path: Path, kind: str) -> Iterator[Contents]:
    """The contents of a file of the given kind, while it is open."""
    if path.is_dir():
        raise StoreError("this is a directory; give the name of a file in it")
    with _opened(path) as archive:
        members = _checked_members(archive, os.path.getsize(path))
        hashes = _manifest(archive, members, kind)

        def content(name: str) -> bytes:
            return _content(archive, members[name], hashes[name])

        n_arrays = len(members) - 2
        if set(members) != {MANIFEST, TREE, *(f"arrays/{number}.npy" for number in range(n_arrays))}:
            raise StoreError(f"members are missing: {_DAMAGED}")
        yield Contents(parsed(content(TREE)), n_arrays, lambda at: arrays.parsed(content(f"arrays/{at}.npy")))


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise StoreError(f"could not be opened ({error.strerror or error})") from error
    except Exception as error:  # of many classes, whatever the bytes are
        raise StoreError(_DAMAGED) from error


def _checked_members(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Members by name, after checks of their names, compression and declared sizes."""
    infos = archive.infolist()
    members = {info.orig_filename: info for info in infos}
    strange = [name for name in members if name not in (MANIFEST, TREE) and not _ARRAY.fullmatch(name)]
    if strange:
        raise StoreError(f"it has a member {strange[0][:80]!r}, which softmargin never writes; do not trust it")
    if len(members) != len(infos):
        raise StoreError("two of its members have the same name; do not trust it")
    if MANIFEST not in members or TREE not in members:
        raise StoreError(f"there is no {MANIFEST} or no {TREE} in it: {_DAMAGED}")
    if sum(info.compress_size for info in infos) > n_bytes:
        raise StoreError(f"its members claim to be larger than the file: {_DAMAGED}")
    for name, info in members.items():
        most = {MANIFEST: _MOST_MANIFEST, TREE: _MOST_TEXT}.get(name)
        shrunk = info.compress_type == zipfile.ZIP_DEFLATED and most is not None
        if info.flag_bits & 1 or not (shrunk or info.compress_type == zipfile.ZIP_STORED):
            raise StoreError(f"{name} is encrypted or compressed in a way that softmargin does not use")
        # A zip bomb declares far more than its compressed bytes can contain.
        largest = info.compress_size * _MOST_SHRINKAGE + 64 if shrunk else info.compress_size
        if info.file_size > (largest if most is None else min(largest, most)):
            raise StoreError(f"{name} claims to be {info.file_size:,} bytes, more than is possible; do not trust it")
    return members


def _manifest(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], kind: str) -> dict[str, list[Any]]:
    """Sizes and hashes of the members, after checking that the file is of the right kind and a known format."""
    info = members[MANIFEST]
    manifest = parsed(_content(archive, info, [info.file_size, archive.comment.decode("ascii", "replace")]))
    if not isinstance(manifest, dict) or set(manifest) != {"format", "kind", "softmargin", "members"}:
        raise StoreError(f"its manifest is not one of softmargin's: {_DAMAGED}")
    number, written, version, hashes = manifest["format"], manifest["kind"], manifest["softmargin"], manifest["members"]
    if type(number) is not int or number < 1:
        raise StoreError(f"its format {number!r} is not valid: {_DAMAGED}")
    if number > FORMAT:
        raise StoreError(
            f"it was written by softmargin {str(version)[:40]} in format {number}, but this version reads up to format "
            f"{FORMAT}; install a newer softmargin"
        )
    if written != kind:
        raise StoreError(f"it holds a {str(written)[:40]}, not a {kind}")
    if not isinstance(hashes, dict) or set(hashes) != set(members) - {MANIFEST}:
        raise StoreError(f"its members do not match its manifest: {_DAMAGED}")
    return hashes


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, expected: list[Any]) -> bytes:
    """The bytes of a member, which must have the ``expected`` size and hash."""
    try:
        content = archive.read(info)
    except Exception as error:  # of many classes, whatever the bytes are
        raise StoreError(f"{info.filename} cannot be read: {_DAMAGED}") from error
    if [len(content), hashlib.sha256(content).hexdigest()] != expected:
        raise StoreError(f"{info.filename} was changed after it was written: {_DAMAGED}")
    return content


def parsed(text: bytes) -> Any:
    """Parses JSON strictly: NaN and infinities, which JSON does not define, are refused."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"its JSON cannot be read ({error}): {_DAMAGED}") from error


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")
