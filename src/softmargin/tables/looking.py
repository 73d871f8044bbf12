"""Examines a column and decides how to encode it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .lazily import pandas
from .plans import (
    CIRCLES,
    ISO_DATE,
    Category,
    Date,
    Left,
    Number,
    Plan,
    as_days,
    as_numbers,
    holds_texts,
    levels_of,
    read_numbers,
)

#: Texts with more levels than this proportion of the rows identify rows instead of describing them.
_OWN_SHARE = 0.5
#: Fewest missing entries that get a column of their own to mark them: from fewer, nothing can be learned.
_FEWEST_GAPS = 10
#: Fewest rows for which texts can be recognised as identifiers, and 1, 2, 3, ... as row numbers.
_FEW = 20
#: Row numbers of which some are absent: the fewest, the least proportion of their range that is present, and the
#: largest distance of the first from 0, as a proportion of the last.  Years, and days of a series, start later.
_FEWEST_COUNTED, _COUNTED_SHARE, _LATEST_FIRST = 50, 0.5, 0.1
#: With more levels than this, texts in an unsupported number or date format are more likely numbers than categories.
_FEW_LEVELS = 10
#: The most pooled levels that a plan remembers.
_MOST_RARE = 100_000
#: The proportion of entries in an unsupported number or date format for which a column is reported as such.
_MOST_SHARE = 0.95
_OTHER_DATE = r"(\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}[./]\d{1,2}[./]\d{1,2})([T ].*)?"
#: The shortest span of dates, in days, for which a circle is informative.
_SPANS = {"year": 90.0, "week": 7.0, "day": 0.0}


class Wishes(NamedTuple):
    """Options for the encoding of columns."""

    keeps_gaps: bool
    max_levels: int
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def plan_of(column: Any, name: str, wishes: Wishes, weight: np.ndarray | None = None) -> Plan:
    """The plan for a column (a pandas Series) of this name.

    A row of weight k counts k times for missing entries, levels and medians.  Whether a column identifies rows is
    decided by the rows themselves, whatever their weights.
    """
    weight = np.ones(len(column)) if weight is None else weight
    if name in wishes.drop:
        return Left(name, "as requested")
    known = column.dropna()
    if not len(known):
        return Left(name, "empty")
    constant = len(levels_of(known.iloc[:_FEW])[0]) == 1 and len(levels_of(known)[0]) == 1
    if constant and not _flagged(weight[column.isna()].sum(), wishes):  # which would be informative
        return Left(name, f"always {known.iloc[0]}" + (", or missing" if len(known) < len(column) else ""))
    if name in wishes.categorical:
        return _category(column, name, wishes, weight)
    kind = kind_of(column)
    if kind == "number":
        return _number(column, name, wishes, weight)
    if kind == "date":
        return _date(column, name, wishes, weight)
    return _category(column, name, wishes, weight)


def kind_of(column: Any) -> str:
    """Number, date or category: by the dtype of a column, or by all of its values if the dtype is not informative."""
    pd = pandas()
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype) or dtype.kind == "m":
        return "number"
    if dtype.kind == "M" or isinstance(dtype, pd.DatetimeTZDtype):
        return "date"
    known = column.dropna()
    if not read_numbers(known).isna().any():
        return "number"
    texts = known.astype(str)
    if (
        texts.str.fullmatch(ISO_DATE).all()
        and not pd.to_datetime(texts, errors="coerce", format="ISO8601", utc=True).isna().any()
    ):
        return "date"
    return "category"


def _number(column: Any, name: str, wishes: Wishes, weight: np.ndarray) -> Plan:
    values = as_numbers(column, name)
    if name not in wishes.keep and _counts_rows(values):
        return Left(name, f"looks like row numbers; {_back(name)}", is_guess=True)
    n_gaps = float(weight[np.isnan(values)].sum())
    fill = None if wishes.keeps_gaps else weighted_median(values, weight)
    note = _gap_note(n_gaps, weight.sum(), wishes, "replaced by the median")
    return Number(name, fill, _flagged(n_gaps, wishes), note)


def weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """The median of numbers except NaN, where a number of weight k counts as k copies.

    >>> weighted_median(np.array([1.0, 5.0, 2.0, np.nan]), np.array([2.0, 1.0, 1.0, 7.0]))
    1.5
    """
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    up_to = np.cumsum(weight[order])
    # The middle falls on one number, or between two, as for an even number of copies.
    places = [np.searchsorted(up_to, up_to[-1] / 2, side) for side in ("left", "right")]
    return float(np.mean(values[order[np.minimum(places, len(order) - 1)]]))


def _back(name: str) -> str:
    """A hint how to include a column that is left out."""
    return f"use keep={name!r} to include it"


def _counts_rows(values: np.ndarray) -> bool:
    """Whether numbers are row numbers: 1, 2, 3, ... or, as in part of a table, many of these; or all of it reversed.

    In another order than that of the rows, such numbers may be ranks.
    """
    known = values[~np.isnan(values)]
    if len(known) > 1 and known[0] > known[-1]:
        known = known[::-1]
    steps = np.diff(known)
    if len(values) >= _FEW and len(known) == len(values) and np.all(steps == 1):
        return True
    if len(known) < _FEWEST_COUNTED or np.any(steps <= 0) or np.any(known != np.floor(known)):
        return False
    begins = 0 <= known[0] <= _LATEST_FIRST * known[-1]
    return bool(begins and len(known) >= _COUNTED_SHARE * (known[-1] - known[0] + 1))


def _date(column: Any, name: str, wishes: Wishes, weight: np.ndarray) -> Plan:
    days = as_days(column, name)
    first, span = np.nanmin(days), np.nanmax(days) - np.nanmin(days)
    known = days[~np.isnan(days)]
    circles = tuple(
        circle for circle, turn in CIRCLES.items() if span >= _SPANS[circle] and len(np.unique(turn(known))) > 1
    )
    n_gaps = float(weight[np.isnan(days)].sum())
    origin = str(np.datetime64(int(np.floor(first)), "D"))
    fill = None if wishes.keeps_gaps else weighted_median(days, weight) - float(np.floor(first))
    note = _gap_note(n_gaps, weight.sum(), wishes, "replaced by the median")
    return Date(name, origin, circles, fill, _flagged(n_gaps, wishes), note)


def _category(column: Any, name: str, wishes: Wishes, weight: np.ndarray) -> Plan:
    texts, codes = levels_of(column)
    levels, known = np.array(texts, dtype=object), codes >= 0
    counts = np.bincount(codes[known], weight[known], len(levels))
    n = int(known.sum())
    is_wished = name in wishes.categorical or name in wishes.keep
    if n >= _FEW and len(levels) > max(_OWN_SHARE * n, wishes.max_levels) and not is_wished:
        what = _foreign_form(levels, counts) or f"an identifier or free text; {_back(name)}"
        return Left(name, f"{len(levels):,} distinct texts in {n:,} rows: {what}", is_guess=True)
    n_missing = float(weight[~known].sum())
    flagged = _flagged(n_missing, wishes)
    notes = [_gap_note(n_missing, weight.sum(), wishes, "as a separate level" if flagged else "assigned to no level")]
    if not is_wished and len(levels) > _FEW_LEVELS:
        notes.append(_foreign_form(levels, counts))
    pooled, rare = len(levels) > wishes.max_levels, levels[:0]
    if pooled:
        # The most frequent levels; among equally frequent ones, the first.
        kept = np.sort(np.lexsort((np.arange(len(levels)), -counts))[: wishes.max_levels])
        notes.append(f"{len(levels) - len(kept):,} rarer levels pooled")
        rare, levels = np.delete(levels, kept), levels[kept]
    note, is_text = "; ".join(note for note in notes if note), holds_texts(column)
    rare = tuple(rare.tolist()) if len(rare) <= _MOST_RARE else None
    return Category(name, tuple(levels.tolist()), pooled, wishes.keeps_gaps, flagged, note, is_text, rare)


def _foreign_form(levels: np.ndarray, counts: np.ndarray) -> str:
    """A note if texts look like numbers or dates in an unsupported format; empty otherwise."""
    pd = pandas()
    texts = pd.Series(levels).astype(str).str.strip()

    def mostly(right: Any) -> bool:
        return counts[np.asarray(right, dtype=bool)].sum() >= _MOST_SHARE * counts.sum()

    def is_number(texts: Any) -> Any:
        return pd.to_numeric(texts, errors="coerce").notna()

    others = texts[~is_number(texts)]
    if others.empty:  # numbers that pandas holds as categories
        return ""
    if mostly(is_number(texts)):
        return f"numbers except for entries such as {others.iloc[0]!r}: leave those empty"
    if mostly(is_number(texts.str.replace(r"[,%\s]", "", regex=True))):
        return "looks like numbers written with commas, spaces or %: write plain numbers"
    if mostly(texts.str.fullmatch(_OTHER_DATE)):
        return "looks like dates: write YYYY-MM-DD"
    return ""


def _flagged(n_gaps: float, wishes: Wishes) -> bool:
    return bool(n_gaps >= _FEWEST_GAPS and not wishes.keeps_gaps)


def _gap_note(n: float, of: float, wishes: Wishes, otherwise: str) -> str:
    return f"{missing_of(n, of)}, {'modelled' if wishes.keeps_gaps else otherwise}" if n else ""


def missing_of(n: float, of: float) -> str:
    """The number of rows with missing entries, in words; weights that are not integers are shown with one decimal.

    >>> missing_of(3.0, 1200.0), missing_of(0.5, 12.0)
    ('3 of 1,200 missing', '0.5 of 12.0 missing')
    """
    digits = 0 if float(n).is_integer() and float(of).is_integer() else 1
    return f"{n:,.{digits}f} of {of:,.{digits}f} missing"
