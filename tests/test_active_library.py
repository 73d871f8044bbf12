"""Models as scikit-activeml asks them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.active import for_skactiveml, query
from softmargin.extras import needed
from test_active import QUICK, fitted_moons, numbered

moons = pytest.fixture(fitted_moons, scope="module")


def test_the_extra_is_named_where_the_package_is_absent(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skactiveml", None)
    with pytest.raises(ImportError, match=r"softmargin\[active\]"):
        for_skactiveml(BayesianSVC())
    assert needed("math", "active", "This").pi > 3


@pytest.fixture
def activeml():
    return pytest.importorskip("skactiveml.pool", reason="scikit-activeml is not installed")


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(**QUICK),
        BayesianLinearSVC(n_jobs=1),
        BayesianGPC(**QUICK),
        BayesianMixedSVC(groups=[1], n_jobs=1),
        BayesianKernelMachine(n_frequencies=16, n_steps=20, tune=None, random_state=0, n_jobs=1),
        make_pipeline(StandardScaler(), BayesianLinearSVC(n_jobs=1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_classifier_loops_in_scikit_activeml(model, activeml, rng):
    X = np.column_stack([rng.normal(size=60), np.arange(60) % 3])
    known = np.where(X[:, 0] + 0.2 * rng.normal(size=60) > 0, 1.0, 0.0)
    y = np.full(60, np.nan)
    classifier, strategy = for_skactiveml(model, [0, 1], random_state=0), activeml.UncertaintySampling(random_state=0)
    for turn in range(6):  # from no label at all
        row = strategy.query(X, y, clf=classifier, batch_size=4)
        assert np.isnan(y[row]).all()
        y[row] = known[row]
        assert np.sum(~np.isnan(y)) == 4 * (turn + 1)
    classifier.fit(X, y)
    assert classifier.predict_proba(X).shape == (60, 2)
    assert np.mean(classifier.predict(X) == known) > 0.8


def test_committees_are_draws_of_the_posterior(activeml, moons):
    model, X, known = moons
    y = np.where(np.arange(300) < 40, known, np.nan)
    classifier = for_skactiveml(BayesianSVC(random_state=0), [0, 1])
    draws = classifier.fit(X, y).sample_proba(X, 3000, random_state=0)
    assert draws.shape == (3000, 300, 2)
    assert_allclose(draws.sum(axis=2), 1)
    mu, v = model.latent_mean_and_variance(X)
    score = model.link_.slope * mu + model.link_.offset
    # The median of a monotone function of a Gaussian is that of its mean; 3000 draws, steep links.
    assert_allclose(np.median(draws[..., 1], axis=0), 1 / (1 + np.exp(-score)), atol=0.12)
    assert_allclose(
        np.mean(draws[..., 1] > 0.5, axis=0),
        norm.cdf((mu + model.link_.offset / model.link_.slope) / np.sqrt(v)),
        atol=0.05,
    )
    for strategy in (activeml.GreedyBALD, activeml.BatchBALD, activeml.QueryByCommittee):
        asked = strategy(
            sample_predictions_method_name="sample_proba", sample_predictions_dict={"n_samples": 64}, random_state=0
        ).query(X, y, ensemble=classifier, fit_ensemble=False, batch_size=2)
        assert len(set(asked.tolist())) == 2
        assert np.isnan(y[asked]).all()


def test_draws_of_many_rows_are_the_same_functions(activeml, moons, monkeypatch):
    _, X, known = moons
    classifier = for_skactiveml(BayesianLinearSVC(), [0, 1]).fit(X, known.astype(float))
    whole = classifier.sample_proba(X, 4, random_state=1)
    monkeypatch.setattr("softmargin.active.adapter._ROWS_AT_ONCE", 64)
    assert_allclose(classifier.sample_proba(X, 4, random_state=1), whole, rtol=1e-9)


def test_declared_classes_that_were_not_seen_have_a_column(activeml):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "c", "d"])[y].astype(object)
    names[60:] = None
    classifier = for_skactiveml(BayesianSVC(**QUICK), ["a", "b", "c", "d"], missing_label=None).fit(X, names)
    p, draws = classifier.predict_proba(X), classifier.sample_proba(X, 5)
    assert p.shape == (150, 4)
    assert_allclose(p.sum(axis=1), 1)
    assert np.all(p[:, [1, 3]] == 0)
    assert np.all(draws[..., [1, 3]] == 0)
    assert_allclose(draws.sum(axis=2), 1)


def test_one_class_or_none_is_no_reason_to_warn(activeml):
    X = numbered(6)
    classifier = for_skactiveml(BayesianSVC(**QUICK), [0, 1])
    none = classifier.fit(X, np.full(6, np.nan)).predict_proba(X)
    assert_allclose(none, 0.5)
    one = classifier.fit(X, np.array([1, 1, *[np.nan] * 4])).predict_proba(X)
    assert_allclose(one, [[0, 1]] * 6)
    assert classifier.sample_proba(X, 3).shape == (3, 6, 2)


def test_a_fit_that_fails_says_why(activeml):
    X, y = numbered(6), np.array([0, 1, 0, 1, np.nan, np.nan])
    with pytest.raises(ValueError, match="loss must be one of"):
        for_skactiveml(BayesianSVC(loss="square"), [0, 1]).fit(X, y)


def test_the_adapter_can_be_copied_and_pickled(activeml, moons):
    _, X, known = moons
    classifier = for_skactiveml(BayesianSVC(**QUICK), [0, 1], random_state=3).fit(X, known.astype(float))
    copy = pickle.loads(pickle.dumps(classifier))
    assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    assert clone(classifier).get_params()["estimator__n_inducing"] == 4
    # The posterior shines through: the measures of this package work on it.
    assert_array_equal(query(classifier, X, 3, random_state=0), query(classifier.estimator_, X, 3, random_state=0))
