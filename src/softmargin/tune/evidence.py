"""How well a kernel explains some rows: the objective at its optimum over beliefs, and its slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple, TypeVar

import numpy as np

from ..arrays import Array, combined
from ..chunks import sweep
from ..engine import objective
from ..gaussian import Belief
from ..kernels import Kernel
from ..likelihoods import Likelihood, Logistic, Quadrature, Sites
from ..priors import Ridge
from ..rows import Features, InducingRows
from ..rows.slopes import Slopes, bound_slopes, in_points, in_theta
from ..single import narrowed

T = TypeVar("T")

#: Rows of a block: few enough for threads to share a small panel, whatever their number, and to fit the cache.
_BLOCK_ROWS = 512
#: Beliefs of at least so many rows are settled in single precision.
_MANY_ROWS = 1024
#: Nats within which a belief is at its optimum, also as a share of the rows, and most updates on the way.
_SETTLED, _SETTLED_SHARE, MOST_UPDATES = 1e-2, 1e-4, 20
#: The logistic likelihood with as many nodes as a judge needs.
LOGISTIC_JUDGE = Quadrature(Logistic(), n_nodes=12)


class Judged(NamedTuple):
    """A kernel's objective, its slopes in ``theta``, and the belief at which they were found."""

    value: float
    slopes: np.ndarray
    rows: InducingRows
    belief: Belief


class _Settling(NamedTuple):
    """A belief on its way to the optimum: the sites it came from, and those that it asks for, block by block."""

    value: float
    belief: Belief
    sites: tuple[Sites, ...]
    asked: tuple[Sites, ...]


class Evidence:
    """The objective at a kernel with the belief at its optimum, on rows that fit in memory.

    The sites of the last kernel are kept as the start for the next.  ``n_updates`` limits the updates of the belief
    before the slopes are taken; the paper takes ten.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        points: np.ndarray,
        likelihood: Likelihood = LOGISTIC_JUDGE,
        n_updates: int = MOST_UPDATES,
        n_jobs: int = 1,
    ) -> None:
        self._n_jobs, n_blocks = n_jobs, -(-len(y) // _BLOCK_ROWS)
        self._blocks = list(zip(*(np.array_split(part, n_blocks) for part in (X, y, weight)), strict=True))
        self._points, self._likelihood, self._n_updates = points, likelihood, n_updates
        self._prior = Ridge.isotropic(len(points))
        self._sites = tuple(likelihood.sites(y, 0 * y, 0 * y + 1) for _, y, _ in self._blocks)
        self._is_single = len(y) >= _MANY_ROWS
        self._tolerance = max(_SETTLED, _SETTLED_SHARE * float(weight.sum()))

    def begin_from(self, judged: Judged) -> None:
        """Takes the sites from a belief found on other rows."""
        self._sites = self._asked([judged.rows.lift(X) for X, _, _ in self._blocks], judged.belief)

    def at(self, kernel: Kernel) -> Judged:
        """The objective and its slopes in ``theta`` at a kernel."""
        rows = InducingRows.at(kernel, self._points)
        value, belief, slopes = self._settled(rows)
        return Judged(value, in_theta(rows, slopes), rows, belief)

    def through(self, kernel: Kernel, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective through other points, and its slopes in them."""
        rows = InducingRows.at(kernel, points)
        value, _, slopes = self._settled(rows, points=True)
        return value, in_points(rows, slopes)

    def _settled(self, rows: InducingRows, points: bool = False) -> tuple[float, Belief, Slopes]:
        features = self._each(lambda index: rows.lift(self._blocks[index][0]))
        seen = self._each(lambda index: narrowed(features[index])) if self._is_single else features
        value, belief, _, self._sites = self._settle(seen)

        def one_block(index: int) -> Slopes:
            (X, _, weight), (_, w, b) = self._blocks[index], self._sites[index]
            return bound_slopes(rows, X, features[index].phi, belief, weight * w, weight * b, points)

        return value, belief, _sum(self._each(one_block))

    def _settle(self, features: Sequence[Features]) -> _Settling:
        """Updates of the belief, shortened where a full one descends, until they gain nothing more."""
        best = self._update(features, self._sites)
        rate = 1.0
        for _ in range(self._n_updates - 1):
            sites = combined(best.sites, rate, combined(best.asked, -1, best.sites)) if rate < 1 else best.asked
            tried = self._update(features, sites)
            gain = tried.value - best.value
            if gain < -self._tolerance:
                rate /= 2
                continue
            best = tried
            if gain < self._tolerance:
                break
        return best

    def _update(self, features: Sequence[Features], sites: tuple[Sites, ...]) -> _Settling:
        def one_block(index: int) -> tuple[Array, Array]:
            weight, (_, w, b) = self._blocks[index][2], sites[index]
            return features[index].gather(weight * w, weight * b)

        belief = self._prior.given(*_sum(self._each(one_block)))
        asked = self._asked(features, belief)
        bound = sum(weight @ block.l for (_, _, weight), block in zip(self._blocks, asked, strict=True))
        return _Settling(objective(bound, self._prior, belief), belief, sites, asked)

    def _asked(self, features: Sequence[Features], belief: Belief) -> tuple[Sites, ...]:
        def one_block(index: int) -> Sites:
            latent = features[index].moments(belief)
            return self._likelihood.sites(self._blocks[index][1], latent.mu, latent.v)

        return tuple(self._each(one_block))

    def _each(self, function: Callable[[int], T]) -> list[T]:
        return list(sweep(function, len(self._blocks), self._n_jobs))


def _sum(parts: list[T]) -> T:
    return reduce(lambda first, second: combined(first, 1, second), parts)
