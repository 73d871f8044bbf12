r"""Batches of rows whose labels are not redundant.

The rows with the best scores are often neighbours, and the label of one would make those of the others nearly
redundant.  The posterior tells which: with :math:`C` the correlations of the latent functions at the candidates and
``q`` their scores, rows are taken one by one, each time the one that increases

.. math:: \log\det\left[q_i q_j C_{ij}\right]_{i, j \in \text{batch}}

most.  This is the greedy approximation of the most likely batch under a determinantal point process, and has a simple
interpretation: the next row is the one where :math:`q_i^2` times the proportion of the function's variance *that the
rows before it do not explain* is largest.  The first is the row with the best score.

Correlations have advantages over distances between rows: they are in the model's own units, so that irrelevant columns
do not count, and the same rule works for linear, mixed and kernel models.  They are estimated from joint draws of the
functions (differences between classes, if there are more than two), for at most a few thousand candidates: no matrix
over the whole pool is ever formed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .pool import last_step

#: Most rows in a batch; and the number of candidates: the fewest, and for each row of the batch.
MOST_AT_ONCE = 512
_LEAST_CANDIDATES, _CANDIDATES_EACH = 512, 4
#: Draws of the functions: the fewest, and for each row of the batch, to keep chance correlations small.
_LEAST_DRAWS, _DRAWS_EACH = 256, 4
#: Floor on scores, relative to the largest, so that rows with a score of zero are spread apart too.
_LEAST_WORTH = 1e-6


def n_candidates(n: int) -> int:
    """The number of candidates for a batch of n rows.

    >>> n_candidates(10), n_candidates(500)
    (512, 2000)
    """
    return max(_LEAST_CANDIDATES, _CANDIDATES_EACH * n)


def spread(model: Any, X: Any, worth: np.ndarray, n: int, rng: np.random.RandomState) -> np.ndarray:
    """Selects n of the candidates ``X``, in the order in which they are taken; ``worth`` is the score of each."""
    model, X = last_step(model, X)
    if not hasattr(model, "sample_latent"):
        raise TypeError(
            f"diverse=True needs the latent covariance of rows, and {type(model).__name__} has no latent function; "
            f"give a fitted classifier of softmargin, or use diverse=False."
        )
    return greedy(_directions(model, X, max(_LEAST_DRAWS, _DRAWS_EACH * n), rng), worth, n)


def _directions(model: Any, X: Any, n_draws: int, rng: np.random.RandomState) -> np.ndarray:
    """A unit vector for each row, whose inner products are correlations; zero where the variance is zero."""
    F = np.asarray(model.sample_latent(X, n_draws, random_state=rng), dtype=float)
    if F.ndim == 3:  # what is common to all classes has no effect
        F = F - F.mean(axis=1, keepdims=True)
    F = (F - F.mean(axis=-1, keepdims=True)).reshape(len(F), -1)
    return F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1e-150)


def greedy(F: np.ndarray, worth: np.ndarray, n: int) -> np.ndarray:
    r"""Selects n rows of F, each the one with the largest :math:`q_i^2 (1 - |B^T F_i|^2)`; B spans those before it.

    >>> greedy(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.9, 0.5]), 2)
    array([0, 2])
    """
    q = np.maximum(worth, _LEAST_WORTH * worth.max()) ** 2 if worth.max() > 0 else np.ones(len(worth))
    left = np.einsum("ij,ij->i", F, F)
    basis, taken = np.zeros((n, F.shape[1])), np.zeros(n, dtype=np.intp)
    is_free = np.ones(len(F), dtype=bool)
    for turn in range(n):
        # Where no variance is left, the score decides.
        pick = int(np.argmax(np.where(is_free, q * np.maximum(left, 1e-12), -1.0)))
        taken[turn], is_free[pick] = pick, False
        r = F[pick] - basis[:turn].T @ (basis[:turn] @ F[pick])
        length = np.linalg.norm(r)
        if length > 1e-9:
            basis[turn] = r / length
            left = left - (F @ basis[turn]) ** 2
    return taken
