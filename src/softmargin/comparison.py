"""Comparison of several models on the same splits of a table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from .estimators import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianSVC
from .evaluation import Evaluation, evaluate, log_losses
from .monitor import InterruptedFitWarning
from .splits import TwinRowsWarning, fingerprints, folds, told_of_twins, without_counts

__all__ = ["OURS", "RIVALS", "Compared", "Maker", "Trial", "calibrated_svc", "compare", "trials"]

Maker = Callable[[], Any]


def calibrated_svc() -> Any:
    """A support vector machine with calibrated probabilities, as recommended by scikit-learn."""
    options: dict[str, Any] = {"ensemble": False}
    return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), **options))


#: Makers of models, all with their default settings.
OURS: dict[str, Maker] = {
    "BayesianSVC": lambda: BayesianSVC(random_state=0),
    "BayesianGPC": lambda: BayesianGPC(random_state=0),
    "BayesianLinearSVC": lambda: BayesianLinearSVC(),
    "BayesianKernelMachine": lambda: BayesianKernelMachine(random_state=0),
}
RIVALS: dict[str, Maker] = {
    "calibrated SVC": calibrated_svc,
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "random forest": lambda: RandomForestClassifier(random_state=0),
    "gradient boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}


class Trial(NamedTuple):
    """A model on the test rows of all splits, one after the other, and the mean seconds of its fits."""

    y: np.ndarray
    predicted: np.ndarray
    proba: np.ndarray
    classes: np.ndarray
    seconds: float
    fold: np.ndarray  # the split of each row

    @property
    def contradictions(self) -> int:
        """Rows where ``predict`` is not the class of greatest ``predict_proba``."""
        return int(np.sum(self.predicted != self.classes[self.proba.argmax(axis=1)]))


def trials(
    models: Mapping[str, Maker],
    X: Any,
    y: np.ndarray,
    splits: Iterable[tuple[np.ndarray, np.ndarray]],
    progress: Callable[[], None] = lambda: None,
    n_jobs: int | None = None,
) -> dict[str, Trial]:
    """Fits every model on the same splits, on one thread each, so that times can be compared; several fits at once.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = trials({"linear": BayesianLinearSVC}, X, y, folds(y, 3, random_state=0))
    >>> found["linear"].proba.shape, found["linear"].contradictions
    ((150, 3), 0)
    """
    jobs = [(name, train, test) for train, test in splits for name in models]
    work = (delayed(_run)(models[name](), X, y, train, test) for name, train, test in jobs)
    runs: dict[str, list[Trial]] = {name: [] for name in models}
    done: Any = Parallel(n_jobs, return_as="generator")(work)
    for (name, _, _), trial in zip(jobs, done, strict=True):
        runs[name].append(trial)
        progress()
    return {name: _together(found) for name, found in runs.items()}


def _run(model: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Trial:
    with threadpool_limits(1), warnings.catch_warnings():
        # An interrupted fit returns early with a warning; here an interrupt has to end the whole comparison.
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            start = time.perf_counter()
            model.fit(_rows(X, train), y[train])
            seconds = time.perf_counter() - start
        except InterruptedFitWarning as warning:
            raise KeyboardInterrupt from warning
        rows = _rows(X, test)
        found = model.predict(rows), model.predict_proba(rows)
        return Trial(y[test], *found, model.classes_, seconds, np.zeros(len(test), dtype=int))


def _rows(X: Any, places: np.ndarray) -> Any:
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


def _together(runs: list[Trial]) -> Trial:
    y, predicted, proba = (np.concatenate(parts) for parts in list(zip(*runs, strict=True))[:3])
    fold = np.repeat(np.arange(len(runs)), [len(run.y) for run in runs])
    return Trial(y, predicted, proba, runs[0].classes, float(np.mean([run.seconds for run in runs])), fold)


class Compared(NamedTuple):
    """The result for one model.

    ``behind`` is its mean log loss minus that of the best, row by row, and ``behind_se`` the standard error of that
    mean; a model that is behind by at most one standard error is tied with the best.  The AUC of ``evaluation`` is the
    mean over folds, as scores of different fits cannot be ranked together; all else is over all rows.
    """

    model: str
    ours: bool
    evaluation: Evaluation
    behind: float
    behind_se: float
    seconds: float
    contradictions: int

    @property
    def is_first(self) -> bool:
        """Best, or tied with the best."""
        return self.behind <= self.behind_se


def compare(
    models: Mapping[str, Maker],
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    n_splits: int = 5,
    n_bootstrap: int = 200,
    random_state: int = 0,
    progress: Callable[[], None] = lambda: None,
    n_jobs: int | None = None,
) -> list[Compared]:
    """Compare models by cross-validation, sorted by log loss.

    Every row is tested once, by models that were not trained on it; a warning is given if test rows equal training
    rows.  The AUC is the mean over folds, since scores of different fits cannot be ranked together.

    Parameters
    ----------
    models : mapping from name to a function that creates the model
    X : array or frame
    y : sequence of labels
    groups : sequence of labels, optional
        The group of each row: rows of one patient, school or machine are kept in one fold, so that no model is tested
        on a group that it was trained on.  Intervals and standard errors are also based on whole groups.
    n_splits : int
        Number of stratified folds.
    n_bootstrap : int
        Number of bootstrap samples for the intervals of measures.
    random_state : int
        Seeds folds and bootstrap.
    progress : callable, optional
        Called after each fit.
    n_jobs : int, optional
        Number of fits run in parallel, each on one thread.

    Returns
    -------
    list of `Compared`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> found = compare({"linear": BayesianLinearSVC, "forest": RIVALS["random forest"]}, *load_iris(return_X_y=True))
    >>> [model.behind for model in found][0], found[0].is_first
    (0.0, True)
    """
    y = np.asarray(y)
    splits = folds(y, n_splits, random_state, groups)
    if groups is None:
        _tell_of_twins(X, splits)
    found = trials(models, X, y, splits, progress, n_jobs)
    members = None if groups is None else np.concatenate([np.asarray(groups)[test] for _, test in splits])
    losses = {name: log_losses(one.y, one.proba, one.classes) for name, one in found.items()}
    best = min(losses, key=lambda name: losses[name].mean())
    options: dict[str, Any] = {"n_bootstrap": n_bootstrap, "random_state": random_state, "groups": members}
    compared = []
    for name, one in found.items():
        gap = losses[name] - losses[best]
        measured = evaluate(one.y, one.proba, classes=one.classes, folds=one.fold, **options)
        error = _standard_error(gap, members)
        compared.append(
            Compared(name, name in OURS, measured, float(gap.mean()), error, one.seconds, one.contradictions)
        )
    return sorted(compared, key=lambda model: model.behind)


def _standard_error(gap: np.ndarray, members: np.ndarray | None) -> float:
    """The standard error of a mean difference, for independent rows, or for independent groups of rows."""
    away = gap - gap.mean()
    parts = away if members is None else np.bincount(np.unique(members, return_inverse=True)[1], away)
    n = len(parts)
    return float(np.sqrt(n / max(n - 1, 1) * np.sum(parts**2)) / len(gap))


def _tell_of_twins(X: Any, splits: list[tuple[np.ndarray, np.ndarray]]) -> None:
    rows = without_counts(X)
    if rows is None:
        return
    prints = fingerprints(rows)
    n_twins = sum(int(np.isin(prints[test], prints[train]).sum()) for train, test in splits)
    said = told_of_twins(rows, n_twins, len(splits[0][0]))
    if said is not None:
        warnings.warn(said, TwinRowsWarning, stacklevel=3)
