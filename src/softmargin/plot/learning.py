"""Learning curves of active learners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.utils.validation import check_consistent_length

from .style import label_of, legend, new_axes, next_look, open_frame, plain


class LearningCurveDisplay:
    """Learning curve: a score against the number of labels, as the mean of several runs with a band.

    The band is Student's interval of the mean over runs.  If the rounds of runs are at different numbers of labels,
    each run keeps its last score between rounds.  The curve covers the numbers of labels that all runs went through.

    Create it with `from_learners` or `from_arrays`; with ``ax=display.ax_`` a second one is added to the same axes.

    Parameters
    ----------
    n_labelled : array of shape (n_points,)
        Numbers of labels, increasing.
    scores : array of shape (n_runs, n_points)
    name : str, optional
        Label in the legend.
    score_name : str
        Label of the axis.
    level : float
        Level of the band.

    Attributes
    ----------
    mean, low, high : arrays of shape (n_points,)
        The mean over runs and the ends of its interval, which are NaN for a single run.
    ax_, figure_ : the axes and the figure
    line_, band_ : the curve, and the band or None

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.active import ActiveLearner
    >>> from softmargin.plot import LearningCurveDisplay
    >>> X, y = make_moons(600, noise=0.2, random_state=0)
    >>> learners = [
    ...     ActiveLearner(BayesianSVC(), random_state=seed).learn(
    ...         X[:300], y[:300], n_queries=10, X_test=X[300:], y_test=y[300:]
    ...     )
    ...     for seed in range(3)
    ... ]
    >>> display = LearningCurveDisplay.from_learners(learners)
    >>> display.n_labelled, display.scores.shape
    (array([ 2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12]), (3, 11))
    """

    def __init__(
        self,
        *,
        n_labelled: np.ndarray,
        scores: np.ndarray,
        name: str | None = None,
        score_name: str = "accuracy",
        level: float = 0.95,
    ) -> None:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        self.n_labelled, self.scores = n_labelled, scores
        self.name, self.score_name, self.level = name, score_name, level
        n_runs = len(scores)
        self.mean = scores.mean(axis=0)
        half = np.full(len(self.mean), np.nan)
        if n_runs > 1:
            half = stdtrit(n_runs - 1, (1 + level) / 2) * scores.std(axis=0, ddof=1) / np.sqrt(n_runs)
        self.low, self.high = self.mean - half, self.mean + half

    @classmethod
    def from_learners(
        cls,
        learners: Any,
        *,
        name: str | None = None,
        score_name: str = "accuracy",
        level: float = 0.95,
        ax: Any = None,
        **options: Any,
    ) -> LearningCurveDisplay:
        """Plot the scores in the histories of active learners.

        Parameters
        ----------
        learners : `ActiveLearner`, or a sequence of them with different seeds
            After ``learn`` with ``X_test`` and ``y_test``.
        name : str, optional
            Label in the legend; by default the strategy, if it is the same for all.
        score_name : str
            The name of the score, as the label of the axis.
        level : float
            Level of the band.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        LearningCurveDisplay
        """
        every = [learners] if hasattr(learners, "learn") else list(learners)
        if not every:
            raise ValueError("There are no learners: give one, or several with different seeds.")
        strategies = {learner.strategy for learner in every}
        name = strategies.pop().replace("_", " ") if name is None and len(strategies) == 1 else name
        n_labelled, scores = together([_run(learner) for learner in every])
        about = {"name": name, "score_name": score_name, "level": level}
        return cls(n_labelled=n_labelled, scores=scores, **about).plot(ax=ax, **options)

    @classmethod
    def from_arrays(
        cls,
        n_labelled: Any,
        scores: Any,
        *,
        name: str | None = None,
        score_name: str = "accuracy",
        level: float = 0.95,
        ax: Any = None,
        **options: Any,
    ) -> LearningCurveDisplay:
        """Plot scores from arrays.

        Parameters
        ----------
        n_labelled : array of shape (n_points,)
            Numbers of labels, increasing.
        scores : array of shape (n_points,) or (n_runs, n_points)
        name, score_name, level, ax, **options
            As in `from_learners`.

        Returns
        -------
        LearningCurveDisplay
        """
        n, values = np.asarray(n_labelled), np.atleast_2d(np.asarray(scores, dtype=float))
        if n.ndim != 1 or values.ndim != 2 or values.shape[1] != len(n):
            raise ValueError(
                f"scores must have a column for each entry of n_labelled, got shapes {values.shape} and {n.shape}."
            )
        if np.any(np.diff(n) <= 0):
            raise ValueError("n_labelled must be strictly increasing.")
        about = {"name": name, "score_name": score_name, "level": level}
        return cls(n_labelled=n, scores=values, **about).plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, runs: bool = False, **line: Any) -> LearningCurveDisplay:
        """Plot the curve and its band.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        runs : bool
            Whether to add a thin line for every run.
        **line
            Passed to `matplotlib.axes.Axes.plot` for the curve; a ``color`` applies to everything.

        Returns
        -------
        LearningCurveDisplay
            The display itself.
        """
        self.ax_ = ax = new_axes() if ax is None else ax
        self.figure_ = ax.figure
        few = max(1, len(self.mean) // 12)
        name = {} if self.name is None else {"label": label_of(self.name)}
        style = next_look(ax) | {"linewidth": 1.8, "markersize": 4.5, "markevery": few} | name
        (self.line_,) = ax.plot(self.n_labelled, self.mean, **(style | line))
        colour = self.line_.get_color()
        self.band_ = None
        if len(self.scores) > 1:
            self.band_ = ax.fill_between(self.n_labelled, self.low, self.high, color=colour, alpha=0.18, linewidth=0)
        if runs:
            ax.plot(self.n_labelled, self.scores.T, color=colour, linewidth=0.6, alpha=0.5)
        ax.set(xlabel="labelled rows", ylabel=plain(self.score_name))
        open_frame(ax)
        legend(ax)
        return self


def together(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Puts runs, each given by numbers of labels and scores, on a common grid within the range that all of them cover.

    >>> one, other = (np.array([2, 4, 6]), np.array([0.5, 0.7, 0.9])), (np.array([3, 6]), np.array([0.6, 0.8]))
    >>> together([one, other])
    (array([3, 4, 6]), array([[0.5, 0.7, 0.9],
           [0.6, 0.6, 0.8]]))
    """
    for n, scores in runs:
        check_consistent_length(n, scores)
    first, last = max(n[0] for n, _ in runs), min(n[-1] for n, _ in runs)
    if first > last:
        raise ValueError("The runs have no number of labels in common: one ends before another begins.")
    every = np.unique(np.concatenate([n for n, _ in runs]))
    every = every[(every >= first) & (every <= last)]
    return every, np.stack([scores[np.searchsorted(n, every, side="right") - 1] for n, scores in runs])


def _run(learner: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of labels and scores of one learner, from the first round with a model on."""
    history = getattr(learner, "history_", None)
    if history is None:
        raise ValueError(f"This {type(learner).__name__} has no history yet: call learn first.")
    scored = [(entry["n_labelled"], entry["score"]) for entry in history if entry["score"] is not None]
    if not scored:
        raise ValueError("The history has no scores: give X_test and y_test to learn.")
    n, scores = zip(*scored, strict=True)
    return np.array(n), np.array(scores, dtype=float)
