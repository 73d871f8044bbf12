"""Missing entries where there are more than two classes: the bound, and where its ascent ends."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references
import references_structured as naive
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.imputation import ColumnModel, Imputation
from softmargin.likelihoods import AugmentedHinge
from softmargin.loo import _predicted, left_out
from softmargin.priors import Classwise, Imputing, LaplaceZero, Ridge, Structured
from softmargin.rows import ClasswiseRows, IncompleteRows, LinearRows
from softmargin.steps import ascend
from softmargin.wishart import InverseWishart
from test_missing_classes import CASES, HINGE, JJ, Case, D, K, N


@pytest.fixture(params=CASES)
def case(request) -> Case:
    return Case(request.param, np.random.default_rng(1))


def test_the_bound_of_rows_lies_below_their_expectation_and_touches_it(case, rng):
    """Weights and entries drawn from the belief: the latent values of all classes, which vary together."""
    filled, _ = case.lifted().settled(case.belief, HINGE, case.y, case.weight)
    latent, draws = filled.moments(case.belief), 4000
    ours = HINGE.sites(case.y, latent.mu, latent.v).l
    for i, e in enumerate(case.settled(HINGE, 6)):
        met = np.flatnonzero((e.mean != 0) | (np.diag(e.covariance) > 0))  # weights of other groups are far away
        rows = rng.multivariate_normal(e.mean[met], e.covariance[np.ix_(met, met)], size=draws)
        weights = [rng.multivariate_normal(m[met], S[np.ix_(met, met)], size=draws) for m, S in case.moments]
        f = np.stack([np.sum(rows * u, axis=1) for u in weights], axis=1)
        f += np.sqrt(case.leftover[i]) * rng.normal(size=f.shape)
        truth = HINGE.log_density(np.full(draws, case.y[i]), f)
        assert ours[i] < truth.mean() + naive.ERRORS * truth.std() / np.sqrt(draws)
    sure = HINGE.sites(case.y, latent.mu, 0 * latent.v).l
    assert_allclose(sure, HINGE.log_density(case.y, latent.mu), rtol=1e-9, atol=2e-6)


def test_entries_come_to_rest_where_the_bound_is_highest(case, rng):
    features, y, one = case.lifted(), case.y, np.ones(N)
    filled, cost = features.settled(case.belief, HINGE, y, one)
    value = np.full(N, -np.inf)
    for _ in range(60):
        latent = filled.moments(case.belief)
        before, value = value, HINGE.sites(y, latent.mu, latent.v).l - cost
        assert np.all(value >= before - 1e-10)
        filled, cost = features.settled(case.belief, HINGE, y, one)
    columns = slice(case.start, case.start + D)

    def bound(i, mean, V):
        entries = naive.Entries(case.phi[i].copy(), np.zeros((case.phi.shape[1],) * 2))
        entries.mean[columns], entries.covariance[columns, columns] = mean, V
        mu, spread, rest = case.latent(i, entries)
        l = HINGE.sites(y[i : i + 1], mu[None], (spread + rest)[None]).l[0]  # noqa: E741
        return l - naive.row_cost(entries, case.imputation, D, case.start)

    naive.assert_highest_at(filled, case.missing, value, bound, rng)


class Whole:
    """A whole problem of few rows, and its objective by loops over rows, classes and entries."""

    def __init__(self, rng, n=14, d=2, likelihood=HINGE):
        X = rng.normal(size=(n, d)) @ np.array([[1, 0.5], [0, 1]])
        self.y = np.append([0.0, 1.0, 2.0], (X @ [[1, 0, -1], [0, 1, -1]] + rng.gumbel(size=(n, 3))).argmax(axis=1)[3:])
        X[1, 0] = X[3, 1] = X[4, 0] = np.nan
        X[6] = np.nan
        self.X, self.n, self.d, self.likelihood = X, n, d, likelihood
        self.precision = np.array([0.5, 0.8, 1.0])
        self.columns = ColumnModel(np.zeros(d), np.ones(d), 2.0, 3.0)
        self.prior = Imputing(Classwise.alike(Ridge(self.precision), K), self.columns, float(n))
        rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(d), np.ones(d)), K), d)
        self.problem = Problem(Table(X, self.y, np.ones(n), 5), rows, likelihood, self.prior)  # pyright: ignore

    def parameters(self, belief):
        """All that the objective depends on, in one vector: weights, columns and entries."""
        weights = [(part.mean, np.linalg.cholesky(part.covariance)) for part in belief.parts]
        q = belief.hyper.columns
        of_columns = (q.mean, np.linalg.cholesky(q.mean_covariance), np.linalg.cholesky(q.covariance.scale))
        entries = []
        for index in range(self.problem.table.n_blocks):
            for _ in range(100):  # entries and sites settle by turns
                filled: Any = self.problem.settled(index, self.problem.seen(belief))
            V = np.zeros((len(filled.values), self.d, self.d))
            for batch, covariances in zip(filled.batches, filled.covariances, strict=True):
                for i, gone, block in zip(batch.rows, batch.columns, covariances, strict=True):
                    V[i][np.ix_(gone, gone)] = block
            entries += list(zip(filled.values, V, strict=True))
        return weights, of_columns, q.covariance.dof, entries

    def objective(self, weights, of_columns, dof, entries):
        mean, root, scale = of_columns
        scale = InverseWishart(scale @ scale.T, dof)
        q = Imputation(mean, root @ root.T, scale, scale.mean_precision)
        total = -self.columns.kl(q)
        for m, L in weights:
            total -= references.kl_gaussians(m, L @ L.T, np.diag(1 / self.precision))
        for i, (d, V) in enumerate(entries):
            row = naive.Entries(np.append(d, 1.0), np.zeros((self.d + 1, self.d + 1)))
            row.covariance[: self.d, : self.d] = V
            moments = np.array([naive.row_moments(row, (m, L @ L.T)) for m, L in weights])
            mu, v = moments[:, 0], moments[:, 1] + moments[:, 2]
            total += self.likelihood.sites(self.y[i : i + 1], mu[None], v[None]).l[0]
            total -= naive.row_cost(row, q, self.d, 0)
        return total


@pytest.mark.parametrize("likelihood", [HINGE, JJ], ids=["hinge", "logistic"])
def test_the_ascent_ends_where_the_objective_by_loops_is_flat(likelihood, rng):
    whole = Whole(rng, likelihood=likelihood)
    point = ascend(whole.problem, tol=1e-13, max_passes=3000).point
    weights, of_columns, dof, entries = whole.parameters(point.belief)
    assert_allclose(whole.objective(weights, of_columns, dof, entries), point.objective, rtol=1e-7)

    def moved(step, at):
        """The objective with one number of one array changed."""
        arrays = [part.copy() for pair in weights for part in pair]
        arrays += [part.copy() for part in of_columns] + [part.copy() for pair in entries for part in pair]
        arrays[at[0]][at[1]] += step
        if at[0] >= 2 * K + 3 and len(at[1]) == 2:  # covariances of entries stay symmetric
            arrays[at[0]][at[1][::-1]] = arrays[at[0]][at[1]]
        pairs = list(zip(arrays[: 2 * K : 2], arrays[1 : 2 * K : 2], strict=True))
        rest = arrays[2 * K + 3 :]
        return whole.objective(pairs, arrays[2 * K : 2 * K + 3], dof, list(zip(rest[::2], rest[1::2], strict=True)))

    places = [(2 * k, (j,)) for k in range(K) for j in range(3)]
    places += [(2 * k + 1, (i, j)) for k in range(K) for i in range(3) for j in range(i + 1)]
    places += [(2 * K, (j,)) for j in range(2)]
    places += [(2 * K + part, (i, j)) for part in (1, 2) for i in range(2) for j in range(i + 1)]
    for row in range(whole.n):
        gone = np.flatnonzero(np.isnan(whole.X[row]))
        places += [(2 * K + 3 + 2 * row, (j,)) for j in gone]
        places += [(2 * K + 4 + 2 * row, (i, j)) for i in gone for j in gone if j <= i]
    for at in places:
        slope = (moved(1e-5, at) - moved(-1e-5, at)) / 2e-5
        assert abs(slope) < 2e-3, at


def test_the_objective_never_falls(rng):
    whole = Whole(rng)
    history = []
    stats = whole.problem.stats
    belief = whole.prior.update(*whole.prior.start(whole.X))
    for _ in range(30):
        found = stats(belief)
        history.append(float(found.bound) - float(whole.prior.kl(belief)))
        belief = whole.prior.update(found.G, found.h, belief)
    assert np.all(np.diff(history) > -1e-8)
    assert history[-1] > history[0] + 1


def test_classes_that_must_not_matter_leave_the_model_of_two(rng):
    """Weights of two classes are held at zero: what remains is the third against the rest, entries and all."""
    whole = Whole(rng)
    held, free = Ridge(np.full(3, 1e12)), Ridge(whole.precision)
    many: Any = whole.problem
    many = Problem(many.table, many.rows, HINGE, whole.prior._replace(prior=Classwise((held, free, held))))  # pyright: ignore
    table = many.table._replace(y=np.where(whole.y == 1, 1.0, -1.0))
    rows: Any = IncompleteRows(many.rows.rows.rows, whole.d)
    two = Problem(table, rows, AugmentedHinge(), whole.prior._replace(prior=free))  # pyright: ignore
    one, other = (ascend(problem, tol=1e-12, max_passes=2000).point for problem in (many, two))
    assert_allclose(one.belief.parts[1].mean, other.belief.mean, rtol=1e-4, atol=1e-6)
    assert_allclose(one.belief.parts[1].covariance, other.belief.covariance, rtol=1e-4, atol=1e-6)
    for got, wanted in zip(one.belief.hyper.columns, other.belief.hyper.columns, strict=True):
        assert_allclose(naive.flattened(got), naive.flattened(wanted), rtol=1e-3, atol=1e-5)
    # At weights of zero every other class costs two nats a row.
    assert_allclose(one.objective, other.objective - 2 * 2 * whole.n, rtol=1e-5)


def test_alternatives_are_those_of_each_class_and_known_as_such(rng):
    """What a flip of one column changes, all that is asked for what is believed beside the weights is told."""
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 3.0
    X[0, 0] = np.nan
    own = Structured(LaplaceZero(3, 1))
    prior: Any = Imputing(Classwise.alike(own, K), ColumnModel.standard(3), 40.0)
    rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(3), np.ones(3)), K), 3)
    point = ascend(Problem(Table(X, y, np.ones(40), 40), rows, HINGE, prior), tol=1e-6, max_passes=50).point
    others = prior.alternatives(*point.image, point.belief)
    assert len(others) >= K
    before = np.array([part.hyper.fixed.included for part in point.belief.parts])
    for other in others:
        assert other.hyper.columns is point.belief.hyper.columns
        after = np.array([part.hyper.fixed.included for part in other.parts])
        assert_array_equal(after, [of_class.fixed.included for of_class in other.hyper.weights])
        assert np.count_nonzero((after > 0.5) != (before > 0.5)) == 1


def test_rows_left_out_are_those_of_refits():
    rng = np.random.default_rng(3)
    n, d = 60, 3
    X = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + rng.gumbel(size=(n, K))).argmax(axis=1).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    rows: Any = IncompleteRows(ClasswiseRows(LinearRows(np.zeros(d), np.ones(d)), K), d)
    prior: Any = Imputing(Classwise.alike(Ridge(np.ones(d + 1)), K), ColumnModel.standard(d), float(n))

    def ascended(keep):
        problem = Problem(Table(X[keep], y[keep], np.ones(keep.sum()), 17), rows, HINGE, prior)
        return problem, ascend(problem, tol=1e-9, max_passes=2000).point.belief

    problem, belief = ascended(np.ones(n, dtype=bool))
    out, latent = left_out(problem, belief, np.ones(n)), problem.latent(belief)
    assert out.usable.shape == (n,)
    chosen = np.flatnonzero(np.isnan(X).any(axis=1))[:12]
    found = []
    for k in chosen:
        _, refit = ascended(np.arange(n) != k)
        found.append([part[0] for part in rows.view(prior.effective(refit), np.zeros(1)).moments(X[k : k + 1])])
    mu, v = np.moveaxis(np.array(found), 1, 0)
    error, predicted = np.abs(out.mu[chosen] - mu), _predicted(problem, belief)
    assert np.mean(error) < 0.25 * np.mean(np.abs(latent.mu[chosen] - mu))
    assert predicted is not None
    # To forget what the label said of the entries is not all: it had moved the weights as well.
    assert np.mean(error) < 0.8 * np.mean(np.abs(predicted.latent.mu[chosen] - mu))
    assert np.corrcoef(out.mu[chosen].ravel(), mu.ravel())[0, 1] > 0.98
    assert np.median(np.abs(out.v[chosen] / v - 1)) < 0.1
    assert_allclose(out.v[chosen], v, rtol=0.5)
