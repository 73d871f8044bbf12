r"""Gradients of sums over rows in the kernel's log-parameters and in the inducing points, at a fixed belief."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import Array, as_float64, inverse_lower, like, namespace, to_numpy
from ..gaussian import Belief, ClassBelief
from .inducing import InducingRows


class Slopes(NamedTuple):
    """Gradient of a sum over rows: in ``theta`` and the points via ``k(X, Z)``, and ``H``, the part via the whitener.

    These can be summed over blocks; afterwards, `in_theta` and `in_points` add the part that comes from ``H``, once.
    """

    theta: np.ndarray
    H: np.ndarray
    points: np.ndarray | float = 0.0


def bound_slopes(
    rows: InducingRows, X: Array, phi: Array, belief: Belief | ClassBelief, w: Array, b: Array, points: bool = False
) -> Slopes:
    r"""The gradient of :math:`\sum_i l_i` at a fixed belief, from each row's features and (weighted) site.

    With :math:`\partial l/\partial\mu = b - w\mu` and :math:`\partial l/\partial v = -w/2`,
    :math:`\partial F/\partial\phi_i = (b_i - w_i \mu_i) m - w_i (S - I) \phi_i` and
    :math:`\partial F/\partial k_{ii} = -w_i / 2`; with more than two classes, both are summed over classes.
    """
    xp = namespace(X)
    if isinstance(belief, ClassBelief):
        parts = ((part, w[:, k], b[:, k]) for k, part in enumerate(belief.parts))
        dphi, w = sum(_in_features(phi, *part) for part in parts), xp.sum(w, axis=1)
    else:
        dphi = _in_features(phi, belief, w, b)
    return pullback(rows, X, phi, dphi, xp.astype(-w / 2, X.dtype), points)


def _in_features(phi: Array, belief: Belief, w: Array, b: Array) -> Array:
    """The gradient in the features of each row."""
    m, w, b = like(belief.mean, phi), like(w, phi), like(b, phi)
    gained = namespace(phi).eye(len(m), dtype=phi.dtype, device=device(phi)) - like(belief.covariance, phi)
    dphi = phi @ gained
    dphi *= w[:, None]
    dphi += (b - w * (phi @ m))[:, None] * m[None, :]
    return dphi


def pullback(rows: InducingRows, X: Array, phi: Array, dphi: Array, dk: Array, points: bool = False) -> Slopes:
    r"""Propagates gradients in ``phi`` (row by weight) and ``k(x, x)`` to ``theta``, and to the points if requested.

    :math:`\partial F/\partial k(Z, x_i) = L^{-T} \partial F/\partial\phi_i`, and
    :math:`H = \sum_i \partial F/\partial\phi_i\, \phi_i^T` is all that is needed for the gradient in ``L``.
    """
    Z = like(rows.points, X)
    dK = dphi @ like(rows.whitener, X)
    theta = rows.kernel.pullback(X, Z, dK) + rows.kernel.pullback_diagonal(X, dk)
    slopes = Slopes(theta, to_numpy(as_float64(dphi.T @ phi)))
    if not points:
        return slopes
    return slopes._replace(points=to_numpy(as_float64(rows.kernel.pullback_inputs(Z, X, dK.T))))


def in_theta(rows: InducingRows, slopes: Slopes) -> np.ndarray:
    """The full gradient in ``theta``, including the part via the whitener."""
    Z = to_numpy(rows.points).astype(float)
    return slopes.theta + rows.kernel.pullback(Z, Z, _in_covariance(rows, slopes.H))


def in_points(rows: InducingRows, slopes: Slopes) -> np.ndarray:
    """The full gradient in the points; both arguments of their covariance depend on them, hence the factor 2."""
    Z = to_numpy(rows.points).astype(float)
    return slopes.points + 2 * to_numpy(rows.kernel.pullback_inputs(Z, Z, _in_covariance(rows, slopes.H)))


def _in_covariance(rows: InducingRows, H: np.ndarray) -> np.ndarray:
    r"""The symmetric gradient in :math:`K_{ZZ} = L L^T`, from that via :math:`\phi = L^{-1} k`.

    :math:`\bar L = -\mathrm{tril}(L^{-T} H)`; with :math:`\Phi` the lower triangle with half the diagonal,
    :math:`\bar K = L^{-T} \Phi(L^T \bar L) L^{-1}`, symmetrised.
    The jitter is a fixed share of the trace, so its own gradient is included.
    """
    Linv = to_numpy(rows.whitener)
    L = inverse_lower(Linv)
    inner = np.tril(L.T @ -np.tril(Linv.T @ H))
    inner[np.diag_indices_from(inner)] *= 0.5
    dK = Linv.T @ inner @ Linv
    Z = to_numpy(rows.points).astype(float)
    share = rows.jitter / np.trace(rows.kernel(Z, Z))
    return (dK + dK.T) / 2 + share * np.trace(dK) * np.eye(len(Z))
