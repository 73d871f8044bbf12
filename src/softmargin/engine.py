r"""The computation that all inference methods share.

A pass over the rows turns a belief into `Stats`, and the prior turns these sums into the next belief. Every method in
this package maximises the same `objective`: the bound of the rows minus one KL divergence.

Because Stats are sums, blocks, threads, devices and machines only determine where they are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .arrays import Array, combined, namespace
from .chunks import Table, dense, gather_rows, summed, sweep
from .gaussian import Belief
from .likelihoods import Likelihood, Sites
from .priors import Prior
from .rows import ClasswiseFeatures, ClasswiseRows, Features, Latent, Rows
from .sampling import scattered
from .together import change_together, step_together

#: Features are kept between passes if they take no more bytes than this.
_CACHE_BYTES = 256 * 2**20
#: The relative difference allowed between the total weights of two readings of a source.
_SAME_WEIGHT = 1e-6
#: With rows of a source, the coupling between classes is computed on a sample of at least this many rows.
_LEAST_ANSWERING = 8192


class Stats(NamedTuple):
    r"""Sums over rows: :math:`G = \sum w \phi\phi^T`, :math:`h = \sum b \phi`, the bound :math:`\sum l`, total weight.

    Structured rows may store ``G`` as a tuple of arrays, which the matching prior understands.
    ``along`` is the part of ``h`` that comes from the coupling between classes (`together`), 0 for plain sums.
    """

    G: Any
    h: Array
    bound: Array
    n: Array
    along: Any = 0.0


def add(first: Stats, second: Stats) -> Stats:
    """The Stats of the union of two sets of rows."""
    return combined(first, 1, second)


class Settled(NamedTuple):
    """A block of rows at one belief: features with missing entries inferred, moments, sites, and the cost in ``l``."""

    features: Any
    latent: Latent
    sites: Sites
    cost: Any

    @classmethod
    def at(cls, features: Any, likelihood: Likelihood, belief: Any, y: Array, weight: Array) -> Settled:
        features, cost = features.settled(belief, likelihood, y, weight)
        latent = features.moments(belief)
        return cls(features, latent, likelihood.sites(y, latent.mu, latent.v), cost)

    def stats(self, weight: Array) -> Stats:
        xp, (l, w, b) = namespace(weight), self.sites  # noqa: E741
        each = weight if w.ndim == 1 else weight[:, None]
        G, h = self.features.gather(each * w, each * b)
        return Stats(G, h, xp.sum(weight * (l - self.cost)), xp.sum(weight))


def block_stats(features: Features, likelihood: Likelihood, belief: Belief, y: Array, weight: Array) -> Stats:
    """The Stats of one block at one belief. A row of weight ``k`` counts ``k`` times."""
    return Settled.at(features, likelihood, belief, y, weight).stats(weight)


class BlockStats(NamedTuple):
    """`block_stats` at one belief, as a function of unlifted rows: a pass over a source sums its values."""

    rows: Rows
    likelihood: Likelihood
    seen: Belief

    def __call__(self, X: Array, y: Array, weight: Array) -> Stats:
        return block_stats(self.rows.lift(dense(X)), self.likelihood, self.seen, y, weight)


def objective(bound: Array | float, prior: Prior, belief: Belief) -> float:
    """What every inference method maximises: the bound of the rows minus the KL divergence of belief from prior."""
    return float(bound) - float(prior.kl(belief))


@dataclass
class Problem:
    """Data, rows, likelihood and prior, ready for passes; features are kept if they take at most ``cache_bytes``.

    If the table is only a sample, ``whole`` gives access to all rows: their number ``n_rows``, and ``total``, which
    sums a function over blocks. Passes then go over all rows, and everything else uses the table, whose weights are
    scaled so that it represents them.
    """

    table: Table
    rows: Rows
    likelihood: Likelihood
    prior: Prior
    n_jobs: int = 1
    whole: Any = None
    cache_bytes: int | None = None
    _kept: dict[int, Features] = field(default_factory=dict, repr=False)
    _some: Problem | None = field(default=None, repr=False)

    def stats(self, belief: Belief) -> Stats:
        """One pass over all rows."""
        seen = self.seen(belief)
        if self.whole is not None:
            return self._as_before(self.whole.total(BlockStats(self.rows, self.likelihood, seen)))

        def one_block(index: int) -> Stats:
            _, y, weight = self.table.block(index)
            return block_stats(self.features(index), self.likelihood, seen, y, weight)

        return summed(sweep(one_block, self.table.n_blocks, self.n_jobs))

    def _as_before(self, stats: Stats | None) -> Stats:
        """Returns the sums over all rows of a source, after checking that their total weight has not changed."""
        expected = float(self.table.weight.sum())
        if stats is None or not abs(float(stats.n) - expected) <= _SAME_WEIGHT * expected:
            raise ValueError(
                "The source returned different rows than when it was first read. Rows must not change during a fit, "
                "and a function for chunks.Batches must start from the beginning whenever it is called."
            )
        return stats

    @property
    def n_rows(self) -> int:
        """The number of all rows, not only those of the table."""
        return self.table.n_rows if self.whole is None else self.whole.n_rows

    def over(self, table: Table) -> Problem:
        """The same problem with other rows, all of them in memory."""
        return replace(self, table=table, whole=None, _kept={}, _some=None)

    @property
    def goes_together(self) -> bool:
        """Whether the likelihood couples classes, and all of them can be updated jointly (`together`)."""
        keeps = self.whole is not None or self._keeps_features
        return self.likelihood.couples and self.prior.is_gaussian and keeps and isinstance(self.rows, ClasswiseRows)

    def stats_together(self, belief: Any) -> Stats:
        """One pass over all rows; if classes are updated jointly, ``h`` leads to the step of all of them together."""
        if not self.goes_together:
            return self.stats(belief)
        some, answer = self._answering.stats_and_answer(belief)
        alone = self.prior.given(some.G, some.h, belief.hyper)
        if self.whole is None:
            stats, change = some, answer(step_together(answer, alone, belief))
        else:
            stats = self.stats(belief)
            change = change_together(answer, alone, self.prior.given(stats.G, stats.h, belief.hyper), belief)
        along = tuple(change[:, k] for k in range(change.shape[1]))
        return stats._replace(h=combined(stats.h, 1, along), along=along)

    @property
    def _answering(self) -> Problem:
        """The rows on which the coupling between classes is computed: all, or a weighted sample of a source."""
        if self.whole is None:
            return self
        if self._some is None:
            most = max(_LEAST_ANSWERING, self._room // (self.rows.width * self.table.reference.itemsize))
            some = self.table.rows(scattered(self.table.n_rows, most))
            growth = float(self.table.weight.sum()) / float(some.weight.sum())
            self._some = self.over(some._replace(weight=growth * some.weight))
        return self._some

    def stats_and_answer(self, belief: Any) -> tuple[Stats, Callable[[Array], Array]]:
        """One pass over the rows in memory, and the product with their coupling between classes (`together`)."""
        likelihood: Any = self.likelihood
        seen, ties = self.seen(belief), {}

        def one_block(index: int) -> Stats:
            _, y, weight = self.table.block(index)
            settled = Settled.at(self.features(index), likelihood, seen, y, weight)
            ties[index] = weight[:, None], likelihood.ties(y, settled.latent.mu, settled.latent.v, settled.sites)
            return settled.stats(weight)

        def answer_of(index: int, x: Array) -> Array:
            features, y, (weight, tie) = self.features(index), self.table.block(index)[1], ties[index]
            assert isinstance(features, ClasswiseFeatures)
            return features.pulled(weight * likelihood.answer(y, tie, features.latent_of(x)))

        def answer(x: Array) -> Array:
            return sum(sweep(lambda index: answer_of(index, x), self.table.n_blocks, self.n_jobs))

        return summed(sweep(one_block, self.table.n_blocks, self.n_jobs)), answer

    @property
    def longest_step(self) -> float:
        """The greatest length of a step; 1 is a full step, to the sums that a pass returned."""
        return 1.0 if self.goes_together and self.likelihood.is_bound else self.likelihood.longest_step

    def latent(self, belief: Belief, rows_at: Belief | None = None) -> Latent:
        """The latent moments of every row, its missing entries inferred at this belief or at ``rows_at``."""
        seen, at = self.seen(belief), self.seen(belief if rows_at is None else rows_at)
        parts = sweep(lambda index: self.settled(index, at).moments(seen), self.table.n_blocks, self.n_jobs)
        return Latent(*gather_rows(parts))

    def settled(self, index: int, seen: Belief) -> Features:
        """The features of a block, missing entries inferred at a belief that is already in the form which rows use."""
        _, y, weight = self.table.block(index)
        return self.features(index).settled(seen, self.likelihood, y, weight)[0]

    def features(self, index: int) -> Features:
        if index in self._kept:
            return self._kept[index]
        X, _, _ = self.table.block(index)
        features = self.rows.lift(X)
        if self._keeps_features:
            self._kept[index] = features
        return features

    @property
    def _keeps_features(self) -> bool:
        return self.table.n_rows * self.rows.width * self.table.reference.itemsize <= self._room

    @property
    def _room(self) -> int:
        return _CACHE_BYTES if self.cache_bytes is None else self.cache_bytes

    def seen(self, belief: Belief) -> Belief:
        """The belief in the form that rows use: its effective moments, in the dtype and on the device of the data."""
        return self.prior.effective(belief).seen_by(self.table.reference)
