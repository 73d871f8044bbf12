"""Calibration: whether predicted probabilities match observed frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..metrics import ReliabilityCurve, reliability_curve
from .style import FAINT, INK, label_of, legend, new_axes, next_look, once, open_frame, plain

#: Ids of what several curves on the same axes share: the diagonal, and the axes of the histogram.
_DIAGONAL, _COUNTS = "softmargin-diagonal", "softmargin-counts"
#: Position of the histogram, in coordinates of the main axes.
_ABOVE = (0.0, 1.03, 1.0, 0.16)
#: The smallest width of a bar.
_THINNEST = 0.004


class ReliabilityDisplay:
    """Reliability curve: observed frequency of a class against its predicted probability.

    The band shows the Wilson intervals of the frequencies, bin by bin; the diagonal is perfect calibration, and is
    outside the band in about one bin of twenty even for perfect probabilities.  A histogram above shows the number of
    rows in each bin.

    Create it with `from_estimator` or `from_predictions`; with ``ax=display.ax_`` a second one is added to the same
    axes.

    Parameters
    ----------
    curve : ReliabilityCurve
        The result of `softmargin.metrics.reliability_curve`.
    name : str, optional
        Label of the model in the legend.
    label : optional
        The class, for the axis label.

    Attributes
    ----------
    probability, frequency, lower, upper, weight : arrays of shape (n_bins_in_use,)
        The numbers of the curve.
    ax_, figure_ : the axes and the figure
    counts_ax_ : the axes of the histogram, or None
    line_, band_ : the curve, and its intervals

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from softmargin.plot import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([0, 0, 0, 1], [0.1, 0.1, 0.3, 0.9], n_bins=2)
    >>> display.frequency, display.upper.round(2), display.weight
    (array([0., 1.]), array([0.56, 1.  ]), array([3., 1.]))

    Two models on the same axes:

    >>> from sklearn.datasets import load_breast_cancer
    >>> from softmargin import BayesianLinearSVC, BayesianSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ax = None
    >>> for model in (BayesianSVC(random_state=0), BayesianLinearSVC()):
    ...     display = ReliabilityDisplay.from_estimator(model.fit(X[:300], y[:300]), X[300:], y[300:], ax=ax)
    ...     ax = display.ax_
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['BayesianSVC', 'BayesianLinearSVC']
    """

    def __init__(self, *, curve: ReliabilityCurve, name: str | None = None, label: Any = None) -> None:
        self.curve, self.name, self.label = curve, name, label
        self.probability, self.frequency = curve.probability, curve.frequency
        self.lower, self.upper, self.weight = curve.low, curve.high, curve.weight

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        pos_label: Any = None,
        name: str | None = None,
        ax: Any = None,
        n_bins: int = 10,
        strategy: str = "uniform",
        level: float = 0.95,
        sample_weight: Any = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Plot the curve of a fitted classifier on rows that it was not trained on.

        Parameters
        ----------
        model : classifier with ``predict_proba``
        X : rows, as accepted by the model
        y : sequence of n labels
        pos_label : label, optional
            The class; by default the second of two.  With more than two it is required, and compared with all others.
        name : str, optional
            Label in the legend; by default the type of the model.
        ax : matplotlib axes, optional
        n_bins, strategy, level, sample_weight
            As in `softmargin.metrics.reliability_curve`.
        **options
            Passed to `plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        check_is_fitted(model)
        kind = type(model).__name__
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"A reliability curve needs predict_proba, which {kind} does not have.")
        classes = np.asarray(model.classes_).tolist()
        if pos_label is None and len(classes) > 2:
            raise ValueError(f"This {kind} has {len(classes)} classes; choose one with pos_label=, one of {classes}.")
        label = classes[1] if pos_label is None else pos_label
        if label not in classes:
            raise ValueError(f"pos_label={label!r} is not one of the classes {classes}.")
        proba = np.asarray(model.predict_proba(X))[:, classes.index(label)]
        binned = {"n_bins": n_bins, "strategy": strategy, "level": level, "sample_weight": sample_weight}
        curve = reliability_curve(y, proba, pos_label=label, **binned)
        return cls(curve=curve, name=kind if name is None else name, label=label).plot(ax=ax, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        proba: Any,
        *,
        pos_label: Any = None,
        classes: Any = None,
        name: str | None = None,
        ax: Any = None,
        n_bins: int = 10,
        strategy: str = "uniform",
        level: float = 0.95,
        sample_weight: Any = None,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Plot the curve from labels and predicted probabilities.

        Parameters
        ----------
        y_true : sequence of n labels
        proba : array of shape (n,), (n, 2) or (n, n_classes)
            The probability of the class, or the output of ``predict_proba``.
        pos_label, classes, n_bins, strategy, level, sample_weight
            As in `softmargin.metrics.reliability_curve`.
        name : str, optional
            Label in the legend.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        ReliabilityDisplay
        """
        binned = {"n_bins": n_bins, "strategy": strategy, "level": level, "sample_weight": sample_weight}
        curve = reliability_curve(y_true, proba, pos_label=pos_label, classes=classes, **binned)
        return cls(curve=curve, name=name, label=pos_label).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, counts: bool = True, **line: Any) -> ReliabilityDisplay:
        """Plot the curve with its band, and the histogram of the rows.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        counts : bool
            Whether to add the histogram above the axes.
        **line
            Passed to `matplotlib.axes.Axes.plot` for the curve; a ``color`` applies to everything.

        Returns
        -------
        ReliabilityDisplay
            The display itself.
        """
        self.ax_ = ax = new_axes(figsize=(4.8, 5.6)) if ax is None else ax
        self.figure_ = ax.figure
        once(ax, _DIAGONAL, lambda: ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, zorder=1)[0])
        style = next_look(ax) | {"markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.6, "clip_on": False}
        name = {} if self.name is None else {"label": label_of(self.name)}
        (self.line_,) = ax.plot(self.probability, self.frequency, **(style | name | line))
        colour = self.line_.get_color()
        self.band_ = ax.fill_between(
            self.probability, self.lower, self.upper, color=colour, alpha=0.18, linewidth=0, zorder=0.9
        )
        # A band over a single bin has no width, so whiskers show its interval.
        ax.vlines(self.probability, self.lower, self.upper, color=colour, linewidth=0.8, alpha=0.5)
        of = "" if self.label is None else f" of {plain(self.label)}"
        ax.set(xlabel=f"predicted probability{of}", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
        ax.set_box_aspect(1)
        open_frame(ax)
        self.counts_ax_ = self._draw_counts(colour) if counts else None
        legend(ax, loc="upper left")
        return self

    def _draw_counts(self, colour: Any) -> Any:
        """Draws the histogram as outlines, so that several models can overlap."""
        above = next((child for child in self.ax_.child_axes if child.get_gid() == _COUNTS), None)
        if above is None:
            above = self.ax_.inset_axes(_ABOVE, sharex=self.ax_)
            above.set_gid(_COUNTS)
            above.spines[["top", "right", "left"]].set_visible(False)
            above.tick_params(axis="x", labelbottom=False, length=0)
            above.tick_params(axis="y", labelsize="x-small", colors=FAINT, length=0)
            above.set_ylabel("rows", fontsize="small")
        # Bins with a single value have no width, and are drawn as thin bars.
        width = np.maximum(self.curve.right - self.curve.left, _THINNEST)
        # If bins differ in width, areas stand for rows; heights would mislead.
        uneven = np.ptp(width) > 1e-9
        heights = self.weight / width if uneven else self.weight
        if uneven:
            above.set_yticks([])
        outline = {"color": colour, "alpha": 0.35, "edgecolor": colour, "linewidth": 0.8}
        above.bar(self.curve.left, heights, width, align="edge", **outline)
        above.set_ylim(0, max(patch.get_height() for patch in above.patches) * 1.05)
        return above
