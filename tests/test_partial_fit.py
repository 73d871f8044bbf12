import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianSVC
from softmargin.kernels import RBF

BOTH = [BayesianSVC, BayesianLinearSVC]
every_classifier = pytest.mark.parametrize("classifier", BOTH, ids=lambda c: c.__name__)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(2400, noise=0.3, random_state=0)
    return X, np.where(y == 1, "up", "down")


def streamed(model, X, y, size, **settings):
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        model.partial_fit(X[rows], y[rows], **settings)
    return model


@every_classifier
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic", "logistic-jj"])
def test_batches_come_close_to_a_fit_on_everything(classifier, loss, moons):
    X, y = moons
    model = streamed(classifier(loss=loss, random_state=0), X[:1200], y[:1200], 200, classes=["down", "up"])
    whole = classifier(loss=loss, random_state=0).fit(X[:1200], y[:1200])
    test = X[1200:], y[1200:]
    losses = [log_loss(test[1], fitted.predict_proba(test[0])) for fitted in (model, whole)]
    # The kernel and the points come from the first sixth of the rows, and each batch sees the others frozen.
    assert losses[0] < losses[1] + 0.01
    assert np.mean(model.predict(test[0]) == whole.predict(test[0])) > 0.97


@every_classifier
def test_forecasts_calibrate_the_link(classifier, moons):
    X, y = moons
    model = streamed(classifier(random_state=0), X[:1200], y[:1200], 200, classes=["down", "up"])
    assert abs(model.loo_log_loss_ - log_loss(y[1200:], model.predict_proba(X[1200:]))) < 0.03
    assert model.link_ != streamed(classifier(random_state=0), X[:200], y[:200], 200, classes=["down", "up"]).link_


@every_classifier
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic-jj"])
def test_batches_follow_a_fit(classifier, loss, moons):
    X, y = moons
    model = classifier(loss=loss, random_state=0).fit(X[:800], y[:800])
    link = model.link_
    streamed(model, X[800:1200], y[800:1200], 100)
    assert model.link_ != link
    whole = classifier(loss=loss, random_state=0).fit(X[:1200], y[:1200])
    losses = [log_loss(y[1200:], fitted.predict_proba(X[1200:])) for fitted in (model, whole)]
    assert losses[0] < losses[1] + 0.005


@every_classifier
def test_a_fit_on_alternating_labels_leaves_both_classes_in_the_record(classifier):
    rng = np.random.default_rng(0)
    y = np.arange(6000) % 2
    X = rng.normal(size=(6000, 2)) + (2 * y - 1)[:, None]
    model = classifier(random_state=0).fit(X, y)
    model.partial_fit(X[:40], y[:40])
    assert log_loss(y, model.predict_proba(X)) < 0.25


@every_classifier
def test_forgetting_follows_the_times(classifier, moons):
    X, y = moons
    turned = np.where(y == "up", "down", "up")
    losses = []
    for forgetting in (0.0, 0.5):
        model = classifier(random_state=0, forgetting=forgetting)
        streamed(model, X[:800], y[:800], 200, classes=["down", "up"])
        streamed(model, X[800:1600], turned[800:1600], 200)
        losses.append(log_loss(turned[1600:], model.predict_proba(X[1600:])))
    assert losses[1] < losses[0] - 0.1


@pytest.mark.filterwarnings("ignore:The first batch has")
@every_classifier
def test_a_batch_may_hold_one_class_or_nothing(classifier, moons):
    X, y = moons
    order = np.argsort(y[:600], kind="stable")
    model = streamed(classifier(random_state=0), X[:600][order], y[:600][order], 200, classes=["down", "up"])
    assert_array_equal(model.classes_, ["down", "up"])
    assert np.isfinite(model.predict_proba(X)).all()
    before = model.predict_proba(X)
    model.partial_fit(X[:3], y[:3], sample_weight=[0, 0, 0])
    assert_array_equal(model.predict_proba(X), before)


@every_classifier
def test_weights_are_copies(classifier, moons):
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 4, size=300)
    weighted, repeated = (classifier(random_state=0, class_weight={"up": 2.0}) for _ in range(2))
    for rows in (slice(0, 150), slice(150, 300)):
        weighted.partial_fit(X[rows], y[rows], classes=["down", "up"], sample_weight=weight[rows])
        copies = np.repeat(np.arange(300)[rows], weight[rows])
        repeated.partial_fit(X[copies], y[copies], classes=["down", "up"])
    # Links keep 20,000 rows either way, and both ascents end within their tolerance of the same optimum.
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


@every_classifier
def test_streams_can_be_stored_and_fit_begins_anew(classifier, moons):
    X, y = moons
    model = streamed(classifier(random_state=0), X[:400], y[:400], 200, classes=["down", "up"])
    stored = pickle.loads(pickle.dumps(model)).partial_fit(X[400:600], y[400:600])
    assert_array_equal(stored.predict_proba(X), model.partial_fit(X[400:600], y[400:600]).predict_proba(X))
    assert_array_equal(
        model.fit(X[:300], y[:300]).predict_proba(X), classifier(random_state=0).fit(X[:300], y[:300]).predict_proba(X)
    )


@every_classifier
def test_names_of_columns_are_kept_and_checked(classifier, moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["left", "right"])
    model = classifier(random_state=0).partial_fit(frame[:200], y[:200], classes=["down", "up"])
    assert model.feature_names_in_.tolist() == ["left", "right"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["right", "left"]], y)
    assert model.partial_fit(frame[200:300], y[200:300]).n_features_in_ == 2


@every_classifier
@pytest.mark.parametrize(
    ("settings", "call", "message"),
    [
        ({}, {}, "classes must be given in the first call"),
        ({}, {"classes": ["up"]}, "two different labels"),
        ({}, {"classes": ["left", "right"]}, "classes were declared as"),
        ({"class_weight": "balanced"}, {"classes": ["down", "up"]}, "needs all rows at once"),
        ({"inference": "gibbs"}, {"classes": ["down", "up"]}, "partial_fit adds up variational sums"),
        ({"forgetting": 2.0}, {"classes": ["down", "up"]}, "forgetting must be a number from 0 to 1"),
    ],
)
def test_bad_calls_say_what_to_do(classifier, settings, call, message, moons):
    X, y = moons
    with pytest.raises(ValueError, match=message):
        classifier(**settings).partial_fit(X[:100], y[:100], **call)


@every_classifier
def test_a_call_that_fails_leaves_the_stream_as_it_was(classifier, moons):
    X, y = moons
    model = classifier(random_state=0).partial_fit(X[:200], y[:200], classes=["down", "up"])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="in the first call of partial_fit"):
        model.partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((3, 2), np.inf), y[:3])
    assert_array_equal(model.predict_proba(X), before)


@pytest.mark.filterwarnings("ignore:The first batch has")
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic", "logistic-jj"])
def test_a_first_batch_of_one_class_does_not_send_the_intercept_far_away(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = X[:, 0] + rng.logistic(size=500) > 0
    first = np.flatnonzero(~y)[:80]
    others = np.setdiff1d(np.arange(500), first)
    model = BayesianLinearSVC(loss=loss).partial_fit(X[first], y[first], classes=[False, True])
    # A flat prior would let it go as far as steps reach; one of deviation 10 is felt.
    assert -30 < model.intercept_[0] < -1
    assert (model.predict_proba(X)[:, 0] > 0.9).all()
    model.partial_fit(X[others], y[others])
    # Rows beyond the margin say nothing, so that what is left is what the others say.
    whole = BayesianLinearSVC(loss=loss).fit(X[others], y[others])
    assert_allclose(model.intercept_, whole.intercept_, atol=4 * whole.intercept_std_[0])
    assert_allclose(model.coef_, whole.coef_, atol=4 * whole.coef_std_.max())


# What the first batch decides ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        (BayesianSVC(), "parameters of the kernel and inducing points"),
        (BayesianSVC(tune=None), "parameters of the kernel and inducing points"),
        (BayesianSVC(3.0 * RBF(), tune=None, inducing=[[0.0, 0.0]]), "parameters of the kernel"),
        (BayesianSVC(RBF(1.0), tune=None), "inducing points"),
        (BayesianSVC(RBF(1.0), tune=None, inducing=[[0.0, 0.0], [1.0, 1.0]]), None),
        (BayesianGPC(), "parameters of the kernel and inducing points"),
        (BayesianKernelMachine(inference="cavi"), "parameters of the kernel"),
        (BayesianLinearSVC(), "scales of the columns"),
        (BayesianLinearSVC(standardize=False), None),
    ],
    ids=repr,
)
def test_a_first_batch_that_is_not_representative_is_told(model, chosen, moons):
    X, y = moons
    single = np.flatnonzero(y == "up")[:100]
    for rows, words in ((single, "100 rows of a single class"), (np.arange(19), "19 rows"), (single[:1], "1 row of a")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            first = clone(model).partial_fit(X[rows], y[rows], classes=["down", "up"])
            first.partial_fit(X[rows], y[rows])
        told = [str(each.message) for each in seen]
        assert len(told) == (chosen is not None)
        if chosen is not None:
            assert told[0].startswith(f"The first batch has {words}")
            assert f"and {chosen} are chosen from this batch alone" in told[0]
            assert seen[0].filename == __file__


@every_classifier
def test_representative_batches_and_fits_are_not_told(classifier, moons):
    X, y = moons
    classifier().partial_fit(X[:20], y[:20], classes=["down", "up"])
    classifier().fit(X[:10], y[:10]).partial_fit(X[:1], y[:1])
