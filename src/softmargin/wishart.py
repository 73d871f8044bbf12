r"""Inverse Wishart beliefs about covariance matrices: :math:`\Sigma \sim IW(\Psi, \nu)`, with mean
:math:`\Psi / (\nu - q - 1)` and with :math:`E\, \Sigma^{-1} = \nu \Psi^{-1}`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, multigammaln  # pyright: ignore[reportAttributeAccessIssue]

from .arrays import NotPositiveDefiniteError, cholesky, inverse_lower


class InverseWishart(NamedTuple):
    r"""Scale :math:`\Psi` and degrees of freedom :math:`\nu`.

    A known covariance, such as a draw, is represented by a belief whose mean precision is its inverse: see `certain`.
    """

    scale: np.ndarray
    dof: float

    @classmethod
    def certain(cls, precision_root: np.ndarray, dof: float) -> InverseWishart:
        """The one whose mean precision is ``R'R``, for a lower triangular ``R``."""
        root = inverse_lower(precision_root)
        return cls(dof * root @ root.T, dof)

    @property
    def size(self) -> int:
        return len(self.scale)

    @property
    def mean_precision(self) -> np.ndarray:
        R = inverse_lower(cholesky(self.scale))
        with np.errstate(over="ignore", invalid="ignore"):
            precision = self.dof * R.T @ R
        if not np.isfinite(precision).all():
            raise NotPositiveDefiniteError("Columns vary so little that their variances cannot be represented.")
        return precision

    @property
    def mean(self) -> np.ndarray:
        """The mean covariance, or the inverse of the mean precision if it has no mean."""
        excess = self.dof - self.size - 1
        return self.scale / (excess if excess > 0 else self.dof)

    @property
    def mean_log_det(self) -> float:
        r""":math:`E \log|\Sigma| = \log|\Psi| - q \log 2 - \sum_j \psi((\nu + 1 - j) / 2)`."""
        return log_det(self.scale) - self.size * np.log(2) - self._digammas

    def kl(self, prior: InverseWishart) -> float:
        r"""The KL divergence from a prior :math:`IW(\Psi_0, \nu_0)`,

        .. math:: \tfrac12 \left( \nu_0 (\log|\Psi| - \log|\Psi_0|) + \nu (\mathrm{tr}\, \Psi_0 \Psi^{-1} - q)
                  + (\nu - \nu_0) \textstyle\sum_j \psi((\nu + 1 - j)/2) \right)
                  + \log \Gamma_q(\nu_0/2) - \log \Gamma_q(\nu/2).
        """
        q = self.size
        halves = (
            prior.dof * (log_det(self.scale) - log_det(prior.scale))
            + np.sum(prior.scale * self.mean_precision)
            - self.dof * q
            + (self.dof - prior.dof) * self._digammas
        )
        return float(halves / 2 + multigammaln(prior.dof / 2, q) - multigammaln(self.dof / 2, q))

    def drawn(self, rng: np.random.Generator) -> InverseWishart:
        r"""A draw (Bartlett): :math:`\Sigma^{-1} = R^T A A^T R` for :math:`\Psi^{-1} = R^T R`, ``A`` lower triangular
        with normal entries, and roots of chi-squared ones on the diagonal."""
        R, q = inverse_lower(cholesky(self.scale)), self.size
        A = np.tril(rng.standard_normal((q, q)), -1)
        A[np.diag_indices(q)] = np.sqrt(rng.chisquare(self.dof - np.arange(q)))
        return InverseWishart.certain(_lower_root(R.T @ A), self.dof)

    @property
    def _digammas(self) -> float:
        return float(digamma((self.dof + 1 - np.arange(1, self.size + 1)) / 2).sum())


def log_det(A: np.ndarray) -> float:
    """The logarithm of the determinant of a positive definite matrix."""
    return float(2 * np.log(np.diagonal(cholesky(A))).sum())


def _lower_root(B: np.ndarray) -> np.ndarray:
    """The lower triangular ``R`` with ``R'R = B B'``: a Cholesky factor from the last row up."""
    return cholesky((B @ B.T)[::-1, ::-1]).T[::-1, ::-1]
