r"""Beliefs about weights: Gaussians, their KL divergence from a prior, and draws from them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arrays import (
    Array,
    as_float64,
    cholesky,
    inverse_lower,
    like,
    namespace,
    row_squares,
    solve_lower,
    times_lower_transposed,
    to_numpy,
)


class Belief(NamedTuple):
    r"""A Gaussian :math:`q = N(m, S)` over weights, :math:`S = R^T R` with ``R`` lower triangular.

    ``hyper`` holds whatever a prior infers besides the weights (such as variances). Inference only carries it along;
    incomplete rows read from it how columns predict each other, and estimators what they report.
    """

    mean: Array
    root: Array
    log_det: Array
    hyper: Any = None

    @property
    def n_weights(self) -> int:
        return self.mean.shape[0]

    @property
    def covariance(self) -> Array:
        return self.root.T @ self.root

    @property
    def variances(self) -> Array:
        return row_squares(self.root.T)

    @property
    def core_mean(self) -> Array:
        """The mean of the weights in the dense core: here all of them."""
        return self.mean

    @property
    def core_covariance(self) -> Array:
        """The covariance of the weights in the dense core: here all of them."""
        return self.covariance

    def energy(self, precision: Array) -> Array:
        r""":math:`E\, u^T P u = \mathrm{tr}\, P S + m^T P m`, for ``P`` a diagonal (a vector) or a matrix."""
        xp, m = namespace(self.mean), self.mean
        if precision.ndim == 1:
            return xp.sum(precision * (self.variances + m * m))
        return xp.sum(precision * self.covariance) + m @ (precision @ m)

    def covariance_times(self, x: Array) -> Array:
        return self.root.T @ (self.root @ x)

    def precision_times(self, x: Array) -> Array:
        return solve_lower(self.root, solve_lower(self.root, x, transposed=True))

    def felt(self, dG: Array, dh: Array) -> np.ndarray:
        """A change of natural parameters as one flat vector, in units of this belief's standard deviations."""
        xp = namespace(self.mean)
        sd = xp.sqrt(self.variances)
        spread = 0.5**0.5 * sd[:, None] * dG * sd[None, :]
        shift = sd * (dh - dG @ self.mean)
        return to_numpy(xp.concat([xp.reshape(spread, (-1,)), shift]))

    def squared_length(self, dG: Array, dh: Array) -> float:
        r"""The squared length of a change of natural parameters in the metric of this belief:
        :math:`\tfrac12 |R\, dG\, R^T|^2 + |R \delta|^2` with :math:`\delta = dh - dG\, m`."""
        spread = times_lower_transposed(times_lower_transposed(dG, self.root).T, self.root)
        shift = self.root @ (dh - dG @ self.mean)
        return 0.5 * float((spread * spread).sum()) + float(shift @ shift)

    def moved_from(self, other: Belief) -> float:
        """The squared distance between the two means, in units of this belief's standard deviations."""
        step = self.mean - other.mean
        return float(namespace(step).sum(step * step / self.variances))

    def sample(self, n_draws: int, rng: np.random.RandomState) -> np.ndarray:
        """Draws of the weights, one a row."""
        return to_numpy(self.mean) + rng.standard_normal((n_draws, self.root.shape[0])) @ to_numpy(self.root)

    def seen_by(self, reference: Array) -> Belief:
        """The same belief in the dtype, array library and device of a block of rows."""
        return self._replace(mean=like(self.mean, reference), root=like(self.root, reference))


class ClassBelief(NamedTuple):
    """A belief for each class, all independent; ``beside`` holds what is inferred jointly for all classes."""

    parts: tuple[Any, ...]
    beside: Any = None

    @property
    def hyper(self) -> Any:
        """``beside`` if there is one, otherwise the ``hyper`` of each class."""
        return tuple(part.hyper for part in self.parts) if self.beside is None else self.beside

    @property
    def n_weights(self) -> int:
        """The number of weights of all classes."""
        return sum(part.n_weights for part in self.parts)

    @property
    def means(self) -> Array:
        """Weights by classes."""
        return namespace(self.parts[0].mean).stack([part.mean for part in self.parts], axis=1)

    @property
    def roots(self) -> Array | None:
        """Roots as classes x weights x weights; None if beliefs do not store them for all pairs of weights."""
        if not isinstance(self.parts[0], Belief):
            return None
        return namespace(self.parts[0].root).stack([part.root for part in self.parts])

    def with_part(self, index: int, part: Any) -> ClassBelief:
        return self._replace(parts=(*self.parts[:index], part, *self.parts[index + 1 :]))

    def shifted(self, change: Array) -> ClassBelief:
        """The same belief with ``change`` (weights by classes) added to its linear terms."""
        moved = (part.mean + part.covariance_times(change[:, k]) for k, part in enumerate(self.parts))
        return ClassBelief(tuple(part._replace(mean=mean) for part, mean in zip(self.parts, moved, strict=True)))

    def moved_from(self, other: ClassBelief) -> float:
        return sum(part.moved_from(before) for part, before in zip(self.parts, other.parts, strict=True))

    def sample(self, n_draws: int, rng: np.random.RandomState) -> tuple[np.ndarray, ...]:
        """Draws of the weights of each class, one a row."""
        return tuple(part.sample(n_draws, rng) for part in self.parts)

    def seen_by(self, reference: Array) -> ClassBelief:
        return self._replace(parts=tuple(part.seen_by(reference) for part in self.parts))


def class_parts(belief: Any) -> tuple[Any, ...]:
    """The belief of each class; with two classes, the single belief."""
    return belief.parts if isinstance(belief, ClassBelief) else (belief,)


def with_hyper(belief: Any, hyper: Any) -> Any:
    """The same belief about the weights, with ``hyper`` in place of what was inferred besides them."""
    return belief._replace(beside=hyper) if isinstance(belief, ClassBelief) else belief._replace(hyper=hyper)


def from_natural(precision: Array, h: Array, hyper: Any = None) -> Belief:
    r"""The Gaussian proportional to :math:`\exp(h^T x - x^T \Lambda x / 2)` for the precision :math:`\Lambda`."""
    xp = namespace(h)
    C = cholesky(as_float64(precision))
    R = inverse_lower(C)
    return Belief(R.T @ (R @ as_float64(h)), R, -2 * xp.sum(xp.log(xp.linalg.diagonal(C))), hyper)


def kl(belief: Belief, precision: Array, log_det_precision: float | Array) -> Array:
    r""":math:`KL(N(m, S) \,\|\, N(0, P^{-1}))` for a precision ``P`` that is a diagonal (a vector) or a matrix.

    .. math:: \tfrac12 (\mathrm{tr}\, P S + m^T P m - \dim - \log|P| - \log|S|)

    A prior that is uncertain about its own scale passes the expectations of ``P`` and of ``log|P|`` instead.
    """
    return 0.5 * (belief.energy(precision) - belief.mean.shape[0] - log_det_precision - belief.log_det)
