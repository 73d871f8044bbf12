r"""How far the kernel's variance may move from its start with more than two classes: decided by held-out predictions.

With more than two classes, the evidence often favours a large variance and long length-scales, which together are
nearly a polynomial of low degree.  The evidence is :math:`\sum_i \log p(y_i \mid y_1 \dots y_{i-1})`: predictions
from few rows count as much as those from nearly all, and such a function is learned soonest from few rows.  New rows
are predicted from all rows, and then a kernel with shorter length-scales may be better, which the evidence does not
show.  On other tables, the large variance is right.  So two kernels are tuned on one half of the rows, one with the
variance held near its start and one with it free.  Models with the requested loss then predict the other half, which
neither kernel has seen, and the smaller log loss decides.
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

#: Inducing points for each half; with fewer, short length-scales would look worse.
_POINTS = 128
#: With fewer rows, or fewer in the second half (where most classes have a single row), a half says too little.
_FEWEST_ROWS, _FEWEST_UNSEEN = 80, 20


def variance_deviation(
    judges: Judges,
    center: Kernel,
    columns: Columns,
    likelihood: Likelihood,
    monitor: Monitor | None = None,
    n_jobs: int = 1,
) -> float:
    """The prior standard deviation of log-variances: `HELD`, or `VARIANCES` if that predicts held-out rows better."""
    if not center.has_role("variance").any() or len(judges.y) < _FEWEST_ROWS:
        return VARIANCES
    seen, unseen = halves(judges, columns)
    if len(unseen.y) < _FEWEST_UNSEEN:
        return VARIANCES
    evidence, losses = seen.seen_through(center, columns, is_near=False).evidence, []
    for deviation in (HELD, VARIANCES):
        if is_over(monitor):
            return VARIANCES
        space, judge = Space.around(center, variances=deviation), logistic_judge(judges.n_classes)
        choice = maximise(evidence(judge, n_jobs=n_jobs), space, start=center, monitor=monitor)
        if choice.judged is None or is_over(monitor):
            return VARIANCES
        panel = seen.seen_through(choice.kernel, columns, is_near=False)
        losses.append(unseen.weight @ panel.losses_on(unseen, choice.kernel, likelihood, monitor))
    return HELD if losses[0] <= losses[1] else VARIANCES


def halves(judges: Judges, columns: Columns) -> tuple[Judges, Judges]:
    """A random half of the rows of each class, and the rest; weights are scaled so that they average at most one."""
    # One draw for all rows, so that the names of classes do not matter.
    ticket, is_first = np.random.RandomState(0).permutation(len(judges.y)), np.zeros(len(judges.y), dtype=bool)
    for rows in by_class(judges.y):
        is_first[rows[np.argsort(ticket[rows])][: (len(rows) + 1) // 2]] = True
    weight = judges.weight * min(1.0, len(judges.y) / judges.weight.sum())

    def part(which: np.ndarray) -> Judges:
        points = scattered_points(judges.means(columns)[which], weight[which], _POINTS)
        rows = (judges.X[which], judges.y[which], weight[which], judges.unit[which])
        return Judges(*rows, points, judges.n_classes)

    return part(is_first), part(~is_first)
