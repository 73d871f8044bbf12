"""Designs: the columns of a model, and how to compute them from a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from . import tables
from .formula import FormulaColumns, read, terms_of
from .levels import Grouping
from .nesting import Nesting, nesting
from .plain import PlainColumns
from .splines import Spline

Encoder = PlainColumns | FormulaColumns
_SLOPE = "a random slope"


class SplineTerm(NamedTuple):
    """A spline and its columns in the matrix."""

    name: str
    columns: slice


class Factor(NamedTuple):
    """A random term: what varies between the groups of a grouping factor.

    ``columns`` names it (``"Intercept"`` first, if ``intercept``), ``slopes`` says where the others are in the matrix,
    ``code`` where the groups are, ``levels`` the labels of the groups in the order of their codes.
    """

    name: str
    columns: tuple[str, ...]
    intercept: bool
    slopes: tuple[int, ...]
    code: int
    levels: np.ndarray
    correlated: bool

    @property
    def n_groups(self) -> int:
        return len(self.levels)


class _Term(NamedTuple):
    """A random term: the indices of its slopes and of its grouping among those of the design."""

    slopes: int
    grouping: int
    correlated: bool


@dataclass(frozen=True)
class Design:
    """Everything needed to compute the same columns from another table.

    Columns of the matrix, in order: fixed effects (no column for the intercept), splines, random slopes, and the code
    of the group for each grouping factor (-1 for a new group).

    >>> X = np.array([[0.5, 7], [1.5, 3], [2.5, 7]])
    >>> design = Design.from_columns(X, groups=1)
    >>> design.fixed_names, design.factors[0].levels
    (('x0',), array([3, 7]))
    >>> design.matrix(X)
    array([[0.5, 1. ],
           [1.5, 0. ],
           [2.5, 1. ]])
    """

    fixed: Encoder
    splines: tuple[Spline, ...]
    slopes: tuple[Encoder, ...]
    groupings: tuple[Grouping, ...]
    terms: tuple[_Term, ...]
    response_name: str | None = None
    n_features: int | None = None

    @classmethod
    def from_formula(cls, formula: str, frame: Any, weight: np.ndarray | None = None) -> Design:
        """``"y ~ a*b + s(x) + (1 + a|group)"``, or without the response; then `response` returns the labels as given.

        ``weight`` is the number of copies of each row.
        """
        parts = read(formula)
        frame = _with_rows(frame)
        if not hasattr(frame, "columns"):
            raise ValueError("A formula needs a frame with named columns, not an array.")
        varying = list(dict.fromkeys(term.varying for term in parts.random))
        grouped = list(dict.fromkeys(term.grouping for term in parts.random))
        terms = (_Term(varying.index(v), grouped.index(g), together) for v, g, together in parts.random)
        return cls(
            FormulaColumns(parts.fixed, frame),
            tuple(Spline.of(frame, column, df, weight=weight) for column, df in parts.splines.items()),
            tuple(FormulaColumns(terms_of(text), frame, _SLOPE) for text in varying),
            tuple(Grouping.of(frame, columns, columns) for columns in grouped),
            tuple(terms),
            parts.response,
        )._checked()

    @classmethod
    def from_columns(
        cls,
        X: Any,
        groups: Any,
        *,
        splines: Any = (),
        feature_names: Iterable[str] | None = None,
        intercept: bool = True,
        weight: np.ndarray | None = None,
    ) -> Design:
        """All columns except those of ``groups`` are fixed effects.

        Parameters
        ----------
        X : frame, or array of shape (n_rows, n_columns), whose columns are named by their positions
        groups : a column, a list of columns, or a dict from column to the list of columns whose slopes vary by group
            A tuple of columns within the list or dict stands for the groups that they define jointly.
        splines : list of columns with a curve in addition to their line, or a dict from column to number of functions
        feature_names : names of an array's columns, for reports
        intercept : whether the model has an intercept
        weight : number of copies of each row
        """
        X = _with_rows(X)
        known = tables.names(X)
        slopes = _slopes(X, groups)
        curved = {_key(X, name): df for name, df in _as_options(splines).items()}
        in_groups = {name for columns in slopes for name in columns}
        clash = in_groups & {*curved, *(name for names in slopes.values() for name in names)}
        if clash:
            raise ValueError(f"Column {clash.pop()!r} cannot be both a group and a slope or spline.")
        titles = _titles(X, feature_names)
        varying = list(dict.fromkeys(slopes.values()))
        return cls(
            PlainColumns.of(X, [name for name in known if name not in in_groups], titles, intercept),
            tuple(Spline.of(X, column, df, titles[column], weight) for column, df in curved.items()),
            tuple(PlainColumns.of(X, list(names), titles, True, _SLOPE) for names in varying),
            tuple(Grouping.of(X, columns, [titles[name] for name in columns]) for columns in slopes),
            tuple(_Term(varying.index(names), place, True) for place, names in enumerate(slopes.values())),
            n_features=None if hasattr(X, "columns") else X.shape[1],
        )._checked()

    def matrix(self, X: Any) -> np.ndarray:
        """The columns of this design for the rows of a table, in float64."""
        X = tables.as_table(X)
        if self.n_features is not None and tables.names(X) != list(range(self.n_features)):
            raise ValueError(f"X must be an array of {self.n_features} columns, as when the model was fitted.")
        tables.check_names(X, self.inputs)
        matrix, start = np.empty((X.shape[0], self.n_columns)), 0
        for part in (self.fixed, *self.splines, *self.slopes):
            block = part.matrix(X)
            matrix[:, start : start + block.shape[1]] = block
            start += block.shape[1]
        for place, grouping in enumerate(self.groupings):
            matrix[:, start + place] = grouping.codes(X)
        return matrix

    def response(self, frame: Any, y: Any = None) -> np.ndarray:
        """The labels: the column that the formula names, or ``y``, which must agree with that column if both exist."""
        named = self.response_name
        if named is None or (y is not None and named not in tables.names(frame)):
            if y is None:
                raise ValueError("There are no labels: give y, or name their column to the left of '~' in the formula.")
            return np.asarray(y)
        tables.check_names(frame, [named])
        labels = np.asarray(frame[named])
        if y is not None and not _same(labels, np.asarray(y)):
            raise ValueError(
                f"y differs from the column {named!r} that the formula names as the response: give only one, or "
                f"leave the left of '~' empty."
            )
        return labels

    def nesting(self, matrix: np.ndarray) -> Nesting:
        """How the factors are nested, by the codes in the matrix of the training rows."""
        codes = [matrix[:, factor.code].astype(np.int64) for factor in self.factors]
        return nesting(codes, [f.n_groups for f in self.factors], [len(f.columns) for f in self.factors])

    @property
    def intercept(self) -> bool:
        """Whether the fixed part has an intercept (which has no column)."""
        return self.fixed.intercept

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """The names of the fixed effects, which are the first columns of the matrix."""
        return self.fixed.names

    @property
    def n_fixed(self) -> int:
        return len(self.fixed.names)

    @property
    def n_columns(self) -> int:
        """The width of the matrix."""
        return self._first_code + len(self.groupings)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The columns that a table must have."""
        parts = [*self.fixed.inputs, *(spline.column for spline in self.splines)]
        parts += [name for slopes in self.slopes for name in slopes.inputs]
        parts += [name for grouping in self.groupings for name in grouping.columns]
        return tuple(dict.fromkeys(parts))

    @cached_property
    def spline_terms(self) -> tuple[SplineTerm, ...]:
        """The names of the splines, and their columns."""
        ends = self.n_fixed + np.cumsum([0, *(spline.n_columns for spline in self.splines)])
        return tuple(
            SplineTerm(spline.name, slice(int(start), int(stop)))
            for spline, start, stop in zip(self.splines, ends[:-1], ends[1:], strict=True)
        )

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The random terms; those of one grouping factor are combined if none of their columns are correlated."""
        starts = self._first_slope + np.cumsum([0, *(len(slopes.names) for slopes in self.slopes)])
        found: list[Factor] = []
        for term in self.terms:
            slopes, grouping = self.slopes[term.slopes], self.groupings[term.grouping]
            columns = ("Intercept",) * slopes.intercept + slopes.names
            places = tuple(range(starts[term.slopes], starts[term.slopes + 1]))
            correlated = term.correlated and len(columns) > 1
            code = self._first_code + term.grouping
            factor = Factor(grouping.name, columns, slopes.intercept, places, code, grouping.labels, correlated)
            _add(found, factor)
        return tuple(found)

    @property
    def _first_slope(self) -> int:
        return self.n_fixed + sum(spline.n_columns for spline in self.splines)

    @property
    def _first_code(self) -> int:
        return self._first_slope + sum(len(slopes.names) for slopes in self.slopes)

    def _checked(self) -> Design:
        _ = self.factors  # raises an error if terms repeat each other
        if not self.n_fixed and not self.intercept and not self.terms:
            raise ValueError("The model has no terms.")
        if self.response_name is not None and self.response_name in self.inputs:
            raise ValueError(f"{self.response_name!r} is on both sides of '~': labels cannot predict themselves.")
        return self


def _add(found: list[Factor], factor: Factor) -> None:
    """Adds a random term to others: merged with one for the same groups, or under its own name."""
    same = [other for other in found if other.code == factor.code]
    repeated = [name for other in same for name in other.columns if name in factor.columns]
    if repeated:
        raise ValueError(
            f"{repeated[0]!r} varies by {factor.name!r} in two terms; remove it from one, as in (0 + x|{factor.name})."
        )
    for other in same:
        if not other.correlated and not factor.correlated:
            first, second = (factor, other) if factor.intercept else (other, factor)
            found[found.index(other)] = first._replace(
                columns=first.columns + second.columns, slopes=first.slopes + second.slopes
            )
            return
    found.append(factor._replace(name=f"{factor.name}.{len(same)}") if same else factor)


def _with_rows(X: Any) -> Any:
    X = tables.as_table(X)
    if X.shape[0] == 0:
        raise ValueError("The table has no rows.")
    return X


def _same(labels: np.ndarray, y: np.ndarray) -> bool:
    return labels.shape == y.shape and bool(np.all(labels == y))


# Columns by name or position ---------------------------------------------------------------------


def _slopes(X: Any, groups: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Groups in any format, as a dict from the columns that define a factor to those whose slopes vary by it."""
    pairs = list(groups.items()) if isinstance(groups, Mapping) else [(group, ()) for group in _listed(groups)]
    if len(tables.names(X)) < X.shape[0] == len(pairs):
        raise ValueError("groups must name columns of X: add the group labels to X, as a column.")
    found = {}
    for group, names in pairs:
        columns = _keys(X, group)
        if columns in found:
            raise ValueError(f"{':'.join(map(str, columns))!r} is named twice in groups.")
        found[columns] = tuple(_key(X, name) for name in _listed(names))
    return found


def _listed(names: Any) -> list[Any]:
    """A list of names, from a list, a single name, or None."""
    if names is None:
        return []
    return list(names) if np.iterable(names) and not isinstance(names, str) else [names]


def _as_options(splines: Any) -> dict[Any, Any]:
    return dict(splines) if isinstance(splines, Mapping) else dict.fromkeys(_listed(splines))


def _keys(X: Any, group: Any) -> tuple[Any, ...]:
    """The columns that define a group: one, or those of a tuple that is not itself a name."""
    several = isinstance(group, tuple) and group not in tables.names(X)
    return tuple(_key(X, name) for name in group) if several else (_key(X, group),)


def _key(X: Any, name: Any) -> Any:
    """A column's name, or its non-negative position in an array."""
    known = tables.names(X)
    if not hasattr(X, "columns") and isinstance(name, (int, np.integer)) and -len(known) <= name < 0:
        return int(name) + len(known)
    tables.check_names(X, [name])
    return name


def _titles(X: Any, feature_names: Iterable[str] | None) -> dict[Any, str]:
    known = tables.names(X)
    if feature_names is None:
        return {name: str(name) if hasattr(X, "columns") else f"x{name}" for name in known}
    titles = [str(title) for title in feature_names]
    if len(titles) != len(known):
        raise ValueError(f"feature_names has {len(titles)} names for {len(known)} columns.")
    return dict(zip(known, titles, strict=True))
