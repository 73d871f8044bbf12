"""Likelihoods of more than two classes, against loops, quadrature, draws and root finding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp

import references
import references_classes as naive
from softmargin.arrays import to_numpy
from softmargin.likelihoods import (
    LOSSES,
    MULTI_CLASS,
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    JaakkolaJordan,
    Logistic,
    OneVersusRest,
    Probit,
    Quadrature,
    Rivals,
    Sites,
    Softmax,
    Taylor,
    score,
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


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_the_curvature_of_soft_rivals_holds_the_shares(base):
    y, mu, v = table()
    held, hinge_of = naive.soft_rivals(y, mu), naive.exact_hinge if base == Hinge() else naive.augmented_hinge

    def slope_of(k):
        def slope(t):
            _, w, b = naive.pairwise_sites(hinge_of, y, t, v, held)
            return b[:, k] - w[:, k] * t[:, k]

        return slope

    for k in range(4):
        wanted = -of_one_class(slope_of(k), mu, k, 1e-3)
        assert_allclose(CrammerSinger(base).curvature(y, mu, v)[:, k], wanted, rtol=1e-5, atol=1e-7)


# How classes meet --------------------------------------------------------------------------------


def second_derivatives(likelihood, y, mu, v):
    """``-d2l / dmu dmu'`` of each row, by differences of slopes."""
    n, K = mu.shape
    out = np.empty((n, K, K))
    for j in range(K):
        for k in range(K):

            def slope(t, j=j):
                _, w, b = likelihood.sites(y, t, v)
                return b[:, j] - w[:, j] * t[:, j]

            out[:, j, k] = -of_one_class(slope, mu, k, 1e-3)
    return out


def answers(likelihood, y, mu, v):
    """``answer`` as a matrix for each row, from its columns."""
    sites = likelihood.sites(y, mu, v)
    ties, n, K = likelihood.ties(y, mu, v, sites), *mu.shape
    return np.stack([likelihood.answer(y, ties, np.tile(np.eye(K)[k], (n, 1))) for k in range(K)], axis=2), sites.w


@pytest.mark.parametrize("likelihood", [one for one in BOUNDS if isinstance(one, Rivals)], ids=repr)
def test_the_answer_is_what_sites_have_and_the_curvature_has_not(likelihood):
    y, mu, v = table(n=15, variances=(0.1, 1.0))
    answer, w = answers(likelihood, y, mu, v)
    bends = w[:, :, None] * np.eye(4) - answer
    assert_allclose(bends, second_derivatives(likelihood, y, mu, v), rtol=1e-5, atol=1e-7)
    for own, bend in zip(y.astype(int), bends, strict=True):
        assert_allclose(bend, naive.laplacian_of_pairs(own, -bend[own]), rtol=1e-9, atol=1e-12)
        assert np.linalg.eigvalsh(bend).min() > -1e-10


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_the_answer_of_soft_rivals_leans_a_tenth_on_the_sites(base):
    y, mu, v = table(n=15)
    answer, w = answers(CrammerSinger(base), y, mu, v)
    shares = CrammerSinger(base).shares(y, mu)
    for i, own in enumerate(y.astype(int)):
        bends = np.array(
            [base.curvature(np.ones(1), mu[i, [own]] - m, v[i, [own]] + s)[0] for m, s in zip(mu[i], v[i], strict=True)]
        )
        wanted = np.diag(w[i]) - naive.laplacian_of_pairs(own, 0.1 * w[i] + 0.9 * shares[i] * bends)
        assert_allclose(answer[i], wanted, rtol=1e-10, atol=1e-12)


def test_the_answer_of_softmax_is_that_of_its_probabilities():
    y, mu, v = table(n=15)
    answer, w = answers(Softmax(), y, mu, v)
    bound_bends = second_derivatives(Softmax(), y, mu, v)
    for i in range(15):
        p = naive.tilted_shares(mu[i], v[i])
        bend = np.diag(p) - np.outer(p, p)
        assert_allclose(np.diag(w[i]) - answer[i], bend, atol=1e-9)
        # The bound itself bends less, in every direction.
        assert np.linalg.eigvalsh(bend - bound_bends[i]).min() > -1e-8


@every_likelihood
def test_a_laplacian_is_at_most_twice_its_degrees(likelihood):
    """Why half a step is never too far: the curvature of a row is no more than twice that of its sites."""
    y, mu, v = table(n=15)
    w = likelihood.sites(y, mu, v).w
    if likelihood.couples:
        answer, _ = answers(likelihood, y, mu, v)
        for i in range(15):
            assert np.linalg.eigvalsh(np.diag(w[i]) + answer[i]).min() > -1e-10
        assert likelihood.longest_step == 0.5
    else:
        assert likelihood.longest_step == 1.0


# Shares of softmax -------------------------------------------------------------------------------


@pytest.mark.parametrize("v", [0.0, 1e-8, 1.0, 100.0, 1e4, 1e8])
@pytest.mark.parametrize("size", [1.0, 30.0, 300.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_shares_of_softmax_equal_root_finding(v, size, n_classes):
    rng = np.random.default_rng(5)
    mu = size * rng.normal(size=(25, n_classes))
    # All alike, all unlike, and one class that is sure of itself.
    unlike = v * 10 ** rng.uniform(-4, 0, size=mu.shape)
    for variances in (np.full_like(mu, v), unlike, np.where(np.arange(n_classes) == 0, 0.0, unlike)):
        shares = Softmax().shares(mu, variances)
        wanted = [naive.tilted_shares(*row) for row in zip(mu, variances, strict=True)]
        # Means of 1e4 and variances of 1e8 are themselves known to no more than 1e-12 and 1e-8 nats.
        assert_allclose(shares, wanted, atol=1e-10)
        assert_allclose(shares.sum(axis=1), 1, rtol=1e-14)


def test_a_class_far_behind_whose_value_nobody_knows_has_its_share():
    # It begins at e^-25, where no small step can be seen, and ends at a quarter.
    shares = Softmax().shares(np.array([[0.0, -25.0], [0.0, -3000.0]]), np.array([[1.0, 100.0], [0.0, 1e4]]))
    assert_allclose(shares[:, 1], [0.262693, 0.200139], atol=1e-6)


def test_shares_make_the_bound_the_best_there_is():
    y, mu, v = table(n=8, variances=(0.1, 60.0))
    l, shares = Softmax().sites(y, mu, v).l, Softmax().shares(mu, v)  # noqa: E741
    for i, own in enumerate(y.astype(int)):
        row = own, mu[i], v[i]
        best = minimize(lambda a, row=row: -naive.tilted_bound(*row, a), np.full(4, 0.25), method="BFGS", tol=1e-9)
        assert_allclose(l[i], -best.fun, rtol=1e-9)
        assert_allclose(shares[i], best.x, atol=1e-5)
        assert_allclose(l[i], naive.tilted_bound(*row, shares[i]), rtol=1e-12)


def test_a_rows_shares_do_not_depend_on_the_rows_beside_it():
    _, mu, _ = table(n=30)
    v = np.geomspace(1e-6, 1e6, 30)[:, None] * np.ones(4)
    together = Softmax().shares(mu, v)
    alone = np.vstack([Softmax().shares(mu[i : i + 1], v[i : i + 1]) for i in range(30)])
    assert_allclose(alone, together, atol=1e-13)


# Two classes, and classes in another order -------------------------------------------------------


def test_two_classes_of_softmax_are_the_tilted_bound_of_the_logistic_function():
    """With a_1 + a_2 = 1 the bound is that of one difference of variance v_1 + v_2, below the expectation itself."""
    y, mu, v = table(n_classes=2, variances=(0.01, 12.0))
    l, w, b = Softmax().sites(y, mu, v)  # noqa: E741
    own = y.astype(int)
    rows = np.arange(len(y))
    m, total = mu[rows, own] - mu[rows, 1 - own], v.sum(axis=1)
    assert_allclose(l, [naive.tilted_logistic(*pair) for pair in zip(m, total, strict=True)], rtol=1e-10)
    exact = [references.normal_expectation(lambda f: naive.logistic(1.0, f), *pair) for pair in zip(m, total)]  # noqa: B905
    assert np.all(l <= exact)
    assert np.all(l > np.array(exact) - 0.07 * total)
    # Each class has the site of the difference: the same precision, and slopes that are opposite.
    assert_allclose(w[:, 0], w[:, 1], rtol=1e-9)
    slope = b - w * mu
    assert_allclose(slope[:, 0], -slope[:, 1], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("base", BASES, ids=repr)
@pytest.mark.parametrize("combine", [Rivals, CrammerSinger])
def test_two_classes_that_meet_are_one_difference(base, combine):
    y, mu, v = table(n_classes=2)
    own = y.astype(int)
    rows = np.arange(len(y))
    difference = mu[rows, own] - mu[rows, 1 - own]
    l, w, b = base.sites(np.ones(len(y)), difference, v.sum(axis=1))  # noqa: E741
    got = combine(base).sites(y, mu, v)
    assert_allclose(got.l, l, rtol=1e-12)
    assert_allclose(got.w, np.stack([w, w], axis=1), rtol=1e-12)
    sign = np.where(own == 0, 1.0, -1.0)
    slope = (b - w * difference) * sign
    assert_allclose(got.b - got.w * mu, np.stack([slope, -slope], axis=1), rtol=1e-9, atol=1e-11)


@every_likelihood
def test_classes_in_another_order_are_the_same_classes(likelihood):
    y, mu, v = table()
    order = np.array([2, 0, 3, 1])
    back = np.argsort(order)
    one, other = (
        likelihood.sites(y, mu, v),
        likelihood.sites(back[y.astype(int)].astype(float), mu[:, order], v[:, order]),
    )
    assert_allclose(other.l, one.l, rtol=1e-12)
    assert_allclose(other.w, one.w[:, order], rtol=1e-9, atol=1e-14)
    assert_allclose(other.b, one.b[:, order], rtol=1e-9, atol=1e-12)
    curvature = likelihood.curvature(back[y.astype(int)].astype(float), mu[:, order], v[:, order])
    assert_allclose(curvature, likelihood.curvature(y, mu, v)[:, order], rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("likelihood", [one for one in EVERY if one.couples], ids=repr)
def test_what_classes_have_in_common_does_not_matter_where_they_meet(likelihood):
    y, mu, v = table()
    one, other = likelihood.sites(y, mu, v), likelihood.sites(y, mu + 5.0, v)
    assert_allclose(other.l, one.l, rtol=1e-9)
    assert_allclose(other.w, one.w, rtol=1e-7, atol=1e-12)
    slope = one.b - one.w * mu
    assert_allclose(other.b - other.w * (mu + 5), slope, rtol=1e-7, atol=1e-9)
    assert_allclose(slope.sum(axis=1), 0, atol=1e-9)


# Any numbers, any library ------------------------------------------------------------------------

wide_means = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e8, -1e8]), st.floats(-1e8, 1e8))
wide_variances = st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e8]), st.floats(0, 1e8))


@every_likelihood
@given(
    mu=st.lists(wide_means, min_size=3, max_size=3),
    v=st.lists(wide_variances, min_size=3, max_size=3),
    y=st.sampled_from([0.0, 1.0, 2.0]),
)
def test_sites_are_finite_everywhere(likelihood, mu, v, y):
    arrays = np.array([y]), np.array([mu]), np.array([v])
    sites = likelihood.sites(*arrays)
    assert all(np.isfinite(part).all() for part in sites)
    assert sites.w.min() >= 0
    assert sites.l[0] <= 1e-7  # log sum exp of 1e8 is known to 1e-8
    assert np.isfinite(likelihood.curvature(*arrays)).all()
    if isinstance(likelihood, Softmax):
        assert_allclose(likelihood.shares(*arrays[1:]), [naive.tilted_shares(*map(np.array, (mu, v)))], atol=1e-6)


@every_likelihood
def test_sites_agree_in_torch_and_in_single_precision(likelihood):
    arrays = table(variances=(0.05, 7.0))
    exact, curvature = likelihood.sites(*arrays), likelihood.curvature(*arrays)
    for dtype, tolerance in (("float64", 1e-11), ("float32", 5e-5)):
        single = [part.astype(dtype) for part in arrays]
        for ours in (single, [torch.from_numpy(part) for part in single]):
            got = likelihood.sites(*ours)
            for part, wanted in zip([*got, likelihood.curvature(*ours)], [*exact, curvature], strict=True):
                assert type(part) is type(ours[1])
                assert str(part.dtype).endswith(dtype)
                assert_allclose(to_numpy(part), wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("likelihood", [one for one in EVERY if one.couples], ids=repr)
def test_answers_agree_in_torch(likelihood):
    y, mu, v = table()
    tensors = [torch.from_numpy(part) for part in (y, mu, v)]
    wanted = likelihood.answer(y, likelihood.ties(y, mu, v, likelihood.sites(y, mu, v)), 2 * mu - 1)
    ties = likelihood.ties(*tensors, likelihood.sites(*tensors))
    assert_allclose(likelihood.answer(tensors[0], ties, 2 * tensors[1] - 1).numpy(), wanted, rtol=1e-9, atol=1e-10)
    assert_allclose(likelihood.log_density(*tensors[:2]).numpy(), likelihood.log_density(y, mu), rtol=1e-12)


# What they say of themselves ---------------------------------------------------------------------


@every_likelihood
def test_what_likelihoods_say_of_themselves(likelihood):
    base = getattr(likelihood, "base", None)
    assert likelihood.is_bound == (likelihood in BOUNDS)
    assert likelihood.couples == (not isinstance(likelihood, OneVersusRest))
    assert likelihood.needs_guard == (base.needs_guard if isinstance(likelihood, OneVersusRest) else True)
    # Where classes meet, the variance of a difference is that of independent values.
    assert likelihood.two_moment == (base.two_moment if isinstance(likelihood, OneVersusRest) else False)
    assert likelihood.site_is_curvature == (base.site_is_curvature if base is not None else False)


def test_words_of_classes_and_what_they_make_of_a_loss():
    hinge = LOSSES["hinge"]
    made = {word: make(hinge) for word, make in MULTI_CLASS.items()}
    assert made == {
        "weston-watkins": Rivals(hinge),
        "one-vs-each": Rivals(hinge),
        "crammer-singer": CrammerSinger(hinge),
        "ovr": OneVersusRest(hinge),
        "softmax": Softmax(),
    }
    assert Rivals() == Rivals(Hinge())
    assert CrammerSinger() == CrammerSinger(AugmentedHinge())
    assert isinstance(Softmax().sites(*table()), Sites)


def test_labels_may_be_of_any_numeric_kind():
    y, mu, v = table()
    for kind in (np.float32, np.int32, np.int64):
        for got, wanted in zip(Rivals().sites(y.astype(kind), mu, v), Rivals().sites(y, mu, v), strict=True):
            assert_array_equal(got, wanted)


def test_scores_of_softmax_are_slopes_of_its_log_density():
    y, f, _ = table(n=12)
    for k in range(4):
        wanted = references.derivative(
            lambda t, k=k: Softmax().log_density(y, f + t[:, None] * np.eye(4)[k]), 0 * y, 1e-4
        )
        assert_allclose(score(Softmax(), y, f)[:, k], wanted, atol=1e-7)


def test_a_shift_of_all_classes_costs_the_shares_no_digits():
    # Halves and a power of two: the shift itself rounds nothing.
    mu, v = np.round(2 * table(n=20)[1]) / 2, np.full((20, 4), 3.0)
    assert_allclose(Softmax().shares(mu + 2.0**30, v), Softmax().shares(mu, v), rtol=1e-11)
