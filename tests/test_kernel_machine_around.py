"""Bayesian kernel machines: copies, interruptions, limits and bad parameters."""

import itertools
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from softmargin.kernels import RBF, Linear, Matern
from softmargin.machine import Machine
from softmargin.monitor import InterruptedFitWarning
from softmargin.stein import LinearStein, RBFStein, Whitened
from test_kernel_machine import named_iris, named_moons, quick

moons = pytest.fixture(named_moons, scope="module")
iris = pytest.fixture(named_iris, scope="module")


@pytest.mark.parametrize("inference", ["stein", "cavi"])
def test_survives_pickle_and_clone(inference, moons, iris):
    for X, y in (moons, iris):
        model = quick(inference=inference, stein_kernel=RBFStein(2.0)).fit(X, y)
        assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
        assert clone(model).get_params() == model.get_params()
        assert_array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))


def interrupted_at(number, monkeypatch):
    """Whoever asks for scores, counted from none, is interrupted."""
    calls, scores = itertools.count(), Machine.scores

    def interrupted(*args):
        if next(calls) == number:
            raise KeyboardInterrupt
        return scores(*args)

    monkeypatch.setattr(Machine, "scores", interrupted)


@pytest.mark.parametrize("number", [0, 7])
def test_interrupting_keeps_the_particles(number, moons, monkeypatch):
    X, y = moons
    interrupted_at(number, monkeypatch)
    with pytest.warns(InterruptedFitWarning, match="Interrupted"):
        model = quick().fit(X, y)
    assert model.stop_reason_ == "interrupt"
    assert model._stream.state.count == number
    assert model.score(X, y) > 0.9


def test_interrupting_a_batch_keeps_the_particles(moons, monkeypatch):
    X, y = moons
    model = quick().partial_fit(X[:200], y[:200], classes=["down", "up"])
    interrupted_at(1, monkeypatch)
    with pytest.warns(InterruptedFitWarning, match="Interrupted"):
        model.partial_fit(X[200:], y[200:])
    assert model.score(X, y) > 0.9


def test_interrupting_the_ascent_leaves_draws_of_the_best_belief(moons, interrupt_pass):
    X, y = moons
    interrupt_pass(2)
    with pytest.warns(InterruptedFitWarning, match="Interrupted"):
        model = quick().fit(X, y)
    assert model.n_particles_ == 8
    assert model._stream.state.count == 0
    assert model.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore:Time was up")
def test_limits_on_time_are_kept(moons):
    X, y = moons
    model = quick(max_time=1e-9).fit(X, y)
    assert model.stop_reason_ == "time"
    assert model.n_particles_ == 8
    assert np.isfinite(model.predict_proba(X)).all()
    model = quick().fit(X, y).set_params(max_time=1e-9).partial_fit(X, y)
    assert model.stop_reason_ == "time"
    assert model.score(X, y) > 0.9


def test_the_history_has_passes_and_then_looks(moons):
    X, y = moons
    model = quick(n_steps=40).fit(X, y)
    assert [entry["pass"] for entry in model.history_] == list(range(1, model.n_iter_ + 1))
    plain = quick(inference="cavi", tol=3e-3).fit(X, y)
    assert model.n_iter_ == plain.n_iter_ + 20
    assert_allclose(model.bound_, plain.bound_, rtol=1e-9)


def test_progress_is_drawn_only_when_asked_for(moons, capsys):
    X, y = moons
    quick().fit(X, y)
    assert capsys.readouterr().err == ""
    model = quick(verbose=True).fit(X, y)
    drawn = capsys.readouterr().err
    assert "BayesianKernelMachine" in drawn
    assert drawn.endswith("\n")
    model.partial_fit(X, y)
    assert capsys.readouterr().err.endswith("\n")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inference": "gibbs"}, "inference must be one of 'auto', 'stein', 'cavi', 'svi', 'adam'"),
        ({"loss": "hinges"}, "loss must be one of 'auto'"),
        ({"multi_class": "pairs"}, "multi_class must be one of"),
        ({"multi_class": "crammer-singer"}, "requires loss='hinge' or 'hinge-augmented', got 'auto'"),
        ({"multi_class": "softmax", "loss": "hinge"}, "requires loss='logistic', got 'hinge'"),
        ({"tune": "alternate"}, "tune must be one of"),
        ({"tune": "bound", "loss": "logistic-taylor"}, "no bound to tune by"),
        ({"kernel": "linear"}, "kernel must be one of 'rbf', 'matern'"),
        ({"kernel": RBF(1.0) * Matern(1.0)}, "multiplies two; replace them .* or use inference='cavi'"),
        ({"kernel": RBF() * Linear()}, "has no Fourier features, because of RBF"),
        ({"kernel": RBF((1.0, 2.0, 3.0))}, "3 length-scales, but the data has 2 columns"),
        ({"n_frequencies": 0}, "n_frequencies must be an integer >= 1 or 'auto', got 0"),
        ({"frequencies": "sobol"}, "frequencies must be one of 'plain', 'orthogonal', 'quasi'"),
        ({"n_particles": 2.5}, "n_particles must be an integer >= 1 or 'auto', got 2.5"),
        ({"learn": "kernel"}, "learn must be one of 'widths', 'all', 'weights', got 'kernel'"),
        ({"start": "mode"}, "start must be one of 'belief', 'prior'"),
        ({"stein_kernel": "linear"}, "stein_kernel must be one of 'auto', 'rbf'"),
        ({"stein_kernel": RBFStein}, "stein_kernel must be one of 'auto', 'rbf'"),
        ({"stein_kernel": Whitened(LinearStein())}, "8 particles are too few for a covariance in 34 coordinates"),
        ({"temperature": 0.0}, "temperature must be a positive number"),
        ({"temperature": "hot"}, "temperature must be a positive number"),
        ({"n_steps": "many"}, "n_steps must be an integer >= 1 or 'auto'"),
        ({"step_size": -1.0}, "step_size must be a positive number"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1 or 'auto'"),
        ({"forgetting": 2.0}, "forgetting must be a number from 0 to 1"),
        ({"max_time": 0}, "max_time must be a positive number or None"),
        ({"link": "softmax"}, "link must be one of"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(moons, settings, message):
    X, y = moons
    with pytest.raises(ValueError, match=message):
        quick(**settings).fit(X[:100], y[:100])


def test_products_of_kernels_do_without_particles(moons):
    X, y = moons
    model = quick(kernel=4.0 * RBF(1.0) * Matern(1.0), inference="cavi").fit(X, y)
    assert model.score(X, y) > 0.9
