"""The evidence for a kernel on some rows: the objective at its optimum over beliefs, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..arrays import Array, combined
from ..chunks import summed, sweep
from ..engine import objective
from ..gaussian import Belief
from ..kernels import Kernel
from ..likelihoods import Likelihood, Logistic, OneVersusRest, Quadrature, Sites
from ..priors import Classwise, Ridge
from ..rows import ClasswiseFeatures, Features, InducingRows, Latent
from ..rows.slopes import Slopes, bound_slopes, in_points, in_theta
from ..single_precision import narrowed
from ..together import step_together

T = TypeVar("T")

#: Rows of a block: few enough to fit the cache, and to spread a small panel over any number of threads.
_BLOCK_ROWS = 512
#: From this many rows on, beliefs are computed in single precision.
_MANY_ROWS = 1024
#: A belief has converged within this many nats, or this share of the rows, and after at most this many updates.
_SETTLED, _SETTLED_SHARE, MOST_UPDATES = 1e-2, 1e-4, 20
#: The logistic likelihood with as many nodes as evaluating kernels needs.
LOGISTIC_JUDGE = Quadrature(Logistic(), n_nodes=12)


def logistic_judge(n_classes: int) -> Likelihood:
    """The logistic likelihood by which kernels are judged, for a number of classes.

    With more than two it is one-versus-rest, whose beliefs converge in fewer updates than those of a softmax, with no
    worse kernels.
    """
    return LOGISTIC_JUDGE if n_classes == 2 else OneVersusRest(LOGISTIC_JUDGE)


class Judged(NamedTuple):
    """A kernel's objective, its gradient in ``theta``, and the rows and belief at which it was evaluated."""

    value: float
    slopes: np.ndarray
    rows: InducingRows
    belief: Belief


class _Settling(NamedTuple):
    """A belief on its way to the optimum: the sites that imply it and the sites at it, block by block, and the coupling
    of classes there."""

    value: float
    belief: Any
    sites: tuple[Sites, ...]
    asked: tuple[Sites, ...]
    ties: Sequence[Any] = ()


class Evidence:
    """The objective at a kernel with the belief at its optimum, on rows that fit in memory.

    The sites of the last kernel are kept as the start for the next.  ``n_updates`` limits the updates of the belief
    before the gradient is computed; the paper uses ten.
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
        n_classes: int = 2,
    ) -> None:
        self._n_jobs, n_blocks = n_jobs, -(-len(y) // _BLOCK_ROWS)
        self._blocks = list(zip(*(np.array_split(part, n_blocks) for part in (X, y, weight)), strict=True))
        self._points, self._n_updates = points, n_updates
        self._likelihood: Any = likelihood
        self._latent: dict[int, Latent] = {}
        self._n_classes, self._prior = n_classes, Ridge.isotropic(len(points))
        if n_classes > 2:
            self._prior = Classwise.alike(self._prior, n_classes)
        self._sites = tuple(self._first_sites(y) for _, y, _ in self._blocks)
        self._is_single = len(y) >= _MANY_ROWS
        # With more classes, beliefs converge more slowly, and the tolerance is for their sum.
        self._tolerance = (n_classes - 1) * max(_SETTLED, _SETTLED_SHARE * float(weight.sum()))

    def _first_sites(self, y: np.ndarray) -> Sites:
        """The sites at a standard normal."""
        zeros = np.zeros(len(y) if self._n_classes == 2 else (len(y), self._n_classes))
        return self._likelihood.sites(y, zeros, zeros + 1)

    def _lifted(self, rows: InducingRows, X: np.ndarray) -> Any:
        return rows.lift(X) if self._n_classes == 2 else ClasswiseFeatures(rows.lift(X))

    def begin_from(self, judged: Judged) -> None:
        """Starts from the sites at a belief found on other rows."""
        self._sites = self._asked([self._lifted(judged.rows, X) for X, _, _ in self._blocks], judged.belief)

    def row_slopes(self, judged: Judged) -> np.ndarray:
        r"""The derivative of each row's ``l`` in its :math:`\mu`; with more than two classes, one for each."""
        sites = self._asked([self._lifted(judged.rows, X) for X, _, _ in self._blocks], judged.belief)
        return np.concatenate([b - w * self._latent[index].mu for index, (_, w, b) in enumerate(sites)])

    def at(self, kernel: Kernel) -> Judged:
        """The objective at a kernel and its gradient in ``theta``."""
        rows = InducingRows.at(kernel, self._points)
        value, belief, slopes = self._settled(rows)
        return Judged(value, in_theta(rows, slopes), rows, belief)

    def through(self, kernel: Kernel, points: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective with other points, and its gradient in them."""
        rows = InducingRows.at(kernel, points)
        value, _, slopes = self._settled(rows, points=True)
        return value, in_points(rows, slopes)

    def _settled(self, rows: InducingRows, points: bool = False) -> tuple[float, Belief, Slopes]:
        features = self._each(lambda index: self._lifted(rows, self._blocks[index][0]))
        seen = self._each(lambda index: narrowed(features[index])) if self._is_single else features
        value, belief, _, self._sites, _ = self._settle(seen)

        def one_block(index: int) -> Slopes:
            (X, _, weight), (_, w, b) = self._blocks[index], self._sites[index]
            phi, each = features[index].phi, _by_row(weight, w)
            return bound_slopes(rows, X, phi, belief, each * w, each * b, points)

        return value, belief, summed(self._each(one_block))

    def _settle(self, features: Sequence[Features]) -> _Settling:
        """Updates the belief until it converges, with shorter steps where a full one descends."""
        best = self._update(features, self._sites)
        rate = 1.0
        for _ in range(self._n_updates - 1):
            sites, belief = self._next(features, best)
            if rate < 1:
                sites, belief = combined(best.sites, rate, combined(sites, -1, best.sites)), None
            tried = self._update(features, sites, belief)
            gain = tried.value - best.value
            if gain < -self._tolerance:
                rate /= 2
                continue
            best = tried
            if gain < self._tolerance:
                break
        return best

    def _update(self, features: Sequence[Features], sites: tuple[Sites, ...], belief: Any = None) -> _Settling:
        """The belief that sites imply, unless it is given, and the new sites at that belief."""
        belief = self._implied(features, sites) if belief is None else belief
        asked = self._asked(features, belief)
        bound = sum(weight @ block.l for (_, _, weight), block in zip(self._blocks, asked, strict=True))
        ties = self._each(lambda index: self._ties(index, asked[index])) if self._likelihood.couples else ()
        return _Settling(objective(bound, self._prior, belief), belief, sites, asked, ties)

    def _implied(self, features: Sequence[Any], sites: tuple[Sites, ...]) -> Any:
        """The belief that sites imply."""

        def one_block(index: int) -> tuple[Any, Any]:
            weight, (_, w, b) = self._blocks[index][2], sites[index]
            each = _by_row(weight, w)
            return features[index].gather(each * w, each * b)

        G, h = summed(self._each(one_block))
        return self._prior.given(G, h, (None,) * self._n_classes)

    def _next(self, features: Sequence[Any], at: _Settling) -> tuple[tuple[Sites, ...], Any]:
        """The sites of the next update, and the belief that they imply, if it is a by-product (None otherwise).

        If the likelihood couples classes, they are the sites of a joint step of all classes.
        """
        if not self._likelihood.couples:
            return at.asked, None
        alone = self._implied(features, at.asked)

        def in_block(index: int, x: Array) -> Array:
            return self._likelihood.answer(self._blocks[index][1], at.ties[index], features[index].latent_of(x))

        def answer(x: Array) -> Array:
            weights = [weight[:, None] for _, _, weight in self._blocks]
            return summed(self._each(lambda index: features[index].pulled(weights[index] * in_block(index, x))))

        step = step_together(answer, alone, at.belief)
        sites = tuple(site._replace(b=site.b + in_block(index, step)) for index, site in enumerate(at.asked))
        return sites, alone.shifted(answer(step))

    def _asked(self, features: Sequence[Features], belief: Belief) -> tuple[Sites, ...]:
        def one_block(index: int) -> Sites:
            latent = self._latent[index] = features[index].moments(belief)
            return self._likelihood.sites(self._blocks[index][1], latent.mu, latent.v)

        return tuple(self._each(one_block))

    def _ties(self, index: int, sites: Sites) -> Any:
        """The coupling of classes in a block, at the belief whose sites were computed last."""
        latent = self._latent[index]
        return self._likelihood.ties(self._blocks[index][1], latent.mu, latent.v, sites)

    def _each(self, function: Callable[[int], T]) -> list[T]:
        return list(sweep(function, len(self._blocks), self._n_jobs))


def _by_row(weight: np.ndarray, values: Array) -> np.ndarray:
    """Weights in a shape that multiplies values of rows, or of rows and classes."""
    return weight if values.ndim == 1 else weight[:, None]
