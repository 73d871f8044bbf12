"""Priors, which compute the next belief from the sums over rows."""

from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from .classwise import Classwise
from .imputing import Imputing, Known, choices
from .random_effects import Covariance, Standard, Variances
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
    """A prior of the weights and of what is inferred along with them: ``belief.hyper``, a tuple of arrays, or None."""

    @property
    def is_plain(self) -> bool:
        """Whether ``G`` is one matrix, to which the weights' prior precision is simply added.  If so, one Gaussian
        summarises all rows seen before, and minibatches can stand in for all rows."""
        ...

    @property
    def is_gaussian(self) -> bool:
        """Whether the moments of rows depend on the Gaussian of the weights alone, without further transformation."""
        ...

    def promised(self, G: Any, dG: Any, dh: Any, belief: Any) -> float:
        """The predicted gain of a full step from ``G``, which changes the sums by ``(dG, dh)``."""
        ...

    def start(self, reference: Array) -> tuple[Any, Any]:
        """Natural parameters ``(G, h)`` to start from, in the library and on the device of ``reference``."""
        ...

    def update(self, G: Any, h: Any, belief: Any = None) -> Any:
        """The belief that the sums imply; ``belief`` is the previous one, if any."""
        ...

    def given(self, G: Any, h: Any, hyper: Any) -> Any:
        """The belief about the weights that the sums imply, with everything else as in ``hyper``."""
        ...

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        """Infers all else from the weights, which stay: the ``G`` that now implies them, and the new belief."""
        ...

    def effective(self, belief: Any) -> Any:
        """The moments of the weights as they enter the rows."""
        ...

    def kl(self, belief: Any) -> Array:
        """The divergence of the belief from the prior, including everything else that is inferred."""
        ...

    def rough(self) -> Any:
        """An easier prior whose optimum is a good start for this one, or None if none is needed."""
        ...

    def alternatives(self, G: Any, h: Any, belief: Any) -> list[Any]:
        """Beliefs from which an ascent may reach a higher optimum than this one, the most promising first."""
        ...

    def felt(self, belief: Any, dG: Any, dh: Any) -> np.ndarray:
        """A change of the sums as one flat vector, with each entry in units of the belief's standard deviations."""
        ...

    def drawn(self, G: Any, h: Any, belief: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """A draw of the weights from ``belief``, which `given` computed from the sums, and of all else given them.

        The second is a ``hyper`` that `given`, `effective` and `seen_weights` treat as known.
        """
        ...

    def seen_weights(self, weights: Any, hyper: Any) -> Any:
        """Drawn weights as they enter the rows: the same array if that makes no difference."""
        ...
