"""Pictures of fitted classifiers, in the manner of scikit-learn's Display objects.

Needs matplotlib: ``pip install "softmargin[cli]"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .metrics import equal_width_bins, outcomes

__all__ = ["DecisionSurfaceDisplay", "ReliabilityDisplay"]

#: The two classes: fill of the surface, and the darker mark of a data point.
_FILLS, _MARKS = ("#3b7fb8", "#e07b39"), ("#174a75", "#96420f")
_PAPER, _UNSURE, _INK = "#fbfaf7", "#cfd0d2", "#2b2b2b"
#: Areas of the data points, and how many of them are too many for the larger one.
_DOTS, _MANY = (24, 15), 300
#: Share of a column's range that the picture shows beyond the data, on each side.
_MARGIN = 0.2
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
    surface_ : the filled contours, also for a colour bar
    handles_ : what a legend needs, for one of your own

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
        ax = _new_axes() if ax is None else ax
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

    def plot(self, ax: Any = None, *, legend: bool = True, levels: int = 10) -> DecisionSurfaceDisplay:
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
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        extent = (self.xx0[0, 0], self.xx0[0, -1], self.xx1[0, 0], self.xx1[-1, 0])
        self._draw_surface(extent, levels)
        self.handles_ = [*self._draw_points(), *self._draw_lines()]
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1], xlim=extent[:2], ylim=extent[2:])
        if legend:
            self.ax_.legend(handles=self.handles_, fontsize="small", framealpha=0.9, edgecolor="none")
        return self

    def _draw_surface(self, extent: tuple[float, ...], levels: int) -> None:
        from matplotlib.colors import LinearSegmentedColormap, to_rgb

        colours = LinearSegmentedColormap.from_list("softmargin", [_FILLS[0], _PAPER, _FILLS[1]])
        steps = np.linspace(0, 1, levels + 1)
        self.surface_ = self.ax_.contourf(
            self.xx0, self.xx1, self.probability, steps, cmap=colours, antialiased=True, zorder=0
        )
        if self.knowledge is not None:
            veil = np.empty((*self.knowledge.shape, 4))
            veil[..., :3], veil[..., 3] = to_rgb(_UNSURE), 1 - self.knowledge
            self.ax_.imshow(veil, extent=extent, origin="lower", aspect="auto", interpolation="bilinear", zorder=0.5)

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
                s=_DOTS[len(self.points) > _MANY],
                marker=marker,
                color=colour,
                edgecolors=_PAPER,
                linewidths=0.5,
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
        outcome, p = outcomes(y_true, proba)
        bins = equal_width_bins(p, n_bins)
        n = np.bincount(bins, minlength=n_bins)
        used = n > 0
        n, total, hits = (part[used] for part in (n, np.bincount(bins, p, n_bins), np.bincount(bins, outcome, n_bins)))
        lower, upper = _wilson(hits / n, n)
        return cls(probability=total / n, frequency=hits / n, lower=lower, upper=upper, name=name).plot(ax=ax)

    def plot(self, ax: Any = None) -> ReliabilityDisplay:
        """Draws the bars on ``ax``, or on a new figure's axes."""
        self.ax_ = _new_axes() if ax is None else ax
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


# Helpers -----------------------------------------------------------------------------------------


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('softmargin.plot needs matplotlib: pip install "softmargin[cli]"') from error
    return pyplot.subplots(layout="constrained")[1]


def _check_model(model: Any) -> None:
    """The model is fitted, knows probabilities, and has two columns and two classes."""
    check_is_fitted(model)
    kind = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"A probability surface needs predict_proba, which {kind} does not have.")
    if model.n_features_in_ != 2:
        raise ValueError(
            f"A surface has two dimensions, but this {kind} was fitted on {model.n_features_in_} columns. "
            f"Fit it on two, for example X[:, [0, 1]]."
        )
    if len(model.classes_) != 2:
        raise ValueError(f"One surface shows two classes, but this {kind} knows {len(model.classes_)}.")


def _two_columns(X: Any, columns: Sequence[int | str]) -> Any:
    """The chosen columns of an array, or of a frame as a frame."""
    if len(columns) != 2:
        raise ValueError(f"columns must be two positions or names, got {columns!r}.")
    if hasattr(X, "columns"):
        return X[[column if isinstance(column, str) else list(X.columns)[column] for column in columns]]
    if any(isinstance(column, str) for column in columns):
        raise ValueError(f"X has no column names: columns must be positions, got {columns!r}.")
    rows: Any = np.asarray(X)
    return rows[:, list(columns)]


def _axis(values: np.ndarray, n: int) -> np.ndarray:
    low, high = values.min(), values.max()
    room = _MARGIN * (high - low) or 1.0
    return np.linspace(low - room, high + room, n)


def _latent(model: Any, rows: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Distance from the boundary in latent standard deviations, and the share of the prior's variance that is gone."""
    if isinstance(model, Pipeline):
        rows, model = (model[:-1].transform(rows) if len(model) > 1 else rows), model[-1]
    if not hasattr(model, "latent_mean_and_variance"):
        return None, None
    mu, v = model.latent_mean_and_variance(rows)
    # The score of a logistic link is zero where s mu + c is: not at mu = 0 when classes are unequal.
    shift = getattr(model.link_, "offset", 0.0) / getattr(model.link_, "slope", 1.0)
    distance = (mu + shift) / np.sqrt(v)
    if not hasattr(model, "kernel_"):  # a linear model's prior grows with the distance from the centre
        return distance, None
    return distance, np.clip(1 - v / model.kernel_.diagonal(np.asarray(rows, dtype=float)), 0, 1)


def _crosses(values: np.ndarray, level: float) -> bool:
    """Whether a contour exists; matplotlib warns when it does not."""
    return bool(values.min() < level < values.max())


def _wilson(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The interval :math:`(p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}) / (1 + z^2/n)`."""
    center = share + _Z**2 / (2 * n)
    half = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    scale = 1 + _Z**2 / n
    return (center - half) / scale, (center + half) / scale
