r"""A kernel beside fixed and random effects: a smooth function of all columns but the groups.

.. math:: f = x^T \beta + \phi^T c + z^T u_g + e, \qquad \phi = L^{-1} k(Z, x), \quad c \sim N(0, I).

The weights :math:`c` of the inducing points lie in the core of the arrow, after those of the linear terms, as for a
spline, but with a known variance; :math:`e \sim N(0, k(x, x) - \phi^T \phi)` is the leftover.  The linear terms stay,
as they do beside splines: away from the data, such as at future times, a kernel alone would fall back to zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..inducing import choose_points
from ..kernels import Kernel
from ..kernels.combine import given_kernel, heed_bounds
from ..monitor import Monitor
from ..parameters import one_of, positive_integer
from ..rows import InducingRows
from ..tune import LabelledRows
from ..tune.grouped import Around, GroupedJudges, choose_kernel_within
from .found import Data
from .kernel import KERNELS, usual_length_scales

#: The words that ``tune=`` accepts for a kernel beside linear terms.
TUNINGS = ("logistic",)
#: The initial variance of a kernel given by name: the nonlinear part is smaller than what linear terms and groups
#: explain (benchmarks/mixed_kernel.py).
_VARIANCE = 0.3


class KernelEffects(NamedTuple):
    """The kernel's rows with their inducing points, and the kernels that were evaluated to choose it."""

    rows: InducingRows
    judged: list[dict[str, Any]]


def check_kernel_effects(model: Any) -> None:
    """Checks the parameters that `kernel_effects` reads."""
    positive_integer("n_inducing", model.n_inducing, words=("auto",))
    if model.tune is not None:
        one_of("tune", model.tune, (*TUNINGS, None))
        heed_bounds(model.kernel)
    if model.kernel is not None:
        _kernel_as_given(model)


def refuse_gaps(data: Data, names: tuple[str, ...]) -> None:
    """Refuses missing entries in the columns of the kernel, which come first and are named ``names``."""
    gaps = np.isnan(data.X[:, : len(names)]).any(axis=0)
    if data.gaps is not None:
        gaps |= data.gaps[: len(names)]
    if gaps.any():
        raise ValueError(
            f"Column {names[int(np.argmax(gaps))]!r} has missing values, and a kernel needs complete rows: impute "
            f"them first, or use kernel=None, which models them."
        )


def kernel_effects(
    model: Any,
    data: Data,
    n_fixed: int,
    code: int | None,
    around: Around,
    rng: np.random.RandomState,
    monitor: Monitor,
    jobs: int,
) -> KernelEffects:
    """The kernel of a model, from its parameters; it applies to the first ``n_fixed`` columns.

    ``code`` is the column of the finest groups, if any; ``around`` adds the other terms of the model to a kernel.
    """
    if not n_fixed:
        raise ValueError("A kernel needs at least one column besides the groups; without any, leave kernel as None.")
    X = data.X[:, :n_fixed]
    alone = data._replace(X=X, columns=None if data.columns is None else data.columns.of(n_fixed))
    columns = alone.described().rounded()
    kernel, judged = _kernel_as_given(model).with_length_scale(usual_length_scales(columns)), []
    kernel.refuse_width(n_fixed)
    if model.tune is not None:
        judges = GroupedJudges.of(_single(data), n_fixed, code, kernel, columns, data.n_classes)
        choice = choose_kernel_within(judges, around, kernel, columns, monitor, jobs)
        kernel, judged = choice.kernel, choice.history
    points = choose_points(
        X, data.weight, columns, kernel, model.n_inducing, "kmeans", rng, data.n_classes, data.n_rows
    )
    return KernelEffects(InducingRows.at(kernel, points), judged)


def _kernel_as_given(model: Any) -> Kernel:
    if not isinstance(model.kernel, str):
        return given_kernel(model.kernel)
    one_of("kernel", model.kernel, KERNELS)
    return _VARIANCE * KERNELS[model.kernel]()


def _single(data: Data) -> LabelledRows:
    """The rows; those of a source are scaled to a mean weight of one, or each would overstate its group's evidence."""
    weight = data.weight if data.whole is None else data.weight * len(data.y) / data.weight.sum()
    return LabelledRows(data.X, data.y, weight, data.unit)
