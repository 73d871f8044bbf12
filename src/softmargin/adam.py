r"""Gradient ascent: Adam steps in the mean and factor of a belief, on minibatches (Wistuba and Rawat 2018, 3.3).

The objective is that of all other inference methods, and its gradient follows from the same sums: with those
of a minibatch scaled to all rows,

.. math:: \frac{\partial F}{\partial m} = h - (P + G)\, m, \qquad
          \frac{\partial F}{\partial S} = -\tfrac12 (P + G - S^{-1}).

**Coordinates.** A belief :math:`N(m_0, R_0^T R_0)` provides units: :math:`m = m_0 + R_0^T x` and :math:`S = R^T R`
with :math:`R = T R_0`. ``T`` is lower triangular, with exponentials on its diagonal, so every point is a belief. With
:math:`\Lambda = R_0 (P + G) R_0^T` the derivatives are

.. math:: \frac{\partial F}{\partial x} = R_0\, (h - (P + G)\, m), \qquad
          \frac{\partial F}{\partial T} = \mathrm{diag}(1 / T_{jj}) - \mathrm{tril}(T \Lambda),

and no step inverts a matrix. Adam's steps are equally long in all coordinates, so units matter: in those of
the prior, quantities that many rows determine would move by many posterior standard deviations at once. In units of a
belief that has seen rows, the objective has about the same curvature in all directions.

**Start.** A sample of rows is fitted on its own by the guarded ascent of `steps`. The climb begins at that belief, in
the units that its sums imply when scaled up; soon after, units are renewed a few times from the sums found since.

**Variances.** Whatever a prior infers besides the weights is updated at every belief; the gradient stays the same.

**End.** With minibatches the result is the average of all points, the ``t``-th with weight ``t``, as in `stochastic`;
with all rows in every step, it is the best point. The sums are averaged in the same way. As long as the gradient is
linear over these points, they are the sums at the average, and half the squared length of the natural gradient
(`steps.promised`) estimates the gain that remains there, plus what is left of the noise. If sites have more curvature
than the objective, that estimate is too low, so the gauge of `stochastic` must agree.
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

#: The length of the first steps, in units of a belief's standard deviations, and the decay of lengths.
_LENGTH, _DELAY, _POWER = 0.5, 100.0, 0.6
#: Adam's decay factors for the averages of gradients and of their squares.
_KEPT_SLOPE, _KEPT_SQUARE = 0.9, 0.99
#: Adam's epsilon: gradients below it lead to shorter steps. In these units curvature is about 1, so at first, when most
#: coordinates have nearly converged, steps should not exceed gradients. Where curvature is less (for directions common
#: to all classes) they should, later on: after ``t`` steps epsilon is divided by ``1 + t / _FALL``.
_SMALL, _FALL = 1.0, 5.0
#: The start is fitted to one row in so many, or to this many if that is more, but to half of the rows at most.
_START_SHARE, _START_ROWS = 4, 64
#: The tolerance of that fit, far below the sampling noise of so few rows, and its most passes.
_START_TOL, _START_PASSES = 1e-3, 100
#: Units are renewed, when the remaining gain is estimated, up to this step.
_LAST_RENEWAL = 40


# Beliefs and coordinates -------------------------------------------------------------------------


class Before(NamedTuple):
    """The prior of the weights of one class: precision, linear term, and the factor of ``P = C C'``."""

    P: Array
    h: Array
    C: Array


def before_rows(prior: Prior, like: Natural, hyper: Any) -> list[Before]:
    """The prior of the weights of each class; ``like`` are sums of the right shape."""
    nothing = combined(like, -1, like)
    parts = class_parts(prior.given(nothing.G, nothing.h, hyper))
    factors = [inverse_lower(part.root) for part in parts]
    return [Before(C @ C.T, C @ (C.T @ part.mean), C) for C, part in zip(factors, parts, strict=True)]


class Coordinates(NamedTuple):
    """Beliefs as arrays, one for each class: the rows of ``T``, with logarithms on its diagonal, then ``x``."""

    units: Any

    def of(self, belief: Any) -> Array:
        """The coordinates of a belief."""
        pairs = zip(class_parts(self.units), class_parts(belief), strict=True)
        points = [_point_of(unit, part) for unit, part in pairs]
        return namespace(*points).stack(points)

    def belief(self, z: Array) -> Any:
        """The belief at a point; whatever is inferred besides the weights is taken from the units."""
        parts = tuple(_belief_at(unit, z[k, ...]) for k, unit in enumerate(class_parts(self.units)))
        return self.units._replace(parts=parts) if isinstance(self.units, ClassBelief) else parts[0]

    def slopes(self, z: Array, before: list[Before], sums: Natural) -> Array:
        """The gradient of the objective at a point, from the prior and the sums of the rows there."""
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
    """The derivatives of the module docstring; on the diagonal, those in the logarithms of the entries."""
    xp, T, R = namespace(z), _factor(z), unit.root
    precision, mean = before.P + sums.G, unit.mean + R.T @ z[-1, :]
    shift = R @ (before.h + sums.h - precision @ mean)
    Lambda = times_lower_transposed(times_lower_transposed(precision, R).T, R)
    bent = times_lower_transposed(Lambda, T).T
    on_diagonal = 1 - xp.linalg.diagonal(T) * xp.linalg.diagonal(bent)
    return xp.concat([_diagonal(on_diagonal) - xp.tril(bent, k=-1), shift[None, :]])


def _factor(z: Array) -> Array:
    """The factor ``T`` at a point."""
    xp = namespace(z)
    return xp.tril(z[:-1, :], k=-1) + _diagonal(xp.exp(xp.linalg.diagonal(z[:-1, :])))


def _diagonal(values: Array) -> Array:
    """The diagonal matrix with these values."""
    return values * namespace(values).eye(values.shape[0], dtype=values.dtype, device=device(values))


def _by_class(belief: Any, sums: Natural) -> list[Natural]:
    return [Natural(*own) for own in zip(*sums, strict=True)] if isinstance(belief, ClassBelief) else [sums]


def _all_classes(belief: Any, sums: list[Natural]) -> Natural:
    return Natural(*map(tuple, zip(*sums, strict=True))) if isinstance(belief, ClassBelief) else sums[0]


def implied_sums(part: Belief, before: Before) -> Natural:
    """The sums of rows that would lead from the prior to a belief."""
    Q = inverse_lower(part.root)
    precision = Q @ Q.T
    return Natural(precision - before.P, precision @ part.mean - before.h)


def narrowed_sums(part: Belief, before: Before) -> Natural:
    r"""The same, for a belief with that mean that is in no direction wider than the prior.

    No rows can make a belief wider, but steps may: of :math:`S^{-1}` relative to ``P``, eigenvalues below 1 become 1.
    """
    xp, C = namespace(part.mean), before.C
    vectors, roots, _ = xp.linalg.svd(inverse_lower(C) @ inverse_lower(part.root))
    gained = C @ vectors
    G = gained * clipped_at_zero(roots**2 - 1) @ gained.T
    return Natural(G, (before.P + G) @ part.mean - before.h)


# Steps -------------------------------------------------------------------------------------------


class AdamOfBeliefs(NamedTuple):
    """Running averages of gradients and of their squares (Kingma and Ba 2014)."""

    slope: Any = 0.0
    square: Any = 0.0
    step: int = 0

    def saw(self, slope: Array) -> AdamOfBeliefs:
        return AdamOfBeliefs(
            _KEPT_SLOPE * self.slope + (1 - _KEPT_SLOPE) * slope,
            _KEPT_SQUARE * self.square + (1 - _KEPT_SQUARE) * slope * slope,
            self.step + 1,
        )

    @property
    def direction(self) -> Array:
        """A step whose length in every coordinate is at most about 1."""
        slope, square = self.slope / (1 - _KEPT_SLOPE**self.step), self.square / (1 - _KEPT_SQUARE**self.step)
        return slope / (namespace(square).sqrt(square) + _SMALL / (1 + self.step / _FALL))


class Lengths(NamedTuple):
    """Lengths of steps, which decay like :math:`(t + delay)^{-power}`.

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
    """Maximises the objective by Adam steps on minibatches; see this module.

    Parameters
    ----------
    tol : float
        The climb ends when the estimated gain that remains is less than this share of the objective.
    batch_rows : int or "auto"
        Rows of a minibatch, which may contain all rows.
    max_passes : float
        The most rows to visit, in units of the table.

    Returns
    -------
    Ascent
        The natural parameters are those of the belief. With minibatches the objective is an estimate.
        The reason is one of converged, passes, time and interrupt.
    """
    if not (problem.prior.is_plain and problem.prior.is_gaussian):
        raise ValueError(
            "inference='adam' fits a single Gaussian for the weights, which is not enough when variables are selected, "
            "entries are missing or rows are grouped; use 'auto', 'cavi' or 'gibbs'."
        )
    walk, size = Walk.random(problem.table.n_rows, rng), batch_size(problem, batch_rows)
    tol = max(tol, 10 * precision_of(problem.table.reference))  # rounding errors limit the accuracy
    with one_blas_thread:
        return _Climber(problem, walk, size, lengths or Lengths(), monitor or Monitor()).run(tol, max_passes)


class _Kept(NamedTuple):
    """The point to return, and the sums of all rows there."""

    z: Array
    stats: Stats


class _Climber:
    """State of a climb: the point of the next step, the one to return, and an estimate of the gain that remains."""

    def __init__(self, problem: Problem, walk: Walk, size: int, lengths: Lengths, monitor: Monitor) -> None:
        self._problem, self._walk, self._size, self._lengths, self._monitor = problem, walk, size, lengths, monitor
        self._whole, self._visited = size == problem.table.n_rows, 0
        self._weight = float(problem.table.weight.sum())
        self._adam, self._steps, self._gauge = AdamOfBeliefs(), 0, Gauge()
        self._best = self._seen_best = -math.inf

    def run(self, tol: float, max_passes: float) -> Ascent:
        """Takes steps until convergence, out of passes or time, or interrupted."""
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
        if not self._monitor.history:  # no step was taken
            self._monitor.record(point.objective, accepted=True)
        self._monitor.close()
        return Ascent(point, reason)

    def _start(self) -> str:
        """Fits a sample of rows; returns the reason for the end of that fit."""
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
        """One minibatch: sums, gradient, step. Returns whether the remaining gain should be estimated now."""
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
        """Whether little gain is expected at the point that would be returned now, and little was gained lately."""
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
        """The next estimate of the gauge; exact objectives show what was gained better than means do."""
        gauge = self._gauge.look(self._steps, point.belief)
        if not (self._whole and self._problem.likelihood.is_bound and self._gauge.step):
            return gauge
        since = self._gauge.step
        return gauge._replace(to_come=(point.objective - self._seen_best) * since / (self._steps - since))

    def _renew(self, point: Point) -> None:
        """Changes to the units that the current sums imply, and restarts Adam in them."""
        here, kept = self._belief(self._z), self._belief(self._kept.z)
        renewed = Coordinates(self._problem.prior.given(*point.image, kept.hyper))
        moved = renewed, renewed.of(here), self._kept._replace(z=renewed.of(kept)), AdamOfBeliefs()
        self._coordinates, self._z, self._kept, self._adam = moved  # at once, because of interrupts

    def _keep_best(self, new: _Kept, belief: Any) -> None:
        """Keeps the best point, as objectives of all rows are exact; or the latest if the objective is no bound."""
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
        """The next ``size`` rows, as a problem of their own."""
        table = self._problem.table.rows(self._walk.rows(self._visited, size))
        self._visited += size
        block_rows = min(table.block_rows, -(-size // self._problem.n_jobs))
        return self._problem.over(table._replace(block_rows=block_rows))

    def _scaled(self, stats: Stats) -> Stats:
        """Sums scaled to the weight of all rows."""
        return scaled(stats, self._weight / float(stats.n))

    def _belief(self, z: Array) -> Any:
        """The belief at a point, with everything inferred besides the weights updated."""
        return self._problem.prior.settled(self._sums.G, self._coordinates.belief(z))[1]

    def _seen(self, belief: Any) -> list[Before]:
        """The prior of the weights at a belief, which is fixed unless the prior infers something besides them."""
        return before_rows(self._problem.prior, self._sums, belief.hyper) if self._infers else self._before

    def _point(self, how: Callable[[Belief, Before], Natural] = implied_sums) -> Point:
        """The kept point, from its sums. The objective is that before `narrowed_sums`, if that changes the belief."""
        prior, stats, belief = self._problem.prior, self._kept.stats, self._belief(self._kept.z)
        each = zip(class_parts(belief), self._seen(belief), strict=True)
        natural = _all_classes(belief, [how(part, before) for part, before in each])
        value = objective(stats.bound, prior, belief)
        return Point(natural, belief if how is implied_sums else prior.given(*natural, belief.hyper), stats, value)
