"""The names of the columns that the classifier inside a model sees, and the classes to show."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..inside import fitted_inside


def column_names(model: Any, names: Any, n_columns: int) -> list[str]:
    """The names of the columns that the inner classifier sees: those given, those it knows, or x0, x1, ..."""
    if names is None:
        names = _known_names(model)
    if names is None:
        return [f"x{index}" for index in range(n_columns)]
    if len(names) != n_columns:
        raise ValueError(
            f"names must have an entry for each of the {n_columns} columns of the model, got {len(names)}."
        )
    return [str(name) for name in names]


def _known_names(model: Any) -> Any:
    inside = fitted_inside(model)
    for name in ("fixed_names_", "feature_names_in_"):
        if hasattr(inside, name):
            return getattr(inside, name)
    if hasattr(model, "best_estimator_"):
        return _known_names(model.best_estimator_)
    if isinstance(model, Pipeline) and len(model) > 1 and inside is model[-1]:
        try:
            return model[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # a step without feature names
            return None
    return None


def class_places(model: Any, label: Any, n_sets: int) -> tuple[list[int], list[Any] | None]:
    """Indices of the sets of coefficients to show, for one label or all, and their classes (None for a single set)."""
    classes = np.asarray(model.classes_).tolist()
    if n_sets == 1:
        if label is not None:
            raise ValueError(f"label is for more than two classes; with two, coefficients refer to {classes[-1]!r}.")
        return [0], None
    if label is None:
        return list(range(n_sets)), classes
    if label not in classes:
        raise ValueError(f"label={label!r} is not one of the classes {classes}.")
    return [classes.index(label)], [label]


def shortest_list(n_columns: int, top: int | None) -> int:
    """The number of columns to show."""
    if top is not None and (not isinstance(top, (int, np.integer)) or isinstance(top, bool) or top < 1):
        raise ValueError(f"top must be an integer >= 1, or None for all, got {top!r}.")
    return n_columns if top is None else min(int(top), n_columns)
