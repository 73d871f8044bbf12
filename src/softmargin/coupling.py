r"""How rows of the past couple the classes of a stream (`streaming`).

With more than two classes, the curvature of a row in its latent means is a Laplacian :math:`H_i` of classes by classes.
Its diagonal is in the sums of each class. What is kept here is the rest, summed over rows and by pairs of classes,

.. math:: O_{jk} = -\sum_i H_{i,jk}\, \phi_i\phi_i^T \qquad (j < k).

If the means of all classes move by ``x`` (weights by classes), the slopes of the past in the mean of class ``k`` change
by :math:`\sum_{j \ne k} O_{jk} x_j` more than its own sums say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, clipped_at_zero, combined, like, namespace
from .chunks import summed, sweep
from .engine import Problem, Stats
from .gaussian import Belief, class_parts
from .rows import ClasswiseRows

#: The most numbers to keep; with more of them, past rows are remembered class by class.
_MOST = 2**23


class Coupling(NamedTuple):
    """The matrix :math:`O_{jk}` of each pair of classes: pairs x weights x weights."""

    pairs: Array

    @classmethod
    def of(cls, problem: Problem, belief: Any) -> Coupling | None:
        """That of the rows of a problem at a belief; None if classes are not coupled, or there is too much to keep."""
        first, *others = class_parts(belief)
        plain = isinstance(problem.rows, ClasswiseRows) and isinstance(first, Belief)
        size = len(others) * (len(others) + 1) // 2 * first.n_weights**2
        if not (problem.likelihood.couples and plain and size <= _MOST):
            return None
        seen = problem.seen(belief)
        return cls(summed(sweep(lambda index: _pairs_of(problem, index, seen), problem.table.n_blocks, problem.n_jobs)))

    def pulled(self, x: Array) -> Array:
        """The change of the slopes of all classes, beyond that of their own sums: the product with ``O`` of
        `together`."""
        n_classes = x.shape[1]
        one, other = (like(np.eye(n_classes)[places], x) for places in np.triu_indices(n_classes, 1))
        return self._across(x, one, other) + self._across(x, other, one)

    def _across(self, x: Array, start: Array, end: Array) -> Array:
        """From the classes at the start of each pair to those at its end."""
        xp = namespace(x)
        moved = xp.matmul(self.pairs, (start @ xp.permute_dims(x, (1, 0)))[:, :, None])[:, :, 0]
        return xp.permute_dims(moved, (1, 0)) @ end


def _pairs_of(problem: Problem, index: int, seen: Any) -> Array:
    """The matrices of all pairs, from one block of rows."""
    likelihood: Any = problem.likelihood
    features: Any = problem.features(index)
    _, y, weight = problem.table.block(index)
    latent = features.moments(seen)
    hessian, found, xp = likelihood.hessian(y, latent.mu, latent.v), [], namespace(latent.mu)
    for j in range(latent.mu.shape[1] - 1):
        unit = xp.zeros_like(latent.mu)
        unit[:, j] = 1.0
        w = clipped_at_zero(-weight[:, None] * likelihood.hessian_times(y, hessian, unit)[:, j + 1 :])
        G, _ = features.gather(w, w)
        found += G
    return xp.stack(found)


@dataclass
class CoupledProblem(Problem):
    """A problem whose classes are also coupled by past rows, whose own sums are those at the means ``center``."""

    coupling: Coupling | None = None
    center: Array | None = None

    @classmethod
    def of(cls, problem: Problem, coupling: Coupling, belief: Any) -> CoupledProblem:
        given = {part.name: getattr(problem, part.name) for part in fields(problem) if not part.name.startswith("_")}
        return cls(**given, coupling=coupling, center=belief.means)

    def stats(self, belief: Any) -> Stats:
        return self._with_past(super().stats(belief), belief)

    def stats_and_answer(self, belief: Any) -> tuple[Stats, Callable[[Array], Array]]:
        stats, answer = super().stats_and_answer(belief)
        return self._with_past(stats, belief), lambda x: answer(x) + self._pulled(x)

    def slopes_at(self, belief: Any) -> tuple[Array, ...]:
        """What the linear terms of the past gain where the means are those of a belief."""
        pulled = self._pulled(belief.means - self.center)
        return tuple(pulled[:, k] for k in range(pulled.shape[1]))

    def _with_past(self, stats: Stats, belief: Any) -> Stats:
        slopes, way = self.slopes_at(belief), belief.means - self.center
        gain = sum(slope @ way[:, k] for k, slope in enumerate(slopes)) / 2
        return stats._replace(h=combined(stats.h, 1, slopes), bound=stats.bound + gain)

    def _pulled(self, x: Array) -> Array:
        assert self.coupling is not None
        return self.coupling.pulled(x)
