"""What all classifiers share: the road from data to belief, and from belief to probability."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import gaussian
from ..arrays import to_numpy
from ..chunks import Table, blas_threads, dense, gather_rows, n_threads, rows_in_block, sweep
from ..engine import Problem
from ..likelihoods import LOSSES
from ..links import LogisticLink, ProbitLink, fit_logistic_link, probabilities, settled
from ..loo import left_out
from ..monitor import InterruptedFitWarning, Monitor
from ..priors import Prior
from ..rows import Latent, Rows
from ..steps import Ascent, ascend
from ..validation import (
    check_labels,
    check_rows,
    check_weights,
    class_weights,
    number_of_jobs,
    one_of,
    positive_integer,
    positive_number,
    two_classes,
)

LINKS = ("loo", "probit", "logistic")
#: Weights from which on several threads factor a matrix sooner than one.
_MANY_WEIGHTS = 1024


class BayesianClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier made of rows, a prior, a likelihood and a link.  Subclasses choose the first two in ``_parts``."""

    loss: str
    link: str
    class_weight: Any
    tol: float
    max_iter: int
    max_time: float | None
    n_jobs: int | None
    verbose: bool | int
    random_state: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fits the classifier.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_columns)
            Rows to learn from.
        y : sequence of n_rows labels
            Two classes, of any type that sorts.
        sample_weight : sequence of n_rows weights, optional
            A row of weight k counts as k copies of it; a row of weight 0 is not there.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        monitor = Monitor(type(self).__name__, self.verbose, self.max_time, self.max_iter)
        X, signs, weight, unit = self._check_data(X, y, sample_weight)
        jobs = n_threads(self.n_jobs)
        with blas_threads(1):
            rows, prior = self._parts(X, weight, check_random_state(self.random_state))
        problem = Problem(Table.of(X, signs, weight, rows.n_weights), rows, LOSSES[self.loss], prior, jobs)
        with blas_threads(jobs if rows.n_weights >= _MANY_WEIGHTS else 1):
            ascent = ascend(problem, tol=self.tol, max_passes=self.max_iter, monitor=monitor)
            self._keep(problem, unit, ascent, monitor)
        return self

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, labels as -1 and +1, weights, and the weight of one copy of each row; rows of weight zero are gone."""
        X = check_rows(self, X, reset=True)
        y = check_labels(X, y)
        copies = check_weights(sample_weight, X.shape[0])
        factor = class_weights(self.class_weight, y, copies)
        weight, unit = factor * copies, factor * np.minimum(copies, 1)
        self.classes_, signs = two_classes(y, weight)
        seen = weight > 0
        return (X, signs, weight, unit) if seen.all() else (X[seen], signs[seen], weight[seen], unit[seen])

    def _check_parameters(self) -> None:
        one_of("loss", self.loss, LOSSES)
        one_of("link", self.link, LINKS)
        positive_number("tol", self.tol, zero=True)
        positive_integer("max_iter", self.max_iter)
        positive_number("max_time", self.max_time, none=True)
        number_of_jobs(self.n_jobs)

    @abstractmethod
    def _parts(self, X: Any, weight: np.ndarray, rng: np.random.RandomState) -> tuple[Rows, Prior]:
        """The rows and the prior of this model."""

    def _keep(self, problem: Problem, unit: np.ndarray, ascent: Ascent, monitor: Monitor) -> None:
        """Stores what was found, fits the link, and says so if the ascent was cut short."""
        self.rows_, self.belief_ = problem.rows, ascent.point.belief
        self.bound_ = ascent.point.objective
        self.history_, self.n_iter_ = monitor.history, len(monitor.history)
        self._fit_link(problem, unit)
        if ascent.reason == "interrupt":
            warnings.warn("Interrupted: the model is the best one found so far.", InterruptedFitWarning, stacklevel=3)
        if ascent.reason == "passes":
            warnings.warn(
                f"The bound still rose after max_iter={self.max_iter} passes; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _fit_link(self, problem: Problem, unit: np.ndarray) -> None:
        if self.link != "loo":
            self.link_ = ProbitLink() if self.link == "probit" else LogisticLink()
            return
        y, without = problem.table.y, left_out(problem, self.belief_, unit)
        counted = problem.table.weight * without.usable
        self.link_ = fit_logistic_link(without.mu, without.v, y, counted)
        losses = np.logaddexp(0, -y * self.link_.score(without.mu, without.v))
        self.loo_log_loss_ = float(counted @ losses / counted.sum()) if counted.any() else float("nan")

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The mean and variance of the latent value of each row, before any link."""
        latent = self._latent(X)
        return latent.mu, latent.v

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values of the rows of ``X``, a column each.

        Draws are functions: rows near each other vary together.  For a kernel model that takes a matrix of
        all pairs of rows of ``X``.
        """
        check_is_fitted(self)
        positive_integer("n_samples", n_samples)
        rng = check_random_state(random_state)
        X = dense(check_rows(self, X, reset=False)).astype(np.float64, copy=False)
        weights = gaussian.sample(self.belief_.mean, self.belief_.root, n_samples, rng)
        draws = self.rows_.lift(X).phi @ weights.T
        root = self.rows_.leftover_root(X)
        return draws if root is None else draws + root @ rng.standard_normal((root.shape[1], n_samples))

    def decision_function(self, X: Any) -> np.ndarray:
        """The logit of the probability of ``classes_[1]``, for each row."""
        latent = self._latent(X)
        return settled(self.link_.score(latent.mu, latent.v))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of either class, for each row; columns are in the order of ``classes_``."""
        return probabilities(self.decision_function(X))

    def predict(self, X: Any) -> np.ndarray:
        """The likelier class of each row."""
        score = self.decision_function(X)
        return self.classes_[(score > 0).astype(int)]

    def _latent(self, X: Any) -> Latent:
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        size = rows_in_block(max(X.shape[1], self.rows_.n_weights))
        belief = self.belief_.seen_by(dense(X[:1]))

        def one_block(index: int) -> Latent:
            features = self.rows_.lift(dense(X[index * size : (index + 1) * size]))
            return Latent(*(to_numpy(part) for part in features.moments(belief)))

        return Latent(*gather_rows(sweep(one_block, -(-X.shape[0] // size), n_threads(self.n_jobs))))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
