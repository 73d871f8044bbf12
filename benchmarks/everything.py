"""Claim: one command repeats every benchmark of this folder.

Each script runs in full in its own process, on its own cores, several side by side.  What it prints becomes
``results/NAME.txt``, but only if it succeeds: the output of a script that fails goes to ``NAME.txt.failed``, and the
stored result stays.  The longest scripts start first.  The table lists the minutes of each, which tells how much a
repetition costs.

Timings are ratios, and rivals run on the same cores; even so, with ``--jobs 1`` nothing else runs at the same time.
Scripts for a graphics processor run only where there is one.

Target: all scripts that ran succeeded.

    python benchmarks/everything.py --data PATH [--jobs 1] [--cores 2] [--only NAME ...] [--but NAME ...] [--to FOLDER]
    python benchmarks/everything.py --quick
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from common import arguments, print_table, report

HERE = Path(__file__).parent
#: Not claims: what scripts share.  The last is this one.
SHARED = {
    "common", "grouped", "kernel_rivals", "luts", "mutants_justified", "mutants_made", "nguyen", "pmlb", "rivals",
    "everything",
}  # fmt: skip
#: Runs on a graphics processor, beside those on the host: the script, and what it is told.
ON_DEVICE = {
    "gpu_5m": ("gpu_5m", []),
    "stein_speed_cuda": ("stein_speed", ["--device", "cuda"]),
    "wistuba_images_cuda": ("wistuba_images", ["--device", "cuda", "--batch", "512", "--epochs", "20"]),
}
#: Those that take hours or most of one, in that order: they begin first.
LONGEST = (
    "wistuba_pmlb", "nguyen_table2", "losses", "mutants", "wistuba_active", "compare", "nguyen_figs", "izmailov",
    "wistuba_images", "tuned_svc", "luts_simulation", "kernel_gaps", "one_class", "wistuba_adversarial",
)  # fmt: skip
#: For a look at the script itself: they need no data.
FEW = ("class_units", "speed_predict")


class Run(NamedTuple):
    """A script that ran: its minutes, and what its last line says; nothing if it failed."""

    name: str
    minutes: float
    said: dict[str, Any] | None

    @property
    def row(self) -> list[str]:
        verdict = "failed" if self.said is None else "met" if self.said["ok"] else "missed"
        return [self.name, f"{self.minutes:.1f}", verdict]


def commands(has_device: bool) -> dict[str, list[str]]:
    """What is to run for each result, the longest first."""
    found = {path.stem: [str(path)] for path in sorted(HERE.glob("*.py")) if path.stem not in SHARED}
    for name, (script, words) in ON_DEVICE.items():
        found.pop(name, None)
        if has_device:
            found[name] = [str(HERE / f"{script}.py"), *words]
    order = {name: rank for rank, name in enumerate(LONGEST)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))


def seats(jobs: int, cores: int) -> Iterator[set[int]]:
    """Cores for each of the scripts that run side by side; too few of them are shared."""
    own = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    for job in range(jobs):
        yield {own[(job * cores + core) % len(own)] for core in range(cores)}


def run(name: str, command: list[str], seat: set[int], folder: Path) -> Run:
    """One script to its end; its output goes where it belongs."""
    kept, failed = folder / f"{name}.txt", folder / f"{name}.txt.failed"
    start = time.perf_counter()
    with failed.open("w") as file:
        process = subprocess.Popen([sys.executable, *command], stdout=file, stderr=subprocess.PIPE, text=True)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, seat)
        _, errors = process.communicate()
    minutes, said = (time.perf_counter() - start) / 60, last_line(failed)
    if process.returncode or said is None:
        with failed.open("a") as file:
            file.write(errors)
        print(f"{name}: {(errors.strip().splitlines() or ['no verdict'])[-1]}", file=sys.stderr)
        return Run(name, minutes, None)
    failed.replace(kept)
    return Run(name, minutes, said)


def last_line(path: Path) -> dict[str, Any] | None:
    """The verdict at the end of an output, if there is one."""
    lines = path.read_text().rstrip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return found if isinstance(found, dict) and "ok" in found else None


def run_all(todo: dict[str, list[str]], free: list[set[int]], folder: Path) -> list[Run]:
    """All scripts, as many at once as there are seats; each is told of when it ends."""
    queue: SimpleQueue[set[int]] = SimpleQueue()
    for seat in free:
        queue.put(seat)
    voice = threading.Lock()

    def one(item: tuple[str, list[str]]) -> Run:
        seat = queue.get()
        try:
            done = run(*item, seat, folder)
        finally:
            queue.put(seat)
        with voice:
            print("  ".join(done.row), file=sys.stderr, flush=True)
        return done

    with ThreadPoolExecutor(len(free)) as pool:
        return list(pool.map(one, todo.items()))


def has_device() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1, help="scripts that run side by side")
    parser.add_argument("--cores", type=int, default=2, help="of each")
    parser.add_argument("--only", nargs="+", default=[], help="names of results")
    parser.add_argument("--but", nargs="+", default=[], help="names of results that are left out")
    parser.add_argument("--to", type=Path, default=HERE / "results", help="the folder of results")


def main() -> None:
    args = arguments(__doc__, options)
    todo = commands(has_device())
    unknown = set(args.only + args.but) - set(todo)
    if unknown:
        raise SystemExit(f"No script for {', '.join(sorted(unknown))}; there are {', '.join(todo)}.")
    chosen = args.only or (FEW if args.quick else list(todo))
    words = [*(["--data", str(args.data)] if args.data else []), *(["--quick"] if args.quick else [])]
    todo = {name: [*command, *words] for name, command in todo.items() if name in chosen and name not in args.but}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if args.quick else args.to
        folder.mkdir(parents=True, exist_ok=True)
        runs = run_all(todo, list(seats(args.jobs, args.cores)), folder)
    print_table(["result", "minutes", "promise"], [done.row for done in sorted(runs, key=lambda done: -done.minutes)])
    failed = [done.name for done in runs if done.said is None]
    met = sum(done.said is not None and done.said["ok"] for done in runs)
    value = {"ran": len(runs), "met": met, "failed": failed, "hours": round(sum(r.minutes for r in runs) / 60, 2)}
    print()
    report("everything", value, {"failed": []}, not failed)


if __name__ == "__main__":
    main()
