"""The space of kernels that is searched, and its prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..columns import Columns
from ..kernels import Kernel

#: Prior standard deviations of logarithms: all length-scales together, each from the common value, and variances.
TOGETHER, APART, VARIANCES = 1.0, 0.7, 1.0
#: That of variances held near their start (softmargin.tune.halves).
HELD = 0.25
#: No coordinate moves further than this many prior standard deviations from zero.
_FARTHEST = 6.0


class Group(NamedTuple):
    """Log-parameters that vary together: their positions in ``theta``, and those of their coordinates.

    The coordinate ``together`` moves all of them; those in ``apart``, if any, move one each.
    """

    theta: slice
    together: int
    apart: slice


class Space(NamedTuple):
    r"""Kernels to choose from: :math:`\theta = center + basis\, x`, with a prior :math:`x_j \sim N(0, deviation_j^2)`.

    The length-scales of one kernel share a coordinate, and with ``apart`` have one more each: their logarithms are
    normal around a common value that is itself uncertain.
    """

    kernel: Kernel
    groups: tuple[Group, ...]
    deviation: np.ndarray

    @classmethod
    def around(cls, center: Kernel, apart: bool = True, variances: float = VARIANCES) -> Space:
        """The space around a kernel, with a coordinate for each variance, and those above for length-scales."""
        groups, deviation, first = [], [], 0
        for role, size in center.roles:
            own = size if apart and size > 1 else 0
            together = len(deviation)
            groups.append(Group(slice(first, first + size), together, slice(together + 1, together + 1 + own)))
            deviation += [TOGETHER if role == "length_scale" else variances, *[APART] * own]
            first += size
        return cls(center, tuple(groups), np.array(deviation))

    def at(self, x: np.ndarray) -> Kernel:
        theta = self.kernel.theta.copy()
        for group in self.groups:
            theta[group.theta] += x[group.together]
            if x[group.apart].size:
                theta[group.theta] += x[group.apart]
        return self.kernel.with_theta(theta)

    def pulled_back(self, slopes: np.ndarray) -> np.ndarray:
        """The gradient in the coordinates, from that in ``theta``."""
        pulled = np.zeros(len(self.deviation))
        for group in self.groups:
            pulled[group.together] = slopes[group.theta].sum()
            if pulled[group.apart].size:
                pulled[group.apart] = slopes[group.theta]
        return pulled

    def nearest(self, kernel: Kernel) -> np.ndarray:
        r"""The most probable coordinates of a kernel, clipped to the limits of the space.

        The common part of shifts :math:`\delta` is :math:`T^2 \sum \delta / (A^2 + d T^2)`, with the prior standard
        deviations ``T`` of the common value and ``A`` of each, which is 0 if length-scales are tied.
        """
        x, shift = np.zeros(len(self.deviation)), kernel.theta - self.kernel.theta
        for group in self.groups:
            delta, T = shift[group.theta], self.deviation[group.together]
            A = self.deviation[group.apart][0] if x[group.apart].size else 0.0
            x[group.together] = T**2 * delta.sum() / (A**2 + len(delta) * T**2)
            if x[group.apart].size:
                x[group.apart] = delta - x[group.together]
        return np.clip(x, -self.farthest, self.farthest)

    @property
    def farthest(self) -> np.ndarray:
        return _FARTHEST * self.deviation

    def log_prior(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        away = x / self.deviation
        return -0.5 * float(away @ away), -away / self.deviation


def typical(kernel: Kernel, columns: Columns) -> Kernel:
    """A kernel with each length-scale at the column's spread times the square root of the number of columns."""
    # Rounded, so that tables whose sums differ only by rounding errors lead to exactly the same search.
    spread = np.round(np.log(columns.spread) + 0.5 * np.log(len(columns.spread)), 6)
    together = np.round(0.5 * float(np.asarray(logsumexp(2 * np.log(columns.spread)))), 6)
    theta, first = kernel.theta.copy(), 0
    for role, size in kernel.roles:
        if role == "length_scale":
            theta[first : first + size] = spread if size == len(spread) else together
        first += size
    return kernel.with_theta(theta)
