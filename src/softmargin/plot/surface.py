"""The probability surface of a classifier, with its uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from ..inside import fitted_inside, seen_inside
from .slices import Slice
from .style import FILLS, INK, MARKERS, MARKS, PAPER, UNSURE, label_of, new_axes, plain
from .style import legend as draw_legend

#: Marker areas of data points, and the number of points from which the smaller one is used.
_DOTS, _MANY = (24, 15), 300
#: The largest number of fixed columns that are named in the title of the legend.
_NAMED = 3


class DecisionSurfaceDisplay:
    """Predicted probabilities over two columns, with their uncertainty.

    Colour is the most probable class.  It fades where another class is about as probable, and turns grey where the data
    are uninformative: where the latent variance is close to that of the prior.  The solid line is where two classes are
    equally probable; between the dashed lines, this boundary is less than one standard deviation of the latent function
    away.  Classifiers without a latent function are drawn without grey and without dashed lines.

    Create it with `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : arrays of shape (n_grid, n_grid)
        The grid, as returned by `numpy.meshgrid`.
    probability : array of shape (n_grid, n_grid), or (n_grid, n_grid, n_classes)
        The probability of ``classes[1]``; with more than two classes, of each.
    distance : array of shape (n_grid, n_grid), optional
        The distance of the latent mean from the boundary, in latent standard deviations; with more than two classes,
        that of the most probable class from the second.
    knowledge : array of shape (n_grid, n_grid), optional
        The share of the prior's latent variance that the data have removed; with more than two classes, its mean.
    points : array of shape (n_rows, 2)
        Rows to plot.
    labels : array of n_rows labels
        Their classes.
    classes : sequence of the classes
    names : sequence of the names of the two columns
    held : dict from names of other columns to values, optional
        The values at which other columns are fixed.

    Attributes
    ----------
    ax_, figure_ : the axes and the figure
    surface_ : the filled contours, also for a colour bar; with more than two classes, a list of those of each
    handles_ : handles for your own legend

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris, make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.plot import DecisionSurfaceDisplay
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> display = DecisionSurfaceDisplay.from_estimator(model, X, y, grid_resolution=50)
    >>> display.probability.shape, display.ax_.get_xlabel()
    ((50, 50), 'x0')

    Three classes and four columns, two of them held:

    >>> flowers, species = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianSVC(random_state=0).fit(flowers, species)
    >>> display = DecisionSurfaceDisplay.from_estimator(
    ...     model, flowers, species, columns=("petal length (cm)", "petal width (cm)"), grid_resolution=30
    ... )
    >>> display.probability.shape, display.held
    ((30, 30, 3), {'sepal length (cm)': 5.8, 'sepal width (cm)': 3.0})
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
        held: Mapping[str, Any] | None = None,
    ) -> None:
        self.xx0, self.xx1 = xx0, xx1
        self.probability, self.distance, self.knowledge = probability, distance, knowledge
        self.points, self.labels = points, labels
        self.classes, self.names = classes, names
        self.held = dict(held or {})

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        columns: Sequence[int | str] = (0, 1),
        at: Mapping[Any, Any] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
        **options: Any,
    ) -> DecisionSurfaceDisplay:
        """Plot the surface of a fitted classifier.

        Parameters
        ----------
        model : classifier with ``predict_proba``, or a pipeline that ends in one, or a `TableClassifier`
        X : array or frame of shape (n_rows, n_columns)
            Rows to plot, which also determine the limits of the axes: with all columns of the fit, and others too if
            these have names or are not among the ``columns`` of a model of two.
        y : sequence of n_rows labels
        columns : two positions or names
            The columns on the axes, which must be numeric.
        at : dict from positions or names to values, optional
            Values of the other columns.  By default medians, and the most frequent value of strings.
        grid_resolution : int
            Number of grid points along each axis.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        DecisionSurfaceDisplay
        """
        _check_model(model)
        part, labels = Slice.of(model, X, columns, at), column_or_1d(y)
        check_consistent_length(part.points, labels)
        ax = new_axes() if ax is None else ax
        xx0, xx1 = np.meshgrid(*part.axes(grid_resolution))
        rows = part.rows(np.column_stack([xx0.ravel(), xx1.ravel()]))
        proba = np.asarray(model.predict_proba(rows))
        distance, knowledge = _latent(model, rows, proba)
        shape = xx0.shape if proba.shape[1] == 2 else (*xx0.shape, proba.shape[1])
        display = cls(
            xx0=xx0,
            xx1=xx1,
            probability=(proba[:, 1] if proba.shape[1] == 2 else proba).reshape(shape),
            distance=None if distance is None else distance.reshape(xx0.shape),
            knowledge=None if knowledge is None else knowledge.reshape(xx0.shape),
            points=part.points,
            labels=labels,
            classes=model.classes_,
            names=[part.names[place] for place in part.places],
            held={part.names[place]: value for place, value in part.held.items()},
        )
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, legend: bool = True, levels: int = 10) -> DecisionSurfaceDisplay:
        """Plot the surface, the lines and the points.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        legend : bool
            Whether to add a legend of classes and lines.
        levels : int
            Number of colour levels for the probability.

        Returns
        -------
        DecisionSurfaceDisplay
            The display itself.
        """
        self.ax_ = new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.set_facecolor(PAPER)
        self._draw_surface(levels)
        self.handles_ = [*self._draw_points(), *self._draw_lines()]
        names = [plain(name) for name in self.names]
        limits = {"xlim": self.xx0[0, [0, -1]], "ylim": self.xx1[[0, -1], 0]}
        self.ax_.set(xlabel=names[0], ylabel=names[1], **limits)
        if legend:
            draw_legend(self.ax_, handles=self.handles_, title=self._title(), title_fontsize="small", alignment="left")
        return self

    def _title(self) -> str | None:
        """The title of the legend: the values of fixed columns."""
        if not self.held:
            return None
        if len(self.held) > _NAMED:
            return f"{len(self.held)} other columns fixed"
        return "\n".join(f"{plain(name)} = {_short(value)}" for name, value in self.held.items())

    @property
    def _margins(self) -> np.ndarray:
        """By how much each class is more probable than its strongest rival; the last axis is for classes."""
        p = self.probability
        if p.ndim == 2:
            p = np.stack([1 - p, p], axis=-1)
        ordered = np.sort(p, axis=-1)
        rival = np.where(p == ordered[..., -1:], ordered[..., -2:-1], ordered[..., -1:])
        return p - rival

    def _draw_surface(self, levels: int) -> None:
        from matplotlib.colors import LinearSegmentedColormap, to_rgb

        grid, options = (self.xx0, self.xx1), {"antialiased": True, "zorder": 0}
        if self.probability.ndim == 2:
            colours = LinearSegmentedColormap.from_list("softmargin", [FILLS[0], PAPER, FILLS[1]])
            steps = np.linspace(0, 1, levels + 1)
            self.surface_: Any = self.ax_.contourf(*grid, self.probability, steps, cmap=colours, **options)
        else:
            steps, margins = np.linspace(0, 1, max(levels // 2, 1) + 1), self._margins
            self.surface_ = [
                self.ax_.contourf(
                    *grid,
                    margins[..., place],
                    steps,
                    cmap=LinearSegmentedColormap.from_list("", [PAPER, fill]),
                    **options,
                )
                for place, fill in enumerate(FILLS[: len(self.classes)])
                if _crosses(margins[..., place], 0) or (margins[..., place] > 0).all()
            ]
        if self.knowledge is not None:
            veil = np.empty((*self.knowledge.shape, 4))
            veil[..., :3], veil[..., 3] = to_rgb(UNSURE), 1 - self.knowledge
            extent = (*self.xx0[0, [0, -1]], *self.xx1[[0, -1], 0])
            self.ax_.imshow(veil, extent=extent, origin="lower", aspect="auto", interpolation="bilinear", zorder=0.5)

    def _draw_lines(self) -> list[Any]:
        from matplotlib.lines import Line2D

        handles, margins = [], self._margins
        # The boundary of two classes is drawn once; with more, there is one for each class except the last.
        borders = [place for place in range(len(self.classes) - 1) if _crosses(margins[..., place], 0)]
        word = "probability 0.5" if len(self.classes) == 2 else "equal probability"
        for place in borders:
            self.ax_.contour(self.xx0, self.xx1, margins[..., place], levels=[0], colors=INK, linewidths=1.6)
        if borders:
            handles.append(Line2D([], [], color=INK, linewidth=1.6, label=word))
        if self.distance is not None:
            levels = [level for level in (-1, 1) if _crosses(self.distance, level)]
            if levels:
                style: dict[str, Any] = {"colors": INK, "linewidths": 1, "linestyles": "dashed"}
                self.ax_.contour(self.xx0, self.xx1, self.distance, levels=levels, **style)
                handles.append(Line2D([], [], color=INK, linewidth=1, linestyle="--", label="one latent SD away"))
        return handles

    def _draw_points(self) -> list[Any]:
        return [
            self.ax_.scatter(
                *self.points[self.labels == label].T,
                s=_DOTS[len(self.points) > _MANY],
                marker=marker,
                color=colour,
                edgecolors=PAPER,
                linewidths=0.5,
                label=label_of(label),
                zorder=3,
            )
            for label, marker, colour in zip(self.classes, MARKERS, MARKS, strict=False)
        ]


# Helpers -----------------------------------------------------------------------------------------


def _check_model(model: Any) -> None:
    """Checks that the model is fitted, has probabilities, and has no more classes than there are colours."""
    check_is_fitted(model)
    kind = type(model).__name__
    if not hasattr(model, "predict_proba"):
        raise ValueError(f"A probability surface needs predict_proba, which {kind} does not have.")
    if len(model.classes_) > len(FILLS):
        raise ValueError(
            f"At most {len(FILLS)} classes can be told apart by colour, but this {kind} has {len(model.classes_)}."
        )


def _latent(model: Any, rows: Any, proba: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Distance from the boundary in latent standard deviations, and the proportion of prior variance explained."""
    inside, rows = fitted_inside(model), seen_inside(model, rows)
    if not hasattr(inside, "latent_mean_and_variance"):
        return None, None
    mu, v = inside.latent_mean_and_variance(rows)
    # The score is zero where s mu + c = 0, which is not at mu = 0 when the link has an offset.
    mu = mu + getattr(inside.link_, "offset", 0.0) / getattr(inside.link_, "slope", 1.0)
    if mu.ndim == 1:
        distance = mu / np.sqrt(v)
    else:
        first, second = np.argsort(proba, axis=1)[:, :-3:-1].T
        at = np.arange(len(mu))
        distance = (mu[at, first] - mu[at, second]) / np.sqrt(v[at, first] + v[at, second])
    # Under linear terms, with or without a kernel, the prior variance grows with the distance from the centre.
    if not hasattr(inside, "kernel_") or hasattr(inside, "coef_"):
        return distance, None
    left = v / inside.kernel_.diagonal(np.asarray(rows, dtype=float)).reshape(-1, *[1] * (v.ndim - 1))
    left = left if left.ndim == 1 else left.mean(axis=1)
    return distance, np.clip(1 - left, 0, 1)


def _crosses(values: np.ndarray, level: float) -> bool:
    """Whether a contour exists; otherwise matplotlib would warn."""
    return bool(values.min() < level < values.max())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else plain(value)
