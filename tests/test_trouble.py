"""Whatever table comes: sound probabilities, or an error that names the cause (`strategies` draws such tables)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.arrays import NotPositiveDefiniteError
from strategies import Trouble, check, check_warnings, outcome, troubles, watched

EVERY = [BayesianSVC, BayesianLinearSVC, BayesianMixedSVC]


@settings(max_examples=80)
@given(troubles(small=True))
def test_tables_are_answered_by_sound_probabilities_or_by_words(trouble):
    kind, words = outcome(trouble)
    assert kind in ("fitted", "refused"), f"{words}: {trouble.model}, {trouble.made_of}"


def sound(model, X, y, new=None, **fit):
    """Fits without a warning of NumPy's, and demands what `strategies.check` does of these rows and of others."""
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
    with pytest.raises(ValueError, match="spline in column 0 would have to bend between values"):
        BayesianMixedSVC(splines=[0]).fit(X, np.arange(30) % 2)


@pytest.mark.parametrize("classifier", EVERY)
def test_weights_beyond_counting_are_named(classifier, table):
    X, y = table
    with pytest.raises(ValueError, match=r"k may be 1e\+09 at most, got 1e\+20"):
        classifier().fit(X, y, sample_weight=np.full(30, 1e20))
    with pytest.raises(ValueError, match=r"got 1e\+12 by sample_weight and class_weight together"):
        classifier(class_weight={1: 1e12}).fit(X, y)
    sound(classifier(random_state=0), X, y, sample_weight=np.full(30, 1e-300))
    sound(classifier(random_state=0), X, y, sample_weight=np.full(30, 1e9))


def test_columns_of_the_same_name(table):
    X, y = table
    with pytest.raises(ValueError, match="2 columns are called 'a': rename all but one"):
        BayesianSVC().fit(pd.DataFrame(X, columns=["a", "a"]), y)


def test_columns_too_far_from_zero_for_a_prior(table):
    X, y = table
    with pytest.raises(ValueError, match=r"Column 0 reaches .* \(and 1 more columns go far\) where fit_int"):
        BayesianLinearSVC(fit_intercept=False).fit(X + 1e13, y)
    with pytest.raises(ValueError, match=r"Column 1 reaches .* or standardize=False in its own units"):
        BayesianLinearSVC(standardize=False).fit(X * [1.0, 1e20], y)
    sound(BayesianLinearSVC(standardize=False), np.column_stack([X, np.full(30, 1e20)]), y)


def test_columns_that_rounding_does_not_tell_apart_foretell_nothing():
    X, weight = [[1.0, -28.0], [0.0, -103.0]], [2e7, 1e-3]  # one row is all there is, at 6e4 of its own deviations
    model = sound(BayesianLinearSVC(fit_intercept=False), X, [True, False], sample_weight=weight)
    with pytest.raises(ValueError, match=r"columns that rounding does not tell apart\. Impute"):
        model.predict([[np.nan, 1.0]])


def test_sums_that_lose_the_prior_are_told_as_such(monkeypatch, table):
    def lost(*args):
        raise NotPositiveDefiniteError("made up")

    monkeypatch.setattr(BayesianLinearSVC, "_inferred", lost)
    with pytest.raises(ValueError, match="Columns or weights lie so many orders of magnitude apart"):
        BayesianLinearSVC().fit(*table)
