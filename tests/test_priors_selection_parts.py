"""The pieces of a selection, one by one: what is learned when, how sure it may be, and what draws look at."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import beta

import references_structured as naive
from softmargin.priors import LaplaceZero
from softmargin.priors.selection import _laplace, _log_mass, _two_sides
from softmargin.priors.variance import InverseGamma


def variance_of(value):
    """A variance that is known to be near this."""
    return InverseGamma(np.ones(1), np.full(1, value))


# Beliefs -------------------------------------------------------------------------------------------------------------


def test_a_share_is_learned_once_columns_have_gone_and_come():
    """All columns are in at the start: a share that is learned from that would keep them."""
    mean, variances = np.array([0.4, -1.0, 0.2]), np.full(3, 0.1)
    prior = LaplaceZero(3, rho=None)
    before = prior.begin()._replace(included=np.array([1.0, 0.0, 0.0]))
    held = prior._replace(held=True)
    for early in (prior.learned(mean, variances, before, leap=True), held.learned(mean, variances, before)):
        assert_array_equal(early.odds, before.odds)
        assert_array_equal(early.log_odds, before.log_odds)
    after = prior.learned(mean, variances, before)
    assert_allclose(after.odds, [1 + 1, 3 + 2])
    assert_allclose(after.log_odds, naive.mean_log_beta(after.odds))


def test_nothing_is_ever_quite_sure():
    """Whatever speaks for or against a column, the logarithms of both probabilities are finite."""
    prior = LaplaceZero(2, rho=0.5)
    doubt = prior.begin()._replace(included=np.array([0.5, 0.5]))
    found = prior.chosen(doubt, np.zeros((2, 2)), np.array([-1e4, 1e4]), np.zeros((2, 2)))
    # One minus a number so near to one is known to four digits.
    assert_allclose([found.included[0], 1 - found.included[1]], 1e-12, rtol=1e-3)


def test_a_share_that_is_given_is_no_part_of_the_belief():
    """Of one that is inferred the divergence is that of two betas."""
    given, inferred = LaplaceZero(3, rho=0.3), LaplaceZero(3, rho=None)
    hyper = inferred.begin()._replace(odds=np.array([2.5, 4.0]))
    q, p = beta(2.5, 4.0), beta(1.0, 3.0)
    wanted, _ = quad(lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), 0, 1)
    assert_allclose(inferred.divergence(hyper) - given.divergence(hyper), wanted, rtol=1e-7)
    assert_array_equal(given.begin().odds, np.zeros(2))


# Draws ---------------------------------------------------------------------------------------------------------------


def rechosen_by_loops(prior, hyper, G, h, weights, rng):
    """The same dice, and for each column what all others leave of ``h``, found anew."""
    gamma, v = hyper.included.copy(), weights.copy()
    sigma = hyper.variance.mean_precision[0] ** -0.5
    dice = rng.random((prior.n_columns, 3))
    for k in rng.permutation(prior.n_columns):
        r = h[k]
        for j in range(len(v)):
            r -= G[k, j] * v[j] * (gamma[j] if j < prior.n_columns else 1.0) if j != k else 0.0
        sides = _two_sides(r, G[k, k], sigma)
        odds = prior.rho / (1 - prior.rho) * np.sum(np.exp(sides.log_mass))
        gamma[k] = float(dice[k, 0] < odds / (1 + odds))
        v[k] = sides.drawn(*dice[k, 1:]) if gamma[k] else _laplace(sigma, *dice[k, 1:])
    return v, gamma


@pytest.mark.parametrize("n_loose", [0, 2])
def test_columns_are_drawn_given_what_all_others_leave(n_loose, rng):
    prior = LaplaceZero(5, n_loose, rho=0.4)
    G, h = naive.some_sums(5 + n_loose, rng)
    hyper = prior.begin()._replace(included=np.array([1.0, 0.0, 1.0, 1.0, 0.0]), variance=variance_of(0.3))
    weights, turns = rng.normal(size=5 + n_loose), []
    for seed in range(20):
        wanted = rechosen_by_loops(prior, hyper, G, 0.2 * h, weights, np.random.default_rng(seed))
        found, drawn = prior.rechosen(hyper, G, 0.2 * h, weights, np.random.default_rng(seed))
        assert_allclose(found, wanted[0], rtol=1e-8, atol=1e-10)
        assert_array_equal(drawn.included, wanted[1])
        turns.append(wanted[1])
    assert np.any(np.std(turns, axis=0) > 0)  # columns went and came


def test_scales_and_their_variance_are_drawn_in_units_of_each_other(rng):
    """``b`` is inverse Gaussian of mean ``sigma / |v|`` and shape one; the variance is that of ``v`` given ``b``."""
    n, sigma, size = 4000, 0.4, 0.7
    prior = LaplaceZero(n, rho=0.5, shape=2.0, rate=1.5)
    hyper = prior.begin()._replace(variance=variance_of(sigma**2))
    v = size * np.where(np.arange(n) % 2, 1.0, -1.0)
    drawn = prior.redrawn(v, hyper, rng)
    naive.agrees(drawn.b[:, None], sigma / size)
    naive.agrees(1 / drawn.b[:, None], size / sigma + 1)
    # An inverse gamma of 2002: its precision is known to one part in 45, five times that.
    found = float(drawn.variance.mean_precision[0])
    assert_allclose(found, (2.0 + n / 2) / (1.5 + 0.5 * drawn.b @ v**2), rtol=5 / 45)


def test_laplace_draws_have_their_scale_and_both_sides(rng):
    draws = np.array([_laplace(0.6, *dice) for dice in rng.random((4000, 2))])
    naive.agrees(np.column_stack([draws, np.abs(draws), draws**2]), [0, 0.6, 2 * 0.6**2])


@pytest.mark.parametrize("c", [-5.0, -0.3, 0.0, 0.4, 1.0, 6.0])
def test_masses_are_integrals(c):
    r""":math:`e^{c^2/2} \Phi(c) = \int_0^\infty e^{c x - x^2/2} dx / \sqrt{2 \pi}`."""
    mass, _ = quad(lambda x: np.exp(c * x - x**2 / 2), 0, max(c, 0) + 12)
    assert_allclose(_log_mass(c), np.log(mass / np.sqrt(2 * np.pi)), rtol=1e-8, atol=1e-9)
