import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import invwishart

from references_structured import agrees, log_inverse_wishart
from softmargin.wishart import InverseWishart, log_det

SCALE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
BELIEF = InverseWishart(SCALE, 8.5)
CASES = [BELIEF, InverseWishart(np.array([[0.7]]), 3.2), InverseWishart(SCALE[:2, :2], 3.4)]


@pytest.fixture(scope="module", params=CASES, ids=lambda q: f"{q.size} columns")
def q(request):
    return request.param


@pytest.fixture(scope="module")
def covariances(q):
    """Draws by SciPy."""
    draws = invwishart.rvs(q.dof, q.scale, size=12_000, random_state=np.random.default_rng(0))
    return np.asarray(draws).reshape(-1, q.size, q.size)


def test_mean_precision_and_log_determinant_equal_monte_carlo(q, covariances):
    agrees(np.linalg.inv(covariances), q.mean_precision)
    agrees(np.linalg.slogdet(covariances)[1], q.mean_log_det, 0.03)


def test_mean_equals_monte_carlo(q, covariances):
    if q.dof > q.size + 3:  # or there is no variance to judge the mean of draws by
        agrees(covariances, q.mean)
    assert_allclose(q.mean * (q.dof - q.size - 1), q.scale)


def test_without_a_mean_the_inverse_of_the_mean_precision_stands_for_it():
    q = InverseWishart(SCALE, 4.0)
    assert_allclose(q.mean @ q.mean_precision, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("dof", [3.5, 7.0, 15.0])
def test_divergence_equals_monte_carlo(q, covariances, dof):
    prior = InverseWishart(0.4 * np.eye(q.size) + 0.1, dof)
    agrees(log_inverse_wishart(covariances, *q) - log_inverse_wishart(covariances, *prior), q.kl(prior), 0.1)
    assert q.kl(prior) > 0


def test_reference_density_is_that_of_scipy(q, covariances):
    some = covariances[:50]
    assert_allclose(log_inverse_wishart(some, *q), invwishart.logpdf(some.transpose(1, 2, 0), q.dof, q.scale))


def test_nothing_diverges_from_itself(q):
    assert_allclose(q.kl(q), 0, atol=1e-12)
    for factor in (0.999, 1.001):
        assert q.kl(q._replace(scale=factor * q.scale)) > 0
        assert q.kl(q._replace(dof=factor * q.dof)) > 0


def test_draws_have_the_moments_of_a_wishart(q, rng):
    drawn = np.array([q.drawn(rng).mean_precision for _ in range(4000)])
    assert_allclose(drawn, drawn.transpose(0, 2, 1), rtol=1e-9)
    agrees(drawn, q.mean_precision)
    agrees(-np.linalg.slogdet(drawn)[1], q.mean_log_det)
    # Of second order: E L_ab L_cd = nu^2 V_ab V_cd + nu (V_ac V_bd + V_ad V_bc), V the inverse of the scale.
    V = np.linalg.inv(q.scale)
    pairs = np.einsum("ac,bd->abcd", V, V) + np.einsum("ad,bc->abcd", V, V)
    second = q.dof**2 * np.einsum("ab,cd->abcd", V, V) + q.dof * pairs
    agrees(np.einsum("nab,ncd->nabcd", drawn, drawn), second)


def test_a_draw_stands_for_a_certain_covariance(rng):
    draw = BELIEF.drawn(rng)
    assert draw.dof == BELIEF.dof
    assert_allclose(draw.scale / draw.dof @ draw.mean_precision, np.eye(3), atol=1e-10)
    R = np.array([[2.0, 0, 0], [0.5, 1, 0], [-0.3, 0.2, 0.7]])
    assert_allclose(InverseWishart.certain(R, 11.0).mean_precision, R.T @ R, rtol=1e-12)


def test_log_determinant():
    assert_allclose(log_det(SCALE), np.log(np.linalg.det(SCALE)), rtol=1e-12)
