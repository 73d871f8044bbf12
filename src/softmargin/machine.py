r"""The Bayesian kernel machine: particles over weights and kernels (Nguyen et al. 2018).

With random Fourier features :math:`\phi_\theta(x)` of the kernel with log-parameters :math:`\theta`, the density of
weights ``u`` and :math:`\theta` is

.. math:: \log p = \frac1T \sum_i \log p(y_i \mid \phi_\theta(x_i)^T u) - \tfrac12 |u|^2 + \log p(\theta),

and ``T`` is the temperature (the mean loss of the paper is ``T = N``). Particles follow its gradient on minibatches, by
Stein variational gradient descent.

**Widths.** :math:`\gamma = 1 / \ell^2` has the truncated normal prior of the paper, with the scale of the kernel that
particles start from. The coordinate is ``x`` in :math:`\log \ell = \log \ell_0 + x`: with the Jacobian,
:math:`\log p(x) = -2 x - \tfrac12 e^{-4 x}`, whose mode is :math:`\ell_0`. Logarithms of variances are normal about
their initial values, with standard deviation one.

**Coordinates.** Weights are :math:`u = m + R^T z` for a Gaussian belief about them under the first kernel (or
:math:`u = z` for the prior). Then :math:`z` is approximately standard normal, so particles can start as draws, and one
step length suits all coordinates, as does a Stein kernel that treats them as independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array, as_float64, clipped, inverse_lower, like, lower_panels, namespace, replayed
from .chunks import dense, sweep
from .gaussian import ClassBelief, class_parts, from_natural
from .likelihoods import Likelihood, score
from .monitor import Monitor
from .rows import Cloud, FourierRows, ParticleRows
from .sampling import drawn_from
from .stein import (
    Adam,
    CoordinateStein,
    Fixed,
    MixedStein,
    Rule,
    State,
    SteinKernel,
    Whitened,
    default_kernel,
    direction,
    init,
    posterior_scores,
)
from .tune import LabelledRows

#: The initial standard deviation of the log-parameters of particles about the first kernel.
_START_SPREAD = 0.1
#: The steps of particles that are ``near``, as in `stein.sample_density`.
_NEAR = Fixed(0.5, longest=1.0, fall=50.0)
#: The length of the last step of other particles, as a share of the first.
_SHORTEST = 1e-3
#: How often the log-density is recorded.
_LOOKS = 20
#: Directions are clipped to this, so that their squares stay finite in single precision.
_FAR = 1e15
#: Roots with at most this many numbers are left to one thread: handing them to others takes about as long.
_SHARED = 2**20


class Frame(NamedTuple):
    """The layout of coordinates: ``mean`` (weight by class) and ``roots`` (class, weight, weight), lower triangular, or
    None for the prior; ``theta``, and the entries of it that move, as rows of the identity matrix, so that a device
    needs no indices."""

    mean: Array
    roots: Array | None
    theta: Array
    moving: Array

    @classmethod
    def about(
        cls, belief: Any, theta: np.ndarray, moves: np.ndarray, reference: Array, temperature: float = 1.0
    ) -> Frame:
        """The frame of a belief about the weights of each class, converted to another temperature."""
        parts = class_parts(tempered(belief, temperature))
        mean, roots = np.stack([part.mean for part in parts], axis=1), np.stack([part.root for part in parts])
        return cls(*(like(part, reference) for part in (mean, roots, theta, _unit_rows(moves))))

    @classmethod
    def of_prior(cls, n_weights: int, n_classes: int, theta: np.ndarray, moves: np.ndarray, reference: Array) -> Frame:
        """The frame in which weights are their own coordinates."""
        mean = np.zeros((n_weights, n_classes))
        return cls(like(mean, reference), None, like(theta, reference), like(_unit_rows(moves), reference))

    @property
    def n_coordinates(self) -> int:
        return int(np.prod(self.mean.shape)) + self.n_moving

    @property
    def n_moving(self) -> int:
        return self.moving.shape[0]

    @property
    def moves(self) -> Array:
        """One for entries of ``theta`` that move, zero for others."""
        return namespace(self.moving).sum(self.moving, axis=0)

    def draws(self, n_particles: int, rng: np.random.RandomState) -> Array:
        """Initial particles: draws from the belief (or prior), with kernels near the first one."""
        z = rng.standard_normal((n_particles, self.n_coordinates))
        z[:, z.shape[1] - self.n_moving :] *= _START_SPREAD
        return like(z, self.mean)

    def cloud(self, particles: Array, n_jobs: int = 1) -> Cloud:
        """Weights and log-parameters at coordinates."""
        xp, (m, C) = namespace(particles), self.mean.shape
        z = xp.reshape(particles[:, : m * C], (-1, m, C))
        weights = self.mean + (z if self.roots is None else _times_roots(z, self.roots, n_jobs))
        if self.n_moving == 0:
            return Cloud(weights, self.theta[None, :])
        return Cloud(weights, self.theta + particles[:, m * C :] @ self.moving)

    def pulled(self, in_weights: Array, in_theta: Array, n_jobs: int = 1) -> Array:
        """Gradient in coordinates, from those in weights and log-parameters."""
        xp, (m, C) = namespace(in_weights), self.mean.shape
        if self.roots is not None:
            in_weights = _times_roots(in_weights, self.roots, n_jobs, transposed=True)
        flat = xp.reshape(in_weights, (-1, m * C))
        if self.n_moving == 0:
            return flat
        return xp.concat([flat, in_theta @ self.moving.T], axis=1)


def _times_roots(z: Array, roots: Array, n_jobs: int, transposed: bool = False) -> Array:
    """``z R`` for the root of each class, or ``z R^T``; the axes of ``z`` are particle, weight and class.

    Roots may be too large for the cache, so all particles go through them together rather than one after another.  On
    the host threads share their panels, and most of the zeros above the diagonal are skipped.
    """
    xp, panels = namespace(z), lower_panels(roots[0, :, :])
    z = xp.permute_dims(z, (2, 0, 1))
    if len(panels) == 1:
        turned = z @ (xp.permute_dims(roots, (0, 2, 1)) if transposed else roots)
        return xp.permute_dims(turned, (1, 2, 0))
    z, turned = np.ascontiguousarray(z), np.empty(z.shape, dtype=z.dtype)
    if transposed:
        panels = panels[::-1]  # the largest first: threads that begin it last would keep others waiting

    def one_panel(index: int) -> None:
        k, into = index // len(panels), panels[index % len(panels)]
        if transposed:
            np.matmul(z[k, :, : into.stop], roots[k, into, : into.stop].T, out=turned[k, :, into])
        else:
            np.matmul(z[k, :, into.start :], roots[k, into.start :, into], out=turned[k, :, into])

    for _ in sweep(one_panel, len(roots) * len(panels), n_jobs if roots.size > _SHARED else 1):
        pass
    return xp.permute_dims(turned, (1, 2, 0))


def _unit_rows(moves: np.ndarray) -> np.ndarray:
    return np.eye(len(moves))[np.asarray(moves) > 0]


def tempered(belief: Any, temperature: float) -> Any:
    r"""The belief with log-likelihoods divided by ``T``: with precision :math:`I + (S^{-1} - I) / T`."""
    if temperature == 1:
        return belief
    if isinstance(belief, ClassBelief):
        return belief._replace(parts=tuple(tempered(part, temperature) for part in belief.parts))
    inverse = inverse_lower(as_float64(belief.root))
    precision, keep = inverse @ inverse.T, 1 / temperature
    flat = (1 - keep) * np.eye(belief.n_weights)
    return from_natural(keep * precision + flat, keep * (precision @ belief.mean))


def _total(weight: Array) -> Array:
    """The sum of weights, kept above zero if it underflows in single precision."""
    xp = namespace(weight)
    return xp.clip(xp.sum(weight), float(xp.finfo(weight.dtype).smallest_normal))


@dataclass
class Machine:
    """The density of particles, with gradients from the rows of a minibatch. ``is_width`` marks the log-parameters that
    are length-scales; ``n_rows`` is the weight of all rows."""

    rows: FourierRows
    likelihood: Likelihood
    frame: Frame
    is_width: np.ndarray
    n_rows: float
    temperature: float = 1.0
    n_jobs: int = 1

    def __post_init__(self) -> None:
        self._rows = ParticleRows(self.rows, self.frame.mean)
        self._width = like(self.is_width, self.frame.mean)

    def scores(self, particles: Array, X: Array, y: Array, weight: Array) -> Array:
        """Gradients of the log-density, particles by coordinates; unbiased for rows drawn at random."""
        xp, cloud = namespace(particles), self.frame.cloud(particles, self.n_jobs)
        cuts, (upright, phases) = self._rows.each(cloud, X.shape[0]), self._rows.upright(cloud)

        def one_part(index: int) -> tuple[Array, Array]:
            part = upright.part(cuts[index])
            lifted = self._rows.lift(X, part.theta, None if phases is None else phases[cuts[index]])
            g = self._slopes(self._rows.latent(lifted, part), y, weight)
            return self._rows.pullback(lifted, part, g)

        parts = list(sweep(one_part, len(cuts), self.n_jobs))
        in_weights, in_theta = (xp.concat(part, axis=0) for part in zip(*parts, strict=True))
        of_all = self.n_rows, _total(weight), self.temperature
        return self.frame.pulled(
            posterior_scores(-cloud.weights, self._rows.turned_back(in_weights, phases), *of_all),
            posterior_scores(self._prior_slopes(cloud.theta), in_theta, *of_all),
            self.n_jobs,
        )

    def direction(self, kernel: SteinKernel, particles: Array, X: Array, y: Array, weight: Array) -> Array:
        """The direction in which each particle should move, from the rows of a minibatch."""
        return direction(particles, self.scores(particles, X, y, weight), kernel)

    def log_density(self, particles: Array, X: Array, y: Array, weight: Array) -> Array:
        """The log-density of each particle, up to a constant; from all rows, or an unbiased estimate."""
        xp, cloud = namespace(particles), self.frame.cloud(particles, self.n_jobs)
        total = []
        for which in self._rows.each(cloud, X.shape[0]):
            part = cloud.part(which)
            f = self._rows.latent(self._rows.lift(X, part.theta), part)
            by_row = xp.reshape(self.likelihood.log_density(*self._flat(f, y)), f.shape[:2])
            total.append(by_row @ weight)
        prior = -0.5 * xp.sum(cloud.weights * cloud.weights, axis=(1, 2)) + self._log_prior(cloud.theta)
        return posterior_scores(prior, xp.concat(total), self.n_rows, _total(weight), self.temperature)

    def _slopes(self, f: Array, y: Array, weight: Array) -> Array:
        g = score(self.likelihood, *self._flat(f, y))
        return namespace(f).reshape(g, f.shape) * weight[None, :, None]

    def _flat(self, f: Array, y: Array) -> tuple[Array, Array]:
        """Labels and latent values of all rows, particle after particle; with two classes, one value for each row."""
        xp = namespace(f)
        n, b, C = f.shape
        labels = y if n == 1 else xp.reshape(xp.broadcast_to(y, (n, b)), (-1,))
        return labels, xp.reshape(f, (-1,) if C == 1 else (-1, C))

    def _log_prior(self, theta: Array) -> Array:
        xp, x = namespace(theta), theta - self.frame.theta
        width = self._width
        by_entry = width * (-2 * x - 0.5 * xp.exp(-4 * x)) - (1 - width) * 0.5 * x * x
        return xp.sum(by_entry * self.frame.moves, axis=1)

    def _prior_slopes(self, theta: Array) -> Array:
        xp, x = namespace(theta), theta - self.frame.theta
        width = self._width
        return width * (-2 + 2 * xp.exp(-4 * x)) - (1 - width) * x


class Journey(NamedTuple):
    """The steps of particles: ``n_steps`` on minibatches of ``batch_rows``, or on the ``whole`` of the rows.

    The length of steps falls from ``rate`` to almost zero, unless the journey is ``endless``, for a stream. With all
    rows, particles may be ``near`` already: several of them, about as wide as the density in every coordinate, with a
    Stein kernel in these units. Then steps proportional to directions converge sooner; otherwise they might never.
    """

    n_steps: int
    batch_rows: int
    rate: float
    whole: bool = False
    endless: bool = False
    near: bool = False

    def rule(self, count: int) -> Rule:
        """The rule of a step. Lengths fall along half a cosine, so that particles come to rest."""
        if self.near:
            return _NEAR
        if self.endless:
            return Adam(self.rate)
        return Adam(max(0.5 * (1 + math.cos(math.pi * count / self.n_steps)), _SHORTEST) * self.rate)

    def begun(self, particles: Array) -> State:
        """The state of particles before the first step."""
        return init(particles, self.rule(0))


def travelling_kernel(n_particles: int, n_coordinates: int) -> SteinKernel:
    """The Stein kernel: `default_kernel`, but with an RBF added if there are no more particles than coordinates.

    With the default, each of so few particles is as wide as the posterior in directions about which rows are
    informative, and their average is blurred. The RBF reduces their spread there and exaggerates it where rows are not
    informative, so that each particle is a kernel machine of its own. That improves means; the link is fitted to the
    variances.
    """
    if n_particles > n_coordinates:
        return default_kernel(n_particles, n_coordinates)
    return Whitened(MixedStein(linear=CoordinateStein()), "spread")


class Arrival(NamedTuple):
    """The final state of particles, and the reason for the end: steps, time or interrupt."""

    state: State
    reason: str


def travel(
    machine: Machine,
    rows: LabelledRows,
    state: State,
    journey: Journey,
    kernel: SteinKernel,
    rng: np.random.RandomState,
    monitor: Monitor,
) -> Arrival:
    """Moves particles by minibatches of rows, which are drawn in proportion to weight."""
    reference, look = machine.frame.mean, max(1, journey.n_steps // _LOOKS)
    try:
        for count, batch in enumerate(islice(_batches(rows, journey, reference, rng), journey.n_steps)):
            if monitor.out_of_time:
                return Arrival(state, "time")
            if count % look == 0:
                densities = machine.log_density(state.particles, *batch)
                monitor.record(float(namespace(densities).mean(densities)), accepted=True, phase="particles")
            if count == 0:
                directions = replayed(partial(machine.direction, kernel), state.particles, *batch)
            direction = clipped(directions(state.particles, *batch), -_FAR, _FAR)
            state = journey.rule(count).advance(state, direction)
    except KeyboardInterrupt:
        return Arrival(state, "interrupt")
    finally:
        monitor.close()
    return Arrival(state, "steps")


def _batches(
    rows: LabelledRows, journey: Journey, reference: Array, rng: np.random.RandomState
) -> Iterator[tuple[Array, Array, Array]]:
    """Yields all rows with their weights, again and again, or minibatches drawn by weight.

    Rows keep their precision until they are lifted.
    """
    if journey.whole:
        yield from repeat((dense(rows.X), like(rows.y, reference), like(rows.weight, reference)))
    cumulative, one_each = np.cumsum(rows.weight), like(np.ones(journey.batch_rows), reference)
    while True:
        at = drawn_from(cumulative, journey.batch_rows, rng)
        yield dense(rows.X[at]), like(rows.y[at], reference), one_each
