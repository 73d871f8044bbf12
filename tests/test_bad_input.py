"""Bad input gets an error that names the culprit and says what to do; odd input gets a right answer."""

from datetime import date, time, timedelta
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from softmargin import (
    BayesianGPC,
    BayesianLinearSVC,
    BayesianMixedSVC,
    BayesianOneClassSVM,
    BayesianSVC,
)
from softmargin.kernels import RBF, Linear, White
from softmargin.tables import TableClassifier

CLASSIFIERS = [BayesianSVC, BayesianLinearSVC, BayesianMixedSVC]
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, "yes", "no")


def checked(model, X, y, **fit):
    """Fits, and demands finite answers that agree with each other."""
    model.fit(X, y, **fit)
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    assert np.isfinite(model.decision_function(X)).all()
    assert (model.classes_[p.argmax(axis=1)] == model.predict(X)).all()
    return model


@pytest.mark.parametrize(
    ("classifier", "value", "word"),
    [(partial(BayesianSVC, kernel="matern"), np.nan, "NaN")]
    + [(classifier, value, "infinity") for classifier in CLASSIFIERS for value in (np.inf, -np.inf)],
)
def test_missing_and_infinite_values_are_named_by_column(classifier, value, word, table):
    X, y = table
    X[5, 1] = value
    with pytest.raises(ValueError, match=f"{word}.*column 1 has"):
        classifier().fit(X, y)
    with pytest.raises(ValueError, match=f"{word}.*column 'dose' has"):
        classifier().fit(pd.DataFrame(X, columns=["age", "dose", "weight"]), y)
    fitted = classifier().fit(np.nan_to_num(X, posinf=0, neginf=0), y)
    with pytest.raises(ValueError, match=word):
        fitted.predict(X)


@pytest.mark.parametrize(
    ("model", "sparse", "message"),
    [
        (BayesianSVC(), True, "BayesianSVC accepts missing values only in dense rows, not in a sparse matrix; put an"),
        (BayesianLinearSVC(), True, "only in dense rows"),
        (
            BayesianSVC(kernel="matern"),
            False,
            "only with a kernel .* as that of kernel='rbf' is, and not with this one",
        ),
        (BayesianGPC(kernel=Linear()), False, "BayesianGPC accepts missing values only with a kernel"),
        (BayesianMixedSVC(kernel="rbf"), False, "only without a kernel"),
        (BayesianOneClassSVM(), False, "BayesianOneClassSVM does not accept missing values"),
    ],
)
def test_where_missing_values_are_accepted_is_said(model, sparse, message, table):
    X, y = table
    X[5, 1] = np.nan
    with pytest.raises(ValueError, match=f"contains NaN: column 1 has missing values.*{message}"):
        model.fit(scipy.sparse.csr_array(X) if sparse else X, y)


@pytest.mark.parametrize("absent", [pd.NA, None, np.nan, "masked"])
@pytest.mark.parametrize("classifier", [*CLASSIFIERS, partial(BayesianMixedSVC, groups=0)])
def test_gaps_of_every_kind_are_alike(classifier, absent, table):
    X, y = table
    X = np.column_stack([np.arange(60) % 4, X]).round(1)
    gaps = X.copy()
    gaps[[5, 7], 2] = np.nan
    expected = classifier(random_state=0).fit(gaps, y).predict_proba(gaps)
    if isinstance(absent, str):
        rows = np.ma.masked_array(np.nan_to_num(gaps, nan=9.0), np.isnan(gaps))
    else:
        rows = gaps.astype(object)
        rows[np.isnan(gaps)] = absent
    np.testing.assert_array_equal(classifier(random_state=0).fit(rows, y).predict_proba(rows), expected)


def test_columns_of_objects_may_have_gaps_of_pandas(table):
    X, y = table
    plain = pd.DataFrame({"a": X[:, 0], "b": np.where(np.arange(60) == 5, np.nan, X[:, 1])})
    frame = plain.assign(b=plain["b"].astype(object).where(plain["b"].notna(), pd.NA))
    expected = BayesianLinearSVC().fit(plain, y).predict_proba(plain)
    np.testing.assert_array_equal(BayesianLinearSVC().fit(frame, y).predict_proba(frame), expected)
    with pytest.raises(ValueError, match="Input X contains NaN: column 'b' has missing values"):
        BayesianSVC(kernel="matern").fit(frame, y)
    with pytest.raises(ValueError, match=r"column 'b' is not numeric \(such as 'x'\)"):
        BayesianSVC().fit(frame.replace({"b": {frame["b"][0]: "x"}}), y)
    assert frame["b"][5] is pd.NA  # what was given is unchanged


def test_masks_of_arrays_are_gaps(table):
    X, y = table
    masked = np.ma.masked_array(X, np.zeros(X.shape, dtype=bool))
    expected = BayesianSVC(random_state=0).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(BayesianSVC(random_state=0).fit(masked, y).predict_proba(masked), expected)
    masked[3, 1] = np.ma.masked
    with pytest.raises(ValueError, match="Input X contains NaN: column 1 has missing values"):
        BayesianSVC(kernel="matern").fit(masked, y)
    labels = np.ma.masked_array(np.arange(60) % 2, np.arange(60) == 4)
    with pytest.raises(ValueError, match="y contains NaN, infinity or None in row 4"):
        BayesianSVC().fit(X, labels)
    with pytest.raises(ValueError, match="sample_weight must be finite and non-negative, got nan for row 2"):
        BayesianSVC().fit(X, y, sample_weight=np.ma.masked_array(np.ones(60), np.arange(60) == 2))
    numbers = np.ma.masked_array(np.round(10 * X).astype(int), masked.mask)
    encoded = TableClassifier(BayesianLinearSVC()).fit(numbers, y).encode(numbers)
    np.testing.assert_array_equal(np.isnan(encoded), masked.mask)


@every_classifier
def test_many_missing_columns_are_counted_not_listed(classifier, table):
    _, y = table
    with pytest.raises(ValueError, match="columns 0, 1, 2, 3, 4 and 5 more have"):
        classifier().fit(np.full((60, 10), np.nan), y)


@every_classifier
def test_columns_of_text_are_named(classifier, table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abc")).assign(sex="f")
    with pytest.raises(ValueError, match=r"column 'sex' is not numeric.*OneHotEncoder"):
        classifier().fit(frame, y)


@every_classifier
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.ones(60), r"only one class: \[1.0\]"),
        (np.linspace(0, 1, 60), "continuous"),
        (np.append(np.nan, np.ones(59)), "y contains NaN"),
        (np.ones(59), "inconsistent numbers of samples"),
        (None, "y to be passed"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(classifier, labels, message, table):
    with pytest.raises(ValueError, match=message):
        classifier().fit(table[0], labels)


def test_weights_that_are_no_numbers_are_refused_by_name(table):
    with pytest.raises(ValueError, match=r"sample_weight must hold a number for each row: .*'heavy'"):
        BayesianSVC().fit(*table, np.array(["heavy"] * 60))


@pytest.mark.parametrize("frame", [pd.DataFrame(index=range(60)), pl.DataFrame()], ids=["pandas", "polars"])
def test_frames_without_columns_are_refused(frame, table):
    with pytest.raises(ValueError, match="X is a frame without columns, while a minimum of 1 is required"):
        BayesianLinearSVC().fit(frame, table[1])


@pytest.mark.parametrize(
    ("label", "plain"),
    [(True, "bool"), (3, "int64"), (10**25, "str"), (pd.Period("2020"), "str"), (date(2020, 1, 1), "str")],
)
def test_labels_that_are_objects_are_answered_with_their_plain_type(label, plain, table):
    y = np.array([label] * 60, dtype=object)
    with pytest.raises(ValueError, match=rf"Unknown label type: .*each of type {type(label).__name__}; .*'{plain}'"):
        BayesianSVC().fit(table[0], y)


@every_classifier
def test_a_weight_of_a_class_that_is_absent_does_no_harm(classifier, table):
    X, y = table
    weights = {"yes": 2.0, "no": 1.0}
    expected = classifier(class_weight=weights, random_state=0).fit(X, y).predict_proba(X)
    model = classifier(class_weight=weights | {"rare": 9.0}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("classifier", [BayesianSVC(), BayesianMixedSVC(groups="a"), TableClassifier()])
def test_frames_that_hold_no_rows_yet_are_named(classifier, table, recwarn):
    X, y = table
    with pytest.raises(TypeError, match="X is a LazyFrame of polars"):
        classifier.fit(pl.DataFrame(X, schema=list("abc")).lazy(), y)
    assert not recwarn.list


@pytest.mark.parametrize("classifier", [BayesianSVC(), BayesianMixedSVC(groups="a")])
def test_tables_of_arrow_are_named(classifier, table):
    X, y = table
    with pytest.raises(TypeError, match=r"X is a Table of pyarrow: pass X.to_pandas\(\)"):
        classifier.fit(pl.DataFrame(X, schema=list("abc")).to_arrow(), y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_single_column_is_no_table(frame, table):
    X, y = table
    with pytest.raises(ValueError, match=r"2-dimensional|Expected 2D array"):
        BayesianSVC().fit(frame({"a": X[:, 0]})["a"], y)


@pytest.mark.parametrize("when", [date(2020, 1, 1), timedelta(days=1), time(12, 30)])
def test_dates_of_polars_are_no_numbers(when, table):
    X, y = table
    with pytest.raises(ValueError, match="column 'when' is not numeric"):
        BayesianSVC().fit(pl.DataFrame({"a": X[:, 0], "when": [when] * 60}), y)


@every_classifier
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(60), "non-negative, got -1.0 for row 0 and 59 more"),
        (np.append(np.nan, np.ones(59)), "got nan for row 0"),
        (np.ones(7), r"each of the 60 rows, got an array of shape \(7,\)"),
        (np.zeros(60), "weights are zero"),
    ],
)
def test_weights_that_mean_nothing_are_refused(classifier, weight, message, table):
    with pytest.raises(ValueError, match=message):
        classifier().fit(*table, sample_weight=weight)


@every_classifier
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "hnge"}, "loss must be one of 'auto', 'hinge', 'hinge-augmented'.*got 'hnge'"),
        ({"link": None}, "link must be one of .*'loo', 'probit', 'logistic', got None"),
        ({"tol": -1}, "tol must be a number >= 0, got -1"),
        ({"tol": "small"}, "tol must be a number >= 0, got 'small'"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be an integer >= 1, got 2.5"),
        ({"max_time": 0}, "max_time must be a positive number or None, got 0"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0"),
        ({"class_weight": "even"}, "class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {"maybe": 2}}, r"weight for \['maybe'\], but the classes are \['no', 'yes'\]"),
        ({"class_weight": {"yes": -2}}, "finite and non-negative"),
        ({"class_weight": {"yes": None}}, "class_weight gives class 'yes' the weight None, which is not a number"),
        ({"verbose": "False"}, "verbose must be True, False or an integer >= 0, got 'False'"),
        ({"verbose": -1}, "verbose must be True, False or an integer >= 0, got -1"),
        ({"random_state": "lucky"}, "lucky"),
    ],
)
def test_unknown_parameter_values_are_answered_with_the_known_ones(classifier, parameters, message, table):
    if classifier is not BayesianSVC and "random_state" in parameters:
        parameters, message = {"rate": -1}, "rate must be a positive number"
    with pytest.raises(ValueError, match=message):
        classifier(**parameters).fit(*table)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": 2.5}, r"kernel=2.5 is a number, .* such as 'rbf' or 2.5 \* RBF\(\)"),
        ({"kernel": 3j}, "kernel must be a kernel of softmargin.kernels"),
        ({"kernel": RBF((1.0, 2.0))}, "2 length-scales, but the data has 3 columns"),
        ({"kernel": White(1.0)}, "does not give the inducing points a positive definite covariance"),
        (
            {"inference": "vb"},
            "inference must be one of 'auto', 'cavi', 'svi', 'adam', 'gibbs', 'ecm', 'batch', got 'vb'",
        ),
        ({"inference": "gibbs", "loss": "probit"}, "inference='gibbs' relies on an augmentation, which loss='probit'"),
        ({"inference": "ecm", "loss": "logistic"}, "inference='ecm' relies on an augmentation, which loss='logistic'"),
        ({"n_chains": 0}, "n_chains must be an integer >= 1, got 0"),
        ({"warm_up": -1}, "warm_up must be an integer >= 1 or 'auto', got -1"),
        ({"thin": 0}, "thin must be an integer >= 1, got 0"),
        ({"tune": "grid"}, "tune must be one of 'logistic', 'bound', 'bound-steps', 'loo', None, got 'grid'"),
        ({"tune": "bound", "loss": "logistic-taylor"}, "has no bound to tune by"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1 or 'auto', got 0"),
        ({"learning_rate": 0.1}, r"learning_rate must be 'adaptive', or \(delay, power\)"),
        ({"learning_rate": (1.0, 0.4)}, "power in learning_rate must lie above 0.5"),
        ({"n_draws": 0}, "n_draws must be an integer >= 1, got 0"),
        ({"n_inducing": 0}, "n_inducing must be an integer >= 1 or 'auto', got 0"),
        ({"inducing": "kmean"}, "'kmeans', 'random', 'mixture', 'tuned', got 'kmean'"),
        ({"inducing": np.zeros((4, 2))}, r"points of shape \(n_points, 3\) to match X"),
    ],
)
def test_kernel_parameters_are_checked_too(parameters, message, table):
    with pytest.raises(ValueError, match=message):
        BayesianSVC(**parameters).fit(*table)


@pytest.mark.parametrize("classifier", [BayesianLinearSVC, BayesianMixedSVC])
@pytest.mark.parametrize("name", ["fit_intercept", "standardize"])
def test_words_are_not_true_or_false(classifier, name, table):
    for value in ("False", None, 2):
        with pytest.raises(ValueError, match=f"{name} must be True or False, got {value!r}"):
            classifier(**{name: value}).fit(*table)
    for value in (np.True_, 0):
        classifier(**{name: value}).fit(*table)


def test_formulas_that_are_no_strings_can_be_shown(table):
    model = BayesianMixedSVC(5)
    assert "formula=5" in repr(model)
    assert "BayesianMixedSVC" in model._repr_html_()
    with pytest.raises(ValueError, match=r"formula must be a string .* got 5"):
        model.fit(*table)


def test_tables_need_a_model_that_learns_classes(table):
    X, y = table
    for model in (BayesianOneClassSVM(), LinearRegression()):
        with pytest.raises(ValueError, match=f"needs a classifier, and {type(model).__name__} learns no classes"):
            TableClassifier(model).fit(pd.DataFrame(X, columns=list("abc")), y)


@every_classifier
@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e12, 1e200])
def test_scales_do_not_matter(classifier, scale, table):
    X, y = table
    expected = classifier().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(checked(classifier(), scale * X, y).predict_proba(scale * X), expected, atol=1e-6)


@every_classifier
def test_far_offsets_do_not_matter(classifier, table):
    X, y = table
    expected = classifier().fit(X, y).predict_proba(X)
    # At 1e9 a double keeps seven digits of the column.
    np.testing.assert_allclose(checked(classifier(), X + 1e9, y).predict_proba(X + 1e9), expected, atol=1e-4)


@every_classifier
def test_constant_and_repeated_columns_and_rows_are_harmless(classifier, table):
    X, y = table
    for constant in (0.0, 1.0, -1e9, 1e-9):
        assert checked(classifier(), np.column_stack([X, np.full(60, constant)]), y).score(
            np.column_stack([X, np.full(60, constant)]), y
        ) > 0.85  # fmt: skip
    checked(classifier(), np.hstack([X, X]), y)
    checked(classifier(), np.vstack([X, X, X]), np.concatenate([y, y, y]))
    checked(classifier(), np.ones((20, 2)), np.repeat(["a", "b"], [12, 8]))


@every_classifier
def test_next_to_no_data_is_enough(classifier, rng):
    assert checked(classifier(), [[0.0], [1.0]], [0, 1]).score([[0.0], [1.0]], [0, 1]) == 1
    np.testing.assert_allclose(checked(classifier(), [[0.0], [0.0]], [0, 1]).predict_proba([[0.0]]), 0.5, atol=1e-6)
    checked(classifier(), rng.normal(size=(30, 400)), rng.integers(0, 2, 30))
    checked(classifier(), rng.normal(size=(40, 2)), np.arange(40) == 7)


@every_classifier
def test_rows_far_beyond_the_data_have_probabilities(classifier, table):
    X, y = table
    for dtype, far in ((np.float64, 1e300), (np.float32, 1e38)):
        model = classifier().fit(X.astype(dtype), y)
        p = model.predict_proba(np.array([[far, 0, 0], [-far, far, -far]], dtype=dtype))
        assert np.isfinite(p).all()


@pytest.mark.filterwarnings("ignore:Time was up")
@every_classifier
@given(data=st.data())
def test_random_small_tables_never_give_nan(classifier, data):
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 3))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 1e-9, 1e9, 0.5, 3.0]) | st.floats(-1e3, 1e3)
    X = np.array(data.draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))])
    weight = np.array(data.draw(st.lists(st.sampled_from([1.0, 2.0, 0.1]), min_size=n, max_size=n)))
    checked(classifier(max_time=1.0, max_iter=10_000), X, y, sample_weight=weight)


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize(
    "model",
    [BayesianLinearSVC(), BayesianLinearSVC(prior="laplace-zero"), BayesianMixedSVC(groups=0, prior="laplace-zero")],
    ids=["ridge", "laplace-zero", "groups"],
)
@given(data=st.data())
def test_random_small_tables_with_gaps_never_give_nan(model, data):
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 3))
    numbers = st.sampled_from([0.0, 1.0, -1.0, 1e-9, 1e9, np.nan, np.nan]) | st.floats(-1e3, 1e3)
    X = np.array(data.draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n)))
    X[0] = np.nan_to_num(X[0])  # no column without entries
    groups = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=float)
    y = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))])
    checked(clone(model).set_params(max_time=0.5, max_iter=10_000), np.column_stack([groups, X]), y)
