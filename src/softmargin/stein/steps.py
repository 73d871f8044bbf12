"""Step rules, which turn directions into steps."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from ..arrays import Array, namespace
from .kernels import SteinKernel, centred, direction, or_one, spread


class State(NamedTuple):
    """Particles, the state of a rule, and the number of steps taken."""

    particles: Array
    moments: tuple[Array, ...]
    count: int


class Rule(Protocol):
    """Step rule: initial moments, and the state after a step."""

    def start(self, particles: Array) -> tuple[Array, ...]: ...

    def advance(self, state: State, direction: Array) -> State: ...


class Fixed(NamedTuple):
    """``rate`` times the direction, and ``rate / (1 + t / fall)`` after ``t`` steps.

    Steps are shortened so that no particle moves farther than ``longest`` spreads of a coordinate.
    """

    rate: float
    longest: float = math.inf
    fall: float = math.inf

    def start(self, particles: Array) -> tuple[Array, ...]:
        return ()

    def advance(self, state: State, direction: Array) -> State:
        move = self.rate / (1 + state.count / self.fall) * direction
        if self.longest < math.inf:
            xp = namespace(move)
            farthest = xp.max(xp.abs(move) / or_one(spread(centred(state.particles))))
            move = move * (self.longest / xp.clip(farthest, self.longest, None))
        return State(state.particles + move, (), state.count + 1)


class Adagrad(NamedTuple):
    r""":math:`\varepsilon\, \varphi / (\delta + \sqrt r)`, with ``r`` the sum of all :math:`\varphi^2` so far.

    With ``decay`` it is a moving average, :math:`r \leftarrow d\, r + (1 - d)\, \varphi^2`, and steps do not vanish.
    """

    rate: float = 0.1
    epsilon: float = 1e-6
    decay: float | None = None

    def start(self, particles: Array) -> tuple[Array, ...]:
        return (namespace(particles).zeros_like(particles),)

    def advance(self, state: State, direction: Array) -> State:
        xp, r = namespace(direction), direction * direction
        if state.count > 0:  # a sum without decay; with decay, the first square initialises the moving average
            old, new = (1.0, 1.0) if self.decay is None else (self.decay, 1 - self.decay)
            r = old * state.moments[0] + new * r
        return State(state.particles + self.rate * direction / (self.epsilon + xp.sqrt(r)), (r,), state.count + 1)


class Adam(NamedTuple):
    r""":math:`\varepsilon\, \hat m / (\delta + \sqrt{\hat r})`, with moving means of :math:`\varphi` and its square."""

    rate: float = 0.05
    b1: float = 0.9
    b2: float = 0.99
    epsilon: float = 1e-8

    def start(self, particles: Array) -> tuple[Array, ...]:
        zero = namespace(particles).zeros_like(particles)
        return zero, zero

    def advance(self, state: State, direction: Array) -> State:
        xp, count = namespace(direction), state.count + 1
        m = self.b1 * state.moments[0] + (1 - self.b1) * direction
        r = self.b2 * state.moments[1] + (1 - self.b2) * direction * direction
        root = xp.sqrt(r / (1 - self.b2**count))
        move = self.rate / (1 - self.b1**count) * m / (self.epsilon + root)
        return State(state.particles + move, (m, r), count)


def init(particles: Array, rule: Rule) -> State:
    """Particles before their first step.

    >>> import numpy as np
    >>> init(np.zeros((2, 1)), Fixed(0.1))
    State(particles=array([[0.],
           [0.]]), moments=(), count=0)
    """
    return State(particles, rule.start(particles), 0)


def step(state: State, scores: Array, rule: Rule, kernel: SteinKernel) -> State:
    """One step, given the scores at the particles of the state.

    >>> import numpy as np
    >>> from softmargin.stein import CoordinateStein
    >>> state = init(np.array([[0.0]]), Fixed(0.1))
    >>> step(state, np.array([[2.0]]), Fixed(0.1), CoordinateStein()).particles
    array([[0.2]])
    """
    return rule.advance(state, direction(state.particles, scores, kernel))
