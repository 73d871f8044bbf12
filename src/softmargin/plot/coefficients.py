"""Linear models: coefficients with intervals, and the probability that each column is included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from ..inside import fitted_inside
from ..parameters import one_of
from .models import class_places, column_names, shortest_list
from .style import FAINT, FILLS, INK, MARKERS, MARKS, label_of, legend, list_axes, listed, plain

UNITS = ("spread", "column")
#: Floor on inclusion probabilities in divisions.
_LEAST = 1e-9
#: Fraction of the height of a row that the bars or dots of all classes take.
_FULL = 0.7


class Effects(NamedTuple):
    """Coefficients and inclusion probabilities of a linear model; a row for each class, or one for two classes."""

    mean: np.ndarray
    std: np.ndarray
    inclusion: np.ndarray | None
    positive: np.ndarray | None
    names: list[str]
    labels: list[Any] | None

    @classmethod
    def of(cls, model: Any, names: Any, label: Any, units: str) -> Effects:
        """The effects of a fitted model, in the units of its columns or of their spread."""
        check_is_fitted(model)
        one_of("units", units, UNITS)
        inside = fitted_inside(model)
        if not hasattr(inside, "coef_std_"):
            raise ValueError(
                f"{type(inside).__name__} has no coefficients with standard deviations; BayesianLinearSVC and "
                f"BayesianMixedSVC do, and for kernels there is RelevanceDisplay."
            )
        places, labels = class_places(inside, label, len(inside.coef_))
        scale = _spread(inside) if units == "spread" else 1.0
        chosen = [getattr(inside, name, None) for name in ("inclusion_probability_", "positive_probability_")]
        inclusion, positive = (None if part is None else np.atleast_2d(part)[places] for part in chosen)
        shown = column_names(model, names, inside.coef_.shape[1])
        return cls(inside.coef_[places] * scale, inside.coef_std_[places] * scale, inclusion, positive, shown, labels)

    def order(self) -> np.ndarray:
        """Columns sorted by inclusion probability, then by the size of their coefficients."""
        size = np.abs(self.mean).max(axis=0)
        included = np.ones_like(size) if self.inclusion is None else self.inclusion.max(axis=0).round(3)
        return np.lexsort([-size, -included])


class CoefficientDisplay:
    """Coefficients of a linear model, with intervals.

    A coefficient is the change in the latent value of the second class, or of each of many, per unit of a column.  In
    units of the columns' spread, the default, coefficients of different columns are comparable.  Markers are filled if
    the interval excludes zero.  With variable selection, a coefficient is zero with some probability, and its interval
    includes that possibility.

    Create it with `from_estimator`.

    Parameters
    ----------
    mean, low, high : arrays of shape (n_sets, n_columns)
        One set of coefficients for two classes, or a set for each.
    names : sequence of n_columns names
    labels : sequence of n_sets classes, optional
    order : array of columns, optional
        Those that are shown, from top to bottom; by default all.
    units : {"spread", "column"}

    Attributes
    ----------
    ax_, figure_ : the axes and the figure
    marks_ : list of the markers of each set

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from softmargin import BayesianLinearSVC
    >>> from softmargin.plot import CoefficientDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> display = CoefficientDisplay.from_estimator(model, top=8)
    >>> display.mean.shape, len(display.ax_.get_yticks())
    ((1, 30), 8)
    """

    def __init__(
        self,
        *,
        mean: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        names: Sequence[str],
        labels: Sequence[Any] | None = None,
        order: np.ndarray | None = None,
        units: str = "spread",
    ) -> None:
        self.mean, self.low, self.high = mean, low, high
        self.names, self.labels, self.units = list(names), labels, units
        self.order = np.arange(mean.shape[1]) if order is None else order

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        level: float = 0.9,
        units: str = "spread",
        label: Any = None,
        names: Sequence[str] | None = None,
        top: int | None = 20,
        ax: Any = None,
        **options: Any,
    ) -> CoefficientDisplay:
        """Plot the coefficients of a fitted linear model.

        Parameters
        ----------
        model : `BayesianLinearSVC`, `BayesianMixedSVC` (its fixed effects), or a pipeline that ends in one
        level : float
            Posterior probability of the intervals.
        units : {"spread", "column"}
            Coefficients per standard deviation of their column, or per unit.
        label : optional
            With more than two classes, the one whose coefficients are shown; by default all.
        names : sequence of names, optional
            Names of the columns; by default those stored in the model.
        top : int or None
            Number of columns to show: those with the largest coefficients or, with variable selection, the highest
            probabilities; None shows all.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        CoefficientDisplay
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        found = Effects.of(model, names, label, units)
        low, high = _interval(found, level)
        order = found.order()[: shortest_list(len(found.names), top)]
        about = {"names": found.names, "labels": found.labels, "order": order, "units": units}
        return cls(mean=found.mean, low=low, high=high, **about).plot(ax=ax, **options)

    def plot(self, ax: Any = None, **marks: Any) -> CoefficientDisplay:
        """Plot markers and intervals.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        **marks
            Passed to `matplotlib.axes.Axes.scatter`.

        Returns
        -------
        CoefficientDisplay
            The display itself.
        """
        at, n_sets = self.order, len(self.mean)
        self.ax_ = ax = list_axes(len(at) * (1 + n_sets / 4)) if ax is None else ax
        self.figure_ = ax.figure
        heights = listed(ax, [self.names[column] for column in at])
        self.marks_ = []
        for place, shift in enumerate(_shifts(n_sets)):
            colour, dark = FILLS[place % len(FILLS)], MARKS[place % len(MARKS)]
            low, high, y = self.low[place, at], self.high[place, at], heights + shift
            ax.hlines(y, low, high, color=colour, linewidth=2.2, alpha=0.75)
            sure = (low > 0) | (high < 0)
            style = {
                "s": 26,
                "marker": MARKERS[place % len(MARKERS)],
                "edgecolors": dark,
                "linewidths": 1.1,
                "zorder": 3,
            }
            name = {} if self.labels is None else {"label": label_of(self.labels[place])}
            faces = [dark if one else "white" for one in sure]
            self.marks_.append(ax.scatter(self.mean[place, at], y, **({"c": faces} | style | name | marks)))
        ax.set_xlabel("coefficient per standard deviation of the column" if self.units == "spread" else "coefficient")
        legend(ax)
        return self


class InclusionDisplay:
    """Probability that the coefficient of each column is not zero, for models with variable selection.

    Bars are inclusion probabilities.  Their colour is the sign of the coefficient, given that it is not zero: the
    second colour if it is positive with certainty, the first if negative, and pale if uncertain.
    Columns beyond the line have a probability above one half.

    Create it with `from_estimator`.

    Parameters
    ----------
    probability : array of shape (n_sets, n_columns)
        One set for two classes, or a set for each.
    positive : array of shape (n_sets, n_columns)
        Probability that the coefficient is positive, given that it is not zero.
    names : sequence of n_columns names
    labels : sequence of n_sets classes, optional
    order : array of columns, optional
        Those that are shown, from top to bottom; by default all.

    Attributes
    ----------
    ax_, figure_ : the axes and the figure
    bars_ : list of the bars of each set

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from softmargin import BayesianLinearSVC
    >>> from softmargin.plot import InclusionDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 10))
    >>> y = X[:, 0] - X[:, 1] + rng.logistic(size=300) > 0
    >>> model = BayesianLinearSVC(prior="laplace-zero", rho=0.1).fit(X, y)
    >>> display = InclusionDisplay.from_estimator(model, top=5)
    >>> sorted(display.names[column] for column in display.order[:2]), display.probability.round(1)[0, :3]
    (['x0', 'x1'], array([1., 1., 0.]))
    """

    def __init__(
        self,
        *,
        probability: np.ndarray,
        positive: np.ndarray,
        names: Sequence[str],
        labels: Sequence[Any] | None = None,
        order: np.ndarray | None = None,
    ) -> None:
        self.probability, self.positive = probability, positive
        self.names, self.labels = list(names), labels
        self.order = np.arange(probability.shape[1]) if order is None else order

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        label: Any = None,
        names: Sequence[str] | None = None,
        top: int | None = 20,
        ax: Any = None,
        **options: Any,
    ) -> InclusionDisplay:
        """Plot the inclusion probabilities of a fitted linear model with variable selection.

        Parameters
        ----------
        model : `BayesianLinearSVC` or `BayesianMixedSVC` with ``prior="laplace-zero"``, or a pipeline that ends in one
        label, names, ax
            As in `CoefficientDisplay.from_estimator`.
        top : int or None
            Number of columns to show, the most probable ones; None shows all.  The order is that of
            `CoefficientDisplay`, so that both can be placed side by side.
        **options
            Passed to `plot`.

        Returns
        -------
        InclusionDisplay
        """
        found = Effects.of(model, names, label, "column" if not _knows_spread(model) else "spread")
        if found.inclusion is None or found.positive is None:
            raise ValueError(
                f"This {type(fitted_inside(model)).__name__} selects no variables: fit it with prior='laplace-zero', "
                f"or show its coefficients with CoefficientDisplay."
            )
        order = found.order()[: shortest_list(len(found.names), top)]
        about = {"names": found.names, "labels": found.labels, "order": order}
        return cls(probability=found.inclusion, positive=found.positive, **about).plot(ax=ax, **options)

    def plot(self, ax: Any = None, **bars: Any) -> InclusionDisplay:
        """Plot the bars.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        **bars
            Passed to `matplotlib.axes.Axes.barh`.

        Returns
        -------
        InclusionDisplay
            The display itself.
        """
        at, n_sets = self.order, len(self.probability)
        self.ax_ = ax = list_axes(len(at) * (1 + n_sets / 4)) if ax is None else ax
        self.figure_ = ax.figure
        heights = listed(ax, [self.names[column] for column in at], zero=False)
        ax.axvline(0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        self.bars_ = [
            ax.barh(heights + shift, self.probability[place, at], **(self._colours(place) | bars))
            for place, shift in enumerate(_shifts(n_sets))
        ]
        if self.labels is not None and n_sets > 1:
            self._name_classes(heights)
        ax.set(xlabel="inclusion probability", xlim=(0, 1))
        legend(ax, handles=_sign_handles())
        return self

    def _colours(self, place: int) -> dict[str, Any]:
        from matplotlib.colors import LinearSegmentedColormap

        signs = LinearSegmentedColormap.from_list("signs", [FILLS[0], "white", FILLS[1]])
        n_sets = len(self.probability)
        edge = {"edgecolor": INK, "linewidth": 0.5, "height": _FULL / n_sets * (0.95 if n_sets > 1 else 0.9)}
        return {"color": signs(self.positive[place, self.order])} | edge

    def _name_classes(self, heights: np.ndarray) -> None:
        """Names the classes beside the bars of the first column, since colours stand for signs."""
        assert self.labels is not None
        for label, shift in zip(self.labels, _shifts(len(self.labels)), strict=True):
            style: dict[str, Any] = {"fontsize": "x-small", "va": "center", "color": FAINT, "clip_on": False}
            self.ax_.text(1.01, heights[0] + shift, plain(label), **style)


# Helpers -----------------------------------------------------------------------------------------


def _spread(inside: Any) -> np.ndarray:
    """The spread of the columns in the fit."""
    if not inside.standardize:
        raise ValueError(
            "This model, fitted with standardize=False, does not know the spread of its columns: use units='column'."
        )
    return np.asarray(inside._columns.scale)


def _knows_spread(model: Any) -> bool:
    return bool(getattr(fitted_inside(model), "standardize", False))


def _interval(found: Effects, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The central interval in which a coefficient lies with probability ``level``."""
    tails = (1 - level) / 2, (1 + level) / 2
    if found.inclusion is None:
        low, high = (found.mean + ndtri(tail) * found.std for tail in tails)
        return low, high
    # A coefficient is gamma v, with v of mean m and variance s^2 where gamma = 1, which has probability w:
    # its mean is w m, and its second moment w (s^2 + m^2).
    w = np.maximum(found.inclusion, _LEAST)
    m = found.mean / w
    s = np.sqrt(np.maximum((found.std**2 + found.mean**2) / w - m**2, 0))
    low, high = (_quantile(tail, w, m, s) for tail in tails)
    return low, high


def _quantile(tail: float, w: np.ndarray, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The quantile of a coefficient that is zero with probability ``1 - w``, and otherwise Gaussian."""
    with np.errstate(divide="ignore", invalid="ignore"):
        below = w * np.where(s > 0, ndtr(-m / s), m < 0)
    if_low, if_high = np.clip(tail / w, 0, 1), np.clip((tail - (1 - w)) / w, 0, 1)
    negative, positive = tail < below, tail > below + (1 - w)
    share = np.where(negative, if_low, np.where(positive, if_high, 0.5))
    return np.where(negative | positive, m + s * ndtri(share), 0.0)


def _shifts(n_sets: int) -> np.ndarray:
    """The vertical offset of each of several sets within a row, the first on top."""
    return _FULL / n_sets * ((n_sets - 1) / 2 - np.arange(n_sets))


def _sign_handles() -> list[Any]:
    from matplotlib.patches import Patch

    colours = zip((FILLS[1], FILLS[0], "white"), ("positive", "negative", "sign open"), strict=True)
    return [Patch(facecolor=colour, edgecolor=INK, linewidth=0.5, label=word) for colour, word in colours]
