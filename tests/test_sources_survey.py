"""What the first reading of a source finds: a sample of its rows, and the moments of all."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from softmargin.chunks.survey import Checked, Reservoir, Totals, keys
from softmargin.columns import ColumnMoments, describe


def test_keys_are_distinct_and_even():
    found = keys(np.arange(100_000))
    assert len(np.unique(found)) == len(found)
    # Of even numbers in 16 bins the chi-squared statistic has mean 15 and deviation 5.5.
    counts = np.bincount((found >> np.uint64(60)).astype(int), minlength=16)
    assert ((counts - 6250) ** 2 / 6250).sum() < 45


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400), st.integers(0, 10_000))
def test_a_sample_depends_on_no_batches(size, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(900, 2)), rng.integers(0, 3, 900)

    def sampled(batch_rows):
        reservoir, totals = Reservoir(64), None
        for start in range(0, 900, batch_rows):
            part = slice(start, start + batch_rows)
            batch = Checked(X[part], y[part], np.ones(len(y[part])))
            reservoir.add(reservoir.candidates(batch, start))
            own = Totals.of(batch)
            totals = own if totals is None else totals.merged(own)
        return reservoir.survey(totals)

    one, other = sampled(size), sampled(900)
    assert_array_equal(one.sample.number, other.sample.number)
    assert_array_equal(one.sample.X, X[one.sample.number])
    assert_allclose(one.growth, other.growth)
    assert_array_equal(one.totals.rows, np.bincount(y))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 1e-8, 1e8, 1e180]), st.sampled_from([0.0, 1.0, 1e9]))
def test_moments_of_parts_are_those_of_the_whole(seed, scale, offset):
    rng = np.random.default_rng(seed)
    X = scale * (rng.normal(size=(60, 3)) + offset)
    X[:, 2] = scale * 7.0
    weight = rng.uniform(size=60)
    whole = ColumnMoments.of(X, weight)
    cut = rng.integers(1, 59)
    parts = ColumnMoments.of(X[:cut], weight[:cut]).merged(ColumnMoments.of(X[cut:], weight[cut:]))
    for a, b in zip(whole, parts, strict=True):
        # A mean far from zero is known to its own rounding, and the spread to that of the mean.
        assert_allclose(a, b, rtol=1e-9, atol=1e-14 * scale * max(1.0, offset))
    assert_allclose(describe(X, weight).center, np.average(X, axis=0, weights=weight), rtol=1e-12)
