r"""Rows with missing entries (Luts and Ormerod 2014, section 3.3): what is missing is part of the belief.

The columns of a row are :math:`d \sim N(\mu, \Sigma)`, and the belief about its missing entries is a Gaussian
:math:`q(d_m) = N(\bar d, V)`.  With ``f`` standing for the row's latent value, :math:`f_o` for its value with zeros in
place of what is missing, :math:`\Lambda = E\, \Sigma^{-1}`, :math:`\Omega = E\, u u^T` and the row's site ``(w, b)``,

.. math:: V = (\Lambda_{mm} + w\, \Omega_{mm})^{-1}, \qquad
          \bar d = V (\Lambda_{mm} \mu_m - \Lambda_{mo} (d_o - \mu_o) + b\, E u_m - w\, E[u_m f_o]).

The row's latent value then has the mean of the filled row, and the variance :math:`\mathrm{tr}\, V \Omega_{mm}` beside
that of the filled row; ``G`` gains :math:`\sum w V`.  Sites and entries depend on each other, and are settled by turns.

Rows are taken together by the *number* of their missing entries, whatever the pattern: a stack of small matrices each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..gaussian import Belief
from ..imputation import Imputation
from ..likelihoods import Likelihood
from .features import Latent, View

#: Of all pairs of columns, one in so many may be missing from a row without blocks becoming too large.
_PAIRS_MISSING = 8
#: Turns between sites and entries of a block: from where they were in the last pass, and from nowhere.
_TURNS, _FIRST_TURNS = 2, 6


class Batch(NamedTuple):
    """Rows that lack the same number of entries: which rows, and which columns of each."""

    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def all_of(cls, missing: np.ndarray) -> tuple[Batch, ...]:
        counts = missing.sum(axis=1)
        batches = []
        for count in np.unique(counts[counts > 0]):
            rows = np.flatnonzero(counts == count)
            batches.append(cls(rows, np.nonzero(missing[rows])[1].reshape(-1, count)))
        return tuple(batches)

    def pairs(self, matrix: np.ndarray) -> np.ndarray:
        """The entries of a matrix between the missing columns of each row: a stack."""
        return matrix[self.columns[:, :, None], self.columns[:, None, :]]

    def of(self, per_column: np.ndarray) -> np.ndarray:
        """The entries of a vector, or of each row of a matrix, at the missing columns."""
        return per_column[self.columns] if per_column.ndim == 1 else per_column[self.rows[:, None], self.columns]


class IncompleteRows(NamedTuple):
    """Other rows, the first ``n_columns`` of whose core columns may have missing entries (NaN)."""

    rows: Any
    n_columns: int

    @property
    def n_weights(self) -> int:
        return self.rows.n_weights

    @property
    def width(self) -> int:
        """With room for a matrix of the entries that may be missing from a row."""
        return self.rows.width + self.n_columns**2 // _PAIRS_MISSING

    @property
    def least_rows(self) -> int:
        return self.rows.least_rows

    def lift(self, X: np.ndarray) -> IncompleteFeatures:
        missing = np.isnan(X[:, : self.n_columns])
        base = self.rows.lift(X)
        base.phi[:, : self.n_columns][missing] = 0
        return IncompleteFeatures(base, Batch.all_of(missing), self.n_columns)

    def leftover_root(self, X: np.ndarray) -> np.ndarray | None:
        return self.rows.leftover_root(X)

    def view(self, belief: Belief, reference: np.ndarray) -> View:
        inner = self.rows.view(belief, reference)
        return IncompleteView(self, inner.belief)


class IncompleteView(NamedTuple):
    """Rows with missing entries under one belief, for prediction: entries are foreseen from the others."""

    rows: IncompleteRows
    belief: Belief

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        latent = self.rows.lift(X).moments(self.belief)
        return latent.mu, latent.v


class _Known(NamedTuple):
    """What a belief says of rows with zeros in place of missing entries, and of the columns' weights and values."""

    latent: Latent
    cross: np.ndarray
    pull: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    imputation: Imputation

    @property
    def second_moments(self) -> np.ndarray:
        return self.covariance + np.outer(self.mean, self.mean)


class _Filled(NamedTuple):
    """The belief about the missing entries of a batch, and what it adds to the latent moments of its rows."""

    means: np.ndarray
    covariances: np.ndarray
    mu: np.ndarray
    v: np.ndarray


@dataclass
class IncompleteFeatures:
    """A block of rows; ``base`` has zeros in place of what is missing.

    The sites that the rows had last are kept as a start for the next time: they only make it shorter.
    """

    base: Any
    batches: tuple[Batch, ...]
    n_columns: int
    _sites: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def leftover(self) -> np.ndarray:
        return self.base.leftover

    def moments(self, belief: Belief) -> Latent:
        """As foreseen from what is there, whatever the label."""
        return self.foreseen(belief).moments(belief)

    def foreseen(self, belief: Belief) -> FilledFeatures:
        """Missing entries as the others foretell them."""
        known = self._known(belief)
        none = [np.zeros(len(batch.rows)) for batch in self.batches]
        filled = [_Gaps.of(known, batch).filled(w, w) for batch, w in zip(self.batches, none, strict=True)]
        return self._filled(filled, np.ones(len(self.base.phi)))

    def settled(
        self, belief: Belief, likelihood: Likelihood, y: np.ndarray, weight: np.ndarray
    ) -> tuple[FilledFeatures, np.ndarray]:
        """The missing entries given all else, and what the rows' columns cost: :math:`-E \\log p(d) - H(q)`."""
        known = self._known(belief)
        filled = [self._settle(known, index, likelihood, y[batch.rows]) for index, batch in enumerate(self.batches)]
        features = self._filled(filled, weight)
        cost = known.imputation.cost(features.values)
        for batch, (_, V, _, _) in zip(self.batches, filled, strict=True):
            cost[batch.rows] += 0.5 * np.einsum("ijk,ijk->i", batch.pairs(known.imputation.precision), V)
            cost[batch.rows] -= 0.5 * (V.shape[1] * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(V)[1])
        return features, cost

    def drawn(
        self, weights: np.ndarray, hyper: Any, site: tuple[np.ndarray, np.ndarray], weight: np.ndarray, rng: Any
    ) -> FilledFeatures:
        """Draws of the missing entries, given weights, the model of the columns and sites: the same formulas, without
        any uncertainty of the weights."""
        imputation = hyper if isinstance(hyper, Imputation) else hyper.columns
        f = np.asarray(self.base.at(weights))
        nothing, u = np.zeros((self.n_columns, self.n_columns)), self.base.core_of(weights)[: self.n_columns]
        pull = (imputation.mean - self.base.phi[:, : self.n_columns]) @ imputation.precision
        known = _Known(Latent(f, 0 * f, 0 * f), np.zeros((len(f), self.n_columns)), pull, u, nothing, imputation)
        drawn = []
        for batch in self.batches:
            filled = _Gaps.of(known, batch).filled(*(part[batch.rows] for part in site))
            noise = rng.standard_normal(filled.means.shape)
            values = filled.means + np.einsum("ijk,ik->ij", np.linalg.cholesky(filled.covariances), noise)
            drawn.append(filled._replace(means=values, covariances=0 * filled.covariances))
        return self._filled(drawn, weight)

    def _settle(self, known: _Known, index: int, likelihood: Likelihood, y: np.ndarray) -> _Filled:
        """Sites and entries of one batch by turns."""
        gaps = _Gaps.of(known, self.batches[index])
        turns = _TURNS if index in self._sites else _FIRST_TURNS
        w, b = self._sites.get(index, (np.zeros(len(y)), np.zeros(len(y))))
        for _ in range(turns):
            filled = gaps.filled(w, b)
            _, w, b = likelihood.sites(y, filled.mu, filled.v)
        self._sites[index] = w, b
        return filled

    def _known(self, belief: Belief) -> _Known:
        columns = slice(0, self.n_columns)
        imputation: Imputation = belief.hyper
        latent = Latent(*map(np.asarray, self.base.moments(belief)))
        away = self.base.phi[:, columns] - imputation.mean
        return _Known(
            latent,
            np.asarray(self.base.cross(belief))[:, columns],
            -away @ imputation.precision,
            np.asarray(belief.core_mean[columns], dtype=np.float64),
            np.asarray(belief.core_covariance[columns, columns], dtype=np.float64),
            imputation,
        )

    def _filled(self, filled: list[_Filled], weight: np.ndarray) -> FilledFeatures:
        phi = self.base.phi.copy()
        for batch, part in zip(self.batches, filled, strict=True):
            phi[batch.rows[:, None], batch.columns] = part.means
        covariances = tuple(part.covariances for part in filled)
        return FilledFeatures(self.base._replace(phi=phi), self.batches, covariances, weight, self.n_columns)


class _Gaps(NamedTuple):
    """What is known about the missing entries of a batch, row by row: all that their sites do not change."""

    mean: np.ndarray
    cross: np.ndarray
    pull: np.ndarray
    mu: np.ndarray
    v: np.ndarray
    precision: np.ndarray
    second: np.ndarray

    @classmethod
    def of(cls, known: _Known, batch: Batch) -> _Gaps:
        latent, rows = known.latent, batch.rows
        return cls(
            batch.of(known.mean),
            batch.of(known.cross),
            batch.of(known.pull),
            latent.mu[rows],
            latent.v[rows],
            batch.pairs(known.imputation.precision),
            batch.pairs(known.second_moments),
        )

    def filled(self, w: np.ndarray, b: np.ndarray) -> _Filled:
        """The formulas of this module, at given sites."""
        V = np.linalg.inv(self.precision + w[:, None, None] * self.second)
        rest = self.cross + self.mean * self.mu[:, None]
        values = np.einsum("ijk,ik->ij", V, self.pull + b[:, None] * self.mean - w[:, None] * rest)
        shift = np.einsum("ij,ij->i", values, self.mean)
        v = self.v + 2 * np.einsum("ij,ij->i", values, self.cross) - shift**2
        v += np.einsum("ij,ijk,ik->i", values, self.second, values)
        return _Filled(values, V, self.mu + shift, np.maximum(v, 0) + np.einsum("ijk,ijk->i", V, self.second))


class FilledFeatures(NamedTuple):
    """Rows whose missing entries are Gaussian, with covariances batch by batch (zeros where they are known)."""

    base: Any
    batches: tuple[Batch, ...]
    covariances: tuple[np.ndarray, ...]
    weight: np.ndarray
    n_columns: int

    @property
    def values(self) -> np.ndarray:
        """The filled columns."""
        return np.asarray(self.base.phi[:, : self.n_columns], dtype=np.float64)

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each entry; 0 for those that are there."""
        sds = np.zeros((len(self.base.phi), self.n_columns))
        for batch, V in zip(self.batches, self.covariances, strict=True):
            sds[batch.rows[:, None], batch.columns] = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
        return sds

    @property
    def phi(self) -> np.ndarray:
        return self.base.phi

    @property
    def leftover(self) -> np.ndarray:
        return self.base.leftover

    def moments(self, belief: Belief) -> Latent:
        mu, spread, leftover = map(np.asarray, self.base.moments(belief))
        if not self.batches:
            return Latent(mu, spread, leftover)
        columns = slice(0, self.n_columns)
        mean = np.asarray(belief.core_mean[columns], dtype=np.float64)
        second = np.asarray(belief.core_covariance[columns, columns], dtype=np.float64) + np.outer(mean, mean)
        leftover = leftover.copy()
        for batch, V in zip(self.batches, self.covariances, strict=True):
            leftover[batch.rows] += np.einsum("ijk,ijk->i", V, batch.pairs(second))
        return Latent(mu, spread, leftover)

    def gather(self, w: np.ndarray, b: np.ndarray) -> tuple[Any, np.ndarray]:
        """``(G, sums)`` and ``h``: the sums are those of the columns, their squares and the weights."""
        G, h = self.base.gather(w, b)
        values, d = self.values, self.n_columns
        totals = (self.weight @ values, (self.weight[:, None] * values).T @ values, self.weight.sum())
        of_sites, of_columns = np.zeros((d, d)), np.zeros((d, d))
        for batch, V in zip(self.batches, self.covariances, strict=True):
            flat = (batch.columns[:, :, None] * d + batch.columns[:, None, :]).ravel()
            for total, factor in ((of_sites, w), (of_columns, self.weight)):
                entries = (factor[batch.rows, None, None] * V).ravel()
                total += np.bincount(flat, weights=entries, minlength=d * d).reshape(d, d)
        return (_added(G, of_sites), (totals[0], totals[1] + of_columns, totals[2])), h

    def at(self, weights: np.ndarray) -> np.ndarray:
        return self.base.at(weights)

    def cross(self, belief: Belief) -> np.ndarray:
        return self.base.cross(belief)


def _added(G: Any, columns: np.ndarray) -> Any:
    """``G`` with more between the first columns of its core."""
    if isinstance(G, tuple):
        levels, core = G
        return levels, _added(core, columns)
    G = G.copy()
    G[: len(columns), : len(columns)] += columns
    return G
