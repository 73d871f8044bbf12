"""Estimators as parameters and fitted attributes, and checks that a model read from a file is usable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrow import ArrowBelief, Layout
from ..design import Design
from ..design.formula import FormulaColumns
from ..estimators.base import BayesianClassifier
from ..gaussian import Belief, ClassBelief, class_parts
from ..links import probabilities, settled
from ..rows import ClasswiseRows, beneath
from ..tables import TableClassifier
from ..tables.plans import Date, Number
from ..tables.tidier import Name
from .errors import StoreError

#: The attribute for fast predictions, which is large and quickly recomputed.  In files it holds instead the names of
#: the checks that the model passed when it was saved.
_VIEW = "_view"
#: The largest count of anything in a model.
_LARGEST = 2**24
#: The largest absolute value that may replace a missing entry: its square is finite.
_LARGEST_NUMBER = 1e150
#: Fields that count steps, without an upper limit.
_STEPS = ("count",)
_FITTED = ("belief_", "_seen_belief", "_dtype", "link_", "rows_", "draws_", "history_")


def taken(model: Any) -> dict[str, Any]:
    """Parameters and fitted attributes, by name."""
    fields = {name: value for name, value in vars(model).items() if name != _VIEW}
    return fields | ({_VIEW: _questions(model)} if hasattr(model, _VIEW) else {})


def made(kind: Any, fields: dict[str, Any]) -> Any:
    """The estimator with these parameters and fitted attributes, after checks."""
    parameters = {name: fields.pop(name) for name in kind._get_param_names() if name in fields}
    model = kind(**parameters)
    strange = [name for name in fields if not name.isidentifier() or "__" in name or hasattr(kind, name)]
    if strange:
        raise StoreError(f"{kind.__name__} has no attribute {strange[0][:40]!r}; do not trust it")
    asked = fields.pop(_VIEW, None)
    vars(model).update(fields)
    if isinstance(model, TableClassifier) and hasattr(model, "classifier_"):
        _check_table(model)
    if isinstance(model, BayesianClassifier):
        model._check_parameters()
        if asked is not None:
            _check_found(model)
            with np.errstate(all="ignore"):
                model._view = model._view_of(model._dtype)
                for name in dict.fromkeys(asked):
                    _TRIALS[name](model)
        elif "belief_" in fields:
            raise StoreError("a fitted model in it cannot predict")
    return model


def _questions(model: Any) -> list[str]:
    """The names of the checks that a model passes; formulas may call undefined functions, and gaps be unsupported."""
    return [name for name in _TRIALS if _answers(model, name)]


def _answers(model: Any, name: str) -> bool:
    try:
        with np.errstate(all="ignore"):
            _TRIALS[name](model)
    except Exception:  # formulas may call any function
        return False
    return True


def _ask_rows(model: Any, gap: bool = False) -> None:
    """Predicts rows of zeros, the last of them with new groups or with a missing entry."""
    check_is_fitted(model)
    design = getattr(model, "design_", None)
    n_columns = model.n_features_in_ if design is None else design.n_columns
    # A number of rows that differs from all other sizes, so that no array of a wrong shape is mistaken for one by rows.
    n_rows = next(n for n in (2, 3, 4) if n not in (n_columns, len(model.classes_)))
    X = np.zeros((n_rows, n_columns), dtype=model._dtype)
    if gap:
        X[-1, 0] = np.nan
    elif design is not None:
        X[-1, n_columns - len(design.groupings) :] = -1
    mu, v = model._moments(X)
    p = probabilities(settled(model.link_.score(mu, v)))
    if p.shape != (len(X), len(model.classes_)) or not (np.isfinite(p).all() and np.isfinite(v).all()):
        raise StoreError("its model has no probabilities; fit it again")


def _ask_design(model: Any) -> None:
    """Evaluates the columns of a design at known values, part by part."""
    design: Design | None = getattr(model, "design_", None)
    if design is None:
        return
    levels = [part for grouping in design.groupings for part in grouping.levels]
    for columns in (design.fixed, *design.slopes):
        if isinstance(columns, FormulaColumns):
            _ask_formula(columns)
        else:
            levels += [part for part in columns.levels if part is not None]
    for part in levels:
        if not np.array_equal(part.codes(part.labels), np.arange(len(part.labels))):
            raise StoreError("its labels are not sorted; fit the model again")
    for spline in design.splines:
        values = spline.at(np.array([spline.low]))
        if values.shape != (1, spline.n_columns) or not np.isfinite(values).all():
            raise StoreError("its splines are not valid; fit the model again")


def _ask_formula(columns: FormulaColumns) -> None:
    """Evaluates the columns of a formula for one row."""
    import pandas as pd

    known = {
        name: [variable.stand_in.item() if variable.levels is None else variable.levels.labels.tolist()[0]]
        for name, variable in columns.variables.items()
    }
    if columns.matrix(pd.DataFrame(known, index=pd.RangeIndex(1))).shape != (1, len(columns.names)):
        raise StoreError("its formula gives other columns than in the fit; fit the model again")


#: Checks of a model before it is trusted: it must pass all those that it passed when it was saved.
_TRIALS: dict[str, Callable[[Any], None]] = {
    "design": _ask_design,
    "rows": _ask_rows,
    "gap": lambda model: _ask_rows(model, gap=True),
}


def _check_found(model: Any) -> None:
    """Checks that shapes agree, before anything is computed."""
    lacking = [name for name in _FITTED if not hasattr(model, name)]
    if lacking:
        raise StoreError(f"its model has no {lacking[0]}; fit it again")
    classes, rows = model.classes_, model.rows_
    plain = isinstance(classes, np.ndarray) and classes.ndim == 1
    n_classes = len(set(classes.tolist())) if plain else 0
    if n_classes < 2 or n_classes != len(classes):
        raise StoreError("its model has fewer than two classes; fit it again")
    for name in ("fitted_prior_", "data_prior_"):
        _check_array(name, getattr(model, name), (n_classes,))
    _check_counts(vars(model))
    if isinstance(rows, ClasswiseRows) and rows.n_classes != n_classes:
        raise StoreError(f"its model has {n_classes} classes, but rows for {rows.n_classes}; fit it again")
    for belief in (model.belief_, model._seen_belief):
        if isinstance(belief, ClassBelief) and len(belief.parts) != n_classes:
            raise StoreError(f"its model has {n_classes} classes, but beliefs of {len(belief.parts)}; fit it again")
        for part in class_parts(belief):
            if isinstance(part, Belief):
                n = rows.n_weights
                _check_array("mean of the belief", part.mean, (n,))
                _check_array("root of the belief", part.root, (n, n))
            elif isinstance(part, ArrowBelief):
                _check_arrow(part, beneath(rows).layout)
    if getattr(model, "design_", None) is not None:
        _check_groups(model)


def _check_table(model: TableClassifier) -> None:
    """Checks that the encoder produces the columns that the classifier expects."""
    names, inner = model.encoder_.get_feature_names_out(), model.classifier_
    known = getattr(inner, "feature_names_in_", None)
    fits = len(names) == inner.n_features_in_ if known is None else set(known) <= set(names)
    if not fits or not np.array_equal(model.classes_, inner.classes_):
        raise StoreError("its encoder does not match its model; fit it again")
    seen = getattr(model, "seen_", None)
    if seen is not None and not (isinstance(seen, np.ndarray) and seen.ndim == 1 and seen.dtype == np.uint64):
        raise StoreError("its record of training rows is not valid; fit the model again")
    for plan in getattr(model.encoder_, "plans_", ()):
        if not isinstance(plan, Name):
            _ask_plan(plan)


def _ask_plan(plan: Any) -> None:
    """Checks that a plan turns a missing entry and a given one into one usable number for each of its columns."""
    problem = "its encoder does not make a column numeric; fit the model again"
    entry = "2000-01-01" if isinstance(plan, Date) else 0
    try:
        parts = [plan.numbers([None])]
        if isinstance(plan, Date | Number):
            parts.append(dataclasses.replace(plan, fill=None).numbers([entry]))  # `fill` would hide a lost entry
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise StoreError(problem) from error
    wrong = any(part.shape != (1, len(plan.names)) or part.dtype.kind != "f" for part in parts)
    if wrong or np.nanmax(np.abs(parts[0]), initial=0.0) > _LARGEST_NUMBER or np.isnan(parts[1:]).any():
        raise StoreError(problem)


def _check_arrow(belief: ArrowBelief, layout: Layout) -> None:
    """Checks that the belief has the layout of the rows, and that its arrays have the shapes of this layout."""
    if (belief.layout.sizes, belief.layout.n_core) != (layout.sizes, layout.n_core):
        raise StoreError("its belief does not match its rows; fit the model again")
    _check_array("mean of the belief", belief.mean, (layout.n_weights,))
    for array in (belief.core_root, belief.core_covariance):
        _check_array("core of the belief", array, (layout.n_core, layout.n_core))
    for blocks in (belief.blocks, belief.given_path or belief.blocks):  # effective beliefs have no `given_path`
        for level, ((J, q), (own, path)) in enumerate(zip(layout.sizes, blocks, strict=True)):
            _check_array("covariance of groups", own, (J, q, q))
            _check_array("covariance of groups", path, (J, q, layout.width(level)))
    for parents in (belief.layout.parents, layout.parents):
        for places, (J, _), (above, _) in zip(parents, layout.sizes[:-1], layout.sizes[1:], strict=True):
            _check_places(places, J, above)


def _check_groups(model: Any) -> None:
    """Checks that the numbers of groups, their parents and the covariances of their effects agree."""
    design, nesting, rows = model.design_, model._nesting, beneath(model.rows_)
    _check_array("units of the columns", model._units, (design.n_columns,))
    factors = [design.factors[index] for index in (*nesting.chain, *nesting.crossed)]
    if [factor.n_groups for factor in factors] != [*rows.sizes, *rows.crossed_sizes]:
        raise StoreError("its groups do not match its rows; fit the model again")
    for level, parents in enumerate(nesting.parents):
        _check_places(parents, factors[level].n_groups, factors[level + 1].n_groups)
    for factor, covariance in zip(factors, rows.population, strict=True):
        many = len(model.classes_) > 2
        _check_array("covariance of effects", covariance, (len(model.classes_),) * many + (len(factor.columns),) * 2)


def _check_places(places: Any, size: int, most: int) -> None:
    right = isinstance(places, np.ndarray) and places.shape == (size,) and places.dtype.kind == "i"
    if not right or (size and not 0 <= places.min() <= places.max() < most):
        raise StoreError("its groups are nested in groups that do not exist; fit the model again")


def _check_array(name: str, array: Any, shape: tuple[int, ...]) -> None:
    right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype.kind == "f"
    if not right or not np.isfinite(array).all():
        raise StoreError(f"the {name} is not an array of shape {shape} of finite numbers; fit the model again")


def _check_counts(value: Any, name: str = "") -> None:
    """Refuses counts so large that iterating over them would never end."""
    if type(value) is int:
        if abs(value) > _LARGEST and name not in _STEPS:
            raise StoreError(f"it has {value} for {name}, more than is possible")
    elif isinstance(value, tuple | list):
        names = getattr(value, "_fields", [name] * len(value))
        for field, part in zip(names, value, strict=True):
            _check_counts(part, field)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _check_counts(getattr(value, field.name, None), field.name)
