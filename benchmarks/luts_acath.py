"""Claim: modelling missing entries lowers the balanced error or leaves it unchanged; dropping rows does not help.

Section 4.5 of Luts and Ormerod (2014): 3,504 patients with chest pain; sex, age, duration of symptoms and cholesterol,
which is missing for 1,246 patients.  Logarithms of duration (plus one: some are zero) and of cholesterol, all columns
standardised.  A quarter of the rows is held out at random 100 times, always with cholesterol observed.

* VB and Gibbs: all other rows, missing entries modelled: Algorithm 4 and Appendix C (5,000 turns and 5,000 draws);
* VB, complete: Algorithm 2 on the rows without missing entries;
* SVM, complete: linear, two grids of penalties (`luts.GridSVC`), on the rows without missing entries.

Gibbs sees only the first splits, as many as the table says; differences are paired over those that both saw.

Target: the balanced errors of VB and Gibbs are above those of VB and of the SVM on complete rows by at most one
standard error of the paired difference.

    python benchmarks/luts_acath.py --data PATH [--quick]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from common import arguments, report, save_picture
from luts import VAGUE, GridSVC, Paired, arrays, boxplots, chain, fitted_error, hold_outs, scores, show_scores
from softmargin import BayesianLinearSVC

VB, GIBBS, VB_COMPLETE, SVM_COMPLETE = "VB", "Gibbs", "VB, complete", "SVM, complete"
REPLICATES = {VB: 100, GIBBS: 60, VB_COMPLETE: 100, SVM_COMPLETE: 100}
TARGET = 1.0


def load_acath(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """The four columns, as the paper transforms them; labels -1 and +1."""
    data = arrays(folder, "misc/acath")
    sex, age, duration, cholesterol = data["X"].astype(float).T
    X = np.column_stack([sex, age, np.log1p(duration), np.log(cholesterol)])
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0), np.where(data["y"] > 0, 1.0, -1.0)


def model(name: str, quick: bool) -> Any:
    if name == SVM_COMPLETE:
        return GridSVC(2 if quick else 10)
    by_ascent = {"loss": "hinge-augmented", "tol": 1e-10, "max_iter": 5000}
    settings: Any = {"loss": "hinge", **chain(quick)} if name == GIBBS else by_ascent
    return BayesianLinearSVC(standardize=False, link="probit", n_jobs=1, random_state=0, **VAGUE, **settings)


def main() -> None:
    args = arguments(__doc__)
    X, y = load_acath(args.data)
    complete: Any = np.isfinite(X).all(axis=1)
    splits = hold_outs(len(y), 2 if args.quick else 100, among=np.flatnonzero(complete))

    def trial(r: int, name: str) -> tuple[float, float]:
        train, test = splits[r]
        if name in (VB_COMPLETE, SVM_COMPLETE):
            train = train[complete[train]]
        return fitted_error(model(name, args.quick), X[train], y[train], X[test], y[test])

    found = scores(trial, {name: min(n, len(splits)) for name, n in REPLICATES.items()})
    train = splits[0][0]
    print(f"{len(train)} rows to fit, {int(complete[train].sum())} of them complete; {len(splits[0][1])} to test\n")
    show_scores(found, [VB_COMPLETE, SVM_COMPLETE])
    print()
    save_picture(boxplots({"acath": found}), "luts_acath", args.quick)
    pairs = [(own, other) for own in (VB, GIBBS) for other in (VB_COMPLETE, SVM_COMPLETE)]
    differences = {f"{own} - {other}": Paired.of(found[own], found[other]) for own, other in pairs}
    value = {name: [round(one.mean, 4), round(one.error, 4)] for name, one in differences.items()}
    ok = all(one.in_errors <= TARGET for one in differences.values())
    report("luts_acath", value, {"most standard errors above": TARGET}, ok)


if __name__ == "__main__":
    main()
