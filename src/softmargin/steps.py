r"""Turning the Stats of successive passes into steps: full, damped or extrapolated, and always guarded.

The belief is a function of natural parameters ``(G, h)``, and a pass at that belief returns new ones.
Coordinate ascent replaces the old by the new. For likelihoods whose full step may overshoot, the two are
blended, which is a shorter natural-gradient step. Anderson extrapolation combines the last few.

Guarding a step costs no second pass: the Stats of a candidate include the bound at that candidate. If it is
accepted, they serve as the next pass; only the pass of a rejected candidate is wasted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, NotPositiveDefiniteError, combined, precision_of, size_of
from .checkpoint import NO_PAGE, Page
from .engine import Problem, Stats, objective
from .gaussian import Belief
from .likelihoods import Likelihood
from .monitor import Monitor
from .priors import Prior

#: If even steps shorter than this do not increase the objective, only rounding errors are left.
_SHORTEST = 2.0**-30
#: Consecutive accepted steps with a remaining gain below the tolerance that end an ascent by short steps.
_CALM = 2
#: If steps are close to Newton steps, the gain that remains is seldom more than this multiple of `promised`.
_MOST_PROMISED = 3.0
#: The factor by which the gain that remains is larger where classes are updated jointly.
_BEYOND = 4.0
#: Such steps are extrapolated only once one of them overshoots, or gains less than this share of the objective.
_NEAR = 1e-3
#: An objective that is no bound may fall before convergence, but not by more than this share of it in one step.
_MOST_LOST = 0.5
#: Joint steps shorter than this make way for steps class by class: for so many at first, and for at most so many.
_APART, _FIRST_APART, _MOST_APART = 0.25, 2, 16
#: Without a bound, step lengths are halved when a step goes as far as the last or further, but not below this.
_SHORTEST_UNWATCHED = 0.1
#: A fall of the objective by up to this many rounding units of the rows is ignored.
_ROUNDING = 10
#: The largest ratio of successive gains that is assumed when they are extrapolated.
_SLOWEST = 0.98
#: The most plain steps between a rejected extrapolation and the next one.
_MOST_PENANCE = 8
#: Memory for earlier points; each takes about five matrices while points are combined.
_MEMORY_BYTES, _BYTES_AN_ENTRY = 2**30, 5 * 8


class Natural(NamedTuple):
    """Natural parameters of a belief, without the contribution of the prior."""

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
        """The natural parameters after a full step."""
        return Natural(self.stats.G, self.stats.h)

    def towards_image(self, rate: float) -> Natural:
        """The natural parameters after a step of length ``rate``."""
        return blend(self.natural, self.image, rate)


class Ascent(NamedTuple):
    """The end of an ascent, and its reason: converged, stalled (no step gains), known, passes, time or interrupt."""

    point: Point
    reason: str


def blend(old: Natural, new: Natural, rate: float) -> Natural:
    """``(1 - rate) old + rate new``: a natural-gradient step of that length."""
    return new if rate == 1 else old.moved(rate, old, new)


def extrapolate(points: Sequence[Point], prior: Prior, rate: float = 1.0) -> Natural:
    r"""An Anderson step from the last few points, the newest last.

    With residuals :math:`f_k = g_k - \theta_k` (image minus natural parameters), find the
    :math:`\gamma` that minimises :math:`|f_k - \sum_j \gamma_j (f_{j+1} - f_j)|`, take the same combination of the
    :math:`\theta` and of the :math:`g`, and step from the former towards the latter. A ridge of 1e-12 keeps rounding
    errors from dominating where differences of residuals are nearly parallel. Scaling all residuals leaves
    :math:`\gamma` unchanged, so they are scaled until their squares cannot overflow; if one of them is not finite,
    nothing is extrapolated.
    """
    last = points[-1]
    residuals = [prior.felt(last.belief, *combined(point.image, -1, point.natural)) for point in points]
    largest = np.max([np.max(np.abs(residual), initial=0.0) for residual in residuals])
    if not np.isfinite(largest):
        return last.towards_image(rate)
    residuals = [np.ldexp(residual, -np.frexp(largest)[1]) for residual in residuals]
    changes = [after - before for before, after in pairwise(residuals)]
    gram = np.array([[one @ other for other in changes] for one in changes])
    ridge = 1e-12 * np.trace(gram) * np.eye(len(gram))
    gamma = np.linalg.lstsq(gram + ridge, [change @ residuals[-1] for change in changes], rcond=None)[0]
    start, end = last.natural, last.image
    for weight, (before, after) in zip(gamma, pairwise(points), strict=True):
        start = start.moved(-float(weight), before.natural, after.natural)
        end = end.moved(-float(weight), before.image, after.image)
    return blend(start, end, rate)


def promised(point: Point, prior: Prior) -> float:
    r"""The gain that a full step promises: half the squared length of the natural gradient.

    The change :math:`(dG, dh)` from natural parameters to their image shifts the linear term of the belief by
    :math:`\delta = dh - dG\, m`, and its squared length in the metric of the belief is
    :math:`\tfrac12 |R\, dG\, R^T|^2 + |R \delta|^2`. If the step is close to a Newton step, this is the Newton
    decrement: it estimates the gain that remains, which is seldom more than three times as large, without another pass.

    Joint steps of all classes go further than the gradient: with the step :math:`\delta = g + c`, where ``c`` comes
    from the coupling, the decrement is :math:`(R g) \cdot (R \delta)`, without the square of ``c``. In directions
    about which rows contain little information, that square would be amplified rounding error. Sites change along
    such a step, so it gains more than with one class (`_BEYOND`).
    """
    (dG, dh), belief, along = combined(point.image, -1, point.natural), point.belief, point.stats.along
    whole = prior.promised(point.natural.G, dG, dh, belief)
    if not isinstance(along, tuple):
        return whole
    alone = prior.promised(point.natural.G, dG, combined(dh, -1, along), belief)
    nothing = combined(dG, -1, dG)
    return _BEYOND * max(alone, (whole + alone - prior.promised(point.natural.G, nothing, along, belief)) / 2)


def ascend(
    problem: Problem,
    *,
    tol: float,
    max_passes: int,
    monitor: Monitor | None = None,
    memory: int = 5,
    start: Natural | None = None,
    before: Belief | None = None,
    page: Page = NO_PAGE,
    is_known: Callable[[Belief], bool] | None = None,
) -> Ascent:
    """Maximises the objective of a problem from a start, by default its prior's; see `Ascender`.

    Whatever the prior infers besides the weights starts from its value in ``before``. If ``page`` holds an ascent in
    progress, it is continued instead. The ascent ends early at a belief for which ``is_known`` returns true.
    """
    return Ascender(
        problem.stats_together,
        problem.prior,
        problem.likelihood,
        problem.table.reference,
        tol=tol,
        max_passes=max_passes,
        memory=memory,
        monitor=monitor,
        longest=problem.longest_step,
        stats_apart=problem.stats if problem.goes_together and problem.likelihood.is_bound else None,
        page=page,
        is_known=is_known,
    ).run(start, before)


class Ascender:
    """Guarded ascent of the objective, accelerated by `extrapolate`.

    ``stats_at(belief)`` is one pass. ``memory`` is the number of earlier points that a step may combine; with 0
    this is plain (guarded) coordinate ascent. For a likelihood without a bound, damped steps are taken until the mean
    converges.

    The ascent ends when the gain that remains is less than ``tol`` of the objective. A full step that may overshoot
    is close to a Newton step, and `promised` estimates the remaining gain. Other likelihoods take short steps; for
    these it is extrapolated as a geometric series from the last two gains, and has to be small twice in a row.

    Classes that are updated jointly (`together`) take Newton steps in a metric other than that of the belief. Far from
    the optimum such a step need not increase the objective, however short it is. ``stats_apart`` is then a pass that
    updates each class by itself, along the natural gradient, which does.
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
        longest: float = 1.0,
        stats_apart: Callable[[Belief], Stats] | None = None,
        page: Page = NO_PAGE,
        is_known: Callable[[Belief], bool] | None = None,
    ) -> None:
        self._stats_at, self._prior, self._is_bound = stats_at, prior, likelihood.is_bound
        self._stats_apart, self._longest_apart = stats_apart, likelihood.longest_step
        self._reference, self._max_passes, self._longest = reference, max_passes, longest
        self._memory = memory if likelihood.is_bound else 0
        self._nearly_newton = likelihood.is_bound and likelihood.needs_guard and prior.is_gaussian
        self._monitor, self._page = monitor if monitor is not None else Monitor(), page
        self._is_known = is_known
        self._noise = max(1e-12, _ROUNDING * precision_of(reference))
        self._tol = max(tol, self._noise)

    def run(self, start: Natural | None = None, before: Belief | None = None) -> Ascent:
        """Ascends from ``start``, by default the prior's; `Ascent` lists the reasons to end."""
        kept = self._page.read()
        if isinstance(kept, Ascent):
            return kept
        state = self._begun(start, before) if kept is None else _AscentState.resumed(kept)
        try:
            reason = self._continued(state)
        except KeyboardInterrupt:
            reason = "interrupt"
        finally:
            self._monitor.close()
        return self._page.finish(Ascent(state.best if self._is_bound else state.point, reason))

    def _begun(self, start: Natural | None, before: Belief | None) -> _AscentState:
        """The first pass."""
        point = self._visit(Natural(*self._prior.start(self._reference)) if start is None else start, before)
        self._monitor.record(point.objective, accepted=True)
        near = _NEAR if self._nearly_newton else np.inf
        state = _AscentState(point, min(self._memory, _affordable_memory(point)), near, self._longest)
        state.is_prior = start is None
        self._page.note(state.fields)
        return state

    def _continued(self, state: _AscentState) -> str:
        """Runs all other passes; returns the reason to end."""
        while True:
            if state.parts:
                assert self._stats_apart is not None
                state.part(self._stats_apart(state.point.belief), self._longest_apart)
                self._page.note(state.fields)
            if state.calm >= _CALM or state.rate < _SHORTEST:
                return "converged" if state.calm >= _CALM else "stalled"
            if self._is_known is not None and self._is_known(state.point.belief):
                return "known"
            if state.n_passes >= self._max_passes or (self._monitor.out_of_time and not state.is_prior):
                return "passes" if state.n_passes >= self._max_passes else "time"
            self._step(state)
            state.n_passes += 1
            self._page.note(state.fields)

    def _step(self, state: _AscentState) -> None:
        """One pass: propose, visit, accept or reject."""
        point, extrapolated = state.point, state.may_extrapolate
        natural = (
            extrapolate(state.recent, self._prior, state.rate) if extrapolated else point.towards_image(state.rate)
        )
        candidate = self._try(natural, point, state)
        if candidate is None:  # no pass was made, so there is no bound to record
            self._reject(state, extrapolated)
            return
        gain = candidate.objective - point.objective if self._is_bound else candidate.belief.moved_from(point.belief)
        lost = self._noise if self._is_bound else _MOST_LOST
        accepted = candidate.objective >= point.objective - lost * _size(point)
        self._monitor.record(candidate.objective, accepted)
        if accepted:
            state.accept(candidate, gain, extrapolated, ascending=self._is_bound)
            enough = self._tol * _size(candidate)
            if state.apart:  # steps that hold other classes fixed do not show what remains to be gained
                state.calm = 0
            elif self._nearly_newton:
                state.calm = _CALM if _MOST_PROMISED * promised(candidate, self._prior) <= enough else 0
            else:
                state.calm = state.calm + 1 if state.to_come <= enough else 0
        else:
            self._reject(state, extrapolated)

    def _reject(self, state: _AscentState, extrapolated: bool) -> None:
        state.reject(extrapolated)
        state.parts = self._stats_apart is not None and not state.apart and state.rate < _APART

    def _visit(self, natural: Natural, before: Belief | None, rate: float = 1.0, apart: bool = False) -> Point:
        if before is None or rate == self._longest:
            belief = self._prior.update(*natural, before)
        else:
            # A step that is short enough has to ascend, so update the weights first, then all else given them.
            belief = self._prior.given(*natural, before.hyper)
            G, belief = self._prior.settled(natural.G, belief)
            natural = natural._replace(G=G)
        stats = self._stats_apart(belief) if apart and self._stats_apart is not None else self._stats_at(belief)
        return Point(natural, belief, stats, objective(stats.bound, self._prior, belief))

    def _try(self, natural: Natural, point: Point, state: _AscentState) -> Point | None:
        """The point at ``natural``, or None if that implies no proper belief.

        Extrapolated sums have weights of either sign, so they need not be the sums of any rows. The more classes there
        are, the more likely it is that the precision of one of them is not positive definite.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # a step that overflows is rejected
                candidate = self._visit(natural, point.belief, state.rate, apart=state.apart > 1)
        except NotPositiveDefiniteError:
            return None
        return candidate if np.isfinite(candidate.objective) else candidate._replace(objective=-np.inf)


class _AscentState:
    """State of an ascent: the points it may combine, the length of its steps, and how near it is to convergence."""

    is_prior = False  #: whether no step has been taken yet from the prior, which predicts nothing

    def __init__(self, start: Point, memory: int, near: float, longest: float = 1.0) -> None:
        self.point = self.best = start
        self.recent = [start]
        self.rate, self.calm, self.to_come = longest, 0, float("inf")
        self._longest = longest
        self._memory, self._near, self._gain = memory, near, float("inf")
        self._plain_steps_due = self._penance = 1
        self._patience, self._steps_to_grow, self._grown = 1, 0, False
        #: Steps that still update each class by itself; the last leads to a point where joint steps resume.
        self.apart, self._next_apart, self._longest_together = 0, _FIRST_APART, longest
        #: Whether to change to such steps before the next one; and the number of passes so far.
        self.parts, self.n_passes = False, 1

    @property
    def fields(self) -> dict[str, Any]:
        """The complete state, for `resumed`; later steps replace its objects but do not modify them."""
        return dict(vars(self))

    @classmethod
    def resumed(cls, fields: dict[str, Any]) -> _AscentState:
        state = cls.__new__(cls)
        vars(state).update(fields)
        return state

    @property
    def may_extrapolate(self) -> bool:
        if len(self.recent) == 1 or self._plain_steps_due > 0:
            return False
        return self._gain <= self._near * _size(self.point)

    def accept(self, candidate: Point, gain: float, extrapolated: bool, ascending: bool) -> None:
        # A gain is proportional to the length of its step, and a squared distance between means to its square.
        self.to_come = _still_to_come(gain, self._gain, self.rate if ascending else self.rate**2)
        self._steps_to_grow -= 1
        self._grown = self._steps_to_grow < 0 and self.rate < self._longest
        if not ascending and gain >= self._gain:
            self.rate = max(_SHORTEST_UNWATCHED, self.rate / 2)
        elif self._steps_to_grow < 0:
            self.rate = min(self._longest, 2 * self.rate)
        self.point, self._gain, self.is_prior = candidate, gain, False
        self.best = max(self.best, candidate, key=lambda point: point.objective)
        self.recent = [*self.recent, candidate][-(self._memory + 1) :]
        self._plain_steps_due -= 1
        if extrapolated:
            self._penance = 1
        if self.apart:
            self.apart -= 1
            if self.apart == 0:
                self.recent, self._longest = [candidate], self._longest_together

    def part(self, stats: Stats, longest: float) -> None:
        """Updates each class by itself from here, starting with the Stats of such a pass, each time for longer."""
        self.point = self.point._replace(stats=stats)
        self.recent, self.rate, self._longest = [self.point], longest, longest
        self.apart, self._next_apart = self._next_apart, min(2 * self._next_apart, _MOST_APART)
        self.parts = False

    def reject(self, extrapolated: bool) -> None:
        self.calm, self.recent = 0, [self.point]
        if extrapolated:  # the wait until the next doubles with each rejection in a row
            self._plain_steps_due, self._penance = self._penance, min(2 * self._penance, _MOST_PENANCE)
        else:
            if self._grown:  # too soon: wait twice as long before the next attempt
                self._patience = min(2 * self._patience, _MOST_PENANCE)
                self._steps_to_grow = self._patience
            self.rate, self._near, self._grown = self.rate / 2, np.inf, False


def _still_to_come(gain: float, before: float, share: float) -> float:
    """The rest of a geometric series of gains, if a full step gains ``1 / share`` times as much as the last one did."""
    gain = abs(gain)
    ratio = min(gain / max(abs(before), 1e-300), _SLOWEST)
    return max(gain, gain * ratio / (1 - ratio)) / share


def _affordable_memory(point: Point) -> int:
    """The number of earlier points that fit in memory."""
    return int(_MEMORY_BYTES // (_BYTES_AN_ENTRY * max(1, size_of(point.stats.G))))


def _size(point: Point) -> float:
    return max(1.0, abs(point.objective))
