from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.stats import qmc

import contracts
import references
import references_fourier
from contracts import RowsCase
from softmargin.frequencies import HOWS, draw_frequencies
from softmargin.kernels import RBF, Constant, Linear, Matern, White
from softmargin.rows import FourierRows

ARD = (0.5, 2.0, 7.0)
CENTER = np.array([0.3, -1.0, 2.0])
STATIONARY = [RBF(1.0), Matern(1.0, nu=0.5), Matern(1.0), Matern(1.0, nu=3.3)]
KERNELS = [
    RBF(1.3),
    2.0 * RBF(ARD),
    0.5 * (Matern(0.8, nu=0.5) * 3.0),
    RBF(ARD) + 0.3,
    1.5 * Matern(ARD, nu=2.5) + 0.2 * Linear(0.7) + Constant(0.1),
    2.0 * (RBF(0.9) + Constant(0.4)) + Matern(2.0),
    RBF(ARD) * Matern(1.7) * 0.6,
    (RBF(1.1) + 0.5 * Matern(ARD)) * RBF(3.0),
    Linear(0.4) + Constant(2.0),
]


def fourier_rows(kernel, n_frequencies=6, how="orthogonal", center: Any = CENTER):
    return FourierRows.of(kernel, 3, n_frequencies, how, np.random.RandomState(0), center)


def shifts_and_values(kernel, n_columns):
    """Differences of rows from near to far, and the kernel and a wave's variance there."""
    shifts = (
        np.random.default_rng(1).normal(size=(10, n_columns)) * np.sqrt(np.linspace(0.2, 3, 10) / n_columns)[:, None]
    )

    def kernel_at(x):
        return kernel(np.zeros((1, n_columns)), x)[0]

    return shifts, kernel_at(shifts), references_fourier.wave_variance(kernel_at, shifts)


def errors(kernel, how, n_columns, n, n_seeds):
    """What averages of ``n`` waves miss the kernel by, seed by shift."""
    shifts, exact, _ = shifts_and_values(kernel, n_columns)
    drawn = (draw_frequencies(kernel, n_columns, n, how, np.random.RandomState(seed)) for seed in range(n_seeds))
    return np.array([np.cos(E @ shifts.T).mean(axis=0) - exact for E in drawn])


# Frequencies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_waves_average_to_the_kernel(kernel, how):
    missed = errors(kernel, how, n_columns=3, n=7, n_seeds=400)
    # Ten averages of 400 draws each, which are nearly normal: four standard errors are one chance in a thousand.
    assert np.abs(missed.mean(axis=0) / (missed.std(axis=0) / 20)).max() < 4


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
@pytest.mark.parametrize("n_columns", [1, 3])
def test_lengths_and_directions_have_their_law(kernel, how, n_columns):
    E = draw_frequencies(kernel, n_columns, 2000, how, np.random.RandomState(3))
    squares = np.sum(E**2, axis=1) / n_columns
    nu = getattr(kernel, "nu", np.inf)
    law = stats.f(n_columns, 2 * nu).cdf if np.isfinite(nu) else stats.chi2(n_columns, scale=1 / n_columns).cdf
    # The Kolmogorov-Smirnov statistic of independent draws exceeds this once in a thousand times.
    critical = 1.95 / np.sqrt(2000)
    assert stats.kstest(squares, law).statistic < critical
    column = stats.t(2 * nu).cdf if np.isfinite(nu) else stats.norm.cdf
    assert stats.kstest(E[:, 0], column).statistic < critical


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0)], ids=repr)
@pytest.mark.parametrize("n", [16, 64, 256])
def test_plain_error_falls_like_one_over_the_root(kernel, n):
    variance = shifts_and_values(kernel, 4)[2]
    # Mean squares of 200 seeds: within 10 % for one shift, and three times that for safety.
    assert_allclose(np.mean(errors(kernel, "plain", 4, n, 200) ** 2 / variance), 1 / n, rtol=0.3)


@pytest.mark.parametrize(
    ("kernel", "how", "n_columns", "at_most"),
    [
        (RBF(1.0), "orthogonal", 1, 0.1),
        (RBF(1.0), "orthogonal", 5, 0.6),
        (RBF(1.0), "orthogonal", 20, 0.4),
        (Matern(1.0), "orthogonal", 5, 0.8),
        (Matern(1.0), "orthogonal", 20, 0.8),
        (RBF(1.0), "quasi", 1, 0.1),
        (RBF(1.0), "quasi", 5, 0.4),
        (RBF(1.0), "quasi", 20, 0.8),
        (Matern(1.0), "quasi", 5, 0.7),
        (Matern(1.0), "quasi", 20, 0.8),
    ],
)
def test_even_frequencies_have_less_error_than_plain_ones(kernel, how, n_columns, at_most):
    # Mean squares of 60 seeds and ten shifts are known to about 10 %; the shares leave twice that.
    even, plain = (np.mean(errors(kernel, name, n_columns, 128, 60) ** 2) for name in (how, "plain"))
    assert even < at_most * plain


@pytest.mark.parametrize(("n_columns", "n"), [(4, 11), (4, 8), (5, 3), (1, 3)])
def test_orthogonal_frequencies_meet_at_right_angles_within_their_block(n_columns, n):
    E = draw_frequencies(Matern(), n_columns, n, "orthogonal", np.random.RandomState(0))
    assert E.shape == (n, n_columns)
    units = E / np.linalg.norm(E, axis=1, keepdims=True)
    for start in range(0, n, n_columns):
        block = units[start : start + n_columns]
        assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-12)


@pytest.mark.parametrize("how", HOWS)
def test_the_seed_decides(how):
    first, same, other = (draw_frequencies(Matern(), 3, 10, how, np.random.RandomState(s)) for s in (0, 0, 1))
    assert_array_equal(first, same)
    assert not np.isclose(first, other).any()


@pytest.mark.parametrize("how", HOWS)
def test_the_roughest_kernels_have_finite_frequencies(how):
    assert np.isfinite(draw_frequencies(Matern(nu=0.005), 2, 300, how, np.random.RandomState(0))).all()


def test_coordinates_beyond_the_table_of_sobol_are_plain(monkeypatch):
    monkeypatch.setattr(qmc.Sobol, "MAXDIM", 2)
    E = draw_frequencies(RBF(), 4, 512, "quasi", np.random.RandomState(0))
    mean = np.abs(E.mean(axis=0))
    assert mean[0] < 0.005  # even points: far less than the standard error
    assert (mean[1:] < 4 / np.sqrt(512)).all()
    assert (mean[1:] > 0.005).any()


def test_frequencies_refuse_what_has_none():
    rng = np.random.RandomState(0)
    with pytest.raises(ValueError, match=r"RBF and Matern kernels only, got Linear\(variance=1.0\)"):
        draw_frequencies(Linear(), 2, 5, "plain", rng)
    with pytest.raises(ValueError, match="how must be one of 'plain', 'orthogonal', 'quasi', got 'sobol'"):
        draw_frequencies(RBF(), 2, 5, "sobol", rng)
    with pytest.raises(ValueError, match="n must be an integer >= 1"):
        draw_frequencies(RBF(), 2, 0, "plain", rng)


# Rows --------------------------------------------------------------------------------------------


def naive_features(X):
    rows = fourier_rows(1.5 * RBF(ARD) + 0.2 * Linear(0.5) + RBF(0.9) * Matern(ARD) + Constant(0.1))
    first, second, third = rows.frequencies
    # Frequencies of a product add up once each is in units of its own length-scales.
    product = second / 0.9 + third / np.array(ARD)
    phi = [
        references_fourier.waves(X, first, ARD, 1.5, CENTER),
        np.sqrt(0.1) * X,
        references_fourier.waves(X, product, 1.0, 1.0, CENTER),
        np.full((len(X), 1), np.sqrt(0.1)),
    ]
    return np.concatenate(phi, axis=1), np.zeros(len(X))


CASE = RowsCase(
    "fourier",
    lambda dtype: fourier_rows(1.5 * RBF(ARD) + 0.2 * Linear(0.5) + RBF(0.9) * Matern(ARD) + Constant(0.1)),
    naive_features,
)


@pytest.mark.parametrize("check", contracts.ROWS, ids=contracts.name)
def test_contract(check):
    check(CASE)


def test_features_equal_loops():
    X = CASE.data()
    assert_allclose(CASE.make(np.float64).lift(X).phi, naive_features(X)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_of_features_are_the_kernel(kernel, rng):
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    rows = fourier_rows(kernel, 4096)
    phi, other = rows.lift(X).phi, rows.lift(Z).phi
    assert phi.shape == (6, rows.n_weights) == (6, rows.width)
    assert_allclose(np.sum(phi**2, axis=1), kernel.diagonal(X), rtol=1e-10)
    # One wave of unit variance has a standard deviation of at most one; 30 pairs of rows.
    waves = kernel.diagonal(np.zeros((1, 3)))[0]
    assert_allclose(phi @ other.T, kernel(X, Z), atol=4 * waves / np.sqrt(4096))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_pullback_is_finite_differences(kernel, rng):
    X, rows = rng.normal(size=(7, 3)), fourier_rows(kernel)
    dphi = rng.normal(size=(7, rows.n_weights))

    def objective(theta):
        return np.sum(dphi * rows.with_kernel(kernel.with_theta(theta)).lift(X).phi)

    slopes = rows.pullback(X, dphi)
    # Angles reach tens where frequencies are high: fourth-order differences are good to 1e-7 of the sum.
    assert_allclose(slopes, references.gradient(objective, kernel.theta, 1e-4), rtol=1e-6, atol=1e-6)
    assert_array_equal(rows.pullback(X, dphi, rows.lift(X).phi), slopes)
    parts = rows.pullback(X[:3], dphi[:3]) + rows.pullback(X[3:], dphi[3:])
    assert_allclose(parts, slopes, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_pullback_agrees_in_torch_and_in_single_precision(kernel, rng):
    X, rows = rng.normal(size=(7, 3)), fourier_rows(kernel)
    dphi = rng.normal(size=(7, rows.n_weights))
    wanted = rows.pullback(X, dphi)
    # Single precision: rounding of angles in the tens.
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-3)):
        assert_allclose(rows.pullback(X.astype(dtype), dphi), wanted, rtol=tolerance, atol=tolerance)
        block = torch.from_numpy(X.astype(dtype))
        for seen in (rows, rows.seen_by(block)):
            got = seen.pullback(block, torch.from_numpy(dphi), seen.lift(block).phi)
            assert isinstance(got, np.ndarray)
            assert got.dtype == np.float64
            assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_centre_changes_no_covariance(kernel, rng):
    X = rng.normal(size=(6, 3))
    here, there = (fourier_rows(kernel, center=center).lift(X).phi for center in (CENTER, np.zeros(3)))
    assert_allclose(here @ here.T, there @ there.T, rtol=1e-10, atol=1e-10)


def test_the_centre_keeps_the_digits_of_far_rows(rng):
    X = rng.normal(size=(6, 3)).astype(np.float32)
    far = X + np.float32(2.0**12)  # 2^-11 of a unit is left of each entry
    wanted = fourier_rows(RBF(ARD), center=None).lift((far - 2.0**12).astype(float)).phi
    phi = fourier_rows(RBF(ARD), center=np.full(3, 2.0**12)).lift(far).phi
    assert phi.dtype == np.float32
    assert_allclose(phi, wanted, atol=1e-5)


@pytest.mark.parametrize("kernel", [RBF(1e-6), Matern(1e-6, nu=0.005)], ids=repr)
def test_rows_without_end_have_finite_features(kernel):
    X = np.array([[1e9, -1e30, 0.0], [1e30, 1e30, -1e30]], dtype=np.float32)
    for block in (X, torch.from_numpy(X)):
        rows = fourier_rows(kernel)
        phi = contracts.to_numpy(rows.lift(block).phi)
        assert_allclose(np.sum(phi**2, axis=1), 1, rtol=1e-5)
        assert np.isfinite(rows.pullback(block, 0 * block[:, :1] + rows.lift(block).phi)).all()


def test_a_view_has_the_moments_of_the_features(rng):
    X, rows = rng.normal(size=(6, 3)), fourier_rows(2.0 * RBF(ARD) + 1.0)
    belief = contracts.random_belief(rows.n_weights)
    latent = rows.lift(X).moments(belief)
    assert rows.leftover_root(X) is None
    assert_array_equal(latent.leftover, np.zeros(6))
    for block, tolerance in ((X, 1e-12), (torch.from_numpy(X), 1e-12), (X.astype(np.float32), 1e-4)):
        for got, wanted in zip(rows.view(belief, block).moments(block), (latent.mu, latent.v), strict=True):
            assert_allclose(contracts.to_numpy(got), wanted, rtol=tolerance, atol=tolerance)


def test_another_kernel_keeps_the_frequencies():
    rows = fourier_rows(2.0 * RBF(1.0) + 0.5)
    other = rows.with_kernel(RBF(ARD) + 4.0)
    assert other.frequencies is rows.frequencies
    assert other.kernel == RBF(ARD) + 4.0
    for kernel in (2.0 * Matern(1.0) + 0.5, 2.0 * RBF(1.0), 0.5 + 2.0 * RBF(1.0), RBF(1.0) + Linear()):
        with pytest.raises(ValueError, match="The frequencies were drawn for"):
            rows.with_kernel(kernel)
    with pytest.raises(ValueError, match="The frequencies were drawn for"):
        fourier_rows(Matern(1.0, nu=1.5)).with_kernel(Matern(1.0, nu=2.5))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(1.0) + White(0.1), r"The kernel RBF\(.*\) \+ White\(.*because of White\(variance=0.1\)"),
        (2.0 * Linear() * RBF(1.0), r"because of Linear\(.*\) \* RBF"),
        (Linear() * Linear(), r"because of Linear\(.*\) \* Linear"),
        (RBF(), "length_scale=None is set by fit"),
        (RBF((1.0, 2.0)), "The kernel has 2 length-scales, but the data has 3 columns"),
    ],
)
def test_kernels_without_features_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        fourier_rows(kernel)
