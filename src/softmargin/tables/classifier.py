"""A classifier for raw tables."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
    is_outlier_detector,
    is_regressor,
)
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from ..chunks import source_of
from ..design.formula import read
from ..estimators import BayesianMixedSVC, BayesianSVC
from ..estimators.kernel import KernelClassifier
from ..parameters import how_many, meant
from ..splits import fingerprints, n_among, n_sketched, sketch, told_of_twins
from ..validation import check_weights
from .encoder import TableEncoder, encoded, warn_of
from .frames import FrameTransformer, frame_of, names_of
from .lazily import pandas
from .plans import Left, Tell, holds_texts, silent
from .streams import Encoded, by_columns, representative, with_texts
from .tidier import TableTidier

__all__ = ["TableClassifier"]


def _inner_has(name: str) -> Any:
    """A condition for `available_if`: whether the inner classifier has the method."""

    def has(self: Any) -> bool:
        given = BayesianSVC() if self.classifier is None else self.classifier
        return hasattr(getattr(self, "classifier_", given), name)

    return available_if(has)


class TableClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier for frames with text, dates and missing values: an encoder and a model, fitted and saved as one.

    Parameters
    ----------
    classifier : classifier, optional
        By default `BayesianSVC`.
    encoder : `TableEncoder`, optional
        By default one that keeps missing values for linear models, which model them, and fills and flags them for
        others; kernel models also accept ``TableEncoder(gaps="keep")``.
        `BayesianMixedSVC` receives the frame itself, with dates in days.
    keep : sequence of column names
        Columns to use even if they look like row numbers or identifiers.  Only for the default encoder; set it on your
        own encoder directly.

    Attributes
    ----------
    classes_ : array of the class labels
    encoder_ : the fitted encoder; ``encoder_.describe()`` shows how each column is encoded
    classifier_ : the fitted model
    target_, weight_ : str or None
        The names of the columns of labels and of weights, if they were given by name.  Predictions ignore them.
    seen_ : array or None
        Fingerprints of the training rows, or of a part of them, by which `n_seen` recognises them.
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, if they have names

    Notes
    -----
    Frames for prediction must have the columns of ``fit`` in the same order, optionally with labels and weights; other
    columns, or another order, are an error, as everywhere in scikit-learn.  Files are read with the types of ``fit``;
    ``read_table(path, like=model)`` does the same for a frame.

    ``link_``, ``loo_log_loss_`` and ``n_jobs`` are those of ``classifier_``, if it has them.

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

    def __init__(self, classifier: Any = None, encoder: Any = None, keep: Iterable[str] = ()) -> None:
        self.classifier, self.encoder, self.keep = classifier, encoder, keep

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableClassifier:
        """Fit the encoder, then the classifier.

        Parameters
        ----------
        X : frame or array of shape (n_rows, n_columns), or a source of rows
            Training rows.  For files and other sources (`softmargin.chunks`), the encoding is determined from a sample,
            and batches are encoded as they are read: the table need not fit in memory.
        y : sequence of n_rows labels, or the name of a column of ``X``
            By default the column on the left of the classifier's formula, if there is one.
        sample_weight : sequence of n_rows weights, or the name of a column of ``X``, optional
            A row of weight k counts as k copies of it, for the classifier and for the encoder's medians, missing
            values and rare levels.

        Returns
        -------
        self
        """
        classifier: Any = clone(self.classifier) if self.classifier is not None else BayesianSVC()
        if is_outlier_detector(classifier) or is_regressor(classifier):
            raise ValueError(
                f"TableClassifier needs a classifier, and {type(classifier).__name__} learns no classes: encode the "
                f"table with TableEncoder, for example in a pipeline."
            )
        encoder: Any = self._unfitted_encoder(classifier)
        if y is None and (isinstance(X, str | PathLike) or frame_of(X) is not None):
            y = _response(classifier)
        source = None if isinstance(X, np.memmap) else source_of(X, y, sample_weight)
        target = getattr(source, "target", y if isinstance(y, str) else None)
        weight = getattr(source, "weight", sample_weight)
        if source is not None:
            source = with_texts(source, getattr(encoder, "categorical", ()))
            _fitted(encoder, *representative(source))
            classifier.fit(Encoded(source, encoder))
            self.seen_ = None
        else:
            X, y = (X, y) if target is None else _without(X, target, "y")
            X, sample_weight = _without(X, weight, "sample_weight") if isinstance(weight, str) else (X, weight)
            rows = _named(encoder, encoded(_fitted(encoder, X, sample_weight), X), X)
            classifier.fit(rows, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
            self.seen_ = _remembered(encoder, rows, X, sample_weight)
        self.target_, self.weight_ = target, weight if isinstance(weight, str) else None
        self.encoder_, self.classifier_ = encoder, classifier
        self.classes_, self.n_features_in_ = classifier.classes_, encoder.n_features_in_
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = encoder.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _unfitted_encoder(self, classifier: Any) -> Any:
        keep = names_of(self.keep)
        if self.encoder is None:
            return encoder_for(classifier, keep=keep)
        if keep:
            raise ValueError("keep is for the default encoder: set it on the encoder that you pass.")
        return clone(self.encoder)

    def encode(self, X: Any) -> Any:
        """The rows as passed to ``classifier_``: a pandas frame, an array for an array, or a source for a source."""
        check_is_fitted(self)
        source = None if isinstance(X, np.memmap) else source_of(X)
        if source is not None:
            names = getattr(self, "feature_names_in_", None)
            return Encoded(by_columns(source, names, getattr(self.encoder_, "texts_", ())), self.encoder_, set())
        return self._encoded(X, warn_of)

    def _encoded(self, X: Any, tell: Tell = silent) -> Any:
        """Rows in memory as ``classifier_`` receives them."""
        frame = frame_of(X)
        if frame is not None and {self.target_, self.weight_} & set(frame.columns):
            X = frame.drop(columns=[self.target_, self.weight_], errors="ignore")
        return _named(self.encoder_, encoded(self.encoder_, X, tell), X)

    def n_seen(self, X: Any) -> int:
        """Number of these rows that are equal to training rows, estimated if there are more than 4,096.

        This matters for evaluation.  Entries are compared as the classifier receives them, and texts that it does
        not use; after a fit from a source no row is recognised.
        """
        if self.seen_ is None or source_of(X) is not None:
            return 0
        return n_among(fingerprints(_comparable(self.encoder_, self._encoded(X), X)), self.seen_)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of each row."""
        return self._inner.predict(self.encode(X))

    @_inner_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, in the order of ``classes_``."""
        return self._inner.predict_proba(self.encode(X))

    @_inner_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of ``predict_proba``."""
        return self._inner.predict_log_proba(self.encode(X))

    @_inner_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Logit of the second class, or a score for each of many classes."""
        return self._inner.decision_function(self.encode(X))

    @_inner_has("latent_mean_and_variance")
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent value of each row."""
        return self._inner.latent_mean_and_variance(self.encode(X))

    @_inner_has("sample_latent")
    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values of the rows, the last axis; before it classes, if more than two."""
        return self._inner.sample_latent(self.encode(X), n_samples, random_state)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; labels and weights may be named as columns of a frame, as in ``fit``.

        By default, labels are in the same column as in ``fit``.
        """
        check_is_fitted(self)
        y = self.target_ if y is None and frame_of(X) is not None else y
        if isinstance(sample_weight, str) and frame_of(X) is not None:
            X, sample_weight = _without(X, sample_weight, "sample_weight")
        X, y = _without(X, y, "y") if isinstance(y, str) and frame_of(X) is not None else (X, y)
        return float(super().score(X, y, sample_weight))

    @property
    def link_(self) -> Any:
        """The map from latent values to probabilities."""
        return self.classifier_.link_

    @property
    def loo_log_loss_(self) -> Any:
        """Leave-one-out log loss on the training rows."""
        return self.classifier_.loo_log_loss_

    @property
    def n_jobs(self) -> Any:
        """Number of threads of the classifier."""
        return (self.classifier_ if hasattr(self, "classifier_") else self.classifier).n_jobs

    def save(self, path: Any) -> None:
        """Save encoder and model to one file, which `softmargin.load` reads."""
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


def told_of_seen(model: Any, X: Any) -> str | None:
    """A note if evaluation rows may have been training rows of the model; None if there is nothing to say."""
    if getattr(model, "seen_", None) is None:
        return None
    n = model.n_seen(X)
    return told_of_twins(_comparable(model.encoder_, model._encoded(X), X), n, n_sketched(model.seen_)) if n else None


def encoder_for(classifier: Any, categorical: Iterable[str] = (), keep: Iterable[str] = ()) -> FrameTransformer:
    """The encoder that suits a model; ``categorical`` and ``keep`` name columns to treat as categories, or to keep."""
    if isinstance(classifier, BayesianMixedSVC):
        return TableTidier(categorical=categorical, keep=keep)
    # Kernel models could average over missing entries, but with a column that marks them, filling is as good.
    modelled = get_tags(classifier).input_tags.allow_nan and not isinstance(classifier, KernelClassifier)
    return TableEncoder(gaps="keep" if modelled else "fill", categorical=tuple(categorical), keep=tuple(keep))


def _named(encoder: Any, rows: Any, given: Any) -> Any:
    """Rows as a frame with column names, if the given rows had names."""
    if not hasattr(given, "columns") or hasattr(rows, "columns"):
        return rows
    index = given.index if isinstance(given, pandas().DataFrame) else None
    return pandas().DataFrame(rows, columns=encoder.get_feature_names_out(), index=index)


def _comparable(encoder: Any, rows: Any, given: Any) -> Any:
    """What identifies a row: its encoded numbers, and texts that the encoder leaves out, such as identifiers."""
    frame = frame_of(given)
    left = [plan.name for plan in getattr(encoder, "plans_", ()) if isinstance(plan, Left)]
    texts = [] if frame is None else [name for name in left if holds_texts(frame[name])]
    if not texts:
        return rows
    return pandas().DataFrame(rows).assign(**{f"{name} as text": _as_objects(frame, name) for name in texts})


def _remembered(encoder: Any, rows: Any, given: Any, weight: Any) -> np.ndarray | None:
    """A sketch of the training rows, by which they can be recognised; None for sparse rows."""
    if issparse(rows):
        return None
    prints = fingerprints(_comparable(encoder, rows, given))
    return sketch(prints[check_weights(weight, len(prints)) > 0])


def _as_objects(frame: Any, name: str) -> np.ndarray:
    return frame[name].to_numpy(object)


def _response(classifier: Any) -> str | None:
    """The column on the left-hand side of a model's formula."""
    formula = getattr(classifier, "formula", None)
    return read(formula).response if isinstance(formula, str) else None


def _without(X: Any, name: str, parameter: str) -> tuple[Any, Any]:
    """The other columns, and the column of labels or weights."""
    frame = frame_of(X)
    if frame is None:
        raise ValueError(f"{parameter}={name!r} names a column, but X is not a frame.")
    if name not in frame.columns:
        raise ValueError(f"There is no column {name!r}; {meant(name, map(str, frame.columns))}")
    n_missing = int(frame[name].isna().sum())
    if n_missing:
        raise ValueError(
            f"Column {name!r} is missing in {how_many(n_missing, 'row')}: drop them, as nothing can be learned from "
            f"rows without it."
        )
    # Booleans with missing entries are objects, and remain so when the missing entries have been dropped.
    return frame.drop(columns=name), frame[name].infer_objects().to_numpy()


def _fitted(encoder: Any, X: Any, weight: Any) -> Any:
    """The fitted encoder; if it does not support weights, it sees the rows with positive weight."""
    if weight is None or has_fit_parameter(encoder, "sample_weight"):
        return encoder.fit(X, **({} if weight is None else {"sample_weight": weight}))
    counts = check_weights(weight, _num_samples(X)) > 0
    frame = frame_of(X)
    return encoder.fit(_safe_indexing(X if frame is None else frame, np.flatnonzero(counts)))
