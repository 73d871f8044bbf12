"""How classes meet in a row: answers, shares, orders, any numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

import references
import references_classes as naive
from softmargin.arrays import to_numpy
from softmargin.likelihoods import (
    LOSSES,
    MULTI_CLASS,
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    OneVersusRest,
    Rivals,
    Sites,
    Softmax,
    score,
)
from test_likelihoods_classes import BASES, BOUNDS, EVERY, every_likelihood, of_one_class, table

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
wide_variances = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e-12, 1.0, 1e8]), st.floats(0, 1e8))


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
    bent = likelihood.hessian_times(y, likelihood.hessian(y, mu, v), 2 * mu - 1)
    there = likelihood.hessian_times(tensors[0], likelihood.hessian(*tensors), 2 * tensors[1] - 1)
    assert_allclose(there.numpy(), bent, rtol=1e-9, atol=1e-10)
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
    # The shares of soft rivals move with the means, which sites ignore.
    own = isinstance(likelihood, (Softmax, CrammerSinger))
    assert likelihood.site_is_curvature == (False if own else base.site_is_curvature)


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
