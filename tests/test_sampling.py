import numpy as np
import pytest
from numpy.testing import assert_array_equal

from softmargin.sampling import allotted, distinct, drawn_by_weight, scattered


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distinct_rows_are_those_of_numpy(dtype, rng):
    rows = rng.integers(-2, 3, size=(300, 4)).astype(dtype)
    unique, which = distinct(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    assert_array_equal(unique, expected)
    assert_array_equal(which, inverse.ravel())
    assert_array_equal(unique[which], rows)
    assert distinct(rows[:1])[1].tolist() == [0]


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
