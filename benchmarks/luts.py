"""What the studies of Luts and Ormerod (2014) share: hold-outs, a support vector machine with its grid, and pictures.

As in the paper, every model classifies by the sign of its latent mean; calibrating links play no part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from common import n_cores, print_table, timed

#: Turns of a chain that are thrown away, and draws that are kept.
CHAIN: dict[str, Any] = {"inference": "gibbs", "warm_up": 5000, "n_draws": 5000, "n_chains": 1}
QUICK_CHAIN = {**CHAIN, "warm_up": 50, "n_draws": 50}
#: The paper's prior of a variance, inverse gamma.
VAGUE: dict[str, Any] = {"shape": 0.01, "rate": 0.01}
HOLD_OUT_SHARE = 0.25


def chain(quick: bool) -> dict[str, Any]:
    return QUICK_CHAIN if quick else CHAIN


def arrays(folder: Path | None, name: str) -> dict[str, np.ndarray]:
    """Everything in a file of data, such as ``"misc/toenail"``."""
    if folder is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    with np.load(folder / f"{name}.npz") as file:
        return dict(file)


def balanced_error(y: np.ndarray, predicted: np.ndarray) -> float:
    """The mean of the error rates of the classes -1 and +1; of one of them where the other is absent."""
    return float(np.mean([np.mean(predicted[y == label] != label) for label in (-1, 1) if np.any(y == label)]))


def signs(model: Any, X: Any) -> np.ndarray:
    """Labels by the sign of the latent mean, or of a support vector machine."""
    f = (
        model.latent_mean_and_variance(X)[0]
        if hasattr(model, "latent_mean_and_variance")
        else model.decision_function(X)
    )
    return np.where(f > 0, 1.0, -1.0)


# The default support vector machine of the paper ----------------------------------------------------------------------


class GridSVC(BaseEstimator):
    """Linear SVC whose penalty is the best of two grids by repeated hold-out (section 4.1), then a fit to all rows.

    The second grid lies around the best of the first, one step to either side.  The paper holds a quarter of the rows
    out 100 times; here ``n_repeats`` times, the same rows for all penalties, and penalties are judged by the balanced
    error, as the studies judge the machine.  ``balanced`` weighs rows by the rarity of their class.
    """

    FIRST = 10.0 ** np.arange(-3.0, 1.5)
    SECOND = 10.0 ** np.arange(-0.75, 1.0, 0.25)

    def __init__(self, n_repeats: int = 10, balanced: bool = False, seed: int = 0) -> None:
        self.n_repeats = n_repeats
        self.balanced = balanced
        self.seed = seed

    def fit(self, X: Any, y: Any) -> GridSVC:
        splits = hold_outs(len(y), self.n_repeats, self.seed)
        best = self._best(self.FIRST, X, y, splits)
        self.C_ = self._best(best * self.SECOND, X, y, splits)
        self.model_ = self._machine(self.C_).fit(X, y)
        return self

    def _machine(self, C: float) -> SVC:
        return SVC(kernel="linear", C=C, class_weight="balanced" if self.balanced else None)

    def _best(self, grid: np.ndarray, X: np.ndarray, y: np.ndarray, splits: list[Any]) -> float:
        errors = [np.mean([self._error(C, X, y, *split) for split in splits]) for C in grid]
        return float(grid[int(np.argmin(errors))])

    def _error(self, C: float, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
        if len(set(y[train])) < 2:
            return 0.5
        return balanced_error(y[test], signs(self._machine(C).fit(X[train], y[train]), X[test]))

    def decision_function(self, X: Any) -> np.ndarray:
        return self.model_.decision_function(X)


# Repeated hold-out ----------------------------------------------------------------------------------------------------


def hold_outs(n: int, n_repeats: int, seed: int = 0, among: np.ndarray | None = None) -> list[Any]:
    """Pairs of rows to fit and rows to test: a quarter of all, at random (from ``among``, where given)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_repeats):
        test = rng.permutation(n if among is None else among)[: round(HOLD_OUT_SHARE * n)]
        found.append((np.setdiff1d(np.arange(n), test), test))
    return found


class Scores(NamedTuple):
    """Balanced errors and seconds of a method, an entry for each replicate that it saw: the first so many."""

    errors: np.ndarray
    seconds: np.ndarray


#: From the number of a replicate and the name of a method to its balanced error and the seconds of its fit.
Trial = Callable[[int, str], tuple[float, float]]


def scores(trial: Trial, replicates: Mapping[str, int]) -> dict[str, Scores]:
    """All methods on as many replicates as each is given, a process of one thread on each core."""
    tasks = [(r, [name for name, n in replicates.items() if r < n]) for r in range(max(replicates.values()))]
    parts: Any = Parallel(n_jobs=n_cores())(delayed(_replicate)(trial, *task) for task in tasks)
    found = {}
    for name in replicates:
        seen = np.array([part[name] for part in parts if name in part])
        found[name] = Scores(seen[:, 0], seen[:, 1])
    return found


def _replicate(trial: Trial, r: int, names: list[str]) -> dict[str, tuple[float, float]]:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: trial(r, name) for name in names}


def fitted_error(model: Any, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> tuple[float, float]:
    """The balanced error of a model on rows to test, and the seconds of its fit."""
    seconds, _ = timed(lambda: model.fit(X, y))
    return balanced_error(y_test, signs(model, X_test)), seconds


class Paired(NamedTuple):
    """The mean of a difference over the replicates that both methods saw, and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, own: Scores, other: Scores) -> Paired:
        n = min(len(own.errors), len(other.errors))
        difference = own.errors[:n] - other.errors[:n]
        return cls(float(difference.mean()), float(difference.std(ddof=1) / n**0.5))

    @property
    def in_errors(self) -> float:
        """In standard errors: at most 1 is within one of the other, or better."""
        return self.mean / self.error if self.error > 0 else float(np.sign(self.mean)) * 1e3

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ± {self.error:.4f}"


def show_scores(found: Mapping[str, Scores], against: Sequence[str]) -> None:
    """A row for each method: how many replicates, errors, seconds, and paired differences from others."""
    rows = []
    for name, own in found.items():
        differences = ("" if name == other else str(Paired.of(own, found[other])) for other in against)
        error = f"{own.errors.mean():.4f} ± {own.errors.std(ddof=1):.4f}"
        rows.append([name, len(own.errors), error, f"{np.median(own.seconds):.3g}", *differences])
    header = ["method", "replicates", "balanced error", "seconds", *(f"less that of {name}" for name in against)]
    print_table(header, rows)


# Pictures -------------------------------------------------------------------------------------------------------------


def boxplots(panels: Mapping[str, Mapping[str, Scores]], n_columns: int = 1) -> Any:
    """Boxes of balanced errors, a panel for each title; median seconds of a fit stand under each name."""
    from matplotlib.figure import Figure

    n_rows = -(-len(panels) // n_columns)
    methods = max(len(found) for found in panels.values())
    figure = Figure(figsize=((1 + 1.1 * methods) * n_columns, 3.2 * n_rows), dpi=100, layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax, (title, found) in zip(axes, panels.items(), strict=False):
        names = [f"{name}\n{np.median(own.seconds):.2g} s" for name, own in found.items()]
        ax.boxplot(
            [own.errors for own in found.values()], widths=0.6, medianprops={"color": "C1"}, flierprops={"ms": 3}
        )
        ax.set_xticks(range(1, len(names) + 1), names, fontsize="small")
        ax.set_title(title, loc="left", fontsize="medium")
        ax.set_ylabel("balanced error")
    return figure
