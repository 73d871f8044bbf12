"""BayesianLinearSVC on tables with more columns than rows."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from softmargin import BayesianLinearSVC
from softmargin.estimators import wide as module
from softmargin.rows import LinearRows, ReducedRows


@pytest.fixture
def table(rng):
    X = 3 * rng.normal(size=(40, 120)) + 1
    return X, np.where(X[:, :3].sum(axis=1) + rng.normal(size=40) > 3, "yes", "no")


@pytest.fixture
def narrowly(monkeypatch):
    """Tables count as wide from few columns on."""
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 50)


@pytest.mark.parametrize("settings", [{}, {"prior": 0.3}, {"loss": "logistic"}, {"fit_intercept": False}], ids=str)
def test_the_same_model_in_fewer_weights(table, monkeypatch, rng, settings):
    X, y = table
    whole = BayesianLinearSVC(tol=1e-9, max_iter=2000, **settings).fit(X, y)
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 50)
    few = BayesianLinearSVC(tol=1e-9, max_iter=2000, **settings).fit(X, y)
    assert isinstance(whole.rows_, LinearRows)
    assert isinstance(few.rows_, ReducedRows)
    # Both stop at 1e-9 of their bounds; means are then known to the root of that.
    for name in ("coef_", "coef_std_", "intercept_", "intercept_std_", "prior_variance_"):
        assert_allclose(getattr(few, name), getattr(whole, name), rtol=2e-3, atol=2e-4)
    to_come = rng.normal(size=(10, 120))
    assert_allclose(few.latent_mean_and_variance(to_come)[1], whole.latent_mean_and_variance(to_come)[1], rtol=1e-3)
    assert_allclose(few.predict_proba(to_come), whole.predict_proba(to_come), atol=2e-3)


def test_sparse_rows_and_draws(table, narrowly):
    X, y = table
    dense = BayesianLinearSVC().fit(X, y)
    sparse = BayesianLinearSVC().fit(scipy.sparse.csr_matrix(X), y)
    assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=1e-6)
    latent = dense.sample_latent(X[:3] + 1.0, 4000, random_state=0)
    mean, variance = dense.latent_mean_and_variance(X[:3] + 1.0)
    # Four thousand draws: five standard errors.
    assert_allclose(latent.mean(axis=1), mean, atol=5 * np.sqrt(variance.max() / 4000))
    assert_allclose(latent.var(axis=1), variance, rtol=5 * np.sqrt(2 / 4000))


@pytest.mark.parametrize("settings", [{"prior": "ard"}, {"prior": "laplace-zero"}, {"prior": np.ones(120)}], ids=str)
def test_priors_that_know_columns_apart_keep_them(table, narrowly, settings):
    X, y = table
    assert isinstance(BayesianLinearSVC(**settings).fit(X, y).rows_, LinearRows)


def test_batches_are_not_reduced(table, narrowly, rng):
    X, y = table
    stream = BayesianLinearSVC().partial_fit(X[:20], y[:20], classes=["no", "yes"])
    assert isinstance(stream.partial_fit(X[20:], y[20:]).rows_, LinearRows)
    with pytest.raises(ValueError, match="more columns than rows"):
        BayesianLinearSVC().fit(X, y).partial_fit(X, y)
