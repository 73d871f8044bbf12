"""Properties of rows that a wrong sign, factor or index in `softmargin.rows` would break."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
from softmargin.gaussian import ClassBelief
from softmargin.kernels import RBF, Matern
from softmargin.likelihoods import Softmax
from softmargin.rows import ClasswiseRows, FourierRows, InducingRows
from softmargin.rows.inducing import _LARGEST_ERROR
from softmargin.rows.slopes import bound_slopes, in_points, in_theta

SINGLE = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_waves_have_a_slope_for_each_length_scale(n_columns, rng):
    rows = FourierRows.of(RBF(tuple(np.linspace(0.5, 2, n_columns))), n_columns, 6, "plain", np.random.RandomState(0))
    X, theta = rng.normal(size=(5, n_columns)), rows.kernel.theta
    dphi = rng.normal(size=rows.lift(X).phi.shape)

    def value(theta):
        return np.sum(dphi * rows._replace(kernel=rows.kernel.with_theta(theta)).lift(X).phi)

    steps = 1e-5 * np.eye(n_columns)
    wanted = [(value(theta + step) - value(theta - step)) / 2e-5 for step in steps]
    assert_allclose(rows.pullback(X, dphi), wanted, rtol=1e-6, atol=1e-8)


def test_the_bound_of_classes_slopes_in_kernel_and_points_as_finite_differences(rng):
    kernel, Z, X = 2.0 * RBF((0.7, 1.2)), rng.normal(size=(4, 2)), rng.normal(size=(12, 2))
    y, weight = rng.integers(0, 3, size=12).astype(float), rng.uniform(0.5, 2, size=12)
    belief = ClassBelief(tuple(contracts.random_belief(4, seed) for seed in range(3)))

    def bound(theta, points):
        rows = ClasswiseRows(InducingRows.at(kernel.with_theta(theta), points), 3)
        latent = rows.lift(X).moments(belief)
        return weight @ Softmax().sites(y, latent.mu, latent.v).l

    rows = InducingRows.at(kernel, Z)
    features = ClasswiseRows(rows, 3).lift(X)
    latent = features.moments(belief)
    _, w, b = Softmax().sites(y, latent.mu, latent.v)
    each = weight[:, None]
    slopes = bound_slopes(rows, X, features.phi, belief, each * w, each * b, points=True)
    steps = 1e-5 * np.eye(3)
    wanted = [(bound(kernel.theta + step, Z) - bound(kernel.theta - step, Z)) / 2e-5 for step in steps]
    assert_allclose(in_theta(rows, slopes), wanted, rtol=1e-5, atol=1e-6)
    for place in np.ndindex(Z.shape):
        step = np.zeros_like(Z)
        step[place] = 1e-5
        wanted = (bound(kernel.theta, Z + step) - bound(kernel.theta, Z - step)) / 2e-5
        assert_allclose(in_points(rows, slopes)[place], wanted, rtol=1e-5, atol=1e-6)


def test_points_of_smooth_kernels_are_held_apart_for_rows_of_less_precision(rng):
    Z = rng.uniform(size=(30, 1))
    smooth, rough = InducingRows.at(RBF(2.0), Z), InducingRows.at(Matern(0.01, nu=0.5), Z)
    assert SINGLE * smooth._loss > _LARGEST_ERROR
    seen = smooth.seen_with(SINGLE)
    # As much jitter as makes errors small enough, and no more than single precision has of its own.
    assert smooth.jitter < seen.jitter <= 1.01 * InducingRows.at(RBF(2.0), Z, SINGLE).jitter
    assert SINGLE * seen._loss <= _LARGEST_ERROR or np.isclose(seen.jitter, InducingRows.at(RBF(2.0), Z, SINGLE).jitter)
    assert rough.seen_with(SINGLE) is rough
    assert smooth.seen_with(1e-17) is smooth
