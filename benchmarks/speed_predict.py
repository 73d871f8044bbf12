"""Claim: latent means and variances of new rows run at more than half of the machine's speed for large matrix products,
and labels alone take less than half of their time.

A million rows of 18 columns go through `BayesianSVC.latent_mean_and_variance` with m = 512 inducing points: input
checks, blocks, kernel, mean, variance, and joining the blocks again.  Operations are counted as n (2 m d + m^2 + 2 m),
which is the minimum for the result: the product behind the kernel, the product with a triangular factor behind the
variance (counting only its nonzero half), and the mean.  Multiplications by zeros, exponentials, squares and copies
count for nothing.  The reference is the product of two 4096 x 4096 matrices in the same dtype, on the same number of
threads, taking turns with the predictions; the value is the median of the ratios of the rates.

Labels of two classes need no variances: `predict` on the same rows, in turn with the others, takes at most half the
time of the moments.

    python benchmarks/speed_predict.py [--quick]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from common import arguments, print_table, report, susy_like, timed
from softmargin import BayesianSVC
from softmargin.chunks import n_threads
from softmargin.kernels import RBF, Constant
from softmargin.rows.inducing import KernelView

D, M = 18, 512
FITTED_ROWS, ROWS, QUICK_ROWS = 10_000, 1_000_000, 200_000
GEMM_SIZE = 4096
#: The least share of the machine's speed, and the greatest share of the time for labels.
TARGET, LABELS = 0.5, 0.5


class Rates(NamedTuple):
    """Operations a second, the seconds of all moments, and those of labels alone."""

    own: float
    gemm: float
    seconds: float
    labels: float


def fitted(X: np.ndarray, y: np.ndarray, n_jobs: int) -> BayesianSVC:
    """A model of as many points as are asked for: what it has learnt does not change the arithmetic."""
    spread = tuple(np.sqrt(D) * X.std(axis=0, dtype=float))
    kernel = 4.0 * RBF(spread) + Constant(1.0)
    model = BayesianSVC(kernel, tune=None, n_inducing=M, inducing="random", n_jobs=n_jobs, random_state=0).fit(X, y)
    assert model.inducing_points_.shape == (M, D)
    assert isinstance(model._view, KernelView)
    return model


def measure(dtype: str, n: int, n_jobs: int, repeats: int) -> list[Rates]:
    """Moments, labels and the product in turn, so many times."""
    X, y = susy_like(n)
    X = X.astype(dtype, copy=False)
    model = fitted(X[:FITTED_ROWS], y[:FITTED_ROWS], n_jobs)
    A, B = np.random.default_rng(1).standard_normal((2, GEMM_SIZE, GEMM_SIZE), dtype=X.dtype)
    C = np.empty_like(A)
    rates = []
    with threadpool_limits(n_jobs, user_api="blas"):
        for turn in range(repeats + 1):
            seconds, (mu, v) = timed(lambda: model.latent_mean_and_variance(X))
            labels, _ = timed(lambda: model.predict(X))
            product, _ = timed(lambda: np.matmul(A, B, out=C))
            assert mu.shape == v.shape == (n,)
            assert np.isfinite(mu).all()
            assert (v > 0).all()
            if turn:  # both have run once before the clock counts
                operations = n * (2.0 * M * D + M**2 + 2.0 * M)
                rates.append(Rates(operations / seconds, 2.0 * GEMM_SIZE**3 / product, seconds, labels))
    return rates


def main() -> None:
    options = arguments(__doc__)
    n, repeats, n_jobs = (QUICK_ROWS, 3, n_threads(-1)) if options.quick else (ROWS, 7, n_threads(-1))
    cells, value, target = [], {}, {}
    for dtype in ("float32", "float64"):
        rates = np.array(measure(dtype, n, n_jobs, repeats))
        ratios = rates[:, 0] / rates[:, 1]
        value[dtype], target[dtype] = round(float(np.median(ratios)), 3), TARGET
        share = f"{dtype}, labels"
        value[share], target[share] = round(float(np.median(rates[:, 3] / rates[:, 2])), 3), LABELS
        own, gemm, seconds, _ = np.median(rates, axis=0)
        span = [f"{ratios.min():.2f}", f"{ratios.max():.2f}"]
        cells.append(
            [dtype, n, seconds, f"{n / seconds:,.0f}", own / 1e9, gemm / 1e9, *span, value[dtype], value[share]]
        )
    print(
        f"Latent moments against a product of {GEMM_SIZE} x {GEMM_SIZE} matrices (ratios: least, most, median), "
        f"and the share of their time that labels alone take; {n_jobs} threads, d = {D}, m = {M}\n"
    )
    head = ["dtype", "rows", "seconds", "rows/s", "GFLOP/s", "product GFLOP/s", "least", "most", "median", "labels"]
    print_table(head, cells)
    print()
    ok = all(value[name] <= target[name] if "labels" in name else value[name] >= target[name] for name in value)
    report("speed_predict", value, target, ok)


if __name__ == "__main__":
    main()
