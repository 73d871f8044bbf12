"""What classifiers with a kernel share: choosing the kernel, its inducing points and the judges."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse

from ..arrays import NotPositiveDefiniteError
from ..columns import Columns
from ..imputation import MOST_MODELLED, NOT_LEARNED, GapModel
from ..inducing import MERGED_NUMBERS, choose_points, distinct_rows, most_points
from ..inference import INFERENCES
from ..kernels import RBF, Constant, Kernel, Matern
from ..kernels.blurred import blurred, sharp
from ..kernels.combine import given_kernel, heed_bounds
from ..likelihoods import likelihood_of
from ..monitor import Monitor
from ..parameters import one_of, positive_integer
from ..priors import Ridge
from ..rows import InducingRows, beneath
from ..sampling import repeats_itself, scattered
from ..tune import TUNINGS, Judges, Rounds, choose_kernel, moved_points
from ..validation import check_rows, refuse_empty_columns
from .base import Data, Found, Parts
from .partial import StreamingClassifier

KERNELS: dict[str, Any] = {"rbf": RBF, "matern": Matern}
PLACEMENTS = ("kmeans", "random", "mixture", "tuned")
#: Prior variances of kernels given by name: of the function (benchmarks/defaults.py), and of an offset of all rows.
_VARIANCE, _OFFSET_VARIANCE = 10.0, 1.0
#: The prior median of a tuned variance, where tuning also starts.
_EXPECTED_VARIANCE = 4.0
#: At most this many rows are used to learn how columns predict each other.
_MOST_ROWS_FOR_GAPS = 4096
#: Tables with at least this many rows are reduced to their distinct rows, if these are at most this proportion.
_MANY_ROWS, _FEW_DISTINCT = 8192, 0.5


class Chosen(NamedTuple):
    """A kernel, the kernels that were evaluated before it, a description of the columns, and the judges."""

    kernel: Kernel
    judged: list[dict[str, Any]]
    columns: Columns
    panels: list[Judges]


def usual_length_scales(columns: Columns, reach: float = 1.0) -> tuple[float, ...]:
    """Default length-scales, for a kernel without its own."""
    # In d columns, rows lie about sqrt(2 d) spreads apart: this keeps their correlations away from both 0 and 1.
    return tuple(reach * np.sqrt(len(columns.spread)) * columns.spread)


class TunedClassifier(StreamingClassifier):
    """A classifier that tunes its own kernel."""

    kernel: Any
    tune: str | None
    _INFERENCES = (*INFERENCES, "batch")
    _TUNINGS: ClassVar[tuple[str, ...]] = TUNINGS
    #: Default length-scales, in units of `usual_length_scales`.
    _REACH: ClassVar[float] = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.tune is not None:
            one_of("tune", self.tune, (*self._TUNINGS, None))
            heed_bounds(self.kernel)
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
        gap_model: GapModel | None = None,
    ) -> Chosen:
        """Tunes the kernel, with at most ``most_points`` inducing points.  With ``panels``, judges are returned even if
        nothing is tuned.  ``gap_model`` is the model of missing entries, if there are any."""
        columns = data.described().rounded()
        kernel, judged = self._kernel_as_given().with_length_scale(usual_length_scales(columns, self._REACH)), []
        kernel.refuse_width(data.X.shape[1])
        if self.tune is None and not panels:
            return Chosen(kernel, judged, columns, [])
        rows = data.labelled
        if gap_model is not None:
            kernel, rows = blurred(kernel), rows._replace(X=gap_model.blurred(rows.X))
            assert kernel is not None
        judges = Judges.panels(rows, rng, most_points, data.n_classes)
        if gap_model is not None:
            judges = [panel.of_blurred(columns) for panel in judges]
        if self.tune is not None and len(np.unique(data.y)) > 1:  # a first batch of one class is uninformative
            likelihood = self._likelihood(self._loss_for(), data.n_classes)
            choice = choose_kernel(judges, kernel, columns, self.tune, likelihood, monitor, jobs, self._rounds())
            kernel, judged = choice.kernel, [one | {"kernel": sharp(one["kernel"])} for one in choice.history]
        return Chosen(sharp(kernel), judged, columns, judges)

    @property
    def _chosen_from_first_batch(self) -> list[str]:
        chosen = self.tune is not None or None in self._kernel_as_given().get_params().values()
        return ["parameters of the kernel"] if chosen else []

    def _rounds(self) -> Rounds:
        """The length of a round, for tuning methods that alternate between belief and kernel."""
        return Rounds()

    def _kernel_as_given(self) -> Kernel:
        if not isinstance(self.kernel, str):
            return given_kernel(self.kernel)
        one_of("kernel", self.kernel, KERNELS)
        variance = _VARIANCE if self.tune is None else _EXPECTED_VARIANCE
        return variance * KERNELS[self.kernel]() + Constant(_OFFSET_VARIANCE)


class KernelClassifier(TunedClassifier):
    """A classifier whose latent function is a Gaussian process, represented by inducing points."""

    n_inducing: int | str
    inducing: Any

    @property
    def _MISSING(self) -> bool:  # type: ignore[override]  # noqa: N802
        """Whether entries may be missing: this needs a kernel whose expectation over missing entries is known."""
        try:
            return blurred(self._kernel_as_given()) is not None
        except ValueError:  # `fit` will report it
            return False

    @property
    def _GAPS_NEED(self) -> str:  # type: ignore[override]  # noqa: N802
        return "with a kernel whose mean over them is known, as that of kernel='rbf' is, and not with this one"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        positive_integer("n_inducing", self.n_inducing, words=("auto",))
        if isinstance(self.inducing, str):
            one_of("inducing", self.inducing, PLACEMENTS)
        elif self.inference == "batch":
            raise ValueError("inference='batch' uses the rows as inducing points; leave inducing as is, or use 'cavi'.")

    @property
    def _chosen_from_first_batch(self) -> list[str]:
        return [*super()._chosen_from_first_batch, *(["inducing points"] if isinstance(self.inducing, str) else [])]

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        moving = isinstance(self.inducing, str) and self.inducing == "tuned"
        most = most_points(data.n_rows, self.n_inducing, data.n_classes)
        data, gap_model = self._with_gap_model(data)
        gaps = gap_model if data.is_missing(data.X.shape[1]) else None
        kernel, judged, columns, panels = self._chosen(data, rng, monitor, jobs, most, moving, gaps)
        means = data if gaps is None else data._replace(X=gaps.blurred(data.X)[:, : data.X.shape[1]])
        points = self._points(means, columns, kernel, rng)
        if moving:
            units, likelihood = kernel.units(columns.spread), self._likelihood(self._loss_for(), data.n_classes)
            seen = kernel if gaps is None else blurred(kernel)
            assert seen is not None
            points = moved_points(panels[-1], seen, points, likelihood, units, monitor, jobs)
        rows = InducingRows.at(kernel, points)._replace(gap_model=gap_model)
        return Parts(rows, Ridge.isotropic(rows.n_weights), self._loss_for(), judged)

    def _condensed(self, data: Data) -> Data:
        """Merges repeated rows in large tables with few distinct ones; weighted sums over them stay the same."""
        n, width = data.X.shape
        if self.inference not in ("auto", "cavi") or data.whole is not None or scipy.sparse.issparse(data.X):
            return data
        if n < _MANY_ROWS or n * width > MERGED_NUMBERS or not repeats_itself(data.X, _FEW_DISTINCT):
            return data
        return data.merged()

    def _with_gap_model(self, data: Data) -> tuple[Data, GapModel | None]:
        """The data with a description of its columns, and a model of missing entries, now or in future rows."""
        n_columns = data.X.shape[1]
        if not self._MISSING or scipy.sparse.issparse(data.X):
            return data, None
        missing = data.is_missing(n_columns)
        if missing and data.whole is None:
            refuse_empty_columns(data.X, getattr(self, "feature_names_in_", None))
        if n_columns > MOST_MODELLED:
            if missing:
                raise ValueError(
                    f"X has missing values and {n_columns:,} columns, too many to learn the relations between them "
                    f"(at most {MOST_MODELLED}). Impute the values first, or use fewer columns."
                )
            return data, None
        data = data._replace(columns=data.described())
        some = scattered(data.X.shape[0], _MOST_ROWS_FOR_GAPS)
        try:
            return data, GapModel.of(data.X[some], data.weight[some], data.described().rounded())
        except NotPositiveDefiniteError:
            if missing:
                raise
            return data, None

    def _rows_for(self, missing: bool) -> Any:
        if missing and beneath(self.rows_).gap_model is None:
            raise ValueError(NOT_LEARNED)
        return self.rows_

    def _refuse_stream(self, prior: Any, missing: bool = False) -> None:
        """Accepts missing entries: such rows have features like others, so a single Gaussian can summarise the past."""
        super()._refuse_stream(prior)
        if missing and getattr(self, "_stream", None) is not None:
            self._rows_for(missing)

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        rows = beneath(self.rows_)
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
                f"{X.shape[1]}) to match X, got an array of shape {points.shape}."
            )
        if not np.isfinite(points).all():
            raise ValueError("The points in inducing must be finite numbers.")
        return np.unique(points.astype(X.dtype), axis=0)
