"""Gaussian priors with known precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array

from ..arrays import Array, cholesky, namespace
from ..gaussian import Belief, from_natural, kl


class Ridge(NamedTuple):
    r"""Weights :math:`N(0, P^{-1})` with ``P`` given, as a diagonal (a vector) or as a matrix.

    ``Ridge.isotropic(m)`` is the standard normal of whitened inducing points.
    """

    precision: Array
    is_plain = True
    is_gaussian = True

    @classmethod
    def isotropic(cls, n_weights: int, variance: float = 1.0) -> Ridge:
        return cls(np.full(n_weights, 1 / variance))

    def start(self, reference: Array) -> tuple[Array, Array]:
        diagonal = self.precision if self.precision.ndim == 1 else np.diagonal(self.precision)
        return start_from_precision(diagonal, reference)

    def update(self, G: Array, h: Array, belief: Belief | None = None) -> Belief:
        return self.given(G, h)

    def given(self, G: Array, h: Array, hyper: Any = None) -> Belief:
        return from_natural(plus(G, self.precision), h)

    def settled(self, G: Array, belief: Belief) -> tuple[Array, Belief]:
        return G, belief

    def effective(self, belief: Belief) -> Belief:
        return belief

    def kl(self, belief: Belief) -> Array:
        return kl(belief, in_place_of(self.precision, belief.mean), self._log_det())

    def drawn(self, G: Array, h: Array, belief: Any, rng: np.random.Generator) -> tuple[np.ndarray, None]:
        return belief.sample(1, rng)[0], None

    def seen_weights(self, weights: np.ndarray, hyper: None) -> np.ndarray:
        return weights

    def rough(self) -> None:
        """None: no easier prior gives a better start."""

    def promised(self, G: Array, dG: Array, dh: Array, belief: Belief) -> float:
        return belief.squared_length(dG, dh) / 2

    def alternatives(self, G: Array, h: Array, belief: Belief) -> list[Any]:
        """None: the ascent has no other optima worth trying."""
        return []

    def felt(self, belief: Belief, dG: Array, dh: Array) -> np.ndarray:
        return belief.felt(dG, dh)

    def begin(self) -> None:
        """Nothing is inferred."""

    def expected_precision(self, hyper: None = None) -> np.ndarray:
        return self.precision

    def expected_log_precision(self, hyper: None = None) -> float:
        return self._log_det()

    def divergence(self, hyper: None = None) -> float:
        return 0.0

    def learned(self, mean: np.ndarray, variances: np.ndarray, before: None = None, leap: bool = False) -> None:
        """Nothing is inferred."""

    def redrawn(self, weights: np.ndarray, before: None, rng: np.random.Generator) -> None:
        """Nothing is inferred."""

    def _log_det(self) -> float:
        if self.precision.ndim == 1:
            return float(np.log(self.precision).sum())
        return float(2 * np.log(np.diagonal(cholesky(self.precision))).sum())


def start_from_precision(diagonal: np.ndarray, reference: Array) -> tuple[Array, Array]:
    """A ``G`` that raises vague weights to unit precision, and ``h = 0``: a start with moderate variances."""
    xp = namespace(reference)
    G = np.diag(np.maximum(1 - diagonal, 0.0))
    where: dict[str, Any] = {"dtype": xp.float64, "device": device(reference)}
    return xp.asarray(G, **where), xp.zeros(len(diagonal), **where)


def in_place_of(precision: np.ndarray, reference: Array) -> Array:
    """A prior's precision in float64, in the library and on the device of ``reference``."""
    xp = namespace(reference)
    return xp.asarray(precision, dtype=xp.float64, device=device(reference))


def plus(G: Array, precision: np.ndarray) -> Array:
    """``G + P`` for a precision given as a diagonal or a matrix."""
    own = in_place_of(precision, G)
    if own.ndim == 1 and is_numpy_array(G):
        total = G.astype(np.float64)
        total.reshape(-1)[:: len(own) + 1] += own
        return total
    return G + (namespace(G).eye(len(own), dtype=own.dtype, device=device(own)) * own if own.ndim == 1 else own)
