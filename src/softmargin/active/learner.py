"""Active learning in rounds: query labels, refit, repeat."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..monitor import InterruptedFitWarning
from ..parameters import one_of, positive_integer, positive_number, verbosity
from ..validation import is_nothing
from .pool import as_pool, row_numbers, taken
from .progress import Progress
from .refit import REFITS, Refits, was_interrupted
from .strategies import STRATEGIES, chosen, uncertainty_in

#: Number of initial rows, if the classes are unknown.
_FIRST_ROWS = 2


class Limits(NamedTuple):
    """Stopping criteria."""

    n_queries: int | None
    target_score: float | None
    least_uncertainty: float | None


class ActiveLearner(BaseEstimator):
    """Active learning in rounds: query informative rows, obtain their labels, refit.

    In each round, rows of a pool are chosen (`softmargin.active.query`), the oracle is asked for their labels, and the
    model is refitted.  While all labels are of one class there is nothing to fit, and rows are chosen at random until
    a second class occurs.

    Parameters
    ----------
    model : a classifier of this package, or a pipeline that ends in one
        Is copied, not changed.  Other classifiers work with the strategies that need only probabilities.
    strategy : {"variation_ratio", "mutual_information", "entropy", "margin", "entropy_of_mean", "random"}
        The query criterion, as in `softmargin.active.query`.
    n_per_query : int
        Number of rows queried per round.
    diverse : bool
        Whether rows of the same round should differ from each other.
    refit : {"full", "partial"}
        ``"full"`` fits all labelled rows in every round.  ``"partial"`` does so every ``tune_every`` rounds, and when a
        new class occurs, and in between only adds the new rows by ``partial_fit``: the time of a round does not grow
        with the number of labels, and inducing points do not move.
    tune_every : int or None
        Tune kernels every so many rounds and keep them fixed in between, which saves most of the time of small fits;
        1 tunes in every round, None only in the first.  The same holds for inducing points that move
        (``inducing="tuned"``).  Models without tuning are not affected.
    n_samples : int
        Number of draws for the mutual information with more than two classes.
    verbose : bool
        Whether to show a progress line.
    random_state : int, RandomState or None
        Seeds the first rows, ties, draws, and the model, unless that has its own seed.

    Attributes
    ----------
    model_ : the model, fitted to all labels; None while there is a single class
    labelled_ : array of the numbers of the labelled rows, in the order in which they were queried
    labels_ : array of their labels
    history_ : list with a dict for each round, the first rows being round 0: ``round``, ``n_labelled``, ``queried``
        (the numbers of its rows), ``uncertainty`` (the largest score of its rows when they were chosen; None if they
        were not), ``score`` (on the test rows after the refit; None without any), ``tuned``, and ``seconds`` since the
        start
    stop_reason_ : {"queries", "score", "time", "certain", "pool", "interrupt"}

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.active import ActiveLearner
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> learner = ActiveLearner(BayesianSVC(), random_state=0)
    >>> learner = learner.learn(X[:500], y[:500], n_queries=30, X_test=X[500:], y_test=y[500:])
    >>> len(learner.labelled_), learner.stop_reason_
    (32, 'queries')
    >>> learner.history_[-1]["score"] > learner.history_[0]["score"]
    True
    """

    def __init__(
        self,
        model: Any,
        strategy: str = "variation_ratio",
        *,
        n_per_query: int = 1,
        diverse: bool = False,
        refit: str = "full",
        tune_every: int | None = 10,
        n_samples: int = 256,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.strategy = strategy
        self.n_per_query = n_per_query
        self.diverse = diverse
        self.refit = refit
        self.tune_every = tune_every
        self.n_samples = n_samples
        self.verbose = verbose
        self.random_state = random_state

    def learn(
        self,
        X_pool: Any,
        oracle: Any,
        *,
        n_queries: int | None = None,
        start: Any = "auto",
        X_test: Any = None,
        y_test: Any = None,
        scoring: Callable[[Any, Any, Any], float] | None = None,
        target_score: float | None = None,
        max_time: float | None = None,
        least_uncertainty: float | None = 0.0,
    ) -> ActiveLearner:
        """Query labels and refit until one of the limits is reached, or every row has a label.

        Ctrl-C also ends the rounds, keeping all labels so far and the last fitted model.  Errors of the oracle are
        raised, and keep them as well.  To continue, pass ``labelled_`` and ``labels_`` as ``start``.

        Parameters
        ----------
        X_pool : array, CSR matrix or frame of shape (n_rows, n_columns)
            The pool.
        oracle : callable or sequence of n_rows labels
            The source of labels: called with an array of row numbers, it returns as many labels, none of them
            missing; or all labels, for simulations.
        n_queries : int, optional
            Number of labels to query after the first ones.
        start : {"auto", "classes"}, int, array of row numbers, or a pair of row numbers and labels
            The rows to begin with: one of each class, chosen at random, which needs an ``oracle`` of known labels; a
            number of random rows; given rows; or given rows with their labels, which are not queried.  ``"auto"`` is
            ``"classes"`` if labels are known, and 2 otherwise.
        X_test, y_test : rows and labels, optional
            Test data on which every round is scored.
        scoring : callable, optional
            ``scoring(model, X_test, y_test)``; ``model.score`` by default.
        target_score : float, optional
            Stop when this score is reached.
        max_time : float, optional
            Seconds after which no new round begins.
        least_uncertainty : float, optional
            Stop when no row of the pool exceeds this value of the strategy's score (``"margin"`` counts as one minus
            the difference of the two probabilities; ``"random"`` never stops this way).  0, the default, stops when the
            model is certain of every row; None never stops.

        Returns
        -------
        self
            The learner with all labels so far.
        """
        self._check_parameters(n_queries, target_score, X_test, y_test, max_time, least_uncertainty)
        X_pool, rng = as_pool(X_pool), check_random_state(self.random_state)
        ask = _asker(oracle, X_pool.shape[0])
        self._begin(rng)
        progress = Progress(self.verbose, max_time, -(-(n_queries or 0) // self.n_per_query))
        judge = _judge(scoring, X_test, y_test)
        limits = Limits(n_queries, target_score, least_uncertainty)
        try:
            rows, labels = _first_rows(start, oracle, X_pool.shape[0], rng)
            self._round(X_pool, rows, ask(rows) if labels is None else labels, None, judge, progress)
            self.stop_reason_ = self._rounds(X_pool, ask, judge, limits, rng, progress)
        except KeyboardInterrupt:
            self.stop_reason_ = "interrupt"
        progress.close()
        if self.stop_reason_ == "interrupt":
            warnings.warn(
                "Interrupted: labelled_ and labels_ hold all labels so far, and model_ the last model.",
                InterruptedFitWarning,
                stacklevel=2,
            )
        return self

    def _begin(self, rng: np.random.RandomState) -> None:
        self._refits = Refits.of(self.model, self.refit, self.tune_every, rng)
        self.model_, self.history_, self.stop_reason_ = None, [], "pool"
        self.labelled_, self.labels_ = np.empty(0, dtype=np.intp), np.empty(0)

    def _rounds(
        self, X: Any, ask: Any, judge: Any, limits: Limits, rng: np.random.RandomState, progress: Progress
    ) -> str:
        """Runs rounds until a stopping criterion is met, and returns the reason."""
        n_first = len(self.labelled_)
        while True:
            left = X.shape[0] - len(self.labelled_)
            wanted = left if limits.n_queries is None else n_first + limits.n_queries - len(self.labelled_)
            reason = self._reason_to_stop(left, wanted, limits, progress)
            if reason is not None:
                return reason
            rows, score = self._choice(X, min(self.n_per_query, wanted, left), rng)
            most = None if score is None else float(uncertainty_in(score, self.strategy).max())
            if self._is_certain(most, limits.least_uncertainty):
                return "certain"
            self._round(X, rows, ask(rows), most, judge, progress)

    def _reason_to_stop(self, left: int, wanted: int, limits: Limits, progress: Progress) -> str | None:
        score = self.history_[-1]["score"]
        if self.model_ is not None and was_interrupted(self.model_):
            return "interrupt"
        if limits.target_score is not None and score is not None and score >= limits.target_score:
            return "score"
        if left == 0:
            return "pool"
        if wanted <= 0:
            return "queries"
        return "time" if progress.out_of_time else None

    def _choice(self, X: Any, n: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray | None]:
        """The next rows and their scores; random rows and None as long as there is no model."""
        if self.model_ is None:
            return chosen(None, X, n, "random", False, self.labelled_, random_state=rng)[0], None
        return chosen(self.model_, X, n, self.strategy, self.diverse, self.labelled_, self.n_samples, rng)

    def _is_certain(self, most: float | None, least: float | None) -> bool:
        """Whether no row's uncertainty exceeds ``least``, to nine decimals, as for comparisons of scores."""
        if most is None or least is None or self.strategy == "random":
            return False
        return round(most, 9) <= least

    def _round(self, X: Any, rows: np.ndarray, labels: Any, most: float | None, judge: Any, progress: Progress) -> None:
        """Adds the labels, refits the model and updates the history."""
        labels = np.asarray(labels)
        self.labels_ = labels if len(self.labelled_) == 0 else np.concatenate([self.labels_, labels])
        self.labelled_ = np.concatenate([self.labelled_, rows])
        self._refits, tuned = self._refits.after(taken(X, self.labelled_), self.labels_, len(rows))
        self.model_ = self._refits.fitted
        score = None if self.model_ is None else judge(self.model_)
        self.history_.append(
            {
                "round": len(self.history_),
                "n_labelled": len(self.labelled_),
                "queried": rows,
                "uncertainty": most,
                "score": score,
                "tuned": tuned,
                "seconds": progress.seconds,
            }
        )
        progress.record(np.nan if score is None else score, True)

    def _check_parameters(
        self, n_queries: Any, target_score: Any, X_test: Any, y_test: Any, max_time: Any, least: Any
    ) -> None:
        one_of("strategy", self.strategy, STRATEGIES)
        one_of("refit", self.refit, REFITS)
        positive_integer("n_per_query", self.n_per_query)
        positive_integer("n_samples", self.n_samples)
        if self.tune_every is not None:
            positive_integer("tune_every", self.tune_every)
        if n_queries is not None:
            positive_integer("n_queries", n_queries)
        positive_number("max_time", max_time, none=True)
        verbosity(self.verbose)
        positive_number("least_uncertainty", least, zero=True, none=True)
        if (X_test is None) != (y_test is None):
            raise ValueError("Give both X_test and y_test, or neither.")
        if target_score is not None and X_test is None:
            raise ValueError(f"target_score={target_score!r} needs test rows: give X_test and y_test.")


# Oracles -------------------------------------------------------------------------------------------


def _asker(oracle: Any, n_rows: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function from row numbers to labels, which checks that there is one for each row."""
    if callable(oracle):

        def ask(rows: np.ndarray) -> np.ndarray:
            given = oracle(rows)
            labels = np.full(rows.shape, None) if given is None else np.asarray(given)
            if labels.shape != rows.shape:
                raise ValueError(
                    f"The oracle was asked for the labels of {len(rows)} rows, and returned an array of shape "
                    f"{labels.shape}."
                )
            _refuse_unlabelled(rows, given, labels)
            return labels

        return ask
    known = np.asarray(oracle)
    if known.shape != (n_rows,):
        raise ValueError(
            f"oracle must be callable, or hold a label for each of the {n_rows} rows of X_pool; got an array of shape "
            f"{known.shape}."
        )
    if _without_label(oracle, known).any():
        raise ValueError("oracle has missing labels: remove those rows from the pool, or give a callable.")
    return lambda rows: known[rows]


def _without_label(given: Any, labels: np.ndarray) -> np.ndarray:
    """Which labels are missing; ``given`` are the same before they became an array, where NaN among texts is a text."""
    if labels.dtype.kind in "iub":
        return np.zeros(len(labels), dtype=bool)
    return is_nothing(labels if labels.dtype.kind in "fO" else np.asarray(given, dtype=object))


def _refuse_unlabelled(rows: np.ndarray, given: Any, labels: np.ndarray) -> None:
    """Raises an error that names the row of the pool for which the oracle has no label."""
    lost = rows[_without_label(given, labels)]
    if len(lost):
        more = f" and {len(lost) - 1} more of those it was asked for" if len(lost) > 1 else ""
        raise ValueError(
            f"The oracle gave no label for row {lost[0]} of the pool{more}: it must return one label for each row, "
            f"and neither None nor NaN. Leave rows that cannot be labelled out of X_pool."
        )


def _first_rows(
    start: Any, oracle: Any, n_rows: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray | None]:
    """The initial rows, and their labels if these are given."""
    if isinstance(start, str):
        one_of("start", start, ("auto", "classes"))
        if not callable(oracle):
            known = np.asarray(oracle)
            return np.array([rng.choice(np.flatnonzero(known == label)) for label in np.unique(known)]), None
        if start == "classes":
            raise ValueError("start='classes' needs an oracle of known labels; give row numbers, or a number of rows.")
        start = min(_FIRST_ROWS, n_rows)
    if isinstance(start, tuple) and len(start) == 2:
        rows, labels = row_numbers("start", start[0], n_rows), np.asarray(start[1])
        if labels.shape != rows.shape:
            raise ValueError(f"start has {len(rows)} rows and labels of shape {labels.shape}: give one label per row.")
        if len(lost := rows[_without_label(start[1], labels)]):
            raise ValueError(f"start has no label for row {lost[0]} of the pool: leave out rows without a label.")
        return _distinct(rows), labels
    if np.ndim(start) == 0:
        return _random_rows(start, n_rows, rng), None
    return _distinct(row_numbers("start", start, n_rows)), None


def _random_rows(n: Any, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
    positive_integer("start", n)
    if n > n_rows:
        raise ValueError(f"start={n} rows were requested, but X_pool has {n_rows}.")
    return rng.permutation(n_rows)[:n]


def _distinct(rows: np.ndarray) -> np.ndarray:
    if len(rows) == 0 or len(np.unique(rows)) < len(rows):
        raise ValueError(f"start must hold at least one row, and none twice; got {rows.tolist()}.")
    return rows


def _judge(scoring: Any, X_test: Any, y_test: Any) -> Callable[[Any], float | None]:
    if X_test is None:
        return lambda model: None
    return lambda model: float(model.score(X_test, y_test) if scoring is None else scoring(model, X_test, y_test))
