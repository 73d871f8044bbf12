r"""Learning batch by batch without keeping past rows, for ``partial_fit``.

Stats are sums, so the sums of later rows can be added. Earlier rows are summarised by a single Gaussian factor,
:math:`t(u) = \exp(h^T u - u^T G u / 2)`, fixed as it was when they were seen. A new batch is
fitted with the past as part of the prior,

.. math:: \max_q\; \sum_{new} l(\mu_i, v_i) - KL(q \,\|\, p\, t / Z),

by the same guarded ascent as any fit (`Past` is a prior like any other), and then its own sums are added to the past.
With a Gaussian likelihood this is exact. With others, the sites of early rows were formed under a belief that did not
know the later ones, and rows beyond the margin of that belief contribute nothing: a stream sorted by class loses its
first class, so classes should be mixed within batches.

**Curvature.** A row's slope ``g`` in its latent mean changes at the rate of its curvature ``k`` as later rows move the
mean. So the row is stored as :math:`\exp((g + k \mu) f - k f^2 / 2)`. For the exact hinge and quadrature that is its
site. The sites of the augmented hinge and of Jaakkola and Jordan have more curvature (:math:`w > k`) and would tie the
mean to early batches. With ``k`` the means come closer to those of one fit, and standard deviations are wider. If the
likelihood couples classes, a row's curvature is a matrix of classes by classes. Its diagonal alone is too little for
differences between classes, by a third with three equally common ones, so later batches would move them too far. The
rest is in the `Coupling` of the stream, which is centred at the means of its belief.

**Accuracy.** Twenty batches were compared with one fit on all of their rows, for five real tables
(benchmarks/streaming.py). The latent means of the exact hinge differ by .2 to 2.4 of the fit's standard deviations,
those of the logistic likelihood by 0 to 1.4, and those of the augmented hinge by .3 to 14, where the standard
deviations themselves are too small. The test log loss is .007 greater on average.

**Forgetting.** Before a batch is added the past is downweighted, :math:`(G, h) \leftarrow (1 - forgetting) (G, h)`,
once per batch whatever its size: with b / N, about the last N rows count, in batches of b. With 1 every batch starts
afresh.

**Links.** Past rows are not available for leave-one-out, so each batch is scored by the belief before it
(prequentially), and a link is fitted to the latest scores. The first batch is scored by leave-one-out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, combined, namespace, to_numpy
from .chunks import summed, sweep
from .coupling import CoupledProblem, Coupling
from .engine import Problem
from .gaussian import Belief, ClassBelief
from .links import Link, LogisticLink, SoftmaxLink, fit_logistic_link, fit_softmax_link, log_losses
from .loo import left_out, thinned
from .monitor import Monitor
from .priors import Classwise, Prior
from .rows import ReducedRows, beneath
from .sampling import scattered
from .steps import Ascent, Natural, ascend

#: Scored rows that are kept for the link: in a stream, and from a fit that precedes it.
_RECORDED_ROWS, _BEGINNING_ROWS = 20_000, 2000
#: Rows with less than this share of the greatest weight are dropped from the record.
_FORGOTTEN = 1e-4


class Record(NamedTuple):
    """Latent moments of rows under a belief that had not seen them, with labels and weights; the latest come last."""

    mu: np.ndarray
    v: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def followed_by(self, new: Record, keep: float) -> Record:
        """Both records, the old one downweighted by ``keep``, cut to the latest rows."""
        old = self._replace(weight=keep * self.weight)
        both = [old, new] if len(old.y) else [new]  # an empty record has no column for each class
        joined = Record(*(np.concatenate(parts)[-_RECORDED_ROWS:] for parts in zip(*both, strict=True)))
        return Record(*(part[joined.weight > _FORGOTTEN * joined.weight.max(initial=0.0)] for part in joined))

    def of(self, labels: np.ndarray) -> Record:
        """The record with weight zero, if there are more than two classes, for rows whose class had not been seen:
        a link cannot learn from predictions of unknown classes."""
        return self if self.mu.ndim == 1 else self._replace(weight=self.weight * np.isin(self.y, labels))

    def thinned(self, at_most: int = _BEGINNING_ROWS) -> Record:
        """A sample of the rows, weighted to represent all."""
        if len(self.y) <= at_most:
            return self
        some = Record(*(part[scattered(len(self.y), at_most)] for part in self))
        return some._replace(weight=some.weight * (self.weight.sum() / max(some.weight.sum(), 1e-300)))

    def link(self, near: Link | None = None) -> Link:
        """The link with the least log loss on these rows; the search may start from ``near``."""
        if self.mu.ndim == 1:
            return fit_logistic_link(*self, near if isinstance(near, LogisticLink) else None)
        return fit_softmax_link(*self, near if isinstance(near, SoftmaxLink) else None)

    def losses(self, link: Link) -> np.ndarray:
        """The log loss of each row."""
        return log_losses(link.score(self.mu, self.v), self.y)

    def log_loss(self, link: Link) -> float:
        """The mean log loss of these rows; NaN if there are none."""
        return float(self.weight @ self.losses(link) / self.weight.sum()) if self.weight.any() else float("nan")


NOTHING = Record(*np.empty((4, 0)))


class Stream(NamedTuple):
    """The state after some batches: sums over their rows, the belief, their weight, their scores, the labels that
    occurred, and how the rows couple classes (not those of a fit that preceded the stream)."""

    natural: Natural
    belief: Belief
    weight: float
    record: Record
    labels: np.ndarray
    coupling: Coupling | None = None


def begun(problem: Problem, ascent: Ascent, record: Record) -> Stream | None:
    """The stream whose first batch was a fit, with part of its record; None if the model cannot be continued."""
    if not problem.prior.is_plain or isinstance(beneath(problem.rows), ReducedRows):
        return None
    some, _ = thinned(problem, problem.table.weight)
    point = ascent.point
    labels = np.unique(to_numpy(problem.table.y))
    return Stream(_remembered(some, ascent), point.belief, float(point.stats.n), record.thinned(), labels)


class Past(NamedTuple):
    r"""A prior that has seen rows: :math:`p(u)\, t(u) / Z`.

    Sums over new rows are added to those of the past. The divergence
    :math:`KL(q \| p) - E_q \log t` is measured from its minimum, at the belief that the past alone implies.
    If the prior infers nothing besides the weights, it then is the KL divergence from that belief.
    """

    prior: Prior
    natural: Natural
    belief: Belief
    least: float
    is_plain = True
    is_gaussian = True

    @classmethod
    def of(cls, prior: Prior, natural: Natural, near: Belief | None) -> Past:
        """The past whose rows have these sums; the belief ``near`` is where the prior's update starts."""
        belief = prior.update(*natural, near)
        return cls(prior, natural, belief, float(_divergence(prior, natural, belief)))

    def start(self, reference: Array) -> tuple[Any, Array]:
        G, h = combined(self.natural, -1, self.natural)
        return G, h

    def update(self, G: Any, h: Array, belief: Belief | None = None) -> Belief:
        return self.prior.update(*self._with(G, h), belief)

    def given(self, G: Any, h: Array, hyper: Any) -> Belief:
        return self.prior.given(*self._with(G, h), hyper)

    def settled(self, G: Any, belief: Belief) -> tuple[Any, Belief]:
        total, belief = self.prior.settled(combined(self.natural.G, 1, G), belief)
        return combined(total, -1, self.natural.G), belief

    def effective(self, belief: Belief) -> Belief:
        return self.prior.effective(belief)

    def kl(self, belief: Belief) -> Array:
        return _divergence(self.prior, self.natural, belief) - self.least

    def rough(self) -> None:
        """None: no easier prior is needed, since the past is a good start."""

    def promised(self, G: Any, dG: Any, dh: Array, belief: Belief) -> float:
        return self.prior.promised(G, dG, dh, belief)

    def alternatives(self, G: Any, h: Array, belief: Belief) -> list[Any]:
        return []

    def felt(self, belief: Belief, dG: Any, dh: Array) -> np.ndarray:
        return self.prior.felt(belief, dG, dh)

    def _with(self, G: Any, h: Array) -> Natural:
        return combined(self.natural, 1, Natural(G, h))


def _past(prior: Prior, natural: Natural, near: Any) -> tuple[Any, Any]:
    """The past as a prior, and the belief that it implies; with more than two classes one for each, since the Gaussian
    factor of past rows is a product over classes."""
    if not isinstance(prior, Classwise):
        past = Past.of(prior, natural, near)
        return past, past.belief
    every = zip(prior.priors, natural.G, natural.h, near.parts, strict=True)
    pasts = tuple(Past.of(own, Natural(G, h), part) for own, G, h, part in every)
    return Classwise(pasts), ClassBelief(tuple(past.belief for past in pasts))


def _divergence(prior: Prior, natural: Natural, belief: Belief) -> Array:
    r""":math:`KL(q \| p) - E_q \log t`, with :math:`E_q \log t = h^T m - (\mathrm{tr}\, G S + m^T G m) / 2`."""
    xp = namespace(belief.mean)
    (G, h), m, R = natural, belief.mean, belief.root
    return prior.kl(belief) - h @ m + 0.5 * (xp.sum((R @ G) * R) + m @ (G @ m))


def absorb(
    stream: Stream | None,
    problem: Problem,
    *,
    forgetting: float = 0.0,
    unit: Array | None = None,
    tol: float = 1e-6,
    max_passes: int = 50,
    monitor: Monitor | None = None,
) -> tuple[Stream, Ascent]:
    """What is known after one more batch, and the ascent on it.

    Parameters
    ----------
    stream : Stream or None
        What was known before; None for the first batch.
    problem : Problem
        The new rows, with the prior that every batch shares.  One class is enough.
    forgetting : float between 0 and 1
        How much of the past the batch displaces.
    unit : array, optional
        The weight of one copy of each row, which the first batch leaves out; by default its weight, at most 1.
    """
    keep = 0.0 if stream is None else 1 - forgetting
    here, before, kept, coupling = problem, None, None, None
    if stream is not None and keep > 0:
        kept = combined(stream.natural, keep - 1, stream.natural)
        past, before = _past(problem.prior, kept, stream.belief)
        here = replace(problem, prior=past)
        if stream.coupling is not None:
            coupling = combined(stream.coupling, keep - 1, stream.coupling)
            here = CoupledProblem.of(here, coupling, stream.belief)
    ascent = ascend(here, tol=tol, max_passes=max_passes, monitor=monitor, before=before)
    belief, weight = ascent.point.belief, float(ascent.point.stats.n)
    own, labels = Coupling.of(problem, belief), np.unique(to_numpy(problem.table.y))
    natural = summed([kept, _remembered(here, ascent, centered=own is not None)])
    coupling = summed([coupling, own])
    if stream is None:
        return Stream(natural, belief, weight, _scored_without(problem, belief, unit), labels, coupling), ascent
    record = stream.record.followed_by(_scored(problem, stream.belief).of(stream.labels), keep)
    labels = np.union1d(stream.labels, labels)
    return Stream(natural, belief, keep * stream.weight + weight, record, labels, coupling), ascent


def _remembered(problem: Problem, ascent: Ascent, centered: bool = False) -> Natural:
    r"""The sums :math:`\sum k \phi\phi^T` and :math:`\sum (g + k \mu) \phi` at the end of an ascent.

    With a coupled past, they contain what the sums of the past gain if it is centred at this belief. If they are to be
    ``centered`` there, what a joint step would change is left out: the coupling says it again.
    """
    likelihood, belief = problem.likelihood, problem.prior.effective(ascent.point.belief)
    if likelihood.site_is_curvature:
        natural, along = ascent.point.image, ascent.point.stats.along
        return natural._replace(h=combined(natural.h, -1, along)) if centered and isinstance(along, tuple) else natural
    seen = belief.seen_by(problem.table.reference)

    def one_block(index: int) -> Natural:
        features, (_, y, weight) = problem.features(index), problem.table.block(index)
        mu, v = (latent := features.moments(seen)).mu, latent.v
        sites, k = likelihood.sites(y, mu, v), likelihood.curvature(y, mu, v)
        each = weight if k.ndim == 1 else weight[:, None]
        return Natural(*features.gather(each * k, each * (sites.b + (k - sites.w) * mu)))

    natural = summed(sweep(one_block, problem.table.n_blocks, problem.n_jobs))
    if not isinstance(problem, CoupledProblem):
        return natural
    return natural._replace(h=combined(natural.h, 1, problem.slopes_at(belief)))


def _scored(problem: Problem, belief: Belief) -> Record:
    """Latent moments of the rows of a batch under the belief before it."""
    latent, table = problem.latent(belief), problem.table
    return Record(*map(to_numpy, (latent.mu, latent.v, table.y, table.weight)))


def _scored_without(problem: Problem, belief: Belief, unit: Array | None) -> Record:
    """Leave-one-out moments of the rows of a batch."""
    table = problem.table
    if unit is None:
        unit = namespace(table.weight).clip(table.weight, 0.0, 1.0)
    mu, v, usable = map(to_numpy, left_out(problem, belief, unit))
    record = Record(mu, v, to_numpy(table.y), to_numpy(table.weight) * usable)
    return Record(*(part[-_RECORDED_ROWS:] for part in record))
