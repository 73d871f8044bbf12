"""The moments of an equally weighted mixture of beliefs: the Gaussians from which weights were drawn."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, as_float64, cholesky, combined, namespace
from ..arrow import ArrowBelief
from ..gaussian import Belief


class Mixture:
    r"""Running moments, by the law of total variance: the covariance within beliefs plus that of their means.

    Only the covariances that the beliefs themselves hold are kept: all for a dense belief, and for an arrow those of
    each group with itself and with its path, which is all that rows need.
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
    """The entries of ``x x'`` that correspond to these covariances."""
    if not isinstance(belief, ArrowBelief):
        return x[:, None] * x[None, :]
    layout = belief.layout
    levels, core = layout.split(x)
    blocks = []
    for level, own in enumerate(levels):
        path = layout.on_path(level, levels, core)
        blocks.append((own[:, :, None] * own[:, None, :], own[:, :, None] * path[:, None, :]))
    return tuple(blocks), core[:, None] * core[None, :]


def _matched(mean: Array, covariances: Any, like: Any, hyper: Any) -> Any:
    """A belief with these moments, of the same kind as ``like``."""
    if isinstance(like, ArrowBelief):
        # Its conditionals, which serve to sample, stay those of one belief: there are already draws for that purpose.
        blocks, core = covariances
        return like._replace(mean=mean, blocks=blocks, core_root=_root(core), core_covariance=core, hyper=hyper)
    xp, R = namespace(mean), _root(covariances)
    return Belief(mean, R, 2 * xp.sum(xp.log(xp.linalg.diagonal(R))), hyper)


def _root(covariance: Array) -> Array:
    """The lower triangular ``R`` with ``S = R'R``: a Cholesky factor with rows and columns reversed.

    Correlations are factorised, because weights that are never included have almost no variance.
    """
    xp = namespace(covariance)
    sd = xp.sqrt(xp.clip(xp.linalg.diagonal(covariance), 1e-300))
    correlation = covariance / (sd[:, None] * sd[None, :])
    return xp.flip(cholesky(xp.flip(correlation))).T * sd[None, :]
