"""The look that all pictures share: colours, axes, words.  The only file that asks for matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Classes and curves.  Told apart under simulated protanopia, deuteranopia and tritanopia; the darker marks of data
#: points lie on fills of the same hue, and markers and dashes say the same again for print without colour.
FILLS = ("#3b7fb8", "#e07b39", "#1c6650", "#c994c7", "#5e2a7e", "#d6cf4f")
MARKS = ("#174a75", "#96420f", "#0b3a2d", "#8a4f88", "#371250", "#847e17")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
PAPER, UNSURE, INK, FAINT = "#fbfaf7", "#cfd0d2", "#2b2b2b", "#8d9096"
#: What marks the artists of this package, so that a second display on the same axes looks different from the first.
_CURVE = "softmargin-curve"
#: The longest name that is written out.
_LONGEST = 40


def new_axes(**options: Any) -> Any:
    """The axes of a new figure, or several of them; an error that says what to install where there is no matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('softmargin.plot needs matplotlib: pip install "softmargin[cli]"') from error
    return pyplot.subplots(layout="constrained", **options)[1]


def plain(text: Any) -> str:
    r"""Words as they are written: a dollar sign is no formula, and what is very long is cut.

    >>> plain("income in $, or in US$")
    'income in \\$, or in US\\$'
    """
    words = str(text)
    words = words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + "…"
    return words.replace("$", r"\$")


def label_of(text: Any) -> str:
    """The same for a legend, which leaves out what begins with an underscore.

    >>> label_of("_private")
    ' _private'
    """
    words = plain(text)
    return f" {words}" if words.startswith("_") else words


def next_look(ax: Any) -> dict[str, Any]:
    """The colour, marker and dashes of one more curve on some axes."""
    number = sum(line.get_gid() == _CURVE for line in ax.lines)
    return look(number) | {"gid": _CURVE}


def look(number: int) -> dict[str, Any]:
    """Those of the curve of that number; they begin again when all have been used."""
    place = number % len(FILLS)
    return {"color": FILLS[place], "marker": MARKERS[place], "linestyle": DASHES[place]}


def once(ax: Any, name: str, draw: Callable[[], Any]) -> None:
    """Draws what several displays on the same axes have in common, if it is not there yet."""
    if not any(artist.get_gid() == name for artist in ax.get_children()):
        draw().set_gid(name)


def open_frame(ax: Any) -> None:
    """Leaves the left and the lower side of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, **options: Any) -> None:
    """A legend without a frame of its own, if there is anything to tell."""
    if options.get("handles") or ax.get_legend_handles_labels()[1]:
        ax.legend(**({"fontsize": "small", "framealpha": 0.9, "edgecolor": "none"} | options))


def listed(ax: Any, names: Sequence[Any], zero: bool = True) -> np.ndarray:
    """Names along a vertical axis, the first on top; returns their heights."""
    heights = np.arange(len(names))[::-1].astype(float)
    ax.set_yticks(heights, [plain(name) for name in names])
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="x", color=UNSURE, linewidth=0.6, alpha=0.7)
    ax.set_axisbelow(True)
    if zero:
        ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    return heights


def list_axes(n_names: float) -> Any:
    """New axes that are as high as a list of so many names needs."""
    return new_axes(figsize=(6.4, max(2.0, 0.8 + 0.26 * n_names)))
