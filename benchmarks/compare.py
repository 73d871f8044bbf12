"""With default settings, one of our models has the lowest log loss, or is tied for it, on at least half of six tables.

The command is ``softmargin compare``; the other models are scikit-learn's.

Tables: german and diabetis (Raetsch), spam and acath (Luts 2014, with the missing entries of acath), the training part
of ijcnn1, and 20,000 random rows of covtype with its seven classes.  Each is written to a CSV file and given to the
command, which cross-validates all models on the same five folds; the JSON that it prints is shown in full.

Target: on at least three of the six tables, one of our models has the lowest log loss, or is behind the best by at most
one standard error of the difference (paired over test rows).  The same is printed for `BayesianSVC` alone, which no
choice among our models can flatter.

    python benchmarks/compare.py --data PATH [--cache FOLDER]    # one file for each table: a second run goes on
    python benchmarks/compare.py --data PATH --quick             # two tables of few rows
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from common import arguments, print_table, report

#: Rows of each, None for all.
TABLES: dict[str, int | None] = {
    "raetsch/german": None, "raetsch/diabetis": None, "misc/spam": None, "misc/acath": None, "libsvm/ijcnn1": None,
    "libsvm/covtype": 20_000,
}  # fmt: skip
QUICK: dict[str, int | None] = {"raetsch/diabetis": 300, "misc/acath": 300}
MEASURES = ("error", "balanced_error", "auc", "log_loss", "brier", "ece")
ENOUGH = 3


def frame_of(folder: Path, name: str) -> pd.DataFrame:
    """The table, or its official training part, under the names of its columns."""
    with np.load(folder / f"{name}.npz") as file:
        X, y = (file[letter] if letter in file else file[f"{letter}_train"] for letter in "Xy")
        names = file["feature_names"] if "feature_names" in file else [f"x{i}" for i in range(X.shape[1])]
    return pd.DataFrame(X, columns=[str(column) for column in names]).assign(label=y)


def compared(folder: Path, name: str, rows: int | None, cache: Path) -> dict[str, Any]:
    """What the command prints, kept from an earlier run or new."""
    kept = cache / f"{name.replace('/', '_')}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, f"{name.rpartition('/')[2]}.csv")
            frame_of(folder, name).to_csv(path, index=False)
            sample = [] if rows is None else ["--rows", str(rows)]
            command = [
                sys.executable,
                "-m",
                "softmargin.cli",
                "compare",
                str(path),
                "--target",
                "label",
                "--json",
                *sample,
            ]
            kept.write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return json.loads(kept.read_text())


def show(found: dict[str, Any]) -> None:
    print(f"\n{found['table']}, {found['rows']:,} rows")
    rows = [
        [
            ("* " if one["first"] else "  ") + one["model"],
            *(f"{one[measure]['value']:.4f}" for measure in MEASURES),
            f"{one['log_loss_behind']:.4f} +- {one['log_loss_behind_se']:.4f}",
            f"{one['fit_seconds']:.2f}",
        ]
        for one in found["models"]
    ]
    print_table(["model (* first or tied)", *MEASURES, "log loss behind", "fit s"], rows)


def main() -> None:
    def extend(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--cache", type=Path, help="folder for what the command prints")

    options = arguments(__doc__, extend)
    if options.data is None:
        raise SystemExit("This benchmark needs data: give its folder with --data.")
    with tempfile.TemporaryDirectory() as scratch:
        cache = options.cache or Path(scratch)
        cache.mkdir(parents=True, exist_ok=True)
        tables = QUICK if options.quick else TABLES
        found = {name: compared(options.data, name, rows, cache) for name, rows in tables.items()}
    for one in found.values():
        show(one)
    ours = [name for name, one in found.items() if any(m["first"] and m["ours"] for m in one["models"])]
    alone = [n for n, one in found.items() if any(m["first"] and m["model"] == "BayesianSVC" for m in one["models"])]
    print(f"\nOne of ours first or tied on {len(ours)} of {len(found)}: {', '.join(ours)}.")
    print(f"BayesianSVC first or tied on {len(alone)} of {len(found)}: {', '.join(alone)}.")
    value = {"ours_first_or_tied": len(ours), "svc_first_or_tied": len(alone), "tables": len(found)}
    report("compare", value, {"ours_first_or_tied": ENOUGH}, len(ours) >= (1 if options.quick else ENOUGH))


if __name__ == "__main__":
    main()
