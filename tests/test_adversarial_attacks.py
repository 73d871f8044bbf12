"""Attacks, who notices them, and what is refused."""

import copy
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import (
    BayesianLinearSVC,
    BayesianMixedSVC,
    BayesianSVC,
    uncertainty,
)
from softmargin.adversarial import (
    AdversarialDetector,
    art_classifier,
    detection_roc,
    fgsm,
    input_gradients,
    log_loss_gradients,
)
from softmargin.links import LogisticLink, SoftmaxLink, log_losses
from softmargin.validation import codes_of
from test_adversarial import differences, fitted_flowers, fitted_moons, three_grades

table = pytest.fixture(three_grades, scope="module")
moons = pytest.fixture(fitted_moons, scope="module")
flowers = pytest.fixture(fitted_flowers, scope="module")


# Attacks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["moons", "flowers"])
def test_an_attack_makes_the_label_less_likely(name, request):
    model, X, y = request.getfixturevalue(name)
    rows, own = np.arange(len(y)), np.searchsorted(model.classes_, y)
    attacked = fgsm(model, X, y, eps=1e-3)
    assert_allclose(np.abs(attacked - X), 1e-3)
    assert np.all(model.predict_proba(attacked)[rows, own] < model.predict_proba(X)[rows, own])
    assert model.score(fgsm(model, X, y, eps=0.5), y) < model.score(X, y) - 0.1
    predicted = model.predict(X)
    assert_array_equal(fgsm(model, X, eps=0.1), fgsm(model, X, predicted, eps=0.1))


def test_no_strength_is_no_attack(moons):
    model, X, y = moons
    assert_array_equal(fgsm(model, X, y, eps=0.0), X)


def test_attacks_stay_within_limits_and_keep_the_kind_of_numbers(moons):
    model, X, _ = moons
    clipped = fgsm(model, X, eps=0.3, clip=(-0.5, 1.0))
    assert clipped.min() == -0.5
    assert clipped.max() == 1.0
    assert fgsm(model, X.astype(np.float32), eps=0.1, clip=(-0.5, 1.0)).dtype == np.float32
    assert fgsm(model, [[0, 1], [1, 0]], eps=0.1).dtype == np.float64
    moved = np.abs(fgsm(model, X, eps=[0.2, 0.0]) - X)
    assert_allclose(moved, np.broadcast_to([0.2, 0.0], X.shape), atol=1e-12)


def test_frames_and_sparse_rows_are_attacked_as_arrays(moons):
    model, X, y = moons
    wanted = fgsm(model, X, eps=0.1)
    assert_array_equal(fgsm(model, scipy.sparse.csr_matrix(X), eps=0.1), wanted)
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = BayesianSVC(random_state=0).fit(frame, y)
    assert_array_equal(fgsm(named, frame, eps=0.1), wanted)


def test_rows_beyond_doubt_are_attacked_all_the_same(flowers):
    model, X, y = copy.copy(flowers[0]), *flowers[1:]
    model.link_ = SoftmaxLink(slope=1e6, damping=0.0)
    assert not log_loss_gradients(model, X[:40], y[:40]).any()  # no slope is left: probabilities are one
    attacked = fgsm(model, X[:40], y[:40], eps=0.1)
    assert_allclose(np.abs(attacked - X[:40]), 0.1)
    # It is the way to the strongest rival.
    mean, _ = input_gradients(model, X[:40])
    rival = 1 + model.latent_mean_and_variance(X[:40])[0][:, 1:].argmax(axis=1)
    assert_array_equal(np.sign(attacked - X[:40]), np.sign(mean[np.arange(40), rival] - mean[:, 0]))


class Pictures(BaseEstimator):
    """A linear model of images, with slopes of its own."""

    def __init__(self, n_classes, n_jobs=1):
        self.n_classes, self.n_jobs = n_classes, n_jobs

    def fit(self, X, y=None):
        rng = np.random.default_rng(0)
        self.classes_, self._shape, self.n_features_in_ = np.arange(self.n_classes), X.shape[1:], X.shape[1]
        self.link_ = LogisticLink() if self.n_classes == 2 else SoftmaxLink()
        self.weights_ = rng.normal(size=(1 if self.n_classes == 2 else self.n_classes, *self._shape))
        return self

    def latent_mean_and_variance(self, X):
        mu = np.einsum("nchw,kchw->nk", X, self.weights_)
        mu = mu[:, 0] if self.n_classes == 2 else mu
        return mu, np.ones_like(mu)

    def _latent_pullback(self, X, d_mu, d_v):
        return np.einsum("nk,kchw->nchw", d_mu.reshape(len(X), -1), self.weights_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_with_slopes_of_their_own_may_take_images(n_classes, rng):
    X = rng.uniform(size=(5, 2, 4, 3)).astype(np.float32)
    model = Pictures(n_classes).fit(X)
    mean, variance = input_gradients(model, X)
    assert mean.shape == variance.shape == ((5, 2, 4, 3) if n_classes == 2 else (5, 3, 2, 4, 3))
    assert not variance.any()
    y = np.ones(5, dtype=int)
    attacked = fgsm(model, X, y, eps=0.2, clip=(0, 1))
    assert attacked.dtype == np.float32
    assert log_loss_gradients(model, X, y).shape == X.shape
    if n_classes == 2:
        assert_allclose(attacked, np.clip(X - 0.2 * np.sign(model.weights_), 0, 1), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_networks_are_attacked_by_their_own_slopes(n_classes, rng):
    networks = pytest.importorskip("softmargin.nn", reason="needs PyTorch", exc_type=ImportError)
    from torch import nn

    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    smooth = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh())
    model = networks.HybridClassifier(smooth, n_inducing=15, epochs=1, device="cpu", n_jobs=1, random_state=0)
    model.fit(X[:120], y[:120])
    rows, labels, step = X[200:230], codes_of(y[200:230], model.classes_), 1e-2
    direction = rng.normal(size=rows.shape).astype(np.float32)
    up, down = (log_losses(model.decision_function(rows + h * direction), labels) for h in (step, -step))
    along = np.einsum("nchw,nchw->n", log_loss_gradients(model, rows, y[200:230]), direction)
    assert_allclose(along, (up - down) / (2 * step), atol=0.02 * np.abs(along).max())
    attacked = fgsm(model, rows, y[200:230], eps=1e-2)
    assert np.all(
        log_losses(model.decision_function(attacked), labels) > log_losses(model.decision_function(rows), labels)
    )


# Detection ---------------------------------------------------------------------------------------


def first_column(model, X):
    return np.asarray(X)[:, 0]


@pytest.mark.parametrize(("n", "rate", "wanted"), [(39, 0.1, 0.1), (19, 0.05, 0.05), (50, 0.05, 2 / 51)])
def test_false_alarms_are_as_rare_as_promised(n, rate, wanted, rng):
    alarms = []
    for _ in range(1500):
        rows = rng.normal(size=(n + 20, 1))
        detector = AdversarialDetector(None, rate, measure=first_column).fit(rows[:n])
        alarms.append(detector.predict(rows[n:]).mean())
    # Of n + 1 exchangeable rows as many are alarms as may be; the standard error is at most .002.
    assert_allclose(np.mean(alarms), wanted, atol=0.006)


def test_ties_give_no_alarm(rng):
    alarms, caught = [], []
    for _ in range(500):
        rows = np.where(rng.random((59, 1)) < 0.8, 0.0, rng.integers(1, 3, size=(59, 1)))
        detector = AdversarialDetector(None, 0.1, measure=first_column).fit(rows[:39])
        alarms.append(detector.predict(rows[39:]).mean())
        caught.append(detector.predict([[3.0]])[0])
    assert np.mean(alarms) < 0.1
    assert all(caught)
    assert not AdversarialDetector(None, measure=first_column).fit(np.zeros((30, 1))).predict([[0.0]])[0]


@pytest.mark.parametrize("measure", ["variation_ratio", "entropy", "mutual_information"])
def test_rows_unlike_all_others_are_noticed(measure, moons):
    model, _, _ = moons
    X, _ = make_moons(300, noise=0.2, random_state=1)
    detector = AdversarialDetector(model, 0.1, measure).fit(X[:150])
    assert detector.predict(X[150:]).mean() < 0.2
    assert_array_equal(detector.score_samples(X), getattr(uncertainty, measure)(model, X))
    assert detector.predict([[5.0, -5.0], [-6.0, 4.0]]).dtype == bool
    if measure != "entropy":
        assert detector.predict([[5.0, -5.0], [-6.0, 4.0]]).all()


def test_the_area_is_how_often_attacked_rows_rank_higher(rng):
    clean, attacked = rng.integers(0, 5, size=30), rng.integers(1, 7, size=40)
    fpr, tpr, auc = detection_roc(clean, attacked)
    pairs = np.sign(attacked[:, None] - clean[None, :])
    assert_allclose(auc, np.mean((1 + pairs) / 2))
    assert_allclose(np.trapezoid(tpr, fpr), auc)
    assert detection_roc([0.0, 0.0], [1.0])[2] == 1.0


# Errors ------------------------------------------------------------------------------------------


def test_models_without_slopes_are_refused(table):
    X, y, rows = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(g=np.arange(70) % 7)
    mixed = BayesianMixedSVC("y ~ a + b + (1 | g)").fit(frame.assign(y=y > 0))
    with pytest.raises(TypeError, match="got BayesianMixedSVC"):
        fgsm(mixed, frame, eps=0.1)
    with pytest.raises(TypeError, match="got LogisticRegression"):
        input_gradients(LogisticRegression().fit(X, y), rows)
    with pytest.raises(TypeError, match=r"model\[-1\] and model\[:-1\].transform"):
        log_loss_gradients(make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        fgsm(BayesianSVC(), X, eps=0.1)


def test_bad_rows_labels_and_strengths_are_named(moons, table):
    model, X, y = moons
    with pytest.raises(ValueError, match="y holds \\[7\\]"):
        log_loss_gradients(model, X, np.where(y > 0, 7, 0))
    for eps in (-0.1, np.nan, np.inf, [0.1, -0.1], "far"):
        with pytest.raises(ValueError, match="eps must be"):
            fgsm(model, X, eps=eps)
    for eps in ([0.1, 0.2, 0.3], np.full((2, 1, 1), 0.1)):
        with pytest.raises(ValueError, match=r"eps must be .* one number per column, got an array of shape \([23]"):
            fgsm(model, X, eps=eps)
    for clip in ((1, 0), 1, (0, 1, 2), (0, np.nan), ([0, 2], 1), "ab", [0, None]):
        with pytest.raises(ValueError, match="clip must be None or a pair of numbers, the lower one first"):
            fgsm(model, X, eps=0.1, clip=clip)
    rows, labels, _ = table
    linear = BayesianLinearSVC().fit(rows, labels)
    with pytest.raises(ValueError, match="missing values"):
        input_gradients(linear, [[np.nan, 0.0, 1.0]])


def test_detectors_say_what_they_need(moons):
    model, X, _ = moons
    with pytest.raises(ValueError, match="at least 19 ordinary rows, got 18"):
        AdversarialDetector(model, 0.05).fit(X[:18])
    assert AdversarialDetector(model, 0.05).fit(X[:19]).threshold_ == uncertainty.variation_ratio(model, X[:19]).max()
    for rate in (0.0, 1.0, -0.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            AdversarialDetector(model, rate).fit(X)
    with pytest.raises(ValueError, match="measure must be one of"):
        AdversarialDetector(model, measure="doubt").fit(X)
    with pytest.raises(NotFittedError):
        AdversarialDetector(model).predict(X)


# The toolbox -------------------------------------------------------------------------------------


@pytest.fixture
def evasion():
    """The toolbox's attacks; it warns of every other package that is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("art.attacks.evasion", reason="the Adversarial Robustness Toolbox is not installed")


@pytest.mark.parametrize("name", ["moons", "flowers"])
def test_the_toolbox_makes_the_same_attack(name, request, evasion):
    model, X, y = request.getfixturevalue(name)
    X = X.astype(np.float32)
    classifier = art_classifier(model, clip_values=(-2.0, 8.0))
    attack = evasion.FastGradientMethod(classifier, eps=0.2)
    own = np.searchsorted(model.classes_, y)
    assert_allclose(attack.generate(X, own), fgsm(model, X, y, eps=0.2, clip=(-2, 8)), atol=1e-5)
    assert_allclose(attack.generate(X), fgsm(model, X, eps=0.2, clip=(-2, 8)), atol=1e-5)
    assert classifier.nb_classes == len(model.classes_)
    assert classifier.input_shape == (X.shape[1],)


def test_other_attacks_of_the_toolbox_work(flowers, evasion):
    model, X, y = flowers
    X, own = X[::6].astype(np.float32), np.searchsorted(model.classes_, y[::6])
    classifier = art_classifier(model, clip_values=(0.0, 9.0))
    slopes = classifier.class_gradient(X[:4])
    assert_allclose(
        slopes.transpose(1, 0, 2), differences(lambda rows: model.predict_proba(rows).T, X[:4].astype(float)), atol=1e-4
    )
    assert_allclose(classifier.class_gradient(X[:4], label=2)[:, 0], slopes[:, 2], atol=1e-6)
    assert_allclose(classifier.class_gradient(X[:4], label=own[:4])[:, 0], slopes[np.arange(4), own[:4]], atol=1e-6)
    before = np.mean(classifier.predict(X).argmax(axis=1) == own)
    attacks = [
        evasion.ProjectedGradientDescent(classifier, eps=0.8, eps_step=0.2, max_iter=10, verbose=False),
        evasion.DeepFool(classifier, max_iter=20, verbose=False),
    ]
    for attack in attacks:
        after = np.mean(classifier.predict(attack.generate(X)).argmax(axis=1) == own)
        assert after < before - 0.2
    refitted = art_classifier(BayesianLinearSVC().fit(X, own))
    refitted.fit(X, np.eye(3)[own])
    assert refitted.predict(X).shape == (len(X), 3)


def test_without_the_toolbox_the_extra_is_named(moons, monkeypatch):
    monkeypatch.setitem(sys.modules, "art.estimators", None)
    with pytest.raises(ImportError, match=r"softmargin\[art\]"):
        art_classifier(moons[0])
