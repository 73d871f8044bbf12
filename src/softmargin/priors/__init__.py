"""Priors: how the sums over rows become the next belief."""

from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from ..gaussian import Belief
from .ridge import Ridge
from .variance import VarianceComponents

__all__ = ["Prior", "Ridge", "VarianceComponents"]


class Prior(Protocol):
    """A prior of the weights, and of what it infers along with them: ``belief.hyper``, a tuple of arrays, or None."""

    def start(self, reference: Array) -> tuple[Any, Array]:
        """Natural parameters ``(G, h)`` to begin from, in the library and place of ``reference``."""
        ...

    def update(self, G: Any, h: Array, belief: Belief | None = None) -> Belief:
        """The belief that the sums imply; ``belief`` is the one before, where there is one."""
        ...

    def given(self, G: Any, h: Array, hyper: Any) -> Belief:
        """The belief about the weights that the sums imply, with everything else as it is."""
        ...

    def settled(self, G: Any, belief: Belief) -> tuple[Any, Belief]:
        """The same belief about the weights, all else inferred from it, and the ``G`` that it now implies."""
        ...

    def effective(self, belief: Belief) -> Belief:
        """The moments of the weights as the rows see them."""
        ...

    def kl(self, belief: Belief) -> Array:
        """The divergence of the belief from the prior, everything inferred included."""
        ...

    def drawn(self, weights: np.ndarray, rng: np.random.Generator) -> Any:
        """Everything inferred beside the weights, drawn given them: a ``hyper`` that `given` will take for certain."""
        ...
