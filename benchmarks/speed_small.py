"""Claim: on small tables, a tuned, calibrated fit takes at most as long as eight calibrated SVCs.

The tables of Wenzel et al. (2017) below 1,000 rows, nine tenths of the rows to fit: `BayesianSVC()` takes turns with
``CalibratedClassifierCV(SVC(), ensemble=False)`` on standardised columns, which fits six machines and tunes nothing,
fifteen times each on one thread.  The value is the median of the ratios of seconds.  The log losses on the remaining
tenth are shown for orientation only.

    python benchmarks/speed_small.py --data PATH [--quick]
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from common import Split, arguments, load, print_table, quality, report, split, timed
from rivals import calibrated_svc
from softmargin import BayesianSVC

TABLES = ["breast_cancer", "diabetis", "flare_solar", "heart"]
MODELS = [lambda: BayesianSVC(random_state=0), calibrated_svc]
REPEATS, TARGET = 15, 8.0


def alternated(rows: Split) -> list[float]:
    """Seconds of a fit of ours and of one of SVC."""
    return [timed(lambda make=make: make().fit(rows.X, rows.y))[0] for make in MODELS]


def main() -> None:
    args = arguments(__doc__)
    table, value = [], {}
    for name in TABLES:
        X, y = load(args.data, f"raetsch/{name}")
        rows = split(X, y, n=len(y) * 9 // 10, n_test=len(y))
        with threadpool_limits(1):
            fitted = [make().fit(rows.X, rows.y) for make in MODELS]  # neither is timed the first time
            seconds = np.array([alternated(rows) for _ in range(3 if args.quick else REPEATS)])
        ratios = seconds[:, 0] / seconds[:, 1]
        value[name] = round(float(np.median(ratios)), 2)
        losses = (quality(rows.y_test, model.predict_proba(rows.X_test)).log_loss for model in fitted)
        own, svc = 1000 * np.median(seconds, axis=0)
        table.append(
            [name, len(rows.y), own, svc, ratios.min(), ratios.max(), value[name], *(f"{x:.3f}" for x in losses)]
        )
    header = ["table", "rows", "ours (ms)", "SVC (ms)", "least", "most", "median ratio", "log loss", "SVC's"]
    print_table(header, table)
    print()
    report("speed_small", value, TARGET, max(value.values()) <= TARGET)


if __name__ == "__main__":
    main()
