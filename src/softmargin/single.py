r"""Sums over rows in single precision, which take half the time, while the small algebra stays in double.

Features are found in double precision and then narrowed.  Whitened features suffer that: the prior's precision is
``I``, so an error of :math:`\epsilon\, \mathrm{tr}\, G` in ``P + G`` is small change while it is far below one, and
moments of rows err by a share of :math:`\epsilon` of themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .arrays import namespace, precision_of
from .chunks import sweep
from .engine import Problem
from .gaussian import Belief
from .rows import ClasswiseFeatures, ClasswiseRows, Features, InducingRows, Latent

#: All features of a problem in double precision are narrowed while they then take no more than this, so many each.
_MOST_BYTES, _BYTES = 256 * 2**20, 4


class Narrow(Features):
    """Features in float32, which see a belief as such."""

    __slots__ = ()

    def moments(self, belief: Belief) -> Latent:
        return super().moments(belief.seen_by(self.phi))


def narrowed(features: Any) -> Any:
    """The same features in float32; what they leave over stays as it is."""
    if isinstance(features, ClasswiseFeatures):
        return ClasswiseFeatures(narrowed(features.base))
    xp = namespace(features.phi)
    return Narrow(xp.astype(features.phi, xp.float32), features.leftover)


def may_be_single(problem: Problem) -> bool:
    """Whether minibatches of a problem may be in single precision, and its features so narrowed can all be kept."""
    n_rows, n_weights = problem.table.n_rows, problem.rows.n_weights
    return may_be_narrowed(problem) and n_rows * n_weights * _BYTES <= _MOST_BYTES


def may_be_narrowed(problem: Problem) -> bool:
    """Whether a problem is in double precision, its features are whitened, and it steps far enough to profit."""
    likelihood = problem.likelihood
    rows = problem.rows.rows if isinstance(problem.rows, ClasswiseRows) else problem.rows
    is_double = precision_of(problem.table.reference) < 1e-12
    return isinstance(rows, InducingRows) and likelihood.is_bound and likelihood.needs_guard and is_double


def in_single(problem: Problem) -> Problem:
    """The same problem with its features, all of which are kept, in float32."""
    blocks = sweep(lambda index: narrowed(problem.features(index)), problem.table.n_blocks, problem.n_jobs)
    return replace(problem, _kept=dict(enumerate(blocks)))
