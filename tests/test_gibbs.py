from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import chi2, geninvgauss, invgamma, kstest

import references
from softmargin import gibbs
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.gaussian import from_natural
from softmargin.gibbs import effective_draws, hinged, sample
from softmargin.kernels import RBF
from softmargin.likelihoods import AugmentedHinge, Hinge, JaakkolaJordan
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows, Latent, LinearRows
from softmargin.steps import ascend

#: Standard errors that a Monte Carlo estimate may lie from the truth: for the few hundred numbers compared here, each
#: with a standard error that is itself estimated, less than one in a hundred seeds would exceed it.
ERRORS = 5.0


def two_columns(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0, 1.0, -1.0)


def linear_problem(X, y, weight, prior=None, block_rows=1000, n_jobs=1):
    rows = LinearRows(np.zeros(2), np.ones(2), intercept=False)
    prior = Ridge(np.array([0.5, 2.0])) if prior is None else prior
    return Problem(Table(X, y, weight, block_rows), rows, Hinge(), prior, n_jobs)


def inducing_problem(n_rows, n_points):
    X, y = two_columns(n_rows)
    rows = InducingRows.at(2.0 * RBF(1.0), X[:n_points])
    return Problem(Table(X, y, np.ones(n_rows), 1000), rows, Hinge(), Ridge.isotropic(n_points))


def true_moments(problem, weight=None, half_width=6.0, n_points=201):
    """Moments of the weights by brute force; ``weight`` in place of the rows' own."""
    table = problem.table
    phi, leftover = problem.rows.lift(table.X)
    leftover = np.where(leftover > 1e-9, leftover, 0.0)
    weight = table.weight if weight is None else weight
    log_density = references.hinge_log_posterior(phi, leftover, table.y, weight, np.diag(problem.prior.precision))
    return references.grid_moments(log_density, [(-half_width, half_width)] * phi.shape[1], n_points)


def agrees(draws, mean, covariance):
    """Means and standard deviations of draws, and of the belief, agree with the truth to their standard errors."""
    sd = np.sqrt(np.diag(covariance))
    of_mean = sd / np.sqrt(effective_draws(draws.weights))
    squares = (draws.weights - mean) ** 2
    of_variance = squares.std(axis=0) / np.sqrt(effective_draws(squares))
    assert np.all(np.abs(draws.weights.mean(axis=0) - mean) < ERRORS * of_mean)
    assert np.all(np.abs(squares.mean(axis=0) - sd**2) < ERRORS * of_variance)
    # The belief averages conditional moments, and can only scatter less.
    assert np.all(np.abs(draws.belief.mean - mean) < ERRORS * of_mean)
    assert np.all(np.abs(draws.belief.variances - sd**2) < ERRORS * of_variance)
    # Guards against errors so large that anything would agree.
    assert np.all(of_mean < 0.06 * sd)
    assert np.all(of_variance < 0.12 * sd**2)


# The conditionals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("z", [-2.0, 0.05, 3.0])
def test_scales_have_their_conditional(z, c, rng):
    y, f = np.full(4000, -1.0), np.full(4000, z - 1)
    scale = 1 / gibbs.draw_inverse_scale(y, f, np.full(4000, c), 1e10, rng)
    # p(lambda | f) is proportional to lambda^-1/2 exp(-(c lambda + c z^2 / lambda) / 2): GIG(1/2, c, c z^2).
    law = geninvgauss(0.5, c * abs(z), scale=abs(z))
    assert kstest(scale, law.cdf).pvalue > 1e-3
    assert abs(scale.mean() - (abs(z) + 1 / c)) < ERRORS * scale.std() / np.sqrt(len(scale))


def test_scales_at_the_margin_are_chi_squared(rng):
    t = gibbs.draw_inverse_scale(np.ones(20_000), np.ones(20_000), np.full(20_000, 2.0), 1e10, rng)
    assert np.all((t > 0) & (t <= 1e10 / 2))
    assert kstest(2 / t, chi2(1).cdf).pvalue > 1e-3


def test_sites_and_leftovers_are_gaussian_conditionals():
    y, leftover, c, t = (np.array(part) for part in ([1.0, -1.0], [0.7, 2.0], [1.0, 3.0], [0.4, 5.0]))
    scale, explained = 1 / t, np.array([0.3, -0.2])
    w, b = gibbs.sites_given_scale(y, leftover, c, t)
    assert_allclose(w, 1 / (scale / c + leftover))
    assert_allclose(b, w * y * (1 + scale))
    many = [np.repeat(part, 50_000) for part in (y, explained, leftover, c, t)]
    e = gibbs.draw_leftover(*many, np.random.default_rng(0)).reshape(2, -1)
    sd = np.sqrt(leftover * (scale / c) / (leftover + scale / c))
    mean = leftover / (leftover + scale / c) * (y * (1 + scale) - explained)
    # Standard errors of a mean and of a standard deviation of 50,000 normal numbers.
    assert np.all(np.abs(e.mean(axis=1) - mean) < ERRORS * sd / np.sqrt(50_000))
    assert np.all(np.abs(e.std(axis=1) / sd - 1) < ERRORS / np.sqrt(100_000))


def test_rows_of_no_weight_and_no_scale_say_nothing(rng):
    y, zero = np.ones(3), np.zeros(3)
    t = gibbs.draw_inverse_scale(y, np.array([0.0, 1.0, 50.0]), zero, 1e10, rng)
    assert np.isfinite(t).all()
    for part in gibbs.sites_given_scale(y, np.array([0.0, 1.0, 2.0]), zero, t):
        assert_allclose(part, 0)
    w, b = gibbs.sites_given_scale(y, zero, np.ones(3), zero)
    assert_allclose([w, b], [zero, y])  # a scale without end leaves the slope


# The posterior -------------------------------------------------------------------------------------


def test_linear_model_equals_brute_force_whatever_the_weights():
    X, y = two_columns(10)
    problem = linear_problem(X, y, np.array([1.0, 0.0, 3.0, 0.4, 1.0, 1.0, 2.5, 1.0, 0.0, 7.0]))
    draws = sample(problem, rng=np.random.default_rng(1), n_draws=6000, burn_in=200)
    assert draws.reason == "draws"
    assert draws.weights.shape == (6000, 2)
    assert 300 < draws.n_effective <= 6000
    agrees(draws, *true_moments(problem))


def test_process_at_its_rows_equals_brute_force():
    problem = inducing_problem(3, 3)
    draws = sample(problem, rng=np.random.default_rng(2), n_draws=6000, burn_in=200)
    agrees(draws, *true_moments(problem, n_points=121))


def test_process_with_independent_leftovers_equals_brute_force():
    problem = inducing_problem(12, 2)
    assert np.median(problem.rows.lift(problem.table.X).leftover) > 0.5
    draws = sample(problem, rng=np.random.default_rng(3), n_draws=6000, burn_in=200)
    agrees(draws, *true_moments(problem))


def test_inferred_variance_equals_brute_force():
    X, y = two_columns(12)
    prior = VarianceComponents(np.array([0, -1]), shape=4.0, rate=3.0, loose=0.3)
    problem = linear_problem(X, y, np.ones(12), prior)
    draws = sample(problem, rng=np.random.default_rng(4), n_draws=8000, burn_in=200)
    likelihood = references.hinge_log_posterior(X, np.zeros(12), y, np.ones(12), np.diag([0.0, 0.3]))

    def log_density(points):  # (u_1, u_2, log sigma^2), with the Jacobian of the logarithm
        u, log_variance = points[:, :2], points[:, 2]
        normal = -0.5 * (log_variance + u[:, 0] ** 2 * np.exp(-log_variance))
        return likelihood(u) + normal - 4.0 * log_variance - 3.0 * np.exp(-log_variance)

    mean, covariance = references.grid_moments(log_density, [(-5, 8), (-6, 6), (-3, 5)], 121)
    log_variances = np.log([1 / hyper.mean_precision for hyper in draws.hypers])
    everything = draws._replace(
        weights=np.hstack([draws.weights, log_variances]),
        belief=from_natural(np.linalg.inv(covariance), np.linalg.solve(covariance, mean)),
    )
    agrees(everything, mean, covariance)
    of_weights = covariance[:2, :2]
    assert_allclose(draws.belief.mean, mean[:2], atol=0.1 * np.sqrt(of_weights.diagonal()).max())
    assert_allclose(1 / draws.belief.hyper.mean_precision, np.exp(log_variances).mean(axis=0))


def test_variances_are_drawn_from_their_own_group(rng):
    prior, u = VarianceComponents(np.array([0, 1, -1, 1]), shape=2.0, rate=0.5), np.array([1.0, 2.0, 50.0, -1.0])
    variances = np.array([1 / prior.drawn(u, rng).mean_precision for _ in range(2000)])
    assert kstest(variances[:, 0], invgamma(2.0 + 1 / 2, scale=0.5 + 1 / 2).cdf).pvalue > 1e-3
    assert kstest(variances[:, 1], invgamma(2.0 + 2 / 2, scale=0.5 + 5 / 2).cdf).pvalue > 1e-3
    assert Ridge.isotropic(4).drawn(u, rng) is None


def test_weight_k_equals_k_copies():
    X, y = two_columns(6)
    k = np.array([1, 2, 1, 3, 1, 2])
    weighted, repeated = linear_problem(X, y, 1.0 * k), linear_problem(np.repeat(X, k, 0), np.repeat(y, k), np.ones(10))
    mean, covariance = true_moments(weighted)
    assert_allclose(true_moments(repeated)[1], covariance, rtol=1e-9)
    for problem in (weighted, repeated):
        agrees(sample(problem, rng=np.random.default_rng(5), n_draws=5000, burn_in=200), mean, covariance)


def test_variational_means_agree_and_only_the_exact_deviations_do():
    X, y = two_columns(60)
    problem = linear_problem(X, y, np.ones(60))
    draws = sample(problem, rng=np.random.default_rng(6), n_draws=4000, burn_in=200)
    ratio = {}
    for likelihood in (Hinge(), AugmentedHinge()):
        problem.likelihood = likelihood
        belief = ascend(problem, tol=1e-9, max_passes=500).point.belief
        assert np.all(np.abs(belief.mean - draws.belief.mean) < 0.35 * np.sqrt(draws.belief.variances))
        ratio[type(likelihood)] = np.sqrt(belief.variances / draws.belief.variances)
    # The posterior is not Gaussian, and mean-field bounds are on the narrow side of it.
    assert np.all((ratio[Hinge] > 0.8) & (ratio[Hinge] < 1.1))
    assert np.all(ratio[AugmentedHinge] < 0.7)


def test_belief_has_the_moments_it_was_given():
    problem = inducing_problem(12, 4)
    draws = sample(problem, rng=np.random.default_rng(7), n_draws=3000, burn_in=100)
    root = draws.belief.root
    assert_allclose(root, np.tril(root))
    assert np.all(np.diag(root) > 0)
    assert_allclose(float(draws.belief.log_det), np.linalg.slogdet(draws.belief.covariance)[1])
    # Entries of a covariance scatter by about sd sd' / sqrt(n_effective): five of those.
    sd = np.sqrt(draws.belief.variances)
    away = (draws.belief.covariance - np.cov(draws.weights.T)) / np.outer(sd, sd)
    assert np.abs(away).max() < ERRORS / np.sqrt(draws.n_effective)


# Leaving out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "inducing"])
def test_left_out_moments_equal_those_of_brute_force_without_the_row(kind):
    if kind == "linear":
        X, y = two_columns(8, seed=3)
        problem = linear_problem(X, y, np.array([1.0, 1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0]))
    else:
        problem = inducing_problem(8, 2)
    draws = sample(problem, rng=np.random.default_rng(8), n_draws=8000, burn_in=200)
    phi, leftover = problem.rows.lift(problem.table.X)
    weight = problem.table.weight
    assert draws.left_out.usable.all()
    for i, row in enumerate(phi):
        kept = weight - np.where(np.arange(8) == i, np.minimum(weight, 1), 0)
        mean, covariance = true_moments(problem, kept)
        mu, v = row @ mean, row @ covariance @ row + leftover[i]
        # Only the spread of the conditional means is left to chance: at worst all of it, over the 800 draws or more
        # that 8000 of either chain are worth; twice that share for a variance of tails a little heavier than normal.
        assert abs(draws.left_out.mu[i] - mu) < ERRORS * np.sqrt(v / 800)
        assert abs(draws.left_out.v[i] / v - 1) < ERRORS * np.sqrt(4 / 800)
    assert draws.n_effective > 800
    change = np.abs(phi @ draws.belief.mean - draws.left_out.mu) / np.sqrt(draws.left_out.v)
    assert change.max() > 0.4  # leaving out makes a difference that would not pass for an error


def test_units_say_how_much_of_a_row_to_leave_out():
    X, y = two_columns(8, seed=3)
    problem = linear_problem(X, y, np.full(8, 2.0))
    whole, none = (
        sample(problem, rng=np.random.default_rng(9), n_draws=4000, burn_in=100, unit=np.full(8, unit))
        for unit in (2.0, 0.0)
    )
    f = X @ none.weights.T
    # Nothing left out leaves the posterior itself; both averages scatter as the draws do, worth at least 500.
    assert none.n_effective > 500
    assert np.all(np.abs(none.left_out.mu - f.mean(axis=1)) < ERRORS * f.std(axis=1) * np.sqrt(2 / 500))
    assert_allclose(none.left_out.v, f.var(axis=1), rtol=ERRORS * np.sqrt(4 / 500))
    assert np.all(y * whole.left_out.mu <= y * none.left_out.mu + 1e-3)
    assert np.sum(y * whole.left_out.mu < y * none.left_out.mu - 0.05) >= 5  # rows far beyond the margin hardly matter


@pytest.mark.parametrize("k", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("v", [1e-30, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("mu", [-4.0, 0.9, 6.0])
def test_moments_of_a_gaussian_times_a_hinge_equal_quadrature(mu, v, k):
    y, kinks = -1.0, (-1.0,)

    def moment(power):
        def function(f):
            return (f - mu) ** power * np.exp(-2 * k * np.maximum(0, 1 - y * f))

        return references.normal_expectation(function, mu, v, kinks)

    got = hinged(np.array([y]), np.array([mu]), np.array([v]), np.array([k]))
    total, first, second = moment(0), moment(1), moment(2)
    assert_allclose(got.log_total[0], np.log(total), rtol=1e-8, atol=1e-9)
    assert_allclose(got.mean[0], mu + first / total, rtol=1e-7)
    # The formula takes differences of terms of order v, and v below 1e-24 counts as that.
    assert_allclose(got.variance[0], second / total - (first / total) ** 2, rtol=1e-6, atol=1e-9 * v + 1e-20)


def test_a_draw_that_pins_a_row_to_its_margin_is_passed_over():
    latent = Latent(np.array([1.0, 0.5]), np.array([1e-12, 0.5]), np.zeros(2))
    y, c, t = np.ones(2), np.ones(2), np.array([1e12, 1.0])
    log_r, mean, variance = gibbs.without_rows(latent, y, c, t, np.ones(2), 2.2e-16)
    assert log_r[0] == -1e300
    assert np.isfinite([mean, variance]).all()
    # The other: w = 1, b = 2, so (mu - a b)/(1 - w a) = -1 and a/(1 - w a) = 1.
    assert_allclose([mean[1], variance[1]], [-1.0, 1.0])
    assert_allclose(log_r[1], -hinged(np.ones(1), mean[1:], variance[1:], np.ones(1)).log_total[0])


def test_running_moments_survive_weights_of_any_size(rng):
    mean, variance = 1e3 + rng.normal(size=(500, 3)), rng.gamma(1.0, size=(500, 3))
    log_r = np.array([1.0, 30.0, 1e4]) * rng.normal(size=(500, 3))
    log_r[0] = -1e300  # passed over
    tilted = gibbs._Tilted.nothing(3)
    for row in zip(log_r, mean, variance, strict=True):
        tilted = tilted.plus(gibbs.Without(*row))
    r = np.exp(log_r - log_r.max(axis=0))
    r /= r.sum(axis=0)
    mu = np.sum(r * mean, axis=0)
    left_out = tilted.left_out(500)
    assert_allclose(left_out.mu, mu, rtol=1e-12)
    assert_allclose(left_out.v, np.sum(r * (variance + (mean - mu) ** 2), axis=0), rtol=1e-9)
    assert_allclose(tilted.total**2 / tilted.total_square, 1 / np.sum(r**2, axis=0))
    assert left_out.usable.tolist() == [True, False, False]
    nothing = gibbs._Tilted.nothing(2).left_out(0)
    assert np.isfinite([nothing.mu, nothing.v]).all()
    assert not nothing.usable.any()


# How it runs ---------------------------------------------------------------------------------------


def few(problem, **settings):
    settings = {"rng": np.random.default_rng(0), "n_draws": 30, "burn_in": 10} | settings
    return sample(problem, **settings)


def test_threads_and_libraries_draw_the_same():
    X, y = two_columns(40)
    alone = few(linear_problem(X, y, np.ones(40), block_rows=9))
    threads = few(linear_problem(X, y, np.ones(40), block_rows=9, n_jobs=3))
    assert_allclose(threads.weights, alone.weights, rtol=1e-12)
    tensors = few(linear_problem(torch.from_numpy(X), torch.from_numpy(y), torch.ones(40).double(), block_rows=9))
    assert isinstance(tensors.belief.mean, torch.Tensor)
    assert_allclose(tensors.weights, alone.weights, rtol=1e-7)
    assert_allclose(tensors.belief.covariance, alone.belief.covariance, rtol=1e-7)
    assert isinstance(tensors.left_out.mu, np.ndarray)


def test_single_precision_draws_from_the_same_posterior():
    X, y = two_columns(40)
    rows = InducingRows.at(2.0 * RBF(0.5), X.astype(np.float32))
    problem = Problem(Table(X.astype(np.float32), y, np.ones(40), 1000), rows, Hinge(), Ridge.isotropic(40))
    narrow = few(problem, n_draws=500)
    wide = Problem(Table(X, y, np.ones(40), 1000), InducingRows.at(2.0 * RBF(0.5), X), Hinge(), Ridge.isotropic(40))
    other = few(wide, n_draws=500)
    one, two = (p.rows.lift(X).moments(d.belief).mu for p, d in ((problem, narrow), (wide, other)))
    # Streams part after a few draws: 500 of them, worth some 150, leave errors of sd / sqrt(75) in a difference.
    assert np.abs(one - two).max() < ERRORS * np.sqrt(2.0 / 75)


def test_a_seed_decides_all_and_a_start_is_begun_from():
    problem = inducing_problem(20, 5)
    one, same, other = (few(problem, rng=np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert_allclose(one.weights, same.weights, rtol=0)
    assert not np.allclose(one.weights, other.weights)
    start = from_natural(1e6 * np.eye(5), 1e6 * np.full(5, 3.0))
    near = few(problem, n_draws=1, burn_in=0, start=start)
    # After one turn from u = 3 the rows pull back, but not to where the prior begins.
    assert np.abs(near.weights[0] - 3).max() < 6
    assert np.isfinite(near.belief.covariance).all()


@pytest.mark.parametrize(("stopped_at", "n_kept"), [(3, 2), (11, 2), (18, 7)])
def test_an_interrupt_keeps_the_draws_so_far(stopped_at, n_kept):
    impatient = Mock(Monitor, out_of_time=False)
    impatient.record.side_effect = [None] * (stopped_at - 1) + [KeyboardInterrupt]
    draws = few(inducing_problem(20, 5), monitor=impatient)
    assert draws.reason == "interrupt"
    assert len(draws.weights) == len(draws.hypers) == n_kept
    assert np.isfinite(draws.belief.root).all()
    assert not draws.left_out.usable.any()  # too few draws to leave anything out


def test_time_ends_it_with_at_least_two_draws():
    draws = few(inducing_problem(20, 5), monitor=Monitor(max_time=0.0))
    assert (draws.reason, len(draws.weights)) == ("time", 2)
    monitor = Monitor(max_time=0.05)
    draws = few(inducing_problem(20, 5), monitor=monitor, n_draws=10**6)
    assert draws.reason == "time"
    assert len(draws.weights) == len(monitor.history) - 10
    assert monitor.history[-1]["seconds"] < 1
    # What is told of a draw is the log-likelihood of its latent values.
    assert all(entry["accepted"] and -200 < entry["objective"] <= 0 for entry in monitor.history)


def test_only_hinges_and_sensible_numbers():
    problem = inducing_problem(5, 3)
    for numbers in ({"n_draws": 0}, {"burn_in": -1}):
        with pytest.raises(ValueError, match="n_draws must be positive"):
            few(problem, **numbers)
    problem.likelihood = JaakkolaJordan()
    with pytest.raises(TypeError, match="Only the hinge"):
        few(problem)


@pytest.mark.parametrize("rho", [0.0, 0.6, 0.95])
def test_effective_draws_of_a_process_that_is_known(rho, rng):
    noise = rng.normal(size=(20_000, 4))
    chain = np.empty_like(noise)
    chain[0] = noise[0]
    for k in range(1, len(noise)):
        chain[k] = rho * chain[k - 1] + np.sqrt(1 - rho**2) * noise[k]
    worth = effective_draws(chain)
    # An AR(1) chain is worth (1 - rho)/(1 + rho) of its length; at rho = .95 that leaves 500 draws to tell it by.
    assert_allclose(worth, 20_000 * (1 - rho) / (1 + rho), rtol=0.25)


def test_effective_draws_of_chains_that_are_hardly_any():
    assert_allclose(effective_draws(np.ones((50, 2))), 1)
    assert_allclose(effective_draws(np.array([[1.0], [2.0]])), 2)
    assert_allclose(effective_draws(np.array([[1.0]])), 1)
    # Draws that alternate are worth more than independent ones for a mean; no more is claimed than there are.
    assert_allclose(effective_draws(np.tile([[1.0], [-1.0]], (100, 1))), 200)
