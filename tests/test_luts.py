"""The models of Luts and Ormerod (2014) and all of them together: where they end, and that every pass ascends."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references_luts as luts
import references_structured as naive
from references import luts_algorithm_2
from softmargin.chunks import Table
from softmargin.engine import Problem, objective
from softmargin.imputation import ColumnModel
from softmargin.likelihoods import AugmentedHinge
from softmargin.loo import _predicted, left_out
from softmargin.priors import Covariance, Imputing, LaplaceZero, Part, Ridge, Structured, VarianceComponents, Variances
from softmargin.rows import Factor, GroupedRows, IncompleteRows, LinearRows
from softmargin.steps import Ascent, ascend
from test_references_luts import laplace_model

N, D, J = 120, 5, 8
WEIGHTS = np.array([2.0, -1.5, 0.0, 0.0, 0.8])


class Data(NamedTuple):
    X: np.ndarray
    holed: np.ndarray
    group: np.ndarray
    y: np.ndarray


@pytest.fixture(scope="module")
def data() -> Data:
    """Rows of groups, labels by three of five columns and by group, a fifth of the entries missing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) @ (np.eye(D) + 0.3 * np.eye(D, k=1))
    group = rng.integers(J, size=N)
    y = np.where(X @ WEIGHTS + 0.5 + rng.normal(size=J)[group] + rng.logistic(size=N) > 0, 1.0, -1.0)
    return Data(X, np.where(rng.random(X.shape) < 0.2, np.nan, X), group, y)


def problem_of(X, y, rows, prior) -> Problem:
    return Problem(Table(X, y, np.ones(len(y)), 50), rows, AugmentedHinge(), prior)  # blocks of fifty rows


def linear(d=D, intercept=True) -> LinearRows:
    return LinearRows(np.zeros(d), np.ones(d), intercept)


def ascended(problem, tol=1e-12) -> Ascent:
    ascent = ascend(problem, tol=tol, max_passes=1000)
    assert ascent.reason in ("converged", "stalled")
    return ascent


def intercept_first(weights):
    return np.roll(weights, 1)


# The algorithms of the paper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.9])
def test_selection_ends_where_algorithm_3_does(data, rho):
    wanted = luts.luts_algorithm_3(np.ones((N, 1)), data.X, data.y, 1e8, 0.01, 0.01, rho, n_loops=2000)
    point = ascended(problem_of(data.X, data.y, linear(), Structured(LaplaceZero(D, 1, rho)))).point
    fixed = point.belief.hyper.fixed
    assert abs(point.objective - wanted.bounds[-1]) < 1e-7
    assert_allclose(intercept_first(point.belief.mean), wanted.mu, atol=1e-5)
    assert_allclose(np.roll(point.belief.covariance, 1, (0, 1)), wanted.Sigma, atol=1e-5)
    assert_allclose(fixed.included, wanted.mu_gamma, atol=1e-5)
    assert_allclose(fixed.b, wanted.mu_b, rtol=1e-4)
    assert_allclose(fixed.variance.rate[0], wanted.B_q, rtol=1e-4)


def test_missing_entries_end_where_algorithm_4_does(data):
    n = 60
    X, y = data.holed[:n], data.y[:n]
    wanted = luts.luts_algorithm_4(X, y, 1e8, 0.01, 0.01, 1e8, 0.01 * np.eye(D), D + 1.0, n_loops=800)
    own = VarianceComponents(np.array([0] * D + [-1]), 0.01, 0.01, 1e-8)
    prior = Imputing(own, ColumnModel.standard(D), float(n))
    problem = problem_of(X, y, IncompleteRows(linear(), D), prior)
    point = ascended(problem).point
    assert abs(point.objective - wanted.bounds[-1]) < 1e-7
    assert_allclose(intercept_first(point.belief.mean), wanted.mu, atol=1e-5)
    assert_allclose(np.roll(point.belief.covariance, 1, (0, 1)), wanted.Sigma, atol=1e-5)
    assert_allclose(point.belief.hyper.weights.rate[0], wanted.B_q, rtol=1e-4)
    columns = point.belief.hyper.columns
    assert_allclose(columns.mean, wanted.mean_mu, atol=1e-5)
    assert_allclose(columns.mean_covariance, wanted.Sigma_mu, atol=1e-6)
    assert_allclose(columns.covariance.scale, wanted.Psi_q, rtol=1e-4, atol=1e-4)
    seen = problem.seen(point.belief)
    values = np.concatenate([problem.settled(k, seen).values for k in range(problem.table.n_blocks)])  # pyright: ignore
    assert_allclose(values, wanted.mean_d, atol=1e-4)


def test_random_intercepts_end_where_algorithm_2_does(data):
    """Fixed effects of a known variance, an intercept of each group of an inferred one."""
    C, Z = np.column_stack([np.ones(N), data.X]), np.eye(J)[data.group]
    mu, Sigma, B_q, bounds = luts_algorithm_2(C, Z, data.y, 4.0, 0.01, 0.01)
    rows = GroupedRows(linear(), D, (Factor((), True, D),), (J,))
    prior = Structured(Ridge.isotropic(D + 1, 4.0), levels=(Variances(1),), layout=rows.layout)
    point = ascended(problem_of(np.column_stack([data.X, data.group]), data.y, rows, prior)).point
    assert abs(point.objective - bounds[-1]) < 1e-7
    levels, core = rows.layout.split(point.belief.mean)
    assert_allclose(intercept_first(core), mu[: D + 1], atol=1e-5)
    assert_allclose(levels[0][:, 0], mu[D + 1 :], atol=1e-5)
    assert_allclose(point.belief.blocks[0][0][:, 0, 0], np.diag(Sigma)[D + 1 :], atol=1e-5)  # pyright: ignore
    assert_allclose(point.belief.hyper.levels[0].variance.rate, B_q, rtol=1e-4)


# All of them together --------------------------------------------------------------------------------------------

OF_GROUPS = {"intercepts": Variances(1, half_cauchy=1.0), "slopes": Covariance(2, 0.1)}


def fixed_effects(selects: bool) -> Any:
    return LaplaceZero(D, 1, 0.3) if selects else VarianceComponents(np.array([0] * D + [-1]), 0.01, 0.01)


def together(data: Data, selects=False, groups: str | None = None, missing=False) -> Problem:
    """A model of any of the three kinds; with ``slopes`` the last column's effect varies by group, and is never
    missing."""
    X, fixed = (data.holed if missing else data.X).copy(), fixed_effects(selects)
    X[:, -1] = data.X[:, -1]
    rows: Any = linear()
    prior: Any = Structured(fixed)
    if groups:
        rows = GroupedRows(rows, D, (Factor((D - 1,) if groups == "slopes" else (), True, D),), (J,))
        X = np.column_stack([X, data.group])
        prior = Structured(fixed, levels=(OF_GROUPS[groups],), layout=rows.layout)
    if missing:
        rows, prior = IncompleteRows(rows, D), Imputing(prior, ColumnModel.standard(D), float(N))
    return problem_of(X, data.y, rows, prior)


def with_dummies(data: Data, selects=False, groups="intercepts", missing=False) -> Problem:
    """The same with a column for each group's effects, all in the core."""
    X = (data.holed if missing else data.X).copy()
    X[:, -1] = data.X[:, -1]
    z = np.column_stack([np.ones(N), X[:, -1]]) if groups == "slopes" else np.ones((N, 1))
    dummies = (np.eye(J)[data.group][:, :, None] * z[:, None, :]).reshape(N, -1)
    rows: Any = linear(D + 1 + dummies.shape[1], intercept=False)
    prior: Any = Structured(fixed_effects(selects), (Part(D + 1, J, OF_GROUPS[groups]),))
    if missing:
        rows, prior = IncompleteRows(rows, D), Imputing(prior, ColumnModel.standard(D), float(N))
    return problem_of(np.column_stack([X, np.ones(N), dummies]), data.y, rows, prior)


KINDS = [
    {"selects": selects, "groups": groups, "missing": missing}
    for selects in (False, True)
    for groups in (None, "intercepts", "slopes")
    for missing in (False, True)
]


def label(kind):
    return " and ".join(name for name in ("selects", "groups", "missing") if kind[name]) + f" {kind['groups'] or ''}"


@pytest.mark.parametrize("kind", KINDS, ids=label)
def test_every_pass_ascends(data, kind):
    """Full steps without a guard: sums of one belief, the next belief from them."""
    problem = together(data, **kind)
    prior = problem.prior
    belief = prior.update(*prior.start(np.zeros(1)))
    stats = problem.stats(belief)
    values = [objective(stats.bound, prior, belief)]
    for _ in range(30):
        belief = prior.update(stats.G, stats.h, belief)
        stats = problem.stats(belief)
        values.append(objective(stats.bound, prior, belief))
    assert np.all(np.diff(values) > -1e-8)
    assert values[-1] > values[1] + 0.1
    # What is cut short is settled, and ascends too.
    before = values[-1]
    half = prior.given(stats.G, stats.h, belief.hyper)
    _, half = prior.settled(stats.G, half)
    assert objective(problem.stats(half).bound, prior, half) > before - 1e-8


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind["groups"]], ids=label)
def test_groups_are_as_good_as_their_dummies(data, kind):
    one, other = together(data, **kind), with_dummies(data, **kind)
    found, wanted = ascended(one, 1e-10).point, ascended(other, 1e-10).point
    assert abs(found.objective - wanted.objective) < 1e-5
    mean = found.belief.mean
    core = mean[-(D + 1) :]
    assert_allclose(np.concatenate([core, mean[: -(D + 1)]]), wanted.belief.mean, atol=2e-3)
    seen = one.seen(found.belief), other.seen(wanted.belief)
    levels = np.concatenate([seen[0].core_mean, seen[0].mean[: -(D + 1)]])
    assert_allclose(levels, seen[1].mean, atol=2e-3)


@pytest.mark.parametrize("missing", [False, True])
def test_groups_that_cannot_differ_are_none(data, missing):
    problem = together(data, selects=True, groups="intercepts", missing=missing)
    tiny = Variances(1, 1e9, 1e9 * 1e-12)
    prior = problem.prior
    own: Any = prior.prior if isinstance(prior, Imputing) else prior
    own = own._replace(levels=(tiny,))
    problem.prior = prior._replace(prior=own) if isinstance(prior, Imputing) else own
    found, wanted = ascended(problem, 1e-10).point, ascended(together(data, selects=True, missing=missing), 1e-10).point
    assert abs(found.objective - wanted.objective) < 1e-5
    assert_allclose(found.belief.core_mean, wanted.belief.mean, atol=1e-3)
    assert_allclose(found.belief.mean[:J], 0, atol=1e-3)


def test_columns_that_cannot_leave_are_laplace(data):
    mu, Sigma, B_q, bound = laplace_model(np.ones((N, 1)), data.X, data.y, 1e8, 0.01, 0.01, n_loops=2000)
    for prior in (Structured(LaplaceZero(D, 1, 1 - 1e-12)), Structured(LaplaceZero(D, 1, 1 - 1e-12)).rough()):
        assert prior is not None
        point = ascended(problem_of(data.X, data.y, linear(), prior)).point
        assert abs(point.objective - bound) < 1e-7
        assert_allclose(intercept_first(point.belief.mean), mu, atol=1e-5)
        assert_allclose(np.roll(point.belief.covariance, 1, (0, 1)), Sigma, atol=1e-5)
        assert_allclose(point.belief.hyper.fixed.variance.rate[0], B_q, rtol=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind["missing"]], ids=label)
def test_with_nothing_missing_the_columns_have_a_model_of_their_own(data, kind):
    plain = together(data, **kind)
    prior = Imputing(plain.prior, ColumnModel.standard(D), float(N))
    both = problem_of(plain.table.X, data.y, IncompleteRows(plain.rows, D), prior)
    found, wanted = ascended(both, 1e-10).point, ascended(plain, 1e-10).point
    columns = found.belief.hyper.columns
    own = luts.imputation_bound(
        columns.mean, columns.mean_covariance, columns.covariance.scale, N, 1e8, 0.01 * np.eye(D), D + 1
    )
    assert abs(found.objective - wanted.objective - own) < 1e-5
    assert_allclose(found.belief.mean, wanted.belief.mean, atol=2e-3)


def test_a_share_that_is_inferred_lies_between(data):
    """Between none and all: its belief counts the columns that are in."""
    prior = Structured(LaplaceZero(D, 1, None))
    problem = problem_of(data.X, data.y, linear(), prior)
    point = ascended(problem).point
    fixed = point.belief.hyper.fixed
    inside = fixed.included.sum()
    assert_allclose(fixed.odds, [1 + inside, D + D - inside], rtol=1e-5)
    assert_allclose(fixed.log_odds, naive.mean_log_beta(fixed.odds), rtol=1e-10)
    share = fixed.odds[0] / fixed.odds.sum()
    assert 0.1 < share < 0.9


# Leaving rows out ------------------------------------------------------------------------------------------------


def test_rows_as_predicted_share_what_their_filled_selves_know(data):
    problem = together(data, missing=True)
    belief = ascended(problem, 1e-6).point.belief
    seen, predicted = problem.seen(belief), _predicted(problem, belief)
    assert predicted is not None
    rows = []
    for block in range(problem.table.n_blocks):
        features: Any = problem.features(block)
        filled = problem.settled(block, seen)
        before = features.foreseen(seen).phi
        rows += [(one, other) for one, other in zip(before, filled.phi, strict=True)]
    shared = [one @ belief.covariance @ other for one, other in rows]
    assert_allclose(predicted.shared, shared, rtol=1e-4, atol=1e-8)  # entries settle a little more each time
    assert_allclose(predicted.latent.mu, [one @ belief.mean for one, _ in rows], rtol=1e-9)


@pytest.mark.parametrize("groups", [None, "intercepts"])
def test_rows_left_out_are_those_of_refits(data, groups):
    problem = together(data, groups=groups, missing=True)
    belief = ascended(problem, 1e-9).point.belief
    out, latent = left_out(problem, belief, np.ones(N)), problem.latent(belief)
    assert out.usable.all()
    rows = np.flatnonzero(np.isnan(data.holed[:, :-1]).any(axis=1))[:14]
    found = []
    for k in rows:
        keep = np.arange(N) != k
        prior: Any = problem.prior
        others = problem_of(problem.table.X[keep], data.y[keep], problem.rows, prior._replace(n=N - 1.0))
        refit = ascended(others, 1e-9).point.belief
        mu, v = problem.rows.view(prior.effective(refit), np.zeros(1)).moments(problem.table.X[k : k + 1])
        found.append([mu[0], v[0]])
    mu, v = np.transpose(found)
    # What labels did to their own rows is undone but for a small part of it.
    assert np.mean(np.abs(out.mu[rows] - mu)) < 0.25 * np.mean(np.abs(latent.mu[rows] - mu))
    assert np.corrcoef(out.mu[rows], mu)[0, 1] > 0.98
    assert_allclose(out.v[rows], v, rtol=0.2)
