"""Whatever table comes: sound probabilities, or an error that names the cause (`strategies` draws such tables)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from promises import check, check_warnings, outcome, watched
from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.arrays import NotPositiveDefiniteError
from softmargin.tables import TableClassifier
from strategies import Trouble, troubles

EVERY = [BayesianSVC, BayesianLinearSVC, BayesianMixedSVC]


@settings(max_examples=80)
@given(troubles(small=True))
def test_tables_are_answered_by_sound_probabilities_or_by_words(trouble):
    kind, words = outcome(trouble)
    assert kind in ("fitted", "refused"), f"{words}: {trouble.model}, {trouble.made_of}"


def sound(model, X, y, new=None, **fit):
    """Fits without a warning of NumPy's, and demands what `promises.check` does of these rows and of others."""
    with watched() as seen:
        model.fit(X, y, **fit)
        check(model, Trouble(model, X, y, None, X if new is None else new, False, False, ""))
    check_warnings(seen)
    return model


@pytest.fixture
def table(rng):
    X = rng.normal(size=(30, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=30) > 0).astype(int)


@pytest.mark.parametrize("classifier", EVERY)
def test_columns_of_denormal_numbers_are_constant(classifier, table):
    X, y = table
    without = sound(classifier(random_state=0), np.column_stack([X, np.zeros(30)]), y)
    denormal = np.column_stack([X, 5e-324 * np.arange(30)])
    p = sound(classifier(random_state=0), denormal, y).predict_proba(denormal)
    np.testing.assert_allclose(p, without.predict_proba(np.column_stack([X, np.zeros(30)])), atol=1e-9)


@pytest.mark.parametrize("classifier", EVERY)
def test_the_largest_numbers_are_used_or_named(classifier, table):
    X, y = table
    unit = X / np.abs(X).max()
    expected = sound(classifier(random_state=0), unit, y).predict_proba(unit)
    largest = sound(classifier(random_state=0), 1e300 * unit, y).predict_proba(1e300 * unit)
    np.testing.assert_allclose(largest, expected, atol=1e-6)
    with pytest.raises(ValueError, match=r"too large for float64, beyond 1e\+300: column 1 has"):
        classifier().fit(np.column_stack([X[:, 0], 1.1e300 * unit[:, 1] / unit[0, 1]]), y)


def test_single_precision_up_to_its_largest_numbers(table):
    X, y = table
    X = (1e38 * X / np.abs(X).max()).astype(np.float32)
    assert sound(BayesianSVC(random_state=0), X, y).score(X, y) > 0.8


@pytest.mark.parametrize("inference", ["cavi", "stein"])
def test_waves_are_flat_where_rows_are_far(inference, table):
    X, y = table
    settings = {"inference": inference, "n_frequencies": 16, "n_steps": 20, "n_particles": 4, "random_state": 0}
    sound(BayesianKernelMachine(**settings), 1e-179 * X, y, new=np.array([[1e200, 0.0], [0.0, -1e300]]))


def test_particles_take_a_batch_beyond_single_precision(table):
    X, y = table
    model = BayesianKernelMachine(n_frequencies=16, n_steps=20, n_particles=4, random_state=0)
    with watched() as seen:
        model.partial_fit(X[:15], y[:15], classes=[0, 1]).partial_fit(1e153 * X[15:], y[15:])
        assert np.isfinite(model.predict_proba(1e153 * X)).all()
    check_warnings([each for each in seen if issubclass(each.category, RuntimeWarning)])


def test_groups_in_half_precision(table):
    X, y = table
    frame = pd.DataFrame({"a": X[:, 0], "ward": (np.arange(30) % 3).astype(np.float16)})
    assert sound(BayesianMixedSVC(groups="ward"), frame, y).random_effects()["group"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("classifier", EVERY)
def test_rows_that_are_far_in_units_of_small_columns(classifier, table):
    X, y = table
    far = np.array([[1e200, -1e200], [-1e300, 0.0]])
    sound(classifier(random_state=0), 1e-200 * X, y, new=far)


@pytest.mark.parametrize("structure", [{"groups": {1: [0]}}, {"splines": [0]}])
def test_curves_and_slopes_far_away(structure, table, rng):
    X, y = table
    X = np.column_stack([X[:, 0], rng.integers(0, 4, 30)])
    new = np.array([[1e200, 0.0], [-1e300, 1.0]])
    sound(BayesianMixedSVC(**structure), X, y, new=new)


def test_a_spline_of_numbers_that_its_range_does_not_tell_apart(rng):
    X = np.append(rng.normal(size=29), 1e200)[:, None]
    with pytest.raises(ValueError, match="spline in column 0 would need knots at values"):
        BayesianMixedSVC(splines=[0]).fit(X, np.arange(30) % 2)


@pytest.mark.parametrize("classifier", EVERY)
def test_weights_beyond_counting_are_named(classifier, table):
    X, y = table
    with pytest.raises(ValueError, match=r"k may be at most 1e\+09, got 1e\+20"):
        classifier().fit(X, y, sample_weight=np.full(30, 1e20))
    with pytest.raises(ValueError, match=r"got 1e\+12 from sample_weight and class_weight together"):
        classifier(class_weight={1: 1e12}).fit(X, y)
    sound(classifier(random_state=0), X, y, sample_weight=np.full(30, 1e-300))
    sound(classifier(random_state=0), X, y, sample_weight=np.full(30, 1e9))


def test_columns_of_the_same_name(table):
    X, y = table
    with pytest.raises(ValueError, match="2 columns are called 'a': rename all but one"):
        BayesianSVC().fit(pd.DataFrame(X, columns=["a", "a"]), y)


def test_columns_too_far_from_zero_for_a_prior(table):
    X, y = table
    message = r"Column 0 reaches .* \(and 1 more column is too large\) in the units of the prior, where fit_int"
    with pytest.raises(ValueError, match=message):
        BayesianLinearSVC(fit_intercept=False).fit(X + 1e13, y)
    with pytest.raises(ValueError, match=r"Column 1 reaches .* or standardize=False unscaled"):
        BayesianLinearSVC(standardize=False).fit(X * [1.0, 1e20], y)
    sound(BayesianLinearSVC(standardize=False), np.column_stack([X, np.full(30, 1e20)]), y)


def test_columns_that_rounding_does_not_tell_apart_predict_nothing():
    X, weight = [[1.0, -28.0], [0.0, -103.0]], [2e7, 1e-3]  # one row is all there is, at 6e4 of its own deviations
    model = sound(BayesianLinearSVC(fit_intercept=False), X, [True, False], sample_weight=weight)
    with pytest.raises(ValueError, match="in fit, the covariance of the columns was singular up to rounding"):
        model.predict([[np.nan, 1.0]])


def test_sums_that_lose_the_prior_are_told_as_such(monkeypatch, table):
    def lost(*args):
        raise NotPositiveDefiniteError("made up")

    monkeypatch.setattr(BayesianLinearSVC, "_inferred", lost)
    with pytest.raises(ValueError, match="Columns or weights differ by so many orders of magnitude"):
        BayesianLinearSVC().fit(*table)


def test_single_precision_has_no_number_for_the_spread_of_denormal_columns():
    least = np.finfo(np.float32).smallest_subnormal
    sound(BayesianLinearSVC(random_state=0), np.array([[-least], [0.0]], dtype=np.float32), np.array([0, 1]))


def test_the_last_of_small_integers_is_a_group_as_well(table):
    X, y = table
    frame = pd.DataFrame({"x": X[:, 0], "group": np.arange(98, 128, dtype=np.int8)})
    model = sound(BayesianMixedSVC(groups="group", random_state=0), frame, y)
    unseen = frame.assign(group=np.arange(68, 98, dtype=np.int8))
    assert np.isfinite(model.predict_proba(unseen)).all()


def test_effects_in_units_whose_square_is_no_number(rng):
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    huge = np.column_stack([1e202 * X[:, 0], np.arange(30) % 5])
    model = sound(BayesianMixedSVC(groups={1: [0]}, random_state=0), huge, y)
    assert all(np.isfinite(each).all() for each in model.variance_components_.values())


def test_intercepts_of_columns_far_from_zero_have_deviations(rng):
    x, y = rng.normal(size=(40, 1)), rng.integers(0, 2, 40)
    near = BayesianLinearSVC(random_state=0).fit(x + 1e3, y)
    far = sound(BayesianLinearSVC(random_state=0), 1e180 * (x + 1e3), y)
    np.testing.assert_allclose(far.intercept_std_, near.intercept_std_, rtol=1e-6)  # it has no unit


def test_a_column_beyond_squares_is_named_where_it_stays_in_its_units():
    X = np.array([[-1e170], [0.0]])  # whose mean and spread are those of a constant
    with pytest.raises(ValueError, match="Column 0 reaches"):
        BayesianLinearSVC(standardize=False).fit(X, [0, 1])


def test_newton_judges_classes_that_meet():
    X = np.array([[-0.5], [0.2], [1.1]])
    sound(BayesianSVC(multi_class="crammer-singer", tune="bound-steps", random_state=0), X, np.array(["a", "b", "c"]))


def test_kernels_predict_missing_entries_of_any_size(rng):
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    X[::4, 0] = np.nan
    new = np.array([[1e200, np.nan], [np.nan, 1e200], [np.nan, np.nan]])
    for unit in ([1e-110, 1e112], [1e-259, 1.0], [1e299, 1e-300]):
        sound(BayesianSVC(random_state=0), X * unit, y, new=new)


def test_a_date_that_nobody_knows_is_named():
    frame = pd.DataFrame({"when": pd.to_datetime([None] * 4), "x": np.arange(4.0)})
    with pytest.raises(ValueError, match="column 'when' has no observed value"):
        TableClassifier(BayesianMixedSVC()).fit(frame, [0, 1, 0, 1])


def test_tables_of_any_size_are_known_again():
    frame = pd.DataFrame({"x": [9.9e110, 0.0, 1.0, 2.0]})
    sound(TableClassifier(BayesianSVC(random_state=0)), frame, np.array([0, 1, 0, 1]))


def test_kernels_of_denormal_columns_in_single_precision():
    least = np.finfo(np.float32).smallest_subnormal
    sound(BayesianSVC(random_state=0), np.array([[least], [0.0]], dtype=np.float32), np.array([0, 1]))


@pytest.mark.parametrize("weight", [[2e-296, 2e-296], [2e-270, 0.03]])
def test_particles_of_weights_that_single_precision_takes_for_nothing(weight):
    model = BayesianKernelMachine(n_frequencies=16, n_particles=4, n_steps=20, inference="stein", random_state=0)
    sound(model, np.array([[-87.0], [-12.0]]), np.array([0, 1]), sample_weight=np.array(weight))


def test_effects_in_units_that_hardly_vary(rng):
    X = np.column_stack([1e-200 * rng.normal(size=30), np.arange(30) % 5])
    sound(BayesianMixedSVC(groups={1: [0]}, random_state=0), X, rng.integers(0, 2, 30))


def test_directions_of_particles_whose_squares_single_precision_cannot_hold():
    X = np.array([[-60.0, 4.8e-8, 0.0], [93.0, 8.6e-9, 3.2e98]])
    settings = {"n_frequencies": 16, "n_particles": 4, "n_steps": 20, "class_weight": {"no": 1e6}, "random_state": 0}
    model = BayesianKernelMachine(**settings)
    with watched() as seen:
        for row, label in zip(X, ["no", "yes"], strict=True):
            model.partial_fit(row[None, :], [label], classes=["no", "yes"])
        check(model, Trouble(model, X, np.array(["no", "yes"]), None, X, False, False, ""))
    check_warnings(seen)


def test_draws_of_weights_whose_squares_are_no_numbers():
    X = np.array([[-1.5e-323, 1e-200], [np.nan, 1e-200]])
    sound(
        BayesianLinearSVC(inference="gibbs", random_state=0),
        X,
        np.array([0, 1]),
        sample_weight=np.array([1.3e-296] * 2),
    )


def test_columns_in_their_own_units_whose_squares_are_no_numbers_predict_nothing():
    sound(BayesianMixedSVC(standardize=False, random_state=0), np.array([[0.0], [3.3e-157]]), np.array([0, 1]))


def test_a_column_that_varies_in_a_row_of_no_weight_is_constant():
    X = np.array([[-4.9e-293, -2.4e298, 1.3e161], [-1.4e-263, -8.5e229, 2.5e234]])
    sound(BayesianGPC(random_state=0), X, np.array([1, 0]), sample_weight=np.array([7.8e8, 8.4e-250]))


def test_links_of_classes_where_scipy_finds_no_step():
    X = 1e300 * np.array([[1.0, -1, 0], [1, 1, 0], [-1, -1, 0], [-1, -1, 0], [1, -1, 0]])
    X[:, 2] = -4.041540862573009e290, -2.8315651776424813e93, 5.688194075062923e280, 2.9046981389779028e256, 9.7e61
    model = TableClassifier(classifier=BayesianGPC(tune="loo", random_state=0))
    sound(model, X, np.array([1, 0, 0, 2, 0]), sample_weight=np.full(5, 119109035.78254111))
