"""Plans for encoding columns, one class for each kind.

A plan is made once, from the column in `fit`, and consists only of names and numbers, so that it can be printed and
saved.  ``numbers(column)`` turns a column of the same name into an array with a column for each of ``names``.

Missing entries stay NaN for models that can handle them.  For others they are filled, and if `fit` saw enough of them,
one more column marks them, since the fact that a value is missing may be informative.
"""

from __future__ import annotations

import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .lazily import pandas

__all__ = [
    "Category",
    "Date",
    "Left",
    "Number",
    "Plan",
    "as_days",
    "as_numbers",
    "holds_texts",
    "levels_of",
    "read_numbers",
    "text_of",
]

#: Names of the level that pools rare ones, and of the level for missing entries.
OTHER, MISSING = "(other)", "(missing)"
_DAY = 86_400e6  # in microseconds, which cover all four-digit years
_YEAR = 365.2425
_LARGEST = int(sys.float_info.max)
#: A warning is given if a larger share of values was never seen in `fit`.
_MOST_NEW = 0.5
_SHOWN, _LONGEST = 6, 24  # levels listed in a description, and characters shown of each
#: The pattern of a date.
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ].*)?"
#: A whole number as pandas writes it in a column with missing entries.
_WHOLE = re.compile(r"-?[0-9]+\.0")


#: Receives the name of a column and a message about it.
Tell = Callable[[str, str], None]


def silent(name: str, message: str) -> None:
    """Tells nobody."""


class Plan(ABC):
    """How a column is encoded."""

    kind: ClassVar[str]
    name: str
    note: str

    @property
    @abstractmethod
    def becomes(self) -> str:
        """A description of the encoded columns."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the encoded columns."""

    @abstractmethod
    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        """The encoded columns, as an array; ``tell`` receives the name of a column that looks wrong, and what is."""


@dataclass(frozen=True)
class Number(Plan):
    """A column of numbers, booleans or durations, which is kept as a number.

    ``fill`` replaces missing entries; None leaves them.
    """

    name: str
    fill: float | None = None
    flagged: bool = False
    note: str = ""
    kind: ClassVar[str] = "number"

    @property
    def becomes(self) -> str:
        return "itself"

    @property
    def names(self) -> list[str]:
        return [self.name, *_flag(self)]

    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        values = as_numbers(column, self.name)
        return np.column_stack([_filled(values, self.fill), *_gaps(self, values)])


@dataclass(frozen=True)
class Category(Plan):
    """A column of categories, encoded as a column of zeros and ones for each level; two levels need only one.

    Levels that `fit` did not see go to ``(other)`` if it pooled rare ones there, and count as missing otherwise.
    ``is_text`` says that `fit` saw strings, rather than numbers or booleans used as categories.  ``rare`` are the
    pooled levels, by which new ones are recognised; None if there are too many to store.
    """

    name: str
    levels: tuple[str, ...]
    pooled: bool = False
    keeps_gaps: bool = True
    flagged: bool = False
    note: str = ""
    is_text: bool = False
    rare: tuple[str, ...] | None = field(default=(), repr=False)
    kind: ClassVar[str] = "category"

    @property
    def becomes(self) -> str:
        if len(self._columns) == 2:
            return "1 for {1}, 0 for {0}".format(*map(_short, self._columns))
        shown = ", ".join(map(_short, self.levels[:_SHOWN])) + (", ..." if len(self.levels) > _SHOWN else "")
        return f"{len(self.names)} columns of 0 and 1: {shown}"

    @property
    def _columns(self) -> list[str]:
        return [*self.levels, *([OTHER] if self.pooled else []), *([MISSING] if self.flagged else [])]

    @property
    def names(self) -> list[str]:
        columns = self._columns
        return [f"{self.name}={level}" for level in (columns[1:] if len(columns) == 2 else columns)]

    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        levels, codes = levels_of(column)
        self._tell_of_new(levels, codes, tell)
        places, unknown = (
            {level: place for place, level in enumerate(self.levels)},
            len(self.levels) if self.pooled else -1,
        )
        codes = np.array([*(places.get(level, unknown) for level in levels), -1])[codes]
        columns = self._columns
        shown = (codes[:, None] == np.arange(len(columns))).astype(float)
        gaps = codes < 0
        if self.keeps_gaps:
            shown[gaps] = np.nan
        elif self.flagged:
            shown[gaps, -1] = 1.0
        elif len(columns) == 2:
            shown[gaps] = 0.5  # halfway, since no column marks missing entries
        return shown[:, 1:] if len(columns) == 2 else shown

    def _tell_of_new(self, levels: list[str], codes: np.ndarray, tell: Tell) -> None:
        """Tells if most values are of levels that `fit` did not see: codes may be written in another way."""
        if self.rare is None:
            return
        known = {*self.levels, *self.rare}
        new = np.array([level not in known for level in levels], dtype=bool)
        n_known, n_new = int((codes >= 0).sum()), int(new[codes[codes >= 0]].sum())
        if n_new > _MOST_NEW * n_known:
            example = levels[int(np.argmax(new))]
            tell(
                self.name,
                f"Column {self.name!r}: {n_new / n_known:.0%} of the rows that are not missing hold values never seen "
                f"in fit, such as {_short(example)!r}; those seen are such as {_short(self.levels[0])!r}. Write "
                f"them as in fit, leading zeros included.",
            )


@dataclass(frozen=True)
class Date(Plan):
    """A column of dates: days since the first and, where they vary, sine and cosine of the time of year, week, day."""

    name: str
    origin: str
    circles: tuple[str, ...] = ()
    fill: float | None = None
    flagged: bool = False
    note: str = ""
    kind: ClassVar[str] = "date"

    @property
    def becomes(self) -> str:
        return f"days since {self.origin}" + (f" and time of {', '.join(self.circles)}" if self.circles else "")

    @property
    def names(self) -> list[str]:
        around = [f"{self.name} {circle} {part}" for circle in self.circles for part in ("sine", "cosine")]
        return [f"{self.name} days", *around, *_flag(self)]

    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        days = as_days(column, self.name) - as_days([self.origin], self.name)[0]
        angles = [2 * np.pi * CIRCLES[circle](as_days(column, self.name)) for circle in self.circles]
        around = [turn(angle) for angle in angles for turn in (np.sin, np.cos)]
        # Missing entries go to the centre of a circle.
        filled = [_filled(part, None if self.fill is None else 0.0) for part in around]
        return np.column_stack([_filled(days, self.fill), *filled, *_gaps(self, days)])


@dataclass(frozen=True)
class Left(Plan):
    """A column that is left out, with the reason in ``note``; ``is_guess`` if it could be informative after all."""

    name: str
    note: str
    is_guess: bool = False
    kind: ClassVar[str] = "left out"

    @property
    def becomes(self) -> str:
        return "nothing"

    @property
    def names(self) -> list[str]:
        return []

    def numbers(self, column: Any, tell: Tell = silent) -> np.ndarray:
        return np.empty((len(column), 0))


#: Position on a circle, as a fraction of a turn, from days since 1970-01-01, a Thursday.
CIRCLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda days: days / _YEAR % 1,
    "week": lambda days: np.floor(days) % 7 / 7,
    "day": lambda days: days % 1,
}


def as_numbers(column: Any, name: str) -> np.ndarray:
    """A column as floats: durations in days, NaN for missing entries; an error names entries that are not numbers."""
    pd = pandas()
    column = pd.Series(column)
    if column.dtype.kind == "m":
        return np.where(column.isna(), np.nan, column.to_numpy().astype("timedelta64[us]").astype(float) / _DAY)
    if column.dtype.kind == "M" and column.notna().any():
        raise ValueError(
            f"Column {name!r} holds dates, such as {column.dropna().iloc[0]}, where numbers were expected."
        )
    if column.dtype.kind == "c":
        raise ValueError(f"Column {name!r} holds complex numbers. Complex data not supported.")
    values = read_numbers(column).to_numpy(dtype=float, na_value=np.nan)
    strange = np.isnan(values) & ~column.isna().to_numpy()
    if strange.any():
        raise ValueError(
            f"Column {name!r} holds {column[strange].iloc[0]!r} where numbers were expected; write a number, or leave "
            f"it empty if unknown."
        )
    if np.isinf(values).any():
        raise ValueError(
            f"Column {name!r} holds infinity or a number too large; write a smaller one, or leave it empty if unknown."
        )
    return values


def read_numbers(column: Any) -> Any:
    """The numbers in a column, NaN for what is none, and infinity for whole numbers too large for a float."""
    pd = pandas()
    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:
        small = column.map(lambda value: math.inf if isinstance(value, int) and abs(value) > _LARGEST else value)
        return pd.to_numeric(small, errors="coerce")


def as_days(column: Any, name: str) -> np.ndarray:
    """A column of dates as days since 1970-01-01, NaN for missing entries.

    Dates with a time zone are converted to UTC; dates without one are taken as UTC.

    >>> as_days(["1970-01-02", "9999-12-31", "1970-01-01T12:00-06:00"], "seen").tolist()
    [1.0, 2932896.0, 0.75]
    """
    pd = pandas()
    column = pd.Series(column)
    missing, given = column.isna().to_numpy(), column
    if column.dtype.kind != "M":
        # Everything is parsed as a string: a number could be read as a year, or as seconds since 1970.
        column = column.astype(object).where(~missing, None).map(str, na_action="ignore")
        column = column.where(column.str.fullmatch(ISO_DATE, na=False), None) if not missing.all() else column
    times = pd.to_datetime(column, errors="coerce", utc=True, format="ISO8601" if column.dtype.kind != "M" else None)
    strange = times.isna().to_numpy() & ~missing
    if strange.any():
        raise ValueError(
            f"Column {name!r} holds {given[strange].tolist()[0]!r} where dates were expected; write them as YYYY-MM-DD."
        )
    stamps = times.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(stamps), np.nan, stamps.astype(np.int64) / _DAY)


def levels_of(column: Any) -> tuple[list[str], np.ndarray]:
    """The levels of a column as sorted strings, and the index of each row's level: -1 if it is missing."""
    pd = pandas()
    codes, values = pd.factorize(pd.Series(column))
    texts = [text_of(value) for value in values]
    levels = sorted(set(texts))
    places = {level: place for place, level in enumerate(levels)}
    # The last entry is for code -1.
    return levels, np.array([*(places[text] for text in texts), -1])[codes]


def holds_texts(column: Any) -> bool:
    """Whether entries of a column are strings.

    >>> holds_texts(["a", None, 2]), holds_texts([1, 2]), holds_texts([True, None])
    (True, False, False)
    """
    pd = pandas()
    column = pd.Series(column)
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return pd.api.types.infer_dtype(values, skipna=True) in ("string", "mixed", "mixed-integer")


def text_of(value: Any) -> str:
    """A level as a string; integers give the same whether read as integers or, beside missing entries, as floats.

    >>> text_of(2.0), text_of(2), text_of("2.0"), text_of("02"), text_of(True), text_of("two")
    ('2', '2', '2', '02', 'True', 'two')
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = str(value)
    return text[:-2] if _WHOLE.fullmatch(text) else text


def _short(level: str) -> str:
    return level if len(level) <= _LONGEST else level[: _LONGEST - 3].rstrip() + "..."


def _flag(plan: Number | Date) -> list[str]:
    return [f"{plan.name}={MISSING}"] if plan.flagged else []


def _gaps(plan: Number | Date, values: np.ndarray) -> list[np.ndarray]:
    return [np.isnan(values).astype(float)] if plan.flagged else []


def _filled(values: np.ndarray, fill: float | None) -> np.ndarray:
    return values if fill is None else np.where(np.isnan(values), fill, values)
