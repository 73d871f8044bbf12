"""Priors of random effects: covariances of many groups of weights."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import invgamma, invwishart

import references_structured as naive
from softmargin.priors import Covariance, Part, Ridge, Structured, Variances
from softmargin.priors.random_effects import Scales
from softmargin.priors.variance import InverseGamma
from softmargin.wishart import InverseWishart

GROUP_PRIORS = {
    "one variance": Variances(1, 0.4, 0.7),
    "variances": Variances(3, 0.4, 0.7),
    "half-Cauchy": Variances(1, half_cauchy=0.8),
    "half-Cauchies": Variances(3, half_cauchy=0.8),
    "covariance of one": Covariance(1, 0.3),
    "covariance": Covariance(3, 0.3),
}


@pytest.fixture(params=GROUP_PRIORS)
def of_group(request) -> Any:
    return GROUP_PRIORS[request.param]


def some_weights(prior, rng, J=6):
    """Means and covariances of the weights of a few groups."""
    A = rng.normal(size=(J, prior.size, 2 * prior.size))
    return rng.normal(size=(J, prior.size)), 0.1 * A @ A.transpose(0, 2, 1)


def some_hyper(prior, rng) -> Any:
    """A belief about the covariance that is nowhere special."""
    means, blocks = some_weights(prior, rng)
    hyper = prior.learned(means, blocks, prior.learned(2 * means, blocks, prior.begin()))
    if isinstance(hyper, InverseWishart):
        return hyper._replace(dof=hyper.dof + 0.7)
    rate = hyper.rate
    if rate is not None:
        rate = InverseGamma(rate.shape + 0.8, rate.rate * rng.uniform(0.5, 2, size=prior.size))
    return Scales(InverseGamma(hyper.variance.shape * 1.3, hyper.variance.rate), rate)


def drawn_covariances(prior, hyper, n, rng):
    """Draws of the covariance, and of ``log q - log p`` for it and what it was drawn with."""
    if isinstance(prior, Covariance):
        draws = invwishart.rvs(hyper.dof, hyper.scale, size=n, random_state=rng)
        draws = np.asarray(draws).reshape(n, prior.size, prior.size)
        own = naive.log_inverse_wishart(draws, prior.scale * np.eye(prior.size), prior.size + 1)
        return draws, naive.log_inverse_wishart(draws, *hyper) - own
    (shape, rate), of_rate = hyper
    variances = rate / rng.gamma(shape, size=(n, prior.size))
    ratio = invgamma.logpdf(variances, shape, scale=rate)
    if of_rate is None:
        ratio -= invgamma.logpdf(variances, prior.shape, scale=prior.rate)
    else:
        a = of_rate.rate / rng.gamma(of_rate.shape, size=(n, prior.size))
        ratio += invgamma.logpdf(a, of_rate.shape, scale=of_rate.rate)
        ratio -= invgamma.logpdf(variances, 0.5, scale=1 / a) + invgamma.logpdf(a, 0.5, scale=prior.half_cauchy**-2)
    return variances[:, :, None] * np.eye(prior.size), ratio.sum(axis=1)


def test_expectations_and_divergence_of_a_covariance_equal_monte_carlo(of_group, rng):
    hyper = some_hyper(of_group, rng)
    covariances, ratio = drawn_covariances(of_group, hyper, 8000, rng)
    naive.agrees(np.linalg.inv(covariances), of_group.expected_precision(hyper))
    naive.agrees(-np.linalg.slogdet(covariances)[1], of_group.expected_log_precision(hyper), 0.05)
    naive.agrees(ratio, of_group.divergence(hyper), 0.1)
    assert of_group.divergence(hyper) > 0


def test_one_begins_with_unit_precision(of_group):
    assert_allclose(of_group.expected_precision(of_group.begin()), np.eye(of_group.size))


def test_population_is_the_mean_covariance(of_group, rng):
    means, blocks = some_weights(of_group, rng, J=60)
    hyper = of_group.learned(means, blocks, of_group.begin())
    covariances, _ = drawn_covariances(of_group, hyper, 4000, rng)
    naive.agrees(covariances, of_group.population(hyper))


def test_the_mixture_is_half_cauchy():
    """As a density of the deviation; the formulas of `Variances` rest on it."""
    A = 0.8
    for sigma in (0.1, 0.8, 3.0):

        def joint(log_a, sigma=sigma):
            a = np.exp(log_a)
            return invgamma.pdf(sigma**2, 0.5, scale=1 / a) * invgamma.pdf(a, 0.5, scale=A**-2) * a

        mixed = quad(joint, -30, 30, epsabs=1e-12, limit=500)[0]
        assert_allclose(2 * sigma * mixed, 2 / (np.pi * A * (1 + (sigma / A) ** 2)), rtol=1e-8)


def expected_divergence(prior, hyper, means, blocks):
    """All that depends on the belief about a covariance: of the weights given it, and its own."""
    second = means.T @ means + blocks.sum(axis=0)
    energy = np.sum(prior.expected_precision(hyper) * second)
    return 0.5 * (energy - len(means) * prior.expected_log_precision(hyper)) + prior.divergence(hyper)


def test_what_is_learned_is_the_best_given_the_weights(of_group, rng):
    means, blocks = some_weights(of_group, rng)
    before = some_hyper(of_group, rng)
    hyper = of_group.learned(means, blocks, before)
    held = hyper._replace(rate=before.rate) if isinstance(hyper, Scales) else hyper  # variances first, then their rates
    best = expected_divergence(of_group, held, means, blocks)
    for size in (1e-3, 1e-2, 0.2):
        for _ in range(10):
            for other in naive.neighbours(held, size, rng):
                assert expected_divergence(of_group, other, means, blocks) > best
    assert expected_divergence(of_group, hyper, means, blocks) <= best
    if isinstance(hyper, Scales) and hyper.rate is not None:
        best = of_group.divergence(hyper)
        for size in (1e-3, 0.1):
            for part in range(2):
                for sign in (-1, 1):
                    bent = [p * (1 + sign * size * (i == part)) for i, p in enumerate(hyper.rate)]
                    assert of_group.divergence(hyper._replace(rate=InverseGamma(*bent))) > best


def by_turns(prior, G, h, leap):
    """Weights and the rest by turns until they rest; how many turns that took."""
    hyper = prior._begin()
    for turn in range(20_000):
        weights = prior.given(G, h, hyper)
        after = prior._learned(prior._moments(weights), hyper, leap)
        change = np.abs(prior._precision(after)[1] - prior._precision(hyper)[1]).max()
        hyper = after
        if change < 1e-13:
            return weights._replace(hyper=hyper), turn
    raise AssertionError("no rest")


def test_leaps_end_where_plain_turns_do(of_group, rng):
    q = of_group.size
    prior = Structured(Ridge(np.array([0.5, 0.5])), (Part(2, 7, of_group),))
    G, h = naive.some_sums(2 + 7 * q, rng, n_rows=4 + 5 * q)
    (plain, long), (leapt, short) = by_turns(prior, G, h, False), by_turns(prior, G, h, True)
    assert_allclose(leapt.mean, plain.mean, atol=1e-8)
    assert_allclose(leapt.covariance, plain.covariance, atol=1e-8)
    precisions = [prior._precision(belief.hyper)[1] for belief in (leapt, plain)]
    assert_allclose(*precisions, rtol=1e-7, atol=1e-9)
    assert short < long


def test_draws_of_a_covariance_given_weights(of_group, rng):
    weights, before = rng.normal(size=(9, of_group.size)), of_group.begin()
    draws = [of_group.redrawn(weights, before, rng) for _ in range(3000)]
    precisions = np.array([of_group.expected_precision(draw) for draw in draws])
    if isinstance(of_group, Covariance):
        scale, dof = 0.3 * np.eye(of_group.size) + weights.T @ weights, of_group.size + 1 + 9
        mean, spread = dof * np.linalg.inv(scale), None
        V = np.linalg.inv(scale)
        spread = dof * (np.outer(np.diag(V), np.diag(V)) + V**2)
    else:
        a, b = (0.5, 1.0) if of_group.half_cauchy else (0.4, 0.7)
        a, b = a + 9 / 2, b + np.sum(weights**2, axis=0) / 2
        mean, spread = np.diag(a / b), np.diag(a / b**2)
    naive.agrees(precisions, mean)
    naive.agrees((precisions - mean) ** 2, spread)


def test_draws_given_nothing_are_half_cauchy(rng):
    prior = Variances(1, half_cauchy=0.8)
    hyper, sigma = prior.begin(), []
    for _ in range(6000):
        hyper = prior.redrawn(np.zeros((0, 1)), hyper, rng)
        sigma.append(hyper.variance.mean_precision[0] ** -0.5)
    sigma = np.array(sigma)
    # Quartiles of the half-Cauchy are tan(pi/8) and tan(3 pi/8).
    for share in (0.25, 0.5, 0.75):
        naive.chain_agrees((sigma < 0.8 * np.tan(np.pi * share / 2)).astype(float), share)


@pytest.mark.parametrize("prior", [Variances(2, 0.4, 0.7), Covariance(2, 0.3)], ids=repr)
def test_what_draws_say_of_new_groups_averages_to_the_posterior(prior, rng):
    weights = rng.normal(size=(40, 2)) * [1.0, 3.0]
    known = prior.learned(weights, np.zeros((40, 2, 2)), prior.begin())
    draws = [prior.population(prior.redrawn(weights, prior.begin(), rng), drawn=True) for _ in range(4000)]
    scale = np.sqrt(np.diag(prior.population(known)))
    # Variances of 40 weights are known to .24 of themselves; means of 4000 draws to .004: six of those.
    assert_allclose(
        np.mean(draws, axis=0) / np.outer(scale, scale), prior.population(known) / np.outer(scale, scale), atol=0.024
    )
