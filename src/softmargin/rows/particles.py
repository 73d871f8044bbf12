r"""Rows under many kernels at once: particles, each with its own weights and kernel.

The features of `FourierRows` depend on the kernel, so every particle maps a row to different waves.  The first axis of
arrays is that of particles.  The host takes as many at a time as fit the cache, and a device usually all.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from ..arrays import Array, as_float64, clipped, cos_sin, like, namespace, product_into
from ..kernels import RBF, Matern
from .fourier import FAR, FourierRows, Term

#: Memory, in bytes, for particles processed together: on the host, they should fit the cache.
_HOST_BYTES, _DEVICE_BYTES = 2**21, 2**31


class Cloud(NamedTuple):
    """Particles: ``weights`` (particle, weight, class), and the log-parameters ``theta`` of their kernels.

    If the kernel is held fixed, ``theta`` has a single row.
    """

    weights: Array
    theta: Array

    @property
    def n_particles(self) -> int:
        return self.weights.shape[0]

    def seen_by(self, reference: Array) -> Cloud:
        """The same particles in the dtype, library and device of a block of rows."""
        return Cloud(like(self.weights, reference), like(self.theta, reference))

    def part(self, which: slice) -> Cloud:
        """Some of the particles."""
        return Cloud(self.weights[which], self.theta if self.theta.shape[0] == 1 else self.theta[which])


class Lifted(NamedTuple):
    """A block under several kernels: waves of amplitude one (particle, weight, row), their actual amplitudes
    (particle, weight, 1), and the columns divided by the length-scales of each term (particle, column, row).
    ``upright`` says that the waves have phases.

    Rows are the last axis, so the values of one wave are contiguous in memory, and so are all cosines.
    """

    waves: Array
    heights: Array
    scaled: tuple[Array, ...]
    upright: bool = False


class ParticleRows:
    r"""The features of `FourierRows` for any log-parameters, with waves and amplitudes kept apart.

    With waves ``c``, ``s`` of amplitude one, and amplitudes :math:`a = \sqrt{v / D}`, latent values are
    :math:`f = \sum (c\, a\, u_c + s\, a\, u_s)`.  Since ``f`` is linear in the weights, its derivative in
    :math:`\log v` is half of the term's part of ``f``, and the derivative of a sum over rows is
    :math:`\tfrac12 \sum u\, \partial F / \partial u`, which needs no second pass over the rows.

    **Phases.**  A pair of weights is one wave, :math:`c\, u_c + s\, u_s = r \cos(\alpha - \psi)` at the angle
    :math:`\alpha`.  Its derivative in the angle is :math:`-r \sin(\alpha - \psi)`.  If waves start at these phases,
    the weights of sines are zero, and the sines serve as derivatives.  Gradients in the weights are rotated back after
    they are summed.
    """

    def __init__(self, rows: FourierRows, reference: Array) -> None:
        self.rows, self._given, self._reference = rows.seen_by(reference), rows, reference
        self._parts, self._n_weights, self._widths = rows.parts(), rows.n_weights, []
        self._center = like(rows.center, as_float64(reference))  # on the device once, rather than with each batch
        halves = np.zeros((len(rows.kernel.theta), len(self._parts)))
        for which, (term, _) in enumerate(self._parts):
            halves[[factor.start for factor in term.variances], which] = 0.5
            if len(term.waves) > 1:
                raise ValueError(
                    f"Particles support one kernel with length-scales in each product, but {rows.kernel} multiplies "
                    f"two; replace them by one kernel, or use inference='cavi'."
                )
            for factor in term.waves:  # the position of a term's length-scales in theta
                assert isinstance(factor.kernel, (RBF, Matern))
                self._widths.append(slice(factor.start, factor.start + len(factor.kernel.theta)))
        # The log-amplitude of each term as a linear map of theta, its constant factor, and the term of each weight.
        heights = [1 / math.sqrt(rows.n_frequencies if term.waves else 1) for term, _ in self._parts]
        self._of_terms = like(halves, reference), like(np.array(heights), reference)
        widths = [columns.stop - columns.start for _, columns in self._parts]
        xp, term_of_weight = namespace(reference), np.repeat(np.arange(len(widths)), widths)
        self._term_of_weight = xp.asarray(term_of_weight, device=device(reference))

    @property
    def width(self) -> int:
        return self._n_weights

    def view(self, belief: Cloud, reference: Array) -> ParticleView:
        """The particles, for blocks such as ``reference``."""
        return ParticleView(ParticleRows(self._given, reference), belief.seen_by(reference))

    def lift(self, X: Array, theta: Array, phases: Array | None = None) -> Lifted:
        """The waves of a block under the kernel of each particle, starting at the phases of `upright` if given.

        Rows of higher precision than the particles are converted here, after they have been centred.
        """
        with np.errstate(over="ignore"):  # values that overflow are clipped
            plain, X = like(X, theta), like(X - like(self._center, X), theta)
        xp, n = namespace(X), theta.shape[0]
        waves = xp.empty((n, self._n_weights, X.shape[0]), dtype=X.dtype, device=device(X))
        scaled, widths = [], iter(self._widths)
        for term, columns in self._parts:
            part = waves[:, columns]
            if not term.waves:
                part[...] = plain.T[None] if term.linear else 1.0
                continue
            with np.errstate(over="ignore"):  # values that overflow are clipped
                A = clipped(xp.exp(-theta[:, next(widths)])[:, :, None] * X.T, -FAR, FAR)
            E = self.rows.frequencies[term.at][0]
            cos, sin = part[:, : E.shape[0]], part[:, E.shape[0] :]
            angles = product_into(E, A, sin)  # stored where the sines will be: no extra memory
            if phases is not None:
                angles -= phases[:, columns][:, : E.shape[0]]
            cos_sin(angles, cos, sin)
            scaled.append(A)
        return Lifted(waves, self.amplitudes(theta)[:, :, None], tuple(scaled), phases is not None)

    def upright(self, cloud: Cloud) -> tuple[Cloud, Array | None]:
        """Particles with waves at their own phases, so that weights of sines are zero; and the phases, at the cosines.

        The unchanged particles and None, if several classes or particles share waves.
        """
        if cloud.weights.shape[2] > 1 or cloud.theta.shape[0] < cloud.n_particles:
            return cloud, None
        xp, weights = namespace(cloud.weights), cloud.weights + 0.0
        phases = xp.zeros_like(weights)
        for cos, sin in self._pairs:
            phases[:, cos] = xp.atan2(weights[:, sin], weights[:, cos])
            weights[:, cos] = xp.hypot(weights[:, cos], weights[:, sin])
            weights[:, sin] = 0.0
        return Cloud(weights, cloud.theta), phases

    def turned_back(self, in_weights: Array, phases: Array | None) -> Array:
        """Gradients in the original weights, from those in the weights of waves with phases."""
        if phases is None:
            return in_weights
        xp, turned = namespace(in_weights), in_weights + 0.0
        for cos, sin in self._pairs:
            c, s = xp.cos(phases[:, cos]), xp.sin(phases[:, cos])
            turned[:, cos] = c * in_weights[:, cos] - s * in_weights[:, sin]
            turned[:, sin] = s * in_weights[:, cos] + c * in_weights[:, sin]
        return turned

    @property
    def _pairs(self) -> list[tuple[slice, slice]]:
        """The positions of the weights of cosines and of sines, term by term."""
        middles = [(at, (at.start + at.stop) // 2) for term, at in self._parts if term.waves]
        return [(slice(at.start, middle), slice(middle, at.stop)) for at, middle in middles]

    def amplitudes(self, theta: Array) -> Array:
        """The amplitude of each weight's feature: (particle, weight)."""
        xp, (halves, heights) = namespace(theta), self._of_terms
        return xp.take(xp.exp(theta @ halves) * heights, self._term_of_weight, axis=1)

    def latent(self, lifted: Lifted, cloud: Cloud) -> Array:
        """The latent values of each particle: (particle, row, class)."""
        return _times(_turned(lifted.waves), lifted.heights * cloud.weights)

    def pullback(self, lifted: Lifted, cloud: Cloud, g: Array) -> tuple[Array, Array]:
        r"""Gradients of a sum over rows in the weights and in ``theta``, given those in the latent values, ``g``.

        :math:`\partial F/\partial u = a \sum_i \phi_i g_i` (waves :math:`\phi`); in the angle of a wave,
        :math:`t = g\, a\, (c\, u_s - s\, u_c)`; and in :math:`\log \ell_c`, :math:`-\sum_i x_{ic} / \ell_c\,
        (\sum_j t_{ij} e_{jc})`.
        """
        xp, (waves, heights, scaled, upright) = namespace(g), lifted
        in_weights = heights * _times(waves, g)
        in_theta, of_terms = xp.zeros_like(cloud.theta), zip(scaled, self._widths, strict=True)
        if cloud.theta.shape[0] < cloud.n_particles:  # the kernel is held fixed
            return in_weights, in_theta
        half, seen = 0.5 * xp.sum(cloud.weights * in_weights, axis=2), heights * cloud.weights
        for term, columns in self._parts:
            for factor in term.variances:
                in_theta[:, factor.start] += xp.sum(half[:, columns], axis=1)
            if term.waves:
                A, at = next(of_terms)
                slopes = self._in_length_scales(term, waves[:, columns], seen[:, columns], g, A, upright)
                in_theta[:, at] += slopes if at.stop - at.start > 1 else xp.sum(slopes, axis=1, keepdims=True)
        return in_weights, in_theta

    def _in_length_scales(self, term: Term, part: Array, weights: Array, g: Array, A: Array, upright: bool) -> Array:
        xp, E = namespace(g), self.rows.frequencies[term.at][0]
        D = E.shape[0]
        c, s = part[:, :D], part[:, D:]
        if g.shape[2] > 1:
            back = weights @ _turned(g)
            turned, other = back[:, D:], back[:, :D]
            turned *= c
            other *= s
            turned -= other
            return -xp.sum(A * (E.T @ turned), axis=2)
        # The row's derivative ``g`` is a common factor of its angles, so it is applied after summing over them.
        if upright:
            return ((A * ((E.T * _turned(weights[:, :D])) @ s)) @ g)[:, :, 0]
        turned = c * weights[:, D:]
        turned -= s * weights[:, :D]
        return -((A * (E.T @ turned)) @ g)[:, :, 0]

    def together(self, cloud: Cloud, n_rows: int) -> int:
        """How many particles to process at once."""
        bytes_at_once = _HOST_BYTES if isinstance(self._reference, np.ndarray) else _DEVICE_BYTES
        each = 4 * n_rows * self._n_weights * self._reference.itemsize
        return max(1, min(cloud.n_particles, bytes_at_once // each))

    def each(self, cloud: Cloud, n_rows: int) -> list[slice]:
        """Slices of particles to process at once."""
        if cloud.theta.shape[0] == 1:
            return [slice(0, cloud.n_particles)]
        size = self.together(cloud, n_rows)
        return [slice(start, start + size) for start in range(0, cloud.n_particles, size)]


class ParticleView(NamedTuple):
    """Means and variances of latent values over particles."""

    rows: ParticleRows
    cloud: Cloud

    def moments(self, X: Array) -> tuple[Array, Array]:
        f = as_float64(self.values(X))
        xp = namespace(f)
        mu, v = xp.mean(f, axis=0), xp.var(f, axis=0)
        return (mu[:, 0], v[:, 0]) if mu.shape[1] == 1 else (mu, v)

    def means(self, X: Array) -> tuple[Array, Array]:
        return self.moments(X)

    def values(self, X: Array) -> Array:
        """The latent values of each particle: (particle, row, class)."""
        parts: list[Any] = []
        for which in self.rows.each(self.cloud, X.shape[0]):
            part = self.cloud.part(which)
            parts.append(self.rows.latent(self.rows.lift(X, part.theta), part))
        return namespace(*parts).concat(parts, axis=0)


def _turned(A: Array) -> Array:
    """Each particle's matrix, transposed."""
    return namespace(A).permute_dims(A, (0, 2, 1))


def _times(A: Array, B: Array) -> Array:
    """``A @ B``, particle by particle; if all share one ``A``, as a single product with all of ``B`` side by side."""
    if A.shape[0] == B.shape[0]:
        return A @ B
    xp = namespace(B)
    n, inner, width = B.shape
    side_by_side = A[0] @ xp.reshape(xp.permute_dims(B, (1, 0, 2)), (inner, n * width))
    return xp.permute_dims(xp.reshape(side_by_side, (A.shape[1], n, width)), (1, 0, 2))
