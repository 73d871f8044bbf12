r"""Gaussians with an arrow-shaped precision: a chain of nested grouping factors above a dense core.

The weights are one flat vector: the finest *level* first (its groups one after the other), then the level in which it
is nested, and so on, the *core* last. The weights of a group are coupled with each other, with those of the groups that
contain it, and with the core, but never with another group of its level. So the precision is stored as blocks,

.. math:: G = \big(((A_1, C_1), (A_2, C_2), \dots),\; G_{core}\big),

``A`` of shape (groups, q, q) and ``C`` of shape (groups, q, W), where the W columns are the *path* of the group: the
weights of its parent, its grandparent, ..., the core. All blocks are sums over rows, and are kept on the host.

Eliminating the groups, finest first, leaves the core (a Schur complement). Back substitution gives each group given
its path, :math:`u_l \mid path \sim N(g - B\, u_{path}, A^{-1})` with :math:`B = A^{-1} C`, where what finer levels
explain has been subtracted from ``A`` and ``C``. No array larger than ``C`` is formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from .arrays import Array, NotPositiveDefiniteError, cholesky, inverse_lower, solve_lower

#: Sums ``((A, C) of each level, core)``.
Arrow = tuple[tuple[tuple[np.ndarray, np.ndarray], ...], np.ndarray]


class Layout(NamedTuple):
    """The layout of weights: ``(groups, q)`` of each level, finest first; each group's parent in the next; the core."""

    sizes: tuple[tuple[int, int], ...]
    parents: tuple[np.ndarray, ...]
    n_core: int

    @property
    def n_levels(self) -> int:
        return len(self.sizes)

    @property
    def n_weights(self) -> int:
        return sum(J * q for J, q in self.sizes) + self.n_core

    @property
    def core(self) -> slice:
        """The slice of the core in the flat vector."""
        return slice(self.n_weights - self.n_core, self.n_weights)

    def of_level(self, level: int) -> slice:
        """The slice of a level in the flat vector."""
        start = sum(J * q for J, q in self.sizes[:level])
        return slice(start, start + self.sizes[level][0] * self.sizes[level][1])

    def width(self, level: int) -> int:
        """The number of weights on the path of a group."""
        return sum(q for _, q in self.sizes[level + 1 :]) + self.n_core

    def path(self, level: int) -> Iterator[tuple[int, slice, np.ndarray]]:
        """The levels above a level: their indices, their columns of the path, and the ancestor of each group."""
        ancestor, start = np.arange(self.sizes[level][0]), 0
        for above in range(level + 1, self.n_levels):
            ancestor, q = self.parents[above - 1][ancestor], self.sizes[above][1]
            yield above, slice(start, start + q), ancestor
            start += q

    def on_path(self, level: int, levels: Sequence[np.ndarray], core: np.ndarray) -> np.ndarray:
        """Values of all weights on the path of each group (groups, W), from the parts that `split` returns."""
        above = [levels[k][ancestor] for k, _, ancestor in self.path(level)]
        return np.concatenate([*above, np.broadcast_to(core, (self.sizes[level][0], self.n_core))], axis=1)

    def split(self, flat: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The levels (..., groups, q) and the core (..., weights) of (draws of) a flat vector."""
        parts = [flat[..., self.of_level(level)] for level in range(self.n_levels)]
        shaped = [part.reshape(*part.shape[:-1], J, q) for part, (J, q) in zip(parts, self.sizes, strict=True)]
        return shaped, flat[..., self.core]

    def joined(self, levels: Sequence[np.ndarray], core: np.ndarray) -> np.ndarray:
        """The inverse of `split`."""
        return np.concatenate([*(part.reshape(*core.shape[:-1], -1) for part in levels), core], axis=-1)


class ArrowBelief(NamedTuple):
    r"""A Gaussian over the weights of a `Layout`, with the interface of `gaussian.Belief`.

    ``blocks`` holds :math:`(S_{ll}, S_{l,path})` of every group, a pair of arrays for each level; the core has the
    covariance :math:`R^T R` with ``R = core_root`` lower triangular.  ``given_path`` holds, for each level,
    :math:`(R_l, B_l)` of the conditionals: covariance :math:`R_l^T R_l` and slope :math:`-B_l` in the path.
    """

    mean: np.ndarray
    blocks: tuple[tuple[np.ndarray, np.ndarray], ...]
    core_root: np.ndarray
    core_covariance: np.ndarray
    given_path: tuple[tuple[np.ndarray, np.ndarray], ...]
    log_det: float
    layout: Layout
    hyper: Any = None

    @property
    def variances(self) -> np.ndarray:
        own = [np.diagonal(S, axis1=1, axis2=2) for S, _ in self.blocks]
        return self.layout.joined(own, np.diagonal(self.core_covariance))

    @property
    def covariance(self) -> np.ndarray:
        """The dense covariance matrix, for small models only."""
        root = self._deviations(np.eye(self.layout.n_weights))
        return root.T @ root

    @property
    def core_mean(self) -> np.ndarray:
        """The mean of the weights in the core."""
        return self.mean[self.layout.core]

    def level(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Means (groups, q) and covariances (groups, q, q) of the groups of a level."""
        return self.mean[self.layout.of_level(level)].reshape(self.layout.sizes[level]), self.blocks[level][0]

    def energy(self, precision: tuple[Sequence[np.ndarray], np.ndarray]) -> float:
        r""":math:`E\, u^T P u`, for a (q, q) precision shared by all groups of each level, and that of the core."""
        (levels, P), m, S = precision, self.core_mean, self.core_covariance
        total = float(P @ (np.diagonal(S) + m * m) if P.ndim == 1 else np.sum(P * S) + m @ P @ m)
        for index, shared in enumerate(levels):
            means, covariances = self.level(index)
            total += float(np.sum(shared * (covariances.sum(axis=0) + means.T @ means)))
        return total

    def felt(self, dG: Arrow, dh: np.ndarray) -> np.ndarray:
        """A change of natural parameters as one flat vector, in units of this belief's standard deviations.

        Couplings represent both of their places in the matrix, so that inner products equal those of `Belief.felt`.
        """
        sd = np.sqrt(self.variances)
        own, core = self.layout.split(sd)
        half, parts = 0.5**0.5, []
        for level, (A, C) in enumerate(dG[0]):
            mine, path = own[level][:, :, None], self.layout.on_path(level, own, core)[:, None, :]
            parts += [half * mine * A * mine.swapaxes(1, 2), mine * C * path]
        parts += [half * core[:, None] * dG[1] * core, sd * (dh - times(dG, self.mean, self.layout))]
        return np.concatenate([part.ravel() for part in parts])

    def moved_from(self, other: ArrowBelief) -> float:
        """The squared distance between the two means, in units of this belief's standard deviations."""
        step = self.mean - other.mean
        return float(np.sum(step * step / self.variances))

    def covariance_times(self, x: np.ndarray) -> np.ndarray:
        r""":math:`S x`: each level, finest first, subtracts :math:`B^T x` from all above it, as in `from_natural`."""
        layout, (parts, core), own = self.layout, self.layout.split(x.copy()), []
        for level, (R, B) in enumerate(self.given_path):
            own.append(_across(R.swapaxes(1, 2), _across(R, parts[level])))
            core = core - parts[level].ravel() @ _of_core(B, layout)
            for k, columns, ancestor in layout.path(level):
                parts[k] -= _summed(_across(B[:, :, columns].swapaxes(1, 2), parts[level]), ancestor, len(parts[k]))
        return _back_substituted(own, self.core_covariance @ core, self.given_path, layout)

    def precision_times(self, x: np.ndarray) -> np.ndarray:
        r""":math:`S^{-1} x`: each level gets :math:`A (x + B x_{path})`, and its path :math:`B^T` times that."""
        layout, (parts, core), out = self.layout, self.layout.split(x), []
        root = self.core_root
        own_core = solve_lower(root, solve_lower(root, core, transposed=True)) if layout.n_core else core.copy()
        above = [np.zeros_like(part) for part in parts]
        for level, (R, B) in enumerate(self.given_path):
            away = parts[level] + _across(B, layout.on_path(level, parts, core))
            felt = np.linalg.solve(R, np.linalg.solve(R.swapaxes(1, 2), away[:, :, None]))[:, :, 0]
            own_core += felt.ravel() @ _of_core(B, layout)
            for k, columns, ancestor in layout.path(level):
                above[k] += _summed(_across(B[:, :, columns].swapaxes(1, 2), felt), ancestor, len(parts[k]))
            out.append(above[level] + felt)
        return layout.joined(out, own_core)

    def sample(self, n_draws: int, rng: np.random.RandomState | np.random.Generator) -> np.ndarray:
        """Draws of the weights, one in each row."""
        return self.mean + self._deviations(rng.standard_normal((n_draws, self.layout.n_weights)))

    def seen_by(self, reference: Array) -> ArrowBelief:
        """The same belief, with the parts that rows use in the dtype of a block of rows."""

        def cast(values: np.ndarray) -> np.ndarray:
            return np.asarray(values, dtype=reference.dtype)

        return self._replace(
            mean=cast(self.mean),
            blocks=tuple((cast(own), cast(path)) for own, path in self.blocks),
            core_root=cast(self.core_root),
            core_covariance=cast(self.core_covariance),
        )

    def _deviations(self, noise: np.ndarray) -> np.ndarray:
        """Deviations of weights from their mean, from standard normal noise with one draw in each row."""
        levels, core = self.layout.split(noise)
        own = [_across(R.swapaxes(1, 2), e) for (R, _), e in zip(self.given_path, levels, strict=True)]
        return _back_substituted(own, core @ self.core_root, self.given_path, self.layout)


def from_natural(G: Arrow, h: np.ndarray, layout: Layout, hyper: Any = None) -> ArrowBelief:
    r"""The Gaussian proportional to :math:`\exp(h^T x - x^T G x / 2)`, where ``G`` is the full precision."""
    (levels, core), (g, h_core) = G, layout.split(h)
    levels, given_path, log_det = list(levels), [], 0.0
    for level in range(layout.n_levels):
        A, C = levels[level]
        R = _inverse_roots(A)
        V, e = _times(R, C), _across(R, g[level])
        # What the level explains, C'A^-1 C = V'V, is subtracted from everything above it.
        for k, columns, ancestor in layout.path(level):
            (J, q), mine = layout.sizes[k], V[:, :, columns].swapaxes(1, 2)
            gone = _summed(mine @ V[:, :, columns.start :], ancestor, J)
            levels[k] = levels[k][0] - gone[:, :, :q], levels[k][1] - gone[:, :, q:]
            g[k] = g[k] - _summed(_across(mine, e), ancestor, J)
        of_core = _of_core(V, layout)
        core, h_core = core - of_core.T @ of_core, h_core - e.ravel() @ of_core
        Rt = R.swapaxes(1, 2)
        g[level] = _across(Rt, e)
        given_path.append((R, _times(Rt, V)))
        log_det += 2 * float(np.sum(np.log(np.diagonal(R, axis1=1, axis2=2))))
    root = inverse_lower(cholesky(core)) if layout.n_core else core
    log_det += 2 * float(np.sum(np.log(np.diagonal(root))))
    mean = _back_substituted(g, root.T @ (root @ h_core), given_path, layout)
    covariance = root.T @ root
    blocks = _covariances(given_path, covariance, layout)
    return ArrowBelief(mean, blocks, root, covariance, tuple(given_path), log_det, layout, hyper)


def with_precision(G: Arrow, level_precisions: Sequence[np.ndarray], core_precision: np.ndarray) -> Arrow:
    """``G`` plus a prior: a (q, q) precision shared by all groups of a level, and the core's (diagonal or matrix)."""
    levels = tuple((A + P, C) for (A, C), P in zip(G[0], level_precisions, strict=True))
    return levels, G[1] + (np.diag(core_precision) if np.ndim(core_precision) == 1 else core_precision)


def zeros(layout: Layout) -> tuple[Arrow, np.ndarray]:
    """The sums ``(G, h)`` of no rows."""
    shapes = [(J, q, layout.width(level)) for level, (J, q) in enumerate(layout.sizes)]
    levels = tuple((np.zeros((J, q, q)), np.zeros((J, q, W))) for J, q, W in shapes)
    return (levels, np.zeros((layout.n_core, layout.n_core))), np.zeros(layout.n_weights)


def times(G: Arrow, vector: np.ndarray, layout: Layout) -> np.ndarray:
    """``G @ vector``."""
    x, x_core = layout.split(vector)
    y, y_core = [_across(A, part) for (A, _), part in zip(G[0], x, strict=True)], G[1] @ x_core
    for level, (_, C) in enumerate(G[0]):
        of_core = _of_core(C, layout)
        y[level] += (of_core @ x_core).reshape(x[level].shape)
        y_core += x[level].ravel() @ of_core
        for k, columns, ancestor in layout.path(level):
            y[level] += _across(C[:, :, columns], x[k][ancestor])
            y[k] += _summed(_across(C[:, :, columns].swapaxes(1, 2), x[level]), ancestor, layout.sizes[k][0])
    return layout.joined(y, y_core)


# Variable selection in the core: rows use weights times inclusion variables -----------------------------------------


def scaled_core(G: Arrow, second: np.ndarray, inclusion: np.ndarray) -> Arrow:
    r"""``G`` for weights before selection: core times :math:`E \gamma\gamma^T`, couplings times :math:`E \gamma`."""
    return tuple((A, _with_core_columns_times(C, inclusion)) for A, C in G[0]), G[1] * second


def through_core(belief: ArrowBelief, inclusion: np.ndarray, core_root: np.ndarray) -> ArrowBelief:
    """The effective moments of the weights, which rows use, given the root of the covariance of the core.

    It cannot be sampled: given the effective core, groups are no longer independent.
    """
    mean = belief.mean.copy()
    mean[belief.layout.core] *= inclusion
    blocks = tuple((own, _with_core_columns_times(path, inclusion)) for own, path in belief.blocks)
    covariance = core_root.T @ core_root
    return belief._replace(mean=mean, blocks=blocks, core_root=core_root, core_covariance=covariance, given_path=())


def coupling(G: Arrow, belief: ArrowBelief) -> np.ndarray:
    r""":math:`\sum_i G_{ij} E[u_i u_j]` for each weight ``j`` of the core, over all ``i`` outside of it."""
    (levels, _), m = G, belief.core_mean
    out = pulled_from_core(G, belief.mean, belief.layout) * m
    for (_, C), (_, S) in zip(levels, belief.blocks, strict=True):
        out += np.einsum("ij,ij->j", _of_core(C, belief.layout), _of_core(S, belief.layout))
    return out


def pulled_from_core(G: Arrow, weights: np.ndarray, layout: Layout) -> np.ndarray:
    r""":math:`\sum_i G_{ij} u_i` for each weight ``j`` of the core, over all ``i`` outside of it."""
    levels, core = layout.split(weights)
    parts = (u.ravel() @ _of_core(C, layout) for u, (_, C) in zip(levels, G[0], strict=True))
    return sum(parts, np.zeros_like(core))


def _with_core_columns_times(C: np.ndarray, factor: np.ndarray) -> np.ndarray:
    C = C.copy()
    C[:, :, C.shape[2] - len(factor) :] *= factor
    return C


# Stacks of small matrices ----------------------------------------------------------------------------------------


def _inverse_roots(A: np.ndarray) -> np.ndarray:
    """``R``, lower triangular with ``A^-1 = R'R``, of each matrix in a stack."""
    if A.shape[1] == 1:
        if not np.all(A > 0):
            raise NotPositiveDefiniteError("a group's precision is not positive")
        return 1 / np.sqrt(A)
    try:
        return np.linalg.inv(np.linalg.cholesky(A))
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError(f"a group's precision: {error}") from error


def _times(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``A @ B`` of each pair of matrices in two stacks."""
    return A * B if A.shape[1] == A.shape[2] == 1 else A @ B


def _across(A: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``A @ x`` for each matrix in a stack and its vector, for one set of vectors (stack, columns) or several."""
    return A[:, 0] * x if A.shape[1] == A.shape[2] == 1 else np.einsum("jab,...jb->...ja", A, x)


def _summed(values: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    """The sum of the values that share an index, for each of ``n``."""
    indicator = scipy.sparse.csc_array((np.ones(len(index)), index, np.arange(len(index) + 1)), shape=(n, len(index)))
    return (indicator @ values.reshape(len(index), -1)).reshape(n, *values.shape[1:])


def _of_core(C: np.ndarray, layout: Layout) -> np.ndarray:
    """The columns of a coupling that belong to the core, with one row for each weight of the level."""
    return C[:, :, C.shape[2] - layout.n_core :].reshape(C.shape[0] * C.shape[1], layout.n_core)


# From the core down ----------------------------------------------------------------------------------------------


def _back_substituted(
    own: list[np.ndarray], core: np.ndarray, given_path: Sequence[tuple[np.ndarray, np.ndarray]], layout: Layout
) -> np.ndarray:
    r""":math:`u_l = own_l - B_l u_{path}`, coarsest level first, as flat vectors; with one axis of draws, or none."""
    u = list(own)
    for level in reversed(range(layout.n_levels)):
        _, B = given_path[level]
        u[level] = u[level] - (core @ _of_core(B, layout).T).reshape(u[level].shape)
        for k, columns, ancestor in layout.path(level):
            u[level] -= _across(B[:, :, columns], u[k][..., ancestor, :])
    return layout.joined(u, core)


def _covariances(
    given_path: Sequence[tuple[np.ndarray, np.ndarray]], core: np.ndarray, layout: Layout
) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    r""":math:`S_{l,path} = -B S_{path}` and :math:`S_{ll} = R^T R - S_{l,path} B^T` of every group, coarsest first."""
    blocks: list[Any] = [None] * layout.n_levels

    def through_path(B: np.ndarray, level: int, group: np.ndarray | None) -> np.ndarray:
        """``B S``, ``S`` the covariance of a group of this level and its path; beyond the last level, of the core."""
        if level == layout.n_levels:
            return (_of_core(B, layout) @ core).reshape(B.shape)
        q, (own, path) = layout.sizes[level][1], (part[group] for part in blocks[level])
        mine, rest = B[:, :, :q], B[:, :, q:]
        parent = layout.parents[level][group] if level + 1 < layout.n_levels else None
        right = mine @ path + through_path(rest, level + 1, parent)
        return np.concatenate([mine @ own + rest @ path.swapaxes(1, 2), right], axis=2)

    for level in reversed(range(layout.n_levels)):
        R, B = given_path[level]
        S = -through_path(B, level + 1, layout.parents[level] if level + 1 < layout.n_levels else None)
        blocks[level] = _times(R.swapaxes(1, 2), R) - np.einsum("jaw,jbw->jab", S, B), S
    return tuple(blocks)
