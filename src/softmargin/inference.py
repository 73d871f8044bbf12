"""The words of ``inference=``: how the belief is found, over the same parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .arrays import to_numpy
from .engine import Problem
from .loo import LeftOut, left_out, thinned
from .monitor import Monitor
from .steps import Ascent, ascend

INFERENCES = ("auto", "cavi", "svi", "gibbs", "ecm")
#: Losses whose augmentation can be drawn (Gibbs), or maximised over (ECM).
HINGES = ("hinge", "hinge-augmented")
#: Tables of at least this many rows are large: stochastic steps first, then one full pass.
LARGE = 50_000
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
    draws: Any = None

    def left_out(self, problem: Problem, unit: np.ndarray) -> tuple[Problem, LeftOut]:
        """Leave-one-out moments, and the problem (of fewer rows, if there are very many) whose rows they belong to."""
        if self.draws is not None:
            return problem, self.draws.left_out
        problem, unit = thinned(problem, unit)
        return problem, LeftOut(*map(to_numpy, left_out(problem, self.ascent.point.belief, unit)))


def infer(problem: Problem, plan: Plan, rng: np.random.RandomState, monitor: Monitor) -> tuple[Problem, Inferred]:
    """Finds the belief as the plan says; returns the problem too, for ECM changes its likelihood."""
    how = plan.how
    if how == "auto":
        how = "polished" if problem.table.n_rows >= LARGE else "cavi"
    if how == "ecm":
        from .likelihoods import PointHinge

        problem = replace(problem, likelihood=PointHinge())
    if how in ("cavi", "ecm"):
        return problem, Inferred(ascend(problem, tol=plan.tol, max_passes=plan.max_passes, monitor=monitor))
    if how in ("svi", "polished"):
        from .stochastic import Schedule, polish, wander

        ascent = wander(
            problem,
            rng=rng,
            tol=plan.tol,
            batch_rows=plan.batch_rows,
            rate=plan.rate if plan.rate == "adaptive" else Schedule(*plan.rate),
            max_passes=plan.max_passes,
            monitor=monitor,
        )
        return problem, Inferred(polish(problem, ascent) if how == "polished" else ascent)
    return problem, _drawn(problem, plan, rng, monitor)


def _drawn(problem: Problem, plan: Plan, rng: np.random.RandomState, monitor: Monitor) -> Inferred:
    """Gibbs from the variational belief, whose bound is reported."""
    from .gibbs import sample

    ascent = ascend(problem, tol=_START_TOLERANCE, max_passes=plan.max_passes)
    burn_in = int(_BURN_IN_SHARE * plan.n_draws)
    draws = sample(problem, rng=rng, n_draws=plan.n_draws, burn_in=burn_in, monitor=monitor, start=ascent.point.belief)
    return Inferred(Ascent(ascent.point._replace(belief=draws.belief), draws.reason), draws)
