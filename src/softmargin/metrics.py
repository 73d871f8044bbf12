"""What scikit-learn does not measure: how far probabilities are from frequencies.

Log loss and the Brier score are `sklearn.metrics.log_loss` and `sklearn.metrics.brier_score_loss`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d

from .validation import check_weights, positive_integer

__all__ = ["expected_calibration_error"]


def expected_calibration_error(
    y_true: Any, proba: Any, n_bins: int = 15, *, sample_weight: Any = None, pos_label: Any = None
) -> float:
    r"""The mean distance between the probability of the second class and its frequency, over equal-width bins.

    With :math:`W_k` the weight of the rows whose probability falls in bin k and :math:`W` that of all rows,

    .. math:: ECE = \sum_k \frac{W_k}{W} \left| \bar y_k - \bar p_k \right|

    where :math:`\bar y_k` and :math:`\bar p_k` are the share of the second class and the mean probability there.
    Bins are closed on the left, the last one on both sides; empty bins count nothing.  With few rows in a bin the
    measure is biased upwards, even for perfect probabilities.

    Parameters
    ----------
    y_true : sequence of n labels
        Labels of two classes.
    proba : array of shape (n,) or (n, 2)
        The probability of the second class, or what ``predict_proba`` returns.
    n_bins : int
        The number of bins on [0, 1].
    sample_weight : sequence of n weights, optional
        A row of weight k counts as k copies of it.
    pos_label : label, optional
        The second class.  By default the greater of the two labels, or 1 if all labels are 0, 1 or -1.

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
    outcome, p = outcomes(y_true, proba, pos_label)
    bins = equal_width_bins(p, n_bins)
    weight = check_weights(sample_weight, len(p))
    if not weight.any():
        raise ValueError("All weights are zero: at least one row needs a positive weight.")
    # W_k |mean outcome - mean p| is |sum of w (outcome - p)|: no division, and nothing to do for empty bins.
    gaps = np.bincount(bins, weights=weight * (outcome - p), minlength=n_bins)
    return float(np.abs(gaps).sum() / weight.sum())


def outcomes(y_true: Any, proba: Any, pos_label: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Whether each row is of the second class, as 0 and 1, and the probability that it was given.

    >>> outcomes(["no", "yes"], [[0.75, 0.25], [0.5, 0.5]])
    (array([0., 1.]), array([0.25, 0.5 ]))
    """
    y, p = column_or_1d(y_true), _second_column(proba)
    check_consistent_length(y, p)
    return (y == _second_class(y, pos_label)).astype(float), p


def equal_width_bins(p: np.ndarray, n_bins: int) -> np.ndarray:
    """The bin of each probability: closed on the left, the last one on both sides.

    >>> equal_width_bins(np.array([0.0, 0.5, 1.0]), 2)
    array([0, 1, 1])
    """
    positive_integer("n_bins", n_bins)
    return np.minimum((p * n_bins).astype(int), n_bins - 1)


def _second_column(proba: Any) -> np.ndarray:
    p = np.asarray(proba, dtype=float)
    if p.ndim == 2 and p.shape[1] == 2:
        p = p[:, 1]
    if p.ndim != 1:
        raise ValueError(f"proba must have shape (n,) or (n, 2), got {p.shape}.")
    if not np.all((p >= 0) & (p <= 1)):  # also false for NaN
        raise ValueError("proba must hold numbers between 0 and 1.")
    return p


def _second_class(y: np.ndarray, pos_label: Any) -> Any:
    if pos_label is not None:
        return pos_label
    labels = np.unique(y)
    if len(labels) > 2:
        raise ValueError(f"y_true must hold two classes, got {len(labels)}.")
    if y.dtype.kind in "bif" and set(labels.tolist()) <= {-1, 0, 1}:
        return 1
    if len(labels) < 2:
        raise ValueError(f"y_true holds one class only, {labels.tolist()}; say which is the second with pos_label=.")
    return labels[1]
