"""Checkpoints: the state of a fit, in a file from which the same fit resumes after a crash.

A fit is a sequence of stages that depend only on data, parameters and random numbers. So a `Journal` has
a `Page` for each stage: the result of a finished stage, or the state of an unfinished one. A fit that finds its journal
takes the results of finished stages from it, and continues the unfinished one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
from array_api_compat import is_torch_array

from .arrays import to_numpy
from .parameters import positive_integer, positive_number
from .store import StoreError, read, write
from .store.arrays import parts
from .store.tree import Encoder

T = TypeVar("T")

#: Increased by one whenever fits cannot be resumed from older journals.
FORMAT = 1
#: Reasons for the end of a fit from which the same call resumes.
CUT_SHORT = ("time", "interrupt")
#: With ``passes="auto"``, the time between writes is at least this multiple of the duration of the last one.
_REST = 20.0
#: Parameters that do not change the result of a fit, or only how soon it ends.
_BESIDE = ("checkpoint", "max_time", "n_jobs", "random_state", "verbose")
#: Bytes of rows that are hashed at once.
_HASHED_BYTES = 2**24


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit saves its state.

    Parameters
    ----------
    path : str or path
        The file.  It belongs to one fit at a time, and is deleted when the fit ends.
    passes : int or "auto"
        Number of full passes over the rows between saves.  ``"auto"`` is every pass, but waits at least 20 times as
        long as the last save took, so that at most a twentieth of the time is spent on saving.
    seconds : float, optional
        Maximum number of seconds between saves, also within a pass over rows that are not in memory.

    Examples
    --------
    >>> from softmargin.checkpoint import Checkpoint
    >>> Checkpoint("fit.ckpt", seconds=60)
    Checkpoint(path='fit.ckpt', passes='auto', seconds=60)
    """

    path: str
    passes: int | str = "auto"
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)) or not os.fspath(self.path):
            raise ValueError(f"The path of a checkpoint must be the name of a file, got {self.path!r}.")
        positive_integer("passes", self.passes, words=("auto",))
        positive_number("seconds", self.seconds, none=True)
        object.__setattr__(self, "path", os.fsdecode(self.path))

    @classmethod
    def of(cls, value: Any) -> Checkpoint | None:
        """The checkpoint for a parameter that is a path, a checkpoint or None."""
        if value is None or isinstance(value, Checkpoint):
            return value
        if not isinstance(value, (str, os.PathLike)):
            raise ValueError(f"checkpoint must be a path, a softmargin.Checkpoint or None, got {value!r}.")
        return cls(value)  # type: ignore[arg-type]


class OnDevice(NamedTuple):
    """A tensor in the form in which files store it."""

    array: np.ndarray
    device: str


class Page:
    """One stage of a fit: its result, or its state.

    The rows of a ``problem`` may keep their sites from the last pass, which are then part of the state.
    """

    def __init__(self, journal: Journal, name: str, problem: Any = None) -> None:
        self._journal, self._name, self._problem = journal, name, problem

    def read(self) -> Any:
        """The stored result or state; None if there is none."""
        value, memory = self._journal.pages.get(self._name, (None, None))
        for index, sites in (memory or {}).items():
            self._problem.features(index)._sites.update(sites)
        return value

    def note(self, value: Any, passes: float = 1.0) -> None:
        """Stores the state of the stage, reached after so many further passes."""
        self._journal.put(self._name, (value, self._memory()), passes)

    def finish(self, value: T, passes: float = 0.0, instead_of: str = "") -> T:
        """Stores the result of the stage; if it was cut short, the last state is kept instead, to resume from.

        The page ``instead_of`` is deleted.
        """
        if getattr(value, "reason", "") in CUT_SHORT:
            self._journal.pause()
        else:
            self._journal.pages.pop(instead_of, None)
            self._journal.put(self._name, (value, self._memory()), passes, ends=True)
        return value

    def found(self, work: Callable[[], T]) -> T:
        """The result of a stage without intermediate states, which starts again if it was not finished."""
        value = self.read()
        return self.finish(work(), passes=1.0) if value is None else value

    def _memory(self) -> dict[int, Any]:
        kept = {} if self._problem is None or not self._journal.is_open else self._problem._kept
        return {index: dict(rows._sites) for index, rows in kept.items() if getattr(rows, "_sites", None)}


class Journal:
    """The pages of a fit, and the file to which they are written, if there is one."""

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self.pages: dict[str, tuple[Any, Any]] = {}
        self.is_open = False
        self._checkpoint = checkpoint
        self._fingerprint: dict[str, str] = {}
        self._beside: dict[str, Any] = {}
        self._kept: dict[str, Any] | None = None
        self._rng: Any = None
        self._monitor: Any = None
        self._part: tuple[str, int, Any] | None = None
        self._pending, self._cost, self._written = 0.0, 0.0, time.perf_counter()

    @classmethod
    def of(cls, model: Any) -> Journal:
        """The journal of a model's ``checkpoint``; raises an error if the file belongs to another model."""
        journal = cls(Checkpoint.of(getattr(model, "checkpoint", None)))
        if journal._checkpoint is not None:
            journal._fingerprint = fingerprint(model)
            if not journal._path.parent.is_dir():
                raise ValueError(f"checkpoint: there is no directory {str(journal._path.parent)!r}; create it first.")
            if journal._path.exists():
                journal._kept = journal._read()
                journal._refuse_another()
        return journal

    def page(self, name: str, problem: Any = None) -> Page:
        return Page(self, name, problem)

    def begin(self, data: Any, rng: np.random.RandomState, monitor: Any) -> tuple[Any, np.random.RandomState]:
        """Resumes from the file, if there is one; returns data that report their passes, and random numbers to use."""
        if self._checkpoint is None:
            return data, rng
        if rng is np.random.mtrand._rand:  # type: ignore[attr-defined]  # shared, so its state must not be set
            rng = np.random.RandomState(rng.randint(2**31 - 1))
        self._fingerprint |= fingerprint_of_data(data)
        self._rng, self._monitor, self.is_open = rng, monitor, True
        if self._kept is None:
            self._mark()
            self._write()
        else:
            self._refuse_another()
            self._go_on(self._kept)
        whole = None if data.whole is None else data.whole._replace(journal=self)
        return data._replace(whole=whole), rng

    def put(self, name: str, value: Any, passes: float, ends: bool = False) -> None:
        """Stores a page, and writes all pages to the file if that is due."""
        if not self.is_open:
            return
        self.pages[name], self._part = value, None
        self._pending += passes
        self._mark()
        if self._is_due(ends):
            self._try_to_write()

    def pause(self) -> None:
        """Closes the journal: from here on the fit takes short cuts to its end, from which it must not be resumed."""
        if self.is_open and self._pending > 0:
            self._try_to_write()
        self.is_open = False

    def end(self, reason: str) -> None:
        """Deletes the file at the end of a fit, unless that was cut short."""
        if self._checkpoint is None or reason in CUT_SHORT:
            return
        self.is_open = False
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._sweep()

    def part_of(self, block_sum: Any) -> tuple[str, int, Any]:
        """A hash that identifies a pass, the number of its items that are summed already, and their sum."""
        tag = ""
        if self.is_open and self._checkpoint is not None and (self._checkpoint.seconds or self._part):
            with contextlib.suppress(StoreError):
                tag = digest(block_sum)
        if self._part is None or not tag or self._part[0] != tag:
            return tag, 0, None
        return self._part

    def keep_part(self, tag: str, done: int, total: Any) -> None:
        """Writes the sum of the first items of a pass, if it is time."""
        seconds = None if self._checkpoint is None else self._checkpoint.seconds
        if self.is_open and tag and seconds is not None and time.perf_counter() - self._written >= seconds:
            self._part = tag, done, total
            self._try_to_write()

    @property
    def _path(self) -> Path:
        assert self._checkpoint is not None
        return Path(os.path.realpath(self._checkpoint.path))

    def _mark(self) -> None:
        """Copies history, time and random numbers as they are with the current pages."""
        rng = np.random.RandomState(0)
        rng.set_state(self._rng.get_state())
        self._beside = {"history": list(self._monitor.history), "seconds": self._monitor.seconds, "rng": rng}

    def _is_due(self, ends: bool) -> bool:
        assert self._checkpoint is not None
        passes, seconds = self._checkpoint.passes, self._checkpoint.seconds
        since = time.perf_counter() - self._written
        if self._pending == 0:
            return False
        if seconds is not None and since >= seconds:
            return True
        if isinstance(passes, str):
            return (ends or self._pending >= 1) and since >= _REST * self._cost
        return ends or self._pending >= passes

    def _try_to_write(self) -> None:
        try:
            self._write()
        except StoreError as error:
            warnings.warn(
                f"{error} The fit continues; after a crash it would resume from the last checkpoint that was written.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _write(self) -> None:
        start = time.perf_counter()
        value = {"format": FORMAT, "fit": self._fingerprint, "pages": self.pages, "part": self._part} | self._beside
        try:
            write(self._path, _on_host(value, {}), "checkpoint")
            self._pending = 0.0
        finally:
            self._written = time.perf_counter()
            self._cost = self._written - start

    def _read(self) -> dict[str, Any]:
        try:
            kept = read(self._path, "checkpoint")
            if not isinstance(kept, dict) or kept.get("format") != FORMAT:
                raise StoreError(f"Cannot resume from {str(self._path)!r}: another version of softmargin wrote it.")
        except StoreError as error:
            raise StoreError(f"{error} Delete it to start the fit again, or choose another path.") from error
        return kept

    def _refuse_another(self) -> None:
        """Raises an error if the fingerprint of this fit, as far as known, differs from that in the file."""
        assert self._kept is not None
        there, here = self._kept["fit"], self._fingerprint
        other = [name for name, value in here.items() if there.get(name) != value]
        if other:
            raise ValueError(
                f"The checkpoint {str(self._path)!r} belongs to another fit (which differs in {', '.join(other)}): "
                f"delete it to start the fit again, or choose another path."
            )

    def _go_on(self, kept: dict[str, Any]) -> None:
        self._sweep()
        kept = _where_it_was(kept, {})
        self.pages, self._part = kept["pages"], kept["part"]
        self._rng.set_state(kept["rng"].get_state())
        self._monitor.resume(kept["history"], kept["seconds"])
        self._mark()

    def _sweep(self) -> None:
        """Removes temporary files of writes that were killed."""
        beside = re.compile(re.escape(f".{self._path.name[:200]}.") + r"[0-9a-f]{12}\.tmp")
        for file in self._path.parent.iterdir():
            if beside.fullmatch(file.name):
                with contextlib.suppress(OSError):
                    file.unlink()


#: A page that stores nothing.
NO_PAGE = Journal().page("")


# Fingerprints ------------------------------------------------------------------------------------


def fingerprint(model: Any) -> dict[str, str]:
    """The fingerprint of a fit before it has seen data, by name, so that an error can say what differs."""
    from . import __version__

    found = {"softmargin": __version__, "estimator": type(model).__name__}
    given = {name: value for name, value in model.get_params(deep=False).items() if name not in _BESIDE}
    if not isinstance(model.random_state, np.random.RandomState):  # its state is in the file
        given["random_state"] = model.random_state
    return found | {name: _digest_of_parameter(value) for name, value in given.items()}


def fingerprint_of_data(data: Any) -> dict[str, str]:
    """The fingerprint of the data of a fit: everything in memory; for a source, its sample and moments."""
    beside = (data.y, data.weight, data.unit, data.copies, data.columns)
    return {
        "classes": digest(data.classes),
        "number of rows": str(data.n_rows),
        "rows": _digest_of_rows(data.X),
        "labels or weights": digest(beside),
    }


def digest(value: Any) -> str:
    """A hash of any value that files can store."""
    encoder = Encoder()
    text = json.dumps(encoder.node(_on_host(value, {}), "value"))
    found = hashlib.sha256(text.encode())
    for array in encoder.arrays:
        for part in parts(array):
            found.update(part)
    return found.hexdigest()


def _digest_of_parameter(value: Any) -> str:
    """A hash of a parameter; if files cannot store it, of the entries of a frame or of its representation."""
    try:
        return digest(value)
    except StoreError:
        shown = np.asarray(value).tolist() if hasattr(value, "__array__") else value
        return digest(re.sub(" at 0x[0-9A-Fa-f]+", "", repr(shown)))


def _digest_of_rows(X: Any) -> str:
    if scipy.sparse.issparse(X):
        return digest((X.shape, X.data, X.indices, X.indptr))
    X = to_numpy(X)
    found, step = hashlib.sha256(f"{X.shape} {X.dtype}".encode()), max(1, _HASHED_BYTES // max(1, X[:1].nbytes))
    for start in range(0, len(X), step):
        found.update(np.ascontiguousarray(X[start : start + step]).data.cast("B"))
    return found.hexdigest()


# Tensors -----------------------------------------------------------------------------------------


def _on_host(value: Any, met: dict[int, Any]) -> Any:
    """The same value with tensors in the form in which files store them, each only once."""
    if is_torch_array(value):
        if id(value) not in met:
            met[id(value)] = OnDevice(to_numpy(value), str(value.device))
        return met[id(value)]
    return _within(value, lambda part: _on_host(part, met))


def _where_it_was(value: Any, met: dict[int, Any]) -> Any:
    """The same value with tensors back on their devices."""
    if isinstance(value, OnDevice):
        import torch

        if id(value.array) not in met:
            met[id(value.array)] = torch.from_numpy(value.array).to(value.device)
        return met[id(value.array)]
    return _within(value, lambda part: _where_it_was(part, met))


def _within(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies a function to all entries of a tuple, list or dict."""
    if isinstance(value, tuple):
        entries = map(change, value)
        return type(value)(*entries) if hasattr(value, "_fields") else tuple(entries)
    if isinstance(value, list):
        return [change(part) for part in value]
    if isinstance(value, dict):
        return {key: change(part) for key, part in value.items()}
    return value
