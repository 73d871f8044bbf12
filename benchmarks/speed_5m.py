"""Claim: on five million rows, minibatches converge in less time than one full pass takes.

The model is the default kernel without tuning, ``10 * RBF + 1`` with length-scales of the columns' standard deviations
times the root of their number, on k-means points, with the exact hinge, in single precision.  The reference for
accuracy is the AUC, on 100,000 held-out rows, of the *converged* model: full passes from the end of the minibatches
until the bound stops changing.  A run has settled when its AUC is within 2e-4 of that and stays there to the end; time
spent computing the AUC does not count.  Times are given in full passes of the same run: a busy machine slows both.

With its own tolerance and stopping rule, the run also gives the peak memory: that of the process while columns, points
and beliefs are found, minus what it held before there was data, in units of the float32 table.

    python benchmarks/speed_5m.py [--quick] [--susy FILE]

``--susy`` takes the real table, the label first (.csv, .csv.gz, or .npz with one array); its last rows are for testing.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from common import arguments, print_table, report, susy_like, timed
from softmargin.chunks import Table, n_threads, one_blas_thread
from softmargin.columns import describe
from softmargin.engine import Problem
from softmargin.gaussian import Belief
from softmargin.inducing import choose_points
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import Hinge
from softmargin.links import fit_logistic_link, probabilities
from softmargin.loo import left_out, thinned
from softmargin.monitor import Monitor
from softmargin.priors import Ridge
from softmargin.rows import Features, InducingRows
from softmargin.steps import Natural, ascend
from softmargin.stochastic import batch_size, wander

N, N_QUICK, N_TEST = 5_000_000, 200_000, 100_000
NEAR = 2e-4
MEMORY_TARGET = 2.0


class Case(NamedTuple):
    """A number of points, passes to watch the walk for, most full passes after it, and the passes it may settle in."""

    m: int
    watched: float
    full: int
    target: float


CASES = [Case(64, 0.5, 10, 1.0), Case(512, 0.35, 4, 0.25)]
#: Few rows are soon all seen: the walk has to go round.
QUICK = [Case(64, 2.0, 10, 2.0), Case(128, 2.0, 10, 2.0)]


class Data(NamedTuple):
    """Rows to learn from, and rows to test."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def read(path: Path | None, n: int) -> Data:
    X, y = susy_like(n + N_TEST) if path is None else from_file(path)
    return Data(X[:-N_TEST], y[:-N_TEST], X[-N_TEST:], y[-N_TEST:])


def from_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path) as file:
            table = file[file.files[0]]
    else:
        table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return np.ascontiguousarray(table[:, 1:], dtype=np.float32), np.where(table[:, 0] > 0.5, 1.0, -1.0)


def model(data: Data, m: int) -> Problem:
    n, d = data.X.shape
    weight = np.ones(n)
    with one_blas_thread:
        columns = describe(data.X, weight)
        kernel = (10.0 * RBF() + Constant(1.0)).with_length_scale(tuple(np.sqrt(d) * columns.spread))
        points = choose_points(data.X, weight, columns, kernel, m, "kmeans", np.random.RandomState(0))
        rows = InducingRows.at(kernel, points)
    return Problem(Table.of(data.X, data.y, weight, m), rows, Hinge(), Ridge.isotropic(m), n_threads(-1))


class Judge:
    """What a belief is worth on the test rows."""

    def __init__(self, problem: Problem, data: Data) -> None:
        self._problem, self._y = problem, data.y_test
        with one_blas_thread:
            self._features: Features = problem.rows.lift(data.X_test)

    def auc(self, belief: Belief) -> float:
        phi, positive = self._features.phi, self._y > 0
        rank, count = rankdata(phi @ belief.seen_by(phi).mean), positive.sum()
        return (rank[positive].sum() - count * (count + 1) / 2) / (count * (len(rank) - count))

    def brier(self, belief: Belief) -> float:
        """Of probabilities through the leave-one-out link."""
        few, unit = thinned(self._problem, self._problem.table.weight)
        mu, v, usable = left_out(few, belief, unit)
        link = fit_logistic_link(mu, v, few.table.y, few.table.weight * usable)
        latent = self._features.moments(belief.seen_by(self._features.phi))
        return float(np.mean((probabilities(link.score(latent.mu, latent.v))[:, 1] - (self._y > 0)) ** 2))


class Stopwatch:
    """Called after every step of a walk: notes the seconds that its steps took, and their AUC at no charge."""

    def __init__(self, problem: Problem, judge: Judge) -> None:
        self._problem, self._judge = problem, judge
        self._seconds: list[float] = []
        self._auc: list[float] = []
        self._spent, self._since = 0.0, time.perf_counter()

    def __call__(self, passes: float, natural: Natural) -> None:
        self._spent += time.perf_counter() - self._since
        self._seconds.append(self._spent)
        self._auc.append(self._judge.auc(self._problem.prior.update(*natural)))
        self._since = time.perf_counter()

    def settled(self, converged: float) -> float:
        """The seconds after which the AUC stays near that of the converged model; infinite if it does not."""
        far = np.flatnonzero(converged - np.array(self._auc) > NEAR)
        after = 0 if len(far) == 0 else far[-1] + 1
        return self._seconds[after] if after < len(self._seconds) else float("inf")


class Outcome(NamedTuple):
    """Seconds of a full pass, and until the walk settles; AUCs, converged and of a walk left to itself; Brier score."""

    a_pass: float
    settled: float
    converged: float
    auc: float
    brier: float

    @property
    def passes(self) -> float:
        return self.settled / self.a_pass


def judged(problem: Problem, data: Data, case: Case, own: Belief) -> Outcome:
    """The walk under a stopwatch, then full passes from its end to the converged model; and the walk left to itself."""
    judge = Judge(problem, data)
    stopwatch = Stopwatch(problem, judge)
    with one_blas_thread:
        rough = wander(problem, rng=np.random.RandomState(0), tol=0.0, max_passes=case.watched, watch=stopwatch)
        first, _ = timed(lambda: replace(problem, _kept={}).stats(rough.point.belief))
        monitor = Monitor()
        best = ascend(problem, tol=1e-6, max_passes=case.full, start=rough.point.natural, monitor=monitor).point.belief
        # A pass has to find its features.  Those of small tables are kept, and only the first pass counts.
        others = [] if problem._kept else np.diff([entry["seconds"] for entry in monitor.history])
        converged, a_pass = judge.auc(best), float(np.median([first, *others]))
        return Outcome(a_pass, stopwatch.settled(converged), converged, judge.auc(own), judge.brier(own))


def peak() -> int:
    """Bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    args = arguments(__doc__, lambda parser: parser.add_argument("--susy", type=Path, help="the real table"))
    cases, before = QUICK if args.quick else CASES, peak()
    data = read(args.susy, N_QUICK if args.quick else N)
    problems = [model(data, case.m) for case in cases]
    walks = [timed(lambda p=problem: wander(p, rng=np.random.RandomState(0))) for problem in problems]
    memory = (peak() - before) / data.X.nbytes
    outcomes = [
        judged(problem, data, case, walk.point.belief)
        for problem, case, (_, walk) in zip(problems, cases, walks, strict=True)
    ]
    size = f"{len(data.y):,} rows, {data.X.shape[1]} columns, float32, {data.X.nbytes / 2**20:.0f} MiB"
    print(f"{size}; {n_threads(-1)} threads; peak memory {memory:.2f} of that\n")
    rows = []
    for case, problem, o, (seconds, walk) in zip(cases, problems, outcomes, walks, strict=True):
        times = [batch_size(problem, "auto"), o.a_pass, o.settled, o.passes, case.target, f"{o.converged:.5f}"]
        rows.append([case.m, *times, walk.reason, seconds, f"{o.auc:.5f}", f"{o.brier:.4f}"])
    header = ["m", "minibatch", "pass, s", "settled, s", "in passes", "target", "AUC of passes"]
    print_table([*header, "left to itself", "s", "AUC", "Brier"], rows)
    print()
    value = {f"m={case.m} passes": round(o.passes, 3) for case, o in zip(cases, outcomes, strict=True)}
    target = {f"m={case.m} passes": case.target for case in cases}
    if not args.quick:  # a small table is little beside the libraries' own
        value["memory"], target["memory"] = round(memory, 2), MEMORY_TARGET
    report("speed_5m", value, target, all(value[name] <= target[name] for name in value))


if __name__ == "__main__":
    main()
