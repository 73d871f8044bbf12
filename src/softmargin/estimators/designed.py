"""Classifiers whose columns come from a formula, or from named columns: the path from a table to numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..chunks import Source
from ..columns import Columns, describe
from ..design import Design, Factor, Nesting, SplineTerm
from ..validation import check_weights, keep_names, refuse_infinite, refuse_unread
from .base import BayesianClassifier, Data
from .reading import representatives, rows_of_few

#: Matches the names of functions called in a formula.
_CALLS = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
#: In new rows, columns with random slopes are clipped at this many spreads, as for fixed effects.
_FAR = 1e15


class DesignedClassifier(BayesianClassifier):
    """A classifier on the columns of ``design_``, which is None without a formula, groups or splines.

    Columns with random slopes are divided by their spread, like fixed effects, so that the prior of the variances
    does not depend on the user's units.
    """

    formula: str | None
    groups: Any
    splines: Any
    fit_intercept: bool
    standardize: bool
    _nesting: Nesting
    _units: np.ndarray
    _SPARSE = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.formula is not None and not (_is_empty(self.groups) and _is_empty(self.splines)):
            raise ValueError("Give either a formula, or groups and splines, but not both.")

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any, classes: np.ndarray | None = None, first: bool = True
    ) -> Data:
        """Checks the data after dropping rows of weight 0, so that their groups do not count either."""
        self.design_: Design | None = None
        if self.formula is None and _is_empty(self.groups) and _is_empty(self.splines):
            return super()._check_data(X, y, sample_weight, classes, first)
        refuse_unread(X)
        copies = check_weights(sample_weight, _num_samples(X))
        if copies.any() and not copies.all():
            there = np.flatnonzero(copies)
            X, y, copies = _safe_indexing(X, there), y if y is None else _safe_indexing(y, there), copies[there]
        self.design_ = self._design_of(X, copies if copies.any() else None)
        data = super()._check_data(X, y, copies, classes, first)
        self._units = np.ones(self.design_.n_columns)
        slopes = self._slopes
        if self.standardize and slopes:
            self._units[slopes] = describe(data.X[:, slopes], data.weight).spread
        np.divide(data.X, self._units, out=data.X)
        return data

    @property
    def _FRAMES(self) -> bool:  # type: ignore[override]  # noqa: N802
        """Whether there is a design, which needs batches of rows as frames where possible."""
        return not (self.formula is None and _is_empty(self.groups) and _is_empty(self.splines))

    def _check_source(self, source: Source, jobs: int) -> Data:
        """Checks a source; groups and categories are those of all rows, so finding them takes a reading of its own."""
        self.design_ = None
        if not self._FRAMES:
            return super()._check_source(source, jobs)
        few = rows_of_few(source)
        if few is not None:
            return self._check_data(few.X, few.y, few.weight)
        self._refuse_functions()
        rows = representatives(source, self._design_of, jobs)
        self.design_ = self._design_of(rows, None)
        matrix = self.design_.matrix(rows)
        keep_names(self, rows, self.design_.inputs)
        self._nesting, self._units = self.design_.nesting(matrix), np.ones(self.design_.n_columns)
        data = super()._check_source(source, jobs)
        slopes = self._slopes
        if not self.standardize or not slopes:
            return data
        columns = data.described()
        self._units[slopes] = columns.spread[slopes]
        return data._replace(X=data.X / self._units, columns=Columns(*(part / self._units for part in columns)))

    def _refuse_functions(self) -> None:
        """Refuses functions and splines that need all rows at once, when these are not in memory."""
        right = (self.formula or "").rpartition("~")[2]
        known = sorted(name for name in set(_CALLS.findall(right)) if name != "I" and not name.startswith("np."))
        if known or not _is_empty(self.splines):
            raise ValueError(
                f"{', '.join(known) or 'splines'} would need all rows in memory to find knots, means or categories; "
                f"write such columns to the files, or fit a sample."
            )

    def _design_of(self, X: Any, weight: np.ndarray | None) -> Design:
        if self.formula is not None:
            return Design.from_formula(self.formula, X, weight)
        intercept = bool(self.fit_intercept)
        return Design.from_columns(X, self.groups, splines=self.splines, intercept=intercept, weight=weight)

    def _numbers(self, X: Any, reset: bool = False, names: bool = True) -> np.ndarray:
        if self.design_ is None:
            return super()._numbers(X, reset, names).astype(np.float64, copy=False)
        matrix = self.design_.matrix(X)
        if not len(matrix):
            raise ValueError("The table has no rows: at least one is needed.")
        refuse_infinite(matrix[:, : self.design_.n_fixed], self.design_.fixed_names)
        if reset:
            keep_names(self, X, self.design_.inputs)
            self._nesting = self.design_.nesting(matrix)
        else:
            _disown(matrix, self.design_, self._nesting)
            with np.errstate(over="ignore"):
                matrix /= self._units
            matrix[:, self._slopes] = np.clip(matrix[:, self._slopes], -_FAR, _FAR)
        return matrix

    def _labels(self, X: Any, y: Any) -> Any:
        return y if self.design_ is None else self.design_.response(X, y)

    @property
    def _factors(self) -> tuple[Factor, ...]:
        return () if self.design_ is None else self.design_.factors

    @property
    def _slopes(self) -> list[int]:
        """Columns of the design whose slopes vary by group."""
        return sorted({column for factor in self._factors for column in factor.slopes})

    @property
    def _chain(self) -> list[Factor]:
        """Nested factors, finest first."""
        return [] if self.design_ is None else [self._factors[index] for index in self._nesting.chain]

    @property
    def _crossed(self) -> list[Factor]:
        return [] if self.design_ is None else [self._factors[index] for index in self._nesting.crossed]

    @property
    def _curves(self) -> tuple[SplineTerm, ...]:
        return () if self.design_ is None else self.design_.spline_terms

    def _units_of(self, factor: Factor) -> np.ndarray:
        """The units by which effects of a factor are divided to put them in the user's units."""
        return np.append(np.ones(int(factor.intercept)), self._units[list(factor.slopes)])

    def _fixed_names(self, n_fixed: int) -> tuple[str, ...]:
        if self.design_ is not None:
            return self.design_.fixed_names
        return tuple(getattr(self, "feature_names_in_", [f"x{index}" for index in range(n_fixed)]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        left, tilde, _ = (self.formula if isinstance(self.formula, str) else "").partition("~")
        tags.target_tags.required = not (tilde and left.strip())
        return tags


def _is_empty(names: Any) -> bool:
    return names is None or (hasattr(names, "__len__") and len(names) == 0)


def _disown(matrix: np.ndarray, design: Design, nesting: Nesting) -> None:
    """Marks groups as unknown (-1) where they appear under another parent than in the fit: they are new groups."""
    for place, parent in enumerate(nesting.parents):
        code, above = (design.factors[nesting.chain[index]].code for index in (place, place + 1))
        known = matrix[:, code] >= 0
        codes = matrix[known, code].astype(int)
        matrix[np.flatnonzero(known)[parent[codes] != matrix[known, above]], code] = -1
