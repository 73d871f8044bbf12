"""Bayesian kernel machines: what comes in, at once or batch by batch."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from softmargin.estimators import machine as estimator
from softmargin.kernels import RBF, Constant
from test_kernel_machine import NAMES, named_iris, named_moons, quick

moons = pytest.fixture(named_moons, scope="module")
iris = pytest.fixture(named_iris, scope="module")


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
