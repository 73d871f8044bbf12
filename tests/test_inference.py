"""The words of ``inference=``, seen from the estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianSVC, inference
from softmargin.chunks import Table
from softmargin.diagnostics import MixingWarning
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge
from softmargin.loo import left_out, thinned
from softmargin.monitor import InterruptedFitWarning
from softmargin.priors import Ridge
from softmargin.steps import ascend

BOTH = [BayesianSVC, BayesianLinearSVC]
every_classifier = pytest.mark.parametrize("classifier", BOTH, ids=lambda c: c.__name__)


@pytest.fixture(scope="module")
def moons():
    return make_moons(1500, noise=0.3, random_state=0)


def fitted(classifier, how, X, y, **settings):
    if classifier is BayesianSVC:
        settings = {"kernel": 4.0 * RBF(0.8) + Constant(1.0), "tune": None, "n_inducing": 30, "tol": 1e-4} | settings
    return classifier(inference=how, random_state=0, **settings).fit(X, y)


def apart(one, other, X):
    """Root mean square difference of latent means, in units of the first model's deviations."""
    (mu, v), (mu_there, _) = one.latent_mean_and_variance(X), other.latent_mean_and_variance(X)
    return float(np.sqrt(np.mean((mu - mu_there) ** 2 / v)))


@every_classifier
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("loss", "far"), [("hinge", 0.5), ("hinge-augmented", 1.0), ("logistic", 0.5)])
def test_stochastic_steps_come_near_the_ascent(classifier, loss, far, moons):
    X, y = moons
    ascended, stochastic = (fitted(classifier, how, X, y, loss=loss, max_iter=100) for how in ("cavi", "svi"))
    # A thousandth of a bound of about 600 is half a nat: a mean off by a few tenths of a deviation.  The steps of
    # the augmented hinge are short, and its deviations too small.
    assert apart(ascended, stochastic, X) < far
    assert abs(stochastic.bound_ - ascended.bound_) < 0.05 * abs(ascended.bound_)
    assert abs(stochastic.loo_log_loss_ - ascended.loo_log_loss_) < 0.01


@every_classifier
def test_rates_and_sizes_of_minibatches_are_heard(classifier, moons):
    X, y = moons
    ascended = fitted(classifier, "cavi", X, y)
    for settings in ({"learning_rate": (1.0, 0.7)}, {"batch_size": 200}):
        model = fitted(classifier, "svi", X, y, **settings)
        assert apart(ascended, model, X) < 0.8  # smaller minibatches are noisier
        assert model.bound_ != fitted(classifier, "svi", X, y).bound_


@every_classifier
def test_draws_agree_with_the_exact_hinge(classifier, moons):
    X, y = moons[0][:200], moons[1][:200]
    ascended, drawn = (fitted(classifier, how, X, y, n_draws=1000) for how in ("cavi", "gibbs"))
    # Independent leftovers, and means that the variational belief has a few hundredths of a deviation off.
    assert apart(ascended, drawn, X) < 0.15
    ratio = np.sqrt(ascended.latent_mean_and_variance(X)[1] / drawn.latent_mean_and_variance(X)[1])
    assert 0.85 < np.median(ratio) < 1.05
    assert drawn.stop_reason_ == "draws"
    assert drawn.draws_.chains.shape == (4, 1000, len(drawn.belief_.mean))
    assert len(drawn.history_) == 1200
    assert abs(drawn.loo_log_loss_ - ascended.loo_log_loss_) < 0.02
    assert ascended.draws_ is None


@every_classifier
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
def test_latent_draws_are_those_of_the_sampler(classifier, loss, moons):
    if loss == "logistic":
        pytest.importorskip("polyagamma")
    X, y = moons[0][:150], moons[1][:150]
    model = fitted(classifier, "gibbs", X, y, loss=loss, n_draws=500, n_chains=2)
    draws = model.sample_latent(X[:5], 4000, random_state=0)
    mean, variance = model.latent_mean_and_variance(X[:5])
    # 4,000 picks among 500 correlated draws: about a tenth of a deviation.
    assert_allclose(draws.mean(axis=1), mean, atol=0.3 * np.sqrt(variance.max()))
    assert_allclose(draws.var(axis=1), variance, rtol=0.35)


def test_chains_that_have_not_mixed_are_told(moons):
    X, y = moons[0][:150], moons[1][:150]
    with pytest.warns(MixingWarning, match="The chains have not mixed: the largest R-hat is") as caught:
        model = fitted(BayesianLinearSVC, "gibbs", X, y, n_draws=12, warm_up=0)
    assert caught[0].filename == __file__
    assert model.draws_.r_hat > 1.05
    plan = inference.Plan("gibbs", 1e-6, 200, n_draws=100, thin=3)
    assert (plan.n_warm_up, plan.n_records) == (60, 360)
    assert plan._replace(warm_up=7).n_records == 307


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_mode_is_the_support_vector_machine(moons):
    X, y = moons[0][:200], moons[1][:200]
    kernel = 4.0 * RBF(0.8) + Constant(1e4)
    model = BayesianSVC(kernel, tune=None, inference="ecm", n_inducing=200, tol=1e-6, max_iter=500).fit(X, y)
    machine = SVC(C=8.0, gamma=1 / (2 * 0.8**2)).fit(X, y)
    assert_allclose(model.latent_mean_and_variance(X)[0], machine.decision_function(X), atol=0.15)
    assert np.mean(model.latent_mean_and_variance(X)[0] * machine.decision_function(X) > 0) > 0.99


@every_classifier
def test_large_tables_are_wandered_and_polished(classifier, moons, monkeypatch):
    monkeypatch.setattr(inference, "LARGE", 1000)
    X, y = moons
    large, ascended = (fitted(classifier, how, X, y) for how in ("auto", "cavi"))
    assert large.stop_reason_ == "polished"
    assert apart(ascended, large, X) < 0.35
    # One pass of minibatches and one full step of coordinate ascent: within a few nats of the optimum.
    assert 0 <= ascended.bound_ - large.bound_ < 0.02 * abs(ascended.bound_)
    small = fitted(classifier, "auto", X[:900], y[:900])
    assert_array_equal(small.predict_proba(X), fitted(classifier, "cavi", X[:900], y[:900]).predict_proba(X))


@every_classifier
def test_minibatches_that_cannot_stand_for_the_whole_are_noticed(classifier, monkeypatch):
    monkeypatch.setattr(inference, "LARGE", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    score = X[:, 0] + 0.5 * rng.normal(size=20_000)
    y = score > np.sort(score)[-40]  # one row in five hundred, which weigh as much as all others
    large, ascended = (fitted(classifier, how, X, y, class_weight="balanced") for how in ("auto", "cavi"))
    assert abs(large.bound_ - ascended.bound_) < 0.02 * abs(ascended.bound_)
    assert apart(ascended, large, X) < 1


@every_classifier
def test_a_pilot_changes_the_way_and_not_the_end(classifier, moons, monkeypatch):
    X, y = moons
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))

    def fit():
        settings = {"kernel": 4.0 * RBF(0.8), "tune": None} if classifier is BayesianSVC else {}
        return classifier(tol=1e-8, max_iter=500, random_state=0, **settings).fit(X, y, sample_weight=weight)

    plain = fit()
    monkeypatch.setattr(inference, "_ROWS_FOR_A_PILOT", 1000)
    piloted = fit()
    assert_allclose(piloted.bound_, plain.bound_, rtol=1e-7)
    assert_allclose(piloted.predict_proba(X), plain.predict_proba(X), atol=1e-3)
    assert len(piloted.history_) != len(plain.history_)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_single_precision_changes_the_way_and_hardly_the_end(loss, moons, monkeypatch):
    X, y = moons
    monkeypatch.setattr(inference, "_ROWS_FOR_A_PILOT", 1000)

    def fit():
        return BayesianSVC(4.0 * RBF(0.8), tune=None, loss=loss, random_state=0).fit(X, y)

    single = fit()
    monkeypatch.setattr(inference, "_LEAST_SINGLE_TOLERANCE", np.inf)
    double = fit()
    assert single.stop_reason_ == double.stop_reason_ == "converged"
    assert single.belief_.mean.dtype == np.float64
    assert_allclose(single.bound_, double.bound_, rtol=3e-3)
    assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.02)


def test_an_interrupted_pilot_is_still_a_model(moons, monkeypatch, interrupt_pass):
    X, y = moons
    monkeypatch.setattr(inference, "_ROWS_FOR_A_PILOT", 1000)
    interrupt_pass(5)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianSVC(4.0 * RBF(0.8), tune=None).fit(X, y)
    assert model.stop_reason_ == "interrupt"
    assert model.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::softmargin.monitor.InterruptedFitWarning")
def test_an_interruption_before_the_first_draw_leaves_a_few(moons, interrupt_pass):
    X, y = moons[0][:200], moons[1][:200]
    interrupt_pass(3)
    model = fitted(BayesianSVC, "gibbs", X, y)
    assert model.stop_reason_ == "interrupt"
    assert model.draws_.chains.shape[:2] == (4, 2)


@pytest.mark.filterwarnings("ignore:Time was up")
@every_classifier
@pytest.mark.parametrize("how", ["cavi", "gibbs", "ecm", "svi"])
def test_time_is_kept_everywhere(classifier, how, moons):
    X, y = moons
    assert fitted(classifier, how, X, y, max_time=1e-9).stop_reason_ == "time"


def test_some_rows_stand_for_all_when_rows_are_left_out(moons):
    X, y = moons
    model = fitted(BayesianSVC, "cavi", X, y, loss="hinge-augmented")
    weight = np.random.default_rng(0).choice([1.0, 2.0], size=len(y))
    table = Table.of(X, np.where(y == 1, 1.0, -1.0), weight, 30)
    problem = Problem(table, model.rows_, AugmentedHinge(), Ridge.isotropic(30))
    belief = ascend(problem, tol=1e-6, max_passes=200).point.belief
    everyone = left_out(problem, belief, np.ones(len(y)))
    some, unit = thinned(problem, np.arange(len(y), dtype=float), at_most=500)
    rows = unit.astype(int)
    assert len(rows) == len(np.unique(rows)) == 500
    for label in (-1, 1):
        assert_allclose(some.table.weight[some.table.y == label].sum(), weight[table.y == label].sum())
    # A third of the rows stands for the curvature of all: a few rows near the margin feel that.
    assert np.sqrt(np.mean((left_out(some, belief, np.ones(500)).mu - everyone.mu[rows]) ** 2)) < 0.02
    assert thinned(problem, unit)[0] is problem


@every_classifier
@pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")
def test_the_same_seed_gives_the_same_model(classifier, moons):
    X, y = moons[0][:300], moons[1][:300]
    for how in ("cavi", "svi", "gibbs", "ecm"):
        one, other = (fitted(classifier, how, X, y, n_draws=50) for _ in range(2))
        assert_array_equal(one.predict_proba(X), other.predict_proba(X))
