import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import kv
from scipy.stats import geninvgauss
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.svm import SVC

import contracts
import references
from softmargin import BayesianLinearSVC
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import AugmentedHinge, Hinge, PointHinge
from softmargin.links import fit_logistic_link
from softmargin.loo import left_out
from softmargin.monitor import Monitor
from softmargin.priors import Ridge
from softmargin.rows import InducingRows
from softmargin.steps import ascend

#: Its sites are no slopes of its ``l`` and there is no bound, so the contracts about those do not apply.
CONTRACTS = [
    contracts.bound_touches_where_nothing_is_uncertain,
    contracts.sites_are_finite_and_precisions_not_negative,
    contracts.labels_are_symmetric,
    contracts.sites_agree_in_torch_and_in_single_precision,
]


@pytest.mark.parametrize("check", CONTRACTS, ids=contracts.name)
@pytest.mark.parametrize("likelihood", [PointHinge(), PointHinge(1e-4)], ids=repr)
def test_contract(likelihood, check):
    check(contracts.LikelihoodCase(likelihood))


@given(mu=st.floats(-1e6, 1e6), v=st.floats(0, 1e6), y=st.sampled_from([-1.0, 1.0]))
def test_it_is_the_augmented_hinge_without_variance(mu, v, y):
    arrays = np.array([y]), np.array([mu])
    point, augmented = PointHinge().sites(*arrays, np.array([v])), AugmentedHinge().sites(*arrays, np.zeros(1))
    assert_allclose(point.l, Hinge().log_density(*arrays))
    if abs(1 - y * mu) > PointHinge().floor:
        for one, other in zip(point, augmented, strict=True):
            # -z - |z| cancels where the hinge is nought.
            assert_allclose(one, other, rtol=1e-12, atol=1e-9)


def test_slopes_are_those_of_the_hinge_but_for_a_rounded_kink():
    likelihood = PointHinge(0.1)
    y, z = np.tile([1.0, -1.0], 7), np.repeat([-3.0, -0.11, -0.09, 0.0, 0.05, 0.11, 3.0], 2)
    mu = y * (1 - z)

    def slope(mu):
        _, w, b = likelihood.sites(y, mu, np.ones(14))
        return b - w * mu

    assert_allclose(slope(mu), y * (1 + np.clip(z / 0.1, -1, 1)), atol=1e-12)


@pytest.mark.parametrize("v", [1.0, 0.04, 1e-3])
@pytest.mark.parametrize("mu", [0.3, 0.93, 1.04])
def test_curvature_is_that_of_the_rounded_kink_averaged_over_the_belief(mu, v):
    likelihood, step = PointHinge(0.1), 1e-4
    mean_slope = [
        references.normal_expectation(lambda f: 1 + np.clip((1 - f) / 0.1, -1, 1), m, v, (0.9, 1.1))
        for m in (mu - step, mu + step)
    ]
    k = likelihood.curvature(np.ones(1), np.array([mu]), np.full(1, v))
    assert_allclose(k, -np.diff(mean_slope) / (2 * step), rtol=1e-5, atol=1e-7)
    exact = likelihood.curvature(np.ones(1), np.array([mu]), np.zeros(1))
    assert exact == (10.0 if abs(1 - mu) < 0.1 else 0.0)


def test_so_many_copies_that_nothing_is_uncertain_still_have_a_link():
    """Eight places, a hundred thousand rows: the mode lies on kinks, which hold it where one copy is left out."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (100_000, 3)).astype(float)
    y = rng.random(100_000) < 1 / (1 + np.exp(1 - 2 * X[:, 0]))
    model = BayesianLinearSVC(inference="ecm").fit(X, y)
    assert model.loo_log_loss_ < 0.6
    assert_allclose(model.predict_proba([[0, 0, 0], [1, 0, 0]])[:, 1], [0.27, 0.73], atol=0.03)


def test_what_it_says_of_itself():
    assert not PointHinge.is_bound
    assert not PointHinge.needs_guard
    assert PointHinge.two_moment
    assert not PointHinge.site_is_curvature


# The support vector machine -------------------------------------------------------------------------


def moons(n_rows=120):
    X, y = make_moons(n_rows, noise=0.3, random_state=0)
    return X, 2.0 * y - 1


def process(X, y, kernel, floor, n_points=None):
    rows = InducingRows.at(kernel, X if n_points is None else X[:n_points])
    table = Table(X, y, np.ones(len(y)), 1000)
    return Problem(table, rows, PointHinge(floor), Ridge.isotropic(rows.n_weights))


@pytest.mark.parametrize("floor", [0.03, 1e-3])
@pytest.mark.parametrize("n_points", [None, 15])
def test_mean_is_the_support_vector_machine(floor, n_points):
    X, y = moons()
    problem = process(X, y, 2.0 * RBF(0.7), floor, n_points)
    belief = ascend(problem, tol=1e-10, max_passes=3000).point.belief
    phi = problem.rows.lift(X).phi
    # exp(-2 max(0, 1 - y f)) and N(0, K) make min f'K^-1 f / 2 + 2 sum of losses: C = 2, and no intercept.
    svm = references.svm_by_coordinates(phi @ phi.T, y, C=2.0)
    # Rounding moves the slope of rows within a floor of the margin: their means move by as much, and others with them.
    assert np.abs(phi @ belief.mean - svm).max() < 2 * floor + 2e-3


def test_mean_is_that_of_libsvm_where_an_intercept_is_free():
    X, y = moons()
    kernel = 2.0 * RBF(0.7)
    problem = process(X, y, kernel + Constant(1e4), 1e-3)
    belief = ascend(problem, tol=1e-10, max_passes=3000).point.belief
    svc = SVC(kernel="precomputed", C=2.0, tol=1e-8).fit(kernel(X, X), y)
    assert np.abs(problem.latent(belief).mu - svc.decision_function(kernel(X, X))).max() < 4e-3


def test_real_data_takes_tens_of_passes():
    X, labels = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    problem, monitor = process(X, 2.0 * labels - 1, RBF(30**0.5) + Constant(1.0), 0.03, 200), Monitor()
    assert ascend(problem, tol=1e-6, max_passes=150, monitor=monitor).reason == "converged"
    assert len(monitor.history) < 100


def test_full_steps_never_lower_the_rounded_objective():
    X, y = moons()
    problem = process(X, y, 2.0 * RBF(0.7), 0.03)
    phi, floor = problem.rows.lift(X).phi, 0.03
    mean, values = np.zeros(len(y)), []
    for _ in range(60):
        mu = phi @ mean
        z = 1 - y * mu
        around = np.where(np.abs(z) < floor, z * z / (2 * floor) + floor / 2, np.abs(z))
        values.append(-np.sum(z + around) - mean @ mean / 2)
        _, w, b = problem.likelihood.sites(y, mu, np.zeros(len(y)))
        mean = np.linalg.solve((phi.T * w) @ phi + np.eye(len(y)), phi.T @ b)
    assert np.all(np.diff(values) > -1e-9)
    assert values[-1] - values[0] > 10


# Leaving out ----------------------------------------------------------------------------------------


def test_left_out_means_are_near_those_of_true_refits():
    X, y = moons(80)
    problem = process(X, y, 2.0 * RBF(0.7), 0.03)
    rows, prior = problem.rows, problem.prior
    belief = ascend(problem, tol=1e-9, max_passes=1000).point.belief
    without, fitted = left_out(problem, belief, np.ones(80)), problem.latent(belief)
    assert without.usable.all()
    support = np.flatnonzero(y * fitted.mu < 1.03)  # the absence of others changes nothing
    mu, sd = np.empty(len(support)), np.empty(len(support))
    for k, i in enumerate(support):
        others = np.arange(80) != i
        refit = Problem(Table(X[others], y[others], np.ones(79), 1000), rows, PointHinge(), prior)
        latent = rows.lift(X[[i]]).moments(ascend(refit, tol=1e-7, max_passes=500).point.belief)
        mu[k], sd[k] = latent.mu[0], latent.v[0] ** 0.5
    error, change = without.mu[support] - mu, fitted.mu[support] - mu
    # Slopes jump when rows cross the margin, which a Newton step can only guess: most is predicted all the same.
    assert np.sqrt(np.mean(error**2)) < 0.5 * np.sqrt(np.mean(change**2))
    assert abs(np.mean(y[support] * error)) < 0.25 * np.mean(y[support] * change)
    assert np.abs(np.sqrt(without.v[support]) - sd).mean() < 0.06


def test_rows_on_the_margin_count_for_the_link_only_with_a_floor():
    X, y = moons()
    usable, on_margin = {}, {}
    for floor in (1e-5, 0.03):
        problem = process(X, y, 2.0 * RBF(0.7), floor)
        belief = ascend(problem, tol=1e-8, max_passes=1000).point.belief
        without = left_out(problem, belief, np.ones(len(y)))
        assert np.isfinite([without.mu, without.v]).all()
        usable[floor] = without.usable
        on_margin[floor] = np.abs(1 - y * problem.latent(belief).mu) < 1.5 * floor
        link = fit_logistic_link(without.mu, without.v, y, 1.0 * without.usable)
        assert 0.5 < link.slope < 5
    assert on_margin[1e-5].sum() > 5
    assert not usable[1e-5][on_margin[1e-5]].any()
    assert usable[0.03].mean() > 0.98


# The augmentation, and other priors of its scale (docs/lambda.md) -----------------------------------


@pytest.mark.parametrize("c", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("z", [-2.0, -0.1, 0.4, 3.0])
def test_the_scales_mixture_is_the_hinge(z, c):
    def integrand(x):  # in x = sqrt(lambda), which leaves no pole
        return 2 * np.sqrt(c / (2 * np.pi)) * np.exp(-c * (z + x * x) ** 2 / (2 * x * x)) if x > 0 else 0.0

    kink = np.sqrt(abs(z))
    value = quad(integrand, 0, kink, epsabs=0)[0] + quad(integrand, kink, np.inf, epsabs=0)[0]
    assert_allclose(value, np.exp(-2 * c * max(0, z)), rtol=1e-7)


def over_scales(z, log_prior):
    """The pseudo-likelihood under a prior of lambda, in x = sqrt(lambda)."""

    def integrand(x):
        return 2 / np.sqrt(2 * np.pi) * np.exp(-((z + x * x) ** 2) / (2 * x * x) + log_prior(x * x)) if x > 0 else 0.0

    peak = max(np.sqrt(abs(z)), 0.1)
    return sum(quad(integrand, *part, limit=200)[0] for part in ((0, peak), (peak, 4 * peak), (4 * peak, np.inf)))


@pytest.mark.parametrize("beta", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("z", [-2.0, -0.3, 0.5, 2.0])
def test_an_exponential_prior_makes_the_hinge_a_pinball(z, beta):
    root = np.sqrt(1 + beta)
    value = over_scales(z, lambda scale: -beta * scale / 2)
    assert_allclose(value, np.exp(-z - root * abs(z)) / root, rtol=1e-7)
    # Its mean-field bound: E[1/lambda] of GIG(1/2, 1 + beta, c) is sqrt((1 + beta) / c).
    scale = geninvgauss(0.5, root * abs(z), scale=abs(z) / root)
    assert_allclose(scale.expect(lambda x: 1 / x), root / abs(z), rtol=1e-5)


@pytest.mark.parametrize(("p", "a", "b"), [(1.0, 1.0, 0.3), (0.5, 0.5, 0.2), (2.0, 3.0, 1.0), (-1.0, 1.0, 0.5)])
@pytest.mark.parametrize("z", [-2.0, 0.0, 0.5])
def test_a_generalised_inverse_gaussian_prior_rounds_the_kink(z, p, a, b):
    value = over_scales(z, lambda scale: (p - 1) * np.log(scale) - (a * scale + b / scale) / 2)
    q = z * z + b
    bessel = 2 * (q / (1 + a)) ** ((p - 0.5) / 2) * kv(p - 0.5, np.sqrt((1 + a) * q))
    assert_allclose(value, np.exp(-z) / np.sqrt(2 * np.pi) * bessel, rtol=1e-6)
