import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
import references
from contracts import PriorCase
from softmargin.gaussian import from_natural
from softmargin.priors import Ridge, VarianceComponents

DIAGONAL = np.array([0.5, 2.0, 1e-8, 1.0])
MATRIX = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.7]])
GROUPED = VarianceComponents(np.array([0, 0, 1, -1, 1, 1]), shape=0.5, rate=0.3, loose=1e-4)
SINGLE = VarianceComponents(np.array([0, 0, 0, 0]))
EACH = VarianceComponents(np.arange(3), shape=2.0, rate=1.0)


def naive_divergence(prior):
    """E_q(sigma^2) KL(q(u) || p(u | sigma^2)) + KL(q(sigma^2) || p(sigma^2)), term by term."""

    def divergence(belief):
        a, b = belief.hyper
        total = np.sum(references.kl_inverse_gammas(a, b, prior.shape, prior.rate))
        e_log = np.log(b) - references.digamma(a)
        for j, g in enumerate(prior.group):
            precision = prior.loose if g < 0 else a[g] / b[g]
            log_variance = -np.log(prior.loose) if g < 0 else e_log[g]
            total += 0.5 * (precision * (belief.mean[j] ** 2 + belief.covariance[j, j]) - 1 + log_variance)
        return total - 0.5 * np.linalg.slogdet(belief.covariance)[1]

    return divergence


def ridge_divergence(precision):
    return lambda belief: references.kl_gaussians(belief.mean, belief.covariance, np.linalg.inv(precision))


CASES = [
    PriorCase("standard normal", Ridge.isotropic(5), 5, ridge_divergence(np.eye(5))),
    PriorCase("isotropic", Ridge.isotropic(3, variance=4.0), 3, ridge_divergence(np.eye(3) / 4)),
    PriorCase("diagonal", Ridge(DIAGONAL), 4, ridge_divergence(np.diag(DIAGONAL))),
    PriorCase("matrix", Ridge(MATRIX), 3, ridge_divergence(MATRIX)),
    PriorCase("one variance", SINGLE, 4, naive_divergence(SINGLE)),
    PriorCase("a variance each", EACH, 3, naive_divergence(EACH)),
    PriorCase("groups and a loose weight", GROUPED, 6, naive_divergence(GROUPED)),
]


@pytest.mark.parametrize("check", contracts.PRIOR, ids=contracts.name)
@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_contract(case, check):
    check(case)


@pytest.mark.parametrize("precision", [DIAGONAL, MATRIX], ids=["diagonal", "matrix"])
def test_ridge_is_at_no_distance_from_itself(precision):
    prior = Ridge(precision)
    m = len(precision)
    belief = prior.update(np.zeros((m, m)), np.zeros(m))
    assert abs(float(prior.kl(belief))) < 1e-10
    assert_allclose(
        np.linalg.inv(belief.covariance), np.diag(precision) if precision.ndim == 1 else precision, atol=1e-12
    )


def test_ridge_adds_its_precision_to_the_sums(rng):
    A, h = rng.normal(size=(5, 3)), rng.normal(size=3)
    belief = Ridge(MATRIX).update(A.T @ A, h)
    assert_allclose(belief.mean, np.linalg.solve(A.T @ A + MATRIX, h), rtol=1e-10)


def test_divergence_of_variance_components_equals_monte_carlo(rng):
    belief = GROUPED.update(*contracts._sums(6), None)
    a, b = belief.hyper
    estimate, error = references.kl_by_monte_carlo(
        belief.mean, belief.covariance, a, b, GROUPED.group, 0.5, 0.3, 1e-4, 200_000, rng
    )
    # Five standard errors of the estimate, and the errors themselves are small beside the divergence.
    assert error < 0.01
    assert abs(float(GROUPED.kl(belief)) - estimate) < 5 * error


def test_variances_follow_their_group_only():
    m = np.array([1.0, 2.0, 0.1, 50.0, 0.2, 0.3])
    belief = from_natural(np.eye(6), m)
    a, b = GROUPED.learned(belief.mean, belief.variances)
    assert_allclose(a, [0.5 + 2 / 2, 0.5 + 3 / 2])
    assert_allclose(b, [0.3 + (1 + 4 + 2) / 2, 0.3 + (0.01 + 0.04 + 0.09 + 3) / 2])


def test_update_goes_on_from_the_previous_belief():
    # With almost no data the variance creeps: ten inner updates are not enough, and the next call must continue.
    G, h = 1e-3 * np.eye(4), 1e-3 * np.ones(4)
    first = SINGLE.update(G, h, None)
    second = SINGLE.update(G, h, first)
    twenty = first
    for _ in range(30):
        twenty = SINGLE.update(G, h, twenty)
    away = [abs(np.log(float(q.hyper.mean_precision[0] / twenty.hyper.mean_precision[0]))) for q in (first, second)]
    assert away[1] < away[0]


@pytest.mark.parametrize("case", CASES, ids=contracts.name)
def test_rows_see_the_weights_as_they_are(case):
    belief = case.prior.update(*contracts._sums(case.n_weights), None)
    assert_allclose(case.prior.effective(belief).covariance, belief.covariance)


@pytest.mark.parametrize("prior", [Ridge(DIAGONAL), Ridge(np.array([1.0, 2.0, 0.5])), SINGLE, EACH], ids=repr)
def test_a_step_that_only_shifts_gains_what_it_promised(prior, rng):
    n = len(prior.precision) if isinstance(prior, Ridge) else len(prior.group)
    phi, h, dh = rng.normal(size=(2 * n, n)), rng.normal(size=n), rng.normal(size=n)
    G = phi.T @ phi
    before = prior.update(G, h)
    after = prior.given(G, h + dh, before.hyper)
    # Given all else, precision and mean of the optimum before are those of its expected prior and the sums.
    before = prior.given(G, h, before.hyper)

    def objective(belief):
        return (h + dh) @ belief.mean - 0.5 * belief.energy(G) - prior.kl(belief)

    promised = prior.promised(G, np.zeros((n, n)), dh, before)
    assert_allclose(objective(after) - objective(before), promised, rtol=1e-6)
