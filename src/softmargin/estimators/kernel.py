"""What classifiers with a kernel share: the kernel, its inducing points, and who judges them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..columns import Columns
from ..inducing import choose_points, distinct_rows, most_points
from ..inference import INFERENCES
from ..kernels import RBF, Constant, Kernel, Matern, as_kernel
from ..likelihoods import likelihood_of
from ..monitor import Monitor
from ..parameters import one_of, positive_integer
from ..priors import Ridge
from ..rows import ClasswiseRows, InducingRows
from ..tune import TUNINGS, Judges, LabelledRows, Rounds, choose_kernel, moved_points
from ..validation import check_rows
from .base import Data, Found, Parts
from .partial import StreamingClassifier

KERNELS: dict[str, Any] = {"rbf": RBF, "matern": Matern}
PLACEMENTS = ("kmeans", "random", "mixture", "tuned")
#: Prior variances of the named kernels: of the function (benchmarks/defaults.py), and of an offset shared by all rows.
_VARIANCE, _OFFSET_VARIANCE = 10.0, 1.0
#: The variance that a tuned kernel is expected to have.
_EXPECTED_VARIANCE = 4.0


class Chosen(NamedTuple):
    """A kernel, the kernels that were judged before it, what the columns are like, and who judged."""

    kernel: Kernel
    judged: list[dict[str, Any]]
    columns: Columns
    panels: list[Judges]


def usual_length_scales(columns: Columns, reach: float = 1.0) -> tuple[float, ...]:
    """Those of a kernel that was given none."""
    # In d columns rows lie about sqrt(2 d) spreads apart: this keeps them neither alike nor strangers.
    return tuple(reach * np.sqrt(len(columns.spread)) * columns.spread)


class TunedClassifier(StreamingClassifier):
    """A classifier with a kernel, which it finds by itself."""

    kernel: Any
    tune: str | None
    _INFERENCES = (*INFERENCES, "batch")
    _TUNINGS: ClassVar[tuple[str, ...]] = TUNINGS
    #: Usual length-scales, in units of those that keep rows neither alike nor strangers.
    _REACH: ClassVar[float] = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.tune is not None:
            one_of("tune", self.tune, (*self._TUNINGS, None))
        if self.tune in ("bound", "bound-steps") and not likelihood_of(self._loss_for()).is_bound:
            raise ValueError(f"loss={self.loss!r} has no bound to tune by; use tune='logistic', 'loo' or None.")
        self._kernel_as_given()

    def _chosen(
        self,
        data: Data,
        rng: np.random.RandomState,
        monitor: Monitor,
        jobs: int,
        most_points: int,
        panels: bool = False,
    ) -> Chosen:
        """The kernel that the rows prefer, judged through no more points than given; with ``panels``, these in any
        case."""
        columns = data.described().rounded()
        kernel, judged = self._kernel_as_given().with_length_scale(usual_length_scales(columns, self._REACH)), []
        if self.tune is None and not panels:
            return Chosen(kernel, judged, columns, [])
        judges = Judges.panels(LabelledRows(*data[:4]), rng, most_points, data.n_classes)
        if self.tune is not None and len(np.unique(data.y)) > 1:  # a first batch of one class says nothing of kernels
            likelihood = self._likelihood(self._loss_for(), data.n_classes)
            choice = choose_kernel(judges, kernel, columns, self.tune, likelihood, monitor, jobs, self._rounds())
            kernel, judged = choice.kernel, choice.history
        return Chosen(kernel, judged, columns, judges)

    def _rounds(self) -> Rounds:
        """How long a round is, for those ways of tuning that go in rounds."""
        return Rounds()

    def _kernel_as_given(self) -> Kernel:
        if not isinstance(self.kernel, str):
            return as_kernel(self.kernel)
        one_of("kernel", self.kernel, KERNELS)
        variance = _VARIANCE if self.tune is None else _EXPECTED_VARIANCE
        return variance * KERNELS[self.kernel]() + Constant(_OFFSET_VARIANCE)


class KernelClassifier(TunedClassifier):
    """A classifier whose latent function is a Gaussian process, seen through inducing points."""

    n_inducing: int | str
    inducing: Any

    def _check_parameters(self) -> None:
        super()._check_parameters()
        positive_integer("n_inducing", self.n_inducing, words=("auto",))
        if isinstance(self.inducing, str):
            one_of("inducing", self.inducing, PLACEMENTS)
        elif self.inference == "batch":
            raise ValueError("inference='batch' has its points at the rows; leave inducing as it is, or use 'cavi'.")

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        moving = isinstance(self.inducing, str) and self.inducing == "tuned"
        most = most_points(data.n_rows, self.n_inducing, data.n_classes)
        kernel, judged, columns, panels = self._chosen(data, rng, monitor, jobs, most, panels=moving)
        points = self._points(data, columns, kernel, rng)
        if moving:
            units, likelihood = kernel.units(columns.spread), self._likelihood(self._loss_for(), data.n_classes)
            points = moved_points(panels[-1], kernel, points, likelihood, units, monitor, jobs)
        rows = InducingRows.at(kernel, points)
        return Parts(rows, Ridge.isotropic(rows.n_weights), self._loss_for(), judged)

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        rows = self.rows_.rows if isinstance(self.rows_, ClasswiseRows) else self.rows_
        assert isinstance(rows, InducingRows)
        self.tune_history_ = found.parts.judged
        self.kernel_, self.inducing_points_, self.jitter_ = rows.kernel, rows.points, rows.jitter

    def _points(self, data: Data, columns: Columns, kernel: Kernel, rng: np.random.RandomState) -> np.ndarray:
        X, weight = data.X, data.weight
        if not isinstance(self.inducing, str):
            return self._given_points(X)
        if self.inference == "batch":
            every = distinct_rows(X, weight, at_most=X.shape[0])
            assert every is not None
            return every.rows
        return choose_points(
            X, weight, columns, kernel, self.n_inducing, self.inducing, rng, data.n_classes, data.n_rows
        )

    def _given_points(self, X: Any) -> np.ndarray:
        frame = hasattr(self.inducing, "columns")
        points = check_rows(self, self.inducing, reset=False) if frame else np.asarray(self.inducing)
        if points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
            raise ValueError(
                f"inducing must be one of {', '.join(map(repr, PLACEMENTS))}, or points of shape (n_points, "
                f"{X.shape[1]}) to match X; got an array of shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise ValueError("The points in inducing must be finite numbers.")
        return np.unique(points.astype(X.dtype), axis=0)
