"""Random effects: how much groups differ, and which ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..charts import Axis, Chart, rows_chart
from ..facts import Facts
from ..numbers import NOTHING, number, plural
from ..page import Cell, Column, Markup, element, figure, shown, table

#: The largest numbers of groups that are drawn with names and without, and of rows in the table.
_NAMED, _UNNAMED, _MOST_NUMBERS = 24, 400, 100
#: The largest number of drawings, since many classes have many effects.
_MOST_FIGURES = 12


def random_effects(facts: Facts) -> Iterator[Markup]:
    """The drawings and tables of a mixed model; nothing for other models."""
    core = facts.core
    components = getattr(core, "variance_components_", None)
    if not components or not hasattr(core, "random_effects"):
        return
    yield _components(facts, components)
    effects = core.random_effects(level=0.95)
    if "class" in effects:
        effects = effects[effects["class"].isin(facts.classes[facts.drawn_classes].tolist())]
    keys = [name for name in ("class", "factor", "effect") if name in effects]
    for index, (key, part) in enumerate(effects.groupby(keys, sort=False)):
        if index == _MOST_FIGURES:
            break
        yield _caterpillar(index, keys, key, part)


def _components(facts: Facts, components: dict[str, Any]) -> Markup:
    """The standard deviations of effects over groups, and correlations between effects of the same group."""
    rows = []
    for factor, covariance in components.items():
        names = facts.core.effect_names_[factor]
        for known, matrix in zip(
            _class_names(facts, covariance), np.reshape(covariance, (-1, len(names), len(names))), strict=True
        ):
            sd = np.sqrt(np.diagonal(matrix))
            for k, effect in enumerate(names):
                with_first = NOTHING if k == 0 else number(matrix[0, k] / (sd[0] * sd[k]), 2)
                rows.append([shown(factor), *known, shown(effect), Cell(number(sd[k]), sd[k]), with_first])
    many = len(facts.classes) > 2
    columns = [
        Column("Factor"),
        *([Column("Class")] if many else []),
        Column("Effect"),
        Column("SD between groups", True),
    ]
    columns.append(Column("Correlation with the first", True))
    caption = [
        element("strong", "Variation between groups. "),
        "The standard deviation of each effect across groups, in units of the latent value, to be compared "
        "with the coefficients. Near zero, groups hardly differ.",
    ]
    return figure(table("Variance components", columns, rows, sortable=True), caption)


def _class_names(facts: Facts, covariance: np.ndarray) -> list[list[str]]:
    return [[name] for name in facts.class_names] if np.ndim(covariance) == 3 else [[]]


def _caterpillar(index: int, keys: list[str], key: Any, part: Any) -> Markup:
    """The effects of all groups with their intervals, sorted."""
    part = part.sort_values("mean", kind="stable", ascending=False)
    words = dict(zip(keys, (shown(word, 30) for word in key), strict=True))
    title = f"{words['effect']} by {words['factor']}"
    title += f", towards {words['class']}" if "class" in words else ""
    mean, low, high = (part[name].to_numpy(dtype=float) for name in ("mean", "low", "high"))
    groups, n = part["group"].tolist(), len(part)
    clear = int(np.sum((low > 0) | (high < 0)))
    summary = f"{plural(n, 'group')}; the interval excludes zero for {clear}."
    name = f"effects-{index}"
    if n <= _NAMED:
        chart = rows_chart(n, Axis.around([low, high], "effect", include=[0.0]))
        chart.guide([0, 0], [-0.5, n - 0.5])
        chart.lying_whiskers(low, high, np.arange(n))
        chart.dots(mean, np.arange(n))
        chart.names([str(group) for group in groups])
    else:
        some = np.unique(np.linspace(0, n - 1, min(n, _UNNAMED)).round().astype(int))
        chart = Chart(Axis(0, n + 1, "group, by rank"), Axis.around([low, high], "effect", include=[0.0]))
        chart.whiskers(some + 1, low[some], high[some], "faint c0")
        chart.guide([0, n + 1], [0, 0])
        chart.line(some + 1, mean[some], "c0 solid")
    caption = [
        element("strong", f"{title}. "),
        "How far each group deviates from the population, with its 95 % interval; groups with few rows are shrunk "
        f"towards zero. {summary}",
    ]
    rows = _extremes(list(zip(groups, mean, low, high, strict=True)))
    columns = [Column("Group"), Column("Mean", True), Column("Low", True), Column("High", True)]
    told = [[shown(group, 30), *(Cell(number(v), v) for v in values)] for group, *values in rows]
    note = title if len(rows) == n else f"{title}: highest and lowest"
    return figure(chart.svg(name, title, summary), caption, numbers=table(note, columns, told, sortable=True))


def _extremes(rows: list[Any]) -> list[Any]:
    """The first and last rows, if there are too many."""
    half = _MOST_NUMBERS // 2
    return rows if len(rows) <= _MOST_NUMBERS else rows[:half] + rows[-half:]
