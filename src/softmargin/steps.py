r"""How Stats combine from pass to pass: replace, blend, extrapolate, and the guard over all of them.

The belief is a function of natural parameters ``(G, h)``, and a pass at that belief returns new ones.
Coordinate ascent replaces the old by the new; for likelihoods whose full step may overshoot the two are
blended, which is a shorter natural-gradient step; and Anderson's extrapolation combines the last few.

A guarded step costs no second pass: the Stats of a candidate carry the bound at that candidate, so an
accepted candidate is the next pass, and only a rejected one is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, NotPositiveDefiniteError, combined, precision_of
from .engine import Problem, Stats, objective
from .gaussian import Belief
from .likelihoods import Likelihood
from .monitor import Monitor
from .priors import Prior

#: Steps shorter than this that still do not ascend mean that rounding is all that is left.
_SHORTEST = 2.0**-10
#: Accepted steps in a row that must gain less than the tolerance before an ascent ends.
_CALM = 2


class Natural(NamedTuple):
    """Natural parameters of the rows' part of a belief."""

    G: Any
    h: Array

    def moved(self, rate: float, old: Natural, new: Natural) -> Natural:
        """``self + rate (new - old)``."""
        return combined(self, rate, combined(new, -1, old))


class Point(NamedTuple):
    """A belief, the natural parameters it came from, its Stats, and the objective there."""

    natural: Natural
    belief: Belief
    stats: Stats
    objective: float

    @property
    def image(self) -> Natural:
        """Where a full step would go."""
        return Natural(self.stats.G, self.stats.h)


class Ascent(NamedTuple):
    """Where an ascent ended, and why: ``"converged"``, ``"passes"``, ``"time"`` or ``"interrupt"``."""

    point: Point
    reason: str


def blend(old: Natural, new: Natural, rate: float) -> Natural:
    """``(1 - rate) old + rate new``: a natural-gradient step of that length."""
    return new if rate == 1 else old.moved(rate, old, new)


def extrapolate(points: Sequence[Point], rate: float = 1.0) -> Natural:
    r"""Anderson's step from the last few points, the newest last.

    With residuals :math:`f_k = g_k - \theta_k` (image less natural parameters), find the
    :math:`\gamma` that minimises :math:`|f_k - \sum_j \gamma_j (f_{j+1} - f_j)|`, take the same combination of the
    :math:`\theta` and of the :math:`g`, and step from the first towards the second.
    """
    last = points[-1]
    residuals = np.stack([last.belief.felt(*combined(point.image, -1, point.natural)) for point in points])
    changes = np.diff(residuals, axis=0)
    gram = changes @ changes.T
    ridge = 1e-12 * np.trace(gram) * np.eye(len(gram))
    gamma = np.linalg.lstsq(gram + ridge, changes @ residuals[-1], rcond=None)[0]
    start, end = last.natural, last.image
    for weight, before, after in zip(gamma, points, points[1:], strict=False):
        start = start.moved(-float(weight), before.natural, after.natural)
        end = end.moved(-float(weight), before.image, after.image)
    return blend(start, end, rate)


def ascend(problem: Problem, *, tol: float, max_passes: int, monitor: Monitor | None = None, memory: int = 5) -> Ascent:
    """Ascends the objective of a problem from its prior's start; see `Ascender`."""
    return Ascender(
        problem.stats,
        problem.prior,
        problem.likelihood,
        problem.table.reference,
        tol=tol,
        max_passes=max_passes,
        memory=memory,
        monitor=monitor,
    ).run()


class Ascender:
    """Guarded ascent of the objective, accelerated by `extrapolate`.

    ``stats_at(belief)`` is one pass.  ``memory`` is the number of earlier points that a step may combine; 0
    leaves plain (guarded) coordinate ascent.  A likelihood without a bound is followed by damped steps
    until its mean comes to rest.
    """

    def __init__(
        self,
        stats_at: Callable[[Belief], Stats],
        prior: Prior,
        likelihood: Likelihood,
        reference: Array,
        *,
        tol: float = 1e-6,
        max_passes: int = 200,
        memory: int = 5,
        monitor: Monitor | None = None,
    ) -> None:
        self._stats_at, self._prior, self._is_bound = stats_at, prior, likelihood.is_bound
        self._reference, self._tol, self._max_passes = reference, tol, max_passes
        self._memory = memory if likelihood.is_bound else 0
        self._monitor = monitor if monitor is not None else Monitor()
        self._noise = max(1e-12, 10 * precision_of(reference))

    def run(self) -> Ascent:
        """Ascends from the prior's start until calm, out of passes or time, or interrupted."""
        point = self._visit(Natural(*self._prior.start(self._reference)), None)
        self._monitor.record(point.objective, accepted=True)
        try:
            return self._climb(point)
        finally:
            self._monitor.close()

    def _climb(self, point: Point) -> Ascent:
        recent, rate, calm, last_move = [point], 1.0, 0, float("inf")
        try:
            for _ in range(self._max_passes - 1):
                if self._monitor.out_of_time:
                    return Ascent(point, "time")
                extrapolated = self._memory > 0 and len(recent) > 1
                natural = extrapolate(recent, rate) if extrapolated else blend(point.natural, point.image, rate)
                candidate = self._try(natural, point)
                gain = self._gain(point, candidate)
                accepted = candidate is not None and (not self._is_bound or gain >= -self._noise * _size(point))
                self._monitor.record(candidate.objective if candidate else float("nan"), accepted)
                small = abs(gain) <= self._tol * _size(point)
                if accepted and candidate is not None:
                    calm = calm + 1 if small else 0
                    rate = min(1.0, 1.5 * rate) if self._is_bound or gain < last_move else max(0.1, rate / 2)
                    point, last_move = candidate, gain
                    recent = [*recent, point][-(self._memory + 1) :]
                elif extrapolated:
                    recent = [point]
                else:
                    calm, rate, recent = (_CALM if small else 0), rate / 2, [point]
                if calm >= _CALM or rate < _SHORTEST:
                    return Ascent(point, "converged")
        except KeyboardInterrupt:
            return Ascent(point, "interrupt")
        return Ascent(point, "passes")

    def _visit(self, natural: Natural, before: Belief | None) -> Point:
        belief = self._prior.update(*natural, before)
        stats = self._stats_at(belief)
        return Point(natural, belief, stats, objective(stats, self._prior, belief))

    def _try(self, natural: Natural, point: Point) -> Point | None:
        """The point at ``natural``, or None where that is no belief."""
        try:
            candidate = self._visit(natural, point.belief)
        except NotPositiveDefiniteError:
            return None
        return candidate if np.isfinite(candidate.objective) else None

    def _gain(self, point: Point, candidate: Point | None) -> float:
        """What the step gained; without a bound, how far the mean moved in units of the rows' precision."""
        if candidate is None:
            return -float("inf")
        if self._is_bound:
            return candidate.objective - point.objective
        step = candidate.belief.mean - point.belief.mean
        return float(step @ (candidate.natural.G @ step))


def _size(point: Point) -> float:
    return max(1.0, abs(point.objective))
