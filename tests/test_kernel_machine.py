"""The Bayesian kernel machine, as its users see it."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import BayesianKernelMachine, uncertainty
from softmargin.estimators import machine as estimator
from softmargin.frequencies import HOWS
from softmargin.gaussian import Belief, ClassBelief
from softmargin.kernels import RBF, Constant, Linear, Matern
from softmargin.links import ProbitLink, SoftmaxLink
from softmargin.rows import Cloud
from softmargin.stein import LinearStein, Whitened

KERNEL = 4.0 * RBF(0.7) + Constant(1.0)
#: Particles in little time.
QUICK = {"kernel": KERNEL, "tune": None, "inference": "stein", "n_frequencies": 16, "n_particles": 8, "n_steps": 10}
QUICK |= {"random_state": 0}
NAMES = np.array(["setosa", "versicolor", "virginica"])


def quick(**settings):
    return BayesianKernelMachine(**(QUICK | settings))


def named_moons():
    X, y = make_moons(300, noise=0.25, random_state=0)
    return X, np.where(y == 1, "up", "down")


moons = pytest.fixture(named_moons, scope="module")


def named_iris():
    X, y = load_iris(return_X_y=True)
    return X, NAMES[y]


iris = pytest.fixture(named_iris, scope="module")


CHECKED = [
    BayesianKernelMachine(n_frequencies=32),
    BayesianKernelMachine(inference="stein", tune=None, n_frequencies=16, n_particles=4, n_steps=5),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The first batch has")  # the checks stream few rows
@parametrize_with_checks(CHECKED)
def test_scikit_learn_check(estimator, check):
    check(estimator)


# What is found -----------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["auto", "stein", "cavi", "svi", "adam"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_inference_finds_the_moons_and_the_iris(inference, moons, iris):
    for (X, y), kernel in ((moons, KERNEL), (iris, 4.0 * RBF(2.0) + Constant(1.0))):
        model = quick(inference=inference, kernel=kernel, max_iter=20).fit(X[::2], y[::2])
        assert model.score(X[1::2], y[1::2]) > 0.9
        assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.3
        has_particles = inference == "stein"
        assert (model.particles_ is not None) == has_particles
        assert model.n_particles_ == (8 if has_particles else 0)
        assert isinstance(model.belief_, Cloud if has_particles else (Belief, ClassBelief))


def test_few_rows_need_no_particles_and_many_have_them(monkeypatch, moons):
    X, y = moons
    assert quick(inference="auto").fit(X, y).particles_ is None
    monkeypatch.setattr(estimator, "_ROWS_FOR_PARTICLES", 299)
    model = quick(inference="auto").fit(X, y)
    assert model.n_particles_ == 8
    assert_array_equal(model.predict_proba(X), quick().fit(X, y).predict_proba(X))


def test_without_particles_the_ascent_goes_all_the_way(moons):
    X, y = moons
    one, other = (quick(inference=how, tol=1e-6).fit(X, y) for how in ("auto", "cavi"))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.stop_reason_ == other.stop_reason_ == "converged"


STEIN_KERNELS = ["auto", "rbf", Whitened(LinearStein(), "spread")]


@pytest.mark.parametrize(
    ("learn", "start", "stein_kernel"),
    [
        *itertools.product(["widths", "all", "weights"], ["belief"], STEIN_KERNELS),
        *itertools.product(["widths", "all"], ["prior"], STEIN_KERNELS[:2]),
    ],
    ids=repr,
)
def test_every_word_for_particles(learn, start, stein_kernel, moons):
    X, y = moons
    settings = {"n_steps": 100, "batch_size": 32, "step_size": 0.2} if start == "prior" else {}
    model = quick(learn=learn, start=start, stein_kernel=stein_kernel, **settings).fit(X[:200], y[:200])
    weights, theta = model.particles_
    assert weights.shape == (8, 33, 1)
    assert theta.shape == (1 if learn == "weights" else 8, 3)
    moved = np.abs(theta - KERNEL.theta).max(axis=0) > 1e-6
    assert_array_equal(moved, {"widths": [0, 1, 0], "all": [1, 1, 1], "weights": [0, 0, 0]}[learn])
    assert_allclose(model.kernel_.theta, theta.mean(axis=0), rtol=1e-6)
    assert model.score(X[200:], y[200:]) > 0.85
    assert model.stop_reason_ == "steps"


@pytest.mark.parametrize("n_particles", [1, 6])
def test_from_the_prior_all_rows_at_once_lead_to_the_same_place(n_particles, moons):
    """Directions far from rest, in units that are not those of the density: plain steps would never settle."""
    X, y = moons
    losses = []
    for start in ("belief", "prior"):
        model = quick(start=start, n_particles=n_particles, n_steps="auto", step_size=0.1).fit(X[:100], y[:100])
        losses.append(log_loss(y[100:], model.predict_proba(X[100:])))
    assert losses[1] < losses[0] + 0.05  # about .2, with a standard error of .02 from the test rows


MIXED = 2.0 * RBF((1.0, 0.5)) + 0.5 * Matern(1.0) + 0.1 * Linear() + Constant(1.0)


@pytest.mark.parametrize(
    ("kernel", "how"),
    [*itertools.product(["rbf"], HOWS), *itertools.product(["matern", MIXED, RBF()], ["orthogonal"])],
    ids=repr,
)
def test_every_kernel_and_every_draw_of_frequencies(kernel, how, moons):
    X, y = moons
    model = quick(kernel=kernel, frequencies=how).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.8  # untuned, and a linear rule has .85
    assert model.n_frequencies_ == 16


@pytest.mark.parametrize(
    "way",
    [
        {"loss": "hinge"},
        {"loss": "probit", "multi_class": "ovr"},
        {"loss": "hinge", "multi_class": "crammer-singer"},
        {"multi_class": "weston-watkins"},
        {"multi_class": "softmax"},
        {"loss": "logistic-jj"},
    ],
    ids=str,
)
def test_every_way_for_classes_to_meet(way, iris):
    X, y = iris
    model = quick(kernel=4.0 * RBF(2.0) + Constant(1.0), **way).fit(X[::2], y[::2])
    assert model.particles_.weights.shape == (8, 33, 3)
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.3


def test_the_kernel_is_tuned_and_particles_are_those_of_the_gaussian_posterior(moons):
    """Of few rows little is left to find: the same kernel, and latent moments like those of the Gaussian."""
    X, y = moons
    settings = {"n_frequencies": 64, "random_state": 0}
    plain = BayesianKernelMachine(inference="cavi", **settings).fit(X[:200], y[:200])
    model = BayesianKernelMachine(inference="stein", learn="weights", **settings).fit(X[:200], y[:200])
    assert len(model.tune_history_) > 0
    assert_allclose(model.kernel_.theta, plain.kernel_.theta, rtol=1e-6)
    (mu, v), (mean, variance) = plain.latent_mean_and_variance(X), model.latent_mean_and_variance(X)
    # Means of 32 particles have a standard error of .18 deviations; their variances, one of a quarter.
    assert np.sqrt(np.mean((mean - mu) ** 2 / v)) < 0.4
    assert 0.6 < np.mean(variance / v) < 1.4
    assert np.mean(model.predict(X) == plain.predict(X)) > 0.98


@pytest.mark.parametrize("temperature", [0.25, 4.0, "mean"])
def test_the_hotter_the_wider(temperature, moons):
    X, y = moons
    settings = {"learn": "weights", "n_steps": 100, "n_particles": 16}
    plain = quick(**settings).fit(X[:100], y[:100]).latent_mean_and_variance(X)[1].mean()
    other = quick(**settings, temperature=temperature).fit(X[:100], y[:100]).latent_mean_and_variance(X)[1].mean()
    # A colder logistic loss is also a steeper one, with less to say beyond its margin: a Gaussian's ratio is .6 there.
    assert other < 0.9 * plain if temperature == 0.25 else other > 1.2 * plain
    # The prior's variance is 5, and that of 16 particles has a standard error of a third of it in any one direction.
    assert other < 6.5


def test_numbers_that_are_chosen_for_the_user(moons, monkeypatch):
    X, y = moons
    model = BayesianKernelMachine(KERNEL, tune=None, inference="stein", n_steps=1, random_state=0).fit(X, y)
    assert (model.n_particles_, model.n_frequencies_) == (32, 128)
    monkeypatch.setattr(estimator, "_WORK", 16)
    monkeypatch.setattr(estimator, "_FREQUENCIES", (16, 1024))
    model = clone(model).fit(X, y)
    assert (model.n_particles_, model.n_frequencies_) == (16, 32)  # a power of two near 300 / 8
    assert quick(n_frequencies=7, n_particles=3).fit(X, y).particles_.weights.shape == (3, 15, 1)


@pytest.mark.parametrize(
    ("n_rows", "n_particles", "n_steps"),
    [(200, 32, 100), (3000, 32, 234), (30_000, 16, 2343), (60_000, 8, 4687), (500_000, 4, 8000)],
)
def test_more_rows_take_more_steps_of_fewer_particles(n_rows, n_particles, n_steps):
    found, journey = BayesianKernelMachine()._planned(n_rows)
    assert (found, journey.n_steps) == (n_particles, n_steps)
    assert BayesianKernelMachine(n_particles=5)._planned(n_rows)[0] == 5
    assert BayesianKernelMachine(n_steps=1000)._planned(n_rows)[0] == 32


# Predictions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["stein", "cavi"])
@pytest.mark.parametrize("link", ["loo", "probit", "logistic"])
def test_prediction_probability_and_score_never_contradict_each_other(inference, link, moons, iris):
    for X, y in (moons, iris):
        model = quick(inference=inference, link=link).fit(X, y)
        wide = np.vstack([X, 100 * X, -1e6 * X[:20], 0 * X[:1]])
        p, score = model.predict_proba(wide), model.decision_function(wide)
        mu, v = model.latent_mean_and_variance(wide)
        assert all(np.isfinite(part).all() for part in (p, score, mu, v))
        assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(wide))
        assert_array_equal(model.classes_, np.unique(y))
        assert v.min() > 0
        if len(model.classes_) > 2:
            assert p.shape == score.shape == mu.shape == (len(wide), 3)
            assert isinstance(model.link_, ProbitLink if link == "probit" else SoftmaxLink)
        else:
            assert_array_equal(score > 0, p[:, 1] > p[:, 0])
        assert (model.loo_log_loss_ is None) == (link != "loo")


def test_latent_moments_are_those_of_particles(moons, iris):
    for X, y in (moons, iris):
        model = quick().fit(X, y)
        mean, variance = model.latent_mean_and_variance(X[:9])
        draws = model.sample_latent(X[:9], n_samples=4000, random_state=0)
        assert draws.shape == (*mean.shape, 4000)
        # Eight particles, each drawn about 500 times: five standard errors of a mean, and of a variance.
        assert_allclose(draws.mean(axis=-1), mean, atol=5 * np.sqrt(variance.max() / 4000))
        assert_allclose(draws.var(axis=-1), variance, rtol=0.15)
        assert len(np.unique(draws[0].reshape(-1, 4000), axis=1).T) == 8
        assert_array_equal(model.sample_latent(X[:9], 3, random_state=1), model.sample_latent(X[:9], 3, random_state=1))


def test_latent_draws_are_functions(moons):
    X, y = moons
    for inference in ("stein", "cavi"):
        model = quick(inference=inference).fit(X, y)
        draws = model.sample_latent(np.vstack([X[:1], X[:1] + 1e-4]), 50, random_state=0)
        assert np.abs(draws[0] - draws[1]).max() < 0.02 * draws.std()


def test_many_rows_are_drawn_block_by_block(moons, monkeypatch):
    X, y = moons
    model = quick().fit(X, y)
    whole = model.sample_latent(X, 3, random_state=0)
    monkeypatch.setattr(estimator, "rows_in_block", lambda width: 37)
    assert_allclose(model.sample_latent(X, 3, random_state=0), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_particles", [1, 8])
def test_uncertainty_can_be_asked_for(n_particles, moons, iris):
    for X, y in (moons, iris):
        model = quick(n_particles=n_particles).fit(X, y)
        ratio, information = uncertainty.variation_ratio(model, X), uncertainty.mutual_information(model, X)
        entropy = uncertainty.entropy(model, X)
        for values in (ratio, information, entropy):
            assert values.shape == (len(X),)
            assert np.isfinite(values).all()
        assert np.all((ratio >= 0) & (ratio <= 1))
        if y is moons[1]:  # of many classes links are near mixtures only
            assert np.all(information <= entropy + 1e-6)
        if n_particles == 1:  # one function, of which nothing is unsure
            assert information.max() < 1e-6


# What comes in -----------------------------------------------------------------------------------
