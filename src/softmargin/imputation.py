r"""The model of the columns themselves, which foretells missing entries from the others.

Rows of columns are :math:`d \sim N(\mu, \Sigma)` with :math:`\mu \sim N(0, \sigma_\mu^2 I)` and
:math:`\Sigma \sim IW(\Psi, \nu)`; the belief is
:math:`q(\mu)\, q(\Sigma) = N(\bar\mu, S_\mu)\, IW(\Psi_q, \nu_q)`.  From the sums ``n``, :math:`\sum d` and
:math:`\sum d d^T` over rows (expected ones, where entries are missing),

.. math:: S_\mu = (\sigma_\mu^{-2} I + n \Lambda)^{-1}, \quad \bar\mu = S_\mu \Lambda \sum d, \quad
          \Psi_q = \Psi + \sum E (d - \mu)(d - \mu)^T, \quad \nu_q = \nu + n, \quad
          \Lambda = E\, \Sigma^{-1} = \nu_q \Psi_q^{-1}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .arrays import cholesky, combined, inverse_lower, row_squares
from .wishart import InverseWishart, log_det

if TYPE_CHECKING:
    from .chunks import Table
    from .rows import LinearRows

#: Turns between mean and covariance inside one update: they cost no pass over the data.
_TURNS = 3


class Sums(NamedTuple):
    """Over rows: of the columns, of their products, and how many."""

    first: np.ndarray
    second: np.ndarray
    n: float

    def around(self, mean: np.ndarray) -> np.ndarray:
        """The products about a mean."""
        shifted = np.outer(self.first, mean)
        return self.second - shifted - shifted.T + self.n * np.outer(mean, mean)


class Imputation(NamedTuple):
    """The belief about mean and covariance of the columns, and the mean precision that follows from it."""

    mean: np.ndarray
    mean_covariance: np.ndarray
    covariance: InverseWishart
    precision: np.ndarray

    def cost(self, values: np.ndarray) -> np.ndarray:
        r""":math:`-E \log N(d; \mu, \Sigma)` of rows that are known."""
        away = (values - self.mean) @ cholesky(self.precision)
        constant = len(self.mean) * np.log(2 * np.pi) + self.covariance.mean_log_det
        return 0.5 * (constant + row_squares(away) + np.sum(self.precision * self.mean_covariance))


class ColumnModel(NamedTuple):
    """The prior of mean and covariance of the columns, which lie about ``center`` and spread by ``spread``."""

    center: np.ndarray
    spread: np.ndarray
    mean_variance: float = 1e8
    scale: float = 0.01

    @classmethod
    def standard(cls, n_columns: int) -> ColumnModel:
        """For columns about zero in units of their spread."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @property
    def n_columns(self) -> int:
        return len(self.center)

    @property
    def covariance(self) -> InverseWishart:
        """The prior of the covariance."""
        return InverseWishart(np.diag(self.scale * self.spread**2), self.n_columns + 1.0)

    def start(self, n: float) -> Sums:
        """The sums of as many rows whose columns have nothing in common."""
        second = np.diag(self.spread**2) + np.outer(self.center, self.center)
        return Sums(n * self.center, n * second, n)

    def updated(self, sums: Sums, before: Imputation | None = None) -> Imputation:
        """The belief given sums over rows: mean and covariance by turns."""
        mean, of_mean = sums.first / max(sums.n, 1.0), np.zeros((self.n_columns, self.n_columns))
        covariance = self._covariance(sums, mean, of_mean) if before is None else before.covariance
        for _ in range(_TURNS):
            mean, of_mean = self._mean(sums, covariance.mean_precision)
            covariance = self._covariance(sums, mean, of_mean)
        return Imputation(mean, of_mean, covariance, covariance.mean_precision)

    def drawn(self, sums: Sums, before: Imputation, rng: np.random.Generator) -> Imputation:
        """A draw of the mean given the last precision, and of the covariance given the mean."""
        mean, of_mean = self._mean(sums, before.precision)
        mean = mean + cholesky(of_mean) @ rng.standard_normal(len(mean))
        nothing = np.zeros_like(of_mean)
        covariance = self._covariance(sums, mean, nothing).drawn(rng)
        return Imputation(mean, nothing, covariance, covariance.mean_precision)

    def kl(self, q: Imputation) -> float:
        """The divergence of the belief from this prior."""
        d = self.n_columns
        energy = (np.trace(q.mean_covariance) + q.mean @ q.mean) / self.mean_variance
        of_mean = 0.5 * (energy - d + d * np.log(self.mean_variance) - log_det(q.mean_covariance))
        return float(of_mean + q.covariance.kl(self.covariance))

    def _mean(self, sums: Sums, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = inverse_lower(cholesky(np.eye(self.n_columns) / self.mean_variance + sums.n * precision))
        of_mean = R.T @ R
        return of_mean @ (precision @ sums.first), of_mean

    def _covariance(self, sums: Sums, mean: np.ndarray, of_mean: np.ndarray) -> InverseWishart:
        scale, dof = self.covariance
        scale = scale + sums.around(mean) + sums.n * of_mean
        return InverseWishart((scale + scale.T) / 2, dof + sums.n)


def column_sums(table: Table, rows: LinearRows) -> Sums:
    """The sums of the columns of complete rows, block by block."""
    total = None
    for index in range(table.n_blocks):
        X, _, weight = table.block(index)
        values = np.asarray(rows.lift(X[:, : len(rows.scale)]).phi[:, : len(rows.scale)], dtype=np.float64)
        part = Sums(weight @ values, (weight[:, None] * values).T @ values, float(weight.sum()))
        total = part if total is None else combined(total, 1, part)
    assert total is not None
    return total
