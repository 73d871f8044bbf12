"""Properties of rows that a wrong sign, factor or index in `softmargin.rows` would break."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
import references
from softmargin.gaussian import ClassBelief
from softmargin.kernels import RBF, Constant, Linear, Matern
from softmargin.likelihoods import Softmax
from softmargin.rows import ClasswiseRows, Cloud, FourierRows, InducingRows, ParticleRows, particles
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


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [1, 2])
def test_particles_have_a_slope_for_each_length_scale(n_columns, n_classes, rng):
    kernel = 1.5 * RBF(tuple(np.linspace(0.5, 2, n_columns)))
    rows = FourierRows.of(kernel, n_columns, 4, "plain", np.random.RandomState(0))
    X, theta = rng.normal(size=(5, n_columns)), kernel.theta + 0.3 * rng.normal(size=(2, n_columns + 1))
    cloud = Cloud(rng.normal(size=(2, rows.n_weights, n_classes)), theta)
    g, seen = rng.normal(size=(2, 5, n_classes)), ParticleRows(rows, X)

    def value(theta):
        return float(np.sum(g * seen.latent(seen.lift(X, theta), cloud._replace(theta=theta))))

    _, in_theta = seen.pullback(seen.lift(X, theta), cloud, g)
    assert_allclose(in_theta, references.gradient(value, theta, 1e-3), rtol=1e-6, atol=1e-7)


def test_particles_with_one_length_scale_each_go_as_they_fit(monkeypatch, rng):
    rows = FourierRows.of(RBF(0.7), 2, 4, "plain", np.random.RandomState(0))
    X, cloud = rng.normal(size=(5, 2)), Cloud(rng.normal(size=(6, 8, 1)), 0.3 * rng.normal(size=(6, 1)))
    seen = ParticleRows(rows, X)
    whole = seen.view(cloud, X).values(X)
    monkeypatch.setattr(particles, "_HOST_BYTES", 2 * 4 * 5 * rows.n_weights * 8)  # room for two
    assert seen.each(cloud, 5) == [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert_allclose(seen.view(cloud, X).values(X), whole, rtol=1e-12)


def test_kernels_without_waves_have_no_frequencies(rng):
    rows, X = FourierRows.of(Linear(0.4) + Constant(2.0), 3, 50, "plain", np.random.RandomState(0)), np.eye(3)
    assert rows.n_frequencies == 0
    assert rows.n_weights == 3 + 1
    assert_allclose(rows.lift(X).phi @ rows.lift(X).phi.T, rows.kernel(X, X))


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


@pytest.mark.parametrize("n_points", [8, 10, 30])
def test_jitter_climbs_by_tens_until_it_is_enough(n_points):
    kernel, Z = RBF(1.0), np.linspace(0, 1, n_points)[:, None]
    rows = InducingRows.at(kernel, Z)
    seen = rows.seen_with(SINGLE)
    steps = np.log10(seen.jitter / rows.jitter)
    assert_allclose(steps, round(steps), atol=1e-9)
    assert steps >= 1
    assert seen._loss * SINGLE <= _LARGEST_ERROR
    # A step before it was not enough; jitter is in units of a hundred roundings.
    assert InducingRows.at(kernel, Z, seen.jitter / 1000)._loss * SINGLE > _LARGEST_ERROR
