"""Claim: two workers of a Dask cluster are 1.8 times as fast as one, and the result is the same as for rows in memory.

1,000,000 rows of 18 columns (see `common.susy_like`) in double precision, in 64 partitions held by the workers; 256
points, the exact hinge, a given kernel.  A pass sends a belief to the workers and returns a matrix of sums.

- work: processor seconds of a pass, for workers as Dask starts them, and for workers that reuse the memory of one block
  for the next (see `KEEPING`);
- speed: passes with one single-threaded worker against two, taking turns, the median of three ratios; beside it, the
  same for plain matrix products on the same workers, which shows what the machine can give at that time;
- the result, on 200,000 of the rows: bound and latent values of a fit on the cluster against a fit to a source in
  memory; also those of a converged source against those of a fit to the table;
- fault tolerance: a worker is killed in the middle of a pass, and the fit must end with the same numbers.

    python benchmarks/dask_scale.py [--quick]
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster, wait

from common import arguments, print_table, report, susy_like
from softmargin import BayesianSVC, chunks
from softmargin.chunks import Table, Whole
from softmargin.chunks.cluster import Partitions
from softmargin.engine import Problem
from softmargin.estimators.reading import Reader
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows

N, N_QUICK, N_FITS, PARTS, M, REPEATS = 1_000_000, 150_000, 200_000, 64, 256, 3
SIZE, PRODUCTS = 1024, 64
LEAST_SPEED, NEAR = 1.8, 1e-8
#: Dask has workers give memory back at once (MALLOC_TRIM_THRESHOLD_), by which glibc also stops to learn what is worth
#: keeping: the arrays of every block are then mapped, and zeroed, anew.  Arrays up to this size are not.
KEEPING = {"distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**28}


def model_of(points: np.ndarray, **settings: Any) -> BayesianSVC:
    kernel = 10.0 * RBF(tuple(np.sqrt(18.0) * np.ones(18))) + Constant(1.0)
    return BayesianSVC(kernel, tune=None, inducing=points, random_state=0, **settings)


def cluster_of(n_workers: int) -> LocalCluster:
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=0, dashboard_address=None)


def spread_over(client: Client, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Rows in partitions that workers hold, evenly."""
    size = -(-len(y) // PARTS)
    there = da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
    held = client.persist(there)
    wait(held)
    client.rebalance()
    return held


def one_pass(points: np.ndarray, source: Any, n: int) -> Any:
    """A pass over all partitions, as a function to time."""
    model = model_of(points)
    model.n_features_in_ = 18
    rows, prior = InducingRows.at(model.kernel, points), Ridge.isotropic(len(points))
    read = Reader(model, source.unpack, np.array([-1.0, 1.0]), np.ones(2), np.dtype(float))
    few = Table.of(points, np.ones(len(points)), np.full(len(points), n / len(points)), len(points))
    problem = Problem(few, rows, Hinge(), prior, 1, Whole(source, read, n, few.block_rows))
    belief = prior.update(*prior.start(points))
    return lambda: problem.stats(belief)


def timed(function: Any) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def product(_: int) -> float:
    """A large matrix product."""
    a = np.ones((SIZE, SIZE))
    return float((a @ a)[0, 0])


def products_on(client: Client) -> None:
    client.gather(client.map(product, range(PRODUCTS), pure=False))


def speed(X: np.ndarray, y: np.ndarray, points: np.ndarray) -> list[np.ndarray]:
    """Seconds of a pass, and of products, with one worker and with two, in turns: the better of two, after one that
    warms up."""

    def measured(n_workers: int) -> list[float]:
        with cluster_of(n_workers) as cluster, Client(cluster) as client:
            run = one_pass(points, Partitions.of(*spread_over(client, X, y)), len(y))
            return [min([timed(what) for _ in range(3)][1:]) for what in (run, lambda: products_on(client))]

    return [np.array([measured(n_workers) for n_workers in (1, 2)]) for _ in range(REPEATS)]


def nothing(item: Any) -> tuple[np.ndarray]:
    """The sum over a partition in which there is nothing to compute."""
    return (np.zeros(1),)


def processor_seconds(X: np.ndarray, y: np.ndarray, points: np.ndarray) -> tuple[float, float]:
    """Of both of two workers in one pass, the median of three: other work on the machine hardly counts.  And the
    seconds of a pass in which nothing is computed, the least of three."""

    def used(client: Client) -> float:
        return sum(sum(times[:2]) for times in client.run(os.times).values())

    with cluster_of(2) as cluster, Client(cluster) as client:
        source, seconds = Partitions.of(*spread_over(client, X, y)), []
        run = one_pass(points, source, len(y))
        for _ in range(4):
            before = used(client)
            run()
            seconds.append(used(client) - before)
        empty = min(timed(lambda: source.total(nothing)) for _ in range(3))
    return float(np.median(seconds[1:])), empty


def fits(X: np.ndarray, y: np.ndarray, points: np.ndarray, kill_after: float) -> dict[str, BayesianSVC]:
    found = {"memory": model_of(points).fit(chunks.Arrays(X, y))}
    with cluster_of(2) as cluster, Client(cluster) as client:
        there = spread_over(client, X, y)
        found["cluster"] = model_of(points).fit(*there)
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(kill_after, os.kill, (victim, signal.SIGKILL))
        killer.start()
        rows = [da.from_array(part, chunks=(-(-len(y) // PARTS), *(-1,) * (part.ndim - 1))) for part in (X, y)]
        found["cluster, a worker killed"] = model_of(points).fit(*rows)
        killed = not killer.is_alive()
        killer.cancel()
        assert killed, "the fit ended before the worker was killed"
    found["memory, at rest"] = model_of(points, inference="cavi", tol=1e-9).fit(X, y)
    found["cluster's sums, at rest"] = model_of(points, inference="cavi", tol=1e-9).fit(chunks.Arrays(X, y))
    return found


def main() -> None:
    args = arguments(__doc__)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    X, y = susy_like(N_QUICK if args.quick else N)
    X = X.astype(float)
    points = X[:: len(y) // (32 if args.quick else M)][: 32 if args.quick else M]
    few = slice(None, N_FITS)
    anew, _ = processor_seconds(X[few], y[few], points)
    dask.config.set(KEEPING)
    kept, empty = processor_seconds(X[few], y[few], points)
    here = one_pass(points, chunks.Arrays(X[few], y[few]), len(y[few]))
    here()
    start = time.process_time()
    here()
    work = [["mapped anew", anew], ["kept", kept], ["in this process", time.process_time() - start]]
    print_table(["memory of blocks", "processor, s"], [[what, f"{value:.2f}"] for what, value in work])
    print(f"\na pass in which nothing is computed: {empty:.2f} s\n")
    seconds = speed(X, y, points)
    ratios = [one / two for one, two in seconds]
    header = ["one worker, s", "two, s", "ratio", "ratio of products"]
    rows = [[*turn[:, 0], *both] for turn, both in zip(seconds, ratios, strict=True)]
    print_table(header, [[f"{value:.2f}" for value in row] for row in rows])
    found = fits(X[few], y[few], points, kill_after=0.5 if args.quick else 2.0)
    print()
    test = susy_like(1000, seed=7)[0].astype(float)

    def far(one: str, other: str) -> tuple[float, float]:
        a, b = found[one], found[other]
        mean = [model.latent_mean_and_variance(test)[0] for model in (a, b)]
        return abs(a.bound_ / b.bound_ - 1), float(np.abs(mean[0] - mean[1]).max())

    pairs = [
        ("cluster", "memory"),
        ("cluster, a worker killed", "memory"),
        ("cluster's sums, at rest", "memory, at rest"),
    ]
    rows = [[f"{one} and {other}", *(f"{value:.1e}" for value in far(one, other))] for one, other in pairs]
    print_table(["", "bound, relative", "latent means"], rows)
    print()
    ratio, of_products = np.median(ratios, axis=0).tolist()
    worst = max(far(one, other)[0] for one, other in pairs)
    report(
        "dask_scale",
        {
            "ratio": round(ratio, 2),
            "products": round(of_products, 2),
            "bound": worst,
            "work, memory kept / not": round(kept / anew, 2),
        },
        f"ratio >= {LEAST_SPEED}, bound to {NEAR}",
        ratio >= LEAST_SPEED and worst <= NEAR,
    )


if __name__ == "__main__":
    main()
