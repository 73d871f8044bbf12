import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import contracts
import references
from contracts import RowsCase
from softmargin.kernels import RBF, Constant, Linear, Matern, White
from softmargin.likelihoods import AugmentedHinge, Hinge, JaakkolaJordan
from softmargin.priors import Ridge
from softmargin.rows import InducingRows, LiftedView, LinearRows
from softmargin.rows.inducing import KernelView
from softmargin.rows.slopes import Slopes, bound_slopes, in_theta

CENTER, SCALE = np.array([0.3, -1.0, 2.0]), np.array([0.5, 1.0, 4.0])
POINTS = np.random.default_rng(9).normal(size=(40, 3))
KERNEL = 1.5 * RBF((0.9, 1.5, 3.0)) + Constant(0.2) + White(0.05)


def naive_inducing_features(X):
    k_xx = np.array([1.5 + 0.2 + 0.05] * len(X))
    K_zz = 1.5 * np.exp(-references.squared_distances(POINTS, POINTS, np.array([0.9, 1.5, 3.0])) / 2) + 0.2
    K_zx = 1.5 * np.exp(-references.squared_distances(POINTS, X, np.array([0.9, 1.5, 3.0])) / 2) + 0.2
    return references.inducing_features(K_zz, K_zx, k_xx)


CASES = [
    RowsCase(
        "linear",
        lambda dtype: LinearRows(CENTER, SCALE),
        lambda X: references.linear_features(X, CENTER, SCALE, True),
    ),
    RowsCase(
        "linear without intercept",
        lambda dtype: LinearRows(CENTER, SCALE, intercept=False),
        lambda X: references.linear_features(X, CENTER, SCALE, False),
    ),
    RowsCase("inducing", lambda dtype: InducingRows.at(KERNEL, POINTS.astype(dtype)), naive_inducing_features),
]


@pytest.mark.parametrize("check", contracts.ROWS, ids=contracts.name)
@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_contract(case, check):
    check(case)


def test_coefficients_in_user_units_predict_the_same(rng):
    X, weights = rng.normal(size=(5, 3)), rng.normal(size=(7, 4))
    rows = LinearRows(CENTER, SCALE)
    coef, intercept = rows.to_user_units(weights)
    assert_allclose(X @ coef.T + intercept, rows.lift(X).phi @ weights.T, rtol=1e-10)
    coef, intercept = LinearRows(CENTER, SCALE, intercept=False).to_user_units(weights[0, :3])
    assert_allclose(X @ coef + intercept, LinearRows(CENTER, SCALE, intercept=False).lift(X).phi @ weights[0, :3])


def test_leftover_is_none_at_the_points_and_all_far_from_them():
    rows = InducingRows.at(2.0 * RBF(0.7), POINTS)
    assert_allclose(rows.lift(POINTS).leftover, 0, atol=1e-9)
    far = rows.lift(POINTS[:3] + 100)
    assert_allclose(far.leftover, 2.0, rtol=1e-9)
    assert_allclose(far.phi, 0, atol=1e-12)


def test_doubled_points_change_nothing(rng):
    X = rng.normal(size=(11, 3))
    one = InducingRows.at(KERNEL, POINTS[:10]).lift(X)
    two = InducingRows.at(KERNEL, np.vstack([POINTS[:10], POINTS[:10]])).lift(X)
    assert_allclose(two.phi @ two.phi.T, one.phi @ one.phi.T, atol=1e-6)
    assert_allclose(two.leftover, one.leftover, atol=1e-6)


def test_prior_of_whitened_weights_is_the_process_itself(rng):
    X = np.vstack([POINTS[:4], rng.normal(size=(3, 3))])
    kernel = 1.5 * Matern(1.0, nu=2.5)
    features = InducingRows.at(kernel, POINTS).lift(X)
    K = features.phi @ features.phi.T + np.diag(features.leftover)
    assert_allclose(np.diag(K), 1.5, rtol=1e-9)
    assert_allclose(K[:4], kernel(X[:4], X), atol=1e-9)


def test_leftover_root_is_a_root_of_what_the_points_leave_over(rng):
    X = np.vstack([POINTS[:3], rng.normal(size=(6, 3))])
    rows = InducingRows.at(KERNEL, POINTS[:10])
    K = 1.5 * np.exp(-references.squared_distances(X, X, np.array([0.9, 1.5, 3.0])) / 2) + 0.2
    root = rows.leftover_root(X)
    wanted = K + 0.05 * np.eye(9) - rows.lift(X).phi @ rows.lift(X).phi.T
    assert_allclose(root @ root.T, wanted, atol=1e-7)
    assert_allclose(np.diag(root @ root.T), rows.lift(X).leftover, atol=1e-7)
    assert LinearRows(CENTER, SCALE).leftover_root(X) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", [RBF(1.0), 100.0 * RBF(3.0), Linear(), Matern(1.0, nu=0.5)], ids=repr)
@pytest.mark.parametrize("n_columns", [1, 2])
def test_leftover_root_is_found_where_next_to_nothing_is_left_over(n_columns, kernel, dtype, rng):
    Z = rng.normal(size=(100, n_columns)).astype(dtype)
    rows = InducingRows.at(kernel, Z)
    for X in (Z, Z[:20] + dtype(1e-3), np.repeat(Z[:1] + dtype(0.1), 10, axis=0), 3 * Z[:10]):
        root = rows.leftover_root(X)
        # In single precision whitening loses most digits, and the jitter is 1e-5 of the variance.
        tolerance = 1e-6 if dtype is np.float64 else 3e-2
        atol = tolerance * float(kernel.diagonal(X).max())
        assert_allclose(np.diag(root @ root.T), rows.lift(X).leftover, atol=atol)


def bound_at_fixed_belief(kernel, points, X, y, weight, belief, likelihood):
    latent = InducingRows.at(kernel, points).lift(X).moments(belief)
    return float(weight @ likelihood.sites(y, latent.mu, latent.v).l)


def slopes_at_fixed_belief(kernel, points, X, y, weight, belief, likelihood, parts=1):
    rows = InducingRows.at(kernel, points)
    latent = rows.lift(X).moments(belief)
    sites = likelihood.sites(y, latent.mu, latent.v)
    w, b = weight * sites.w, weight * sites.b
    cuts = np.array_split(np.arange(len(X)), parts)
    slopes = [bound_slopes(rows, X[cut], rows.lift(X[cut]).phi, belief, w[cut], b[cut]) for cut in cuts]
    return in_theta(rows, Slopes(*(sum(part) for part in zip(*slopes, strict=True))))


@pytest.fixture
def problem(rng):
    X, weight = rng.normal(size=(40, 3)), rng.uniform(0, 3, size=40)
    return X, np.sign(X[:, 0] + 0.5 * rng.normal(size=40)), weight, contracts.random_belief(12)


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), JaakkolaJordan()], ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * RBF((0.9, 1.5, 3.0)) + Constant(0.3),
        Matern(1.2, nu=0.5) + 0.5 * Linear(),
        0.7 * Matern((0.9, 1.5, 3.0), nu=2.5) + White(0.1),
    ],
    ids=repr,
)
def test_slopes_of_the_bound_are_finite_differences(kernel, likelihood, problem):
    args = POINTS[:12], *problem, likelihood
    wanted = references.gradient(lambda t: bound_at_fixed_belief(kernel.with_theta(t), *args), kernel.theta, 1e-4)
    assert_allclose(slopes_at_fixed_belief(kernel, *args), wanted, rtol=1e-6, atol=1e-5)
    assert_allclose(slopes_at_fixed_belief(kernel, *args, parts=3), slopes_at_fixed_belief(kernel, *args), rtol=1e-9)


def test_slopes_know_that_jitter_is_relative_to_the_variance(problem):
    # Points in single precision have a jitter of 1e-5 of the variance: no longer too small to be felt.
    kernel, likelihood = 2.0 * RBF(2.5) + Constant(0.3), JaakkolaJordan()
    args = POINTS[:12].astype(np.float32), *problem, likelihood
    wanted = references.gradient(lambda t: bound_at_fixed_belief(kernel.with_theta(t), *args), kernel.theta, 1e-4)
    assert_allclose(slopes_at_fixed_belief(kernel, *args), wanted, rtol=1e-5, atol=1e-4)


def test_slopes_agree_in_torch(problem):
    X, y, weight, belief = problem
    kernel = 2.0 * RBF((0.9, 1.5, 3.0))
    rows = InducingRows.at(kernel, torch.from_numpy(POINTS[:12]))
    tensor, w, b = torch.from_numpy(X), torch.from_numpy(weight), torch.from_numpy(weight * y)
    seen = belief.seen_by(w)
    theirs = in_theta(rows, bound_slopes(rows, tensor, rows.lift(tensor).phi, seen, w, b))
    rows = InducingRows.at(kernel, POINTS[:12])
    ours = in_theta(rows, bound_slopes(rows, X, rows.lift(X).phi, belief, weight, weight * y))
    assert_allclose(theirs, ours, rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_views_are_the_moments_of_the_features(dtype, rng):
    points, X = rng.normal(size=(20, 3)), (2 * rng.normal(size=(50, 3))).astype(dtype)
    rows = InducingRows.at(3.0 * RBF((0.9, 1.5, 3.0)) + Constant(0.3), points.astype(dtype))
    features = rows.lift(X)
    G, h = features.gather(np.ones(50), rng.normal(size=50))
    belief = Ridge.isotropic(20).given(G, h)
    latent = features.moments(belief.seen_by(X))
    mu, v = (view := rows.view(belief, X)).moments(X)
    assert isinstance(view, KernelView)
    tolerance = 1e-6 if dtype is np.float64 else 1e-3
    assert_allclose(mu, latent.mu, atol=tolerance)
    assert_allclose(v, latent.v, atol=tolerance)


def test_views_take_the_long_way_where_rounding_would_eat_the_variance(rng):
    X = rng.normal(size=(40, 2)) + np.array([2e5, 0.0])
    rows = InducingRows.at(Linear(1.0) + Constant(1.0), X[:10])
    G, h = rows.lift(X).gather(np.ones(40), rng.normal(size=40))
    belief = Ridge.isotropic(10).given(G, h)
    assert isinstance(rows.view(belief, X), LiftedView)
    wide = belief._replace(root=3 * np.eye(10))  # as draws may be
    assert isinstance(InducingRows.at(RBF(1.0), X[:10]).view(wide, X), LiftedView)
