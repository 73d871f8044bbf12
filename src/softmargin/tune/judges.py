"""Judges: the rows of a table on which kernels are evaluated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..chunks import Table, dense
from ..columns import Columns, rounded
from ..engine import Problem
from ..inducing import MERGED_NUMBERS, explaining, merged, placed, scattered_points
from ..inference import InferredAscent
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..links import fit_softmax_link, log_losses
from ..monitor import Monitor
from ..priors import Classwise, Ridge
from ..rows import ClasswiseRows, InducingRows
from ..sampling import allotted, by_class, drawn_by_weight, merged_rows
from ..steps import Ascent, ascend
from .evidence import MOST_UPDATES, Evidence

#: The most judges in the first panel, and their inducing points: one per this many rows, within limits.
_FIRST_ROWS, _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS = 1024, 8, 64, 128
#: Further panels: for tables of more than this many rows, the numbers of rows and points.
_FURTHER_PANELS = ((_FIRST_ROWS, 2048, 96), (50_000, 8192, 256))
#: The same for more than two classes, where several functions look too smooth through few points, and a fit takes long
#: enough to justify a longer search.  Rows times classes times squared points stay below a limit.
_PANELS_OF_CLASSES, _MOST_WORK = ((_FIRST_ROWS, 2048, 96), (4096, 8192, 512)), 3 * 8192 * 512**2
#: With few points, more rows than this for each point add nothing.
_MOST_ROWS_PER_POINT = 32
#: How often a row of a further panel may count, for the rows of the table that it represents.  With so few points, that
#: many more rows would give nearly the same sums, only larger.
_GROWTH = 8.0
#: Tolerance, and most passes, of the fits whose losses are compared.
_LOO_TOLERANCE, _LOO_PASSES = 1e-4, 50


class LabelledRows(NamedTuple):
    """Rows with labels, weights, and the weight of a single copy of each."""

    X: Any
    y: np.ndarray
    weight: np.ndarray
    unit: np.ndarray

    def merged(self) -> LabelledRows:
        """Merges rows that agree in values and label, and puts them in an order that does not depend on the table's."""
        X, y, unit, which = merged_rows(dense(self.X), self.y, self.unit)
        return LabelledRows(X, y, np.bincount(which, weights=self.weight), unit)

    def sample(self, size: int, rng: np.random.RandomState, growth: float = 1.0) -> LabelledRows:
        """At most ``size`` rows, drawn within each class in proportion to weight; rare classes are oversampled.

        Their total weight is ``growth`` times ``size``, but at most that of all rows, and is divided between classes in
        their true proportions.
        """
        if len(self.y) <= size:
            return self
        classes = by_class(self.y)
        counts = allotted([len(rows) for rows in classes], size)
        total, chosen, each = self.weight.sum(), [], []
        for rows, count in zip(classes, counts, strict=True):
            if count:
                chosen.append(rows[drawn_by_weight(self.weight[rows], count, rng)])
                each.append(np.full(count, min(growth * size, total) * self.weight[rows].sum() / total / count))
        rows, weight = np.concatenate(chosen), np.concatenate(each)
        weight = rounded(weight, weight)
        return LabelledRows(self.X[rows], self.y[rows], weight, np.minimum(weight, 1))


class Judges(NamedTuple):
    """The distinct rows that judge kernels, their weights, the weight of one copy of each, and inducing points."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    unit: np.ndarray
    points: np.ndarray
    n_classes: int = 2

    @classmethod
    def of(cls, rows: LabelledRows, n_points: int | None = None, n_classes: int = 2) -> Judges:
        """All of the given rows as judges."""
        rows = rows.merged()
        if n_points is None:
            n_points = int(np.clip(len(rows.y) // _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS))
        return cls(*rows, scattered_points(rows.X, rows.weight, n_points), n_classes)

    @classmethod
    def panels(
        cls,
        rows: LabelledRows,
        rng: np.random.RandomState,
        most_points: int = _FURTHER_PANELS[-1][2],
        n_classes: int = 2,
    ) -> list[Judges]:
        """Panels of judges for a table: a small one to get near the optimum, and larger ones if there are more rows.

        No panel has more points than the model will have, because with few points longer length-scales are better.
        """
        rows = rows.merged() if rows.X.shape[0] * rows.X.shape[1] <= MERGED_NUMBERS else rows
        panels = [cls.of(rows.sample(_FIRST_ROWS, rng), n_classes=n_classes)]
        for above, n_rows, n_points in _FURTHER_PANELS if n_classes == 2 else _PANELS_OF_CLASSES:
            if len(rows.y) > above:
                points = min(n_points, most_points, int((_MOST_WORK / n_rows / n_classes) ** 0.5))
                enough = max(_FIRST_ROWS, min(n_rows, _MOST_ROWS_PER_POINT * points))
                if n_classes == 2 or enough > len(panels[-1].y):  # with few points, more rows add nothing
                    panels.append(cls.of(rows.sample(enough, rng, _GROWTH), points, n_classes))
        return panels

    def of_blurred(self, columns: Columns) -> Judges:
        """The same rows, given as means and standard deviations of columns, with points made of the means alone."""
        return self._replace(points=np.unique(self.points[:, : len(columns.spread)], axis=0))

    def means(self, columns: Columns) -> np.ndarray:
        """The rows, with means in place of missing entries."""
        return self.X[:, : len(columns.spread)]

    def seen_through(self, kernel: Kernel, columns: Columns, is_near: bool) -> Judges:
        """The same rows with points placed for a kernel; if it is near the optimum, no more points than it needs."""
        every = merged(self.means(columns), self.weight)
        points = explaining(every, kernel, len(self.points), float(self.weight.sum())) if is_near else None
        if points is None and len(every.rows) > len(self.points):
            points = placed(every, columns, kernel, len(self.points), "kmeans", np.random.RandomState(0))
        return self if points is None else self._replace(points=np.unique(points, axis=0))

    def evidence(self, likelihood: Likelihood, n_updates: int = MOST_UPDATES, n_jobs: int = 1) -> Evidence:
        return Evidence(self.X, self.y, self.weight, self.points, likelihood, n_updates, n_jobs, self.n_classes)

    def left_out_losses(self, kernel: Kernel, likelihood: Likelihood, monitor: Monitor | None = None) -> np.ndarray:
        """The leave-one-out log loss of each row under a kernel, with a link fitted to all rows; NaN if unknown."""
        problem, ascent = self._fitted(kernel, likelihood, monitor)
        record = InferredAscent(ascent).record(problem, self.unit)
        return np.where(record.weight > 0, record.losses(record.link()), np.nan)

    def losses_on(
        self, others: Judges, kernel: Kernel, likelihood: Likelihood, monitor: Monitor | None = None
    ) -> np.ndarray:
        """The log loss of each of ``others`` under a model of these rows, with a link fitted to ``others``."""
        problem, ascent = self._fitted(kernel, likelihood, monitor)
        latent = problem.rows.lift(others.X).moments(problem.prior.effective(ascent.point.belief))
        link = fit_softmax_link(latent.mu, latent.v, others.y, others.weight)
        return log_losses(link.score(latent.mu, latent.v), others.y)

    def _fitted(self, kernel: Kernel, likelihood: Likelihood, monitor: Monitor | None) -> tuple[Problem, Ascent]:
        """A model of these rows at convergence, or when the user interrupted the fit, which the monitor records."""
        rows: Any = InducingRows.at(kernel, self.points)
        prior: Any = Ridge.isotropic(rows.n_weights)
        table = Table.of(self.X, self.y, self.weight, rows.n_weights)
        if self.n_classes > 2:
            rows, prior = ClasswiseRows(rows, self.n_classes), Classwise.alike(prior, self.n_classes)
        problem = Problem(table, rows, likelihood, prior)
        clock = None if monitor is None else monitor.silent()
        ascent = ascend(problem, tol=_LOO_TOLERANCE, max_passes=_LOO_PASSES, monitor=clock)
        if ascent.reason == "interrupt":
            if monitor is None:
                raise KeyboardInterrupt
            monitor.interrupted = True
        return problem, ascent
