"""The search for the best link: where it begins, and when its last step may be trusted."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from softmargin import links


def test_a_search_that_has_not_come_to_rest_ends_where_it_is():
    """Far out on a loss that grows more and more like a straight line, Newton's step goes the further beyond."""

    def loss(x):
        root = np.sqrt(1 + x[0] ** 2)
        return root + x[1] ** 2, np.array([x[0] / root, 2 * x[1]]), np.diag([root**-3, 2.0])

    start = np.array([1e7, 0.0])  # more than all steps together can go
    end = links._least(loss, start)
    assert 1e6 < end[0] < start[0]


def _drawn(seed, n_classes=2):
    rng = np.random.default_rng(seed)
    size = 300 if n_classes == 2 else (300, n_classes)
    mu, v = 3 * rng.normal(size=size), rng.uniform(0.1, 2, size=size)
    noisy = mu + rng.logistic(size=size)
    y = np.sign(noisy) if n_classes == 2 else noisy.argmax(axis=1).astype(float)
    return mu, v, y, rng.uniform(0.5, 2, size=300)


@pytest.mark.parametrize("seed", range(6))
def test_newtons_steps_end_where_a_trust_region_does(seed):
    mu, v, y, weight = _drawn(seed)
    rows = mu, v, y, weight / (1 + weight.sum()), 1 / (1 + weight.sum())

    def loss(x):
        return links._link_loss(x, *rows)

    wanted = links._trusted(loss, links._PRIOR_MEAN)
    start = wanted + np.array([0.05, -0.02, 0.1])
    end = links._newton(loss, start, loss(start))
    assert end is not None
    assert_allclose(end, wanted, rtol=0, atol=1e-10)


def test_newtons_steps_are_given_up_where_they_are_long_or_disappoint():
    def flat(x):  # the logarithm of a quartic: from afar Newton's step goes the wrong way
        return np.log1p(x[0] ** 4), np.array([4 * x[0] ** 3 / (1 + x[0] ** 4)]), np.array([[-1.0]])

    def steep(x):
        return float(np.cosh(x[0])), np.array([np.sinh(x[0])]), np.array([[0.1]])

    def far(x):
        return float((x[0] - 9) ** 2), np.array([2 * (x[0] - 9)]), np.array([[2.0]])

    for loss in (flat, steep, far):
        assert links._newton(loss, np.array([1.0]), loss(np.array([1.0]))) is None
        assert np.isfinite(links._least(loss, np.array([1.0]))).all()


def _valley(x):
    """From ``x = u`` Newton's step leads to ``-u**3``."""
    root = np.sqrt(1 + x[0] ** 2)
    return float(root), np.array([x[0] / root]), np.array([[root**-3]])


@pytest.mark.parametrize(("u", "share"), [(0.5, 0.79), (0.6, 0.68)])
def test_newtons_steps_go_on_where_they_keep_what_they_promise(u, share):
    value, slope, curvature = _valley(np.array([u]))
    promised = (slope @ np.linalg.solve(curvature, slope)) / 2
    assert (value - _valley(np.array([-(u**3)]))[0]) / promised == pytest.approx(share, abs=0.01)
    assert links._newton(_valley, np.array([u]), _valley(np.array([u]))) == pytest.approx(0, abs=1e-12)


def test_newtons_steps_end_where_one_brings_a_fifth_of_what_it_promises(monkeypatch):
    """Just below the quarter that is asked for; the step itself is short enough."""
    monkeypatch.setattr(links, "_TRUSTED", 10.0)
    value, slope, curvature = _valley(np.array([0.9]))
    promised = (slope @ np.linalg.solve(curvature, slope)) / 2
    assert (value - _valley(np.array([-(0.9**3)]))[0]) / promised == pytest.approx(0.198, abs=0.01)
    assert links._newton(_valley, np.array([0.9]), _valley(np.array([0.9]))) is None


def test_a_trust_region_looks_at_each_place_once_and_has_a_stand_in(monkeypatch):
    mu, v, y, weight = _drawn(0)
    rows = mu, v, y, weight / (1 + weight.sum()), 1 / (1 + weight.sum())
    seen = []

    def loss(x):
        seen.append(x.copy())
        return links._link_loss(x, *rows)

    wanted = links._trusted(loss, links._PRIOR_MEAN)
    *looks, _ = seen  # the last look is at the end, for the step beyond
    assert len(np.unique(looks, axis=0)) == len(looks)

    def without_trust(*args, method, **settings):
        if method == "trust-exact":
            raise UnboundLocalError("as SciPy does where the curvature is nearly zero")
        return minimize(*args, method=method, **settings)

    monkeypatch.setattr(links, "minimize", without_trust)
    assert_allclose(links._trusted(loss, links._PRIOR_MEAN), wanted, atol=1e-3)


def test_a_step_to_where_the_loss_overflows_is_taken_back():
    """Where a loss is hardly bent, the first step leads to where its exponential is no number."""

    def loss(x):
        first, second = math.exp(x[0]), math.exp(-x[0])  # least at log(1e-3) / 2, and straight in between
        return first + 1e-3 * second, np.array([first - 1e-3 * second]), np.array([[1e-9 + (x[0] < -3)]])

    start = np.array([-2.0])
    with pytest.raises(OverflowError):
        loss(start + 1e9)
    assert links._newton(loss, start, loss(start)) is None
    assert links._or_infinite(loss, start + 1e9)[0] == math.inf
    assert links._or_infinite(lambda x: (np.float64(1e300) * 1e300 * x[0], x, x), start)[0] == math.inf
    assert loss(links._least(loss, start))[0] < loss(start)[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_where_a_search_begins_does_not_tell_in_its_link(n_classes):
    rows = _drawn(7, n_classes)
    fit = links.fit_logistic_link if n_classes == 2 else links.fit_softmax_link
    plain = links.LogisticLink() if n_classes == 2 else links.SoftmaxLink()
    found = fit(*rows)
    for near in (plain, found, found._replace(slope=3 * found.slope)):
        again = fit(*rows, near=near)
        for one, other in zip(found, again, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 4])
def test_huge_latent_values_with_much_in_common_have_the_best_link(seed):
    """There are two optima, which only a link from a good start tells apart."""
    rng = np.random.default_rng(seed)
    mu = 1e4 * (1 + rng.normal(size=(60, 4)))
    v, weight = rng.uniform(size=(60, 4)), np.ones(60)
    y = np.where(rng.random(60) < 0.6, mu.argmax(axis=1), rng.integers(4, size=60)).astype(float)
    found = links.fit_softmax_link(mu, v, y, weight)

    def loss(x):
        return links._softmax_link_loss(x, mu, v, y, weight)

    x = np.concatenate([[np.log(found.slope), np.log(found.damping)], found.offset])
    for log_slope in (0.0, -3.0, -6.0, -9.0, -12.0):
        start = np.concatenate([[log_slope, 0.0], np.zeros(4)])
        other = minimize(lambda t: loss(t)[:2], start, jac=True, hess=lambda t: loss(t)[2], method="trust-exact")
        assert loss(x)[0] <= other.fun + 1e-6
