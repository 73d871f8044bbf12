import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import special
from scipy.stats import norm

from softmargin import arrays
from softmargin.arrays import NotPositiveDefiniteError

both = pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])


@both
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (arrays.ndtr, norm.cdf),
        (arrays.log_ndtr, norm.logcdf),
        (arrays.normal_density, norm.pdf),
        (arrays.expit, special.expit),
        (arrays.log_expit, special.log_expit),
    ],
)
def test_special_functions(ours, theirs, convert):
    x = np.array([-300.0, -40.0, -5.0, -0.3, 0.0, 1e-9, 1.0, 8.0, 40.0, 300.0])
    assert_allclose(arrays.to_numpy(ours(convert(x))), theirs(x), rtol=1e-10, atol=1e-300)


@both
def test_bessel_function_on_any_library(convert):
    x = np.array([0.1, 1.0, 7.0])
    got = arrays.bessel_k(1.2, convert(x))
    assert type(got) is type(convert(x))
    assert_allclose(arrays.to_numpy(got), special.kv(1.2, x))


@both
@pytest.mark.parametrize("m", [1, 5, 31, 33, 128, 131])
def test_triangular_algebra_equals_the_general_one(convert, m, rng):
    A, P = rng.normal(size=(m, m)), rng.normal(size=(9, m))
    L = arrays.cholesky(convert(A @ A.T + np.eye(m)))
    assert_allclose(arrays.to_numpy(L), np.linalg.cholesky(A @ A.T + np.eye(m)), rtol=1e-7, atol=1e-10)
    inverse = arrays.to_numpy(arrays.inverse_lower(L))
    assert_allclose(inverse @ arrays.to_numpy(L), np.eye(m), atol=1e-9)
    assert_allclose(inverse, np.tril(inverse))
    product = arrays.to_numpy(arrays.times_lower_transposed(convert(P), L))
    assert_allclose(product, P @ arrays.to_numpy(L).T, rtol=1e-9, atol=1e-9)


@both
def test_row_sums_equal_loops(convert, rng):
    phi, w = rng.normal(size=(7, 4)), rng.uniform(size=7)
    assert_allclose(arrays.to_numpy(arrays.row_squares(convert(phi))), [row @ row for row in phi])
    wanted = sum(weight * np.outer(row, row) for weight, row in zip(w, phi, strict=True))
    assert_allclose(arrays.to_numpy(arrays.weighted_gram(convert(phi), convert(w))), wanted, rtol=1e-10)


@both
def test_gram_of_single_precision_rows_is_summed_in_their_dtype_and_returned_in_double(convert, rng):
    phi, w = rng.normal(size=(7, 4)).astype(np.float32), rng.uniform(size=7)
    gram = arrays.weighted_gram(convert(phi), convert(w))
    assert str(gram.dtype).endswith("float64")
    assert_allclose(arrays.to_numpy(gram), (phi.T * w) @ phi, rtol=1e-4, atol=1e-5)


@both
@pytest.mark.parametrize("matrix", [np.diag([1.0, -1.0]), np.full((2, 2), np.nan), np.zeros((2, 2))])
def test_what_has_no_factor_is_refused_by_name(convert, matrix):
    with pytest.raises(NotPositiveDefiniteError):
        arrays.cholesky(convert(matrix))


@both
@given(scale=st.floats(-12, 12).map(lambda power: 10.0**power))
def test_jitter_is_relative(convert, scale):
    ones = convert(scale * np.ones((4, 4)))
    L, jitter = arrays.cholesky_jittered(ones, rounding=2.0**-52)
    L = arrays.to_numpy(L)
    assert 100 * 2.0**-52 * scale * (1 - 1e-9) <= jitter <= 1e-9 * scale
    assert_allclose(L @ L.T, scale * np.ones((4, 4)) + jitter * np.eye(4), rtol=1e-9)


def test_jitter_climbs_until_it_is_enough():
    # The smallest eigenvalue is -1e-9: the first rungs of the ladder are too low.
    A = np.diag([1.0, 1.0, -1e-9])
    L, jitter = arrays.cholesky_jittered(A, rounding=2.0**-52)
    assert 1e-9 < jitter < 1.2e-8
    assert_allclose(L @ L.T, A + jitter * np.eye(3), atol=1e-15)


@both
@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), -np.eye(2), np.full((2, 2), np.inf), np.full((2, 2), np.nan)])
def test_jitter_does_not_hide_nonsense(convert, matrix):
    with pytest.raises(NotPositiveDefiniteError):
        arrays.cholesky_jittered(convert(matrix), rounding=2.0**-52)


@pytest.mark.parametrize("reference", [np.zeros(1, np.float32), torch.zeros(1), torch.zeros(1, dtype=torch.float64)])
@pytest.mark.parametrize("values", [np.arange(3.0), torch.arange(3.0), [0.0, 1.0, 2.0]])
def test_like_takes_library_and_dtype_of_the_reference(values, reference):
    got = arrays.like(values, reference)
    assert type(got) is type(reference)
    assert got.dtype == reference.dtype
    assert_allclose(arrays.to_numpy(got), [0, 1, 2])


@both
def test_rounding_below_zero_is_put_back(convert):
    assert arrays.to_numpy(arrays.clipped_at_zero(convert(np.array([-1e-9, 2.0])))).tolist() == [0, 2]


def test_rounding_unit_of_a_dtype():
    assert arrays.precision_of(np.zeros(1)) == 2.0**-52
    assert arrays.precision_of(torch.zeros(1)) == 2.0**-23


def test_namespace_ignores_plain_numbers():
    assert arrays.namespace(1.0, np.zeros(1), 3) is arrays.namespace(np.zeros(1))
