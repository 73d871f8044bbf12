"""The classes that a file may hold, and how their instances are taken apart and rebuilt.

A class is written by its bare name, so that files remain readable when classes move between modules.  Named tuples,
dataclasses and estimators of this package are found by a walk over its modules; a few others are listed here and in
`softmargin.store.outside`.  Nothing else is ever built from a file.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from .errors import StoreError

#: Subpackages and modules whose classes are not stored; some of them need optional dependencies.
_ELSEWHERE = ("active", "adversarial", "cli", "comparison", "demo", "evaluation", "nn", "plot", "report", "store")
#: Where two classes share a name, the newer one is written under another.
_RENAMED = {
    "softmargin.chunks.sources.Batch": "SourceBatch",
    "softmargin.design.design.Factor": "DesignFactor",
}
#: The name in files of paths, of whatever system.
_PATH = "Path"
#: Other classes whose state is their ``__dict__``, and the names in it.
_STATES = {
    "FormulaColumns": ("use", "intercept", "variables", "terms", "names"),
    "FormulaNames": (),
}


class Codec(NamedTuple):
    """Functions that take an instance apart into named values, and rebuild it from them."""

    take: Callable[[Any], dict[str, Any]]
    make: Callable[[dict[str, Any]], Any]


def name_of(kind: type) -> str | None:
    """The name of a class in files; None if files cannot hold it."""
    if issubclass(kind, PurePath):
        return _PATH
    return _names().get(kind) or _outside().name_of(kind)


def codec_of(name: str) -> Codec:
    """The codec of a class, by the name of the class in files."""
    if name == _PATH:
        return Codec(lambda path: {"name": str(path)}, _path)
    kind = classes().get(name)
    if kind is None:
        codec = _outside().codec_of(name)
        if codec is None:
            raise StoreError(f"it names {name[:80]!r}, which is not a class that softmargin loads from files")
        return codec
    if issubclass(kind, BaseEstimator):
        from . import estimators

        return Codec(estimators.taken, partial(estimators.made, kind))
    if name == "ParticleRows":
        return Codec(_particle_rows, partial(_made, kind, ("rows", "reference")))
    if name in _STATES:
        return state_codec(kind, _STATES[name])
    names = tuple(_fields(kind))
    return Codec(lambda value: {field: getattr(value, field) for field in names}, partial(_made, kind, names))


def state_codec(kind: type, names: tuple[str, ...]) -> Codec:
    """The codec of a class whose instances consist of their ``__dict__``, with these names."""
    return Codec(lambda value: dict(vars(value)), partial(_restored, kind, names))


@lru_cache(maxsize=1)
def classes() -> dict[str, type]:
    """The classes of this package that files may hold, by their names in files.

    Classes that share a name are left out, since the name would be ambiguous; a test makes sure that there are none.
    """
    return {name: kinds[0] for name, kinds in all_classes().items() if len(kinds) == 1}


def all_classes() -> dict[str, list[type]]:
    """The classes for each name in files, of which there should be one."""
    found: dict[str, list[type]] = {}
    for kind in _package():
        found.setdefault(_written(kind), []).append(kind)
    return found


def _written(kind: type) -> str:
    return _RENAMED.get(f"{kind.__module__}.{kind.__qualname__}", kind.__qualname__)


@lru_cache(maxsize=1)
def _names() -> dict[type, str]:
    return {kind: name for name, kind in classes().items()}


def _outside() -> Any:
    from . import outside  # here, since it imports this module

    return outside


def _package(name: str = "softmargin") -> Iterator[type]:
    """The storable classes of a package and its subpackages, except those left out or with missing dependencies."""
    try:
        package = importlib.import_module(name)
    except ImportError:
        return
    for kind in list(vars(package).values()):
        if inspect.isclass(kind) and kind.__module__ == name and _is_storable(kind):
            yield kind
    for part in pkgutil.iter_modules(getattr(package, "__path__", ())):
        if part.name not in _ELSEWHERE and not part.name.startswith("__"):
            yield from _package(f"{name}.{part.name}")


def _is_storable(kind: type) -> bool:
    listed = _written(kind) == "ParticleRows" or _written(kind) in _STATES
    return listed or (not inspect.isabstract(kind) and (_is_plain(kind) or issubclass(kind, BaseEstimator)))


def _is_plain(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _fields(kind: Any) -> list[str]:
    """The fields of a named tuple or dataclass, without private ones and those not set by its constructor."""
    if not dataclasses.is_dataclass(kind):
        return list(kind._fields)
    return [field.name for field in dataclasses.fields(kind) if field.init and not field.name.startswith("_")]


def _particle_rows(rows: Any) -> dict[str, Any]:
    return {"rows": rows._given, "reference": rows._reference}


def _path(fields: dict[str, Any]) -> Path:
    _check_names(Path, ("name",), fields)
    return Path(fields["name"])


def _made(kind: type, names: tuple[str, ...], fields: dict[str, Any]) -> Any:
    _check_names(kind, names, fields)
    return kind(**fields)


def _restored(kind: type, names: tuple[str, ...], fields: dict[str, Any]) -> Any:
    _check_names(kind, names, fields)
    value = object.__new__(kind)
    vars(value).update(fields)
    return value


def _check_names(kind: type, names: tuple[str, ...], fields: dict[str, Any]) -> None:
    if set(fields) != set(names):
        odd = sorted(set(fields) ^ set(names))
        raise StoreError(
            f"a {kind.__name__} in it has other fields than this version ({', '.join(odd)[:80]} too many or too few); "
            f"read it with the version of softmargin that wrote it, or fit the model again"
        )
