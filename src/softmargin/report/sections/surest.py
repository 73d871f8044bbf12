"""Rows to inspect: the most confident mistakes, the most uncertain rows, the most certain of all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts import Facts
from ..numbers import fixed, plural
from ..page import Cell, Column, Markup, Section, joined, paragraph, shown, table
from ..rows import RawColumn, entry_text
from .learned import relevant_columns

#: Rows of each table, and the largest number of data columns in it.
_N_ROWS, _N_COLUMNS = 15, 12


def surest(facts: Facts) -> Section:
    """The section on single rows."""
    sure, there = facts.proba.max(axis=1), facts.weight > 0
    wrong = np.flatnonzero(facts.is_wrong & there)
    every = np.flatnonzero(there)
    columns = [facts.rows.column(k) for k in _columns(facts)]
    mistakes = paragraph("No row was misclassified.")
    if len(wrong):
        mistakes = _rows_table(
            facts, "Most confident mistakes", wrong[np.argsort(-sure[wrong], kind="stable")], columns
        )
    said = ""
    if len(columns) < facts.rows.n_columns:
        which = f"{len(columns)} most relevant" if relevant_columns(facts) else f"first {len(columns)}"
        said = f" Of {plural(facts.rows.n_columns, 'column')} the {which} are shown."
    content = joined(
        paragraph(
            "Confident mistakes are the most informative rows: wrong labels, entries out of range, or something that "
            f"the columns do not capture.{said}{_counted(facts)} Click a heading to sort."
        ),
        mistakes,
        paragraph(
            "Rows about which the model is least certain: classes overlap there, or it has seen too few similar rows."
        ),
        _rows_table(facts, "Most uncertain rows", every[np.argsort(sure[every], kind="stable")], columns),
        paragraph("Rows about which the model is most certain: what each class looks like to it."),
        _rows_table(facts, "Most certain rows", every[np.argsort(-sure[every], kind="stable")], columns),
    )
    return Section("rows", "Rows", content)


def _counted(facts: Facts) -> str:
    """A note on row numbers, if rows have no names."""
    labels = facts.rows.labels
    return " Rows are counted from 0." if all(labels[k] == k for k in (0, facts.rows.n_rows - 1)) else ""


def _columns(facts: Facts) -> list[int]:
    """All columns, or the most relevant ones, in the order of the table."""
    n = facts.rows.n_columns
    if n <= _N_COLUMNS:
        return list(range(n))
    chosen = [facts.rows.names.index(name) for name in relevant_columns(facts) if name in facts.rows.names]
    rest = [k for k in range(n) if k not in set(chosen)]
    return sorted((chosen + rest)[:_N_COLUMNS])


def _rows_table(facts: Facts, caption: str, order: np.ndarray, columns: list[RawColumn]) -> Markup:
    heads = [
        Column("Row"),
        Column("Class"),
        Column("Predicted"),
        Column("P(predicted)", True),
        Column("P(class)", True),
    ]
    heads += [Column(shown(column.name, 30), column.kind == "number") for column in columns]
    rows = [_row(facts, int(k), columns) for k in order[:_N_ROWS]]
    return table(caption, heads, rows, sortable=True)


def _row(facts: Facts, row: int, columns: list[RawColumn]) -> list[Any]:
    code, said, p = facts.codes[row], facts.said[row], facts.proba[row]
    mark = "miss" if code != said else None
    label = facts.rows.labels[row]
    own = [
        Cell(shown(label, 20), float(label) if isinstance(label, (int, np.integer)) else None),
        facts.class_names[code],
        Cell(facts.class_names[said], None, mark),
        Cell(fixed(p[said]), p[said]),
        Cell(fixed(p[code]), p[code]),
    ]
    return own + [_entry(column, row) for column in columns]


def _entry(column: RawColumn, row: int) -> Cell:
    entry = column.entry(row)
    sortable = entry is not None and column.kind == "number"
    return Cell(entry_text(entry), float(entry) if sortable else None)  # type: ignore[arg-type]
