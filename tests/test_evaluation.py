import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics

from softmargin.evaluation import MEASURES, evaluate, log_losses
from softmargin.metrics import expected_calibration_error


def binary(n=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n).round(2)  # with ties
    return rng.random(n) < p**1.5, np.column_stack([1 - p, p]), rng.integers(0, 4, n).astype(float)


def many(n=300, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.7), size=n)
    return np.array([rng.choice(n_classes, p=row) for row in proba]), proba, rng.integers(0, 4, n).astype(float)


def test_two_classes_are_measured_as_scikit_learn_does():
    y, proba, weight = binary()
    found = evaluate(y, proba, classes=[False, True], sample_weight=weight, n_bootstrap=2)
    p, options = proba[:, 1], {"sample_weight": weight}
    predicted = proba.argmax(axis=1).astype(bool)
    expected = {
        "error": 1 - metrics.accuracy_score(y, predicted, **options),
        "balanced_error": 1 - metrics.balanced_accuracy_score(y, predicted, **options),
        "auc": metrics.roc_auc_score(y, p, **options),
        "log_loss": metrics.log_loss(y, p, **options),
        "brier": metrics.brier_score_loss(y, p, **options),
        "ece": expected_calibration_error(y, p, **options),
    }
    assert list(found.measures) == list(MEASURES) == list(expected)
    assert_allclose([found[name].value for name in expected], list(expected.values()), rtol=1e-12)


def test_many_classes_are_measured_as_scikit_learn_does():
    y, proba, _ = many()
    found = evaluate(y, proba, classes=range(4), n_bootstrap=2)
    assert found["auc"].value == pytest.approx(metrics.roc_auc_score(y, proba, multi_class="ovr"))
    assert found["log_loss"].value == pytest.approx(metrics.log_loss(y, proba))
    assert found["brier"].value == pytest.approx(np.mean(((np.eye(4)[y] - proba) ** 2).sum(axis=1)))
    top = proba.argmax(axis=1) == y
    assert found["ece"].value == pytest.approx(expected_calibration_error(top, proba.max(axis=1)))
    assert found["error"].value == pytest.approx(1 - top.mean())


@pytest.mark.parametrize("make", [binary, many])
def test_a_weight_of_k_is_k_rows(make):
    y, proba, weight = make()
    classes = np.unique(y)
    weighted = evaluate(y, proba, classes=classes, sample_weight=weight, n_bootstrap=1)
    times = weight.astype(int)
    repeated = evaluate(np.repeat(y, times), np.repeat(proba, times, axis=0), classes=classes, n_bootstrap=1)
    for name in MEASURES:
        assert weighted[name].value == pytest.approx(repeated[name].value, rel=1e-12), name


def test_classes_may_come_in_any_order():
    y, proba, _ = many()
    names = np.array(["d", "a", "c", "b"])
    one = evaluate(names[y], proba, classes=names, n_bootstrap=3)
    other = evaluate(y, proba, classes=range(4), n_bootstrap=3)
    assert one == other


def test_intervals_have_the_width_of_the_sampling_distribution():
    """Of an error, a binomial share, 2 x 1.96 sd; of a mean of losses too, to the noise of the draws (3 %)."""
    y, proba, _ = binary()
    found = evaluate(y, proba, classes=[False, True], n_bootstrap=2000)
    error, loss, losses = found["error"], found["log_loss"], log_losses(y, proba, [False, True])
    width = 2 * 1.96 * np.sqrt(error.value * (1 - error.value) / len(y))
    assert error.high - error.low == pytest.approx(width, rel=0.05)
    assert error.low < error.value < error.high
    assert loss.high - loss.low == pytest.approx(2 * 1.96 * losses.std() / np.sqrt(len(y)), rel=0.1)


def test_intervals_of_the_area_agree_with_delong():
    """The variance of an area by DeLong et al. (1988), from placements; the bootstrap's to its noise and their bias."""
    y, proba, _ = binary()
    p, area = proba[:, 1], evaluate(y, proba, classes=[False, True], n_bootstrap=2000)["auc"]
    hits, misses = p[y], p[~y]
    wins = (hits[:, None] > misses) + 0.5 * (hits[:, None] == misses)
    variance = wins.mean(axis=1).var(ddof=1) / len(hits) + wins.mean(axis=0).var(ddof=1) / len(misses)
    assert area.high - area.low == pytest.approx(2 * 1.96 * np.sqrt(variance), rel=0.1)


def test_rows_without_mistakes_do_not_promise_that_there_are_none():
    proba = np.tile([[0.9, 0.1], [0.1, 0.9]], (30, 1))
    found = evaluate(np.tile([0, 1], 30), proba, classes=[0, 1], n_bootstrap=50)
    assert (found["error"].value, found["error"].low) == (0.0, 0.0)
    assert found["error"].high == pytest.approx(0.06, abs=0.005)  # Wilson: z^2 / (n + z^2)
    assert found["balanced_error"].high > found["error"].high  # thirty rows of a class say less than sixty
    assert found["auc"].low == pytest.approx(1 - found["balanced_error"].high)


def test_a_rare_class_is_in_every_draw_of_what_classes_have_in_common():
    y = np.repeat([0, 1, 2], [30, 29, 5])
    said = np.where(y == 2, 0, y)
    said[[1, 35]] = [1, 0]
    proba = np.full((64, 3), 0.1) + 0.7 * np.eye(3)[said]
    found = evaluate(y, proba, classes=range(3), n_bootstrap=300)["balanced_error"]
    assert found.value == pytest.approx((1 / 30 + 1 / 29 + 1) / 3)
    assert found.low >= 1 / 3 - 1e-12  # the third class is there, and wrong, in every draw


def test_a_class_of_one_row_says_next_to_nothing():
    y = np.repeat([0, 1, 2], [30, 29, 1])
    proba = np.full((60, 3), 0.1) + 0.7 * np.eye(3)[np.where(y == 2, 0, y)]
    found = evaluate(y, proba, classes=range(3), n_bootstrap=50)["balanced_error"]
    assert found.value == pytest.approx(1 / 3)
    assert found.high - found.low > 0.8


def test_intervals_know_rows_from_weights():
    y, proba, _ = binary()
    plain, heavy = (
        evaluate(y, proba, classes=[False, True], sample_weight=w * np.ones(400), n_bootstrap=20) for w in (1, 1000)
    )
    for name in MEASURES:
        np.testing.assert_allclose(plain[name], heavy[name], rtol=1e-9)


def test_what_is_undefined_is_nan_and_null():
    found = evaluate([1, 1], [[0.2, 0.8], [0.6, 0.4]], classes=[0, 1], n_bootstrap=5)
    assert np.isnan(found["auc"].value)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["measures"]["auc"] == {"value": None, "low": None, "high": None}
    assert plain["measures"]["error"]["value"] == 0.5
    assert (plain["n_rows"], plain["n_bootstrap"]) == (2, 5)


def test_impossible_labels_cost_much_but_not_infinity():
    assert log_losses([0], [[0.0, 1.0]], classes=[0, 1])[0] == pytest.approx(
        metrics.log_loss([0], [[0.0, 1.0]], labels=[0, 1])
    )


def test_the_same_seed_gives_the_same_intervals():
    y, proba, _ = binary()
    one, same, other = (evaluate(y, proba, classes=[False, True], n_bootstrap=20, random_state=s) for s in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 2]}, "1 label is of classes that the probabilities do not know, such as .*2"),
        ({"y": ["a", "b"]}, "do not know"),
        ({"y": [0]}, "inconsistent numbers"),
        ({"y": np.array(["a", 0], dtype=object)}, "1 label is of .* such as 'a'"),
        ({"y": [0, np.nan]}, r"There is no label in row 1 \(counted from 0\): leave out"),
        ({"y": [None, "a"]}, "no label in row 0"),
        ({"y": pd.array([pd.NA, pd.NA], dtype="Int64")}, "no label in 2 rows, the first of them 0"),
        ({"y": [], "proba": np.empty((0, 2))}, "no rows to evaluate"),
        ({"y": [], "proba": []}, "no rows to evaluate"),
        ({"proba": [[0.5, 0.5, 0.0]] * 2}, "a column for each of 2 classes"),
        ({"proba": [[np.nan, 0.5]] * 2}, "between 0 and 1"),
        ({"proba": [[0.9, 0.9]] * 2}, "add up to 1"),
        ({"sample_weight": [0.0, 0.0]}, "All weights are zero"),
        ({"sample_weight": [1.0, -1.0]}, "weight"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"n_bootstrap": 0}, "n_bootstrap"),
    ],
)
def test_bad_input_is_named(change, message):
    given = {"y": [0, 1], "proba": [[0.5, 0.5]] * 2} | change
    with pytest.raises(ValueError, match=message):
        evaluate(given.pop("y"), given.pop("proba"), classes=[0, 1], **given)
