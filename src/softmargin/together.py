r"""Classes that answer to each other, moved together.

A row's log-likelihood bends as :math:`W_i - O_i`, a matrix of classes by classes: :math:`W_i` is the diagonal of its
sites, and in :math:`O_i` classes meet.  The step that sites alone imply, :math:`A x = h` with :math:`A = P + G` class
by class, takes every other class to stay where it is.  That of Newton's method in the means of all classes solves

.. math:: (A - O)\, x = h - O m, \qquad (O x)_k = \sum_i \phi_i\, \big(O_i (\phi_i^T x)\big)_k,

and is what sites imply after all if their linear terms are :math:`b_i + O_i\, \phi_i^T (x - m)`.  It is found by
conjugate gradients, preconditioned with ``A``: an iteration takes two products with the features, a small share of the
pass that found the sums of all pairs of them.
"""

from __future__ import annotations

from collections.abc import Callable

from .arrays import Array, namespace
from .gaussian import ClassBelief

#: The squared residual that is small enough, as a share of the first, and the most iterations on the way.
_ENOUGH, _MOST_ITERATIONS = 1e-3, 25


def step_together(answer: Callable[[Array], Array], alone: ClassBelief, before: ClassBelief) -> Array:
    """The step :math:`x - m` of all classes together from the means ``before``, weights by classes.

    ``answer`` is ``O``, and ``alone`` the belief that the sites alone imply.
    """
    scaled = alone.means - before.means
    xp, roots = namespace(scaled), alone.roots
    residual = xp.stack([part.precision_times(scaled[:, k]) for k, part in enumerate(alone.parts)], axis=1)
    direction, onward, felt = scaled, residual, xp.sum(residual * scaled)
    first, step = float(felt), xp.zeros_like(scaled)
    if first <= 0:
        return step
    for _ in range(_MOST_ITERATIONS):
        bent = onward - answer(direction)
        length = felt / xp.sum(direction * bent)
        residual, step = residual - length * bent, step + length * direction
        scaled = _times_covariances(alone, roots, residual)
        before_that, felt = felt, xp.sum(residual * scaled)
        if float(felt) <= _ENOUGH * first:
            break
        turn = felt / before_that
        direction, onward = scaled + turn * direction, residual + turn * onward
    return step


def change_together(
    answer: Callable[[Array], Array], some: ClassBelief, alone: ClassBelief, before: ClassBelief
) -> Array:
    r"""The change of the linear terms that takes all classes along, where only some rows say how they answer.

    With ``A`` and :math:`g = h - A m` of all rows, :math:`A_s` and :math:`O_s` of some that stand for them, the step is
    :math:`x = (A_s - O_s)^{-1} g`, and :math:`h + (A x - g)` leads there.  Where all rows imply no step, neither do
    some; and as these are asked for both matrices, what classes have in common is felt by neither.
    """
    xp = namespace(alone.means)
    way = alone.means - before.means
    slope = xp.stack([part.precision_times(way[:, k]) for k, part in enumerate(alone.parts)], axis=1)
    towards = before.means + _times_covariances(some, some.roots, slope)
    parts = (part._replace(mean=towards[:, k]) for k, part in enumerate(some.parts))
    x = step_together(answer, some._replace(parts=tuple(parts)), before)
    return xp.stack([part.precision_times(x[:, k]) for k, part in enumerate(alone.parts)], axis=1) - slope


def _times_covariances(belief: ClassBelief, roots: Array | None, columns: Array) -> Array:
    """A product with the covariance of each class, by their roots where there are such."""
    xp = namespace(columns)
    if roots is None:
        return xp.stack([part.covariance_times(columns[:, k]) for k, part in enumerate(belief.parts)], axis=1)
    halfway = roots @ xp.permute_dims(columns, (1, 0))[:, :, None]
    return xp.permute_dims((xp.permute_dims(roots, (0, 2, 1)) @ halfway)[:, :, 0], (1, 0))
