"""Weights that are chosen: zero, or Laplace."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import bernoulli, beta, invgamma, invgauss

import references_structured as naive
from softmargin.gaussian import Belief, from_natural
from softmargin.priors import LaplaceZero, Ridge, Structured
from softmargin.priors.selection import Selection, _two_sides
from softmargin.priors.variance import InverseGamma

CHOSEN = {
    "a share given": LaplaceZero(3, 1, 0.3, 2.0, 1.5, 0.2),
    "a share inferred": LaplaceZero(3, 1, None, 2.0, 1.5, 0.2),
    "nothing loose": LaplaceZero(3, 0, 0.7, 2.0, 1.5),
}


@pytest.fixture(params=CHOSEN)
def chosen(request) -> LaplaceZero:
    return CHOSEN[request.param]


def some_selection(prior: LaplaceZero) -> Selection:
    """A belief that is nowhere special."""
    n = prior.n_columns
    odds, log_odds = prior._odds(np.linspace(0.2, 0.7, n))
    variance = InverseGamma(np.array([2.7]), np.array([1.9]))
    return Selection(np.linspace(0.9, 0.25, n), np.linspace(0.5, 2, n), variance, odds, log_odds)


def test_divergence_of_selected_weights_equals_monte_carlo(chosen, rng):
    prior, hyper, n = Structured(chosen), some_selection(chosen), 100_000
    m = chosen.n_columns
    belief = prior.given(*naive.some_sums(m + chosen.n_loose, rng), prior._begin()._replace(fixed=hyper))
    u = rng.multivariate_normal(belief.mean, belief.covariance, size=n)
    sigma2 = 1.9 / rng.gamma(2.7, size=n)
    b, gamma = rng.wald(hyper.b, 1.0, size=(n, m)), rng.random((n, m)) < hyper.included
    ratio = naive.log_normal(u, belief.mean, belief.covariance) + invgamma.logpdf(sigma2, 2.7, scale=1.9)
    ratio += np.sum(invgauss.logpdf(b, hyper.b) + bernoulli.logpmf(gamma, hyper.included), axis=1)
    share = np.full(n, chosen.rho)
    if chosen.rho is None:
        share = rng.beta(*hyper.odds, size=n)
        ratio += beta.logpdf(share, *hyper.odds) - beta.logpdf(share, 1, 3)
    precision = np.hstack([b / sigma2[:, None], np.full((n, chosen.n_loose), chosen.loose)])
    ratio -= 0.5 * np.sum(np.log(precision / (2 * np.pi)) - precision * u**2, axis=1)
    ratio -= np.sum(invgamma.logpdf(b, 1, scale=0.5), axis=1) + invgamma.logpdf(sigma2, 2.0, scale=1.5)
    ratio -= np.sum(np.where(gamma, np.log(share)[:, None], np.log1p(-share)[:, None]), axis=1)
    naive.agrees(ratio, float(prior.kl(belief)), 0.03)


def test_moments_of_chosen_weights_equal_monte_carlo(chosen, rng):
    prior = Structured(chosen)
    hyper, n = prior._begin()._replace(fixed=some_selection(chosen)), 50_000
    belief = prior.given(*naive.some_sums(3 + chosen.n_loose, rng), hyper)
    included = np.append(hyper.fixed.included, np.ones(chosen.n_loose))
    u = rng.multivariate_normal(belief.mean, belief.covariance, size=n) * (rng.random((n, len(included))) < included)
    seen = prior.effective(belief)
    naive.agrees(u, seen.mean)
    naive.agrees(np.einsum("na,nb->nab", u, u), seen.covariance + np.outer(seen.mean, seen.mean))
    assert_allclose(seen.root, np.tril(seen.root))
    assert seen.hyper is belief.hyper


def test_nearly_certain_weights_have_a_root():
    prior = Structured(LaplaceZero(3, 1))
    fixed = some_selection(LaplaceZero(3, 1))._replace(included=np.array([1 - 1e-12, 1e-12, 0.0]))
    belief = from_natural(np.diag([1e20, 1e-8, 1.0, 3.0]), np.ones(4), prior._begin()._replace(fixed=fixed))
    seen = prior.effective(belief)
    assert np.isfinite(seen.root).all()
    assert_allclose(np.sqrt(seen.variances[[0, 3]]), [1e-10, 3**-0.5], rtol=1e-5)


# Choice ---------------------------------------------------------------------------------------------------------


def with_inclusion(belief: Belief, included) -> Belief:
    fixed = belief.hyper.fixed._replace(included=np.array(included))
    return belief._replace(hyper=belief.hyper._replace(fixed=fixed))


def rechoose(prior, belief, G, h, turns=1):
    """The same weights with inclusion variables chosen for them, so many times."""
    moments = prior._moments(belief)
    for _ in range(turns):
        belief = belief._replace(hyper=prior._chosen(belief.hyper, G, h, belief, moments))
    return belief


def test_inclusion_variables_rest_where_the_objective_is_level(chosen, rng):
    prior = Structured(chosen)
    G, h = naive.some_sums(3 + chosen.n_loose, rng)
    G, h = 0.3 * G, 0.15 * h  # so that there is doubt
    hyper = prior._begin()._replace(fixed=some_selection(chosen))
    belief = rechoose(prior, prior.given(G, h, hyper), G, h, turns=20)
    included = belief.hyper.fixed.included
    assert np.any((included > 0.05) & (included < 0.95))
    step = 1e-4
    for k in range(3):
        slopes = []
        for way in (-step, step):
            bent = included.copy()
            bent[k] = expit(logit(bent[k]) + way)
            slopes.append(naive.fixed_site_objective(prior, with_inclusion(belief, bent), G, h))
        # Level to the sweeps' tolerance, and lower on either side.
        assert abs(slopes[1] - slopes[0]) / (2 * step) < 1e-5
        assert max(slopes) <= naive.fixed_site_objective(prior, belief, G, h) + 1e-9
        for p in (0.02, 0.5, 0.98):
            bent = included.copy()
            bent[k] = p
            assert naive.fixed_site_objective(prior, with_inclusion(belief, bent), G, h) <= (
                naive.fixed_site_objective(prior, belief, G, h) + 1e-9
            )


def test_choosing_never_lowers_the_objective(rng):
    prior = Structured(LaplaceZero(60, 1, 0.1))
    G, h = naive.some_sums(61, rng)
    h = h * (rng.random(61) < 0.2) * 0.2
    belief = prior.given(G, h, prior._begin())
    for _ in range(40):
        before, belief = belief, rechoose(prior, belief, G, h)
        assert (
            naive.fixed_site_objective(prior, belief, G, h) >= naive.fixed_site_objective(prior, before, G, h) - 1e-10
        )
    assert np.sum(belief.hyper.fixed.included < 0.5) > 20


def test_of_useless_columns_the_worst_leave_first():
    """Columns that have nothing to do with each other, each less useful than the one before."""
    n = 60
    prior = Structured(LaplaceZero(n, 0, 0.1))
    G, h = 20 * np.eye(n), np.linspace(0.5, 0, n)
    belief = prior.given(G, h, prior._begin())
    for turn in range(1, 5):
        belief = rechoose(prior, belief, G, h)
        # One in fifty columns, rounded up.
        assert np.flatnonzero(belief.hyper.fixed.included < 0.5).tolist() == list(range(n - 2 * turn, n))


def test_of_columns_that_exclude_each_other_the_best_comes_first(rng):
    """Whatever is asked first would be in and keep the others out."""
    n = 6
    prior = LaplaceZero(n, 0, 0.5)
    hyper = prior.begin()._replace(included=np.full(n, 1e-12))
    G, pull = np.full((n, n), 20.0) - 19.0 * np.eye(n), np.array([3.0, 3.5, 5.0, 4.0, 4.5, 2.0])
    for _ in range(5):
        order = rng.permutation(n)
        found = prior.chosen(hyper, G, pull[order], np.ones((n, n)))
        assert np.flatnonzero(found.included > 0.5).tolist() == np.flatnonzero(order == 2).tolist()


@pytest.mark.parametrize("rho", [0.1, None])
def test_the_order_of_columns_does_not_matter(rho, rng):
    n = 12
    prior = Structured(LaplaceZero(n, 1, rho))
    A = rng.normal(size=(40, n + 1)) + rng.normal(size=(40, 1)) * (np.arange(n + 1) < n)
    G, h = A.T @ A, A.T @ (A[:, :3] @ [1.0, -1.0, 1.0] + 0.5 * rng.normal(size=40))
    wanted = prior.update(G, h)  # of columns that say the same, so that order might matter
    assert rho is None or 0 < np.sum(wanted.hyper.fixed.included > 0.5) < n
    for _ in range(4):
        order = np.append(rng.permutation(n), n)
        found = prior.update(*naive.permuted(G, h, order))
        assert_allclose(found.mean, wanted.mean[order], atol=1e-8)
        assert_allclose(found.covariance, wanted.covariance[np.ix_(order, order)], atol=1e-8)
        assert_allclose(found.hyper.fixed.included, wanted.hyper.fixed.included[order[:n]], atol=1e-8)
        assert_allclose(found.hyper.fixed.b, wanted.hyper.fixed.b[order[:n]], rtol=1e-8)


def test_held_columns_stay_in(rng):
    prior = Structured(LaplaceZero(3, 1, 0.01))
    rough = prior.rough()
    assert rough is not None
    belief = rough.update(*naive.some_sums(4, rng, noise=0.0))
    assert np.all(belief.hyper.fixed.included > 1 - 1e-9)
    assert Structured(Ridge(np.ones(2))).rough() is None


def test_what_is_learned_of_selected_weights_is_the_best(chosen, rng):
    prior = Structured(chosen)
    G, h = naive.some_sums(3 + chosen.n_loose, rng)
    belief = prior.given(G, h, prior._begin()._replace(fixed=some_selection(chosen)))
    before = belief.hyper.fixed
    after = chosen.learned(belief.mean, belief.variances, before)

    def value(fixed):
        return naive.fixed_site_objective(prior, belief._replace(hyper=belief.hyper._replace(fixed=fixed)), G, h)

    with_b, with_variance = before._replace(b=after.b), before._replace(b=after.b, variance=after.variance)
    last = with_variance._replace(odds=after.odds, log_odds=after.log_odds)
    assert value(last) >= value(with_variance) >= value(with_b) >= value(before)
    for size in (1e-3, 0.1):
        for sign in (-1, 1):
            for k in range(3):
                bump = np.exp(sign * size * (np.arange(3) == k))
                assert value(with_b._replace(b=after.b * bump)) < value(with_b)
            for part in range(2):
                bent = [p * np.exp(sign * size * (i == part)) for i, p in enumerate(after.variance)]
                assert value(with_variance._replace(variance=InverseGamma(*bent))) < value(with_variance)
            if chosen.rho is None:
                for part in range(2):
                    odds = after.odds * np.exp(sign * size * (np.arange(2) == part))
                    log_odds = naive.mean_log_beta(odds)
                    assert value(last._replace(odds=odds, log_odds=log_odds)) < value(last)
    if chosen.rho is None:
        assert_allclose(after.odds, [1 + before.included.sum(), 3 + (1 - before.included).sum()])
    else:
        assert_allclose(after.log_odds, [np.log(chosen.rho), np.log(1 - chosen.rho)])


def test_odds_of_a_column_have_its_weight_integrated_out(rng):
    prior = LaplaceZero(4, 1, 0.2)
    G, h = naive.some_sums(5, rng)
    hyper = prior.begin()._replace(variance=InverseGamma(np.array([3.0]), np.array([1.5])))
    seen, sigma = np.array([0.4, 0.1, 0.0, 0.0, -0.3]), 0.5**0.5
    found = prior.odds_alone(hyper, G, 0.4 * h, seen)
    for k in range(4):
        r = 0.4 * h[k] - sum(G[k, j] * seen[j] for j in range(5) if j != k)

        def density(v, r=r, g=G[k, k]):
            return np.exp(r * v - g * v**2 / 2 - abs(v) / sigma) / (2 * sigma)

        mass = quad(density, -10, 0, points=[-1, -0.1])[0] + quad(density, 0, 10, points=[0.1, 1])[0]
        assert_allclose(found[k], np.log(0.25 * mass), rtol=1e-7)


def test_a_column_that_was_dropped_is_the_first_to_be_asked_again(rng):
    prior = Structured(LaplaceZero(3, 1, 0.02))
    A = rng.normal(size=(200, 4))
    G, h = A.T @ A, A.T @ (A @ [2.0, 0, 0, 0.5] + rng.normal(size=200))
    belief = settled_at(prior, G, h)
    assert belief.hyper.fixed.included[0] > 0.99
    assert np.all(belief.hyper.fixed.included[1:] < 0.5)
    lost = with_inclusion(belief, [1e-12, 1e-12, 1e-12])
    first = prior.alternatives(G, h, lost)[0]
    assert_allclose(first.hyper.fixed.included, [1, 0, 0], atol=1e-11)
    again = settled_at(prior, G, h, first)
    assert_allclose(again.hyper.fixed.included, belief.hyper.fixed.included, atol=1e-5)
    assert_allclose(again.mean, belief.mean, atol=1e-5)


def test_alternatives_flip_one_column_each(rng):
    prior = Structured(LaplaceZero(6, 1, 0.3))
    G, h = naive.some_sums(7, rng)
    belief = with_inclusion(prior.update(G, h), [0.9, 1e-12, 1.0, 0.2, 0.99, 0.0])
    for other in prior.alternatives(G, h, belief):
        before, after = belief.hyper.fixed.included, other.hyper.fixed.included
        (column,) = np.flatnonzero(before != after)
        assert (before[column] > 0.5) != (after[column] > 0.5)
        assert min(after[column], 1 - after[column]) < 1e-11
    assert Structured(Ridge(np.ones(2))).alternatives(np.eye(2), np.ones(2), None) == []


def settled_at(prior, G, h, belief=None, n=40) -> Any:
    for _ in range(n):
        belief = prior.update(G, h, belief)
    return belief


# Draws ----------------------------------------------------------------------------------------------------------


def chosen_by_grid(G, h, rho, sigma, loose, n_points=241, half_width=6.0):
    """Moments of ``(gamma, gamma v)`` of two columns, and of a loose weight: all subsets, grids of their weights."""
    axis = np.linspace(-half_width, half_width, n_points)
    masses, moments = [], []
    for gamma in np.ndindex(2, 2):
        axes = [axis if inside else np.zeros(1) for inside in gamma]
        v = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
        width = (axis[1] - axis[0]) ** sum(gamma)
        log_p = v @ h[:2] - 0.5 * np.sum(v @ G[:2, :2] * v, axis=1)
        log_p -= np.sum(gamma * np.abs(v) / sigma, axis=1) + sum(gamma) * np.log(2 * sigma)
        log_p += sum(gamma) * np.log(rho) + (2 - sum(gamma)) * np.log(1 - rho)
        # The loose weight is normal given the others: of precision G_22 + loose, about r / (G_22 + loose).
        r, precision = h[2] - v @ G[:2, 2], G[2, 2] + loose
        p = np.exp(log_p + r**2 / (2 * precision)) * width
        masses.append(p.sum())
        functions = np.column_stack([np.tile(gamma, (len(v), 1)), v, v**2, v[:, 0] * v[:, 1], r / precision])
        moments.append(p @ functions)
    return np.sum(moments, axis=0) / np.sum(masses)


def test_draws_of_chosen_weights_have_the_moments_of_their_posterior(rng):
    """Weights, inclusion variables and scales drawn by turns; the variance and the share are all but known."""
    sigma, rho, loose = 0.7, 0.35, 0.4
    fixed = LaplaceZero(2, 1, rho, 1e9, 1e9 * sigma**2, loose)
    prior = Structured(fixed)
    G = np.array([[3.0, 2.0, 0.5], [2.0, 4.0, -0.6], [0.5, -0.6, 2.0]])
    h = np.array([1.4, 1.0, -1.2])
    wanted = chosen_by_grid(G, h, rho, sigma, loose)
    assert np.all((wanted[:2] > 0.1) & (wanted[:2] < 0.8))
    hyper = prior._begin()
    hyper = hyper._replace(fixed=hyper.fixed._replace(variance=InverseGamma(np.ones(1), np.full(1, sigma**2))))
    draws = []
    for _ in range(8000):
        weights, hyper = prior.drawn(G, h, prior.given(G, h, hyper), rng)
        u = prior.seen_weights(weights, hyper)
        gamma = hyper.fixed.included
        assert set(gamma) <= {0.0, 1.0}
        draws.append([*gamma, *u[:2], *u[:2] ** 2, u[0] * u[1], u[2]])
    naive.chain_agrees(np.array(draws), wanted)


def test_columns_without_entries_are_drawn_from_their_prior(rng):
    fixed = LaplaceZero(2, 0, 0.3)
    hyper = fixed.begin()._replace(variance=InverseGamma(np.ones(1), np.full(1, 0.25)))
    G, h, draws = np.diag([5.0, 0.0]), np.zeros(2), []
    with np.errstate(all="raise"):
        for _ in range(4000):
            v, drawn = fixed.rechosen(hyper, G, h, np.ones(2), rng)
            draws.append([drawn.included[1], abs(v[1])])
    naive.agrees(np.array(draws), [0.3, 0.5])


@pytest.mark.parametrize("side", [0.2, 0.8])
def test_tails_go_over_into_exponentials(side):
    """Where data say next to nothing, near and far from where the formulas change."""
    for place in (0.01, 0.5, 0.99):
        near, far = (_two_sides(0.2, precision, 0.7).drawn(side, place) for precision in (1e-5, 1e-7))
        assert_allclose(far, near, rtol=1e-4)
        assert (near > 0) == (side < 0.5)


def test_draws_of_scales_variance_and_share(rng):
    fixed = LaplaceZero(3, 1, None, 2.0, 1.5)
    weights = np.array([0.5, -1.2, 2.0, 99.0])
    before = fixed.begin()._replace(included=np.array([1.0, 0.0, 1.0]), variance=InverseGamma(np.ones(1), np.ones(1)))
    draws = [fixed.redrawn(weights, before, rng) for _ in range(6000)]
    v, b = np.abs(weights[:3]), np.array([draw.b for draw in draws])
    # Inverse Gaussian of mean 1/|v| and shape 1: E b = 1/|v|, E 1/b = |v| + 1.
    naive.agrees(b, 1 / v)
    naive.agrees(1 / b, v + 1)
    precision = np.array([draw.variance.mean_precision[0] for draw in draws])
    naive.agrees(precision * (1.5 + 0.5 * b @ v**2), 2.0 + 3 / 2)
    share = np.exp([draw.log_odds[0] for draw in draws])
    assert_allclose(share + np.exp([draw.log_odds[1] for draw in draws]), 1)
    naive.agrees(np.column_stack([share, share**2]), [3 / 7, 3 * 4 / (7 * 8)])  # Beta(3, 4)
    known = LaplaceZero(3, 1, 0.2).redrawn(weights, before, rng)
    assert_allclose(np.exp(known.log_odds), [0.2, 0.8])


def test_inclusion_begins_as_a_probability_that_can_change(chosen):
    included = chosen.begin().included
    assert np.all((included > 0.999) & (included < 1))


def test_a_column_that_flips_is_as_it_was_before_any_were_known(chosen):
    hyper, fresh = some_selection(chosen), chosen.begin()
    out, back = chosen.flipped(hyper, 0), chosen.flipped(hyper, 2)
    assert 0 < out.included[0] < 1e-6
    assert back.included[2] == fresh.included[2]
    assert out.b[0] == back.b[2] == fresh.b[0]
    assert_allclose(out.included[1:], hyper.included[1:])
    assert_allclose(out.b[1:], hyper.b[1:])


def test_of_twins_one_leaves_and_what_they_kept_out_comes_in():
    # Each is sure on its own, none beside the other; the third is held out by the first alone.
    prior = LaplaceZero(3, rho=0.5)
    coupling = np.array([[0.0, 80.0, 60.0], [80.0, 0.0, 0.0], [60.0, 0.0, 0.0]])
    hyper = prior.begin()
    hyper = hyper._replace(included=np.array([*hyper.included[:2], prior.flipped(hyper, 2).included[2]]))
    after = prior.chosen(hyper, coupling, np.array([45.0, 50.0, 5.0]), np.ones((3, 3)))
    assert_allclose(after.included, [0, 1, expit(5.0)], atol=1e-6)


@pytest.mark.parametrize("n_columns", [0, 1, 2, 7])
def test_about_one_column_is_expected_to_matter(n_columns):
    odds = LaplaceZero(n_columns, rho=None).begin().odds
    assert_allclose(odds, [1, max(n_columns, 1)])
