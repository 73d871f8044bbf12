"""Rows of a linear model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import Array, clipped, like, namespace
from ..gaussian import Belief
from .features import Features, LiftedView, View

#: Standardised values are clipped here; their squares stay finite in float32.
_FAR = 1e15


class LinearRows(NamedTuple):
    r""":math:`\phi = ((x - c) / s, 1)`: standardised columns and an intercept.

    The weights therefore do not depend on the units of the columns; `to_user_units` transforms them back.
    """

    center: Array
    scale: Array
    intercept: bool = True
    least_rows = 1

    @property
    def n_weights(self) -> int:
        return len(self.scale) + self.intercept

    @property
    def width(self) -> int:
        return self.n_weights

    def lift(self, X: Array) -> Features:
        xp = namespace(X)
        scale = xp.clip(like(self.scale, X), xp.finfo(X.dtype).smallest_normal)  # in single precision it may be 0
        with np.errstate(over="ignore"):  # values that overflow are clipped
            phi = clipped((X - like(self.center, X)) / scale, -_FAR, _FAR)
        if self.intercept:
            phi = xp.concat([phi, xp.ones((X.shape[0], 1), dtype=X.dtype, device=device(X))], axis=1)
        return Features(phi, xp.zeros(X.shape[0], dtype=xp.float64, device=device(X)))

    def leftover_root(self, X: Array) -> None:
        """None: the weights leave nothing unexplained."""

    def view(self, belief: Belief, reference: Array) -> View:
        return LiftedView(self, belief.seen_by(reference))

    def to_user_units(self, weights: Array) -> tuple[Array, Array]:
        """Coefficients and intercept for the original columns; the last axis of ``weights`` is that of weights."""
        coef = weights[..., : len(self.scale)] / self.scale
        intercept = weights[..., -1] if self.intercept else 0.0
        return coef, intercept - weights[..., : len(self.scale)] @ (self.center / self.scale)
