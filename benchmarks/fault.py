"""Claim: a fit that is killed at any moment resumes where it was, and a full disk harms no file.

The fit is `BayesianSVC` on 400,000 rows that are read in batches, through 128 points, with a checkpoint after each pass
and every quarter of a second within one.  A child process runs it and appends a line to a log for every batch and pass
that it finishes.  It is killed (SIGKILL) at a random moment after its first checkpoint, and restarted, until it has
been killed the required number of times; then it runs to its end.  A pass counts as finished when it is in the
checkpoint.  Counted are passes that were finished twice, over all child processes, and batches that were summed twice.

The bound is compared with that of a fit that was never killed.  For the disk, a child process saves a model over
another while its files may not exceed a limit (RLIMIT_FSIZE, where writing fails as on a full disk); then the old model
is read again.

    python benchmarks/fault.py [--quick]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import arguments, print_table, report, susy_like

N, N_QUICK, M, BATCH = 400_000, 150_000, 128, 10_000
N_KILLS, N_KILLS_QUICK = 20, 3
#: Rows in memory, by which points and columns are chosen: few, so that passes are most of the fit.
SAMPLE = 20_000
ENOUGH = 1e-9
#: Seconds between writings within a pass; the share of the fit that all killed children together have time for.
SECONDS, SHARE = 0.25, 0.8


# The child ---------------------------------------------------------------------------------------


def fit(folder: Path, n: int, resumed: bool) -> None:
    """Fits with a checkpoint, and tells of batches and passes in a log; the bound is the last line."""
    from softmargin import BayesianSVC, chunks
    from softmargin.checkpoint import Checkpoint, Journal
    from softmargin.chunks import passes, survey
    from softmargin.kernels import RBF, Constant

    survey.MOST_ROWS = SAMPLE
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    log = (folder / "log").open("a")

    def tell(kind: str, what: Any) -> None:
        log.write(json.dumps([kind, what]) + "\n")
        log.flush()

    put, write, add_up = Journal.put, Journal._write, passes.ItemSum.__call__

    def put_and_tell(journal: Any, name: str, value: Any, n_passes: float, ends: bool = False) -> None:
        put(journal, name, value, n_passes, ends)
        if name == "ascent" and not ends:
            tell("pass", value[0]["n_passes"])

    def write_and_tell(journal: Any) -> None:
        start = time.perf_counter()
        write(journal)
        tell("write", time.perf_counter() - start)

    def add_up_and_tell(task: Any, item: Any) -> Any:
        total = add_up(task, item)
        tell("batch", None)
        return total

    Journal.put, Journal._write, passes.ItemSum.__call__ = put_and_tell, write_and_tell, add_up_and_tell
    tell("start", resumed)
    model = BayesianSVC(
        4.0 * RBF() + Constant(1.0),
        tune=None,
        loss="hinge-augmented",
        n_inducing=M,
        inducing="random",
        inference="cavi",
        tol=1e-10,
        random_state=0,
        n_jobs=1,
        checkpoint=Checkpoint(folder / "fit.ckpt", passes=1, seconds=SECONDS),
    )
    start = time.perf_counter()
    model.fit(chunks.Arrays(X[:n], y[:n], batch_rows=BATCH))
    tell("end", [model.bound_.hex(), model.n_iter_, time.perf_counter() - start])


def save_on_a_full_disk(folder: Path) -> None:
    """Saves a larger model over another where no file may grow beyond a limit."""
    import resource

    from softmargin import BayesianSVC, StoreError

    X = np.random.default_rng(0).normal(size=(2000, 3))
    model = BayesianSVC(tune=None, n_inducing=300, random_state=0).fit(X, X[:, 0] > 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a failed write, as on a full disk, in place of an end
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        model.save(folder / "model.sm")
    except StoreError as error:
        print(error)


# Those who watch ---------------------------------------------------------------------------------


class Told(NamedTuple):
    """What a log says: children that found a checkpoint, passes as they were finished, batches, seconds of writings,
    and the end of the last child."""

    n_resumed: int
    passes: list[int]
    n_batches: int
    writes: list[float]
    end: tuple[float, int, float] | None

    @classmethod
    def of(cls, folder: Path) -> Told:
        lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
        ends = [(float.fromhex(bound), n, seconds) for kind, (bound, n, seconds) in _of("end", lines)]
        passes, writes = ([what for _, what in _of(kind, lines)] for kind in ("pass", "write"))
        return cls(
            sum(what for _, what in _of("start", lines)),
            passes,
            len(_of("batch", lines)),
            writes,
            ends[-1] if ends else None,
        )


def _of(kind: str, lines: list[Any]) -> list[Any]:
    return [line for line in lines if line[0] == kind]


def child(folder: Path, *words: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", str(folder), *map(str, words)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"A child failed:\n{errors}")
    return out


def killed(folder: Path, n: int, wait: float) -> str | None:
    """Starts the fit, kills it so many seconds after its first batch; where it was, or None if it had ended."""
    log = folder / "log"
    log.touch()
    before, process = log.stat().st_size, child(folder, n)
    while process.poll() is None and b"batch" not in log.read_bytes()[before:]:
        time.sleep(0.005)
    until = time.perf_counter() + wait
    while process.poll() is None and time.perf_counter() < until:
        time.sleep(0.005)
    if process.poll() is not None:
        ended(process)
        return None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    told = Told.of(folder)
    return f"pass {max(told.passes, default=0)}"


def full_disk(folder: Path) -> bool:
    """Whether an old model is whole after another could not be saved in its place."""
    import softmargin

    X = np.random.default_rng(1).normal(size=(50, 2))
    model = softmargin.BayesianLinearSVC().fit(X, X[:, 0] > 0)
    model.save(folder / "model.sm")
    before = (folder / "model.sm").read_bytes()
    said = ended(child(folder, "disk")).strip()
    print(f"a full disk: {said.replace(str(folder), '...')}\n")
    same = softmargin.load(folder / "model.sm")
    whole = (folder / "model.sm").read_bytes() == before and np.array_equal(same.coef_, model.coef_)
    return "could not be written" in said and whole and not list(folder.glob(".model.sm.*"))


def main() -> None:
    """Fits in peace, fits with kills, and saves where there is no room."""
    options = arguments(__doc__)
    n, n_kills = (N_QUICK, N_KILLS_QUICK) if options.quick else (N, N_KILLS)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder, peace = Path(name), Path(name) / "peace"
        peace.mkdir()
        X, y = susy_like(n)
        for place in (folder, peace):
            np.save(place / "X.npy", X)
            np.save(place / "y.npy", y)
        ended(child(peace, n))
        alone = Told.of(peace)
        assert alone.end is not None
        bound, n_passes, seconds = alone.end
        moments: list[str] = []
        while len(moments) < n_kills:
            where = killed(folder, n, rng.uniform(0, SHARE * 2 * seconds / n_kills))
            if where is None:
                raise SystemExit(f"The fit ended after {len(moments)} kills: there is too little to do.")
            moments.append(where)
        ended(child(folder, n))
        told = Told.of(folder)
        assert told.end is not None
        apart = abs(told.end[0] - bound) / abs(bound)
        twice = len(told.passes) - len(set(told.passes))
        lost = told.n_batches - alone.n_batches
        print(f"{n:,} rows in {-(-n // BATCH)} batches, {n_passes} passes in {seconds:.1f} s\n")
        writes = 1e3 * float(np.median(alone.writes)), 100 * sum(alone.writes) / seconds
        rows = [
            ["kills", len(moments)],
            ["starts from a checkpoint", told.n_resumed],
            ["passes finished", len(told.passes)],
            ["passes finished twice", twice],
            ["batches added up, without kills", alone.n_batches],
            ["batches added up twice", lost],
            ["bound, without kills", f"{bound:.9f}"],
            ["bound, with kills", f"{told.end[0]:.9f}"],
            ["relative difference", apart],
            ["a writing, ms (median)", f"{writes[0]:.1f}"],
            ["all writings, % of the fit", f"{writes[1]:.1f}"],
            ["files left", len(list(folder.glob("*.ckpt")) + list(folder.glob(".fit.ckpt*")))],
        ]
        print_table(["", ""], rows)
        print(f"\nkilled at {', '.join(moments)}\n")
        disk = full_disk(folder)
    value = {"kills": len(moments), "repeated": twice, "difference": apart, "old_model_whole": disk}
    target = {"kills": n_kills, "repeated": 0, "difference": ENOUGH, "old_model_whole": True}
    report("fault", value, target, len(moments) == n_kills and twice == 0 and apart <= ENOUGH and disk)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        place, word = Path(sys.argv[2]), sys.argv[3]
        save_on_a_full_disk(place) if word == "disk" else fit(place, int(word), (place / "fit.ckpt").exists())
    else:
        main()
