"""Claim: with class weights, scaling the columns by a sample of a source is as good as scaling them by all rows.

100,000 rows of two classes; 5 % belong to the second, whose weight compensates for this.  The sample has 16,384 rows,
the smallest that is ever used.  The columns are normal, heavy-tailed, and one with a spike in every 10,000 rows.  Each
model is fitted twice to the rows as a source: with column units from the sample, as always, and with units from all
rows put in their place.  Different units lead to a different kernel and different points, and so does a different
random state.  The difference in loss on new rows is therefore compared with the effect of the random state, over eight
tables.

    python benchmarks/class_units.py [--quick]
"""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np

from common import arguments, print_table, report
from softmargin import BayesianLinearSVC, BayesianSVC, chunks
from softmargin.chunks import survey
from softmargin.columns import Columns, describe
from softmargin.estimators import base

N, N_TEST, N_SAMPLE, TABLES, TABLES_QUICK = 100_000, 50_000, 16_384, 8, 2


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    spikes = 1000.0 * (rng.random(n) < 1e-4) + rng.normal(size=n)
    X = np.column_stack(
        [rng.normal(size=n), rng.lognormal(0, 1.5, n), rng.standard_t(2, n), spikes, 7 + rng.normal(size=n)]
    )
    score = X[:, 0] + 0.5 * np.log(X[:, 1]) + 0.3 * np.tanh(X[:, 2]) - 3.5
    return X, (score + rng.logistic(size=n) > 0).astype(int)


def fitted(model: Any, X: np.ndarray, y: np.ndarray, units: Columns | None) -> Any:
    """A model of the rows as a source, by the units of the sample or by those that are given."""
    read = base.data_of

    def data_of(*args: Any, **settings: Any) -> Any:
        data = read(*args, **settings)
        return data if units is None else data._replace(columns=units)

    with patch.object(base, "data_of", data_of), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(chunks.Arrays(X, y))


def losses(model: Any, seed: int) -> list[float]:
    """The log loss of new rows: by units of the sample, of all rows, and of all rows with another random state."""
    X, y = table(N, seed)
    new, labels = table(N_TEST, seed + 1000)
    heavy = float(np.mean(y == 0) / np.mean(y == 1))
    weight = np.where(labels == 1, heavy, 1.0)
    of_all = describe(X, np.where(y == 1, heavy, 1.0))
    found = []
    for units, random_state in ((None, 0), (of_all, 0), (of_all, 1)):
        fit = fitted(model(heavy, random_state), X, y, units)
        chance = fit.predict_proba(new)[np.arange(len(labels)), labels]
        found.append(float(-weight @ np.log(chance) / weight.sum()))
    return found


def linear(heavy: float, random_state: int) -> BayesianLinearSVC:
    return BayesianLinearSVC(class_weight={0: 1.0, 1: heavy}, random_state=random_state)


def kernel(heavy: float, random_state: int) -> BayesianSVC:
    return BayesianSVC(class_weight={0: 1.0, 1: heavy}, n_inducing=64, random_state=random_state)


def main() -> None:
    args = arguments(__doc__)
    rows, worse = [], []
    with patch.object(survey, "MOST_ROWS", N_SAMPLE):
        for model in (linear, kernel):
            found = np.array([losses(model, seed) for seed in range(TABLES_QUICK if args.quick else TABLES)])
            changes = found[:, 0] - found[:, 1], found[:, 2] - found[:, 1]
            (mean, error), (other, _) = ((c.mean(), c.std(ddof=1) / np.sqrt(len(c))) for c in changes)
            typical = [np.sqrt(np.mean(change**2)) for change in changes]
            rows.append([model.__name__, f"{found[:, 1].mean():.4f}", f"{mean:+.5f} ({error:.5f})", f"{other:+.5f}"])
            rows[-1] += [f"{size:.5f}" for size in typical]
            worse.append(float(mean - 2 * error))
    print_table(
        ["", "log loss, units of all rows", "of the sample: more by (se)", "random state: more by", "sizes", ""], rows
    )
    print()
    report("class_units", [round(value, 5) for value in worse], "no more by two standard errors", max(worse) <= 0)


if __name__ == "__main__":
    main()
