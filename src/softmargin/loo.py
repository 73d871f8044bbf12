r"""Leave-one-out moments without a refit: each row's latent moments under a model that was not trained on it.

To leave row ``i`` out, take one Newton step in the mean of the belief, on the objective without the row's term.
With the row's slope :math:`g = \partial l/\partial\mu = b - w \mu`, its curvature
:math:`k = -\partial^2 l/\partial\mu^2`, and the response of the latent mean to a slope,
:math:`a_k = \phi^T (P + \sum k \phi\phi^T)^{-1} \phi`,

.. math:: \mu_{-i} = \mu - \frac{a_k\, g}{1 - k a_k}, \qquad v_{-i} = leftover + \frac{a}{1 - w a}.

For the exact hinge and for quadrature :math:`k = w`, so the belief contains all that is needed, and
:math:`\mu_{-i} = (\mu - a b) / (1 - w a)`: the row's Gaussian site is divided out. The bounds of Jaakkola
and Jordan and of the augmented hinge have less curvature than their sites (:math:`k < w`), so
their response takes one more pass. Whatever a prior infers besides the weights (variances) is held fixed. If a
single row determines it, as in a table that is separable but for that row, its effect is not fully removed.

With more than two classes, these formulas hold class by class only if the likelihood does not couple classes. If it
does, the step of each class by itself goes too far, because the others would move the opposite way
(`joint_share`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, NotPositiveDefiniteError, like, namespace, to_numpy
from .chunks import dense, gather_rows, summed, sweep
from .engine import Problem
from .gaussian import Belief
from .likelihoods import Sites
from .rows import ClasswiseRows, FilledFeatures, IncompleteFeatures, IncompleteRows, Latent
from .sampling import allotted, by_class, scattered
from .together import step_together

#: The largest usable share of a row in its own spread; beyond it the denominator ``1 - share`` is too small.
_LARGEST_SHARE = 0.99
#: Rows for fitting a link: enough for its few parameters; and if the fit ran out of time or was interrupted.
MOST_ROWS, ROWS_IN_HASTE = 20_000, 2048
#: Rows for which the steps of all classes are computed jointly.
_JOINTLY = 24


class Response(NamedTuple):
    """The response of a row's latent mean to a slope: spread under all rows' curvatures, and own curvature."""

    spread: Array
    curvature: Array


class Predicted(NamedTuple):
    r"""Latent moments of rows with missing entries predicted from the observed ones, without the labels, and the
    covariance ``c`` of these latent values with those of the rows as filled with the help of the labels.

    A row entered the sums as it was filled, and is evaluated as it was predicted:
    :math:`\mu_{-i} = \mu^0 - c_k\, g / (1 - k a_k)` and :math:`v_{-i} = v^0 + w c^2 / (1 - w a)`.
    """

    latent: Latent
    shared: Array


class LeftOut(NamedTuple):
    """Latent moments of each row under a belief that has not seen it.

    Rows that are not ``usable`` make up nearly all of their own spread, or more of it than the belief contains
    (after a shortened step), so that too little remains to divide by.
    """

    mu: Array
    v: Array
    usable: Array


def left_out(problem: Problem, belief: Belief, unit: Array) -> LeftOut:
    """The leave-one-out moments of every row of a problem at its optimum.

    ``unit`` is the weight to remove from each row: a row of sample weight k stands for k copies and loses one.
    """
    y, unit = problem.table.y, like(unit, problem.table.weight)
    latent = problem.latent(belief)
    sites = problem.likelihood.sites(y, latent.mu, latent.v)
    responding, response = belief, Response(latent.spread, sites.w)
    if not problem.likelihood.site_is_curvature:
        curvature = problem.likelihood.curvature(y, latent.mu, latent.v)
        with suppress(NotPositiveDefiniteError):  # single precision and enormous weights: fall back on the sites
            responding = _responding(problem, belief, curvature)
            response = Response(problem.latent(responding, rows_at=belief).spread, curvature)
    without = divided_out(latent, sites, response, unit, _predicted(problem, belief))
    return _together(problem, responding, (latent.mu, latent.v), sites, unit, without)


def left_out_of(
    moments: tuple[Array, Array], problem: Problem, belief: Belief, unit: Array, own: Array | None = None
) -> LeftOut:
    r"""The same for given latent ``moments`` of the rows, such as those of particles that have moved from the belief.

    A row's slope ``g`` and curvature ``k`` are those at its moments. In the problem it has the weight ``W``, of which
    ``own`` is its own, and the rest represents other rows. From the features of the problem under these curvatures,
    the response of its mean to a slope is :math:`a_0` without the row, :math:`a_{-i}` without the ``unit`` that is left
    out, and :math:`a_{own}` with all of its copies,

    .. math:: a_0 = \frac{a_k}{1 - W k a_k}, \quad a_{-i} = \frac{a_0}{1 + (own - n) k a_0}, \quad
              a_{own} = \frac{a_0}{1 + own\, k a_0}, \quad
              \mu_{-i} = \mu - n\, a_{-i}\, g, \quad v_{-i} = v + a_{-i} - a_{own},

    where ``n`` is the ``unit``, which ``own`` is by default.
    """
    (mu, v), xp = moments, namespace(moments[0])
    y, weight = problem.table.y, problem.table.weight
    one = like(unit, weight)
    others = xp.zeros_like(one) if own is None else like(own, weight) - one
    n = one if mu.ndim == 1 else one[:, None]
    if mu.ndim == 2:
        weight, others = weight[:, None], others[:, None]
    sites, curvature = problem.likelihood.sites(y, mu, v), problem.likelihood.curvature(y, mu, v)
    responding = belief
    with suppress(NotPositiveDefiniteError):  # as above: fall back on the spread under the belief
        responding = _responding(problem, belief, curvature)
    a = problem.latent(responding, rows_at=belief).spread
    share = weight * curvature * a
    usable = share <= _LARGEST_SHARE
    nothing = a / xp.where(usable, 1 - share, xp.ones_like(share))
    without = nothing / (1 + others * curvature * nothing)
    wider = v + without - nothing / (1 + (others + n) * curvature * nothing)
    moved = LeftOut(
        mu - n * without * (sites.b - sites.w * mu), wider, usable if mu.ndim == 1 else xp.all(usable, axis=1)
    )
    return _together(problem, responding, moments, sites, one, moved)


def _together(
    problem: Problem, responding: Any, moments: tuple[Array, Array], sites: Sites, unit: Array, apart: LeftOut
) -> LeftOut:
    """Leave-one-out moments by joint steps of all classes, from those of each class by itself."""
    mu, _ = moments
    if not (problem.likelihood.couples and problem.prior.is_gaussian and isinstance(problem.rows, ClasswiseRows)):
        return apart
    share = joint_share(problem, responding, moments, sites.b - sites.w * mu, unit, apart)
    return apart._replace(mu=mu + share * (apart.mu - mu))


def joint_share(
    problem: Problem,
    responding: Any,
    moments: tuple[Array, Array],
    slope: Array,
    unit: Array,
    apart: LeftOut,
) -> float:
    r"""How far rows that are left out move in a joint step of all classes, relative to a step of each class by itself.

    With the negative Hessian :math:`H_j` of each row in the means of its classes, and its weight :math:`c_j`, the
    Newton step of all weights (by classes) without row ``i`` solves

    .. math:: P\, x + \sum_j c_j\, \phi_j (H_j \phi_j^T x)^T - n\, \phi_i (H_i \phi_i^T x)^T = n\, \phi_i g_i^T.

    ``responding`` is the belief with the diagonals of :math:`H_j` alone. The system is solved by conjugate gradients
    for a few rows, and all rows go the mean share of these: about two thirds with three classes. The rows are drawn in
    proportion to the squares of their steps; steps are compared up to a shift that all classes share, which no
    probability depends on.
    """
    (mu, v), (X, y, weight, size), xp = moments, problem.table, namespace(moments[0])
    likelihood: Any = problem.likelihood
    hessian, diagonal = likelihood.hessian(y, mu, v), likelihood.curvature(y, mu, v)

    def tied(index: int, x: Array) -> Array:
        rows, features = slice(index * size, (index + 1) * size), problem.features(index)
        f = features.latent_of(x)
        return features.pulled(weight[rows, None] * (diagonal[rows] * f - bent(rows, f)))

    def bent(rows: slice, f: Array) -> Array:
        return likelihood.hessian_times(y[rows], tuple(part[rows] for part in hessian), f)

    def step_of(i: int) -> Array:
        row = slice(i, i + 1)
        features, one = problem.rows.lift(dense(X[row])), unit[row, None]

        def answer(x: Array) -> Array:
            own = one * bent(row, features.latent_of(x))
            return summed(sweep(partial(tied, x=x), problem.table.n_blocks, problem.n_jobs)) + features.pulled(own)

        towards = responding.shifted(features.pulled(one * slope[row]))
        return features.latent_of(step_together(answer, towards, responding))[0, :]

    steps = xp.where(apart.usable[:, None], mu - apart.mu, xp.zeros_like(mu))
    steps = to_numpy(steps - xp.mean(steps, axis=1, keepdims=True))
    some, times = np.unique(_by_squares(steps, to_numpy(weight)), return_counts=True)  # a long step is drawn repeatedly
    shares = [steps[i] @ to_numpy(step_of(i)) / (steps[i] @ steps[i]) for i in some]
    return float(np.average(shares, weights=times)) if shares else 1.0


def _by_squares(steps: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Indices of some rows, in proportion to weighted squares of their steps; the same however copies are counted."""
    squares = np.sum(steps**2, axis=1)
    order = np.argsort(squares, kind="stable")
    shares = np.cumsum((weight * squares)[order])
    if not 0 < shares[-1] < np.inf:
        return np.empty(0, dtype=int)
    return order[np.searchsorted(shares, (np.arange(_JOINTLY) + 0.5) / _JOINTLY * shares[-1])]


def thinned(problem: Problem, unit: Array, at_most: int = MOST_ROWS) -> tuple[Problem, Array]:
    """A problem with some of its rows, weighted to represent all: enough for a link. Rare classes keep more."""
    table = problem.table
    if table.n_rows <= at_most:
        return problem, unit
    y, weight = to_numpy(table.y), to_numpy(table.weight)
    classes = by_class(y)
    counts = allotted([len(rows) for rows in classes], at_most)
    chosen = [rows[scattered(len(rows), count)] for rows, count in zip(classes, counts, strict=True)]
    growth = [weight[rows].sum() / max(weight[some].sum(), 1e-300) for rows, some in zip(classes, chosen, strict=True)]
    rows = np.concatenate(chosen)
    some = table.rows(rows)
    factor = like(np.repeat(growth, list(map(len, chosen))), some.weight)
    return problem.over(some._replace(weight=factor * some.weight)), unit[rows]


def divided_out(
    latent: Latent, sites: Sites, response: Response, unit: Array, predicted: Predicted | None = None
) -> LeftOut:
    """Leave-one-out moments by the formulas of this module, row by row."""
    xp = namespace(latent.mu)
    slope = sites.b - sites.w * latent.mu
    unit = unit if latent.mu.ndim == 1 else unit[:, None]
    site_share, share = unit * sites.w * latent.spread, unit * response.curvature * response.spread
    usable = (site_share <= _LARGEST_SHARE) & (share <= _LARGEST_SHARE)
    kept, kept_site = (xp.where(usable, 1 - part, xp.ones_like(part)) for part in (share, site_share))
    if latent.mu.ndim == 2:
        usable = xp.all(usable, axis=1)
    if predicted is None:
        mu = latent.mu - unit * response.spread * slope / kept
        return LeftOut(mu, latent.leftover + latent.spread / kept_site, usable)
    share = predicted.shared / xp.where(latent.spread > 0, latent.spread, xp.ones_like(latent.spread))
    mu = predicted.latent.mu - unit * share * response.spread * slope / kept
    return LeftOut(mu, predicted.latent.v + unit * sites.w * predicted.shared**2 / kept_site, usable)


def _predicted(problem: Problem, belief: Belief) -> Predicted | None:
    """Predictions for rows with missing entries; None if rows have none."""
    if not isinstance(problem.rows, IncompleteRows):
        return None
    seen = problem.seen(belief)

    def one_block(index: int) -> tuple[Array, ...]:
        features = problem.features(index)
        assert isinstance(features, IncompleteFeatures)
        before, after = features.foreseen(seen), problem.settled(index, seen)
        assert isinstance(after, FilledFeatures)
        return *before.moments(seen), after.shared(before, seen)

    *latent, shared = gather_rows(sweep(one_block, problem.table.n_blocks, problem.n_jobs))
    return Predicted(Latent(*latent), shared)


def _responding(problem: Problem, belief: Belief, curvature: Array) -> Belief:
    """The belief with the rows' curvatures in its covariance, in place of the precisions of their sites."""
    weight = problem.table.weight if curvature.ndim == 1 else problem.table.weight[:, None]
    weighted, seen = weight * curvature, problem.seen(belief)
    size = problem.table.block_rows

    def one_block(index: int) -> tuple[Array, Array]:
        k = weighted[index * size : (index + 1) * size]
        return problem.settled(index, seen).gather(k, namespace(k).zeros_like(k))

    G, h = summed(sweep(one_block, problem.table.n_blocks, problem.n_jobs))
    return problem.prior.given(G, h, belief.hyper)
