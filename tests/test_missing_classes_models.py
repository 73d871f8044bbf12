"""Models of more than two classes on tables with missing entries."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from softmargin import BayesianLinearSVC, BayesianMixedSVC

K = 3


@pytest.fixture(scope="module")
def table():
    """Five columns that share two causes, and three classes.  A seventh of the entries is missing."""
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(300, 5))
    f = np.column_stack([whole[:, 0], -whole[:, 0] + whole[:, 1], -whole[:, 1]])
    y = np.array(["left", "middle", "right"])[(1.5 * f + rng.gumbel(size=f.shape)).argmax(axis=1)]
    return whole, np.where(rng.random(whole.shape) < 0.15, np.nan, whole), y


MODELS = [
    BayesianLinearSVC(),
    BayesianLinearSVC(loss="hinge", prior="ard", multi_class="ovr"),
    BayesianLinearSVC(loss="logistic-jj", prior=1.0, fit_intercept=False),
    BayesianLinearSVC(prior="laplace-zero", rho="learned"),
    BayesianMixedSVC(),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


@every_model
def test_answers_are_finite_agree_and_do_not_depend_on_the_batch(model, table, fit_of):
    (_, X, y), fitted = table, fit_of(model)
    p = fitted.predict_proba(X)
    assert p.shape == (300, K)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))
    assert_allclose(np.vstack([fitted.predict_proba(X[[i]]) for i in range(20)]), p[:20], rtol=1e-9)
    assert fitted.score(X, y) > 0.5
    assert fitted.loss_ == ("logistic-jj" if model.loss == "auto" else model.loss)
    assert fitted.coef_.shape == fitted.coef_std_.shape == (K, 5)
    assert np.isfinite(fitted.loo_log_loss_)
    assert fitted.loo_log_loss_ < np.log(K)
    again = clone(model).fit(X, y)
    assert_array_equal(again.coef_, fitted.coef_)
    assert_array_equal(again.predict_proba(X), p)


@every_model
def test_order_and_weights_of_rows_names_of_classes_and_units_of_columns(model, table, fit_of, rng):
    (_, X, y), one = table, fit_of(model)
    order, weight = rng.permutation(len(y)), rng.integers(0, 3, size=len(y))
    assert_allclose(moments(clone(model).fit(X[order], y[order]), X), moments(one, X), rtol=1e-5, atol=1e-6)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(moments(weighted, X), moments(repeated, X), rtol=1e-5, atol=1e-6)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-8)
    renamed = clone(model).fit(X, np.where(y == "left", "zuletzt", y))
    if model.prior == "laplace-zero":  # choices are reconsidered class by class, and the last of them may differ
        assert_allclose(renamed.bound_, one.bound_, rtol=1e-3)
    else:
        assert_allclose(moments(renamed, X)[..., [2, 0, 1]], moments(one, X), rtol=1e-4, atol=1e-5)
    units = np.array([1e3, 1.0, 1e-6, 7.0, 1e9])
    other = clone(model).fit(X * units, y)
    assert_allclose(moments(other, X * units), moments(one, X), rtol=1e-3, atol=1e-5)
    assert_allclose(other.coef_ * units, one.coef_, rtol=1e-3, atol=1e-6)


@every_model
def test_what_is_missing_is_predicted_and_draws_have_the_latent_moments(model, table, fit_of):
    (whole, X, _), fitted = table, fit_of(model)
    means, sds = fitted.impute(X)
    there = ~np.isnan(X)
    assert_array_equal(means[there], whole[there])
    assert_array_equal(sds[there], 0)
    assert np.corrcoef(means[~there], whole[~there])[0, 1] > 0.8
    assert 0.8 < ((means - whole)[~there] / sds[~there]).std() < 1.2
    rows = np.vstack([X[:6], np.full(5, np.nan)])
    draws, (mean, variance) = fitted.sample_latent(rows, 2000, random_state=0), moments(fitted, rows)
    assert draws.shape == (7, K, 2000)
    # Standard errors over 2,000 draws: sd/45 of a mean; 3 % of a Gaussian's variance, more of a product's.
    assert_allclose(draws.mean(axis=2), mean, atol=4 * variance.max() ** 0.5 / 45)
    assert_allclose(draws.var(axis=2), variance, rtol=0.15)


@pytest.mark.parametrize("settings", [{}, {"loss": "logistic"}, {"prior": "laplace-zero"}], ids=str)
def test_models_of_whole_tables_know_what_to_do_about_gaps(settings, table):
    whole, X, y = table
    for classifier in (BayesianLinearSVC, BayesianMixedSVC):
        model = classifier(**settings).fit(whole, y)
        assert model.loss_ == settings.get("loss", "logistic" if "prior" in settings else "hinge")
        assert model.score(X, y) > 0.5
        assert np.corrcoef(model.impute(X)[0][np.isnan(X)], whole[np.isnan(X)])[0, 1] > 0.8
        assert (moments(model, X)[1] >= moments(model, whole)[1].min(axis=0)).all()
        draws, (mean, variance) = model.sample_latent(X[:5], 1600, random_state=0), moments(model, X[:5])
        assert_allclose(draws.mean(axis=2), mean, atol=5 * variance.max() ** 0.5 / 40)
        nothing = model.predict_proba(np.full((1, 5), np.nan))
        assert_allclose(nothing, np.unique(y, return_counts=True)[1][None] / 300, atol=0.25)


def test_what_columns_say_of_each_other_does_not_depend_on_classes(table):
    whole, X, y = table
    many, two = BayesianLinearSVC().fit(whole, y), BayesianLinearSVC().fit(whole, y == "left")
    assert_array_equal(many.impute(X), two.impute(X))


def test_each_class_meets_the_rest_where_entries_are_missing(table):
    _, X, y = table
    for settings in ({}, {"loss": "logistic"}):
        for classifier in (BayesianLinearSVC, BayesianMixedSVC):
            auto, ovr = (classifier(multi_class=word, **settings).fit(X, y) for word in ("auto", "ovr"))
            assert_array_equal(auto.coef_, ovr.coef_)
            assert auto.bound_ == ovr.bound_


@pytest.mark.parametrize("word", ["weston-watkins", "crammer-singer", "softmax"])
def test_ways_for_classes_to_meet_that_have_no_bound_are_refused(word, table):
    whole, X, y = table
    settings = {"multi_class": word} | ({"loss": "logistic"} if word == "softmax" else {})
    for model in (BayesianLinearSVC(**settings), BayesianMixedSVC(**settings)):
        with pytest.raises(
            ValueError, match=f"multi_class='{word}' has no bound for rows with missing .*'ovr'.*or impute"
        ):
            model.fit(X, y)
        assert not hasattr(model, "coef_")
        assert model.fit(whole, y).score(X, y) > 0.5
        assert model.fit(X, y == "left").score(X, y == "left") > 0.6  # two classes need not meet


def test_gaps_cost_certainty_but_not_direction(table):
    whole, X, y = table
    known, gappy = (BayesianLinearSVC(multi_class="ovr", loss="hinge-augmented").fit(rows, y) for rows in (whole, X))
    assert np.corrcoef(moments(known, whole)[0].ravel(), moments(gappy, X)[0].ravel())[0, 1] > 0.9
    assert abs(known.score(whole, y) - gappy.score(whole, y)) < 0.03
    # Modelled gaps beat gaps filled with means.
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    assert gappy.score(X, y) >= gappy.score(filled, y)


@pytest.mark.parametrize(
    "formula", ["~ age + dose + (1|clinic)", "~ age + dose + (1|clinic/ward) + (1|doctor)", "~ age + s(dose, df=5)"]
)
def test_groups_and_curves_beside_gaps(formula, rng):
    n = 400
    clinic, ward, doctor = rng.integers(0, 8, n), rng.integers(0, 2, n), rng.integers(0, 3, n)
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.normal(size=n)})
    frame = frame.assign(clinic=clinic, ward=ward, doctor=doctor)
    f = np.column_stack([frame["age"] / 10, frame["dose"], 0 * frame["dose"]]) - [5, 0, 0]
    y = (1.5 * f + rng.normal(size=(8, 3))[clinic] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    gone = frame.assign(age=frame["age"].where(rng.random(n) > 0.2))
    model = BayesianMixedSVC(formula, max_iter=1000).fit(gone, y)
    assert model.loss_ == "logistic-jj"
    assert model.score(gone, y) > 0.45
    assert all(part.shape[0] == K for part in model.variance_components_.values())
    new = gone.assign(clinic=99)
    assert np.isfinite(model.predict_proba(new)).all()
    assert np.isfinite(model.sample_latent(new.iloc[:5], 10, random_state=0)).all()
    order = rng.permutation(n)
    other = clone(model).fit(gone.iloc[order], y[order])
    assert_allclose(moments(other, gone), moments(model, gone), rtol=1e-4, atol=1e-5)
