"""Priors of weights combined with a model of the columns, for rows with missing entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..gaussian import ClassBelief, class_parts, with_hyper
from ..imputation import ColumnModel, Imputation, Sums


class Known(NamedTuple):
    """What is inferred besides the weights: by their own prior, and about the columns."""

    weights: Any
    columns: Imputation


class Imputing(NamedTuple):
    """Another prior of the weights, and a model of the columns, whose sums accompany ``G``: ``(G, sums)``.

    With more than two classes, each class has its own weights and ``prior`` is `Classwise`; the columns are shared.
    ``n`` is the total weight of the rows, which sets how certain the model of the columns is at the start.
    """

    prior: Any
    columns: ColumnModel
    n: float
    is_plain = False
    is_gaussian = False

    def start(self, reference: Array) -> tuple[Any, Array]:
        G, h = self.prior.start(reference)
        return (G, tuple(self.columns.start(self.n))), h

    def update(self, G: Any, h: Array, belief: Any = None) -> Any:
        G, sums = G
        before = None if belief is None else belief.hyper.columns
        weights = self.prior.update(G, h, None if belief is None else _own(belief))
        return with_hyper(weights, Known(weights.hyper, self.columns.updated(Sums(*sums), before)))

    def given(self, G: Any, h: Array, hyper: Known) -> Any:
        weights = self.prior.given(G[0], h, hyper.weights)
        return with_hyper(weights, hyper)

    def settled(self, G: Any, belief: Any) -> tuple[Any, Any]:
        """The columns are updated from their sums, which do not depend on the weights."""
        own, weights = self.prior.settled(G[0], _own(belief))
        columns = self.columns.updated(Sums(*G[1]), belief.hyper.columns)
        return (own, G[1]), with_hyper(weights, Known(weights.hyper, columns))

    def effective(self, belief: Any) -> Any:
        """The moments of the weights, with the belief about the columns, which rows need, as ``hyper``."""
        return with_hyper(self.prior.effective(_own(belief)), belief.hyper.columns)

    def kl(self, belief: Any) -> Array:
        return self.prior.kl(_own(belief)) + self.columns.kl(belief.hyper.columns)

    def rough(self) -> Imputing | None:
        rough = self.prior.rough()
        return None if rough is None else self._replace(prior=rough)

    def promised(self, G: Any, dG: Any, dh: Array, belief: Any) -> float:
        """The predicted gain from the weights alone; that from the columns is not needed."""
        return self.prior.promised(G[0], dG[0], dh, _own(belief))

    def alternatives(self, G: Any, h: Array, belief: Any) -> list[Any]:
        others = self.prior.alternatives(G[0], h, _own(belief))
        return [with_hyper(other, Known(other.hyper, belief.hyper.columns)) for other in others]

    def about(self, belief: Any, other: Any) -> Imputing:
        return self._replace(prior=self.prior.about(_own(belief), _own(other)))

    def felt(self, belief: Any, dG: Any, dh: Array) -> np.ndarray:
        """The change of the weights' sums, and that of the columns' second moments in units of their scatter."""
        R = np.linalg.cholesky(belief.hyper.columns.precision)
        scatter = R.T @ (dG[1][1] / np.sqrt(2 * self.n)) @ R
        return np.concatenate([self.prior.felt(_own(belief), dG[0], dh), scatter.ravel()])

    def drawn(self, G: Any, h: Array, belief: Any, rng: np.random.Generator) -> tuple[np.ndarray, Known]:
        weights, hyper = self.prior.drawn(G[0], h, _own(belief), rng)
        return weights, Known(hyper, self.columns.drawn(Sums(*G[1]), belief.hyper.columns, rng))

    def seen_weights(self, weights: np.ndarray, hyper: Known) -> np.ndarray:
        return self.prior.seen_weights(weights, hyper.weights)


def _own(belief: Any) -> Any:
    """The belief as the prior of the weights expects it."""
    return with_hyper(belief, None if isinstance(belief, ClassBelief) else belief.hyper.weights)


def choices(belief: Any) -> np.ndarray:
    """Which columns are included, under priors with inclusion variables: one row for each class."""
    hypers = [part.hyper for part in class_parts(belief)]
    fixed = [(hyper.weights if isinstance(hyper, Known) else hyper).fixed for hyper in hypers]
    return np.stack([chosen.included > 0.5 for chosen in fixed])
