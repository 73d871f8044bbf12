r"""Stochastic variational inference: steps on minibatches, for tables on which a single pass takes long.

Stats are sums, so those of a minibatch, scaled up, estimate those of all rows. A step blends them in,

.. math:: (G, h) \leftarrow (1 - \rho)\, (G, h) + \rho\, \frac{W}{w}\, (G, h)_{batch},

with ``W`` the weight of all rows and ``w`` that of the minibatch. This is a natural-gradient step of length
:math:`\rho` (Wenzel 2017, Algorithm 1); with all rows in one minibatch and :math:`\rho = 1` it is coordinate ascent.

**Start.** The first minibatch is fitted on its own by the guarded ascent of `steps`, and its sums are scaled up.
From there the first steps do not go far wrong for any likelihood; and if a full step may overshoot, no step is longer
than half of one.

**Rates.** `Adaptive` follows Ranganath, Wang, Blei and Xing (2013); `Schedule` is :math:`(t + delay)^{-power}`.

**Averaging.** The result is the average of the natural parameters of all steps, the ``t``-th with weight ``t``, so that
most of the weight is on the last half of them. Averaging removes the noise of the steps, so rates may decay as
slowly as the slowest likelihood (the augmented hinge) needs, at no loss for the others.

**End.** The average over ``t`` minibatches falls short of the optimum by about :math:`c / t`, and ``c`` follows from
how far the average moves between two steps (`Gauge`), without a full pass. The objective itself is estimated from
bounds of minibatches under beliefs that have not seen them yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .arrays import combined
from .checkpoint import NO_PAGE, Page
from .chunks import Table, one_blas_thread
from .engine import Problem, Stats, add, objective
from .gaussian import Belief
from .minibatches import FALL, Adaptive, Rate, Walk
from .monitor import Monitor
from .single_precision import in_single
from .steps import Ascent, Natural, Point, ascend

#: Rows of a minibatch per weight, and their minimum and maximum. An update of the weights costs m^3 and a row m^2: with
#: this many rows the cost of the update is negligible; below the minimum, a step is mostly overhead.
_ROWS_PER_WEIGHT, _LEAST_ROWS, _MOST_ROWS = 8, 8192, 16384
#: Small tables are cut into at least this many minibatches, but of no fewer rows than this.
_LEAST_BATCHES, _LEAST_ROWS_OF_SMALL_TABLES = 16, 1024
#: The ascent on the first minibatch, whose sampling noise is far larger than this tolerance.
_PILOT_TOL, _PILOT_PASSES = 1e-3, 20
#: It starts from the optimum, to this tolerance, of one row in so many, if these are at least this many.
_ROUGH_TOL, _ROUGH_SHARE, _LEAST_ROUGH_ROWS = 1e-2, 8, 1024
#: The longest step where a full one may overshoot: such steps are close to Newton steps.
_LONGEST = 0.5
#: How fast rates may decay where it cannot: those steps are short, and many are needed.
_FALL_OF_SHORT_STEPS = 1 / 5
#: Steps before the first estimate of the gain that remains, and the ratio of steps from one estimate to the next.
_FIRST_LOOK, _GROWTH = 8, 1.25
#: How much further than expected the optimum of a sample may lie from that of all rows.
_CHANCE = 8.0
#: The attributes that make up the state of a walk, and the walk itself.
_STATE = (
    "_walk", "_rule", "_rate", "_step", "_visited", "_waiting", "_gauge", "_whole", "_average", "_belief", "_of_nothing"
)  # fmt: skip


# Sums --------------------------------------------------------------------------------------------


def scaled(stats: Stats, factor: float) -> Stats:
    """The Stats of rows that each count ``factor`` times."""
    return combined(stats, factor - 1, stats)


def stirred(whole: Stats, batch: Stats, rate: float) -> Stats:
    """Stats of all rows, with those of a minibatch, scaled to the same weight, blended in."""
    new = scaled(batch, float(whole.n) / float(batch.n))
    return new if rate == 1 else combined(whole, rate, combined(new, -1, whole))


def averaged(average: Stats, new: Stats, step: int) -> Stats:
    """The average of the Stats of all steps, the ``t``-th with weight ``t``, after one more step."""
    return combined(average, 2 / (step + 1), combined(new, -1, average))


def batch_size(problem: Problem, batch_rows: int | str) -> int:
    """The rows of a minibatch: as given, or enough for sums to take longer than the update of the weights."""
    if batch_rows != "auto":
        return min(int(batch_rows), problem.table.n_rows)
    size = int(np.clip(_ROWS_PER_WEIGHT * problem.rows.n_weights, _LEAST_ROWS, _MOST_ROWS))
    small = max(problem.table.n_rows // _LEAST_BATCHES, _LEAST_ROWS_OF_SMALL_TABLES)
    return min(size, small, problem.table.n_rows)


# The walk ----------------------------------------------------------------------------------------


def wander(
    problem: Problem,
    *,
    rng: np.random.RandomState,
    tol: float = 3e-4,
    batch_rows: int | str = "auto",
    rate: str | Rate = "adaptive",
    max_passes: float = 10.0,
    monitor: Monitor | None = None,
    watch: Callable[[float, Natural], None] | None = None,
    page: Page = NO_PAGE,
    single: bool = False,
    gives_up: bool = False,
) -> Ascent:
    """Maximises the objective of a problem by minibatches; see this module. Work recorded in ``page`` is not repeated.

    Parameters
    ----------
    tol : float
        The walk ends when the estimated gain that remains is less than this share of the objective.
        That takes about 2 m / (n tol) passes if these are less than one.
    batch_rows : int or "auto"
        Rows of a minibatch. With all rows in one, this is `steps.ascend`.
    rate : "adaptive" or a `Rate`
    max_passes : float
        The most rows to visit, in units of the table; repeated passes over the first minibatch do not count.
    watch : function of passes and natural parameters, optional
        Called after every step with the average so far.
    single : bool
        Whether minibatches are summed in single precision (`softmargin.single_precision`).
    gives_up : bool
        Whether the walk ends when it is worse than the prior, so that the caller can try another method.

    Returns
    -------
    Ascent
        The averaged belief.  Its Stats, and with them the objective, are estimates; `polish` makes them exact.
        The reason is one of converged, passes, time, interrupt, and lost if it gives up.
    """
    size = batch_size(problem, batch_rows)
    if size == problem.table.n_rows:
        return ascend(problem, tol=tol, max_passes=max(1, round(max_passes)), monitor=monitor, page=page)
    kept = page.read()
    if isinstance(kept, Ascent):
        return kept
    fall = FALL if problem.likelihood.needs_guard else _FALL_OF_SHORT_STEPS
    rule = Adaptive(fall) if isinstance(rate, str) else rate
    walk = Walk.random(problem.table.n_rows, rng) if kept is None else kept["_walk"]
    with one_blas_thread:
        wanderer = _Wanderer(problem, walk, size, rule, monitor or Monitor(), watch, page, single, gives_up)
        return wanderer.run(tol, max_passes, kept)


class _Wanderer:
    """State of a walk: the blended Stats, their average, and an estimate of the gain that remains."""

    def __init__(
        self,
        problem: Problem,
        walk: Walk,
        size: int,
        rule: Rate,
        monitor: Monitor,
        watch: Callable[[float, Natural], None] | None,
        page: Page = NO_PAGE,
        single: bool = False,
        gives_up: bool = False,
    ) -> None:
        self._problem, self._walk, self._size, self._monitor, self._watch = problem, walk, size, monitor, watch
        self._single, self._gives_up, self._of_nothing = single, gives_up, -math.inf
        self._rule, self._rate, self._step, self._visited = rule, 0.0, 0, 0
        self._weight = float(problem.table.weight.sum())
        self._longest = _LONGEST if problem.likelihood.needs_guard else problem.likelihood.longest_step
        self._waiting: Stats | None = None
        self._gauge, self._page = Gauge(), page

    def run(self, tol: float, max_passes: float, kept: dict[str, Any] | None = None) -> Ascent:
        """Takes steps until convergence, out of passes or time, or interrupted; continues from the state ``kept``."""
        reason = self._begin(kept)
        try:
            while reason == "passes" and self._visited < max_passes * self._problem.table.n_rows:
                if self._monitor.out_of_time:
                    reason = "time"
                elif self._stride() and (found := self._looked(tol)) != "passes":
                    reason = found
                else:
                    state = {name: getattr(self, name) for name in _STATE}
                    self._page.note(state, self._size / self._problem.table.n_rows)
        except KeyboardInterrupt:
            reason = "interrupt"
        finally:
            self._monitor.close()
        return self._page.finish(Ascent(self._point(), reason))

    def _looked(self, tol: float) -> str:
        """The reason to end here, or "passes" to continue.

        Sums vary more between minibatches if only a few rows near the margin contribute. If nearly all rows lie beyond
        it, the steps may diverge, to beliefs that are worse than the prior's.
        """
        estimate = self._record()
        if estimate < self._of_nothing:
            return "lost"
        return "converged" if self._gauge.is_calm(tol * max(1.0, abs(estimate))) else "passes"

    def _begin(self, kept: dict[str, Any] | None) -> str:
        if kept is not None:
            vars(self).update(kept)
            return "passes"
        batch = self._batch()
        if self._gives_up:
            self._of_nothing = self._objective_of_nothing(batch)
        rough, start, clock = self._rough(batch), None, None
        if rough is not None:  # worth it however little time there is
            start, clock = ascend(rough, tol=_ROUGH_TOL, max_passes=_PILOT_PASSES).point.image, self._monitor.silent()
        pilot = ascend(batch, tol=_PILOT_TOL, max_passes=_PILOT_PASSES, start=start, monitor=clock)
        self._whole = self._average = scaled(
            pilot.point.stats._replace(along=0.0), self._weight / float(pilot.point.stats.n)
        )
        self._belief = self._implied(self._whole, pilot.point.belief)
        self._record()
        return pilot.reason if pilot.reason == "interrupt" else "passes"

    def _stride(self) -> bool:
        """One minibatch: gather, blend, average. Returns whether the remaining gain was estimated."""
        batch = self._batch().stats(self._belief)
        self._rule = self._rule.saw(lambda: self._gradient(batch), self._rate)
        self._rate = min(self._rule.rate, self._longest)
        self._waiting = batch if self._waiting is None else add(self._waiting, batch)
        if self._rate == 0:
            return False
        self._step += 1
        self._whole = stirred(self._whole, self._waiting, self._rate)
        self._belief = self._implied(self._whole, self._belief)
        self._average = averaged(self._average, self._whole, self._step)
        self._waiting = None
        if self._watch is not None:
            self._watch(self._visited / self._problem.table.n_rows, Natural(self._average.G, self._average.h))
        if self._step < self._gauge.next_look:
            return False
        self._gauge = self._gauge.look(self._step, self._implied(self._average, self._belief))
        return True

    def _batch(self) -> Problem:
        """The next minibatch, as a problem of its own: its features are computed once."""
        table = self._problem.table.rows(self._walk.rows(self._visited, self._size))
        self._visited += self._size
        return self._over(table)

    def _rough(self, batch: Problem) -> Problem | None:
        """A part of the first minibatch, whose optimum is near that of the whole; None if that is small itself."""
        few = len(batch.table.y) // _ROUGH_SHARE
        return self._over(batch.table.rows(np.arange(few))) if few >= _LEAST_ROUGH_ROWS else None

    def _objective_of_nothing(self, batch: Problem) -> float:
        """The objective at the prior's start, estimated from a minibatch."""
        prior = self._problem.prior
        belief = prior.update(*prior.start(self._problem.table.reference))
        stats = batch.stats(belief)
        return objective(stats.bound * (self._weight / float(stats.n)), prior, belief)

    def _over(self, table: Table) -> Problem:
        """The problem with other rows, in at least one block for each thread."""
        block_rows = min(table.block_rows, -(-table.n_rows // self._problem.n_jobs))
        batch = self._problem.over(table._replace(block_rows=block_rows))
        return in_single(batch) if self._single else batch

    def _gradient(self, batch: Stats) -> np.ndarray:
        """The noisy natural gradient, in units of the belief's standard deviations."""
        change = combined(scaled(batch, self._weight / float(batch.n)), -1, self._whole)
        return self._problem.prior.felt(self._belief, change.G, change.h)

    def _implied(self, stats: Stats, before: Belief) -> Belief:
        return self._problem.prior.update(stats.G, stats.h, before)

    def _point(self) -> Point:
        belief = self._implied(self._average, self._belief)
        natural = Natural(self._average.G, self._average.h)
        return Point(natural, belief, self._average, objective(self._average.bound, self._problem.prior, belief))

    def _record(self) -> float:
        estimate = self._point().objective
        self._monitor.record(estimate, accepted=True, phase="minibatches")
        return estimate


class Gauge(NamedTuple):
    r"""Estimates the gain that remains for the average of the steps from its latest movement.

    If the average of ``t`` steps falls short of the optimum by :math:`c / t`, then from step ``s`` to step ``t`` it
    gains :math:`c / s - c / t`. For averages of noise about an optimum that is also half the squared distance that
    the mean has moved, in units of the belief's standard deviations, so it can be computed without rows. If full steps
    are short, the mean has further to go than the objective to rise, and the estimate is conservative.
    """

    step: int = 0
    belief: Belief | None = None
    to_come: float = math.inf
    before: float = math.inf

    @property
    def next_look(self) -> int:
        return max(_FIRST_LOOK, math.ceil(_GROWTH * self.step))

    def look(self, step: int, belief: Belief) -> Gauge:
        """Updates the estimate: after ``step`` steps, the average is ``belief``."""
        if self.belief is None:
            return Gauge(step, belief)
        gain = 0.5 * belief.moved_from(self.belief)
        return Gauge(step, belief, gain * self.step / (step - self.step), self.to_come)

    def is_calm(self, enough: float) -> bool:
        """Whether the estimate was at most ``enough`` twice in a row."""
        return max(self.to_come, self.before) <= enough


def polish(problem: Problem, ascent: Ascent, page: Page = NO_PAGE) -> Ascent:
    """One full pass: the exact Stats and objective at a belief, and the step of coordinate ascent that they imply.

    Computing the gain of that step would take another pass. So it is taken if it cannot overshoot; or if it stays
    within the belief's standard deviations, where sites hardly change; or if it loses nothing on a sample of the rows.
    Stats and objective remain those of the belief before the step.

    The squared distance from the optimum of a sample of ``n`` of ``N`` rows to that of all rows, in standard deviations
    of the latter, is about the number of weights times ``N / n``, so a step of that length is no sign of trouble.
    """
    point = ascent.point
    stats = page.found(lambda: problem.stats_together(ascent.point.belief))
    point = Point(point.natural, point.belief, stats, objective(stats.bound, problem.prior, point.belief))
    natural = point.towards_image(problem.longest_step)
    belief = problem.prior.update(*natural, point.belief)
    chance = 1.0 if problem.whole is None else _CHANCE * problem.n_rows / problem.table.n_rows
    is_short = belief.moved_from(point.belief) <= chance * belief.n_weights
    if is_short or not problem.likelihood.needs_guard or _sampled_gain(problem, point.belief, belief) >= 0:
        point = point._replace(natural=natural, belief=belief)
    return Ascent(point, ascent.reason)


def _sampled_gain(problem: Problem, old: Belief, new: Belief) -> float:
    """What the objective gains from one belief to another, estimated on a sample of the rows."""
    n, weight = problem.table.n_rows, float(problem.table.weight.sum())
    rows = Walk.random(n, np.random.RandomState(0)).rows(0, min(n, _MOST_ROWS))
    sample = problem.over(problem.table.rows(rows))
    before, after = (
        objective(stats.bound * (weight / float(stats.n)), problem.prior, belief)
        for belief, stats in ((belief, sample.stats(belief)) for belief in (old, new))
    )
    return after - before
