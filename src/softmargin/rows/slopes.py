r"""How sums over rows answer to the kernel and to the inducing points, the belief being held."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import Array, as_float64, inverse_lower, like, namespace, to_numpy
from ..gaussian import Belief, ClassBelief
from .inducing import InducingRows


class Slopes(NamedTuple):
    """Slopes of a sum over rows: in ``theta`` and in the points through the rows themselves, and through the whitener.

    Slopes of blocks add up; `in_theta` and `in_points` then fold in ``H``, once.
    """

    theta: np.ndarray
    H: np.ndarray
    points: np.ndarray | float = 0.0


def bound_slopes(
    rows: InducingRows, X: Array, phi: Array, belief: Belief | ClassBelief, w: Array, b: Array, points: bool = False
) -> Slopes:
    r"""Slopes of :math:`\sum_i l_i` at a fixed belief, from each row's features and (weighted) site.

    With :math:`\partial l/\partial\mu = b - w\mu` and :math:`\partial l/\partial v = -w/2`,
    :math:`\partial F/\partial\phi_i = (b_i - w_i \mu_i) m - w_i (S - I) \phi_i` and
    :math:`\partial F/\partial k_{ii} = -w_i / 2`; for many classes, the sums of these over classes.
    """
    xp = namespace(X)
    if isinstance(belief, ClassBelief):
        parts = ((part, w[:, k], b[:, k]) for k, part in enumerate(belief.parts))
        dphi, w = sum(_in_features(phi, *part) for part in parts), xp.sum(w, axis=1)
    else:
        dphi = _in_features(phi, belief, w, b)
    return pullback(rows, X, phi, dphi, xp.astype(-w / 2, X.dtype), points)


def _in_features(phi: Array, belief: Belief, w: Array, b: Array) -> Array:
    """Slopes in the features of each row."""
    m, w, b = like(belief.mean, phi), like(w, phi), like(b, phi)
    gained = namespace(phi).eye(len(m), dtype=phi.dtype, device=device(phi)) - like(belief.covariance, phi)
    dphi = phi @ gained
    dphi *= w[:, None]
    dphi += (b - w * (phi @ m))[:, None] * m[None, :]
    return dphi


def pullback(rows: InducingRows, X: Array, phi: Array, dphi: Array, dk: Array, points: bool = False) -> Slopes:
    r"""Slopes given those in ``phi`` (row by weight) and in ``k(x, x)``; those in the points only if asked for.

    :math:`\partial F/\partial k(Z, x_i) = L^{-T} \partial F/\partial\phi_i`, and
    :math:`H = \sum_i \partial F/\partial\phi_i\, \phi_i^T` is all that the factor ``L`` needs.
    """
    Z = like(rows.points, X)
    dK = dphi @ like(rows.whitener, X)
    theta = rows.kernel.pullback(X, Z, dK) + rows.kernel.pullback_diagonal(X, dk)
    slopes = Slopes(theta, to_numpy(as_float64(dphi.T @ phi)))
    if not points:
        return slopes
    return slopes._replace(points=to_numpy(as_float64(rows.kernel.pullback_inputs(Z, X, dK.T))))


def in_theta(rows: InducingRows, slopes: Slopes) -> np.ndarray:
    """All slopes in ``theta``: those of the rows, and those through the whitener."""
    Z = to_numpy(rows.points).astype(float)
    return slopes.theta + rows.kernel.pullback(Z, Z, _in_covariance(rows, slopes.H))


def in_points(rows: InducingRows, slopes: Slopes) -> np.ndarray:
    """All slopes in the points, which the covariance of the points meets on either side."""
    Z = to_numpy(rows.points).astype(float)
    return slopes.points + 2 * to_numpy(rows.kernel.pullback_inputs(Z, Z, _in_covariance(rows, slopes.H)))


def _in_covariance(rows: InducingRows, H: np.ndarray) -> np.ndarray:
    r"""Slopes in :math:`K_{ZZ} = L L^T`, symmetric, from those through :math:`\phi = L^{-1} k`.

    :math:`\bar L = -\mathrm{tril}(L^{-T} H)`; with :math:`\Phi` the lower triangle, its diagonal halved,
    :math:`\bar K = L^{-T} \Phi(L^T \bar L) L^{-1}`, symmetrised.
    The jitter is a fixed share of the trace, and moves with it.
    """
    Linv = to_numpy(rows.whitener)
    L = inverse_lower(Linv)
    inner = np.tril(L.T @ -np.tril(Linv.T @ H))
    inner[np.diag_indices_from(inner)] *= 0.5
    dK = Linv.T @ inner @ Linv
    Z = to_numpy(rows.points).astype(float)
    share = rows.jitter / np.trace(rows.kernel(Z, Z))
    return (dK + dK.T) / 2 + share * np.trace(dK) * np.eye(len(Z))
