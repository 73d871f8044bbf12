"""Frames of any columns, encoded as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..parameters import one_of, positive_integer
from .frames import FrameTransformer, counted, known_names
from .looking import Wishes, plan_of
from .plans import OTHER, Left, Plan, Tell, silent

__all__ = ["TableEncoder", "encoded", "warn_of"]

GAPS = ("fill", "keep")
#: How a warning of columns that were left out begins, and how many columns have their reasons listed in a message.
LEFT_OUT, _REASONS = "Columns left out", 5
_WISHES = ("categorical", "drop", "keep")


class TableEncoder(FrameTransformer):
    """Encodes a table of numbers, categories, dates and missing values as numbers; `describe` shows how.

    - Numbers and booleans are unchanged.
    - Categories (texts, categoricals) become a 0/1 column for each level, or one column for two levels.  Rare
      levels beyond ``max_levels`` are pooled.
    - Dates become days since the first one and, if these vary, sine and cosine of the time of year, week and day.
      Time zones are converted to UTC; dates without one are taken as UTC.
    - Uninformative columns are left out: constant or empty ones, row numbers, texts that differ in nearly every row.
      A warning names the last two, and ``keep`` includes them.  Numbers count as row numbers only in the order of the
      rows, or in the reverse: in another order they may be ranks.

    Parameters
    ----------
    gaps : {"fill", "keep"}
        Whether missing entries are filled (by the median, or as a separate level), with an indicator column if there
        are ten or more; or kept as NaN for models that handle them, such as `BayesianLinearSVC`.
    max_levels : int
        Maximum number of levels of a category that get their own column.
    categorical : sequence of column names
        Columns whose numbers stand for categories: codes of regions, of products.  A `TableClassifier` reads them from
        text files as strings, so that 007 is not 7; for a frame, use ``read_table(path, texts=[...])``.
    drop : sequence of column names
        Columns to leave out.
    keep : sequence of column names
        Columns to use even if they look like row numbers or identifiers.

    Attributes
    ----------
    plans_ : tuple
        The encoding of each column, in order.
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, if they have names

    Notes
    -----
    `transform` expects the columns of ``fit`` in the same order; additional columns, or another order, are an error, as
    everywhere in scikit-learn: use ``frame[encoder.feature_names_in_]``.  It warns if more than half of the values of a
    category were never seen in ``fit``, as happens if codes are written in another way.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "age": [31.0, None, 54.0],
    ...     "city": ["Rome", "Oslo", "Rome"],
    ...     "seen": ["2024-01-31", "2024-02-29", "2024-07-01"],
    ... })
    >>> encoder = TableEncoder().fit(frame)
    >>> encoder.transform(frame)[:, :3]
    array([[ 31. ,   1. ,   0. ],
           [ 42.5,   0. ,  29. ],
           [ 54. ,   1. , 152. ]])
    >>> encoder.get_feature_names_out()[:4].tolist()
    ['age', 'city=Rome', 'seen days', 'seen year sine']
    >>> encoder.describe()[["column", "kind", "note"]].values.tolist()[0]
    ['age', 'number', '1 of 3 missing, replaced by the median']
    """

    def __init__(
        self,
        *,
        gaps: str = "fill",
        max_levels: int = 30,
        categorical: Iterable[str] = (),
        drop: Iterable[str] = (),
        keep: Iterable[str] = (),
    ) -> None:
        self.gaps, self.max_levels = gaps, max_levels
        self.categorical, self.drop, self.keep = categorical, drop, keep

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> TableEncoder:
        """Determine the encoding of each column of ``X``, a frame or an array.

        Parameters
        ----------
        X : frame or array of shape (n_rows, n_columns)
        y : ignored
        sample_weight : sequence of n_rows weights, optional
            For medians, levels and missing values, a row of weight k counts as k copies of it, and rows of weight 0
            are ignored.  Whether a column only identifies rows does not depend on weights.
        """
        one_of("gaps", self.gaps, GAPS)
        positive_integer("max_levels", self.max_levels)
        frame, weight = counted(self._frame(X, reset=True), sample_weight)
        if len(frame) < 2:
            raise ValueError("The table has 1 sample: at least two rows are needed.")
        wishes = self._wishes([str(name) for name in frame.columns])
        self.plans_ = tuple(plan_of(frame.iloc[:, i], str(name), wishes, weight) for i, name in enumerate(frame))
        _refuse_twice(self.plans_)
        if not self._names:
            reasons = "; ".join(f"{plan.name!r}: {plan.note}" for plan in self.plans_[:_REASONS])
            raise ValueError(f"No usable column is left ({reasons}).")
        _tell_of_left(self.plans_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Encode the columns of ``X`` as numbers."""
        check_is_fitted(self)
        return self._numbers(X, warn_of)

    def _numbers(self, X: Any, tell: Tell) -> np.ndarray:
        frame = self._frame(X, reset=False)
        parts = [plan.numbers(frame.iloc[:, i], tell) for i, plan in enumerate(self.plans_)]
        return np.concatenate(parts, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns returned by `transform`."""
        check_is_fitted(self)
        _check_names_out(self, input_features)
        return np.array(self._names, dtype=object)

    def _wishes(self, names: list[str]) -> Wishes:
        categorical, drop, keep = (known_names(wish, getattr(self, wish), names) for wish in _WISHES)
        both = set(drop) & set(keep)
        if both:
            raise ValueError(f"Column {min(both)!r} is in both drop and keep: remove it from one of them.")
        return Wishes(self.gaps == "keep", self.max_levels, categorical, drop, keep)

    @property
    def _names(self) -> list[str]:
        return [name for plan in self.plans_ for name in plan.names]


def encoded(encoder: Any, X: Any, tell: Tell = silent) -> Any:
    """Rows as any encoder transforms them; ``tell`` receives what a `TableEncoder` would warn of."""
    return encoder._numbers(X, tell) if isinstance(encoder, TableEncoder) else encoder.transform(X)


def _tell_of_left(plans: Iterable[Plan]) -> None:
    """Warns of columns that were left out although they could be informative."""
    left = [plan for plan in plans if isinstance(plan, Left) and plan.is_guess]
    if left:
        reasons = [f"{plan.name!r} ({plan.note})" for plan in left[:_REASONS]]
        more = f" and {len(left) - _REASONS} more, as describe() shows" if len(left) > _REASONS else ""
        warnings.warn(f"{LEFT_OUT}: {', '.join(reasons)}{more}.", stacklevel=3)


def warn_of(name: str, message: str) -> None:
    """Warns of what is wrong with a column."""
    warnings.warn(message, stacklevel=2)


def _refuse_twice(plans: Iterable[Plan]) -> None:
    """Refuses plans whose encoded columns share a name, which the model could not tell apart."""
    makers: dict[str, Plan] = {}
    for plan in plans:
        for name in plan.names:
            other = makers.setdefault(name, plan)
            if other is not plan:
                raise ValueError(f"Columns {other.name!r} and {plan.name!r} would both become {name!r}: rename one.")
        if len(set(plan.names)) < len(plan.names):
            twice = next(name for name in plan.names if plan.names.count(name) > 1)
            others = "rare levels" if twice.endswith(OTHER) else "gaps"
            raise ValueError(f"Column {plan.name!r} has a level that becomes {twice!r}, as its {others} do: rename it.")


def _check_names_out(encoder: TableEncoder, input_features: Any) -> None:
    if input_features is None:
        return
    known = getattr(encoder, "feature_names_in_", None)
    if known is not None and not np.array_equal(known, input_features):
        raise ValueError("input_features is not equal to feature_names_in_")
    if len(input_features) != encoder.n_features_in_:
        raise ValueError(f"input_features should have length equal to number of features ({encoder.n_features_in_})")
