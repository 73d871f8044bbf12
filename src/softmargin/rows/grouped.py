r"""Rows of a mixed model, which belong to groups with their own weights.

.. math:: f = \phi^T u_{core} + \sum_l z_l^T u_{l, g_l} + \sum_k z_k^T u_{k, g_k},

where :math:`g_l` is the row's group in level ``l`` of nested factors, and :math:`g_k` its group in a *crossed* factor,
whose weights lie in the core, after those shared by all rows.  Dummy variables are never formed: a row's entries in
the mean, in the blocks of the covariance and in the sums are indexed by its groups (see `softmargin.arrow`).

A group that was absent from the fit (code -1) is taken to be drawn from the population, which adds
:math:`z^T \Sigma z` to the row's unexplained variance.  With more than two classes, each class has its own population
and its own column of such variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from ..arrays import as_float64, clipped_at_zero, squares_through_lower, weighted_gram
from ..arrow import Arrow, ArrowBelief, Layout, zeros
from ..likelihoods import Likelihood
from .features import Latent, LiftedView, View

#: The least number of rows in a block: the cost of each block is high, and that of each row low.
_LEAST_ROWS = 32_768


class Factor(NamedTuple):
    """A grouping factor: columns of ``X`` with slopes by group, whether an intercept precedes them, column of codes."""

    columns: tuple[int, ...]
    intercept: bool
    code: int

    @property
    def q(self) -> int:
        return self.intercept + len(self.columns)

    def z(self, X: np.ndarray) -> np.ndarray:
        """The values by which each row multiplies the weights of its group."""
        ones = [np.ones((len(X), 1), dtype=X.dtype)] if self.intercept else []
        return np.concatenate([*ones, X[:, list(self.columns)]], axis=1)


class Members(NamedTuple):
    """The rows of a block as members of the groups of one factor."""

    z: np.ndarray
    codes: np.ndarray
    n_groups: int

    @property
    def q(self) -> int:
        return self.z.shape[1]

    def columns(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each column of ``z``, with the index of each row's weight among all those of the factor."""
        for a in range(self.q):
            yield self.z[:, a], self.codes if self.q == 1 else self.codes * self.q + a

    def at(self, weights: np.ndarray) -> np.ndarray:
        """:math:`z^T u_g` of each row."""
        flat = weights.ravel()
        return sum(z * flat.take(place) for z, place in self.columns())  # pyright: ignore[reportReturnType]

    def pulled(self, values: np.ndarray) -> np.ndarray:
        r""":math:`\sum z x` over the rows of each group, with one value ``x`` per row: (groups, q)."""
        return np.stack([np.bincount(self.codes, z * values, self.n_groups) for z in self.z.T], axis=1)

    def summed(self, values: np.ndarray) -> np.ndarray:
        """The sum of the values over the rows of each group, in float64."""
        n = len(self.codes)
        indicator = scipy.sparse.csc_array((np.ones(n), self.codes, np.arange(n + 1)), shape=(self.n_groups, n))
        return indicator @ values


class GroupedFeatures(NamedTuple):
    """A block of rows: the dense columns ``phi`` of the core, and membership in the groups of each factor."""

    phi: np.ndarray
    leftover: np.ndarray
    levels: tuple[Members, ...]
    crossed: tuple[Members, ...]
    layout: Layout

    def at(self, weights: np.ndarray) -> np.ndarray:
        r""":math:`\phi^T u` for known weights."""
        levels, core = self.layout.split(np.asarray(weights, dtype=self.phi.dtype))
        f = self.phi @ core[: self._n_own]
        for members, u in zip(self.levels, levels, strict=True):
            f += members.at(u)
        for z, place in self._dummies():
            f += z * core.take(place)
        return as_float64(f)

    def latent_of(self, weights: np.ndarray) -> np.ndarray:
        """Latent values (row by class) under the weights (weight by class) of several classes."""
        return np.stack([self.at(own) for own in weights.T], axis=1)

    def pulled(self, values: np.ndarray) -> np.ndarray:
        r""":math:`\sum_i \phi_i x_i^T`: the transpose of `latent_of`."""
        out = []
        for x in values.T:
            own = [as_float64(x @ self.phi), *(members.pulled(x).ravel() for members in self.crossed)]
            out.append(self.layout.joined([members.pulled(x) for members in self.levels], np.concatenate(own)))
        return np.stack(out, axis=1)

    def moments(self, belief: ArrowBelief) -> Latent:
        r""":math:`\mu`, and the spread: :math:`z^T (S_{ll} z + 2 S_{l,path} \phi_{path})` by level, plus the core's."""
        spread = self._core_spread(belief)
        for level, members in enumerate(self.levels):
            (own, path), parts = belief.blocks[level], self._above(level)
            own, path = _by_weight(own), _by_weight(path)
            for z, place in members.columns():
                shared, by_dummies = self._along(path, place, parts)
                spread += z * (_row_dots(own.take(place, axis=0), members.z) + 2 * (shared + by_dummies))
        return Latent(self.at(belief.mean), as_float64(clipped_at_zero(spread)), self.leftover)

    def means(self, belief: ArrowBelief) -> tuple[np.ndarray, np.ndarray]:
        """The means and variances: the latter take little time."""
        latent = self.moments(belief)
        return latent.mu, latent.v

    def cross(self, belief: ArrowBelief) -> np.ndarray:
        r""":math:`Cov(u_{core}, f)` of each row."""
        S, n = belief.core_covariance, self.layout.n_core
        out = self.phi @ S[: self._n_own]
        for members, (_, path) in zip(self.levels, belief.blocks, strict=True):
            table = _by_weight(path[:, :, path.shape[2] - n :])
            for z, place in members.columns():
                out += z[:, None] * table.take(place, axis=0)
        for z, place in self._dummies():
            out += z[:, None] * S.take(place, axis=0)
        return as_float64(out)

    def gather(self, w: np.ndarray, b: np.ndarray) -> tuple[Arrow, np.ndarray]:
        """The arrow-shaped sums ``G``, and ``h``, in float64."""
        n_own, (G, h) = self._n_own, zeros(self.layout)
        (levels, core), (h_levels, h_core) = G, self.layout.split(h)
        core[:n_own, :n_own] = weighted_gram(self.phi, w)
        h_core[:n_own] = b @ self.phi
        for level, members in enumerate(self.levels):
            (A, C), q = levels[level], members.q
            sums = self._summed(members, w, b, (members.z, *self._above(level)))
            h_levels[level][:] = sums[:, 0, :q]
            A[:], C[:, :, : sums.shape[2] - q] = sums[:, 1:, :q], sums[:, 1:, q:]
            for z, place in members.columns():
                self._add_dummies(_by_weight(C), place, w * z)
        for members, start, stop in self._crossed_places():
            sums = self._summed(members, w, b, (members.z, self.phi))
            h_core[start:stop] = sums[:, 0, : members.q].ravel()
            core[start:stop, :n_own] = _by_weight(sums[:, 1:, members.q :])
            for z, place in members.columns():
                self._add_dummies(core, start + place, w * z)
        core[:n_own, n_own:] = core[n_own:, :n_own].T
        return G, h

    def settled(
        self, belief: Any, likelihood: Likelihood, y: np.ndarray, weight: np.ndarray
    ) -> tuple[GroupedFeatures, float]:
        """These features and a cost of zero: complete rows have nothing to infer."""
        return self, 0.0

    def drawn(
        self, weights: np.ndarray, hyper: Any, site: tuple[np.ndarray, np.ndarray], weight: np.ndarray, rng: Any
    ) -> GroupedFeatures:
        """These features: complete rows have nothing to draw."""
        return self

    def core_of(self, weights: np.ndarray) -> np.ndarray:
        """The weights of the dense core."""
        return weights[..., self.layout.core]

    @property
    def _n_own(self) -> int:
        return self.phi.shape[1]

    def _above(self, level: int) -> tuple[np.ndarray, ...]:
        """The values by which a row multiplies the path of its group, except the dummies of crossed factors."""
        return (*(members.z for members in self.levels[level + 1 :]), self.phi)

    def _crossed_places(self) -> Iterator[tuple[Members, int, int]]:
        """Crossed factors, with the start and stop of each in the core."""
        start = self._n_own
        for members in self.crossed:
            stop = start + members.n_groups * members.q
            yield members, start, stop
            start = stop

    def _dummies(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Crossed dummies in sparse form: the nonzero entries of the rows, with the index of each in the core."""
        for members, start, _ in self._crossed_places():
            for z, place in members.columns():
                yield z, start + place

    def _along(
        self, table: np.ndarray, place: np.ndarray, parts: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """Row ``place`` of a table (last columns: the core) times each data row's ``parts``, and times its dummies."""
        W, stop, in_core = table.shape[1], 0, table.shape[1] - self.layout.n_core
        shared, by_dummies = np.zeros(len(place), dtype=table.dtype), 0.0
        for part in parts:
            shared += _row_dots(table[:, stop : stop + part.shape[1]].take(place, axis=0), part)
            stop += part.shape[1]
        for z, column in self._dummies():
            by_dummies = by_dummies + z * table.reshape(-1).take(place * W + in_core + column)
        return shared, by_dummies

    def _summed(self, members: Members, w: np.ndarray, b: np.ndarray, parts: tuple[np.ndarray, ...]) -> np.ndarray:
        """For each group, the sums of ``b z``, and of ``w`` times each column of ``z`` times the ``parts``.

        The shape is (groups, 1 + q, width of the parts).  One sweep computes all; ``b z`` fills the first ``q`` entries
        of its row.
        """
        n, q, width = len(w), members.q, sum(part.shape[1] for part in parts)
        values = np.zeros((n, 1 + q, width))
        np.multiply(b[:, None], members.z, out=values[:, 0, :q])
        for a in range(q):
            factor, stop = (w * members.z[:, a])[:, None], 0
            for part in parts:
                np.multiply(factor, part, out=values[:, 1 + a, stop : stop + part.shape[1]])
                stop += part.shape[1]
        return members.summed(values.reshape(n, (1 + q) * width)).reshape(members.n_groups, 1 + q, width)

    def _add_dummies(self, table: np.ndarray, place: np.ndarray, factor: np.ndarray) -> None:
        """Adds ``factor`` times each data row's crossed dummies to row ``place`` of a table, in its core columns."""
        W, in_core = table.shape[1], table.shape[1] - self.layout.n_core
        for z, column in self._dummies():
            np.add.at(table.reshape(-1), place * W + in_core + column, factor * z)

    def _core_spread(self, belief: ArrowBelief) -> np.ndarray:
        """The part of the spread that comes from the core's weights alone."""
        if self._n_own and not self.crossed:
            return squares_through_lower(self.phi, belief.core_root)
        S, n_own = belief.core_covariance, self._n_own
        spread = _row_dots(self.phi @ S[:n_own, :n_own], self.phi)
        for z, place in self._dummies():
            shared, by_dummies = self._along(S, place, (self.phi,))
            spread += z * (2 * shared + by_dummies)
        return spread


class GroupedRows(NamedTuple):
    """Rows whose first ``n_fixed`` columns go through ``fixed``, which are rows without groups.

    ``plain`` columns join the core unchanged.  ``levels`` are nested, finest first; ``parents`` gives each group's
    parent in the next level.  ``crossed`` factors lie in the core.  ``sizes`` and ``crossed_sizes`` count their groups,
    and ``population`` has the covariance of the effects of each, levels first, once it is known; with more than two
    classes, one covariance for each class.
    """

    fixed: Any
    n_fixed: int
    levels: tuple[Factor, ...]
    sizes: tuple[int, ...]
    parents: tuple[np.ndarray, ...] = ()
    plain: tuple[int, ...] = ()
    crossed: tuple[Factor, ...] = ()
    crossed_sizes: tuple[int, ...] = ()
    population: tuple[np.ndarray, ...] | None = None

    @property
    def layout(self) -> Layout:
        dummies = sum(J * factor.q for J, factor in zip(self.crossed_sizes, self.crossed, strict=True))
        sizes = tuple((J, factor.q) for J, factor in zip(self.sizes, self.levels, strict=True))
        return Layout(sizes, self.parents, self.fixed.n_weights + len(self.plain) + dummies)

    @property
    def n_weights(self) -> int:
        return self.layout.n_weights

    def weights_of(self, index: int) -> np.ndarray:
        """Indices of a factor's effects among the weights: (groups, columns).  Levels count before crossed factors."""
        layout, n = self.layout, len(self.levels)
        if index < n:
            start, (J, q) = layout.of_level(index).start, layout.sizes[index]
        else:
            sizes = [J * f.q for J, f in zip(self.crossed_sizes, self.crossed, strict=True)]
            start = layout.n_weights - sum(sizes[index - n :])
            J, q = self.crossed_sizes[index - n], self.crossed[index - n].q
        return start + np.arange(J * q).reshape(J, q)

    @property
    def width(self) -> int:
        """The number of values that the features of a row take up."""
        return self.fixed.n_weights + len(self.plain) + sum(factor.q + 1 for factor in self.levels + self.crossed)

    @property
    def least_rows(self) -> int:
        """The least number of rows for which a block is worth the cost of its sums."""
        layout = self.layout
        sums = sum(J * q * (q + layout.width(level)) for level, (J, q) in enumerate(layout.sizes)) + layout.n_core**2
        return max(_LEAST_ROWS, sums // self.width)

    def lift(self, X: np.ndarray) -> GroupedFeatures:
        phi, leftover = self.fixed.lift(X[:, : self.n_fixed])
        if self.plain:
            phi = np.concatenate([phi, X[:, list(self.plain)]], axis=1)
        members = []
        for index, (factor, J) in enumerate(
            zip(self.levels + self.crossed, self.sizes + self.crossed_sizes, strict=True)
        ):
            known, unexplained = self._members(X, index, factor, J)
            members.append(known)
            leftover = (leftover.T + np.transpose(unexplained)).T  # one for each row, or for each row and class
        n = len(self.levels)
        return GroupedFeatures(phi, leftover, tuple(members[:n]), tuple(members[n:]), self.layout)

    def leftover_root(self, X: np.ndarray) -> np.ndarray | None:
        """Each row of an unseen group is treated as a group of its own, with independent effects; what a kernel's
        points leave unexplained remains correlated between rows."""
        fixed = X[:, : self.n_fixed]
        of_fixed = self.fixed.leftover_root(fixed)
        leftover = (self.lift(X).leftover.T - self.fixed.lift(fixed).leftover).T
        if of_fixed is None and not leftover.any():
            return None
        root: Any = np.zeros((len(leftover), *leftover.shape))
        root[np.diag_indices(len(leftover))] = np.sqrt(clipped_at_zero(leftover))
        if of_fixed is None:
            return root
        if root.ndim == 3:  # shared by all classes
            of_fixed = np.broadcast_to(of_fixed[:, :, None], (*of_fixed.shape, root.shape[2]))
        return np.concatenate([of_fixed, root], axis=1)

    def view(self, belief: Any, reference: np.ndarray) -> View:
        return LiftedView(self, belief.seen_by(reference))

    def _members(self, X: np.ndarray, index: int, factor: Factor, J: int) -> tuple[Members, np.ndarray | float]:
        """The rows as members of a factor's groups, and the variance of those in unseen groups, whose ``z`` is 0."""
        z, codes = factor.z(X), X[:, factor.code].astype(np.intp)
        if codes.max(initial=-1) >= J:
            raise ValueError(f"A group has the code {codes.max()}, but there are only {J}.")
        unseen = codes < 0
        if not unseen.any():
            return Members(z, codes, J), 0.0
        if self.population is None:
            raise ValueError(
                "A row belongs to a group without a number, and nothing is known about the population yet."
            )
        population = self.population[index]
        of_classes = [
            np.where(unseen, _row_dots(z @ covariance, as_float64(z)), 0.0)
            for covariance in (population[None] if population.ndim == 2 else population)
        ]
        variance = of_classes[0] if population.ndim == 2 else np.stack(of_classes, axis=1)
        return Members(np.where(unseen[:, None], 0, z), np.where(unseen, 0, codes), J), variance


def _by_weight(blocks: np.ndarray) -> np.ndarray:
    """Blocks (groups, q, columns) as a table with one row for each weight."""
    return blocks.reshape(blocks.shape[0] * blocks.shape[1], blocks.shape[2])


def _row_dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The dot product of each row of ``A`` with the same row of ``B``."""
    return np.einsum("ij,ij->i", A, B)
