r"""Sums over rows in single precision, in half the time, while the small algebra stays in double precision.

Features are computed in double precision and then narrowed. Whitened features tolerate this: the prior precision is
``I``, so an error of :math:`\epsilon\, \mathrm{tr}\, G` in ``P + G`` is negligible as long as it is far below one,
and moments of rows have a relative error of :math:`\epsilon`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .arrays import namespace, precision_of
from .chunks import sweep
from .engine import Problem
from .gaussian import Belief
from .rows import ClasswiseFeatures, ClasswiseRows, Features, InducingRows, Latent

#: All features of a problem are narrowed if they then take at most this many bytes, with so many for each entry.
_MOST_BYTES, _BYTES = 256 * 2**20, 4


class Narrow(Features):
    """Features in float32, which convert a belief to float32 for their moments."""

    __slots__ = ()

    def moments(self, belief: Belief) -> Latent:
        return super().moments(belief.seen_by(self.phi))


def narrowed(features: Any) -> Any:
    """The same features in float32; ``leftover`` keeps its precision."""
    if isinstance(features, ClasswiseFeatures):
        return ClasswiseFeatures(narrowed(features.base))
    xp = namespace(features.phi)
    return Narrow(xp.astype(features.phi, xp.float32), features.leftover)


def may_be_single(problem: Problem) -> bool:
    """Whether the features of a problem may be narrowed, and can then all be kept in memory."""
    n_rows, n_weights = problem.table.n_rows, problem.rows.n_weights
    return may_be_narrowed(problem) and n_rows * n_weights * _BYTES <= _MOST_BYTES


def may_be_narrowed(problem: Problem) -> bool:
    """Whether features are whitened and in double precision, and the likelihood takes long steps, so that it pays."""
    likelihood = problem.likelihood
    rows = problem.rows.rows if isinstance(problem.rows, ClasswiseRows) else problem.rows
    is_double = precision_of(problem.table.reference) < 1e-12
    return isinstance(rows, InducingRows) and likelihood.is_bound and likelihood.needs_guard and is_double


def in_single(problem: Problem) -> Problem:
    """The same problem with its features, all of which are kept, in float32."""
    blocks = sweep(lambda index: narrowed(problem.features(index)), problem.table.n_blocks, problem.n_jobs)
    return replace(problem, _kept=dict(enumerate(blocks)))
