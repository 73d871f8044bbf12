import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from softmargin.metrics import expected_calibration_error, reliability_curve, wilson_interval


def brute_force(y, p, n_bins, weight):
    total = 0.0
    for k in range(n_bins):
        inside = [i for i in range(len(p)) if min(int(p[i] * n_bins), n_bins - 1) == k and weight[i] > 0]
        if inside:
            w = sum(weight[i] for i in inside)
            found = sum(weight[i] * y[i] for i in inside) / w
            given_ = sum(weight[i] * p[i] for i in inside) / w
            total += w * abs(found - given_)
    return total / sum(weight)


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(1, 20),
)
def test_equals_brute_force(rows, n_bins):
    y, p, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    weight[0] = 1
    found = expected_calibration_error(y, p, n_bins, sample_weight=weight)
    assert found == pytest.approx(brute_force(y, p, n_bins, weight))


def test_weight_k_equals_k_repeats(rng):
    y, p, weight = rng.integers(0, 2, 50), rng.random(50), rng.integers(0, 4, 50)
    repeated = expected_calibration_error(np.repeat(y, weight), np.repeat(p, weight))
    assert expected_calibration_error(y, p, sample_weight=weight) == pytest.approx(repeated)


def test_true_probabilities_have_a_small_error(rng):
    p = rng.random(100_000)
    assert expected_calibration_error(rng.random(100_000) < p, p) < 0.01


def test_sure_and_wrong_has_error_one():
    assert expected_calibration_error([0, 0, 0], [1.0, 1.0, 1.0]) == 1
    assert expected_calibration_error([0, 1, 0, 1], [1.0, 0.0, 1.0, 0.0]) == 1


def test_a_constant_is_judged_by_its_distance_from_the_frequency():
    assert expected_calibration_error([0] * 8 + [1] * 2, np.full(10, 0.7)) == pytest.approx(0.5)


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), ("no", "yes")])
def test_labels_of_any_kind_and_both_columns(labels, rng):
    codes, p = rng.integers(0, 2, 30), rng.random(30)
    y = np.array(labels)[codes]
    assert expected_calibration_error(y, np.stack([1 - p, p], axis=1)) == expected_calibration_error(codes, p)


def test_pos_label_says_which_class_is_second(rng):
    codes, p = rng.integers(0, 2, 30), rng.random(30)
    y = np.array(["yes", "zero"])[codes]
    assert expected_calibration_error(y, p, pos_label="yes") == expected_calibration_error(1 - codes, p)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1, 2], [0.1, 0.2, 0.3]), "two classes, got 3"),
        ((["a", "a"], [0.1, 0.2]), "pos_label"),
        (([0, 1], [0.1, 1.2]), "between 0 and 1"),
        (([0, 1], [0.1, np.nan]), "between 0 and 1"),
        (([0, 1], [[0.1, 0.2, 0.7]] * 2), "shape"),
        (([0, 1], [0.1]), "inconsistent"),
        (([], []), "There are no rows"),
        ((["a", None, "b"], [0.1, 0.2, 0.3]), r"no label in row 1 \(counted from 0\)"),
        (([0, 1], [0.1, 0.2], 0), "n_bins"),
    ],
)
def test_clear_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*arguments)


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="All weights are zero"):
        expected_calibration_error([0, 1], [0.1, 0.2], sample_weight=[0, 0])


def test_curves_of_no_rows_are_refused():
    for strategy in ("uniform", "quantile"):
        with pytest.raises(ValueError, match="There are no rows"):
            reliability_curve([], [], strategy=strategy)


# Reliability -------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_curve_equals_brute_force(rows, n_bins):
    y, p, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    weight[0] = 1
    curve = reliability_curve(y, p, n_bins=n_bins, sample_weight=weight)
    found = []
    for k in range(n_bins):
        inside = [i for i in range(len(p)) if min(int(p[i] * n_bins), n_bins - 1) == k and weight[i] > 0]
        if inside:
            w = sum(weight[i] for i in inside)
            given_ = sum(weight[i] * p[i] for i in inside) / w
            hits = sum(weight[i] * y[i] for i in inside) / w
            found.append((given_, hits, w, k / n_bins, (k + 1) / n_bins))
    shown = (curve.probability, curve.frequency, curve.weight, curve.left, curve.right)
    np.testing.assert_allclose(np.stack(shown, axis=1), found, atol=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 12))
def test_equal_counts(p, n_bins):
    p = np.array(p)
    curve = reliability_curve(np.zeros(len(p)), p, n_bins=n_bins, strategy="quantile")
    assert curve.weight.sum() == len(p)
    assert len(curve.weight) <= n_bins
    # No value is split, so a bin is larger than its share by less than the rows of its last value.
    most = max(np.unique(p, return_counts=True)[1])
    assert curve.weight.max() < len(p) / n_bins + most + 1e-9
    assert np.all((curve.left <= curve.probability + 1e-12) & (curve.probability <= curve.right + 1e-12))
    np.testing.assert_array_equal(curve.left[1:], curve.right[:-1])


def test_equal_counts_of_distinct_values_are_equal(rng):
    p = rng.permutation(60) / 60
    for n_bins in (2, 3, 5, 7, 10):
        weight = reliability_curve(np.zeros(60), p, n_bins=n_bins, strategy="quantile").weight
        assert np.ptp(weight) <= 1
        assert len(weight) == n_bins


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_weights_of_curves_are_repeats(strategy, rng):
    y, p, weight = rng.integers(0, 2, 50), rng.random(50), rng.integers(0, 4, 50)
    by_weight = reliability_curve(y, p, n_bins=6, strategy=strategy, sample_weight=weight)
    repeated = reliability_curve(np.repeat(y, weight), np.repeat(p, weight), n_bins=6, strategy=strategy)
    for name, one, other in zip(by_weight._fields, by_weight, repeated, strict=True):
        if name not in ("low", "high"):  # repeats of a row say no more than the row
            np.testing.assert_allclose(one, other, err_msg=name)
    alike = reliability_curve(y, p, n_bins=6, strategy=strategy, sample_weight=np.full(50, 7.0))
    np.testing.assert_allclose(alike.low, reliability_curve(y, p, n_bins=6, strategy=strategy).low)


def test_calibration_error_is_the_mean_gap_of_the_curve(rng):
    y, p = rng.integers(0, 2, 200), rng.random(200)
    curve = reliability_curve(y, p, n_bins=15)
    gap = np.average(np.abs(curve.frequency - curve.probability), weights=curve.weight)
    assert expected_calibration_error(y, p) == pytest.approx(gap)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.99))
def test_wilson_holds_what_a_test_would_not_reject(counts, level):
    hits, n = counts
    low, high = (float(end) for end in wilson_interval(hits / n, n, level))
    z = norm.ppf((1 + level) / 2)
    assert 0 <= low <= hits / n <= high <= 1
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            assert abs(hits / n - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n), rel=1e-6)


def test_wilson_covers_as_often_as_it_says(rng):
    hits = rng.binomial(30, 0.2, 20_000)
    low, high = wilson_interval(hits / 30, 30, 0.9)
    # Binomials are discrete: coverage at a single share may be a few percent off the level.
    assert np.mean((low <= 0.2) & (high >= 0.2)) == pytest.approx(0.9, abs=0.04)


# Many classes ------------------------------------------------------------------------------------


def test_a_class_of_many_stands_against_all_others(rng):
    proba, codes = rng.dirichlet([1, 1, 1], 80), rng.integers(0, 3, 80)
    y = np.array(["a", "b", "c"])[codes]
    for k, label in enumerate("abc"):
        one = expected_calibration_error(y, proba, pos_label=label)
        assert one == expected_calibration_error(codes == k, proba[:, k])
        assert one == expected_calibration_error(y, proba[:, k], pos_label=label)


def test_classes_say_whose_the_columns_are(rng):
    proba = rng.dirichlet([1, 1, 1], 40)
    y = np.array(["b", "c"])[rng.integers(0, 2, 40)]
    found = reliability_curve(y, proba, pos_label="b", classes=["c", "a", "b"])
    np.testing.assert_array_equal(found.frequency, reliability_curve(y == "b", proba[:, 2]).frequency)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pos_label=, one of"),
        ({"pos_label": "z"}, "'z' is not one of the classes"),
        ({"pos_label": "a", "classes": ["a", "b"]}, "classes has 2 entries"),
        ({"pos_label": "a", "strategy": "counts"}, "strategy"),
        ({"pos_label": "a", "level": 1.0}, "level"),
        ({"pos_label": "a", "n_bins": 0, "strategy": "quantile"}, "n_bins"),
    ],
)
def test_clear_errors_of_many_classes(options, message, rng):
    y = np.array(["a", "b", "c"] * 4)
    with pytest.raises(ValueError, match=message):
        reliability_curve(y, rng.dirichlet([1, 1, 1], 12), **options)
