"""The style that all plots share: colours, axes, labels.  The only file that imports matplotlib's pyplot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Colours of classes and curves, distinguishable under simulated protanopia, deuteranopia and tritanopia.  Data points
#: have darker marks on fills of the same hue; markers and dashes repeat the distinction for print without colour.
FILLS = ("#3b7fb8", "#e07b39", "#1c6650", "#c994c7", "#5e2a7e", "#d6cf4f")
MARKS = ("#174a75", "#96420f", "#0b3a2d", "#8a4f88", "#371250", "#847e17")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
PAPER, UNSURE, INK, FAINT = "#fbfaf7", "#cfd0d2", "#2b2b2b", "#8d9096"
#: The id of curves drawn by this package, so that a second display on the same axes looks different from the first.
_CURVE = "softmargin-curve"
#: Maximum length of a name before it is shortened.
_LONGEST = 40


def new_axes(**options: Any) -> Any:
    """The axes of a new figure, one or several; an error says what to install if matplotlib is missing."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('softmargin.plot needs matplotlib: pip install "softmargin[cli]"') from error
    return pyplot.subplots(layout="constrained", **options)[1]


def plain(text: Any) -> str:
    r"""Text to be shown literally, with dollar signs escaped, and shortened if very long.

    >>> plain("income in $, or in US$")
    'income in \\$, or in US\\$'
    """
    words = str(text)
    words = words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + "…"
    return words.replace("$", r"\$")


def label_of(text: Any) -> str:
    """The same for a legend, which would skip labels that start with an underscore.

    >>> label_of("_private")
    ' _private'
    """
    words = plain(text)
    return f" {words}" if words.startswith("_") else words


def next_look(ax: Any) -> dict[str, Any]:
    """The colour, marker and dashes for one more curve on the axes."""
    number = sum(line.get_gid() == _CURVE for line in ax.lines)
    return look(number) | {"gid": _CURVE}


def look(number: int) -> dict[str, Any]:
    """The colour, marker and dashes of the curve with this number; they repeat when all have been used."""
    place = number % len(FILLS)
    return {"color": FILLS[place], "marker": MARKERS[place], "linestyle": DASHES[place]}


def once(ax: Any, name: str, draw: Callable[[], Any]) -> None:
    """Draws what several displays on the same axes share, unless it has been drawn already."""
    if not any(artist.get_gid() == name for artist in ax.get_children()):
        draw().set_gid(name)


def open_frame(ax: Any) -> None:
    """Hides the upper and right sides of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any, **options: Any) -> None:
    """Adds a legend without an edge, if it has any entries."""
    if options.get("handles") or ax.get_legend_handles_labels()[1]:
        ax.legend(**({"fontsize": "small", "framealpha": 0.9, "edgecolor": "none"} | options))


def listed(ax: Any, names: Sequence[Any], zero: bool = True) -> np.ndarray:
    """Puts names along the vertical axis, the first on top; returns their heights."""
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
    """New axes, high enough for a list of ``n_names`` names."""
    return new_axes(figsize=(6.4, max(2.0, 0.8 + 0.26 * n_names)))
