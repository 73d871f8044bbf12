"""How many frequencies a kernel machine has time for."""

from __future__ import annotations

import math
import time

import numpy as np

from ..monitor import Monitor

#: Passes, or what takes as long, that a fit makes however little time is left: at the prior, after a step, over rows
#: that stand for all others, and two for the link.
_LEAST_PASSES = 5
#: Tables of at least so many rows are sampled, as in `softmargin.inference`: one row in so many, or a minibatch that is
#: smaller but visited more often, which takes about as long as this many rows.
_SAMPLED, _SHARE, _MOST_ROWS = 8192, 8, 2**14
#: What a wave of one row and an entry of a root cost besides the products, in multiplications.
_WAVE, _ROOT = 150, 1.5
#: The width of the product by which speed is measured, and how often it is repeated.
_WIDTH, _REPEATS = 512, 3


def frequencies_in_time(
    n_frequencies: int, fewest: int, n_rows: int, n_classes: int, monitor: Monitor, n_jobs: int = 1
) -> int:
    """``n_frequencies``, halved until the least that a fit does takes no longer than what is left of ``max_time``.

    A pass cannot be interrupted, and takes four times as long with twice as many frequencies.  So a fit with too many
    would exceed its time by several passes, for a belief that is far from converged.
    """
    if n_frequencies <= fewest or monitor.time_left == math.inf:
        return n_frequencies
    speed = multiplications_per_second()
    while n_frequencies > fewest and least_work(n_frequencies, n_rows, n_classes, n_jobs) > monitor.time_left * speed:
        n_frequencies = max(fewest, n_frequencies // 2)
    return n_frequencies


def least_work(n_frequencies: int, n_rows: int, n_classes: int, n_jobs: int = 1) -> float:
    """Multiplications, one after another, of the passes that every fit makes; large tables are sampled for them."""
    m, n_beliefs = 2 * n_frequencies, 1 if n_classes == 2 else n_classes
    rows = n_rows if n_rows < _SAMPLED else min(n_rows // _SHARE, _MOST_ROWS)
    return _LEAST_PASSES * n_beliefs * (rows * m * (m + _WAVE) / n_jobs + _ROOT * m**3)


def multiplications_per_second() -> float:
    """The speed of a matrix product in one thread, now: other processes may take their share of the machine."""
    A, out = np.ones((_WIDTH, _WIDTH)), np.empty((_WIDTH, _WIDTH))
    np.matmul(A, A, out=out)  # the first one may allocate memory
    start = time.perf_counter()
    for _ in range(_REPEATS):
        np.matmul(A, A, out=out)
    return _REPEATS * _WIDTH**3 / max(time.perf_counter() - start, 1e-9)
