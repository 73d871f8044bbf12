"""Nesting of grouping factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Nesting(NamedTuple):
    """A chain of nested factors, finest first, and the rest.

    ``parents[l]`` gives, for each group of ``chain[l]``, the group of ``chain[l + 1]`` in which it is nested, so there
    is one array fewer than factors in the chain.  ``crossed`` are the factors outside the chain.
    """

    chain: tuple[int, ...]
    parents: tuple[np.ndarray, ...]
    crossed: tuple[int, ...]


def nesting(codes: Sequence[np.ndarray], sizes: Sequence[int], widths: Sequence[int] | None = None) -> Nesting:
    """The chain that starts at the factor with the most groups and leaves the fewest weights outside.

    For each factor, ``codes`` has the group of each row, ``sizes`` the number of groups, and ``widths`` the number of
    weights per group.  A factor is nested in another if in these rows each of its groups occurs with only one group of
    the other.

    >>> school, pupil = np.array([0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 2])
    >>> nesting([school, pupil], [2, 3])
    Nesting(chain=(1, 0), parents=(array([0, 0, 1]),), crossed=())
    """
    if not len(codes):
        return Nesting((), (), ())
    widths = [1] * len(codes) if widths is None else widths
    order = sorted(range(len(codes)), key=lambda factor: -sizes[factor])
    # Nesting is transitive, so the best chain from a factor continues with the best chain from a coarser one.
    best: dict[int, tuple[int, tuple[int, ...], tuple[np.ndarray, ...]]] = {}
    for place in reversed(range(len(order))):
        child = order[place]
        weight, chain, parents = 0, (), ()
        for above in order[place + 1 :]:
            if best[above][0] <= weight:
                continue
            parent = _parents(codes[child], codes[above], sizes[child])
            if parent is not None:
                weight, chain, parents = best[above][0], best[above][1], (parent, *best[above][2])
        best[child] = (weight + sizes[child] * widths[child], (child, *chain), parents)
    _, chain, parents = best[order[0]]
    return Nesting(chain, parents, tuple(factor for factor in range(len(codes)) if factor not in chain))


def _parents(child: np.ndarray, parent: np.ndarray, n_children: int) -> np.ndarray | None:
    """The parent of each child, or None if some child has several."""
    found = np.zeros(n_children, dtype=np.int64)
    found[child] = parent
    return found if np.array_equal(found[child], parent) else None
