r"""Joint updates of classes that the likelihood couples.

The negative Hessian of a row's log-likelihood is :math:`W_i - O_i`, a matrix of classes by classes: :math:`W_i` is the
diagonal matrix of its sites, and :math:`O_i` couples classes. The update that sites alone imply, :math:`A x = h` with
:math:`A = P + G` class by class, holds all other classes fixed. A Newton step in the means of all classes solves

.. math:: (A - O)\, x = h - O m, \qquad (O x)_k = \sum_i \phi_i\, \big(O_i (\phi_i^T x)\big)_k,

which is what sites imply if their linear terms are changed to :math:`b_i + O_i\, \phi_i^T (x - m)`. It is solved by
conjugate gradients, preconditioned with ``A``. An iteration takes two products with the features, which is cheap
compared to the pass that computed ``G``.
"""

from __future__ import annotations

from collections.abc import Callable

from .arrays import Array, namespace
from .gaussian import ClassBelief

#: Iterations end when the squared residual is below this share of the first; and their maximum number.
_ENOUGH, _MOST_ITERATIONS = 1e-3, 25


def step_together(answer: Callable[[Array], Array], alone: ClassBelief, before: ClassBelief) -> Array:
    """The joint step :math:`x - m` of all classes from the means of ``before``, weights by classes.

    ``answer`` multiplies by ``O``, and ``alone`` is the belief that the sites alone imply.
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
    r"""The change of the linear terms that leads to the joint step, if the coupling is known from a sample only.

    With ``A`` and :math:`g = h - A m` of all rows, and :math:`A_s` and :math:`O_s` of a sample that represents them,
    the step is :math:`x = (A_s - O_s)^{-1} g`, and :math:`h + (A x - g)` leads there. It is zero
    if :math:`g` is, whatever the sample. Both matrices come from the sample, so that what is common to all classes
    still cancels in their difference.
    """
    xp = namespace(alone.means)
    way = alone.means - before.means
    slope = xp.stack([part.precision_times(way[:, k]) for k, part in enumerate(alone.parts)], axis=1)
    towards = before.means + _times_covariances(some, some.roots, slope)
    parts = (part._replace(mean=towards[:, k]) for k, part in enumerate(some.parts))
    x = step_together(answer, some._replace(parts=tuple(parts)), before)
    return xp.stack([part.precision_times(x[:, k]) for k, part in enumerate(alone.parts)], axis=1) - slope


def _times_covariances(belief: ClassBelief, roots: Array | None, columns: Array) -> Array:
    """Products with the covariances of all classes, as one batched product if their ``roots`` are given."""
    xp = namespace(columns)
    if roots is None:
        return xp.stack([part.covariance_times(columns[:, k]) for k, part in enumerate(belief.parts)], axis=1)
    halfway = roots @ xp.permute_dims(columns, (1, 0))[:, :, None]
    return xp.permute_dims((xp.permute_dims(roots, (0, 2, 1)) @ halfway)[:, :, 0], (1, 0))
