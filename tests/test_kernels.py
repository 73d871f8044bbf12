import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as sk

import contracts
import references
from contracts import KernelCase
from softmargin.kernels import RBF, Constant, Kernel, Linear, Matern, Product, Sum, White, as_kernel

ARD = (0.5, 2.0, 7.0)
CASES = [
    KernelCase(RBF(1.3), sk.RBF(1.3)),
    KernelCase(RBF(ARD), sk.RBF(ARD)),
    KernelCase(Matern(0.8, nu=0.5), sk.Matern(0.8, nu=0.5)),
    KernelCase(Matern(ARD, nu=0.5), sk.Matern(ARD, nu=0.5)),
    KernelCase(Matern(ARD, nu=1.5), sk.Matern(ARD, nu=1.5)),
    KernelCase(Matern(0.8, nu=2.5), sk.Matern(0.8, nu=2.5)),
    KernelCase(Matern(0.8, nu=0.7), sk.Matern(0.8, nu=0.7)),
    KernelCase(Matern(ARD, nu=3.3), sk.Matern(ARD, nu=3.3)),
    KernelCase(Matern(0.8, nu=1.0), sk.Matern(0.8, nu=1.0)),
    KernelCase(Matern(ARD, nu=3.0), sk.Matern(ARD, nu=3.0)),
    KernelCase(Matern(0.8, nu=5.0), sk.Matern(0.8, nu=5.0)),
    KernelCase(RBF(1.3) + Linear(0.7)),
    KernelCase(Linear(0.7) * (Linear(2.0) + 0.5)),
    KernelCase(Linear(0.7)),
    KernelCase(Constant(2.5), sk.ConstantKernel(2.5)),
    KernelCase(White(0.4), sk.WhiteKernel(0.4), own=0.4),
    KernelCase(2.0 * RBF(1.3), sk.ConstantKernel(2.0) * sk.RBF(1.3)),
    KernelCase(RBF(ARD) + 0.3, sk.RBF(ARD) + sk.ConstantKernel(0.3)),
    KernelCase(2.0 * Linear() * RBF(ARD) + 0.1 * Matern(2.0)),
    KernelCase(Matern(0.8) * Linear(2.0) + White(0.2), own=0.2),
    KernelCase(Linear() + Constant(0.25), sk.DotProduct(0.5)),
]

scales = st.floats(-12, 12).map(lambda power: 10.0**power)


@pytest.mark.parametrize("check", contracts.KERNEL, ids=contracts.name)
@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_contract(case, check):
    check(case)


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.0, 1.5, 2.5, 3.0, 3.3, 5.0])
def test_matern_equals_its_formula_and_tends_to_rbf(nu, rng):
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    t = np.sqrt(2 * nu * references.squared_distances(X, Z, np.array([0.6, 3.0])))
    assert_allclose(Matern((0.6, 3.0), nu=nu)(X, Z), 2 ** (1 - nu) / gamma(nu) * t**nu * kv(nu, t), rtol=1e-9)
    assert_allclose(Matern(1.0, nu=30)(X, Z), RBF(1.0)(X, Z), atol=0.01)


@pytest.mark.parametrize(
    "kernel", [RBF(0.05), Matern(0.05, nu=0.5), Matern(0.05, nu=0.7), Matern(0.05, nu=1.5)], ids=repr
)
def test_rows_are_the_same_as_themselves_however_short_the_length_scale(kernel, rng):
    X = 3 + rng.normal(size=(30, 4))
    assert_allclose(np.diag(kernel(X, X)), 1, atol=1e-9)
    # Squared distances are known to the rounding of the squared lengths, here 1e-7 of 2000.
    for table in (X.astype(np.float32), torch.from_numpy(X.astype(np.float32))):
        assert_allclose(np.diag(contracts.to_numpy(kernel(table, table))), 1, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("nu", [0.5, 0.7])
def test_coincident_rows_have_no_slope_where_the_kernel_is_rough(nu, dtype, rng):
    X = (5 * rng.normal(size=(20, 3))).astype(dtype)
    assert_allclose(Matern(0.02, nu=nu).pullback(X, X, np.eye(20, dtype=dtype)), 0, atol=1e-3)
    assert_allclose(Matern(0.02, nu=nu).pullback_inputs(X, X, np.eye(20, dtype=dtype)), 0, atol=1e-3)


def test_square_exponential_is_svms_gamma(rng):
    from sklearn.metrics.pairwise import rbf_kernel

    X = rng.normal(size=(6, 3))
    assert_allclose(RBF(2.0)(X, X), rbf_kernel(X, X, gamma=1 / 8), rtol=1e-9)


@pytest.mark.parametrize("make", [RBF, lambda s: Matern(s, nu=0.5), Matern, lambda s: Matern(s, nu=3.3)])
@given(length_scale=scales, spread=scales, offset=scales)
def test_stationary_kernels_stay_covariances_at_any_scale(make, length_scale, spread, offset):
    X = offset + spread * np.linspace(-1, 1, 5)[:, None]
    kernel = make(length_scale)
    K = kernel(X, X)
    assert np.isfinite(K).all()
    assert K.min() >= 0
    assert K.max() <= 1 + 1e-12
    assert np.isfinite(kernel.pullback_inputs(X, X, np.ones((5, 5)))).all()


@given(length_scale=st.floats(1e-3, 1e3), unit=scales)
def test_units_cancel(length_scale, unit):
    X, Z = np.array([[0.1, 2.0], [-1.0, 0.4]]), np.array([[0.7, 0.3]])
    assert_allclose(RBF(length_scale * unit)(X * unit, Z * unit), RBF(length_scale)(X, Z), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("nu", [1.5, 3.3, 5.0])
def test_far_rows_are_independent_in_single_precision_too(nu):
    for dtype in (np.float32, np.float64):
        X = np.array([[0.0], [1e12]], dtype=dtype)
        assert_allclose(Matern(1e-6, nu=nu)(X, X), np.eye(2))
        assert np.isfinite(Matern(1e-6, nu=nu).pullback(X, X, np.ones((2, 2), dtype=dtype))).all()


def test_far_from_the_origin_the_distance_keeps_its_digits(rng):
    X = rng.normal(size=(6, 2))
    assert_allclose(RBF(0.5)(X + 1e6, X + 1e6), RBF(0.5)(X, X), atol=1e-8)


def test_sums_and_products_are_those_of_matrices(rng):
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    one, other = RBF(1.3), Linear(0.7)
    assert_allclose((one + other)(X, Z), one(X, Z) + other(X, Z))
    assert_allclose((one * other)(X, Z), one(X, Z) * other(X, Z))
    assert_allclose((3 + one * 2.0)(X, Z), 3 + 2 * one(X, Z))
    assert_allclose((one * other).diagonal(X), one.diagonal(X) * other.diagonal(X))
    assert_allclose((one + other).theta, np.log([1.3, 0.7]))


def test_white_is_in_no_covariance_between_rows(rng):
    X = rng.normal(size=(4, 2))
    kernel = RBF(1.0) + White(0.5)
    assert_allclose(kernel(X, X), RBF(1.0)(X, X))
    assert_allclose(kernel.diagonal(X), 1.5)


def test_only_length_scales_that_are_none_are_filled_in():
    kernel = (2.0 * RBF() + Matern(3.0)).with_length_scale((1.0, 2.0))
    assert repr(kernel) == "2.0 * RBF(length_scale=(1.0, 2.0)) + Matern(length_scale=3.0, nu=1.5)"
    with pytest.raises(ValueError, match="length_scale=None"):
        RBF()(np.zeros((1, 1)), np.zeros((1, 1)))


@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_kernels_do_not_change_their_arguments(case, rng):
    arrays = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    before = [array.copy() for array in arrays]
    case.kernel(*arrays[:2]), case.kernel.pullback(*arrays), case.kernel.pullback_inputs(*arrays)
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)


def test_parentheses_are_kept_in_print():
    assert (
        repr((RBF(1.0) + 2.0) * Linear()) == "(RBF(length_scale=1.0) + Constant(variance=2.0)) * Linear(variance=1.0)"
    )


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, np.inf, "wide", [], [[1.0]], [1.0, -2.0]])
def test_parameters_must_be_positive(wrong):
    with pytest.raises(ValueError, match="length_scale must be positive"):
        RBF(wrong)
    with pytest.raises(ValueError, match="variance must be"):
        Constant(wrong)


@pytest.mark.parametrize("nu", [0, -1.5, np.inf, (1.5,)])
def test_smoothness_must_be_positive_and_finite(nu):
    with pytest.raises(ValueError, match="nu must be positive and finite"):
        Matern(1.0, nu=nu)


@pytest.mark.parametrize("nu", [30.1, 60, 172.5, 1e300])
def test_smoothness_has_a_limit_from_which_on_it_is_that_of_rbf(nu):
    with pytest.raises(ValueError, match=r"nu must be at most 30, got .*; use RBF"):
        Matern(1.0, nu=nu)
    with pytest.raises(ValueError, match="nu must be at most 30"):
        as_kernel(sk.Matern(1.0, nu=nu))


def test_as_kernel_passes_converts_or_says_what_is_accepted():
    assert as_kernel(RBF(1.0)) == RBF(1.0)
    assert as_kernel(2) == Constant(2.0)
    assert as_kernel(np.float32(2)) == Constant(2.0)
    assert as_kernel(sk.Matern(2.0, nu=np.inf)) == RBF(2.0)
    assert as_kernel(sk.DotProduct(0.0)) == Linear()
    assert isinstance(as_kernel(sk.RBF(1.0) * sk.RBF(2.0) + sk.WhiteKernel()), Sum)
    assert isinstance(as_kernel(sk.RBF(1.0) * sk.RBF(2.0)), Product)
    assert isinstance(as_kernel(sk.RBF([1.0, 2.0])), Kernel)
    for wrong in (sk.RationalQuadratic(), sk.RBF(1.0) ** 2, "rbf", None, True):
        with pytest.raises(ValueError, match="kernel must be"):
            as_kernel(wrong)


def test_number_of_length_scales_is_checked():
    with pytest.raises(ValueError, match="2 length-scales, but the data has 3 columns"):
        RBF((1.0, 2.0))(np.zeros((1, 3)), np.zeros((1, 3)))


@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_slopes_of_the_diagonal_in_the_inputs_are_finite_differences(case, rng):
    X, dk = rng.normal(size=(5, 3)), rng.normal(size=5)
    got = case.kernel.pullback_diagonal_inputs(X, dk)
    for c in range(3):
        step = 1e-5 * np.eye(3)[c]
        wanted = dk * (case.kernel.diagonal(X + step) - case.kernel.diagonal(X - step)) / 2e-5
        assert_allclose(got[:, c], wanted, atol=1e-8)


@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_every_parameter_has_one_role(case):
    kernel = case.kernel
    assert sum(size for _, size in kernel.roles) == len(kernel.theta)
    assert_array_equal(kernel.has_role("variance") ^ kernel.has_role("length_scale"), True)
    # Variances enter the diagonal of a sum or product, length-scales never do.
    X = np.ones((1, 3))
    for place, is_variance in enumerate(kernel.has_role("variance")):
        other = kernel.with_theta(kernel.theta + 0.1 * (np.arange(len(kernel.theta)) == place))
        assert (other.diagonal(X)[0] != kernel.diagonal(X)[0]) == is_variance


def test_square_exponential_by_its_shape_is_the_same_kernel(rng):
    X, Z = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    kernel = RBF((0.5, 2.0, 7.0))
    s = references.squared_distances(X, Z, np.array([0.5, 2.0, 7.0]))
    assert_allclose(kernel._shape(s), kernel(X, Z), rtol=1e-10)


def test_rows_are_compared_in_units_of_length_scales_where_there_are_such():
    spread = np.array([1.0, 2.0, 3.0])
    assert_array_equal(RBF().units(spread), spread)
    assert_array_equal(RBF(0.5).units(spread), [0.5, 0.5, 0.5])
    assert_array_equal((2.0 * Matern(ARD) + Linear()).units(spread), ARD)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("nu", [0.3, 0.7, 3.2, 10.0, 30.0])
def test_no_two_rows_are_more_alike_than_one_and_itself(nu, dtype):
    x = np.append(0.0, np.logspace(-9, 2.5, 4000)).astype(dtype)[:, None]
    values = Matern(1.0, nu=nu)(x, x[:1])
    assert values.max() == 1
    assert values.min() >= 0
