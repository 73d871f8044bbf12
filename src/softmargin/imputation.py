r"""A model of the columns, which predicts missing entries from the observed ones.

Rows of columns are :math:`d \sim N(\mu, \Sigma)` with :math:`\mu \sim N(0, \sigma_\mu^2 I)` and
:math:`\Sigma \sim IW(\Psi, \nu)`; the belief is
:math:`q(\mu)\, q(\Sigma) = N(\bar\mu, S_\mu)\, IW(\Psi_q, \nu_q)`. From the sums ``n``, :math:`\sum d` and
:math:`\sum d d^T` over rows (their expectations, if entries are missing),

.. math:: S_\mu = (\sigma_\mu^{-2} I + n \Lambda)^{-1}, \quad \bar\mu = S_\mu \Lambda \sum d, \quad
          \Psi_q = \Psi + \sum E (d - \mu)(d - \mu)^T, \quad \nu_q = \nu + n, \quad
          \Lambda = E\, \Sigma^{-1} = \nu_q \Psi_q^{-1}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .arrays import cholesky, combined, inverse_lower, row_squares
from .columns import Columns, rounded
from .wishart import InverseWishart, log_det

if TYPE_CHECKING:
    from .chunks import Table
    from .rows import LinearRows

#: Alternations between mean and covariance inside one update, which take no pass over the data.
_TURNS = 3
#: The scale of the prior of the columns' covariance, by column. With a scale near zero, and rows not many times as many
#: as columns, predictions are wild and overconfident: for 60 independent columns of spread 1 in 100 rows, errors are 6
#: and standard deviations 0.15. With this scale they are 1.25 and 0.66. It counts for a third as many rows as there
#: are columns, and costs nothing if there are many rows.
SCALE_BY_COLUMN = 0.3
#: In tables of more columns, their covariance is learned only where it has to be.
MOST_MODELLED = 500
#: The error if rows to predict have missing entries, but nothing was learned to predict these from.
NOT_LEARNED = (
    f"X has missing values, but the relations between its columns were not learned: in fit, the covariance of the "
    f"columns was singular up to rounding, X was sparse, or it had more than {MOST_MODELLED} columns. Impute the "
    f"values first."
)
#: Alternations between missing entries and moments of columns, at most; and the change, in units of spread, to stop at.
_MOST_TURNS, _AT_REST = 100, 1e-4
#: Values are clipped to this many spreads from the centre when they predict others.
_FAR = 1e6


class Batch(NamedTuple):
    """Rows with the same number of missing entries: their indices, and the missing columns of each."""

    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def all_of(cls, missing: np.ndarray) -> tuple[Batch, ...]:
        counts = missing.sum(axis=1)
        batches = []
        for count in np.unique(counts[counts > 0]):
            rows = np.flatnonzero(counts == count)
            batches.append(cls(rows, np.nonzero(missing[rows])[1].reshape(-1, count)))
        return tuple(batches)

    def pairs(self, matrix: np.ndarray) -> np.ndarray:
        """The submatrices of the missing columns of each row, as a stack."""
        return matrix[self.columns[:, :, None], self.columns[:, None, :]]

    def of(self, per_column: np.ndarray) -> np.ndarray:
        """The entries of a vector, or of each row of a matrix, at the missing columns."""
        return per_column[self.columns] if per_column.ndim == 1 else per_column[self.rows[:, None], self.columns]


class Sums(NamedTuple):
    """Sums over rows: of the columns, of their products, and of weights."""

    first: np.ndarray
    second: np.ndarray
    n: float

    def around(self, mean: np.ndarray) -> np.ndarray:
        """The sum of products about a mean."""
        shifted = np.outer(self.first, mean)
        return self.second - shifted - shifted.T + self.n * np.outer(mean, mean)


class Imputation(NamedTuple):
    """The belief about mean and covariance of the columns, and the mean precision that it implies."""

    mean: np.ndarray
    mean_covariance: np.ndarray
    covariance: InverseWishart
    precision: np.ndarray

    def cost(self, values: np.ndarray) -> np.ndarray:
        r""":math:`-E \log N(d; \mu, \Sigma)` of complete rows."""
        away = (values - self.mean) @ cholesky(self.precision)
        constant = len(self.mean) * np.log(2 * np.pi) + self.covariance.mean_log_det
        return 0.5 * (constant + row_squares(away) + np.sum(self.precision * self.mean_covariance))


class ColumnModel(NamedTuple):
    """The prior of mean and covariance of the columns, which have this ``center`` and ``spread``."""

    center: np.ndarray
    spread: np.ndarray
    mean_variance: float = 1e8
    scale: float = 0.01

    @classmethod
    def standard(cls, n_columns: int) -> ColumnModel:
        """The prior for standardised columns."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    @property
    def n_columns(self) -> int:
        return len(self.center)

    @property
    def covariance(self) -> InverseWishart:
        """The prior of the covariance."""
        return InverseWishart(np.diag(self.scale * self.spread**2), self.n_columns + 1.0)

    def start(self, n: float) -> Sums:
        """The sums of ``n`` rows with uncorrelated columns."""
        second = np.diag(self.spread**2) + np.outer(self.center, self.center)
        return Sums(n * self.center, n * second, n)

    def updated(self, sums: Sums, before: Imputation | None = None) -> Imputation:
        """The belief given sums over rows, by alternating between mean and covariance."""
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
        """The KL divergence of the belief from this prior."""
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
    """The sums over complete rows, block by block."""
    total = None
    for index in range(table.n_blocks):
        X, _, weight = table.block(index)
        values = np.asarray(rows.lift(X[:, : len(rows.scale)]).phi[:, : len(rows.scale)], dtype=np.float64)
        part = Sums(weight @ values, (weight[:, None] * values).T @ values, float(weight.sum()))
        total = part if total is None else combined(total, 1, part)
    assert total is not None
    return total


class GapModel(NamedTuple):
    r"""The model that predicts missing entries: their Gaussian given the observed entries of a row.

    In units of the columns' spread, and with the mean :math:`\mu` and the precision :math:`\Lambda` of the columns,
    :math:`d_m \mid d_o \sim N(\mu_m - \Lambda_{mm}^{-1} \Lambda_{mo} (d_o - \mu_o),\, \Lambda_{mm}^{-1})`.
    """

    columns: Columns
    mean: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, weight: np.ndarray, columns: Columns) -> GapModel:
        """The model fitted to a table with missing entries, alternating between these and the moments of columns."""
        d = X.shape[1]
        model = ColumnModel.standard(d)._replace(scale=SCALE_BY_COLUMN * (d + 1))
        sums = model.start(float(weight.sum()))
        belief = model.updated(sums)
        for _ in range(_MOST_TURNS):
            before, found = sums, cls(columns, belief.mean, belief.precision)
            sums = found._sums(X, weight)
            belief = model.updated(sums, belief)
            if np.abs(sums.second - before.second).max() <= _AT_REST * sums.n:
                break
        return cls(columns, belief.mean, belief.precision)

    def blurred(self, X: np.ndarray) -> np.ndarray:
        """Rows as means, then standard deviations, of their entries; the latter are zero for observed ones."""
        missing, (center, spread) = np.isnan(X), self.columns
        values, deviations = self._standard(X), np.zeros(X.shape)
        for gaps in self._fill(values, missing):
            own = np.sqrt(np.diagonal(gaps.covariances, axis1=1, axis2=2))
            deviations[gaps.places] = own[gaps.which]
        # Rounded, so that differences in the rounding of sums do not change the kernel.
        means = np.where(missing, center + spread * rounded(np.clip(values, -_FAR, _FAR), 1.0), X)
        return np.hstack([means, spread * rounded(deviations, 1.0)]).astype(X.dtype, copy=False)

    def _standard(self, X: np.ndarray) -> np.ndarray:
        """Rows in units of spread, with means in place of missing entries."""
        with np.errstate(over="ignore"):  # infinite values are clipped
            values = (X.astype(np.float64, copy=False) - self.columns.center) / self.columns.spread
        return np.where(np.isnan(values), self.mean, np.clip(values, -_FAR, _FAR))

    def _fill(self, values: np.ndarray, missing: np.ndarray) -> Iterator[_Patterns]:
        """Replaces missing entries by their predictions, and yields the covariances of these."""
        pull = (self.mean - values) @ self.precision
        for batch in Batch.all_of(missing):
            patterns, which = np.unique(batch.columns, axis=0, return_inverse=True)
            V = np.linalg.inv(self.precision[patterns[:, :, None], patterns[:, None, :]])
            gaps = _Patterns(batch.rows, patterns, which.ravel(), V)
            values[gaps.places] += np.einsum("ijk,ik->ij", V[gaps.which], pull[gaps.places])
            yield gaps

    def _sums(self, X: np.ndarray, weight: np.ndarray) -> Sums:
        """The expected sums over rows."""
        values, uncertain = self._standard(X), np.zeros_like(self.precision)
        for gaps in self._fill(values, np.isnan(X)):
            total = np.bincount(gaps.which, weight[gaps.rows])
            pairs = gaps.patterns[:, :, None], gaps.patterns[:, None, :]
            np.add.at(uncertain, pairs, total[:, None, None] * gaps.covariances)
        return Sums(weight @ values, (weight[:, None] * values).T @ values + uncertain, float(weight.sum()))


class _Patterns(NamedTuple):
    """Rows with the same number of missing entries: the missing columns of each pattern, the pattern of each row, and
    the covariance of the missing entries of each pattern."""

    rows: np.ndarray
    patterns: np.ndarray
    which: np.ndarray
    covariances: np.ndarray

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of the missing entries of each row."""
        return self.rows[:, None], self.patterns[self.which]
