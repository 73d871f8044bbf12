"""The rows of a table that judge kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import to_numpy
from ..chunks import Table, dense
from ..engine import Problem
from ..inducing import Distinct, drawn_by_weight, explaining, scattered_points
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..links import fit_logistic_link
from ..loo import left_out
from ..priors import Ridge
from ..rows import InducingRows
from ..steps import ascend
from .evidence import MOST_UPDATES, Evidence

#: Most rows that judge kernels, and the points they are seen through: one for so many rows, within limits.
_FIRST_ROWS, _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS = 1024, 8, 64, 128
#: Further panels, for tables of more than so many rows: their rows and points.
_FURTHER_PANELS = ((_FIRST_ROWS, 2048, 256), (50_000, 8192, 512))
#: How far the fits go whose leave-one-out losses are compared.
_LOO_TOLERANCE, _LOO_PASSES = 1e-4, 50


class Judges(NamedTuple):
    """The rows that judge kernels, distinct and with their weights, the weight of one copy, and points to see them."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    unit: np.ndarray
    points: np.ndarray

    @classmethod
    def of(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
        unit: np.ndarray,
        rng: np.random.RandomState,
        n_rows: int = _FIRST_ROWS,
        n_points: int | None = None,
    ) -> Judges:
        """All rows of a small table; of a large one as many as are enough, drawn in proportion to weight."""
        if X.shape[0] > n_rows:
            chosen = drawn_by_weight(weight, n_rows, rng)
            X, y = X[chosen], y[chosen]
            weight = unit = np.full(n_rows, min(1.0, weight.sum() / n_rows))
        both, first, which = np.unique(
            np.column_stack([dense(X).astype(np.float64, copy=False), y]),
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        total = np.bincount(which.ravel(), weights=weight)
        if n_points is None:
            n_points = int(np.clip(len(both) // _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS))
        return cls(both[:, :-1], both[:, -1], total, unit[first], scattered_points(both[:, :-1], total, n_points))

    @classmethod
    def panels(
        cls,
        X: Any,
        y: np.ndarray,
        weight: np.ndarray,
        unit: np.ndarray,
        rng: np.random.RandomState,
        most_points: int = _FURTHER_PANELS[-1][2],
    ) -> list[Judges]:
        """The rows that judge the kernels of a table: few to come near the best, and where there are more, more to end.

        No panel has more points than the model will: with few points longer length-scales are better.
        """
        table = X, y, weight, unit, rng
        further = [(n_rows, points) for above, n_rows, points in _FURTHER_PANELS if X.shape[0] > above]
        return [cls.of(*table), *(cls.of(*table, n_rows, min(points, most_points)) for n_rows, points in further)]

    def seen_through(self, kernel: Kernel) -> Judges:
        """The same rows, through no more points than a kernel like this needs."""
        few = explaining(Distinct(self.X, self.weight), kernel, at_most=len(self.points))
        return self if few is None else self._replace(points=np.unique(few, axis=0))

    def evidence(self, likelihood: Likelihood, n_updates: int = MOST_UPDATES, n_jobs: int = 1) -> Evidence:
        return Evidence(self.X, self.y, self.weight, self.points, likelihood, n_updates, n_jobs)

    def left_out_losses(self, kernel: Kernel, likelihood: Likelihood) -> np.ndarray:
        """The leave-one-out log loss of each row under a kernel, the link fitted to all of them; NaN if unknown."""
        rows = InducingRows.at(kernel, self.points)
        table = Table.of(self.X, self.y, self.weight, rows.n_weights)
        problem = Problem(table, rows, likelihood, Ridge.isotropic(rows.n_weights))
        belief = ascend(problem, tol=_LOO_TOLERANCE, max_passes=_LOO_PASSES).point.belief
        without = left_out(problem, belief, self.unit)
        link = fit_logistic_link(without.mu, without.v, self.y, self.weight * without.usable)
        losses = np.logaddexp(0, -self.y * link.score(without.mu, without.v))
        return np.where(to_numpy(without.usable), losses, np.nan)
