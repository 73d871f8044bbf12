"""What the model has learned: relevant columns, coefficients, effects of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..charts import Axis, rows_chart
from ..facts import Facts
from ..numbers import fixed, number, plural
from ..page import Cell, Column, Markup, Section, element, figure, listed, shown, table
from .effects import random_effects

#: The largest numbers of bars in a drawing, and of rows in the table beneath it.
_MOST_BARS, _MOST_NUMBERS = 20, 200
#: Normal quantile of a 95 % interval.
_Z = 1.96


def learned(facts: Facts) -> Section | None:
    """The section on what was learned; None if there is nothing to show."""
    parts = [*_relevance(facts), *_inclusion(facts), *_coefficients(facts), *random_effects(facts)]
    if not parts:
        return None
    return Section("learned", "What the model learned", element("div", parts, class_="figures"))


# Kernels: relevance --------------------------------------------------------------------------------------------------


def length_scales(facts: Facts) -> np.ndarray | None:
    """The shortest length-scale of each column, over the parts of the kernel; None without one for each column."""
    kernel, numbers = getattr(facts.core, "kernel_", None), facts.numbers
    if kernel is None or numbers is None:
        return None
    found = [scale for scale in _length_scales(kernel) if np.shape(scale) == numbers.spread.shape]
    return np.min(found, axis=0) if found else None


def _length_scales(kernel: Any) -> Iterator[Any]:
    """The length-scales of all parts of a kernel."""
    if hasattr(kernel, "first"):
        yield from _length_scales(kernel.first)
        yield from _length_scales(kernel.second)
    elif getattr(kernel, "length_scale", None) is not None:
        yield kernel.length_scale


def relevant_columns(facts: Facts) -> list[str]:
    """The columns of the raw table, the most relevant first, if the model has a measure of relevance."""
    numbers, scales = facts.numbers, length_scales(facts)
    coef = getattr(facts.core, "coef_", np.empty((0, 0)))
    if numbers is None or (scales is None and coef.shape[1] != len(numbers.names)):
        return []
    size = numbers.spread / scales if scales is not None else np.abs(coef).max(axis=0) * numbers.spread
    plans = getattr(getattr(facts.model, "encoder_", None), "plans_", ())
    origin = {name: plan.name for plan in plans for name in plan.names}
    ordered = [numbers.names[k] for k in np.argsort(-size, kind="stable")]
    return list(dict.fromkeys(origin.get(name, name) for name in ordered))


def _relevance(facts: Facts) -> Iterator[Markup]:
    scales = length_scales(facts)
    if scales is None or facts.numbers is None:
        return
    names, spread = facts.numbers
    size = spread / scales
    order = np.argsort(-size, kind="stable")
    most = [shown(names[k], 30) for k in order[:5]]
    faint = int(np.sum(size < 0.05 * size[order[0]]))
    summary = f"Most relevant: {listed(most)}."
    summary += f" {plural(faint, 'column hardly matters', 'columns hardly matter')}." if faint else ""
    words = (
        "How much the function can vary with a column over its spread: long bars are columns with short "
        "length-scales. They show where the function can change, but not in which direction. "
    )
    rows = [[shown(names[k]), *(Cell(number(v[k]), v[k]) for v in (size, scales, spread))] for k in order]
    columns = [Column("Column"), Column("Relevance", True), Column("Length-scale", True), Column("Spread", True)]
    numbers = table("Relevance of columns", columns, rows[:_MOST_NUMBERS], sortable=True)
    axis = Axis(0, 1.05 * float(size.max()) or 1.0, "spread / length-scale")
    yield _bars("relevance", "Relevance of columns", names, size, axis, [words, summary], numbers)


def _bars(
    name: str, title: str, names: list[str], size: np.ndarray, axis: Axis, words: list[str], numbers: Markup
) -> Markup:
    """A bar chart of the largest values among columns; the last of ``words`` is its text alternative."""
    top = np.argsort(-size, kind="stable")[:_MOST_BARS]
    chart = rows_chart(len(top), axis)
    chart.lying_bars(size[top], np.arange(len(top)), 13.0, tips=[f"{shown(names[k])}: {number(size[k])}" for k in top])
    chart.names([names[k] for k in top])
    caption = [element("strong", f"{title}. "), _shown_of(len(top), len(names)), *words]
    return figure(chart.svg(name, title, words[-1]), caption, numbers=numbers)


def _shown_of(n: int, total: int) -> str:
    return f"The first {n} of {total:,} are shown. " if n < total else ""


# Linear models: coefficients -----------------------------------------------------------------------------------------


def _names(facts: Facts, n: int) -> list[str]:
    """The names of ``n`` coefficients."""
    names = facts.numbers.names if facts.numbers is not None else getattr(facts.core, "fixed_names_", ())
    return [str(name) for name in names] if len(names) == n else [f"x{k}" for k in range(n)]


def _of_classes(facts: Facts, values: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """For each class, or the second of two: a suffix for ids, the name of the class, and its row of ``values``."""
    values = np.atleast_2d(values)
    if len(values) == 1:
        yield "", facts.class_names[-1], values[0]
        return
    for k in facts.drawn_classes:
        yield f"-{k}", facts.class_names[k], values[k]


def _coefficients(facts: Facts) -> Iterator[Markup]:
    core = facts.core
    if not hasattr(core, "coef_std_") or not core.coef_.shape[1]:
        return
    n = core.coef_.shape[1]
    names, numbers = _names(facts, n), facts.numbers
    spread = numbers.spread if numbers is not None and len(numbers.spread) == n else np.ones(n)
    together = zip(_of_classes(facts, core.coef_), _of_classes(facts, core.coef_std_), strict=True)
    for (suffix, known, mean), (_, _, std) in together:
        yield _forest(f"coefficients{suffix}", known, names, mean, std, spread)


def _forest(name: str, known: str, names: list[str], mean: np.ndarray, std: np.ndarray, spread: np.ndarray) -> Markup:
    size, half = mean * spread, _Z * std * spread
    order = np.argsort(-np.abs(size), kind="stable")
    top = order[:_MOST_BARS]
    chart = rows_chart(
        len(top),
        Axis.around([size[top] - half[top], size[top] + half[top]], "effect of one standard deviation", include=[0.0]),
    )
    chart.guide([0, 0], [-0.5, len(top) - 0.5])
    chart.lying_whiskers(size[top] - half[top], size[top] + half[top], np.arange(len(top)))
    chart.dots(
        size[top], np.arange(len(top)), tips=[f"{shown(names[k])}: {number(size[k])} ± {number(half[k])}" for k in top]
    )
    chart.names([names[k] for k in top])
    clear = [shown(names[k], 30) for k in order if abs(size[k]) > half[k]]
    summary = f"The interval excludes zero for {listed(clear)}." if clear else "No interval excludes zero."
    title = f"Coefficients, towards {known}"
    caption = [
        element("strong", f"{title}. "),
        "Change of the latent value for one standard deviation of a column, with the 95 % posterior interval; "
        f"values right of zero favour {known}. {_shown_of(len(top), len(names))}{summary}",
    ]
    columns = [
        Column("Column"),
        Column("Coefficient", True),
        Column("SD", True),
        Column("Times spread", True),
        Column("P(positive)", True),
    ]
    rows = [
        [shown(names[k]), *(Cell(number(v), v) for v in (mean[k], std[k], size[k])), _positive(mean[k], std[k])]
        for k in order[:_MOST_NUMBERS]
    ]
    return figure(chart.svg(name, title, summary), caption, numbers=table(title, columns, rows, sortable=True))


def _positive(mean: Any, std: Any) -> Cell:
    """The probability that a coefficient is positive, under its Gaussian posterior."""

    p = float(ndtr(mean / std)) if std > 0 else float(mean > 0)
    return Cell(fixed(p), p)


def _inclusion(facts: Facts) -> Iterator[Markup]:
    included = getattr(facts.core, "inclusion_probability_", None)
    if included is None:
        return
    names = _names(facts, np.shape(included)[-1])
    for suffix, known, p in _of_classes(facts, included):
        order = np.argsort(-p, kind="stable")
        chosen = [shown(names[k], 30) for k in order if p[k] > 0.5]
        summary = (
            f"{plural(len(chosen), 'column')} of {len(names):,} with probability above one half: {listed(chosen)}."
        )
        title = f"Selected columns{f', {known}' if suffix else ''}"
        rows = [[shown(names[k]), Cell(fixed(p[k]), p[k])] for k in order[:_MOST_NUMBERS]]
        numbers = table(title, [Column("Column"), Column("Inclusion", True)], rows, sortable=True)
        axis, words = (
            Axis(0, 1, "inclusion probability"),
            ["The probability that each coefficient is not zero. ", summary],
        )
        yield _bars(f"inclusion{suffix}", title, names, p, axis, words, numbers)
