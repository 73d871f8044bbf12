"""What estimators make of steps by Adam."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons

from softmargin import BayesianGPC, BayesianLinearSVC, BayesianSVC
from softmargin.monitor import InterruptedFitWarning
from test_adam import KERNEL


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def both(classifier, X, y, **settings):
    return (classifier(inference=how, random_state=0, **settings).fit(X, y) for how in ("cavi", "adam"))


@pytest.mark.parametrize("table", ["moons", "iris"])
@pytest.mark.parametrize("classifier", [BayesianSVC, BayesianGPC, BayesianLinearSVC])
def test_predictions_are_those_of_coordinate_ascent(classifier, table, request):
    X, y = request.getfixturevalue(table)
    settings = {} if classifier is BayesianLinearSVC else {"n_inducing": 40}
    ascended, climbed = both(classifier, X, y, **settings)
    assert climbed.stop_reason_ == "converged"
    # Both end within a thousandth of the bound, a few tenths of a nat.
    assert abs(climbed.bound_ - ascended.bound_) < 3e-3 * abs(ascended.bound_)
    assert abs(climbed.loo_log_loss_ - ascended.loo_log_loss_) < 5e-3
    assert_allclose(climbed.predict_proba(X), ascended.predict_proba(X), atol=0.05)
    assert np.mean(climbed.predict(X) == ascended.predict(X)) > 0.99
    assert type(climbed._view) is type(ascended._view)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_minibatches_and_lengths_are_heard(moons):
    X, y = moons
    settings = {"kernel": KERNEL, "tune": None, "n_inducing": 30, "inference": "adam", "random_state": 0}
    models = [
        BayesianSVC(**settings, **more).fit(X, y)
        for more in ({}, {"batch_size": 100}, {"batch_size": 100, "learning_rate": (20.0, 0.7)})
    ]
    assert len({model.bound_ for model in models}) == 3
    for model in models[1:]:
        assert_allclose(model.predict_proba(X), models[0].predict_proba(X), atol=0.1)


def test_batches_are_added_to_what_it_found(moons):
    X, y = moons
    settings = {"kernel": KERNEL, "tune": None, "n_inducing": 30}
    whole = BayesianSVC(random_state=0, **settings).fit(X, y)
    models = list(both(BayesianSVC, X[:300], y[:300], **settings))
    for model in models:
        model.partial_fit(X[300:], y[300:])
    for model in models:
        assert np.mean(model.predict(X) == whole.predict(X)) > 0.98
    assert_allclose(models[0].predict_proba(X), models[1].predict_proba(X), atol=0.05)


def test_more_columns_than_rows_are_no_trouble():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 200))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    ascended, climbed = both(BayesianLinearSVC, X, y, tol=1e-4)
    assert_allclose(climbed.predict_proba(X), ascended.predict_proba(X), atol=0.05)


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize("stop", ["interrupt", "time"])
def test_a_fit_that_is_cut_short_keeps_its_model(stop, moons, interrupt_pass):
    X, y = moons
    settings = {"kernel": KERNEL, "tune": None, "n_inducing": 30, "inference": "adam", "random_state": 0}
    if stop == "interrupt":
        interrupt_pass(30)
        with pytest.warns(InterruptedFitWarning, match="the best model found so far"):
            model = BayesianSVC(**settings).fit(X, y)
    else:
        model = BayesianSVC(**settings, max_time=1e-9).fit(X, y)
    assert model.stop_reason_ == stop
    assert model.n_iter_ >= 1
    assert stop == "time" or model.score(X, y) > 0.85
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("refused", ["selected", "missing"])
def test_what_is_more_than_one_gaussian_is_refused(refused, moons):
    X, y = moons[0].copy(), moons[1]
    model = BayesianLinearSVC(inference="adam", prior="laplace-zero" if refused == "selected" else "ridge")
    if refused == "missing":
        X[3, 1] = np.nan
    with pytest.raises(ValueError, match="inference='adam' fits a single Gaussian for the weights"):
        model.fit(X, y)
    assert not hasattr(model, "link_")
