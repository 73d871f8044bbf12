"""Nested and crossed groups the long way: dummies for every group, dense matrices, loops over groups."""

import numpy as np


def ancestors(layout, level, group):
    """The group itself and those that it lies in, as (level, group) pairs from ``level`` upwards."""
    chain = [(level, group)]
    for above in range(level + 1, len(layout.sizes)):
        group = int(layout.parents[above - 1][group])
        chain.append((above, group))
    return chain


def places(layout, level, group):
    """Where the weights of one group stand in the flat vector."""
    q = layout.sizes[level][1]
    start = sum(J * width for J, width in layout.sizes[:level]) + group * q
    return list(range(start, start + q))


def path_places(layout, level, group):
    """Where the weights of its path stand: those of its ancestors, then the core."""
    above = [place for pair in ancestors(layout, level, group)[1:] for place in places(layout, *pair)]
    n_weights = sum(J * q for J, q in layout.sizes) + layout.n_core
    return above + list(range(n_weights - layout.n_core, n_weights))


def dense_from_arrow(G, layout):
    """The whole matrix of an arrow."""
    levels, core = G
    n = sum(J * q for J, q in layout.sizes) + layout.n_core
    out = np.zeros((n, n))
    out[n - layout.n_core :, n - layout.n_core :] = core
    for level, (A, C) in enumerate(levels):
        for group in range(layout.sizes[level][0]):
            own, path = places(layout, level, group), path_places(layout, level, group)
            out[np.ix_(own, own)] = A[group]
            out[np.ix_(own, path)] = C[group]
            out[np.ix_(path, own)] = C[group].T
    return out


def arrow_from_dense(matrix, layout):
    """The blocks of a matrix that an arrow keeps."""
    levels = []
    for level, (J, _) in enumerate(layout.sizes):
        own = [places(layout, level, group) for group in range(J)]
        path = [path_places(layout, level, group) for group in range(J)]
        A = np.array([matrix[np.ix_(rows, rows)] for rows in own])
        C = np.array([matrix[np.ix_(rows, columns)] for rows, columns in zip(own, path, strict=True)])
        levels.append((A, C))
    start = len(matrix) - layout.n_core
    return tuple(levels), matrix[start:, start:]


def dense_features(phi, levels, crossed, layout):
    """Rows with a column for every weight.  ``levels`` and ``crossed`` are (z, codes, groups) of each factor.

    A row of an unseen group, code -1, has zeros in place of that group.
    """
    out = []
    for i, core in enumerate(phi):
        blocks = []
        for z, codes, J in [*levels, (None, None, 0), *crossed]:
            if z is None:
                blocks.append(core)
                continue
            dummies = np.zeros((J, z.shape[1]))
            if codes[i] >= 0:
                dummies[codes[i]] = z[i]
            blocks.append(dummies.ravel())
        out.append(np.concatenate(blocks))
    assert len(out[0]) == layout.n_weights
    return np.array(out)
