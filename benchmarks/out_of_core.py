"""Claim: fifty million rows in Parquet files are fitted in less than 1.5 GB, at half the speed of rows in memory.

The script writes the files (18 columns in single precision and a label, see `common.susy_like`; sorted by label within
each file, as files often are) to a folder that it removes, or to ``--folder``, where they stay.  The model has 64
points, tuned, and the exact hinge.  Measured, each in its own process:

- a pass over 4,000,000 rows in memory, in rows per second;
- reading the files alone: batches unpacked into arrays, nothing else;
- the fit: its first reading, which chooses a sample, and one full pass; throughout, the resident memory of the process
  is sampled twenty times a second.

    python benchmarks/out_of_core.py [--quick] [--folder PATH]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from common import arguments, print_table, report, susy_like
from softmargin import BayesianSVC, chunks
from softmargin.chunks import Table, Whole, n_threads, swept
from softmargin.engine import Problem
from softmargin.estimators.reading import Reader
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows

N, N_QUICK, N_MEMORY, ROWS_OF_FILE, ROWS_OF_GROUP, M = 50_000_000, 400_000, 4_000_000, 2_000_000, 131_072, 64
MOST_BYTES, LEAST_RATIO, REPEATS = 1.5e9, 0.5, 3


def write(folder: Path, n: int) -> None:
    """Files of rows, every one with rows of its own."""
    size = min(ROWS_OF_FILE, n)
    for index in range(n // size):
        path = folder / f"rows-{index:03d}.parquet"
        if path.exists():
            continue
        X, y = susy_like(size, seed=index)
        order = np.argsort(y, kind="stable")
        columns = {f"x{k}": X[order, k] for k in range(X.shape[1])}
        table = pa.table({**columns, "y": (y[order] > 0).astype(np.int8)})
        part = path.with_suffix(".part")
        pq.write_table(table, part, row_group_size=ROWS_OF_GROUP, compression="none", use_dictionary=False)
        part.rename(path)


def seconds_of(function: Any, repeats: int = REPEATS) -> float:
    """The median."""
    runs = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        runs.append(time.perf_counter() - start)
    return float(np.median(runs))


def a_model(X: np.ndarray, y: np.ndarray) -> BayesianSVC:
    return BayesianSVC(n_inducing=M, random_state=0, max_time=30.0).fit(X[:100_000], y[:100_000])


def in_memory(folder: Path, quick: bool) -> dict[str, float]:
    """Rows a second of a pass over rows in memory."""
    n = N_QUICK if quick else N_MEMORY
    X, y = susy_like(n, seed=0)
    model = a_model(X, y)
    rows = InducingRows.at(model.kernel_, model.inducing_points_)
    problem = Problem(Table.of(X, y, np.ones(n), M), rows, Hinge(), Ridge.isotropic(M), n_threads(None))
    return {"rows a second": n / seconds_of(lambda: problem.stats(model.belief_))}


def from_files(folder: Path, quick: bool) -> dict[str, float]:
    """Rows a second of reading alone, and of a pass over files."""
    source: Any = chunks.Parquet(folder, target="y")
    X, y = susy_like(200_000, seed=0)
    model = a_model(X, np.where(y > 0, 1, 0))
    rows = InducingRows.at(model.kernel_, model.inducing_points_)
    jobs, n = n_threads(None), source.dataset.count_rows()
    model.feature_names_in_ = np.array(source.columns, dtype=object)
    read = Reader(model, source.unpack, model.classes_, np.ones(2), X.dtype)
    table = Table.of(X, y, np.full(len(y), n / len(y)), M)
    problem = Problem(table, rows, Hinge(), Ridge.isotropic(M), jobs, Whole(source, read, n, table.block_rows, jobs))

    def reading() -> None:
        for _ in swept(source.unpack, source.items(), jobs):
            pass

    return {
        "reading": n / seconds_of(reading),
        "rows a second": n / seconds_of(lambda: problem.stats(model.belief_), 1 if n > N_MEMORY else REPEATS),
    }


def the_fit(folder: Path, quick: bool) -> dict[str, Any]:
    """Seconds and most resident bytes of a fit."""
    seen, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            seen[0] = max(seen[0], pages * 4096)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    model = BayesianSVC(n_inducing=M, random_state=0).fit(folder, "y")
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    X, y = susy_like(100_000, seed=10_000)
    return {
        "seconds": seconds,
        "bytes": seen[0],
        "accuracy": float(model.score(pd_frame(X), y > 0)),
        "passes": len(model.history_),
        "reason": model.stop_reason_,
    }


def pd_frame(X: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


PARTS = {"memory": in_memory, "files": from_files, "fit": the_fit}


def apart(part: str, folder: Path, quick: bool) -> dict[str, Any]:
    """A part in a process of its own."""
    words = [sys.executable, __file__, "--part", part, "--folder", str(folder), *(["--quick"] if quick else [])]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, help="where the files are, or stay")
    parser.add_argument("--part", choices=list(PARTS), help="one part alone, for the script itself")


def measured(folder: Path, quick: bool) -> None:
    n = N_QUICK if quick else N
    start = time.perf_counter()
    write(folder, n)
    print(f"{n} rows in {sum(f.stat().st_size for f in folder.iterdir()) / 1e9:.2f} GB of files, "
          f"written in {time.perf_counter() - start:.0f} s\n", flush=True)  # fmt: skip
    memory, files, fit = (apart(part, folder, quick) for part in PARTS)
    ratio = files["rows a second"] / memory["rows a second"]
    rows = [
        ["a pass over rows in memory", f"{memory['rows a second'] / 1e6:.2f}"],
        ["reading the files alone", f"{files['reading'] / 1e6:.2f}"],
        ["a pass over the files", f"{files['rows a second'] / 1e6:.2f}"],
    ]
    print_table(["", "million rows a second"], rows)
    print(f"\nthe fit: {fit['seconds']:.0f} s, {fit['bytes'] / 1e9:.2f} GB resident at most, accuracy "
          f"{fit['accuracy']:.4f}, {fit['reason']} after {fit['passes']} entries of its history\n")  # fmt: skip
    value = {"ratio": round(ratio, 3), "gigabytes": round(fit["bytes"] / 1e9, 3), "seconds": round(fit["seconds"], 1)}
    met = ratio >= LEAST_RATIO and fit["bytes"] < MOST_BYTES
    report("out_of_core", value, f"ratio >= {LEAST_RATIO}, resident below {MOST_BYTES / 1e9} GB", met)


def main() -> None:
    args = arguments(__doc__, options)
    if args.part:
        print(json.dumps(PARTS[args.part](args.folder, args.quick)))
    elif args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
        measured(args.folder, args.quick)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measured(Path(folder), args.quick)


if __name__ == "__main__":
    main()
