r"""Choosing the kernel's parameters.

The criterion is the objective of every fit, :math:`F = bound - KL`, at its optimum over beliefs: a function of the
kernel's log-parameters :math:`\theta` alone (type-II maximum likelihood, as in Wenzel et al. 2017, section 4.3).  At
that optimum, the gradient of ``F`` in the belief is zero, so its gradient in :math:`\theta` is that of the bound at a
fixed belief, one more sum over rows; thanks to the whitening, the divergence does not depend on :math:`\theta`.

From one kernel to the next, it is not the belief that is carried over but the rows' sites ``(w, b)``.  Under the *new*
features they imply a belief near the new optimum, and two or three updates reach it.

The hinge is not a normalised likelihood, and its bound judges length-scales poorly on small tables.  The logistic
bound is a bound on a normalised likelihood, and by default it judges kernels for every loss.  Losses that are quadratic
can also be tuned as in Izmailov and Kropotov (2017) (`softmargin.tune.quadratic`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..columns import Columns
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..monitor import Monitor
from .evidence import MOST_UPDATES, Evidence, Judged, logistic_judge
from .halves import variance_deviation
from .judges import Judges, LabelledRows
from .pairs import with_pairs
from .points import moved_points
from .quadratic import JOINT_TUNINGS, PUBLISHED, QUADRATIC_TUNINGS, Newton, Rounds, by_joint_ascent, by_rounds
from .search import Choice, Optimiser, by_gradient_steps, by_quasi_newton, is_over, maximise
from .space import VARIANCES, Space, typical

__all__ = [
    "JOINT_TUNINGS",
    "QUADRATIC_TUNINGS",
    "TUNINGS",
    "Choice",
    "Evidence",
    "Judged",
    "Judges",
    "LabelledRows",
    "Rounds",
    "Space",
    "choose_kernel",
    "maximise",
    "moved_points",
    "typical",
]

#: Values of ``tune=`` for any loss; `QUADRATIC_TUNINGS` are those for quadratic losses only.
TUNINGS = ("logistic", "bound", "bound-steps", "loo")
#: Variational updates before each plain gradient step, as in the paper.
_UPDATES_PER_STEP = 10
#: When a larger panel continues a search, log-length-scales start no further above the typical ones than this.
_LONGEST = 0.7
#: Factors on the variances that are compared by leave-one-out loss.
_FACTORS = (0.25, 4.0)


def choose_kernel(
    panels: Sequence[Judges],
    kernel: Kernel,
    columns: Columns,
    how: str,
    likelihood: Likelihood,
    monitor: Monitor | None = None,
    n_jobs: int = 1,
    rounds: Rounds = PUBLISHED,
) -> Choice:
    """The best kernel for some rows by one of `TUNINGS` or `QUADRATIC_TUNINGS`.

    Each panel continues where the last one ended.  The prior of length-scales is centred at the columns' spread,
    whatever their given values; that of variances is centred at the given ones.
    """
    center = typical(kernel, columns)

    def best(apart: bool) -> Choice:
        space, choice, history, paired = Space.around(center, apart, variances), kernel, [], False
        for judges in panels:
            if isinstance(choice, Choice) and is_over(monitor):
                break  # a larger panel would have time for this kernel only
            near = choice.kernel if isinstance(choice, Choice) else None
            panel = judges.seen_through(near or center, columns, is_near=near is not None)
            start = _reopened(choice, center) if judges.n_classes > 2 and not paired else choice
            judge = evidence(panel)
            choice = alone = maximise(judge, space, optimiser, start, monitor)
            if optimiser is by_quasi_newton:  # the published methods are left unchanged
                choice = with_pairs(alone, panel, judge, space, columns, monitor)
            paired |= choice.kernel is not alone.kernel  # reopening all columns would lose these
            history += choice.history
        assert isinstance(choice, Choice)
        return choice._replace(history=history)

    def evidence(panel: Judges) -> Evidence:
        judge = logistic_judge(panel.n_classes) if how in ("logistic", "loo") else likelihood
        found = panel.evidence(judge, n_updates, n_jobs)
        return found if judge.is_bound else Newton.like(found)

    n_updates, optimiser = _way_up(how, rounds)
    variances = VARIANCES
    if panels[0].n_classes > 2 and how in ("logistic", "loo"):
        variances = variance_deviation(panels[:2][-1], center, columns, likelihood, monitor, n_jobs)
    choice = best(apart=True)
    if how != "loo":
        return choice
    return _kept_by_left_out(panels[-1], choice, list(_rivals(choice, best(apart=False))), likelihood, monitor)


def _reopened(choice: Kernel | Choice, center: Kernel) -> Kernel | Choice:
    """A choice with its longest length-scales shortened until their gradients no longer vanish.

    Otherwise a column that a small panel switched off could not be recovered by a larger one.
    """
    if not isinstance(choice, Choice):
        return choice
    longest = np.where(center.has_role("length_scale"), center.theta + _LONGEST, np.inf)
    opened = np.minimum(choice.kernel.theta, longest)
    return choice if np.array_equal(opened, choice.kernel.theta) else choice.kernel.with_theta(opened)


def _way_up(how: str, rounds: Rounds) -> tuple[int, Optimiser]:
    """The most updates of a belief before gradients are computed, and the optimiser."""
    ways: dict[str, tuple[int, Optimiser]] = {
        "bound-steps": (_UPDATES_PER_STEP, by_gradient_steps),
        "alternate": (rounds.n_updates, by_rounds(rounds.n_evaluations)),
        "hybrid": (rounds.n_updates, by_rounds(rounds.n_evaluations, joint=True)),
        "full": (rounds.n_updates, by_joint_ascent),
    }
    return ways.get(how, (MOST_UPDATES, by_quasi_newton))


def _rivals(choice: Choice, tied: Choice) -> Iterator[Choice]:
    """Alternatives to a choice: one with tied length-scales, and both with larger and smaller variances."""
    yield tied
    for base in (choice, tied):
        variance = base.kernel.has_role("variance")
        for factor in _FACTORS:
            yield base._replace(kernel=base.kernel.with_theta(base.kernel.theta + np.log(factor) * variance))


def _kept_by_left_out(
    judges: Judges, choice: Choice, rivals: list[Choice], likelihood: Likelihood, monitor: Monitor | None = None
) -> Choice:
    """The choice, unless a rival's leave-one-out loss is lower by more than a standard error of the difference."""
    own, best, least = judges.left_out_losses(choice.kernel, likelihood, monitor), choice, 0.0
    for rival in rivals:
        if is_over(monitor):
            break
        gain = judges.left_out_losses(rival.kernel, likelihood, monitor) - own
        known = np.isfinite(gain)
        if not known.any():
            continue
        share = judges.weight[known] / judges.weight[known].sum()
        mean = float(share @ gain[known])
        error = float(np.sqrt(share**2 @ (gain[known] - mean) ** 2))
        if mean + error < least:
            best, least = rival, mean + error
    return best
