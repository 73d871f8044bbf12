"""The many-class tables of PMLB: the folds that every method sees, scores that survive an interrupted run, and ranks.

A table counts once: of duplicates (the same rows, or the same source in another coding) the first by name is kept.
Rows with missing entries are left out.  Columns are standardised with the fitted rows.

Folds: below 1,000 rows five, below 5,000 three, each row tested once; from there on a fifth of the rows is tested,
once; above 30,000 rows, where the support vector machines would take most of the hours, 20,000 rows are fitted, by
every method, and 20,000 others tested.  All are stratified.  A class may have fewer rows than there are folds: some are
always fitted, and it is tested where it occurs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

from common import Split, standardised

TWINS = {"contraceptive": "cmc", "prnn_fglass": "glass", "car_evaluation": "car", "cars1": "cars"}
#: Rows below which there are five folds, three, or one of five; and what is left of greater tables.
FEW, SOME, MANY, MOST = 1000, 5000, 30_000, 20_000
LEAST_PROBABILITY = 1e-15


def table_names(folder: Path | None) -> list[str]:
    """All tables, without the second of twins, by name."""
    if folder is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    return sorted(path.stem for path in (folder / "pmlb").glob("*.npz") if path.stem not in TWINS)


def halves(names: Sequence[str]) -> dict[str, list[str]]:
    """Alternating by name: choices are made on the first half and judged on the second."""
    return {"half1": sorted(names)[::2], "half2": sorted(names)[1::2]}


def load_table(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The complete rows, and classes as codes from 0."""
    with np.load(folder / "pmlb" / f"{name}.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    complete = ~np.isnan(X).any(axis=1)
    return X[complete], np.unique(y[complete], return_inverse=True)[1]


def folds(y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and rows to test, by the number of rows."""
    if len(y) > MANY:
        part = StratifiedShuffleSplit(1, train_size=MOST, test_size=MOST, random_state=0)
        return list(part.split(y, y))
    parts = StratifiedKFold(3 if FEW <= len(y) < SOME else 5, shuffle=True, random_state=0)
    return list(parts.split(y, y))[: 1 if len(y) >= SOME else None]


def rows_of(folder: Path, name: str, fold: int) -> Split:
    """A table's fold, standardised."""
    X, y = load_table(folder, name)
    train, test = folds(y)[fold]
    return Split(standardised(X[train]), y[train], standardised(X[test], X[train]), y[test])


class Cell(NamedTuple):
    """What is computed as one: a method on a fold of a table."""

    table: str
    fold: int
    method: str


class Score(NamedTuple):
    """How good a method is on a fold, and the seconds to fit and to predict."""

    accuracy: float
    log_loss: float
    seconds: float


#: Whether more is better.
MORE_IS_BETTER = {"accuracy": True, "log_loss": False, "seconds": False}
#: Of a method that failed.
FAILED = Score(0.0, np.inf, np.inf)


def log_loss_of(y: np.ndarray, proba: np.ndarray, classes: np.ndarray) -> float:
    """The mean log loss; a class that the method has not seen has the least probability there is."""
    p = np.zeros((len(y), max(y.max(), classes.max()) + 1))
    p[:, classes] = proba
    p = np.clip(p, LEAST_PROBABILITY, None)
    return float(-np.mean(np.log(p[np.arange(len(y)), y] / p.sum(axis=1))))


class Cache:
    """Scores by cell, each a line of JSON in a file, if there is one; a later line counts for an earlier one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.scores: dict[Cell, Score] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                cell, score = json.loads(line)
                self.scores[Cell(*cell)] = Score(*score)

    def keep(self, cell: Cell, score: Score) -> None:
        self.scores[cell] = score
        if self.path is not None and score != FAILED:  # another run may do better
            with self.path.open("a") as file:
                file.write(json.dumps([cell, score]) + "\n")

    def methods_on(self, tables: Iterable[str], methods: Iterable[str]) -> list[str]:
        """Those of the methods that have been on all of the tables."""
        seen = {(cell.table, cell.method) for cell in self.scores}
        return [method for method in methods if all((table, method) in seen for table in tables)]

    def means(self, tables: Sequence[str], methods: Sequence[str], measure: str) -> np.ndarray:
        """Means over folds, of shape (tables, methods)."""
        found: dict[tuple[str, str], list[float]] = {}
        for cell, score in self.scores.items():
            found.setdefault((cell.table, cell.method), []).append(getattr(score, measure))
        return np.array([[np.mean(found[table, method]) for method in methods] for table in tables])


def mean_ranks(values: np.ndarray, measure: str) -> np.ndarray:
    """Of the columns, 1 the best, over the rows; ties share their ranks, as in Wistuba and Rawat (2018)."""
    # Means of the same folds may differ in their last digits.
    signed = np.round(-values if MORE_IS_BETTER[measure] else values, 9)
    return np.mean([rankdata(row) for row in signed], axis=0)


def mean_accuracies(cache: Cache, tables: Sequence[str], methods: Sequence[str]) -> dict[str, float]:
    """Means over tables of the means over folds."""
    return dict(zip(methods, cache.means(tables, methods, "accuracy").mean(axis=0).tolist(), strict=True))


def describe(folder: Path, names: Sequence[str]) -> list[list[Any]]:
    """Of each table: rows, columns, classes, folds, and the rows that the first fold fits."""
    found = []
    for name in names:
        X, y = load_table(folder, name)
        parts = folds(y)
        found.append([name, *X.shape, int(y.max()) + 1, len(parts), len(parts[0][0])])
    return found
