"""What a fit is given, what it is made of, and all that it finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..chunks import Whole, dense
from ..columns import Columns, describe
from ..engine import Problem
from ..imputation import ColumnModel
from ..inference import Inferred
from ..likelihoods import Likelihood
from ..links import Link
from ..monitor import Monitor
from ..sampling import distinct_labelled
from ..streaming import Stream
from ..validation import has_missing


class Data(NamedTuple):
    """What a fit is given, checked: labels are -1 and +1, or 0, 1, 2 ... if there are more than two classes.

    ``copies`` are the weights of the rows without those of classes, and ``unit`` is the weight of one copy of each.
    ``more`` says that other rows will follow.  Where the rows are a sample of a source, ``whole`` is the way to all of
    them, ``columns`` is what these are like, and ``gaps`` says in which of them entries are missing.
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray
    unit: np.ndarray
    classes: np.ndarray
    copies: np.ndarray
    more: bool = False
    whole: Whole | None = None
    columns: Columns | None = None
    gaps: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """All rows, of which these may be a sample."""
        return self.X.shape[0] if self.whole is None else self.whole.n_rows

    def is_missing(self, n_columns: int) -> bool:
        """Whether entries of the first so many columns are missing in any of all rows."""
        return has_missing(self.X[:, :n_columns]) or (self.gaps is not None and bool(self.gaps[:n_columns].any()))

    def described(self) -> Columns:
        """Where all columns lie, and how far they spread."""
        return describe(self.X, self.weight) if self.columns is None else self.columns

    def in_precision(self, precision: str) -> Data:
        """The rows in the precision of a word, if that is one of NumPy's."""
        if precision not in ("float32", "float64"):
            return self
        whole = self.whole
        if whole is not None:
            read: Any = whole.read
            whole = whole._replace(read=read._replace(dtype=np.dtype(precision)))
        return self._replace(X=self.X.astype(precision, copy=False), whole=whole)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def class_totals(self) -> np.ndarray:
        """How much the rows of each class weigh: in the fit, and without the weights of classes."""
        codes = (self.y > 0).astype(int) if self.n_classes == 2 else self.y.astype(int)
        return np.stack([np.bincount(codes, part, self.n_classes) for part in (self.weight, self.copies)])

    def merged(self) -> Data:
        """Repeats of a row with its label as one, shuffled in a way that depends on no order but their own."""
        X, y, which = distinct_labelled(dense(self.X), self.y)
        unit, order = np.zeros(len(y)), np.random.RandomState(0).permutation(len(y))
        np.maximum.at(unit, which, self.unit)
        weight, copies = (np.bincount(which, weights=part) for part in (self.weight, self.copies))
        return Data(X[order], y[order], weight[order], unit[order], self.classes, copies[order], self.more)


class Parts(NamedTuple):
    """The rows and the prior of a model, the loss they are to meet, the kernels that were judged on the way, and what
    is thought of columns whose entries may be missing."""

    rows: Any
    prior: Any
    loss: str | Likelihood
    judged: list[dict[str, Any]] = []
    columns: ColumnModel | None = None

    def for_files(self) -> Parts:
        """Without a loss that came as an object, which a file may not hold."""
        return self if isinstance(self.loss, str) else self._replace(loss="")

    def with_loss(self, given: str | Likelihood) -> Parts:
        """The same with the loss that files do not hold."""
        return self if isinstance(given, str) else self._replace(loss=given)


class Found(NamedTuple):
    """All that a fit finds."""

    data: Data
    parts: Parts
    problem: Problem
    inferred: Inferred
    stream: Stream | None
    monitor: Monitor
    link: Link
    loo_log_loss: float | None
    class_totals: np.ndarray

    @property
    def reason(self) -> str:
        return "interrupt" if self.monitor.interrupted else self.inferred.ascent.reason
