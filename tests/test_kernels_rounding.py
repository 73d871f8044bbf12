"""Kernels where numbers are huge, or rows coincide up to rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

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
