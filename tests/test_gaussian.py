import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import contracts
import references
from softmargin.arrays import NotPositiveDefiniteError
from softmargin.gaussian import from_natural, kl


@pytest.fixture
def precision(rng):
    A = rng.normal(size=(6, 6))
    return A @ A.T + 0.1 * np.eye(6)


def test_natural_and_moment_forms_are_one_gaussian(precision, rng):
    h = rng.normal(size=6)
    belief = from_natural(precision, h, hyper="kept")
    assert_allclose(belief.covariance, np.linalg.inv(precision), rtol=1e-9)
    assert_allclose(belief.mean, np.linalg.solve(precision, h), rtol=1e-9)
    assert_allclose(belief.log_det, -np.linalg.slogdet(precision)[1], rtol=1e-12)
    assert_allclose(belief.variances, np.diag(np.linalg.inv(precision)), rtol=1e-9)
    assert_allclose(belief.root, np.tril(belief.root))
    assert belief.hyper == "kept"


def test_divergence_equals_the_textbook_for_diagonals_and_matrices(precision, rng):
    belief = contracts.random_belief(6)
    diagonal = rng.uniform(0.1, 3, size=6)
    full = references.kl_gaussians(belief.mean, belief.covariance, np.linalg.inv(precision))
    assert_allclose(kl(belief, precision, np.linalg.slogdet(precision)[1]), full, rtol=1e-10)
    plain = references.kl_gaussians(belief.mean, belief.covariance, np.diag(1 / diagonal))
    assert_allclose(kl(belief, diagonal, np.log(diagonal).sum()), plain, rtol=1e-10)
    assert_allclose(kl(belief, np.diag(diagonal), np.log(diagonal).sum()), plain, rtol=1e-10)


def test_divergence_is_zero_at_the_prior_and_nowhere_else(precision):
    log_det = np.linalg.slogdet(precision)[1]
    assert abs(kl(from_natural(precision, np.zeros(6)), precision, log_det)) < 1e-10
    assert kl(from_natural(1.1 * precision, np.zeros(6)), precision, log_det) > 1e-3
    assert kl(from_natural(precision, 0.1 * np.ones(6)), precision, log_det) > 1e-5


def test_draws_have_the_moments_of_the_belief():
    belief = contracts.random_belief(3)
    draws = belief.sample(200_000, np.random.RandomState(0))
    sd = np.sqrt(belief.variances)
    # Means of 2e5 draws have a standard error of .0022 sd, covariances at most .0032 sd sd: six of them.
    assert_allclose((draws.mean(axis=0) - belief.mean) / sd, 0, atol=0.013)
    assert_allclose((np.cov(draws.T) - belief.covariance) / np.outer(sd, sd), 0, atol=0.019)


def test_belief_moves_to_the_dtype_and_library_of_its_rows():
    belief = contracts.random_belief(3)
    seen = belief.seen_by(torch.zeros(1, dtype=torch.float32))
    assert seen.mean.dtype == seen.root.dtype == torch.float32
    assert_allclose(seen.root.numpy(), belief.root, rtol=1e-6)


@pytest.mark.parametrize("bad", [-1.0, np.nan])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_what_is_no_precision_is_refused_by_name(bad, convert):
    with pytest.raises(NotPositiveDefiniteError):
        from_natural(convert(np.diag([1.0, bad])), convert(np.zeros(2)))
