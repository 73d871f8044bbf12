"""Frames for models that use categories by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .frames import FrameTransformer, counted, known_names
from .lazily import pandas
from .looking import kind_of, missing_of
from .plans import MISSING, Date, Number, Plan, Tell, as_days, holds_texts, levels_of, silent

__all__ = ["TableTidier"]


@dataclass(frozen=True)
class Name(Plan):
    """A column of categories, which is left as it is; missing entries form a category of their own."""

    name: str
    note: str = ""
    is_text: bool = False
    kind: ClassVar[str] = "name"

    @property
    def becomes(self) -> str:
        return "itself"

    @property
    def names(self) -> list[str]:
        return [self.name]

    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        raise TypeError(f"Column {self.name!r} holds text.")


class TableTidier(FrameTransformer):
    """Leaves a table nearly as it is, for `BayesianMixedSVC`, which handles categories, groups and missing numbers.

    Dates become days since the first one, under the name of their column; missing categories become a category; numbers
    written as strings become numbers.  No column is left out, since a formula may refer to it.

    Parameters
    ----------
    categorical : sequence of column names
        Columns whose numbers are categories.
    keep : sequence of column names
        As in `TableEncoder`; here every column is kept.

    Attributes
    ----------
    plans_ : tuple
        The encoding of each column, in order.
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, if they have names

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"city": ["Rome", None], "seen": ["2024-01-31", "2024-03-01"]})
    >>> TableTidier().fit(frame).transform(frame).values.tolist()
    [['Rome', 0.0], ['(missing)', 30.0]]
    """

    def __init__(self, *, categorical: Iterable[str] = (), keep: Iterable[str] = ()) -> None:
        self.categorical, self.keep = categorical, keep

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableTidier:
        """Examines the columns of a frame, ignoring rows of weight 0."""
        frame, weight = counted(self._frame(X, reset=True), sample_weight)
        names = [str(name) for name in frame.columns]
        wished, _ = (known_names(wish, getattr(self, wish), names) for wish in ("categorical", "keep"))
        self.plans_ = tuple(_plan_of(frame.iloc[:, i], name, name in wished, weight) for i, name in enumerate(names))
        return self

    def transform(self, X: Any) -> Any:
        """The frame with tidied columns, or an array for an array."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        columns = {plan.name: _tidy(plan, frame.iloc[:, i]) for i, plan in enumerate(self.plans_)}
        tidy = pandas().DataFrame(columns, index=frame.index)
        return tidy if hasattr(X, "columns") else tidy.to_numpy()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which do not change."""
        check_is_fitted(self)
        return np.array([plan.name for plan in self.plans_], dtype=object)


def _plan_of(column: Any, name: str, is_name: bool, weight: np.ndarray) -> Plan:
    kind, n_missing = "name" if is_name else kind_of(column), float(weight[column.isna()].sum())
    note = missing_of(n_missing, weight.sum()) if n_missing else ""
    if kind == "number":
        return Number(name, note=note + ", modelled" if note else "")
    if kind == "date":
        days = as_days(column, name)
        first = 0 if np.isnan(days).all() else int(np.floor(np.nanmin(days)))
        return Date(name, str(np.datetime64(first, "D")), note=note)
    return Name(name, note + ", as a separate level" if note else "", holds_texts(column))


def _tidy(plan: Plan, column: Any) -> np.ndarray:
    if not isinstance(plan, Name):
        return plan.numbers(column)[:, 0]
    levels, codes = levels_of(column)
    return np.array([*levels, MISSING], dtype=object)[codes]
