"""ROC curves for detecting attacked or unknown rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..adversarial import detection_roc
from .style import INK, label_of, legend, new_axes, next_look, once, open_frame

_CHANCE = "softmargin-chance"


class DetectionDisplay:
    """ROC curve of a detector: the share of detected rows against the rate of false alarms.

    Create it with `from_estimator`, `from_scores` or `from_predictions`; with ``ax=display.ax_`` a second one is added
    to the same axes.

    Parameters
    ----------
    false_alarms, true_alarms : arrays of shape (n_thresholds,)
        The rates at each threshold.
    auc : float
        The area: the probability that a strange row has a larger score than an ordinary one, with ties counting half.
    threshold_point : pair of floats, optional
        The rates of false and true alarms at the threshold of a detector.
    name : str, optional
        Label in the legend.

    Attributes
    ----------
    ax_, figure_ : the axes and the figure
    line_ : the curve
    point_ : the marker of the detector's threshold, or None

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.adversarial import AdversarialDetector
    >>> from softmargin.plot import DetectionDisplay
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> detector = AdversarialDetector(BayesianSVC(random_state=0).fit(X[:200], y[:200])).fit(X[200:300])
    >>> display = DetectionDisplay.from_estimator(detector, X[300:], X[300:] + [3.0, 0.0])
    >>> bool(display.auc > 0.7), display.ax_.get_xlabel()
    (True, 'ordinary rows that raise an alarm')
    """

    def __init__(
        self,
        *,
        false_alarms: np.ndarray,
        true_alarms: np.ndarray,
        auc: float,
        threshold_point: tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.false_alarms, self.true_alarms, self.auc = false_alarms, true_alarms, auc
        self.threshold_point, self.name = threshold_point, name

    @classmethod
    def from_estimator(
        cls, detector: Any, X_ordinary: Any, X_strange: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> DetectionDisplay:
        """Plot the curve of a detector, with its threshold marked.

        Parameters
        ----------
        detector : a fitted `softmargin.adversarial.AdversarialDetector`
        X_ordinary, X_strange : rows, as accepted by its model
            Ordinary rows that neither the model nor the detector was fitted on; and rows that were attacked, or
            are of another kind.
        name : str, optional
            Label in the legend; by default the detector's measure, if that is a string.
        ax : matplotlib axes, optional
        **options
            Passed to `plot`.

        Returns
        -------
        DetectionDisplay
        """
        if not hasattr(detector, "score_samples"):
            raise ValueError(
                f"{type(detector).__name__} has no score_samples; give an AdversarialDetector, or scores to "
                f"from_scores."
            )
        check_is_fitted(detector)
        ordinary, strange = (np.asarray(detector.score_samples(X)) for X in (X_ordinary, X_strange))
        measure = getattr(detector, "measure", None)
        name = measure.replace("_", " ") if name is None and isinstance(measure, str) else name
        threshold = getattr(detector, "threshold_", None)
        return cls.from_scores(ordinary, strange, threshold=threshold, name=name, ax=ax, **options)

    @classmethod
    def from_scores(
        cls,
        ordinary: Any,
        strange: Any,
        *,
        threshold: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> DetectionDisplay:
        """Plot the curve of scores, which are larger for more suspicious rows.

        Parameters
        ----------
        ordinary, strange : sequences of scores
            Scores of ordinary rows, and of rows to be detected.
        threshold : float, optional
            Scores above it raise an alarm; it is marked on the curve.
        name, ax, **options
            As in `from_estimator`.

        Returns
        -------
        DetectionDisplay
        """
        both = [column_or_1d(scores) for scores in (ordinary, strange)]
        for scores, word in zip(both, ("ordinary", "strange"), strict=True):
            if not len(scores) or not np.isfinite(np.asarray(scores, dtype=float)).all():
                raise ValueError(f"The scores of {word} rows must be one or more finite numbers.")
        false_alarms, true_alarms, auc = detection_roc(*both)
        point = (
            None if threshold is None else (float((both[0] > threshold).mean()), float((both[1] > threshold).mean()))
        )
        about = {"auc": auc, "threshold_point": point, "name": name}
        return cls(false_alarms=false_alarms, true_alarms=true_alarms, **about).plot(ax=ax, **options)

    @classmethod
    def from_predictions(cls, is_strange: Any, scores: Any, **options: Any) -> DetectionDisplay:
        """Plot the curve of scores of rows of both kinds.

        Parameters
        ----------
        is_strange : sequence of n booleans
            Which rows are to be detected.
        scores : sequence of n numbers
        **options
            As in `from_scores`.

        Returns
        -------
        DetectionDisplay
        """
        strange, values = column_or_1d(is_strange).astype(bool), column_or_1d(scores)
        if len(strange) != len(values):
            raise ValueError(f"is_strange has {len(strange)} entries, but scores has {len(values)}: give one per row.")
        return cls.from_scores(values[~strange], values[strange], **options)

    def plot(self, ax: Any = None, **line: Any) -> DetectionDisplay:
        """Plot the curve.

        Parameters
        ----------
        ax : matplotlib axes, optional
            By default those of a new figure.
        **line
            Passed to `matplotlib.axes.Axes.plot` for the curve.

        Returns
        -------
        DetectionDisplay
            The display itself.
        """
        self.ax_ = ax = new_axes(figsize=(4.8, 4.8)) if ax is None else ax
        self.figure_ = ax.figure
        once(ax, _CHANCE, lambda: ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=(0, (1, 2)))[0])
        words = f"AUC {self.auc:.3f}" if self.name is None else f"{label_of(self.name)}, AUC {self.auc:.3f}"
        style = next_look(ax) | {"marker": "", "linewidth": 1.8, "label": words, "clip_on": False}
        (self.line_,) = ax.plot(self.false_alarms, self.true_alarms, **(style | line))
        self.point_ = None
        if self.threshold_point is not None:
            mark = {"s": 42, "color": self.line_.get_color(), "edgecolors": "white", "zorder": 4, "clip_on": False}
            self.point_ = ax.scatter(*self.threshold_point, **mark)
        ax.set(xlabel="ordinary rows that raise an alarm", ylabel="strange rows that raise an alarm")
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_box_aspect(1)
        open_frame(ax)
        legend(ax, loc="lower right")
        return self
