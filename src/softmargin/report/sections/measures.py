"""How good the model is: a verdict to read first, measures with intervals, and the confusion between classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...evaluation import MEASURES, Estimate, log_losses
from ...tables.classifier import told_of_seen
from ..charts import Axis, interval
from ..facts import Facts
from ..numbers import count, fixed, number, percent, plural
from ..page import Cell, Column, Markup, Section, element, joined, paragraph, scrolling, table

#: Explanations of the measures.
_MEANINGS = {
    "error": "Share of rows whose most probable class is wrong.",
    "balanced_error": "The mean error over classes: rare classes count as much as common ones.",
    "auc": "How often a row of a class gets more probability of it than another row: ½ is chance, 1 is perfect.",
    "log_loss": "Mean negative logarithm of the probability of the true class: confident mistakes cost most.",
    "brier": "Mean squared distance between probabilities and outcomes.",
    "ece": "Mean distance between probabilities and observed frequencies. Noise alone raises it.",
}
#: The largest number of classes for a full confusion matrix, and of mistakes in a list.
_MOST_CLASSES, _MOST_MISTAKES = 26, 40
#: Number of shades in the style sheet.
_SHADES = 8


def measures(facts: Facts) -> Section:
    """The section on measures."""
    content = joined(_loo_words(facts), _reference_words(facts), _measures_table(facts), _confusion(facts))
    return Section("measures", "Measures", content)


def cards(facts: Facts) -> Markup:
    """Cards with the four main measures."""
    kept = ("error", "log_loss", "auc", "ece")
    return element("div", [_card(name, facts.evaluation[name]) for name in kept], class_="cards")


def _card(name: str, found: Estimate) -> Markup:
    form = percent if name == "error" else fixed
    title = "Calibration error" if name == "ece" else MEASURES[name][0].upper() + MEASURES[name][1:]
    ends = "undefined here" if math.isnan(found.value) else f"{form(found.low)} to {form(found.high)}"
    return element(
        "div",
        element("span", title, class_="what"),
        element("span", form(found.value), class_="value"),
        element("span", ends, class_="ends"),
        class_="card",
    )


def verdict(facts: Facts) -> Markup:
    """A paragraph that sums up how good the model is."""
    error, guess = facts.evaluation["error"], facts.baseline["error"].value
    loss, baseline = facts.evaluation["log_loss"], facts.baseline["log_loss"].value
    gain = _gain(facts, np.broadcast_to(facts.shares, facts.proba.shape))
    better = gain.word("better than", "worse than", "not demonstrably better than")
    return paragraph(
        f"On these {plural(facts.rows.n_rows, 'row')} the model is wrong in ",
        element("strong", percent(error.value)),
        f" of cases (95 % interval {percent(error.low)} to {percent(error.high)}); always predicting the most common "
        f"class would be wrong in {percent(guess)}. Its probabilities are {better} the class shares alone: a log "
        f"loss of {fixed(loss.value)} against {fixed(baseline)}, {gain.in_words(fixed)}.",
        class_="verdict",
    )


class _Gain(NamedTuple):
    """The mean difference of log losses, paired by rows or groups, and half the width of its 95 % interval."""

    mean: float
    half: float

    def word(self, lower: str, higher: str, neither: str) -> str:
        """The appropriate word: ``neither`` if the interval contains zero."""
        if not abs(self.mean) > self.half:
            return neither
        return lower if self.mean < 0 else higher

    def in_words(self, form: Callable[[float], str]) -> str:
        return f"a difference of {form(self.mean)} ({form(self.mean - self.half)} to {form(self.mean + self.half)})"


def _gain(facts: Facts, other: np.ndarray) -> _Gain:
    """The model against other probabilities for the same rows: paired differences are more precise.

    Independent units are rows or, if given, groups, over whose rows differences are summed.  A single group gives no
    information about the uncertainty.
    """
    places = np.arange(facts.n_classes)
    own, theirs = (log_losses(facts.codes, np.clip(proba, 0, 1), places) for proba in (facts.proba, other))
    weight = facts.weight / facts.weight.sum()
    mean = float(weight @ (own - theirs))
    parts = weight * (own - theirs - mean)
    if facts.members is None:
        return _Gain(mean, 1.96 * math.sqrt(float(parts @ parts)))
    parts = np.bincount(facts.members, parts)
    n = len(parts)
    return _Gain(mean, 1.96 * math.sqrt(n / (n - 1) * float(parts @ parts)) if n > 1 else math.inf)


def _loo_words(facts: Facts) -> Markup:
    """The leave-one-out log loss, next to the log loss on these rows."""
    expected, found = getattr(facts.core, "loo_log_loss_", None), facts.evaluation["log_loss"]
    warning = told_of_seen(facts.model, facts.X) or ("Measures on training rows are too optimistic; use held-out rows.")
    if expected is None or math.isnan(expected):
        return paragraph(warning, class_="note")
    word = "The two agree within chance."
    if found.high < expected:
        word = "That is lower than expected by more than chance: the model may have been trained on these rows."
    if found.low > expected:
        word = (
            "That is higher than expected by more than chance: these rows may come from another population, or tuning "
            "may have overfitted the training rows."
        )
    return paragraph(
        f"The leave-one-out log loss on the training rows was {fixed(expected)}; "
        f"here the log loss is {fixed(found.value)} ({fixed(found.low)} to {fixed(found.high)}). {word} {warning}",
        class_="note",
    )


def _reference_words(facts: Facts) -> Markup | None:
    """The paired difference from the reference."""
    if facts.reference is None:
        return None
    gain = _gain(facts, facts.reference)
    word = gain.word("lower than", "higher than", "not demonstrably different from")
    by = "Row by row" if facts.members is None else "Group by group"
    return paragraph(f"{by}, the log loss is {word} that of the reference: {gain.in_words(number)}.")


def _measures_table(facts: Facts) -> Markup:
    columns = [
        Column("Measure"),
        Column("Value", True),
        Column("95 % interval", True),
        Column(""),
        Column("Class shares", True),
    ]
    reference = facts.reference_evaluation
    columns += [Column("Reference", True)] if reference else []
    rows = []
    for name, word in MEASURES.items():
        found, guess = facts.evaluation[name], facts.baseline[name].value
        high = np.nanmax([found.high, guess, 1e-9]) if name != "auc" else 1.0
        low = min(0.5, found.low) if name == "auc" else 0.0
        drawn = None if math.isnan(found.value) else interval(*found[1:], found.value, guess, Axis(low, float(high)))
        what = joined(word, element("span", _MEANINGS[name], class_="meaning"))
        row = [what, fixed(found.value), f"{fixed(found.low)} to {fixed(found.high)}", drawn, fixed(guess)]
        rows.append(row + ([fixed(reference[name].value)] if reference else []))
    anew = "rows as if they were independent; with few groups, intervals should be wider"
    anew = anew if facts.members is None else "whole groups of rows"
    words = (
        "Dot and bar: the value and its interval; dashed: a prediction by the class shares alone. "
        f"Intervals come from resampling {anew}."
    )
    return joined(table("Measures of the probabilities", columns, rows), paragraph(words, class_="hint"))


def _confusion(facts: Facts) -> Markup:
    if facts.n_classes > _MOST_CLASSES:
        return _mistakes(facts)
    matrix, names = facts.confusion, facts.class_names
    of_class, said = matrix.sum(axis=1), matrix.sum(axis=0)
    head = element(
        "tr",
        element("th", "Class", scope="col"),
        [element("th", f"predicted {name}", scope="col", class_="number") for name in names],
        element("th", "rows", scope="col", class_="number"),
        element("th", "recall", scope="col", class_="number"),
    )
    body = [
        element(
            "tr",
            element("th", names[k], scope="row"),
            [_confused(matrix[k, j], of_class[k], k == j) for j in range(len(names))],
            element("td", count(of_class[k]), class_="number"),
            element("td", percent(_share(matrix[k, k], of_class[k])), class_="number"),
        )
        for k in range(len(names))
    ]
    right = [element("td", percent(_share(matrix[k, k], said[k])), class_="number") for k in range(len(names))]
    body.append(
        element("tr", element("th", "precision", scope="row"), right, element("td"), element("td"), class_="total")
    )
    caption = f"Confusion matrix{', by weight of rows' if facts.is_weighted else ''}"
    made = element(
        "table", element("caption", caption), element("thead", head), element("tbody", body), class_="confusion"
    )
    words = (
        "Rows of the matrix are true classes and columns are predictions; the diagonal is correct. Stronger colours "
        "are larger shares of the class. Recall is the share of a class that was recognised, precision the share of "
        "predictions of a class that were correct."
    )
    return joined(scrolling(made, caption), paragraph(words, class_="hint"))


def _confused(weight: float, total: float, right: bool) -> Markup:
    share = _share(weight, total)
    shade = 0 if math.isnan(share) or weight == 0 else max(1, math.ceil(share * _SHADES))
    content = [count(weight), element("span", percent(share), class_="share")] if weight else "0"
    return element("td", content, class_=f"number shade-{shade} {'right' if right else 'wrong'}")


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _mistakes(facts: Facts) -> Markup:
    """With many classes, the pairs that are confused most often."""
    matrix, names = facts.confusion, facts.class_names
    wrong = matrix * (1 - np.eye(len(names)))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MISTAKES]
    pairs = [(k, j) for k, j in zip(*np.unravel_index(order, wrong.shape), strict=True) if wrong[k, j] > 0]
    rows = [
        [names[k], names[j], Cell(count(wrong[k, j]), wrong[k, j]), Cell(percent(share), share)]
        for k, j in pairs
        for share in [wrong[k, j] / matrix[k].sum()]
    ]
    columns = [Column("Class"), Column("Predicted"), Column("Rows", True), Column("Share of the class", True)]
    if not rows:
        return paragraph("No row was misclassified.")
    return table(f"Most common mistakes among {len(names)} classes", columns, rows, sortable=True)
