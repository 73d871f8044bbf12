"""Classifiers of more than two classes: what comes in, in batches or at once, and what is refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from softmargin import BayesianSVC
from softmargin.kernels import RBF
from test_svc_classes import NAMES, WAYS, every_classifier, every_way, named_iris, overlapping_classes

iris = pytest.fixture(named_iris, scope="module")
overlapping = pytest.fixture(overlapping_classes, scope="module")


# What comes in -----------------------------------------------------------------------------------


@every_classifier
def test_frames_arrays_and_sparse_matrices_give_one_answer(classifier, iris):
    X, y = iris
    X = np.where(X < 0.4, 0, X)
    expected = classifier(random_state=0).fit(X, y).predict_proba(X)
    names = ["sepal", "width", "petal", "other"]
    for data, labels in [
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pd.DataFrame(X, columns=names), pd.Series(y, dtype="category")),
        (scipy.sparse.csr_array(X), list(y)),
        (scipy.sparse.csc_matrix(X), np.searchsorted(NAMES, y)),
        (np.asfortranarray(X), np.searchsorted(NAMES, y) - 7.0),
    ]:
        model = classifier(random_state=0).fit(data, labels)
        assert_allclose(model.predict_proba(data), expected, rtol=1e-7)
        if hasattr(data, "columns"):
            assert_array_equal(model.feature_names_in_, names)


@every_classifier
@every_way
def test_single_precision_agrees_with_double(classifier, way, iris):
    X, y = iris
    wide = classifier(**way, random_state=0).fit(X, y).predict_proba(X)
    narrow = classifier(**way, random_state=0).fit(X.astype(np.float32), y)
    # The jitter of single precision is 1e-5 of the variance, and the ascent stops at other roundings.
    assert_allclose(narrow.predict_proba(X.astype(np.float32)), wide, atol=0.02)


@every_classifier
def test_classes_in_another_order_are_the_same_classes(classifier, iris):
    X, y = iris
    settings = {"kernel": 4.0 * RBF(2.0), "tune": None} if classifier is BayesianSVC else {}
    renamed = np.where(y == "setosa", "zetosa", y)
    for way in WAYS:
        one = classifier(**settings, **way, tol=1e-8, max_iter=5000).fit(X, y)
        other = classifier(**settings, **way, tol=1e-8, max_iter=5000).fit(X, renamed)
        assert_array_equal(other.classes_, ["versicolor", "virginica", "zetosa"])
        assert_allclose(other.predict_proba(X)[:, [2, 0, 1]], one.predict_proba(X), atol=2e-4)
        assert_allclose(other.bound_, one.bound_, rtol=1e-6)


@every_classifier
def test_order_of_rows_and_number_of_threads_do_not_matter(classifier, iris, rng):
    X, y = iris
    order = rng.permutation(len(y))
    settings = {"max_iter": 8, "tol": 0.0} | ({"inference": "batch"} if classifier is BayesianSVC else {})
    for way in WAYS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one = classifier(**settings, **way, n_jobs=1).fit(X, y)
            two = classifier(**settings, **way, n_jobs=2).fit(X[order], y[order])
        assert_allclose(one.bound_, two.bound_, rtol=1e-6)
        assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-4)


@every_classifier
@every_way
def test_weight_k_is_k_copies_and_weight_zero_is_none(classifier, way, iris, rng):
    X, y = iris
    weight = rng.integers(0, 4, size=len(y))
    settings = {**way, "class_weight": "balanced", "max_iter": 1000}
    weighted = classifier(**settings).fit(X, y, sample_weight=weight)
    repeated = classifier(**settings).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-8)
    assert_allclose(weighted.loo_log_loss_, repeated.loo_log_loss_, rtol=1e-4)


@every_classifier
def test_class_weights_are_factors_of_the_rows_weights(classifier, overlapping):
    X, y = overlapping
    by_class = classifier(class_weight={2: 3}).fit(X, y)
    by_row = classifier().fit(X, y, sample_weight=np.where(y == 2, 3, 1))
    for one, other in zip(by_class.latent_mean_and_variance(X), by_row.latent_mean_and_variance(X), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert by_class.predict_proba(X)[:, 2].mean() > classifier().fit(X, y).predict_proba(X)[:, 2].mean() + 0.05
    balanced = classifier(class_weight="balanced").fit(X, y)
    assert_allclose(balanced.fitted_prior_, 1 / 3)
    assert_allclose(balanced.data_prior_, np.bincount(y) / len(y))


@every_classifier
def test_a_class_of_no_weight_is_not_there(classifier, iris):
    X, y = iris
    model = classifier().fit(X, y, sample_weight=(y != "virginica").astype(float))
    assert_array_equal(model.classes_, NAMES[:2])
    assert model.decision_function(X).shape == (150,)
    there = y != "virginica"
    assert_allclose(model.predict_proba(X), classifier().fit(X[there], y[there]).predict_proba(X), rtol=1e-9)


# Batches -----------------------------------------------------------------------------------------


@every_classifier
@every_way
def test_batches_come_close_to_a_fit_on_everything(classifier, way, rng):
    X = rng.normal(size=(900, 2))
    y = NAMES[(X @ [[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]] + 0.5 * rng.normal(size=(900, 3))).argmax(axis=1)]
    model = classifier(random_state=0, **way)
    for start in range(0, 600, 150):
        rows = slice(start, start + 150)
        model.partial_fit(X[rows], y[rows], classes=NAMES)
    whole = classifier(random_state=0, **way).fit(X[:600], y[:600])
    losses = [log_loss(y[600:], fitted.predict_proba(X[600:])) for fitted in (model, whole)]
    # The kernel and the points come from the first quarter of the rows, and each batch sees the others frozen.
    assert losses[0] < losses[1] + 0.05
    assert abs(model.loo_log_loss_ - losses[0]) < 0.12


@pytest.mark.filterwarnings("ignore:The first batch has")
@every_classifier
@every_way
def test_a_batch_may_hold_one_class_or_nothing(classifier, way, iris):
    X, y = iris
    model = classifier(random_state=0, **way)
    for name in NAMES:
        with warnings.catch_warnings():  # nothing but the prior holds an intercept that no other class meets
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.partial_fit(X[y == name], y[y == name], classes=NAMES)
        p = model.predict_proba(X)
        assert p.shape == (150, 3)
        assert np.isfinite(p).all()
        assert_array_equal(model.classes_, NAMES)
    model.partial_fit(X[:3], y[:3], sample_weight=[0, 0, 0])
    assert_array_equal(model.predict_proba(X), p)


@every_classifier
def test_streams_of_classes_can_be_stored(classifier, iris):
    X, y = iris
    model = classifier(random_state=0).partial_fit(X[::3], y[::3], classes=NAMES)
    stored = pickle.loads(pickle.dumps(model)).partial_fit(X[1::3], y[1::3])
    assert_array_equal(stored.predict_proba(X), model.partial_fit(X[1::3], y[1::3]).predict_proba(X))
    assert model.score(X, y) > 0.9


@every_classifier
@pytest.mark.parametrize("link", ["loo", "probit", "logistic"])
def test_batches_follow_a_fit(classifier, link, iris):
    X, y = iris
    model = classifier(random_state=0, link=link).fit(X[::2], y[::2])
    assert model.partial_fit(X[1::2], y[1::2]).score(X, y) > 0.9


# What is refused ---------------------------------------------------------------------------------


@every_classifier
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"multi_class": "crammer-singer", "loss": "logistic"},
            "requires loss='auto' or 'hinge' or 'hinge-augmented'",
        ),
        ({"multi_class": "crammer-singer", "loss": "probit"}, "'crammer-singer' requires loss"),
        ({"multi_class": "softmax", "loss": "hinge"}, "'softmax' requires loss='logistic', got 'hinge'"),
        ({"multi_class": "softmax"}, "'softmax' requires loss='logistic', got 'auto'"),
        ({"multi_class": "one-vs-each"}, "multi_class must be one of 'auto', 'weston-watkins', 'crammer-singer'"),
        ({"multi_class": None}, "multi_class must be one of"),
        ({"inference": "gibbs"}, "inference='gibbs' supports two classes only, and y has 3"),
        ({"inference": "ecm"}, "inference='ecm' supports two classes only, and y has 3"),
    ],
    ids=str,
)
def test_what_is_not_known_for_many_classes_is_refused(classifier, settings, message, iris):
    with pytest.raises(ValueError, match=message):
        classifier(**settings).fit(*iris)


@every_classifier
def test_batches_of_declared_classes_refuse_others(classifier, iris):
    X, y = iris
    model = classifier(random_state=0).partial_fit(X[::3], y[::3], classes=NAMES)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"y holds \['rose'\], but the classes were declared as"):
        model.partial_fit(X[:2], ["rose", "setosa"])
    with pytest.raises(ValueError, match="in the first call of partial_fit"):
        model.partial_fit(X, y, classes=NAMES[:2])
    assert_array_equal(model.predict_proba(X), before)


def test_the_ways_are_ignored_where_there_are_two_classes(iris):
    X, y = iris
    two = y != "virginica"
    expected = BayesianSVC(random_state=0).fit(X[two], y[two]).predict_proba(X)
    for way in ("weston-watkins", "crammer-singer", "ovr"):
        model = BayesianSVC(multi_class=way, loss="hinge", random_state=0).fit(X[two], y[two])
        assert_array_equal(model.predict_proba(X), expected)


def test_auto_is_the_softmax_of_the_logistic_loss_and_the_sum_over_rivals_of_others(iris):
    X, y = iris
    fixed = {"kernel": 4.0 * RBF(2.0), "tune": None}
    for loss, way in (("logistic", "softmax"), ("hinge", "weston-watkins"), ("logistic-jj", "weston-watkins")):
        auto = BayesianSVC(loss=loss, **fixed).fit(X, y)
        assert auto.bound_ == BayesianSVC(loss=loss, multi_class=way, **fixed).fit(X, y).bound_
    auto = BayesianSVC(multi_class="crammer-singer", **fixed).fit(X, y)
    assert auto.loss_ == "hinge-augmented"  # as published
    assert BayesianSVC(**fixed).fit(X, y).loss_ == "hinge"
