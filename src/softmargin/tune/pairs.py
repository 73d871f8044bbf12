r"""Detects columns that matter only in pairs, and restarts the search with these columns switched on.

The search starts with every column contributing a little.  Among many columns, such a kernel hardly sees an interaction
of two of them: it is better to switch all columns off, and from there no gradient leads back.  What was missed shows in
the rows' derivatives :math:`g_i = \partial l_i / \partial \mu_i` at the end of a search.  Adding a function
:math:`\beta\, p(x)` to the kernel's raises the objective at the rate :math:`T = \sum_i c_i g_i p_i` at
:math:`\beta = 0`, where :math:`c_i` are weights of rows.  If nothing was missed, the signs of the terms are random, and
the variance of ``T`` is about :math:`V = \sum_i c_i^2 g_i^2 p_i^2`.  For the products :math:`p = x_j x_k` of all pairs,
these are two matrix products, :math:`X^T \mathrm{diag}(c g) X` and
:math:`(X \circ X)^T \mathrm{diag}(c g)^2 (X \circ X)` (docs/derivations/pairs.md).
"""

from __future__ import annotations

import numpy as np

from ..columns import Columns
from ..kernels import Kernel
from ..monitor import Monitor
from .evidence import Evidence
from .judges import Judges
from .search import Choice, by_quasi_newton, is_over, maximise_again
from .space import Space

#: The most rounds of checking for missed pairs.
_ROUNDS = 3
#: The probability of a false pair among irrelevant columns, and the most columns switched on at once.
_LEVEL, _MOST_COLUMNS = 0.01, 8
#: The most multiplications for the scores.  Beyond it, a subset of rows is used, or none if that would be too small.
_MOST_WORK, _FEWEST_ROWS = 4e9, 256
#: The number of columns whose scores with all others are computed at a time.
_BLOCK = 256
#: Standardised values are clipped here; their fourth powers stay finite.
_FAR = 1e6


def with_pairs(
    choice: Choice, panel: Judges, evidence: Evidence, space: Space, columns: Columns, monitor: Monitor | None = None
) -> Choice:
    """The choice, or a better one found after switching on columns that matter only in pairs."""
    for _ in range(_ROUNDS):
        if choice.judged is None or is_over(monitor):
            break
        found = paired_columns(panel.means(columns), evidence.row_slopes(choice.judged), panel.weight, columns)
        start = opened(choice.kernel, space, found, len(columns.spread))
        if start is None:
            break
        before, choice = choice.kernel, maximise_again(evidence, space, by_quasi_newton, choice, start, monitor)
        if choice.kernel is before:
            break
    return choice


def paired_columns(X: np.ndarray, g: np.ndarray, weight: np.ndarray, columns: Columns) -> list[int]:
    """Columns whose products explain the derivatives ``g`` of rows (or of rows and classes) better than chance would;
    the most significant first.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 20))
    >>> g = np.sign(X[:, 3] * X[:, 8]) + rng.normal(size=300)
    >>> paired_columns(X, g, np.ones(300), Columns(np.zeros(20), np.ones(20)))
    [3, 8]
    """
    (n, d), g = X.shape, g.reshape(len(g), -1)
    every = max(1, int(np.ceil(n * d * d * g.shape[1] / _MOST_WORK)))
    if every > 1 and n < every * _FEWEST_ROWS:
        return []
    away = weight[:, None] * (g - np.average(g, axis=0, weights=weight))
    with np.errstate(over="ignore"):  # values that overflow are clipped
        units = np.clip((X[::every] - columns.center) / columns.spread, -_FAR, _FAR)
    # A sum with random signs, divided by its standard deviation, exceeds t with probability at most 2 exp(-t^2 / 2).
    limit, pairs = 2 * np.log(d * (d + 1) * g.shape[1] / _LEVEL), []
    for first in range(0, d, _BLOCK):
        scores = pair_scores(units, away[::every], slice(first, first + _BLOCK))
        some, others = np.nonzero(np.triu(scores > limit, first))
        pairs += zip(-scores[some, others], some + first, others, strict=True)
    return list(dict.fromkeys(int(column) for _, *pair in sorted(pairs) for column in pair))[:_MOST_COLUMNS]


def pair_scores(X: np.ndarray, g: np.ndarray, some: slice) -> np.ndarray:
    r""":math:`T^2 / V` of some columns with all; the largest over the columns of ``g``, weighted derivatives."""
    squares, scores = X * X, np.zeros((len(X[0, some]), X.shape[1]))
    for slopes in g.T:
        T = (slopes[:, None] * X[:, some]).T @ X
        V = ((slopes**2)[:, None] * squares[:, some]).T @ squares
        scores = np.fmax(scores, T * T / np.where(V > 0, V, np.inf))
    return scores


def opened(kernel: Kernel, space: Space, chosen: list[int], n_columns: int) -> Kernel | None:
    r"""A kernel whose chosen columns have at most the length-scales they would start at among the columns in use, and
    whose variances are at least those at the start; None if no length-scale changes.

    Length-scales of ``d`` columns start at :math:`\sqrt d` spreads, so that rows are neither too similar nor too
    different.  Here ``d`` is the number of columns in use, of which each column that was not chosen counts only by the
    share of the squared distance between rows that it has retained.
    """
    theta, begin = kernel.theta.copy(), space.kernel.theta
    for group in space.groups:
        if chosen and group.apart.stop - group.apart.start == n_columns:
            own, in_use = group.theta.start + np.array(chosen), np.exp(2 * np.minimum(0, begin - theta))
            in_use[own] = 1.0
            share = in_use[group.theta].mean()
            theta[own] = np.minimum(theta[own], begin[own] + 0.5 * np.log(share))
    if np.array_equal(theta, kernel.theta):
        return None
    return kernel.with_theta(np.where(kernel.has_role("variance"), np.maximum(theta, begin), theta))
