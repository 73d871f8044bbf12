"""The model in words, the history of its fit, and its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..charts import Axis, Chart
from ..facts import Facts
from ..numbers import number, plural
from ..page import Column, Markup, Section, element, figure, joined, paragraph, table
from ..words import descriptions, model_sentence, parameters

#: The largest number of points drawn of a history.
_MOST_POINTS = 300


def model(facts: Facts) -> Section:
    """The section on the model."""
    core = facts.core
    facts_list = element(
        "dl", [[element("dt", word), element("dd", said[:1].upper() + said[1:])] for word, said in descriptions(core)]
    )
    drawn = element("div", list(filter(None, _histories(core))), class_="figures")
    content = joined(paragraph(model_sentence(core)), facts_list, drawn, _parameters(core))
    return Section("model", "Model", content)


def _histories(core: Any) -> list[Markup | None]:
    history = getattr(core, "history_", None) or []
    value = np.array([entry["objective"] for entry in history], dtype=float)
    if len(value) < 2 or not np.isfinite(value).any():
        return []
    if getattr(core, "draws_", None) is not None:
        words = "After the warm-up it should fluctuate about one level: a drift means that chains have not converged."
        return [_trace(value, "draws", "Draws", "log-likelihood", "iteration", words)]
    accepted = np.array([entry.get("accepted", True) for entry in history], dtype=bool)
    if not getattr(core, "n_particles_", 0):
        return [_ascent(value, accepted)]
    # Passes of the Gaussian belief come first, the last of them with the final bound; the particles' steps follow.
    reached = np.flatnonzero(value == getattr(core, "bound_", np.nan))
    split = int(reached[-1]) + 1 if len(reached) else len(value)
    words = "Mean log-density of the particles, estimated from minibatches: it should rise and then level off."
    moved = value[split:]
    later = _trace(moved, "particles", "Particles", "mean log-density", "check", words) if len(moved) > 1 else None
    return [_ascent(value[:split], accepted[:split]), later]


def _ascent(value: np.ndarray, accepted: np.ndarray) -> Markup | None:
    """The gap of each pass to the best one, on a logarithmic scale, which alone makes the last passes visible."""
    best = float(np.nanmax(value, initial=-np.inf))
    gap, passes = best - value, np.arange(1, len(value) + 1)
    seen = (gap > 1e-9 * max(1.0, abs(best))) & np.isfinite(gap)
    if np.sum(seen & accepted) < 2:
        return None
    chart = Chart(Axis.around(passes[seen], "pass"), Axis.around(gap[seen], "gap to the best", log=True), left=64)
    kept = _some(np.flatnonzero(seen & accepted))
    chart.line(passes[kept], gap[kept], "c0 solid")
    for which, class_ in ((kept, "c0"), (_some(np.flatnonzero(seen & ~accepted)), "quiet")):
        tips = [f"pass {passes[k]}: {number(gap[k])} below" for k in which]
        chart.dots(passes[which], gap[which], class_, 3.0, tips)
    done, refused = plural(len(value), "pass", "passes"), int(np.sum(~accepted))
    summary = f"After {done} the bound was {number(best, 6)}; the first was {number(best - value[0])} below."
    caption = [
        element("strong", "Convergence of the bound. "),
        "The gap between each pass and the best one, on a logarithmic scale: a steep decline is fast convergence.",
        f" Grey: {plural(refused, 'step')} that overshot and were undone." if refused else "",
        f" {summary} The bound is the objective of the fit; it should not be used to compare models.",
    ]
    return figure(chart.svg("bound", "Convergence of the bound", summary), caption)


def _trace(value: np.ndarray, name: str, title: str, label: str, unit: str, words: str) -> Markup:
    steps, value = _some(np.arange(1, len(value) + 1)), _some(value)
    chart = Chart(Axis.around(steps, unit), Axis.around(value, label), left=70)
    chart.line(steps, value, "c0 solid")
    summary = f"From {number(value[0], 5)} to {number(value[-1], 5)}."
    return figure(chart.svg(name, title, summary), [element("strong", f"{title}. "), f"{words} {summary}"])


def _some(values: np.ndarray) -> np.ndarray:
    """At most as many values as are drawn, evenly spaced, including both ends."""
    if len(values) <= _MOST_POINTS:
        return values
    return values[np.unique(np.linspace(0, len(values) - 1, _MOST_POINTS).round().astype(int))]


def _parameters(core: Any) -> Markup | None:
    if not hasattr(core, "get_params"):
        return None
    rows = [[name, element("code", value), "default" if same else "given"] for name, value, same in parameters(core)]
    columns = [Column("Parameter"), Column("Value"), Column("")]
    inner = table("Parameters of the classifier", columns, rows)
    return element("details", element("summary", "All parameters"), inner)
