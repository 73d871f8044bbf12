"""Priors: how the sums over rows become the next belief."""

from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from .classwise import Classwise
from .covariance import Covariance, Standard, Variances
from .imputing import Imputing, Known, choices
from .ridge import Ridge
from .selection import LaplaceZero, Selection
from .structured import Inferred, Part, Structured
from .variance import VarianceComponents

__all__ = [
    "Classwise",
    "Covariance",
    "Imputing",
    "Inferred",
    "Known",
    "LaplaceZero",
    "Part",
    "Prior",
    "Ridge",
    "Selection",
    "Standard",
    "Structured",
    "VarianceComponents",
    "Variances",
    "choices",
]


class Prior(Protocol):
    """A prior of the weights, and of what it infers along with them: ``belief.hyper``, a tuple of arrays, or None."""

    @property
    def is_plain(self) -> bool:
        """Whether ``G`` is one matrix, to which the weights' prior precision is added, and no more: then one Gaussian
        is all that need be known of rows that are gone, and minibatches can stand for the whole."""
        ...

    @property
    def is_gaussian(self) -> bool:
        """Whether rows see the weights themselves, and the weights are all they see."""
        ...

    def promised(self, G: Any, dG: Any, dh: Any, belief: Any) -> float:
        """What a full step from ``G`` promises to gain, the change of the sums being ``(dG, dh)``."""
        ...

    def start(self, reference: Array) -> tuple[Any, Any]:
        """Natural parameters ``(G, h)`` to begin from, in the library and place of ``reference``."""
        ...

    def update(self, G: Any, h: Any, belief: Any = None) -> Any:
        """The belief that the sums imply; ``belief`` is the one before, where there is one."""
        ...

    def given(self, G: Any, h: Any, hyper: Any) -> Any:
        """The belief about the weights that the sums imply, with everything else as it is."""
        ...

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        """The same belief about the weights, all else inferred from it, and the ``G`` that it now implies."""
        ...

    def effective(self, belief: Any) -> Any:
        """The moments of the weights as the rows see them."""
        ...

    def kl(self, belief: Any) -> Array:
        """The divergence of the belief from the prior, everything inferred included."""
        ...

    def rough(self) -> Any:
        """An easier prior whose optimum is a good start for this one; None if none is needed."""
        ...

    def alternatives(self, G: Any, h: Any, belief: Any) -> list[Any]:
        """Beliefs from which an ascent might end higher than at this one, the likeliest first."""
        ...

    def felt(self, belief: Any, dG: Any, dh: Any) -> np.ndarray:
        """A change of the sums as one flat vector, each entry in units of the belief's deviations."""
        ...

    def drawn(self, G: Any, h: Any, belief: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """The weights, drawn from the ``belief`` that `given` made of the sums, and everything else given them.

        The second is a ``hyper`` that `given`, `effective` and `seen_weights` will take for certain.
        """
        ...

    def seen_weights(self, weights: Any, hyper: Any) -> Any:
        """Drawn weights as the rows see them: the same array where that makes no difference."""
        ...
