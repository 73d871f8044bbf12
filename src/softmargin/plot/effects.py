"""Random effects of a mixed model, with groups sorted by their effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..inside import fitted_inside
from .style import FAINT, FILLS, INK, MARKS, UNSURE, new_axes, plain

#: With more groups than this, their names are not shown.
_NAMED = 60


class Panel(NamedTuple):
    """One effect of the groups of one factor, sorted by mean."""

    factor: str
    effect: str
    label: Any
    groups: list[Any]
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def title(self) -> str:
        """The title of the panel."""
        of = "" if self.label is None else f", {self.label}"
        return f"{self.effect} by {self.factor}{of}"

    def ends(self, n_shown: int | None) -> tuple[np.ndarray, int]:
        """Indices of the groups to show, the lowest and the highest, and the number of low ones before the gap."""
        n = len(self.groups)
        if n_shown is None or n <= n_shown:
            return np.arange(n), n
        low = n_shown // 2
        return np.concatenate([np.arange(low), np.arange(n - (n_shown - low), n)]), low


class RandomEffectsDisplay:
    """Random effects of a mixed model, with intervals: a caterpillar plot for each effect of each factor.

    Groups are sorted by their means.  Those whose interval excludes zero are coloured by sign; the others are grey
    with open markers.  If there are many groups, the lowest and the highest are shown, with a gap between them.

    Create it with `from_estimator`, or with `from_frame` from the result of ``random_effects()``.

    Parameters
    ----------
    panels : sequence of `Panel`
    level : float, optional
        Level of the intervals, for the axis label.

    Attributes
    ----------
    axes_ : array of the axes of the panels
    ax_, figure_ : the first of these axes, and the figure
    marks_ : list of the markers of each panel

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np, pandas as pd
    >>> from softmargin import BayesianMixedSVC
    >>> from softmargin.plot import RandomEffectsDisplay
    >>> rng = np.random.default_rng(0)
    >>> visits = pd.DataFrame({"patient": np.repeat(np.arange(30), 10), "month": np.tile(np.arange(10.0), 30)})
    >>> frailty = 2 * rng.normal(size=30)[visits["patient"]]
    >>> visits["ill"] = frailty - 0.3 * visits["month"] + rng.logistic(size=300) > 0
    >>> model = BayesianMixedSVC("ill ~ month + (1 | patient)").fit(visits)
    >>> display = RandomEffectsDisplay.from_estimator(model)
    >>> display.panels[0].title, len(display.panels[0].groups), bool(np.all(np.diff(display.panels[0].mean) >= 0))
    ('Intercept by patient', 30, True)
    """

    def __init__(self, *, panels: Sequence[Panel], level: float | None = None) -> None:
        self.panels, self.level = list(panels), level

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        level: float = 0.9,
        factor: str | None = None,
        label: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> RandomEffectsDisplay:
        """Plot the random effects of a fitted `BayesianMixedSVC`.

        Parameters
        ----------
        model : `BayesianMixedSVC`, or a pipeline or `TableClassifier` that contains one
        level : float
            Level of the intervals.
        factor : str, optional
            The grouping factor; by default all, with a panel for each of their effects.
        label : optional
            The class, if there are more than two; by default all, with a panel for each.
        ax : matplotlib axes, or a sequence of them, optional
            As many as there are panels.
        **options
            Passed to `plot`.

        Returns
        -------
        RandomEffectsDisplay
        """
        check_is_fitted(model)
        inside = fitted_inside(model)
        if not hasattr(inside, "random_effects"):
            raise ValueError(f"{type(inside).__name__} has no random effects; BayesianMixedSVC does.")
        frame = inside.random_effects(level)
        return cls.from_frame(frame, level=level, factor=factor, label=label, ax=ax, **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        level: float | None = None,
        factor: str | None = None,
        label: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> RandomEffectsDisplay:
        """Plot the result of ``random_effects()``.

        Parameters
        ----------
        frame : DataFrame
            With columns ``factor``, ``group``, ``effect``, ``mean``, ``low``, ``high``, and ``class`` if there are
            more than two.
        level : float, optional
            Level of its intervals, for the axis label.
        factor, label, ax, **options
            As in `from_estimator`.

        Returns
        -------
        RandomEffectsDisplay
        """
        if not len(frame):
            raise ValueError("There are no random effects: the model has no grouping factor. Give one in groups=.")
        frame = _of(frame, "factor", factor)
        frame = _of(frame, "class", label)
        keys = ["factor", "effect"] + ["class"] * ("class" in frame.columns)
        panels = [_panel(one) for _, one in frame.groupby(keys, sort=False, observed=True)]
        return cls(panels=panels, level=level).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, n_shown: int | None = 40) -> RandomEffectsDisplay:
        """Plot the panels.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence of them, optional
            As many as there are panels; by default those of a new figure, side by side.
        n_shown : int or None
            Maximum number of groups in a panel: half of them the lowest, and half the highest.  None shows all.

        Returns
        -------
        RandomEffectsDisplay
            The display itself.
        """
        if n_shown is not None and (not isinstance(n_shown, (int, np.integer)) or n_shown < 2):
            raise ValueError(f"n_shown must be an integer >= 2, or None for all, got {n_shown!r}.")
        self.axes_ = self._axes(ax, n_shown)
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.marks_ = [_draw(one, panel, n_shown) for one, panel in zip(self.axes_, self.panels, strict=True)]
        of = "" if self.level is None else f", {100 * self.level:g} % intervals"
        for one in self.axes_:
            one.set_xlabel(f"effect{of}")
        return self

    def _axes(self, ax: Any, n_shown: int | None) -> np.ndarray:
        n = len(self.panels)
        if ax is None:
            rows = max(min(len(panel.groups), n_shown or _NAMED) for panel in self.panels)
            size = (1.2 + 4.2 * n, float(np.clip(1.2 + 0.17 * rows, 2.4, 12)))
            return np.atleast_1d(new_axes(ncols=n, figsize=size))
        given = np.ravel(np.array(ax, dtype=object))
        if len(given) != n:
            names = ", ".join(panel.title for panel in self.panels)
            raise ValueError(
                f"There are {n} panels ({names}), but {len(given)} axes: give as many, or choose a factor."
            )
        return given


def _of(frame: Any, column: str, value: Any) -> Any:
    """The rows of a factor or a class, or all rows for None."""
    if value is None:
        return frame
    known = frame[column].unique().tolist() if column in frame.columns else []
    if value not in known:
        word = "factor" if column == "factor" else "label"
        raise ValueError(
            f"{word}={value!r} does not exist; the model has {known or 'two classes, and one set of effects'}."
        )
    return frame[frame[column] == value]


def _panel(frame: Any) -> Panel:
    """The panel for rows of one effect, one factor and one class."""
    frame = frame.sort_values("mean", kind="stable")
    first = frame.iloc[0]
    mean, low, high = (frame[name].to_numpy(dtype=float) for name in ("mean", "low", "high"))
    label = frame["class"].tolist()[0] if "class" in frame.columns else None
    return Panel(first["factor"], first["effect"], label, frame["group"].tolist(), mean, low, high)


def _draw(ax: Any, panel: Panel, n_shown: int | None) -> Any:
    """Draws a panel with the lowest group at the bottom; returns the marks."""
    at, gap = panel.ends(n_shown)
    low, high = panel.low[at], panel.high[at]
    # Leaves room for a note where groups are left out.
    heights = np.arange(len(at)) + 1.5 * (np.arange(len(at)) >= gap)
    sign = np.where(low > 0, 1, np.where(high < 0, 0, 2))
    lines, marks = (np.array([*colours[:2], FAINT]) for colours in (FILLS, MARKS))
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    ax.hlines(heights, low, high, color=lines[sign], linewidth=1.6, alpha=0.8)
    faces = np.where(sign == 2, "white", marks[sign])
    drawn = ax.scatter(panel.mean[at], heights, s=14, c=faces, edgecolors=marks[sign], linewidths=0.9, zorder=3)
    if gap < len(at):
        word = f"{len(panel.groups) - len(at):,} groups between these"
        ax.text(0.5, gap + 0.25, word, transform=ax.get_yaxis_transform(), ha="center", va="center", fontsize="x-small")
    names = [plain(panel.groups[place]) for place in at] if len(at) <= _NAMED else []
    ax.set_yticks(heights if names else [], names, fontsize="x-small")
    ax.set_ylim(-1, heights[-1] + 1)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color=UNSURE, linewidth=0.6, alpha=0.7)
    ax.set_axisbelow(True)
    ax.set_title(plain(panel.title), loc="left", fontsize="medium")
    return drawn
