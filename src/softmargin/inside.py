"""Access to the classifier inside pipelines, searches and table classifiers, and to the rows it sees."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def fitted_inside(model: Any) -> Any:
    """The classifier inside fitted pipelines, searches and table classifiers.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from softmargin import BayesianLinearSVC
    >>> type(fitted_inside(make_pipeline(StandardScaler(), BayesianLinearSVC()).fit([[0.0], [1.0]], [0, 1]))).__name__
    'BayesianLinearSVC'
    """
    check_is_fitted(model)
    if isinstance(model, Pipeline):
        return fitted_inside(model[-1])
    for name in ("best_estimator_", "classifier_"):
        if hasattr(model, name):
            return fitted_inside(getattr(model, name))
    return model


def seen_inside(model: Any, X: Any) -> Any:
    """Rows as the classifier inside sees them."""
    if isinstance(model, Pipeline):
        return seen_inside(model[-1], model[:-1].transform(X) if len(model) > 1 else X)
    if hasattr(model, "best_estimator_"):
        return seen_inside(model.best_estimator_, X)
    if hasattr(model, "classifier_"):
        return seen_inside(model.classifier_, model.encode(X) if hasattr(model, "encode") else X)
    return X
