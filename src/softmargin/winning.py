"""The probability of each of several Gaussians to be the largest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

#: Gaussians are cut off at this many standard deviations, beyond which there is a probability of 1e-12.
_REACH = 7.0
#: The widest spacing of an even grid, in standard deviations, and the numbers of its nodes.  Errors are 1e-11 for a few
#: classes; the largest of many equally wide Gaussians is narrower than each: 4e-10 for 10, 1e-7 for 20, 1e-5 for 200.
_STEP, _GRADES = 0.5, (32, 64, 128, 256)
#: If standard deviations are too different for that: edges of panels in units of each, and nodes within a panel.
_EDGES, _PANEL_NODES = np.array([-_REACH, -2.5, 0.0, 2.5, _REACH]), 10
#: Standard deviations are at least this share of the largest of their row, and at least this number.
_LEAST_SHARE, _LEAST = 1e-9, 1e-150
#: Standardised values are clipped to this: densities vanish there, and squares do not overflow.
_FAR = 40.0
#: Numbers per block of rows, so that a block fits the cache.
_NUMBERS_AT_ONCE = 2**18


def winning(mu: np.ndarray, v: np.ndarray) -> np.ndarray:
    r"""The probability of each of K independent Gaussians to be the largest of them, row by row.

    With :math:`\Phi_j(f) = \Phi((f - \mu_j) / s_j)` and :math:`N_k` the density of class k,

    .. math:: P_k = \int N_k(f) \prod_{j \neq k} \Phi_j(f)\, df,

    all computed from the same nodes. The integrand is smooth on the scale of the smallest relevant :math:`s`,
    and vanishes where any :math:`\Phi_j` does. For such functions sums over an even grid converge exponentially.
    If that would need too many nodes, there are panels around each class in units of its own :math:`s_k`. Exact ties
    at ``v = 0`` are shared.

    >>> winning(np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]), np.array([[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]])).round(2)
    array([[0.55, 0.23, 0.23],
           [0.5 , 0.  , 0.5 ]])
    """
    mu, s = (mu - mu.max(axis=1, keepdims=True)).T, np.sqrt(v).T
    s = np.maximum(s, np.maximum(_LEAST_SHARE * s.max(axis=0), _LEAST))
    low, high = (mu - _REACH * s).max(axis=0), (mu + _REACH * s).max(axis=0)
    least = np.min(s, axis=0, where=mu + _REACH * s >= low, initial=np.inf)
    wins = np.empty_like(mu)
    beyond = (_EDGES.size * len(mu) - 1) * _PANEL_NODES
    for n_nodes, i in graded((high - low) / (_STEP * least), _GRADES, beyond, len(mu)):
        unlike = n_nodes == beyond
        f, weights = _panels(mu[:, i], s[:, i], low[i], high[i]) if unlike else even(low[i], high[i], n_nodes)
        wins[:, i] = _shares(f, weights, mu[:, i], s[:, i])
    return wins.T


def even(low: np.ndarray, high: np.ndarray, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of shape (n, n_nodes), evenly spaced, and their weights."""
    width = (high - low)[:, None]
    return low[:, None] + width * np.linspace(0, 1, n_nodes), width / (n_nodes - 1)


def _panels(mu: np.ndarray, s: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on panels around every class."""
    edges = (mu.T[:, :, None] + s.T[:, :, None] * _EDGES).reshape(len(low), -1)
    edges = np.sort(np.clip(edges, low[:, None], high[:, None]), axis=1)
    nodes, weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    f = edges[:, :-1, None] + half * (1 + nodes)
    return f.reshape(len(low), -1), (half * weights).reshape(len(low), -1)


def _shares(f: np.ndarray, weights: np.ndarray, mu: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The integrals of all classes on given nodes, normalised to sum to one. The first axis is that of classes."""
    with np.errstate(over="ignore"):
        x = np.minimum((f - mu[:, :, None]) / s[:, :, None], _FAR)
    # No node is more than _REACH standard deviations below any class, so it is safe to divide by each factor.
    below = ndtr(x)
    all_below = weights * below.prod(axis=0)
    wins = (np.exp(-0.5 * x * x) / below * all_below).sum(axis=2) / s
    return wins / wins.sum(axis=0)


def graded(
    needed: np.ndarray, grades: tuple[int, ...], beyond: int, n_classes: int = 1
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of rows that fit the cache, with the number of their nodes: the smallest grade that suffices.

    Rows for which no grade suffices get ``beyond``. The grade of a row does not depend on other rows.
    """
    grade = np.searchsorted(grades, needed)
    for index, n_nodes in enumerate((*grades, beyond)):
        rows = np.flatnonzero(grade == index)
        for cut in pieces(len(rows), n_nodes * n_classes):
            yield n_nodes, rows[cut]


def pieces(n_rows: int, width: int) -> list[slice]:
    """Slices of rows, of ``width`` numbers each, that fit the cache."""
    size = max(1, _NUMBERS_AT_ONCE // width)
    return [slice(start, start + size) for start in range(0, n_rows, size)]
