"""Learning from one batch of rows after another."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..chunks import n_threads, one_blas_thread
from ..entries import named_apart
from ..inference import InferredAscent
from ..monitor import Monitor
from ..parameters import share
from ..priors import Prior
from ..rows import ReducedRows, beneath
from ..streaming import Stream, absorb
from ..validation import declared_classes, has_missing, refuse_sources
from .base import BayesianClassifier, Found, Parts
from .predictions import kept_on_failure

#: A first batch of fewer rows is not expected to be representative.
_FEWEST_ROWS = 20


class StreamingClassifier(BayesianClassifier):
    """A classifier that can also learn from batches of rows."""

    forgetting: float

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Update the model with one more batch of rows, which need not be kept.

        The information in earlier batches is held as one Gaussian, weakened by ``forgetting`` before each batch.  The
        first batch fixes the units of the columns and, for `BayesianSVC`, the kernel and the inducing points, so it
        should be a representative sample; fewer than 20 rows, or a single class, give a warning.  Links are fitted on
        predictions of each batch made before it was used; ``loo_log_loss_`` is then the log loss of those predictions,
        and ``bound_`` the bound of the last batch given the others.  After ``fit``, batches update the fitted model.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_rows, n_columns)
            Training rows.
        y : sequence of n_rows labels, or the name of a column of the frame
            Any of the classes.
        classes : sequence of labels
            All classes; required in the first call, and optional later.
        sample_weight : sequence of n_rows weights, or the name of a column of the frame, optional
            A row of weight k counts as k copies of it; rows of weight 0 are ignored.

        Returns
        -------
        self
            The classifier, updated with this batch.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from softmargin import BayesianSVC
        >>> X, y = make_moons(600, noise=0.2, random_state=0)
        >>> model = BayesianSVC(random_state=0)
        >>> for rows in (slice(0, 200), slice(200, 400), slice(400, 600)):
        ...     model = model.partial_fit(X[rows], y[rows], classes=[0, 1])
        >>> bool(model.score(X, y) > 0.95)
        True
        """
        self._check_parameters()
        self._check_streaming()
        X, y, sample_weight = named_apart(X, y, sample_weight)
        first = getattr(self, "_stream", None) is None
        refuse_sources(X, "partial_fit", "Pass one batch after another, or pass all rows to fit", y)
        with kept_on_failure(self):
            found = self._find_more(X, y, classes, sample_weight)
            if found is not None:
                self._keep(found)
        if found is not None:
            self._warn(found.reason)
        if found is not None and first:
            self._warn_of_first_batch(found.data.y)
        return self

    def _warn_of_first_batch(self, y: np.ndarray) -> None:
        """Warns if the first batch, with these labels, cannot be representative, and something is chosen from it."""
        warn_of_first_batch(y, self._chosen_from_first_batch)

    @property
    def _chosen_from_first_batch(self) -> list[str]:
        """What is chosen from the first batch, and never again."""
        return []

    def _find_more(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Found | None:
        """Does all the work of ``partial_fit``; returns None if no row has any weight."""
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None and hasattr(self, "_weight_prior"):
            self._refuse_stream(self._weight_prior)
        known = declared_classes(classes, getattr(self, "classes_", None) if stream is not None else None)
        monitor = Monitor(type(self).__name__, self.verbose, self.max_time, self.max_iter)
        data = self._check_data(X, y, sample_weight, known, first=stream is None)
        if len(data.y) == 0:
            return None
        data, first = data._replace(more=True), stream is None
        self._refuse_classes(data.n_classes)
        jobs = n_threads(self.n_jobs)
        with one_blas_thread:
            if stream is None:
                parts = self._parts(data, check_random_state(self.random_state), monitor, jobs)
            else:
                parts = Parts(self.rows_, self._weight_prior, self.loss_)
            self._refuse_stream(parts.prior, has_missing(data.X))
            problem = self._problem(data, parts, jobs)
            stream, ascent = absorb(
                stream,
                problem,
                forgetting=self.forgetting,
                unit=data.unit,
                tol=self.tol,
                max_passes=self.max_iter,
                monitor=monitor,
            )
            link, log_loss = self._fit_link(stream.record, data.n_classes, near=getattr(self, "link_", None))
        totals = data.class_totals if first else data.class_totals + (1 - self.forgetting) * self._class_totals
        return Found(data, parts, problem, InferredAscent(ascent), stream, monitor, link, log_loss, totals)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        share("forgetting", self.forgetting)

    def _check_streaming(self) -> None:
        if self.inference in ("gibbs", "ecm"):
            raise ValueError(
                f"partial_fit adds up variational sums, which inference={self.inference!r} lacks; use 'auto', 'cavi' "
                f"or 'svi', or fit all rows together."
            )
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once; give partial_fit a dict from label to "
                f"weight, or None."
            )

    def _refuse_stream(self, prior: Prior, missing: bool = False) -> None:
        if isinstance(beneath(getattr(self, "rows_", None)), ReducedRows) and getattr(self, "_stream", None) is None:
            raise ValueError(
                "The model was fitted to more columns than rows and reduced to the space spanned by its rows, which "
                "new rows leave; reduce the columns first, or fit all rows together."
            )
        if missing or not prior.is_plain:
            raise ValueError(
                "partial_fit keeps a single Gaussian of the past, which is not enough when variables are selected, "
                "entries are missing or rows are grouped; fit all rows together."
            )


def warn_of_first_batch(y: np.ndarray, chosen: list[str]) -> None:
    """Warns if rows with these labels cannot be representative, and something is chosen from them."""
    few, single = len(y) < _FEWEST_ROWS, len(np.unique(y)) < 2
    if chosen and (few or single):
        warnings.warn(
            f"The first batch has {len(y)} row{'s' if len(y) > 1 else ''}{' of a single class' if single else ''}, and "
            f"{' and '.join(chosen)} are chosen from this batch alone: later batches will not change them. Begin with "
            f"a representative batch, of {_FEWEST_ROWS} rows or more and of several classes.",
            UserWarning,
            stacklevel=4,
        )
