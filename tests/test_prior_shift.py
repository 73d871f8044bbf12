from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.inside import fitted_inside
from softmargin.prior_shift import at_prior, proba_at_prior
from softmargin.tables import TableClassifier


def by_loops(p, fitted, wanted):
    out = []
    for row in p:
        odds = [q * new / old for q, old, new in zip(row, fitted, wanted, strict=True)]
        out.append([part / sum(odds) for part in odds])
    return np.array(out)


def some_probabilities(rng, n_rows, n_classes):
    return rng.dirichlet(np.ones(n_classes), size=n_rows)


# Numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_equals_the_formula(n_classes, rng):
    p, (fitted, wanted) = some_probabilities(rng, 30, n_classes), some_probabilities(rng, 2, n_classes)
    assert_allclose(at_prior(p, fitted, wanted), by_loops(p, fitted, wanted), rtol=1e-12)


def test_is_the_posterior_under_the_other_prior():
    # Three Gaussian classes: what Bayes' rule says with one prior, made to what it says with another.
    x = np.linspace(-4, 6, 50)
    density = norm.pdf(x[:, None], [0.0, 1.0, 3.0], [1.0, 0.5, 2.0])
    fitted, wanted = np.array([0.2, 0.5, 0.3]), np.array([0.7, 0.1, 0.2])
    before, after = (density * prior / (density @ prior)[:, None] for prior in (fitted, wanted))
    assert_allclose(at_prior(before, fitted, wanted), after, rtol=1e-12)


def test_there_and_back_and_on_the_way(rng):
    p, (a, b, c) = some_probabilities(rng, 20, 4), some_probabilities(rng, 3, 4)
    assert_allclose(at_prior(p, a, a), p, rtol=1e-13)
    assert_allclose(at_prior(at_prior(p, a, b), b, a), p, rtol=1e-12)
    assert_allclose(at_prior(at_prior(p, a, b), b, c), at_prior(p, a, c), rtol=1e-12)


def test_counts_are_as_good_as_shares(rng):
    p = some_probabilities(rng, 10, 3)
    wanted = at_prior(p, [0.2, 0.3, 0.5], [0.1, 0.1, 0.8])
    assert_allclose(at_prior(p, [2, 3, 5], [2e307, 2e307, 1.6e308]), wanted, rtol=1e-12)
    assert_allclose(at_prior(p.tolist(), np.array([20, 30, 50]), (1e-300, 1e-300, 8e-300)), wanted, rtol=1e-12)


def test_the_class_changes_where_the_threshold_says():
    # Balanced probabilities, one in ten wanted: likelier than not from .9 on.
    p = np.array([0.5, 0.89, 0.91])
    assert (at_prior(np.stack([1 - p, p], axis=1), [1, 1], [9, 1]).argmax(axis=1) == [0, 0, 1]).all()


def test_certainty_stays_and_an_unwanted_class_goes():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]])
    assert_allclose(at_prior(p, [1, 1, 1], [1, 2, 3]), [[1, 0, 0], [0, 0.4, 0.6], [0.2 / 2.3, 0.6 / 2.3, 1.5 / 2.3]])
    found = at_prior(p, [1, 1, 1], [0, 2, 3])
    # The first row allows only what is wanted nowhere: it says nothing about the others.
    assert_allclose(found, [[0, 0.4, 0.6], [0, 0.4, 0.6], [0, 0.6 / 2.1, 1.5 / 2.1]])


def test_shares_of_any_size_do_not_lose_digits():
    found = at_prior([[1e-200, 1.0]], [1e-250, 1.0], [1.0, 1e-250])
    assert_allclose(found, [[1.0, 1e-300]], rtol=1e-12, atol=0)


entry = st.one_of(st.sampled_from([0.0, 5e-324, 1e-300, 1e-17, 0.5, 1.0]), st.floats(0, 1))
positive = st.one_of(st.sampled_from([1e-150, 1e-10, 1.0, 1e150]), st.floats(1e-3, 1e3))
wanted = st.one_of(st.just(0.0), positive)


@given(
    rows=st.lists(st.tuples(entry, entry), min_size=1, max_size=5),
    fitted=st.tuples(positive, positive, positive),
    wanted=st.tuples(wanted, wanted, positive),
)
def test_rows_are_probabilities_whatever_comes_in(rows, fitted, wanted):
    p = np.array([[a, (1 - a) * b, (1 - a) * (1 - b)] for a, b in rows])
    found = at_prior(p, fitted, wanted)
    assert np.all((found >= 0) & (found <= 1))
    assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert np.all(found[:, np.array(wanted) == 0] == 0)


def test_single_precision_and_no_rows_are_fine(rng):
    p = some_probabilities(rng, 10, 3)
    assert_allclose(at_prior(p.astype(np.float32), [1, 2, 3], [3, 2, 1]), at_prior(p, [1, 2, 3], [3, 2, 1]), rtol=1e-6)
    assert at_prior(np.empty((0, 3)), [1, 2, 3], [3, 2, 1]).shape == (0, 3)


@pytest.mark.parametrize(
    ("p", "fitted", "wanted", "message"),
    [
        ([0.2, 0.8], [1, 1], [1, 1], r"column for each class.*\(2,\)"),
        ([[1.0]], [1], [1], r"\(1, 1\)"),
        ([[0.5, 0.5], [np.nan, 0.5]], [1, 1], [1, 1], "nan in row 1, column 0"),
        ([[0.5, 0.5], [1.5, -0.5]], [1, 1], [1, 1], "1.5 in row 1, column 0 and 1 more"),
        ([[0.5, 0.5], [0.5, 0.6]], [1, 1], [1, 1], "sum to 1, got 1.1 in row 1"),
        ([[0.5, 0.5]], [1, 1, 1], [1, 1], r"fitted .* 2 classes, got shape \(3,\)"),
        ([[0.5, 0.5]], [1, 1], 0.5, r"wanted .* 2 classes, got shape \(\)"),
        ([[0.5, 0.5]], [1, 0], [1, 1], "fitted must be positive, got 0 for class 1"),
        ([[0.5, 0.5]], [1, 1], [1, -2], "wanted must be finite and non-negative, got -2.0 for class 1"),
        ([[0.5, 0.5]], [np.inf, 1], [1, 1], "fitted must be finite and non-negative, got inf for class 0"),
        ([[0.5, 0.5]], [1, 1], [0, 0], "wanted must be positive for some class"),
    ],
)
def test_bad_values_are_named(p, fitted, wanted, message):
    with pytest.raises(ValueError, match=message):
        at_prior(p, fitted, wanted)


# Models ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rare():
    X, y = make_classification(
        3000, n_features=6, n_informative=4, weights=[0.9], class_sep=0.7, flip_y=0.02, random_state=1
    )
    return X[:1000], y[:1000], X[1000:], y[1000:]


def fake(p, fitted, data, classes):
    return SimpleNamespace(
        predict_proba=lambda X: p,
        fitted_prior_=np.array(fitted),
        data_prior_=np.array(data),
        classes_=np.array(classes),
    )


def test_a_model_goes_back_to_its_data_or_to_any_other_shares(rng):
    p = some_probabilities(rng, 5, 3)
    model = fake(p, [0.2, 0.3, 0.5], [0.6, 0.3, 0.1], ["a", "b", "c"])
    assert_allclose(proba_at_prior(model, None), at_prior(p, [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]))
    other = at_prior(p, [0.2, 0.3, 0.5], [5, 6, 7])
    assert_allclose(proba_at_prior(model, None, [5, 6, 7]), other)
    assert_allclose(proba_at_prior(model, None, {"c": 7, "a": 5, "b": 6}), other)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("balanced", "'data'.*'balanced'"),
        ({"a": 1, "b": 1, "c": 1, "d": 2}, r"share for \['d'\]"),
        ({"a": 1, "b": 1}, r"no share for \['c'\]"),
        ([1, 2], "3 classes"),
    ],
)
def test_bad_priors_of_models_are_named(prior, message):
    model = fake(np.full((1, 3), 1 / 3), [1, 1, 1], [1, 1, 1], ["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        proba_at_prior(model, None, prior)


def test_a_model_knows_the_shares_that_it_was_fitted_to(rare):
    X, y = rare[0], np.where(rare[1] == 1, "ill", "well")
    weight = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    weight[:50] = 0
    model = BayesianLinearSVC(class_weight={"ill": 4.0}).fit(X, y, sample_weight=weight)
    ill, well = weight[y == "ill"].sum(), weight[y == "well"].sum()
    assert model.classes_.tolist() == ["ill", "well"]
    assert_allclose(model.data_prior_, np.array([ill, well]) / (ill + well), rtol=1e-12)
    assert_allclose(model.fitted_prior_, np.array([4 * ill, well]) / (4 * ill + well), rtol=1e-12)
    plain = BayesianLinearSVC().fit(X, y)
    assert_allclose(plain.fitted_prior_, plain.data_prior_, rtol=1e-12)
    assert_allclose(proba_at_prior(plain, X), plain.predict_proba(X), rtol=1e-10)


def test_batches_add_up_to_the_shares_of_all_rows(rare):
    X, y, *_ = rare
    model = BayesianLinearSVC(class_weight={1: 3.0})
    for rows in (slice(0, 300), slice(300, 1000)):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    second = y.mean()
    assert_allclose(model.data_prior_, [1 - second, second], rtol=1e-9)
    assert_allclose(model.fitted_prior_, np.array([1 - second, 3 * second]) / (1 + 2 * second), rtol=1e-9)


def test_weighted_classes_and_repeated_rows_are_corrected_alike(rare):
    X, y, held_out, _ = rare
    weighted = BayesianLinearSVC(class_weight={1: 5}, random_state=0).fit(X, y)
    times = np.where(y == 1, 5, 1)
    repeated = BayesianLinearSVC(random_state=0).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    by_hand = at_prior(repeated.predict_proba(held_out), repeated.data_prior_, weighted.data_prior_)
    # Links treat copies of a row and one heavy row differently: only a copy can be left out alone.
    assert_allclose(proba_at_prior(weighted, held_out), by_hand, atol=0.05)
    assert_allclose(weighted.fitted_prior_, repeated.data_prior_, rtol=1e-12)


@pytest.mark.parametrize("classifier", [BayesianLinearSVC, BayesianSVC])
def test_corrected_probabilities_fit_the_data_again(classifier, rare):
    X, y, held_out, labels = rare
    model = classifier(class_weight="balanced", random_state=0).fit(X, y)
    plain = classifier(random_state=0).fit(X, y)
    weighted, corrected = model.predict_proba(held_out), proba_at_prior(model, held_out)
    assert weighted[:, 1].mean() > 1.5 * labels.mean()
    # Two thousand rows have a share known to .007.
    assert_allclose(corrected[:, 1].mean(), labels.mean(), atol=0.03)
    assert log_loss(labels, corrected) < log_loss(labels, weighted) - 0.05
    # Attention to rare rows helps the linear machine, and costs the other a little.
    gain = log_loss(labels, plain.predict_proba(held_out)) - log_loss(labels, corrected)
    assert gain > (0.02 if classifier is BayesianLinearSVC else -0.06)

    # The decisions come back too: those of class_weight were others.
    def agreement(p):
        return np.mean(p.argmax(axis=1) == (plain.predict(held_out) == 1))

    assert agreement(corrected) > agreement(weighted) + 0.05


def test_many_classes_are_corrected_alike():
    X, y = make_classification(
        1500, n_features=5, n_informative=4, n_redundant=0, n_classes=3, weights=[0.75, 0.15], random_state=0
    )
    model = BayesianSVC(class_weight="balanced", random_state=0).fit(X[:700], y[:700])
    shares = np.bincount(y[:700]) / 700
    assert_allclose(model.fitted_prior_, 1 / 3, rtol=1e-9)
    assert_allclose(model.data_prior_, shares, rtol=1e-9)
    weighted, corrected = model.predict_proba(X[700:]), proba_at_prior(model, X[700:])
    assert_allclose(corrected, by_loops(weighted, np.full(3, 1 / 3), shares), rtol=1e-9)
    assert log_loss(y[700:], corrected) < log_loss(y[700:], weighted)
    assert_allclose(corrected.mean(axis=0), np.bincount(y[700:]) / 800, atol=0.06)


def test_models_inside_others_are_found(rare):
    X, y, X_test, _ = rare
    frame, test = (pd.DataFrame(rows, columns=list("abcdef")) for rows in (X, X_test))
    weighted = BayesianLinearSVC(class_weight="balanced")
    for around in (
        make_pipeline(StandardScaler(), weighted),
        make_pipeline(weighted),
        TableClassifier(weighted),
        make_pipeline(FunctionTransformer(), TableClassifier(weighted)),
        GridSearchCV(weighted, {"tol": [1e-3]}, cv=2),
    ):
        around.fit(frame, y)
        inside = fitted_inside(around)
        expected = at_prior(around.predict_proba(test), inside.fitted_prior_, inside.data_prior_)
        assert_allclose(proba_at_prior(around, test), expected, rtol=1e-12)
        expected = at_prior(around.predict_proba(test), inside.fitted_prior_, [3, 1])
        assert_allclose(proba_at_prior(around, test, {1: 1, 0: 3}), expected, rtol=1e-12)


def test_models_that_do_not_know_their_shares_are_refused(rare):
    with pytest.raises(NotFittedError):
        proba_at_prior(BayesianLinearSVC(), rare[0])
    other = make_pipeline(LogisticRegression()).fit(*rare[:2])
    with pytest.raises(TypeError, match=r"LogisticRegression does not store the class shares.*at_prior"):
        proba_at_prior(other, rare[0])
