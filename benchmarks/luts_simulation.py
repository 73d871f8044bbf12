"""Claim: mean-field inference classifies as well as Gibbs sampling, and no worse than a tuned support vector machine.

Section 4.2 of Luts and Ormerod (2014): normal columns, coefficients and intercept from N(0, 1), labels by the logistic
function; n = 100, 200, 500 rows, d = 10, 50, 100 columns, 200 tables of each size, each with 1,000 new test rows.

* VB: their Algorithm 2 (``loss="hinge-augmented"``, inverse gamma prior .01, .01), to 1e-10 of the bound as they do;
* exact: the exact hinge with our default prior;
* Gibbs: Appendix A, the same prior as VB, one chain of 5,000 turns and 5,000 draws;
* SVM: linear, two grids of penalties, ten hold-outs each (`luts.GridSVC`; the paper's 100 would take hours).

Gibbs and the SVM see only the first of the 200 tables, as many as the columns ``replicates`` say; differences are
paired over the tables that both saw, ± a standard error of their mean.

Target, in every cell: VB's balanced error is above that of Gibbs by at most one standard error of the difference, and
above that of the SVM by at most one.

    python benchmarks/luts_simulation.py [--quick]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from common import arguments, print_table, report, save_picture
from luts import VAGUE, GridSVC, Paired, Scores, boxplots, chain, fitted_error, scores, show_scores
from softmargin import BayesianLinearSVC

SIZES = [(n, d) for n in (100, 200, 500) for d in (10, 50, 100)]
VB, EXACT, GIBBS, SVM = "VB", "exact", "Gibbs", "SVM"
REPLICATES = {VB: 200, EXACT: 200, GIBBS: 40, SVM: 100}
QUICK = {VB: 4, EXACT: 4, GIBBS: 3, SVM: 3}
N_TEST = 1000
TARGET = 1.0


class Simulated(NamedTuple):
    """A table, and rows to test."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def simulated(n: int, d: int, seed: int) -> Simulated:
    rng = np.random.default_rng([n, d, seed])
    intercept, u = rng.standard_normal(), rng.standard_normal(d)
    X = rng.standard_normal((n + N_TEST, d))
    y = np.where(rng.random(n + N_TEST) < 1 / (1 + np.exp(-intercept - X @ u)), 1.0, -1.0)
    return Simulated(X[:n], y[:n], X[n:], y[n:])


def model(name: str, quick: bool) -> Any:
    if name == SVM:
        return GridSVC(2 if quick else 10)
    settings: Any = {
        VB: {"loss": "hinge-augmented", "tol": 1e-10, "max_iter": 5000, **VAGUE},
        EXACT: {"loss": "hinge"},
        GIBBS: {"loss": "hinge", **VAGUE, **chain(quick)},
    }[name]
    return BayesianLinearSVC(standardize=False, link="probit", n_jobs=1, random_state=0, **settings)


def on_size(n: int, d: int, quick: bool) -> dict[str, Scores]:
    def trial(r: int, name: str) -> tuple[float, float]:
        return fitted_error(model(name, quick), *simulated(n, d, r))

    return scores(trial, QUICK if quick else REPLICATES)


def main() -> None:
    args = arguments(__doc__)
    sizes = [(100, 10), (200, 50)] if args.quick else SIZES
    results = {(n, d): on_size(n, d, args.quick) for n, d in sizes}
    for (n, d), found in results.items():
        print(f"\nn = {n}, d = {d}\n")
        show_scores(found, [GIBBS, SVM])
    value = {
        f"VB - {other}": {
            f"{n} x {d}": round(Paired.of(found[VB], found[other]).in_errors, 2) for (n, d), found in results.items()
        }
        for other in (GIBBS, SVM)
    }
    print("\nVB's balanced error less that of others, in standard errors\n")
    print_table(["", *value["VB - Gibbs"]], [[name, *cells.values()] for name, cells in value.items()])
    print()
    panels = {f"n = {n}, d = {d}": found for (n, d), found in results.items()}
    save_picture(boxplots(panels, n_columns=min(3, len(panels))), "luts_simulation", args.quick)
    worst = max(cell for cells in value.values() for cell in cells.values())
    report("luts_simulation", value, {"most standard errors above": TARGET}, worst <= TARGET)


if __name__ == "__main__":
    main()
