"""Rows of lines and of a kernel: what the first leave, the second bends."""

from __future__ import annotations

from typing import NamedTuple

from ..arrays import Array, namespace
from ..gaussian import Belief
from .features import Features, LiftedView, View
from .inducing import InducingRows
from .linear import LinearRows


class CurvedRows(NamedTuple):
    r""":math:`f = \phi_{lines}^T u + \phi_{curves}^T c + e`: the same columns as they are, and through a kernel.

    The weights of the lines come first; ``e`` is what the kernel's points leave over.
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
        """That of the kernel: lines leave nothing over."""
        return self.curves.leftover_root(X)

    def view(self, belief: Belief, reference: Array) -> View:
        return LiftedView(self, belief.seen_by(reference))
