import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer

import references
from softmargin import BayesianLinearSVC


@pytest.fixture(scope="module")
def table():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200, :5], y[:200]


@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic"])
@pytest.mark.parametrize("prior", ["ridge", "ard", 2.0])
def test_coefficients_are_in_the_units_of_the_columns(table, loss, prior):
    X, y = table
    model = BayesianLinearSVC(loss=loss, prior=prior).fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    assert_allclose(X @ model.coef_[0] + model.intercept_[0], mean, rtol=1e-9, atol=1e-9)
    units = np.array([1e3, 1.0, 1e-6, 7.0, 1e9])
    other = BayesianLinearSVC(loss=loss, prior=prior).fit(X * units + 3, y)
    assert_allclose(other.coef_ * units, model.coef_, rtol=1e-5)
    assert_allclose(other.coef_std_ * units, model.coef_std_, rtol=1e-5)
    assert_allclose(other.latent_mean_and_variance(X * units + 3)[1], variance, rtol=1e-5)


def test_standard_deviations_are_those_of_draws(table):
    X, y = table
    model = BayesianLinearSVC().fit(X, y)
    at_zero_and_axes = np.vstack([np.zeros(5), np.eye(5)])
    draws = model.sample_latent(at_zero_and_axes, n_samples=20_000, random_state=0)
    # Relative standard error of a standard deviation over 20,000 draws: .5 %; four of them.
    assert_allclose(draws[0].std(), model.intercept_std_[0], rtol=0.02)
    assert_allclose((draws[1:] - draws[0]).std(axis=1), model.coef_std_[0], rtol=0.02)


def test_the_published_bound_is_surer_of_itself_than_the_exact_loss(rng):
    """The README says so: its variances are too small."""
    X = rng.normal(size=(200, 1))
    y = X[:, 0] + rng.normal(size=200) > 0
    augmented, exact = (BayesianLinearSVC(loss=loss, prior=1.0).fit(X, y) for loss in ("hinge-augmented", "hinge"))
    assert np.all(augmented.coef_std_ < 0.8 * exact.coef_std_)


def test_no_intercept_means_a_plane_through_zero(table):
    X, y = table
    model = BayesianLinearSVC(fit_intercept=False).fit(X, y)
    assert model.intercept_[0] == 0
    assert_allclose(model.latent_mean_and_variance(np.zeros((1, 5))), 0, atol=1e-12)


def test_without_standardising_the_prior_is_in_the_columns_own_units(table):
    X, y = table
    scale = X.std(axis=0)
    in_spreads = BayesianLinearSVC(prior=0.5, tol=1e-9).fit(X, y)
    in_units = BayesianLinearSVC(prior=0.5 / scale**2, standardize=False, tol=1e-9).fit(X, y)
    assert_allclose(in_units.coef_, in_spreads.coef_, rtol=1e-4)
    assert_allclose(in_units.bound_, in_spreads.bound_, rtol=1e-6)


def test_a_variance_variances_and_a_covariance_are_one_prior(table):
    X, y = table
    one, vector, matrix = (BayesianLinearSVC(prior=p).fit(X, y) for p in (0.5, [0.5] * 5, 0.5 * np.eye(5)))
    for other in (vector, matrix):
        assert_allclose(other.coef_, one.coef_, rtol=1e-9)
        assert_allclose(other.bound_, one.bound_, rtol=1e-12)


def test_a_covariance_moves_correlated_coefficients_together(table):
    X, y = table
    together = 0.5 * (0.01 * np.eye(5) + 0.99)
    coef = BayesianLinearSVC(prior=together).fit(X, y).coef_[0] * X.std(axis=0)
    assert np.ptp(coef) < np.ptp(BayesianLinearSVC(prior=0.5).fit(X, y).coef_[0] * X.std(axis=0))


def test_relevance_is_learnt_for_each_column(rng):
    X = rng.normal(size=(500, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=500) > 0
    variances = BayesianLinearSVC(prior="ard").fit(X, y).prior_variance_
    assert variances[0] > 10 * np.max(variances[1:])


def test_published_model_is_reproduced(table):
    """Luts and Ormerod's Algorithm 2, with their priors, on standardised columns."""
    X, y = table
    model = BayesianLinearSVC(loss="hinge-augmented", tol=1e-12, max_iter=1000).fit(X, y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    signs = np.where(y == 1, 1.0, -1.0)
    published = references.luts_algorithm_2(np.ones((len(y), 1)), scaled, signs, sigma2_beta=1e8, A_u=0.01, B_u=0.01)
    mean, bounds = published[0], published[-1]
    assert_allclose(model.coef_[0] * X.std(axis=0), mean[1:], rtol=1e-4)
    assert_allclose(model.bound_, bounds[-1], rtol=1e-8)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("lasso", "'ridge', 'ard', 'laplace-zero', got 'lasso'"),
        (-1.0, "positive and finite, got -1.0"),
        ([1.0, 2.0], r"shape \(5, 5\)"),
        (-np.eye(5), "symmetric and positive definite"),
        (np.triu(np.ones((5, 5))), "symmetric and positive definite"),
        ({}, "or numbers"),
    ],
)
def test_impossible_priors_are_refused_by_name(table, prior, message):
    with pytest.raises(ValueError, match=message):
        BayesianLinearSVC(prior=prior).fit(*table)


def test_a_table_that_a_plane_separates_has_a_finite_answer(rng):
    X = np.vstack([rng.normal(size=(60, 2)) - 6, rng.normal(size=(60, 2)) + 6])
    y = np.repeat([0, 1], 60)
    for loss in ("hinge", "hinge-augmented", "logistic"):
        model = BayesianLinearSVC(loss=loss).fit(X, y)
        assert model.score(X, y) == 1
        assert model.prior_variance_ < 1e4
