"""Rows of linear terms and a kernel, which captures what is nonlinear."""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Array, namespace
from ..gaussian import Belief
from .features import Features, LiftedView, View
from .inducing import InducingRows
from .linear import LinearRows


class CurvedRows(NamedTuple):
    r""":math:`f = \phi_{lines}^T u + \phi_{curves}^T c + e`: linear terms and a kernel of the same columns.

    The weights of the linear terms come first; ``e`` is what the kernel's inducing points leave unexplained.
    """

    lines: LinearRows
    curves: InducingRows
    least_rows = 1

    @property
    def n_weights(self) -> int:
        return self.lines.n_weights + self.curves.n_weights

    @property
    def width(self) -> int:
        return self.n_weights

    def lift(self, X: Array) -> Features:
        curves = self.curves.lift(X)
        phi = namespace(X).concat([self.lines.lift(X).phi, curves.phi], axis=1)
        return Features(phi, curves.leftover)

    def leftover_root(self, X: Array) -> Array:
        """The kernel's: linear terms leave nothing unexplained."""
        return self.curves.leftover_root(X)

    def view(self, belief: Belief, reference: Array) -> View:
        return LiftedView(self, belief.seen_by(reference))
