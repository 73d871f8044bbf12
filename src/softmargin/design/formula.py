"""Formulas, parsed and evaluated by the package formulae.

Two things are done here, because formulae would lose information.  Random terms are cut out of the text first, in order
to keep track of which columns vary together (``(x|g)``) and which do not (``(x||g)``).  Missing values are replaced
while columns are computed and restored afterwards, so that no row is dropped and no mean is distorted.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ..parameters import how_many
from . import tables
from .levels import Levels, categories, category_codes

_TOKENS = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\|\||.", re.DOTALL)
_BARS = ("|", "||")
_MAKES_CATEGORIES = ("B", "C", "S", "T", "binary")


class RandomTerm(NamedTuple):
    """``(varying | grouping)``: the columns that vary by group, and the columns that define a group."""

    varying: str
    grouping: tuple[str, ...]
    correlated: bool


class Formula(NamedTuple):
    """A parsed formula."""

    text: str
    response: str | None
    fixed: list[Any]
    splines: dict[str, Any]
    random: tuple[RandomTerm, ...]


def read(formula: str) -> Formula:
    """Parses ``"y ~ fixed + s(x) + (varying | group)"``; the response is optional."""
    _formulae()
    if not isinstance(formula, str):
        raise ValueError(f"formula must be a string such as 'y ~ x + (1|group)', got {formula!r}.")
    sides = [text for _, text in _cut(formula, ("~",))]
    if len(sides) > 2:
        raise ValueError(f"There is more than one '~' in the formula {formula!r}.")
    if not sides[-1].strip():
        raise ValueError(f"There is nothing to fit in the formula {formula!r}; an example is 'y ~ x + (1|group)'.")
    summands = [(sign, text, _bar(text)) for sign, text in _cut(sides[-1], ("+", "-"))]
    fixed_text = "".join(sign + text for sign, text, bar in summands if bar is None).strip()
    if "|" in "".join(token for token in _TOKENS.findall(fixed_text) if token[0] not in "`'\""):
        raise ValueError(f"Random terms must be in brackets and added, as in + (1|group); got {formula!r}.")
    if any(bar is not None and sign == "-" for sign, _, bar in summands):
        raise ValueError(f"Random terms can only be added, not subtracted: {formula!r}.")
    fixed, splines = _without_splines(_terms(fixed_text.lstrip("+") or "1", formula))
    random = [term for _, _, bar in summands if bar is not None for term in _random_terms(*bar, formula)]
    return Formula(formula, _response(sides, formula), fixed, splines, tuple(random))


def terms_of(varying: str) -> list[Any]:
    """The terms on the left of a bar."""
    terms = _terms(varying, varying)
    if not terms:
        raise ValueError(f"Nothing varies by group in ({varying} | ...): write 1 for an intercept.")
    if _without_splines(terms)[1]:
        raise ValueError(f"A spline cannot vary by group: ({varying} | ...).")
    return terms


def _formulae() -> Any:
    try:
        import formulae
    except ImportError as error:
        raise ImportError('Formulas need the package formulae: pip install "softmargin[formula]".') from error
    return formulae


def _cut(text: str, marks: tuple[str, ...]) -> list[tuple[str, str]]:
    """Splits a formula at marks outside brackets and quotes; each piece comes with the mark before it.

    >>> _cut("a - f(b + 1) + `c + d`", ("+", "-"))
    [('', 'a '), ('-', ' f(b + 1) '), ('+', ' `c + d`')]
    """
    pieces, depth = [("", "")], 0
    for token in _TOKENS.findall(text):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and token in marks:
            pieces.append((token, ""))
        else:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + token)
    return pieces


def _bar(text: str) -> tuple[str, str, bool] | None:
    """The two sides of a bar in brackets, and whether varying columns are correlated; None if there is no bar."""
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        return None
    sides = _cut(text[1:-1], _BARS)
    if len(sides) == 1:
        return None
    if len(sides) > 2:
        raise ValueError(f"There is more than one bar in {text}.")
    return sides[0][1].strip(), sides[1][1].strip(), sides[1][0] == "|"


def _random_terms(varying: str, factors: str, correlated: bool, formula: str) -> list[RandomTerm]:
    """A term for each factor on the right of a bar: ``a/b`` means ``a + a:b``."""
    from formulae.terms import Intercept, Variable

    found = []
    for term in _terms(factors, formula):
        if isinstance(term, Intercept):
            continue
        if not all(isinstance(component, Variable) for component in term.components):
            raise ValueError(f"Groups must be columns of the frame; compute {term.name!r} as a column first.")
        found.append(RandomTerm(varying, tuple(component.name for component in term.components), correlated))
    if not found:
        raise ValueError(f"There is no group to the right of the bar in ({varying} | {factors}).")
    return found


def _response(sides: list[str], formula: str) -> str | None:
    name = sides[0].strip() if len(sides) == 2 else ""
    if not name:
        return None
    if re.fullmatch(r"`[^`]+`", name):
        return name[1:-1]
    if not re.fullmatch(r"[^\W\d][\w.]*", name):
        raise ValueError(f"The left side of a formula must be a column of labels; compute {name!r} as a column first.")
    return name


def _terms(text: str, formula: str) -> list[Any]:
    """The terms of a formula, or part of one, without bars."""
    from formulae.parser import Parser
    from formulae.resolver import Resolver
    from formulae.scanner import Scanner
    from formulae.terms import Intercept, Model, Term

    try:
        parser = Parser(Scanner(text).scan())
        tree = parser.parse()
        if not parser.at_end():  # formulae would ignore the rest
            raise ValueError(f"did not expect {parser.peek().lexeme!r}")
        found = Resolver(tree).resolve()
    except Exception as error:  # errors of formulae have no common class
        raise ValueError(f"Could not read {text!r} in the formula {formula!r}: {error}") from error
    terms = found.common_terms if isinstance(found, Model) else [found]
    numbers = [name for term in terms if isinstance(term, Term) for name in term.var_names if not isinstance(name, str)]
    if numbers:
        raise ValueError(f"The number {numbers[0]} is not a term of {formula!r}; write I(...) for arithmetic.")
    return [term for term in terms if isinstance(term, (Intercept, Term))]


def _without_splines(terms: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Terms with each ``s(x, df=...)`` replaced by its linear term ``x``, and the degrees of freedom by column."""
    from formulae.terms import Term, Variable

    straight, splines = [], {}
    for term in terms:
        calls = [part.call for part in getattr(term, "components", ()) if _is_spline(part)]
        if calls:
            if len(term.components) > 1:
                raise ValueError(f"Splines can be added, but not multiplied: {term.name!r}.")
            column, df = _spline(calls[0])
            if column in splines:
                raise ValueError(f"There are two splines of {column!r} in the formula.")
            splines[column] = df
            term = Term(Variable(column))
        if term not in straight:
            straight.append(term)
    return straight, splines


def _is_spline(component: Any) -> bool:
    return hasattr(component, "call") and component.call.callee == "s"


def _spline(call: Any) -> tuple[str, Any]:
    """Column and degrees of freedom of ``s(x)``, ``s(x, 10)`` or ``s(x, df=10)``."""
    column, *rest = [*call.args, None]
    options = {**({"df": rest[0]} if len(call.args) > 1 else {}), **call.kwargs}
    if not hasattr(column, "name") or len(call.args) > 2 or set(options) - {"df"}:
        raise ValueError(f"Write a spline as s(column) or s(column, df=10), not {call}.")
    df = options.get("df")
    return column.name, None if df is None else getattr(df, "value", str(df))


# Evaluation --------------------------------------------------------------------------------------


class FormulaNames:
    """Names that a formula may use besides columns: NumPy as ``np``, and formulae's transforms."""

    @property
    def namespace(self) -> dict[str, Any]:
        from formulae.categorical import ENCODINGS
        from formulae.transforms import TRANSFORMS

        return {"np": np, **TRANSFORMS, **ENCODINGS}


class _Variable(NamedTuple):
    """What is stored of a column: its levels, or a number of its type that replaces missing ones during evaluation."""

    levels: Levels | None
    stand_in: Any


class FormulaColumns:
    """Columns of terms, with the state (categories, means, knots) of the frame from which they were learned.

    A missing number makes every column derived from it missing.  If ``use`` says what the columns are for, they must be
    complete.
    """

    def __init__(self, terms: list[Any], X: Any, use: str | None = None) -> None:
        from formulae.matrices import DesignMatrices
        from formulae.terms import Intercept, Model

        self.use = use
        self.intercept = any(isinstance(term, Intercept) for term in terms)
        self.variables = {name: _remembered(X, name, terms) for name in _variables(terms, X)}
        frame, missing = self._complete(X)
        rest = [term for term in terms if not isinstance(term, Intercept)]
        try:
            with np.errstate(all="ignore"):
                for term in rest:  # means and knots come from rows where the term is not missing
                    term.set_type(frame[~_any(missing, term, len(frame))], FormulaNames())
                model = DesignMatrices(Model(*terms), frame, FormulaNames())
        except (KeyError, AttributeError) as error:
            raise ValueError(
                f"Unknown name in the formula: {error}. Besides columns, functions of NumPy, such as np.log, and of "
                f"formulae are known: center, scale, C, bs and others."
            ) from error
        evaluated = model.common.terms.values() if model.common is not None else ()
        self.terms = [term for term in evaluated if not isinstance(term, Intercept)]
        for term in self.terms:
            if any(component.kind not in ("numeric", "categoric") for component in term.components):
                raise ValueError(f"{term.name!r} is neither a number nor a category; no other terms are supported.")
        self.names = tuple(name for term in self.terms for name in term.labels)
        _forget_rows(self.terms)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.variables)

    def matrix(self, X: Any) -> np.ndarray:
        """One row for each row of ``X``, and one column for each of ``names``."""
        frame, missing = self._complete(X)
        matrix, start, every = np.empty((len(frame), len(self.names))), 0, self._with_every_level(frame)
        for term in self.terms:
            with np.errstate(all="ignore"):
                block = np.asarray(term.eval_new_data(every), dtype=np.float64)[: len(frame)]
            block = block[:, None] if block.ndim == 1 else block
            _refuse_undefined(term.name, block)
            stop = start + block.shape[1]
            matrix[:, start:stop] = block
            _refuse_missing_categories(term, missing)
            matrix[_any(missing, term, len(frame)), start:stop] = np.nan
            start = stop
        return matrix

    def _with_every_level(self, frame: Any) -> Any:
        """The rows, followed by some in which every category occurs, as formulae's C() and S() require."""
        import pandas as pd

        sizes = [len(variable.levels.labels) for variable in self.variables.values() if variable.levels is not None]
        if not sizes or len(frame) == 0:
            return frame
        extra = frame.iloc[np.zeros(max(sizes), dtype=int)].reset_index(drop=True)
        for name, variable in self.variables.items():
            if variable.levels is not None:
                size = len(variable.levels.labels)
                codes = np.arange(len(extra)) % size
                extra[name] = pd.Categorical.from_codes(codes, frame[name].cat.categories, ordered=True)
        return pd.concat([frame, extra], ignore_index=True)

    def _complete(self, X: Any) -> tuple[Any, dict[str, np.ndarray]]:
        """The columns in use as a pandas frame with gaps filled, and the positions of the gaps."""
        import pandas as pd

        columns, gaps = {}, {}
        for name, variable in self.variables.items():
            if variable.levels is not None:
                codes = category_codes(X, name, variable.levels)
                columns[name] = pd.Categorical.from_codes(codes, variable.levels.labels.tolist(), ordered=True)
                continue
            values = tables.numbers(X, name, self.use) if self.use else tables.column(X, name)
            if not tables.is_numeric(values):
                raise ValueError(f"Column {name!r} held numbers when the model was fitted, but does not now.")
            missing = tables.missing(values)
            if missing.any():
                gaps[name] = missing
                values = np.where(missing, variable.stand_in, values)
            columns[name] = values.astype(np.result_type(variable.stand_in, values), copy=False)
        return pd.DataFrame(columns, index=pd.RangeIndex(X.shape[0])), gaps


def _variables(terms: list[Any], X: Any) -> list[str]:
    """The columns that terms use, in order; names of known functions need not be columns."""
    used = dict.fromkeys(name for term in terms for name in sorted(term.var_names) if name)
    known = set(tables.names(X))
    wanted = [name for name in used if name in known or name not in FormulaNames().namespace]
    tables.check_names(X, wanted)
    return wanted


def _remembered(X: Any, name: str, terms: list[Any]) -> _Variable:
    values = tables.column(X, name)
    if not tables.is_numeric(values):
        return _Variable(categories(X, name), None)
    observed = np.flatnonzero(~tables.missing(values))
    if not len(observed):
        raise ValueError(f"Column {name!r} is missing in every row: drop it from the formula.")
    # Products of integers may overflow, so floats are used, except for labels of levels: C(x)[1], not C(x)[1.0].
    calls = [part for term in terms for part in getattr(term, "components", ()) if hasattr(part, "call")]
    is_label = any(part.call.callee in _MAKES_CATEGORIES and name in part.var_names for part in calls)
    whole = is_label and values.dtype.kind in "biu"
    return _Variable(None, np.asarray(values[observed[0]], dtype=np.int64 if whole else np.float64))


def _any(missing: dict[str, np.ndarray], term: Any, n_rows: int) -> np.ndarray:
    """The rows in which any column of a term is missing."""
    masks = [missing[name] for name in term.var_names if name in missing]
    return np.logical_or.reduce([np.zeros(n_rows, dtype=bool), *masks])


def _refuse_undefined(name: str, block: np.ndarray) -> None:
    count = int((~np.isfinite(block)).any(axis=1).sum())
    if count:
        rows = how_many(count, "row")
        raise ValueError(f"{name!r} is infinite or undefined in {rows} where its columns are not missing.")


def _refuse_missing_categories(term: Any, missing: dict[str, np.ndarray]) -> None:
    """Refuses missing numbers in terms such as C(x), which turn them into categories."""
    for component in term.components:
        gaps = component.var_names & set(missing)
        if component.kind == "categoric" and gaps:
            raise ValueError(
                f"Column {min(gaps)!r} is missing in some rows, but categories such as {component.name} need it."
            )


def _forget_rows(terms: list[Any]) -> None:
    """Drops the rows that formulae stores in its terms, and modules, which cannot be pickled."""
    for term in terms:
        term.data = None
        for component in term.components:
            component.value = component._intermediate_data = None
            if hasattr(component, "env"):
                component.env = FormulaNames()
