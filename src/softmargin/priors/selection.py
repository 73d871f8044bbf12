r"""Variable selection: coefficients :math:`\gamma_k v_k` that are zero or Laplace (Luts and Ormerod 2014, section 3.2).

.. math:: v_k \mid b_k, \sigma^2 \sim N(0, \sigma^2 / b_k), \quad b_k \sim IG(1, 1/2), \quad
          \gamma_k \sim \mathrm{Bernoulli}(\rho), \quad \sigma^2 \sim IG(A, B),

with :math:`\rho` fixed, or :math:`\rho \sim Beta(1, 1)`.

The belief is :math:`q(v)\, q(\sigma^2)\, q(\rho) \prod_k q(b_k)\, q(\gamma_k)`: with :math:`\Omega = E\, v v^T` and
:math:`\tau = E\, \sigma^{-2}`, :math:`q(b_k)` is inverse Gaussian of mean :math:`(\tau \Omega_{kk})^{-1/2}` and
shape 1, and

.. math:: \mathrm{logit}\, q(\gamma_k = 1) = E\, \mathrm{logit}\, \rho - \tfrac12 G_{kk} \Omega_{kk} + h_k m_k
          - \sum_{j \ne k} G_{kj}\, E\gamma_j\, \Omega_{jk},

from the same sums ``G`` and ``h`` as the weights: no pass over the data lies between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, expit, xlog1py, xlogy

from .variance import InverseGamma, kl_inverse_gamma

#: Inclusion probabilities stay this far from 0 and 1, where their logarithms end.
_SUREST = 1e-12
#: Sweeps over the inclusion variables inside one update, or until none moves by more than this.
_SWEEPS, _STILL = 10, 1e-6


class Selection(NamedTuple):
    r"""The belief about everything but the weights: inclusion probabilities, the means of ``b``, the variance, the two
    parameters of a beta for ``rho`` (zeros if it is fixed), and :math:`E \log \rho`, :math:`E \log(1 - \rho)`."""

    included: np.ndarray
    b: np.ndarray
    variance: InverseGamma
    odds: np.ndarray
    log_odds: np.ndarray


class LaplaceZero(NamedTuple):
    """The prior of ``n_columns`` coefficients, and of ``n_loose`` weights after them that are always in, of precision
    ``loose``.

    ``rho`` is the share of columns expected to matter; None infers it.
    """

    n_columns: int
    n_loose: int = 0
    rho: float | None = 0.5
    shape: float = 0.01
    rate: float = 0.01
    loose: float = 1e-8

    def begin(self) -> Selection:
        """Everything is in: what does not matter is easier to drop than what was dropped is to find again."""
        one, included = np.ones(1), np.full(self.n_columns, 1 - _SUREST)
        return Selection(included, np.ones(self.n_columns), InverseGamma(one, one), *self._odds(included))

    def expected_precision(self, hyper: Selection) -> np.ndarray:
        of_columns = hyper.variance.mean_precision * hyper.b
        return np.append(of_columns, np.full(self.n_loose, self.loose))

    def expected_log_precision(self, hyper: Selection) -> float:
        r""":math:`-E \log \sigma^2` for each column: the logarithm of ``b`` cancels in `divergence`."""
        return -self.n_columns * float(hyper.variance.mean_log[0]) + self.n_loose * np.log(self.loose)

    def inclusion(self, hyper: Selection) -> np.ndarray:
        """The inclusion probability of every weight."""
        return np.append(hyper.included, np.ones(self.n_loose))

    def divergence(self, hyper: Selection) -> float:
        r"""Of variance, ``rho``, inclusion variables and ``b`` from their priors; of each :math:`b_k`, together with
        the logarithms of ``b`` that the divergence of the weights leaves out,
        :math:`1 / (2 E b_k) + \log 2 - \tfrac12 \log 2\pi`.
        """
        p = np.clip(hyper.included, 0.0, 1.0)
        log_in, log_out = hyper.log_odds
        of_inclusion = np.sum(xlogy(p, p) + xlog1py(1 - p, -p) - p * log_in - (1 - p) * log_out)
        of_b = np.sum(0.5 / hyper.b) + self.n_columns * (np.log(2) - 0.5 * np.log(2 * np.pi))
        return float(
            of_inclusion + of_b + kl_inverse_gamma(hyper.variance, self.shape, self.rate) + _kl_beta(hyper.odds)
        )

    def learned(self, mean: np.ndarray, variances: np.ndarray, before: Selection, leap: bool = False) -> Selection:
        """``b``, the variance and ``rho`` given the weights and the inclusion variables."""
        second = (mean**2 + variances)[: self.n_columns]
        b = 1 / np.sqrt(before.variance.mean_precision * np.maximum(second, 1e-300))
        shape = np.full(1, self.shape + self.n_columns / 2)
        variance = InverseGamma(shape, np.atleast_1d(self.rate + 0.5 * (b @ second)))
        odds, log_odds = self._odds(before.included)
        return before._replace(b=b, variance=variance, odds=odds, log_odds=log_odds)

    def chosen(self, hyper: Selection, G: np.ndarray, pull: np.ndarray, second: np.ndarray) -> Selection:
        """The inclusion probabilities given the weights, one after the other until they rest.

        ``pull`` holds :math:`h_k m_k` less the part of :math:`\\sum_j` that lies beyond these weights, ``second`` is
        :math:`\\Omega`.  The column that gains most from being in comes first, so that the order of columns does
        not matter.
        """
        included, (log_in, log_out) = hyper.included.copy(), hyper.log_odds
        n, coupling = self.n_columns, G * second
        alone = log_in - log_out + pull[:n] - 0.5 * np.diagonal(coupling)[:n]
        fixed = coupling[:n, n:].sum(axis=1)
        coupling = coupling[:n, :n] - np.diag(np.diagonal(coupling)[:n])
        for _ in range(_SWEEPS):
            before = included.copy()
            for k in np.argsort(-(alone - fixed - coupling @ included), kind="stable"):
                included[k] = expit(alone[k] - fixed[k] - coupling[k] @ included)
            included = np.clip(included, _SUREST, 1 - _SUREST)
            if np.all(np.abs(included - before) <= _STILL):
                break
        return hyper._replace(included=included)

    def redrawn(self, weights: np.ndarray, before: Selection, rng: np.random.Generator) -> Selection:
        """``b``, the variance and ``rho``, drawn given the weights and the inclusion variables."""
        v = np.abs(weights[: self.n_columns])
        sd = before.variance.mean_precision**-0.5
        b = rng.wald(np.minimum(sd / np.maximum(v, 1e-150), 1e10), 1.0)
        rate = np.atleast_1d(self.rate + 0.5 * (b @ v**2))
        variance = InverseGamma(np.full(1, self.shape + self.n_columns / 2), rate).drawn(rng)
        odds, log_odds = self._odds(before.included)
        if self.rho is None:
            share = np.clip(rng.beta(*odds), 1e-12, 1 - 1e-12)
            log_odds = np.log([share, 1 - share])
        return before._replace(b=b, variance=variance, odds=odds, log_odds=log_odds)

    def rechosen(
        self, hyper: Selection, G: np.ndarray, h: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, Selection]:
        r"""Inclusion variables and weights drawn pair by pair, :math:`\gamma_k` with :math:`v_k` integrated out:

        .. math:: \frac{P(\gamma_k = 1)}{P(\gamma_k = 0)} = \frac{\rho}{1 - \rho} \sqrt{\frac{D_k}{D_k + G_{kk}}}
                  \exp \frac{r_k^2}{2 (D_k + G_{kk})}, \qquad r_k = h_k - \sum_{j \ne k} G_{kj} \gamma_j v_j,

        ``D`` being the precision of the prior.  ``h`` is less the part of the sum that lies beyond these weights.
        """
        included, v = hyper.included.copy(), weights.copy()
        log_in, log_out = hyper.log_odds
        precision, diagonal = self.expected_precision(hyper), np.diagonal(G)
        residual = h - G @ (self.inclusion(hyper) * v)
        for k in rng.permutation(self.n_columns):
            r = residual[k] + diagonal[k] * included[k] * v[k]
            total = precision[k] + diagonal[k]
            log_odds = log_in - log_out + 0.5 * (np.log(precision[k] / total) + r * r / total)
            was = included[k] * v[k]
            included[k] = float(rng.random() < expit(log_odds))
            mean, variance = (r / total, 1 / total) if included[k] else (0.0, 1 / precision[k])
            v[k] = mean + np.sqrt(variance) * rng.standard_normal()
            residual -= G[:, k] * (included[k] * v[k] - was)
        return v, hyper._replace(included=included)

    def _odds(self, included: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.rho is not None:
            return np.zeros(2), np.array([np.log(self.rho), np.log1p(-self.rho)])
        odds = 1 + np.array([included.sum(), (1 - included).sum()])
        return odds, digamma(odds) - digamma(odds.sum())


def _kl_beta(odds: np.ndarray) -> float:
    """The divergence of a beta from the uniform distribution; nothing for what is fixed."""
    if not odds.any():
        return 0.0
    return float((odds - 1) @ (digamma(odds) - digamma(odds.sum())) - betaln(*odds))
