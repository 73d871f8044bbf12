import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process import kernels as sk
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import BayesianSVC
from softmargin.estimators.gpc import LOGISTIC_LOSSES, BayesianGPC
from softmargin.kernels import RBF
from softmargin.tune import QUADRATIC_TUNINGS


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.25, random_state=0)


CHECKED = [BayesianGPC(), BayesianGPC(loss="jj", tune="hybrid")]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The first batch has")  # the checks stream few rows
@parametrize_with_checks(CHECKED)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", LOGISTIC_LOSSES)
@pytest.mark.parametrize("tune", [None, "logistic"])
def test_it_is_the_kernel_machine_under_another_loss(moons, loss, tune):
    X, y = moons
    for settings in ({}, {"link": "logistic"}, {"inference": "batch"}, {"n_inducing": 15, "random_state": 0}):
        ours = BayesianGPC(loss=loss, tune=tune, **settings).fit(X, y)
        theirs = BayesianSVC(loss=LOGISTIC_LOSSES[loss], tune=tune, **settings).fit(X, y)
        assert_array_equal(ours.predict_proba(X), theirs.predict_proba(X))
        assert ours.bound_ == theirs.bound_
        assert ours.loss_ == theirs.loss_ == LOGISTIC_LOSSES[loss]


def test_taylor_at_every_row_is_the_laplace_approximation_of_scikit_learn(moons):
    X, y = moons
    theirs = GaussianProcessClassifier(4.0 * sk.RBF(0.6), optimizer=None).fit(X, y)
    ours = BayesianGPC(4.0 * RBF(0.6), loss="taylor", inference="batch", tune=None, tol=1e-9).fit(X, y)
    mu, v = theirs.latent_mean_and_variance(X[:50] + 0.1)
    assert_allclose(ours.latent_mean_and_variance(X[:50] + 0.1)[0], mu, atol=1e-3)
    assert_allclose(ours.latent_mean_and_variance(X[:50] + 0.1)[1], v, atol=1e-3)
    assert_allclose(ours.bound_, theirs.log_marginal_likelihood_value_, rtol=1e-4)


def test_the_bounds_are_in_order(moons):
    """Quadrature takes the expectation itself, which the quadratic bound lies below."""
    X, y = moons
    exact, below = (
        BayesianGPC(4.0 * RBF(0.6), loss=loss, inference="batch", tune=None, tol=1e-6).fit(X, y).bound_
        for loss in ("quadrature", "jj")
    )
    assert exact - 10 < below < exact


@pytest.mark.parametrize("loss", LOGISTIC_LOSSES)
def test_every_way_of_tuning_that_a_loss_has(moons, loss):
    X, y = moons
    words = {"quadrature": ("bound", "loo"), "jj": ("bound", "loo", "alternate"), "taylor": ("loo", "alternate")}
    for tune in words[loss]:
        model = BayesianGPC(loss=loss, tune=tune).fit(X, y)
        assert model.score(X, y) > 0.93
        assert model.loo_log_loss_ < 0.25


@pytest.mark.parametrize(("loss", "how"), [*(("jj", how) for how in QUADRATIC_TUNINGS), ("taylor", "alternate")])
def test_larger_tables_are_judged_by_panels(rng, loss, how):
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] + X[:, 1] ** 2 - 1 + 0.4 * rng.normal(size=1500) > 0
    settings = {"loss": loss, "n_inducing": 30, "random_state": 0}
    model = BayesianGPC(tune=how, **settings).fit(X, y)
    plain = BayesianGPC(tune="logistic", **settings).fit(X, y)
    assert abs(model.loo_log_loss_ - plain.loo_log_loss_) < 0.01
    assert abs(model.score(X, y) - plain.score(X, y)) < 0.01


def test_bound_and_logistic_are_one_judge_of_quadrature(moons):
    X, y = moons
    one, other = (BayesianGPC(tune=tune).fit(X, y).kernel_.theta for tune in ("bound", "logistic"))
    assert_allclose(one, other, atol=0.05)  # 24 nodes and 12


@pytest.mark.parametrize("inference", ["svi", "gibbs", "batch"])
def test_every_inference_serves_it(moons, inference):
    X, y = moons
    settings = {"n_draws": 500, "n_chains": 2, "random_state": 0}
    plain = BayesianGPC().fit(X, y)
    model = BayesianGPC(inference=inference, **settings).fit(X, y)
    assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=0.15)


def test_batches_of_rows_add_up(moons):
    X, y = moons
    model = BayesianGPC(loss="jj", tune="alternate", random_state=0)
    for rows in (slice(0, 100), slice(100, 200)):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
    assert model.score(X, y) > 0.93


@pytest.mark.parametrize(
    ("loss", "tune", "multi_class"),
    [
        ("quadrature", "logistic", "auto"),
        ("quadrature", "bound", "one-vs-each"),
        ("jj", "logistic", "auto"),
        ("taylor", "loo", "ovr"),
        *(("jj", tune, "auto") for tune in QUADRATIC_TUNINGS),
        ("taylor", "alternate", "ovr"),
    ],
)
def test_more_than_two_classes(loss, tune, multi_class):
    X, y = load_iris(return_X_y=True)
    model = BayesianGPC(loss=loss, tune=tune, multi_class=multi_class, random_state=0).fit(X[::2], y[::2])
    assert model.predict_proba(X).shape == (150, 3)
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.25


def test_its_parameters_are_cloned(moons):
    model = BayesianGPC(loss="jj", tune="hybrid", n_upd=2, n_fun=7, multi_class="ovr")
    assert clone(model).get_params() == model.get_params()
    assert model.fit(*moons).n_upd == 2


def test_quadratics_of_classes_that_meet_are_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="y has 3 classes; use multi_class='ovr'"):
        BayesianGPC(loss="jj", tune="alternate", multi_class="one-vs-each").fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of 'quadrature', 'jj', 'taylor'"),
        ({"loss": "logistic"}, "loss must be one of 'quadrature', 'jj', 'taylor'"),
        ({"inference": "ecm"}, "inference must be one of 'auto', 'cavi', 'svi', 'adam', 'gibbs', 'batch'"),
        ({"loss": "taylor", "inference": "gibbs"}, "loss='taylor' only approximates"),
        ({"tune": "bound-steps"}, "tune must be one of"),
        ({"tune": "alternate"}, "'quadrature' does not have; use loss='jj' or 'taylor', or tune='logistic'"),
        ({"tune": "full"}, "'quadrature' does not have; use loss='jj', or tune"),
        ({"loss": "taylor", "tune": "hybrid"}, "'taylor' does not have; use loss='jj', or tune"),
        ({"loss": "taylor", "tune": "full"}, "'taylor' does not have"),
        ({"loss": "taylor", "tune": "bound"}, "no bound to tune by; use tune='alternate'"),
        ({"multi_class": "crammer-singer"}, "multi_class must be one of"),
        ({"multi_class": "softmax", "loss": "jj"}, "has its own bound, which loss='jj' cannot be combined with"),
        ({"n_upd": 0}, "n_upd must be an integer >= 1"),
        ({"n_fun": 2.5}, "n_fun must be an integer"),
        ({"n_fun": 1}, "n_fun must be at least 2"),
        ({"link": "softmax"}, "link must be one of"),
        ({"n_inducing": 0}, "n_inducing must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(moons, settings, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPC(**settings).fit(*moons)
