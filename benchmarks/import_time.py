"""``import softmargin`` takes less than half a second longer than ``import sklearn.base``.

Each import runs in a fresh interpreter, with modules compiled beforehand.  Seconds are processor seconds, which other
work on the machine lengthens little; medians of several runs.  Scikit-learn's own time is that of
``import sklearn.base``, the least that any package of estimators imports; ``import sklearn.svm`` is shown beside it.

    python benchmarks/import_time.py            # needs no data
    python benchmarks/import_time.py --quick
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from common import arguments, print_table, report

IMPORTS = ["sklearn.base", "sklearn.svm", "softmargin"]
RUNS, RUNS_QUICK, MOST_SECONDS = 15, 3, 0.5


def seconds(code: str) -> float:
    """Processor seconds of an interpreter that runs some code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    runs = RUNS_QUICK if arguments(__doc__).quick else RUNS
    for name in IMPORTS:
        seconds(f"import {name}")  # compiles
    found = {name: statistics.median(seconds(f"import {name}") for _ in range(runs)) for name in IMPORTS}
    print_table(["import", "seconds"], [[name, f"{value:.2f}"] for name, value in found.items()])
    value = {f"beyond {name}": round(found["softmargin"] - found[name], 3) for name in IMPORTS[:-1]}
    report("import_time", value, {"beyond sklearn.base": MOST_SECONDS}, value["beyond sklearn.base"] < MOST_SECONDS)


if __name__ == "__main__":
    main()
