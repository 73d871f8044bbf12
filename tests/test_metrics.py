import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softmargin.metrics import expected_calibration_error


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
        (([0, 1], [0.1, 0.2], 0), "n_bins"),
    ],
)
def test_clear_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*arguments)


def test_weights_that_are_all_zero_are_refused():
    with pytest.raises(ValueError, match="All weights are zero"):
        expected_calibration_error([0, 1], [0.1, 0.2], sample_weight=[0, 0])
