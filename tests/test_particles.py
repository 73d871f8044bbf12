"""Rows under many kernels at once."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import contracts
import references
from softmargin.arrays import cos_sin, to_numpy
from softmargin.kernels import RBF, Constant, Linear, Matern
from softmargin.rows import Cloud, FourierRows, ParticleRows, particles

ARD = (0.5, 2.0, 7.0)
CENTER = np.array([0.3, -1.0, 2.0])
KERNELS = [
    RBF(1.3),
    2.0 * RBF(ARD) + Constant(0.5),
    0.5 * (Matern(0.8, nu=0.5) * 3.0),
    1.5 * Matern(ARD, nu=2.5) + 0.2 * Linear(0.7) + Constant(0.1),
    2.0 * (RBF(0.9) + Constant(0.4)) + Matern(2.0),
    Linear(0.4) + Constant(2.0),
]
N_PARTICLES = 4

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
classes = pytest.mark.parametrize("n_classes", [1, 3])


def made(kernel, n_classes=1, n_rows=7, shared=False):
    """Rows, particles about the kernel, a block, and slopes in the latent values of it."""
    rng = np.random.default_rng(1)
    rows = FourierRows.of(kernel, 3, 5, "orthogonal", np.random.RandomState(0), CENTER)
    theta = kernel.theta + 0.5 * rng.normal(size=(1 if shared else N_PARTICLES, len(kernel.theta)))
    cloud = Cloud(rng.normal(size=(N_PARTICLES, rows.n_weights, n_classes)), theta)
    return rows, cloud, rng.normal(size=(n_rows, 3)), rng.normal(size=(N_PARTICLES, n_rows, n_classes))


def one_by_one(rows, cloud, X):
    """The latent values of each particle, through rows of its own kernel."""
    thetas = np.broadcast_to(cloud.theta, (cloud.n_particles, cloud.theta.shape[1]))
    kernels = [rows.kernel.with_theta(theta) for theta in thetas]
    lifted = (rows.with_kernel(kernel).lift(X).phi for kernel in kernels)
    return np.stack([phi @ weights for phi, weights in zip(lifted, cloud.weights, strict=True)])


@every_kernel
@classes
@pytest.mark.parametrize("shared", [False, True])
def test_latent_values_are_those_of_each_kernel_by_itself(kernel, n_classes, shared):
    rows, cloud, X, _ = made(kernel, n_classes, shared=shared)
    seen = ParticleRows(rows, X)
    f = seen.latent(seen.lift(X, cloud.theta), cloud)
    assert f.shape == (N_PARTICLES, 7, n_classes)
    assert_allclose(f, one_by_one(rows, cloud, X), rtol=1e-10, atol=1e-12)


@every_kernel
def test_waves_times_amplitudes_are_the_features(kernel):
    rows, cloud, X, _ = made(kernel)
    seen = ParticleRows(rows, X)
    features = seen.lift(X, cloud.theta).waves * seen.amplitudes(cloud.theta)[:, :, None]
    for phi, theta in zip(features, cloud.theta, strict=True):
        assert_allclose(phi.T, rows.with_kernel(kernel.with_theta(theta)).lift(X).phi, rtol=1e-10, atol=1e-12)
    assert seen.width == rows.n_weights


@every_kernel
@classes
def test_pullback_is_finite_differences(kernel, n_classes):
    rows, cloud, X, g = made(kernel, n_classes, n_rows=4)
    seen = ParticleRows(rows, X)

    def total(weights, theta):
        part = Cloud(weights, theta)
        return float(np.sum(g * seen.latent(seen.lift(X, theta), part)))

    in_weights, in_theta = seen.pullback(seen.lift(X, cloud.theta), cloud, g)
    # Angles reach tens where frequencies are high: fourth-order differences are good to 1e-7 of the sum.
    wanted = references.gradient(lambda theta: total(cloud.weights, theta), cloud.theta, 1e-4)
    assert_allclose(in_theta, wanted, rtol=1e-6, atol=1e-6)
    wanted = references.gradient(lambda weights: total(weights, cloud.theta), cloud.weights, 1e-2)  # a linear function
    assert_allclose(in_weights, wanted, rtol=1e-8, atol=1e-8)


@every_kernel
@classes
def test_pullback_is_that_of_each_kernel_by_itself(kernel, n_classes):
    rows, cloud, X, g = made(kernel, n_classes)
    seen = ParticleRows(rows, X)
    in_weights, in_theta = seen.pullback(seen.lift(X, cloud.theta), cloud, g)
    for s, theta in enumerate(cloud.theta):
        own = rows.with_kernel(kernel.with_theta(theta))
        assert_allclose(in_weights[s], own.lift(X).phi.T @ g[s], rtol=1e-9, atol=1e-10)
        assert_allclose(in_theta[s], own.pullback(X, g[s] @ cloud.weights[s].T), rtol=1e-9, atol=1e-9)


@every_kernel
@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_waves_with_phases_say_the_same(kernel, make):
    rows, cloud, X, g = made(kernel)
    cloud, X, g = Cloud(*map(make, cloud)), make(X), make(g)
    seen = ParticleRows(rows, X)
    plain = seen.lift(X, cloud.theta)
    upright, phases = seen.upright(cloud)
    waves = seen.lift(X, upright.theta, phases)
    assert_allclose(to_numpy(seen.latent(waves, upright)), to_numpy(seen.latent(plain, cloud)), rtol=1e-10, atol=1e-12)
    in_weights, in_theta = seen.pullback(waves, upright, g)
    wanted = seen.pullback(plain, cloud, g)
    assert_allclose(to_numpy(seen.turned_back(in_weights, phases)), to_numpy(wanted[0]), rtol=1e-9, atol=1e-10)
    assert_allclose(to_numpy(in_theta), to_numpy(wanted[1]), rtol=1e-9, atol=1e-9)


def test_waves_that_are_shared_have_no_phases():
    for n_classes, shared in ((2, False), (3, False), (1, True)):
        rows, cloud, X, g = made(KERNELS[1], n_classes, shared=shared)
        seen = ParticleRows(rows, X)
        assert seen.upright(cloud) == (cloud, None)
        assert seen.turned_back(g, None) is g


@every_kernel
@classes
def test_a_kernel_that_all_share_is_as_many_of_the_same(kernel, n_classes):
    rows, cloud, X, g = made(kernel, n_classes, shared=True)
    each = Cloud(cloud.weights, np.repeat(cloud.theta, N_PARTICLES, axis=0))
    seen = ParticleRows(rows, X)
    assert seen.each(cloud, 7) == [slice(0, N_PARTICLES)]
    one, many = (seen.lift(X, part.theta) for part in (cloud, each))
    assert one.waves.shape[0] == 1
    # One product for all particles side by side, or one for each: sums in another order.
    assert_allclose(seen.latent(one, cloud), seen.latent(many, each), rtol=1e-10, atol=1e-12)
    in_weights, in_theta = seen.pullback(one, cloud, g)
    assert_allclose(in_weights, seen.pullback(many, each, g)[0], rtol=1e-10, atol=1e-10)
    assert_array_equal(in_theta, np.zeros_like(cloud.theta))  # it is held


@every_kernel
@pytest.mark.parametrize("shared", [False, True])
def test_torch_and_single_precision_agree(kernel, shared):
    rows, cloud, X, g = made(kernel, 3, shared=shared)
    seen = ParticleRows(rows, X)
    lifted = seen.lift(X, cloud.theta)
    wanted = [seen.latent(lifted, cloud), *seen.pullback(lifted, cloud, g)]
    # Single precision: rounding of angles in the tens, and sums of seven rows.
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-3)):
        for block in (X.astype(dtype), torch.from_numpy(X.astype(dtype))):
            here, part = ParticleRows(rows, block), cloud.seen_by(block)
            slopes = g.astype(dtype) if isinstance(block, np.ndarray) else torch.from_numpy(g.astype(dtype))
            lifted = here.lift(block, part.theta)
            got = [here.latent(lifted, part), *here.pullback(lifted, part, slopes)]
            for one, exact in zip(got, wanted, strict=True):
                assert type(one) is type(block)
                assert one.dtype == block.dtype
                assert_allclose(to_numpy(one), exact, rtol=tolerance, atol=tolerance * np.abs(exact).max(initial=1))


@pytest.mark.parametrize(("make", "limit"), [(np.asarray, "_HOST_BYTES"), (torch.from_numpy, "_DEVICE_BYTES")])
def test_particles_are_taken_together_as_far_as_they_fit(monkeypatch, make, limit):
    rows, cloud, X, _ = made(KERNELS[1], 2)
    block = make(X)
    seen = ParticleRows(rows, block)
    assert seen.together(cloud, 7) == N_PARTICLES
    assert seen.together(cloud, 10**9) == 1
    whole = seen.view(cloud, block).values(block)
    monkeypatch.setattr(particles, limit, 3 * 4 * 7 * rows.n_weights * 8)  # room for three
    assert seen.each(cloud, 7) == [slice(0, 3), slice(3, 6)]
    assert_allclose(seen.view(cloud, block).values(block), whole, rtol=1e-12)


@every_kernel
@classes
@pytest.mark.parametrize("shared", [False, True])
def test_a_view_has_the_moments_of_particles(kernel, n_classes, shared):
    rows, cloud, X, _ = made(kernel, n_classes, shared=shared)
    f = one_by_one(rows, cloud, X)
    mean, variance = sum(f) / N_PARTICLES, sum((f - f.mean(axis=0)) ** 2) / N_PARTICLES
    for block, tolerance in ((X, 1e-10), (torch.from_numpy(X), 1e-10), (X.astype(np.float32), 1e-3)):
        view = ParticleRows(rows, X).view(cloud, block)
        assert_allclose(to_numpy(view.values(block)), f, rtol=tolerance, atol=tolerance * np.abs(f).max())
        for got, wanted in zip(view.moments(block), (mean, variance), strict=True):
            wanted = wanted[:, 0] if n_classes == 1 else wanted
            assert got.shape == wanted.shape
            assert str(got.dtype).endswith("float64")
            assert_allclose(contracts.to_numpy(got), wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


def test_rows_far_from_the_origin_are_narrowed_about_the_centre():
    far = 2.0**30  # a unit of single precision is 128 there
    rows, cloud, X, _ = made(KERNELS[1])
    rows = rows._replace(center=CENTER + far)
    X = np.round(X * 2**20) / 2**20  # so that no digit is lost in double precision
    wanted = one_by_one(rows, cloud, X + far)
    seen, part = ParticleRows(rows, np.empty(0, dtype=np.float32)), cloud.seen_by(np.empty(0, dtype=np.float32))
    f = seen.latent(seen.lift(X + far, part.theta), part)
    assert f.dtype == np.float32
    assert_allclose(f, wanted, atol=1e-3 * np.abs(wanted).max())  # as above


def test_rows_without_end_have_finite_latent_values():
    rows, cloud, _, g = made(1.0 * RBF(1e-6) + Constant(1.0))
    X = np.array([[1e9, -1e30, 0.0], [1e30, 1e30, -1e30]], dtype=np.float32)
    for block in (X, torch.from_numpy(X)):
        seen, part = ParticleRows(rows, block), cloud.seen_by(block)
        lifted = seen.lift(block, part.theta)
        slopes = g[:, :2].astype(np.float32)
        slopes = slopes if isinstance(block, np.ndarray) else torch.from_numpy(slopes)
        for values in (seen.latent(lifted, part), *seen.pullback(lifted, part, slopes)):
            assert np.isfinite(to_numpy(values)).all()


def test_some_particles_keep_their_kernels():
    _, cloud, _, _ = made(KERNELS[1])
    part = cloud.part(slice(1, 3))
    assert part.n_particles == 2
    assert_array_equal(part.theta, cloud.theta[1:3])
    _, shared, _, _ = made(KERNELS[1], shared=True)
    assert_array_equal(shared.part(slice(1, 3)).theta, shared.theta)


def test_cosines_and_sines_go_where_they_are_told():
    angles = np.linspace(-40, 40, 12).reshape(3, 4)
    for block in (angles, torch.from_numpy(angles)):
        out = 0 * block.repeat(2).reshape(3, 8) if isinstance(block, np.ndarray) else torch.zeros(3, 8).double()
        cos_sin(block, out[:, :4], out[:, 4:])
        assert_allclose(to_numpy(out), np.concatenate([np.cos(angles), np.sin(angles)], axis=1), atol=1e-15)


@pytest.mark.parametrize("kernel", [RBF(ARD) * Matern(1.7) * 0.6, (RBF(1.1) + Constant(0.5)) * RBF(3.0)], ids=repr)
def test_products_of_two_that_have_length_scales_are_refused(kernel):
    rows = FourierRows.of(kernel, 3, 5, "plain", np.random.RandomState(0))
    message = r"one kernel with length-scales in each product, but .*RBF.* multiplies two.*inference='cavi'"
    with pytest.raises(ValueError, match=message):
        ParticleRows(rows, np.empty(0))
