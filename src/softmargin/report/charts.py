"""Charts in SVG, of lines, bands, bars, dots and axes, coloured by the page's style sheet.

Colours are CSS classes, ``c0`` to ``c7`` for the entries of a legend, so that the same drawing works in light and dark
mode.  Marks are given in data coordinates, which are mapped to pixels through an `Axis`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .numbers import number
from .page import Markup, element, shown

WIDTH, HEIGHT = 400, 290
#: Margins for ticks and labels: left, right, top, bottom.
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 22, 10, 44
#: In charts with named rows: the margin for names, their maximum length, and the height of a row.
_NAMES, _NAME_LENGTH, _ROW = 150, 20, 22
#: Resolution at which points of a curve are kept, in parts per axis.
_VISIBLE = 150


class Axis(NamedTuple):
    """A range of values and its scale."""

    low: float
    high: float
    label: str = ""
    log: bool = False
    form: Callable[[float], str] = number

    @classmethod
    def around(cls, values: Any, label: str = "", include: Sequence[float] = (), **options: Any) -> Axis:
        """An axis that covers all finite values, with some margin."""
        finite = np.concatenate([np.ravel(np.asarray(values, dtype=float)), np.asarray(include, dtype=float)])
        finite = finite[np.isfinite(finite)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        if options.get("log"):
            return cls(low / 1.3, high * 1.3, label, **options)
        width, size = high - low, max(abs(low), abs(high))
        if width <= 1e-9 * size or width == 0:  # one value, up to rounding
            return cls(low - 0.5 * (size or 1.0), high + 0.5 * (size or 1.0), label, **options)
        room = 0.04 * width
        return cls(low if low in include else low - room, high if high in include else high + room, label, **options)

    def share(self, values: Any) -> np.ndarray:
        """Positions along the axis: 0 at its low end, 1 at its high end; values outside are clipped just beyond."""
        values, low, high = np.asarray(values, dtype=float), self.low, self.high
        if self.log:
            values, low, high = np.log(np.maximum(values, 1e-300)), math.log(low), math.log(high)
        return np.clip((values - low) / (high - low), -0.05, 1.05)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values along the axis."""
        return _decades(self.low, self.high, about) if self.log else nice_ticks(self.low, self.high, about)


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, within limits.

    >>> nice_ticks(0, 1), nice_ticks(-3.2, 11)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0])
    """
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * power for unit in (1, 2, 5, 10) if unit * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12 - math.floor(math.log10(step))) for k in range(first, last + 1)]


def _decades(low: float, high: float, about: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // about))
    ticks = [10.0**k for k in range(first, last + 1, step)]
    return ticks if len(ticks) > 1 else [tick for tick in nice_ticks(low, high, about) if tick > 0]


class Chart:
    """A chart with two axes, to which marks are added one by one."""

    def __init__(self, x: Axis, y: Axis, height: int = HEIGHT, left: int = _LEFT, y_ticks: bool = True) -> None:
        self.x, self.y, self._height, self._left, self._y_ticks = x, y, height, left, y_ticks
        self._marks: list[Markup] = []

    def at_x(self, values: Any) -> Any:
        """Pixels from the left."""
        return self._left + self.x.share(values) * (WIDTH - self._left - _RIGHT)

    def at_y(self, values: Any) -> Any:
        """Pixels from the top."""
        return self._height - _BOTTOM - self.y.share(values) * (self._height - _TOP - _BOTTOM)

    def line(self, x: Any, y: Any, class_: str = "c0") -> None:
        """A line through points."""
        self._marks.append(element("path", d=self._path(x, y), class_=f"line {class_}"))

    def boxes(self, left: Any, right: Any, low: Any, high: Any, class_: str = "c0") -> None:
        """Shaded boxes, each over a part of the axis."""
        for x0, x1, bottom, top in zip(*map(self.at_x, (left, right)), *map(self.at_y, (low, high)), strict=True):
            box = {"x": float(x0), "y": float(top), "width": float(x1 - x0), "height": float(bottom - top)}
            self._marks.append(element("rect", **box, class_=f"band {class_}"))

    def bars(self, left: Any, right: Any, top: Any, class_: str = "c0", tips: Any = None) -> None:
        """Vertical bars from zero."""
        x0, x1, y0, y1 = self.at_x(left), self.at_x(right), float(self.at_y(0.0)), self.at_y(top)
        for k in np.flatnonzero(np.abs(np.asarray(y1) - y0) > 0.05):
            low, high = min(y0, float(y1[k])), max(y0, float(y1[k]))
            box = {"x": float(x0[k]), "y": low, "width": float(x1[k] - x0[k]), "height": high - low}
            self._marks.append(element("rect", _tip(tips, k), **box, class_=f"bar {class_}"))

    def dots(self, x: Any, y: Any, class_: str = "c0", radius: float = 3.5, tips: Any = None) -> None:
        """A dot at each point."""
        for k, (across, down) in enumerate(zip(np.ravel(self.at_x(x)), np.ravel(self.at_y(y)), strict=True)):
            self._marks.append(
                element(
                    "circle", _tip(tips, k), cx=float(across), cy=float(down), r=float(radius), class_=f"dot {class_}"
                )
            )

    def whiskers(self, x: Any, low: Any, high: Any, class_: str = "c0") -> None:
        """Vertical intervals."""
        ends = zip(self.at_x(x), self.at_y(low), self.at_y(high), strict=True)
        path = "".join(f"M{_px(across)} {_px(bottom)}V{_px(top)}" for across, bottom, top in ends)
        self._marks.append(element("path", d=path, class_=f"whisker {class_}"))

    def lying_whiskers(self, low: Any, high: Any, y: Any, class_: str = "c0") -> None:
        """Horizontal intervals."""
        ends = zip(self.at_x(low), self.at_x(high), self.at_y(y), strict=True)
        path = "".join(f"M{_px(left)} {_px(down)}H{_px(right)}" for left, right, down in ends)
        self._marks.append(element("path", d=path, class_=f"whisker {class_}"))

    def lying_bars(self, right: Any, y: Any, thick: float, class_: str = "c0", tips: Any = None) -> None:
        """Horizontal bars from zero."""
        x0, x1, down = float(self.at_x(0.0)), self.at_x(right), self.at_y(y)
        for k in range(len(x1)):
            box = {"x": min(x0, float(x1[k])), "y": float(down[k]) - thick / 2, "width": abs(float(x1[k]) - x0)}
            self._marks.append(element("rect", _tip(tips, k), **box, height=thick, class_=f"bar {class_}"))

    def guide(self, x: Sequence[float], y: Sequence[float]) -> None:
        """A subdued line for comparison."""
        self._marks.append(element("path", d=self._path(x, y), class_="guide"))

    def names(self, names: Sequence[str]) -> None:
        """The names of rows, at 0, 1, 2 ... from the top."""
        for k, name in enumerate(names):
            where = {"x": float(self._left - 8), "y": float(self.at_y(k)) + 4, "text_anchor": "end"}
            self._marks.append(element("text", shown(name, _NAME_LENGTH), **where))

    def svg(self, name: str, title: str, description: str) -> Markup:
        """The chart as SVG; ``name`` must be unique on the page, and ``description`` is its text alternative."""
        return element(
            "svg",
            element("title", title, id=f"{name}-title"),
            element("desc", description, id=f"{name}-desc"),
            self._axes(),
            self._marks,
            viewBox=f"0 0 {WIDTH} {self._height}",
            role="img",
            aria_labelledby=f"{name}-title {name}-desc",
            class_="chart",
        )

    def _path(self, x: Any, y: Any) -> str:
        pairs = zip(np.ravel(self.at_x(x)), np.ravel(self.at_y(y)), strict=True)
        return "M" + "L".join(f"{_px(across)} {_px(down)}" for across, down in pairs)

    def _axes(self) -> list[Markup]:
        bottom, right = self._height - _BOTTOM, WIDTH - _RIGHT
        lines, words = [], []
        for tick in self.x.ticks():
            across = float(self.at_x(tick))
            lines.append(f"M{_px(across)} {_TOP}V{bottom}")
            words.append(element("text", self.x.form(tick), x=across, y=float(bottom + 17), text_anchor="middle"))
        for tick in self.y.ticks() if self._y_ticks else ():
            down = float(self.at_y(tick))
            lines.append(f"M{self._left} {_px(down)}H{right}")
            words.append(element("text", self.y.form(tick), x=float(self._left - 7), y=down + 4, text_anchor="end"))
        middle, height = (self._left + right) / 2, (bottom + _TOP) / 2
        words.append(
            element("text", self.x.label, x=middle, y=float(self._height - 6), text_anchor="middle", class_="label")
        )
        if self._y_ticks and self.y.label:
            turn = f"translate(12 {_px(height)}) rotate(-90)"
            words.append(element("text", self.y.label, transform=turn, text_anchor="middle", class_="label"))
        return [element("path", d="".join(lines), class_="grid"), *words]


def rows_chart(n_rows: int, x: Axis) -> Chart:
    """A chart with named rows instead of a vertical axis; row 0 is at the top."""
    height = _TOP + _BOTTOM + _ROW * max(1, n_rows)
    return Chart(x, Axis(max(1, n_rows) - 0.5, -0.5), height, left=_NAMES, y_ticks=False)


def interval(low: float, high: float, value: float, mark: float, scale: Axis) -> Markup:
    """A small drawing for a table cell: an interval with its value, and a mark for comparison."""
    width, middle = 120, 9
    at = 4 + (width - 8) * np.clip(scale.share([low, high, value, mark]), 0, 1)
    return element(
        "svg",
        element("path", d=f"M4 {middle}H{width - 4}", class_="grid"),
        element("path", d=f"M{_px(at[3])} 2V16", class_="guide") if math.isfinite(mark) else None,
        element("path", d=f"M{_px(at[0])} {middle}H{_px(at[1])}", class_="whisker thick c0"),
        element("circle", cx=float(at[2]), cy=float(middle), r=4.0, class_="dot c0"),
        viewBox=f"0 0 {width} 18",
        class_="spark",
        aria_hidden="true",
    )


def legend(names: Sequence[str], classes: Sequence[str], solid: bool = False) -> Markup:
    """The legend of colours and dashes; ``solid`` if they fill areas."""
    entries = []
    for name, class_ in zip(names, classes, strict=True):
        drawn = (
            element("rect", x=1, y=2, width=20, height=8, class_=f"bar {class_}")
            if solid
            else element("path", d="M0 6H26", class_="guide" if class_ == "guide" else f"line {class_}")
        )
        entries.append(
            element("li", element("svg", drawn, viewBox="0 0 26 12", class_="key", aria_hidden="true"), name)
        )
    return element("ul", entries, class_="legend")


def thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points of a curve from (0, 0) to (1, 1), thinned to those that can be distinguished in a drawing.

    >>> x = np.linspace(0, 1, 100_001)
    >>> len(thinned(x, x)[0])
    601
    """
    cell = np.floor((x + y) * _VISIBLE).astype(int)
    change = np.flatnonzero(np.diff(cell))
    kept = np.unique(np.concatenate([[0], change, change + 1, [len(x) - 1]]))
    return x[kept], y[kept]


def _tip(tips: Any, k: Any) -> Markup | None:
    """The tooltip of a mark."""
    return None if tips is None else element("title", tips[k])


def _px(value: Any) -> str:
    return f"{float(value):.1f}".removesuffix(".0")
