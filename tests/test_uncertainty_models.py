"""How open the labels of rows are, as models say it."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import references_uncertainty as naive
import softmargin.winning as winning_module
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianOneClassSVM, BayesianSVC, uncertainty
from softmargin.links import LogisticLink, SoftmaxLink
from softmargin.uncertainty import (
    entropy,
    mutual_information,
    mutual_information_of,
    variation_ratio,
    variation_ratio_of,
)


def model_of(mu, v, link, n_jobs=1):
    """What a fitted classifier shows of itself."""
    return SimpleNamespace(
        latent_mean_and_variance=lambda X: (mu[np.asarray(X)], v[np.asarray(X)]), link_=link, n_jobs=n_jobs
    )


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(150, noise=0.25, random_state=0)
    return BayesianSVC(random_state=0).fit(X, y), np.random.default_rng(1).uniform(-2, 3, size=(60, 2))


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return BayesianSVC(random_state=0).fit(X[::2, 2:], names[::2]), X[1::2, 2:]


# Rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [1, 3])
def test_no_row_depends_on_the_rows_it_comes_with(n_classes, rng, monkeypatch):
    shape = (500, n_classes) if n_classes > 1 else (500,)
    mu, v = rng.normal(size=shape), np.exp(3 * rng.normal(size=shape))
    link = SoftmaxLink(1.7) if n_classes > 1 else LogisticLink(1.7, 0.3)
    model, some = model_of(mu, v, link), rng.permutation(500)[:37]
    whole = [measure(model, np.arange(500)) for measure in (variation_ratio, mutual_information)]
    for measure, wanted in zip((variation_ratio, mutual_information), whole, strict=True):
        assert_allclose(measure(model, some), wanted[some], rtol=1e-12, atol=1e-15)
        assert_allclose(measure(model, some[:1]), wanted[some[:1]], rtol=1e-12, atol=1e-15)
    monkeypatch.setattr(uncertainty, "_ROWS_AT_ONCE", 64)
    monkeypatch.setattr(winning_module, "_NUMBERS_AT_ONCE", 3000)
    for measure, wanted in zip((variation_ratio, mutual_information), whole, strict=True):
        for n_jobs in (1, 2):
            found = measure(model_of(mu, v, link, n_jobs), np.arange(500))
            assert found.shape == (500,)
            assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)


def test_memory_is_bounded_whatever_the_number_of_rows(rng, monkeypatch):
    largest, shares, many = [], winning_module._shares, uncertainty._information_of_many

    def watched_shares(f, weights, mu, s):
        largest.append(f.size * len(mu))
        return shares(f, weights, mu, s)

    def watched_many(mu, v, link, draws):
        largest.append(len(mu) * draws.size)
        return many(mu, v, link, draws)

    monkeypatch.setattr(winning_module, "_shares", watched_shares)
    monkeypatch.setattr(uncertainty, "_information_of_many", watched_many)
    mu, v = rng.normal(size=(3000, 10)), np.exp(2 * rng.normal(size=(3000, 10)))
    model = model_of(mu, v, SoftmaxLink())
    variation_ratio(model, np.arange(3000))
    mutual_information(model, np.arange(3000), n_samples=64)
    assert max(largest) <= winning_module._NUMBERS_AT_ONCE
    assert len(largest) < 200  # and pieces are not too small either


# Models ------------------------------------------------------------------------------------------


def test_measures_of_a_model_are_those_of_its_moments(moons):
    model, X = moons
    mu, v = model.latent_mean_and_variance(X)
    assert_allclose(variation_ratio(model, X), variation_ratio_of(mu, v, model.link_))
    assert_allclose(mutual_information(model, X), mutual_information_of(mu, v, model.link_))
    p = model.predict_proba(X)
    assert_allclose(entropy(model, X), [-sum(q * np.log(q) for q in row) for row in p], rtol=1e-12)


def test_variation_ratio_is_how_often_sampled_functions_disagree(moons):
    model, X = moons
    draws = model.sample_latent(X, 4000, random_state=0)
    second = np.mean(model.link_.score(draws, np.zeros(draws.shape)) > 0, axis=1)
    # Standard errors are at most .008.
    assert_allclose(variation_ratio(model, X), np.minimum(second, 1 - second), atol=0.03)
    assert_allclose(variation_ratio(model, X) < 0.5, True)


def test_information_tells_the_unknown_from_the_noisy():
    rng = np.random.default_rng(0)
    # At 0 the two classes mix, and many rows say so; at 30 there was never a row.
    X = np.concatenate([rng.normal(0, 0.3, size=(400, 1)), rng.normal(-3, 0.3, size=(100, 1))])
    y = np.concatenate([rng.uniform(size=400) < 0.5, np.zeros(100)]).astype(int)
    model = BayesianSVC(loss="logistic", random_state=0).fit(X, y)
    noisy, known, unknown = [[0.0]], [[-3.0]], [[30.0]]
    at = np.array([noisy, known, unknown])[:, 0]
    H, information = entropy(model, at), mutual_information(model, at)
    assert H[0] > 0.6
    assert H[2] > 0.6
    assert H[1] < 0.3
    assert information[0] < 0.05
    assert information[2] > 4 * information[0]
    assert variation_ratio(model, at)[1] < 0.02


@pytest.mark.parametrize("inference", ["cavi", "gibbs", "ecm"])
def test_measures_work_for_every_inference(inference):
    X, y = make_moons(60, noise=0.2, random_state=0)
    few = {"n_draws": 400, "n_chains": 2} if inference == "gibbs" else {}
    model = BayesianLinearSVC(inference=inference, random_state=0, **few).fit(X, y)
    for measure, most in ((variation_ratio, 0.5), (entropy, np.log(2)), (mutual_information, np.log(2))):
        found = measure(model, X)
        assert found.shape == (60,)
        assert np.all((found >= 0) & (found <= most))
        assert found.std() > 0


def test_measures_read_frames_with_groups(rng):
    frame = pd.DataFrame({"x": rng.normal(size=90), "g": np.repeat(list("abc"), 30)})
    frame["y"] = frame["x"] + rng.logistic(size=90) > 0
    model = BayesianMixedSVC("y ~ x + (1 | g)").fit(frame)
    rows = pd.DataFrame({"x": [0.5, 0.5], "g": ["a", "new"]})
    # A group that was never seen is less well known.
    assert np.diff(mutual_information(model, rows))[0] > 0
    assert np.diff(variation_ratio(model, rows))[0] > 0
    assert entropy(model, rows).shape == (2,)


def test_a_pipeline_is_its_last_step_on_what_the_others_make(moons):
    X, y = make_moons(80, noise=0.2, random_state=1)
    pipeline = make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(X, y)
    inner, scaled = pipeline[-1], pipeline[0].transform(X)
    for measure in (variation_ratio, mutual_information, entropy):
        assert_allclose(measure(pipeline, X), measure(inner, scaled), rtol=1e-12)
    alone = make_pipeline(BayesianLinearSVC()).fit(X, y)
    assert_allclose(variation_ratio(alone, X), variation_ratio(alone[-1], X))


def test_other_classifiers_have_an_entropy_only():
    X, y = load_iris(return_X_y=True)
    other = LogisticRegression(max_iter=1000).fit(X, y)
    assert_allclose(entropy(other, X).max(), np.log(3), atol=0.6)
    assert np.all(entropy(other, X) <= np.log(3))
    for measure in (variation_ratio, mutual_information):
        with pytest.raises(TypeError, match="LogisticRegression has no latent function"):
            measure(other, X)
        with pytest.raises(NotFittedError):
            measure(BayesianSVC(), X)


def test_models_without_classes_are_refused(moons):
    X = moons[1]
    detector = BayesianOneClassSVM(n_inducing=10, random_state=0).fit(X)
    for measure in (variation_ratio, mutual_information, entropy):
        with pytest.raises(TypeError, match=r"BayesianOneClassSVM gives no probabilities of classes.*score_samples"):
            measure(detector, X)
    with pytest.raises(TypeError, match=r"SVC gives no probabilities of classes: give .* with predict_proba"):
        entropy(SVC().fit(X, X[:, 0] > 0), X)


@pytest.mark.parametrize("bad", [0, -3, 2.5, "many", True])
def test_n_samples_is_a_positive_integer(bad, moons):
    model, X = moons
    with pytest.raises(ValueError, match="n_samples"):
        mutual_information(model, X, n_samples=bad)


# Many classes ------------------------------------------------------------------------------------


def test_measures_of_many_classes_are_those_of_their_moments(flowers):
    model, X = flowers
    mu, v = model.latent_mean_and_variance(X)
    assert mu.shape == v.shape == (len(X), 3)
    shift = model.link_.score(np.zeros((1, 3)), np.zeros((1, 3)))[0] / model.link_.slope
    wanted = [1 - naive.winning(m + shift, s).max() for m, s in zip(mu, v, strict=True)]
    assert_allclose(variation_ratio(model, X), wanted, atol=1e-9)
    draws = np.random.default_rng(0).normal(size=(20_000, 3))
    drawn = [model.link_.score(m + np.sqrt(s) * draws, np.zeros(draws.shape)) for m, s in zip(mu, v, strict=True)]
    found = mutual_information(model, X)
    assert_allclose(found, [naive.information_by_draws(scores) for scores in drawn], atol=0.02)
    # The standard error of four hundred draws is about .01 where classes meet.
    assert_allclose(mutual_information(model, X, n_samples=400, random_state=3), found, atol=0.04)
    p = model.predict_proba(X)
    assert_allclose(entropy(model, X), -np.sum(p * np.log(p), axis=1), rtol=1e-10)


def test_variation_ratio_of_many_is_how_often_sampled_functions_disagree(flowers):
    model, X = flowers
    draws = model.sample_latent(X, 3000, random_state=0)
    assert draws.shape == (len(X), 3, 3000)
    scores = [model.link_.score(row.T, np.zeros(row.T.shape)) for row in draws]
    counted = [1 - np.bincount(row.argmax(axis=1)).max() / 3000 for row in scores]
    # Standard errors are at most .009.
    assert_allclose(variation_ratio(model, X), counted, atol=0.035)


def test_many_classes_are_unsure_where_they_meet_and_where_nothing_was(flowers):
    model, _ = flowers
    petals = np.array([[1.4, 0.2], [4.9, 1.7], [40.0, -30.0]])
    sure, between, nowhere = np.transpose([measure(model, petals) for measure in (variation_ratio, mutual_information)])
    assert sure[0] < 0.05
    assert between[0] > 0.05
    assert nowhere[0] > 0.3
    assert nowhere[1] > sure[1] + 0.2
    assert entropy(model, petals).argmin() == 0
