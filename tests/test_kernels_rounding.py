"""Kernels where numbers are huge, or rows coincide up to rounding."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import gammaln

from softmargin.kernels import RBF, Matern

KERNELS = [RBF, Matern, lambda length_scale: Matern(length_scale, nu=0.5)]


@pytest.mark.parametrize("make", KERNELS)
def test_rows_near_the_largest_number_have_a_kernel(make):
    """Their sum is none, their mean is."""
    X = np.array([[1.7e308], [1.6e308], [1.65e308]])
    assert_allclose(make(1e307)(X, X), make(1.0)(X / 1e307, X / 1e307), rtol=1e-10)


@pytest.mark.parametrize("make", KERNELS)
def test_no_two_rows_are_more_alike_than_a_row_is_with_itself(make, rng):
    X = 1e5 * rng.normal(size=(60, 7))
    K = make(1.0)(X, np.concatenate([X, X * (1 + 1e-16)]))
    assert K.max() <= 1
    assert_allclose(np.diagonal(K), 1, atol=1e-3)


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.5])
def test_rows_that_coincide_up_to_rounding_do_coincide(nu, rng):
    """Rough kernels would feel the root of the rounding: a millionth of a length-scale for rows ten thousand away."""
    X = 1e4 * rng.normal(size=(60, 7))
    K = Matern(1.0, nu=nu)(X, X[::-1])[:, ::-1]
    assert np.array_equal(np.diagonal(K), np.ones(60))
    assert Matern(1.0, nu=nu)(X, X + 0.1)[0, 0] < 0.95


@pytest.mark.parametrize("nu", [0.3, 0.5])
def test_rows_that_coincide_tell_nothing_of_length_scales(nu, rng):
    """Their kernel is one, whatever these are; the slope in the distance has no limit there, and none is taken."""
    X = 1e3 * rng.normal(size=(40, 3))
    for length_scale in (1.0, (1.0, 2.0, 3.0)):
        kernel = Matern(length_scale, nu=nu)
        assert not kernel.pullback(X, X, np.diag(rng.normal(size=40))).any()
        assert not kernel.pullback_inputs(X, X, np.diag(rng.normal(size=40))).any()


def mixture(s, nu, power=0):
    r"""Matern kernels are mixtures of square exponentials: :math:`E (-x)^p e^{-s x}`, where :math:`1/x` is a gamma
    variable of shape ``nu`` and rate ``nu / 2``.  By a sum over an even grid of logarithms, which converges
    exponentially, without Bessel functions."""
    log_t = np.linspace(-300 / nu if nu < 1 else -300, 8, 400_001)
    log_density = nu * log_t - np.exp(log_t) - gammaln(nu)
    log_x = np.log(nu / 2) - log_t
    log_terms = log_density + power * log_x - np.multiply.outer(s, np.exp(np.minimum(log_x, 700)))
    return (-1) ** power * np.exp(log_terms).sum(axis=-1) * (log_t[1] - log_t[0])


#: Distances in units of the length-scale, from those that round to nothing to those where nothing is left.
DISTANCES = np.array([0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.03, 0.1, 0.3, 1.0, 2.0, 3.7, 6.0, 10.0, 20.0, 40.0])
SMOOTHNESS = [0.5, 0.7, 1.5, 3.2, 10.0, 30.0]


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-8), (np.float32, 2e-4)])
@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_matern_is_a_mixture_at_any_distance(nu, dtype, rtol, convert):
    kernel, s = Matern(1.0, nu=nu), DISTANCES**2
    squares = convert(s.astype(dtype))
    K, slopes = kernel._shape(squares), np.asarray(kernel._slope(squares))
    assert K.dtype == squares.dtype
    assert_allclose(np.asarray(K), mixture(s, nu), rtol=rtol, atol=1e-30)
    some = s > 1e-12
    assert_allclose(slopes[some], mixture(s[some], nu, power=1), rtol=rtol, atol=1e-30)
    assert np.isfinite(slopes).all()
    if nu > 1:  # the limit at zero, up to a share of the distance
        assert_allclose(slopes[(s > 0) & ~some], -nu / (2 * nu - 2), rtol=1e-6)
    # Rows a rounding apart may coincide for the whole kernel, which knows their distance only from the squares.
    zero, X = convert(np.zeros((1, 1), dtype)), convert(DISTANCES[:, None].astype(dtype))
    assert_allclose(np.asarray(kernel(zero, X))[0, 6:], mixture(s[6:], nu), rtol=100 * rtol, atol=1e-4 * rtol)


@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_gradients_of_matern_are_finite_differences_at_any_distance(nu):
    kernel = Matern(1.3, nu=nu)
    for distance in DISTANCES[DISTANCES >= 1e-3]:
        x, z, one, step = np.array([[distance]]), np.zeros((1, 1)), np.ones((1, 1)), 1e-5
        up, down = (kernel.with_theta(kernel.theta + e)(x, z)[0, 0] for e in (step, -step))
        assert_allclose(kernel.pullback(x, z, one)[0], (up - down) / (2 * step), rtol=1e-5, atol=1e-9)
        step *= distance
        up, down = (kernel(x + e, z)[0, 0] for e in (step, -step))
        # The kernel is one up to 1e-16, over a step of 1e-8.
        assert_allclose(kernel.pullback_inputs(x, z, one)[0, 0], (up - down) / (2 * step), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_matern_tables_are_covariances_of_rows_near_and_far(nu, dtype, rng):
    X = np.concatenate([1e-7 * rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), 30 * rng.normal(size=(20, 2))])
    X, kernel = X.astype(dtype), Matern((0.7, 1.2), nu=nu)
    K = kernel(X, X)
    assert K.dtype == dtype
    assert ((K >= 0) & (K <= 1)).all()
    assert np.linalg.eigvalsh(K.astype(np.float64))[0] > -100 * np.finfo(dtype).eps ** 0.5
    for gradient in (kernel.pullback(X, X, K), kernel.pullback_inputs(X, X, K)):
        assert np.isfinite(gradient).all()
