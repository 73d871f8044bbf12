"""The input of a fit, its parts, and its results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..chunks import Whole, dense
from ..columns import Columns, describe
from ..engine import Problem
from ..imputation import ColumnModel
from ..inference import InferredAscent
from ..likelihoods import Likelihood
from ..links import Link
from ..monitor import Monitor
from ..sampling import merged_rows
from ..streaming import Stream
from ..tune import LabelledRows
from ..validation import has_missing


class Data(NamedTuple):
    """The checked input of a fit: labels are -1 and +1, or 0, 1, 2 ... if there are more than two classes.

    ``copies`` are the weights of the rows without class weights, and ``unit`` is the weight of one copy of each row.
    ``more`` says that other rows will follow.  If the rows are a sample of a source, ``whole`` gives access to all of
    them, ``columns`` describes their columns, and ``gaps`` says which of these have missing entries.
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
        """The number of all rows, of which these may be a sample."""
        return self.X.shape[0] if self.whole is None else self.whole.n_rows

    def is_missing(self, n_columns: int) -> bool:
        """Whether any row, in the sample or not, has missing entries in its first ``n_columns`` columns."""
        return has_missing(self.X[:, :n_columns]) or (self.gaps is not None and bool(self.gaps[:n_columns].any()))

    def described(self) -> Columns:
        """The centre and spread of each column."""
        return describe(self.X, self.weight) if self.columns is None else self.columns

    def in_precision(self, precision: str) -> Data:
        """The rows in the given precision, if that is the name of a NumPy type."""
        if precision not in ("float32", "float64"):
            return self
        whole = self.whole
        if whole is not None:
            read: Any = whole.read
            whole = whole._replace(read=read._replace(dtype=np.dtype(precision)))
        return self._replace(X=self.X.astype(precision, copy=False), whole=whole)

    @property
    def labelled(self) -> LabelledRows:
        """The rows as kernels and particles see them: no classes, and no copies."""
        return LabelledRows(self.X, self.y, self.weight, self.unit)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def class_totals(self) -> np.ndarray:
        """The total weight of each class: in the fit, and without class weights."""
        codes = (self.y > 0).astype(int) if self.n_classes == 2 else self.y.astype(int)
        return np.stack([np.bincount(codes, part, self.n_classes) for part in (self.weight, self.copies)])

    def merged(self) -> Data:
        """Repeated rows with the same label merged into one, in an order that does not depend on the given one."""
        X, y, unit, which = merged_rows(dense(self.X), self.y, self.unit)
        order = np.random.RandomState(0).permutation(len(y))
        weight, copies = (np.bincount(which, weights=part) for part in (self.weight, self.copies))
        return Data(X[order], y[order], weight[order], unit[order], self.classes, copies[order], self.more)


class Parts(NamedTuple):
    """The rows, prior and loss of a model, the kernels that were evaluated to choose it, and the model of columns whose
    entries may be missing."""

    rows: Any
    prior: Any
    loss: str | Likelihood
    judged: list[dict[str, Any]] = []
    columns: ColumnModel | None = None

    def for_files(self) -> Parts:
        """These parts without a loss that was passed as an object, which may be impossible to write to a file."""
        return self if isinstance(self.loss, str) else self._replace(loss="")

    def with_loss(self, given: str | Likelihood) -> Parts:
        """These parts with the loss that files leave out."""
        return self if isinstance(given, str) else self._replace(loss=given)


class Found(NamedTuple):
    """The results of a fit."""

    data: Data
    parts: Parts
    problem: Problem
    inferred: InferredAscent
    stream: Stream | None
    monitor: Monitor
    link: Link
    loo_log_loss: float | None
    class_totals: np.ndarray

    @property
    def reason(self) -> str:
        return "interrupt" if self.monitor.interrupted else self.inferred.ascent.reason
