"""Holds the weights of one class fixed while alternatives for another are tried."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array


class Held(NamedTuple):
    """A ``prior`` whose belief is held at ``belief``, whatever the sums.

    The moments that rows see, and the divergence, are computed once.
    """

    prior: Any
    belief: Any
    seen: Any
    divergence: Array

    @classmethod
    def at(cls, prior: Any, belief: Any) -> Held:
        return cls(prior, belief, prior.effective(belief), prior.kl(belief))

    @property
    def is_plain(self) -> bool:
        return self.prior.is_plain

    @property
    def is_gaussian(self) -> bool:
        return self.prior.is_gaussian

    def update(self, G: Any, h: Any, belief: Any = None) -> Any:
        return self.belief

    def given(self, G: Any, h: Any, hyper: Any) -> Any:
        return self.belief

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        return G, self.belief

    def effective(self, belief: Any) -> Any:
        return self.seen

    def kl(self, belief: Any) -> Array:
        return self.divergence

    def promised(self, G: Any, dG: Any, dh: Any, belief: Any) -> float:
        return 0.0

    def felt(self, belief: Any, dG: Any, dh: Any) -> np.ndarray:
        """An empty vector: the sums have no effect."""
        return np.zeros(0)
