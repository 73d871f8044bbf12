"""Claim: at 20,000 rows, `BayesianSVC()` is many times faster than a calibrated SVC, at no worse log loss.

20,000 rows to fit and 20,000 to predict, in one run: the default model, which tunes its kernel, against
``CalibratedClassifierCV(SVC(), ensemble=False)`` on standardised columns.  Tables: ijcnn1 (random rows of its
official parts) and rows simulated like SUSY.  The time is that of ``fit`` and ``predict_proba`` together, and of
``predict_proba`` alone: ours is the median of three, SVC's is measured once.  Ours may use the threads that it takes by
default; LIBSVM has one.

Target: at least 10 times faster on ijcnn1 and 40 times on SUSY-like rows, ``predict_proba`` at least 20 times faster on
either, at a log loss that is no greater.

    python benchmarks/speed_svc.py --data PATH [--quick]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import Quality, Split, arguments, print_table, quality, report, split, susy_like, timed
from rivals import calibrated_svc
from softmargin import BayesianSVC

ROWS, QUICK_ROWS, REPEATS = 20_000, 2000, 3
TARGETS = {"ijcnn1": 10.0, "SUSY-like": 40.0}
PREDICT_TARGET = 20.0


class Run(NamedTuple):
    """Seconds of ``fit`` and of ``predict_proba``, and how good the probabilities are."""

    fit: float
    predict: float
    quality: Quality


def ijcnn1(folder: Path | None, n: int) -> Split:
    """Random rows of the official training part and of the official test part."""
    if folder is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    rng, parts = np.random.default_rng(0), []
    with np.load(folder / "libsvm/ijcnn1.npz") as file:
        for part in ("train", "test"):
            chosen = rng.choice(len(file[f"y_{part}"]), n, replace=False)
            parts += [file[f"X_{part}"][chosen].astype(float), file[f"y_{part}"][chosen].astype(float)]
    return Split(*parts)


def run(model: Any, rows: Split) -> Run:
    X, y, X_test, y_test = rows
    fit, _ = timed(lambda: model.fit(X, y))
    predict, proba = timed(lambda: model.predict_proba(X_test))
    return Run(fit, predict, quality(y_test, proba))


def median(runs: list[Run]) -> Run:
    fit, predict = (float(np.median([one[i] for one in runs])) for i in (0, 1))
    return Run(fit, predict, runs[0].quality)


def main() -> None:
    args = arguments(__doc__)
    n = QUICK_ROWS if args.quick else ROWS
    table, value, target, ok = [], {}, {}, True
    for name, rows in {"ijcnn1": ijcnn1(args.data, n), "SUSY-like": split(*susy_like(2 * n, 0), n=n, n_test=n)}.items():
        run(BayesianSVC(random_state=0), Split(*(part[:500] for part in rows)))  # imports and caches
        own = median([run(BayesianSVC(random_state=0), rows) for _ in range(REPEATS)])
        svc = run(calibrated_svc(), rows)
        for model, one in (("BayesianSVC()", own), ("calibrated SVC", svc)):
            table.append([name, model, one.fit, one.predict, *(f"{measure:.4f}" for measure in one.quality)])
        value[name] = {
            "times faster": round((svc.fit + svc.predict) / (own.fit + own.predict), 1),
            "times faster to predict": round(svc.predict / own.predict, 1),
            "log loss less SVC's": round(own.quality.log_loss - svc.quality.log_loss, 4),
        }
        target[name] = dict(zip(value[name], (TARGETS[name], PREDICT_TARGET, 0.0), strict=True))
        no_worse = own.quality.log_loss <= svc.quality.log_loss
        ok = ok and no_worse and all(value[name][key] >= target[name][key] for key in list(target[name])[:2])
    print(f"{n} rows to fit, {n} to predict\n")
    print_table(["table", "model", "fit (s)", "predict (s)", "error", "Brier", "log loss"], table)
    print()
    report("speed_svc", value, target, ok)


if __name__ == "__main__":
    main()
