import numpy as np
import pytest
from numpy.testing import assert_array_equal

from softmargin.sampling import allotted, distinct, drawn_by_weight, repeats_itself, scattered


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distinct_rows_are_those_of_numpy(dtype, rng):
    rows = rng.integers(-2, 3, size=(300, 4)).astype(dtype)
    unique, which = distinct(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert_array_equal(unique, expected)
    assert_array_equal(which, inverse.ravel())
    assert_array_equal(unique[which], rows)
    assert distinct(rows[:1])[1].tolist() == [0]


@pytest.mark.parametrize("digits", [1, 3, 15])
def test_distinct_rows_of_continuous_columns_are_those_of_numpy(digits, rng):
    # Three digits leave a few ties in the first column, fifteen only whole rows that are repeated.
    rows = np.round(rng.normal(size=(2000, 3)), digits)
    rows = np.vstack([rows, rows[::7]])[rng.permutation(2286)]
    unique, which = distinct(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert_array_equal(unique, expected)
    assert_array_equal(which, inverse.ravel())


def test_distinct_rows_with_gaps_come_in_an_order_of_their_own(rng):
    rows = np.where(rng.random((1000, 3)) < 0.2, np.nan, rng.normal(size=(1000, 3)))
    unique, which = distinct(rows)
    assert_array_equal(unique[which], rows)
    assert_array_equal(distinct(rows[rng.permutation(1000)])[0], unique)


@pytest.mark.parametrize(("copies", "expected"), [(1, False), (2, True), (4, True)])
def test_tables_that_repeat_themselves_are_known(copies, expected, rng):
    rows = rng.normal(size=(60_000 // copies, 2))
    rows = np.repeat(rows, copies, axis=0)
    # Of 4,096 rows some 140 pairs are alike where all come twice: the limit of 0.6 lies eight deviations below.
    assert repeats_itself(rows, at_most=0.6) == expected


def test_scattered_rows_meet_no_period():
    rows = scattered(100_000, 5000)
    assert len(np.unique(rows)) == 5000
    assert np.all(np.diff(rows) > 0)
    assert_array_equal(rows, scattered(100_000, 5000))
    for period in (2, 3, 10, 16, 20):
        # Four standard errors of a share among 5,000 rows.
        shares = np.bincount(rows % period, minlength=period) / 5000
        assert np.abs(shares - 1 / period).max() < 4 * np.sqrt(1 / period / 5000)


def test_draws_are_in_proportion_to_weight(rng):
    weight = np.array([1.0, 0.0, 3.0, 6.0])
    counts = np.bincount(drawn_by_weight(weight, 1000, np.random.RandomState(0)), minlength=4)
    assert np.abs(counts - 100 * weight).max() <= 1  # one from each slice of the total
    assert counts[1] == 0


@pytest.mark.parametrize("first", [0, 1, 50, 400, 5000, 9999, 10_000])
def test_samples_are_full_and_hold_enough_of_the_rarer_class(first):
    counts = allotted([first, 10_000 - first], 1000)
    assert sum(counts) == 1000
    assert all(count <= total for count, total in zip(counts, (first, 10_000 - first), strict=True))
    assert min(counts) >= min(first, 10_000 - first, 250)


def test_no_rows_have_no_distinct_ones():
    rows, which = distinct(np.empty((0, 3)))
    assert rows.shape == (0, 3)
    assert which.shape == (0,)
