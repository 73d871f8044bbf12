"""Kernels to choose from, and which of them are likely before any data are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..columns import Columns
from ..kernels import Kernel

#: Prior deviations of the logarithms: of all length-scales together, of each from the others, and of variances.
TOGETHER, APART, VARIANCES = 1.0, 0.7, 1.0
#: No parameter goes further than this many deviations from where its prior has it.
_FARTHEST = 6.0


class Space(NamedTuple):
    r"""Kernels to choose from: :math:`\theta = center + basis\, x`, with a prior :math:`x_j \sim N(0, deviation_j^2)`.

    The length-scales of one kernel share a coordinate, and with ``apart`` have one each beside it: a normal prior
    of their logarithms about a common value that is itself uncertain.
    """

    kernel: Kernel
    basis: np.ndarray
    deviation: np.ndarray

    @classmethod
    def around(cls, center: Kernel, apart: bool = True) -> Space:
        """The space about a kernel: one coordinate for each variance, and for length-scales as above."""
        columns, deviation, first = [], [], 0
        unit = np.eye(len(center.theta))
        for role, size in center.roles:
            own = unit[:, first : first + size]
            first += size
            columns.append(own.sum(axis=1))
            deviation.append(TOGETHER if role == "length_scale" else VARIANCES)
            if apart and size > 1:
                columns.extend(own.T)
                deviation.extend([APART] * size)
        return cls(center, np.stack(columns, axis=1), np.array(deviation))

    def at(self, x: np.ndarray) -> Kernel:
        return self.kernel.with_theta(self.kernel.theta + self.basis @ x)

    def nearest(self, kernel: Kernel) -> np.ndarray:
        """The likeliest coordinates of a kernel, within the limits of the space."""
        scaled = self.basis * self.deviation
        x = self.deviation * (np.linalg.pinv(scaled) @ (kernel.theta - self.kernel.theta))
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
    together = np.round(0.5 * logsumexp(2 * np.log(columns.spread)), 6)
    theta, first = kernel.theta.copy(), 0
    for role, size in kernel.roles:
        if role == "length_scale":
            theta[first : first + size] = spread if size == len(spread) else together
        first += size
    return kernel.with_theta(theta)
