"""The moments of a mixture of beliefs, each an equal share: what many draws leave of the Gaussians they came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, as_float64, cholesky, combined, namespace
from ..arrow import ArrowBelief
from ..gaussian import Belief


class Mixture:
    r"""Running moments, by the law of total variance: the covariance within beliefs, and that of their means.

    Covariances are kept at those places where the beliefs themselves hold them: for a dense belief all, for an arrow
    those of a group with itself and with its path, which is all that rows ask for.
    """

    def __init__(self) -> None:
        self._n, self._last, self._about, self._away, self._second = 0, None, None, None, None

    def add(self, belief: Any) -> None:
        if self._about is None:
            self._about = belief.mean
        away = belief.mean - self._about
        second = combined(_covariances(belief), 1, _products(away, belief))
        self._away = away if self._away is None else self._away + away
        self._second = second if self._second is None else combined(self._second, 1, second)
        self._n, self._last = self._n + 1, belief

    def belief(self, hyper: Any) -> Any:
        """The Gaussian of these moments."""
        assert self._away is not None
        away = self._away / self._n
        second = combined(self._second, 1 / self._n - 1, self._second)  # divided by n
        return _matched(self._about + away, combined(second, -1, _products(away, self._last)), self._last, hyper)


def _covariances(belief: Any) -> Any:
    """The covariances that a belief holds, as a (nested) tuple of arrays."""
    if isinstance(belief, ArrowBelief):
        return belief.blocks, belief.core_covariance
    return as_float64(belief.covariance)


def _products(x: Array, belief: Any) -> Any:
    """``x x'`` at the places of these covariances."""
    if not isinstance(belief, ArrowBelief):
        return x[:, None] * x[None, :]
    layout = belief.layout
    levels, core = layout.split(x)
    blocks = []
    for level, own in enumerate(levels):
        above = [levels[k][ancestor] for k, _, ancestor in layout.path(level)]
        path = np.concatenate([*above, np.broadcast_to(core, (len(own), len(core)))], axis=1)
        blocks.append((own[:, :, None] * own[:, None, :], own[:, :, None] * path[:, None, :]))
    return tuple(blocks), core[:, None] * core[None, :]


def _matched(mean: Array, covariances: Any, like: Any, hyper: Any) -> Any:
    """A belief with these moments: of the kind of another."""
    if isinstance(like, ArrowBelief):
        # Its conditionals, with which arrows are drawn, stay those of one belief: there are draws for that.
        blocks, core = covariances
        return like._replace(mean=mean, blocks=blocks, core_root=_root(core), core_covariance=core, hyper=hyper)
    xp, R = namespace(mean), _root(covariances)
    return Belief(mean, R, 2 * xp.sum(xp.log(xp.linalg.diagonal(R))), hyper)


def _root(covariance: Array) -> Array:
    """``S = R'R`` with ``R`` lower triangular is a Cholesky factor from the far end.

    Correlations are factorised: weights that are never seen have next to no variance.
    """
    xp = namespace(covariance)
    sd = xp.sqrt(xp.clip(xp.linalg.diagonal(covariance), 1e-300))
    correlation = covariance / (sd[:, None] * sd[None, :])
    return xp.flip(cholesky(xp.flip(correlation))).T * sd[None, :]
