r"""Fixed effects by a kernel: all columns but the groups go through a Gaussian process, beside the random effects.

:math:`f = \phi^T u + z^T u_g + e`, with :math:`\phi = L^{-1} k(Z, x)` and :math:`u \sim N(0, I)`, lies in the core
of the arrow like linear effects of a known variance would, and :math:`e \sim N(0, k(x, x) - \phi^T \phi)` is what the
points leave over.  So a kernel takes the place of the fixed effects, and nothing else changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..inducing import choose_points, most_points
from ..monitor import Monitor
from ..rows import InducingRows
from ..tune import Judges, LabelledRows, choose_kernel
from ..tune.grouped import Around, GroupedJudges, choose_kernel_beside_groups
from ..validation import has_missing, one_of, positive_integer
from .found import Data
from .kernel import kernel_as_given, starting_kernel

#: The words of ``tune=`` for a kernel beside random effects.
TUNINGS = ("logistic",)


class KernelEffects(NamedTuple):
    """The kernel's rows, seen through their points, and the kernels that were judged on the way."""

    rows: InducingRows
    judged: list[dict[str, Any]]


def check_kernel_effects(model: Any) -> None:
    """Checks the parameters that `kernel_effects` reads."""
    positive_integer("n_inducing", model.n_inducing, words=("auto",))
    if model.tune is not None:
        one_of("tune", model.tune, (*TUNINGS, None))
    if model.kernel is None:
        return
    kernel_as_given(model.kernel, model.tune is not None)
    if not (isinstance(model.prior, str) and model.prior == "ridge"):
        raise ValueError("prior is that of linear effects, whose place a kernel takes: leave it as it is, or the kernel.")


def refuse_gaps(X: np.ndarray, names: tuple[str, ...]) -> None:
    """Missing entries of columns that go through a kernel."""
    if has_missing(X):
        name = names[int(np.argmax(np.isnan(X).any(axis=0)))]
        raise ValueError(
            f"Column {name!r} has missing values, and a kernel sees whole rows only: impute them first, or use "
            f"kernel=None, which models them."
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
    """The kernel of a model by its parameters, the first ``n_fixed`` columns being those that go through it.

    ``code`` is the column of the finest groups, if there are any; ``around`` puts them around a kernel.
    """
    if not n_fixed:
        raise ValueError("A kernel needs at least one column beside the groups; without any, leave kernel as None.")
    X, tuned = data.X[:, :n_fixed], model.tune is not None and len(np.unique(data.y)) > 1
    alone = data._replace(X=X, columns=None if data.columns is None else data.columns.of(n_fixed))
    columns = alone.described().rounded()
    kernel, judged = starting_kernel(model.kernel, model.tune is not None, columns), []
    if tuned:
        most, likelihood = most_points(data.n_rows, model.n_inducing, data.n_classes), model._likelihood("logistic", 2)
        panels = Judges.panels(LabelledRows(*alone[:4]), rng, most, data.n_classes)
        choice = choose_kernel(panels, kernel, columns, model.tune, likelihood, monitor, jobs)
        kernel, judged = choice.kernel, choice.history
    if tuned and code is not None:
        judges = GroupedJudges.of(_single(data), n_fixed, code, kernel, columns, data.n_classes)
        choice = choose_kernel_beside_groups(judges, around, kernel, columns, monitor, jobs)
        kernel, judged = choice.kernel, judged + choice.history
    points = choose_points(
        X, data.weight, columns, kernel, model.n_inducing, "kmeans", rng, data.n_classes, data.n_rows
    )
    return KernelEffects(InducingRows.at(kernel, points), judged)


def _single(data: Data) -> LabelledRows:
    """The rows; those of a source as single ones: a row that stood for many of its group would make too much of it."""
    weight = data.weight if data.whole is None else data.weight * len(data.y) / data.weight.sum()
    return LabelledRows(data.X, data.y, weight, data.unit)
