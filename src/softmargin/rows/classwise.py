r"""Rows of more than two classes, which share features; moments and sites have a column for each class.

:math:`f_k = \phi^T u_k` plus independent noise; each class has its own weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..arrays import Array, namespace
from ..gaussian import ClassBelief
from ..likelihoods import Likelihood
from .features import Latent, LiftedView, View
from .inducing import KernelView


class ClasswiseRows(NamedTuple):
    """Other rows, whose features multiply the weights of each of ``n_classes`` classes."""

    rows: Any
    n_classes: int

    @property
    def n_weights(self) -> int:
        """The number of weights of one class."""
        return self.rows.n_weights

    @property
    def width(self) -> int:
        return self.rows.width

    @property
    def least_rows(self) -> int:
        return self.rows.least_rows

    def lift(self, X: Array) -> Any:
        return ClasswiseFeatures(self.rows.lift(X))

    def leftover_root(self, X: Array) -> Array | None:
        """The same for every class, or with classes as its last axis; unexplained parts of classes are independent."""
        return self.rows.leftover_root(X)

    def view(self, belief: Any, reference: Array) -> View:
        views = [self.rows.view(part, reference) for part in belief.parts]
        if all(isinstance(view, KernelView) for view in views):
            return KernelViews(tuple(views))
        return LiftedView(self, belief.seen_by(reference))


class ClasswiseFeatures(NamedTuple):
    """The features of a block, which all classes share."""

    base: Any

    @property
    def phi(self) -> Array:
        return self.base.phi

    @property
    def leftover(self) -> Array:
        return self.base.leftover

    def moments(self, belief: ClassBelief) -> Latent:
        """One column for each class."""
        mu, spread, leftover = zip(*(self.base.moments(part) for part in belief.parts), strict=True)
        xp = namespace(*mu)
        # ``leftover`` is the same for all classes, or has a column for each already.
        left = self.leftover if self.leftover.ndim == 2 else xp.stack(leftover, axis=1)
        return Latent(xp.stack(mu, axis=1), xp.stack(spread, axis=1), left)

    def means(self, belief: ClassBelief) -> tuple[Array, Array]:
        """The means and variances: with more than two classes, labels need both."""
        latent = self.moments(belief)
        return latent.mu, latent.v

    def gather(self, w: Array, b: Array) -> tuple[tuple[Any, ...], tuple[Array, ...]]:
        """The sums of each class."""
        sums = [self.base.gather(w[:, k], b[:, k]) for k in range(w.shape[1])]
        G, h = zip(*sums, strict=True)
        return tuple(G), tuple(h)

    def at(self, weights: tuple[Array, ...]) -> Array:
        """One column for each class."""
        columns = [self.base.at(own) for own in weights]
        return namespace(*columns).stack(columns, axis=1)

    def latent_of(self, weights: Array) -> Array:
        """Latent values (row by class) under weights (weight by class)."""
        return self.base.latent_of(weights)

    def pulled(self, values: Array) -> Array:
        r""":math:`\sum_i \phi_i x_i^T`: the transpose of `latent_of`."""
        return self.base.pulled(values)

    def settled(
        self, belief: ClassBelief, likelihood: Likelihood, y: Array, weight: Array
    ) -> tuple[ClasswiseFeatures, Any]:
        """These features and a cost of zero: complete rows have nothing to infer."""
        return self, 0.0

    def drawn(self, weights: Any, hyper: Any, site: tuple[Array, Array], weight: Array, rng: Any) -> ClasswiseFeatures:
        """These features: complete rows have nothing to draw."""
        return self


class KernelViews(NamedTuple):
    """Views for each class, which share one evaluation of the kernel."""

    views: tuple[Any, ...]

    def moments(self, X: Array) -> tuple[Array, Array]:
        first, *_ = self.views
        K, prior = first.covariances(X)
        mu, v = zip(*(view.moments_from(K, prior) for view in self.views), strict=True)
        xp = namespace(*mu)
        return xp.stack(mu, axis=1), xp.stack(v, axis=1)

    def means(self, X: Array) -> tuple[Array, Array]:
        return self.moments(X)
