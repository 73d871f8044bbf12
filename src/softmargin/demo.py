"""The comparison of ``softmargin demo``: real tables, with the same splits for every model.

The tables are included in scikit-learn, so nothing is downloaded. Every model runs on one thread: small
matrices gain nothing from more, and times are then comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.model_selection import StratifiedShuffleSplit
from threadpoolctl import threadpool_limits

from .comparison import OURS, Maker, Trial, calibrated_svc, trials
from .estimators import BayesianSVC
from .evaluation import evaluate

__all__ = ["MEASURES", "MODELS", "Result", "Table", "compare", "contradictions", "draw", "mean_over_tables", "tables"]

N_SPLITS, N_SPLITS_QUICK = 20, 3
_TEST_SHARE = 0.3
#: Two columns of the breast cancer table with an obvious meaning.
_PICTURE_COLUMNS = ["mean radius", "mean texture"]
#: The fields of a `Result` that are better when smaller.
MEASURES = ("error", "log_loss", "brier", "ece", "seconds")


class Table(NamedTuple):
    """A real table of two classes."""

    name: str
    X: np.ndarray
    y: np.ndarray


class Result(NamedTuple):
    """One model on one table, over all splits.

    ``error``, ``log_loss``, ``brier`` and ``seconds`` (of ``fit``) are means over splits.  ``ece`` is that of the
    test rows of all splits together: one split has too few of them for 15 bins.  ``contradictions`` counts the
    test rows, of ``n_tested``, where ``predict`` is not the class of greatest ``predict_proba``.
    """

    table: str
    model: str
    error: float
    log_loss: float
    brier: float
    ece: float
    seconds: float
    contradictions: int
    n_tested: int


#: Makers of the models, all with their default settings.
MODELS: dict[str, Maker] = {
    "BayesianSVC": OURS["BayesianSVC"],
    "BayesianLinearSVC": OURS["BayesianLinearSVC"],
    "calibrated SVC": calibrated_svc,
}


def tables() -> list[Table]:
    """The tables of the demo.

    Examples
    --------
    >>> [(table.name, *table.X.shape) for table in tables()][:2]
    [('breast cancer', 569, 30), ('digits, 3 or 8', 357, 64)]
    """
    loaders = (datasets.load_breast_cancer, datasets.load_digits, datasets.load_wine, datasets.load_iris)
    cancer, digits, wine, iris = (_load(load) for load in loaders)
    X, progression = _load(datasets.load_diabetes, scaled=False)
    return [
        Table("breast cancer", *cancer),
        _two_of("digits, 3 or 8", *digits, 3, 8),
        Table("wine, class 1 or not", wine[0], (wine[1] == 1).astype(int)),
        _two_of("iris, class 1 or 2", *iris, 1, 2),
        Table("diabetes, high or low", X, (progression > np.median(progression)).astype(int)),
    ]


def _load(load: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    return load(return_X_y=True, **options)


def _two_of(name: str, X: np.ndarray, y: np.ndarray, first: int, second: int) -> Table:
    kept = np.isin(y, [first, second])
    return Table(name, X[kept], (y[kept] == second).astype(int))


def compare(
    tables: Sequence[Table],
    *,
    n_splits: int = N_SPLITS,
    seed: int = 0,
    progress: Callable[[str], None] = lambda what: None,
) -> list[Result]:
    """Fits every model on the same random stratified splits of every table.

    Parameters
    ----------
    tables : sequence of `Table`
    n_splits : int
        Splits of each table; 30 % of the rows are tested.
    seed : int
        Seeds the splits.
    progress : callable, optional
        Called after each fit, with the name of the table.

    Returns
    -------
    list of `Result`
        One for each table and model, tables in the outer order.

    Examples
    --------
    >>> results = compare(tables()[3:4], n_splits=2)
    >>> [(result.model, result.n_tested) for result in results]
    [('BayesianSVC', 60), ('BayesianLinearSVC', 60), ('calibrated SVC', 60)]
    """
    results = []
    for table in tables:
        splits = StratifiedShuffleSplit(n_splits, test_size=_TEST_SHARE, random_state=seed).split(table.X, table.y)
        found = trials(MODELS, table.X, table.y, splits, partial(progress, table.name))
        results += [_summary(table.name, name, one) for name, one in found.items()]
    return results


def _summary(table: str, model: str, found: Trial) -> Result:
    # All splits have the same size, so the mean over rows is the mean over splits.
    measured = evaluate(found.y, found.proba, classes=found.classes, n_bootstrap=1)
    return Result(
        table,
        model,
        error=float(np.mean(found.predicted != found.y)),  # which may differ from the error of the probabilities
        **{name: measured[name].value for name in ("log_loss", "brier", "ece")},
        seconds=found.seconds,
        contradictions=found.contradictions,
        n_tested=len(found.y),
    )


def mean_over_tables(results: Sequence[Result]) -> list[Result]:
    """One result for each model: the mean of its measures over tables, every table counting the same.

    Examples
    --------
    >>> one = Result("a", "m", error=0.1, log_loss=0.3, brier=0.1, ece=0.1, seconds=1.0, contradictions=0, n_tested=9)
    >>> mean_over_tables([one, one._replace(table="b", log_loss=0.5)])[0].log_loss
    0.4
    """
    means = []
    for model in dict.fromkeys(result.model for result in results):
        own = [result for result in results if result.model == model]
        measures = {name: float(np.mean([getattr(result, name) for result in own])) for name in MEASURES}
        wrong, tested = (sum(counts) for counts in zip(*((r.contradictions, r.n_tested) for r in own), strict=True))
        means.append(Result("mean", model, **measures, contradictions=wrong, n_tested=tested))
    return means


def contradictions(results: Sequence[Result]) -> str:
    """How often each model contradicts itself, in a sentence.

    Examples
    --------
    >>> one = Result("a", "m", error=0.1, log_loss=0.3, brier=0.1, ece=0.1, seconds=1.0, contradictions=2, n_tested=9)
    >>> contradictions([one])
    'predict disagrees with the largest predict_proba: m in 2 of 9 test rows.'
    """
    counts = [f"{r.model} in {r.contradictions:,} of {r.n_tested:,}" for r in mean_over_tables(results)]
    return f"predict disagrees with the largest predict_proba: {', '.join(counts)} test rows."


def draw(path: str | Path) -> Path:
    """Draws two columns of the breast cancer table as `BayesianSVC` and the calibrated SVC see them.

    Parameters
    ----------
    path : str or path
        Where to write; the suffix is the format.

    Returns
    -------
    path
        The same, absolute.
    """
    from matplotlib.figure import Figure

    cancer: Any = datasets.load_breast_cancer()
    X = cancer.data[:, [list(cancer.feature_names).index(name) for name in _PICTURE_COLUMNS]]
    y = cancer.target_names[cancer.target]
    # A figure created without pyplot needs no display and need not be closed.
    figure = Figure(figsize=(12, 5), dpi=100, layout="constrained")
    with threadpool_limits(1):
        left, right = (
            _panel(ax, model.fit(X, y), X, y, title)
            for ax, model, title in zip(
                figure.subplots(1, 2, sharey=True),
                (BayesianSVC(), calibrated_svc()),
                ("BayesianSVC: grey where it is uncertain", "SVC with sigmoid calibration"),
                strict=True,
            )
        )
    right.ax_.set_ylabel("")
    figure.legend(handles=left.handles_, loc="outside lower center", ncols=4, frameon=False, markerscale=2)
    bar = figure.colorbar(left.surface_, ax=[left.ax_, right.ax_], pad=0.01, aspect=30, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label(f"probability of {left.classes[1]}")
    bar.outline.set_visible(False)
    figure.savefig(path)
    return Path(path).resolve()


def _panel(ax: Any, model: Any, X: np.ndarray, y: np.ndarray, title: str) -> Any:
    from .plot import DecisionSurfaceDisplay

    display = DecisionSurfaceDisplay.from_estimator(model, X, y, ax=ax, legend=False)
    ax.set(xlabel=_PICTURE_COLUMNS[0], ylabel=_PICTURE_COLUMNS[1])
    ax.set_title(title, loc="left")
    ax.spines[:].set_visible(False)
    return display
