"""The words of ``inference=``: how the belief is found, over the same parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .arrays import combined, to_numpy
from .engine import Problem
from .gibbs import Draws, sample
from .likelihoods import AugmentedHinge, Hinge, JaakkolaJordan, Likelihood, Logistic, PointHinge, Quadrature
from .loo import left_out, thinned
from .monitor import Monitor
from .steps import Ascent, ascend
from .stochastic import Schedule, Walk, batch_size, polish, wander
from .streaming import Record

INFERENCES = ("auto", "cavi", "svi", "gibbs", "ecm")
#: Losses whose augmentation can be drawn (Gibbs), or maximised over (ECM).
HINGES = ("hinge", "hinge-augmented")
#: Tables of at least this many rows are large: stochastic steps first, then one full pass.
LARGE = 50_000
#: Stochastic steps end at so many times the tolerance of an ascent: what they lack falls only with their number.
_STOCHASTIC_TOLERANCE = 10
#: Minibatches before the last pass, or as many as make one pass.
_STEPS = 64
#: Bounds, and the likelihoods that they bound.
_EXACT: dict[type, Likelihood] = {AugmentedHinge: Hinge(), JaakkolaJordan: Quadrature(Logistic())}
#: Tables of at least this many rows are first fitted by one row in so many, roughly.
_ROWS_FOR_A_PILOT, _PILOT_SHARE, _PILOT_TOLERANCE = 8192, 8, 1e-3
#: Passes for a start of the Gibbs sampler, which need not be at the optimum, and draws thrown away.
_START_TOLERANCE, _BURN_IN_SHARE = 1e-4, 0.2


class Plan(NamedTuple):
    """What an inference may be told."""

    how: str
    tol: float
    max_passes: int
    batch_rows: int | str = "auto"
    rate: Any = "adaptive"
    n_draws: int = 1000


class Inferred(NamedTuple):
    """What an inference found; ``draws`` by Gibbs only."""

    ascent: Ascent
    draws: Draws | None = None

    def record(self, problem: Problem, unit: np.ndarray) -> Record:
        """Each row as the model would see it without that row; of very many rows, some."""
        if self.draws is not None:
            without = self.draws.left_out
        else:
            problem, unit = thinned(problem, unit)
            without = left_out(problem, self.ascent.point.belief, unit)
        mu, v, usable, y, weight = map(to_numpy, (*without, problem.table.y, problem.table.weight))
        return Record(mu, v, y, weight * usable)


def infer(
    problem: Problem, plan: Plan, unit: np.ndarray, rng: np.random.RandomState, monitor: Monitor
) -> tuple[Problem, Inferred]:
    """Finds the belief as the plan says; returns the problem too, for ECM changes its likelihood."""
    how = plan.how
    if how == "auto":
        how = "polished" if problem.table.n_rows >= LARGE else "cavi"
    if how == "ecm":
        problem = replace(problem, likelihood=PointHinge())
    if how in ("cavi", "ecm"):
        return problem, Inferred(_ascended(problem, plan, monitor))
    if how == "svi":
        return problem, Inferred(_wandered(problem, plan, plan.max_passes, rng, monitor))
    if how == "polished":
        return problem, Inferred(_polished(problem, plan, rng, monitor))
    return problem, _drawn(problem, plan, unit, rng, monitor)


def _wandered(problem: Problem, plan: Plan, max_passes: float, rng: np.random.RandomState, monitor: Monitor) -> Ascent:
    return wander(
        problem,
        rng=rng,
        tol=_STOCHASTIC_TOLERANCE * plan.tol,
        batch_rows=plan.batch_rows,
        rate=plan.rate if plan.rate == "adaptive" else Schedule(*plan.rate),
        max_passes=max_passes,
        monitor=monitor,
    )


def _polished(problem: Problem, plan: Plan, rng: np.random.RandomState, monitor: Monitor) -> Ascent:
    """Stochastic steps, which need not come to rest, and one pass over all rows.

    Bounds by augmentation lead to nearly the mean of the likelihood itself, but by steps that are the shorter the more
    rows there are: it is the likelihood itself that wanders.
    """
    exact = next((exact for bound, exact in _EXACT.items() if isinstance(problem.likelihood, bound)), None)
    wanderer = problem if exact is None else replace(problem, likelihood=exact)
    passes = max(1.0, _STEPS * batch_size(problem, plan.batch_rows) / problem.table.n_rows)
    end = polish(problem, _wandered(wanderer, plan, passes, rng, monitor))
    return end._replace(reason="polished") if end.reason in ("passes", "converged") else end


def _ascended(problem: Problem, plan: Plan, monitor: Monitor) -> Ascent:
    """Coordinate ascent; in tables of many rows from the optimum of some of them, which is cheap and not far."""
    table, start, max_passes = problem.table, None, plan.max_passes
    if table.n_rows >= _ROWS_FOR_A_PILOT:
        walk = Walk.random(table.n_rows, np.random.RandomState(0))
        few = replace(problem, table=table.rows(walk.rows(0, table.n_rows // _PILOT_SHARE)), _kept={})
        pilot = ascend(few, tol=_PILOT_TOLERANCE, max_passes=max_passes)
        growth = float(table.weight.sum()) / float(few.table.weight.sum())
        start = combined(pilot.point.image, growth - 1, pilot.point.image)
        if pilot.reason == "interrupt":
            monitor.interrupted, max_passes = True, 1
    return ascend(problem, tol=plan.tol, max_passes=max_passes, monitor=monitor, start=start)


def _drawn(problem: Problem, plan: Plan, unit: np.ndarray, rng: np.random.RandomState, monitor: Monitor) -> Inferred:
    """Gibbs from the variational belief, whose bound is reported."""
    ascent = ascend(problem, tol=_START_TOLERANCE, max_passes=plan.max_passes)
    burn_in = int(_BURN_IN_SHARE * plan.n_draws)
    draws = sample(
        problem,
        rng=rng,
        n_draws=plan.n_draws,
        burn_in=burn_in,
        monitor=monitor,
        start=ascent.point.belief,
        unit=unit,
    )
    return Inferred(Ascent(ascent.point._replace(belief=draws.belief), draws.reason), draws)
