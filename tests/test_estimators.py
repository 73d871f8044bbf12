"""What every classifier promises its users, whatever it is made of."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from softmargin import BayesianLinearSVC, BayesianSVC, streaming
from softmargin.engine import Problem
from softmargin.estimators import base

CLASSIFIERS = [BayesianSVC, BayesianLinearSVC]
LOSSES = ["hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"]

every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(120, 3))
    labels = np.where(X[:, 0] - X[:, 1] ** 2 / 2 + 0.4 * rng.normal(size=120) > -0.3, "yes", "no")
    return X, labels


@every_classifier
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("link", ["loo", "probit", "logistic"])
def test_prediction_probability_and_score_never_contradict_each_other(classifier, loss, link, table):
    X, y = table
    model = classifier(loss=loss, link=link).fit(X, y)
    wide = np.vstack([X, 100 * X, 0 * X[:1]])
    p, score = model.predict_proba(wide), model.decision_function(wide)
    assert np.isfinite(p).all()
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(wide))
    assert_array_equal(score > 0, p[:, 1] > p[:, 0])
    assert_allclose(np.log(p[:, 1] / p[:, 0]), score, rtol=1e-6, atol=1e-12)
    assert model.score(X, y) > 0.8


@every_classifier
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_of_probabilities(classifier, n_classes, table):
    X, _ = table
    model = classifier().fit(X, np.digitize(X[:, 0], np.linspace(-0.5, 0.5, n_classes - 1)))
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), atol=1e-12)


@every_classifier
def test_frames_arrays_and_sparse_matrices_give_one_answer(classifier, table):
    X, y = table
    X = np.where(np.abs(X) < 0.3, 0, X)
    expected = classifier().fit(X, y).predict_proba(X)
    names = ["age", "dose", "weight"]
    for data, labels in [
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pd.DataFrame(X, columns=names), pd.Series(y, dtype="category")),
        (pl.DataFrame(X, schema=names), pl.Series(y)),
        (scipy.sparse.csr_array(X), y),
        (scipy.sparse.csc_matrix(X), list(y)),
        (np.asfortranarray(X), y == "yes"),
    ]:
        model = classifier().fit(data, labels)
        assert_allclose(model.predict_proba(data), expected, rtol=1e-8)
        if hasattr(data, "columns"):
            assert_array_equal(model.feature_names_in_, names)


@every_classifier
def test_single_precision_agrees_with_double(classifier, table):
    X, y = table
    wide = classifier().fit(X, y).predict_proba(X)
    narrow = classifier().fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    # The jitter of single precision is 1e-5 of the variance, and the ascent stops at other roundings.
    assert_allclose(narrow, wide, atol=5e-3)


@every_classifier
def test_weight_k_is_k_copies_and_weight_zero_is_none(classifier, table, rng):
    X, y = table
    weight = rng.integers(0, 4, size=len(y))
    weighted = classifier(class_weight="balanced").fit(X, y, sample_weight=weight)
    repeated = classifier(class_weight="balanced").fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)
    assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-9)
    assert_allclose(weighted.link_, repeated.link_, rtol=1e-6)
    assert_allclose(weighted.loo_log_loss_, repeated.loo_log_loss_, rtol=1e-6)


@pytest.mark.parametrize("n", [120, 5000])
def test_weight_k_is_k_copies_when_points_are_chosen_by_kmeans_too(n, rng):
    X = rng.normal(size=(n, 3))
    y, weight = X[:, 0] > X[:, 1] ** 2, rng.integers(0, 4, size=n)
    settings = {"n_inducing": 15, "random_state": 0}
    weighted = BayesianSVC(**settings).fit(X, y, sample_weight=weight)
    repeated = BayesianSVC(**settings).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(weighted.inducing_points_, repeated.inducing_points_, rtol=1e-9)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)


@every_classifier
def test_class_weights_are_factors_of_the_rows_weights(classifier, table):
    X, y = table
    by_class = classifier(class_weight={"yes": 3}).fit(X, y)
    by_row = classifier().fit(X, y, sample_weight=np.where(y == "yes", 3, 1))
    assert_allclose(by_class.latent_mean_and_variance(X), by_row.latent_mean_and_variance(X), rtol=1e-9)
    assert by_class.predict_proba(X)[:, 1].mean() > classifier().fit(X, y).predict_proba(X)[:, 1].mean()


@every_classifier
def test_row_order_and_number_of_threads_do_not_matter(classifier, rng):
    X, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(len(y))
    # Inducing points are all distinct rows, in their own order; the sums differ by rounding.
    settings = {"max_iter": 10, "tol": 0.0} | ({"n_inducing": 1000} if classifier is BayesianSVC else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = classifier(**settings, n_jobs=1).fit(X, y)
        two = classifier(**settings, n_jobs=2).fit(X[order], y[order])
    assert_allclose(one.bound_, two.bound_, rtol=1e-7)
    assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-5)


@every_classifier
def test_predictions_do_not_depend_on_the_batch(classifier, table):
    X, y = table
    model = classifier().fit(X, y)
    together = model.predict_proba(X)
    assert_allclose(np.vstack([model.predict_proba(X[[i]]) for i in range(10)]), together[:10], rtol=1e-9)


@every_classifier
def test_the_same_seed_gives_the_same_bits(classifier, table):
    X, y = table
    settings = {"random_state": 3} | ({"n_inducing": 12} if classifier is BayesianSVC else {})
    first, second = (classifier(**settings).fit(X, y).predict_proba(X) for _ in range(2))
    assert_array_equal(first, second)


@every_classifier
def test_survives_pickle_clone_pipelines_and_grids(classifier, table):
    X, y = table
    model = classifier(tol=1e-5).fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
    assert clone(model).tol == 1e-5
    grid = GridSearchCV(make_pipeline(StandardScaler(), classifier()), {f"{classifier.__name__.lower()}__tol": [1e-3]})
    assert grid.fit(X, y).best_score_ > 0.7
    assert cross_val_score(classifier(), X, y, scoring="neg_log_loss").mean() > -0.6


@every_classifier
def test_interrupting_keeps_the_best_model_so_far(classifier, table, monkeypatch):
    X, y = table
    calls = iter(range(100))
    whole = Problem.stats

    def interrupted(problem, belief):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return whole(problem, belief)

    monkeypatch.setattr(Problem, "stats", interrupted)
    with pytest.warns(ConvergenceWarning, match="Interrupted"):
        model = classifier().fit(X, y)
    accepted = [entry["objective"] for entry in model.history_ if entry["accepted"]]
    assert sum(np.isfinite(entry["objective"]) for entry in model.history_) == 4
    assert model.bound_ == max(accepted)
    assert model.score(X, y) > 0.7


@every_classifier
def test_the_history_climbs_to_the_bound(classifier, table):
    X, y = table
    model = classifier().fit(X, y)
    climbed = [entry["objective"] for entry in model.history_ if entry["accepted"]]
    assert np.all(np.diff(climbed) >= -1e-9 * abs(model.bound_))
    assert climbed[-1] == model.bound_
    assert [entry["pass"] for entry in model.history_] == list(range(1, model.n_iter_ + 1))


@every_classifier
@pytest.mark.filterwarnings("ignore:Time was up")
def test_limits_on_passes_and_time_are_kept(classifier, table):
    X, y = table
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        assert classifier(max_iter=3).fit(X, y).n_iter_ == 3
    assert classifier(max_time=1e-9).fit(X, y).n_iter_ == 2  # the prior, and one step


@every_classifier
def test_progress_is_drawn_only_when_asked_for(classifier, table, capsys):
    X, y = table
    classifier().fit(X, y)
    assert capsys.readouterr().err == ""
    classifier(verbose=True).fit(X, y)
    drawn = capsys.readouterr().err
    assert classifier.__name__ in drawn
    assert drawn.endswith("\n")


@every_classifier
def test_blas_threads_are_left_as_they_were(classifier, table):
    X, y = table
    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        classifier(n_jobs=2).fit(X, y).predict(X)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda seed: classifier(random_state=seed, n_jobs=2).fit(X, y).predict(X), range(6)))
        assert [library["num_threads"] for library in threadpool_info()] == before


@every_classifier
def test_single_precision_rows_meet_a_model_of_double_precision(classifier):
    X, y = make_moons(400, noise=0.2, random_state=0)
    model = classifier().fit(X, y)
    assert_allclose(model.predict_proba(X.astype(np.float32)), model.predict_proba(X), atol=1e-4)
    sparse = scipy.sparse.csr_array(X.astype(np.float32))
    assert_allclose(model.predict_proba(sparse), model.predict_proba(X), atol=1e-4)


@every_classifier
def test_a_fit_that_fails_leaves_the_model_as_it_was(classifier, table, monkeypatch):
    X, y = table
    with pytest.raises(ValueError, match="only one class"):
        (model := classifier()).fit(X, np.ones(len(y)))
    with pytest.raises(NotFittedError):
        model.predict(X)
    before = model.fit(X, y).predict_proba(X)

    def interrupted(*args):
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="only one class"):
        model.fit(pd.DataFrame(X[:, :2], columns=["a", "b"]), np.ones(len(y)))
    assert_array_equal(model.predict_proba(X), before)
    monkeypatch.setattr(streaming, "fit_logistic_link", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:50], y[:50])
    assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("loss", ["hinge-augmented", "logistic-jj"])
def test_enormous_weights_in_single_precision_do_not_break_the_link(loss, rng):
    X = rng.normal(size=(80, 4)).astype(np.float32)
    y, weight = X[:, 0] + rng.normal(size=80) > 0, 10 ** rng.uniform(-3, 9, size=80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BayesianSVC(loss=loss, max_iter=60).fit(X, y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()


@every_classifier
def test_blocks_are_spread_over_as_many_threads_as_blas_may_use(classifier, table, monkeypatch):
    jobs = []
    monkeypatch.setattr(base, "Problem", lambda *parts: jobs.append(parts[4]) or Problem(*parts))
    for n in (1, 2):
        with threadpool_limits(n):
            classifier().fit(*table)
    assert jobs == [1, 2]


@every_classifier
def test_the_reason_to_stop_is_kept(classifier, table):
    X, y = table
    assert classifier().fit(X, y).stop_reason_ == "converged"
    message = "Time was up after max_time=1e-09 seconds before the fit converged; this is the best model so far."
    with pytest.warns(ConvergenceWarning, match=message) as seen:
        assert classifier(max_time=1e-9).fit(X, y).stop_reason_ == "time"
    assert [each.filename for each in seen] == [__file__]
    assert classifier(max_time=1e6).fit(X, y).stop_reason_ == "converged"


@pytest.mark.parametrize("prior", ["ridge", "ard"])
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic"])
def test_the_default_tolerance_is_near_the_optimum(prior, loss):
    X, y = load_breast_cancer(return_X_y=True)
    rough = BayesianLinearSVC(prior=prior, loss=loss, max_iter=1000).fit(X, y)
    fine = BayesianLinearSVC(prior=prior, loss=loss, max_iter=3000, tol=1e-11).fit(X, y)
    assert fine.bound_ - rough.bound_ <= 1e-5 * abs(fine.bound_)
    assert_allclose(rough.predict_proba(X), fine.predict_proba(X), atol=0.02)


@every_classifier
def test_latent_draws_have_the_latent_moments(classifier, table):
    X, y = table
    model = classifier().fit(X, y)
    mean, variance = model.latent_mean_and_variance(X[:6])
    draws = model.sample_latent(X[:6], n_samples=20_000, random_state=0)
    # Standard errors over 20,000 draws: sd/141 of a mean, 1 % of a variance; four of them.
    assert_allclose(draws.mean(axis=1), mean, atol=4 * variance.max() ** 0.5 / 141)
    assert_allclose(draws.var(axis=1), variance, rtol=0.04)
    assert_array_equal(model.sample_latent(X[:6], 2, random_state=1), model.sample_latent(X[:6], 2, random_state=1))


def test_latent_draws_are_functions(table):
    X, y = table
    near = np.vstack([X[:1], X[:1] + 1e-3])
    draws = BayesianSVC(n_inducing=5, random_state=0).fit(X, y).sample_latent(near, 50, random_state=0)
    assert np.abs(draws[0] - draws[1]).max() < 0.05 * draws.std()


@every_classifier
def test_an_unfitted_model_says_so(classifier, table):
    with pytest.raises(NotFittedError):
        classifier().predict(table[0])
