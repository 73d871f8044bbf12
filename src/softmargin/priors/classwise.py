"""A prior for each class; sums and beliefs are tuples with one part for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..gaussian import ClassBelief
from .held import Held


class Classwise(NamedTuple):
    """Independent priors of the weights of each class: any that can be used for two classes.

    ``G``, ``h`` and ``belief.parts`` are tuples with one entry for each class.
    """

    priors: tuple[Any, ...]

    @classmethod
    def alike(cls, prior: Any, n_classes: int) -> Classwise:
        """The same prior for every class; what it infers may differ between classes."""
        return cls((prior,) * n_classes)

    @property
    def is_plain(self) -> bool:
        return all(prior.is_plain for prior in self.priors)

    @property
    def is_gaussian(self) -> bool:
        return all(prior.is_gaussian for prior in self.priors)

    def start(self, reference: Array) -> tuple[Any, Any]:
        return _apart(prior.start(reference) for prior in self.priors)

    def update(self, G: Any, h: Any, belief: ClassBelief | None = None) -> ClassBelief:
        before = (None,) * len(self.priors) if belief is None else belief.parts
        every = zip(self.priors, G, h, before, strict=True)
        return ClassBelief(tuple(prior.update(own, linear, part) for prior, own, linear, part in every))

    def given(self, G: Any, h: Any, hyper: tuple[Any, ...]) -> ClassBelief:
        every = zip(self.priors, G, h, hyper, strict=True)
        return ClassBelief(tuple(prior.given(own, linear, known) for prior, own, linear, known in every))

    def settled(self, G: Any, belief: ClassBelief) -> tuple[Any, ClassBelief]:
        every = zip(self.priors, G, belief.parts, strict=True)
        own, parts = _apart(prior.settled(part, of_class) for prior, part, of_class in every)
        return own, ClassBelief(parts)

    def effective(self, belief: ClassBelief) -> ClassBelief:
        return ClassBelief(tuple(prior.effective(part) for prior, part in self._with(belief)))

    def kl(self, belief: ClassBelief) -> Array:
        return sum(prior.kl(part) for prior, part in self._with(belief))

    def rough(self) -> Classwise | None:
        rough = [prior.rough() for prior in self.priors]
        if all(easier is None for easier in rough):
            return None
        pairs = zip(self.priors, rough, strict=True)
        return Classwise(tuple(prior if easier is None else easier for prior, easier in pairs))

    def promised(self, G: Any, dG: Any, dh: Any, belief: ClassBelief) -> float:
        every = zip(self.priors, G, dG, dh, belief.parts, strict=True)
        return sum(prior.promised(*parts) for prior, *parts in every)

    def alternatives(self, G: Any, h: Any, belief: ClassBelief) -> list[ClassBelief]:
        """The alternatives of each class, with all other classes unchanged."""
        return [
            belief.with_part(index, other)
            for index, (prior, part) in enumerate(self._with(belief))
            for other in prior.alternatives(G[index], h[index], part)
        ]

    def about(self, belief: ClassBelief, other: ClassBelief) -> Classwise:
        """The prior for an ascent from an alternative, in which classes that are the same in both beliefs are held.

        Where the likelihood couples classes, the others would change a little.  To judge a choice by its own class is
        just as good, and takes the time of one class.
        """
        every = zip(self.priors, belief.parts, other.parts, strict=True)
        return Classwise(tuple(Held.at(prior, one) if one is two else prior for prior, one, two in every))

    def felt(self, belief: ClassBelief, dG: Any, dh: Any) -> np.ndarray:
        every = zip(self._with(belief), dG, dh, strict=True)
        return np.concatenate([prior.felt(part, own, linear) for (prior, part), own, linear in every])

    def drawn(self, G: Any, h: Any, belief: ClassBelief, rng: np.random.Generator) -> tuple[Any, tuple[Any, ...]]:
        every = zip(self._with(belief), G, h, strict=True)
        return _apart(prior.drawn(own, linear, part, rng) for (prior, part), own, linear in every)

    def seen_weights(self, weights: tuple[np.ndarray, ...], hyper: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
        every = zip(self.priors, weights, hyper, strict=True)
        return tuple(prior.seen_weights(own, known) for prior, own, known in every)

    def _with(self, belief: ClassBelief) -> Iterator[tuple[Any, Any]]:
        return zip(self.priors, belief.parts, strict=True)


def _apart(pairs: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A sequence of pairs as a pair of tuples."""
    first, second = zip(*pairs, strict=True)
    return tuple(first), tuple(second)
