"""Pictures of fitted classifiers, in the manner of scikit-learn's Display objects.

Needs matplotlib: ``pip install "softmargin[cli]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d

__all__ = ["DecisionSurfaceDisplay", "ReliabilityDisplay"]

#: The two classes: fill of the surface, and the darker mark of a data point.
_FILLS, _MARKS = ("#3b7fb8", "#e07b39"), ("#174a75", "#96420f")
_PAPER, _UNSURE, _INK = "#fbfaf7", "#cfd0d2", "#2b2b2b"
#: Share of a column's range that the picture shows beyond the data, on each side.
_MARGIN = 0.12
#: Normal quantile of a 95 % interval.
_Z = 1.96


class DecisionSurfaceDisplay:
    """The probability surface of a classifier of two columns, and how sure the classifier is of it.

    Colour is the probability of the second class.  It fades to grey where the data say nothing: where the latent
    variance is near that of the prior.  The solid line is where the probability is one half; between the dashed
    lines that boundary is less than one standard deviation of the latent function away.  Classifiers that have no
    latent function are drawn without either.

    Make one with `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : arrays of shape (n_grid, n_grid)
        The grid, as `numpy.meshgrid` makes it.
    probability : array of shape (n_grid, n_grid)
        The probability of ``classes[1]``.
    distance : array of shape (n_grid, n_grid), optional
        The latent mean's distance from the boundary, in latent standard deviations.
    knowledge : array of shape (n_grid, n_grid), optional
        The share of the prior's latent variance that the data have removed.
    points : array of shape (n_rows, 2)
        Rows to draw.
    labels : array of n_rows labels
        Their classes.
    classes : sequence of the two classes
    names : sequence of the names of the two columns

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    surface_ : the image

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.plot import DecisionSurfaceDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> display = DecisionSurfaceDisplay.from_estimator(model, X, y, grid_resolution=50)
    >>> display.probability.shape, display.ax_.get_xlabel()
    ((50, 50), 'column 0')
    """

    def __init__(
        self,
        *,
        xx0: np.ndarray,
        xx1: np.ndarray,
        probability: np.ndarray,
        distance: np.ndarray | None = None,
        knowledge: np.ndarray | None = None,
        points: np.ndarray,
        labels: np.ndarray,
        classes: Sequence[Any],
        names: Sequence[str],
    ) -> None:
        self.xx0, self.xx1 = xx0, xx1
        self.probability, self.distance, self.knowledge = probability, distance, knowledge
        self.points, self.labels = points, labels
        self.classes, self.names = classes, names

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        columns: tuple[int | str, int | str] = (0, 1),
        grid_resolution: int = 200,
        ax: Any = None,
        **options: Any,
    ) -> DecisionSurfaceDisplay:
        """Draws the surface of a fitted classifier of two classes and two columns.

        Parameters
        ----------
        model : classifier with ``predict_proba``, or a pipeline that ends in one
            Fitted on exactly two columns.
        X : array or frame of shape (n_rows, n_columns)
            Rows to draw and to take the limits of the picture from.
        y : sequence of n_rows labels
        columns : two positions or names
            The columns of ``X`` that the model was fitted on, in that order.
        grid_resolution : int
            Points of the grid along each axis.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        DecisionSurfaceDisplay
        """
        _check_model(model)
        X = _two_columns(X, columns)
        points, labels = np.asarray(X, dtype=float), column_or_1d(y)
        xx0, xx1 = np.meshgrid(*(_axis(values, grid_resolution) for values in points.T))
        grid = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = [str(name) for name in X.columns] if hasattr(X, "columns") else [f"column {c}" for c in columns]
        # Frames of pandas and polars are both made from a dict of columns; models remember the names.
        rows = type(X)(dict(zip(X.columns, grid.T, strict=True))) if hasattr(X, "columns") else grid
        distance, knowledge = _latent(model, rows)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            probability=model.predict_proba(rows)[:, 1].reshape(xx0.shape),
            distance=None if distance is None else distance.reshape(xx0.shape),
            knowledge=None if knowledge is None else knowledge.reshape(xx0.shape),
            points=points,
            labels=labels,
            classes=model.classes_,
            names=names,
        )
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, legend: bool = True, levels: int = 20) -> DecisionSurfaceDisplay:
        """Draws the surface, the lines and the points.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default a new figure's.
        legend : bool
            Whether to add a legend of classes and lines.
        levels : int
            Steps of the probability that get a colour of their own.

        Returns
        -------
        DecisionSurfaceDisplay
            Itself.
        """
        pyplot = _pyplot()
        self.ax_ = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        extent = (self.xx0[0, 0], self.xx0[0, -1], self.xx1[0, 0], self.xx1[-1, 0])
        self.surface_ = self.ax_.imshow(
            self._colours(levels), extent=extent, origin="lower", aspect="auto", interpolation="bilinear"
        )
        handles = [*self._draw_lines(), *self._draw_points()]
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1], xlim=extent[:2], ylim=extent[2:])
        if legend:
            self.ax_.legend(handles=handles, fontsize="small", framealpha=0.9, edgecolor="none")
        return self

    def _colours(self, levels: int) -> np.ndarray:
        steps = (np.minimum(np.floor(self.probability * levels), levels - 1) + 0.5) / levels
        colours = colour_map()(steps)
        if self.knowledge is not None:
            from matplotlib.colors import to_rgba

            known = self.knowledge[..., None]
            colours = known * colours + (1 - known) * np.array(to_rgba(_UNSURE))
        return colours

    def _draw_lines(self) -> list[Any]:
        from matplotlib.lines import Line2D

        handles = []
        if _crosses(self.probability, 0.5):
            self.ax_.contour(self.xx0, self.xx1, self.probability, levels=[0.5], colors=_INK, linewidths=1.6)
            handles.append(Line2D([], [], color=_INK, linewidth=1.6, label="probability 0.5"))
        if self.distance is not None and (_crosses(self.distance, -1) or _crosses(self.distance, 1)):
            self.ax_.contour(
                self.xx0, self.xx1, self.distance, levels=[-1, 1], colors=_INK, linewidths=1, linestyles="dashed"
            )
            handles.append(Line2D([], [], color=_INK, linewidth=1, linestyle="--", label="one latent sd away"))
        return handles

    def _draw_points(self) -> list[Any]:
        return [
            self.ax_.scatter(
                *self.points[self.labels == label].T,
                s=18,
                marker=marker,
                color=colour,
                edgecolors=_PAPER,
                linewidths=0.6,
                label=str(label),
                zorder=3,
            )
            for label, marker, colour in zip(self.classes, "os", _MARKS, strict=True)
        ]


class ReliabilityDisplay:
    """How often the second class came true among rows that were given about the same probability.

    Bars are Wilson 95 % intervals of the frequencies; the diagonal is perfect calibration.

    Make one with `from_predictions`.

    Parameters
    ----------
    probability, frequency : arrays of shape (n_bins_in_use,)
        Mean probability and share of the second class in each bin that holds rows.
    lower, upper : arrays of shape (n_bins_in_use,)
        The ends of the intervals.
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_, figure_ : where it was drawn

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from softmargin.plot import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions([0, 0, 0, 1], [0.1, 0.1, 0.3, 0.9], n_bins=2)
    >>> display.frequency, display.upper.round(2)
    (array([0., 1.]), array([0.56, 1.  ]))
    """

    def __init__(
        self, *, probability: np.ndarray, frequency: np.ndarray, lower: np.ndarray, upper: np.ndarray, name: str = ""
    ) -> None:
        self.probability, self.frequency = probability, frequency
        self.lower, self.upper = lower, upper
        self.name = name

    @classmethod
    def from_predictions(
        cls, y_true: Any, proba: Any, *, n_bins: int = 10, name: str = "", ax: Any = None
    ) -> ReliabilityDisplay:
        """Draws the frequencies of the second class against its probabilities.

        Parameters
        ----------
        y_true : sequence of n labels
        proba : array of shape (n,) or (n, 2)
            The probability of the second class, or what ``predict_proba`` returns.
        n_bins : int
            The number of equal-width bins.
        name : str, optional
            For the legend.
        ax : matplotlib axes, optional

        Returns
        -------
        ReliabilityDisplay
        """
        outcome, p = outcomes_and_probabilities(y_true, proba)
        bins = equal_width_bins(p, n_bins)
        n = np.bincount(bins, minlength=n_bins)
        used = n > 0
        n, total, hits = (part[used] for part in (n, np.bincount(bins, p, n_bins), np.bincount(bins, outcome, n_bins)))
        lower, upper = _wilson(hits / n, n)
        return cls(probability=total / n, frequency=hits / n, lower=lower, upper=upper, name=name).plot(ax=ax)

    def plot(self, ax: Any = None) -> ReliabilityDisplay:
        """Draws the bars on ``ax``, or on a new figure's axes."""
        pyplot = _pyplot()
        self.ax_ = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.plot([0, 1], [0, 1], color=_INK, linewidth=0.8, linestyle=":")
        # Rounding may put an end of an interval on the wrong side of its frequency by 1e-17.
        below = np.maximum(self.frequency - self.lower, 0)
        above = np.maximum(self.upper - self.frequency, 0)
        self.ax_.errorbar(
            self.probability, self.frequency, yerr=[below, above], marker="o", capsize=2, label=self.name or None
        )
        self.ax_.set(xlabel="probability given", ylabel="frequency found", xlim=(0, 1), ylim=(0, 1))
        if self.name:
            self.ax_.legend(fontsize="small", edgecolor="none")
        return self
