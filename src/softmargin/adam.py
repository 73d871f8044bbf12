r"""The gradient route: Adam's steps in a belief's mean and factor, on minibatches (Wistuba and Rawat 2018, 3.3).

There is no second objective.  The slopes of the one there is lie in the sums that all other inferences use: with those
of a minibatch scaled to the whole,

.. math:: \frac{\partial F}{\partial m} = h - (P + G)\, m, \qquad
          \frac{\partial F}{\partial S} = -\tfrac12 (P + G - S^{-1}).

**Coordinates.**  A belief :math:`N(m_0, R_0^T R_0)` gives units: :math:`m = m_0 + R_0^T x` and :math:`S = R^T R`
with :math:`R = T R_0`.  ``T`` is lower triangular, with exponentials on its diagonal, so every point is a belief.  With
:math:`\Lambda = R_0 (P + G) R_0^T` the slopes are

.. math:: \frac{\partial F}{\partial x} = R_0\, (h - (P + G)\, m), \qquad
          \frac{\partial F}{\partial T} = \mathrm{diag}(1 / T_{jj}) - \mathrm{tril}(T \Lambda),

and no step inverts a matrix.  Adam's steps are as long in one coordinate as in the next, so units matter: in those of
the prior, what many rows determine would move by many of its deviations at once, and in those of a belief that has
seen rows the objective bends alike in all directions.

**Start.**  Some rows are fitted on their own by the guarded ascent of `steps`.  The climb begins at their belief, in
the units that their sums imply when scaled up; a few times soon after, units are renewed by the sums found since.

**Variances.**  What a prior infers beside the weights is settled at every belief, which leaves slopes as they are.

**End.**  With minibatches the result is the average of all points, the ``t``-th with weight ``t``, as in `stochastic`;
with all rows in every step, the best of them.  The sums are averaged alike.  As long as slopes change in proportion to
the way, they are then those of the average, and half the squared length of the natural gradient (`steps.promised`)
tells what is still to be gained there, with what is left of the noise on top.  Where sites bend more than the objective
does, that is too little: so the gauge of `stochastic` must be calm as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from .arrays import Array, clipped_at_zero, combined, inverse_lower, namespace, precision_of, times_lower_transposed
from .chunks import one_blas_thread
from .engine import Problem, Stats, objective
from .gaussian import Belief, ClassBelief, class_parts
from .minibatches import Walk
from .monitor import Monitor
from .priors import Prior
from .steps import Ascent, Natural, Point, ascend, promised
from .stochastic import Gauge, batch_size, scaled

#: The length of the first steps, in units of a belief's deviations, and how fast lengths fall.
_LENGTH, _DELAY, _POWER = 0.5, 100.0, 0.6
#: What Adam keeps of slopes and of their squares from step to step.
_KEPT_SLOPE, _KEPT_SQUARE = 0.9, 0.99
#: Adam's epsilon: slopes below it lead to shorter steps.  In these units the objective bends by about 1, so at first,
#: when most coordinates are all but settled, steps should not exceed slopes.  Where it bends less (all classes moving
#: alike) they should, later on: in ``t`` steps it falls by ``1 + t / _FALL``.
_SMALL, _FALL = 1.0, 5.0
#: The start is fitted to no more than one row in so many, or if that is more to this many, but half at most.
_START_SHARE, _START_ROWS = 4, 64
#: How well it is fitted: the noise of so few rows is far larger.
_START_TOL, _START_PASSES = 1e-3, 100
#: Units are renewed at looks up to this step.
_LAST_RENEWAL = 40


# Beliefs and coordinates -------------------------------------------------------------------------


class Before(NamedTuple):
    """A prior as the weights of one class see it: precision, linear term, and the factor of ``P = C C'``."""

    P: Array
    h: Array
    C: Array


def before_rows(prior: Prior, like: Natural, hyper: Any) -> list[Before]:
    """What a prior says of the weights of each class, before any rows; ``like`` are sums of the same shape."""
    nothing = combined(like, -1, like)
    parts = class_parts(prior.given(nothing.G, nothing.h, hyper))
    factors = [inverse_lower(part.root) for part in parts]
    return [Before(C @ C.T, C @ (C.T @ part.mean), C) for C, part in zip(factors, parts, strict=True)]


class Coordinates(NamedTuple):
    """Beliefs as arrays, class by class: the rows of ``T``, logarithms on its diagonal, and ``x`` as one more."""

    units: Any

    def of(self, belief: Any) -> Array:
        """Where a belief is."""
        pairs = zip(class_parts(self.units), class_parts(belief), strict=True)
        points = [_point_of(unit, part) for unit, part in pairs]
        return namespace(*points).stack(points)

    def belief(self, z: Array) -> Any:
        """The belief at a point; what is inferred beside the weights is that of the units."""
        parts = tuple(_belief_at(unit, z[k, ...]) for k, unit in enumerate(class_parts(self.units)))
        return self.units._replace(parts=parts) if isinstance(self.units, ClassBelief) else parts[0]

    def slopes(self, z: Array, before: list[Before], sums: Natural) -> Array:
        """Of the objective at a point: a prior and the rows' sums there are all that it takes."""
        every = zip(class_parts(self.units), before, _by_class(self.units, sums), strict=True)
        slopes = [_slopes(unit, z[k, ...], prior, own) for k, (unit, prior, own) in enumerate(every)]
        return namespace(z).stack(slopes)


def _point_of(unit: Belief, belief: Belief) -> Array:
    xp, inverse = namespace(unit.mean), inverse_lower(unit.root)
    T, x = belief.root @ inverse, inverse.T @ (belief.mean - unit.mean)
    return xp.concat([xp.tril(T, k=-1) + _diagonal(xp.log(xp.linalg.diagonal(T))), x[None, :]])


def _belief_at(unit: Belief, z: Array) -> Belief:
    log_det = unit.log_det + 2 * namespace(z).linalg.trace(z[:-1, :])
    return unit._replace(mean=unit.mean + unit.root.T @ z[-1, :], root=_factor(z) @ unit.root, log_det=log_det)


def _slopes(unit: Belief, z: Array, before: Before, sums: Natural) -> Array:
    """The formulas of this module; the slope in the logarithm of an entry is that in the entry, times the entry."""
    xp, T, R = namespace(z), _factor(z), unit.root
    precision, mean = before.P + sums.G, unit.mean + R.T @ z[-1, :]
    shift = R @ (before.h + sums.h - precision @ mean)
    Lambda = times_lower_transposed(times_lower_transposed(precision, R).T, R)
    bent = times_lower_transposed(Lambda, T).T
    on_diagonal = 1 - xp.linalg.diagonal(T) * xp.linalg.diagonal(bent)
    return xp.concat([_diagonal(on_diagonal) - xp.tril(bent, k=-1), shift[None, :]])


def _factor(z: Array) -> Array:
    """``T``."""
    xp = namespace(z)
    return xp.tril(z[:-1, :], k=-1) + _diagonal(xp.exp(xp.linalg.diagonal(z[:-1, :])))


def _diagonal(values: Array) -> Array:
    """The matrix with these on its diagonal."""
    return values * namespace(values).eye(values.shape[0], dtype=values.dtype, device=device(values))


def _by_class(belief: Any, sums: Natural) -> list[Natural]:
    return [Natural(*own) for own in zip(*sums, strict=True)] if isinstance(belief, ClassBelief) else [sums]


def _all_classes(belief: Any, sums: list[Natural]) -> Natural:
    return Natural(*map(tuple, zip(*sums, strict=True))) if isinstance(belief, ClassBelief) else sums[0]


def implied_sums(part: Belief, before: Before) -> Natural:
    """The sums of rows that lead from a prior to a belief."""
    Q = inverse_lower(part.root)
    precision = Q @ Q.T
    return Natural(precision - before.P, precision @ part.mean - before.h)


def narrowed_sums(part: Belief, before: Before) -> Natural:
    r"""The same, for a belief of that mean which is nowhere wider than its prior.

    No rows make one wider, but steps may: of :math:`S^{-1}`, seen from the prior, eigenvalues below 1 become 1.
    """
    xp, C = namespace(part.mean), before.C
    vectors, roots, _ = xp.linalg.svd(inverse_lower(C) @ inverse_lower(part.root))
    gained = C @ vectors
    G = gained * clipped_at_zero(roots**2 - 1) @ gained.T
    return Natural(G, (before.P + G) @ part.mean - before.h)


# Steps -------------------------------------------------------------------------------------------


class Adam(NamedTuple):
    """Running averages of slopes and of their squares (Kingma and Ba 2014)."""

    slope: Any = 0.0
    square: Any = 0.0
    step: int = 0

    def saw(self, slope: Array) -> Adam:
        return Adam(
            _KEPT_SLOPE * self.slope + (1 - _KEPT_SLOPE) * slope,
            _KEPT_SQUARE * self.square + (1 - _KEPT_SQUARE) * slope * slope,
            self.step + 1,
        )

    @property
    def direction(self) -> Array:
        """A step of length 1 at most in every coordinate, or little more."""
        slope, square = self.slope / (1 - _KEPT_SLOPE**self.step), self.square / (1 - _KEPT_SQUARE**self.step)
        return slope / (namespace(square).sqrt(square) + _SMALL / (1 + self.step / _FALL))


class Lengths(NamedTuple):
    """Lengths of steps, which fall like :math:`(t + delay)^{-power}`.

    >>> [round(Lengths(delay=10.0, power=1.0).at(step), 3) for step in (0, 10, 30)]
    [0.5, 0.25, 0.125]
    """

    delay: float = _DELAY
    power: float = _POWER

    def at(self, step: int) -> float:
        return _LENGTH * (1 + step / max(self.delay, 1.0)) ** -self.power


def climb(
    problem: Problem,
    *,
    rng: np.random.RandomState,
    tol: float = 1e-3,
    batch_rows: int | str = "auto",
    lengths: Lengths | None = None,
    max_passes: float = 200.0,
    monitor: Monitor | None = None,
) -> Ascent:
    """Follows the slopes of the objective by minibatches; see this module.

    Parameters
    ----------
    tol : float
        The end is where the objective has less than this share of itself still to gain, by the look of the last steps.
    batch_rows : int or "auto"
        Rows of a minibatch; there may be but one, of all rows.
    max_passes : float
        Most rows to visit, in units of the table.

    Returns
    -------
    Ascent
        The natural parameters are those of the belief.  With minibatches the objective is an estimate.
        The reason is one of converged, passes, time and interrupt.
    """
    if not (problem.prior.is_plain and problem.prior.is_gaussian):
        raise ValueError(
            "inference='adam' fits a single Gaussian for the weights, which is not enough when variables are selected, "
            "entries are missing or rows are grouped; use 'auto', 'cavi' or 'gibbs'."
        )
    walk, size = Walk.random(problem.table.n_rows, rng), batch_size(problem, batch_rows)
    tol = max(tol, 10 * precision_of(problem.table.reference))  # less than rounding is not to be had
    with one_blas_thread:
        return _Climber(problem, walk, size, lengths or Lengths(), monitor or Monitor()).run(tol, max_passes)


class _Kept(NamedTuple):
    """The point to return, and the sums of all rows there."""

    z: Array
    stats: Stats


class _Climber:
    """Where a climb stands: the point of the next step, the one to return, and what is known about the way to go."""

    def __init__(self, problem: Problem, walk: Walk, size: int, lengths: Lengths, monitor: Monitor) -> None:
        self._problem, self._walk, self._size, self._lengths, self._monitor = problem, walk, size, lengths, monitor
        self._whole, self._visited = size == problem.table.n_rows, 0
        self._weight = float(problem.table.weight.sum())
        self._adam, self._steps, self._gauge = Adam(), 0, Gauge()
        self._best = self._seen_best = -math.inf

    def run(self, tol: float, max_passes: float) -> Ascent:
        """Climbs until the objective rests, out of passes or time, or interrupted."""
        reason = "interrupt" if self._start() == "interrupt" else "passes"
        try:
            while reason == "passes" and self._visited < max_passes * self._problem.table.n_rows:
                if self._monitor.out_of_time:
                    reason = "time"
                elif self._step() and self._is_calm(tol):
                    reason = "converged"
        except KeyboardInterrupt:
            reason = "interrupt"
        point = self._point(narrowed_sums)
        if not self._monitor.history:  # it ended where it began
            self._monitor.record(point.objective, accepted=True)
        self._monitor.close()
        return Ascent(point, reason)

    def _start(self) -> str:
        """Fits some rows; says why that ended."""
        n, prior = self._problem.table.n_rows, self._problem.prior
        some = self._batch(min(self._size, max(n // _START_SHARE, min(_START_ROWS, n // 2), 1)))
        pilot = ascend(some, tol=_START_TOL, max_passes=_START_PASSES, monitor=self._monitor.silent())
        stats, belief = self._scaled(pilot.point.stats._replace(along=0.0)), pilot.point.belief
        self._sums, hyper = Natural(stats.G, stats.h), belief.hyper
        self._coordinates = Coordinates(prior.given(*self._sums, hyper))
        self._z = self._coordinates.of(belief)
        self._kept = _Kept(self._z, stats)
        self._before = before_rows(prior, self._sums, hyper)
        self._infers = hyper is not None and any(part is not None for part in hyper)
        return pilot.reason

    def _step(self) -> bool:
        """One minibatch: sums, slopes, a step.  Says whether it is time to look how far there is to go."""
        z, belief = self._z, self._belief(self._z)
        stats = self._scaled(self._rows().stats(belief))
        self._adam = self._adam.saw(self._coordinates.slopes(z, self._seen(belief), Natural(stats.G, stats.h)))
        self._z = z + self._lengths.at(self._steps) * self._adam.direction
        self._steps += 1
        new = _Kept(z, stats)
        if self._whole:
            self._keep_best(new, belief)
        else:
            self._kept = combined(self._kept, 2 / (self._steps + 1), combined(new, -1, self._kept))
        return self._steps >= self._gauge.next_look

    def _is_calm(self, tol: float) -> bool:
        """Whether little is promised any more where the climb would end now, and little was gained on the way there."""
        point = self._point()
        enough = tol * max(1.0, abs(point.objective))
        self._gauge, self._seen_best = self._looked(point), point.objective
        if not self._whole:
            self._monitor.record(point.objective, accepted=True, phase="minibatches")
        calm = self._gauge.is_calm(enough) and promised(point, self._problem.prior) <= enough
        if not calm and self._steps <= _LAST_RENEWAL:
            self._renew(point)
        return calm

    def _looked(self, point: Point) -> Gauge:
        """The next look of the gauge; where objectives are exact, they tell better than means what was gained."""
        gauge = self._gauge.look(self._steps, point.belief)
        if not (self._whole and self._problem.likelihood.is_bound and self._gauge.step):
            return gauge
        since = self._gauge.step
        return gauge._replace(to_come=(point.objective - self._seen_best) * since / (self._steps - since))

    def _renew(self, point: Point) -> None:
        """The units that sums imply by now; Adam begins anew in them."""
        here, kept = self._belief(self._z), self._belief(self._kept.z)
        renewed = Coordinates(self._problem.prior.given(*point.image, kept.hyper))
        moved = renewed, renewed.of(here), self._kept._replace(z=renewed.of(kept)), Adam()
        self._coordinates, self._z, self._kept, self._adam = moved  # at once: there may be an interruption

    def _keep_best(self, new: _Kept, belief: Any) -> None:
        """With all rows objectives are exact; where they are no bounds, higher is not better, and the last is kept."""
        here = objective(new.stats.bound, self._problem.prior, belief)
        better = here >= self._best or not self._problem.likelihood.is_bound
        if better:
            self._kept, self._best = new, here
        self._monitor.record(here, accepted=better)

    def _rows(self) -> Problem:
        """The rows of the next step."""
        if not self._whole:
            return self._batch(self._size)
        self._visited += self._size
        return self._problem

    def _batch(self, size: int) -> Problem:
        """The next so many rows, as a problem of their own."""
        table = self._problem.table.rows(self._walk.rows(self._visited, size))
        self._visited += size
        block_rows = min(table.block_rows, -(-size // self._problem.n_jobs))
        return self._problem.over(table._replace(block_rows=block_rows))

    def _scaled(self, stats: Stats) -> Stats:
        """Sums as those of all rows."""
        return scaled(stats, self._weight / float(stats.n))

    def _belief(self, z: Array) -> Any:
        """The belief at a point, all that is inferred beside the weights settled."""
        return self._problem.prior.settled(self._sums.G, self._coordinates.belief(z))[1]

    def _seen(self, belief: Any) -> list[Before]:
        """The prior as it looks from a belief; the same from everywhere if there is nothing else to infer."""
        return before_rows(self._problem.prior, self._sums, belief.hyper) if self._infers else self._before

    def _point(self, how: Callable[[Belief, Before], Natural] = implied_sums) -> Point:
        """What is kept, by its sums.  The objective is that before `narrowed_sums` has made it narrower, if it has."""
        prior, stats, belief = self._problem.prior, self._kept.stats, self._belief(self._kept.z)
        each = zip(class_parts(belief), self._seen(belief), strict=True)
        natural = _all_classes(belief, [how(part, before) for part, before in each])
        value = objective(stats.bound, prior, belief)
        return Point(natural, belief if how is implied_sums else prior.given(*natural, belief.hyper), stats, value)
