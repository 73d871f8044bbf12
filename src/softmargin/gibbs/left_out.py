r"""Leave-one-out moments from draws that used all rows.

Given the scales of all other rows, a row's leave-one-out ``f`` is Gaussian: the belief with the row's site divided out.
The importance weight of the draw is one over the row's likelihood under that Gaussian, because the draw was made with
the row.  Both are integrals over ``f`` alone, and vary far less than the ratios :math:`1 / p(y \mid f)` of the draws
themselves, whose variance under the hinge grows as :math:`e^{4 v}`.

Missing entries of a row were drawn given its label before they entered the belief.  For evaluation, the row's moments
are instead those with entries predicted from the observed ones, taken as a Gaussian.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import to_numpy
from ..loo import LeftOut, Predicted
from ..rows import Features, IncompleteFeatures, Latent
from .augmentation import Augmentation, Site
from .copies import Copies

#: A row is usable if the effective number of its draws is at least this, and this share of all draws.
_LEAST_WORTH, _LEAST_SHARE = 20.0, 0.01


class Without(NamedTuple):
    """Each row's leave-one-out ``f`` given all other scales, and the logarithm of its importance weight ``r``."""

    log_r: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def without_rows(
    augmentation: Augmentation,
    latent: Latent,
    site: Site,
    y: np.ndarray,
    c: np.ndarray,
    unit: np.ndarray,
    rounding: float,
    predicted: Predicted | None = None,
) -> Without:
    r"""Divides out the row's whole site, and puts its exact likelihood back with the remaining weight ``c - unit``.

    .. math:: \mu_{-i} = \mu^0 - c\, (b - w \mu) / (1 - w a), \qquad v_{-i} = v^0 + w c^2 / (1 - w a),

    where :math:`\mu^0, v^0` are the moments of the row with predicted entries, and the factor ``c`` is their covariance
    with the row as it entered the belief.  For complete rows these are :math:`\mu`, :math:`v` and ``a``.
    """
    w, b = site.spared(latent.leftover)
    kept = 1 - w * latent.spread
    # If a draw pins a row to its margin, only rounding errors are left to divide by.  Such draws, one in 1/rounding^.5,
    # are skipped.
    sound = kept > rounding**0.5
    kept = np.where(sound, kept, 1.0)
    judged, shared = (latent, latent.spread) if predicted is None else predicted
    mu = judged.mu - shared * (b - w * latent.mu) / kept
    v = judged.v + w * shared**2 / kept
    rest, whole = augmentation.tilted(y, mu, v, c - unit), augmentation.tilted(y, mu, v, c)
    return Without(np.where(sound, rest.log_total - whole.log_total, -1e300), rest.mean, rest.variance)


def without_units(
    augmentation: Augmentation,
    copies: Copies,
    latent: Latent,
    predicted: Predicted,
    columns: tuple[np.ndarray, np.ndarray],
    site: Site,
    y: np.ndarray,
    c: np.ndarray,
    unit: np.ndarray,
    rounding: float,
) -> Without:
    r"""The same for rows of several copies: the copies in one unit of a row's weight are divided out together.

    Copies have missing entries of their own, and hence their own latent values and sites.  With :math:`A` the
    covariances of these latent values, ``s`` those with the row as predicted, and :math:`W = diag(w)`,

    .. math:: \mu_{-i} = \mu^0 - s^T (I - W A)^{-1} (b - w \mu), \qquad v_{-i} = v^0 + s^T (I - W A)^{-1} W s.

    ``columns`` are the entries of the copies, and the covariances of their weights with ``f``.  In the integrals over
    the likelihood, the copies share one latent value.
    """
    (w, b), (values, cross) = site.spared(latent.leftover), columns
    pull, mu, v, sound = b - w * latent.mu, np.empty(len(unit)), np.empty(len(unit)), np.empty(len(unit), dtype=bool)
    for rows, j in copies.units():
        one, shared = np.eye(j.shape[1]), predicted.shared[j]
        A = np.einsum("ijp,ikp->ijk", cross[j], values[j])
        A += (latent.spread[j] - np.diagonal(A, axis1=1, axis2=2))[:, :, None]
        A, root = (A + A.transpose(0, 2, 1)) / 2, np.sqrt(w[j])
        least = np.linalg.eigvalsh(one - root[:, :, None] * A * root[:, None, :])[:, 0]
        sound[rows] = least > rounding**0.5
        kept = np.where(sound[rows][:, None, None], one - w[j][:, :, None] * A, one)
        solved = np.linalg.solve(kept, np.stack([pull[j], w[j] * shared], axis=2))
        mu[rows] = predicted.latent.mu[j[:, 0]] - np.sum(shared * solved[:, :, 0], axis=1)
        v[rows] = predicted.latent.v[j[:, 0]] + np.sum(shared * solved[:, :, 1], axis=1)
    first = copies.starts
    c = copies.of_unit * c[first]
    rest = augmentation.tilted(y[first], mu, v, np.maximum(c - unit, 0))
    whole = augmentation.tilted(y[first], mu, v, c)
    return Without(np.where(sound, rest.log_total - whole.log_total, -1e300), rest.mean, rest.variance)


def as_predicted(features: Features, made_with: Features, belief: Any) -> Predicted | None:
    """The moments by which rows with drawn entries are evaluated; None if nothing was missing."""
    if not isinstance(features, IncompleteFeatures):
        return None
    before = features.foreseen(belief)
    moved = before.phi - made_with.phi
    shared = made_with.moments(belief).spread + (moved * made_with.cross(belief)[:, : moved.shape[1]]).sum(axis=1)
    return Predicted(Latent(*map(to_numpy, before.moments(belief))), to_numpy(shared))


class Weighted(NamedTuple):
    """Running moments of each row's ``f`` under importance weights ``r``, which are known up to a factor.

    ``top`` is the largest ``log r`` so far; sums of ``r`` and of its square are kept relative to it.
    """

    top: np.ndarray
    total: np.ndarray
    total_square: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    n_draws: int

    @classmethod
    def nothing(cls, n_rows: int) -> Weighted:
        zero = np.zeros(n_rows)
        return cls(np.full(n_rows, -1e300), zero, zero, zero, zero, 0)

    def plus(self, rows: Without) -> Weighted:
        top = np.maximum(self.top, rows.log_r)
        fade, r = np.exp(self.top - top), np.exp(rows.log_r - top)
        total = fade * self.total + r
        away = rows.mean - self.mean
        mean = self.mean + r / total * away
        scatter = fade * self.scatter + r * (rows.variance + away * (rows.mean - mean))
        return Weighted(top, total, fade**2 * self.total_square + r * r, mean, scatter, self.n_draws + 1)

    def left_out(self) -> LeftOut:
        total = np.where(self.total > 0, self.total, 1.0)
        worth = total**2 / np.where(self.total > 0, self.total_square, np.inf)
        return LeftOut(self.mean, self.scatter / total, worth >= max(_LEAST_WORTH, _LEAST_SHARE * self.n_draws))
