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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Array, NotPositiveDefiniteError, like, namespace, to_numpy
from .chunks import gather_rows, summed, sweep
from .engine import Problem
from .gaussian import Belief
from .likelihoods import Sites
from .rows import FilledFeatures, IncompleteFeatures, IncompleteRows, Latent
from .sampling import allotted, by_class, scattered

#: The largest usable share of a row in its own spread; beyond it the denominator ``1 - share`` is too small.
_LARGEST_SHARE = 0.99
#: Rows for fitting a link: enough for its few parameters; and if the fit ran out of time or was interrupted.
MOST_ROWS, ROWS_IN_HASTE = 20_000, 2048


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
    if problem.likelihood.site_is_curvature:
        return divided_out(latent, sites, Response(latent.spread, sites.w), unit, _predicted(problem, belief))
    curvature = problem.likelihood.curvature(y, latent.mu, latent.v)
    try:
        responding = _responding(problem, belief, curvature)
        response = Response(problem.latent(responding, rows_at=belief).spread, curvature)
    except NotPositiveDefiniteError:  # single precision and enormous weights: fall back on the sites
        response = Response(latent.spread, sites.w)
    return divided_out(latent, sites, response, unit, _predicted(problem, belief))


def left_out_of(moments: tuple[Array, Array], problem: Problem, belief: Belief, unit: Array) -> LeftOut:
    r"""The same for given latent ``moments`` of the rows, such as those of particles that have moved from the belief.

    A row's slope ``g`` and curvature ``k`` are those at its moments. The response of its mean to a slope without the
    row, with all of its weight ``W`` in the problem removed (which may represent other rows too), is computed from the
    features of the problem under these curvatures,

    .. math:: a_{-i} = \frac{a_k}{1 - W k a_k}, \quad \mu_{-i} = \mu - n\, a_{-i}\, g, \quad
              v_{-i} = v + a_{-i} - \frac{a_{-i}}{1 + n k a_{-i}},

    where ``n`` is the ``unit`` that is left out.
    """
    (mu, v), xp = moments, namespace(moments[0])
    y, weight, unit = problem.table.y, problem.table.weight, like(unit, problem.table.weight)
    if mu.ndim == 2:
        weight, unit = weight[:, None], unit[:, None]
    sites, curvature = problem.likelihood.sites(y, mu, v), problem.likelihood.curvature(y, mu, v)
    try:
        a = problem.latent(_responding(problem, belief, curvature), rows_at=belief).spread
    except NotPositiveDefiniteError:  # as above: fall back on the spread under the belief
        a = problem.latent(belief).spread
    share = weight * curvature * a
    usable = share <= _LARGEST_SHARE
    without = a / xp.where(usable, 1 - share, xp.ones_like(share))
    wider = v + without - without / (1 + unit * curvature * without)
    mu = mu - unit * without * (sites.b - sites.w * mu)
    return LeftOut(mu, wider, usable if mu.ndim == 1 else xp.all(usable, axis=1))


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
