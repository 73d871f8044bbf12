"""The rows on which the model was evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts import Facts
from ..numbers import count, percent, plural
from ..page import Cell, Column, Markup, Section, joined, paragraph, shown, table
from ..rows import RawColumn
from ..words import sizes

#: The largest numbers of columns and of classes that are listed.
_MOST_COLUMNS, _MOST_CLASSES = 200, 50


def data(facts: Facts) -> Section:
    """The section on the data."""
    columns = [facts.rows.column(k) for k in range(min(facts.rows.n_columns, _MOST_COLUMNS))]
    gaps = sum(column.n_gaps for column in columns)
    gap_words = f"{count(gaps)} entries are missing" if gaps else "no entries are missing"
    more = facts.rows.n_columns - len(columns)
    words = (
        f"{plural(facts.rows.n_rows, 'row')} in {plural(facts.rows.n_columns, 'column')}, of "
        f"{plural(facts.n_classes, 'class', 'classes')}; {gap_words}.{_weights(facts)}"
        f"{f' Only the first {len(columns)} columns are listed.' if more else ''}"
    )
    content = joined(paragraph(words), _classes(facts), _columns(facts, columns))
    return Section("data", "Data", content)


def _weights(facts: Facts) -> str:
    if not facts.is_weighted:
        return ""
    weight = facts.weight
    effective = weight.sum() ** 2 / (weight @ weight)
    return f" Rows have weights, {count(weight.sum())} in total, equivalent to {count(round(effective, 1))} equal ones."


def _classes(facts: Facts) -> Markup:
    totals = np.bincount(facts.codes, facts.weight, facts.n_classes)
    order = np.argsort(-totals, kind="stable") if facts.n_classes > _MOST_CLASSES else np.arange(facts.n_classes)
    rows = [
        [facts.class_names[k], Cell(count(totals[k]), totals[k]), Cell(percent(facts.shares[k]), facts.shares[k])]
        for k in order[:_MOST_CLASSES]
    ]
    columns = [Column("Class"), Column("Weight" if facts.is_weighted else "Rows", True), Column("Share", True)]
    learned = sizes(facts.core)
    words = paragraph(f"Shares in the training data: {learned}.", class_="hint") if learned else None
    return joined(table("Classes", columns, rows, sortable=True), words)


def _columns(facts: Facts, columns: list[RawColumn]) -> Markup:
    plans = _plans(facts.model)
    heads = [Column("Column"), Column("Kind"), Column("Missing", True), Column("Entries")]
    heads += [Column("Encoded as"), Column("Note")] if plans else []
    n = facts.rows.n_rows
    rows = []
    for column in columns:
        kind, becomes, note = plans.get(column.name, (column.kind, "", ""))
        gaps = f"{count(column.n_gaps)} ({percent(column.n_gaps / n)})" if column.n_gaps else "0"
        row: list[Any] = [shown(column.name), kind, Cell(gaps, column.n_gaps), column.summary()]
        rows.append(row + ([becomes, note] if plans else []))
    hint = "How each column is encoded, and the note, were determined by the training rows."
    return joined(table("Columns", heads, rows, sortable=True), paragraph(hint, class_="hint") if plans else None)


def _plans(model: Any) -> dict[str, tuple[str, str, str]]:
    """How the model encodes each column, if it describes it."""
    encoder = getattr(model, "encoder_", None)
    if encoder is None or not hasattr(encoder, "describe"):
        return {}
    told = encoder.describe()
    parts = (told[name].tolist() for name in ("column", "kind", "becomes", "note"))
    return {str(name): tuple(shown(part, 120) for part in rest) for name, *rest in zip(*parts, strict=True)}  # type: ignore[misc]
