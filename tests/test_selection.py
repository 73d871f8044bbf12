"""Selection of columns, seen from the estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import softmargin.inference
from softmargin import BayesianLinearSVC, BayesianMixedSVC
from softmargin.diagnostics import MixingWarning
from softmargin.likelihoods import Hinge, Logistic, Quadrature
from softmargin.monitor import InterruptedFitWarning
from softmargin.priors import Classwise

IN = np.array([True, True] + 10 * [False])


@pytest.fixture(scope="module")
def table():
    """Twelve columns of which two matter."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 12))
    return X, 2 * X[:, 0] - 2 * X[:, 1] + rng.logistic(size=400) > 0


MODELS = [
    BayesianLinearSVC(prior="laplace-zero"),
    BayesianLinearSVC(prior="laplace-zero", rho="learned", loss="logistic"),
    BayesianLinearSVC(prior="laplace-zero", loss="hinge-augmented", fit_intercept=False),
    BayesianMixedSVC(prior="laplace-zero", rho=0.1),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=str)


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


def gappy(X, share=0.1):
    return np.where(np.random.default_rng(7).random(X.shape) < share, np.nan, X)


@every_model
@pytest.mark.parametrize("missing", [False, True])
def test_columns_that_matter_are_found(model, missing, table, fit_of):
    X, y = table
    X = gappy(X) if missing else X
    fitted = clone(model).fit(X, y) if missing else fit_of(model)
    assert (fitted.inclusion_probability_[IN] > 0.99).all()
    # The hinge is an eager judge, and where the share is learned most columns are in, if only a little.
    assert fitted.inclusion_probability_[~IN].mean() < (0.9 if model.rho == "learned" else 0.6)
    assert_allclose(fitted.positive_probability_[IN], [1, 0], atol=1e-6)
    assert ((fitted.positive_probability_ >= 0) & (fitted.positive_probability_ <= 1)).all()
    left_out = fitted.inclusion_probability_ < 1e-6
    assert_allclose(fitted.coef_[0, left_out], 0, atol=1e-5)
    assert fitted.score(X, y) > 0.8
    p = fitted.predict_proba(X)
    assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(X))
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), p)
    assert_allclose(np.vstack([fitted.predict_proba(X[[i]]) for i in range(10)]), p[:10], rtol=1e-9)


@every_model
@pytest.mark.parametrize("missing", [False, True])
def test_order_and_weights_of_rows_and_order_and_units_of_columns(model, missing, table, fit_of, rng):
    X, y = table
    X = gappy(X) if missing else X
    one = clone(model).fit(X, y) if missing else fit_of(model)
    order, weight = rng.permutation(len(y)), rng.integers(0, 3, size=len(y))
    assert_allclose(moments(clone(model).fit(X[order], y[order]), X), moments(one, X), rtol=1e-6, atol=1e-8)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(moments(weighted, X), moments(repeated, X), rtol=1e-6, atol=1e-8)
    assert_allclose(weighted.inclusion_probability_, repeated.inclusion_probability_, atol=1e-8)
    places, units = rng.permutation(12), 10.0 ** rng.integers(-6, 7, size=12)
    other = clone(model).fit((X * units)[:, places], y)
    assert_allclose(other.inclusion_probability_, one.inclusion_probability_[places], atol=1e-4)
    assert_allclose(other.coef_ * units[places], one.coef_[:, places], rtol=1e-3, atol=1e-4)


@every_model
def test_latent_draws_have_the_latent_moments(model, table, fit_of):
    X, fitted = table[0], fit_of(model)
    draws, (mean, variance) = fitted.sample_latent(X[:6], 20_000, random_state=0), moments(fitted, X[:6])
    # Standard errors over 20,000 draws: sd/141 of a mean, 1 % of a variance; four of them.
    assert_allclose(draws.mean(axis=1), mean, atol=4 * variance.max() ** 0.5 / 141)
    assert_allclose(draws.var(axis=1), variance, rtol=0.05)


@pytest.mark.parametrize("missing", [False, True])
def test_scikit_learn_selects_by_it(missing, table):
    X, y = table
    rows = gappy(X) if missing else X
    model = BayesianLinearSVC(prior="laplace-zero", rho=0.1)
    chosen = SelectFromModel(model, importance_getter="inclusion_probability_", threshold=0.5).fit(rows, y)
    assert_array_equal(chosen.get_support()[IN], True)
    assert chosen.get_support().sum() < 6
    assert chosen.transform(rows).shape == (400, chosen.get_support().sum())
    if not missing:
        assert make_pipeline(chosen, LogisticRegression()).fit(X, y).score(X, y) > 0.8


def test_a_share_is_expected_learned_or_looked_for(table):
    X, y = table
    few, many, learned = (BayesianLinearSVC(prior="laplace-zero", rho=rho).fit(X, y) for rho in (0.01, 0.99, "learned"))
    assert few.inclusion_probability_.sum() <= learned.inclusion_probability_.sum() + 1e-6
    assert few.inclusion_probability_.sum() < many.inclusion_probability_.sum()
    grid = GridSearchCV(BayesianLinearSVC(prior="laplace-zero"), {"rho": [0.1, 0.5, "learned"]}, cv=3).fit(X, y)
    assert grid.best_score_ > 0.8


def test_sparse_tables_and_frames_are_selected_from_too(table):
    X, y = table
    X = np.where(np.abs(X) < 0.3, 0, X)
    model = BayesianLinearSVC(prior="laplace-zero")
    expected = clone(model).fit(X, y).inclusion_probability_
    names = [f"c{i}" for i in range(12)]
    for rows in (scipy.sparse.csr_array(X), pd.DataFrame(X, columns=names)):
        assert_allclose(clone(model).fit(rows, y).inclusion_probability_, expected, atol=1e-8)
    by_formula = BayesianMixedSVC("~ " + " + ".join(names), prior="laplace-zero").fit(pd.DataFrame(X, columns=names), y)
    assert_allclose(by_formula.inclusion_probability_, expected, atol=1e-3)
    assert by_formula.fixed_names_ == tuple(names)


def test_groups_do_not_hide_columns(table, rng):
    X, y = table
    group = rng.integers(0, 15, size=len(y))
    effect = 2 * rng.normal(size=15)
    y = 2 * X[:, 0] - 2 * X[:, 1] + effect[group] + rng.logistic(size=len(y)) > 0
    model = BayesianMixedSVC(groups=12, prior="laplace-zero", rho=0.1).fit(np.column_stack([X, group]), y)
    assert (model.inclusion_probability_[IN] > 0.99).all()
    assert model.inclusion_probability_[~IN].mean() < 0.5
    assert np.corrcoef(model.random_effects()["mean"], effect)[0, 1] > 0.8


@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
def test_draws_agree_with_the_ascent(table):
    X, y = table
    settings = {"prior": "laplace-zero", "rho": 0.1, "loss": "hinge"}
    ascended = BayesianLinearSVC(**settings).fit(X, y)
    drawn = BayesianLinearSVC(inference="gibbs", n_draws=200, n_chains=2, random_state=0, **settings).fit(X, y)
    assert (drawn.inclusion_probability_[IN] > 0.99).all()
    assert (drawn.inclusion_probability_[~IN] < 0.5).all()
    assert_array_equal(drawn.positive_probability_[IN], [1, 0])
    (mean, _), (other, variance) = moments(ascended, X), moments(drawn, X)
    assert np.sqrt(np.mean((mean - other) ** 2)) < 0.15 * mean.std()
    draws = drawn.sample_latent(X[:5], 4000, random_state=0)
    assert_allclose(draws.mean(axis=1), other[:5], atol=0.3 * np.sqrt(variance[:5].max()))


# Bad and odd tables ------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["svi", "ecm"])
def test_inferences_of_one_gaussian_are_refused(inference, table):
    with pytest.raises(ValueError, match=f"inference='{inference}' fits a single Gaussian for the weights"):
        BayesianLinearSVC(prior="laplace-zero", inference=inference).fit(*table)


def test_batches_are_refused(table):
    X, y = table
    model = BayesianLinearSVC(prior="laplace-zero")
    with pytest.raises(ValueError, match="partial_fit keeps a single Gaussian of the past"):
        model.partial_fit(X, y, classes=[False, True])
    with pytest.raises(ValueError, match="partial_fit keeps a single Gaussian of the past"):
        model.fit(X, y).partial_fit(X, y)


@pytest.mark.parametrize("rho", [0, 1, -0.1, 2, "some", None, True, np.nan])
def test_shares_that_mean_nothing_are_refused(rho, table):
    with pytest.raises(ValueError, match="rho, the share of columns expected to matter, must lie between 0 and 1"):
        BayesianLinearSVC(prior="laplace-zero", rho=rho).fit(*table)


def test_of_copies_one_is_enough(table):
    X, y = table
    model = BayesianLinearSVC(prior="laplace-zero", max_iter=1000).fit(
        np.column_stack([X, X[:, 0], 0 * X[:, 0] + 3]), y
    )
    rows = np.column_stack([X, X[:, 0], 0 * X[:, 0] + 3])
    assert np.isfinite(model.predict_proba(rows)).all()
    assert model.coef_[0, [0, 12]].sum() > 10 * abs(model.coef_[0, 13])
    assert max(model.inclusion_probability_[[0, 12]]) > 0.99
    assert model.score(rows, y) > 0.8


def test_more_columns_than_rows(rng):
    X = rng.normal(size=(50, 80))
    y = 3 * X[:, 0] + rng.logistic(size=50) > 0
    model = BayesianLinearSVC(prior="laplace-zero", rho=0.02, max_iter=1000).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.inclusion_probability_[0] > 0.99
    assert model.inclusion_probability_.sum() < 30


def test_nothing_matters(rng):
    X = rng.normal(size=(200, 5))
    model = BayesianLinearSVC(prior="laplace-zero", rho=0.1).fit(X, rng.integers(0, 2, 200))
    assert model.inclusion_probability_.sum() < 4
    assert_allclose(model.predict_proba(X).mean(axis=0), 0.5, atol=0.1)
    assert np.abs(model.predict_proba(X) - 0.5).mean() < 0.15


def test_classes_that_a_plane_separates(table):
    X, _ = table
    y = X[:, 0] > 0
    model = BayesianLinearSVC(prior="laplace-zero", max_iter=1000).fit(X, y)
    assert model.score(X, y) > 0.98
    assert model.inclusion_probability_[0] > 0.99
    assert np.abs(model.coef_).max() < 1e3


@pytest.mark.filterwarnings("ignore:Time was up")
def test_interrupting_keeps_the_best_model_so_far(table, monkeypatch, interrupt_pass):
    X, y = table
    interrupt_pass(4)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianLinearSVC(prior="laplace-zero").fit(X, y)
    assert model.stop_reason_ == "interrupt"
    assert model.score(X, y) > 0.7
    monkeypatch.undo()
    assert BayesianLinearSVC(prior="laplace-zero", max_time=1e-9).fit(X, y).stop_reason_ == "time"


def test_a_second_fit_forgets_the_first(table):
    model = BayesianLinearSVC(prior="laplace-zero").fit(*table)
    assert model.prior_variance_ > 0
    model.set_params(prior="ard").fit(*table)
    assert not hasattr(model, "inclusion_probability_")
    assert not hasattr(model, "positive_probability_")


# The default --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_are_chosen_by_a_likelihood_unless_another_loss_is_named(table):
    X, y = table
    model, quick = BayesianLinearSVC(prior="laplace-zero"), {"n_draws": 5, "n_chains": 1, "random_state": 0}
    assert clone(model).fit(X, y).loss_ == "logistic"
    assert clone(model).fit(gappy(X), y).loss_ == "logistic-jj"
    assert BayesianMixedSVC(prior="laplace-zero").fit(X, y).loss_ == "logistic"
    assert clone(model).set_params(loss="hinge").fit(X, y).loss_ == "hinge"
    with pytest.warns(MixingWarning):
        assert clone(model).set_params(inference="gibbs", **quick).fit(X, y).loss_ == "hinge"
    assert clone(model).set_params(prior="ard").fit(X, y).loss_ == "hinge"
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    assert clone(model).set_params(multi_class="crammer-singer", max_iter=5).fit(X, three).loss_ == "hinge-augmented"


def test_noise_gains_under_the_hinge_what_it_does_not_gain_under_a_likelihood(table):
    """``r^2 / G`` of columns that no model has seen: chi-squared over one under a likelihood."""
    X, y = table
    labels, noise = np.where(y, 1.0, -1.0), np.random.default_rng(2).normal(size=(400, 500))
    found = {}
    for loss, likelihood in {"hinge": Hinge(), "logistic": Quadrature(Logistic())}.items():
        # So vague that slopes and curvatures are nearly those of the rows alone, and of two columns of the twelve.
        model = BayesianLinearSVC(prior=100.0, loss=loss).fit(X[:, :2], y)
        _, w, b = likelihood.sites(labels, *moments(model, X[:, :2]))
        slope = b - w * moments(model, X[:, :2])[0]
        r, G = slope @ noise, w @ noise**2
        found[loss] = np.mean(r**2 / G)
        assert_allclose(found[loss], np.sum(slope**2) / np.sum(w), rtol=0.2)  # the mean of 500 has an error of 6 %
    assert_allclose(found["logistic"], 1, rtol=0.25)
    assert found["hinge"] > 1.5 * found["logistic"]


def test_by_default_noise_stays_out():
    kept = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 43))
        y = 1.5 * X[:, :3].sum(axis=1) + rng.logistic(size=200) > 0
        included = BayesianLinearSVC(prior="laplace-zero").fit(X, y).inclusion_probability_ > 0.5
        assert included[:3].all()
        kept.append(included[3:].sum())
    # 120 columns of noise, of which one in fifty is expected: more than nine have a probability below 1e-3.
    assert sum(kept) <= 9


# Short cuts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("multi_class", ["auto", "ovr"])
def test_ways_that_lead_back_are_not_followed_to_the_end(multi_class, monkeypatch):
    X, y = load_wine(return_X_y=True)
    model = BayesianLinearSVC(prior="laplace-zero", multi_class=multi_class)
    short = clone(model).fit(X[::2, :8], y[::2])
    monkeypatch.setattr(softmargin.inference, "_alike", lambda one, other: False)
    monkeypatch.setattr(Classwise, "about", lambda prior, belief, other: prior)
    long = clone(model).fit(X[::2, :8], y[::2])
    # Short ascents come to rest within 1e-4 of the objective, and a gain of .05 is what choices are changed for.
    assert abs(short.bound_ - long.bound_) < 0.05
    assert_array_equal(short.inclusion_probability_ > 0.5, long.inclusion_probability_ > 0.5)
