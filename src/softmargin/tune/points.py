"""Optimisation of inducing points."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from ..arrays import NotPositiveDefiniteError
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..monitor import Monitor
from .evidence import logistic_judge
from .judges import Judges

#: L-BFGS stops when an iteration gains less than this share of the objective, or after this many iterations.
_TOLERANCE, _MOST_ITERATIONS = 1e-4, 30


def moved_points(
    judges: Judges,
    kernel: Kernel,
    points: np.ndarray,
    likelihood: Likelihood,
    units: np.ndarray,
    monitor: Monitor | None = None,
    n_jobs: int = 1,
) -> np.ndarray:
    """Moves inducing points so as to raise the objective on some rows, by L-BFGS in units of each column.

    The objective is a lower bound whatever the points, so they cannot overfit.  For a loss without a bound, the
    logistic one is used.
    """
    judge = likelihood if likelihood.is_bound else logistic_judge(judges.n_classes)
    evidence = judges._replace(points=points).evidence(judge, n_jobs=n_jobs)
    best, least = points, np.inf

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least
        if monitor is not None and np.isfinite(least) and monitor.out_of_time:
            raise StopIteration
        moved = (x.reshape(points.shape) * units).astype(points.dtype)
        try:
            value, slopes = evidence.through(kernel, moved)
        except NotPositiveDefiniteError:  # coincident points: worse than all others
            return abs(least) * 2 + 1e3, np.zeros_like(x)
        if -value < least:
            best, least = moved, -value
        if monitor is not None:
            monitor.note(f"points  bound {value:.6g}")
        return -value, -(slopes * units).ravel()

    options = {"ftol": _TOLERANCE, "maxiter": _MOST_ITERATIONS}
    try:
        minimize(loss, (points / units).ravel(), jac=True, method="L-BFGS-B", options=options)
    except StopIteration:
        pass
    except KeyboardInterrupt:
        if monitor is None or not np.isfinite(least):
            raise
        monitor.interrupted = True
    return best.astype(points.dtype)
