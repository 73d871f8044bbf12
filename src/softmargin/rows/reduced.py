r"""Rows of a linear model with more columns than rows, projected onto the space that the training rows span.

Under the isotropic prior :math:`u \sim N(0, \sigma^2 I)`, ``n`` rows are informative about ``d > n`` weights only
through :math:`V^T u`, where the columns of ``V`` are an orthonormal basis of the row space.  The prior of
:math:`V^T u` is again :math:`N(0, \sigma^2 I)`, and in all other directions the posterior equals the prior, so at most
``n`` weights need to be inferred.  The component of a new row outside this space adds the variance
:math:`\sigma^2 (|\phi|^2 - |V^T \phi|^2)`, which the weights leave unexplained.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import as_float64, clipped_at_zero, like, row_squares
from ..gaussian import Belief
from .features import Features, LiftedView, View
from .linear import LinearRows

#: Directions whose squared length is below this share of the largest are rounding errors.
_FLAT = 1e-12


class ReducedRows(NamedTuple):
    """The columns of ``columns`` projected onto a ``basis`` (columns by directions), and an intercept.

    ``variance`` is the prior variance of the weights (of each class, if there are several) once it is known.  Until
    then it is zero, and the component of a row outside the basis is ignored.
    """

    columns: LinearRows
    basis: np.ndarray
    variance: Any = 0.0
    least_rows = 1

    @classmethod
    def of(cls, columns: LinearRows, X: np.ndarray) -> ReducedRows:
        """Rows with a basis of the space spanned by the rows of ``X``, computed from their Gram matrix."""
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
            leftover = (leftover + added.T).T  # one for each row, or for each row and class
        return Features(np.concatenate([inside, phi[:, d:]], axis=1), leftover)

    def leftover_root(self, X: Any) -> np.ndarray | None:
        if not np.any(self.variance):
            return None
        phi = as_float64(self.columns._replace(intercept=False).lift(X).phi)
        outside = phi - (phi @ self.basis) @ self.basis.T
        return np.multiply.outer(outside, np.sqrt(self.variance))

    def of_class(self, index: int) -> ReducedRows:
        """The rows with the variance of one class."""
        return self if np.ndim(self.variance) == 0 else self._replace(variance=float(self.variance[index]))

    def view(self, belief: Belief, reference: np.ndarray) -> View:
        return LiftedView(self, belief.seen_by(reference))

    def moments_in(self, mean: np.ndarray, covariance: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
        """Mean and variance of a linear combination of the columns' weights and the intercept."""
        d = self.basis.shape[0]
        inside = np.append(direction[:d] @ self.basis, direction[d:])
        outside = direction[:d] @ direction[:d] - inside[: self.basis.shape[1]] @ inside[: self.basis.shape[1]]
        return float(inside @ mean), float(inside @ covariance @ inside + self.variance * max(outside, 0.0))

    def weights_of_columns(self, mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the weights of the original columns."""
        r = self.basis.shape[1]
        inside = row_squares(self.basis)
        spread = np.einsum("ij,ij->i", self.basis @ covariance[:r, :r], self.basis)
        return self.basis @ mean[:r], spread + self.variance * np.maximum(1 - inside, 0.0)
