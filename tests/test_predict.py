"""Labels of two classes come from means alone, and are those of the probabilities."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, chunks
from softmargin.gaussian import from_natural
from softmargin.kernels import RBF
from softmargin.links import LogisticLink, ProbitLink, is_decided, settled
from softmargin.rows import Features

X, y = make_classification(300, n_features=6, flip_y=0.2, random_state=0)
GROUPED = pd.DataFrame(X, columns=list("abcdef")).assign(group=np.arange(300) % 7)
GAPS = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)

MODELS = {
    "kernel": BayesianSVC(tune=None),
    "kernel, single precision": BayesianSVC(tune=None, precision="float32"),
    "kernel, probit": BayesianSVC(tune=None, link="probit"),
    "kernel, Gibbs": BayesianSVC(tune=None, inference="gibbs", n_draws=20, n_chains=1, n_inducing=20),
    "logistic": BayesianGPC(tune=None, n_inducing=20),
    "linear": BayesianLinearSVC(),
    "linear, selection": BayesianLinearSVC(prior="laplace-zero"),
    "mixed": BayesianMixedSVC(groups=["group"]),
    "mixed, kernel": BayesianMixedSVC(groups=["group"], kernel="rbf", n_inducing=10),
    "waves": BayesianKernelMachine(inference="cavi", n_frequencies=20, tune=None),
    "particles": BayesianKernelMachine(inference="stein", n_frequencies=20, n_particles=4, n_steps=5, tune=None),
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    kept = {}

    def of(name):
        if name not in kept:
            kept[name] = MODELS[name].set_params(random_state=0).fit(table(name), y)
        return kept[name]

    return of


def table(name):
    return GROUPED if name.startswith("mixed") else X


def most_probable(model, rows):
    return model.classes_[model.predict_proba(rows).argmax(axis=1)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*(R-hat|effective)")
@pytest.mark.parametrize("name", MODELS)
def test_labels_are_those_of_the_largest_probability(fitted, name):
    model = fitted(name)
    assert np.array_equal(model.predict(table(name)), most_probable(model, table(name)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*(R-hat|effective)")
@pytest.mark.parametrize("name", MODELS)
def test_means_alone_are_the_means_with_variances(fitted, name):
    model = fitted(name)
    rows = model._numbers(table(name))
    alone, limit = model._view.means(rows.astype(model._dtype))
    mu, v = model._view.moments(rows.astype(model._dtype))
    assert np.array_equal(alone, mu)
    assert np.all(limit >= v * (1 - 1e-6))  # the precision of the rows may be single


def test_limits_of_variances_include_what_weights_leave_over():
    rng, belief = np.random.default_rng(0), from_natural(np.diag([1e3, 1e4]), np.ones(2))
    features = Features(rng.normal(size=(5, 2)), np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    _, limit = features.means(belief)
    assert np.all(limit >= features.moments(belief).v)
    assert np.all(limit <= features.leftover + 0.1)


def test_means_of_many_classes():
    labels = np.arange(300) % 3
    for model in (BayesianSVC(tune=None, n_inducing=20), BayesianLinearSVC()):
        view = model.fit(X, labels)._view
        for alone, whole in zip(view.means(X), view.moments(X), strict=True):
            assert alone.shape == (300, 3)
            assert np.array_equal(alone, whole)


@pytest.mark.parametrize("name", ["kernel", "linear", "kernel, probit"])
def test_no_variance_is_computed(fitted, name, monkeypatch):
    model = fitted(name)

    def moments(*_):
        raise AssertionError("a variance was computed")

    monkeypatch.setattr(type(model._view), "moments", moments)
    assert model.score(X, y) == np.mean(model.predict(X) == y) > 0.6
    assert model.score(chunks.Batches([(X[:100], y[:100]), (X[100:], y[100:])])) == model.score(X, y)


def test_ties_are_decided_as_probabilities_decide_them():
    """Symmetric classes, and rows where the mean is zero up to rounding: the first class."""
    model = BayesianSVC(RBF(1.0), tune=None, link="logistic").fit([[-1.0], [1.0]], ["b", "a"])
    between = np.array([[0.0], [1e3], [-1e3], [0.5], [1e-13], [-1e-13]])
    mu, v = model.latent_mean_and_variance(between)
    assert not is_decided(model.link_.side(mu), v)
    assert np.array_equal(model.predict(between), most_probable(model, between))
    assert model.predict([[0.0]]) == ["a"]


def test_far_rows_are_decided_as_probabilities_decide_them():
    """Along the boundary, where the mean stays small and the standard deviation becomes enormous."""
    model = BayesianLinearSVC().fit(X, y)
    along = np.zeros((1, 6))
    along[0, :2] = model.coef_[0, 1], -model.coef_[0, 0]
    far = X.mean(axis=0) + np.array([[1e14], [-1e14], [1e13]]) * along
    assert np.abs(model.decision_function(far)).max() < 1e-12
    assert np.array_equal(model.predict(far), most_probable(model, far))


def test_missing_entries_are_predicted_before_labels():
    model = BayesianLinearSVC().fit(GAPS, y)
    assert np.array_equal(model.predict(GAPS), most_probable(model, GAPS))
    assert np.array_equal(model.predict(X), most_probable(model, X))


@pytest.mark.parametrize("link", [LogisticLink(2.0, -0.7, 0.3), ProbitLink()])
def test_sides_have_the_signs_of_scores(link):
    rng = np.random.default_rng(0)
    mu, v = 10 ** rng.uniform(-5, 3, size=200) * rng.choice([-1, 1], size=200), 10 ** rng.uniform(-6, 12, size=200)
    assert is_decided(link.side(mu), 0 * v)
    assert not is_decided(link.side(mu), v)
    far = np.abs(link.side(mu)) > 1e-6 * np.sqrt(1 + v)
    assert np.array_equal(np.sign(link.side(mu))[far], np.sign(settled(link.score(mu, v)))[far])
