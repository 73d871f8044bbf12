"""Choosing inducing points.

All methods work in units of the kernel's length-scales (or of each column's spread, if it has none), on at
most a few thousand rows, and on distinct rows with their total weights, so that a row of weight k and k copies of it
lead to the same points (in tables too large to be searched for repeats, only if the copies are adjacent).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs
from sklearn.exceptions import ConvergenceWarning

from .arrays import row_squares
from .chunks import dense, rows_in_block
from .columns import Columns
from .kernels import Kernel
from .sampling import distinct, drawn_by_weight, scattered

#: ``n_inducing="auto"``: as few rows as explain the rest, if this many suffice, and otherwise this many points. Large
#: tables have twice as many: with two classes because stochastic steps make them cheap, with more because there are
#: several functions.
AUTO_POINTS, _MANY_ROWS, _MANY_ROWS_OF_CLASSES = 256, 50_000, 8192
#: Candidate rows for `explaining`, and the prior variance that it may leave unexplained (a margin has width 1): per row
#: on average, and in total over all rows, which lowers the bound by about an eighth of it.
_CANDIDATES, _LEFT_OVER, _LEFT_OVER_IN_ALL = (512, 1024), 1e-2, 10.0
#: Points are chosen on at most this many rows, or this many for each point.
_SAMPLE_ROWS, _SAMPLE_ROWS_PER_POINT = 4096, 8
_KMEANS_STEPS, _FEW_POINTS = 5, 64
#: Tables of up to this many numbers are searched for repeated rows before points are chosen.
MERGED_NUMBERS = 2**22


class Distinct(NamedTuple):
    """Distinct rows in lexicographic order, and the total weight of each."""

    rows: Any
    weight: np.ndarray


def most_points(n_rows: int, n_inducing: int | str, n_classes: int = 2) -> int:
    """The most points of a model for this many rows."""
    if n_inducing == "auto":
        many = _MANY_ROWS if n_classes == 2 else _MANY_ROWS_OF_CLASSES
        return AUTO_POINTS if n_rows < many else 2 * AUTO_POINTS
    return int(n_inducing)


def choose_points(
    X: Any,
    weight: np.ndarray,
    columns: Columns,
    kernel: Kernel,
    n_inducing: int | str,
    how: str,
    rng: np.random.RandomState,
    n_classes: int = 2,
    n_rows: int | None = None,
) -> np.ndarray:
    """Inducing points for the rows of ``X``: a few that explain all others, or all distinct rows, or chosen by ``how``.

    ``X`` may be a sample of ``n_rows`` rows.
    """
    wanted = most_points(n_rows or X.shape[0], n_inducing, n_classes)
    every = _reduced(X, weight)
    if n_inducing == "auto":
        few = explaining(_sample(every, _CANDIDATES[-1], rng), kernel, wanted, float(weight.sum()))
        if few is not None:
            return few
    all_rows = distinct_rows(*every, at_most=wanted)
    if all_rows is not None:
        return all_rows.rows
    sample = _sample(every, max(_SAMPLE_ROWS, _SAMPLE_ROWS_PER_POINT * wanted), rng)
    if len(sample.rows) <= wanted:
        return sample.rows
    return placed(sample, columns, kernel, wanted, how, rng)


def placed(
    sample: Distinct, columns: Columns, kernel: Kernel, n_points: int, how: str, rng: np.random.RandomState
) -> np.ndarray:
    """``n_points`` points, placed among distinct rows by the method ``how`` in units of the kernel."""
    place = {"kmeans": _kmeans, "random": _random, "mixture": _mixture, "tuned": _kmeans}[how]
    units = kernel.units(columns.spread)
    points = place((sample.rows - columns.center) / units, sample.weight, n_points, rng) * units + columns.center
    return points.astype(sample.rows.dtype)


def explaining(every: Distinct, kernel: Kernel, at_most: int, total: float) -> np.ndarray | None:
    """The fewest rows that leave next to no variance of the others unexplained; None if that takes too many.

    A pivoted Cholesky factorisation always takes the row with the most remaining variance next, and its columns show
    how much variance each row explains. Smooth kernels need far fewer points than there are rows. ``total`` is the
    weight of all rows that these represent.
    """
    tolerance = min(_LEFT_OVER, _LEFT_OVER_IN_ALL / total)
    few: np.ndarray | None = None
    for n_candidates in _CANDIDATES:  # if too many points are needed for few candidates, so are for more
        some = scattered(len(every.weight), n_candidates)
        few = _explaining(Distinct(every.rows[some], every.weight[some]), kernel, at_most, tolerance)
        if few is None or n_candidates >= len(every.weight):
            break
    return few


def _explaining(every: Distinct, kernel: Kernel, at_most: int, tolerance: float) -> np.ndarray | None:
    K = np.asarray(kernel(*2 * (every.rows.astype(np.float64),)))
    share = every.weight / every.weight.sum()
    (pstrf,) = get_lapack_funcs(("pstrf",), (K,))
    L, pivots, rank, _ = pstrf(K, lower=1, tol=tolerance / 100)
    order = pivots - 1
    if rank == 0:
        return None
    left_over = share @ np.diagonal(K) - np.cumsum(share[order] @ np.tril(L[:, :rank]) ** 2)
    enough = int(np.argmax(left_over <= tolerance)) + 1
    if left_over[enough - 1] > tolerance or enough > at_most:
        return None
    return every.rows[np.sort(order[:enough])]


def distinct_rows(X: Any, weight: np.ndarray, at_most: int) -> Distinct | None:
    """The distinct rows, or None as soon as there are more than ``at_most`` of them."""
    found = Distinct(np.empty((0, X.shape[1]), dtype=X.dtype), np.empty(0))
    size = rows_in_block(X.shape[1])
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        found = merged(np.vstack([found.rows, dense(X[rows])]), np.append(found.weight, weight[rows]))
        if len(found.rows) > at_most:
            return None
    return found


def merged(rows: np.ndarray, weight: np.ndarray) -> Distinct:
    """The distinct rows, each with the total weight of its copies."""
    unique, which = distinct(rows)
    return Distinct(unique, np.bincount(which, weights=weight, minlength=len(unique)))


def _reduced(X: Any, weight: np.ndarray) -> Distinct:
    """The distinct rows of tables of moderate size, in lexicographic order; larger tables as they are."""
    return merged(dense(X), weight) if X.shape[0] * X.shape[1] <= MERGED_NUMBERS else Distinct(X, weight)


def _sample(every: Distinct, size: int, rng: np.random.RandomState) -> Distinct:
    """At most ``size`` distinct rows, drawn in proportion to weight (systematic sampling)."""
    if len(every.weight) <= size:
        return Distinct(dense(every.rows), every.weight)
    chosen = drawn_by_weight(every.weight, size, rng)
    return merged(dense(every.rows[chosen]), np.ones(size))


def _kmeans(rows: np.ndarray, weight: np.ndarray, n_points: int, rng: np.random.RandomState) -> np.ndarray:
    """A few steps of k-means, done here because scikit-learn's threads would take longer to synchronise."""
    # A few seeds have to be far apart; many random ones are as good, and much cheaper.
    if n_points <= _FEW_POINTS:
        from sklearn.cluster import kmeans_plusplus  # slow to import

        points, _ = kmeans_plusplus(rows, n_points, sample_weight=weight, random_state=rng)
    else:
        points = _random(rows, weight, n_points, rng)
    for _ in range(_KMEANS_STEPS):
        nearest = _nearest(rows, points)
        total, *sums = (np.bincount(nearest, part, n_points) for part in (weight, *(weight * rows.T)))
        taken = total > 0
        moved = points.copy()
        moved[taken] = np.stack(sums, axis=1)[taken] / total[taken, None]
        if np.array_equal(moved, points):
            break
        points = moved
    return points


def _nearest(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The index of the nearest point for each row; a point that is nearest to none is assigned a row far from all.

    The nearest point maximises :math:`x^T z - |z|^2 / 2`, which is computed as one product.
    """
    left = np.column_stack([rows, np.ones(len(rows))])
    right = np.column_stack([points, -row_squares(points) / 2]).T
    size = rows_in_block(len(points))
    nearest = np.concatenate([np.argmax(left[i : i + size] @ right, axis=1) for i in range(0, len(rows), size)])
    idle = np.flatnonzero(np.bincount(nearest, minlength=len(points)) == 0)
    farthest = np.argsort(-row_squares(rows - points[nearest]), kind="stable")
    nearest[farthest[: len(idle)]] = idle
    return nearest


def scattered_points(rows: np.ndarray, weight: np.ndarray, n_points: int) -> np.ndarray:
    """At most ``n_points`` of the distinct rows; the choice does not depend on the order of the rows."""
    every = merged(rows, weight)
    return every.rows if len(every.rows) <= n_points else _random(*every, n_points, np.random.RandomState(0))


def _random(rows: np.ndarray, weight: np.ndarray, n_points: int, rng: np.random.RandomState) -> np.ndarray:
    """Distinct rows drawn by weight without replacement: those with the least exponential times of rate ``weight``."""
    clocks = rng.exponential(size=len(rows)) / weight
    return rows[np.sort(np.argsort(clocks)[:n_points])]


def _mixture(rows: np.ndarray, weight: np.ndarray, n_points: int, rng: np.random.RandomState) -> np.ndarray:
    """Means of a Gaussian mixture with diagonal covariances, started from k-means.

    scikit-learn's mixture takes no sample weights, so rows are resampled in proportion to theirs.
    """
    start = _kmeans(rows, weight, n_points, rng)
    copies = rows[rng.choice(len(rows), size=max(len(rows), 2 * n_points), p=weight / weight.sum())]
    from sklearn.mixture import GaussianMixture  # slow to import

    mixture = GaussianMixture(
        n_points, covariance_type="diag", means_init=start, reg_covar=1e-3, max_iter=25, init_params="random_from_data",
        random_state=rng,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(mixture.fit(copies).means_)
