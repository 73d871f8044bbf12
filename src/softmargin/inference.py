"""The methods of ``inference=``, all built from the same parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .adam import Lengths, climb
from .arrays import to_numpy
from .checkpoint import CUT_SHORT
from .diagnostics import warn_unless_mixed
from .engine import Problem, objective
from .gibbs import Draws, sample
from .likelihoods import (
    AugmentedHinge,
    Hinge,
    JaakkolaJordan,
    Likelihood,
    Logistic,
    OneVersusRest,
    PointHinge,
    Quadrature,
    Rivals,
)
from .loo import MOST_ROWS, ROWS_IN_HASTE, left_out, thinned
from .minibatches import Schedule
from .monitor import Monitor
from .priors import choices
from .sampling import scattered
from .single_precision import in_single, may_be_narrowed, may_be_single
from .steps import Ascent, Natural, Point, ascend
from .stochastic import batch_size, polish, scaled, wander
from .streaming import Record

INFERENCES = ("auto", "cavi", "svi", "adam", "gibbs", "ecm")
#: Losses with an augmentation that can be maximised over (ECM), and with one that can be sampled (Gibbs).
HINGES = ("hinge", "hinge-augmented")
DRAWABLE = (*HINGES, "logistic", "logistic-jj")
#: Tables of at least this many rows are large: stochastic steps first, then one full pass.
LARGE = 50_000
#: The least effective sample size (of the weights), as a share of the rows, at which minibatches are used.
_LEAST_EVENNESS = 0.25
#: The error of stochastic steps falls only with their number: a tolerance below this share of the bound would take
#: many passes.
_LEAST_STOCHASTIC_TOLERANCE = 1e-3
#: Gradient steps are slow in flat directions: with all rows in every step, a smaller tolerance would take long.
_LEAST_GRADIENT_TOLERANCE = 1e-5
#: Minibatches before the last pass, or as many as make one pass if that is more.
_STEPS = 64
#: The share of the objective up to which the expected gain of the last step needs no check.
_SHORT = 0.01
#: Bounds, and the likelihoods below which they lie.
_EXACT: dict[type, Likelihood] = {AugmentedHinge: Hinge(), JaakkolaJordan: Quadrature(Logistic())}
#: Tables of at least this many rows are first fitted roughly, on one row in so many.
_ROWS_FOR_A_PILOT, _PILOT_SHARE, _PILOT_BLOCKS, _PILOT_TOLERANCE = 8192, 8, 4, 1e-2
#: The least ``tol`` for single precision, and the multiple of ``tol`` at which the last step, in double, follows.
_LEAST_SINGLE_TOLERANCE, _BEFORE_THE_LAST = 1e-4, 3.0
#: Passes of a short ascent from an alternative, the gain in nats for which it is taken, and limits on their number:
#: directly, and through the rows that they visit in total.
_SHORT_WAY, _WORTH_IT, _MOST_WAYS, _MOST_VISITS = 12, 0.05, 500, 5e6
#: The tolerance of an ascent that only provides a start.
_ROUGH_TOLERANCE = 1e-4
#: For Gibbs: the tolerance of its start, the share of warm-up sweeps, and the fewest draws, kept after an interrupt.
_START_TOLERANCE, _WARM_UP_SHARE, _FEWEST_DRAWS = 1e-4, 0.2, 2


class Plan(NamedTuple):
    """The parameters of an inference.

    Draws are counted as in Stan and PyMC: ``n_draws`` of every chain are kept, after ``warm_up`` sweeps that are
    discarded; each kept draw is the last of ``thin`` sweeps.
    """

    how: str
    tol: float
    max_passes: int
    batch_rows: int | str = "auto"
    rate: Any = "adaptive"
    n_draws: int = 1000
    n_chains: int = 4
    warm_up: int | str = "auto"
    thin: int = 1

    @property
    def n_warm_up(self) -> int:
        """Warm-up sweeps: by default a fifth of those that follow, since the start is variational."""
        return int(_WARM_UP_SHARE * self.thin * self.n_draws) if isinstance(self.warm_up, str) else self.warm_up

    @property
    def n_records(self) -> int:
        """The most entries of the history; all chains sweep together."""
        return self.n_warm_up + self.thin * self.n_draws if self.how == "gibbs" else self.max_passes


class InferredAscent(NamedTuple):
    """The result of an inference; only Gibbs has ``draws``."""

    ascent: Ascent
    draws: Draws | None = None

    def record(self, problem: Problem, unit: np.ndarray, in_haste: bool = False) -> Record:
        """Leave-one-out moments of each row; for large tables, or in haste, of a sample."""
        if self.draws is not None:
            without = self.draws.left_out
        else:
            problem, unit = thinned(problem, unit, ROWS_IN_HASTE if in_haste else MOST_ROWS)
            without = left_out(problem, self.ascent.point.belief, unit)
        mu, v, usable, y, weight = map(to_numpy, (*without, problem.table.y, problem.table.weight))
        return Record(mu, v, y, weight * usable)


def infer(
    problem: Problem, plan: Plan, unit: np.ndarray, rng: np.random.RandomState, monitor: Monitor
) -> tuple[Problem, InferredAscent]:
    """Finds the belief by the method of the plan; also returns the problem, because ECM changes its likelihood."""
    how = plan.how
    if how == "auto":
        wandering = problem.prior.is_plain and problem.n_rows >= LARGE
        how = "polished" if wandering and _even(to_numpy(problem.table.weight)) else "cavi"
    if how == "ecm":
        problem = replace(problem, likelihood=PointHinge())
    if how in ("cavi", "ecm"):
        return problem, InferredAscent(_ascended(problem, plan, monitor))
    if how == "svi":
        return problem, InferredAscent(_wandered(problem, plan, plan.max_passes, rng, monitor))
    if how == "adam":
        return problem, InferredAscent(_climbed(problem, plan, rng, monitor))
    if how == "polished":
        return problem, InferredAscent(_polished(problem, plan, rng, monitor))
    return problem, _drawn(problem, plan, unit, rng, monitor)


def _even(weight: np.ndarray) -> bool:
    """Whether weights are even enough for minibatches: no few rows weigh as much as many others."""
    return float(weight.sum()) ** 2 >= _LEAST_EVENNESS * len(weight) * float(weight @ weight)


def _wandered(
    problem: Problem,
    plan: Plan,
    max_passes: float,
    rng: np.random.RandomState,
    monitor: Monitor,
    gives_up: bool = False,
) -> Ascent:
    return wander(
        problem,
        rng=rng,
        tol=max(plan.tol, _LEAST_STOCHASTIC_TOLERANCE),
        batch_rows=plan.batch_rows,
        rate=plan.rate if plan.rate == "adaptive" else Schedule(*plan.rate),
        max_passes=max_passes,
        monitor=monitor,
        page=monitor.journal.page("walk", problem),
        single=plan.tol >= _LEAST_SINGLE_TOLERANCE and may_be_narrowed(problem),
        gives_up=gives_up,
    )


def _climbed(problem: Problem, plan: Plan, rng: np.random.RandomState, monitor: Monitor) -> Ascent:
    whole = batch_size(problem, plan.batch_rows) == problem.table.n_rows
    return monitor.journal.page("climb").found(
        lambda: climb(
            problem,
            rng=rng,
            tol=max(plan.tol, _LEAST_GRADIENT_TOLERANCE if whole else _LEAST_STOCHASTIC_TOLERANCE),
            batch_rows=plan.batch_rows,
            lengths=Lengths() if plan.rate == "adaptive" else Lengths(*plan.rate),
            max_passes=plan.max_passes,
            monitor=monitor,
        )
    )


def _polished(problem: Problem, plan: Plan, rng: np.random.RandomState, monitor: Monitor) -> Ascent:
    """Stochastic steps, which need not converge, and one pass over all rows; or a guarded ascent from there.

    The stochastic steps use the exact likelihood even for an augmentation bound. The means are nearly the same, but
    steps on the bound get shorter the more rows there are. If the last step would go far, minibatches did not represent
    all rows, and the guarded ascent takes over; if they diverged, it starts afresh.
    """
    here = problem if problem.whole is None else problem.over(problem.table)
    wanderer = replace(here, likelihood=_exact(problem.likelihood))
    passes = max(1.0, _STEPS * batch_size(problem, plan.batch_rows) / problem.table.n_rows)
    way = _wandered(wanderer, plan, passes, rng, monitor, gives_up=True)
    if way.reason == "lost":
        return _ascended(problem, plan, monitor)
    if way.reason in CUT_SHORT or monitor.interrupted:
        return way
    end = _unless_interrupted(way, lambda: polish(problem, way, monitor.journal.page("polish")))
    if end.reason == "interrupt":
        return end
    taken = end.point.belief is not way.point.belief
    if taken and 0.5 * end.point.belief.moved_from(way.point.belief) <= _SHORT * abs(end.point.objective):
        return end._replace(reason="polished")
    if problem.whole is None and plan.tol >= _LEAST_SINGLE_TOLERANCE and may_be_single(problem):
        return _unless_interrupted(way, lambda: _ascended_in_single(problem, plan, monitor, way.point.natural))
    page, settings = monitor.journal.page("ascent", problem), {"tol": plan.tol, "max_passes": plan.max_passes}
    return _unless_interrupted(
        way, lambda: ascend(problem, **settings, monitor=monitor, start=way.point.natural, page=page)
    )


def _unless_interrupted(before: Ascent | None, go_on: Callable[[], Ascent]) -> Ascent:
    """The result of further passes; or the result before them, if the user interrupts the first of these."""
    try:
        return go_on()
    except KeyboardInterrupt:
        if before is None:
            raise
        return before._replace(reason="interrupt")


def _exact(likelihood: Any) -> Any:
    """The exact likelihood for a bound, also inside multi-class likelihoods; others are returned as they are."""
    if isinstance(likelihood, (Rivals, OneVersusRest)):
        return replace(likelihood, base=_exact(likelihood.base))
    return next((exact for bound, exact in _EXACT.items() if isinstance(likelihood, bound)), likelihood)


def _ascended(problem: Problem, plan: Plan, monitor: Monitor) -> Ascent:
    """Coordinate ascent, started from the result of an easier problem."""
    many = problem.table.n_rows >= _ROWS_FOR_A_PILOT
    single = many and problem.whole is None and plan.tol >= _LEAST_SINGLE_TOLERANCE and may_be_single(problem)
    start, interrupted, sample = _started(problem, plan, monitor, single)
    if sample is not None and (monitor.interrupted or sample.reason == "time"):
        return sample
    plan = plan._replace(max_passes=1) if interrupted else plan
    if single and start is not None:
        return _ascended_in_single(problem, plan, monitor, start)
    settings: dict[str, Any] = {"tol": plan.tol, "max_passes": plan.max_passes, "monitor": monitor}
    page = monitor.journal.page("ascent", problem)
    ascent = _unless_interrupted(sample, lambda: ascend(problem, **settings, start=start, page=page))
    better = _reconsidered(problem, ascent, monitor)
    if better is ascent or better.reason == "time":
        return better
    point, last = better.point, monitor.journal.page("last ascent", problem)
    again: dict[str, Any] = {"start": point.image, "before": point.belief, "page": last}
    return _unless_interrupted(better, lambda: ascend(problem, **settings, **again))


def _reconsidered(problem: Problem, ascent: Ascent, monitor: Monitor) -> Ascent:
    """The ascent, or the best that short ascents from its alternatives, and from theirs in turn, have reached."""
    prior: Any = problem.prior  # only priors with discrete choices have alternatives; they provide `about`
    quiet, page = monitor.silent(), monitor.journal.page("alternatives", problem)
    begun = _Reconsidered(None, 0, min(_MOST_WAYS, int(_MOST_VISITS / problem.n_rows / _SHORT_WAY)))
    better, tried, allowed = page.read() or begun
    ascent = better or ascent
    while ascent.reason not in CUT_SHORT:
        point = ascent.point
        for other in prior.alternatives(*point.image, point.belief)[tried:]:
            if monitor.out_of_time:
                return ascent._replace(reason="time")
            if allowed == 0:
                return ascent
            settings: dict[str, Any] = {"tol": _ROUGH_TOLERANCE, "max_passes": _SHORT_WAY, "monitor": quiet}
            # Most of them return to the old choices within a step or two, and then can only reach the old optimum.
            settings["is_known"] = partial(_alike, point.belief)
            own = monitor.journal.page("way", problem)
            there = replace(problem, prior=prior.about(point.belief, other))
            way = ascend(there, **settings, start=point.image, before=other, page=own)
            tried, allowed = tried + 1, allowed - 1
            if way.reason == "interrupt":
                monitor.interrupted = True
                return ascent
            taken = way.point.objective > point.objective + _WORTH_IT
            if taken:
                ascent, better, tried = way, way, 0
            page.finish(_Reconsidered(better, tried, allowed), instead_of="way")
            if taken:
                break
        else:
            return ascent
    return ascent


def _alike(one: Any, other: Any) -> bool:
    """Whether two beliefs have made the same discrete choices."""
    return np.array_equal(choices(one), choices(other))


class _Reconsidered(NamedTuple):
    """An ascent that is better than the first, if there is one; the number of its alternatives that were tried, and
    the number of further ones allowed."""

    better: Ascent | None
    tried: int
    allowed: int


class _Start(NamedTuple):
    """Where to begin, and whether the user interrupted; also the ascent on a sample, if rows come from a source or time
    ran out."""

    natural: Natural | None
    interrupted: bool
    sample: Ascent | None = None


def _started(problem: Problem, plan: Plan, monitor: Monitor, single: bool = False) -> _Start:
    """A cheap start near the optimum: that of a sample if there are many rows; that under an easier prior."""
    start, sample, reason = None, None, ""
    if problem.table.n_rows >= _ROWS_FOR_A_PILOT:
        few = in_single(_pilot(problem)) if single else _pilot(problem)
        page = monitor.journal.page("pilot", few)
        most = 1 if monitor.interrupted else plan.max_passes  # the user has interrupted the tuning
        pilot = ascend(few, tol=_PILOT_TOLERANCE, max_passes=most, monitor=monitor.silent(), page=page)
        start, reason = _beyond(pilot), pilot.reason  # only as certain as the sample makes it: better for steps
        sample = None if problem.whole is None else pilot
        monitor.interrupted = monitor.interrupted or reason == "interrupt"
        # Out of time, or interrupted (here or while tuning): a pass over all rows would add only the bound.
        if (reason == "time" or monitor.interrupted) and problem.prior.is_plain:
            return _Start(start, reason == "interrupt", _standing_for_all(problem, few, pilot, monitor))
    easier = problem.prior.rough()
    if easier is not None and reason != "interrupt":
        rough = replace(problem, prior=easier)
        settings: dict[str, Any] = {"tol": _ROUGH_TOLERANCE, "max_passes": plan.max_passes, "start": start}
        page = monitor.journal.page("rough", rough)
        way = _unless_interrupted(sample, lambda: ascend(rough, **settings, monitor=monitor.silent(), page=page))
        start, reason = _beyond(way), way.reason
    monitor.interrupted = monitor.interrupted or reason == "interrupt"
    return _Start(start, reason == "interrupt", sample)


def _beyond(way: Ascent) -> Natural:
    """One full step beyond the end of an ascent, unless it had stalled."""
    return way.point.natural if way.reason == "stalled" else way.point.image


def _standing_for_all(problem: Problem, some: Problem, pilot: Ascent, monitor: Monitor) -> Ascent:
    """The result of the sample, with its sums scaled up to the weight of all rows.

    One more step is taken, unless it loses: an ascent that had no time to converge may need shorter steps.
    """
    end, start = pilot.point, _beyond(pilot)
    belief = problem.prior.update(*start, end.belief)
    stats = some.stats(belief)
    point = Point(start, belief, stats, objective(stats.bound, problem.prior, belief))
    if problem.likelihood.is_bound and not point.objective > end.objective:
        point = end
    stats = scaled(point.stats, float(problem.table.weight.sum()) / float(point.stats.n))
    estimate = objective(stats.bound, problem.prior, point.belief)
    monitor.record(estimate, accepted=True)
    return pilot._replace(point=point._replace(stats=stats, objective=estimate))


def _pilot(problem: Problem) -> Problem:
    """A sample of the rows, in enough blocks for all threads; the table itself if it already is a sample."""
    if problem.whole is not None:
        return problem.over(problem.table)
    n = problem.table.n_rows
    share = _PILOT_SHARE if problem.prior.is_plain else _PILOT_SHARE // 2  # each group needs enough rows
    table = problem.table.rows(scattered(n, n // share))
    block_rows = min(table.block_rows, -(-table.n_rows // _PILOT_BLOCKS))
    return problem.over(table._replace(block_rows=block_rows))


def _ascended_in_single(problem: Problem, plan: Plan, monitor: Monitor, start: Natural) -> Ascent:
    """An ascent in single precision, with the last step in double, which makes most of the gain that remained."""
    settings: dict[str, Any] = {"max_passes": plan.max_passes, "monitor": monitor}
    page, last = monitor.journal.page("ascent"), monitor.journal.page("last ascent")
    way = ascend(in_single(problem), tol=_BEFORE_THE_LAST * plan.tol, **settings, start=start, page=page)
    if way.reason == "stalled":  # rounding was in the way
        return ascend(problem, tol=plan.tol, **settings, start=way.point.natural, page=last)
    if way.reason != "converged":
        return way
    return _unless_interrupted(way, lambda: polish(problem, way, monitor.journal.page("last polish")))


def _drawn(
    problem: Problem, plan: Plan, unit: np.ndarray, rng: np.random.RandomState, monitor: Monitor
) -> InferredAscent:
    """Gibbs sampling started from the variational belief, whose bound is reported."""
    start, interrupted, _ = _started(problem, plan, monitor)
    max_passes = 1 if interrupted else plan.max_passes
    settings: dict[str, Any] = {"tol": _START_TOLERANCE, "max_passes": max_passes, "start": start}
    ascent = ascend(problem, **settings, monitor=monitor.silent(), page=monitor.journal.page("ascent", problem))
    n_draws, warm_up = plan.n_draws, plan.n_warm_up
    if interrupted or ascent.reason == "interrupt":
        monitor.interrupted, n_draws, warm_up = True, _FEWEST_DRAWS, 0
    draws = sample(
        problem,
        rng=rng,
        n_draws=n_draws,
        warm_up=warm_up,
        thin=plan.thin,
        n_chains=plan.n_chains,
        starts=ascent.point.belief,
        monitor=monitor,
        unit=unit,
    )
    if draws.reason == "draws" and not monitor.interrupted:  # otherwise the user knows already that draws are missing
        warn_unless_mixed(draws.r_hat, draws.n_effective, stacklevel=6)
    return InferredAscent(Ascent(ascent.point._replace(belief=draws.belief), draws.reason), draws)
