"""Evaluation of probabilities on rows with known labels, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .metrics import equal_width_bins, wilson_interval
from .parameters import how_many, positive_integer
from .validation import check_weights, refuse_unlabelled

__all__ = ["MEASURES", "Estimate", "Evaluation", "evaluate", "log_losses"]

#: The measures in the order of tables, and their names there.
MEASURES = {
    "error": "error",
    "balanced_error": "balanced error",
    "auc": "AUC",
    "log_loss": "log loss",
    "brier": "Brier",
    "ece": "ECE",
}
#: Bins of the calibration error.
_N_BINS = 15


class Estimate(NamedTuple):
    """A measure on these rows, and the ends of its confidence interval; NaN if undefined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`.

    Attributes
    ----------
    measures : dict of `Estimate`
        With the names in `MEASURES` as keys.
    n_rows : int
    n_bootstrap : int
    level : float
        Level of the intervals.
    """

    measures: dict[str, Estimate]
    n_rows: int
    n_bootstrap: int
    level: float

    def __getitem__(self, name: str) -> Estimate:
        """A measure by its name."""
        return self.measures[name]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON, with None for measures that are undefined."""
        plain = {name: {key: _number(part) for key, part in e._asdict().items()} for name, e in self.measures.items()}
        return {"n_rows": self.n_rows, "n_bootstrap": self.n_bootstrap, "level": self.level, "measures": plain}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def evaluate(
    y_true: Any,
    proba: Any,
    *,
    classes: Sequence[Any] | np.ndarray,
    sample_weight: Any = None,
    groups: Any = None,
    folds: Any = None,
    n_bootstrap: int = 500,
    level: float = 0.95,
    random_state: Any = 0,
) -> Evaluation:
    r"""Evaluate probabilities against the true labels.

    ==================  ========================================================================================
    ``error``           the share of rows whose most probable class is wrong
    ``balanced_error``  the mean of that share over classes
    ``auc``             the area under the ROC curve; with more than two classes the mean of each against all others
    ``log_loss``        the mean of minus the logarithm of the probability of the true class
    ``brier``           the mean squared distance of probabilities from 0 and 1: of the second class, or summed over
                        more than two
    ``ece``             the expected calibration error over 15 bins: of the second class
                        (`softmargin.metrics.expected_calibration_error`), or of the most probable of more than two
    ==================  ========================================================================================

    Intervals are bootstrap percentiles: rows are resampled with replacement while the model stays the same.  For
    ``balanced_error`` and ``auc`` they are resampled within classes.  The interval of ``error`` is Wilson's, as is any
    that would have no width because all rows are right or all are wrong.  Intervals show how much these rows may
    mislead, not how much another training set would change the model.  That of ``ece``, which noise can only raise,
    is too high.

    Rows are assumed to be independent, which repeated measurements of few patients are not: intervals are then too
    narrow.  With ``groups``, whole groups are resampled with all of their rows, for every measure.

    Parameters
    ----------
    y_true : sequence of n labels
    proba : array of shape (n, n_classes)
        The output of ``predict_proba``.
    classes : sequence of n_classes labels
        The classes of the columns of ``proba``: ``classes_`` of a classifier.
    sample_weight : sequence of n weights, optional
        A row of weight k counts k times.
    groups : sequence of n labels, optional
        The group of each row.
    folds : sequence of n labels, optional
        The model that predicted each row, if there are several, as in cross-validation.  Scores of different models
        cannot be ranked together: ``auc`` is then the mean of the areas within folds.
    n_bootstrap : int
        Number of bootstrap samples.
    level : float
        Level of the intervals.
    random_state : int, RandomState or None

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> proba = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]]
    >>> found = evaluate(["no", "no", "yes", "yes"], proba, classes=["no", "yes"])
    >>> found["error"].value, found["auc"].value, round(found["brier"].value, 3)
    (0.25, 1.0, 0.125)
    >>> found["error"].low <= 0.25 <= found["error"].high
    True
    """
    positive_integer("n_bootstrap", n_bootstrap)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    rows = _Rows.of(y_true, proba, np.asarray(classes), folds)
    n, weight = len(rows.codes), check_weights(sample_weight, len(rows.codes))
    if not weight.any():
        raise ValueError("All weights are zero: at least one row needs a positive weight.")
    members = None if groups is None else members_of(groups, n)
    draw = _within_classes(rows) if members is None else _of_groups(members)
    drawn = _draws(rows, weight, draw, n_bootstrap, check_random_state(random_state))
    whole = rows.measures(weight) | rows.of_classes(weight)
    ends = {name: _ends(values, level) for name, values in drawn.items()}
    ends |= _shares(rows, whole, ends, weight, members, level)
    return Evaluation({name: Estimate(float(whole[name]), *ends[name]) for name in MEASURES}, n, n_bootstrap, level)


def members_of(groups: Any, n: int) -> np.ndarray:
    """The group of each of ``n`` rows as 0, 1, 2, ..."""
    groups = column_or_1d(groups)
    if len(groups) != n:
        raise ValueError(f"groups must have one entry for each of the {n} rows, got {len(groups)}.")
    return np.unique(groups.astype(str) if groups.dtype.kind == "O" else groups, return_inverse=True)[1]


#: A bootstrap sample as counts of each row: for measures over all rows, and for measures that compare classes.
_Draw = Callable[[np.random.RandomState], tuple[np.ndarray, np.ndarray]]


def _within_classes(rows: _Rows) -> _Draw:
    """How often each row is drawn: from all rows, and from those of its class and fold."""
    n, strata = len(rows.codes), np.unique(np.column_stack([rows.codes, rows.fold]), axis=0, return_inverse=True)[1]
    places = [np.flatnonzero(strata == k) for k in range(strata.max() + 1)]

    def draw(rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        within = np.concatenate([own[rng.randint(len(own), size=len(own))] for own in places])
        anywhere = rng.randint(n, size=n)
        return np.bincount(anywhere, minlength=n), np.bincount(within, minlength=n)

    return draw


def _of_groups(members: np.ndarray) -> _Draw:
    """How often each row is drawn, with its whole group."""
    n = members.max() + 1

    def draw(rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        times = np.bincount(rng.randint(n, size=n), minlength=n)[members]
        return times, times

    return draw


def _draws(
    rows: _Rows, weight: np.ndarray, draw: _Draw, n_draws: int, rng: np.random.RandomState
) -> dict[str, np.ndarray]:
    """The measures of all bootstrap samples."""
    found: list[dict[str, float]] = []
    for _ in range(n_draws):
        anywhere, within = draw(rng)
        found.append(rows.measures(weight * anywhere) | rows.of_classes(weight * within))
    return {name: np.array([one[name] for one in found]) for name in MEASURES}


def _shares(
    rows: _Rows,
    whole: dict[str, float],
    ends: dict[str, tuple[float, float]],
    weight: np.ndarray,
    members: np.ndarray | None,
    level: float,
) -> dict[str, tuple[float, float]]:
    """Wilson intervals: of the error, unless groups are resampled, and of measures whose bootstrap has no width.

    It has none if all rows are right, or all are wrong.
    """
    counted = weight if members is None else np.bincount(members, weight)
    classes = np.unique(rows.codes[weight > 0])
    fewest = min((weight[rows.codes == k] for k in classes), key=_as_many_rows) if members is None else counted
    found = {}
    for name, over in (("error", counted), ("balanced_error", fewest), ("auc", fewest)):
        if ends[name][0] == ends[name][1] or (name == "error" and members is None):
            found[name] = _share_of(whole[name], over, level)
    return found


def _as_many_rows(weight: np.ndarray) -> float:
    """The effective number of rows, ``(sum w)^2 / sum w^2``; infinite without any weight."""
    return float(weight.sum() ** 2 / np.sum(weight**2)) if weight.any() else np.inf


def _share_of(value: float, weight: np.ndarray, level: float) -> tuple[float, float]:
    """The Wilson interval of a share of rows."""
    if np.isnan(value):
        return np.nan, np.nan
    low, high = wilson_interval(np.clip(value, 0.0, 1.0), _as_many_rows(weight), level)
    return float(low), float(high)


def log_losses(y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Minus the logarithm of the probability of each row's class, for comparisons row by row.

    Examples
    --------
    >>> log_losses([1, 0], [[0.5, 0.5], [1.0, 0.0]], classes=[0, 1]).round(2)
    array([0.69, 0.  ])
    """
    return _Rows.of(y_true, proba, np.asarray(classes)).log_loss


def _ends(values: np.ndarray, level: float) -> tuple[float, float]:
    """Percentiles of the values that are not NaN."""
    values = values[~np.isnan(values)]
    if not len(values):
        return np.nan, np.nan
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


class _Rows(NamedTuple):
    """Everything that measures need from each row, so that new weights take only a few sums."""

    codes: np.ndarray
    n_classes: int
    wrong: np.ndarray
    log_loss: np.ndarray
    brier: np.ndarray
    bins: np.ndarray
    gap: np.ndarray  # outcome minus probability, averaged within bins
    fold: np.ndarray
    areas: list[list[Callable[[np.ndarray], float]]]  # by fold and class

    @classmethod
    def of(cls, y_true: Any, proba: Any, classes: np.ndarray, folds: Any = None) -> _Rows:
        y, p = column_or_1d(y_true), np.asarray(proba, dtype=float)
        if not len(y) and not len(p):
            raise ValueError("There are no rows to evaluate: y_true and proba are empty.")
        if p.ndim != 2 or p.shape[1] != len(classes):
            raise ValueError(f"proba must have a column for each of {len(classes)} classes, got shape {p.shape}.")
        check_consistent_length(y, p)
        if not np.all((p >= 0) & (p <= 1)) or not np.allclose(p.sum(axis=1), 1.0, atol=1e-6):  # also false for NaN
            raise ValueError("proba must hold numbers between 0 and 1 that add up to 1 in each row.")
        codes, n = codes_among(y, classes), len(y)
        predicted, own = p.argmax(axis=1), p[np.arange(n), codes]
        wrong = (predicted != codes).astype(float)
        if len(classes) == 2:
            brier, stated, came = (1 - own) ** 2, p[:, 1], (codes == 1).astype(float)
        else:
            brier, stated, came = (p**2).sum(axis=1) - own**2 + (1 - own) ** 2, p.max(axis=1), 1 - wrong
        # Probabilities are clipped as in scikit-learn's log_loss.
        log_loss = 0.0 - np.log(np.maximum(own, np.finfo(p.dtype).eps))
        fold = np.zeros(n, dtype=int) if folds is None else np.unique(np.asarray(folds), return_inverse=True)[1]
        check_consistent_length(y, fold)
        columns = [1] if len(classes) == 2 else range(len(classes))
        areas = [
            [_area(p[:, k], codes == k, np.flatnonzero(fold == one)) for k in columns] for one in range(fold.max() + 1)
        ]
        bins = equal_width_bins(stated, _N_BINS)
        return cls(codes, len(classes), wrong, log_loss, brier, bins, came - stated, fold, areas)

    def measures(self, weight: np.ndarray) -> dict[str, float]:
        """Means over rows with these weights; NaN if all are zero."""
        total = weight.sum() or np.nan
        return {
            "error": float(weight @ self.wrong / total),
            "log_loss": float(weight @ self.log_loss / total),
            "brier": float(weight @ self.brier / total),
            "ece": float(np.abs(np.bincount(self.bins, weight * self.gap)).sum() / total),
        }

    def of_classes(self, weight: np.ndarray) -> dict[str, float]:
        """Measures that are means over classes."""
        of_class = np.bincount(self.codes, weight, self.n_classes)
        wrong_of_class = np.bincount(self.codes, weight * self.wrong, self.n_classes)
        seen = of_class > 0
        balanced = float(np.mean(wrong_of_class[seen] / of_class[seen])) if seen.any() else np.nan
        return {"balanced_error": balanced, "auc": self._area(weight)}

    def _area(self, weight: np.ndarray) -> float:
        """The AUC: the mean over folds of the mean over classes."""
        return _mean_of_defined([_mean_of_defined([area(weight) for area in areas]) for areas in self.areas])


def _mean_of_defined(values: list[float]) -> float:
    """The mean without NaN, the area of classes that do not occur."""
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else np.nan


def _area(score: np.ndarray, positive: np.ndarray, places: np.ndarray) -> Callable[[np.ndarray], float]:
    """The area under the ROC curve of the rows at ``places``, as a function of all weights; ties count half."""
    order = places[np.argsort(score[places], kind="stable")]
    positive, starts = positive[order], np.flatnonzero(np.diff(score[order], prepend=-1.0))

    def area(weight: np.ndarray) -> float:
        ordered = weight[order]
        hits = np.add.reduceat(ordered * positive, starts)
        misses = np.add.reduceat(ordered * ~positive, starts)
        below = np.cumsum(misses) - misses / 2
        pairs = hits.sum() * misses.sum()
        return float(hits @ below / pairs) if pairs else np.nan

    return area


def codes_among(y: np.ndarray, classes: np.ndarray, who: str = "the probabilities do") -> np.ndarray:
    """The index of each label among the classes, in the order of the columns."""
    refuse_unlabelled(y)
    order = np.argsort(classes, kind="stable")
    try:
        places = np.searchsorted(classes[order], y).clip(max=len(classes) - 1)
        known = classes[order][places] == y
    except TypeError:  # labels that cannot be compared with all classes
        place_of = {label: place for place, label in enumerate(classes[order].tolist())}
        places = np.array([place_of.get(label, -1) for label in y.tolist()])
        known = places >= 0
    if not np.all(known):
        strange = np.asarray(y)[~known].tolist()
        found = f"{how_many(len(strange), 'label')} {'is' if len(strange) == 1 else 'are'}"
        raise ValueError(
            f"{found} of classes that {who} not know, such as {strange[0]!r}; the known ones are "
            f"{', '.join(map(repr, classes.tolist()[:10]))}. Drop those rows."
        )
    return order[places]
