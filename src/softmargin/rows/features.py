r"""A block of rows as dense features: :math:`f = \phi^T u` plus independent noise of variance ``leftover``."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..arrays import Array, as_float64, like, namespace, row_squares, squares_through_lower, weighted_gram
from ..gaussian import Belief
from ..likelihoods import Likelihood


class Latent(NamedTuple):
    """The belief about each row's latent value: ``N(mu, spread + leftover)``.

    ``spread`` comes from the weights; ``leftover`` is variance that the weights cannot explain.
    """

    mu: Array
    spread: Array
    leftover: Array

    @property
    def v(self) -> Array:
        return self.spread + self.leftover


class Features(NamedTuple):
    """Features ``phi`` (row by weight), and the variance of each row that they leave unexplained."""

    phi: Array
    leftover: Array

    def moments(self, belief: Belief) -> Latent:
        r""":math:`\mu = \phi^T m`, and :math:`a = \phi^T S \phi = |R \phi|^2` as the spread."""
        mu = as_float64(self.phi @ belief.mean)
        return Latent(mu, as_float64(squares_through_lower(self.phi, belief.root)), self.leftover)

    def means(self, belief: Belief) -> tuple[Array, Array]:
        r"""The means, and limits of the variances: :math:`|R \phi|^2 \le |R|^2 |\phi|^2`."""
        xp, R = namespace(self.phi), as_float64(belief.root)
        limit = as_float64(row_squares(self.phi)) * xp.sum(R * R)
        return as_float64(self.phi @ belief.mean), limit + self.leftover

    def gather(self, w: Array, b: Array) -> tuple[Array, Array]:
        r""":math:`G = \sum_i w_i \phi_i \phi_i^T` and :math:`h = \sum_i b_i \phi_i`, in float64."""
        return weighted_gram(self.phi, w), as_float64(like(b, self.phi) @ self.phi)

    def at(self, weights: Array) -> Array:
        r""":math:`\phi^T u` for known weights."""
        return as_float64(self.phi @ like(weights, self.phi))

    def latent_of(self, weights: Array) -> Array:
        """Latent values (row by class) under the weights (weight by class) of several classes."""
        return self.at(weights)

    def pulled(self, values: Array) -> Array:
        r""":math:`\sum_i \phi_i x_i^T`: the transpose of `latent_of`."""
        return as_float64(self.phi.T @ like(values, self.phi))

    def cross(self, belief: Belief) -> Array:
        r""":math:`Cov(u, f) = S \phi` of each row."""
        return as_float64((self.phi @ belief.root.T) @ belief.root)

    def settled(self, belief: Belief, likelihood: Likelihood, y: Array, weight: Array) -> tuple[Features, float]:
        """These features and a cost of zero: complete rows have nothing to infer."""
        return self, 0.0

    def drawn(self, weights: Array, hyper: Any, site: tuple[Array, Array], weight: Array, rng: Any) -> Features:
        """These features: complete rows have nothing to draw."""
        return self

    def core_of(self, weights: Array) -> Array:
        """The weights of the dense core: here all of them."""
        return weights


class View(Protocol):
    """Predictions under one belief: latent means and variances of rows, and nothing else."""

    def moments(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent value of each row."""
        ...

    def means(self, X: Array) -> tuple[Array, Array]:
        """The same means, and numbers that variances do not exceed: with two classes, they take far less time."""
        ...


class LiftedView(NamedTuple):
    """The generic view, which computes moments from features."""

    rows: Any
    belief: Any

    def moments(self, X: Array) -> tuple[Array, Array]:
        latent = self.rows.lift(X).moments(self.belief)
        return latent.mu, latent.v

    def means(self, X: Array) -> tuple[Array, Array]:
        return self.rows.lift(X).means(self.belief)
