"""Markov chains, and their iterations, which all chains take together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, combined, like, precision_of, to_numpy
from ..chunks import gather_rows, sweep
from ..engine import Problem
from ..rows import Features, FilledFeatures, Latent
from .augmentation import Augmentation, Site, augmentation_of
from .copies import Copies, copies_of
from .left_out import Without, as_predicted, without_rows, without_units

#: The largest precision of a site.  In sums, more would swamp all other sites, and make draws hardly narrower.
_LARGEST_PRECISION = 1e10
#: Chains start this many times as far from a belief's mean as a draw from it, since overdispersion reveals mixing.
_OVERDISPERSION = 2.0
#: The least work of an iteration, rows times squared weights, for which each chain gets its own thread.
_WORTH_A_THREAD = 50_000_000


class Turn(NamedTuple):
    """One iteration of a chain; ``given_scales`` is the belief from which the weights were drawn."""

    weights: np.ndarray
    seen: np.ndarray
    hyper: Any
    log_likelihood: float
    given_scales: Any
    without: Without | None


class ChainData(NamedTuple):
    """Data shared by all chains of a problem, with labels and weights block by block.

    If rows have ``copies``, labels and weights are those of the copies; the ``unit`` remains that of the rows.
    """

    problem: Problem
    augmentation: Augmentation
    y: list[np.ndarray]
    weight: list[np.ndarray]
    unit: list[np.ndarray]
    reference: Array
    copies: list[Copies] | None = None

    @classmethod
    def of(cls, problem: Problem, unit: Array | None) -> ChainData:
        table = problem.table
        y, weight = to_numpy(table.y), to_numpy(table.weight)
        unit = np.minimum(weight, 1) if unit is None else to_numpy(unit)
        copies = copies_of(table, problem.rows, weight, unit)
        cuts = np.arange(table.block_rows, table.n_rows, table.block_rows)
        y, weight, unit = (np.split(part, cuts) for part in (y, weight, unit))
        if copies is not None:
            y = [labels[own.rows] for labels, own in zip(y, copies, strict=True)]
            weight = [own.shared(c) for c, own in zip(weight, copies, strict=True)]
        return cls(problem, augmentation_of(problem.likelihood), y, weight, unit, table.reference, copies)

    def features(self, index: int) -> Features:
        """The features of a block, with a row for each copy."""
        if self.copies is None:
            return self.problem.features(index)
        X, _, _ = self.problem.table.block(index)
        return self.problem.rows.lift(X[self.copies[index].rows])

    @property
    def rounding(self) -> float:
        return precision_of(self.reference)


class _Block(NamedTuple):
    """The result of one block of rows in an iteration: ``natural`` are its sums ``(G, h)`` of the ``spared`` sites,
    from which leftovers are integrated out; ``features`` is None unless entries were drawn."""

    natural: tuple[Any, Array]
    log_likelihood: float
    site: Site
    spared: Site
    features: Features | None
    without: Without | None


class Chain:
    """The state of a chain: weights, what the prior infers besides them, and the sites of each block's rows."""

    def __init__(self, data: ChainData, start: Any, rng: np.random.Generator) -> None:
        self._data, self._prior = data, data.problem.prior
        # One stream for each block and one for the weights, so that draws do not depend on the number of threads.
        streams: list[Any] = rng.spawn(1 + len(data.y))
        self._rng, self._rngs = streams[0], streams[1:]
        mean = to_numpy(start.mean)
        weights = mean + _OVERDISPERSION * (start.sample(1, self._rng)[0] - mean)
        self._hyper, self._seen = start.hyper, self._prior.seen_weights(weights, start.hyper)
        self._given_scales: Any = None
        self._leaving: Any = None
        self._sites = [data.augmentation.start(y, c) for y, c in zip(data.y, data.weight, strict=True)]
        self._spared = self._sites
        self._features: list[Features | None] = [None] * len(data.y)
        self._blocks: list[_Block] = []
        self._natural: Any = None

    def begin(self, leave_out: bool) -> None:
        """Starts an iteration, discarding an unfinished one; ``leave_out`` takes effect once there is a belief."""
        self._blocks, self._natural, self._leaving = [], None, None
        if leave_out and self._given_scales is not None:
            self._leaving = self._prior.effective(self._given_scales).seen_by(self._data.reference)

    def visit(self, index: int, features: Features) -> _Block:
        """Draws missing entries, leftovers and scales for one block of rows."""
        data, rng = self._data, self._rngs[index]
        y, c, site = data.y[index], data.weight[index], self._sites[index]
        without = None if self._leaving is None else self._without(index, features)
        drawn = features.drawn(self._seen, self._hyper, self._spared[index], c, rng)
        leftover = to_numpy(drawn.leftover)
        f = to_numpy(drawn.at(self._seen))
        f = f + site.draw_leftover(f, leftover, rng)
        site = data.augmentation.drawn(y, f, c, min(_LARGEST_PRECISION, 0.01 / data.rounding), rng)
        spared = site.spared(leftover)
        natural = drawn.gather(*(like(part, drawn.leftover) for part in spared))
        log_likelihood = float(c @ data.problem.likelihood.log_density(y, f))
        return _Block(natural, log_likelihood, site, spared, None if drawn is features else drawn, without)

    def hear(self, block: _Block) -> None:
        """Takes the next block; sums are added immediately, since those of many blocks may not fit in memory."""
        self._natural = block.natural if self._natural is None else combined(self._natural, 1, block.natural)
        self._blocks.append(block._replace(natural=()))

    def conclude(self) -> Turn:
        """Draws the weights given all sites, then everything else given the weights."""
        (G, h), blocks = self._natural, self._blocks
        belief = self._prior.given(G, h, self._hyper)
        weights, hyper = self._prior.drawn(G, h, belief, self._rng)
        seen = self._prior.seen_weights(weights, hyper)
        without = [block.without for block in blocks if block.without is not None]
        self._sites, self._spared = [block.site for block in blocks], [block.spared for block in blocks]
        self._features = [block.features for block in blocks]
        self._given_scales, self._hyper, self._seen = belief, hyper, seen
        log_likelihood = sum(block.log_likelihood for block in blocks)
        return Turn(weights, seen, hyper, log_likelihood, belief, Without(*gather_rows(without)) if without else None)

    def _without(self, index: int, features: Features) -> Without:
        """Leave-one-out moments of rows, with the features from which the belief was computed."""
        data, belief, made_with = self._data, self._leaving, self._features[index] or features
        latent = Latent(*map(to_numpy, made_with.moments(belief)))
        rows = self._sites[index], data.y[index], data.weight[index], data.unit[index]
        predicted = as_predicted(features, made_with, belief)
        if data.copies is None or predicted is None:
            return without_rows(data.augmentation, latent, *rows, data.rounding, predicted)
        assert isinstance(made_with, FilledFeatures)
        columns = made_with.values, made_with.cross(belief)[:, : made_with.n_columns]
        return without_units(data.augmentation, data.copies[index], latent, predicted, columns, *rows, data.rounding)


def take_turns(chains: Sequence[Chain], data: ChainData, leave_out: bool) -> list[Turn]:
    """One iteration of every chain, in threads.

    A block is lifted once for all chains.  If the table has only one block, chains run in parallel if that is worth it.
    """
    problem = data.problem
    table, n_jobs = problem.table, problem.n_jobs
    alone = table.n_blocks == 1
    if alone and table.n_rows * problem.rows.n_weights**2 < _WORTH_A_THREAD:
        n_jobs = 1
    groups = [[chain] for chain in chains] if alone else [list(chains)]
    tasks = [(index, group) for index in range(table.n_blocks) for group in groups]

    def visit(task: int) -> list[_Block]:
        index, group = tasks[task]
        features = data.features(index)
        return [chain.visit(index, features) for chain in group]

    for chain in chains:
        chain.begin(leave_out)
    for (_, group), blocks in zip(tasks, sweep(visit, len(tasks), n_jobs), strict=True):
        for chain, block in zip(group, blocks, strict=True):
            chain.hear(block)
    return list(sweep(lambda k: chains[k].conclude(), len(chains), n_jobs))
