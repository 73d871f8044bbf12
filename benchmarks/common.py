"""What the benchmark scripts share: arguments, data sets by name, tables, and the line of JSON at the end."""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.metrics import log_loss

T = TypeVar("T")

#: Sets with more than two classes, and the class that stands against the rest.
_AGAINST_THE_REST = {"libsvm/covtype": 2}


def arguments(
    description: str | None, extend: Callable[[argparse.ArgumentParser], object] | None = None
) -> argparse.Namespace:
    """``--data`` and ``--quick``, which every script takes, and what ``extend`` adds to the parser."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of benchmark data (scripts that simulate theirs ignore it)")
    parser.add_argument("--quick", action="store_true", help="a small version that shows that the script works")
    if extend is not None:
        extend(parser)
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


def n_cores() -> int:
    """The cores that this process may use: so many fits are made at once, each on one of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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


class Split(NamedTuple):
    """Rows to fit and rows to test."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split(X: np.ndarray, y: np.ndarray, n: int, n_test: int, seed: int = 0) -> Split:
    """Random rows to fit, and others to test."""
    chosen = np.random.default_rng(seed).permutation(len(y))[: n + n_test]
    return Split(X[chosen[:n]], y[chosen[:n]], X[chosen[n:]], y[chosen[n:]])


class Quality(NamedTuple):
    """How good predictions are; smaller is better."""

    error: float
    brier: float
    log_loss: float


def quality(y: np.ndarray, proba: np.ndarray, predicted: np.ndarray | None = None) -> Quality:
    """Of the probabilities of labels -1 and +1, and of the predictions: the likelier label, unless given."""
    p = proba[:, 1]
    wrong = (p > 0.5) != (y > 0) if predicted is None else predicted != y
    return Quality(float(wrong.mean()), float(np.mean((p - (y > 0)) ** 2)), float(log_loss(y, proba, labels=[-1, 1])))


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds that ``work`` takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def save_picture(figure: Any, name: str, quick: bool) -> None:
    """Writes ``pictures/NAME.png`` beside the scripts; a quick run only draws it, and keeps nothing."""
    if quick:
        figure.savefig(io.BytesIO())
        return
    path = Path(__file__).parent / "pictures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)
    print(f"picture: pictures/{name}.png\n")


#: Rows that `susy_like` makes at a time: what they need while they are made stays small beside the table.
_SIMULATED_ROWS = 250_000


def susy_like(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A float32 table in the manner of SUSY: 18 columns, labels -1 and +1, an attainable AUC of about .88.

    Six correlated causes enter the logit with bends and interactions.  Eight columns are those (some skewed)
    and two angles that mean nothing; ten are noisy functions of them.
    """
    X, y = np.empty((n, 18), dtype=np.float32), np.empty(n)
    for index, start in enumerate(range(0, n, _SIMULATED_ROWS)):
        rows = slice(start, min(start + _SIMULATED_ROWS, n))
        X[rows], y[rows] = _susy_like_rows(rows.stop - start, np.random.default_rng([seed, index]))
    return X, y


def _susy_like_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    a, b, c, d, e, f = 0.7**0.5 * rng.standard_normal((6, n)) + 0.3**0.5 * rng.standard_normal(n)
    angle, other = rng.uniform(-np.pi, np.pi, (2, n))
    logit = 0.4 + 1.6 * np.tanh(a) + 1.2 * b * c + 0.9 * (d**2 - 1) + 1.3 * np.sin(1.5 * e) - 0.8 * f
    logit -= 0.9 * np.maximum(a - b, 0)
    p, q, r = np.exp(0.5 * a), np.exp(0.5 * b), np.exp(0.4 * e)
    sums = [p + q, e + f, b - c, np.abs(c - d), np.hypot(c, d), np.log1p(np.exp(a + e))]
    products = [a * b, r / (1 + p), np.cos(angle - other), p * q * np.sqrt(1 + np.cos(angle))]
    derived = np.array([*sums, *products])
    derived += 0.3 * derived.std(axis=1, keepdims=True) * rng.standard_normal(derived.shape)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-1.1 * logit)), 1.0, -1.0)
    return np.concatenate([[p, q, c, d, r, f, angle, other], derived]).T, y
