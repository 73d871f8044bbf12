"""The report of an evaluation of 100,000 rows is one HTML file below 3 MB, written in under 30 s.

Rows are simulated: six numeric columns, one of them with missing entries, two columns of names, a date; two classes and
five.  A model is fitted on 5,000 rows and the report written for 100,000 others, including predictions and intervals.

Target: under 3 MB and under 30 s, for either number of classes.

    python benchmarks/report_100k.py            # needs no data
    python benchmarks/report_100k.py --quick
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from common import arguments, print_table, report, timed
from softmargin import BayesianSVC
from softmargin import report as pages
from softmargin.tables import TableClassifier

FITTED, SHOWN, SHOWN_QUICK = 5_000, 100_000, 2_000
MOST_SECONDS, MOST_BYTES = 30.0, 3e6


def rows(n: int, n_classes: int, seed: int) -> pd.DataFrame:
    """A table of mixed columns, whose first three matter."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 6)), columns=[f"measure {i}" for i in range(6)])
    frame["city"] = rng.choice(["Rome", "Oslo", "Cairo", "Lima"], n)
    frame["plan"] = rng.choice(["monthly", "yearly"], n)
    frame["since"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D")
    directions = np.random.default_rng(0).normal(size=(3, n_classes))
    latent = frame.iloc[:, :3].to_numpy() @ directions + (frame["city"] == "Oslo").to_numpy()[:, None] * directions[0]
    frame["class"] = np.array([f"class {k}" for k in range(n_classes)])[
        (latent + rng.gumbel(size=latent.shape)).argmax(axis=1)
    ]
    frame.loc[rng.random(n) < 0.1, "measure 1"] = np.nan
    return frame


def main() -> None:
    options = arguments(__doc__)
    n, table, value = (SHOWN_QUICK if options.quick else SHOWN), [], {}
    for n_classes in (2, 5):
        model = TableClassifier(BayesianSVC(random_state=0)).fit(
            rows(FITTED // (10 if options.quick else 1), n_classes, 1), "class"
        )
        frame = rows(n, n_classes, 2)
        with tempfile.TemporaryDirectory() as folder:
            seconds, path = timed(lambda: pages.write(Path(folder, "r.html"), model, frame, "class"))  # noqa: B023
            size = path.stat().st_size
        table.append([f"{n_classes} classes, {n:,} rows", f"{seconds:.1f}", f"{size / 1000:.0f}"])
        value |= {f"seconds_{n_classes}": round(seconds, 1), f"bytes_{n_classes}": size}
    print_table(["report", "seconds", "kB"], table)
    ok = all(number < (MOST_SECONDS if name.startswith("seconds") else MOST_BYTES) for name, number in value.items())
    report("report_100k", value, {"seconds": MOST_SECONDS, "bytes": MOST_BYTES}, ok)


if __name__ == "__main__":
    main()
