"""Numbers formatted for readers."""

from __future__ import annotations

import math
from typing import Any

#: Numbers from the first on, and below the second, are written with an exponent.
_LARGE, _SMALL = 1e7, 1e-4
#: Thousands are separated from here on, so that years are not.
_GROUPED = 1e4
#: Symbols for NaN and for a negative sign.
NOTHING, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
SPACE = "\N{NO-BREAK SPACE}"


def number(value: Any, digits: int = 3) -> str:
    """A number with ``digits`` significant digits; digits before the decimal point are never dropped.

    >>> [number(x) for x in (0.012345, 1234567.8, 2026, -2.0, 0.5, 1e-9, float("nan"))]
    ['0.0123', '1,234,568', '2026', '−2', '0.5', '1e−9', '–']
    """
    value = float(value)
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    size = abs(value)
    if size >= _LARGE or 0 < size < _SMALL:
        mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
        text = f"{_trimmed(mantissa)}e{int(exponent)}"
    elif size == 0:
        text = "0"
    else:
        places = max(0, digits - 1 - math.floor(math.log10(size)))
        text = _trimmed(f"{size:{',' if size >= _GROUPED else ''}.{places}f}")
    return f"{MINUS if value < 0 else ''}{text}".replace("e-", f"e{MINUS}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def fixed(value: Any, places: int = 3) -> str:
    """A number with ``places`` decimal places, for columns aligned at the decimal point.

    >>> fixed(0.5), fixed(float("nan")), fixed(-1.25, 1)
    ('0.500', '–', '−1.2')
    """
    value = float(value)
    return NOTHING if math.isnan(value) else f"{value:,.{places}f}".replace("-", MINUS)


def percent(share: Any) -> str:
    """A proportion in percent with one decimal place, or more if it is closer than that to 0 or 100.

    The space before the sign does not break.

    >>> [percent(x).replace(SPACE, " ") for x in (0.0, 0.00012, 0.0213, 0.5, 0.99988, 1.0, float("nan"))]
    ['0 %', '0.012 %', '2.1 %', '50.0 %', '99.988 %', '100 %', '–']
    """
    share = float(share)
    if math.isnan(share):
        return NOTHING
    rare = min(share, 1 - share)
    places = 0 if rare <= 0 else 1 if rare >= 0.001 else min(6, -math.floor(math.log10(rare)) - 1)
    return f"{100 * share:.{places}f}{SPACE}%"


def round_percent(share: float) -> str:
    """A proportion in percent, for the ticks of an axis.

    >>> round_percent(0.25) == f"25{SPACE}%"
    True
    """
    return f"{100 * share:.3g}{SPACE}%"


def count(value: Any) -> str:
    """A number of rows, which may be fractional because of weights.

    >>> count(12345.0), count(2.5)
    ('12,345', '2.5')
    """
    value = float(value)
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 * max(1.0, abs(value)) else number(value, 4)


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun, singular or plural.

    >>> plural(1, "row"), plural(2000, "row"), plural(2, "class", "classes")
    ('1 row', '2,000 rows', '2 classes')
    """
    return f"{value:,} {noun if value == 1 else nouns or noun + 's'}"
