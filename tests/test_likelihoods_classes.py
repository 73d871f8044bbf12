"""Likelihoods of more than two classes, against loops, quadrature, draws and root finding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import references
import references_classes as naive
from softmargin.likelihoods import (
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    JaakkolaJordan,
    Logistic,
    OneVersusRest,
    Probit,
    Quadrature,
    Rivals,
    Softmax,
    Taylor,
)

LOGISTIC = Quadrature(Logistic())
BASES = [Hinge(), AugmentedHinge(), JaakkolaJordan(), LOGISTIC, Quadrature(Probit())]
BOUNDS = [*map(Rivals, BASES), *map(OneVersusRest, BASES), Softmax()]
NO_BOUNDS = [CrammerSinger(), CrammerSinger(Hinge()), Rivals(Taylor(Logistic())), OneVersusRest(Taylor(Probit()))]
EVERY = [*BOUNDS, *NO_BOUNDS]


def name(part):
    """Of a likelihood; functions beside it have none."""
    return repr(part) if hasattr(part, "sites") else ""


every_bound = pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
every_likelihood = pytest.mark.parametrize("likelihood", EVERY, ids=repr)


def table(n=40, n_classes=4, variances=(0.05, 4.0), size=2.0, seed=0):
    rng = np.random.default_rng(seed)
    mu = size * rng.normal(size=(n, n_classes))
    return rng.integers(n_classes, size=n).astype(float), mu, rng.uniform(*variances, size=mu.shape)


# What a row says, by the definition --------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "log_density"),
    [
        (Rivals(Hinge()), lambda y, f: naive.rivals(naive.hinge, y, f)),
        (Rivals(LOGISTIC), lambda y, f: naive.rivals(naive.logistic, y, f)),
        (OneVersusRest(AugmentedHinge()), lambda y, f: naive.one_versus_rest(naive.hinge, y, f)),
        (OneVersusRest(JaakkolaJordan()), lambda y, f: naive.one_versus_rest(naive.logistic, y, f)),
        (CrammerSinger(), naive.strongest),
        (Softmax(), naive.log_softmax),
    ],
    ids=name,
)
def test_log_densities_are_those_of_loops(likelihood, log_density):
    y, f, _ = table()
    wanted = [log_density(int(label), row) for label, row in zip(y, f, strict=True)]
    assert_allclose(likelihood.log_density(y, f), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("combine", [Rivals, OneVersusRest])
@pytest.mark.parametrize("base", BASES, ids=repr)
def test_bounds_are_sums_of_those_of_two_classes(combine, base):
    y, mu, v = table()
    l = combine(base).sites(y, mu, v).l  # noqa: E741
    for i, own in enumerate(y.astype(int)):
        others = [t for t in range(4) if t != own]
        if combine is Rivals:
            pairs = [(1.0, mu[i, own] - mu[i, t], v[i, own] + v[i, t]) for t in others]
        else:
            pairs = [(1.0 if k == own else -1.0, mu[i, k], v[i, k]) for k in range(4)]
        alone = [float(base.sites(*(np.array([part]) for part in pair)).l[0]) for pair in pairs]
        assert_allclose(l[i], sum(alone), rtol=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "expected"),
    [
        (Rivals(Hinge()), lambda *row: naive.expected_rivals(naive.hinge, *row)),
        (Rivals(LOGISTIC), lambda *row: naive.expected_rivals(naive.logistic, *row)),
        (OneVersusRest(Hinge()), lambda *row: naive.expected_one_versus_rest(naive.hinge, *row)),
        (OneVersusRest(LOGISTIC), lambda *row: naive.expected_one_versus_rest(naive.logistic, *row)),
    ],
    ids=name,
)
def test_exact_bases_give_the_expectation_itself(likelihood, expected):
    y, mu, v = table(n=12, variances=(0.05, 0.5))  # a difference has the sum of two of these, within the rule's reach
    wanted = [expected(int(label), *row) for label, *row in zip(y, mu, v, strict=True)]
    assert_allclose(likelihood.sites(y, mu, v).l, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("base", "hinge_of"), [(Hinge(), naive.exact_hinge), (AugmentedHinge(), naive.augmented_hinge)], ids=name
)
def test_sites_of_hinges_are_those_of_loops(base, hinge_of):
    y, mu, v = table()
    for got, wanted in zip(Rivals(base).sites(y, mu, v), naive.pairwise_sites(hinge_of, y, mu, v), strict=True):
        assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)
    shares = naive.soft_rivals(y, mu)
    assert_allclose(CrammerSinger(base).shares(y, mu), shares, rtol=1e-12, atol=1e-15)
    wanted = naive.pairwise_sites(hinge_of, y, mu, v, shares)
    for got, part in zip(CrammerSinger(base).sites(y, mu, v), wanted, strict=True):
        assert_allclose(got, part, rtol=1e-10, atol=1e-10)


def test_soft_rivals_of_far_means_are_the_strongest_alone():
    mu = np.array([[5e3, 0.0, 1e3, -1e4], [0.0, 7.0, 7.0, -40.0]])
    shares = CrammerSinger().shares(np.array([0.0, 3.0]), mu)
    assert_allclose(shares, [[0, 0, 1, 0], [np.exp(-14) / 2, 0.5, 0.5, 0]], atol=1e-6)


# Below and touching ------------------------------------------------------------------------------


def below_the_expectation(likelihood, log_density, n=14):
    """``l`` less the expectation, in standard errors of the draws, and in nats; rows from narrow to wide."""
    rng = np.random.default_rng(3)
    y, mu, _ = table(n=n, n_classes=3)
    v = np.geomspace(1e-3, 30, n)[:, None] * rng.uniform(0.2, 1, size=(n, 3))
    l, gaps = likelihood.sites(y, mu, v).l, []  # noqa: E741
    for i in range(n):
        truth, error = naive.expectation_by_draws(lambda f, i=i: log_density(int(y[i]), f), mu[i], v[i], 200_000, rng)
        # Five standard errors of a mean of draws; the rule of 24 nodes is not exact for the widest.
        rule = 1e-3 if getattr(likelihood, "base", None) == LOGISTIC else 1e-12
        assert l[i] <= truth + 5 * error + rule * abs(truth)
        gaps.append(truth - l[i])
    return np.array(gaps)


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_the_sum_over_rivals_is_below_the_strongest_alone(base):
    gaps = below_the_expectation(Rivals(base), naive.strongest)
    assert gaps.max() > 1  # and not for nothing: three classes lose twice


@pytest.mark.parametrize("base", [LOGISTIC, JaakkolaJordan()], ids=repr)
def test_one_versus_each_is_below_softmax(base):
    assert below_the_expectation(Rivals(base), naive.log_softmax).max() > 0.1


def test_the_tilted_bound_is_below_softmax_and_near_it():
    gaps = below_the_expectation(Softmax(), naive.log_softmax)
    # Nats: the gap is of second order in variances, which grow from 1e-3 to 1 in the first ten rows, and to 30.
    assert gaps[:10].max() < 0.05
    assert gaps.max() < 0.2 * 30


@every_bound
def test_bounds_touch_where_nothing_is_uncertain(likelihood):
    y, mu, _ = table()
    l = likelihood.sites(y, mu, np.zeros_like(mu)).l  # noqa: E741
    # The hinge has a floor of 1e-12 under its variance, worth 1e-6 at the kink.
    assert_allclose(l, likelihood.log_density(y, mu), rtol=1e-9, atol=6e-6)


def test_the_softmax_bound_touches_softmax_at_no_variance_and_leaves_it_from_there_on():
    y, mu, v = table()
    truth = np.array([naive.log_softmax(int(label), row) for label, row in zip(y, mu, strict=True)])
    assert_allclose(Softmax().sites(y, mu, 0 * v).l, truth, rtol=1e-13)
    # To first order in v both fall by sum p (1 - p) v / 2, and the gap is of second order.
    p = np.exp(mu - logsumexp(mu, axis=1, keepdims=True))
    first = 0.5 * np.sum(p * (1 - p) * v, axis=1)
    for size in (1e-3, 1e-4):
        fall = (truth - Softmax().sites(y, mu, size * v).l) / size
        assert_allclose(fall, first, rtol=20 * size, atol=20 * size)


# Slopes ------------------------------------------------------------------------------------------


def of_one_class(function, part, k, step):
    """The derivative of a function of rows by classes in class ``k`` of each row."""
    away = np.zeros_like(part)
    away[:, k] = 1
    return references.derivative(lambda t: function(part + t * away), 0.0, step)


@every_bound
@pytest.mark.parametrize("variances", [(0.05, 0.5), (1.0, 8.0)])
def test_precisions_and_linear_terms_are_slopes_of_the_bound(likelihood, variances):
    y, mu, v = table(variances=variances)
    _, w, b = likelihood.sites(y, mu, v)
    for k in range(4):
        in_mu = of_one_class(lambda t: likelihood.sites(y, t, v).l, mu, k, 1e-3)
        in_v = of_one_class(lambda t: likelihood.sites(y, mu, t).l, v, k, 1e-3)
        # Fourth order differences: 1e-12 of the fifth derivative, and rounding 1e-15 |l| / step. Wide rules of 24
        # nodes bend like the spacing of the nodes.
        assert_allclose(b[:, k] - w[:, k] * mu[:, k], in_mu, rtol=1e-6, atol=1e-8)
        assert_allclose(w[:, k], -2 * in_v, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_sites_of_soft_rivals_are_slopes_with_the_shares_held(base):
    y, mu, v = table()
    held, hinge_of = naive.soft_rivals(y, mu), naive.exact_hinge if base == Hinge() else naive.augmented_hinge
    _, w, b = CrammerSinger(base).sites(y, mu, v)
    for k in range(4):
        in_mu = of_one_class(lambda t: naive.pairwise_sites(hinge_of, y, t, v, held)[0], mu, k, 1e-3)
        in_v = of_one_class(lambda t: naive.pairwise_sites(hinge_of, y, mu, t, held)[0], v, k, 1e-3)
        assert_allclose(b[:, k] - w[:, k] * mu[:, k], in_mu, rtol=1e-6, atol=1e-8)
        assert_allclose(w[:, k], -2 * in_v, rtol=1e-6, atol=1e-8)


@every_bound
def test_the_curvature_is_the_diagonal_of_the_second_derivatives(likelihood):
    y, mu, v = table(variances=(0.1, 1.0))

    def slope_of(k):
        def slope(t):
            _, w, b = likelihood.sites(y, t, v)
            return b[:, k] - w[:, k] * t[:, k]

        return slope

    curvature = likelihood.curvature(y, mu, v)
    for k in range(4):
        assert_allclose(curvature[:, k], -of_one_class(slope_of(k), mu, k, 1e-3), rtol=1e-5, atol=1e-7)
    assert np.all(curvature >= 0)
    if likelihood.site_is_curvature:
        assert_allclose(curvature, likelihood.sites(y, mu, v).w, rtol=1e-12)


def whole_hessians(likelihood, y, mu, v):
    """The matrix of each row (row, class, class), by products with the unit vectors."""
    hessian, units = likelihood.hessian(y, mu, v), np.eye(mu.shape[1])
    products = [likelihood.hessian_times(y, hessian, np.broadcast_to(unit, mu.shape)) for unit in units]
    return np.stack(products, axis=2)


def slopes_moved(slopes, mu):
    """Minus the derivatives of slopes (row, class) in every mean: (row, class, class)."""
    return np.stack([-of_one_class(lambda t: slopes(t).T, mu, k, 1e-3).T for k in range(mu.shape[1])], axis=2)


@pytest.mark.parametrize("likelihood", [bound for bound in BOUNDS if bound.couples], ids=repr)
def test_the_hessian_is_the_slope_of_the_slopes(likelihood):
    y, mu, v = table(variances=(0.1, 1.0))

    def slopes(t):
        _, w, b = likelihood.sites(y, t, v)
        return b - w * t

    found = whole_hessians(likelihood, y, mu, v)
    assert_allclose(found, slopes_moved(slopes, mu), rtol=1e-5, atol=1e-7)
    assert_allclose(np.einsum("ikk->ik", found), likelihood.curvature(y, mu, v), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_the_hessian_of_soft_rivals_moves_their_shares(base):
    """Exactly, where all rivals pull alike; elsewhere each rival's share moves as if it pulled like their mean."""
    y, mu, v = table()
    likelihood, hinge_of = CrammerSinger(base), naive.exact_hinge if base == Hinge() else naive.augmented_hinge

    def slopes(t, held=None):
        _, w, b = naive.pairwise_sites(hinge_of, y, t, v, naive.soft_rivals(y, t) if held is None else held)
        return b - w * t

    share = naive.soft_rivals(y, mu)
    own = np.arange(4) == y[:, None]
    mean_pull = np.sum(np.where(own, slopes(mu), 0), axis=1)[:, None, None]  # of the own class: the sum of all others
    together = 2 * mean_pull * (share[:, :, None] * np.eye(4) - share[:, :, None] * share[:, None, :])
    found = whole_hessians(likelihood, y, mu, v)
    held = slopes_moved(lambda t: slopes(t, share), mu)
    assert_allclose(found, held + together, rtol=1e-5, atol=1e-7)
    assert_allclose(np.einsum("ikk->ik", found), likelihood.curvature(y, mu, v), rtol=1e-10, atol=1e-12)
    mu, v = np.where(own, 1.0, -0.3) + 0 * mu, np.full_like(v, 0.5)
    assert_allclose(whole_hessians(likelihood, y, mu, v), slopes_moved(slopes, mu), rtol=1e-5, atol=1e-7)
