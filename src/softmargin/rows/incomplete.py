r"""Rows with missing entries (Luts and Ormerod 2014, section 3.3): the belief includes the missing entries.

The columns of a row are :math:`d \sim N(\mu, \Sigma)`, and the belief about its missing entries is a Gaussian
:math:`q(d_m) = N(\bar d, V)`.  Let :math:`f_o` be the row's latent value with zeros in place of missing entries,
:math:`\Lambda = E\, \Sigma^{-1}`, :math:`\Omega = E\, u u^T`, and ``(w, b)`` the row's site.  Then

.. math:: V = (\Lambda_{mm} + w\, \Omega_{mm})^{-1}, \qquad
          \bar d = V (\Lambda_{mm} \mu_m - \Lambda_{mo} (d_o - \mu_o) + b\, E u_m - w\, E[u_m f_o]).

The row's latent value has the mean and variance of the row filled with :math:`\bar d`, plus the variance
:math:`\mathrm{tr}\, V \Omega_{mm}`; ``G`` gains :math:`\sum w V`.  Sites and entries depend on each other, and are
updated in turn.

With more than two classes, each class has its own latent value :math:`f_k`, weights and site, but the entries of a row
are the same for all,

.. math:: V = (\Lambda_{mm} + \sum_k w_k\, \Omega_{k,mm})^{-1}, \qquad
          \bar d = V \big(\Lambda_{mm} \mu_m - \Lambda_{mo} (d_o - \mu_o) + \sum_k (b_k\, E u_{k,m} - w_k\, E[u_{k,m}
          f_{k,o}])\big).

Uncertain entries make the :math:`f_k` dependent.  So this is limited to likelihoods that are sums over classes of
terms in a single :math:`f_k` (`OneVersusRest`): the variance of a difference does not follow from the two variances.

Rows with the same *number* of missing entries, whatever the pattern, are processed together, as a stack of small
matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..gaussian import class_parts
from ..imputation import Batch, Imputation
from ..likelihoods import Likelihood
from .classwise import ClasswiseFeatures, ClasswiseRows
from .features import Latent, LiftedView, View

#: Blocks are sized for rows in which one in this many pairs of columns is missing.
_PAIRS_MISSING = 8
#: Alternating updates of the sites and entries of a block: from the sites of the last pass, and from zero sites.
_TURNS, _FIRST_TURNS = 2, 6


class IncompleteRows(NamedTuple):
    """Other rows, whose first ``n_columns`` core columns may have missing entries (NaN)."""

    rows: Any
    n_columns: int

    @property
    def n_weights(self) -> int:
        return self.rows.n_weights

    @property
    def width(self) -> int:
        """Includes room for a matrix over the missing entries of a row, for each class."""
        matrices = self.rows.n_classes if isinstance(self.rows, ClasswiseRows) else 1
        return self.rows.width + matrices * self.n_columns**2 // _PAIRS_MISSING

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

    def view(self, belief: Any, reference: np.ndarray) -> View:
        return LiftedView(self, belief.seen_by(reference))


def beneath(rows: Any) -> Any:
    """The rows inside any wrappers for missing entries and classes."""
    return beneath(rows.rows) if isinstance(rows, (IncompleteRows, ClasswiseRows)) else rows


def with_beneath(rows: Any, **fields: Any) -> Any:
    """A copy with fields replaced in the rows `beneath`."""
    if isinstance(rows, (IncompleteRows, ClasswiseRows)):
        return rows._replace(rows=with_beneath(rows.rows, **fields))
    return rows._replace(**fields)


class _Weights(NamedTuple):
    """One class: moments of its weights of the columns, and of latent values with zeros for missing entries."""

    mu: np.ndarray
    v: np.ndarray
    cross: np.ndarray
    mean: np.ndarray
    second: np.ndarray


class _Known(NamedTuple):
    """What a belief implies for rows with zeros in place of missing entries: the weights of each class, and the model
    of the columns."""

    weights: list[_Weights]
    pull: np.ndarray
    imputation: Imputation


class _Filled(NamedTuple):
    """The belief about the missing entries of a batch, and the latent moments of its rows."""

    means: np.ndarray
    covariances: np.ndarray
    mu: np.ndarray
    v: np.ndarray


@dataclass
class IncompleteFeatures:
    """A block of rows; ``base`` has zeros in place of missing entries.

    The sites of the last pass are kept as starting values, which only saves iterations.
    """

    base: Any
    batches: tuple[Batch, ...]
    n_columns: int
    _sites: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def leftover(self) -> np.ndarray:
        return self.base.leftover

    def moments(self, belief: Any) -> Latent:
        """Moments with missing entries predicted from the observed ones, without the label."""
        return self.foreseen(belief).moments(belief)

    def means(self, belief: Any) -> tuple[np.ndarray, np.ndarray]:
        """The means and variances: those of missing entries are computed together."""
        latent = self.moments(belief)
        return latent.mu, latent.v

    def foreseen(self, belief: Any) -> FilledFeatures:
        """The rows with missing entries as predicted from the observed ones."""
        known = self._known(belief)
        none = [np.zeros(len(batch.rows)) for batch in self.batches]
        filled = [_Gaps.of(known, batch).filled(w, w) for batch, w in zip(self.batches, none, strict=True)]
        return self._filled(filled, np.ones(len(self.base.phi)))

    def settled(
        self, belief: Any, likelihood: Likelihood, y: np.ndarray, weight: np.ndarray
    ) -> tuple[FilledFeatures, np.ndarray]:
        """The posterior of the missing entries, and the cost of each row's columns: :math:`-E \\log p(d) - H(q)`."""
        known = self._known(belief)
        filled = [self._settle(known, index, likelihood, y[batch.rows]) for index, batch in enumerate(self.batches)]
        features = self._filled(filled, weight)
        cost = known.imputation.cost(features.values)
        for batch, (means, V, _, _) in zip(self.batches, filled, strict=True):
            cost[batch.rows] += 0.5 * np.einsum("ijk,ijk->i", batch.pairs(known.imputation.precision), V)
            cost[batch.rows] -= 0.5 * (means.shape[1] * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(V)[1])
        return features, cost

    def drawn(
        self, weights: Any, hyper: Any, site: tuple[np.ndarray, np.ndarray], weight: np.ndarray, rng: Any
    ) -> FilledFeatures:
        """Draws of the missing entries given weights, the model of the columns, and sites: the same formulas with known
        weights."""
        imputation = hyper if isinstance(hyper, Imputation) else hyper.columns
        features, known = _of_one_class(self.base), []
        for of_class in weights if isinstance(weights, tuple) else (weights,):
            f, u = np.asarray(features.at(of_class)), features.core_of(of_class)[: self.n_columns]
            known.append(_Weights(f, 0 * f, np.zeros((len(f), self.n_columns)), u, np.outer(u, u)))
        pull = (imputation.mean - self.base.phi[:, : self.n_columns]) @ imputation.precision
        known, drawn = _Known(known, pull, imputation), []
        for batch in self.batches:
            filled = _Gaps.of(known, batch).filled(*(part[batch.rows] for part in site))
            noise = rng.standard_normal(filled.means.shape)
            values = filled.means + np.einsum("ijk,ik->ij", np.linalg.cholesky(filled.covariances), noise)
            drawn.append(filled._replace(means=values, covariances=np.zeros_like(filled.covariances)))
        return self._filled(drawn, weight)

    def _settle(self, known: _Known, index: int, likelihood: Likelihood, y: np.ndarray) -> _Filled:
        """Alternates updates of the sites and entries of one batch."""
        gaps = _Gaps.of(known, self.batches[index])
        turns = _TURNS if index in self._sites else _FIRST_TURNS
        w, b = self._sites.get(index, (np.zeros(len(y)), np.zeros(len(y))))
        for _ in range(turns):
            filled = gaps.filled(w, b)
            _, w, b = likelihood.sites(y, filled.mu, filled.v)
        self._sites[index] = w, b
        return filled

    def _known(self, belief: Any) -> _Known:
        columns, parts = slice(0, self.n_columns), class_parts(belief)
        imputation: Imputation = belief.hyper
        latent = Latent(*map(np.asarray, self.base.moments(belief)))
        moments = zip(_by_class(latent.mu, len(parts)), _by_class(latent.v, len(parts)), strict=True)
        weights = []
        for part, (mu, v) in zip(parts, moments, strict=True):
            cross = np.asarray(_of_one_class(self.base).cross(part))[:, columns]
            weights.append(_Weights(mu, v, cross, *_column_moments(part, self.n_columns)))
        away = self.base.phi[:, columns] - imputation.mean
        return _Known(weights, -away @ imputation.precision, imputation)

    def _filled(self, filled: list[_Filled], weight: np.ndarray) -> FilledFeatures:
        phi = self.base.phi.copy()
        for batch, part in zip(self.batches, filled, strict=True):
            phi[batch.rows[:, None], batch.columns] = part.means
        covariances = tuple(part.covariances for part in filled)
        return FilledFeatures(_with_phi(self.base, phi), self.batches, covariances, weight, self.n_columns)


class _Gaps(NamedTuple):
    """What determines the missing entries of a batch, row by row, apart from their sites."""

    weights: list[_Weights]
    pull: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, known: _Known, batch: Batch) -> _Gaps:
        weights = [
            _Weights(mu[batch.rows], v[batch.rows], batch.of(cross), batch.of(mean), batch.pairs(second))
            for mu, v, cross, mean, second in known.weights
        ]
        return cls(weights, batch.of(known.pull), batch.pairs(known.imputation.precision))

    def filled(self, w: np.ndarray, b: np.ndarray) -> _Filled:
        """The posterior of the missing entries at given sites, by the formulas of the module docstring."""
        precision, pull, n = self.precision, self.pull, len(self.weights)
        for u, w_k, b_k in zip(self.weights, _by_class(w, n), _by_class(b, n), strict=True):
            precision = precision + w_k[:, None, None] * u.second
            pull = pull + b_k[:, None] * u.mean - w_k[:, None] * (u.cross + u.mean * u.mu[:, None])
        V = np.linalg.inv(precision)
        values = np.einsum("ijk,ik->ij", V, pull)
        mu, v = zip(*(_moments(u, values, V) for u in self.weights), strict=True)
        return _Filled(values, V, _joined(mu), _joined(v))


def _moments(u: _Weights, values: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the latent values of a class, given means and covariances of the missing entries."""
    shift = np.einsum("ij,ij->i", values, u.mean)
    v = u.v + 2 * np.einsum("ij,ij->i", values, u.cross) - shift**2
    v += np.einsum("ij,ijk,ik->i", values, u.second, values)
    return u.mu + shift, np.maximum(v, 0) + np.einsum("ijk,ijk->i", V, u.second)


class FilledFeatures(NamedTuple):
    """Rows whose missing entries are Gaussian, with covariances batch by batch (zero if the entries are drawn)."""

    base: Any
    batches: tuple[Batch, ...]
    covariances: tuple[np.ndarray, ...]
    weight: np.ndarray
    n_columns: int

    @property
    def values(self) -> np.ndarray:
        """The columns, with missing entries replaced by their means."""
        return np.asarray(self.base.phi[:, : self.n_columns], dtype=np.float64)

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each entry; 0 if it was observed."""
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

    def moments(self, belief: Any) -> Latent:
        mu, spread, leftover = map(np.asarray, self.base.moments(belief))
        if not self.batches:
            return Latent(mu, spread, leftover)
        leftover, parts = leftover.copy(), class_parts(belief)
        for part, of_class in zip(parts, _by_class(leftover, len(parts)), strict=True):
            _, second = _column_moments(part, self.n_columns)
            for batch, V in zip(self.batches, self.covariances, strict=True):
                of_class[batch.rows] += np.einsum("ijk,ijk->i", V, batch.pairs(second))
        return Latent(mu, spread, leftover)

    def gather(self, w: np.ndarray, b: np.ndarray) -> tuple[Any, np.ndarray]:
        """``(G, sums)`` and ``h``; the sums are those of the columns, of their products, and of the rows' weights."""
        G, h = self.base.gather(w, b)
        values = self.values
        totals = (self.weight @ values, (self.weight[:, None] * values).T @ values, self.weight.sum())
        if isinstance(self.base, ClasswiseFeatures):
            G = tuple(_added(own, self._uncertain(w[:, k])) for k, own in enumerate(G))
        else:
            G = _added(G, self._uncertain(w))
        return (G, (totals[0], totals[1] + self._uncertain(self.weight), totals[2])), h

    def _uncertain(self, factor: np.ndarray) -> np.ndarray:
        """The sum over rows of the covariances of missing entries, each times a factor: columns by columns."""
        d, total = self.n_columns, np.zeros((self.n_columns, self.n_columns))
        for batch, V in zip(self.batches, self.covariances, strict=True):
            flat = (batch.columns[:, :, None] * d + batch.columns[:, None, :]).ravel()
            entries = (factor[batch.rows, None, None] * V).ravel()
            total += np.bincount(flat, weights=entries, minlength=d * d).reshape(d, d)
        return total

    def at(self, weights: Any) -> np.ndarray:
        return self.base.at(weights)

    def cross(self, belief: Any) -> np.ndarray:
        """For at most two classes."""
        return self.base.cross(belief)

    def shared(self, other: FilledFeatures, belief: Any) -> np.ndarray:
        """The covariance of each latent value with that of the same row in ``other``, with entries at their means."""
        moved, spread, parts = other.phi - self.phi, self.moments(belief).spread, class_parts(belief)
        features, n = _of_one_class(self.base), self.phi.shape[1]
        pairs = zip(_by_class(spread, len(parts)), parts, strict=True)
        return _joined([own + (moved * features.cross(part)[:, :n]).sum(axis=1) for own, part in pairs])


# Arrays have a column for each class, if there are more than two -----------------------------------------------------


def _by_class(values: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """The columns of a matrix; a vector is shared by all classes."""
    return [values] * n_classes if values.ndim == 1 else list(values.T)


def _joined(of_classes: Any) -> np.ndarray:
    """The vectors as columns, or the vector itself if there is only one."""
    return of_classes[0] if len(of_classes) == 1 else np.stack(of_classes, axis=1)


def _of_one_class(features: Any) -> Any:
    return features.base if isinstance(features, ClasswiseFeatures) else features


def _with_phi(features: Any, phi: np.ndarray) -> Any:
    """A copy with ``phi`` replaced."""
    if isinstance(features, ClasswiseFeatures):
        return features._replace(base=_with_phi(features.base, phi))
    return features._replace(phi=phi)


def _column_moments(belief: Any, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the second moments of the weights of the first columns."""
    columns = slice(0, n_columns)
    mean = np.asarray(belief.core_mean[columns], dtype=np.float64)
    covariance = np.asarray(belief.core_covariance[columns, columns], dtype=np.float64)
    return mean, covariance + np.outer(mean, mean)


def _added(G: Any, columns: np.ndarray) -> Any:
    """``G`` with a matrix added to the block of the first columns of its core."""
    if isinstance(G, tuple):
        levels, core = G
        return levels, _added(core, columns)
    G = G.copy()
    G[: len(columns), : len(columns)] += columns
    return G
