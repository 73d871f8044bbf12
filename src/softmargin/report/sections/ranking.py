"""How well probabilities rank rows."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import auc, roc_curve

from ..charts import Axis, Chart, legend, thinned
from ..facts import Facts
from ..numbers import NOTHING, count, fixed, percent, round_percent
from ..page import Cell, Column, Markup, Section, element, figure, joined, paragraph, shown, table
from .calibration import left_out_words

#: Maximum length of a class name along an axis, and the thresholds in the table.
_AXIS_NAME, _THRESHOLDS = 16, (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class _Curve(NamedTuple):
    """The ROC curve of a class against all others."""

    k: int
    false: np.ndarray
    true: np.ndarray
    area: float


def ranking(facts: Facts) -> Section:
    """The section on ranking."""
    two = facts.n_classes == 2
    curves = [_curve(facts, facts.proba, k) for k in ([1] if two else range(facts.n_classes))]
    if all(math.isnan(curve.area) for curve in curves):
        return Section("ranking", "Ranking", paragraph("All rows are of one class, so there is nothing to rank."))
    parts = [_two(facts, curves[0]), _thresholds(facts)] if two else [_many(facts, curves), _areas(facts, curves)]
    content = joined(paragraph(_words(facts, two)), element("div", parts, class_="figures"))
    return Section("ranking", "Ranking", content)


def _words(facts: Facts, two: bool) -> str:
    words = (
        "At any threshold, some rows of the class are found and some others are mistaken for it. The curve shows both "
        "for all thresholds; it does not depend on calibration."
    )
    return words if two else f"{words} Each class is compared with all others. {left_out_words(facts)}"


def _curve(facts: Facts, proba: np.ndarray, k: int) -> _Curve:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        false, true, _ = roc_curve(facts.codes == k, proba[:, k], pos_label=True, sample_weight=facts.weight)
    if np.isnan(false).any() or np.isnan(true).any():
        return _Curve(k, false, true, math.nan)
    return _Curve(k, false, true, float(auc(false, true)))


def _two(facts: Facts, curve: _Curve) -> Markup:
    """The curve of the second of two classes, with the model's own threshold marked."""
    first, second = (shown(name, _AXIS_NAME) for name in facts.class_names)
    chart = _chart(f"share of {first} mistaken for it", f"share of {second} found")
    names, classes = [f"{facts.class_names[1]} ({fixed(curve.area)})"], ["c1 solid"]
    if facts.reference is not None:
        other = _curve(facts, facts.reference, 1)
        chart.line(*thinned(other.false, other.true), "c7")
        names.append(f"reference ({fixed(other.area)})")
        classes.append("c7")
    chart.line(*thinned(curve.false, curve.true), classes[0])
    said = facts.confusion / facts.confusion.sum(axis=1, keepdims=True)
    chart.dots(said[[0], 1], said[[1], 1], "c1", 5.0, ["threshold one half"])
    title, summary = "ROC curve", f"The area under the curve is {fixed(curve.area)}."
    caption = [
        element("strong", f"{title}. "),
        "The closer to the upper left corner, the better; the dashed diagonal is chance, and areas are in brackets. "
        "The dot is the model's own decision, at threshold one half.",
    ]
    return figure(chart.svg("roc", title, summary), caption, legend(names, classes))


def _thresholds(facts: Facts) -> Markup:
    """A table of the effects of thresholds other than one half."""
    p, own, known = facts.proba[:, 1], facts.codes == 1, facts.class_names[1]
    weight, rows = facts.weight, []
    for threshold in _THRESHOLDS:
        said = p > threshold
        found, mistaken = weight @ (said & own), weight @ (said & ~own)
        shares = (found / (weight @ own), mistaken / (weight @ ~own), found / max(found + mistaken, 1e-300))
        trusted = percent(shares[2]) if found + mistaken > 0 else NOTHING
        rows.append([f"{threshold:g}", percent((found + mistaken) / weight.sum()), *map(percent, shares[:2]), trusted])
    names = ("Threshold", f"Predicted {known}", "Recall", "False alarms", "Precision")
    caption = [
        element("strong", "Other thresholds. "),
        f"What happens if {known} is predicted wherever its probability exceeds the threshold. If a missed row costs c "
        "times as much as a false alarm, the best threshold for calibrated probabilities is 1 / (1 + c).",
    ]
    made = table("Thresholds", [Column(name, k > 0) for k, name in enumerate(names)], rows)
    return figure(made, caption)


def _many(facts: Facts, curves: list[_Curve]) -> Markup:
    """The curves of the classes with most rows, each against all others."""
    drawn = [c for c in curves if c.k in facts.drawn_classes and not math.isnan(c.area)]
    chart = _chart("share of the others mistaken for it", "share of the class found")
    for curve in reversed(drawn):
        chart.line(*thinned(curve.false, curve.true), facts.colour(curve.k))
    known = [f"{facts.class_names[c.k]} ({fixed(c.area)})" for c in drawn]
    title = "ROC curves, each class against all others"
    caption = [
        element("strong", f"{title}. "),
        "The closer to the upper left corner, the better; the dashed diagonal is chance. Areas are in brackets.",
    ]
    key = legend(known, [facts.colour(c.k) for c in drawn])
    return figure(chart.svg("roc", title, f"Areas under the curves: {'; '.join(known)}."), caption, key)


def _chart(x: str, y: str) -> Chart:
    chart = Chart(Axis(0, 1, x, form=round_percent), Axis(0, 1, y, form=round_percent), left=62)
    chart.guide([0, 1], [0, 1])
    return chart


def _areas(facts: Facts, curves: list[_Curve]) -> Markup:
    totals = np.bincount(facts.codes, facts.weight, facts.n_classes)
    rows = [
        [name, Cell(fixed(c.area), None if math.isnan(c.area) else c.area), Cell(count(total), total)]
        for name, c, total in zip(facts.class_names, curves, totals, strict=True)
    ]
    columns = [Column("Class"), Column("Area", True), Column("Rows", True)]
    return element("div", table("Areas under the ROC curves", columns, rows, sortable=True))
