"""What all estimators share: predictions from latent values, and fits that leave the model unchanged if they fail."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.utils.validation import check_is_fitted

from ..arrays import NotPositiveDefiniteError
from ..chunks.cluster import mapped
from ..devices import beside
from ..links import Link, log_probabilities, probabilities, settled
from ..rows.inducing import UselessKernelError

#: The error message where sums over rows have lost all precision.
_TOO_FAR_APART = (
    "Columns or weights differ by so many orders of magnitude that sums over rows are lost to rounding. Leave "
    "standardize and fit_intercept as True if the model has them, centre columns, drop those that repeat others, and "
    "bring sample_weight and class_weight closer to 1."
)


def anywhere(method: Callable[[Any, Any], Any]) -> Any:
    """Decorates a method for rows so that it returns its results where the rows are.

    For tensors, results are tensors on the same device; for Dask rows, they are Dask arrays that are not computed yet.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any) -> Any:
        if is_torch_array(X):
            return beside(method(self, X), X)
        if type(X).__module__.partition(".")[0] not in ("dask", "dask_expr"):
            return method(self, X)
        check_is_fitted(self)
        dtype = self.classes_.dtype if method.__name__ == "predict" else np.float64
        return mapped(self, method.__name__, X, self._shape_of_row(method.__name__), dtype)

    return wrapped


class LatentPredictions:
    """The methods of a classifier that has latent moments and a link; all of them derive from one score."""

    classes_: np.ndarray
    link_: Link

    @abstractmethod
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent value of each row."""

    def _latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Latent moments as NumPy arrays, wherever the rows are."""
        return self.latent_mean_and_variance(X)

    def _score(self, X: Any) -> np.ndarray:
        mu, v = self._latent(X)
        return settled(self.link_.score(mu, v))

    def _shape_of_row(self, method: str) -> list[tuple[int, ...]]:
        """The shapes of what a method returns for a row."""
        many = (len(self.classes_),)
        scores = many if len(self.classes_) > 2 else ()
        own = {"predict": (), "predict_proba": many, "predict_log_proba": many}.get(method, scores)
        return [own] * (2 if method == "latent_mean_and_variance" else 1)

    @anywhere
    def decision_function(self, X: Any) -> np.ndarray:
        """Logit of the probability of ``classes_[1]`` for each row; with more than two classes, a score for each, of
        which ``predict_proba`` is the softmax.
        """
        return self._score(X)

    @anywhere
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of every class for each row, with columns in the order of ``classes_``."""
        return probabilities(self._score(X))

    @anywhere
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of ``predict_proba``, finite where a probability rounds to zero."""
        return log_probabilities(self._score(X))

    @anywhere
    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        return self._likelier(self._sides(X))

    def _sides(self, X: Any) -> np.ndarray:
        """The scores, or values with the same signs that are cheaper to compute."""
        return self._score(X)

    def _likelier(self, score: np.ndarray) -> np.ndarray:
        """The most probable class of each row, from its scores."""
        return self.classes_[(score > 0).astype(int) if score.ndim == 1 else probabilities(score).argmax(axis=1)]


@contextmanager
def kept_on_failure(model: Any) -> Iterator[None]:
    """A context in which a fit that fails leaves the model as it was, including the names of its columns."""
    before = dict(vars(model))
    try:
        yield
    except BaseException as error:
        vars(model).clear()
        vars(model).update(before)
        lost = isinstance(error, (NotPositiveDefiniteError, np.linalg.LinAlgError))
        if lost and not isinstance(error, UselessKernelError):
            raise ValueError(_TOO_FAR_APART) from error
        raise
