r"""Choosing a kernel that is combined with linear terms and random effects.

The latent value is :math:`f = \phi^T c + z^T u` plus what the points leave unexplained: ``c`` are the whitened weights
of a kernel, and ``u`` all others, of linear terms and of the row's groups.  The criterion is again the objective at its
optimum over beliefs, now about all of these together and about the variances of the groups.  A kernel that is judged
without the groups would have to explain them: a column that nearly identifies groups would make it wiggly.

At the optimum, the gradient of the objective in the belief is zero.  At a fixed belief,
:math:`\mu = \phi^T m_c + z^T m_u` and :math:`v = Var(\phi^T c + z^T u) + k(x, x) - \phi^T \phi`, so

.. math:: \frac{\partial F}{\partial \phi_i} = (b_i - w_i \mu_i)\, m_c - w_i\, \big(Cov(c, f_i) - \phi_i\big), \qquad
          \frac{\partial F}{\partial k_{ii}} = -\frac{w_i}{2}.

The other weights enter only through the moments of rows; the rest is as without them (`softmargin.rows.slopes`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..chunks import Table, summed, sweep
from ..columns import Columns
from ..engine import Problem
from ..gaussian import class_parts
from ..kernels import Kernel
from ..monitor import Monitor
from ..priors import Classwise, Structured
from ..rows import ClasswiseFeatures, ClasswiseRows, GroupedRows, InducingRows
from ..rows.slopes import Slopes, in_theta, pullback
from ..steps import Point, ascend
from .evidence import Judged, logistic_judge
from .judges import Judges, LabelledRows
from .search import Choice, maximise
from .space import Space, typical

#: The most rows that judge kernels, and the most of each group if there are too many groups to include all.
_MOST_ROWS, _ROWS_OF_A_GROUP = 4096, 16
#: Tolerance, as a share of the objective, and most passes of the fits at which gradients are computed.
_TOLERANCE, _MOST_PASSES = 1e-5, 60

#: Builds the rows and the prior of a model around the rows of its kernel, which come last among the fixed effects.
Around = Callable[[InducingRows], tuple[GroupedRows, Structured]]


class GroupedJudges(NamedTuple):
    """The rows that judge kernels, whose first ``n_fixed`` columns are those of the kernel, and points in these."""

    rows: LabelledRows
    n_fixed: int
    points: np.ndarray
    n_classes: int = 2

    @classmethod
    def of(
        cls, rows: LabelledRows, n_fixed: int, code: int | None, kernel: Kernel, columns: Columns, n_classes: int = 2
    ) -> GroupedJudges:
        """A sample of rows, with points placed for a kernel; ``code`` is the column of the finest groups."""
        chosen = _some(rows.merged(), code)
        fixed = Judges.of(chosen._replace(X=chosen.X[:, :n_fixed]), n_classes=n_classes)
        return cls(chosen, n_fixed, fixed.seen_through(kernel, columns, is_near=False).points, n_classes)


class GroupedEvidence:
    """The objective at a kernel with the belief at its optimum, like `softmargin.tune.Evidence`, where the kernel is
    only a part of the model.

    The belief of the last kernel is the start for the next; since points are whitened, it is not far from the optimum.
    """

    def __init__(self, judges: GroupedJudges, around: Around, n_jobs: int = 1, monitor: Monitor | None = None) -> None:
        self._judges, self._around, self._n_jobs = judges, around, n_jobs
        self._clock = None if monitor is None else monitor.silent()
        self._last: Point | None = None

    def at(self, kernel: Kernel) -> Judged:
        """The objective at a kernel and its gradient in ``theta``."""
        seen = InducingRows.at(kernel, self._judges.points)
        problem = self._problem(seen)
        last: dict[str, Any] = {} if self._last is None else {"start": self._last.natural, "before": self._last.belief}
        ascent = ascend(problem, tol=_TOLERANCE, max_passes=_MOST_PASSES, monitor=self._clock, **last)
        if ascent.reason == "interrupt":
            raise KeyboardInterrupt
        self._last = ascent.point
        slopes = self._slopes(problem, seen, problem.seen(ascent.point.belief))
        return Judged(ascent.point.objective, in_theta(seen, slopes), seen, ascent.point.belief)

    def _problem(self, kernel: InducingRows) -> Problem:
        n_classes, (X, y, weight, _) = self._judges.n_classes, self._judges.rows
        rows: Any
        prior: Any
        rows, prior = self._around(kernel)
        table = Table.of(X, y, weight, rows.width, rows.least_rows)
        if n_classes > 2:
            rows, prior = ClasswiseRows(rows, n_classes), Classwise.alike(prior, n_classes)
        return Problem(table, rows, logistic_judge(n_classes), prior, self._n_jobs)

    def _slopes(self, problem: Problem, kernel: InducingRows, belief: Any) -> Slopes:
        """The gradient over all rows at a fixed belief, given as rows see it."""
        rows: Any = problem.rows.rows if isinstance(problem.rows, ClasswiseRows) else problem.rows
        where = slice(rows.fixed.n_weights - kernel.n_weights, rows.fixed.n_weights)

        def one_block(index: int) -> Slopes:
            X, y, weight = problem.table.block(index)
            features: Any = problem.features(index)
            latent = features.moments(belief)
            _, w, b = problem.likelihood.sites(y, latent.mu, latent.v)
            grouped = features.base if isinstance(features, ClasswiseFeatures) else features
            of_classes = zip(class_parts(belief), *(_by_class(part) for part in (latent.mu, w, b)), strict=True)
            dphi = sum(_in_features(grouped, where, part, mu, weight * w, weight * b) for part, mu, w, b in of_classes)
            dk = -weight * _by_class(w).sum(axis=0) / 2
            return pullback(kernel, X[:, : self._judges.n_fixed], grouped.phi[:, where], dphi, dk)

        return summed(sweep(one_block, problem.table.n_blocks, self._n_jobs))


def choose_kernel_within(
    judges: GroupedJudges,
    around: Around,
    kernel: Kernel,
    columns: Columns,
    monitor: Monitor | None = None,
    n_jobs: int = 1,
) -> Choice:
    """The best kernel beside the linear terms and groups of a model.

    The search starts at the given kernel or at typical length-scales, whichever is better.
    """
    evidence: Any = GroupedEvidence(judges, around, n_jobs, monitor)
    return maximise(evidence, Space.around(typical(kernel, columns)), start=kernel, monitor=monitor)


def _in_features(features: Any, where: slice, belief: Any, mu: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The gradient in the kernel's features of each row for one class; ``where`` is their position in the core."""
    away = features.cross(belief)[:, where] - features.phi[:, where]
    return (b - w * mu)[:, None] * belief.core_mean[where] - w[:, None] * away


def _by_class(values: np.ndarray) -> np.ndarray:
    """The values as an array with one row for each class."""
    return values[None] if values.ndim == 1 else values.T


def _some(rows: LabelledRows, code: int | None) -> LabelledRows:
    """All rows, or, if there are too many, some rows of each group, and, if there are too many groups, some groups."""
    n = len(rows.y)
    if n <= _MOST_ROWS:
        return rows
    rng, codes = np.random.RandomState(0), np.zeros(n, dtype=np.intp)
    if code is not None:
        codes = rows.X[:, code].astype(np.intp)
    n_groups = codes.max() + 1
    order = np.lexsort([rng.permutation(n), codes])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(codes[order])) + 1])
    place = np.arange(n) - np.repeat(starts, np.diff([*starts, n]))  # each row's rank in its group
    few = order[place < max(_ROWS_OF_A_GROUP, _MOST_ROWS // n_groups)]
    turn = rng.permutation(n_groups)[codes[few]]
    chosen = np.sort(few[np.argsort(turn, kind="stable")][:_MOST_ROWS])
    return LabelledRows(*(part[chosen] for part in rows))
