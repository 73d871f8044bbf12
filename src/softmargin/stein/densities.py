"""Sampling a density with particles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..arrays import Array
from .kernels import SteinKernel, default_kernel, direction
from .steps import Fixed, Rule, init


def posterior_scores(
    prior_scores: Array, likelihood_scores: Array, n_rows: float, batch_weight: float, temperature: float = 1.0
) -> Array:
    r""":math:`\nabla \log p(x) + \frac{1}{T} \frac{N}{|B|} \sum_{i \in B} \nabla \log p(y_i \mid x)`.

    ``likelihood_scores`` are summed over a batch that has ``batch_weight`` of all ``n_rows`` (or of their weights).
    With ``temperature`` 1 the particles represent the posterior; with ``n_rows`` the likelihood counts as a single
    row, which is the objective of a mean loss.

    >>> import numpy as np
    >>> prior, of_batch = np.array([[-1.0]]), np.array([[0.5]])  # two rows of ten
    >>> posterior_scores(prior, of_batch, n_rows=10, batch_weight=2)
    array([[1.5]])
    """
    return prior_scores + n_rows / (batch_weight * temperature) * likelihood_scores


class Sample(NamedTuple):
    """Particles, their log densities, the size of the last direction (`SteinKernel.size`), and convergence."""

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
    """Move particles until they represent a density known up to a constant.

    ``log_density_and_score`` returns the log densities of particles, one in each row, and their gradients row by row.
    Start with several times as many ``particles`` as there are coordinates, if possible, spread in all directions.
    The default ``rule`` is for the default ``kernel`` (`default_kernel`); others may need `Adam` or `Adagrad`, whose
    steps do not depend on the units of directions.  At most ``n_steps`` are taken, fewer if the size of the direction
    falls to ``tolerance``: for a Gaussian with a linear kernel, that is the relative error of variances.

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
            raise ValueError(f"directions are not finite after {state.count} steps: try smaller steps, or other units")
        if size <= tolerance or state.count >= n_steps:
            return Sample(state.particles, log_density, size, state.count, size <= tolerance)
        state = rule.advance(state, way)
