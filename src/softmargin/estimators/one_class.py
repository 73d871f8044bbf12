"""The one-class support vector machine: finds rows that are unlike those of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..devices import on_host
from ..kernels import Kernel
from ..links import Link, LogisticLink
from ..parameters import proper_share
from ..streaming import Record
from ..validation import check_rows, check_weights
from .base import Data, Found
from .kernel import KERNELS
from .kernel_parameters import KernelParameters
from .predictions import kept_on_failure
from .svc import BayesianSVC

#: Prior variance of the function, which should reach one wherever there are rows, and default length-scales as a
#: fraction of those for two classes (benchmarks/one_class.py).
_VARIANCE, _REACH = 4.0, 0.5
_PASSED_ON = (
    "kernel", "n_inducing", "inducing", "tol", "max_iter", "max_time", "n_jobs", "device", "precision",
    "checkpoint", "verbose", "random_state",
)  # fmt: skip


class OneClassMachine(BayesianSVC):
    """A machine whose rows all have the label +1; it fits no link, since there is no second class."""

    _REACH = _REACH

    def _kernel_as_given(self) -> Kernel:
        word = self.kernel if isinstance(self.kernel, str) else None
        return _VARIANCE * KERNELS[word]() if word in KERNELS else super()._kernel_as_given()

    def _weighed(self, X: Any, y: np.ndarray, copies: np.ndarray, classes: Any = None, factor: Any = None) -> Data:
        return super()._weighed(X, y, copies, np.array([-1, 1]), factor)

    def _fit_link(
        self, record: Record, n_classes: int = 2, loss: Any = "hinge", near: Link | None = None
    ) -> tuple[Link, float | None]:
        return LogisticLink(), None

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        assert found.stream is not None
        self.record_ = found.stream.record


class BayesianOneClassSVM(KernelParameters, OutlierMixin, BaseEstimator):
    r"""Novelty detector that keeps a given rate of false alarms without held-out rows.

    A function :math:`f` from a Gaussian process is tied to every row through the hinge,
    :math:`\exp(-2 \max(0, 1 - f(x_i)))`: it should reach one wherever there are rows.  Elsewhere nothing constrains it,
    and its posterior standard deviation grows to that of the prior.  That standard deviation measures how unusual a
    row is.  (The mean falls to zero as well, but separates rows less well: benchmarks/one_class.py.)

    The threshold is a quantile over the training rows, each scored as if it had been *left out*, which needs no refit.
    A new row of the same kind therefore raises a false alarm with about the requested probability, and no rows have to
    be held back.  `sklearn.svm.OneClassSVM` bounds the share of alarms among its training rows, which says little
    about new ones.

    Training rows are assumed to be normal.  They cannot tell which kernel detects anomalies best, as they contain
    none, so the kernel is fixed rather than tuned.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        ``"rbf"`` is ``4 * RBF()`` and ``"matern"`` is ``4 * Matern()``; length-scales of None are half the spread of
        each column times the square root of the number of columns.
    false_alarm_rate : float
        Between 0 and 1: the share of rows like the training rows that may be flagged.  With n rows it cannot be kept
        below 1 / (n + 1).
    n_inducing, inducing, tol, max_iter, max_time, n_jobs
        As in `BayesianSVC`.
    device, precision, checkpoint, verbose, random_state
        As in `BayesianSVC`.

    Attributes
    ----------
    offset_ : float, the lowest score of rows that are not flagged
    machine_ : the underlying model; ``machine_.kernel_``, ``machine_.bound_``, ``machine_.history_`` and so on are
        those of `BayesianSVC`
    n_iter_ : int, the number of passes over the rows
    n_features_in_, feature_names_in_ : the number of columns, and their names if they have any

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import BayesianOneClassSVM
    >>> ring = np.random.default_rng(0).normal(size=(300, 2))
    >>> ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    >>> model = BayesianOneClassSVM(random_state=0).fit(ring)
    >>> model.predict([[1.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
    array([ 1, -1, -1])
    >>> bool(model.p_value([[0.0, 0.0]]) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        false_alarm_rate: float = 0.1,
        n_inducing: int | str = "auto",
        inducing: Any = "kmeans",
        tol: float = 1e-3,
        max_iter: int = 200,
        max_time: float | None = None,
        n_jobs: int | None = None,
        device: Any = None,
        precision: str = "auto",
        checkpoint: Any = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.false_alarm_rate = false_alarm_rate
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianOneClassSVM:
        """Fit the detector; ``y`` is ignored, and a row of weight k counts as k copies of it."""
        with kept_on_failure(self):
            machine, rows = self._machine(), check_rows(self, on_host(X), reset=True)
            weight = check_weights(sample_weight, rows.shape[0])
            if not weight.any():
                raise ValueError("All rows have a sample_weight of zero: there is nothing to learn from.")
            self._keep(machine.fit(rows, np.ones(rows.shape[0]), weight))
        return self

    def _machine(self) -> OneClassMachine:
        proper_share("false_alarm_rate", self.false_alarm_rate)
        return OneClassMachine(**{name: getattr(self, name) for name in _PASSED_ON}, loss="hinge", tune=None)

    def _keep(self, machine: OneClassMachine) -> None:
        self.machine_, self.n_iter_ = machine, machine.n_iter_
        record = machine.record_
        order = np.argsort(-record.v, kind="stable")  # the most unusual first
        self._scores, self._weight = -np.sqrt(record.v[order]), np.cumsum(record.weight[order])
        strange = self._p_values(self._scores) <= self.false_alarm_rate
        self.offset_ = float(self._scores[min(int(strange.sum()), len(strange) - 1)])

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent function at each row."""
        check_is_fitted(self)
        return self.machine_._latent(check_rows(self, on_host(X), reset=False))

    def score_samples(self, X: Any) -> np.ndarray:
        """Score of each row: minus the posterior standard deviation of the latent function; 0 is most normal."""
        return -np.sqrt(self.latent_mean_and_variance(X)[1])

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each row minus ``offset_``: negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """-1 for anomalies and 1 for normal rows."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_value(self, X: Any) -> np.ndarray:
        """Share of rows like the training rows that are at least as unusual as each row.

        Computed from the training rows, each scored as if left out, and the new row.  The p-values of new normal rows
        are approximately uniform; for many rows at once, apply any correction for multiple testing.
        """
        return self._p_values(self.score_samples(X))

    def _p_values(self, score: np.ndarray) -> np.ndarray:
        as_strange = np.searchsorted(self._scores, score, side="right")
        return (np.append(0.0, self._weight)[as_strange] + 1) / (self._weight[-1] + 1)

    def save(self, path: Any) -> None:
        """Save the model to a file of arrays and JSON, which `softmargin.load` reads."""
        from ..store import save  # here, since `store` imports all estimators

        save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "machine_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
