"""Minibatches: their rows, and the lengths of the steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

#: Gradients at the first belief, to estimate signal and noise before the first step.
_OPENING = 4
#: How fast rates may decay where a full step may overshoot: such steps are close to Newton steps.
FALL = 2 / 3
#: The largest partial quotient allowed for a stride, up to this denominator.
_LARGEST_QUOTIENT, _LARGEST_DENOMINATOR = 10, 2**15


class Walk(NamedTuple):
    r"""A walk over rows ``offset + stride * j`` modulo ``n``, with a stride that has no factor in common with ``n``.

    Every ``n`` steps visit each row once, and no permutation is stored. Any run of steps is also spread evenly over
    the table: the partial quotients of ``stride / n`` are kept small, so that the gaps between the visited rows
    differ by a bounded factor (three-distance theorem). A minibatch from a sorted table is therefore a stratified
    sample of it; and since the stride is random, it is unlikely to match a period of the table.
    """

    n: int
    stride: int
    offset: int

    @classmethod
    def random(cls, n: int, rng: np.random.RandomState) -> Walk:
        while True:
            stride = int(rng.randint(1, max(n, 2)))
            if math.gcd(stride, n) == 1 and _largest_quotient(stride, n) <= _LARGEST_QUOTIENT:
                return cls(n, stride, int(rng.randint(n)))

    def rows(self, first: int, count: int) -> np.ndarray:
        """The rows of ``count`` steps, starting with step ``first``."""
        steps = np.arange(first, first + count, dtype=np.int64) % self.n
        return (self.offset + steps * self.stride) % self.n


def _largest_quotient(stride: int, n: int) -> int:
    """The largest partial quotient in the continued fraction of ``stride / n``, up to a denominator."""
    largest, before, denominator = 0, 0, 1
    while stride and denominator < _LARGEST_DENOMINATOR:
        quotient, rest = divmod(n, stride)
        largest = max(largest, quotient)
        before, denominator = denominator, quotient * denominator + before
        n, stride = stride, rest
    return largest


# Rates -------------------------------------------------------------------------------------------


class Rate(Protocol):
    """The length of the next step.

    ``saw`` takes a noisy gradient, and the length of the step before it. With a rate of 0 no step is taken: the
    minibatch is added to the next one.
    """

    @property
    def rate(self) -> float: ...

    def saw(self, gradient: Callable[[], np.ndarray], taken: float) -> Rate: ...


class Schedule(NamedTuple):
    """Rates :math:`(t + delay)^{-power}`. Convergence requires a power above 1/2 and at most 1."""

    delay: float = 1.0
    power: float = 0.6
    step: int = 0

    @property
    def rate(self) -> float:
        return min(1.0, (self.step + self.delay) ** -self.power)

    def saw(self, gradient: Callable[[], np.ndarray], taken: float) -> Schedule:
        return self._replace(step=self.step + 1)


class Adaptive(NamedTuple):
    r"""A rate adapted to the noise of the gradients (Ranganath et al. 2013).

    With running averages of the noisy natural gradient ``g`` and of its squared length,

    .. math:: \rho = \bar g^T \bar g \;/\; \overline{g^T g}, \qquad \tau \leftarrow \tau (1 - \rho) + 1,

    where :math:`\tau` is the effective number of gradients in the averages. Far from the optimum gradients agree and
    :math:`\rho` is near 1; near it they cancel. Lengths are in units of the belief's standard deviations.

    That rate is best for the last step; averages of steps do better with longer ones, so the rate never falls below
    :math:`(t + 1)^{-power}`.
    """

    power: float = FALL
    mean: Any = 0.0
    square: float = 0.0
    memory: float = 0.0
    step: int = 0

    @property
    def rate(self) -> float:
        if self.step < _OPENING:
            return 0.0
        ratio = float(self.mean @ self.mean) / self.square if self.square > 0 else 0.0
        return max(ratio, (self.step + 1) ** -self.power)

    def saw(self, gradient: Callable[[], np.ndarray], taken: float) -> Adaptive:
        g = gradient()
        memory = self.memory * (1 - taken) + 1
        mean = self.mean + (g - self.mean) / memory
        square = self.square + (float(g @ g) - self.square) / memory
        return Adaptive(self.power, mean, square, memory, self.step + 1)
