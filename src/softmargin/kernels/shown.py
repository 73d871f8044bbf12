"""The representation of kernels in notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .base import Kernel

__all__ = ["as_html"]

#: How many length-scales of a kernel are shown, the shortest first: those of the columns that matter most.
_SHOWN = 8
#: Longer texts of a kernel are cut.
_LONGEST = 200
_WORDS = {"variance": "variance", "length_scale": "length-scale"}


def as_html(kernel: Kernel) -> str:
    """The kernel's text, and a table of its positive parameters.

    Examples
    --------
    >>> from softmargin.kernels import RBF
    >>> print(as_html(RBF(length_scale=2.0)))
    <code>RBF(length_scale=2.0)</code><table><tr><td>length-scale</td><td>2</td></tr></table>
    """
    text = repr(kernel)
    shown = escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ...")
    values, rows, start = np.exp(kernel.theta), [], 0
    for role, size in kernel.roles:
        rows += _rows(_WORDS.get(role, role), values[start : start + size])
        start += size
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<code>{shown}</code><table>{cells}</table>"


def _rows(word: str, values: np.ndarray) -> list[tuple[str, str]]:
    if len(values) == 1:
        return [(word, "found by the fit" if np.isnan(values[0]) else f"{values[0]:.4g}")]
    order = np.argsort(values, kind="stable")
    rows = [(f"{word} of column {place}", f"{values[place]:.4g}") for place in order[:_SHOWN]]
    if len(values) > _SHOWN:
        rows.append((f"{len(values) - _SHOWN} longer ones", f"up to {values.max():.4g}"))
    return rows
