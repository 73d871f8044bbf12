"""Kernels to choose from, and which of them are likely before any data are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..columns import Columns
from ..kernels import Kernel

#: Prior deviations of the logarithms: of all length-scales together, of each from the others, and of variances.
TOGETHER, APART, VARIANCES = 1.0, 0.7, 1.0
#: That of variances which are held near where they begin (softmargin.tune.halves).
HELD = 0.25
#: No parameter goes further than this many deviations from where its prior has it.
_FARTHEST = 6.0


class Group(NamedTuple):
    """Log-parameters that go together: where they are in ``theta``, and where their coordinates are.

    The first coordinate moves them all; if there are more, each moves one of them.
    """

    theta: slice
    together: int
    apart: slice


class Space(NamedTuple):
    r"""Kernels to choose from: :math:`\theta = center + basis\, x`, with a prior :math:`x_j \sim N(0, deviation_j^2)`.

    The length-scales of one kernel share a coordinate, and with ``apart`` have one each beside it: a normal prior
    of their logarithms about a common value that is itself uncertain.
    """

    kernel: Kernel
    groups: tuple[Group, ...]
    deviation: np.ndarray

    @classmethod
    def around(cls, center: Kernel, apart: bool = True, variances: float = VARIANCES) -> Space:
        """The space about a kernel: one coordinate for each variance, and for length-scales as above."""
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
        """Slopes in the coordinates from those in ``theta``."""
        pulled = np.zeros(len(self.deviation))
        for group in self.groups:
            pulled[group.together] = slopes[group.theta].sum()
            if pulled[group.apart].size:
                pulled[group.apart] = slopes[group.theta]
        return pulled

    def nearest(self, kernel: Kernel) -> np.ndarray:
        r"""The likeliest coordinates of a kernel, within the limits of the space.

        Of shifts :math:`\delta` the part :math:`T^2 \sum \delta / (A^2 + d T^2)` is common to all, with the
        deviations ``T`` of all together and ``A`` of each, which is 0 where they cannot part.
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
    """A kernel with its length-scales at the columns' spread times the root of their number, whatever they are now."""
    # Rounded, so that tables whose sums differ by rounding alone lead to the very same search.
    spread = np.round(np.log(columns.spread) + 0.5 * np.log(len(columns.spread)), 6)
    together = np.round(0.5 * float(np.asarray(logsumexp(2 * np.log(columns.spread)))), 6)
    theta, first = kernel.theta.copy(), 0
    for role, size in kernel.roles:
        if role == "length_scale":
            theta[first : first + size] = spread if size == len(spread) else together
        first += size
    return kernel.with_theta(theta)
