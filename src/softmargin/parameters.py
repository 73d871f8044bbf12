"""Checks of parameters, with errors that list the allowed values."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

#: How many names are listed if none is similar.
_NAMES_OFFERED = 12


def meant(name: Any, names: Iterable[Any]) -> str:
    """Suggestions for a misspelt name, as the end of a sentence; all names if none is similar.

    >>> meant("lenght", ["length", "width"])
    "did you mean 'length'?"
    >>> meant("colour", ["length", "width"])
    "there are 'length', 'width'."
    """
    names = list(names)
    folded = {str(other).casefold(): other for other in names}
    near = [folded[other] for other in difflib.get_close_matches(str(name).casefold(), folded, n=3)]
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    more = f" and {len(names) - _NAMES_OFFERED} more" if len(names) > _NAMES_OFFERED else ""
    return f"there are {', '.join(map(repr, names[:_NAMES_OFFERED]))}{more}." if names else "there are none."


def how_many(n: int, noun: str) -> str:
    """A number of things in words.

    >>> how_many(1, "row"), how_many(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def by_part(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Separates parameters of an object from those of its parts, whose names have the part's before two underscores.

    >>> by_part({"tol": 1e-3, "kernel__nu": 2.5, "kernel__length_scale": 1.0})
    ({'tol': 0.001}, {'kernel': {'nu': 2.5, 'length_scale': 1.0}})
    """
    own: dict[str, Any] = {}
    of_parts: dict[str, dict[str, Any]] = {}
    for key, value in params.items():
        name, _, rest = key.partition("__")
        (of_parts.setdefault(name, {}) if rest else own)[rest or key] = value
    return own, of_parts


def one_of(name: str, value: Any, allowed: Any) -> None:
    """Checks that ``value`` is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}, got {value!r}.")


def positive_number(name: str, value: Any, *, zero: bool = False, none: bool = False) -> None:
    """Checks that ``value`` is a finite number above zero (or zero itself, or None, where allowed)."""
    if value is None and none:
        return
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        kind = "a number >= 0" if zero else "a positive number"
        raise ValueError(f"{name} must be {kind}{' or None' if none else ''}, got {value!r}.")


def positive_integer(name: str, value: Any, *, words: tuple[str, ...] = ()) -> None:
    """Checks that ``value`` is an integer of at least one, or one of the allowed words."""
    if isinstance(value, str) and value in words:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        others = "".join(f" or {word!r}" for word in words)
        raise ValueError(f"{name} must be an integer >= 1{others}, got {value!r}.")


def flag(name: str, value: Any) -> None:
    """Checks that ``value`` is true or false, and no word: every string counts as true, "False" too."""
    if not isinstance(value, bool | np.bool_) and not (isinstance(value, Integral) and value in (0, 1)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def verbosity(value: Any) -> None:
    """Checks that ``value`` is true or false, or an integer of at least zero."""
    if not isinstance(value, bool | np.bool_ | Integral) or value < 0:
        raise ValueError(f"verbose must be True, False or an integer >= 0, got {value!r}.")


def number_of_jobs(value: Any) -> None:
    """Checks that ``value`` is None, a positive integer, or a negative one that counts down from all cores."""
    if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {value!r}.")


def share(name: str, value: Any) -> None:
    """Checks that ``value`` is a number from 0 to 1."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}.")


def proper_share(name: str, value: Any) -> None:
    """Checks that ``value`` is a number strictly between 0 and 1."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}.")


def inclusion_share(value: Any) -> None:
    """Checks that ``value`` is the word "learned", or a number between 0 and 1."""
    if isinstance(value, str) and value == "learned":
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < 1:
        raise ValueError(
            f"rho, the share of columns expected to matter, must lie between 0 and 1, or be 'learned'; got {value!r}."
        )


def learning_rate(value: Any) -> None:
    """Checks that ``value`` is the word "adaptive", or the delay and the power of a schedule."""
    if isinstance(value, str) and value == "adaptive":
        return
    numbers = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(numbers) != 2 or not all(isinstance(number, Real) and float(number) >= 0 for number in numbers):
        raise ValueError(
            f"learning_rate must be 'adaptive', or (delay, power) for steps of (t + delay) ** -power, got {value!r}."
        )
    if not 0.5 < numbers[1] <= 1:
        raise ValueError(
            f"The power in learning_rate must lie above 0.5 and not above 1 to converge, got {numbers[1]!r}."
        )
