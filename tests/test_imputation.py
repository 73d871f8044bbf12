import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import invwishart

import references_structured as naive
from softmargin.chunks import Table
from softmargin.imputation import ColumnModel, Sums, column_sums
from softmargin.rows import LinearRows

N, D = 25, 3
MODEL = ColumnModel(np.array([0.5, -1.0, 0.0]), np.array([1.0, 2.0, 0.5]), mean_variance=4.0, scale=0.3)


@pytest.fixture
def values(rng):
    return rng.normal(size=(N, D)) @ np.array([[1.0, 0.5, 0], [0, 1.5, -0.4], [0, 0, 0.6]]) + [0.5, -1.0, 2.0]


def sums_of(values, weight=None):
    weight = np.ones(len(values)) if weight is None else weight
    second = sum(w * np.outer(x, x) for w, x in zip(weight, values, strict=True))
    return Sums(weight @ values, np.asarray(second), float(weight.sum()))


def by_turns(values, n_turns):
    """The module's formulas over rows, from the scatter about the mean on."""
    Psi, nu = np.diag(0.3 * MODEL.spread**2), D + 1.0
    scale = Psi + sum(np.outer(x, x) for x in values - values.mean(axis=0))
    for _ in range(n_turns):
        precision = (nu + N) * np.linalg.inv(scale)
        of_mean = np.linalg.inv(np.eye(D) / 4.0 + N * precision)
        mean = of_mean @ precision @ values.sum(axis=0)
        scale = Psi + sum(np.outer(x - mean, x - mean) + of_mean for x in values)
    return mean, of_mean, scale


def objective(q, values):
    """``E log p(rows) - KL``."""
    return -q.cost(values).sum() - MODEL.kl(q)


def drawn_from(q, n, rng):
    means = rng.multivariate_normal(q.mean, q.mean_covariance, size=n)
    return means, invwishart.rvs(q.covariance.dof, q.covariance.scale, size=n, random_state=rng)


def test_sums_about_a_mean(values):
    mean = np.array([1.0, -2.0, 0.3])
    wanted = sum(np.outer(x - mean, x - mean) for x in values)
    assert_allclose(sums_of(values).around(mean), wanted, rtol=1e-10)


@pytest.mark.parametrize("n_updates", [1, 2, 30])
def test_updates_are_turns_between_mean_and_covariance(values, n_updates):
    q = None
    for _ in range(n_updates):
        q = MODEL.updated(sums_of(values), q)
    assert q is not None
    mean, of_mean, scale = by_turns(values, 3 * n_updates)
    assert_allclose(q.mean, mean, rtol=1e-9)
    assert_allclose(q.mean_covariance, of_mean, rtol=1e-8, atol=1e-12)
    assert_allclose(q.covariance.scale, scale, rtol=1e-9)
    assert q.covariance.dof == D + 1 + N
    assert_allclose(q.precision, (D + 1 + N) * np.linalg.inv(scale), rtol=1e-8)


def test_updates_never_lower_the_objective_and_end_at_its_top(values, rng):
    q = MODEL.updated(MODEL.start(5.0))
    for _ in range(20):
        before, q = objective(q, values), MODEL.updated(sums_of(values), q)
        assert objective(q, values) >= before - 1e-10
    top = objective(q, values)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            bump = np.eye(D) + size * rng.normal(size=(D, D))
            covariance = q.covariance._replace(scale=bump @ q.covariance.scale @ bump.T)
            others = [
                q._replace(mean=q.mean + size * rng.normal(size=D)),
                q._replace(mean_covariance=bump @ q.mean_covariance @ bump.T),
                q._replace(covariance=covariance, precision=covariance.mean_precision),
            ]
            assert max(objective(other, values) for other in others) < top
    for dof in (q.covariance.dof * 0.99, q.covariance.dof * 1.01):
        covariance = q.covariance._replace(dof=dof)
        assert objective(q._replace(covariance=covariance, precision=covariance.mean_precision), values) < top


def test_divergence_equals_monte_carlo(values, rng):
    q = MODEL.updated(sums_of(values))
    means, covariances = drawn_from(q, 10_000, rng)
    log_q = naive.log_normal(means, q.mean, q.mean_covariance)
    log_q += naive.log_inverse_wishart(covariances, *q.covariance)
    log_p = naive.log_normal(means, np.zeros(D), 4.0 * np.eye(D))
    log_p += naive.log_inverse_wishart(covariances, np.diag(0.3 * MODEL.spread**2), D + 1)
    naive.agrees(log_q - log_p, MODEL.kl(q), 0.05)
    assert MODEL.kl(q) > 0


def test_cost_is_the_expected_logarithm_of_the_density(values, rng):
    q = MODEL.updated(sums_of(values[:8]))  # few rows, so that the mean is uncertain too
    means, covariances = drawn_from(q, 10_000, rng)
    for row, cost in zip(values[:4], q.cost(values[:4]), strict=True):
        naive.agrees(-naive.log_normal(row, means, covariances), cost, 0.05)


def test_a_start_is_columns_that_have_nothing_in_common():
    q = MODEL.updated(MODEL.start(1000.0))
    assert_allclose(q.mean, MODEL.center, atol=0.01)
    assert_allclose(q.covariance.mean, np.diag(MODEL.spread**2), atol=0.02)
    standard = ColumnModel.standard(2).start(7.0)
    assert_allclose(standard.first, 0)
    assert_allclose(standard.second, 7 * np.eye(2))
    assert standard.n == 7


def test_draws_have_the_moments_of_the_posterior(rng):
    """One column: mean and variance of six numbers, whose posterior is summed on a grid."""
    model = ColumnModel(np.zeros(1), np.ones(1), mean_variance=2.0, scale=0.5)
    x = np.array([[0.3], [1.2], [-0.4], [0.9], [1.7], [0.6]])
    mean, log_variance = np.meshgrid(np.linspace(-3, 4, 400), np.linspace(-5, 5, 400), indexing="ij")
    variance = np.exp(log_variance)
    # IW(0.5, 2) of one variance is IG(1, 0.25); a grid of logarithms has the Jacobian of the variance.
    log_p = -(mean**2) / 4 - 2 * log_variance - 0.25 / variance + log_variance
    log_p = log_p - 3 * log_variance - np.sum((x[:, 0] - mean[..., None]) ** 2, axis=2) / (2 * variance)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    wanted = [np.sum(p * part) for part in (mean, mean**2, 1 / variance, log_variance, mean / variance)]
    draw, draws, sums = model.updated(sums_of(x)), [], sums_of(x)
    for _ in range(6000):
        draw = model.drawn(sums, draw, rng)
        m, precision = draw.mean[0], draw.precision[0, 0]
        draws.append([m, m**2, precision, -np.log(precision), m * precision])
    assert not draw.mean_covariance.any()
    naive.chain_agrees(np.array(draws), wanted)


def test_draws_of_many_columns_scatter_as_they_should(values, rng):
    """A mean that is all but known leaves an inverse Wishart about it; a known covariance a normal mean."""
    sums = sums_of(values)
    known = MODEL._replace(mean_variance=1e-12)
    draw, precisions = known.updated(sums), []
    for _ in range(2500):
        draw = known.drawn(sums, draw, rng)
        precisions.append(draw.precision)
    scale = np.diag(0.3 * MODEL.spread**2) + values.T @ values
    V, dof = np.linalg.inv(scale), D + 1 + N
    naive.agrees(np.array(precisions), dof * V)
    spread = dof * (np.einsum("aa,bb->ab", V, V) + V**2)
    naive.agrees((np.array(precisions) - dof * V) ** 2, spread)
    before = MODEL.updated(sums)
    means = np.array([MODEL.drawn(sums, before, rng).mean for _ in range(2500)])
    covariance = np.linalg.inv(np.eye(D) / 4.0 + N * before.precision)
    center = covariance @ before.precision @ sums.first
    naive.agrees(means, center)
    naive.agrees(np.einsum("na,nb->nab", means - center, means - center), covariance)


def test_sums_of_a_table_go_block_by_block(values, rng):
    weight = rng.integers(1, 4, size=N).astype(float)
    rows = LinearRows(np.array([0.5, 0.0, -1.0]), np.array([2.0, 1.0, 0.5]))
    codes = rng.normal(size=(N, 2))  # columns beyond those of the rows are others' business
    scaled = (values - rows.center) / rows.scale
    copies = np.repeat(scaled, weight.astype(int), axis=0)
    for block_rows in (N, 7):
        table = Table(np.hstack([values, codes]), np.ones(N), weight, block_rows)
        for got, wanted in zip(column_sums(table, rows), sums_of(copies), strict=True):
            assert_allclose(got, wanted, rtol=1e-10)
