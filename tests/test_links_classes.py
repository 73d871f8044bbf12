"""Links of more than two classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm

import references
import references_classes as naive
import references_uncertainty
from softmargin.links import (
    LogisticLink,
    ProbitLink,
    SoftmaxLink,
    _softmax_link_loss,
    fit_softmax_link,
    log_losses,
    probabilities,
    settled,
)
from softmargin.streaming import NOTHING, Record

OFFSETS = np.array([0.3, -0.2, 0.0, -0.1])
LINKS = [SoftmaxLink(), SoftmaxLink(1.7, OFFSETS[:3], 0.4), SoftmaxLink(1e3, -OFFSETS[:3], 1e-3), ProbitLink(many=True)]
POINTS = [
    np.array([0.5, 0.1, 0.0, 0.2, -0.3, 0.1]),
    np.array([-1.0, -2.0, 2.0, -1.0, 0.0, 0.5]),
    np.array([1.5, 1.0, -0.3, 0.0, 0.0, 0.0]),
]


@pytest.fixture
def scored(rng):
    mu, v = 2 * rng.normal(size=(90, 4)), rng.uniform(0, 5, size=(90, 4))
    p = softmax(1.2 * mu / np.sqrt(1 + 0.5 * v) + OFFSETS, axis=1)
    y = np.array([rng.choice(4, p=row) for row in p], dtype=float)
    return mu, v, y, rng.uniform(0, 3, size=90)


def found(link):
    return np.concatenate([[np.log(link.slope), np.log(link.damping)], link.offset])


# Fitting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", POINTS)
@pytest.mark.parametrize("prior_weight", [1.0, 0.3])
def test_the_loss_is_that_of_loops(x, prior_weight, scored):
    wanted = naive.softmax_link_loss(x, *scored, prior_weight)
    assert_allclose(_softmax_link_loss(x, *scored, prior_weight)[0], wanted, rtol=1e-12)


def test_the_loss_is_the_log_loss_and_the_priors(scored):
    mu, v, y, weight = scored
    link = SoftmaxLink(np.exp(0.3), OFFSETS, np.exp(-0.2))
    p = probabilities(link.score(mu, v))[np.arange(90), y.astype(int)]
    prior = norm.logpdf(0.3, np.log(1.7), 0.5) + norm.logpdf(OFFSETS, 0, 0.5).sum() - 5 * norm.logpdf(0, 0, 0.5)
    prior += norm.logpdf(-0.2, np.log(np.pi * 1.7**2 / 8), 1.0) - norm.logpdf(0, 0, 1.0)
    x = np.concatenate([[0.3, -0.2], OFFSETS])
    assert_allclose(_softmax_link_loss(x, *scored)[0], -weight @ np.log(p) - prior, rtol=1e-12)


@pytest.mark.parametrize("x", POINTS)
@pytest.mark.parametrize("prior_weight", [1.0, 0.3])
def test_gradient_of_the_loss_is_finite_differences(x, prior_weight, scored):
    wanted = references.gradient(lambda x: _softmax_link_loss(x, *scored, prior_weight)[0], x, 1e-4)
    assert_allclose(_softmax_link_loss(x, *scored, prior_weight)[1], wanted, rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("x", POINTS)
@pytest.mark.parametrize("prior_weight", [1.0, 0.3])
def test_curvature_of_the_loss_is_finite_differences(x, prior_weight, scored):
    def slope(x, i):
        return _softmax_link_loss(x, *scored, prior_weight)[1][i]

    wanted = [references.gradient(lambda x, i=i: slope(x, i), x, 1e-4) for i in range(6)]
    curvature = _softmax_link_loss(x, *scored, prior_weight)[2]
    assert_allclose(curvature, wanted, rtol=1e-7, atol=1e-6)
    assert_allclose(curvature, curvature.T, rtol=1e-12)


def test_the_fitted_link_is_the_optimum(scored):
    link = fit_softmax_link(*scored)
    best = minimize(lambda x: naive.softmax_link_loss(x, *scored), np.zeros(6), method="BFGS", options={"gtol": 1e-6})
    assert_allclose(found(link), best.x, atol=1e-4)
    # The loss itself is about a hundred, and so is the size of its slopes away from here.
    assert_allclose(_softmax_link_loss(found(link), *scored)[1], 0, atol=1e-7)


def test_a_fitted_link_is_better_than_others(scored):
    link = fit_softmax_link(*scored)
    at_best = _softmax_link_loss(found(link), *scored)[0]
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(10):
            assert _softmax_link_loss(found(link) + size * rng.normal(size=6), *scored)[0] > at_best


def test_all_classes_share_one_slope_and_one_damping(scored):
    mu, v, _, _ = scored
    link = fit_softmax_link(*scored)
    assert isinstance(link.slope, float)
    assert isinstance(link.damping, float)
    assert link.offset.shape == (4,)
    score = link.score(mu, v)
    for k in range(4):
        wanted = (link.slope * mu[:, k] + link.offset[k]) / np.sqrt(1 + link.damping * v[:, k])
        assert_allclose(score[:, k], wanted, rtol=1e-14)


def test_offsets_sum_to_nothing_where_variances_are_alike(scored):
    # Then only their differences count, and the prior takes the least of them.
    mu, v, y, weight = scored
    link = fit_softmax_link(mu, np.ones_like(v), y, weight)
    assert abs(link.offset.sum()) < 1e-9


def test_without_rows_the_link_is_its_prior():
    link = fit_softmax_link(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0))
    assert_allclose([link.slope, link.damping], [1.7, np.pi * 1.7**2 / 8])
    assert_array_equal(link.offset, np.zeros(3))


def test_link_of_weighted_rows_is_that_of_repeated_ones(scored):
    mu, v, y, _ = scored
    times = np.arange(90) % 4
    repeated = fit_softmax_link(*(np.repeat(part, times, axis=0) for part in (mu, v, y)), np.ones(times.sum()))
    weighted = fit_softmax_link(mu, v, y, times.astype(float))
    assert_allclose(found(weighted), found(repeated), rtol=1e-8, atol=1e-10)


def test_classes_in_another_order_have_their_offsets_in_that_order(scored):
    mu, v, y, weight = scored
    order = np.array([2, 0, 3, 1])
    one = fit_softmax_link(*scored)
    other = fit_softmax_link(mu[:, order], v[:, order], np.argsort(order)[y.astype(int)].astype(float), weight)
    assert_allclose([other.slope, other.damping], [one.slope, one.damping], rtol=1e-8)
    assert_allclose(other.offset, one.offset[order], atol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 2e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("total", [10.0, 1e6, 1e9])
@pytest.mark.parametrize("right", [1.0, 0.8, 0.0])
def test_link_fits_latent_values_of_any_size_and_number(size, total, right):
    y = np.arange(99) % 3.0
    said = np.where(np.arange(99) < 99 * right, y, (y + 1) % 3).astype(int)
    args = size * np.eye(3)[said], np.zeros((99, 3)), y, np.full(99, total / 99)
    link = fit_softmax_link(*args)
    assert link.slope > 0
    assert link.damping > 0
    assert np.isfinite(found(link)).all()
    _, gradient, curvature = _softmax_link_loss(found(link), *args)
    # A loss of 1e9 is known to 1e-7, and so its minimum, with a curvature of 4 or more, to the square root of that.
    assert_allclose(np.linalg.solve(curvature, gradient), 0, atol=1e-3)


def test_a_class_that_no_row_has_stays_unlikely_but_possible():
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2.0
    mu = 2 * np.eye(3)[y.astype(int)] + 0.1 * rng.normal(size=(100, 3))
    link = fit_softmax_link(mu, np.ones((100, 3)), y, np.ones(100))
    p = probabilities(link.score(mu, np.ones((100, 3))))
    assert np.isfinite(p).all()
    assert link.offset[2] < min(link.offset[:2])
    assert 0 < p[:, 2].mean() < 0.1


# Scores and probabilities ------------------------------------------------------------------------


def test_two_classes_are_one_difference():
    """Where both variances are alike, and half of the slope is for either side."""
    rng = np.random.default_rng(2)
    mu, v = rng.normal(size=50), rng.uniform(0, 3, size=50)
    both = np.stack([-mu / 2, mu / 2], axis=1), np.stack([v, v], axis=1)
    one = probabilities(LogisticLink(1.4, 0.3, 0.2).score(mu, v))
    assert_allclose(probabilities(SoftmaxLink(1.4, np.array([-0.15, 0.15]), 0.2).score(*both)), one, rtol=1e-12)


def test_the_log_losses_are_those_of_the_probabilities(scored):
    mu, v, y, weight = scored
    link = SoftmaxLink(1.3, OFFSETS, 0.2)
    p = probabilities(link.score(mu, v))
    losses = log_losses(link.score(mu, v), y)
    assert_allclose(p, softmax(link.score(mu, v), axis=1), rtol=1e-12)
    for i, own in enumerate(y.astype(int)):
        assert_allclose(losses[i], -np.log(p[i, own]), rtol=1e-10)
    record = Record(mu, v, y, weight)
    assert_allclose(record.losses(link), losses)
    assert_allclose(record.log_loss(link), weight @ losses / weight.sum())
    assert_allclose(found(record.link()), found(fit_softmax_link(*scored)))


def test_log_losses_far_away_are_finite():
    score = np.array([[1e6, 0.0, -1e6], [0.0, 0.0, 0.0]])
    assert_allclose(log_losses(score, np.array([2.0, 1.0])), [2e6, np.log(3)])


def test_the_probit_link_is_the_chance_to_be_the_largest_under_noise():
    rng = np.random.default_rng(3)
    mu, v = 2 * rng.normal(size=(12, 3)), rng.uniform(0, 4, size=(12, 3))
    p = probabilities(ProbitLink(many=True).score(mu, v))
    wanted = [references_uncertainty.winning(*row) for row in zip(mu, 1 + v, strict=True)]
    assert_allclose(p, wanted, atol=1e-8)
    by_draws = references_uncertainty.winning_by_draws(mu[0], 1 + v[0], 200_000, rng)
    assert_allclose(p[0], by_draws, atol=0.006)  # five standard errors of a share of 2e5 draws
    # Of two classes it is that of two classes.
    two = probabilities(ProbitLink(many=True).score(mu[:, :2] / 2**0.5, v[:, :2]))[:, 1]
    spread = np.sqrt(2 + v[:, :2].sum(axis=1))
    assert_allclose(two, norm.cdf((mu[:, 1] - mu[:, 0]) / 2**0.5 / spread), atol=1e-8)


huge = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e150, 1e300]), st.floats(0, 1e300))


@pytest.mark.parametrize("link", LINKS, ids=lambda link: type(link).__name__)
@given(
    mu=st.lists(st.tuples(huge, st.sampled_from([-1.0, 1.0])), min_size=3, max_size=3),
    v=st.lists(huge, min_size=3, max_size=3),
)
def test_probabilities_are_probabilities_whatever_the_latent_moments(link, mu, v):
    p = probabilities(settled(link.score(np.array([[size * sign for size, sign in mu]]), np.array([v]))))
    assert np.all((p >= 0) & (p <= 1))
    assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


def test_scores_of_many_classes_are_left_as_they_are():
    score = np.array([[1e-16, 0.0, -1e-16]])
    assert settled(score) is score


# Records of them ---------------------------------------------------------------------------------


def test_records_of_classes_follow_each_other(scored):
    mu, v, y, weight = scored
    old, new = (Record(mu[part], v[part], y[part], weight[part]) for part in (slice(0, 50), slice(50, 90)))
    both = old.followed_by(new, keep=0.5)
    kept = np.concatenate([0.5 * weight[:50], weight[50:]])
    assert_allclose(both.weight, kept[kept > 0])
    assert both.mu.shape == both.v.shape == (len(both.weight), 4)
    thin = old.thinned(at_most=20)
    assert thin.mu.shape == (20, 4)
    assert_allclose(thin.weight.sum(), old.weight.sum())


def test_a_record_of_classes_may_follow_nothing(scored):
    mu, v, y, weight = scored
    after = NOTHING.followed_by(Record(mu, v, y, weight), keep=1.0)
    assert_allclose(after.mu, mu[weight > 0])
