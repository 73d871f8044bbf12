r"""Priors of several kinds of weights: fixed effects, selected or shrunk; random effects, possibly nested; splines.

The weights are those of `softmargin.arrow`: first the nested levels of groups, then the dense core, which holds fixed
effects and parts with their own covariance (splines, crossed factors).  Each kind has a prior that gives an expected
precision and is updated from the moments of its weights.  All weights together have one Gaussian, from one solve.

With inclusion variables, rows see :math:`\gamma \circ v`, so the precision is :math:`G \circ \Omega + P` with
:math:`\Omega = E\, \gamma \gamma^T`, and the linear term :math:`E\gamma \circ h`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import arrow
from ..arrays import Array, cholesky
from ..arrow import Layout
from ..gaussian import from_natural, kl
from .random_effects import GroupPrior
from .ridge import Ridge, start_from_precision
from .selection import LaplaceZero
from .variance import VarianceComponents

#: Updates of everything else inside one update of the weights; they need no pass over the data.
_INNER_UPDATES = 5
_INNER_TOLERANCE = 1e-4
#: The least log-odds at which an excluded column is tried again.
_LEAST_ODDS = -3.0


class Part(NamedTuple):
    """Weights of the core with their own covariance: ``groups`` groups of as many as the prior has columns."""

    start: int
    groups: int
    prior: GroupPrior

    @property
    def where(self) -> np.ndarray:
        """The index of each weight in the core: (groups, columns)."""
        return self.start + np.arange(self.groups * self.prior.size).reshape(self.groups, self.prior.size)


class Inferred(NamedTuple):
    """What is inferred besides the weights: for the fixed effects, for each part, and for each level."""

    fixed: Any
    parts: tuple[Any, ...] = ()
    levels: tuple[Any, ...] = ()


class Moments(NamedTuple):
    """Moments of the core's weights, and of those of each level, by group."""

    mean: np.ndarray
    covariance: np.ndarray
    levels: tuple[tuple[np.ndarray, np.ndarray], ...]


class Structured(NamedTuple):
    """Fixed effects and then parts in the core, and outside it levels of groups, which need a ``layout``."""

    fixed: Ridge | VarianceComponents | LaplaceZero
    parts: tuple[Part, ...] = ()
    levels: tuple[GroupPrior, ...] = ()
    layout: Layout | None = None
    is_plain = False

    @property
    def is_gaussian(self) -> bool:
        return not self._selects

    def start(self, reference: Array) -> tuple[Any, Array]:
        """Raises vague weights to unit precision, as other priors do."""
        _, core = self._precision(self._begin())
        diagonal = core if core.ndim == 1 else np.diagonal(core)
        G, h = start_from_precision(diagonal, diagonal)
        if self.layout is None:
            return G, h
        (levels, _), h = arrow.zeros(self.layout)
        return (levels, G), h

    def update(self, G: Any, h: Array, belief: Any = None) -> Any:
        """Alternates updates of the weights and of all else, with MacKay's steps (``leap``) where available."""
        hyper = self._begin() if belief is None else belief.hyper
        for turn in range(_INNER_UPDATES + self._n_fixed):
            weights = self.given(G, h, hyper)
            moments = self._moments(weights)
            before, hyper = hyper, self._chosen(self._learned(moments, hyper, leap=True), G, h, weights, moments)
            # More than a few turns are worthwhile only while columns enter or leave: about one for each.
            if self._close(before, hyper) or (turn + 1 >= _INNER_UPDATES and not self._columns_moved(before, hyper)):
                break
        weights = self.given(G, h, hyper)
        return weights._replace(hyper=self._learned(self._moments(weights), hyper))

    def alternatives(self, G: Any, h: Array, belief: Any) -> list[Any]:
        """Beliefs that differ by the inclusion of one column, the most promising first.

        Ascent does not find these.  The weight of an excluded column is as uncertain as under the prior, and the sites
        of the rows have adapted to the included ones.
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
        """The same prior: any weight may depend on any other, so none is held."""
        return self

    def given(self, G: Any, h: Array, hyper: Inferred) -> Any:
        levels, core = self._precision(hyper)
        G, h = self._through_inclusion(G, h, hyper)
        if self.layout is None:
            return from_natural(G + (np.diag(core) if core.ndim == 1 else core), h, hyper)
        return arrow.from_natural(arrow.with_precision(G, levels, core), h, self.layout, hyper)

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        """Variances are updated from the weights; with inclusion variables, everything about fixed effects is kept."""
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
        """With all columns included: which ones do not matter is clear once the others are fitted."""
        return self._replace(fixed=self.fixed._replace(held=True)) if isinstance(self.fixed, LaplaceZero) else None

    def felt(self, belief: Any, dG: Any, dh: Array) -> np.ndarray:
        return belief.felt(dG, dh)

    def promised(self, G: Any, dG: Any, dh: Array, belief: Any) -> float:
        r"""As `softmargin.steps.promised`, with the part of the covariances in units of each weight's own deviation."""
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
        """The covariances of the effects of unseen groups, for each level and for each part."""
        levels = tuple(prior.population(old, drawn) for prior, old in zip(self.levels, hyper.levels, strict=True))
        return levels, tuple(p.prior.population(old, drawn) for p, old in zip(self.parts, hyper.parts, strict=True))

    # Helpers --------------------------------------------------------------------------------------------------------

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
        """The expected precision of each level's columns, and of the core: a matrix if there are parts."""
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
        """``G`` and ``h`` for the weights ``v``, before multiplication by inclusion variables."""
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
        """Updates the inclusion variables given the weights."""
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
        """Draws the inclusion variables and their weights given all others."""
        if not isinstance(self.fixed, LaplaceZero):
            return weights, hyper
        core, G_core, pull = self._core, G, h[self._core]
        if self.layout is not None:
            G_core, pull = G[1], pull - arrow.pulled_from_core(G, weights, self.layout)
        weights = weights.copy()
        weights[core], fixed = self.fixed.rechosen(hyper.fixed, G_core, pull, weights[core], rng)
        return weights, hyper._replace(fixed=fixed)

    def _columns_moved(self, before: Inferred, after: Inferred) -> bool:
        """Whether any column entered or left."""
        return self._selects and not np.array_equal(before.fixed.included > 0.5, after.fixed.included > 0.5)

    def _close(self, before: Inferred, after: Inferred) -> bool:
        """Whether the last turn hardly changed anything."""
        (levels, core), (new_levels, new_core) = self._precision(before), self._precision(after)
        pairs = [(core, new_core), *zip(levels, new_levels, strict=True)]
        if self._selects:
            pairs.append((1 + self._inclusion(before), 1 + self._inclusion(after)))
        return all(np.all(np.abs(new - old) <= _INNER_TOLERANCE * np.abs(old).max(initial=0)) for old, new in pairs)


def _root(covariance: np.ndarray) -> np.ndarray:
    """The lower triangular ``R`` with ``R'R`` equal to a covariance, even if some of its variances are tiny."""
    sd = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
    correlation = covariance / np.outer(sd, sd)
    correlation[np.diag_indices_from(correlation)] = 1 + 1e-14
    return cholesky(correlation[::-1, ::-1]).T[::-1, ::-1] * sd
