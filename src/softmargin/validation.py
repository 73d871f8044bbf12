"""Validation of rows, labels and weights, done only here, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from .entries import listed, name_unreadable_columns, refuse_dates, refuse_namesakes, with_gaps

#: The largest entries that X may have, so that differences and short sums cannot overflow.
_LARGEST = {"float64": 1e300, "float32": 1e38}
#: The largest weight of a row: with larger ones, rounding errors of sums would exceed the prior.
_MOST_COPIES = 1e9


# Rows --------------------------------------------------------------------------------------------


def check_rows(
    estimator: Any, X: Any, *, reset: bool, missing: bool = False, sparse: bool = True, names: bool = True
) -> Any:
    """``X`` as a float array or CSR matrix, columns checked against those of ``fit`` unless ``reset``.

    With ``missing``, an array may contain NaN; without ``names``, column names are not compared.
    """
    refuse_unread(X)
    refuse_sources(X, "This", "Read them first, or some at a time")
    settings: dict[str, Any] = {
        "accept_sparse": "csr" if sparse else False,
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": False,
        "ensure_min_samples": 1,
    }
    refuse_namesakes(X)
    refuse_dates(X)
    X = with_gaps(X)
    try:
        if names:
            checked = validate_data(estimator, X, reset=reset, **settings)
        else:
            checked = check_array(X, estimator=estimator, input_name="X", **settings)
            _refuse_other_width(estimator, checked)
    except (TypeError, ValueError) as error:
        if reset or not _has_other_columns(estimator, X):  # of which the error speaks then, such as labels left in
            name_unreadable_columns(X, error)
        raise
    known, need = getattr(estimator, "feature_names_in_", None), getattr(estimator, "_GAPS_NEED", "")
    if missing and scipy.sparse.issparse(checked):
        missing, need = False, "in dense rows, not in a sparse matrix"
    refuse_infinite(checked, known, type(estimator).__name__, missing, need)
    return checked


def _has_other_columns(estimator: Any, X: Any) -> bool:
    """Whether the columns of a frame are not those of the fit."""
    known = getattr(estimator, "feature_names_in_", None)
    return known is not None and list(getattr(X, "columns", known)) != list(known)


def refuse_unread(X: Any, arrow: bool = False) -> None:
    """Refuses lazy frames, which hold no rows yet, and Arrow tables, unless these are accepted."""
    package, kind = type(X).__module__.partition(".")[0], type(X).__name__
    if package == "polars" and kind == "LazyFrame":
        raise TypeError("X is a LazyFrame of polars, which holds no rows yet: pass X.collect().")
    if package == "pyarrow" and hasattr(X, "to_pandas") and not arrow:
        raise TypeError(f"X is a {kind} of pyarrow: pass X.to_pandas().")


def refuse_sources(X: Any, who: str, instead: str, y: Any = None) -> None:
    """Raises an error for sources of rows where all rows are needed in memory."""
    from .chunks import kind_of_source  # which imports this module

    kind = kind_of_source(X, y)
    if kind is not None:
        raise ValueError(
            f"{who} needs rows in memory, got {kind}. {instead}; docs/scaling.md shows how to read batches, and lists "
            f"what accepts rows from any source."
        )


def _refuse_other_width(estimator: Any, X: Any) -> None:
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            f"features as input."
        )


def check_named(
    estimator: Any, X: np.ndarray, names: tuple[str, ...], *, reset: bool, missing: bool = False
) -> np.ndarray:
    """`check_rows` for an array with column names given separately."""
    if reset:
        keep_names(estimator, X, names)
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and list(known) != list(names):
        raise ValueError(f"The columns are {', '.join(names)}, but the model was fitted on {', '.join(known)}.")
    _refuse_other_width(estimator, X)
    refuse_infinite(X, names, type(estimator).__name__, missing, getattr(estimator, "_GAPS_NEED", ""))
    return X


def keep_names(estimator: Any, X: Any, used: Any) -> None:
    """Stores the number of columns in use, and their names if all are strings, as scikit-learn does."""
    names = [name for name in X.columns if name in used] if hasattr(X, "columns") else list(used)
    estimator.n_features_in_ = len(names)
    if all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def has_missing(X: Any) -> bool:
    """Whether any entry of an array is NaN."""
    return not scipy.sparse.issparse(X) and X.size > 0 and bool(np.isnan(X.min()))  # a minimum propagates NaN


def refuse_empty_columns(X: np.ndarray, names: Any = None) -> None:
    """Raises an error for columns without any observed entry."""
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if len(empty):
        without = listed(_named(empty, names), verb="has")
        raise ValueError(f"In X, {without} no observed value: drop such columns before fitting.")


def refuse_infinite(
    X: Any, names: Any = None, who: str = "This classifier", missing: bool = True, need: str = ""
) -> None:
    """Raises an error unless all entries are finite and not too large, or NaN if ``missing``.

    ``need`` says under which conditions, not met here, they may be missing.
    """
    values = X.data if scipy.sparse.issparse(X) else X
    largest = _LARGEST.get(values.dtype.name, np.finfo(values.dtype).max)

    def bad(part: np.ndarray) -> np.ndarray:
        return np.abs(part) > largest if missing else ~(np.abs(part) <= largest)

    flat = values.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum of squares propagates anything invalid. It avoids BLAS, because waking its threads takes longer.
        if np.isfinite(np.einsum("i,i->", flat, flat)) or not bad(values).any():
            return
    sparse = scipy.sparse.issparse(X)
    columns = np.unique(X.indices[bad(X.data)]) if sparse else np.flatnonzero(bad(X).any(axis=0))
    shown = _named(columns, names)
    if np.isnan(values).any() and not missing:
        accepts = (
            f"accepts missing values only {need}" if need else "does not accept missing values encoded as NaN natively"
        )
        raise ValueError(
            f"Input X contains NaN: {listed(shown, verb='has')} missing values. {who} {accepts}; put an imputer such "
            f"as sklearn.impute.SimpleImputer before it in a pipeline, or drop those rows."
        )
    raise ValueError(
        f"Input X contains infinity or a value too large for {values.dtype}, beyond {largest:g}: "
        f"{listed(shown, verb='has')} such values. Replace or drop them, or express the column in other units."
    )


def _named(columns: np.ndarray, names: Any) -> list[Any]:
    """Columns by name, if they have names."""
    return list(columns) if names is None else [names[column] for column in columns]


# Labels and weights ------------------------------------------------------------------------------


def check_labels(X: Any, y: Any, *, part: bool = False, warn: bool = True) -> np.ndarray:
    """``y`` as a vector of class labels, one for each row of ``X``, which may be ``part`` of a larger table."""
    if y is None:
        raise ValueError("This classifier requires y to be passed, but the target y is None.")
    y = column_or_1d(_as_numpy_would(with_gaps(y)), warn=warn)
    if part and len(y) != X.shape[0]:
        raise ValueError(f"A batch of {X.shape[0]:,} rows has {len(y):,} labels: there must be one per row.")
    check_consistent_length(X, y)
    types = _types_of(y)
    empty = _rows_without_label(y, types)
    if len(empty):
        raise ValueError(
            f"Input y contains NaN, infinity or None in {_counted(empty)} (counted from 0"
            f"{' in its batch' if part else ''}); drop rows without a label."
        )
    if len(types) > 1:
        raise ValueError(
            f"The labels in y are of several types ({', '.join(sorted(each.__name__ for each in types))}) and cannot "
            f"be sorted; convert them to one type."
        )
    kind = next(iter(types), str)
    if not issubclass(kind, (str, bytes)):
        plain = "str" if np.dtype(kind).kind == "O" or _beyond_integers(y) else np.dtype(kind).name
        raise ValueError(
            f"Unknown label type: y is an array of objects, each of type {kind.__name__}; pass y.astype({plain!r})."
        )
    # In a part of a table many labels may occur only once: repeated three times, they give no warning.
    check_classification_targets(np.repeat(np.unique(y), 3) if part else y)
    return y


def _as_numpy_would(y: Any) -> Any:
    """A column of pandas without missing entries, as an array.

    scikit-learn would turn its nullable integers and booleans, and categories that are booleans, into floats.
    """
    is_column = hasattr(y, "isna") and not hasattr(y, "columns") and getattr(y, "ndim", 0) == 1
    return np.asarray(y) if is_column and getattr(y, "nlevels", 1) == 1 and not y.isna().any() else y


def refuse_unlabelled(y: np.ndarray) -> None:
    """Raises an error that says which rows have no label, for an evaluation."""
    empty = _rows_without_label(y, _types_of(y))
    if len(empty):
        raise ValueError(f"There is no label in {_counted(empty)} (counted from 0): leave out rows without a label.")


def _types_of(y: np.ndarray) -> set[type]:
    """The types of labels that are objects."""
    return {type(label) for label in y} if y.dtype.kind == "O" else set()


def _beyond_integers(labels: np.ndarray) -> bool:
    """Whether labels that are objects hold whole numbers too large for NumPy's integers."""
    return any(isinstance(label, int) and abs(label) > np.iinfo(np.int64).max for label in labels)


def _rows_without_label(y: np.ndarray, types: set[type]) -> np.ndarray:
    return np.flatnonzero(is_nothing(y) if types - {str} or y.dtype.kind == "f" else np.zeros(len(y)))


def _counted(rows: np.ndarray) -> str:
    """The number of rows and the first of them, in words."""
    return f"row {rows[0]:,}" if len(rows) == 1 else f"{len(rows):,} rows, the first of them {rows[0]:,}"


def is_nothing(y: np.ndarray) -> np.ndarray:
    """Which labels are missing: None, NaN and other values that differ from themselves, or infinite numbers."""
    if y.dtype.kind == "f":
        return ~np.isfinite(y)
    return np.array(
        [label is None or not isinstance(label == label, (bool, np.bool_)) or label != label for label in y]
    )


def present_classes(y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes with rows of positive weight, and the labels coded as by `codes_of`."""
    classes, codes = np.unique(y, return_inverse=True)
    present = np.flatnonzero(np.bincount(codes, weights=weight > 0, minlength=len(classes)))
    if len(present) == 0:
        raise ValueError("All weights are zero: at least one row of each class needs a positive weight.")
    if len(present) < 2:
        only = classes[present].tolist()
        raise ValueError(
            f"y must hold two classes or more in rows of positive weight, but there is only one class: {only}. "
            f"Add rows of another class."
        )
    return classes[present], coded(np.searchsorted(present, codes), len(present))


def coded(index: np.ndarray, n_classes: int) -> np.ndarray:
    """Indices of classes in the form that models use: -1 and +1 for two classes, otherwise unchanged, as floats."""
    return np.where(index == 1, 1.0, -1.0) if n_classes == 2 else index.astype(np.float64)


def declared_classes(classes: Any, known: np.ndarray | None) -> np.ndarray:
    """The classes of a stream, declared in the first call of ``partial_fit`` and fixed from then on."""
    if classes is None:
        if known is None:
            raise ValueError("classes must be given in the first call of partial_fit: later batches may hold others.")
        return known
    declared = np.unique(np.asarray(classes))
    if len(declared) < 2:
        raise ValueError(f"classes must hold two different labels or more, got {declared.tolist()}.")
    if known is not None and not np.array_equal(declared, known):
        raise ValueError(
            f"classes was {known.tolist()} in the first call of partial_fit, and is {declared.tolist()} now."
        )
    return declared


def codes_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels of declared classes: as -1 and +1 if there are two of them, and as 0, 1, 2 ... if there are more."""
    index = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = np.unique(y[classes[index] != y])
    if len(unknown):
        raise ValueError(f"y holds {unknown.tolist()}, but the classes were declared as {classes.tolist()}.")
    return coded(index, len(classes))


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """A non-negative weight for each row."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, Real):
        weight = np.full(n_rows, float(sample_weight))
    else:
        try:
            weight = np.asarray(with_gaps(sample_weight), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"sample_weight must hold a number for each row: {error}.") from error
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one entry for each of the {n_rows} rows, got an array of shape {weight.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and non-negative, got {weight[bad[0]]} for row {bad[0]}"
            f"{f' and {len(bad) - 1} more such rows' if len(bad) > 1 else ''}."
        )
    return weight.copy()


def refuse_enormous(weight: np.ndarray) -> None:
    """Raises an error for weights, including those of classes, that are too large for sums over rows."""
    largest = weight.max(initial=0.0)
    if not largest <= _MOST_COPIES:
        raise ValueError(
            f"A row of weight k counts as k copies of it, and k may be at most {_MOST_COPIES:g}, got {largest:g} from "
            f"sample_weight and class_weight together; divide all weights by the same number."
        )


def _factor(label: Any, factor: Any) -> float:
    """The weight of a class as a number."""
    try:
        return float(factor)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"class_weight gives class {label!r} the weight {factor!r}, which is not a number; leave the class out of "
            f"the dict for a weight of 1."
        ) from error


def class_weights(
    class_weight: Any, y: np.ndarray, weight: np.ndarray, declared: np.ndarray | None = None
) -> np.ndarray:
    """The factor of each row from ``class_weight``: None, ``"balanced"`` (by total weight), or a dict.

    Classes are those of ``y``, or those declared if ``y`` need not contain all of them.
    """
    if class_weight is None:
        return np.ones(len(y))
    if declared is not None:
        codes_of(y, declared)
        classes, codes = declared, np.searchsorted(declared, y)
    else:
        classes, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=weight, minlength=len(classes))
        present = totals > 0
        factors = np.zeros(len(classes))
        factors[present] = weight.sum() / (present.sum() * totals[present])
        return factors[codes]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict from label to weight, got {class_weight!r}.")
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    # As in scikit-learn, where a class of its own may be missing from a fold.
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(f"class_weight has a weight for {unknown}, but the classes are {labels}.")
    factors = np.array([_factor(label, class_weight.get(label, 1.0)) for label in labels])
    if not np.all(np.isfinite(factors) & (factors >= 0)):
        raise ValueError(f"The weights in class_weight must be finite and non-negative, got {class_weight!r}.")
    return factors[codes]
