"""What the benchmark scripts share: arguments, data sets by name, a table, and the line of JSON at the end."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

#: Sets with more than two classes, and the class that stands against the rest.
_AGAINST_THE_REST = {"libsvm/covtype": 2}


def arguments(description: str | None) -> argparse.Namespace:
    """``--data`` and ``--quick``, which every script takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of benchmark data (scripts that simulate theirs ignore it)")
    parser.add_argument("--quick", action="store_true", help="a small version that shows that the script works")
    return parser.parse_args()


def load(folder: Path | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a two-class set such as ``"raetsch/heart"``, labels -1 and +1 (the greater label).

    Official parts are joined.  Rows that the source marks as repeats are left out, as the papers do.
    """
    if folder is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    X, y = (np.concatenate([arrays[key] for key in _parts(letter, arrays)]) for letter in "Xy")
    keep = arrays.get("unique_index", slice(None))
    positive = _AGAINST_THE_REST.get(name, y.max())
    return X[keep].astype(float), np.where(y[keep] == positive, 1.0, -1.0)


def _parts(letter: str, arrays: dict[str, np.ndarray]) -> list[str]:
    return [key for key in (letter, f"{letter}_train", f"{letter}_test") if key in arrays]


def standardised(X: np.ndarray, reference: np.ndarray | None = None) -> np.ndarray:
    """Columns about the mean, in units of the standard deviation, of ``reference`` (of ``X`` itself by default)."""
    reference = X if reference is None else reference
    sd = reference.std(axis=0)
    return (X - reference.mean(axis=0)) / np.where(sd > 0, sd, 1.0)


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns as wide as their widest entry; the first to the left, the others to the right."""
    cells = [list(map(_text, row)) for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in [cells[0], ["-" * width for width in widths], *cells[1:]]:
        first, *others = row
        print("  ".join([first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True))]))


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def report(name: str, value: Any, target: Any, ok: bool) -> None:
    """The last line of a script: what was measured, what was promised, and whether it held."""
    print(json.dumps({"name": name, "value": value, "target": target, "ok": bool(ok)}))
