from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import norm

import references_uncertainty as naive
from softmargin import uncertainty
from softmargin.links import LogisticLink, ProbitLink, SoftmaxLink
from softmargin.uncertainty import (
    mutual_information_of,
    normal_draws,
    variation_ratio_of,
    winning,
)

LINKS = [LogisticLink(), LogisticLink(1.7, 0.4), LogisticLink(40.0, -12.0), LogisticLink(0.01, 0.5), ProbitLink()]
size = st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1e-3, 1.0, 1e3, 1e150]), st.floats(0, 1e3))


# Which class wins --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
@pytest.mark.parametrize("unlike", [0.0, 0.2, 0.7, 1.5, 4.0])
def test_winning_equals_an_integral_for_each_class(n_classes, unlike, rng):
    mu = 1.5 * rng.normal(size=(8, n_classes))
    v = np.exp(2 * unlike * rng.normal(size=mu.shape))
    wanted = [naive.winning(*row) for row in zip(mu, v, strict=True)]
    # Both leave out what lies 7 deviations or more away; panels of ten nodes are good to a few 1e-11.
    assert_allclose(winning(mu, v), wanted, atol=1e-9)


def test_winning_is_how_often_draws_win(rng):
    mu, v = rng.normal(size=(5, 4)), rng.uniform(0.01, 3, size=(5, 4))
    counted = [naive.winning_by_draws(*row, 200_000, rng) for row in zip(mu, v, strict=True)]
    # Standard errors are at most .0011.
    assert_allclose(winning(mu, v), counted, atol=0.005)


@given(a=size, b=size, v=size, w=size, sign=st.sampled_from([-1.0, 1.0]))
def test_winning_of_two_is_the_sign_of_a_difference(a, b, v, w, sign):
    mu, total = np.array([[a, sign * b]]), max(np.sqrt(v + w), 1e-150)  # below that, nothing is told from a tie
    wanted = norm.cdf(np.clip((a - sign * b) / total, -40, 40))
    assert_allclose(winning(mu, np.array([[v, w]])), [[wanted, 1 - wanted]], atol=1e-7)


def test_equals_share_and_the_sure_win():
    P = winning(np.zeros((3, 7)), np.array([1e-300, 1.0, 1e300])[:, None] * np.ones(7))
    assert_allclose(P, 1 / 7, rtol=1e-12)
    sure = winning(np.array([[1.0, 3.0, 2.999], [-1e9, 0.0, 1.0]]), np.full((2, 3), 1e-12))
    assert_allclose(sure, [[0, 1, 0], [0, 0, 1]], atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-200, 1e-30])
def test_without_variance_the_largest_wins_and_ties_are_shared(scale):
    mu = np.array([[1.0, 3.0, 2.0], [2.0, 2.0, 1.0], [1e-5, 0.0, 0.0], [-4.0, -4.0, -4.0]])
    wanted = [[0, 1, 0], [0.5, 0.5, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]
    assert_allclose(winning(mu, np.full(mu.shape, scale)), wanted, atol=1e-12)


@pytest.mark.parametrize("tiny", [0.0, 1e-24, 1e-16, 1e-10])
def test_one_wide_class_among_points(tiny):
    # The wide class wins beyond .3; the point at -5 never does, and the one at .3 has the rest.
    P = winning(np.array([[0.0, 0.3, -5.0]]), np.array([[1.0, tiny, tiny]]))
    assert_allclose(P, [[norm.cdf(-0.3), norm.cdf(0.3), 0]], atol=1e-7)


@pytest.mark.parametrize("small", [1e-2, 1e-4, 1e-6])
def test_two_narrow_classes_compete_beside_a_wide_one(small):
    # Half of the time the wide one is below them, and they share as if they were alone; half but for the density of
    # the wide one, .004, times where the larger of the others is, about 1.06 of the small number.
    P = winning(np.array([[0.0, 0.0, small]]), np.array([[1e4, small**2, small**2]]))
    alone = norm.cdf(np.sqrt(0.5))
    assert_allclose(P, [[0.5, 0.5 * (1 - alone), 0.5 * alone]], atol=0.01 * small + 1e-9)


@given(
    mu=st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    log_s=st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    log_unit=st.floats(-30, 30),
)
def test_winning_has_no_units_no_origin_and_no_order(mu, log_s, log_unit):
    mu, v, unit = np.array([mu]), np.exp(2 * np.array([log_s])), np.exp(log_unit)
    P = winning(mu, v)
    assert_allclose(P.sum(), 1, rtol=1e-14)
    assert_allclose(winning(unit * mu, unit**2 * v), P, atol=1e-9)
    assert_allclose(winning(mu + 3, v), P, atol=1e-9)
    assert_allclose(winning(mu[:, [2, 0, 1]], v[:, [2, 0, 1]]), P[:, [2, 0, 1]], atol=1e-12)


@given(
    mu=st.lists(st.tuples(size, st.sampled_from([-1.0, 1.0])), min_size=3, max_size=3),
    v=st.lists(size, min_size=3, max_size=3),
)
def test_variation_ratio_of_anything_is_a_share(mu, v):
    mu, v = np.array([[a * sign for a, sign in mu]]), np.array([v])
    for found in (variation_ratio_of(mu, v, SoftmaxLink(2.0)), variation_ratio_of(mu[0], v[0], LogisticLink(1.7, 0.2))):
        assert np.all((found >= 0) & (found <= 1))
    assert variation_ratio_of(mu, v, SoftmaxLink(2.0))[0] <= 2 / 3 + 1e-9


@pytest.mark.parametrize("link", LINKS, ids=repr)
def test_variation_ratio_of_two_is_how_often_draws_change_the_sign(link, rng):
    edge = -getattr(link, "offset", 0.0) / getattr(link, "slope", 1.0)
    mu, v = edge + np.array([-2.0, -0.3, 0.0, 0.5, 3.0]), np.array([1.0, 0.04, 2.0, 4.0, 9.0])
    draws = mu + np.sqrt(v) * rng.normal(size=(200_000, 5))
    changed = np.mean((link.score(draws, np.zeros(draws.shape)) > 0) == (link.score(mu, v) <= 0), axis=0)
    assert_allclose(variation_ratio_of(mu, v, link), changed, atol=0.005)
    assert_allclose(variation_ratio_of(mu, v, link), ndtr(-np.abs(mu - edge) / np.sqrt(v)), rtol=1e-9, atol=1e-14)


def test_variation_ratio_of_two_without_variance_is_none_but_on_the_edge():
    mu = np.array([-0.5, -0.25, 0.0])
    assert variation_ratio_of(mu, np.zeros(3), LogisticLink(2.0, 0.5)).tolist() == [0, 0.5, 0]


def test_variation_ratio_of_two_is_that_of_two_columns(rng):
    mu, v = rng.normal(size=(20, 2)), rng.uniform(0, 2, size=(20, 2))
    two = variation_ratio_of(mu[:, 1] - mu[:, 0], v.sum(axis=1), LogisticLink())
    assert_allclose(variation_ratio_of(mu, v, SoftmaxLink()), two, atol=1e-9)


def test_offsets_of_many_classes_move_the_place_where_they_win(rng):
    link = SoftmaxLink(2.0, np.array([1.5, -1.0, 0.0]), 0.3)
    mu, v = rng.normal(size=(6, 3)), rng.uniform(0.05, 2, size=(6, 3))
    for m, s, found in zip(mu, v, variation_ratio_of(mu, v, link), strict=True):
        draws = m + np.sqrt(s) * rng.normal(size=(100_000, 3))
        favourite = link.score(draws, np.zeros(draws.shape)).argmax(axis=1)
        # Standard errors are at most .0016.
        assert_allclose(found, 1 - np.bincount(favourite).max() / 100_000, atol=0.007)
    assert np.abs(variation_ratio_of(mu, v, link) - variation_ratio_of(mu, v, SoftmaxLink(2.0))).max() > 0.1


# What a label would say --------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS, ids=repr)
@pytest.mark.parametrize("v", [0.0, 1e-6, 0.01, 0.5, 3.0, 30.0, 1e4, 1e8])
def test_information_of_two_equals_two_integrals(link, v):
    edge = -getattr(link, "offset", 0.0) / getattr(link, "slope", 1.0)
    mu = edge + np.array([-20.0, -3.0, -0.4, 0.0, 0.05, 1.0, 8.0])
    wanted = [naive.information_of_two(m, v, link) for m in mu]
    assert_allclose(mutual_information_of(mu, np.full(7, v), link), wanted, atol=1e-12)


def test_information_has_its_limits():
    wide = mutual_information_of(np.array([0.0, 0.0]), np.array([1e6, 1e30]), LogisticLink())
    # What stays open is about the width of the logistic function's slope in that of the Gaussian, 1 / 600.
    assert_allclose(wide, np.log(2), atol=2e-3)
    assert_allclose(wide[1], np.log(2), atol=1e-12)
    # For a small variance it is s^2 v p (1 - p) / 2, here with p from 2 f + 0.5.
    mu, v = np.array([-1.0, 0.0, 0.7]), 1e-4
    p = 1 / (1 + np.exp(-(2 * mu + 0.5)))
    assert_allclose(mutual_information_of(mu, np.full(3, v), LogisticLink(2.0, 0.5)), 2 * v * p * (1 - p), rtol=1e-3)


@given(mu=size, v=size, sign=st.sampled_from([-1.0, 1.0]))
def test_information_of_anything_is_a_share_of_what_is_open(mu, v, sign):
    mu, v = np.array([sign * mu]), np.array([v])
    for link in LINKS:
        found = mutual_information_of(mu, v, link)
        assert 0 <= found[0] <= np.log(2) + 1e-12
        assert v[0] > 0 or found[0] < 1e-13
    many = mutual_information_of(
        np.stack([mu, 0 * mu, mu / 2], axis=1), np.stack([v, v, 0 * v], axis=1), SoftmaxLink(), DRAWS
    )
    assert 0 <= many[0] <= np.log(3) + 1e-12


DRAWS = normal_draws(64, 3, 0)


@pytest.mark.parametrize(("n_classes", "error"), [(3, 0.01), (10, 0.03)])
def test_information_of_many_is_that_of_many_draws(n_classes, error, rng):
    mu, v = 1.5 * rng.normal(size=(20, n_classes)), np.exp(rng.normal(size=(20, n_classes)))
    wanted = [
        naive.information_by_draws(1.7 * (m + np.sqrt(s) * rng.normal(size=(100_000, n_classes))))
        for m, s in zip(mu, v, strict=True)
    ]
    found = mutual_information_of(mu, v, SoftmaxLink(1.7), normal_draws(256, n_classes, 0))
    # The errors that the docstring promises are root mean squares: three times that much for each row.
    assert np.sqrt(np.mean((found - wanted) ** 2)) < error / 3 + 0.001
    assert_allclose(found, wanted, atol=error)
    more = mutual_information_of(mu, v, SoftmaxLink(1.7), normal_draws(2**13, n_classes, 0))
    # 100,000 random draws have a standard error of .0015.
    assert_allclose(more, wanted, atol=0.005)


def test_information_of_many_is_that_of_two_for_two(rng):
    mu, v = rng.normal(size=(30, 2)), rng.uniform(0, 3, size=(30, 2))
    two = mutual_information_of(mu[:, 1] - mu[:, 0], v.sum(axis=1), LogisticLink(1.3))
    assert_allclose(mutual_information_of(mu, v, SoftmaxLink(1.3), normal_draws(2**12, 2, 0)), two, atol=1e-3)


def test_what_is_known_has_nothing_to_say(rng):
    mu = rng.normal(size=(10, 4))
    assert_allclose(
        mutual_information_of(mu, np.zeros(mu.shape), SoftmaxLink(3.0), normal_draws(33, 4, 0)), 0, atol=1e-14
    )
    # A variance of one class alone is enough.
    v = np.zeros(mu.shape)
    v[:, 2] = 1
    assert np.all(mutual_information_of(mu, v, SoftmaxLink(3.0), normal_draws(33, 4, 0)) > 1e-3)


@pytest.mark.parametrize("n_samples", [1, 2, 100, 256])
def test_draws_are_standard_normal_and_more_even_than_random_ones(n_samples):
    draws = normal_draws(n_samples, 5, 0)
    assert draws.shape == (n_samples, 5)
    assert np.isfinite(draws).all()
    if n_samples == 256:
        assert np.abs(draws.mean(axis=0)).max() < 0.02  # of random ones: .06
        assert_allclose(draws.T @ draws / n_samples, np.eye(5), atol=0.1)


def test_points_at_the_ends_of_the_interval_make_finite_draws(monkeypatch):
    ends = SimpleNamespace(random_base2=lambda m: np.array([[0.0, 1.0], [0.5, 0.25]]))
    monkeypatch.setattr(uncertainty.qmc, "Sobol", lambda d, rng: ends)
    assert_allclose(normal_draws(2, 2, 0), [[-6.2, 6.2], [0, norm.ppf(0.25)]], atol=0.1)


def test_the_seed_makes_the_draws():
    assert np.array_equal(normal_draws(16, 3, 5), normal_draws(16, 3, np.random.RandomState(5)))
    assert not np.array_equal(normal_draws(16, 3, 5), normal_draws(16, 3, 6))
    assert not np.array_equal(normal_draws(16, 3, None), normal_draws(16, 3, None))
