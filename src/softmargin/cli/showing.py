"""Output for users: tables, progress and errors."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from ..evaluation import MEASURES, Estimate, Evaluation

__all__ = [
    "complain",
    "plain_table",
    "print_evaluation",
    "print_json",
    "print_preparation",
    "progress",
    "refuse_out",
    "say",
    "with_option",
]


def say(text: str = "") -> None:
    """Prints a line, wrapped to the width of the terminal."""
    Console(highlight=False).print(escape(text), soft_wrap=not sys.stdout.isatty())


def complain(text: str) -> None:
    """Prints a line on the error stream."""
    Console(stderr=True, highlight=False).print(escape(text), soft_wrap=True)


def print_json(value: Any) -> None:
    """Prints one line of JSON, with null for NaN and infinity."""
    print(json.dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    """The value in types that JSON supports."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on the error stream, so that the output can be piped."""
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, advance=1, description=escape(what))


def plain_table(first: str, others: Sequence[str]) -> Table:
    """An empty table whose first column is for words, and the others for numbers."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    shown.add_column(first, no_wrap=True)
    for heading in others:
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def print_preparation(described: Any) -> None:
    """Prints how each column is encoded."""
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("column", "kind", "becomes", "note"):
        shown.add_column(heading, overflow="fold")
    for row in described.itertuples(index=False):
        parts = row.column, row.kind, row.becomes, with_option(row.note, row.column)
        shown.add_row(*(escape(str(part)) for part in parts))
    Console(highlight=False).print(shown)


def with_option(note: str, column: str) -> str:
    """A note on a column; where it names the Python parameter, the command line has an option."""
    return note.replace(f"keep={column!r}", f"--keep {column}")


def print_evaluation(found: Evaluation) -> None:
    """Prints measures with their intervals."""
    shown = plain_table("measure", ["value", f"{found.level:.0%} interval"])
    for name, heading in MEASURES.items():
        shown.add_row(heading, *in_words(found[name]))
    Console(highlight=False).print(shown)


def in_words(estimate: Estimate) -> tuple[str, str]:
    """A value and its interval, as text."""
    if math.isnan(estimate.value):
        return "undefined", ""
    return f"{estimate.value:.4f}", f"{estimate.low:.4f} to {estimate.high:.4f}"


def refuse_out(path: Path, formats: Sequence[str] = ()) -> str | None:
    """The reason why no file can be written to ``path``, or None; to be checked before the work begins."""
    if formats and path.suffix[1:].lower() not in formats:
        return f"{path} must end in {_or([f'.{suffix}' for suffix in formats[:4]])}."
    if path.is_dir():
        return f"{path} is a folder."
    if not path.parent.is_dir():
        return f"The folder {path.parent} does not exist."
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return f"{path} cannot be written: permission denied."
    return None


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
