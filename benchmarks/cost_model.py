"""Claim: the time of a fit follows from a few measured constants, so that it can be predicted for other sizes.

A pass over n rows of d columns through m points costs, on one core or one device,

    n (a + b m + c m^2) seconds,

where ``a`` is what is done once for each row (labels, sites), ``b`` is for kernels (distances over d columns and an
exponential for each point), and ``c`` is for the three products with m x m matrices (whitening, variances, sums).  The
update of a belief costs ``u m^3``.  Reading costs the number of bytes divided by the reading rate, and overlaps with
the pass where cores are free.  A cluster sends 8 m^2 bytes to and from every worker.

The constants of a core are fitted here, to single-threaded passes over 18 columns in single precision, and tested on a
size that was not used for the fit: the prediction must be within 30 %.  Those of an H200 come from the stored result of
`gpu_5m.py` (streamed passes, whose features are recomputed).  The script then prints what follows for 1e9 rows on 16
workers of 8 cores and for 1e12 rows on 100 devices, with the assumptions made.

    python benchmarks/cost_model.py [--quick]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import arguments, print_table, report, susy_like
from out_of_core import seconds_of
from softmargin.chunks import Table, one_blas_thread
from softmargin.engine import Problem
from softmargin.kernels import RBF
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows

POINTS, HELD_OUT, N, N_QUICK, D = (16, 32, 64, 128, 384), 256, 200_000, 20_000, 18
NEAR = 0.3
#: Assumptions: bytes a second of storage for each worker and device, and of the network.
STORAGE, NETWORK, BYTES_OF_ROW = 1e9, 1.25e9, 4 * D + 1
#: Workers, cores of each, points; and of the other case devices, devices of a host, points.
CLUSTER, DEVICES = (16, 8, 512), (100, 8, 512)


class Costs(NamedTuple):
    """Seconds of a pass for a row."""

    a: float
    b: float
    c: float

    def row(self, m: int) -> float:
        return self.a + self.b * m + self.c * m * m


def fitted(points: list[int], seconds: list[float]) -> Costs:
    """By least squares of relative errors, no constant below zero."""
    from scipy.optimize import nnls

    m, t = np.array(points, dtype=float), np.array(seconds)
    return Costs(*nnls(np.stack([1 / t, m / t, m * m / t], axis=1), np.ones(len(t)))[0].tolist())


def pass_of_a_core(X: np.ndarray, y: np.ndarray, m: int) -> float:
    """Seconds for a row."""
    rows = InducingRows.at(10.0 * RBF(tuple(np.full(D, np.sqrt(D)))), X[:m])
    problem = Problem(Table.of(X, y, np.ones(len(y)), m), rows, Hinge(), Ridge.isotropic(m))
    problem.cache_bytes = 0
    belief = problem.prior.update(*problem.prior.start(X))
    with one_blas_thread:
        return seconds_of(lambda: problem.stats(belief)) / len(y)


def update_of_a_core(m: int) -> float:
    """Seconds of an update of the belief, over m^3."""
    A = np.eye(m) + np.ones((m, m)) / m
    with one_blas_thread:
        return seconds_of(lambda: Ridge.isotropic(m).update(A, A[0])) / m**3


def costs_of_a_device() -> Costs:
    """From the kept result: streamed passes over five million rows."""
    text = (Path(__file__).parent / "results" / "gpu_5m.txt").read_text()
    value = json.loads(text.splitlines()[-1])["value"]
    few, many = (value[key]["streamed"] / 5e6 for key in ("64 tf32", "512 tf32"))
    c = (many - few * 8) / (512**2 - 64**2 * 8)  # a line in m and a square of m through both
    c = max(c, 0.0)
    return Costs(0.0, (few - c * 64**2) / 64, c)


def foretold(n: float, m: int, each: Costs, workers: int, cores: int) -> dict[str, float]:
    """Seconds of one reading, of one pass, and of what travels, for a fit of two readings."""
    work = n * each.row(m) / (workers * cores)
    reading = n * BYTES_OF_ROW / (workers * STORAGE)
    travel = 2 * 8 * m * m / NETWORK * np.ceil(np.log(workers) / np.log(8) + 1)
    return {"reading": reading, "work": work, "travel": travel, "fit": reading + max(reading, work) + travel}


def main() -> None:
    args = arguments(__doc__)
    n = N_QUICK if args.quick else N
    X, y = susy_like(n)
    seconds = {m: pass_of_a_core(X, y, m) for m in (*POINTS, HELD_OUT)}
    core = fitted(list(POINTS), [seconds[m] for m in POINTS])
    update = update_of_a_core(512)
    rows = [
        [m, f"{1e6 * seconds[m]:.2f}", f"{1e6 * core.row(m):.2f}", "" if m in POINTS else "not used"]
        for m in sorted(seconds)
    ]
    print("one core, microseconds of a row\n")
    print_table(["points", "measured", "foretold", ""], rows)
    print(f"\na = {core.a:.2e}, b = {core.b:.2e}, c = {core.c:.2e}, u = {update:.2e} s")
    device = costs_of_a_device()
    print(f"an H200 (TF32, streamed): b = {device.b:.2e}, c = {device.c:.2e} s\n")
    workers, cores, m = CLUSTER
    billion = foretold(1e9, m, core, workers, cores)
    devices, _, m_there = DEVICES
    trillion = foretold(1e12, m_there, device, devices, 1)
    print(f"assumed: storage of {STORAGE / 1e9} GB/s for each worker or device, a network of {NETWORK / 1e9} GB/s,")
    print(
        f"{BYTES_OF_ROW} bytes a row; a fit is one reading for the sample and one pass, each read anew; nobody waits\n"
    )
    table = [
        [f"1e9 rows, {workers} workers of {cores} cores, m = {m}", *(f"{value:.3g}" for value in billion.values())],
        [f"1e12 rows, {devices} H200, m = {m_there}", *(f"{value:.3g}" for value in trillion.values())],
    ]
    print_table(["seconds", *billion], table)
    print()
    error = abs(core.row(HELD_OUT) / seconds[HELD_OUT] - 1)
    value = {
        "error": round(error, 3),
        "a": core.a,
        "b": core.b,
        "c": core.c,
        "1e9": billion["fit"],
        "1e12": trillion["fit"],
    }
    report("cost_model", value, f"a size that was not used foretold to {NEAR}", error <= NEAR)


if __name__ == "__main__":
    main()
