"""The sampler: the posteriors that it draws from, and how it runs."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import invgamma, kstest

import references
from references_gibbs import ERRORS, agrees, inducing_problem, linear_problem, true_moments, two_columns
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.gaussian import from_natural
from softmargin.gibbs import chain, sample
from softmargin.gibbs.chain import Chain, ChainData
from softmargin.kernels import RBF
from softmargin.likelihoods import LOSSES, AugmentedHinge, Hinge, Probit, Quadrature
from softmargin.monitor import Monitor
from softmargin.priors import Ridge, VarianceComponents
from softmargin.rows import InducingRows
from softmargin.steps import ascend

# The posterior -------------------------------------------------------------------------------------


def test_linear_model_equals_brute_force_whatever_the_weights():
    X, y = two_columns(10)
    problem = linear_problem(X, y, np.array([1.0, 0.0, 3.0, 0.4, 1.0, 1.0, 2.5, 1.0, 0.0, 7.0]))
    draws = sample(problem, rng=np.random.default_rng(1), n_draws=6000, warm_up=200)
    assert draws.reason == "draws"
    assert draws.weights.shape == (6000, 2)
    assert 300 < draws.n_effective <= 6000
    assert draws.r_hat < 1.02
    agrees(draws.chains, *true_moments(problem), draws.belief)


def test_process_at_its_rows_equals_brute_force():
    problem = inducing_problem(3, 3)
    draws = sample(problem, rng=np.random.default_rng(2), n_draws=6000, warm_up=200)
    agrees(draws.chains, *true_moments(problem, n_points=121), draws.belief)


def test_process_with_independent_leftovers_equals_brute_force():
    problem = inducing_problem(12, 2)
    assert np.median(problem.rows.lift(problem.table.X).leftover) > 0.5
    draws = sample(problem, rng=np.random.default_rng(3), n_draws=6000, warm_up=200)
    agrees(draws.chains, *true_moments(problem), draws.belief)


@pytest.mark.parametrize("loss", ["logistic", "logistic-jj"])
def test_logistic_model_equals_brute_force_whatever_the_weights(loss):
    pytest.importorskip("polyagamma")
    X, y = two_columns(10)
    weight = np.array([1.0, 0.0, 3.0, 0.4, 1.0, 1e-4, 2.5, 1.0, 0.0, 7.0])
    problem = linear_problem(X, y, weight, likelihood=LOSSES[loss])
    draws = sample(problem, rng=np.random.default_rng(1), n_draws=1500, warm_up=100, n_chains=4)
    agrees(draws.chains, *true_moments(problem), draws.belief)


def test_logistic_process_with_independent_leftovers_equals_brute_force():
    pytest.importorskip("polyagamma")
    problem = inducing_problem(12, 1, likelihood=LOSSES["logistic"])
    draws = sample(problem, rng=np.random.default_rng(3), n_draws=4000, warm_up=200)
    agrees(draws.chains, *true_moments(problem, n_points=801), draws.belief)


def test_inferred_variance_equals_brute_force():
    X, y = two_columns(12)
    prior = VarianceComponents(np.array([0, -1]), shape=4.0, rate=3.0, loose=0.3)
    problem = linear_problem(X, y, np.ones(12), prior)
    draws = sample(problem, rng=np.random.default_rng(4), n_draws=4000, warm_up=200, n_chains=2)
    likelihood = references.hinge_log_posterior(X, np.zeros(12), y, np.ones(12), np.diag([0.0, 0.3]))

    def log_density(points):  # (u_1, u_2, log sigma^2), with the Jacobian of the logarithm
        u, log_variance = points[:, :2], points[:, 2]
        normal = -0.5 * (log_variance + u[:, 0] ** 2 * np.exp(-log_variance))
        return likelihood(u) + normal - 4.0 * log_variance - 3.0 * np.exp(-log_variance)

    mean, covariance = references.grid_moments(log_density, [(-5, 8), (-6, 6), (-3, 5)], 121)
    log_variances = -np.log(draws.hypers.mean_precision)
    assert log_variances.shape == (2, 4000, 1)
    agrees(np.concatenate([draws.chains, log_variances], axis=2), mean, covariance)
    agrees(draws.chains, mean[:2], covariance[:2, :2], draws.belief)
    assert_allclose(1 / draws.belief.hyper.mean_precision, np.exp(log_variances).mean(axis=(0, 1)))
    assert_allclose(draws.hyper(4001).mean_precision, draws.hypers.mean_precision[1, 1])


def test_weights_and_variances_are_drawn_in_turn(rng):
    prior = VarianceComponents(np.array([0, 1, -1, 1]), shape=2.0, rate=0.5)
    belief = from_natural(1e12 * np.eye(4), 1e12 * np.array([1.0, 2.0, 50.0, -1.0]), prior.begin())
    drawn = [prior.drawn(None, None, belief, rng) for _ in range(2000)]
    assert_allclose([weights for weights, _ in drawn], np.tile(belief.mean, (2000, 1)), atol=1e-5)
    variances = np.array([1 / hyper.mean_precision for _, hyper in drawn])
    assert kstest(variances[:, 0], invgamma(2.0 + 1 / 2, scale=0.5 + 1 / 2).cdf).pvalue > 1e-3
    assert kstest(variances[:, 1], invgamma(2.0 + 2 / 2, scale=0.5 + 5 / 2).cdf).pvalue > 1e-3
    weights, hyper = Ridge.isotropic(4).drawn(None, None, belief, rng)
    assert hyper is None
    assert Ridge.isotropic(4).seen_weights(weights, None) is weights
    assert prior.seen_weights(weights, prior.begin()) is weights


def test_weight_k_equals_k_copies():
    X, y = two_columns(6)
    k = np.array([1, 2, 1, 3, 1, 2])
    weighted, repeated = linear_problem(X, y, 1.0 * k), linear_problem(np.repeat(X, k, 0), np.repeat(y, k), np.ones(10))
    mean, covariance = true_moments(weighted)
    assert_allclose(true_moments(repeated)[1], covariance, rtol=1e-9)
    for problem in (weighted, repeated):
        draws = sample(problem, rng=np.random.default_rng(5), n_draws=5000, warm_up=200)
        agrees(draws.chains, mean, covariance, draws.belief)


def test_variational_means_agree_and_only_the_exact_deviations_do():
    X, y = two_columns(60)
    problem = linear_problem(X, y, np.ones(60))
    draws = sample(problem, rng=np.random.default_rng(6), n_draws=4000, warm_up=200)
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
    draws = sample(problem, rng=np.random.default_rng(7), n_draws=3000, warm_up=100)
    root = draws.belief.root
    assert_allclose(root, np.tril(root))
    assert np.all(np.diag(root) > 0)
    assert_allclose(float(draws.belief.log_det), np.linalg.slogdet(draws.belief.covariance)[1])
    # Entries of a covariance scatter by about sd sd' / sqrt(n_effective): five of those.
    sd = np.sqrt(draws.belief.variances)
    away = (draws.belief.covariance - np.cov(draws.weights.T)) / np.outer(sd, sd)
    assert np.abs(away).max() < ERRORS / np.sqrt(draws.n_effective)
    assert draws.seen is draws.belief


# Leaving out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "loss"), [("linear", "hinge"), ("inducing", "hinge"), ("linear", "logistic")])
def test_left_out_moments_equal_those_of_brute_force_without_the_row(kind, loss):
    if loss == "logistic":
        pytest.importorskip("polyagamma")
    if kind == "linear":
        X, y = two_columns(8, seed=3)
        weight = np.array([1.0, 1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0])
        problem = linear_problem(X, y, weight, likelihood=LOSSES[loss])
    else:
        problem = inducing_problem(8, 2)
    draws = sample(problem, rng=np.random.default_rng(8), n_draws=4000, warm_up=200, n_chains=2)
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
    assert change.max() > 0.3  # leaving out makes a difference that would not pass for an error


def test_units_say_how_much_of_a_row_to_leave_out():
    X, y = two_columns(8, seed=3)
    problem = linear_problem(X, y, np.full(8, 2.0))
    whole, none = (
        sample(problem, rng=np.random.default_rng(9), n_draws=4000, warm_up=100, unit=np.full(8, unit))
        for unit in (2.0, 0.0)
    )
    f = X @ none.weights.T
    # Nothing left out leaves the posterior itself; both averages scatter as the draws do, worth at least 500.
    assert none.n_effective > 500
    assert np.all(np.abs(none.left_out.mu - f.mean(axis=1)) < ERRORS * f.std(axis=1) * np.sqrt(2 / 500))
    assert_allclose(none.left_out.v, f.var(axis=1), rtol=ERRORS * np.sqrt(4 / 500))
    assert np.all(y * whole.left_out.mu <= y * none.left_out.mu + 1e-3)
    assert np.sum(y * whole.left_out.mu < y * none.left_out.mu - 0.05) >= 5  # rows far beyond the margin hardly matter


# How it runs ---------------------------------------------------------------------------------------


def few(problem, **settings):
    settings = {"rng": np.random.default_rng(0), "n_draws": 30, "warm_up": 10} | settings
    return sample(problem, **settings)


@pytest.mark.parametrize("block_rows", [9, 40])
def test_threads_and_libraries_draw_the_same(block_rows, monkeypatch):
    monkeypatch.setattr(chain, "_WORTH_A_THREAD", 0)
    X, y = two_columns(40)
    alone = few(linear_problem(X, y, np.ones(40), block_rows=block_rows), n_chains=3)
    threads = few(linear_problem(X, y, np.ones(40), block_rows=block_rows, n_jobs=3), n_chains=3)
    assert_array_equal(threads.chains, alone.chains)
    assert_array_equal(threads.left_out.mu, alone.left_out.mu)
    assert_array_equal(threads.belief.root, alone.belief.root)
    alone = few(linear_problem(X, y, np.ones(40), block_rows=9))
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
    near = few(problem, n_draws=1, warm_up=0, starts=start)
    # After one turn from u = 3 the rows pull back, but not to where the prior begins.
    assert np.abs(near.weights[0] - 3).max() < 6
    assert np.isfinite(near.belief.covariance).all()


def test_chains_are_independent_of_each_other_and_of_their_number():
    problem = inducing_problem(20, 5)
    one, three = few(problem), few(problem, n_chains=3)
    assert three.chains.shape == (3, 30, 5)
    assert_array_equal(three.chains[0], one.chains[0])
    assert_array_equal(three.weights, three.chains.reshape(90, 5))
    assert three.seen_chains is three.chains
    assert_array_equal(three.seen_weights, three.weights)
    many = few(problem, n_chains=4, n_draws=400).chains
    # Correlations of 400 pairs that are worth a tenth of that: of deviation 1/sqrt(40) = 0.16.
    for other in range(1, 4):
        assert np.abs([np.corrcoef(many[0, :, k], many[other, :, k])[0, 1] for k in range(5)]).max() < 0.6


def test_thinning_keeps_the_last_of_so_many_turns_and_warm_up_none():
    problem = inducing_problem(20, 5)
    whole = few(problem, n_draws=40, warm_up=0)
    assert_array_equal(few(problem, n_draws=10, warm_up=0, thin=4).chains, whole.chains[:, 3::4])
    assert_array_equal(few(problem, n_draws=25, warm_up=15).chains, whole.chains[:, 15:])
    monitor = Monitor()
    few(problem, n_draws=10, warm_up=3, thin=4, n_chains=2, monitor=monitor)
    assert len(monitor.history) == 43
    # What is left of a row by the same turns does not depend on how many of them are kept.
    assert_array_equal(few(problem, n_draws=10, warm_up=0, thin=4).left_out.mu, whole.left_out.mu)


def test_starts_are_far_apart_and_may_be_given_one_by_one():
    problem = inducing_problem(4, 3)
    problem.table = problem.table._replace(weight=np.zeros(4))  # the rows say nothing: sites stay those of a start
    belief = from_natural(np.eye(3), np.zeros(3))
    seen = [Chain(ChainData.of(problem, None), belief, np.random.default_rng(seed))._seen for seed in range(2000)]
    assert_allclose(np.std(seen, axis=0), 2, rtol=5 / np.sqrt(2 * 2000))
    problem = linear_problem(*two_columns(10), np.ones(10), Ridge(np.full(2, 1e-12)))
    there = [from_natural(1e8 * np.eye(2), 1e8 * np.array(u)) for u in ([1e6, 0.0], [-1e6, 0.0])]
    first = few(problem, n_draws=1, warm_up=0, n_chains=2, starts=there).chains[:, 0]
    assert np.abs(first[0] - first[1]).max() > 1e3
    with pytest.raises(ValueError, match="one belief for each of 3 chains, got 2"):
        few(problem, n_chains=3, starts=there)


def test_chains_that_are_stuck_apart_are_told():
    """A million copies of a row hold a chain for a long time where it began."""
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.ones(2)
    problem = linear_problem(X, y, np.full(2, 1e7), Ridge(np.full(2, 1e-4)))
    there = [from_natural(1e10 * np.eye(2), 1e10 * np.array(u)) for u in ([1e5, 1e5], [2e5, 2e5])]
    stuck = few(problem, n_draws=100, n_chains=2, starts=there)
    assert stuck.r_hat > 1.1
    assert stuck.n_effective < 20
    free = few(linear_problem(*two_columns(10), np.ones(10)), n_draws=400, n_chains=4)
    assert free.r_hat < 1.1
    assert free.n_effective > 50


@pytest.mark.parametrize(("stopped_at", "n_kept"), [(3, 2), (11, 2), (18, 7)])
def test_an_interrupt_keeps_the_draws_so_far(stopped_at, n_kept):
    impatient = Mock(Monitor, out_of_time=False)
    impatient.record.side_effect = [None] * (stopped_at - 1) + [KeyboardInterrupt]
    draws = few(inducing_problem(20, 5), monitor=impatient, n_chains=3)
    assert draws.reason == "interrupt"
    assert draws.chains.shape == (3, n_kept, 5)
    assert draws.log_likelihood.shape == (3, n_kept)
    assert draws.hypers is None
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


def test_only_what_can_be_drawn_and_sensible_numbers():
    problem = inducing_problem(5, 3)
    for numbers in ({"n_draws": 0}, {"warm_up": -1}, {"thin": 0}, {"n_chains": 0}):
        with pytest.raises(ValueError, match="must be positive and warm_up not negative"):
            few(problem, **numbers)
    problem.likelihood = Quadrature(Probit())
    with pytest.raises(TypeError, match="available for the hinge and the logistic likelihood only"):
        few(problem)
