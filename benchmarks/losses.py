"""The hinge against the logistic loss, on every table available: the numbers of docs/losses.md.

Tables: all of raetsch, libsvm and pmlb, and those of misc whose rows are independent (toenail has patients).  Duplicate
tables count once: a8a has the rows of a9a, german_numer those of raetsch/german, and `pmlb.py` names those of pmlb.
Classes are as they come, including covtype's seven.  Rows with missing entries are left out; columns are standardised.

Splits: the folds of `pmlb.py`, two of them below 1,000 rows and one above; for other tables (whose own splits were not
available) 60 % of random rows, twice below 6,000 rows and once above.  At most 4,000 rows are fitted, and rows
times classes are at most 12,000; at most 4,000 are tested.

Losses: ``hinge``, ``logistic`` and, for the kernel, ``hinge-augmented``; of `BayesianSVC` and of `BayesianLinearSVC`
with everything else at its default, which for more than two classes means Weston-Watkins and softmax.  By default the
logistic bound judges kernels whatever the loss is, so it does so once for all losses of a split.  For two classes, the
fits are those of the default (up to rounding).  For more classes, where models with the loss itself decide whether the
variance is held fixed, all losses use the decision of the hinge.  The seconds (of processor time, to fit and
``predict_proba``, one thread) exclude those of the kernel, which are shown separately.  Noise: the same, with the
labels of a random tenth of the fitted rows, and of no other rows, changed to another class.

Measures: error; log loss (a class that was not fitted has probability 1e-15); Brier score (half the squared distance
between the probabilities and the outcome, which for two classes is the usual one); expected calibration error of the
predicted class.  Differences are paired: means over tables and their standard errors.  A table is won if the difference
exceeds one standard error of its own, over test rows.

Target: what docs/losses.md says of the differences.

    python benchmarks/losses.py --data PATH [--cache FILE]    # scores are kept in FILE: a second run goes on from there
    python benchmarks/losses.py --data PATH --quick
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedShuffleSplit
from threadpoolctl import threadpool_limits

from common import Split, arguments, n_cores, print_table, report, standardised
from pmlb import FEW, LEAST_PROBABILITY, SOME, Cache, Cell, folds, load_table, table_names
from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.metrics import expected_calibration_error

FOLDERS = {"raetsch": (), "libsvm": ("a8a", "german_numer"), "misc": ("toenail",)}  # and what is left out
QUICK = ["raetsch/heart", "misc/acath", "pmlb/iris", "pmlb/tae"]
MOST_ROWS, MOST_CELLS, FITTED_SHARE, NOISE = 4000, 12_000, 0.6, 0.1
#: Below this share of the largest entropy classes are imbalanced: with two, where one has less than 24 % of the rows.
EVEN = 0.8
EASY = 0.05
LOSSES = {
    "kernel": ("hinge", "logistic", "hinge-augmented"), "kernel, noise": ("hinge", "logistic"),
    "linear": ("hinge", "logistic"), "linear, noise": ("hinge", "logistic"),
}  # fmt: skip
PAIRS = [("kernel", "logistic"), ("kernel, noise", "logistic"), ("linear", "logistic"), ("linear, noise", "logistic")]
PAIRS += [("kernel", "hinge-augmented")]
#: What docs/losses.md says: with right labels and a kernel the losses differ by no more than this on average over all
#: tables, and elsewhere the logistic one is ahead by log loss.
ALIKE = {"error": 0.005, "log_loss": 0.005}
LOGISTIC_IS_AHEAD = ("kernel, noise", "linear", "linear, noise")


class Marks(NamedTuple):
    """How good a loss is on a split; smaller is better."""

    error: float
    log_loss: float
    brier: float
    ece: float
    seconds: float


class Contest(NamedTuple):
    """The marks of all losses of a model on a split, the squared standard errors of differences to the hinge, seconds
    for the kernel."""

    marks: dict[str, Any]
    variances: dict[str, dict[str, float]]
    tuning: float


class Contests(Cache):
    """Contests by cell, each a line of JSON, in place of scores."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(None)
        self.path = path
        self.scores: dict[Cell, Any] = {}
        for line in path.read_text().splitlines() if path is not None and path.exists() else []:
            cell, (marks, variances, tuning) = json.loads(line)
            named = {loss: Marks(*values) for loss, values in marks.items()}
            self.scores[Cell(*cell)] = Contest(named, variances, tuning)

    def of(self, table: str, method: str) -> list[Contest]:
        """One for each split."""
        return [contest for cell, contest in self.scores.items() if (cell.table, cell.method) == (table, method)]

    def mean(self, table: str, method: str, loss: str, measure: str) -> float:
        return float(np.mean([getattr(contest.marks[loss], measure) for contest in self.of(table, method)]))

    def differences(self, tables: Iterable[str], method: str, loss: str, measure: str) -> np.ndarray:
        """A loss less the hinge, on each table."""
        pairs = [[self.mean(table, method, one, measure) for one in (loss, "hinge")] for table in tables]
        return np.array([own - hinge for own, hinge in pairs])

    def deviations(self, tables: Iterable[str], method: str, loss: str, measure: str) -> np.ndarray:
        """Standard errors of these differences, over the rows tested."""
        every = ([contest.variances[loss][measure] for contest in self.of(table, method)] for table in tables)
        return np.array([np.sqrt(np.sum(found)) / len(found) for found in every])


def all_tables(folder: Path | None) -> list[str]:
    names = [f"pmlb/{name}" for name in table_names(folder)]
    assert folder is not None
    for part, without in FOLDERS.items():
        names += [f"{part}/{path.stem}" for path in (folder / part).glob("*.npz") if path.stem not in without]
    return sorted(names)


def load(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The complete rows, repeats that the source marks left out, and classes as codes from 0."""
    if name.startswith("pmlb/"):
        return load_table(folder, name.removeprefix("pmlb/"))
    with np.load(folder / f"{name}.npz") as file:
        keys = [end for end in ("", "_train", "_test") if f"X{end}" in file]
        X, y = (np.concatenate([file[f"{letter}{end}"] for end in keys]) for letter in "Xy")
        keep = file["unique_index"] if "unique_index" in file else np.arange(len(y))
    keep = keep[~np.isnan(X[keep]).any(axis=1)]
    return X[keep], np.unique(y[keep], return_inverse=True)[1]


def splits(name: str, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and rows to test, no more of either than there is time for."""
    if name.startswith("pmlb/"):
        parts = folds(y)[: 2 if len(y) < FEW else 1]
    else:
        random = StratifiedShuffleSplit(2 if len(y) < SOME else 1, train_size=FITTED_SHARE, random_state=0)
        parts = list(random.split(y, y))
    most, rng = min(MOST_ROWS, MOST_CELLS // (int(y.max()) + 1)), np.random.default_rng(0)
    return [(rng.permutation(train)[:most], rng.permutation(test)[:MOST_ROWS]) for train, test in parts]


def rows_of(folder: Path, cell: Cell) -> Split:
    """A split, standardised; with noise if the method says so."""
    X, y = load(folder, cell.table)
    train, test = splits(cell.table, y)[cell.fold]
    fitted, tested = (X[rows].astype(float) for rows in (train, test))
    labels = with_noise(y[train], int(y.max()) + 1, cell.fold) if "noise" in cell.method else y[train]
    return Split(standardised(fitted), labels, standardised(tested, fitted), y[test])


def with_noise(y: np.ndarray, n_classes: int, seed: int) -> np.ndarray:
    """A tenth of the labels changed to any other class."""
    rng, y = np.random.default_rng(seed), y.copy()
    wrong = rng.choice(len(y), round(NOISE * len(y)), replace=False)
    y[wrong] = (y[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return y


def models_of(method: str, rows: Split) -> tuple[dict[str, Any], float]:
    """A model for each loss, and the seconds to find the kernel that they share."""
    settings: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
    if method.startswith("linear"):
        return {loss: BayesianLinearSVC(loss=loss, **settings) for loss in LOSSES[method]}, 0.0
    start = time.process_time()
    tuned = BayesianSVC(max_iter=1, link="logistic", **settings).fit(rows.X, rows.y)
    seconds = time.process_time() - start
    settings |= {"kernel": tuned.kernel_, "tune": None, "inducing": tuned.inducing_points_}
    return {loss: BayesianSVC(loss=loss, **settings) for loss in LOSSES[method]}, seconds


_ready: list[bool] = []


def get_ready() -> None:
    """First calls in a process are slow, and no loss's time."""
    if not _ready:
        X, y = load_iris(return_X_y=True)
        for rows in (y < 2, y < 3):
            for loss in LOSSES["kernel"]:
                BayesianSVC(loss=loss, tune=None).fit(X[rows][::5], y[rows][::5])
        _ready.append(True)


def contest_of(folder: Path, cell: Cell) -> tuple[Cell, Contest | None, str]:
    """What each loss does on a split; or what went wrong."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes, and fits that stop early
        get_ready()
        rows = rows_of(folder, cell)
        try:
            models, tuning = models_of(cell.method, rows)
            found = {loss: marks_of(model, rows) for loss, model in models.items()}
        except Exception as error:  # the others go on
            return cell, None, f"{type(error).__name__}: {error}"
    hinge, n = found["hinge"][1], len(rows.y_test)
    variances = {
        loss: {measure: float(np.var(own[measure] - hinge[measure]) / n) for measure in hinge}
        for loss, (_, own) in found.items()
    }
    return cell, Contest({loss: marks for loss, (marks, _) in found.items()}, variances, tuning), ""


def marks_of(model: Any, rows: Split) -> tuple[Marks, dict[str, np.ndarray]]:
    """The marks of a model, and those of every row that have any."""
    start = time.process_time()
    own = model.fit(rows.X, rows.y).predict_proba(rows.X_test)
    seconds = time.process_time() - start
    y, every = rows.y_test, np.arange(len(rows.y_test))
    p = np.full((len(y), max(y.max(), model.classes_.max()) + 1), LEAST_PROBABILITY)
    p[:, model.classes_] = np.maximum(own, LEAST_PROBABILITY)
    p /= p.sum(axis=1, keepdims=True)
    right = p.argmax(axis=1) == y
    each = {
        "error": 1.0 - right,
        "log_loss": -np.log(p[every, y]),
        "brier": ((p**2).sum(axis=1) - 2 * p[every, y] + 1) / 2,
    }
    means = (float(values.mean()) for values in each.values())
    return Marks(*means, expected_calibration_error(right, p.max(axis=1), pos_label=True), seconds), each


def compute(folder: Path, tables: Sequence[str], cache: Contests, one: bool) -> dict[str, list[Any]]:
    """What is missing, the greatest first, on all cores; returns rows, columns, classes, rows fitted, splits, and
    how even classes are."""
    facts: dict[str, list[Any]] = {}
    for table in tables:
        X, y = load(folder, table)
        share, parts = np.bincount(y) / len(y), splits(table, y)
        even = float(-(share @ np.log(share)) / np.log(len(share)))
        facts[table] = [*X.shape, len(share), len(parts[0][0]), 1 if one else len(parts), even]
    largest = sorted(tables, key=lambda table: -facts[table][2] * facts[table][3])
    cells = [Cell(table, fold, how) for table in largest for how in LOSSES for fold in range(facts[table][4])]
    parallel: Any = Parallel(n_jobs=n_cores(), return_as="generator_unordered")
    todo = (delayed(contest_of)(folder, cell) for cell in cells if cell not in cache.scores)
    for cell, contest, failure in parallel(todo):
        if contest is None:
            print(f"failed: {cell.method}, split {cell.fold} of {cell.table}: {failure}", flush=True)
        else:
            cache.keep(cell, contest)
    return facts


def groups_of(tables: Sequence[str], facts: dict[str, list[Any]], cache: Contests) -> dict[str, list[str]]:
    def error(table: str) -> float:
        return float(np.mean([cache.mean(table, "kernel", loss, "error") for loss in ("hinge", "logistic")]))

    tests = {
        "all": lambda table: True,
        "two classes": lambda table: facts[table][2] == 2,
        "more classes": lambda table: facts[table][2] > 2,
        f"below {FEW} rows": lambda table: facts[table][0] < FEW,
        f"{FEW} rows and more": lambda table: facts[table][0] >= FEW,
        f"easy (error below {EASY})": lambda table: error(table) < EASY,
        "hard": lambda table: error(table) >= EASY,
        "imbalanced": lambda table: facts[table][5] < EVEN,
    }
    found = {name: [table for table in tables if test(table)] for name, test in tests.items()}
    return {name: chosen for name, chosen in found.items() if chosen}


def show_tables(tables: Sequence[str], facts: dict[str, list[Any]], cache: Contests) -> None:
    columns = [(how, loss) for how, losses in LOSSES.items() for loss in losses]
    print("The tables\n")
    header = ["table", "rows", "columns", "classes", "fitted", "splits", "evenness"]
    print_table(header, [[table, *facts[table][:5], f"{facts[table][5]:.2f}"] for table in tables])
    for measure in ("error", "log_loss"):
        print(f"\n{measure.replace('_', ' ')}, means over splits\n")
        rows = [[table, *(f"{cache.mean(table, *at, measure):.4f}" for at in columns)] for table in tables]
        print_table(["table", *(f"{how}: {loss}" for how, loss in columns)], rows)


def show_means(tables: Sequence[str], cache: Contests) -> None:
    rows = []
    for how, losses in LOSSES.items():
        for loss in losses:
            means = {m: np.mean([cache.mean(table, how, loss, m) for table in tables]) for m in Marks._fields}
            rows.append([f"{how}: {loss}", *(f"{value:.4f}" for value in means.values())])
    tuning = np.mean([np.mean([contest.tuning for contest in cache.of(table, "kernel")]) for table in tables])
    print("\nMeans over tables\n")
    print_table(["model", "error", "log loss", "Brier", "ECE", "seconds"], rows)
    print(f"\nseconds to find the kernel, on average: {tuning:.2f}")


def signed(values: np.ndarray) -> str:
    """The mean, and its standard error."""
    error = f"{values.std(ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else "?"
    return f"{values.mean():+.4f} ± {error}"


def won(tables: Sequence[str], cache: Contests, how: str, loss: str, measure: str) -> tuple[int, int]:
    """On how many tables the hinge, and the other, is better by more than a standard error."""
    difference, deviation = (f(tables, how, loss, measure) for f in (cache.differences, cache.deviations))
    return int(np.sum(difference > deviation)), int(np.sum(difference < -deviation))


def difference_rows(groups: dict[str, list[str]], cache: Contests, how: str, loss: str) -> list[list[Any]]:
    """Of each group: how many tables, the differences, and who won how many by error and by log loss."""
    return [
        [
            name, len(tables),
            *(signed(cache.differences(tables, how, loss, measure)) for measure in Marks._fields[:4]),
            *("{} / {}".format(*won(tables, cache, how, loss, measure)) for measure in ("error", "log_loss")),
        ]
        for name, tables in groups.items()
    ]  # fmt: skip


def show_differences(groups: dict[str, list[str]], cache: Contests) -> None:
    for how, loss in PAIRS:
        print(f"\n{how}: {loss} less hinge (better on so many tables by error, by log loss: hinge / {loss})\n")
        header = ["group", "tables", "error", "log loss", "Brier", "ECE", "by error", "by log loss"]
        print_table(header, difference_rows(groups, cache, how, loss))
    print("\nWhat noise costs: with it less without it\n")
    rows, every = [], groups["all"]
    for how in ("kernel", "linear"):
        for loss in ("hinge", "logistic"):
            cost = [
                np.array([cache.mean(t, f"{how}, noise", loss, m) - cache.mean(t, how, loss, m) for t in every])
                for m in Marks._fields[:4]
            ]
            rows.append([f"{how}: {loss}", *map(signed, cost)])
    print_table(["model", "error", "log loss", "Brier", "ECE"], rows)


def show_page(groups: dict[str, list[str]], cache: Contests) -> None:
    """The numbers of docs/losses.md, as they stand there."""
    print("\nFor docs/losses.md\n")
    for how in ("kernel", "linear"):
        print(f"| {how}: logistic less hinge | tables | error | log loss | ECE | won: hinge / logistic | ", end="")
        print("log loss, noise | won, noise |\n|---|---|---|---|---|---|---|---|")
        plain, noisy = (difference_rows(groups, cache, f"{how}{end}", "logistic") for end in ("", ", noise"))
        for (name, number, error, log_loss, _, ece, _, by_log_loss), other in zip(plain, noisy, strict=True):
            print("|", " | ".join(map(str, (name, number, error, log_loss, ece, by_log_loss, other[3], other[7]))), "|")
        print()
    print("| kernel: augmented hinge less hinge | tables | error | log loss | ECE | won: hinge / augmented |")
    print("|---|---|---|---|---|---|")
    some = {name: groups[name] for name in ("all", "two classes", "more classes") if name in groups}
    for name, number, error, log_loss, _, ece, _, by_log_loss in difference_rows(some, cache, *PAIRS[-1]):
        print(f"| {name} | {number} | {error} | {log_loss} | {ece} | {by_log_loss} |")
    print()


def facts_to_report(groups: dict[str, list[str]], cache: Contests) -> dict[str, Any]:
    every = groups["all"]
    value: dict[str, Any] = {"tables": len(every)}
    for how, loss in PAIRS:
        found = {m: cache.differences(every, how, loss, m) for m in Marks._fields[:4]}
        value[f"{how}: {loss} less hinge"] = {m: round(float(part.mean()), 4) for m, part in found.items()}
        value[f"{how}: won by log loss, hinge / {loss}"] = won(every, cache, how, loss, "log_loss")
    return value


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=Path, help="a file of scores to complete")


def main() -> None:
    args = arguments(__doc__, options)
    warnings.simplefilter("ignore", UserWarning)  # classes with fewer rows than folds
    every = all_tables(args.data)
    cache = Contests(None if args.quick else args.cache)
    facts = compute(args.data, QUICK if args.quick else every, cache, one=args.quick)
    tables = [table for table in facts if all(cache.of(table, how) for how in LOSSES)]
    show_tables(tables, facts, cache)
    show_means(tables, cache)
    groups = groups_of(tables, facts, cache)
    show_differences(groups, cache)
    show_page(groups, cache)
    value = facts_to_report(groups, cache)
    found = value["kernel: logistic less hinge"]
    alike = all(abs(found[measure]) <= most for measure, most in ALIKE.items())
    ahead = all(value[f"{model}: logistic less hinge"]["log_loss"] < 0 for model in LOGISTIC_IS_AHEAD)
    target = {"kernel: alike within": ALIKE, "logistic ahead by log loss": LOGISTIC_IS_AHEAD}
    report("losses", value, target, alike and ahead)


if __name__ == "__main__":
    main()
