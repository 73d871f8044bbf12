"""Rows of a Gaussian process with inducing points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import (
    Array,
    NotPositiveDefiniteError,
    as_float64,
    cholesky,
    cholesky_jittered,
    clipped_at_zero,
    inverse_lower,
    like,
    namespace,
    precision_of,
    row_squares,
    squares_through_lower,
    times_lower_transposed,
    to_numpy,
)
from ..gaussian import Belief
from ..imputation import GapModel
from ..kernels import Kernel
from ..kernels.blurred import blurred
from ..validation import has_missing
from .features import Features, LiftedView, View

#: How far a belief's variances may exceed the prior's: in rounding errors of the rows, and as a least value.
_ROUNDING, _LEAST_ROUNDING = 100, 1e-10
#: The largest error that this tolerance may cause in a variance.
_LARGEST_LOSS = 1e-3
#: The largest rounding error allowed in features, in units of the function's standard deviation.
_LARGEST_ERROR = 1e-3


class UselessKernelError(NotPositiveDefiniteError):
    """A kernel whose covariance of the inducing points is not positive definite, whatever the rows."""


class InducingRows(NamedTuple):
    r"""Whitened inducing points: :math:`\phi = L^{-1} k(Z, x)` with :math:`L L^T = k(Z, Z) + \mathrm{jitter}\, I`.

    The weights are :math:`u = L^{-1} f(Z)`, a priori standard normal whatever the kernel, and
    :math:`k(x, x) - \phi^T \phi` is the variance of ``f(x)`` that the points leave unexplained.

    Where entries of ``x`` are missing, the observed ones imply a Gaussian for them, and ``k(Z, x)`` is replaced by its
    expectation under this Gaussian.  This preserves the prior variances and covariances of ``f(x)`` and ``u``, which
    are taken over both the function and the missing entries.
    """

    kernel: Kernel
    points: Array
    whitener: Array
    jitter: float
    gap_model: GapModel | None = None
    least_rows = 1

    @classmethod
    def at(cls, kernel: Kernel, points: Array, rounding: float | None = None) -> InducingRows:
        """Rows with the given points; the factor is computed in float64, with enough jitter for the points' dtype."""
        exact = as_float64(points)
        try:
            L, jitter = cholesky_jittered(kernel(exact, exact), rounding=rounding or precision_of(points))
        except NotPositiveDefiniteError as error:
            raise UselessKernelError(
                f"The kernel {kernel} does not give the inducing points a positive definite covariance ({error}). "
                f"White noise alone, and kernels that are zero at a point, cannot represent a function."
            ) from error
        return cls(kernel, points, inverse_lower(L), jitter)

    def seen_with(self, rounding: float) -> InducingRows:
        r"""The same points for rows of lower precision, with more jitter if needed.

        Covariances have a relative error of :math:`\epsilon`, and features an error of
        :math:`\epsilon\, |k|\, |L^{-1}|`.  If functions are so smooth that this is as large as the variance that the
        points leave unexplained, variances would be mostly rounding error.  Jitter, raised in factors of ten, bounds
        :math:`L^{-1}`.
        """
        rows, own = self, precision_of(self.points)
        while own < rounding and rounding * rows._loss > _LARGEST_ERROR:
            own = min(10 * own, rounding)
            rows = InducingRows.at(self.kernel, self.points, own)._replace(gap_model=self.gap_model)
        return rows

    @property
    def _loss(self) -> float:
        """The factor by which the whitener amplifies relative errors of covariances into errors of features."""
        scale = float(np.sqrt(np.mean(to_numpy(self.kernel.diagonal(self.points)))))
        return scale * float(np.linalg.norm(to_numpy(self.whitener)))

    @property
    def n_weights(self) -> int:
        return self.points.shape[0]

    @property
    def width(self) -> int:
        return self.n_weights

    def lift(self, X: Array) -> Features:
        K, prior = covariances(self.kernel, X, like(self.points, X), self.gap_model)
        phi = times_lower_transposed(K, like(self.whitener, X))
        return Features(phi, clipped_at_zero(as_float64(prior) - as_float64(row_squares(phi))))

    def leftover_root(self, X: Array) -> Array:
        """A square root of the joint covariance that the points leave unexplained, for joint draws at a few rows.

        For rows with missing entries, this remainder is treated as independent of all other rows.
        """
        if isinstance(X, np.ndarray) and has_missing(X):
            whole, root = ~np.isnan(X).any(axis=1), np.diag(np.sqrt(self.lift(X).leftover))
            if whole.any():
                root[np.ix_(whole, whole)] = self.leftover_root(X[whole])
            return root
        phi, K = self.lift(X).phi, self.kernel(X, X)
        xp = namespace(K)
        own = self.kernel.diagonal(X) - xp.linalg.diagonal(K)  # the contribution of white noise
        covariance = as_float64(K - phi @ phi.T + own * xp.eye(len(own), dtype=K.dtype, device=device(K)))
        values, vectors = xp.linalg.eigh(covariance)  # reads one triangle only
        # Where the points explain everything, eigenvalues are rounding errors around zero.
        return vectors * xp.sqrt(clipped_at_zero(values))

    def view(self, belief: Belief, reference: Array) -> View:
        try:
            return KernelView.of(self, belief, reference)
        except NotPositiveDefiniteError:  # averaged draws may be wider than the prior in some directions
            return LiftedView(self, belief.seen_by(reference))


def covariances(kernel: Kernel, X: Array, points: Array, gap_model: GapModel | None) -> tuple[Array, Array]:
    """``k(X, Z)`` and ``k(x, x)``; where entries of the rows are missing, their expectations."""
    if gap_model is not None and isinstance(X, np.ndarray) and has_missing(X):
        averaged = blurred(kernel)
        assert averaged is not None
        kernel, X = averaged, gap_model.blurred(X)
    return kernel(X, points), kernel.diagonal(X)


class KernelView(NamedTuple):
    r"""Moments computed directly from :math:`k = k(Z, x)`: :math:`\mu = \alpha^T k` and :math:`v = k(x, x) - |T k|^2`.

    Here :math:`\alpha = L^{-T} m`, and :math:`T^T T = L^{-T} (I - S) L^{-1}` is the reduction in variance from prior
    to belief.  ``T`` is lower triangular, so this takes half the work of whitening and then computing the spread.
    """

    kernel: Kernel
    points: Array
    coefficients: Array
    gained: Array
    gap_model: GapModel | None = None

    @classmethod
    def of(cls, rows: InducingRows, belief: Belief, reference: Array) -> KernelView:
        """The view under a belief that is nowhere wider than the prior; raises `NotPositiveDefiniteError` otherwise."""
        xp = namespace(belief.mean)
        identity = xp.eye(rows.n_weights, dtype=xp.float64, device=device(belief.mean))
        slack = max(_LEAST_ROUNDING, _ROUNDING * precision_of(reference))
        if slack * float(xp.max(rows.kernel.diagonal(as_float64(rows.points)))) > _LARGEST_LOSS:
            raise NotPositiveDefiniteError("the prior's variance is too large for what rounding would take from it")
        C = cholesky((1 + slack) * identity - belief.covariance)
        whitener = as_float64(rows.whitener)
        # Reversing the rows and columns of a QR factor makes it lower triangular.  The copy has the memory layout that
        # it would have if loaded from a file: with another layout, BLAS may round differently.
        T = xp.asarray(xp.flip(xp.linalg.qr(xp.flip(C.T @ whitener, axis=1), mode="reduced").R), copy=True)
        points, coefficients = like(rows.points, reference), like(whitener.T @ belief.mean, reference)
        return cls(rows.kernel, points, coefficients, like(T, reference), rows.gap_model)

    def moments(self, X: Array) -> tuple[Array, Array]:
        return self.moments_from(*self.covariances(X))

    def means(self, X: Array) -> tuple[Array, Array]:
        """The means, and the variances of the prior."""
        K, prior = self.covariances(X)
        return as_float64(K @ self.coefficients), as_float64(prior)

    def covariances(self, X: Array) -> tuple[Array, Array]:
        """``k(X, Z)`` and ``k(x, x)``."""
        return covariances(self.kernel, X, self.points, self.gap_model)

    def moments_from(self, K: Array, prior: Array) -> tuple[Array, Array]:
        """Moments from ``K = k(X, Z)`` and the prior variances ``k(x, x)``."""
        gained = squares_through_lower(K, self.gained)
        return as_float64(K @ self.coefficients), clipped_at_zero(as_float64(prior) - as_float64(gained))
