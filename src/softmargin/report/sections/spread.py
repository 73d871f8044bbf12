"""The distribution of predicted probabilities among the rows of each class."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..charts import Axis, Chart, legend
from ..facts import Facts
from ..numbers import NOTHING, fixed, percent, round_percent
from ..page import Column, Markup, element, figure, shown, table

_EDGES = np.linspace(0, 1, 21)
#: The gap between bars, and the maximum length of a name along an axis.
_AIR, _AXIS_NAME = 0.004, 24


class _Group(NamedTuple):
    """Rows that share a histogram."""

    rows: np.ndarray
    name: str
    colour: str


def two_classes(facts: Facts) -> Markup:
    """The probabilities of the second class, for its own rows and for those of the first."""
    groups = [_Group(facts.codes == k, facts.class_names[k], facts.colour(k)) for k in (1, 0)]
    return _histogram(facts, 1, "probabilities", groups)


def against_others(facts: Facts, k: int, explained: bool) -> Markup:
    """The probabilities of one of many classes, for its own rows and for all others."""
    own = facts.codes == k
    groups = [_Group(own, facts.class_names[k], facts.colour(k)), _Group(~own, "all other classes", "quiet")]
    return _histogram(facts, k, f"probabilities-{k}", groups, explained)


def _histogram(facts: Facts, k: int, name: str, groups: list[_Group], explained: bool = True) -> Markup:
    """Histograms, upwards for the first group and downwards for the second; bars are proportions of a group."""
    p, known, (first, second) = facts.proba[:, k], facts.class_names[k], groups
    shares = [_shares(p[group.rows], facts.weight[group.rows]) for group in groups]
    middle = [_middle(p[group.rows], facts.weight[group.rows]) for group in groups]
    title = f"Probabilities of {known}"
    summary = f"The median is {middle[0]} for rows of {first.name} and {middle[1]} for {second.name}."
    words = (
        f"Rows of {first.name} are drawn upwards and should lie to the right, those of {second.name} downwards and to "
        f"the left; bars are shares of each. "
    )
    caption = [element("strong", f"{title}. "), words if explained else None, summary]
    bins = [f"{low:.2f} to {high:.2f}" for low, high in pairwise(_EDGES)]
    rows = [[word, percent(up), percent(down)] for word, up, down in zip(bins, *shares, strict=True)]
    columns = [Column("Probability"), *(Column(group.name, True) for group in groups)]
    key = legend([group.name for group in groups], [group.colour for group in groups], solid=True)
    drawing = _chart(known, shares, groups, bins).svg(name, title, summary)
    return figure(drawing, caption, key, table(title, columns, rows))


def _chart(known: str, shares: list[np.ndarray], groups: list[_Group], bins: list[str]) -> Chart:
    top = 1.05 * (max(float(share.max()) for share in shares) or 1.0)
    y = Axis(-top, top, "share of rows", form=lambda share: round_percent(abs(share)))
    chart = Chart(Axis(0, 1, f"probability of {shown(known, _AXIS_NAME)}"), y)
    for sign, share, group in zip((1, -1), shares, groups, strict=True):
        tips = [f"{percent(part)} of {group.name}: {word}" for part, word in zip(share, bins, strict=True)]
        chart.bars(_EDGES[:-1] + _AIR, _EDGES[1:] - _AIR, sign * share, group.colour, tips=tips)
    return chart


def _shares(p: np.ndarray, weight: np.ndarray) -> np.ndarray:
    totals = np.histogram(p, _EDGES, weights=weight)[0]
    return totals / max(totals.sum(), 1e-300)


def _middle(p: np.ndarray, weight: np.ndarray) -> str:
    if not weight.any():
        return NOTHING
    return fixed(np.quantile(p, 0.5, weights=weight, method="inverted_cdf"), 2)
