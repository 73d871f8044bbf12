r"""Priors of weights of several kinds: fixed effects, chosen or shrunk; random effects, in groups of groups; splines.

The weights are those of `softmargin.arrow`: nested levels of groups first, then the core, which is dense: fixed
effects, then parts with a covariance of their own (splines, crossed factors).  Each kind has a prior that says what
precision it expects and learns from the moments of its weights; all weights together are one Gaussian, and one solve.

With inclusion variables the rows see :math:`\gamma \circ v`, so the precision is :math:`G \circ \Omega + P` with
:math:`\Omega = E\, \gamma \gamma^T`, and the linear term :math:`E\gamma \circ h`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import arrow
from ..arrays import Array, cholesky
from ..arrow import Layout
from ..gaussian import from_natural, kl
from .covariance import GroupPrior
from .ridge import Ridge, start_from_precision
from .selection import LaplaceZero
from .variance import VarianceComponents

#: Updates of all else inside one update of the weights: they cost no pass over the data.
_INNER_UPDATES = 5
_INNER_TOLERANCE = 1e-4
#: The logarithm of the odds from which a column that is out is worth another look.
_LEAST_ODDS = -3.0


class Part(NamedTuple):
    """Weights of the core with a covariance of their own: ``groups`` times as many as the prior has columns."""

    start: int
    groups: int
    prior: GroupPrior

    @property
    def where(self) -> np.ndarray:
        """The place of each weight in the core: (groups, columns)."""
        return self.start + np.arange(self.groups * self.prior.size).reshape(self.groups, self.prior.size)


class Inferred(NamedTuple):
    """What is believed beside the weights: of the fixed effects, of each part, of each level."""

    fixed: Any
    parts: tuple[Any, ...] = ()
    levels: tuple[Any, ...] = ()


class Moments(NamedTuple):
    """Of the core's weights, and of each level's, by group."""

    mean: np.ndarray
    covariance: np.ndarray
    levels: tuple[tuple[np.ndarray, np.ndarray], ...]


class Structured(NamedTuple):
    """Fixed effects first in the core, parts after them, and levels of groups around it, which need a ``layout``."""

    fixed: Ridge | VarianceComponents | LaplaceZero
    parts: tuple[Part, ...] = ()
    levels: tuple[GroupPrior, ...] = ()
    layout: Layout | None = None
    is_plain = False

    @property
    def is_gaussian(self) -> bool:
        return not self._selects

    def start(self, reference: Array) -> tuple[Any, Array]:
        """Vague weights are lifted to unit precision, as elsewhere."""
        _, core = self._precision(self._begin())
        diagonal = core if core.ndim == 1 else np.diagonal(core)
        G, h = start_from_precision(diagonal, diagonal)
        if self.layout is None:
            return G, h
        (levels, _), h = arrow.zeros(self.layout)
        return (levels, G), h

    def update(self, G: Any, h: Array, belief: Any = None) -> Any:
        """Weights and all else by turns, leaping where that is known to end nearer."""
        hyper = self._begin() if belief is None else belief.hyper
        for turn in range(_INNER_UPDATES + self._n_fixed):
            weights = self.given(G, h, hyper)
            moments = self._moments(weights)
            before, hyper = hyper, self._chosen(self._learned(moments, hyper, leap=True), G, h, weights, moments)
            # Only where columns come and go is it worth more turns than a few, about one for each of them.
            if self._close(before, hyper) or (turn + 1 >= _INNER_UPDATES and not self._columns_moved(before, hyper)):
                break
        weights = self.given(G, h, hyper)
        return weights._replace(hyper=self._learned(self._moments(weights), hyper))

    def alternatives(self, G: Any, h: Array, belief: Any) -> list[Any]:
        """The belief with one column in that was out, or out that was in: those first for which most speaks.

        Ascent does not find them.  A column that is out has a weight as wide as the prior, and one that is in has rows
        whose sites have settled around it.
        """
        if not isinstance(self.fixed, LaplaceZero):
            return []
        n, (mean, S, _), fixed = self.fixed.n_columns, self._moments(belief), belief.hyper.fixed
        seen, G_core, pull = self.effective(belief).mean, G, h[self._core]
        if self.layout is not None:
            G_core, pull = G[1], pull - arrow.pulled_from_core(G, seen, self.layout)
        odds = self.fixed.odds_alone(fixed, G_core, pull, seen[self._core])
        included, weakness = fixed.included > 0.5, np.diagonal(S)[:n] / np.maximum(mean[:n] ** 2, 1e-300)
        outside = np.flatnonzero(~included & (odds > _LEAST_ODDS))
        order = [*outside[np.argsort(-odds[outside])], *np.flatnonzero(included)[np.argsort(-weakness[included])]]
        flips = (belief.hyper._replace(fixed=self.fixed.flipped(fixed, int(column))) for column in order)
        return [belief._replace(hyper=hyper) for hyper in flips]

    def about(self, belief: Any, other: Any) -> Structured:
        """Any weight may answer to any other."""
        return self

    def given(self, G: Any, h: Array, hyper: Inferred) -> Any:
        levels, core = self._precision(hyper)
        G, h = self._through_inclusion(G, h, hyper)
        if self.layout is None:
            return from_natural(G + (np.diag(core) if core.ndim == 1 else core), h, hyper)
        return arrow.from_natural(arrow.with_precision(G, levels, core), h, self.layout, hyper)

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        """Variances follow the weights; of fixed effects that are chosen all stays as it is."""
        before: Inferred = belief.hyper
        hyper = self._learned(self._moments(belief), before)
        if self._selects:
            hyper = hyper._replace(fixed=before.fixed)
        (levels, core), (new_levels, new_core) = self._precision(before), self._precision(hyper)
        lost = core - new_core
        if self.layout is None:
            return G + (np.diag(lost) if lost.ndim == 1 else lost), belief._replace(hyper=hyper)
        gone = tuple(old - new for old, new in zip(levels, new_levels, strict=True))
        return arrow.with_precision(G, gone, lost), belief._replace(hyper=hyper)

    def effective(self, belief: Any) -> Any:
        r"""With inclusion variables, the moments of :math:`\gamma \circ v`:
        :math:`\Omega \circ (S + m m^T) - E\gamma E\gamma^T \circ m m^T`.
        """
        if not self._selects:
            return belief
        inclusion = self._inclusion(belief.hyper)
        mean, S, _ = self._moments(belief)
        seen = inclusion * mean
        second = np.outer(inclusion, inclusion) * S
        second[np.diag_indices_from(second)] = inclusion * (np.diagonal(S) + mean**2) - seen**2
        root = _root(second)
        if self.layout is None:
            return belief._replace(mean=seen, root=root)
        return arrow.through_core(belief, inclusion, root)

    def kl(self, belief: Any) -> Array:
        hyper: Inferred = belief.hyper
        log_precision = self.fixed.expected_log_precision(hyper.fixed)
        divergence = self.fixed.divergence(hyper.fixed)
        for part, of_part in zip(self.parts, hyper.parts, strict=True):
            log_precision += part.groups * part.prior.expected_log_precision(of_part)
            divergence += part.prior.divergence(of_part)
        for index, (prior, of_level) in enumerate(zip(self.levels, hyper.levels, strict=True)):
            log_precision += self._layout.sizes[index][0] * prior.expected_log_precision(of_level)
            divergence += prior.divergence(of_level)
        levels, core = self._precision(hyper)
        precision = core if self.layout is None else (levels, core)
        return kl(belief, precision, log_precision) + divergence

    def rough(self) -> Structured | None:
        """With every column in: what does not matter is known once the others are."""
        return self._replace(fixed=self.fixed._replace(held=True)) if isinstance(self.fixed, LaplaceZero) else None

    def felt(self, belief: Any, dG: Any, dh: Array) -> np.ndarray:
        return belief.felt(dG, dh)

    def promised(self, G: Any, dG: Any, dh: Array, belief: Any) -> float:
        r"""As `softmargin.steps.promised`, the part of the covariances in units of each weight's own deviation."""
        shift = dh - arrow.times(dG, belief.mean, self._layout)
        answer = self.given(G, shift, belief.hyper).mean
        n = len(shift)
        spread = belief.felt(dG, dh)[:-n]
        return 0.5 * float(spread @ spread + shift @ answer)

    def drawn(self, G: Any, h: Array, belief: Any, rng: np.random.Generator) -> tuple[np.ndarray, Inferred]:
        weights, hyper = self._rechosen(belief.hyper, G, h, belief.sample(1, rng)[0], rng)
        core = weights[self._core]
        n_fixed = self._n_fixed
        return weights, Inferred(
            self.fixed.redrawn(core[:n_fixed], hyper.fixed, rng),
            tuple(p.prior.redrawn(core[p.where], old, rng) for p, old in zip(self.parts, hyper.parts, strict=True)),
            tuple(
                prior.redrawn(weights[self._layout.of_level(index)].reshape(self._layout.sizes[index]), old, rng)
                for index, (prior, old) in enumerate(zip(self.levels, hyper.levels, strict=True))
            ),
        )

    def seen_weights(self, weights: np.ndarray, hyper: Inferred) -> np.ndarray:
        if not self._selects:
            return weights
        seen = weights.copy()
        seen[self._core] *= self._inclusion(hyper)
        return seen

    def population(self, hyper: Inferred, drawn: bool = False) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """The covariances of groups that nobody has seen: of each level, and of each part."""
        levels = tuple(prior.population(old, drawn) for prior, old in zip(self.levels, hyper.levels, strict=True))
        return levels, tuple(p.prior.population(old, drawn) for p, old in zip(self.parts, hyper.parts, strict=True))

    # The pieces -----------------------------------------------------------------------------------------------------

    @property
    def _selects(self) -> bool:
        return isinstance(self.fixed, LaplaceZero)

    @property
    def _layout(self) -> Layout:
        assert self.layout is not None
        return self.layout

    @property
    def _core(self) -> slice:
        return slice(None) if self.layout is None else self.layout.core

    @property
    def _n_fixed(self) -> int:
        fixed: Any = self.fixed
        return len(fixed.expected_precision(fixed.begin()))

    def _begin(self) -> Inferred:
        parts = tuple(part.prior.begin() for part in self.parts)
        return Inferred(self.fixed.begin(), parts, tuple(prior.begin() for prior in self.levels))

    def _precision(self, hyper: Inferred) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """The expected precision of each level's columns, and of the core: a matrix where there are parts."""
        levels = tuple(prior.expected_precision(old) for prior, old in zip(self.levels, hyper.levels, strict=True))
        core = self.fixed.expected_precision(hyper.fixed)
        if not self.parts:
            return levels, core
        last = self.parts[-1]
        whole = np.zeros((last.where[-1, -1] + 1,) * 2)
        n = len(core)
        whole[:n, :n] = np.diag(core) if core.ndim == 1 else core
        for part, old in zip(self.parts, hyper.parts, strict=True):
            where = part.where
            whole[where[:, :, None], where[:, None, :]] = part.prior.expected_precision(old)
        return levels, whole

    def _moments(self, belief: Any) -> Moments:
        levels = tuple(belief.level(index) for index in range(len(self.levels)))
        return Moments(belief.core_mean, belief.core_covariance, levels)

    def _learned(self, moments: Moments, hyper: Inferred, leap: bool = False) -> Inferred:
        mean, S, levels = moments
        n = self._n_fixed
        return Inferred(
            self.fixed.learned(mean[:n], np.diagonal(S)[:n], hyper.fixed, leap),
            tuple(
                p.prior.learned(mean[p.where], S[p.where[:, :, None], p.where[:, None, :]], old, leap)
                for p, old in zip(self.parts, hyper.parts, strict=True)
            ),
            tuple(
                prior.learned(*of_level, old, leap)
                for prior, of_level, old in zip(self.levels, levels, hyper.levels, strict=True)
            ),
        )

    def _inclusion(self, hyper: Inferred) -> np.ndarray:
        assert isinstance(self.fixed, LaplaceZero)
        inclusion = self.fixed.inclusion(hyper.fixed)
        return np.append(inclusion, np.ones(sum(part.where.size for part in self.parts)))

    def _through_inclusion(self, G: Any, h: Array, hyper: Inferred) -> tuple[Any, Array]:
        """``G`` and ``h`` as the weights themselves meet them, before they are chosen."""
        if not self._selects:
            return G, h
        inclusion = self._inclusion(hyper)
        second = np.outer(inclusion, inclusion)
        second[np.diag_indices_from(second)] = inclusion
        if self.layout is None:
            return G * second, inclusion * h
        h = h.copy()
        h[self._core] *= inclusion
        return arrow.scaled_core(G, second, inclusion), h

    def _chosen(self, hyper: Inferred, G: Any, h: Array, weights: Any, moments: Moments) -> Inferred:
        """The inclusion variables, given the weights."""
        if not isinstance(self.fixed, LaplaceZero):
            return hyper
        mean, S, _ = moments
        pull, G_core = h[self._core] * mean, G
        if self.layout is not None:
            pull, G_core = pull - arrow.coupling(G, weights), G[1]
        return hyper._replace(fixed=self.fixed.chosen(hyper.fixed, G_core, pull, S + np.outer(mean, mean)))

    def _rechosen(
        self, hyper: Inferred, G: Any, h: Array, weights: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, Inferred]:
        """Inclusion variables and their weights, drawn given all others."""
        if not isinstance(self.fixed, LaplaceZero):
            return weights, hyper
        core, G_core, pull = self._core, G, h[self._core]
        if self.layout is not None:
            G_core, pull = G[1], pull - arrow.pulled_from_core(G, weights, self.layout)
        weights = weights.copy()
        weights[core], fixed = self.fixed.rechosen(hyper.fixed, G_core, pull, weights[core], rng)
        return weights, hyper._replace(fixed=fixed)

    def _columns_moved(self, before: Inferred, after: Inferred) -> bool:
        """Whether any went or came."""
        return self._selects and not np.array_equal(before.fixed.included > 0.5, after.fixed.included > 0.5)

    def _close(self, before: Inferred, after: Inferred) -> bool:
        """Whether one more turn would hardly change anything."""
        (levels, core), (new_levels, new_core) = self._precision(before), self._precision(after)
        pairs = [(core, new_core), *zip(levels, new_levels, strict=True)]
        if self._selects:
            pairs.append((1 + self._inclusion(before), 1 + self._inclusion(after)))
        return all(np.all(np.abs(new - old) <= _INNER_TOLERANCE * np.abs(old).max(initial=0)) for old, new in pairs)


def _root(covariance: np.ndarray) -> np.ndarray:
    """The lower triangular ``R`` with ``R'R`` equal to a covariance, however small some of its variances are."""
    sd = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
    correlation = covariance / np.outer(sd, sd)
    correlation[np.diag_indices_from(correlation)] = 1 + 1e-14
    return cholesky(correlation[::-1, ::-1]).T[::-1, ::-1] * sd
