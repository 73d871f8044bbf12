r"""Stein variational gradient descent: particles that move until they stand for a density (Liu and Wang 2016).

Of a density only the scores :math:`g(x) = \nabla \log p(x)` are needed.  Particle ``j`` of ``S`` moves along

.. math:: \varphi_j = \frac1S \sum_s \bigl[ k(x_s, x_j)\, g(x_s) + \nabla_{x_s} k(x_s, x_j) \bigr],

the steepest descent of the divergence from ``p`` among the smooth fields of a Stein kernel ``k``.  The first term leads
uphill, the second keeps particles apart.  One particle climbs to the mode.

**What the kernel can tell.**  Where particles rest, :math:`E[g(x) k(x, x_j) + \nabla_x k(x, x_j)] = 0` holds for
their averages at every ``x_j``: of all that is true of the density, just this much is true of them.  With ``S``
particles in ``p`` coordinates,

* `RBFStein` sees shapes (not how much is in modes with nothing between them), but variances collapse unless coordinates
  are very few.  In many, particles are all about as far from each other; with the median for a width kernel values are
  then all ``1 / (S + 1)``, and forces balance where of a variance the share :math:`\log(S + 1) / p` is left.
* `LinearStein` asks for :math:`E g = 0` and :math:`E[g (x - \bar x)^T] = -I`: of a Gaussian the mean and the covariance
  to the last digit (with the divisor ``S``), once ``S > p``.  Fewer can only fill ``S - 1`` directions, and of the
  variance the share :math:`(S - 1) / p` is left on average.  All that this kernel ever does is to move, stretch and
  turn the cloud as a whole.  So of other densities it finds, from normal particles, the best Gaussian they can see, and
  too few see too little: where rows are few, variances of a linear model come out too large by about :math:`p / 2S`.
* `CoordinateStein` asks for the diagonal of that alone, so two particles will do however many coordinates there are.
  It is exact where coordinates are independent; where they are not, variances are about those of a mean-field Gaussian.
* `MixedStein` averages the first two: shapes count, and variances of a Gaussian fall short by at most the share
  :math:`1 / (S + 1)`, or :math:`(1 - w) / w` times that with another share ``w`` of the linear kernel.  It takes
  ``S > p`` for that.  Averaged with `CoordinateStein`, an RBF turns the cloud: particles leave the directions in which
  the density is steep, coordinates regain their spread in the others, and after a long way they are far too wide there.

**Units.**  `Whitened` lets any of them work in other coordinates, by default those in which the particles have unit
covariance.  The flow then does not depend on how coordinates are scaled and turned, and plain steps of a fixed rate
settle a Gaussian of whatever condition in about 20.

With rows in minibatches, `posterior_scores` gives unbiased scores, and so unbiased directions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from array_api_compat import device

from .arrays import Array, clipped_at_zero, like, namespace, row_squares, to_numpy

# Kernels -----------------------------------------------------------------------------------------


class SteinKernel(ABC):
    """A kernel between particles, which sees all of them (for its width, its centre or its units)."""

    @abstractmethod
    def direction(self, particles: Array, scores: Array) -> Array:
        r""":math:`\varphi`, particle by coordinate."""

    def size(self, particles: Array, direction: Array) -> float:
        """How far from rest: the largest root mean square of a coordinate of the direction.

        Directions come in units of scores; times the spread of the particles they are pure numbers.
        """
        largest = namespace(direction).max(_spread(direction) * _or_one(_spread(_centred(particles))))
        return float(largest) / self.strength(particles.shape[0])

    def strength(self, n_particles: int) -> float:
        """How much of its own score a particle feels."""
        return 1.0


@dataclass(frozen=True)
class RBFStein(SteinKernel):
    r""":math:`k(x, y) = \exp(-|x - y|^2 / 2\sigma^2)`, with ``width`` :math:`\sigma`.

    By default :math:`\sigma^2 = \tfrac12 \mathrm{med}^2 / \log(S + 1)`, ``med`` being the median distance of two
    particles: what the others push a particle with is then about what it is driven with itself.  All gradients are

    .. math:: \sum_s \nabla_{x_s} k(x_s, x_j) = \sigma^{-2} \textstyle\sum_s k_{sj} (x_j - x_s).
    """

    width: float | str = "median"

    def __post_init__(self) -> None:
        _number_or("median", "width", self.width)

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = _centred(particles)  # or far from the origin differences would be lost in rounding
        squares = row_squares(x)
        apart = 1 - xp.eye(x.shape[0], dtype=x.dtype, device=device(x))
        distance = clipped_at_zero(squares[:, None] + squares[None, :] - 2 * (x @ x.T)) * apart
        sigma2 = _median_width(distance) if isinstance(self.width, str) else self.width**2
        k = xp.exp(-0.5 * distance / sigma2)
        repulsion = (xp.sum(k, axis=1)[:, None] * x - k @ x) / sigma2
        return (k @ scores + repulsion) / x.shape[0]

    def strength(self, n_particles: int) -> float:
        """That of a narrow kernel: a wide one settles sooner than its size tells."""
        return 1 / n_particles


@dataclass(frozen=True)
class LinearStein(SteinKernel):
    r""":math:`k(x, y) = 1 + (x - \bar x)^T (y - \bar x) / \tau` about the mean of the particles.

    ``scale`` is :math:`\tau`, by default the mean variance of the particles' coordinates.  It only weighs how fast the
    covariance settles against how fast the mean does.
    """

    scale: float | str = "variance"

    def __post_init__(self) -> None:
        _number_or("variance", "scale", self.scale)

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = _centred(particles)
        tau = _or_one(xp.mean(x * x, axis=(0, 1), keepdims=True)) if isinstance(self.scale, str) else self.scale
        return xp.mean(scores, axis=0) + ((x @ x.T) @ scores / x.shape[0] + x) / tau


@dataclass(frozen=True)
class CoordinateStein(SteinKernel):
    r"""A linear kernel for each coordinate on its own: :math:`k_i(x, y) = 1 + (x_i - \bar x_i)(y_i - \bar x_i) / v_i`.

    ``v_i`` is the particles' variance.  There are no sums over pairs of particles.
    """

    def direction(self, particles: Array, scores: Array) -> Array:
        xp = namespace(particles)
        x = _centred(particles)
        return xp.mean(scores, axis=0) + x * (xp.mean(scores * x, axis=0) + 1) / _or_one(xp.mean(x * x, axis=0))


@dataclass(frozen=True)
class MixedStein(SteinKernel):
    """``share`` of a linear kernel, and an RBF for the rest."""

    share: float = 0.5
    rbf: RBFStein = field(default_factory=RBFStein)
    linear: SteinKernel = field(default_factory=LinearStein)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share must lie between 0 and 1, got {self.share!r}")

    def direction(self, particles: Array, scores: Array) -> Array:
        rbf = self.rbf.direction(particles, scores)
        return rbf + self.share * (self.linear.direction(particles, scores) - rbf)


@dataclass(frozen=True, eq=False)
class Whitened(SteinKernel):
    r"""Another kernel, in coordinates ``z`` with :math:`x - \bar x = A z`.

    By the chain rule scores are :math:`A^T g` there, and a direction :math:`\varphi_z` is :math:`A \varphi_z` here.
    ``scale`` says what ``A`` is: a root of the particles' ``"covariance"`` (by a QR decomposition: no inverse),
    their ``"spread"`` coordinate by coordinate, or given units, one for each.  The first takes more particles than
    coordinates, spread in all directions: they would never leave those they start in.
    """

    kernel: SteinKernel
    scale: Any = "covariance"

    def __post_init__(self) -> None:
        named = isinstance(self.scale, str)
        if not (self.scale in ("covariance", "spread") if named else bool((to_numpy(self.scale) > 0).all())):
            raise ValueError(f"scale must be 'covariance', 'spread' or positive units, got {self.scale!r}")

    def direction(self, particles: Array, scores: Array) -> Array:
        x = _centred(particles)
        if isinstance(self.scale, str) and self.scale == "covariance":
            return self._turned(x, scores)
        unit = _or_one(_spread(x)) if isinstance(self.scale, str) else like(self.scale, x)
        return unit * self.kernel.direction(x / unit, unit * scores)

    def _turned(self, x: Array, scores: Array) -> Array:
        """By the covariance: ``x = Q R``, so that ``z = sqrt(S) Q`` and ``A' = R / sqrt(S)``."""
        S, p = x.shape
        if p >= S:
            raise ValueError(f"{S} particles have no covariance in {p} coordinates: whiten by their spread")
        Q, R = namespace(x).linalg.qr(x)
        root = R / math.sqrt(S)
        return self.kernel.direction(math.sqrt(S) * Q, scores @ root.T) @ root

    def size(self, particles: Array, direction: Array) -> float:
        """Directions have the units of the particles here."""
        largest = namespace(direction).max(_spread(direction) / _or_one(_spread(_centred(particles))))
        return float(largest) / self.kernel.strength(particles.shape[0])


def direction(particles: Array, scores: Array, kernel: SteinKernel) -> Array:
    r"""Where each particle should go: :math:`\varphi_j = \frac1S \sum_s [k(x_s, x_j) g_s + \nabla_{x_s} k(x_s, x_j)]`.

    ``particles`` and ``scores`` are particle by coordinate.  Nothing larger than particle by particle is formed.
    """
    if particles.ndim != 2 or particles.shape != scores.shape:
        shapes = f"{tuple(particles.shape)} and {tuple(scores.shape)}"
        raise ValueError(f"particles and scores must be tables of one shape, got {shapes}")
    return kernel.direction(particles, scores)


def default_kernel(n_particles: int, n_coordinates: int) -> SteinKernel:
    """What gives the best variances: mixed and whitened, by coordinates alone where particles are too few for more.

    >>> default_kernel(50, 50)
    Whitened(kernel=CoordinateStein(), scale='spread')
    """
    if n_particles > n_coordinates:
        return Whitened(MixedStein())
    return Whitened(CoordinateStein(), "spread")


def _centred(x: Array) -> Array:
    return x - namespace(x).mean(x, axis=0)


def _spread(x: Array) -> Array:
    """Root mean squares of the columns."""
    xp = namespace(x)
    return xp.sqrt(xp.mean(x * x, axis=0))


def _or_one(value: Array) -> Array:
    """One where a unit is zero: nothing is there to be measured."""
    xp = namespace(value)
    return xp.where(value > 0, value, xp.ones_like(value))


def _median_width(distance: Array) -> Array:
    """``.5 med^2 / log(S + 1)`` from the squared distances, left in an array: a device need not wait."""
    xp = namespace(distance)
    S = distance.shape[0]
    if S == 1:
        return xp.ones_like(distance)
    both = xp.sqrt(xp.sort(xp.reshape(distance, (-1,)))[S:])  # without the diagonal; every pair is there twice
    low, high = (both.shape[0] // 2 - 1) // 2, both.shape[0] // 2 // 2
    med = 0.5 * (both[2 * low : 2 * low + 1] + both[2 * high : 2 * high + 1])
    return _or_one(0.5 * med * med / math.log(S + 1))


def _number_or(word: str, name: str, value: Any) -> None:
    if value != word and not (isinstance(value, (int, float)) and 0 < value < math.inf):
        raise ValueError(f"{name} must be {word!r} or a positive number, got {value!r}")


# Steps -------------------------------------------------------------------------------------------


class State(NamedTuple):
    """Particles, what a rule remembers of earlier directions, and how many steps were taken."""

    particles: Array
    moments: tuple[Array, ...]
    count: int


class Rule(Protocol):
    """How directions become steps: the moments before the first, and the state after another."""

    def start(self, particles: Array) -> tuple[Array, ...]: ...

    def advance(self, state: State, direction: Array) -> State: ...


class Fixed(NamedTuple):
    """``rate`` times the direction, and ``rate / (1 + t / fall)`` after ``t`` steps.

    Steps are shortened if one would take a particle farther than ``longest`` spreads of a coordinate.
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
            farthest = xp.max(xp.abs(move) / _or_one(_spread(_centred(state.particles))))
            move = move * (self.longest / xp.clip(farthest, self.longest, None))
        return State(state.particles + move, (), state.count + 1)


class Adagrad(NamedTuple):
    r""":math:`\varepsilon\, \varphi / (\delta + \sqrt r)`, with ``r`` the sum of all :math:`\varphi^2` so far.

    With ``decay`` it is their fading mean, :math:`r \leftarrow d\, r + (1 - d)\, \varphi^2`, and steps do not vanish.
    """

    rate: float = 0.1
    epsilon: float = 1e-6
    decay: float | None = None

    def start(self, particles: Array) -> tuple[Array, ...]:
        return (namespace(particles).zeros_like(particles),)

    def advance(self, state: State, direction: Array) -> State:
        xp, r = namespace(direction), direction * direction
        if state.count > 0:  # without decay it is a sum; with it the first square stands for those before
            old, new = (1.0, 1.0) if self.decay is None else (self.decay, 1 - self.decay)
            r = old * state.moments[0] + new * r
        return State(state.particles + self.rate * direction / (self.epsilon + xp.sqrt(r)), (r,), state.count + 1)


class Adam(NamedTuple):
    r""":math:`\varepsilon\, \hat m / (\delta + \sqrt{\hat r})`, with fading means of :math:`\varphi` and its square."""

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
    """Particles before their first step."""
    return State(particles, rule.start(particles), 0)


def step(state: State, scores: Array, rule: Rule, kernel: SteinKernel) -> State:
    """One step, by scores at the particles of the state."""
    return rule.advance(state, direction(state.particles, scores, kernel))


# Densities ---------------------------------------------------------------------------------------


def posterior_scores(
    prior_scores: Array, likelihood_scores: Array, n_rows: float, batch_weight: float, temperature: float = 1.0
) -> Array:
    r""":math:`\nabla \log p(x) + \frac{1}{T} \frac{N}{|B|} \sum_{i \in B} \nabla \log p(y_i \mid x)`.

    ``likelihood_scores`` are summed over a batch that has ``batch_weight`` of all ``n_rows`` (or of their weights).
    With ``temperature`` 1 the particles stand for the posterior; with ``n_rows`` the likelihood counts as one row in
    all, which is the objective of a mean loss.
    """
    return prior_scores + n_rows / (batch_weight * temperature) * likelihood_scores


class Sample(NamedTuple):
    """Particles, their log densities, the last direction's size (`SteinKernel.size`), and how it ended."""

    particles: Array
    log_density: Array
    size: float
    n_steps: int
    converged: bool


def sample_density(
    log_density_and_score: Callable[[Array], tuple[Array, Array]],
    particles: Array,
    *,
    n_steps: int = 500,
    rule: Rule = Fixed(0.5, longest=1.0, fall=50.0),  # noqa: B008
    kernel: SteinKernel | None = None,
    tolerance: float = 0.01,
) -> Sample:
    """Particles that stand for a density known up to a constant.

    ``log_density_and_score`` gives the log densities of particles, one in each row, and the slopes of these row by row.
    Start with several times as many ``particles`` as there are coordinates, if possible, spread in all directions.
    The default ``rule`` is for the default ``kernel`` (`default_kernel`); others may need `Adam` or `Adagrad`, whose
    steps do not depend on the units of directions.  There are ``n_steps`` at most, fewer if the direction's size falls
    to ``tolerance``: of a Gaussian, with a linear kernel, that is the relative error of variances.

    >>> import numpy as np
    >>> def log_density_and_score(x):
    ...     precision = np.array([[2.0, 1.0], [1.0, 2.0]])
    ...     return -0.5 * np.sum(x @ precision * x, axis=1), -x @ precision
    >>> start = np.random.default_rng(0).normal(size=(100, 2))
    >>> sample = sample_density(log_density_and_score, start)
    >>> sample.converged, bool(sample.n_steps < 50)
    (True, True)
    >>> np.cov(sample.particles.T).round(1)
    array([[ 0.7, -0.3],
           [-0.3,  0.7]])
    """
    kernel = default_kernel(*particles.shape) if kernel is None else kernel
    state = init(particles, rule)
    while True:
        log_density, scores = log_density_and_score(state.particles)
        way = direction(state.particles, scores, kernel)
        size = kernel.size(state.particles, way)
        if not math.isfinite(size):
            raise ValueError(f"after {state.count} steps directions are not finite: try shorter ones, or other units")
        if size <= tolerance or state.count >= n_steps:
            return Sample(state.particles, log_density, size, state.count, size <= tolerance)
        state = rule.advance(state, way)
