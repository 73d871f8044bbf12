r"""Rows of a linear model with more columns than rows, by the directions in which the rows lie.

Under a prior :math:`u \sim N(0, \sigma^2 I)`, which has no direction of its own, all that ``n`` rows can say of ``d >
n`` weights is what they say of :math:`V^T u`, the columns of ``V`` being an orthonormal basis of the space of the
rows.  The prior of these is :math:`N(0, \sigma^2 I)` again, and all other directions keep theirs: so the algebra is
that of at most ``n`` weights.  A row to come has a part outside, which the weights leave over: :math:`\sigma^2
(|\phi|^2 - |V^T \phi|^2)`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import as_float64, clipped_at_zero, like, row_squares
from ..gaussian import Belief
from .features import Features, LiftedView, View
from .linear import LinearRows

#: Directions of less than this share of the longest are rounding.
_FLAT = 1e-12


class ReducedRows(NamedTuple):
    """Columns of ``columns`` through a ``basis`` (columns by directions), and an intercept.

    ``variance`` is that of the weights, or of those of each class, once it is known: until then rows are those of the
    basis, with nothing outside.
    """

    columns: LinearRows
    basis: np.ndarray
    variance: Any = 0.0
    least_rows = 1

    @classmethod
    def of(cls, columns: LinearRows, X: np.ndarray) -> ReducedRows:
        """The directions of the rows of ``X``, by the products of all pairs of them."""
        phi = as_float64(columns._replace(intercept=False).lift(X).phi)
        squares, directions = np.linalg.eigh(phi @ phi.T)
        kept = squares > _FLAT * max(squares[-1], 1e-300)
        return cls(columns, phi.T @ (directions[:, kept] / np.sqrt(squares[kept])))

    @property
    def n_weights(self) -> int:
        return self.basis.shape[1] + self.columns.intercept

    @property
    def width(self) -> int:
        return self.n_weights

    def lift(self, X: Any) -> Features:
        phi, leftover = self.columns.lift(X)
        d = self.basis.shape[0]
        inside = phi[:, :d] @ like(self.basis, phi)
        if np.any(self.variance):
            outside = as_float64(row_squares(phi[:, :d])) - as_float64(row_squares(inside))
            added = np.multiply.outer(clipped_at_zero(outside), self.variance)
            leftover = (leftover + added.T).T  # by row, or by row and class
        return Features(np.concatenate([inside, phi[:, d:]], axis=1), leftover)

    def leftover_root(self, X: Any) -> np.ndarray | None:
        if not np.any(self.variance):
            return None
        phi = as_float64(self.columns._replace(intercept=False).lift(X).phi)
        outside = phi - (phi @ self.basis) @ self.basis.T
        return np.multiply.outer(outside, np.sqrt(self.variance))

    def of_class(self, index: int) -> ReducedRows:
        """The rows as the weights of one class see them."""
        return self if np.ndim(self.variance) == 0 else self._replace(variance=float(self.variance[index]))

    def view(self, belief: Belief, reference: np.ndarray) -> View:
        return LiftedView(self, belief.seen_by(reference))

    def moments_in(self, mean: np.ndarray, covariance: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
        """Mean and variance of one combination of the columns' weights and the intercept."""
        d = self.basis.shape[0]
        inside = np.append(direction[:d] @ self.basis, direction[d:])
        outside = direction[:d] @ direction[:d] - inside[: self.basis.shape[1]] @ inside[: self.basis.shape[1]]
        return float(inside @ mean), float(inside @ covariance @ inside + self.variance * max(outside, 0.0))

    def weights_of_columns(self, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the weights of the columns themselves."""
        r = self.basis.shape[1]
        inside = row_squares(self.basis)
        spread = np.einsum("ij,ij->i", self.basis @ covariance[:r, :r], self.basis)
        return self.basis @ mean[:r], spread + self.variance * np.maximum(1 - inside, 0.0)
