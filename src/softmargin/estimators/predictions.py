"""What all estimators do alike: predictions from latent values, and fits that fail without harm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..links import Link, probabilities, settled


class LatentPredictions:
    """The methods of a classifier that has latent moments and a link: one score, from which all else follows."""

    classes_: np.ndarray
    link_: Link

    @abstractmethod
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The mean and variance of the latent value of each row."""

    def decision_function(self, X: Any) -> np.ndarray:
        """The logit of the probability of ``classes_[1]``, for each row; of more than two classes, a score for each,
        of which ``predict_proba`` is the softmax."""
        mu, v = self.latent_mean_and_variance(X)
        return settled(self.link_.score(mu, v))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class, for each row; columns are in the order of ``classes_``."""
        return probabilities(self.decision_function(X))

    def predict(self, X: Any) -> np.ndarray:
        """The likelier class of each row."""
        score = self.decision_function(X)
        return self.classes_[(score > 0).astype(int) if score.ndim == 1 else probabilities(score).argmax(axis=1)]


@contextmanager
def kept_on_failure(model: Any) -> Iterator[None]:
    """A fit that fails leaves the model as it was, the names of its columns included."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        vars(model).clear()
        vars(model).update(before)
        raise
