"""Claim: a table with a fifth of its entries missing takes at most 30 times as long to fit as the complete table.

100,000 rows, 20 columns correlated through five common causes, labels by the logistic function of all columns; 20 % of
the entries are deleted at random.  `BayesianLinearSVC()` on the table with NaN takes turns with the table before
deletion, three times on two threads: once with default settings (complete rows then take stochastic steps under the
hinge, those with missing entries an ascent under Jaakkola and Jordan's bound), once with the augmented hinge by
coordinate ascent for both.  Log losses on 20,000 complete rows are shown beside the ratio, also for a fit to columns
filled with means.

Target: both median ratios of seconds are at most 30.

    python benchmarks/speed_missing.py [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from common import arguments, print_table, report, timed
from softmargin import BayesianLinearSVC

N_ROWS, N_TEST, N_COLUMNS, N_CAUSES, SHARE = 100_000, 20_000, 20, 5, 0.2
REPEATS, TARGET = 3, 30.0
WAYS: dict[str, Any] = {"as it comes": {}, "augmented, ascent": {"loss": "hinge-augmented", "inference": "cavi"}}


def simulated(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    loadings, u = rng.standard_normal((N_CAUSES, N_COLUMNS)), 0.5 * rng.standard_normal(N_COLUMNS)
    X = rng.standard_normal((n, N_CAUSES)) @ loadings / N_CAUSES**0.5 + 0.6 * rng.standard_normal((n, N_COLUMNS))
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ u)), 1.0, -1.0)


def fitted(way: str, X: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
    model = BayesianLinearSVC(n_jobs=2, random_state=0, **WAYS[way])
    return timed(lambda: model.fit(X, y))


def main() -> None:
    args = arguments(__doc__)
    n = N_ROWS // 20 if args.quick else N_ROWS
    X, y = simulated(n + N_TEST)
    X, X_test, y, y_test = X[:n], X[n:], y[:n], y[n:]
    gone = np.random.default_rng(1).random(X.shape) < SHARE
    holed = np.where(gone, np.nan, X)
    means = np.where(gone, np.nanmean(holed, axis=0), X)
    tables = {"complete": X, "missing": holed, "means": means}

    fitted("as it comes", holed[:2000], y[:2000])  # first calls are slow, and nobody's time
    table, value = [], {}
    for way in WAYS:
        seconds: dict[str, list[float]] = {name: [] for name in tables}
        losses = {}
        for _ in range(1 if args.quick else REPEATS):
            for name, rows in tables.items():
                passed, model = fitted(way, rows, y)
                seconds[name].append(passed)
                losses[name] = log_loss(y_test, model.predict_proba(X_test))
        ratio = float(np.median(np.divide(seconds["missing"], seconds["complete"])))
        value[way] = round(ratio, 1)
        times = (f"{np.median(seconds[name]):.3g}" for name in ("complete", "missing"))
        table.append([way, *times, f"{ratio:.1f}", *(f"{losses[name]:.4f}" for name in tables)])
    print(f"{n:,} rows, {N_COLUMNS} columns, {gone.mean():.0%} missing\n")
    header = ["fit", "s complete", "s missing", "ratio", "log loss complete", "missing modelled", "filled with means"]
    print_table(header, table)
    print()
    report("speed_missing", value, TARGET, max(value.values()) <= TARGET)


if __name__ == "__main__":
    main()
