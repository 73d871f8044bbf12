import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons

from softmargin import (
    BayesianGPC,
    BayesianKernelMachine,
    BayesianLinearSVC,
    BayesianSVC,
)
from softmargin.adversarial import (
    fgsm,
    input_gradients,
    log_loss_gradients,
    slopes,
)
from softmargin.adversarial.slopes import loss_slopes
from softmargin.kernels import RBF, Constant, Linear, Matern, White
from softmargin.links import LogisticLink, ProbitLink, SoftmaxLink, log_losses

KERNELS = [
    RBF(1.3),
    RBF((0.7, 1.5, 2.0)),
    Matern((0.7, 1.5, 2.0), nu=0.5),
    Matern(1.1),
    Matern(1.1, nu=2.5),
    Matern(1.1, nu=0.8),
    Linear(0.7) + Constant(0.5),
    2.0 * RBF(1.3) + Constant(0.5) + White(0.1),
    RBF(1.3) * Linear(0.6) + RBF(2.0),
    (RBF(1.3) + Linear(0.6)) * (Linear(0.3) + Matern(2.0)),
]
WAVES = [RBF((0.7, 1.5, 2.0)) + Constant(0.5), 2.0 * RBF(1.3) * Matern(2.0) + Linear(0.3), Matern(1.1, nu=0.5)]


def three_grades():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(70, 3))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=70)
    return X, np.digitize(score, [-0.7, 0.7]), rng.normal(size=(6, 3))


table = pytest.fixture(three_grades, scope="module")


def fitted_moons():
    X, y = make_moons(150, noise=0.2, random_state=0)
    return BayesianSVC(random_state=0).fit(X, y), X, y


moons = pytest.fixture(fitted_moons, scope="module")


def fitted_flowers():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    return BayesianSVC(random_state=0).fit(X, y), X, y


flowers = pytest.fixture(fitted_flowers, scope="module")


def differences(function, X, step=1e-4):
    """Slopes of a function of rows in their numbers, which come last."""
    columns = []
    for c in range(X.shape[1]):
        shift = step * (np.arange(X.shape[1]) == c)
        columns.append((np.asarray(function(X + shift)) - np.asarray(function(X - shift))) / (2 * step))
    return np.stack(columns, axis=-1)


def check_slopes(model, X, rtol=1e-5, atol=2e-6):
    wanted = differences(model.latent_mean_and_variance, X)
    found = input_gradients(model, X)
    assert found[0].shape == wanted[0].shape
    for part, of_differences in zip(found, wanted, strict=True):
        assert np.abs(of_differences).max() > 1e-3
        assert_allclose(part, of_differences, rtol=rtol, atol=atol * max(1, np.abs(of_differences).max()))


# Slopes of moments -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_diagonals_of_kernels_have_slopes(kernel, rng):
    X, dk = rng.normal(size=(5, 3)), rng.normal(size=5)
    wanted = dk[:, None] * differences(kernel.diagonal, X)
    assert_allclose(kernel.pullback_diagonal_inputs(X, dk), wanted, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_slopes_of_kernel_models_are_those_of_differences(kernel, table):
    X, y, rows = table
    check_slopes(BayesianSVC(kernel, tune=None, random_state=0, n_inducing=20).fit(X, y > 0), rows)


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(random_state=0),
        BayesianSVC("matern", tune=None, multi_class="ovr", random_state=0),
        BayesianGPC(tune=None, random_state=0),
        BayesianLinearSVC(),
        BayesianLinearSVC(prior="ard", fit_intercept=False),
        BayesianKernelMachine(tune=None, inference="cavi", random_state=0),
        BayesianKernelMachine(tune=None, inference="stein", n_particles=4, n_steps=5, n_frequencies=30, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_slopes_of_many_classes_are_those_of_differences(model, table):
    X, y, rows = table
    check_slopes(model.fit(X, y), rows)


@pytest.mark.parametrize("kernel", WAVES, ids=str)
def test_slopes_through_waves_are_those_of_differences(kernel, table):
    X, y, rows = table
    model = BayesianKernelMachine(kernel, tune=None, inference="cavi", n_frequencies=30, random_state=0)
    check_slopes(model.fit(X, y > 0), rows)


@pytest.mark.parametrize("learn", ["all", "weights"])
def test_slopes_of_particles_are_those_of_differences(learn, table):
    X, y, rows = table
    model = BayesianKernelMachine(
        2.0 * RBF((0.7, 1.5, 2.0)) + Linear(0.3),
        tune=None,
        inference="stein",
        learn=learn,
        n_particles=4,
        n_steps=10,
        n_frequencies=30,
        random_state=0,
    )
    check_slopes(model.fit(X.astype(np.float32), y > 0), rows)


@pytest.mark.parametrize("prior", ["ridge", "laplace-zero", 0.5])
def test_slopes_of_linear_models_are_those_of_differences(prior, table):
    X, y, rows = table
    check_slopes(BayesianLinearSVC(prior=prior).fit(X, y > 0), rows)


def test_slopes_of_draws_and_of_models_that_met_missing_values(table):
    X, y, rows = table
    check_slopes(BayesianLinearSVC(inference="gibbs", n_draws=300, n_chains=2, random_state=0).fit(X, y > 0), rows)
    gaps = X.copy()
    gaps[::4, 1] = np.nan
    check_slopes(BayesianLinearSVC().fit(gaps, y), rows)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_slopes_of_wide_linear_models_are_those_of_differences(n_classes, rng):
    X = rng.normal(size=(30, 520))
    model = BayesianLinearSVC().fit(X, np.arange(30) % n_classes)
    assert model.rows_.n_weights < 40 or n_classes == 3
    check_slopes(model, rng.normal(size=(2, 520)))


def test_single_precision_has_the_same_slopes(table):
    X, y, rows = table
    single = BayesianSVC(tune=None, random_state=0).fit(X.astype(np.float32), y)
    double = BayesianSVC(tune=None, random_state=0).fit(X, y)
    for one, other in zip(input_gradients(single, rows.astype(np.float32)), input_gradients(double, rows), strict=True):
        assert one.dtype == np.float64
        assert_allclose(one, other, atol=2e-2 * np.abs(other).max())


def test_chunks_equal_the_whole(flowers, monkeypatch):
    model, X, y = copy.copy(flowers[0]), *flowers[1:]
    whole = [*input_gradients(model, X), fgsm(model, X, y, eps=0.1)]
    monkeypatch.setattr(slopes, "rows_in_block", lambda width: 7)
    model.n_jobs = 2
    for part, other in zip([*input_gradients(model, X), fgsm(model, X, y, eps=0.1)], whole, strict=True):
        assert_allclose(part, other, rtol=1e-9, atol=1e-12)


# Slopes of losses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link",
    [
        LogisticLink(),
        LogisticLink(1.7, 0.4, 0.2),
        ProbitLink(),
        SoftmaxLink(1.3, np.array([0.1, -0.3, 0.5, 0.0]), 0.9),
        ProbitLink(many=True),
    ],
    ids=str,
)
def test_loss_slopes_are_those_of_differences(link, rng):
    many = isinstance(link, SoftmaxLink) or getattr(link, "many", False)
    mu, v = rng.normal(size=(9, 4) if many else 9), rng.uniform(0.1, 3, size=(9, 4) if many else 9)
    y = np.arange(9) % 4 if many else np.where(np.arange(9) % 2, 1.0, -1.0)
    d_mu, d_v, factor = loss_slopes(mu, v, y, link)

    def loss(mu, v):
        return log_losses(link.score(mu, v), y)

    step = 1e-4
    for k in range(4 if many else 1):
        e = step * (np.arange(4) == k) if many else step
        own = (slice(None), k) if many else slice(None)
        assert_allclose(factor * d_mu[own], (loss(mu + e, v) - loss(mu - e, v)) / (2 * step), atol=1e-6)
        assert_allclose(factor * d_v[own], (loss(mu, v + e) - loss(mu, v - e)) / (2 * step), atol=1e-6)


@pytest.mark.parametrize("link", [LogisticLink(), ProbitLink()])
@pytest.mark.parametrize("size", [1.0, 50.0, 1e4, 1e9])
def test_slopes_of_certain_rows_keep_their_direction(link, size):
    d_mu, d_v, factor = loss_slopes(np.array([size, size]), np.ones(2), np.array([1.0, -1.0]), link)
    assert np.all(np.isfinite(d_mu) & np.isfinite(d_v))
    assert_array_equal(np.sign(d_mu), [-1, 1])
    assert_array_equal(np.sign(d_v), [1, -1])
    assert factor[0] < 0.4 < factor[1]


@pytest.mark.parametrize("link", [SoftmaxLink(), ProbitLink(many=True)])
@pytest.mark.parametrize("size", [10.0, 1e3, 1e6])
def test_slopes_of_certain_rows_favour_the_strongest_rival(link, size):
    mu = size * np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 1.5]])
    d_mu, _, factor = loss_slopes(mu, np.ones((2, 3)), np.array([0, 0]), link)
    assert_allclose(d_mu[0] / d_mu[0, 2], [-1, 0, 1], atol=1e-3)
    assert_allclose(d_mu[1] / d_mu[1, 1], [-1, 1, 0], atol=1e-3)
    assert factor[0] < 1e-3


@pytest.mark.parametrize("name", ["moons", "flowers"])
@pytest.mark.parametrize("probit", [False, True])
def test_gradients_of_the_log_loss_are_those_of_differences(name, probit, request):
    model, X, y = request.getfixturevalue(name)
    model = copy.copy(model)
    if probit:
        model.link_ = ProbitLink(many=name == "flowers")
    rows, labels = X[::20] + 0.05, y[::20]
    own = np.searchsorted(model.classes_, labels)

    def loss(rows):
        return -np.log(model.predict_proba(rows)[np.arange(len(rows)), own])

    wanted = differences(loss, rows)
    assert_allclose(log_loss_gradients(model, rows, labels), wanted, rtol=1e-4, atol=1e-6)
