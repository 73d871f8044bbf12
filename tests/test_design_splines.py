import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline, CubicSpline

from softmargin.design import Design, Spline


@pytest.fixture
def x(rng):
    return rng.gamma(2.0, 3.0, size=200) - 4


def spline_of(x, df=None):
    return Spline.of(x[:, None], 0, df)


def with_line(spline, x):
    return np.column_stack([np.ones_like(x), x, spline.at(x)])


def b_splines(spline, x, derivative=0):
    """The B-splines on the same knots, in the units of ``x``."""
    knots = spline.low + (spline.high - spline.low) * spline.knots
    functions = BSpline(knots, np.eye(len(knots) - 4), 3)
    return functions.derivative(derivative)(x) if derivative else functions(x)


@pytest.mark.parametrize("df", [2, 3, 10, 20])
def test_line_and_functions_span_the_cubic_splines(x, df):
    spline = spline_of(x, df)
    ours, theirs = with_line(spline, x), b_splines(spline, x)
    assert ours.shape == theirs.shape == (200, df + 2)
    fitted = ours @ np.linalg.lstsq(ours, theirs, rcond=None)[0]
    assert_allclose(fitted, theirs, atol=1e-9)
    assert np.linalg.matrix_rank(ours) == df + 2


def test_a_natural_spline_through_the_knots_is_reproduced_everywhere(x, rng):
    spline = spline_of(x, 8)
    knots = spline.low + (spline.high - spline.low) * np.unique(spline.knots)
    natural = CubicSpline(knots, rng.normal(size=len(knots)), bc_type="natural")
    weights = np.linalg.lstsq(with_line(spline, x), natural(x), rcond=None)[0]
    inside = np.linspace(x.min(), x.max(), 501)
    assert_allclose(with_line(spline, inside) @ weights, natural(inside), atol=1e-9)
    outside = np.array([-30.0, -10.0, 60.0])
    ends = np.array([x.min(), x.min(), x.max()])
    assert_allclose(
        with_line(spline, outside) @ weights, natural(ends) + natural(ends, 1) * (outside - ends), atol=1e-7
    )


def test_independent_coefficients_are_the_penalty_on_curvature(x, rng):
    r"""A ridge fit on the functions is the minimiser of |y - B c|^2 + lambda int f''^2 over all cubic splines."""
    y = np.sin(x) + rng.normal(size=200)
    spline = spline_of(x, 12)
    fine = np.linspace(x.min(), x.max(), 200_001)
    curvature = b_splines(spline, fine, derivative=2)
    omega = np.trapezoid(curvature[:, :, None] * curvature[:, None, :], fine, axis=0)
    second = np.gradient(np.gradient(spline.at(fine), fine, axis=0), fine, axis=0)
    unit = np.trapezoid(second**2, fine, axis=0)
    # Every function has the same curvature (to the accuracy of the differences), and that is the exchange rate.
    assert_allclose(unit, unit.mean(), rtol=2e-3)
    B, C = b_splines(spline, x), with_line(spline, x)
    for penalty in (0.01, 1.0, 100.0):
        direct = B @ np.linalg.solve(B.T @ B + penalty * omega, B.T @ y)
        ridge = penalty * curvature_of(spline) * np.diag([0.0, 0.0, *np.ones(12)])
        assert_allclose(C @ np.linalg.solve(C.T @ C + ridge, C.T @ y), direct, atol=1e-6)


def curvature_of(spline):
    """The curvature of the first function in the units of x: squares of lines between knots, by Simpson's rule."""
    knots = spline.low + (spline.high - spline.low) * np.unique(spline.knots)
    function = BSpline(spline.low + (spline.high - spline.low) * spline.knots, spline.coefficients[:, 0], 3).derivative(
        2
    )
    left, right = knots[:-1], knots[1:]
    values = function(left) ** 2 + 4 * function((left + right) / 2) ** 2 + function(right - 1e-12) ** 2
    return np.sum((right - left) * values) / 6


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_functions_do_not_depend_on_units_and_keep_off_lines(x, unit):
    spline = spline_of(unit * x + 3 * unit, 9)
    Z = spline.at(unit * x + 3 * unit)
    assert_allclose(Z @ Z.T, spline_of(x, 9).at(x) @ spline_of(x, 9).at(x).T, atol=1e-7)
    assert_allclose(np.mean(np.sum(Z**2, axis=1)), 1)
    assert_allclose(np.column_stack([np.ones_like(x), x]).T @ Z, 0, atol=1e-8)


def test_order_and_copies_of_rows_do_not_matter(x, rng):
    again = spline_of(np.repeat(rng.permutation(x), 3), 9)
    assert_allclose(again.knots, spline_of(x, 9).knots)
    assert_allclose(np.abs(again.at(x)), np.abs(spline_of(x, 9).at(x)), atol=1e-8)


def test_knots_are_reused_and_curves_go_straight_beyond_the_data(x):
    design = Design.from_columns(np.column_stack([x, np.zeros(200)]), groups=1, splines=[0])
    (term,) = design.spline_terms
    assert term == ("s(x0)", slice(1, 21))
    low, high, step = x.min(), x.max(), 5.0
    beyond = np.array([low - 2 * step, low - step, low, high, high + step, high + 2 * step, -1e100, 1e100])
    Z = design.matrix(np.column_stack([beyond, np.zeros(8)]))[:, term.columns]
    assert np.isfinite(Z).all()
    assert_allclose(Z[0] - Z[1], Z[1] - Z[2], atol=1e-10)
    assert_allclose(Z[5] - Z[4], Z[4] - Z[3], atol=1e-10)
    together = design.matrix(np.column_stack([np.append(x, beyond), np.zeros(208)]))
    assert_allclose(together[200:, term.columns], Z)
    # No jump in value or slope at the ends.
    near = design.matrix(np.column_stack([[low - 1e-6, low + 1e-6], [0, 0]]))[:, term.columns]
    assert_allclose((near[1] - near[0]) / 2e-6, (Z[2] - Z[1]) / step, atol=1e-4)


def test_skewed_columns_keep_their_digits(rng):
    x = np.exp(3 * rng.normal(size=500))
    spline = spline_of(x)
    fitted = with_line(spline, x) @ np.linalg.lstsq(with_line(spline, x), b_splines(spline, x), rcond=None)[0]
    assert_allclose(fitted, b_splines(spline, x), atol=1e-6)


def test_few_values_make_few_functions():
    assert spline_of(np.repeat(np.arange(12.0), 5)).n_columns == 10
    assert spline_of(np.arange(4.0)).n_columns == 2
    with pytest.raises(ValueError, match="at least 4 distinct values, but 0 has 3"):
        spline_of(np.array([1.0, 2.0, 3.0, 3.0]))
    for df in (1, 11, 2.5, True):
        with pytest.raises(ValueError, match=r"df of s\(0\) must be an integer from 2 to 10"):
            spline_of(np.arange(12.0), df)


def test_gaps_are_refused():
    with pytest.raises(ValueError, match="Column 0 is missing in 2 rows: a spline needs it in every row"):
        spline_of(np.array([1.0, 2.0, np.nan, 3.0, 4.0, np.nan]))
    with pytest.raises(ValueError, match="Column 0 is infinite in 1 row:"):
        spline_of(np.array([1.0, 2.0, np.inf, 3.0, 4.0]))
