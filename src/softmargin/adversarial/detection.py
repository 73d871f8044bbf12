"""Who notices that rows were changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .. import uncertainty
from ..parameters import one_of, proper_share


class AdversarialDetector(BaseEstimator):
    """Finds rows of which a model is less sure than of ordinary ones.

    The threshold is a quantile of ordinary rows, such that a new row that is as ordinary gives a false alarm with a
    probability of at most ``false_alarm_rate``, whatever the model and the measure: of n + 1 exchangeable rows, each is
    as likely to be the new one.  Rows that reach ``threshold_`` without exceeding it give no alarm: ties do no harm.

    Parameters
    ----------
    model : a fitted classifier
    false_alarm_rate : float
        Between 0 and 1; a rate of 1 / n takes n - 1 rows or more.
    measure : {"variation_ratio", "entropy", "mutual_information"} or callable
        Of `softmargin.uncertainty`, or a function of model and rows whose values are larger where it is less sure.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X[:200], y[:200])
    >>> AdversarialDetector(model).fit(X[200:]).predict([[-1.0, 0.5], [9.0, 9.0]])
    array([False,  True])
    """

    def __init__(self, model: Any, false_alarm_rate: float = 0.05, measure: Any = "variation_ratio") -> None:
        self.model = model
        self.false_alarm_rate = false_alarm_rate
        self.measure = measure

    def fit(self, X: Any, y: Any = None) -> AdversarialDetector:
        """Chooses the threshold by ordinary rows that the model was not fitted on; ``y`` is ignored."""
        rate = self.false_alarm_rate
        proper_share("false_alarm_rate", rate)
        scores = np.sort(self.score_samples(X))
        # As many of these rows and a new one may give alarms; rounded, for 0.05 is not quite a twentieth.
        alarms = math.floor(round((len(scores) + 1) * rate, 9))
        if alarms == 0:
            least = math.ceil(round(1 / rate, 9)) - 1
            raise ValueError(f"false_alarm_rate={rate} takes at least {least} ordinary rows, got {len(scores)}.")
        self.threshold_ = float(scores[-alarms])
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """The measure of each row: the larger, the more suspicious."""
        if callable(self.measure):
            return np.asarray(self.measure(self.model, X))
        one_of("measure", self.measure, uncertainty.__all__)
        return getattr(uncertainty, self.measure)(self.model, X)

    def predict(self, X: Any) -> np.ndarray:
        """True where a row is suspicious."""
        check_is_fitted(self)
        return self.score_samples(X) > self.threshold_


def detection_roc(clean_scores: Any, attacked_scores: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """How well scores tell attacked rows, which should have the larger ones, from clean rows.

    Returns the rates of false and of true alarms at each threshold, and the area under the second by the first: the
    probability that an attacked row has a larger score than a clean one, ties counting half.

    >>> fpr, tpr, auc = detection_roc([0.1, 0.2, 0.3], [0.3, 0.4])
    >>> round(auc, 3)
    0.917
    """
    scores = np.concatenate([column_or_1d(clean_scores), column_or_1d(attacked_scores)])
    attacked = np.arange(len(scores)) >= len(clean_scores)
    fpr, tpr, _ = roc_curve(attacked, scores)
    return fpr, tpr, float(roc_auc_score(attacked, scores))
