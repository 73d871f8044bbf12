"""Claim: one full pass over the rows runs at more than half of the machine's speed for large matrix products.

A pass is everything that one step needs from the data: kernel, whitening, latent moments, sites, and the sums
``G`` and ``h``, with nothing reused from an earlier pass.  Its operations are counted as n (2 m d + 3 m^2): the
product behind the kernel, and three products (two with a triangular, one with a symmetric factor) at half the
cost of a general one.  The work between them (exponentials, distribution functions, scaling) counts for nothing,
so small m must stay further below 1.  The reference is the product of two 4096 x 4096 matrices in the same dtype, on
the same number of threads, taking turns with the passes; the value is the median of the ratios of the rates.

    python benchmarks/speed_pass.py [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from common import arguments, print_table, report
from softmargin.chunks import Table, n_threads
from softmargin.engine import _CACHE_BYTES, Problem
from softmargin.gaussian import Belief
from softmargin.kernels import RBF
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge
from softmargin.rows import InducingRows

D = 18
GEMM_SIZE = 4096


class Case(NamedTuple):
    """A size and dtype, and the ratio of rates that they must reach."""

    m: int
    dtype: str
    n: int
    target: float

    @property
    def name(self) -> str:
        return f"m={self.m} {self.dtype}"

    @property
    def operations(self) -> float:
        return self.n * (2.0 * self.m * D + 3.0 * self.m**2)

    def smallest(self) -> Case:
        """The same with hardly more rows than those whose features would be kept between passes."""
        return self._replace(n=int(1.05 * _CACHE_BYTES / (self.m * np.dtype(self.dtype).itemsize)))


CASES = [
    Case(64, "float32", 2_000_000, 0.20),
    Case(512, "float32", 200_000, 0.55),
    Case(512, "float64", 200_000, 0.50),
]


def problem(case: Case, n_jobs: int) -> Problem:
    """Rows of noise: the arithmetic of a pass does not depend on what the data says."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((case.n, D), dtype=case.dtype)
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(case.n) > 0, 1.0, -1.0)
    points = X[rng.choice(case.n, case.m, replace=False)]
    rows = InducingRows.at(4.0 * RBF(D**0.5), points)
    return Problem(Table.of(X, y, np.ones(case.n), case.m), rows, Hinge(), Ridge.isotropic(case.m), n_jobs)


def learnt_belief(whole: Problem) -> Belief:
    """The belief after two steps on the first rows: neither its mean nor its covariance is trivial."""
    X, y, weight = (part[:8192] for part in whole.table[:3])
    some = Problem(Table.of(X, y, weight, whole.rows.n_weights), whole.rows, whole.likelihood, whole.prior)
    belief = whole.prior.update(*whole.prior.start(X))
    for _ in range(2):
        stats = some.stats(belief)
        belief = whole.prior.update(stats.G, stats.h)
    return belief


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(case: Case, n_jobs: int, repeats: int) -> list[tuple[float, float]]:
    """Operations a second of a pass and of the product, ``repeats`` times in turn."""
    whole = problem(case, n_jobs)
    belief = learnt_belief(whole)
    A, B = np.random.default_rng(1).standard_normal((2, GEMM_SIZE, GEMM_SIZE), dtype=case.dtype)
    C = np.empty_like(A)
    np.matmul(A, B, out=C)  # both have run once before the clock starts
    assert np.isfinite(whole.stats(belief).bound)
    assert not whole._kept, "features were kept: more rows are needed for an honest pass"
    rates = []
    for _ in range(repeats):
        one_pass = seconds(lambda: whole.stats(belief))
        product = seconds(lambda: np.matmul(A, B, out=C))
        rates.append((case.operations / one_pass, 2.0 * GEMM_SIZE**3 / product))
    return rates


def main() -> None:
    args = arguments(__doc__)
    n_jobs = n_threads(-1)
    rows, value, target = [], {}, {}
    for case in map(Case.smallest, CASES) if args.quick else CASES:
        rates = np.array(measure(case, n_jobs, repeats=3 if args.quick else 5))
        ratios = rates[:, 0] / rates[:, 1]
        value[case.name], target[case.name] = round(float(np.median(ratios)), 3), case.target
        own, gemm = np.median(rates, axis=0) / 1e9
        rows.append(
            [case.name, case.n, own, gemm, f"{ratios.min():.2f}", f"{ratios.max():.2f}", value[case.name], case.target]
        )
    print(f"One pass against a product of {GEMM_SIZE} x {GEMM_SIZE} matrices, {n_jobs} threads, d = {D}, hinge, RBF\n")
    print_table(["case", "rows", "pass GFLOP/s", "product GFLOP/s", "least", "most", "median", "target"], rows)
    print()
    report("speed_pass", value, target, all(value[name] >= target[name] for name in value))


if __name__ == "__main__":
    main()
