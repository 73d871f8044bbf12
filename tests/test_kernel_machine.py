"""The Bayesian kernel machine, as its users see it."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
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
from softmargin.machine import Machine
from softmargin.monitor import InterruptedFitWarning
from softmargin.rows import Cloud
from softmargin.stein import LinearStein, RBFStein, Whitened

KERNEL = 4.0 * RBF(0.7) + Constant(1.0)
#: Particles in little time.
QUICK = {"kernel": KERNEL, "tune": None, "inference": "stein", "n_frequencies": 16, "n_particles": 8, "n_steps": 10}
QUICK |= {"random_state": 0}
NAMES = np.array(["setosa", "versicolor", "virginica"])


def quick(**settings):
    return BayesianKernelMachine(**(QUICK | settings))


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.25, random_state=0)
    return X, np.where(y == 1, "up", "down")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, NAMES[y]


CHECKED = [
    BayesianKernelMachine(n_frequencies=32),
    BayesianKernelMachine(inference="stein", tune=None, n_frequencies=16, n_particles=4, n_steps=5),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
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


@pytest.mark.parametrize("batch_size", ["auto", 16])
def test_weight_k_is_k_copies_and_weight_zero_is_none(batch_size, moons, iris, rng):
    """To the bit: repeats are merged before anything is chosen."""
    for X, y in (moons, iris):
        X, y = X[:120], y[:120]
        weight = rng.integers(0, 4, size=len(y))
        settings = {"batch_size": batch_size, "class_weight": "balanced", "n_frequencies": "auto"}
        weighted = quick(**settings).fit(X, y, sample_weight=weight)
        repeated = quick(**settings).fit(X.repeat(weight, axis=0), y.repeat(weight))
        assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
        assert_array_equal(weighted.particles_.weights, repeated.particles_.weights)
        assert weighted.bound_ == repeated.bound_
        assert weighted.loo_log_loss_ == repeated.loo_log_loss_


def test_what_is_chosen_for_the_user_does_not_count_repeats(moons, monkeypatch):
    X, y = moons
    monkeypatch.setattr(estimator, "_FREQUENCIES", (1, 1024))
    monkeypatch.setattr(estimator, "_ROWS_FOR_PARTICLES", 500)
    settings = {"inference": "auto", "n_frequencies": "auto"}
    weighted = quick(**settings).fit(X, y, sample_weight=np.full(300, 2.0))
    repeated = quick(**settings).fit(np.vstack([X, X]), np.append(y, y))
    assert weighted.n_frequencies_ == repeated.n_frequencies_ == 32
    assert weighted.n_particles_ == repeated.n_particles_ == 0
    assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_order_of_rows_and_number_of_threads_do_not_matter(moons, iris, rng):
    for X, y in (moons, iris):
        order = rng.permutation(len(y))
        one, two = quick(n_jobs=1).fit(X, y), quick(n_jobs=2).fit(X[order], y[order])
        # Blocks are summed in order whoever computes them.
        assert_array_equal(one.particles_.weights, two.particles_.weights)


def test_class_weights_are_factors_of_the_rows_weights(moons):
    X, y = moons
    by_class = quick(class_weight={"up": 3}).fit(X, y)
    by_row = quick().fit(X, y, sample_weight=np.where(y == "up", 3, 1))
    assert_allclose(by_class.latent_mean_and_variance(X), by_row.latent_mean_and_variance(X), rtol=1e-6)
    assert by_class.predict_proba(X)[:, 1].mean() > quick().fit(X, y).predict_proba(X)[:, 1].mean()
    uneven = np.r_[np.flatnonzero(y == "up")[:50], np.flatnonzero(y == "down")[:150]]
    balanced = quick(class_weight="balanced").fit(X[uneven], y[uneven])
    assert_allclose(balanced.fitted_prior_, 0.5)
    assert_allclose(balanced.data_prior_, [0.75, 0.25])


def test_frames_arrays_and_sparse_matrices_give_one_answer(iris, monkeypatch):
    X, y = iris
    X = np.where(X < 0.4, 0, X)
    expected = quick().fit(X, y).predict_proba(X)
    names = ["sepal", "width", "petal", "other"]
    for data, labels in [
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (pd.DataFrame(X, columns=names), pd.Series(y, dtype="category")),
        (scipy.sparse.csr_array(X), list(y)),
        (np.asfortranarray(X), np.searchsorted(NAMES, y) - 7.0),
    ]:
        model = quick().fit(data, labels)
        assert_allclose(model.predict_proba(data), expected, rtol=1e-7)
        if hasattr(data, "columns"):
            assert_array_equal(model.feature_names_in_, names)
    # Tables that are too large to be searched for repeats stay as they are.
    monkeypatch.setattr(estimator, "MERGED_NUMBERS", 10)
    as_they_are = [quick(batch_size=50).fit(data, y).predict_proba(X) for data in (X, scipy.sparse.csr_array(X))]
    assert_allclose(*as_they_are, rtol=1e-7)
    assert np.mean(as_they_are[0].argmax(axis=1) == expected.argmax(axis=1)) > 0.95  # ten steps of other minibatches


def test_single_precision_agrees_with_double(moons):
    X, y = moons
    wide = quick().fit(X, y)
    narrow = quick().fit(X.astype(np.float32), y)
    # Particles move in single precision either way; rounded rows and ascents that end elsewhere are what differs.
    assert_allclose(narrow.predict_proba(X.astype(np.float32)), wide.predict_proba(X), atol=5e-3)
    assert_allclose(wide.predict_proba(X.astype(np.float32)), wide.predict_proba(X), atol=1e-4)


def test_rows_far_from_the_origin_keep_their_digits(moons):
    X, y = moons
    far = 2.0**27  # 16 is a unit of single precision there, in which particles move
    X = np.round(X * 2**16) / 2**16
    here, there = quick().fit(X, y).predict_proba(X), quick().fit(X + far, y).predict_proba(X + far)
    assert_allclose(there, here, atol=1e-2)


# Batches -----------------------------------------------------------------------------------------


def streamed(model, X, y, size, **settings):
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size], **settings)
    return model


@pytest.fixture(scope="module")
def long_moons():
    X, y = make_moons(1800, noise=0.3, random_state=0)
    return X, np.where(y == 1, "up", "down")


@pytest.mark.parametrize("inference", ["stein", "auto", "cavi"])
def test_batches_come_close_to_a_fit_on_everything(inference, long_moons):
    X, y = long_moons
    model = streamed(quick(inference=inference), X[:800], y[:800], 100, classes=["down", "up"])
    first = quick(inference=inference).partial_fit(X[:100], y[:100], classes=["down", "up"])
    whole = quick(inference=inference).fit(X[:800], y[:800])
    losses = [log_loss(y[800:], fitted.predict_proba(X[800:])) for fitted in (model, first, whole)]
    # A thousand test rows have a log loss of about .22 with a standard error of .01, and what fits share cancels.
    assert losses[0] < losses[1]
    assert losses[0] < losses[2] + 0.02
    # That of 800 forecasts, the early ones by few rows, and of the first batch by leaving rows out.
    assert abs(model.loo_log_loss_ - losses[0]) < 0.08
    assert (model.particles_ is None) == (inference == "cavi")
    assert_allclose(model.fitted_prior_, np.unique(y[:800], return_counts=True)[1] / 800)


def test_batches_follow_a_fit(long_moons, iris):
    X, y = long_moons
    model = quick().fit(X[:400], y[:400])
    link = model.link_
    streamed(model, X[400:800], y[400:800], 100)
    assert model.link_ != link
    assert model._stream.machine.n_rows == 800
    whole = quick().fit(X[:800], y[:800])
    assert log_loss(y[800:], model.predict_proba(X[800:])) < log_loss(y[800:], whole.predict_proba(X[800:])) + 0.02
    # A fit that had no particles, of two classes and of more: particles stand for its rows too.
    for X, y in (long_moons, iris):
        order = np.random.default_rng(0).permutation(150)
        X, y = X[order], y[order]
        model = quick(inference="auto").fit(X[:140], y[:140])
        assert model.particles_ is None
        model.partial_fit(X[130:150], y[130:150])
        assert model.n_particles_ == 8
        assert model._stream.machine.n_rows == 160
        assert model.score(X[:140], y[:140]) > 0.85


def test_forgetting_follows_the_times(long_moons):
    X, y = long_moons
    turned = np.where(y == "up", "down", "up")
    losses = []
    for forgetting in (0.0, 0.5):
        model = quick(forgetting=forgetting, batch_size=10, step_size=0.3)
        streamed(model, X[:400], y[:400], 100, classes=["down", "up"])
        streamed(model, X[400:1000], turned[400:1000], 100)
        losses.append(log_loss(turned[1000:], model.predict_proba(X[1000:])))
    # Losses of about .3, by all on the same 800 rows; particles follow less quickly than a Gaussian would.
    assert losses[1] < losses[0] - 0.02


def test_small_batches_after_a_large_one_take_no_leaps(long_moons):
    X, y = long_moons
    model = quick(forgetting=1.0).fit(X[:800], y[:800])
    before = model.kernel_.theta
    streamed(model, X[800:808], y[800:808], 1)
    # Sixteen steps of at most .05 each, whatever a batch weighs; Adam's first may be a few times as long.
    assert np.abs(model.kernel_.theta - before).max() < 2.0
    assert np.isfinite(model.predict_proba(X)).all()


def test_classes_that_the_first_batch_lacks(iris):
    X, y = iris
    order = np.r_[0:100, np.random.default_rng(0).permutation(150)]
    model = quick(kernel=4.0 * RBF(2.0) + Constant(1.0))
    model.partial_fit(X[:100], y[:100], classes=NAMES)
    assert model.predict_proba(X).shape == (150, 3)
    for start in range(100, 250, 50):
        model.partial_fit(X[order[start : start + 50]], y[order[start : start + 50]])
    assert_array_equal(model.classes_, NAMES)
    assert model.predict_proba(X[y == "virginica"])[:, 2].mean() > 0.5
    before = model.predict_proba(X)
    assert_array_equal(model.partial_fit(X[:3], y[:3], sample_weight=[0, 0, 0]).predict_proba(X), before)
    one_class = quick().partial_fit(X[:50], y[:50], classes=NAMES)
    assert np.isfinite(one_class.predict_proba(X)).all()


@pytest.mark.parametrize("temperature", [1.0, 60.0, "mean"])
def test_the_temperature_is_kept_unless_it_is_that_of_a_mean(temperature, long_moons):
    X, y = long_moons
    model = streamed(quick(temperature=temperature), X[:120], y[:120], 60, classes=["down", "up"])
    # The first batch has sixty rows, which are no reason to take sixty for their number.
    assert model._stream.machine.temperature == (120.0 if temperature == "mean" else temperature)
    assert model._stream.machine.n_rows == 120.0


def test_weights_are_copies_in_batches(long_moons):
    X, y = long_moons
    weight = np.random.default_rng(0).integers(0, 4, size=200)
    weighted, repeated = (quick(class_weight={"up": 2.0}) for _ in range(2))
    for rows in (slice(0, 100), slice(100, 200)):
        weighted.partial_fit(X[rows], y[rows], classes=["down", "up"], sample_weight=weight[rows])
        copies = np.repeat(np.arange(200)[rows], weight[rows])
        repeated.partial_fit(X[copies], y[copies], classes=["down", "up"])
    assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_streams_can_be_stored_and_fit_begins_anew(long_moons):
    X, y = long_moons
    model = streamed(quick(), X[:200], y[:200], 100, classes=["down", "up"])
    stored = pickle.loads(pickle.dumps(model)).partial_fit(X[200:300], y[200:300])
    assert_array_equal(stored.predict_proba(X), model.partial_fit(X[200:300], y[200:300]).predict_proba(X))
    assert_array_equal(model.fit(X[:99], y[:99]).predict_proba(X), quick().fit(X[:99], y[:99]).predict_proba(X))


def test_names_of_columns_are_kept_and_checked(long_moons):
    X, y = long_moons
    frame = pd.DataFrame(X, columns=["left", "right"])
    model = quick().partial_fit(frame[:100], y[:100], classes=["down", "up"])
    assert model.feature_names_in_.tolist() == ["left", "right"]
    assert model.partial_fit(frame[100:200], y[100:200]).n_features_in_ == 2
    before = model.predict_proba(frame)
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["right", "left"]], y)
    with pytest.raises(ValueError, match="declared as"):
        model.partial_fit(frame[:2], ["up", "left"])
    assert_array_equal(model.predict_proba(frame), before)


# Around it ---------------------------------------------------------------------------------------


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
        ({"multi_class": "crammer-singer"}, "goes with loss='hinge' or 'hinge-augmented', got 'auto'"),
        ({"multi_class": "softmax", "loss": "hinge"}, "goes with loss='logistic', got 'hinge'"),
        ({"tune": "alternate"}, "tune must be one of"),
        ({"tune": "bound", "loss": "logistic-taylor"}, "no bound to tune by"),
        ({"kernel": "linear"}, "kernel must be one of 'rbf', 'matern'"),
        ({"kernel": RBF(1.0) * Matern(1.0)}, "multiplies two that have some; .* or use inference='cavi'"),
        ({"kernel": RBF() * Linear()}, "has no Fourier features, because of RBF"),
        ({"kernel": RBF((1.0, 2.0, 3.0))}, "3 length-scales, but the data has 2 columns"),
        ({"n_frequencies": 0}, "n_frequencies must be an integer >= 1 or 'auto', got 0"),
        ({"frequencies": "sobol"}, "frequencies must be one of 'plain', 'orthogonal', 'quasi'"),
        ({"n_particles": 2.5}, "n_particles must be an integer >= 1 or 'auto', got 2.5"),
        ({"learn": "kernel"}, "learn must be one of 'widths', 'all', 'weights', got 'kernel'"),
        ({"start": "mode"}, "start must be one of 'belief', 'prior'"),
        ({"stein_kernel": "linear"}, "stein_kernel must be one of 'auto', 'rbf'"),
        ({"stein_kernel": RBFStein}, "stein_kernel must be one of 'auto', 'rbf'"),
        ({"stein_kernel": Whitened(LinearStein())}, "8 particles have no covariance in 34 coordinates"),
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
