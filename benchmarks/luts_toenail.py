"""Claim: random intercepts for patients lower the balanced error on the toenail trial by far more than .05.

Section 4.3 of Luts and Ormerod (2014): 1,908 visits of 294 patients, moderate or severe onycholysis against none or
mild; time, treatment and their product, standardised, and an intercept for each patient.  A quarter of the visits is
held out at random 100 times.  Median seconds of a fit are shown beside the errors.

* VB: ``y ~ time * treatment + (1 | patient)`` with the augmented hinge, which is the paper's Algorithm 2;
* exact: the exact hinge, by ``groups=["patient"]`` on the same columns;
* Gibbs: Appendix A, one chain of 5,000 turns and 5,000 draws;
* SVM: linear, without patients, two grids of penalties (`luts.GridSVC`);
* SVM, balanced: the same with rows weighted by class; unweighted, it predicts "none or mild" for everyone;
* SVM + patients: the SVM with a column for each patient, which the paper did not try.

Slow methods see only the first splits, as many as the table says; differences are paired over those that both saw.

Target: the mean balanced errors of VB, exact and Gibbs are at least .05 below those of the SVM, weighted or not.

    python benchmarks/luts_toenail.py --data PATH [--quick]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from common import arguments, report, save_picture, standardised
from luts import GridSVC, Paired, arrays, boxplots, chain, fitted_error, hold_outs, scores, show_scores
from softmargin import BayesianMixedSVC

FORMULA = "~ time * treatment + (1 | patient)"
VB, EXACT, GIBBS = "VB", "exact", "Gibbs"
SVM, SVM_BALANCED, SVM_PATIENTS = "SVM", "SVM, balanced", "SVM + patients"
REPLICATES = {VB: 100, EXACT: 100, GIBBS: 60, SVM: 100, SVM_BALANCED: 40, SVM_PATIENTS: 10}
#: The paper's prior variance of fixed effects; that of the intercepts' own variance, inverse gamma .01, is the default.
FLAT = 1e8
TARGET = 0.05


def load_toenail(folder: Path | None) -> tuple[pd.DataFrame, np.ndarray]:
    """Time, treatment, their product and the patient of each visit; labels -1 and +1."""
    data = arrays(folder, "misc/toenail")
    time, treatment = standardised(np.column_stack([data["time"], data["treatment"]]).astype(float)).T
    patient = [f"patient {number}" for number in data["patient_id"]]
    frame = pd.DataFrame({"time": time, "treatment": treatment, "product": time * treatment, "patient": patient})
    return frame, np.where(data["y"] > 0, 1.0, -1.0)


def model(name: str, quick: bool) -> Any:
    if name in (SVM, SVM_BALANCED, SVM_PATIENTS):
        return GridSVC(2 if quick else 10, balanced=name == SVM_BALANCED)
    settings: Any = {
        VB: {"formula": FORMULA, "loss": "hinge-augmented", "prior": FLAT, "tol": 1e-10, "max_iter": 5000},
        EXACT: {"groups": ["patient"], "loss": "hinge"},
        GIBBS: {"formula": FORMULA, "loss": "hinge", "prior": FLAT, **chain(quick)},
    }[name]
    return BayesianMixedSVC(link="probit", n_jobs=1, random_state=0, **settings)


def columns(name: str, frame: pd.DataFrame) -> Any:
    """What a method is given of the visits."""
    if name in (VB, GIBBS):
        return frame[["time", "treatment", "patient"]]
    if name == EXACT:
        return frame
    fixed = frame[["time", "treatment", "product"]].to_numpy()
    return fixed if name != SVM_PATIENTS else np.hstack([fixed, pd.get_dummies(frame["patient"]).to_numpy(float)])


def show_routes(frame: pd.DataFrame, y: np.ndarray) -> None:
    """The formula and the names of groups are two ways to say one model."""
    said: Any = ({"formula": FORMULA}, {"groups": ["patient"]})
    one, other = (
        BayesianMixedSVC(random_state=0, **way).fit(X, y).latent_mean_and_variance(X)[0]
        for way, X in zip(said, (columns(VB, frame), columns(EXACT, frame)), strict=True)
    )
    print(f"formula and groups: latent means differ by {np.abs(one - other).max():.1g} at most\n")


def main() -> None:
    args = arguments(__doc__)
    frame, y = load_toenail(args.data)
    show_routes(frame, y)
    splits = hold_outs(len(y), 2 if args.quick else 100)

    def trial(r: int, name: str) -> tuple[float, float]:
        train, test = splits[r]
        X = columns(name, frame)
        own = model(name, args.quick)
        X, X_test = (X[train], X[test]) if isinstance(own, GridSVC) else (X.iloc[train], X.iloc[test])
        return fitted_error(own, X, y[train], X_test, y[test])

    found = scores(trial, {name: min(n, len(splits)) for name, n in REPLICATES.items()})
    show_scores(found, [SVM, SVM_BALANCED, GIBBS])
    print()
    save_picture(boxplots({"toenail": found}), "luts_toenail", args.quick)
    value = {
        f"below {other}": {name: round(-Paired.of(found[name], found[other]).mean, 4) for name in (VB, EXACT, GIBBS)}
        for other in (SVM, SVM_BALANCED)
    }
    ok = min(min(one.values()) for one in value.values()) >= TARGET
    report("luts_toenail", value, {"below": TARGET}, ok)


if __name__ == "__main__":
    main()
