r"""Several rows at once that do not ask the same question.

The rows of the best scores are often neighbours: the label of one would have settled the others.  What settles what
is known to the posterior: with :math:`C` the correlations of the latent functions at the candidates and ``q`` their
scores, rows are taken one by one, each time the one that raises

.. math:: \log\det\left[q_i q_j C_{ij}\right]_{i, j \in \text{batch}}

most.  That is the most likely batch of a determinantal point process, up to the greedy order, and has a plain reading:
the next row is the one where :math:`q_i^2` times the share of the function's variance *that the rows before it leave
open* is largest.  The first is the row of the best score.

Why this and not distances between rows: correlations are in the model's own units, so that columns which do not matter
do not count, and the same rule serves linear, mixed and kernel models.  They come from joint draws of the functions
(differences between classes, if there are more than two), for at most some thousand candidates: no matrix over the
pool is ever made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .pool import last_step

#: Rows that can be chosen at once, and candidates that they are chosen from: at least, and for each.
MOST_AT_ONCE = 512
_LEAST_CANDIDATES, _CANDIDATES_EACH = 512, 4
#: Draws of the functions: at least, and for each row that is chosen, so that they have little in common by chance.
_LEAST_DRAWS, _DRAWS_EACH = 256, 4
#: The least share of the largest score that any candidate has, so that rows without any are put apart too.
_LEAST_WORTH = 1e-6


def n_candidates(n: int) -> int:
    """From how many rows n are chosen.

    >>> n_candidates(10), n_candidates(500)
    (512, 2000)
    """
    return max(_LEAST_CANDIDATES, _CANDIDATES_EACH * n)


def spread(model: Any, X: Any, worth: np.ndarray, n: int, rng: np.random.RandomState) -> np.ndarray:
    """n of the candidates ``X``, in the order in which they were taken; ``worth`` is the score of each."""
    model, X = last_step(model, X)
    if not hasattr(model, "sample_latent"):
        raise TypeError(
            f"diverse=True needs the latent covariance of rows, and {type(model).__name__} has no latent function; "
            f"give a fitted classifier of softmargin, or use diverse=False."
        )
    return greedy(_directions(model, X, max(_LEAST_DRAWS, _DRAWS_EACH * n), rng), worth, n)


def _directions(model: Any, X: Any, n_draws: int, rng: np.random.RandomState) -> np.ndarray:
    """A vector of length one for each row, whose products are correlations; of length zero where nothing is open."""
    F = np.asarray(model.sample_latent(X, n_draws, random_state=rng), dtype=float)
    if F.ndim == 3:  # what is common to all classes decides nothing
        F = F - F.mean(axis=1, keepdims=True)
    F = (F - F.mean(axis=-1, keepdims=True)).reshape(len(F), -1)
    return F / np.maximum(np.linalg.norm(F, axis=1, keepdims=True), 1e-150)


def greedy(F: np.ndarray, worth: np.ndarray, n: int) -> np.ndarray:
    r"""n rows of :math:`F`, each the one of largest :math:`q_i^2 (1 - |B^T F_i|^2)`, where B spans those before it.

    >>> greedy(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.9, 0.5]), 2)
    array([0, 2])
    """
    q = np.maximum(worth, _LEAST_WORTH * worth.max()) ** 2 if worth.max() > 0 else np.ones(len(worth))
    left = np.einsum("ij,ij->i", F, F)
    basis, taken = np.zeros((n, F.shape[1])), np.zeros(n, dtype=np.intp)
    is_free = np.ones(len(F), dtype=bool)
    for turn in range(n):
        # Where nothing is left open the score decides.
        pick = int(np.argmax(np.where(is_free, q * np.maximum(left, 1e-12), -1.0)))
        taken[turn], is_free[pick] = pick, False
        r = F[pick] - basis[:turn].T @ (basis[:turn] @ F[pick])
        length = np.linalg.norm(r)
        if length > 1e-9:
            basis[turn] = r / length
            left = left - (F @ basis[turn]) ** 2
    return taken
