r"""How far the variance of many classes may go from where it begins: one half of the rows foretells the other.

The evidence of many classes often asks for a large variance and for long length-scales, which together are all but
a polynomial of low degree.  Evidence is :math:`\sum_i \log p(y_i \mid y_1 \dots y_{i-1})`: what is learned from few
rows counts as much as what is learned from all, and few rows learn such a function soonest.  Rows to come are asked of
all rows, and by then a kernel of shorter length-scales may have overtaken it, which an optimum of the evidence does
not say.  On other tables the large variance is right.  So kernels are tuned on one half of the rows with the variance
held near its start and with it free, and their models, of the loss that was asked for, foretell the other half, which
neither has seen.  The smaller log loss decides.
"""

from __future__ import annotations

import numpy as np

from ..columns import Columns
from ..inducing import scattered_points
from ..kernels import Kernel
from ..likelihoods import Likelihood
from ..monitor import Monitor
from ..sampling import by_class
from .evidence import logistic_judge
from .judges import Judges
from .search import is_over, maximise
from .space import HELD, VARIANCES, Space

#: Points that a half is seen through: short length-scales look worse through fewer.
_POINTS = 128
#: Fewer rows tell nothing of another half.
_FEWEST_ROWS = 80


def variance_deviation(
    judges: Judges,
    center: Kernel,
    columns: Columns,
    likelihood: Likelihood,
    monitor: Monitor | None = None,
    n_jobs: int = 1,
) -> float:
    """The prior deviation of the logarithms of variances: `HELD`, or `VARIANCES` where that foretells rows better."""
    if not center.has_role("variance").any() or len(judges.y) < _FEWEST_ROWS:
        return VARIANCES
    seen, unseen = halves(judges, columns)
    evidence, losses = seen.seen_through(center, columns, is_near=False).evidence, []
    for deviation in (HELD, VARIANCES):
        if is_over(monitor):
            return VARIANCES
        space, judge = Space.around(center, variances=deviation), logistic_judge(judges.n_classes)
        choice = maximise(evidence(judge, n_jobs=n_jobs), space, start=center, monitor=monitor)
        if choice.judged is None or is_over(monitor):
            return VARIANCES
        panel = seen.seen_through(choice.kernel, columns, is_near=False)
        losses.append(unseen.weight @ panel.foretold_losses(unseen, choice.kernel, likelihood, monitor))
    return HELD if losses[0] <= losses[1] else VARIANCES


def halves(judges: Judges, columns: Columns) -> tuple[Judges, Judges]:
    """Half of the rows of each class, drawn by chance, and the others; they count for one each on average, or less."""
    # One draw for all rows: what classes are called does not matter.
    ticket, is_first = np.random.RandomState(0).permutation(len(judges.y)), np.zeros(len(judges.y), dtype=bool)
    for rows in by_class(judges.y):
        is_first[rows[np.argsort(ticket[rows])][: (len(rows) + 1) // 2]] = True
    weight = judges.weight * min(1.0, len(judges.y) / judges.weight.sum())

    def part(which: np.ndarray) -> Judges:
        points = scattered_points(judges.means(columns)[which], weight[which], _POINTS)
        rows = (judges.X[which], judges.y[which], weight[which], judges.unit[which])
        return Judges(*rows, points, judges.n_classes)

    return part(is_first), part(~is_first)
