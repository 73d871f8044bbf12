r"""Priors of random effects: the weights of each of many groups are :math:`u_j \sim N(0, \Sigma)`, with
:math:`\Sigma` inferred.

All follow one protocol, of which only `learned` and `redrawn` take weights: their means ``(J, q)``, and the diagonal
blocks ``(J, q, q)`` of their covariance.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ..wishart import InverseWishart
from .variance import InverseGamma, kl_inverse_gamma


class GroupPrior(Protocol):
    """The distribution of a random effect over groups."""

    @property
    def size(self) -> int:
        """The number of columns that vary between groups."""
        ...

    def begin(self) -> Any:
        """The belief about the covariance at the start."""
        ...

    def expected_precision(self, hyper: Any) -> np.ndarray:
        r""":math:`E\, \Sigma^{-1}`."""
        ...

    def expected_log_precision(self, hyper: Any) -> float:
        r""":math:`E \log|\Sigma^{-1}|`."""
        ...

    def divergence(self, hyper: Any) -> float:
        """The divergence of the belief about the covariance from its prior."""
        ...

    def learned(self, means: np.ndarray, blocks: np.ndarray, before: Any, leap: bool = False) -> Any:
        """The belief given the weights; with ``leap``, one closer to the fixed point of repeated updates."""
        ...

    def redrawn(self, weights: np.ndarray, before: Any, rng: np.random.Generator) -> Any:
        """A draw given the weights."""
        ...

    def population(self, hyper: Any, drawn: bool = False) -> np.ndarray:
        """The mean covariance of the effects of an unseen group; with ``drawn``, from averaged draws."""
        ...


class Covariance(NamedTuple):
    r"""A full covariance: :math:`\Sigma \sim IW(\psi I, q + 1)`, and
    :math:`q(\Sigma) = IW(\psi I + \sum_j (m_j m_j^T + S_j),\; q + 1 + J)`."""

    size: int
    scale: float = 0.01

    @property
    def prior(self) -> InverseWishart:
        return InverseWishart(self.scale * np.eye(self.size), self.size + 1.0)

    def begin(self) -> InverseWishart:
        return InverseWishart((self.size + 1.0) * np.eye(self.size), self.size + 1.0)

    def expected_precision(self, hyper: InverseWishart) -> np.ndarray:
        return hyper.mean_precision

    def expected_log_precision(self, hyper: InverseWishart) -> float:
        return -hyper.mean_log_det

    def divergence(self, hyper: InverseWishart) -> float:
        return hyper.kl(self.prior)

    def learned(
        self, means: np.ndarray, blocks: np.ndarray, before: InverseWishart, leap: bool = False
    ) -> InverseWishart:
        r"""With ``leap``, MacKay's fixed point for matrices.  With :math:`\Sigma = X^2`, the matrix
        :math:`T = X^{-1} \sum_j S_j X^{-1}`, the part of each direction that the data leave undetermined, is held
        fixed, and the new :math:`X` solves :math:`\nu X^2 = \Psi + \sum_j m_j m_j^T + X T X`.
        """
        explained, undetermined = self.prior.scale + means.T @ means, blocks.sum(axis=0)
        dof = self.prior.dof + len(means)
        if not leap:
            return InverseWishart(_symmetric(explained + undetermined), dof)
        root = _power(before.mean_precision, 0.5)
        determined = _symmetric(dof * np.eye(self.size) - root @ undetermined @ root)
        half, inverse = _power(determined, 0.5), _power(determined, -0.5)
        X = inverse @ _power(_symmetric(half @ explained @ half), 0.5) @ inverse
        return InverseWishart(dof * _symmetric(X @ X), dof)

    def redrawn(self, weights: np.ndarray, before: InverseWishart, rng: np.random.Generator) -> InverseWishart:
        return InverseWishart(self.prior.scale + weights.T @ weights, self.prior.dof + len(weights)).drawn(rng)

    def population(self, hyper: InverseWishart, drawn: bool = False) -> np.ndarray:
        return hyper.scale / hyper.dof if drawn else hyper.mean


class Scales(NamedTuple):
    """The belief about variances, and about the rates of their prior if these are inferred too."""

    variance: InverseGamma
    rate: InverseGamma | None = None


class Variances(NamedTuple):
    r"""Independent columns of a random effect, each with a variance :math:`\sigma^2 \sim IG(A, B)`, or, if
    ``half_cauchy`` gives a scale ``A``, with :math:`\sigma \sim C^+(A)`.

    The half-Cauchy is a mixture: :math:`\sigma^2 \mid a \sim IG(1/2, 1/a)`, :math:`a \sim IG(1/2, 1/A^2)`.  So
    :math:`q(\sigma^2) = IG(1/2 + J/2,\; E[1/a] + \tfrac12 \sum_j (m_j^2 + S_j))` and
    :math:`q(a) = IG(1,\; E[1/\sigma^2] + 1/A^2)`.
    """

    size: int
    shape: float = 0.01
    rate: float = 0.01
    half_cauchy: float | None = None

    def begin(self) -> Scales:
        one = InverseGamma(np.ones(self.size), np.ones(self.size))
        return Scales(one, None if self.half_cauchy is None else one)

    def expected_precision(self, hyper: Scales) -> np.ndarray:
        return np.diag(hyper.variance.mean_precision)

    def expected_log_precision(self, hyper: Scales) -> float:
        return -float(hyper.variance.mean_log.sum())

    def divergence(self, hyper: Scales) -> float:
        if hyper.rate is None:
            return kl_inverse_gamma(hyper.variance, self.shape, self.rate)
        assert self.half_cauchy is not None
        rate, log_rate = hyper.rate.mean_precision, -hyper.rate.mean_log
        return kl_inverse_gamma(hyper.variance, 0.5, rate, log_rate) + kl_inverse_gamma(
            hyper.rate, 0.5, self.half_cauchy**-2
        )

    def learned(self, means: np.ndarray, blocks: np.ndarray, before: Scales, leap: bool = False) -> Scales:
        squares, undetermined = (means**2).sum(axis=0), np.einsum("jkk->k", blocks)
        shape, rate = self._prior(before)
        shape = shape + len(means) / 2
        if leap:
            determined = shape - before.variance.mean_precision * undetermined / 2
            rate = shape * (rate + squares / 2) / np.maximum(determined, 1e-10)
        else:
            rate = rate + (squares + undetermined) / 2
        return self._with_rate(InverseGamma(np.full(self.size, shape), rate))

    def redrawn(self, weights: np.ndarray, before: Scales, rng: np.random.Generator) -> Scales:
        shape, rate = self._prior(before)
        variance = InverseGamma(
            np.full(self.size, shape + len(weights) / 2), rate + (weights**2).sum(axis=0) / 2
        ).drawn(rng)
        drawn = self._with_rate(variance)
        return drawn if drawn.rate is None else drawn._replace(rate=drawn.rate.drawn(rng))

    def population(self, hyper: Scales, drawn: bool = False) -> np.ndarray:
        return np.diag(1 / hyper.variance.mean_precision if drawn else hyper.variance.mean)

    def _prior(self, hyper: Scales) -> tuple[float, Any]:
        return (self.shape, self.rate) if hyper.rate is None else (0.5, hyper.rate.mean_precision)

    def _with_rate(self, variance: InverseGamma) -> Scales:
        if self.half_cauchy is None:
            return Scales(variance)
        return Scales(variance, InverseGamma(np.ones(self.size), variance.mean_precision + self.half_cauchy**-2))


class Standard(NamedTuple):
    """Weights of fixed variance 1: those of a kernel's whitened points, since the kernel has its own variance."""

    size: int = 1

    def begin(self) -> None:
        """Nothing is inferred."""

    def expected_precision(self, hyper: None) -> np.ndarray:
        return np.eye(self.size)

    def expected_log_precision(self, hyper: None) -> float:
        return 0.0

    def divergence(self, hyper: None) -> float:
        return 0.0

    def learned(self, means: np.ndarray, blocks: np.ndarray, before: None, leap: bool = False) -> None:
        """Nothing is inferred."""

    def redrawn(self, weights: np.ndarray, before: None, rng: np.random.Generator) -> None:
        """Nothing is inferred."""

    def population(self, hyper: None, drawn: bool = False) -> np.ndarray:
        return np.eye(self.size)


def _symmetric(A: np.ndarray) -> np.ndarray:
    return (A + A.T) / 2


def _power(A: np.ndarray, power: float) -> np.ndarray:
    """A power of a positive definite matrix."""
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.maximum(values, 1e-300) ** power) @ vectors.T
