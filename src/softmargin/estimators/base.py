"""What all classifiers share: the path from data to belief, and from belief to probability."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..checkpoint import CUT_SHORT, Checkpoint, Journal
from ..chunks import Source, Table, n_threads, one_blas_thread, source_of
from ..devices import PRECISIONS, Place, on_host, placed
from ..engine import Problem
from ..entries import named_apart
from ..inference import DRAWABLE, HINGES, INFERENCES, InferredAscent, Plan, infer
from ..likelihoods import LOSSES, Likelihood, Loss, known_loss, named_likelihood
from ..links import Link, LogisticLink, ProbitLink, SoftmaxLink, word_of
from ..monitor import InterruptedFitWarning, Monitor
from ..parameters import learning_rate, number_of_jobs, one_of, positive_integer, positive_number, verbosity
from ..priors import Classwise, Imputing, Prior
from ..rows import ClasswiseRows, IncompleteRows
from ..streaming import NOTHING, Record, begun
from ..validation import (
    check_labels,
    check_rows,
    check_weights,
    class_weights,
    codes_of,
    present_classes,
    refuse_enormous,
)
from .fitted import FittedClassifier
from .found import Data, Found, Parts
from .kernel_parameters import KernelParameters
from .predictions import kept_on_failure
from .reading import data_of, share_correct

LINKS = ("loo", "probit", "logistic")


class BayesianClassifier(FittedClassifier, KernelParameters, ClassifierMixin, BaseEstimator, ABC):
    """A classifier made of rows, a prior, a likelihood and a link.  Subclasses choose the first two in ``_parts``."""

    loss: Loss
    multi_class: str = "auto"
    inference: str
    batch_size: int | str = "auto"
    learning_rate: Any = "adaptive"
    n_draws: int
    n_chains: int
    warm_up: int | str
    thin: int
    link: str
    class_weight: Any
    tol: float
    max_iter: int
    max_time: float | None
    n_jobs: int | None
    verbose: bool | int
    random_state: Any
    n_features_in_: int
    _INFERENCES: tuple[str, ...] = INFERENCES
    #: The words that ``loss=`` accepts, with the library's names for them; other losses are passed as objects.
    _LOSSES: Mapping[str, str] = {"auto": "auto"} | {word: word for word in LOSSES}
    _MULTI_CLASS: tuple[str, ...] = ("auto", "weston-watkins", "crammer-singer", "ovr", "softmax")
    #: Whether entries of X may be missing, if not what they need for it (in words), and whether X may be sparse.
    _MISSING: bool = False
    _GAPS_NEED: str = ""
    _SPARSE: bool = True
    #: Whether rows may come from a source, and whether as frames.
    _SOURCES: bool = True
    _FRAMES: bool = False
    #: The words that ``link=`` accepts.
    _LINKS: tuple[str, ...] = LINKS
    #: Where passes run, and in which precision; some classifiers make these parameters.
    device: Any = None
    precision: str = "auto"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the classifier.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_columns), or a source of rows
            Training rows.  A source need not fit in memory: see `softmargin.chunks`.
        y : sequence of n_rows labels, or the name of a column of the frame or files
            Two classes or more, of any type that sorts.
        sample_weight : sequence of n_rows weights, or the name of a column of the frame or files, optional
            A row of weight k counts as k copies of it; rows of weight 0 are ignored.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        with kept_on_failure(self):
            found = self._find(X, y, sample_weight)
            self._keep(found)
        self._warn(found.reason)
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy: the share of rows whose label is predicted correctly.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_columns), or a source of rows with their labels
            Rows to predict.
        y : sequence of n_rows labels, or the name of a column of the frame or files
            True labels; taken from the frame if a formula names them.
        sample_weight : sequence of n_rows weights, or the name of a column of the frame or files, optional
            How much each row counts.

        Returns
        -------
        float
            The weighted share of correct predictions.
        """
        check_is_fitted(self)
        X, y, sample_weight = named_apart(X, y, sample_weight)
        source = source_of(X, y, sample_weight)
        if source is None:
            return super().score(X, self._labels(X, y), sample_weight)
        return share_correct(self, source, n_threads(self.n_jobs), named=self._FRAMES)

    def _find(self, X: Any, y: Any, sample_weight: Any) -> Found:
        """Does all the work of ``fit``, but stores nothing yet except the names of the columns."""
        journal = Journal.of(self)
        monitor = Monitor(type(self).__name__, self.verbose, self.max_time, self._plan().n_records, journal=journal)
        jobs, rng = n_threads(self.n_jobs), check_random_state(self.random_state)
        place = Place.of(self.device, self.precision, X)
        X, y, sample_weight = named_apart(*map(on_host, (X, y, sample_weight)))
        mapped = isinstance(X, np.memmap) and not self._takes_sources  # then it is read as an array
        source = None if mapped else source_of(X, y, sample_weight)
        data = self._check_data(X, y, sample_weight) if source is None else self._check_source(source, jobs)
        data = self._condensed(data.in_precision(self.precision))
        with one_blas_thread:
            self._refuse_classes(data.n_classes)
            data, rng = journal.begin(data, rng, monitor)
            parts = journal.page("parts").found(lambda: self._parts(data, rng, monitor, jobs).for_files())
            parts = parts.with_loss(self._loss_given())
            self._refuse_inference(parts.prior)
            problem = self._problem(data, parts, jobs)
            problem, inferred, record = self._inferred(problem, data, rng, monitor, place)
            link, loo_log_loss = self._fit_link(record, data.n_classes, parts.loss)
        stream = None if self._is_only_start(data) else begun(problem, inferred.ascent, record)
        totals = data.class_totals
        found = Found(data, parts, problem, inferred, stream, monitor, link, loo_log_loss, totals)
        journal.end(found.reason)
        return found

    def _inferred(
        self, problem: Problem, data: Data, rng: np.random.RandomState, monitor: Monitor, place: Place | None
    ) -> tuple[Problem, InferredAscent, Record]:
        """Runs the inference, on the host or on a device; returns the belief and each row's leave-one-out moments."""
        there, unit = problem, data.unit
        if place is not None and (not problem.prior.is_plain or data.is_missing(data.X.shape[1])):
            if self.device is not None:
                raise ValueError(
                    f"device={self.device!r} does not support variable selection, missing entries or grouped rows; "
                    f"leave it as None."
                )
            place = None
        with nullcontext() if place is None else place.at_work():
            if place is not None:
                problem = replace(problem, rows=place.rows_for(problem.rows))
                there, unit = placed(problem, data.unit, place)
            there, inferred = infer(there, self._plan(data), unit, rng, monitor)
            record = NOTHING
            if self.link in ("loo", "auto") and not self._is_only_start(data):
                in_haste = monitor.out_of_time or monitor.interrupted or inferred.ascent.reason in CUT_SHORT
                record = inferred.record(there, unit, in_haste)
        if place is None:
            return there, inferred, record
        return replace(problem, likelihood=there.likelihood), on_host(inferred), record

    def _is_only_start(self, data: Data) -> bool:
        """Whether the belief is where something else starts, so that nothing has to follow from it yet."""
        return False

    def _problem(self, data: Data, parts: Parts, jobs: int) -> Problem:
        """Assembles the parts; with more than two classes, each class has its own weights and prior."""
        likelihood = self._likelihood(parts.loss, data.n_classes, parts.prior)
        rows, prior, apart = parts.rows, parts.prior, isinstance(parts.rows, (ClasswiseRows, IncompleteRows))
        if data.n_classes > 2 and not apart:
            rows, prior = ClasswiseRows(rows, data.n_classes), Classwise.alike(prior, data.n_classes)
        table = Table.of(data.X, data.y, data.weight, rows.width, rows.least_rows)
        whole = None if data.whole is None else data.whole._replace(block_rows=table.block_rows)
        return Problem(table, rows, likelihood, prior, jobs, whole)

    def _likelihood(self, loss: str | Likelihood, n_classes: int, prior: Any = None) -> Likelihood:
        """The likelihood for a loss and the way in which it combines classes (``multi_class=``)."""
        # Where a row itself is uncertain, latent values are correlated: variances of their differences do not add up.
        apart = self.multi_class == "auto" and isinstance(prior, Imputing)
        return named_likelihood(loss, "ovr" if apart else self.multi_class, n_classes)

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any, classes: np.ndarray | None = None, first: bool = True
    ) -> Data:
        """Checks the data and drops rows of weight 0.  Classes are those present, unless they were declared."""
        given, X = X, self._numbers(X, reset=first)
        y = check_labels(X, self._labels(given, y))
        return self._weighed(X, y, check_weights(sample_weight, X.shape[0]), classes)

    def _condensed(self, data: Data) -> Data:
        """The same data in fewer rows, for models that benefit."""
        return data

    @property
    def _takes_sources(self) -> bool:
        return self._SOURCES and self.inference in ("auto", "cavi", "ecm")

    def _check_source(self, source: Source, jobs: int) -> Data:
        """Checks the rows of a source; returns all of them if they are few, else a sample and access to the rest."""
        if not self._takes_sources:
            raise ValueError(
                f"{type(self).__name__} with inference={self.inference!r} needs all rows in memory; use BayesianSVC, "
                f"BayesianGPC, BayesianLinearSVC or BayesianMixedSVC with inference='auto' or 'cavi', or fit a sample."
            )
        return data_of(self, source, jobs, named=self._FRAMES)

    def _weighed(
        self,
        X: Any,
        y: np.ndarray,
        copies: np.ndarray,
        classes: np.ndarray | None = None,
        factor: np.ndarray | None = None,
    ) -> Data:
        """Rows with their weights times class weights; ``factor`` gives each row's class weight if already known."""
        if factor is None:
            factor = class_weights(self.class_weight, y, copies, classes)
        weight, unit = factor * copies, factor * np.minimum(copies, 1)
        refuse_enormous(weight)
        seen = slice(None) if np.all(weight > 0) else weight > 0
        if classes is None:
            classes, codes = present_classes(y, weight)
            codes = codes[seen]
        else:
            codes = codes_of(y[seen], classes)
        return Data(X[seen], codes, weight[seen], unit[seen], classes, copies[seen])

    def _numbers(self, X: Any, reset: bool = False, names: bool = True) -> Any:
        """Rows as numbers, after checks of the entries and of the column names."""
        return check_rows(self, X, reset=reset, missing=self._MISSING, sparse=self._SPARSE, names=names)

    def _labels(self, X: Any, y: Any) -> Any:
        """The labels of the rows; subclasses may take them from a table instead."""
        return y

    @property
    def _draws_wanted(self) -> tuple[int, int, int | str, int]:
        return self.n_draws, self.n_chains, self.warm_up, self.thin

    def _plan(self, data: Data | None = None) -> Plan:
        """The settings of the inference, which may depend on the data once it is known."""
        how = "cavi" if self.inference == "batch" else self.inference
        return Plan(how, self.tol, self.max_iter, self.batch_size, self.learning_rate, *self._draws_wanted)

    def _check_parameters(self) -> None:
        given = self._loss_given()
        one_of("multi_class", self.multi_class, self._MULTI_CLASS)
        self._refuse_loss(given)
        one_of("inference", self.inference, self._INFERENCES)
        allowed = {"gibbs": DRAWABLE, "ecm": HINGES}.get(self.inference)
        if allowed is not None and not (isinstance(given, str) and given in ("auto", *allowed)):
            raise ValueError(
                f"inference={self.inference!r} relies on an augmentation, which loss={self.loss!r} does not have; use "
                f"one of {', '.join(map(repr, allowed))}."
            )
        positive_integer("batch_size", self.batch_size, words=("auto",))
        learning_rate(self.learning_rate)
        positive_integer("n_draws", self.n_draws)
        positive_integer("n_chains", self.n_chains)
        positive_integer("thin", self.thin)
        if self.warm_up != 0:
            positive_integer("warm_up", self.warm_up, words=("auto",))
        one_of("link", self.link, self._LINKS)
        positive_number("tol", self.tol, zero=True)
        positive_integer("max_iter", self.max_iter)
        positive_number("max_time", self.max_time, none=True)
        number_of_jobs(self.n_jobs)
        verbosity(self.verbose)
        Checkpoint.of(getattr(self, "checkpoint", None))
        one_of("precision", self.precision, PRECISIONS)
        if self.device is not None and self.inference == "gibbs":
            raise ValueError("inference='gibbs' runs on the CPU: leave device as None.")

    def _loss_given(self) -> str | Likelihood:
        """The loss that ``loss=`` asks for: the library's own name for it, or a likelihood passed as an object."""
        if not isinstance(self.loss, str) and self.loss is not None:
            return known_loss(self.loss)
        one_of("loss", self.loss, self._LOSSES)
        return self._LOSSES[self.loss]

    def _refuse_loss(self, given: str | Likelihood) -> None:
        """Refuses losses for which the chosen ``multi_class=`` is not available."""
        allowed = {"crammer-singer": ("auto", *HINGES), "softmax": ("logistic",)}.get(self.multi_class)
        if allowed is not None and not (isinstance(given, str) and given in allowed):
            words = [word for word in allowed if self._LOSSES.get(word) in allowed]
            raise ValueError(
                f"multi_class={self.multi_class!r} requires loss={' or '.join(map(repr, words))}, got {self.loss!r}."
            )

    def _refuse_classes(self, n_classes: int) -> None:
        """Refuses more than two classes where only two are supported."""
        if n_classes > 2 and self.inference in ("gibbs", "ecm"):
            raise ValueError(
                f"inference={self.inference!r} supports two classes only, and y has {n_classes}; use 'auto', 'cavi', "
                f"'svi' or 'adam', or wrap the classifier in sklearn.multiclass.OneVsRestClassifier."
            )

    def _refuse_inference(self, prior: Prior) -> None:
        if self.inference in ("svi", "adam", "ecm") and not prior.is_plain:
            raise ValueError(
                f"inference={self.inference!r} fits a single Gaussian for the weights, which is not enough when "
                f"variables are selected or entries are missing; use 'auto', 'cavi' or 'gibbs'."
            )

    @abstractmethod
    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        """Chooses the rows and the prior of this model, using ``jobs`` threads."""

    def _loss_for(self, gaussian: bool = True) -> str | Likelihood:
        """The loss to fit: ``"auto"`` is the hinge, and with ``"crammer-singer"`` the augmented hinge.

        Where latent values are not Gaussian, it is a bound that needs only two moments, and one on a normalised
        likelihood: under an unnormalised one, labels pull missing entries to whatever values suit them
        (benchmarks/gaps.py).
        """
        given = self._loss_given()
        if not isinstance(given, str) or given != "auto":
            return given
        if self.multi_class == "crammer-singer":
            return "hinge-augmented"
        return "hinge" if gaussian else "logistic-jj"

    def _fit_link(
        self, record: Record, n_classes: int = 2, loss: Any = "hinge", near: Link | None = None
    ) -> tuple[Link, float | None]:
        """The link, and the leave-one-out log loss: NaN if no row can be left out, None if none was asked for."""
        word = word_of(loss, n_classes) if self.link == "auto" else self.link
        plain = LogisticLink() if n_classes == 2 else SoftmaxLink()
        link = record.link(near) if word == "loo" else ProbitLink(many=n_classes > 2) if word == "probit" else plain
        return link, record.log_loss(link) if self.link in ("loo", "auto") else None

    def _keep(self, found: Found) -> None:
        """Stores the results of a fit in attributes."""
        problem, ascent = found.problem, found.inferred.ascent
        self.classes_, self.loss_ = found.data.classes, found.parts.loss
        self.rows_, self.belief_ = problem.rows, ascent.point.belief
        self.draws_ = found.inferred.draws
        self._seen_belief = problem.prior.effective(self.belief_) if self.draws_ is None else self.draws_.seen
        self._dtype = problem.table.reference.dtype
        self._view = self._view_of(self._dtype)
        self.bound_, self.stop_reason_ = ascent.point.objective, found.reason
        self.history_, self.n_iter_ = found.monitor.history, len(found.monitor.history)
        self.link_, self.loo_log_loss_ = found.link, found.loo_log_loss
        self._weight_prior, self._stream = problem.prior, found.stream
        self._class_totals = found.class_totals
        self.fitted_prior_, self.data_prior_ = (part / max(part.sum(), 1e-300) for part in found.class_totals)

    def _warn(self, reason: str) -> None:
        """Warns if the ascent stopped before it converged."""
        if reason == "interrupt":
            warnings.warn("Interrupted: this is the best model found so far.", InterruptedFitWarning, stacklevel=3)
        unfinished = {
            "stalled": "The bound stopped increasing before it converged.",
            "passes": f"The bound had not converged after max_iter={self.max_iter} passes; raise max_iter or tol.",
            "time": f"Time was up after max_time={self.max_time} seconds before the fit converged; this is the best "
            f"model so far.",
        }
        if reason in unfinished:
            warnings.warn(unfinished[reason], ConvergenceWarning, stacklevel=3)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "link_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._SPARSE
        tags.input_tags.allow_nan = self._MISSING
        return tags
