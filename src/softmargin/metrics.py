"""Calibration measures beyond those of scikit-learn, with intervals.

Log loss and the Brier score are `sklearn.metrics.log_loss` and `sklearn.metrics.brier_score_loss`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .parameters import one_of, positive_integer
from .validation import check_weights, refuse_unlabelled

__all__ = ["ReliabilityCurve", "expected_calibration_error", "reliability_curve", "wilson_interval"]

#: The kinds of bins: of equal width, or with equal numbers of rows.
BINNINGS = ("uniform", "quantile")


def expected_calibration_error(
    y_true: Any,
    proba: Any,
    n_bins: int = 15,
    *,
    sample_weight: Any = None,
    pos_label: Any = None,
    classes: Any = None,
) -> float:
    r"""Mean distance between the predicted probability of a class and its frequency, over bins of equal width.

    With :math:`W_k` the weight of the rows whose probability falls in bin k and :math:`W` that of all rows,

    .. math:: ECE = \sum_k \frac{W_k}{W} \left| \bar y_k - \bar p_k \right|

    where :math:`\bar y_k` and :math:`\bar p_k` are the share of the class and the mean probability in the bin.
    Bins are closed on the left, the last one on both sides; empty bins are ignored.  With few rows in a bin the
    measure is biased upwards, even for perfect probabilities.

    Parameters
    ----------
    y_true : sequence of n labels
    proba : array of shape (n,), (n, 2) or (n, n_classes)
        The probability of the class, or the output of ``predict_proba``.
    n_bins : int
        The number of bins on [0, 1].
    sample_weight : sequence of n weights, optional
        A row of weight k counts as k copies of it.
    pos_label : label, optional
        The class.  With two classes, by default the second: the greater of the two labels, or 1 if all labels are 0, 1
        or -1; ``proba`` is then the probability of ``pos_label``, or has it in its second column.  Required with more.
    classes : sequence of n_classes labels, optional
        The classes of the columns of ``proba`` if there are more than two; by default those of ``y_true``, sorted.

    Returns
    -------
    float
        Between 0 and 1; 0 is best.

    Examples
    --------
    Half of the rows that were given 0.9 belong to the second class, and none of those that were given 0:

    >>> expected_calibration_error([0, 0, 1, 0], [0.0, 0.0, 0.9, 0.9])
    0.2
    """
    outcome, p = outcomes(y_true, proba, pos_label, classes)
    bins = equal_width_bins(p, n_bins)
    weight = _some_weight(sample_weight, len(p))
    # W_k |mean outcome - mean p| is |sum of w (outcome - p)|, without divisions by zero for empty bins.
    gaps = np.bincount(bins, weights=weight * (outcome - p), minlength=n_bins)
    return float(np.abs(gaps).sum() / weight.sum())


class ReliabilityCurve(NamedTuple):
    """The result of `reliability_curve` for each bin that has rows, in increasing order of probability.

    Attributes
    ----------
    probability, frequency : arrays of shape (n_bins_in_use,)
        The mean predicted probability of the class, and its observed frequency.
    low, high : arrays of shape (n_bins_in_use,)
        The ends of the interval of the frequency.
    weight : array of shape (n_bins_in_use,)
        The number of rows, or their total weight.
    left, right : arrays of shape (n_bins_in_use,)
        The edges of the bin.
    """

    probability: np.ndarray
    frequency: np.ndarray
    low: np.ndarray
    high: np.ndarray
    weight: np.ndarray
    left: np.ndarray
    right: np.ndarray


def reliability_curve(
    y_true: Any,
    proba: Any,
    *,
    n_bins: int = 10,
    strategy: str = "uniform",
    level: float = 0.95,
    sample_weight: Any = None,
    pos_label: Any = None,
    classes: Any = None,
) -> ReliabilityCurve:
    r"""Observed frequency of a class among rows with similar predicted probabilities of it.

    Parameters
    ----------
    y_true : sequence of n labels
    proba : array of shape (n,), (n, 2) or (n, n_classes)
        The probability of the class, or the output of ``predict_proba``.
    n_bins : int
        The number of bins.  Empty bins are left out.
    strategy : {"uniform", "quantile"}
        Bins of equal width on [0, 1], or with equal numbers of rows; rows with the same probability always share a
        bin, so there may be fewer bins of the second kind.
    level : float
        Level of the intervals, which are Wilson's: pointwise, and suitable for bins with few rows.
    sample_weight : sequence of n weights, optional
        A row of weight k counts k times.  Intervals are based on the effective number of rows in a bin,
        :math:`(\sum w)^2 / \sum w^2`: equal weights leave them unchanged.
    pos_label, classes
        As in `expected_calibration_error`.

    Returns
    -------
    ReliabilityCurve

    Examples
    --------
    >>> curve = reliability_curve([0, 0, 0, 1], [0.1, 0.1, 0.4, 0.9], n_bins=2)
    >>> curve.probability.round(2), curve.frequency, curve.weight
    (array([0.2, 0.9]), array([0., 1.]), array([3., 1.]))
    >>> curve.high.round(2)
    array([0.56, 1.  ])
    """
    one_of("strategy", strategy, BINNINGS)
    outcome, p = outcomes(y_true, proba, pos_label, classes)
    weight = _some_weight(sample_weight, len(p))
    outcome, p, weight = outcome[weight > 0], p[weight > 0], weight[weight > 0]
    if strategy == "uniform":
        bins, edges = equal_width_bins(p, n_bins), np.linspace(0, 1, n_bins + 1)
    else:
        bins, edges = _equal_count_bins(p, n_bins, weight)
    n = np.bincount(bins, weight, len(edges) - 1)
    used = n > 0
    given, hits = (np.bincount(bins, weight * part, len(edges) - 1)[used] / n[used] for part in (p, outcome))
    # Rounding may move a share outside [0, 1] by 1e-16.
    hits = np.clip(hits, 0.0, 1.0)
    rows = n[used] ** 2 / np.bincount(bins, weight**2, len(edges) - 1)[used]
    low, high = wilson_interval(hits, rows, level)
    return ReliabilityCurve(given, hits, low, high, n[used], edges[:-1][used], edges[1:][used])


def wilson_interval(share: Any, n: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    r"""Wilson interval of a share of n rows: :math:`(p + z^2/2n \pm z \sqrt{p(1-p)/n + z^2/4n^2}) / (1 + z^2/n)`.

    It contains the values that a test of the share would not reject, and stays within [0, 1] even for shares of 0 or 1
    and few rows.

    Parameters
    ----------
    share : array or float
        Between 0 and 1.
    n : array or float
        The number of rows of which it is a share.
    level : float
        Between 0 and 1.

    Returns
    -------
    low, high : arrays

    Examples
    --------
    >>> low, high = wilson_interval(0.0, 10)
    >>> float(low), round(float(high), 3)
    (0.0, 0.278)
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    share, n = np.asarray(share, dtype=float), np.asarray(n, dtype=float)
    z = ndtri((1 + level) / 2)
    center = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    # Rounding may move an end to the wrong side of the share by 1e-17.
    return np.clip((center - half) / scale, 0.0, share), np.clip((center + half) / scale, share, 1.0)


# Rows and bins -----------------------------------------------------------------------------------


def outcomes(y_true: Any, proba: Any, pos_label: Any = None, classes: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row belongs to the class, as 0 or 1, and the predicted probability.

    >>> outcomes(["no", "yes"], [[0.75, 0.25], [0.5, 0.5]])
    (array([0., 1.]), array([0.25, 0.5 ]))
    """
    y, p = column_or_1d(y_true), np.asarray(proba, dtype=float)
    if not len(y) and not len(p):
        raise ValueError("There are no rows: y_true and proba are empty.")
    refuse_unlabelled(y)
    if p.ndim == 2 and p.shape[1] > 2:
        p = p[:, _column_of(pos_label, _classes_of(y, p, classes))]
    else:
        pos_label = _second_class(y, pos_label)
        p = p[:, 1] if p.ndim == 2 and p.shape[1] == 2 else p
    if p.ndim != 1:
        raise ValueError(f"proba must have shape (n,), (n, 2) or (n, n_classes), got {p.shape}.")
    if not np.all((p >= 0) & (p <= 1)):  # also false for NaN
        raise ValueError("proba must hold numbers between 0 and 1.")
    check_consistent_length(y, p)
    return (y == pos_label).astype(float), p


def equal_width_bins(p: np.ndarray, n_bins: int) -> np.ndarray:
    """The bin of each probability: closed on the left, the last one on both sides.

    >>> equal_width_bins(np.array([0.0, 0.5, 1.0]), 2)
    array([0, 1, 1])
    """
    positive_integer("n_bins", n_bins)
    return np.minimum((p * n_bins).astype(int), n_bins - 1)


def _equal_count_bins(p: np.ndarray, n_bins: int, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bin of each probability, closed on the right, and the edges of bins of about the same weight."""
    positive_integer("n_bins", n_bins)
    values, place = np.unique(p, return_inverse=True)
    total = np.cumsum(np.bincount(place, weight))
    # The value at which each share of the weight is reached, with a tolerance for rounding.
    reached = np.searchsorted(total, total[-1] * (np.arange(1, n_bins) / n_bins) * (1 - 1e-12))
    inner = np.unique(values[reached])
    inner = inner[inner < values[-1]]
    return np.searchsorted(inner, p), np.concatenate([values[:1], inner, values[-1:]])


def _some_weight(sample_weight: Any, n_rows: int) -> np.ndarray:
    weight = check_weights(sample_weight, n_rows)
    if not weight.any():
        raise ValueError("All weights are zero: at least one row needs a positive weight.")
    return weight


def _classes_of(y: np.ndarray, p: np.ndarray, classes: Any) -> list[Any]:
    """The classes of the columns of probabilities for more than two classes."""
    labels = (np.unique(y) if classes is None else np.asarray(classes)).tolist()
    if len(labels) == p.shape[1]:
        return labels
    found = f"y_true holds {len(labels)} classes" if classes is None else f"classes has {len(labels)} entries"
    raise ValueError(f"proba has shape {p.shape}, but {found}; give classes=, a label for each of its columns.")


def _column_of(pos_label: Any, labels: list[Any]) -> int:
    if pos_label is None:
        raise ValueError(f"proba has {len(labels)} columns; choose the class with pos_label=, one of {labels}.")
    if pos_label not in labels:
        raise ValueError(f"pos_label={pos_label!r} is not one of the classes {labels}.")
    return labels.index(pos_label)


def _second_class(y: np.ndarray, pos_label: Any) -> Any:
    if pos_label is not None:
        return pos_label
    labels = np.unique(y)
    if len(labels) > 2:
        raise ValueError(
            f"y_true must hold two classes, got {len(labels)}; give the one that proba refers to as pos_label=."
        )
    if y.dtype.kind in "bif" and set(labels.tolist()) <= {-1, 0, 1}:
        return 1
    if len(labels) < 2:
        raise ValueError(f"y_true holds one class only, {labels.tolist()}; give the positive class as pos_label=.")
    return labels[1]
