"""A frame for models that take names as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .frames import FrameTransformer, known_names
from .lazily import pandas
from .looking import kind_of
from .plans import MISSING, Date, Number, Plan, as_days, levels_of

__all__ = ["TableTidier"]


@dataclass(frozen=True)
class Name(Plan):
    """A column of names, which stays what it is; a gap is a name as well."""

    name: str
    note: str = ""
    kind: ClassVar[str] = "name"

    @property
    def becomes(self) -> str:
        return "itself"

    @property
    def names(self) -> list[str]:
        return [self.name]

    def numbers(self, column: Any) -> np.ndarray:
        raise TypeError(f"Column {self.name!r} holds names.")


class TableTidier(FrameTransformer):
    """Leaves a table nearly as it is, for `BayesianMixedSVC`, which knows names, groups and gaps among numbers.

    Dates become days since the first one, under the name of their column; missing names become a name; numbers that
    were written as texts become numbers.  No column is left out, for a formula may ask for it.

    Parameters
    ----------
    categorical : sequence of column names
        Columns whose numbers are names.

    Attributes
    ----------
    plans_ : tuple
        What becomes of each column, in order.
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, where they have names

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"city": ["Rome", None], "seen": ["2024-01-31", "2024-03-01"]})
    >>> TableTidier().fit(frame).transform(frame).values.tolist()
    [['Rome', 0.0], ['(missing)', 30.0]]
    """

    def __init__(self, *, categorical: Iterable[str] = ()) -> None:
        self.categorical = categorical

    def fit(self, X: Any, y: Any = None) -> TableTidier:
        """Looks at the columns of a frame."""
        frame = self._frame(X, reset=True)
        names = [str(name) for name in frame.columns]
        wished = known_names("categorical", self.categorical, names)
        self.plans_ = tuple(_plan_of(frame.iloc[:, i], name, name in wished) for i, name in enumerate(names))
        return self

    def transform(self, X: Any) -> Any:
        """The frame in order."""
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        columns = {plan.name: _tidy(plan, frame.iloc[:, i]) for i, plan in enumerate(self.plans_)}
        return pandas().DataFrame(columns, index=frame.index)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns, which stay."""
        check_is_fitted(self)
        return np.array([plan.name for plan in self.plans_], dtype=object)


def _plan_of(column: Any, name: str, is_name: bool) -> Plan:
    kind, n_missing = "name" if is_name else kind_of(column), int(column.isna().sum())
    note = f"{n_missing:,} of {len(column):,} missing" if n_missing else ""
    if kind == "number":
        return Number(name, note=note + ", modelled" if note else "")
    if kind == "date":
        return Date(name, str(np.datetime64(int(np.floor(np.nanmin(as_days(column, name)))), "D")), note=note)
    return Name(name, note + ", a name of their own" if note else "")


def _tidy(plan: Plan, column: Any) -> np.ndarray:
    if not isinstance(plan, Name):
        return plan.numbers(column)[:, 0]
    levels, codes = levels_of(column)
    return np.array([*levels, MISSING], dtype=object)[codes]
