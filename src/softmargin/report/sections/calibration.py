"""Calibration: whether probabilities match frequencies, and the distribution of probabilities."""

from __future__ import annotations

import numpy as np

from ...metrics import ReliabilityCurve, reliability_curve
from ..charts import Axis, Chart
from ..facts import Facts
from ..numbers import count, fixed, percent, plural
from ..page import Cell, Column, Markup, Section, element, figure, joined, paragraph, shown, table
from .spread import against_others, two_classes

#: Radii of dots, for bins with hardly any rows and with all rows.
_RADII = (2.5, 7.5)
#: Maximum length of a class name along an axis.
_AXIS_NAME = 18


def calibration(facts: Facts) -> Section:
    """The section on calibration."""
    if facts.n_classes == 2:
        drawn = [_reliability(facts, 1, "reliability"), two_classes(facts)]
    else:
        drawn = [_confidence(facts)]
        for k in facts.drawn_classes:
            drawn += [_reliability(facts, k, f"reliability-{k}"), against_others(facts, k, explained=len(drawn) == 1)]
    words = [
        "Probabilities are calibrated if, of rows predicted with probability 0.7, seven in ten are of the class.",
        left_out_words(facts),
    ]
    content = joined(paragraph(" ".join(filter(None, words))), element("div", drawn, class_="figures"))
    return Section("calibration", "Calibration", content)


def left_out_words(facts: Facts) -> str:
    """A note on classes that are not drawn, if any."""
    left = facts.n_classes - len(facts.drawn_classes)
    return f"The classes with most rows are shown; {left} others are not." if facts.n_classes > 2 and left else ""


def _confidence(facts: Facts) -> Markup:
    """With many classes: the reliability of the most probable class."""
    curve = reliability_curve(~facts.is_wrong, facts.proba.max(axis=1), sample_weight=facts.weight, pos_label=True)
    title, axes = "Reliability of the most probable class", ("predicted probability", "share of correct predictions")
    return _drawn(curve, "confidence", title, axes, "c0", wide=True)


def _reliability(facts: Facts, k: int, name: str) -> Markup:
    curve = reliability_curve(facts.codes == k, facts.proba[:, k], sample_weight=facts.weight, pos_label=True)
    known = shown(facts.class_names[k], _AXIS_NAME)
    axes = f"probability of {known}", f"observed share of {known}"
    title, colour = f"Reliability of the probability of {facts.class_names[k]}", facts.colour(k)
    return _drawn(curve, name, title, axes, colour, explained=facts.n_classes == 2)


def _drawn(
    curve: ReliabilityCurve,
    name: str,
    title: str,
    axes: tuple[str, str],
    colour: str,
    wide: bool = False,
    explained: bool = True,
) -> Markup:
    chart = Chart(Axis(0, 1, axes[0]), Axis(0, 1, axes[1]))
    chart.boxes(curve.left, curve.right, curve.low, curve.high, colour)
    chart.guide([0, 1], [0, 1])
    sizes = _RADII[0] + (_RADII[1] - _RADII[0]) * np.sqrt(curve.weight / curve.weight.sum())
    for p, came, n, size in zip(curve.probability, curve.frequency, curve.weight, sizes, strict=True):
        chart.dots([p], [came], colour, size, [f"{fixed(p, 2)} predicted, {percent(came)} observed, {count(n)} rows"])
    held = int(np.sum((curve.low <= curve.probability) & (curve.probability <= curve.high)))
    summary = f"In {held} of {plural(len(curve.low), 'bin')}, the band contains the mean predicted probability."
    words = (
        "On the dashed diagonal, observed frequencies equal predicted probabilities; below it, predictions are too "
        "high. Dots are bins of width 0.1, larger with more rows; bands are 95 % intervals, wide if rows are few. "
    )
    caption = [element("strong", f"{title}. "), words if explained else None, summary]
    return figure(chart.svg(name, title, summary), caption, numbers=_curve_table(curve, title), wide=wide)


def _curve_table(curve: ReliabilityCurve, title: str) -> Markup:
    names = ("Bin", "Mean probability", "Observed", "95 % interval", "Rows")
    rows = [
        [f"{left:.1f} to {right:.1f}", fixed(p), fixed(came), f"{fixed(low)} to {fixed(high)}", Cell(count(n), n)]
        for p, came, low, high, n, left, right in zip(*curve, strict=True)
    ]
    return table(title, [Column(word, k > 0) for k, word in enumerate(names)], rows)
