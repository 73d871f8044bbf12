"""BayesianLinearSVC where there are more than two classes."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtr, softmax
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import references
from softmargin import BayesianLinearSVC
from softmargin.estimators import wide as module
from softmargin.rows import ClasswiseRows, LinearRows, ReducedRows

LOSSES = ["hinge", "hinge-augmented", "logistic", "logistic-jj", "probit"]
K = 3


@pytest.fixture(scope="module")
def table():
    """Four columns, of which the last says nothing, and three classes; labels sort otherwise than they are numbered."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4)) * [1.0, 30.0, 0.2, 1.0] + [0.0, 5.0, 1.0, 0.0]
    f = (X - [0.0, 5.0, 1.0, 0.0]) / [1.0, 30.0, 0.2, 1.0] @ [[2, 0, -2], [0, 2, -1], [1, -2, 0], [0, 0, 0]]
    return X, np.array(["maple", "oak", "ash"])[(f + rng.gumbel(size=f.shape)).argmax(axis=1)]


def moments(model, X):
    return np.array(model.latent_mean_and_variance(X))


def same(got, wanted, rtol=1e-6, atol=1e-8):
    """Models agree on coefficients and on what follows from them."""
    for name in ("coef_", "coef_std_", "intercept_", "intercept_std_"):
        assert_allclose(getattr(got, name), getattr(wanted, name), rtol=rtol, atol=atol)


# What is found -----------------------------------------------------------------------------------------------------


def expected_hinge(mu, v):
    """``E -2 max(0, 1 - f)`` of a Gaussian."""
    z, s = 1 - mu, np.sqrt(v)
    return -2 * (z * ndtr(z / s) + s * norm.pdf(z / s))


def tilted(mu, v, own):
    """The best of Knowles and Minka's bounds of ``E log softmax``, over shares that short steps are left to find."""
    a = softmax(mu)
    for _ in range(300):
        a = 0.7 * a + 0.3 * softmax(mu + (0.5 - a) * v)
    return mu[own] - 0.5 * np.sum(a**2 * v) - logsumexp(mu + (0.5 - a) * v)


def objective_by_loops(parameters, X, codes, how, variance=1.0):
    """The bound less the divergence from a standard prior: for each class a mean, and a root of the covariance."""
    d, total = X.shape[1], 0.0
    means, roots = parameters[: K * d].reshape(K, d), []
    for part in parameters[K * d :].reshape(K, -1):
        root = np.zeros((d, d))
        root[np.tril_indices(d)] = part
        roots.append(root)
        total -= references.kl_gaussians(means[len(roots) - 1], root @ root.T, variance * np.eye(d))
    for x, own in zip(X, codes, strict=True):
        mu, v = means @ x, np.array([np.sum((root.T @ x) ** 2) for root in roots])
        if how == "softmax":
            total += tilted(mu, v, own)
        elif how == "ovr":
            total += sum(expected_hinge(mu[k] if k == own else -mu[k], v[k]) for k in range(K))
        else:
            total += sum(expected_hinge(mu[own] - mu[t], v[own] + v[t]) for t in range(K) if t != own)
    return total


@pytest.mark.parametrize("how", ["weston-watkins", "ovr", "softmax"])
def test_the_fit_is_the_best_of_all_gaussians(how, rng):
    X, codes = rng.normal(size=(12, 2)), np.arange(12) % 3
    X[codes == 1] += [1.0, 0.5]
    loss = "logistic" if how == "softmax" else "hinge"
    model = BayesianLinearSVC(
        loss=loss, multi_class=how, prior=1.0, fit_intercept=False, standardize=False, tol=1e-13, max_iter=2000
    ).fit(X, codes)
    parts = model.belief_.parts
    roots = [np.linalg.cholesky(part.covariance)[np.tril_indices(2)] for part in parts]
    ours = np.concatenate([*(part.mean for part in parts), *roots])
    assert_allclose(objective_by_loops(ours, X, codes, how), model.bound_, rtol=1e-7)
    slopes = [
        (objective_by_loops(ours + step, X, codes, how) - objective_by_loops(ours - step, X, codes, how)) / 2e-5
        for step in 1e-5 * np.eye(len(ours))
    ]
    assert_allclose(slopes, 0, atol=1e-4)
    if how == "softmax":  # that takes too long to search through
        return
    start = np.concatenate([np.zeros(2 * K), np.tile([0.5, 0.0, 0.5], K)])
    found = minimize(lambda p: -objective_by_loops(p, X, codes, how), start, method="BFGS", options={"gtol": 1e-5})
    assert_allclose(model.bound_, -found.fun, rtol=1e-6)
    assert_allclose(np.abs(ours), np.abs(found.x), atol=2e-3)  # roots are known but for their signs
    assert_allclose(ours[: 2 * K], found.x[: 2 * K], atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("prior", [1.0, "ridge", "ard"])
def test_one_class_against_the_rest_is_a_model_of_two_for_each(loss, prior, table):
    X, y = table
    settings = {"loss": loss, "prior": prior, "tol": 1e-11, "max_iter": 3000}
    many = BayesianLinearSVC(multi_class="ovr", **settings).fit(X, y)
    two = [BayesianLinearSVC(**settings).fit(X, y == label) for label in many.classes_]
    for name in ("coef_", "coef_std_", "intercept_", "intercept_std_"):
        wanted = np.concatenate([getattr(model, name) for model in two])
        assert_allclose(getattr(many, name), wanted, rtol=1e-4, atol=1e-5)
    assert_allclose(many.bound_, sum(model.bound_ for model in two), rtol=1e-9)
    if prior != 1.0:
        assert_allclose(many.prior_variance_, [model.prior_variance_ for model in two], rtol=1e-4)
    wanted = np.stack([model.latent_mean_and_variance(X) for model in two], axis=2)
    assert_allclose(moments(many, X), wanted, rtol=1e-4, atol=1e-5)


SETTINGS = [
    {},
    {"loss": "hinge-augmented"},
    {"loss": "logistic", "prior": "ard"},
    {"multi_class": "ovr", "prior": 0.5},
    {"multi_class": "crammer-singer"},
    {"prior": "laplace-zero", "rho": 0.2},
    {"fit_intercept": False, "loss": "logistic-jj"},
]
every_model = pytest.mark.parametrize("model", [BayesianLinearSVC(**settings) for settings in SETTINGS], ids=str)


@every_model
def test_shapes_and_answers_agree(model, table, fit_of):
    (X, y), fitted = table, fit_of(model)
    assert_array_equal(fitted.classes_, ["ash", "maple", "oak"])
    for name in ("coef_", "coef_std_"):
        assert getattr(fitted, name).shape == (K, 4)
    for name in ("intercept_", "intercept_std_"):
        assert getattr(fitted, name).shape == (K,)
    mean, variance = moments(fitted, X)
    assert_allclose(X @ fitted.coef_.T + fitted.intercept_, mean, rtol=1e-8, atol=1e-8)
    assert np.all(variance > 0)
    shape = {"ard": (K, 4), 0.5: ()}.get(model.prior, (K,))
    assert np.shape(fitted.prior_variance_) == shape
    p = fitted.predict_proba(X)
    assert_allclose(p, softmax(fitted.decision_function(X), axis=1))
    assert_array_equal(fitted.predict(X), fitted.classes_[p.argmax(axis=1)])
    if model.fit_intercept:  # columns have their centres elsewhere
        assert fitted.score(X, y) > 0.75
        assert fitted.loo_log_loss_ < 0.7
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), p)
    again = clone(model).fit(X, y)
    assert_array_equal(again.coef_, fitted.coef_)
    assert_array_equal(again.predict_proba(X), p)


@every_model
def test_draws_have_the_latent_moments_and_deviations_are_those_of_draws(model, fit_of):
    fitted = fit_of(model)
    rows = np.vstack([np.zeros(4), np.eye(4)])
    draws, (mean, variance) = fitted.sample_latent(rows, 20_000, random_state=0), moments(fitted, rows)
    assert draws.shape == (5, K, 20_000)
    assert_allclose(draws.mean(axis=2), mean, atol=5 * variance.max() ** 0.5 / 141)
    # Relative standard error of a standard deviation over 20,000 Gaussian draws: .5 %; more of those that may be zero.
    rtol = 0.1 if model.prior == "laplace-zero" else 0.025
    assert_allclose(draws.std(axis=2), np.sqrt(variance), rtol=rtol, atol=1e-12)
    assert_allclose(draws[0].std(axis=1), fitted.intercept_std_, rtol=rtol, atol=1e-12)
    # A column that is in one draw in a million is in none of these.
    assert_allclose((draws[1:] - draws[0]).std(axis=2), fitted.coef_std_.T, rtol=rtol, atol=5e-3 * (rtol == 0.1))


@every_model
def test_order_and_weights_of_rows_order_and_units_of_columns_and_names_of_classes(model, table, fit_of, rng):
    (X, y), one = table, fit_of(model)
    order, weight = rng.permutation(len(y)), rng.integers(0, 3, size=len(y))
    # What is not a bound ends when means are at rest, which is less exact.
    loose = {"rtol": 2e-2, "atol": 2e-3} if model.multi_class == "crammer-singer" else {"rtol": 2e-4, "atol": 1e-6}
    same(clone(model).fit(X[order], y[order]), one, **loose)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), y.repeat(weight))
    same(weighted, repeated, **loose)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-6)
    assert_allclose(weighted.loo_log_loss_, repeated.loo_log_loss_, rtol=1e-3)
    turned = clone(model).fit(X[:, ::-1], y)
    assert_allclose(turned.coef_[:, ::-1], one.coef_, **loose)
    units = np.array([1e3, 1.0, 1e-6, 7.0])
    other = clone(model).fit(X * units + (3 if model.fit_intercept else 0), y)
    assert_allclose(other.coef_ * units, one.coef_, **loose)
    assert_allclose(other.coef_std_ * units, one.coef_std_, **loose)
    renamed = clone(model).fit(X, np.where(y == "ash", "willow", y))
    assert_allclose(renamed.coef_[[2, 0, 1]], one.coef_, **loose)


def test_weights_of_classes_are_weights_of_their_rows(table):
    X, y = table
    factor = {"ash": 1.0, "maple": 4.0, "oak": 0.5}
    by_class = BayesianLinearSVC(class_weight=factor, tol=1e-9).fit(X, y)
    by_row = BayesianLinearSVC(tol=1e-9).fit(X, y, sample_weight=np.vectorize(factor.get)(y))
    same(by_class, by_row, rtol=1e-4, atol=1e-6)
    assert (by_class.predict(X) == "maple").sum() > (BayesianLinearSVC().fit(X, y).predict(X) == "maple").sum()
    assert BayesianLinearSVC(class_weight="balanced").fit(X, y).score(X, y) > 0.75


def test_classes_without_weight_are_not_there(table):
    X, y = table
    two = BayesianLinearSVC().fit(X, y, sample_weight=(y != "oak").astype(float))
    assert_array_equal(two.classes_, ["ash", "maple"])
    assert two.coef_.shape == (1, 4)


def test_many_classes_of_few_rows(rng):
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % 20
    X[:, 0] += y
    for settings in ({}, {"loss": "logistic"}, {"multi_class": "ovr"}):
        model = BayesianLinearSVC(**settings).fit(X, y)
        assert model.coef_.shape == (20, 3)
        assert np.isfinite(model.predict_proba(X)).all()


def test_a_table_that_planes_separate_has_a_finite_answer(rng):
    centres = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]])
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 2)) + centres[y]
    for loss in ("hinge", "hinge-augmented", "logistic"):
        model = BayesianLinearSVC(loss=loss).fit(X, y)
        assert model.score(X, y) == 1
        assert np.max(model.prior_variance_) < 1e4


@pytest.mark.parametrize("inference", ["gibbs", "ecm"])
def test_what_is_known_for_two_classes_only_is_refused(inference, table):
    with pytest.raises(ValueError, match=f"inference='{inference}' supports two classes only, and y has 3"):
        BayesianLinearSVC(inference=inference).fit(*table)


# Columns that are chosen -------------------------------------------------------------------------------------------


def test_each_class_chooses_its_columns(rng):
    X = rng.normal(size=(500, 6))
    f = np.column_stack([3 * X[:, 0], 3 * X[:, 1], np.zeros(500)])
    y = (f + rng.gumbel(size=f.shape)).argmax(axis=1)
    model = BayesianLinearSVC(prior="laplace-zero", loss="logistic-jj", multi_class="ovr", rho=0.2).fit(X, y)
    chosen, positive = model.inclusion_probability_, model.positive_probability_
    assert chosen.shape == positive.shape == (3, 6)
    assert np.all(chosen[:, :2] > 0.9)
    assert np.all(chosen[:, 2:] < 0.5)
    assert np.all(positive[[0, 1], [0, 1]] > 0.99)
    assert np.all(positive[2, :2] < 0.01)
    assert model.prior_variance_.shape == (3,)
    assert np.all(np.abs(model.coef_[chosen < 0.5]) < 0.1)
    two = [BayesianLinearSVC(prior="laplace-zero", loss="logistic-jj", rho=0.2).fit(X, y == k) for k in range(3)]
    assert_allclose(chosen, [model.inclusion_probability_ for model in two], atol=0.05)
    assert_allclose(model.coef_, np.concatenate([model.coef_ for model in two]), atol=0.02)


def test_columns_are_selected_by_the_size_of_their_coefficients_in_all_classes():
    X, y = load_iris(return_X_y=True)
    noisy = np.hstack([X, np.random.default_rng(0).normal(size=(150, 4))])
    for model in (BayesianLinearSVC(), BayesianLinearSVC(prior="laplace-zero", rho=0.2)):
        selector = SelectFromModel(model, threshold="mean").fit(noisy, y)
        assert_allclose(selector.threshold_, np.abs(selector.estimator_.coef_).sum(axis=0).mean())
        assert not selector.get_support()[4:].any()
        assert selector.get_support()[2:4].all()
    pipeline = make_pipeline(SelectFromModel(BayesianLinearSVC()), BayesianLinearSVC())
    assert cross_val_score(pipeline, noisy, y, cv=3).mean() > 0.9


# More columns than rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"prior": 0.3}, {"loss": "logistic"}, {"multi_class": "ovr"}], ids=str)
def test_the_same_model_in_fewer_weights(monkeypatch, rng, settings):
    X = 3 * rng.normal(size=(45, 120)) + 1
    y = (X[:, :3] + rng.gumbel(size=(45, 3))).argmax(axis=1)
    settings = {"tol": 1e-10, "max_iter": 3000} | settings
    whole = BayesianLinearSVC(**settings).fit(X, y)
    monkeypatch.setattr(module, "_FEWEST_COLUMNS", 50)
    few = BayesianLinearSVC(**settings).fit(X, y)
    assert isinstance(whole.rows_.rows, LinearRows)
    assert isinstance(few.rows_.rows, ReducedRows)
    assert few.coef_.shape == few.coef_std_.shape == (K, 120)
    same(few, whole, rtol=2e-3, atol=3e-4)
    assert_allclose(few.prior_variance_, whole.prior_variance_, rtol=2e-3)
    to_come = rng.normal(size=(10, 120))
    assert_allclose(moments(few, to_come)[1], moments(whole, to_come)[1], rtol=1e-3)
    assert_allclose(few.predict_proba(to_come), whole.predict_proba(to_come), atol=2e-3)
    draws, (mean, variance) = few.sample_latent(to_come[:3], 4000, random_state=0), moments(few, to_come[:3])
    assert_allclose(draws.mean(axis=2), mean, atol=5 * np.sqrt(variance.max() / 4000))
    assert_allclose(draws.var(axis=2), variance, rtol=5 * np.sqrt(2 / 4000))
    sparse = BayesianLinearSVC(**settings).fit(scipy.sparse.csr_matrix(X), y)
    assert_allclose(sparse.coef_, few.coef_, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="more columns than rows"):
        few.partial_fit(X, y)


# Many rows, and batches of them ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 5))
    f = 1.5 * X @ rng.normal(size=(5, 4))
    return X, (f + rng.gumbel(size=f.shape)).argmax(axis=1)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_minibatches_come_near(loss, long_table):
    X, y = long_table
    exact = BayesianLinearSVC(loss=loss).fit(X, y)
    stochastic = BayesianLinearSVC(loss=loss, inference="svi", random_state=0).fit(X, y)
    again = BayesianLinearSVC(loss=loss, inference="svi", random_state=0).fit(X, y)
    assert_array_equal(again.coef_, stochastic.coef_)
    (mean, variance), (other, _) = moments(exact, X), moments(stochastic, X)
    away = mean - other
    away -= away.mean(axis=1, keepdims=True)  # what all classes have in common, rows do not tell
    assert np.sqrt(np.mean(away**2 / variance)) < 2.5
    assert_allclose(stochastic.predict_proba(X), exact.predict_proba(X), atol=0.05)


def test_batches_come_near_and_are_predicted(long_table):
    X, y = long_table
    whole = BayesianLinearSVC().fit(X, y)
    stream = BayesianLinearSVC()
    for start in range(0, 6000, 1000):
        rows = slice(start, start + 1000)
        stream.partial_fit(X[rows], y[rows], classes=range(4))
    assert isinstance(stream.rows_, ClasswiseRows)
    assert stream.coef_.shape == (4, 5)
    assert_allclose(stream.predict_proba(X), whole.predict_proba(X), atol=0.1)
    assert abs(stream.loo_log_loss_ - whole.loo_log_loss_) < 0.05
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    assert stream.score(gaps, y) > 0.4
    assert_allclose(stream.impute(gaps)[0], whole.impute(gaps)[0], atol=0.1)
    joined = BayesianLinearSVC().fit(X[:5000], y[:5000]).partial_fit(X[5000:], y[5000:])
    assert_allclose(joined.predict_proba(X), whole.predict_proba(X), atol=0.1)


def test_a_class_may_come_later(long_table):
    X, y = long_table
    early = y != 3
    stream = BayesianLinearSVC().partial_fit(X[early][:1000], y[early][:1000], classes=range(4))
    assert stream.predict_proba(X).shape == (6000, 4)
    stream.partial_fit(X[:3000], y[:3000])
    assert np.mean(stream.predict(X) == 3) > 0.05
    assert stream.score(X, y) > 0.55
