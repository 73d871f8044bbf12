"""One row at a time: scales and their sites, and rows without themselves."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_expit
from scipy.stats import chi2, geninvgauss, kstest

import references
from references_gibbs import ERRORS
from softmargin.gibbs import HingeScales, PolyaGamma, augmentation_of
from softmargin.gibbs.augmentation import Site, _mode_gap, _small_polya_gamma
from softmargin.gibbs.left_out import Weighted, Without, without_rows
from softmargin.inference import DRAWABLE, HINGES
from softmargin.likelihoods import LOSSES, Logistic, PointHinge, Quadrature
from softmargin.rows import Latent


@pytest.fixture
def polya_gamma():
    return PolyaGamma(pytest.importorskip("polyagamma").random_polyagamma)


@pytest.fixture(params=["hinge", "logistic"])
def augmentation(request):
    return HingeScales() if request.param == "hinge" else request.getfixturevalue("polya_gamma")


# Scales and sites ----------------------------------------------------------------------------------


def test_losses_and_their_augmentations():
    pytest.importorskip("polyagamma")
    found = {name: type(augmentation_of(LOSSES[name])) for name in DRAWABLE}
    assert found == dict.fromkeys(HINGES, HingeScales) | dict.fromkeys(("logistic", "logistic-jj"), PolyaGamma)
    assert isinstance(augmentation_of(PointHinge()), HingeScales)
    for name in set(LOSSES) - set(DRAWABLE):
        with pytest.raises(TypeError, match="available for the hinge and the logistic likelihood only, got"):
            augmentation_of(LOSSES[name])


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polyagamma", None)
    with pytest.raises(ImportError, match=r'pip install "softmargin\[gibbs\]"'):
        augmentation_of(Quadrature(Logistic()))
    assert isinstance(augmentation_of(LOSSES["hinge"]), HingeScales)


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("z", [-2.0, 0.05, 3.0])
def test_scales_have_their_conditional(z, c, rng):
    y, f = np.full(4000, -1.0), np.full(4000, z - 1)
    w, b = HingeScales().drawn(y, f, np.full(4000, c), 1e10, rng)
    assert_allclose(b, -(c + w))
    scale = c / w
    # p(lambda | f) is proportional to lambda^-1/2 exp(-(c lambda + c z^2 / lambda) / 2): GIG(1/2, c, c z^2).
    law = geninvgauss(0.5, c * abs(z), scale=abs(z))
    assert kstest(scale, law.cdf).pvalue > 1e-3
    assert abs(scale.mean() - (abs(z) + 1 / c)) < ERRORS * scale.std() / np.sqrt(len(scale))


def test_scales_at_the_margin_are_chi_squared(rng):
    w, _ = HingeScales().drawn(np.ones(20_000), np.ones(20_000), np.full(20_000, 2.0), 1e10, rng)
    assert np.all((w > 0) & (w <= 1e10))
    assert kstest(4 / w, chi2(1).cdf).pvalue > 1e-3


def test_sites_and_leftovers_are_gaussian_conditionals():
    y, leftover, c, t = (np.array(part) for part in ([1.0, -1.0], [0.7, 2.0], [1.0, 3.0], [0.4, 5.0]))
    scale, explained = 1 / t, np.array([0.3, -0.2])
    site = Site(c * t, c * (1 + t) * y)
    w, b = site.spared(leftover)
    assert_allclose(w, 1 / (scale / c + leftover))
    assert_allclose(b, w * y * (1 + scale))
    many = Site(*(np.repeat(part, 50_000) for part in site))
    rest = (np.repeat(part, 50_000) for part in (explained, leftover))
    e = many.draw_leftover(*rest, np.random.default_rng(0)).reshape(2, -1)
    sd = np.sqrt(leftover * (scale / c) / (leftover + scale / c))
    mean = leftover / (leftover + scale / c) * (y * (1 + scale) - explained)
    # Standard errors of a mean and of a standard deviation of 50,000 normal numbers.
    assert np.all(np.abs(e.mean(axis=1) - mean) < ERRORS * sd / np.sqrt(50_000))
    assert np.all(np.abs(e.std(axis=1) / sd - 1) < ERRORS / np.sqrt(100_000))


@pytest.mark.parametrize("distance", [1e-300, 1e-10, 1e-3, 1e3, 1e10, 1e90])
@pytest.mark.parametrize("c", [1e-3, 1.0, 1e4])
def test_scales_at_any_distance_are_positive_and_as_large_as_they_should_be(distance, c, rng):
    w, b = HingeScales().drawn(np.ones(2000), np.full(2000, -distance), np.full(2000, c), 1e12, rng)
    assert np.all(np.isfinite(w) & (w >= 0) & (w <= 1e12) & np.isfinite(b))
    z = 1 + distance
    # E t = 1/|z|, Var t = 1/(c |z|^3).
    assert abs(w.mean() - c / z) <= ERRORS * np.sqrt(c / z**3 / 2000) + 1e-12 * c / z
    near, _ = HingeScales().drawn(np.ones(2000), 1 + np.full(2000, 1e-12), np.full(2000, c), 1e12, rng)
    assert np.all(np.isfinite(near) & (near > 0))


def test_rows_of_no_weight_say_nothing(augmentation, rng):
    y, zero, f = np.ones(4), np.zeros(4), np.array([0.0, 1.0, 50.0, -1e12])
    for site in (augmentation.start(y, zero), augmentation.drawn(y, f, zero, 1e10, rng)):
        assert_allclose(site, 0)
        assert_allclose(site.spared(np.arange(4.0)), 0)


def test_a_scale_without_end_leaves_the_slope():
    site = Site(np.zeros(3), np.ones(3))
    assert_allclose(site.spared(np.array([0.0, 1.0, 1e9])), site)


def test_starts_are_mean_sites_at_zero(augmentation, rng):
    y, c = np.tile([1.0, -1.0], 20_000), np.full(40_000, 2.5)
    start = augmentation.start(y, c)
    drawn = augmentation.drawn(y, np.zeros(40_000), c, 1e10, rng)
    assert abs(drawn.w.mean() - start.w.mean()) < ERRORS * drawn.w.std() / 200
    assert abs((y * drawn.b).mean() - (y * start.b).mean()) < ERRORS * drawn.w.std() / 200


@pytest.mark.parametrize("f", [0.0, 1.5, -8.0, 19.9, 20.1, 300.0, -1e4, 1e10])
@pytest.mark.parametrize("c", [1e-4, 0.02, 0.3, 1.0, 2.0, 12.5, 60.0, 1000.5])
def test_polya_gamma_numbers_have_their_moments(polya_gamma, f, c, rng):
    n = 20_000
    w, b = polya_gamma.drawn(np.full(n, -1.0), np.full(n, f), np.full(n, c), 1e10, rng)
    assert_allclose(b, -c / 2)
    # E = c tanh(f/2) / (2 f); Var = c (sinh f - f) / (4 f^3 cosh^2(f/2)), written without overflow.
    x = max(abs(f), 1e-2)
    mean = c * np.tanh(x / 2) / (2 * x)
    variance = c * (np.tanh(x / 2) / 2 - x / (4 * np.cosh(min(x, 500) / 2) ** 2)) / x**3
    # Far out the numbers hardly scatter: what is left is rounding, and how far 0.01 stands for 0.
    assert abs(w.mean() - mean) < ERRORS * np.sqrt(variance / n) + 1e-5 * mean
    # The kurtosis of a Polya-Gamma number is at most that of a gamma of the same shape, 3 + 6/c.
    assert abs(w.var() / variance - 1) < ERRORS * np.sqrt((2 + 6 / c) / n) + 1e-2


@pytest.mark.parametrize("f", [0.3, 6.0])
def test_polya_gamma_numbers_average_to_the_likelihood(polya_gamma, f, rng):
    """``E exp(-w f^2/2)`` under ``PG(c, 0)`` is ``cosh(f/2)^-c``, whichever way they are drawn."""
    for c in (1e-3, 0.7, 3.0):
        w, _ = polya_gamma.drawn(np.ones(40_000), np.zeros(40_000), np.full(40_000, c), 1e10, rng)
        values = np.exp(-w * f**2 / 2)
        assert abs(values.mean() - np.cosh(f / 2) ** -c) < ERRORS * values.std() / 200
    many, few = (_small_polya_gamma(np.full(40_000, 0.7), np.full(40_000, 1.0), rng), polya_gamma)
    others, _ = few.drawn(np.ones(40_000), np.ones(40_000), np.full(40_000, 0.7), 1e10, rng)
    assert_allclose(np.quantile(many, [0.1, 0.5, 0.9]), np.quantile(others, [0.1, 0.5, 0.9]), rtol=0.05)


# Rows without themselves ---------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.0, 0.4, 3.0, 50.0])
@pytest.mark.parametrize("v", [1e-6, 0.01, 1.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("mu", [-300.0, -40.0, -4.0, 0.9, 6.0])
def test_moments_of_a_gaussian_times_a_logistic_power_equal_a_fine_grid(mu, v, k):
    y = -1.0
    got = PolyaGamma(None).tilted(*(np.array([part]) for part in (y, mu, v, k)))
    # Strongly log-concave: nothing lies farther than a few deviations of the Gaussian from the mode.
    center = y * mu + float(_mode_gap(np.array([y * mu]), np.array([v]), np.array([k]))[0])
    f = center + np.sqrt(v) * np.linspace(-10, 10, 400_001)
    log_density = k * log_expit(f) - (f - y * mu) ** 2 / (2 * v)
    p = np.exp(log_density - log_density.max())
    total = log_density.max() + np.log(p.sum() * (f[1] - f[0])) - 0.5 * np.log(2 * np.pi * v)
    mean = p @ f / p.sum()
    sd = np.sqrt(p @ (f - mean) ** 2 / p.sum())
    assert_allclose(got.log_total[0], total, rtol=1e-6, atol=1e-6)
    assert_allclose(got.variance[0], sd**2, rtol=1e-5)
    assert abs(y * got.mean[0] - mean) < 1e-5 * sd


def test_nodes_of_wide_gaussians_need_not_be_those_of_others():
    y, mu, v, k = np.ones(4), np.array([0.3, 30.0, -2.0, -900.0]), np.array([0.5, 1e5, 3.0, 1e5]), np.full(4, 1.0)
    together = PolyaGamma(None).tilted(y, mu, v, k)
    for i in range(4):
        assert_allclose(
            np.ravel(PolyaGamma(None).tilted(y[i], *(part[i : i + 1] for part in (mu, v, k)))),
            np.array(together)[:, i],
            rtol=1e-12,
        )
    assert_allclose(together.log_total[1], -0.6202877354, atol=1e-8)


def test_a_gaussian_without_width_is_a_point(augmentation):
    mu = np.array([-30.0, 0.5, 4.0])
    log_density = {"HingeScales": -2 * np.maximum(0, 1 - mu), "PolyaGamma": log_expit(mu)}[type(augmentation).__name__]
    for v in (0.0, 1e-30):
        got = augmentation.tilted(np.ones(3), mu, np.full(3, v), np.full(3, 2.5))
        assert_allclose(got.log_total, 2.5 * log_density, rtol=1e-6)
        assert_allclose(got.mean, mu, rtol=1e-9)
        assert np.all(got.variance < 1e-20)


@pytest.mark.parametrize("v", [900.0, 1e4])
def test_wide_gaussians_times_a_logistic_edge_are_near_half_of_them(v):
    got = PolyaGamma(None).tilted(np.ones(1), np.zeros(1), np.array([v]), np.ones(1))
    # The edge is one wide, the Gaussian thirty and more: a half-normal, up to the square of that ratio.
    assert_allclose(np.exp(got.log_total), 0.5, rtol=2e-3)
    assert_allclose(got.mean, np.sqrt(2 * v / np.pi), rtol=5e-3)
    assert_allclose(got.variance, v * (1 - 2 / np.pi), rtol=2e-2)


@pytest.mark.parametrize("k", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("v", [1e-30, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("mu", [-4.0, 0.9, 6.0])
def test_moments_of_a_gaussian_times_a_hinge_equal_quadrature(mu, v, k):
    y, kinks = -1.0, (-1.0,)

    def moment(power):
        def function(f):
            return (f - mu) ** power * np.exp(-2 * k * np.maximum(0, 1 - y * f))

        return references.normal_expectation(function, mu, v, kinks)

    got = HingeScales().tilted(np.array([y]), np.array([mu]), np.array([v]), np.array([k]))
    total, first, second = moment(0), moment(1), moment(2)
    assert_allclose(got.log_total[0], np.log(total), rtol=1e-8, atol=1e-9)
    assert_allclose(got.mean[0], mu + first / total, rtol=1e-7)
    # The formula takes differences of terms of order v, and v below 1e-24 counts as that.
    assert_allclose(got.variance[0], second / total - (first / total) ** 2, rtol=1e-6, atol=1e-9 * v + 1e-20)


def test_a_draw_that_pins_a_row_to_its_margin_is_passed_over():
    latent = Latent(np.array([1.0, 0.5]), np.array([1e-12, 0.5]), np.zeros(2))
    y, t = np.ones(2), np.array([1e12, 1.0])
    log_r, mean, variance = without_rows(HingeScales(), latent, Site(t, 1 + t), y, y, y, 2.2e-16)
    assert log_r[0] == -1e300
    assert np.isfinite([mean, variance]).all()
    # The other: w = 1, b = 2, so (mu - a b)/(1 - w a) = -1 and a/(1 - w a) = 1.
    assert_allclose([mean[1], variance[1]], [-1.0, 1.0])
    assert_allclose(log_r[1], -HingeScales().tilted(np.ones(1), mean[1:], variance[1:], np.ones(1)).log_total[0])


def test_running_moments_survive_weights_of_any_size(rng):
    mean, variance = 1e3 + rng.normal(size=(500, 3)), rng.gamma(1.0, size=(500, 3))
    log_r = np.array([1.0, 30.0, 1e4]) * rng.normal(size=(500, 3))
    log_r[0] = -1e300  # passed over
    weighted = Weighted.nothing(3)
    for row in zip(log_r, mean, variance, strict=True):
        weighted = weighted.plus(Without(*row))
    r = np.exp(log_r - log_r.max(axis=0))
    r /= r.sum(axis=0)
    mu = np.sum(r * mean, axis=0)
    left_out = weighted.left_out()
    assert_allclose(left_out.mu, mu, rtol=1e-12)
    assert_allclose(left_out.v, np.sum(r * (variance + (mean - mu) ** 2), axis=0), rtol=1e-9)
    assert_allclose(weighted.total**2 / weighted.total_square, 1 / np.sum(r**2, axis=0))
    assert left_out.usable.tolist() == [True, False, False]
    nothing = Weighted.nothing(2).left_out()
    assert np.isfinite([nothing.mu, nothing.v]).all()
    assert not nothing.usable.any()
