"""Reports on fitted classifiers: one HTML file, for readers who did not fit the model.

It needs no network and no script library, works without scripts, in print, on a phone and in dark mode, and has the
numbers of every figure next to it.  The same model and rows give the same file.
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

#: Maximum length of a title.
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
    """Report on a fitted classifier, as a string of HTML.

    It has tabs for: measures with 95 % bootstrap intervals, compared with a prediction by the class shares, and the
    confusion matrix; reliability curves and histograms of the probabilities; ROC curves; the most confident mistakes,
    the most uncertain and the most certain rows, with their entries; relevance of columns, coefficients, selected
    columns and random effects, where the model has them; a description of the model and the convergence of its bound;
    and the columns of the data, with missing values and encoding.

    Parameters
    ----------
    model : fitted classifier
        Of softmargin, on its own, in a `softmargin.tables.TableClassifier` or at the end of a scikit-learn pipeline.
        For any other classifier with ``predict_proba``, the report has the parts that need only predictions.
    X : array, CSR matrix, or frame of pandas or polars
        Rows to evaluate the model on, before any encoding.  Measures on training rows are too optimistic: hold some
        rows out.
    y : sequence of labels, or the name of a column of ``X``, optional
        By default the target column of a `softmargin.tables.TableClassifier`, or the one that a formula names.
    title : str, optional
        Title of the page; by default the name of the model.
    sample_weight : sequence of weights, optional
        A row of weight k counts k times; rows of weight 0 are ignored.
    groups : sequence of labels, optional
        The group of each row: intervals of measures and of differences then resample whole groups, as in
        `softmargin.evaluation.evaluate`.
    reference : classifier or array of probabilities, optional
        Another model, fitted on the same classes, or its predictions for these rows, to compare with.
    random_state : int
        Seeds the bootstrap.

    Returns
    -------
    str
        A complete page.  In a notebook, `write` it and show it with ``IPython.display.IFrame``.

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
    judged = f"{type(facts.core).__name__}, evaluated on {plural(facts.rows.n_rows, 'row')}"
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
    """Write the report to a file, which is replaced only once the new one is complete.

    Parameters
    ----------
    path : path of the file
    model, X, y, title, sample_weight, groups, reference, random_state
        As in `html`.

    Returns
    -------
    Path
        The path of the file.

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
    from .. import __version__  # not yet defined while the package is being imported

    drawn = plural(facts.evaluation.n_bootstrap, "bootstrap sample")
    whom = "the rows" if facts.members is None else f"{plural(facts.members.max() + 1, 'group')} of rows"
    return paragraph(f"Made by softmargin {__version__}. Intervals are 95 % percentiles of {drawn} of {whom}.")
