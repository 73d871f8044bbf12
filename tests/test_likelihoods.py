import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import contracts
import references
from contracts import LikelihoodCase
from softmargin.likelihoods import (
    LOSSES,
    AugmentedHinge,
    Gaussian,
    Hinge,
    JaakkolaJordan,
    Logistic,
    PointHinge,
    Probit,
    Quadrature,
    Rivals,
    Softmax,
    Taylor,
    named_likelihood,
    score,
)

CASES = [
    LikelihoodCase(Hinge(), exact=np.inf),
    LikelihoodCase(AugmentedHinge()),
    LikelihoodCase(JaakkolaJordan()),
    LikelihoodCase(Quadrature(Logistic()), exact=1.0, tolerance=1e-8),
    LikelihoodCase(Quadrature(Probit()), exact=1.0, tolerance=1e-8),
    LikelihoodCase(Taylor(Logistic()), expanded=True),
    LikelihoodCase(Taylor(Probit()), expanded=True),
    LikelihoodCase(Gaussian(0.3), exact=np.inf),
]

wide_means = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e8, -1e8]), st.floats(-1e8, 1e8))
wide_variances = st.one_of(st.sampled_from([0.0, 1e-300, 1e-12, 1.0, 1e8]), st.floats(0, 1e8))


@pytest.mark.parametrize("check", contracts.LIKELIHOOD, ids=contracts.name)
@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_contract(case, check):
    check(case)


@pytest.mark.parametrize("likelihood", [case.likelihood for case in CASES], ids=repr)
@given(mu=wide_means, v=wide_variances, y=st.sampled_from([-1.0, 1.0]))
def test_sites_are_finite_everywhere(likelihood, mu, v, y):
    l, w, b = likelihood.sites(np.array([y]), np.array([mu]), np.array([v]))  # noqa: E741
    assert np.isfinite([l[0], w[0], b[0]]).all()
    assert w[0] >= 0
    if not isinstance(likelihood, Gaussian):
        assert l[0] <= 1e-300


@given(mu=st.floats(-50, 50), v=st.floats(0, 1e4), y=st.sampled_from([-1.0, 1.0]))
def test_exact_hinge_is_never_below_the_augmented_one(mu, v, y):
    arrays = np.array([y]), np.array([mu]), np.array([v])
    exact, augmented = Hinge().sites(*arrays).l[0], AugmentedHinge().sites(*arrays).l[0]
    # The floor on the variance is worth 1e-6 at the kink.
    assert augmented <= exact + 2e-6
    if v > 1e-2 and abs(1 - y * mu) < np.sqrt(v):
        assert augmented < exact


@given(mu=st.floats(-20, 20), v=st.floats(0, 4), y=st.sampled_from([-1.0, 1.0]))
def test_jaakkola_jordan_is_never_above_quadrature(mu, v, y):
    arrays = np.array([y]), np.array([mu]), np.array([v])
    assert JaakkolaJordan().sites(*arrays).l[0] <= Quadrature(Logistic()).sites(*arrays).l[0] + 1e-6


@pytest.mark.parametrize("likelihood", [AugmentedHinge(), JaakkolaJordan(), Gaussian(0.5)], ids=repr)
def test_two_moment_bounds_hold_for_latent_values_that_are_not_gaussian(likelihood):
    assert likelihood.two_moment
    for y, shift in ((-1.0, -3.0), (1.0, 0.0), (1.0, 2.0)):
        values, shares = np.array([-3.0, 0.5, 4.0]) + shift, np.array([0.5, 0.3, 0.2])
        mu, v = shares @ values, shares @ values**2 - (shares @ values) ** 2
        l = likelihood.sites(np.array([y]), np.array([mu]), np.array([v])).l[0]  # noqa: E741
        assert l <= shares @ likelihood.log_density(y, values) + 1e-9


def test_exact_hinge_is_no_two_moment_bound():
    # ERRATA: with f = 0 or far to the right the exact form lies above the truth.
    values, shares = np.array([0.0, 3.0]), np.array([0.5, 0.5])
    mu, v = np.array([1.5]), np.array([2.25])
    assert not Hinge().two_moment
    assert Hinge().sites(np.ones(1), mu, v).l[0] > shares @ Hinge().log_density(1.0, values)


def test_augmented_hinge_is_the_optimum_of_the_augmented_bound():
    # ERRATA: for any a the bound is -z - (sqrt(a) + c / sqrt(a)) / 2, c = z^2 + v.
    y, mu, v = np.array([1.0, -1.0]), np.array([0.3, 2.0]), np.array([0.5, 2.0])
    z, c = 1 - y * mu, (1 - y * mu) ** 2 + v
    over_a = np.array([-z - (np.sqrt(a) + c / np.sqrt(a)) / 2 for a in np.geomspace(1e-3, 1e3, 20001)])
    assert_allclose(AugmentedHinge().sites(y, mu, v).l, over_a.max(axis=0), atol=1e-6)


def test_jaakkola_jordan_passes_smoothly_into_its_limit():
    mu = np.array([0.0, 1e-9, 0.99e-4, 1.01e-4, 1e-3])
    w = JaakkolaJordan().sites(np.ones(5), mu, np.zeros(5)).w
    assert_allclose(w, 0.25 - mu**2 / 48, rtol=1e-12)


@pytest.mark.parametrize("model", [Logistic(), Probit()], ids=repr)
def test_derivatives_of_smooth_models(model):
    y, f = np.tile([1.0, -1.0], 41), np.repeat(np.linspace(-20, 20, 41), 2)
    value, slope, curvature = model.derivatives(y, f)
    assert_allclose(slope, references.derivative(lambda t: model.derivatives(y, t).value, f, 1e-3), atol=1e-8)
    assert_allclose(curvature, references.derivative(lambda t: model.derivatives(y, t).slope, f, 1e-3), atol=1e-8)
    assert np.all(value <= 0)


def test_probit_keeps_its_digits_far_in_the_tail():
    t = np.array([-50.0, -300.0, -2e3, -9e3, -1e6])
    _, slope, curvature = Probit().derivatives(np.ones(5), t)
    # Mills' ratio: r = -t (1 + 1/t^2 - 2/t^4 ...), r (r + t) = 1 - 1/t^2 + 6/t^4 ...
    assert_allclose(slope, -t * (1 + t**-2 - 2 * t**-4), rtol=1e-8)
    assert_allclose(1 + curvature, t**-2 - 6 * t**-4, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("v", [30.0, 1e3, 1e6])
def test_quadrature_sees_precision_in_wide_latent_values(v):
    # Where the prior variance is large every node may miss the bend of the log-density, but its precision is there.
    mu = np.linspace(-1, 1, 5) * np.sqrt(v)
    sites = Quadrature(Logistic()).sites(np.ones(5), mu, np.full(5, v))
    far = Hinge().sites(np.ones(5), 1 + mu, np.full(5, v))
    # So wide a Gaussian sees max(0, -f): half of the hinge. Twenty-four nodes hold it to a third.
    assert_allclose(sites.w, far.w / 2, rtol=0.4)


def test_names_of_losses_say_what_they_are():
    assert set(LOSSES) >= {"hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit"}
    bounds = {name for name, likelihood in LOSSES.items() if likelihood.is_bound}
    assert bounds == set(LOSSES) - {"logistic-taylor", "probit-taylor"}
    monotone = {name for name, likelihood in LOSSES.items() if not likelihood.needs_guard}
    assert monotone == {"hinge-augmented", "logistic-jj"}


@pytest.mark.parametrize("model", [Logistic(), Probit()], ids=repr)
def test_few_nodes_are_enough_for_narrow_rows(model):
    """At the largest variance of each number of nodes; and rows of all widths together are each as if alone."""
    mu = np.linspace(-12, 12, 97)
    y = np.where(np.arange(97) % 2, 1.0, -1.0)
    for edge, _ in Quadrature._FEW_NODES:
        exact = Quadrature(model, 120)._sites(y, mu, np.full(97, edge), 120)
        for few, many in zip(Quadrature(model).sites(y, mu, np.full(97, edge)), exact, strict=True):
            assert_allclose(few, many, atol=1e-9)
    v = np.geomspace(1e-4, 3, 97)
    together = Quadrature(model).sites(y, mu, v)
    for k in range(0, 97, 7):
        alone = Quadrature(model).sites(y[k : k + 1], mu[k : k + 1], v[k : k + 1])
        for part, whole in zip(alone, together, strict=True):
            assert_allclose(part[0], whole[k], atol=1e-12)  # the same nodes, added up in another order


def test_probit_bends_in_the_tail_as_its_continued_fraction_does():
    # With u = -t, N(t) / Phi(t) = u + 1 / (u + 2 / (u + 3 / ...)): no cancellation in r + t, which is the fraction.
    u = np.array([20.0, 300.0, 1.5e3, 1e4])
    fraction = u
    for k in range(60, 1, -1):
        fraction = u + k / fraction
    bend = (u + 1 / fraction) / fraction
    curvature = Probit().derivatives(np.ones(4), -u).curvature
    # Below 1e3 deviations r + t cancels: its digits are those of u^2.
    assert_allclose(1 + curvature, 1 - bend, rtol=1e-6, atol=1e-15 * np.minimum(u, 1e3).max() ** 2)
    assert_allclose((1 + curvature)[2:], (1 - bend)[2:], rtol=1e-5)


@pytest.mark.parametrize("model", [Logistic(), Probit()], ids=repr)
@pytest.mark.parametrize("v", [0.0, 1e-10, 1e-5])
def test_quadrature_of_a_known_latent_value_bends_as_the_model_does(model, v):
    mu = np.linspace(-4, 4, 9)
    y = np.where(np.arange(9) % 2, 1.0, -1.0)
    _, slope, curvature = model.derivatives(y, mu)
    sites = Quadrature(model).sites(y, mu, np.full(9, v))
    # Of second order in the deviation, here up to 1e-5 times a fourth derivative.
    assert_allclose(sites.w, -curvature, atol=1e-5)
    assert_allclose(sites.b, slope - curvature * mu, atol=1e-4)


def test_quadrature_takes_no_more_nodes_than_it_is_given():
    y, mu, v = np.ones(5), np.linspace(-3, 3, 5), np.full(5, 0.2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    at_nodes = np.log(1 / (1 + np.exp(-(mu + nodes[:, None] * np.sqrt(v)))))
    assert_allclose(Quadrature(Logistic(), 3).sites(y, mu, v).l, weights @ at_nodes / weights.sum(), rtol=1e-12)
    assert all(part.shape == (0,) for part in Quadrature(Logistic()).sites(*np.empty((3, 0))))


def test_quadrature_of_many_rows_is_that_of_each(monkeypatch):
    rng = np.random.default_rng(0)
    y, mu, v = rng.choice([-1.0, 1.0], 50), rng.normal(size=50), rng.choice([0.01, 0.05], 50)
    whole = Quadrature(Logistic()).sites(y, mu, v)
    monkeypatch.setattr(Quadrature, "_NODES_AT_ONCE", 50)
    for got, wanted in zip(Quadrature(Logistic()).sites(y, mu, v), whole, strict=True):
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_the_point_hinge_is_a_hinge_whose_kink_is_rounded():
    likelihood = PointHinge(floor=0.2)
    y, mu = np.tile([1.0, -1.0], 25), np.linspace(-3, 3, 50)
    l, w, b = likelihood.sites(y, mu, np.full(50, 7.0))  # noqa: E741
    z = 1 - y * mu
    assert_allclose(l, -2 * np.maximum(z, 0), atol=1e-14)
    assert_allclose(b - w * mu, y * (1 + np.clip(z / 0.2, -1, 1)), atol=1e-12)
    assert_allclose(w, 1 / np.maximum(np.abs(z), 0.2), rtol=1e-12)


@pytest.mark.parametrize("likelihood", [case.likelihood for case in CASES], ids=repr)
def test_scores_are_slopes_of_the_log_density(likelihood):
    # No entry lies on the hinge's kink.
    y, f = np.tile([1.0, -1.0], 10), np.linspace(-3.1, 3.3, 20)
    wanted = references.derivative(lambda t: likelihood.log_density(y, t), f, 1e-4)
    assert_allclose(score(likelihood, y, f), wanted, atol=1e-6)


def test_words_of_losses_and_classes_name_their_likelihood():
    assert named_likelihood("hinge", "auto", 2) == Hinge()
    assert named_likelihood("logistic", "softmax", 2) == Quadrature(Logistic())
    assert named_likelihood("logistic", "auto", 3) == Softmax()
    assert named_likelihood("hinge", "auto", 3) == Rivals(Hinge())
    assert named_likelihood("logistic", "one-vs-each", 3) == Rivals(Quadrature(Logistic()))
