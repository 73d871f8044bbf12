"""Tables with missing entries, seen from the estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.monitor import InterruptedFitWarning


@pytest.fixture(scope="module")
def table():
    """Five columns that share two causes: one says something of the others.  A sixth of the entries is missing."""
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(400, 5))
    y = whole[:, 0] - whole[:, 1] + rng.logistic(size=400) > 0
    gaps = rng.random(whole.shape) < 0.15
    return whole, np.where(gaps, np.nan, whole), y


MODELS = [
    BayesianLinearSVC(),
    BayesianLinearSVC(loss="hinge", prior="ard"),
    BayesianLinearSVC(loss="logistic", prior=1.0, fit_intercept=False),
    BayesianLinearSVC(prior="laplace-zero"),
    BayesianLinearSVC(prior="laplace-zero", rho="learned", standardize=False),
    BayesianMixedSVC(),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


@every_model
def test_answers_are_finite_agree_and_do_not_depend_on_the_batch(model, table, fit_of):
    (_, X, y), fitted = table, fit_of(model)
    p = fitted.predict_proba(X)
    assert np.isfinite(p).all()
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))
    assert_allclose(np.vstack([fitted.predict_proba(X[[i]]) for i in range(20)]), p[:20], rtol=1e-9)
    assert fitted.score(X, y) > 0.65
    assert fitted.loss_ == ("logistic-jj" if model.loss == "auto" else model.loss)


@every_model
def test_order_and_weights_of_rows_and_units_of_columns(model, table, fit_of, rng):
    (_, X, y), one = table, fit_of(model)
    order, weight = rng.permutation(len(y)), rng.integers(0, 3, size=len(y))
    assert_allclose(moments(clone(model).fit(X[order], y[order]), X), moments(one, X), rtol=1e-6, atol=1e-8)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(moments(weighted, X), moments(repeated, X), rtol=1e-6, atol=1e-8)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-9)
    if model.standardize:
        units = np.array([1e3, 1.0, 1e-6, 7.0, 1e9])
        other = clone(model).fit(X * units, y)
        assert_allclose(moments(other, X * units), moments(one, X), rtol=1e-4, atol=1e-6)
        assert_allclose(other.coef_ * units, one.coef_, rtol=1e-4, atol=1e-7)


@every_model
def test_what_is_missing_is_predicted_and_what_is_there_is_kept(model, table, fit_of):
    whole, X, _ = table
    means, sds = fit_of(model).impute(X)
    there = ~np.isnan(X)
    assert_array_equal(means[there], whole[there])
    assert_array_equal(sds[there], 0)
    away = (means - whole)[~there] / sds[~there]
    assert np.corrcoef(means[~there], whole[~there])[0, 1] > 0.8
    assert 0.8 < away.std() < 1.2  # of some 300 entries
    assert_array_equal(fit_of(model).impute(whole)[1], 0)


@every_model
def test_latent_draws_have_the_latent_moments(model, table, fit_of):
    X, fitted = table[1], fit_of(model)
    rows = np.vstack([X[:6], np.full(5, np.nan)])
    draws, (mean, variance) = fitted.sample_latent(rows, 2000, random_state=0), moments(fitted, rows)
    # Standard errors over 2,000 draws: sd/45 of a mean; 3 % of a Gaussian's variance, more of a product's.
    assert_allclose(draws.mean(axis=1), mean, atol=4 * variance.max() ** 0.5 / 45)
    assert_allclose(draws.var(axis=1), variance, rtol=0.12)


def test_a_row_without_entries_is_answered_by_the_population(table):
    _, X, y = table
    model = BayesianLinearSVC().fit(np.vstack([X, np.full((3, 5), np.nan)]), np.append(y, [True, False, True]))
    nothing = np.full((1, 5), np.nan)
    mean, variance = moments(model, nothing)
    means, sds = model.impute(nothing)
    assert_allclose(means[0], np.nanmean(X, axis=0), atol=0.1)
    assert_allclose(sds[0], np.nanstd(X, axis=0), rtol=0.1)
    assert_allclose(mean, means @ model.coef_[0] + model.intercept_, rtol=1e-9)
    assert variance[0] > 0.5 * moments(model, X)[0].var()
    assert 0.3 < model.predict_proba(nothing)[0, 1] < 0.7


def test_gaps_cost_certainty_but_not_direction(table):
    whole, X, y = table
    known, gappy = (BayesianLinearSVC(loss="hinge").fit(rows, y) for rows in (whole, X))
    assert np.corrcoef(moments(known, whole)[0], moments(gappy, X)[0])[0, 1] > 0.9
    assert_allclose(known.predict_proba(whole), gappy.predict_proba(whole), atol=0.2)
    # Modelled gaps beat gaps filled with means.
    filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    assert known.score(X, y) >= known.score(filled, y)


def test_models_of_whole_tables_know_what_to_do_about_gaps(table):
    whole, X, y = table
    for model in (BayesianLinearSVC(), BayesianMixedSVC(), BayesianLinearSVC(prior="laplace-zero")):
        model.fit(whole, y)
        assert model.loss_ == ("logistic" if model.prior == "laplace-zero" else "hinge")
        assert model.score(X, y) > 0.7
        assert model.score(whole, y) > model.score(X, y) - 0.02
        assert np.corrcoef(model.impute(X)[0][np.isnan(X)], whole[np.isnan(X)])[0, 1] > 0.8
        assert (moments(model, X)[1] >= moments(model, whole)[1].min()).all()


def test_what_sparse_and_wide_tables_say_of_gaps_is_not_learned(table, rng):
    whole, X, y = table
    sparse = BayesianLinearSVC().fit(scipy.sparse.csr_array(whole), y)
    wide = BayesianLinearSVC().fit(rng.normal(size=(30, 501)), np.arange(30) % 2)
    message = r"X was sparse, or it had more than 500 columns\. Impute the values first"
    for model, rows in ((sparse, X), (wide, np.full((1, 501), np.nan))):
        for answer in (model.predict, model.impute, model.sample_latent):
            with pytest.raises(ValueError, match=message):
                answer(rows)


def test_entries_are_predicted_soberly_where_rows_are_few(rng):
    """Columns that say nothing of each other are not predicted much worse than by their means."""
    whole = rng.normal(size=(100, 60))
    gaps = rng.random(whole.shape) < 0.1
    X, y = np.where(gaps, np.nan, whole), whole[:, 0] + 0.3 * rng.normal(size=100) > 0
    for model in (BayesianLinearSVC().fit(X, y), BayesianLinearSVC().fit(whole, y)):
        means, sds = model.impute(np.where(gaps, np.nan, rng.normal(size=whole.shape)))
        assert np.sqrt(np.mean(means[gaps] ** 2)) < 0.9
        assert 0.5 < np.median(sds[gaps]) < 1.1


def test_all_batches_say_what_columns_say_of_each_other(table):
    whole, X, y = table
    together = BayesianLinearSVC().fit(whole, y).impute(X)
    model = BayesianLinearSVC().partial_fit(whole[:399], y[:399], classes=[False, True])
    assert_allclose(model.partial_fit(whole[399:], y[399:]).impute(X), together, rtol=1e-2, atol=1e-3)
    forgetful = BayesianLinearSVC(forgetting=1.0).partial_fit(whole[:200], y[:200], classes=[False, True])
    last = BayesianLinearSVC().fit(whole[200:], y[200:]).impute(X)
    assert_allclose(forgetful.partial_fit(whole[200:], y[200:]).impute(X), last, rtol=1e-1, atol=2e-2)


@pytest.mark.parametrize("settings", [{}, {"fit_intercept": False}, {"standardize": False, "prior": 1e12}])
def test_units_do_not_matter_to_what_is_predicted(settings, table):
    whole, X, y = table
    for rows in (whole, X):
        one, other = (BayesianLinearSVC().fit(rows, y), BayesianLinearSVC(**settings).fit(1e-6 * rows, y))
        assert_allclose(1e6 * np.array(other.impute(1e-6 * X)), one.impute(X), rtol=0.1, atol=0.05)


# Bad and odd tables ------------------------------------------------------------------------------


def test_columns_without_any_entry_are_named(table):
    _, X, y = table
    X = X.copy()
    X[:, 3] = np.nan
    with pytest.raises(ValueError, match="column 3 has no observed value: drop"):
        BayesianLinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="column 'd' has no observed value"):
        BayesianLinearSVC().fit(pd.DataFrame(X, columns=list("abcde")), y)
    alone = np.vstack([X, np.ones(5)])
    with pytest.raises(ValueError, match="column 3 has no observed value"):  # rows of weight zero are not there
        BayesianLinearSVC().fit(alone, np.append(y, True), sample_weight=np.append(np.ones(400), 0))


def test_infinity_is_not_missing_and_sparse_matrices_have_no_gaps(table):
    _, X, y = table
    with pytest.raises(ValueError, match=r"infinity.*column 1 has"):
        BayesianLinearSVC().fit(np.column_stack([X[:, 0], np.where(np.isnan(X[:, 1]), np.inf, X[:, 1])]), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        BayesianLinearSVC().fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="accepts missing values only with a kernel"):
        BayesianSVC(kernel="matern").fit(X, y)


@pytest.mark.parametrize("inference", ["svi", "ecm"])
def test_inferences_of_one_gaussian_are_refused(inference, table):
    whole, X, y = table
    with pytest.raises(
        ValueError, match=f"inference='{inference}' fits a single Gaussian.*use 'auto', 'cavi' or 'gibbs'"
    ):
        BayesianLinearSVC(inference=inference).fit(X, y)
    assert BayesianLinearSVC(inference=inference, random_state=0).fit(whole, y).score(X, y) > 0.7


def test_batches_must_be_whole_but_what_they_predict_need_not(table):
    whole, X, y = table
    with pytest.raises(ValueError, match="partial_fit keeps a single Gaussian of the past"):
        BayesianLinearSVC().partial_fit(X, y, classes=[False, True])
    model = BayesianLinearSVC().partial_fit(whole[:200], y[:200], classes=[False, True])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="partial_fit keeps a single Gaussian of the past"):
        model.partial_fit(X[200:], y[200:])
    assert_array_equal(model.predict_proba(X), before)
    assert model.score(X, y) > 0.7
    fitted = BayesianLinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="partial_fit keeps a single Gaussian of the past"):
        fitted.partial_fit(whole, y)


@pytest.mark.parametrize("prior", ["ridge", "ard", "laplace-zero"])
def test_columns_that_are_hardly_there_constant_or_copies(prior, table):
    _, X, y = table
    once = np.where(np.arange(400) == 5, 1.0, np.nan)
    twice = np.where(np.arange(400) < 2, np.arange(400.0), np.nan)
    constant = np.where(np.arange(400) % 3 == 0, np.nan, 4.0)
    for odd in (once, twice, constant, X[:, 0], X[:, 0] + X[:, 1]):
        rows = np.column_stack([X, odd])
        model = BayesianLinearSVC(prior=prior, max_iter=2000).fit(rows, y)
        assert np.isfinite(model.predict_proba(rows)).all()
        assert model.score(rows, y) > 0.7


def test_more_columns_than_rows(rng):
    X = rng.normal(size=(40, 60))
    y = X[:, 0] > 0
    X[rng.random(X.shape) < 0.1] = np.nan
    model = BayesianLinearSVC(max_iter=3000, tol=1e-4).fit(X, y)
    assert model.score(X, y) == 1
    assert np.isfinite(model.impute(X)[0]).all()


def test_next_to_no_data_is_enough():
    X = np.array([[0.0, np.nan], [1.0, 2.0], [np.nan, 3.0]])
    for model in (BayesianLinearSVC(), BayesianLinearSVC(prior="laplace-zero"), BayesianMixedSVC()):
        assert np.isfinite(model.set_params(max_iter=2000).fit(X, [0, 1, 1]).predict_proba(X)).all()


def test_classes_that_a_plane_separates(table):
    whole, X, _ = table
    y = whole[:, 0] > 0
    model = BayesianLinearSVC(max_iter=1000).fit(X, y)
    assert model.score(X, y) > 0.9
    assert np.abs(model.coef_).max() < 100


@pytest.mark.filterwarnings("ignore:Time was up")
def test_interrupting_keeps_the_best_model_so_far(table, monkeypatch, interrupt_pass):
    _, X, y = table
    interrupt_pass(4)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianLinearSVC().fit(X, y)
    assert model.score(X, y) > 0.7
    monkeypatch.undo()
    assert BayesianLinearSVC(max_time=1e-9).fit(X, y).stop_reason_ == "time"


# Where it is used --------------------------------------------------------------------------------


def test_frames_say_what_is_missing_in_their_own_way(table):
    _, X, y = table
    expected = BayesianLinearSVC().fit(X, y).predict_proba(X)
    names = list("abcde")
    nullable = pd.DataFrame(X, columns=names).astype("Float64")
    gaps = pl.DataFrame({name: [None if np.isnan(v) else v for v in X[:, i]] for i, name in enumerate(names)})
    for rows in (pd.DataFrame(X, columns=names), nullable, gaps):
        model = BayesianLinearSVC().fit(rows, y)
        assert_allclose(model.predict_proba(rows), expected, rtol=1e-8)
        assert_array_equal(model.feature_names_in_, names)
        by_formula = BayesianMixedSVC("~ a + b + c + d + e", link="loo").fit(rows, y)
        assert_allclose(by_formula.predict_proba(rows), expected, atol=1e-5)
        assert by_formula.impute(rows)[0].shape == (400, 5)


def test_cross_validation_and_grids_take_gaps(table):
    _, X, y = table
    assert cross_val_score(BayesianLinearSVC(), X, y, cv=3, scoring="neg_log_loss").mean() > -0.6
    grid = GridSearchCV(BayesianLinearSVC(prior="laplace-zero"), {"rho": [0.1, 0.5, "learned"]}, cv=3).fit(X, y)
    assert grid.best_score_ > 0.7


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
def test_one_word_is_one_model_whoever_infers_it(table):
    """``loss="auto"`` with gaps is the logistic likelihood, drawn or bounded; Crammer and Singer's has its own."""
    _, X, y = table
    settings = {"inference": "gibbs", "n_draws": 200, "n_chains": 2, "random_state": 0}
    auto, named = (BayesianLinearSVC(loss=loss, **settings).fit(X, y) for loss in ("auto", "logistic"))
    assert auto.loss_ == "logistic-jj"
    # Means of some 100 independent draws each: a tenth of a deviation apart, or a few of them.
    assert (np.abs(auto.coef_ - named.coef_) < 0.6 * named.coef_std_).all()
    ascended = BayesianLinearSVC().fit(X, y)
    assert (np.abs(auto.coef_ - ascended.coef_) < auto.coef_std_).all()
    assert (ascended.coef_std_ < 1.1 * auto.coef_std_).all()  # too small, as the bound has it
    assert BayesianLinearSVC(multi_class="crammer-singer").fit(X, y).loss_ == "hinge-augmented"
    assert BayesianLinearSVC(loss="hinge-augmented").fit(X, y).loss_ == "hinge-augmented"


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
@pytest.mark.parametrize("prior", ["ridge", "laplace-zero"])
def test_draws_agree_with_the_ascent(prior, table):
    whole, X, y = table
    settings = {"prior": prior, "loss": "hinge"}
    ascended = BayesianLinearSVC(**settings).fit(X, y)
    drawn = BayesianLinearSVC(inference="gibbs", n_draws=200, n_chains=2, random_state=0, **settings).fit(X, y)
    (mean, variance), (other, other_variance) = moments(ascended, X), moments(drawn, X)
    assert np.sqrt(np.mean((mean - other) ** 2)) < 0.25 * mean.std()
    # Beliefs about entries, weights and inclusion do not know of each other, and are the narrower for it.
    assert 0.8 < np.median(other_variance / variance) < 4
    gaps = np.isnan(X)
    assert_allclose(drawn.impute(X)[0][gaps], ascended.impute(X)[0][gaps], atol=0.3 * whole.std())
    draws = drawn.sample_latent(X[:5], 4000, random_state=0)
    assert_allclose(draws.mean(axis=1), other[:5], atol=0.3 * np.sqrt(other_variance[:5].max()))
