"""Gaussian priors whose variances are inferred along with the weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..arrays import Array, to_numpy
from ..gaussian import Belief, from_natural, kl
from .ridge import in_place_of, plus, start_from_precision

#: Updates of the variances inside one update of the weights: they cost no pass over the data.
_INNER_UPDATES = 5
_INNER_TOLERANCE = 1e-5


class InverseGamma(NamedTuple):
    """``q(sigma^2)`` of each component."""

    shape: np.ndarray
    rate: np.ndarray

    @property
    def mean_precision(self) -> np.ndarray:
        return self.shape / self.rate

    @property
    def mean_log(self) -> np.ndarray:
        return np.log(self.rate) - digamma(self.shape)


class VarianceComponents(NamedTuple):
    r"""Weights in groups with a variance each: :math:`u_j \sim N(0, \sigma_g^2)`, :math:`\sigma_g^2 \sim IG(A, B)`.

    One group for all coefficients infers the penalty of a linear SVM (Luts 2014, Algorithm 2); a group for
    each coefficient learns a diagonal covariance.  ``group`` gives each weight's group; a weight with group -1
    belongs to none and has the precision ``loose`` (an intercept that nobody wants to penalise).

    .. math:: q(\sigma_g^2) = IG(A + n_g/2,\; B + \tfrac12 \sum_{j \in g} (m_j^2 + S_{jj}))
    """

    group: np.ndarray
    shape: float = 0.01
    rate: float = 0.01
    loose: float = 1e-8

    @property
    def n_components(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    def start(self, reference: Array) -> tuple[Array, Array]:
        return start_from_precision(self._spread(np.ones(self.n_components)), reference)

    def update(self, G: Array, h: Array, belief: Belief | None = None) -> Belief:
        r"""Both parts to their common optimum: no pass over the data is needed between them.

        At the optimum :math:`\tau = E[1/\sigma^2]` solves :math:`\tau (B + |m|^2/2) = A + \gamma/2`, with
        :math:`\gamma = \sum_j (1 - \tau S_{jj})` the number of weights that the data determine.  Iterating *that*
        (MacKay) takes a few steps where alternating the two updates may take hundreds.
        """
        precision = np.ones(self.n_components) if belief is None else belief.hyper.mean_precision
        for _ in range(_INNER_UPDATES):
            weights = from_natural(plus(G, self._spread(precision)), h)
            mean_square, variance = self._sums(to_numpy(weights.mean) ** 2), self._sums(to_numpy(weights.variances))
            determined = np.maximum(self._sizes - precision * variance, 0)
            before, precision = precision, (self.shape + determined / 2) / (self.rate + mean_square / 2)
            if np.all(np.abs(precision - before) <= _INNER_TOLERANCE * before):
                break
        return weights._replace(hyper=self._infer(weights))

    def given(self, G: Array, h: Array, hyper: InverseGamma) -> Belief:
        return from_natural(plus(G, self._spread(hyper.mean_precision)), h, hyper)

    def settled(self, G: Array, belief: Belief) -> tuple[Array, Belief]:
        hyper = self._infer(belief)
        lost = self._spread(belief.hyper.mean_precision) - self._spread(hyper.mean_precision)
        return plus(G, lost), belief._replace(hyper=hyper)

    def effective(self, belief: Belief) -> Belief:
        return belief

    def kl(self, belief: Belief) -> Array:
        r"""The weights' expected divergence given the variances, and the variances' own.

        The second is that of two inverse gammas,
        :math:`(a - A) \psi(a) - \log\Gamma(a) + \log\Gamma(A) + A \log(b / B) + a (B - b) / b`.
        """
        q: InverseGamma = belief.hyper
        expected_log_det = -self._spread(q.mean_log, loose=-np.log(self.loose)).sum()
        of_weights = kl(belief, in_place_of(self._spread(q.mean_precision), belief.mean), float(expected_log_det))
        of_variances = (
            (q.shape - self.shape) * digamma(q.shape)
            - gammaln(q.shape)
            + gammaln(self.shape)
            + self.shape * np.log(q.rate / self.rate)
            + q.shape * (self.rate - q.rate) / q.rate
        )
        return of_weights + float(of_variances.sum())

    def drawn(self, weights: np.ndarray, rng: np.random.Generator) -> InverseGamma:
        r""":math:`\sigma_g^2 \mid u \sim IG(A + n_g/2,\; B + \tfrac12 \sum_{j \in g} u_j^2)`.

        The draw stands as an inverse gamma whose mean precision it is, all that `given` looks at.  Averaged entry by
        entry, such stand for the mean of :math:`\sigma^2`.
        """
        shape = self.shape + self._sizes / 2
        precision = rng.gamma(shape) / (self.rate + self._sums(weights**2) / 2)
        return InverseGamma(shape, shape / precision)

    def _infer(self, weights: Belief) -> InverseGamma:
        energy = self._sums(to_numpy(weights.variances + weights.mean**2))
        return InverseGamma(self.shape + self._sizes / 2, self.rate + energy / 2)

    @property
    def _sizes(self) -> np.ndarray:
        return self._sums(np.ones(len(self.group)))

    def _sums(self, per_weight: np.ndarray) -> np.ndarray:
        """The sum over each component's weights."""
        member = self.group >= 0
        return np.bincount(self.group[member], weights=per_weight[member], minlength=self.n_components)

    def _spread(self, per_component: np.ndarray, loose: float | None = None) -> np.ndarray:
        """A value for each weight from a value for each component."""
        outside = self.loose if loose is None else loose
        return np.append(per_component, outside)[self.group]
