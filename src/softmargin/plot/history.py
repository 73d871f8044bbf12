"""The history of a fit: its objective from pass to pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..inside import fitted_inside
from ..parameters import one_of
from .style import FAINT, FILLS, MARKS, UNSURE, label_of, legend, new_axes, next_look, open_frame

AXES = ("pass", "seconds")
#: Phases whose objectives are bounds, and the names of the quantities for all phases.
_BOUNDS = ("passes", "minibatches")
_QUANTITIES = {
    "passes": "bound",
    "minibatches": "bound",
    "particles": "mean log-density of particles",
    "warm-up": "mean log-likelihood of draws",
    "draws": "mean log-likelihood of draws",
}
#: The proportion of first steps, often far from all others, that may lie below the plot; and the room below the rest,
#: as a fraction of their range.
_FIRST, _ROOM = 0.15, 0.3
#: Lines with more steps than this are drawn without markers.
_MARKED = 60
_REFUSED = "softmargin-refused"


class Phase(NamedTuple):
    """A phase of a fit: its name, and where it starts and stops in the history."""

    name: str
    start: int
    stop: int


class BoundHistoryDisplay:
    """Objective of a fit by pass, or over time.

    The line connects accepted steps.  Crosses are steps that were rejected because they would have lowered the bound;
    those far below are marked on the lower edge.  The dashed line is ``bound_``.  If a fit has phases, their names are
    shown at the top:

    - steps on minibatches, whose objectives are estimates, before one final pass over all rows;
    - for `BayesianKernelMachine`, passes, and then steps of the particles, whose mean log-density is another quantity
      than the bound, with its own axis on the right;
    - for ``inference="gibbs"``, the warm-up and the draws, with their mean log-likelihood.

    Create it with `from_estimator`.

    Parameters
    ----------
    seconds, objective : arrays of shape (n_passes,)
        Time since the start, and the objective; NaN if a step had no objective at all.
    accepted : array of shape (n_passes,)
        Whether the step was accepted.
    bound : float, optional
        The final bound.
    phases : sequence of `Phase`
        In order, covering the history.
    name : str, optional
        Label in the legend.

    Attributes
    ----------
    ax_, figure_ : the axes and the figure
    lines_ : list of the lines of the phases
    refused_ : the crosses of rejected steps, or None
    right_ax_ : the axes of the particles' log-density besides a bound, or None

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from softmargin import BayesianSVC
    >>> from softmargin.plot import BoundHistoryDisplay
    >>> model = BayesianSVC(random_state=0).fit(*load_breast_cancer(return_X_y=True))
    >>> display = BoundHistoryDisplay.from_estimator(model)
    >>> len(display.objective) == model.n_iter_, bool(display.objective.max() == model.bound_)
    (True, True)
    """

    def __init__(
        self,
        *,
        seconds: np.ndarray,
        objective: np.ndarray,
        accepted: np.ndarray,
        bound: float | None = None,
        phases: Sequence[Phase] = (),
        name: str | None = None,
    ) -> None:
        self.seconds, self.objective, self.accepted = seconds, objective, accepted
        self.bound, self.name = bound, name
        self.phases = list(phases) or [Phase("passes", 0, len(objective))]

    @classmethod
    def from_estimator(
        cls, model: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> BoundHistoryDisplay:
        """Plot the ``history_`` of a fitted classifier of this package.

        Parameters
        ----------
        model : classifier, or a pipeline that ends in one
        name : str, optional
            Label in the legend, if several share axes.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        BoundHistoryDisplay
        """
        check_is_fitted(model)
        inside = fitted_inside(model)
        history = getattr(inside, "history_", None)
        kind = type(inside).__name__
        if history is None or any("objective" not in entry for entry in history):
            raise ValueError(f"{kind} has no history of its objective; classifiers of softmargin do.")
        if not history:
            raise ValueError(f"The history of this {kind} is empty: its fit made no passes.")
        display = cls(
            seconds=np.array([entry["seconds"] for entry in history]),
            objective=np.array([entry["objective"] for entry in history], dtype=float),
            accepted=np.array([entry.get("accepted", True) for entry in history]),
            bound=getattr(inside, "bound_", None),
            phases=_phases(history),
            name=name,
        )
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, axis: str = "pass", **line: Any) -> BoundHistoryDisplay:
        """Plot the history.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        axis : {"pass", "seconds"}
            The horizontal axis.  Time includes everything before the first pass, such as tuning the kernel.
        **line
            Passed to `matplotlib.axes.Axes.plot` for the line.

        Returns
        -------
        BoundHistoryDisplay
            The display itself.
        """
        one_of("axis", axis, AXES)
        self.ax_ = ax = new_axes() if ax is None else ax
        self.figure_ = ax.figure
        x = self.seconds if axis == "seconds" else np.arange(1.0, len(self.objective) + 1)
        style = next_look(ax) | {"linewidth": 1.4}
        name = {} if self.name is None else {"label": label_of(self.name)}
        self.lines_, self.right_ax_ = [], None
        for phase in self.phases:
            self.lines_.append(self._draw_phase(phase, x, style | (name if not self.lines_ else {}) | line))
        self._limit()
        self.refused_ = self._draw_refused(x)
        if self.bound is not None and self.phases[0].name in _BOUNDS:
            style = {"color": self.lines_[0].get_color(), "linewidth": 0.8, "linestyle": (0, (4, 3)), "zorder": 1}
            ax.axhline(self.bound, **style)
        self._name_phases(x)
        ax.set(xlabel="seconds" if axis == "seconds" else "pass", ylabel=_quantity(self.phases[0]))
        if axis == "pass":
            ax.xaxis.get_major_locator().set_params(integer=True)
        open_frame(ax)
        legend(ax)
        return self

    def _taken(self, phase: Phase) -> np.ndarray:
        """The indices of accepted steps."""
        part = np.arange(phase.start, phase.stop)
        return part[self.accepted[part] & np.isfinite(self.objective[part])]

    def _draw_phase(self, phase: Phase, x: np.ndarray, style: dict[str, Any]) -> Any:
        ax, at = self.ax_, self._taken(phase)
        if _quantity(phase) != _quantity(self.phases[0]):
            self.right_ax_ = ax = self.ax_.twinx() if self.right_ax_ is None else self.right_ax_
            ax.set_ylabel(_quantity(phase), color=MARKS[1])
            ax.tick_params(axis="y", colors=MARKS[1])
            ax.spines[["top", "left"]].set_visible(False)
            style = style | {"color": FILLS[1], "marker": "s", "gid": None}
        style = style | {"markersize": 3.5 if len(at) <= _MARKED else 0, "linestyle": "-"}
        return ax.plot(x[at], self.objective[at], **style)[0]

    def _limit(self) -> None:
        """Cuts off what lies far below: if a fit starts at -4000 and ends at -75, the end is what matters."""
        values = self.objective[self._taken(self.phases[0])]
        rest = values[int(_FIRST * len(values)) :]
        if len(rest) < 2:
            return
        low, high = max(values.min(), rest.min() - _ROOM * np.ptp(rest)), values.max()
        if self.bound is not None and self.phases[0].name in _BOUNDS:
            low, high = min(low, self.bound), max(high, self.bound)
        edge = 0.05 * (high - low) or 1.0
        low, high = low - edge, high + edge
        if sum(line.get_gid() == self.lines_[0].get_gid() for line in self.ax_.lines) > 1:  # shared axes
            low, high = min(low, self.ax_.get_ylim()[0]), max(high, self.ax_.get_ylim()[1])
        self.ax_.set_ylim(low, high)

    def _draw_refused(self, x: np.ndarray) -> Any:
        """Draws rejected steps at their objectives, or on the lower edge if these are below it."""
        phase = self.phases[0]
        at = np.setdiff1d(np.arange(phase.start, phase.stop), self._taken(phase))
        if not len(at):
            return None
        bottom, there = self.ax_.get_ylim()[0], [c.get_gid() for c in self.ax_.collections]
        values = np.fmax(self.objective[at], bottom)
        word = {} if _REFUSED in there else {"label": "refused"}
        return self.ax_.scatter(
            x[at], values, marker="x", s=18, color=FAINT, linewidths=1, clip_on=False, gid=_REFUSED, **word
        )

    def _name_phases(self, x: np.ndarray) -> None:
        if [phase.name for phase in self.phases] == ["passes"]:
            return
        where = {"transform": self.ax_.get_xaxis_transform(), "va": "bottom", "fontsize": "small", "color": FAINT}
        for number, phase in enumerate(self.phases):
            left, right = x[phase.start], x[phase.stop - 1]
            if number % 2:
                self.ax_.axvspan(left, right, color=UNSURE, alpha=0.25, linewidth=0, zorder=0)
            self.ax_.text((left + right) / 2, 1.01, phase.name, ha="center", **where)


def _quantity(phase: Phase) -> str:
    return _QUANTITIES.get(phase.name, "bound")


def _phases(history: Sequence[dict[str, Any]]) -> list[Phase]:
    """Consecutive entries of the same phase; a history without phases is a single one."""
    names = [entry.get("phase", "passes") for entry in history]
    starts = [at for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
    return [Phase(names[at], at, stop) for at, stop in zip(starts, [*starts[1:], len(names)], strict=True)]
