"""Detection of adversarial rows."""

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
    """Detects rows about which a model is less certain than about ordinary ones.

    The threshold is a quantile over ordinary rows, chosen such that a new ordinary row raises a false alarm with a
    probability of at most ``false_alarm_rate``, whatever the model and the measure: of n + 1 exchangeable rows, each
    is equally likely to be the new one.  Rows at ``threshold_`` exactly raise no alarm, so ties are harmless.

    Parameters
    ----------
    model : a fitted classifier
    false_alarm_rate : float
        Between 0 and 1; a rate of 1 / n needs at least n - 1 rows.
    measure : {"variation_ratio", "entropy", "mutual_information"} or callable
        From `softmargin.uncertainty`, or a function of model and rows that is larger where the model is less certain.

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
        """Set the threshold from ordinary rows that the model was not fitted on; ``y`` is ignored."""
        rate = self.false_alarm_rate
        proper_share("false_alarm_rate", rate)
        scores = np.sort(self.score_samples(X))
        # The number of alarms allowed among these rows and a new one; rounded, since 0.05 is not exactly 1 / 20.
        alarms = math.floor(round((len(scores) + 1) * rate, 9))
        if alarms == 0:
            least = math.ceil(round(1 / rate, 9)) - 1
            raise ValueError(f"false_alarm_rate={rate} needs at least {least} ordinary rows, got {len(scores)}.")
        self.threshold_ = float(scores[-alarms])
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Measure of each row: the larger, the more suspicious."""
        if callable(self.measure):
            return np.asarray(self.measure(self.model, X))
        one_of("measure", self.measure, uncertainty.__all__)
        return getattr(uncertainty, self.measure)(self.model, X)

    def predict(self, X: Any) -> np.ndarray:
        """True for suspicious rows."""
        check_is_fitted(self)
        return self.score_samples(X) > self.threshold_


def detection_roc(clean_scores: Any, attacked_scores: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """ROC curve of scores that should be larger for attacked rows than for clean ones.

    Returns the rates of false and of true alarms at each threshold, and the area under the curve: the probability
    that an attacked row has a larger score than a clean one, with ties counting half.

    >>> fpr, tpr, auc = detection_roc([0.1, 0.2, 0.3], [0.3, 0.4])
    >>> round(auc, 3)
    0.917
    """
    scores = np.concatenate([column_or_1d(clean_scores), column_or_1d(attacked_scores)])
    attacked = np.arange(len(scores)) >= len(clean_scores)
    fpr, tpr, _ = roc_curve(attacked, scores)
    return fpr, tpr, float(roc_auc_score(attacked, scores))
