"""A report about a fitted classifier: one HTML file, to be read by people who did not fit it.

It needs neither a network nor a library of scripts, works without scripts, in print, on a phone and in the dark, and
has every drawing's numbers beside it.  The same model and rows make the same file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any

from .facts import Facts
from .numbers import plural
from .page import Markup, document, element, joined, listed, paragraph, shown
from .sections import SECTIONS, cards, verdict

__all__ = ["html", "write"]

#: Longest title.
_TITLE_LENGTH = 120


def html(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    title: str | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    reference: Any = None,
    random_state: Any = 0,
) -> str:
    """The report as a string of HTML.

    It holds, on tabs of their own: measures with 95 % bootstrap intervals beside those of a guess by the shares of the
    classes, and the confusion matrix; reliability curves and histograms of the probabilities; ROC curves; the surest
    mistakes, the most open rows and the surest rows, with their entries; relevance of columns, coefficients, selected
    columns and random effects, whichever the model has; the model in words and the way of its bound; the columns of the
    data, their gaps and what becomes of them.

    Parameters
    ----------
    model : fitted classifier
        Of softmargin, on its own, in a `softmargin.tables.TableClassifier` or at the end of a scikit-learn pipeline.
        Any other classifier with ``predict_proba`` has the parts that do not look inside.
    X : array, CSR matrix, or frame of pandas or polars
        Rows to judge the model by, as they came.  Measures on rows that the model has learned from flatter it: hold
        some out.
    y : sequence of labels, or the name of a column of ``X``, optional
        By default the column that a `softmargin.tables.TableClassifier` was told to learn, or that a formula names.
    title : str, optional
        Of the page; by default the model's name.
    sample_weight : sequence of weights, optional
        A row of weight k counts k times; one of weight 0 is not there.
    groups : sequence of labels, optional
        Who a row belongs to: intervals of measures and of differences are then those of whole groups, as in
        `softmargin.evaluation.evaluate`.
    reference : classifier or array of probabilities, optional
        Another model, fitted on the same classes, or what it says of these rows: its measures stand beside.
    random_state : int
        Seeds the bootstrap.

    Returns
    -------
    str
        A whole page.  In a notebook, `write` it and show it with ``IPython.display.IFrame``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from softmargin import BayesianSVC, report
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> seen, new, y_seen, y_new = train_test_split(X, y, random_state=0)
    >>> page = report.html(BayesianSVC(random_state=0).fit(seen, y_seen), new, y_new, title="Tumours")
    >>> page.startswith("<!DOCTYPE html>"), "<title>Tumours</title>" in page, len(page) < 300_000
    (True, True, True)
    """
    facts = Facts.of(model, X, y, sample_weight, groups, reference, random_state)
    sections = [section for make in SECTIONS if (section := make(facts)) is not None]
    judged = f"{type(facts.core).__name__}, judged by {plural(facts.rows.n_rows, 'row')}"
    known = shown(judged if title is None else title, _TITLE_LENGTH)
    return document(known, _head(facts, known, judged), sections, _foot(facts))


def write(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    y: Any = None,
    *,
    title: str | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    reference: Any = None,
    random_state: Any = 0,
) -> Path:
    """Writes the report to a file, which takes the place of what was there once it is complete.

    Parameters
    ----------
    path : path of the file
    model, X, y, title, sample_weight, groups, reference, random_state
        As in `html`.

    Returns
    -------
    Path
        Where it is.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from softmargin import BayesianLinearSVC, report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(f"{folder}/iris.html", model, X[1::2], y[1::2]).name
    'iris.html'
    """
    options: dict[str, Any] = {"title": title, "sample_weight": sample_weight, "groups": groups}
    page = html(model, X, y, reference=reference, random_state=random_state, **options)
    target = Path(path)
    beside = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        beside.write_text(page, encoding="utf-8", newline="\n")
        os.replace(beside, target)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return target


def _head(facts: Facts, title: str, judged: str) -> Markup:
    columns, classes = plural(facts.rows.n_columns, "column"), plural(facts.n_classes, "class", "classes")
    line = f"{columns} · {classes}: {listed(facts.class_names, 4)}"
    line = line if title == judged else f"{judged} · {line}"
    return joined(element("h1", title), paragraph(line, class_="subtitle"), verdict(facts), cards(facts))


def _foot(facts: Facts) -> Markup:
    from .. import __version__  # which is not there yet while the package itself is imported

    drawn = plural(facts.evaluation.n_bootstrap, "draw")
    whom = "the rows" if facts.members is None else f"{plural(facts.members.max() + 1, 'group')} of rows"
    return paragraph(f"Made by softmargin {__version__}. Intervals are 95 % percentiles of {drawn} of {whom}.")
