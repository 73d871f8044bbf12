"""Gaussian priors whose variances are inferred along with the weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..arrays import Array, to_numpy
from ..gaussian import Belief, from_natural, kl
from .ridge import in_place_of, plus, start_from_precision

#: Iterations on the variances inside one update; they need no pass over the data.
_INNER_UPDATES = 5
_INNER_TOLERANCE = 1e-5
#: Weights are clipped here, so that the squares of a diverged step stay finite until the step is rejected.
_FAR = 1e150


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

    @property
    def mean(self) -> np.ndarray:
        """The mean variance, or the inverse of the mean precision where the mean does not exist."""
        return self.rate / np.where(self.shape > 1, self.shape - 1, self.shape)

    def drawn(self, rng: np.random.Generator) -> InverseGamma:
        """A draw of the variance, represented by an inverse gamma whose mean precision is that of the draw.

        The average of these parameters over draws represents the mean of the variance in the same way.
        """
        shape = np.broadcast_to(np.asarray(self.shape, dtype=float), np.shape(self.rate))
        return InverseGamma(shape, shape * self.rate / rng.gamma(shape))


def kl_inverse_gamma(q: InverseGamma, shape: Any, rate: Any, mean_log_rate: Any = None) -> float:
    r"""The sum of the divergences of inverse gammas from a common prior :math:`IG(A, B)`,

    .. math:: (a - A) \psi(a) - \log\Gamma(a) + \log\Gamma(A) + A \log(b / B) + a (B - b) / b.

    A rate that is itself uncertain, and independent of the variance, enters through its mean and its mean logarithm.
    """
    log_rate = np.log(rate) if mean_log_rate is None else mean_log_rate
    each = (
        (q.shape - shape) * digamma(q.shape)
        - gammaln(q.shape)
        + gammaln(shape)
        + shape * (np.log(q.rate) - log_rate)
        + q.shape * (rate - q.rate) / q.rate
    )
    return float(np.sum(each))


class VarianceComponents(NamedTuple):
    r"""Weights in groups with a variance each: :math:`u_j \sim N(0, \sigma_g^2)`, :math:`\sigma_g^2 \sim IG(A, B)`.

    One group for all coefficients infers the penalty of a linear SVM (Luts 2014, Algorithm 2); a group for
    each coefficient learns a diagonal covariance.  ``group`` gives each weight's group; a weight with group -1
    belongs to none and has the precision ``loose`` (such as an unpenalised intercept).

    .. math:: q(\sigma_g^2) = IG(A + n_g/2,\; B + \tfrac12 \sum_{j \in g} (m_j^2 + S_{jj}))
    """

    group: np.ndarray
    shape: float = 0.01
    rate: float = 0.01
    loose: float = 1e-8
    is_plain = True
    is_gaussian = True

    @property
    def n_components(self) -> int:
        return int(self.group.max(initial=-1)) + 1

    def start(self, reference: Array) -> tuple[Array, Array]:
        return start_from_precision(self._spread(np.ones(self.n_components)), reference)

    def update(self, G: Array, h: Array, belief: Belief | None = None) -> Belief:
        r"""Weights and variances at their joint optimum given the sums; this needs no further pass over the data.

        At the optimum :math:`\tau = E[1/\sigma^2]` solves :math:`\tau (B + |m|^2/2) = A + \gamma/2`, with
        :math:`\gamma = \sum_j (1 - \tau S_{jj})` the effective number of weights that the data determine.
        Iterating this fixed point (MacKay) takes a few steps where alternating the two updates may take hundreds.
        """
        hyper = self.begin() if belief is None else belief.hyper
        for _ in range(_INNER_UPDATES):
            weights = self.given(G, h, hyper)
            mean, variances = to_numpy(weights.mean), to_numpy(weights.variances)
            before, hyper = hyper.mean_precision, self.learned(mean, variances, hyper, leap=True)
            if np.all(np.abs(hyper.mean_precision - before) <= _INNER_TOLERANCE * before):
                break
        return weights._replace(hyper=self.learned(mean, variances))

    def given(self, G: Array, h: Array, hyper: InverseGamma) -> Belief:
        return from_natural(plus(G, self.expected_precision(hyper)), h, hyper)

    def settled(self, G: Array, belief: Belief) -> tuple[Array, Belief]:
        hyper = self.learned(to_numpy(belief.mean), to_numpy(belief.variances))
        lost = self.expected_precision(belief.hyper) - self.expected_precision(hyper)
        return plus(G, lost), belief._replace(hyper=hyper)

    def rough(self) -> None:
        """None: no easier prior gives a better start."""

    def promised(self, G: Array, dG: Array, dh: Array, belief: Belief) -> float:
        return belief.squared_length(dG, dh) / 2

    def alternatives(self, G: Array, h: Array, belief: Belief) -> list[Any]:
        """None: the ascent has no other optima worth trying."""
        return []

    def felt(self, belief: Belief, dG: Array, dh: Array) -> np.ndarray:
        return belief.felt(dG, dh)

    def begin(self) -> InverseGamma:
        """Initial variances: 1."""
        return InverseGamma(np.ones(self.n_components), np.ones(self.n_components))

    def expected_precision(self, hyper: InverseGamma) -> np.ndarray:
        """The mean precision of each weight."""
        return self._spread(hyper.mean_precision)

    def expected_log_precision(self, hyper: InverseGamma) -> float:
        """The expected log-precision, summed over weights."""
        return -float(self._spread(hyper.mean_log, loose=-np.log(self.loose)).sum())

    def divergence(self, hyper: InverseGamma) -> float:
        """The divergence of the belief about the variances from their prior."""
        return kl_inverse_gamma(hyper, self.shape, self.rate)

    def learned(
        self, mean: np.ndarray, variances: np.ndarray, before: InverseGamma | None = None, leap: bool = False
    ) -> InverseGamma:
        """The belief about variances given the weights; with ``leap``, MacKay's fixed-point step from ``before``."""
        sizes = self._sizes
        shape, rate = self.shape + sizes / 2, self.rate + self._sums(np.minimum(np.abs(mean), _FAR) ** 2) / 2
        undetermined = self._sums(variances)
        if not leap or before is None:
            return InverseGamma(shape, rate + undetermined / 2)
        determined = np.maximum(sizes - before.mean_precision * undetermined, 0)
        return InverseGamma(shape, shape * rate / (self.shape + determined / 2))

    def effective(self, belief: Belief) -> Belief:
        return belief

    def kl(self, belief: Belief) -> Array:
        """The expected divergence of the weights given the variances, plus that of the variances."""
        q: InverseGamma = belief.hyper
        precision = in_place_of(self.expected_precision(q), belief.mean)
        of_weights = kl(belief, precision, self.expected_log_precision(q))
        return of_weights + self.divergence(q)

    def drawn(self, G: Array, h: Array, belief: Any, rng: np.random.Generator) -> tuple[np.ndarray, InverseGamma]:
        weights = belief.sample(1, rng)[0]
        return weights, self.redrawn(weights, belief.hyper, rng)

    def seen_weights(self, weights: np.ndarray, hyper: InverseGamma) -> np.ndarray:
        return weights

    def redrawn(self, weights: np.ndarray, before: InverseGamma, rng: np.random.Generator) -> InverseGamma:
        r"""A draw of :math:`\sigma_g^2 \mid u \sim IG(A + n_g/2,\; B + \tfrac12 \sum_{j \in g} u_j^2)`."""
        return InverseGamma(self.shape + self._sizes / 2, self.rate + self._sums(weights**2) / 2).drawn(rng)

    @property
    def _sizes(self) -> np.ndarray:
        return np.bincount(self.group + 1)[1:].astype(float)

    def _sums(self, per_weight: np.ndarray) -> np.ndarray:
        """The sum over each component's weights."""
        return np.bincount(self.group + 1, weights=per_weight)[1:]  # the first bin holds the weights outside all groups

    def _spread(self, per_component: np.ndarray, loose: float | None = None) -> np.ndarray:
        """A value for each weight from a value for each component."""
        outside = self.loose if loose is None else loose
        return np.append(per_component, outside)[self.group]
