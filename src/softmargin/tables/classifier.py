"""A classifier of tables as they come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..chunks import source_of
from ..estimators import BayesianMixedSVC, BayesianSVC
from ..validation import meant
from .encoder import TableEncoder
from .frames import FrameTransformer, frame_of
from .lazily import pandas
from .streams import Encoded, by_columns, representative
from .tidier import TableTidier

__all__ = ["TableClassifier"]


def _inner_has(name: str) -> Any:
    """A method is there if the classifier has it."""

    def has(self: Any) -> bool:
        given = BayesianSVC() if self.classifier is None else self.classifier
        return hasattr(getattr(self, "classifier_", given), name)

    return available_if(has)


class TableClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier of frames with texts, dates and gaps: an encoder and a model, fitted and saved as one.

    Parameters
    ----------
    classifier : classifier, optional
        By default `BayesianSVC`.
    encoder : `TableEncoder`, optional
        By default one that keeps gaps for models which have their own way with them, and fills them for others.
        `BayesianMixedSVC` gets the frame itself, with dates in days.

    Attributes
    ----------
    classes_ : array of the classes
    encoder_ : the fitted encoder; ``encoder_.describe()`` says what became of each column
    classifier_ : the fitted model
    target_ : str or None
        The name of the column of labels, if it was given by name.  Predictions pass it by.
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, where they have names

    Examples
    --------
    >>> import pandas as pd
    >>> from softmargin import BayesianLinearSVC
    >>> from softmargin.tables import TableClassifier
    >>> frame = pd.DataFrame({
    ...     "age": [31, None, 54, 40, 28, 61], "city": ["Rome", "Oslo", "Rome", None, "Oslo", "Rome"],
    ...     "bought": ["no", "no", "yes", "no", "no", "yes"],
    ... })
    >>> model = TableClassifier(BayesianLinearSVC()).fit(frame, "bought")
    >>> model.predict(pd.DataFrame({"age": [65, 25], "city": ["Rome", "Oslo"]}))
    array(['yes', 'no'], dtype=object)
    """

    def __init__(self, classifier: Any = None, encoder: Any = None) -> None:
        self.classifier, self.encoder = classifier, encoder

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableClassifier:
        """Fits the encoder, then the classifier.

        Parameters
        ----------
        X : frame or array of shape (n_rows, n_columns), or a source of rows
            Rows to learn from.  Of files and other sources (`softmargin.chunks`) a sample decides what becomes of the
            columns, and batches are encoded as they are read: the table need not fit in memory.
        y : sequence of n_rows labels, or the name of a column of ``X``
        sample_weight : sequence of n_rows weights, or the name of a column of files, optional
            A row of weight k counts as k copies of it.

        Returns
        -------
        self
        """
        classifier: Any = clone(self.classifier) if self.classifier is not None else BayesianSVC()
        encoder: Any = clone(self.encoder) if self.encoder is not None else encoder_for(classifier)
        source = None if isinstance(X, np.memmap) else source_of(X, y, sample_weight)
        target = getattr(source, "target", y if isinstance(y, str) else None)
        if source is not None:
            encoder.fit(representative(source))
            classifier.fit(Encoded(source, encoder))
        else:
            X, y = (X, y) if target is None else _without(X, target)
            rows = _named(encoder, encoder.fit_transform(X), X)
            classifier.fit(rows, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        self.target_, self.encoder_, self.classifier_ = target, encoder, classifier
        self.classes_, self.n_features_in_ = classifier.classes_, encoder.n_features_in_
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def encode(self, X: Any) -> Any:
        """The rows that ``classifier_`` sees: a frame of pandas, an array for an array, or a source for a source."""
        check_is_fitted(self)
        source = None if isinstance(X, np.memmap) else source_of(X)
        if source is not None:
            return Encoded(by_columns(source, getattr(self, "feature_names_in_", None)), self.encoder_)
        frame = frame_of(X)
        if frame is not None and self.target_ in frame.columns:
            X = frame.drop(columns=self.target_)
        return _named(self.encoder_, self.encoder_.transform(X), X)

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class of each row."""
        return self._inner.predict(self.encode(X))

    @_inner_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        return self._inner.predict_proba(self.encode(X))

    @_inner_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """The logit of the second class, or a score for each of many classes."""
        return self._inner.decision_function(self.encode(X))

    @_inner_has("latent_mean_and_variance")
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The mean and variance of the latent value of each row."""
        return self._inner.latent_mean_and_variance(self.encode(X))

    def save(self, path: Any) -> None:
        """Writes encoder and model to one file, which `softmargin.load` reads."""
        from ..store import save

        save(self, path)

    @property
    def _inner(self) -> Any:
        check_is_fitted(self)
        return self.classifier_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classifier_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def encoder_for(classifier: Any, categorical: Iterable[str] = ()) -> FrameTransformer:
    """The encoder that a model is best served by, with columns whose numbers are names."""
    if isinstance(classifier, BayesianMixedSVC):
        return TableTidier(categorical=categorical)
    return TableEncoder(
        gaps="keep" if get_tags(classifier).input_tags.allow_nan else "fill", categorical=tuple(categorical)
    )


def _named(encoder: Any, rows: Any, given: Any) -> Any:
    """Rows under the names of their columns, if those that were given had names."""
    if not hasattr(given, "columns") or hasattr(rows, "columns"):
        return rows
    index = given.index if isinstance(given, pandas().DataFrame) else None
    return pandas().DataFrame(rows, columns=encoder.get_feature_names_out(), index=index)


def _without(X: Any, target: str) -> tuple[Any, Any]:
    """The other columns, and that of the labels."""
    frame = frame_of(X)
    if frame is None:
        raise ValueError(f"y={target!r} names a column, but X is no frame.")
    if target not in frame.columns:
        raise ValueError(f"There is no column {target!r}; {meant(target, map(str, frame.columns))}")
    n_missing = int(frame[target].isna().sum())
    if n_missing:
        raise ValueError(
            f"Column {target!r} is missing in {n_missing:,} rows: leave those out, nothing can be learned there."
        )
    return frame.drop(columns=target), frame[target].to_numpy()
