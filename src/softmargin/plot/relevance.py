"""Relevance of columns to a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..chunks import dense
from ..inside import fitted_inside, seen_inside
from ..parameters import share
from .models import column_names, shortest_list
from .style import FILLS, MARKS, list_axes, listed


class RelevanceDisplay:
    r"""Relevance of each column to a kernel: :math:`\text{spread}_c / \ell_c`.

    A column whose length-scale :math:`\ell_c` is many times its spread hardly changes the kernel: all rows look alike
    in it.  The spread is one standard deviation, so that relevance does not depend on units: at 1 the function may
    change direction about once over the range of the rows, and near 0 it is constant in that column.  Relevance does
    not show how the function depends on a column, and of two equivalent columns the kernel may use either.

    Particles of `BayesianKernelMachine` have their own length-scales: bars are then medians, with intervals.

    Create it with `from_estimator`.

    Parameters
    ----------
    relevance : array of shape (n_columns,)
    low, high : arrays of shape (n_columns,), optional
        The ends of intervals.
    names : sequence of n_columns names
    top : int, optional
        Number of columns to show; all by default.

    Attributes
    ----------
    order : array of the columns shown, the most relevant first
    ax_, figure_ : the axes and the figure
    bars_ : the bars, the most relevant first

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softmargin import BayesianSVC
    >>> from softmargin.plot import RelevanceDisplay
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> model = BayesianSVC(random_state=0).fit(X, X[:, 1] * X[:, 3] > 0)
    >>> display = RelevanceDisplay.from_estimator(model, X)
    >>> sorted(display.names[column] for column in display.order[:2])
    ['x1', 'x3']
    """

    def __init__(
        self,
        *,
        relevance: np.ndarray,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
        names: Sequence[str],
        top: int | None = None,
    ) -> None:
        self.relevance, self.low, self.high, self.names = relevance, low, high, list(names)
        # A stable sort keeps ties in the order of the table.
        self.order = np.argsort(-relevance, kind="stable")[: shortest_list(len(relevance), top)]

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        names: Sequence[str] | None = None,
        top: int | None = 20,
        level: float = 0.9,
        ax: Any = None,
        **options: Any,
    ) -> RelevanceDisplay:
        """Plot the relevance of the columns of a fitted classifier with a kernel.

        Parameters
        ----------
        model : `BayesianSVC`, `BayesianGPC`, `BayesianKernelMachine`, or a pipeline that ends in one
            For sums or products of kernels, the shortest length-scale of each column is used.
        X : rows, as accepted by the model
            To compute the spread of each column: the training rows, or similar ones.
        names : sequence of names, optional
            Names of the columns that the classifier receives; by default those stored in it.
        top : int or None
            Number of columns to show, the most relevant ones; None shows all.
        level : float
            Level of the intervals over particles.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        RelevanceDisplay
        """
        check_is_fitted(model)
        share("level", level)
        inside = fitted_inside(model)
        spread = np.nanstd(dense(_numbers(seen_inside(model, X))).astype(float), axis=0)
        every = spread / _length_scales(inside, len(spread))
        low = high = None
        if len(every) > 1:
            low, high = np.quantile(every, [(1 - level) / 2, (1 + level) / 2], axis=0)
        names = column_names(model, names, len(spread))
        display = cls(relevance=np.median(every, axis=0), low=low, high=high, names=names, top=top)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, **bars: Any) -> RelevanceDisplay:
        """Plot the bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        **bars
            Passed to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        RelevanceDisplay
            The display itself.
        """
        at = self.order
        self.ax_ = ax = list_axes(len(at)) if ax is None else ax
        self.figure_ = ax.figure
        heights = listed(ax, [self.names[column] for column in at], zero=False)
        self.bars_ = ax.barh(heights, self.relevance[at], **({"height": 0.62, "color": FILLS[0]} | bars))
        if self.low is not None and self.high is not None:
            ax.hlines(heights, self.low[at], self.high[at], color=MARKS[0], linewidth=1.8)
        ax.set(xlabel="relevance: spread of the column / length-scale", xlim=(0, None))
        return self


def _numbers(rows: Any) -> Any:
    """Rows as an array; sparse matrices unchanged."""
    return rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows) if isinstance(rows, list) else rows


def _length_scales(inside: Any, n_columns: int) -> np.ndarray:
    """The shortest length-scale of each column, for each particle or for the single kernel."""
    kind, kernel = type(inside).__name__, getattr(inside, "kernel_", None)
    if kernel is None:
        raise ValueError(
            f"{kind} has no kernel with length-scales to show; for linear models there is CoefficientDisplay."
        )
    particles = getattr(inside, "particles_", None)
    theta = kernel.theta[None] if particles is None else np.asarray(particles.theta, dtype=float)
    groups, start = [], 0
    for role, size in kernel.roles:
        if role == "length_scale":
            own = np.exp(theta[:, start : start + size])
            groups.append(np.broadcast_to(own, (len(theta), n_columns)))
        start += size
    if not groups:
        raise ValueError(f"The kernel {kernel} has no length-scales: use RBF or Matern.")
    return np.min(groups, axis=0)
