"""Different routes to one posterior, at the level of the engine."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import BayesianRidge

import contracts
import references
from softmargin.arrays import to_numpy
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.kernels import RBF, Linear, Matern, as_kernel
from softmargin.likelihoods import AugmentedHinge, Gaussian, Hinge, JaakkolaJordan, Logistic, Quadrature
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, LinearRows
from softmargin.steps import Ascender

PLAIN = LinearRows(np.zeros(3), np.ones(3), intercept=False)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(45, 3))
    return X, np.sign(X @ [1.0, -0.5, 0.2] + 0.4 * rng.normal(size=45) + 0.2)


def table(X, y, weight=None, block_rows=16):
    return Table(X, y, np.ones(len(y)) if weight is None else weight, block_rows)


def fitted(problem, **options):
    options = {"tol": 1e-13, "max_passes": 3000} | options
    run = Ascender(problem.stats, problem.prior, problem.likelihood, problem.table.reference, **options)
    return run.run().point


# Gaussian likelihood: models that scikit-learn has ---------------------------------------------------


def test_linear_rows_equal_bayesian_ridge(rng):
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=40)
    ridge = BayesianRidge(fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, compute_score=True).fit(
        X, y
    )
    prior = Ridge.isotropic(3, variance=1 / ridge.lambda_)
    point = fitted(Problem(table(X, y), PLAIN, Gaussian(1 / ridge.alpha_), prior))
    assert_allclose(point.belief.mean, ridge.coef_, rtol=1e-9)
    assert_allclose(point.belief.covariance, ridge.sigma_, rtol=1e-8, atol=1e-12)
    assert_allclose(point.objective, ridge.scores_[-1], rtol=1e-8)
    evidence = multivariate_normal(np.zeros(40), X @ X.T / ridge.lambda_ + np.eye(40) / ridge.alpha_).logpdf(y)
    assert_allclose(point.objective, evidence, rtol=1e-9)


@pytest.mark.parametrize("kernel", [1.7 * sk.RBF([0.8, 1.5, 2.0]), 0.6 * sk.Matern(0.7, nu=0.5)], ids=repr)
def test_inducing_points_at_the_data_equal_gaussian_process_regression(kernel, rng):
    X, new = rng.normal(size=(40, 3)), rng.normal(size=(9, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
    process = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None).fit(X, y)
    rows = InducingRows.at(as_kernel(kernel), X)
    point = fitted(Problem(table(X, y), rows, Gaussian(0.2), Ridge.isotropic(40)))
    latent = rows.lift(new).moments(point.belief)
    mean, sd = process.predict(new, return_std=True)
    assert_allclose(latent.mu, mean, atol=1e-7)
    assert_allclose(np.sqrt(latent.v), sd, atol=1e-7)
    assert_allclose(point.objective, process.log_marginal_likelihood(), rtol=1e-7)


def test_fewer_points_bound_the_evidence_from_below(rng):
    X = rng.normal(size=(40, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
    kernel = 1.7 * RBF(0.8)
    evidence = multivariate_normal(np.zeros(40), kernel(X, X) + 0.2 * np.eye(40)).logpdf(y)
    bounds = [
        fitted(Problem(table(X, y), InducingRows.at(kernel, X[:m]), Gaussian(0.2), Ridge.isotropic(m))).objective
        for m in (5, 15, 30, 40)
    ]
    assert np.all(np.diff(bounds) > 0)
    assert bounds[-2] < evidence
    assert_allclose(bounds[-1], evidence, rtol=1e-7)


# The augmented hinge: the papers' own forms ----------------------------------------------------------


def test_inducing_points_at_the_data_equal_the_dense_model_of_wenzel(data):
    X, y = data
    kernel = 1.3 * Matern(0.9, nu=2.5)
    rows = InducingRows.at(kernel, X)
    problem = Problem(table(X, y), rows, AugmentedHinge(), Ridge.isotropic(45))
    latent = problem.latent(fitted(problem).belief)
    mu, zeta = references.wenzel_dense(kernel(X, X), y)
    assert_allclose(latent.mu, mu, atol=2e-5)
    assert_allclose(latent.v, np.diag(zeta), atol=2e-5)


def test_dense_posterior_of_the_final_sites_is_the_belief(data):
    X, y = data
    kernel = 1.3 * RBF(0.9)
    problem = Problem(table(X, y), InducingRows.at(kernel, X), Hinge(), Ridge.isotropic(45))
    latent = problem.latent(fitted(problem).belief)
    sites = Hinge().sites(y, latent.mu, latent.v)
    mean, covariance = references.gaussian_process_posterior(kernel(X, X), sites.w, sites.b)
    assert_allclose(latent.mu, mean, atol=1e-4)
    assert_allclose(latent.v, np.diag(covariance), atol=1e-4)


def test_whitened_points_equal_the_unwhitened_form_of_wenzel(data):
    X, y = data
    kernel = 1.3 * RBF(0.9)
    Z = X[:10]
    point = fitted(Problem(table(X, y), InducingRows.at(kernel, Z), AugmentedHinge(), Ridge.isotropic(10)))
    mu, zeta, bound = references.wenzel_inducing(kernel(Z, Z), kernel(X, Z), np.full(45, 1.3), y)
    L = np.linalg.cholesky(kernel(Z, Z))
    assert_allclose(L @ point.belief.mean, mu, atol=2e-5)
    assert_allclose(L @ point.belief.covariance @ L.T, zeta, atol=2e-5)
    assert_allclose(point.objective, bound, rtol=1e-8)


def test_known_penalty_equals_algorithm_1_of_luts(data):
    X, y = data
    mu, Sigma, bounds = references.luts_algorithm_1(X, y, alpha=0.3)
    point = fitted(Problem(table(X, y), PLAIN, AugmentedHinge(), Ridge.isotropic(3, variance=1 / (4 * 0.3))))
    assert_allclose(point.belief.mean, mu, rtol=1e-5)
    assert_allclose(point.belief.covariance, Sigma, rtol=1e-5, atol=1e-9)
    assert_allclose(point.objective, bounds[-1], rtol=1e-11)


def test_inferred_penalty_equals_algorithm_2_of_luts(data):
    X, y = data
    ones, prior = np.ones((45, 1)), VarianceComponents(np.array([0, 0, 0, -1]), 0.01, 0.01, loose=1e-8)
    mu, Sigma, B_q, bounds = references.luts_algorithm_2(ones, X, y, sigma2_beta=1e8, A_u=0.01, B_u=0.01)
    rows = LinearRows(np.zeros(3), np.ones(3))
    point = fitted(Problem(table(X, y), rows, AugmentedHinge(), prior))
    order = [1, 2, 3, 0]  # the paper has the intercept first
    assert_allclose(point.belief.mean, mu[order], rtol=1e-4)
    assert_allclose(point.belief.covariance, Sigma[np.ix_(order, order)], rtol=1e-4, atol=1e-8)
    assert_allclose(point.belief.hyper.rate, B_q, rtol=1e-4)
    assert_allclose(point.belief.hyper.shape, 0.01 + 3 / 2)
    assert_allclose(point.objective, bounds[-1], rtol=1e-10)


def test_every_loop_of_algorithm_1_is_a_plain_pass(data):
    X, y = data
    _, _, bounds = references.luts_algorithm_1(X, y, alpha=0.3, n_loops=12)
    problem = Problem(table(X, y), PLAIN, AugmentedHinge(), Ridge.isotropic(3, variance=1 / 1.2))
    # The paper starts from weights of one for each row.
    features = PLAIN.lift(X)
    belief, ours = problem.prior.update(*features.gather(np.ones(45), 2 * y)), []
    for _ in range(12):
        stats = problem.stats(belief)
        ours.append(stats.bound - float(problem.prior.kl(belief)))
        belief = problem.prior.update(stats.G, stats.h, belief)
    assert_allclose(ours, bounds, rtol=1e-11)


# One model, several routes ---------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Hinge(), JaakkolaJordan()], ids=repr)
def test_linear_kernel_equals_linear_rows(likelihood, data, rng):
    X, y = data
    Z = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    rows = InducingRows.at(Linear(1.6), Z)
    by_kernel = Problem(table(X, y), rows, likelihood, Ridge.isotropic(3))
    by_weights = Problem(table(X, y), PLAIN, likelihood, Ridge.isotropic(3, variance=1.6))
    one, other = fitted(by_kernel), fitted(by_weights)
    assert_allclose(one.objective, other.objective, rtol=1e-9)
    ours, theirs = by_kernel.latent(one.belief), by_weights.latent(other.belief)
    assert_allclose(ours.mu, theirs.mu, atol=1e-4)
    assert_allclose(ours.v, theirs.v, atol=1e-4)


def test_blocks_and_threads_change_nothing(data):
    X, y = data
    rows, prior = InducingRows.at(1.3 * RBF(0.9), X[:10]), Ridge.isotropic(10)
    whole = fitted(Problem(table(X, y, block_rows=45), rows, Hinge(), prior), tol=1e-8)
    for block_rows in (1, 13, 44):
        runs = [
            fitted(Problem(table(X, y, block_rows=block_rows), rows, Hinge(), prior, n_jobs), tol=1e-8)
            for n_jobs in (1, 2)
        ]
        # Blocks are added in their order whoever computes them: threads agree to the last bit.
        assert_allclose(runs[1].belief.mean, runs[0].belief.mean, rtol=0, atol=0)
        assert_allclose(runs[0].objective, whole.objective, rtol=1e-10)
        assert_allclose(runs[0].belief.mean, whole.belief.mean, atol=1e-6)


@pytest.mark.parametrize("prior", [Ridge.isotropic(4), VarianceComponents(np.array([0, 0, 0, -1]))], ids=type)
@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), Quadrature(Logistic())], ids=repr)
def test_weight_k_equals_k_repeats(likelihood, prior, data, rng):
    X, y = data
    times = rng.integers(0, 4, size=45)
    rows = LinearRows(np.zeros(3), np.ones(3))
    weighted = fitted(Problem(table(X, y, times.astype(float)), rows, likelihood, prior), tol=1e-9)
    repeated = table(np.repeat(X, times, axis=0), np.repeat(y, times))
    one_by_one = fitted(Problem(repeated, rows, likelihood, prior), tol=1e-9)
    assert_allclose(weighted.objective, one_by_one.objective, rtol=1e-9)
    assert_allclose(weighted.belief.mean, one_by_one.belief.mean, rtol=1e-5, atol=1e-7)
    assert weighted.stats.n == one_by_one.stats.n == times.sum()


@pytest.mark.parametrize("likelihood", [Hinge(), AugmentedHinge(), JaakkolaJordan(), Quadrature(Logistic())], ids=repr)
def test_torch_equals_numpy(likelihood, data):
    X, y = data
    kernel = 1.3 * RBF((0.9, 1.0, 2.0)) + 0.1 * Matern(1.0)
    prior = Ridge.isotropic(12)
    ours = Problem(table(X, y), InducingRows.at(kernel, X[:12]), likelihood, prior)
    tensors = torch.from_numpy(X), torch.from_numpy(y), torch.ones(45, dtype=torch.float64)
    theirs = Problem(Table(*tensors, 16), InducingRows.at(kernel, tensors[0][:12]), likelihood, prior)
    belief = contracts.random_belief(12)
    for got, wanted in zip(theirs.stats(belief), ours.stats(belief), strict=True):
        assert_allclose(to_numpy(got) if isinstance(got, torch.Tensor) else got, wanted, rtol=1e-8, atol=1e-9)
    one, other = fitted(theirs, max_passes=8, tol=0), fitted(ours, max_passes=8, tol=0)
    assert isinstance(one.belief.mean, torch.Tensor)
    assert_allclose(one.objective, other.objective, rtol=1e-7)
    assert_allclose(to_numpy(one.belief.mean), other.belief.mean, atol=1e-5)


def test_torch_equals_numpy_while_variances_are_inferred(data):
    X, y = data
    prior, rows = VarianceComponents(np.array([0, 0, 0, -1])), LinearRows(np.zeros(3), np.ones(3))
    tensors = torch.from_numpy(X), torch.from_numpy(y), torch.ones(45, dtype=torch.float64)
    theirs = fitted(Problem(Table(*tensors, 16), rows, AugmentedHinge(), prior), tol=1e-9)
    ours = fitted(Problem(table(X, y), rows, AugmentedHinge(), prior), tol=1e-9)
    assert_allclose(theirs.objective, ours.objective, rtol=1e-9)
    assert_allclose(to_numpy(theirs.belief.mean), ours.belief.mean, rtol=1e-6)


def test_single_precision_ends_near_double(data):
    X, y = data
    kernel, prior = 1.3 * RBF(0.9), Ridge.isotropic(12)
    ends = []
    for dtype in (np.float64, np.float32):
        Xt = X.astype(dtype)
        problem = Problem(table(Xt, y.astype(dtype)), InducingRows.at(kernel, Xt[:12]), Hinge(), prior)
        point = fitted(problem, tol=1e-7)
        ends.append((point.objective, problem.latent(point.belief).mu))
    assert_allclose(ends[1][0], ends[0][0], rtol=1e-4)
    assert_allclose(ends[1][1], ends[0][1], atol=0.02)


def test_units_of_columns_do_not_matter_to_scaled_rows(data):
    X, y = data
    units, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, -2.0, 1e5])
    ends = []
    for scale, offset in ((np.ones(3), np.zeros(3)), (units, shift)):
        table_in_units = X * scale + offset
        rows = LinearRows(table_in_units.mean(axis=0), table_in_units.std(axis=0))
        ends.append(fitted(Problem(table(table_in_units, y), rows, Hinge(), Ridge.isotropic(4)), tol=1e-9))
    assert_allclose(ends[1].belief.mean, ends[0].belief.mean, rtol=1e-5, atol=1e-7)
