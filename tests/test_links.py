import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

import references
from softmargin.likelihoods import LOSSES
from softmargin.links import (
    LogisticLink,
    ProbitLink,
    _link_loss,
    fit_logistic_link,
    log_losses,
    log_probabilities,
    probabilities,
    settled,
    word_of,
)

LINKS = [LogisticLink(1.7, 0.2), LogisticLink(1e3, -5.0), LogisticLink(1e-3), ProbitLink()]
huge = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e150, 1e300]), st.floats(0, 1e300))


@pytest.fixture
def scored(rng):
    mu, v = rng.normal(size=80) * 2, rng.uniform(0, 5, size=80)
    y = np.where(rng.uniform(size=80) < expit(1.2 * mu - 0.7), 1.0, -1.0)
    return mu, v, y, rng.uniform(0, 3, size=80)


# Fitting the slope -------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [np.array([0.5, 0.0, 0.1]), np.array([-1.0, 2.0, -2.0]), np.array([2.0, -0.3, 1.0])])
def test_gradient_of_the_link_loss_is_finite_differences(x, scored):
    wanted = references.gradient(lambda x: _link_loss(x, *scored)[0], x, 1e-4)
    assert_allclose(_link_loss(x, *scored)[1], wanted, rtol=1e-8, atol=1e-8)


def test_link_loss_is_the_log_loss_and_the_priors(scored):
    mu, v, y, weight = scored
    link = LogisticLink(np.exp(0.3), -0.4, np.exp(-0.2))
    p = probabilities(link.score(mu, v))[:, 1]
    log_loss = -weight @ np.log(np.where(y > 0, p, 1 - p))
    prior = norm.logpdf(0.3, np.log(1.7), 0.5) + norm.logpdf(-0.4, 0, 0.5) - 2 * norm.logpdf(0, 0, 0.5)
    prior += norm.logpdf(-0.2, np.log(np.pi * 1.7**2 / 8), 1.0) - norm.logpdf(0, 0, 1.0)
    assert_allclose(_link_loss(np.array([0.3, -0.4, -0.2]), *scored)[0], log_loss - prior, rtol=1e-12)


@pytest.mark.parametrize("x", [np.array([0.2, 0.3, -0.4]), np.array([-1.0, 2.0, 2.0])])
def test_curvature_of_the_link_loss_is_finite_differences(x, scored):
    wanted = [references.gradient(lambda x, i=i: _link_loss(x, *scored)[1][i], x, 1e-4) for i in range(3)]
    assert_allclose(_link_loss(x, *scored)[2], wanted, rtol=1e-7, atol=1e-7)


def test_fitted_link_is_the_optimum(scored):
    link = fit_logistic_link(*scored)
    found = np.array([np.log(link.slope), link.offset, np.log(link.damping)])
    best = minimize(lambda x: _link_loss(x, *scored)[0], np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    assert_allclose(found, best.x, atol=1e-5)
    assert_allclose(_link_loss(found, *scored)[1], 0, atol=1e-8)


def test_a_fitted_link_is_the_optimum_to_rounding():
    # A loss is flat within 1e-8 of its least value; that its slope is not shows over several tables.
    for seed in range(6):
        rng = np.random.default_rng(seed)
        mu, v = 3 * rng.normal(size=200), rng.uniform(0.1, 2, size=200)
        y = np.where(mu + rng.logistic(size=200) > 0, 1.0, -1.0)
        link = fit_logistic_link(mu, v, y, np.ones(200))
        found = np.array([np.log(link.slope), link.offset, np.log(link.damping)])
        assert_allclose(_link_loss(found, mu, v, y, np.full(200, 1 / 201), 1 / 201)[1], 0, atol=1e-14)


def test_without_rows_the_link_is_its_prior():
    empty = np.zeros(0)
    assert_allclose(fit_logistic_link(empty, empty, empty, empty), [1.7, 0.0, np.pi * 1.7**2 / 8])


def test_link_of_weighted_rows_is_that_of_repeated_ones(scored):
    mu, v, y, _ = scored
    times = np.arange(80) % 4
    repeated = fit_logistic_link(*(np.repeat(part, times) for part in (mu, v, y)), np.ones(times.sum()))
    assert_allclose(fit_logistic_link(mu, v, y, times.astype(float)), repeated, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 2e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("total", [10.0, 1e6, 1e9])
@pytest.mark.parametrize("right", [1.0, 0.8, 0.0])
def test_link_fits_latent_values_of_any_size_and_number(size, total, right):
    y = np.where(np.arange(100) % 2, 1.0, -1.0)
    agrees = np.where(np.arange(100) < 100 * right, 1.0, -1.0)
    args = size * y * agrees, np.zeros(100), y, np.full(100, total / 100)
    link = fit_logistic_link(*args)
    assert link.slope > 0
    assert np.isfinite(link).all()
    found = np.array([np.log(link.slope), link.offset, np.log(link.damping)])
    _, gradient, curvature = _link_loss(found, *args)
    # A loss of 1e9 is known to 1e-7, and so its minimum, with a curvature of 4 or more, to the square root of that.
    assert_allclose(np.linalg.solve(curvature, gradient), 0, atol=1e-3)


# Scores and probabilities ------------------------------------------------------------------------


def test_logistic_link_equals_its_formula_and_nearly_the_integral():
    mu, v, link = np.array([-2.0, 0.5, 3.0]), np.array([0.0, 1.0, 4.0]), LogisticLink(1.4, 0.2, np.pi * 1.4**2 / 8)
    score = link.score(mu, v)
    assert_allclose(score, (1.4 * mu + 0.2) / np.sqrt(1 + np.pi * 1.4**2 * v / 8), rtol=1e-14)
    exact = [references.normal_expectation(lambda f: expit(1.4 * f + 0.2), m, s) for m, s in zip(mu, v, strict=True)]
    # MacKay's approximation is good to two percent.
    assert_allclose(probabilities(score)[:, 1], exact, atol=0.02)


def test_probit_link_is_the_probability_of_the_paper():
    mu, v = np.array([-30.0, -2.0, 0.0, 0.3, 5.0, 30.0]), np.array([0.0, 1.0, 2.0, 0.5, 10.0, 3.0])
    wanted = norm.cdf(mu / np.sqrt(1 + v))
    assert_allclose(probabilities(ProbitLink().score(mu, v))[:, 1], wanted, rtol=1e-12)
    assert_allclose(probabilities(ProbitLink().score(mu, v))[:, 0], norm.cdf(-mu / np.sqrt(1 + v)), rtol=1e-12)
    exact = [references.normal_expectation(norm.cdf, m, s) for m, s in zip(mu, v, strict=True)]
    assert_allclose(wanted, exact, atol=1e-9)


@pytest.mark.parametrize("link", LINKS, ids=repr)
@given(mu=huge, v=huge, sign=st.sampled_from([-1.0, 1.0]))
def test_probabilities_are_probabilities_whatever_the_latent_moments(link, mu, v, sign):
    p = probabilities(settled(link.score(np.array([sign * mu]), np.array([v]))))
    assert np.all((p >= 0) & (p <= 1))
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


tiny = st.floats(-18, -13).map(lambda power: 10.0**power)


@given(
    score=st.one_of(tiny, st.sampled_from([0.0, 5e-324, 1e-308, 1e-16, 1e-15, 1e-14, 1.0, 800.0]), st.floats(0, 1e3))
)
def test_the_sign_of_a_score_and_the_larger_probability_never_disagree(score):
    scores = settled(np.array([score, -score]))
    p = probabilities(scores)
    # argmax takes the first class in a tie, and so does a score that must be above zero.
    assert (p.argmax(axis=1) == (scores > 0)).all()
    assert np.all((p[:, 0] == p[:, 1]) == (scores == 0))


def test_ties_are_made_exact_and_nothing_else_moves():
    scores = np.array([-5e-324, 9e-16, -9e-16, 1.1e-15, -1.1e-15, 0.3])
    assert settled(scores).tolist() == [0, 0, 0, 1.1e-15, -1.1e-15, 0.3]


def test_log_losses_are_those_of_the_probabilities_of_two_classes():
    score, y = np.array([-3.0, 0.2, 4.0, 1.0]), np.array([-1.0, -1.0, 1.0, -1.0])
    chances = probabilities(score)[np.arange(4), (y > 0).astype(int)]
    assert_allclose(log_losses(score, y), -np.log(chances), rtol=1e-12)


@pytest.mark.parametrize("word", LOSSES)
def test_likelihoods_of_two_classes_have_a_link_of_their_own_and_all_else_a_fitted_one(word):
    own = "logistic" if word.startswith("logistic") else "probit" if word.startswith("probit") else "loo"
    assert word_of(word, 2) == own
    assert [word_of(word, n) for n in (3, 4)] == ["loo", "loo"]
    assert word_of(LOSSES[word], 2) == "loo"


@pytest.mark.parametrize("score", [[3e3], [[0.0, 3e3]]])
def test_logarithms_of_probabilities_that_round_to_zero_are_finite(score):
    assert_allclose(log_probabilities(np.array(score)), [[-3e3, 0]])
