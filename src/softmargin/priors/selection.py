r"""Variable selection: coefficients :math:`\gamma_k v_k` that are zero or Laplace (Luts and Ormerod 2014, section 3.2).

.. math:: v_k \mid b_k, \sigma^2 \sim N(0, \sigma^2 / b_k), \quad b_k \sim IG(1, 1/2), \quad
          \gamma_k \sim \mathrm{Bernoulli}(\rho), \quad \sigma^2 \sim IG(A, B),

with :math:`\rho` fixed, or :math:`\rho \sim Beta(1, d)` for ``d`` columns, so that about one is expected to matter,
however many there are.

The belief is :math:`q(v)\, q(\sigma^2)\, q(\rho) \prod_k q(b_k)\, q(\gamma_k)`.  With :math:`\Omega = E\, v v^T` and
:math:`\tau = E\, \sigma^{-2}`, :math:`q(b_k)` is inverse Gaussian of mean :math:`(\tau \Omega_{kk})^{-1/2}` and
shape 1, and

.. math:: \mathrm{logit}\, q(\gamma_k = 1) = E\, \mathrm{logit}\, \rho - \tfrac12 G_{kk} \Omega_{kk} + h_k m_k
          - \sum_{j \ne k} G_{kj}\, E\gamma_j\, \Omega_{jk},

computed from the same sums ``G`` and ``h`` as the weights, without another pass over the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, erfcx, expit, log_ndtr, ndtri_exp, xlog1py, xlogy

from .variance import InverseGamma, kl_inverse_gamma

#: Inclusion probabilities stay this far from 0 and 1, so that their logarithms are finite.
_SUREST = 1e-12
#: The most sweeps over the inclusion variables inside one update, and the change below which they have converged.
_SWEEPS, _STILL = 10, 1e-10
#: This many standard deviations from the mean, the tail of a normal distribution is practically exponential.
_FAR = 1e3
#: A bound on standard deviations, whose squares stay finite.
_LARGEST = 1e150
#: At most one column in this many (but at least one) leaves before the weights are updated again.
_LEAVE_AT_ONCE = 50


class Selection(NamedTuple):
    r"""The belief about everything but the weights: inclusion probabilities, the means of ``b``, the variance, the two
    parameters of a beta for ``rho`` (zeros if it is fixed), and :math:`E \log \rho`, :math:`E \log(1 - \rho)`."""

    included: np.ndarray
    b: np.ndarray
    variance: InverseGamma
    odds: np.ndarray
    log_odds: np.ndarray


class LaplaceZero(NamedTuple):
    """The prior of ``n_columns`` coefficients, and of ``n_loose`` weights after them of precision ``loose``, which are
    always included.

    ``rho`` is the share of columns expected to matter; None infers it.  While ``held``, every column stays included.
    """

    n_columns: int
    n_loose: int = 0
    rho: float | None = 0.5
    shape: float = 0.01
    rate: float = 0.01
    loose: float = 1e-8
    held: bool = False

    def begin(self) -> Selection:
        """Starts with all columns included: dropping a useless one is easier than recovering one that was dropped."""
        one, included = np.ones(1), np.full(self.n_columns, 1 - _SUREST)
        odds, log_odds = self._odds(np.empty(0))
        return Selection(included, np.ones(self.n_columns), InverseGamma(one, one), odds, log_odds)

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
        r"""The divergence of variance, ``rho``, inclusion variables and ``b`` from their priors.  That of each
        :math:`b_k`, together with the logarithm of ``b`` that the divergence of the weights leaves out, is
        :math:`1 / (2 E b_k) + \log 2 - \tfrac12 \log 2\pi`.
        """
        p, (log_in, log_out) = hyper.included, hyper.log_odds
        of_inclusion = np.sum(xlogy(p, p) + xlog1py(1 - p, -p) - p * log_in - (1 - p) * log_out)
        of_b = np.sum(0.5 / hyper.b) + self.n_columns * (np.log(2) - 0.5 * np.log(2 * np.pi))
        of_rho = _kl_beta(hyper.odds, self._prior_odds) if self.rho is None else 0.0
        return float(of_inclusion + of_b + of_rho + kl_inverse_gamma(hyper.variance, self.shape, self.rate))

    def learned(self, mean: np.ndarray, variances: np.ndarray, before: Selection, leap: bool = False) -> Selection:
        """The belief about ``b``, the variance and ``rho``, given the weights and the inclusion variables."""
        second = (mean**2 + variances)[: self.n_columns]
        b = 1 / np.sqrt(before.variance.mean_precision * np.maximum(second, 1e-300))
        shape = np.full(1, self.shape + self.n_columns / 2)
        variance = InverseGamma(shape, np.atleast_1d(self.rate + 0.5 * (b @ second)))
        after = before._replace(b=b, variance=variance)
        # Inclusion variables are updated first: while all are included, an inferred ``rho`` would keep them included.
        if leap or self.held:
            return after
        odds, log_odds = self._odds(before.included)
        return after._replace(odds=odds, log_odds=log_odds)

    def chosen(self, hyper: Selection, G: np.ndarray, pull: np.ndarray, second: np.ndarray) -> Selection:
        r"""The inclusion probabilities given the weights, updated one after the other until they converge.

        ``pull`` is :math:`h_k m_k` less the part of :math:`\sum_j` that lies beyond these weights; ``second`` is
        :math:`\Omega`.  Redundant columns share their effect, and all of them might leave at once.  So only the few
        with the lowest odds may leave before the weights are updated without them.  Updates start with the highest
        odds, so that the order of the columns does not matter.
        """
        if self.held:
            return hyper
        n, coupling = self.n_columns, G * second
        alone = hyper.log_odds[0] - hyper.log_odds[1] + pull[:n] - 0.5 * np.diagonal(coupling)[:n]
        alone = alone - coupling[:n, n:].sum(axis=1)
        coupling = coupling[:n, :n] - np.diag(np.diagonal(coupling)[:n])
        included = hyper.included.copy()
        logits = alone - coupling @ included
        leaving = np.flatnonzero((included > 0.5) & (logits < 0))
        stay = leaving[np.argsort(logits[leaving], kind="stable")][-(-n // _LEAVE_AT_ONCE) :]
        free = np.isin(np.arange(n), stay, invert=True)
        for _ in range(_SWEEPS):
            logits = alone - coupling @ included
            moving = np.flatnonzero(free & (np.abs(expit(logits) - included) > _STILL))
            for k in moving[np.argsort(-logits[moving], kind="stable")]:
                included[k] = min(max(expit(alone[k] - coupling[k] @ included), _SUREST), 1 - _SUREST)
            if len(moving) == 0:
                break
        return hyper._replace(included=included)

    def odds_alone(self, hyper: Selection, G: np.ndarray, h: np.ndarray, seen: np.ndarray) -> np.ndarray:
        r"""The log-odds of each column with its weight integrated out (see `rechosen`), given the means ``seen`` of
        all others."""
        n, sd = self.n_columns, float(hyper.variance.mean_precision[0]) ** -0.5
        diagonal = np.diagonal(G)[:n]
        residual = (h - G @ seen)[:n] + diagonal * seen[:n]
        masses = [_two_sides(r, g, sd).log_mass for r, g in zip(residual, diagonal, strict=True)]
        return hyper.log_odds[0] - hyper.log_odds[1] + np.logaddexp(*np.reshape(masses, (n, 2)).T)

    def flipped(self, hyper: Selection, column: int) -> Selection:
        """A copy with one column switched between included and excluded; its weight is still to be updated."""
        included, b = hyper.included.copy(), hyper.b.copy()
        included[column], b[column] = 1 - _SUREST if included[column] < 0.5 else _SUREST, 1.0
        return hyper._replace(included=included, b=b)

    def redrawn(self, weights: np.ndarray, before: Selection, rng: np.random.Generator) -> Selection:
        """``b``, the variance and ``rho``, drawn given the weights and the inclusion variables."""
        v = np.abs(weights[: self.n_columns])
        sd = before.variance.mean_precision**-0.5
        b = rng.wald(np.minimum(sd / np.maximum(v, 1e-150), 1e10), 1.0)
        rate = np.atleast_1d(self.rate + 0.5 * (b @ v**2))
        variance = InverseGamma(np.full(1, self.shape + self.n_columns / 2), rate).drawn(rng)
        odds, log_odds = self._odds(before.included)
        if self.rho is None:
            share = rng.beta(*odds)
            log_odds = np.log([share, 1 - share])
        return before._replace(b=b, variance=variance, odds=odds, log_odds=log_odds)

    def rechosen(
        self, hyper: Selection, G: np.ndarray, h: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, Selection]:
        r"""Draws of inclusion variables and weights, pair by pair; :math:`\gamma_k` is drawn with :math:`b_k` and
        :math:`v_k` integrated out: the odds are those of :math:`\rho` times
        :math:`\int Laplace(v; \sigma) \exp(r_k v - G_{kk} v^2 / 2)\, dv`, :math:`r_k = h_k - \sum_{j \ne k} G_{kj}
        \gamma_j v_j`.  ``h`` is less the part of the sum that lies beyond these weights; `redrawn` then draws ``b``.
        """
        included, v = hyper.included.copy(), weights.copy()
        sd, diagonal = float(hyper.variance.mean_precision[0]) ** -0.5, np.diagonal(G)
        prior = float(hyper.log_odds[0] - hyper.log_odds[1])
        seen = v.copy()
        seen[: self.n_columns] *= included
        residual = h - G @ seen
        dice = rng.random((self.n_columns, 3))
        for k in rng.permutation(self.n_columns):
            was = included[k] * v[k]
            sides = _two_sides(float(residual[k] + diagonal[k] * was), float(diagonal[k]), sd)
            included[k] = float(dice[k, 0] < expit(prior + np.logaddexp(*sides.log_mass)))
            v[k] = sides.drawn(*dice[k, 1:]) if included[k] else _laplace(sd, *dice[k, 1:])
            if was or included[k]:
                residual -= G[:, k] * (included[k] * v[k] - was)
        return v, hyper._replace(included=included)

    @property
    def _prior_odds(self) -> np.ndarray:
        return np.array([1.0, max(self.n_columns, 1)])

    def _odds(self, included: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.rho is not None:
            return np.zeros_like(self._prior_odds), np.array([np.log(self.rho), np.log1p(-self.rho)])
        odds = self._prior_odds + np.array([included.sum(), (1 - included).sum()])
        return odds, digamma(odds) - digamma(odds.sum())


def _kl_beta(odds: np.ndarray, prior: np.ndarray) -> float:
    """The divergence of one beta distribution from another."""
    digammas = digamma(odds) - digamma(odds.sum())
    return float(betaln(*prior) - betaln(*odds) + (odds - prior) @ digammas)


class _Sides(NamedTuple):
    r"""A Laplace density times a Gaussian, which on either side of zero is a truncated normal: :math:`v = \pm s\, x`,
    with ``x`` normal around ``centers``, of variance one, and positive.  ``log_mass`` has the sides' log-masses."""

    log_mass: tuple[float, float]
    centers: tuple[float, float]
    scale: float

    def drawn(self, side: float, place: float) -> float:
        """A draw, from two uniform random numbers."""
        left = bool(side > expit(self.log_mass[0] - self.log_mass[1]))
        center = self.centers[left]
        # Inverts the upper tail through the logarithm of its mass, which itself underflows far from the centre.
        tail = np.log(place)
        x = float(tail / center if center < -_FAR else center - ndtri_exp(tail + log_ndtr(center)))
        return (-x if left else x) * self.scale


def _two_sides(r: float, precision: float, sd: float) -> _Sides:
    r""":math:`\frac{1}{2\sigma} e^{-|v|/\sigma + r v - G v^2/2}`: with :math:`c_\pm = (\pm r - 1/\sigma)/\sqrt G`, the
    masses :math:`\frac{1}{2\sigma} \sqrt{2\pi/G}\; e^{c^2/2} \Phi(c)`."""
    scale = max(precision, 1e-300) ** -0.5  # a column without entries leaves the prior unchanged
    centers = min((r - 1 / sd) * scale, _LARGEST), min((-r - 1 / sd) * scale, _LARGEST)
    constant = 0.5 * np.log(2 * np.pi) + np.log(scale / (2 * sd))
    right, left = (float(constant + _log_mass(c)) for c in centers)
    return _Sides((right, left), centers, scale)


def _log_mass(c: float) -> float:
    r""":math:`\log(e^{c^2/2} \Phi(c))`, whose factors may overflow or underflow."""
    return np.log(erfcx(-c * 0.5**0.5) / 2) if c < 0 else 0.5 * c * c + log_ndtr(c)


def _laplace(sd: float, side: float, place: float) -> float:
    """A draw, from two uniform random numbers."""
    return np.copysign(sd * np.log(place), side - 0.5)
