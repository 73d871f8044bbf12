"""Facts about a model and labelled rows: everything that the sections of a report show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from ..evaluation import Evaluation, codes_among, evaluate, members_of
from ..inside import seen_inside
from ..validation import check_weights
from .page import shown
from .rows import Rows

#: Limits on the number of bootstrap samples, and their total cost in rows times classes.
_DRAWS, _WORK = (100, 500), 1e8
#: The largest number of classes with drawings of their own, each in its own colour.
_MOST_DRAWN = 6
#: Maximum length of a class name.
_CLASS_LENGTH = 32


class Numbers(NamedTuple):
    """Columns as numbers: their names, and the weighted standard deviation of each in these rows."""

    names: list[str]
    spread: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray, names: list[Any], weight: np.ndarray) -> Numbers:
        there = ~np.isnan(matrix)
        total = np.maximum(weight @ there, 1e-300)
        filled = np.where(there, matrix, 0.0)
        away = filled - weight @ filled / total
        return cls([str(name) for name in names], np.sqrt(weight @ np.where(there, away**2, 0.0) / total))


@dataclass(frozen=True)
class Facts:
    """A model, rows, and the model's predictions for them.

    ``core`` is the softmargin classifier itself, without the steps that prepare its rows; ``codes`` are the indices of
    the labels in ``classes``, ``said`` those of the predicted classes; ``members`` are the groups of the rows, if any.
    """

    model: Any
    core: Any
    X: Any
    rows: Rows
    classes: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    members: np.ndarray | None
    proba: np.ndarray
    reference: np.ndarray | None
    random_state: Any
    is_weighted: bool

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, sample_weight: Any, groups: Any, reference: Any, random_state: Any
    ) -> Facts:
        """Checks the input, and computes the probabilities of the model once."""
        check_is_fitted(model)
        if not hasattr(model, "predict_proba"):
            raise ValueError(f"A report needs a classifier with predict_proba, got {type(model).__name__}.")
        core = core_of(model)
        X, y = _apart(model, core, X, y)
        rows = Rows(X, getattr(model, "feature_names_in_", None))
        if not rows.n_rows:
            raise ValueError("X has no rows: a report needs rows with labels.")
        check_consistent_length(X, y)
        weight = check_weights(sample_weight, rows.n_rows)
        if not weight.any():
            raise ValueError("All weights are zero: at least one row needs a positive weight.")
        classes = np.asarray(model.classes_)
        codes = codes_among(y, classes, "the model does")
        members = None if groups is None else members_of(groups, rows.n_rows)
        proba = np.asarray(model.predict_proba(X), dtype=float)
        other = None if reference is None else _reference(reference, X, classes, proba.shape)
        judged = (classes, codes, weight, members, proba, other)
        return cls(model, core, X, rows, *judged, random_state, sample_weight is not None)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def class_names(self) -> list[str]:
        """The classes as text."""
        return [shown(label, _CLASS_LENGTH) for label in self.classes.tolist()]

    @cached_property
    def drawn_classes(self) -> list[int]:
        """The classes that have drawings of their own, in order: those of largest weight, if there are many."""
        order = np.argsort(-self.shares, kind="stable")[:_MOST_DRAWN]
        return sorted(int(k) for k in order if self.shares[k] > 0)

    def colour(self, k: int) -> str:
        """The colour of a class in all drawings, different for each class that is drawn."""
        return f"c{k if self.n_classes == 2 else self.drawn_classes.index(k)}"

    @cached_property
    def said(self) -> np.ndarray:
        return self.proba.argmax(axis=1)

    @cached_property
    def is_wrong(self) -> np.ndarray:
        return self.said != self.codes

    @cached_property
    def evaluation(self) -> Evaluation:
        """The measures, with intervals."""
        return self._measured(self.proba)

    @cached_property
    def reference_evaluation(self) -> Evaluation | None:
        """The measures of the reference model, on the same bootstrap samples."""
        return None if self.reference is None else self._measured(self.reference)

    @cached_property
    def baseline(self) -> Evaluation:
        """The measures of a guess by class proportions alone."""
        return self._measured(np.tile(self.shares, (len(self.codes), 1)), n_bootstrap=1)

    def _measured(self, proba: np.ndarray, **options: Any) -> Evaluation:
        labels = self.classes[self.codes]
        n_bootstrap = int(np.clip(_WORK / proba.size, *_DRAWS))
        options = {
            "n_bootstrap": n_bootstrap,
            "sample_weight": self.weight,
            "groups": self.members,
            "random_state": self.random_state,
        } | options
        return evaluate(labels, np.clip(proba, 0, 1), classes=self.classes, **options)

    @cached_property
    def shares(self) -> np.ndarray:
        """The proportion of the total weight in each class."""
        totals = np.bincount(self.codes, self.weight, self.n_classes)
        return totals / totals.sum()

    @cached_property
    def confusion(self) -> np.ndarray:
        """The weight of rows by actual and by predicted class."""
        place = self.codes * self.n_classes + self.said
        return np.bincount(place, self.weight, self.n_classes**2).reshape(self.n_classes, self.n_classes)

    @cached_property
    def numbers(self) -> Numbers | None:
        """The columns that the classifier itself sees; None if they cannot be determined."""
        seen = self.X if self.core is self.model else seen_inside(self.model, self.X)
        if getattr(self.core, "design_", None) is not None:  # a formula defines its own columns
            names = list(self.core.fixed_names_)
            return Numbers.of(np.asarray(self.core.design_.matrix(seen))[:, : len(names)], names, self.weight)
        try:
            matrix = (seen.toarray() if scipy.sparse.issparse(seen) else np.asarray(seen)).astype(float)
        except (TypeError, ValueError):
            return None
        return Numbers.of(matrix, self._names(seen, matrix.shape[1]), self.weight)

    def _names(self, seen: Any, n_columns: int) -> list[Any]:
        """The names of columns, from the classifier, the rows it sees, or the given rows."""
        for names in (getattr(self.core, "feature_names_in_", None), getattr(seen, "columns", None), self.rows.names):
            if names is not None and len(names) == n_columns:
                return list(names)
        return [f"x{k}" for k in range(n_columns)]


def core_of(model: Any) -> Any:
    """The classifier inside a pipeline or table classifier, or the model itself."""
    if isinstance(model, Pipeline):
        return core_of(model[-1])
    return model.classifier_ if hasattr(model, "encode") else model


def _apart(model: Any, core: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Rows and labels, separated if the labels are a column of a frame."""
    name = y if isinstance(y, str) else getattr(model, "target_", None)
    if name is None:
        name = getattr(getattr(core, "design_", None), "response_name", None)
    if name is not None and hasattr(X, "columns") and name in X.columns:
        y = X[name] if y is None or isinstance(y, str) else y
        X = X.drop(columns=[name]) if hasattr(X, "iloc") else X.drop(name)
    if isinstance(y, str):
        raise ValueError(f"y={y!r} is not a column of X.")
    if y is None:
        raise ValueError("y is None: a report needs the labels of the rows.")
    return X, column_or_1d(np.asarray(y))


def _reference(reference: Any, X: Any, classes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The probabilities of the reference, a model or an array."""
    if hasattr(reference, "predict_proba"):
        if not np.array_equal(reference.classes_, classes):
            raise ValueError("reference must have the same classes as the model, in the same order.")
        reference = reference.predict_proba(X)
    proba = np.asarray(reference, dtype=float)
    if proba.shape != shape:
        raise ValueError(f"reference must be a classifier or probabilities of shape {shape}, got {proba.shape}.")
    return proba
