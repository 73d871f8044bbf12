"""What transformers of frames share: checks of names and columns, and a description of the encoding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names, check_array, check_is_fitted

from ..entries import with_gaps
from ..parameters import meant
from ..validation import check_weights, refuse_unread
from .lazily import pandas
from .plans import Plan

__all__ = ["FrameTransformer", "counted", "frame_of", "known_names", "names_of"]


class FrameTransformer(TransformerMixin, BaseEstimator):
    """A transformer with a plan for each column of a frame."""

    plans_: tuple[Plan, ...]
    n_features_in_: int

    def describe(self) -> Any:
        """How each column is encoded: a frame of ``column``, ``kind``, ``becomes`` and ``note``."""
        check_is_fitted(self)
        rows = [(plan.name, plan.kind, plan.becomes, plan.note) for plan in self.plans_]
        return pandas().DataFrame(rows, columns=["column", "kind", "becomes", "note"])

    @property
    def texts_(self) -> tuple[str, ...]:
        """The columns that held strings in ``fit``; `read_table` reads them as such from other files."""
        return tuple(plan.name for plan in self.plans_ if getattr(plan, "is_text", False))

    def _frame(self, X: Any, reset: bool) -> Any:
        """The table as a pandas frame with the columns of ``fit``."""
        given = frame_of(X)
        if given is None:
            # An array has no names and a single type; strings are allowed, and the plans report infinite values.
            any_type: Any = None
            X = check_array(with_gaps(X), dtype=any_type, ensure_all_finite=False, estimator=self)
            if X.dtype.kind == "c":
                raise ValueError("Complex data not supported.")
            given = _plain(pandas().DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]))
        elif given.columns.duplicated().any():
            raise ValueError(f"Two columns are called {given.columns[given.columns.duplicated()][0]!r}; rename one.")
        else:
            given = _plain(given)
        _refuse_lists(given)
        if reset:
            self.n_features_in_ = given.shape[1]
        _check_feature_names(self, X if not hasattr(X, "columns") else given, reset=reset)
        if given.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {given.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                f"features as input."
            )
        if not len(given):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required: the table has no rows.")
        return given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def frame_of(X: Any) -> Any:
    """A pandas frame, converted from polars or Arrow if necessary; None if ``X`` is not a frame."""
    pd = pandas()
    if isinstance(X, pd.DataFrame):
        return X
    refuse_unread(X, arrow=True)
    if type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "to_pandas") and hasattr(X, "columns"):
        return X.to_pandas()
    if hasattr(X, "columns") and hasattr(X, "to_dict"):
        return pd.DataFrame({str(name): pd.Series(X[name].to_list()) for name in X.columns})
    return None


def _plain(frame: Any) -> Any:
    """The frame with dtypes native to pandas instead of Arrow's, and objects only where no other dtype fits."""
    plain = frame.copy(deep=False)
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pandas().ArrowDtype):
            plain[name] = frame[name].array.__arrow_array__().to_pandas().set_axis(frame.index)
        elif isinstance(dtype, np.dtype) and not dtype.isnative:  # as in FITS files; pandas can do little with them
            plain[name] = frame[name].to_numpy().astype(dtype.newbyteorder("="))
    return plain.infer_objects()


def _refuse_lists(frame: Any) -> None:
    is_list = pandas().api.types.is_list_like
    for name, dtype in frame.dtypes.items():
        if not isinstance(dtype, np.dtype) or dtype.kind != "O":
            continue
        lists = frame[name].map(is_list)
        if lists.any():
            raise ValueError(
                f"Column {name!r} holds lists, such as {frame[name][lists].tolist()[0]!r}: write their entries "
                f"to separate columns, or leave it out."
            )


def counted(frame: Any, weight: Any) -> tuple[Any, np.ndarray]:
    """The rows of positive weight, and their weights."""
    weight = check_weights(weight, len(frame))
    counts = weight > 0
    if not counts.any():
        raise ValueError("All weights are zero: at least one row needs a positive weight.")
    return (frame, weight) if counts.all() else (frame[counts], weight[counts])


def names_of(wished: str | Iterable[str]) -> tuple[str, ...]:
    """Names of columns, of which a single one may be given without a list."""
    return (wished,) if isinstance(wished, str) else tuple(wished)


def known_names(parameter: str, wished: str | Iterable[str], names: list[str]) -> tuple[str, ...]:
    """The names given by a parameter, after checking that each is a column."""
    wished = names_of(wished)
    for name in wished:
        if name not in names:
            raise ValueError(f"{parameter} names {name!r}, which is not a column of the table; {meant(name, names)}")
    return wished
