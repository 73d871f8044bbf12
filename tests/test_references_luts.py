"""The references of Luts and Ormerod (2014) are judged here, so that they may judge the library.

Lower bounds are compared with Monte Carlo estimates of what they bound, samplers with importance sampling from the
prior: tiny tables and firm priors, so that half a million prior draws are worth hundreds of posterior ones.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import bernoulli, invgamma, invgauss, invwishart, laplace, multivariate_normal, norm

import references_luts as luts
from references import gradient, luts_algorithm_2

#: Standard errors that two Monte Carlo estimates may lie apart: of some hundred numbers here, each with a standard
#: error that is itself estimated from forty batches, less than one in a hundred seeds would exceed it.
ERRORS = 5.0
#: Of the priors of the samplers' tests.
SIGMA2_BETA, A_U, B_U, RHO, SIGMA2_MU, PSI, NU = 2.0, 3.0, 2.0, 0.4, 2.0, 4 * np.eye(2), 6


@pytest.fixture
def table():
    """Forty rows, three columns of which the last means nothing, labels by the first two."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(40, 3)) @ np.array([[1, 0.4, 0], [0, 1, 0], [0, 0, 1]])
    return D, np.where(D @ [1.5, -1, 0] + 0.7 * rng.normal(size=40) > 0.3, 1.0, -1.0)


def with_holes(D, share, seed=1):
    return np.where(np.random.default_rng(seed).random(D.shape) < share, np.nan, D)


# Algorithm 3 ---------------------------------------------------------------------------------------


def test_bound_of_algorithm_3_rises(table):
    D, y = table
    bounds = luts.luts_algorithm_3(np.ones((40, 1)), D, y, 1e8, 0.01, 0.01, rho=0.2, n_loops=300).bounds
    assert np.all(np.diff(bounds) > -1e-9)
    assert bounds[-1] > bounds[0] + 1
    assert_allclose(bounds[-1], bounds[-2], atol=1e-9)


def test_bound_of_algorithm_3_is_the_expected_hinge_less_the_divergence(table, rng):
    D, y = table
    sigma2_beta, A_u, B_u, rho = 4.0, 2.0, 1.0, 0.3
    X = np.ones((40, 1))
    q = luts.luts_algorithm_3(X, D, y, sigma2_beta, A_u, B_u, rho, n_loops=8)  # far from its fixed point, all the same
    n, m = 40_000, 3
    weights = rng.multivariate_normal(q.mu, q.Sigma, size=n)
    sigma2_u = q.B_q / rng.gamma(A_u + m / 2, size=n)
    b, gamma = rng.wald(q.mu_b, 1.0, size=(n, m)), (rng.random((n, m)) < q.mu_gamma).astype(float)
    log_q = log_normals(weights, q.mu, q.Sigma[None]) + invgamma.logpdf(sigma2_u, A_u + m / 2, scale=q.B_q)
    log_q += np.sum(invgauss.logpdf(b, q.mu_b) + bernoulli.logpmf(gamma, q.mu_gamma), axis=1)
    beta, v = weights[:, :1], weights[:, 1:]
    log_p = norm.logpdf(beta[:, 0], scale=sigma2_beta**0.5) + invgamma.logpdf(sigma2_u, A_u, scale=B_u)
    log_p += np.sum(norm.logpdf(v, scale=np.sqrt(sigma2_u[:, None] / b)), axis=1)
    log_p += np.sum(invgamma.logpdf(b, 1, scale=0.5) + bernoulli.logpmf(gamma, rho), axis=1)
    z = 1 - y * (beta + (gamma * v) @ D.T)
    # The scales of the rows, integrated out: -E z - sqrt(E z^2).
    agrees_with_bound(q.bounds[-1], z, log_p - log_q)


def agrees_with_bound(bound, z, log_ratio):
    """The bound equals ``sum -E z - sqrt(E z^2)`` plus the mean of ``log p - log q``, by draws in rows."""
    root = np.sqrt(np.mean(z**2, axis=0))
    # To first order sqrt(mean z^2) varies as z^2 / (2 root).
    each = np.sum(-z - root / 2 - z**2 / (2 * root), axis=1) + log_ratio
    error = each.std() / np.sqrt(len(each))
    assert error < 0.1
    assert abs(each.mean() - bound) < ERRORS * error


def test_inclusion_without_doubt_is_a_laplace_model(table):
    D, y = table
    X, priors = np.ones((40, 1)), (4.0, 2.0, 1.0)
    mu, Sigma, B_q, bound = laplace_model(X, D, y, *priors, n_loops=400)
    for excess, tolerance in [(1e-3, 1e-2), (1e-6, 1e-5), (1e-10, 1e-7)]:
        q = luts.luts_algorithm_3(X, D, y, *priors, rho=1 - excess, n_loops=400)
        assert_allclose(q.mu, mu, atol=tolerance)
        assert_allclose(q.Sigma, Sigma, atol=tolerance)
        assert_allclose(q.B_q, B_q, rtol=tolerance)
        assert_allclose(q.bounds[-1], bound, atol=3 * tolerance)  # a doubt of ``excess`` in each of three columns


def laplace_model(X, Z, y, sigma2_beta, A_u, B_u, n_loops):
    """Rows by their sites, Laplace's prior by its mixture; the bound from its parts."""
    (n, p), m = X.shape, Z.shape[1]
    C, w, precision, mu_b = np.hstack([X, Z]), np.ones(n), 1.0, np.ones(m)
    mu, Sigma, B_q, z, spread = np.zeros(p + m), np.eye(p + m), B_u, np.ones(n), np.ones(n)
    for _ in range(n_loops):
        Sigma = np.linalg.inv((C.T * w) @ C + np.diag([1 / sigma2_beta] * p + list(precision * mu_b)))
        mu = Sigma @ C.T @ (y * (1 + w))
        square = (mu**2 + np.diag(Sigma))[p:]
        mu_b = (precision * square) ** -0.5
        z, spread = 1 - y * (C @ mu), np.sum(C @ Sigma * C, axis=1)
        w = (z**2 + spread) ** -0.5
        B_q = B_u + mu_b @ square / 2
        precision = (A_u + m / 2) / B_q
    # E log p(b)/q(b) = -log 2 + log(2 pi)/2 - 1/(2 mu) less E log(b)/2, which cancels as all such logarithms do.
    bound = np.sum(-z - np.sqrt(z**2 + spread)) + np.linalg.slogdet(Sigma)[1] / 2 + (p + m) / 2
    bound -= (mu[:p] @ mu[:p] + np.trace(Sigma[:p, :p])) / (2 * sigma2_beta) + p / 2 * np.log(sigma2_beta)
    bound += m * (np.log(2 * np.pi) / 2 - np.log(2)) - np.sum(1 / mu_b) / 2
    shape = A_u + m / 2
    bound += A_u * np.log(B_u) - luts.gammaln(A_u) - shape * np.log(B_q) + luts.gammaln(shape)
    return mu, Sigma, B_q, bound


def test_algorithm_3_tells_columns_that_matter(table):
    D, y = table
    q = luts.luts_algorithm_3(np.ones((40, 1)), D, y, 1e8, 0.01, 0.01, rho=0.2)
    assert np.all(q.mu_gamma[:2] > 0.9)
    assert q.mu_gamma[2] < 0.3


def test_algorithm_3_begins_where_it_is_told(table):
    D, y = table
    settings = (np.ones((40, 1)), D, y, 1e8, 0.01, 0.01, 0.2)
    whole = luts.luts_algorithm_3(*settings, n_loops=30)
    half = luts.luts_algorithm_3(*settings, n_loops=15)
    start = luts.Started(half.w, (0.01 + 3 / 2) / half.B_q, half.mu_b, half.mu_gamma)
    rest = luts.luts_algorithm_3(*settings, n_loops=15, start=start)
    assert_allclose(half.bounds + rest.bounds, whole.bounds, rtol=1e-12)
    assert_allclose(rest.mu, whole.mu, rtol=1e-9)


# Algorithm 4 ---------------------------------------------------------------------------------------


def test_bound_of_algorithm_4_rises(table):
    D, y = table
    bounds = luts.luts_algorithm_4(with_holes(D, 0.3), y, 1e8, 0.01, 0.01, 1e8, 0.01 * np.eye(3), 4, n_loops=500).bounds
    assert np.all(np.diff(bounds) > -1e-8)
    assert bounds[-1] > bounds[0] + 1
    assert_allclose(bounds[-1], bounds[-2], atol=1e-6)


def test_bound_of_algorithm_4_is_the_expected_hinge_less_the_divergence(table, rng):
    D, y = table[0][:12], table[1][:12]
    D = with_holes(D, 0.3)
    D[0] = np.nan
    missing = np.isnan(D)
    sigma2_beta, A_u, B_u, sigma2_mu, Psi, nu = 4.0, 2.0, 1.0, 3.0, np.eye(3), 5
    q = luts.luts_algorithm_4(D, y, sigma2_beta, A_u, B_u, sigma2_mu, Psi, nu, n_loops=4)
    n, d = 20_000, 3
    weights = rng.multivariate_normal(q.mu, q.Sigma, size=n)
    sigma2_u = q.B_q / rng.gamma(A_u + d / 2, size=n)
    mu = rng.multivariate_normal(q.mean_mu, q.Sigma_mu, size=n)
    Sigma = invwishart.rvs(nu + 12, q.Psi_q, size=n, random_state=rng)
    log_q = log_normals(weights, q.mu, q.Sigma[None]) + invgamma.logpdf(sigma2_u, A_u + d / 2, scale=q.B_q)
    log_q += log_normals(mu, q.mean_mu, q.Sigma_mu[None])
    log_q += invwishart.logpdf(Sigma.transpose(1, 2, 0), nu + 12, q.Psi_q)
    log_p = norm.logpdf(weights[:, 0], scale=sigma2_beta**0.5) + invgamma.logpdf(sigma2_u, A_u, scale=B_u)
    log_p += np.sum(norm.logpdf(weights[:, 1:], scale=np.sqrt(sigma2_u[:, None])), axis=1)
    log_p += np.sum(norm.logpdf(mu, scale=sigma2_mu**0.5), axis=1)
    log_p += invwishart.logpdf(Sigma.transpose(1, 2, 0), nu, Psi)
    z = np.empty((n, 12))
    for i in range(12):
        row, gone = np.tile(D[i], (n, 1)), missing[i]
        if gone.any():
            belief = multivariate_normal(q.mean_d[i, gone], q.Sigma_d[i][np.ix_(gone, gone)])
            row[:, gone] = belief.rvs(n, random_state=rng).reshape(n, -1)
            log_q += belief.logpdf(row[:, gone])
        log_p += log_normals(row, mu, Sigma)
        z[:, i] = 1 - y[i] * (weights[:, 0] + np.sum(row * weights[:, 1:], axis=1))
    agrees_with_bound(q.bounds[-1], z, log_p - log_q)


def log_normals(rows, means, covariances):
    """Logarithms of normal densities at rows, each of its own or all of one."""
    about = rows - means
    square = np.sum(about * np.linalg.solve(covariances, about[:, :, None])[:, :, 0], axis=1)
    return -0.5 * (square + np.linalg.slogdet(covariances)[1] + rows.shape[1] * np.log(2 * np.pi))


def test_rows_of_algorithm_4_come_to_rest_at_their_best(table):
    D, y = with_holes(table[0], 0.3), table[1]
    q = luts.luts_algorithm_4(D, y, 1e8, 0.01, 0.01, 1e8, 0.01 * np.eye(3), 4, n_loops=1000)
    precision_d, Omega = (4 + 40) * np.linalg.inv(q.Psi_q), q.Sigma + np.outer(q.mu, q.mu)
    rows = np.flatnonzero(np.isnan(D).any(axis=1))
    assert len(rows) > 15
    for i in rows:

        def expected(entries, i=i):
            row = D[i].copy()
            row[np.isnan(row)] = entries
            c, about = np.append(1, row), row - q.mean_mu
            z = 1 - y[i] * c @ q.mu
            chi = z**2 + c @ q.Sigma @ c + np.trace(Omega[1:, 1:] @ q.Sigma_d[i])
            return -z - np.sqrt(chi) - about @ precision_d @ about / 2

        assert_allclose(gradient(expected, q.mean_d[i, np.isnan(D[i])], 1e-3), 0, atol=1e-6)


def test_nothing_missing_leaves_algorithm_2_and_the_imputation_model(table):
    D, y = table
    imputation = (3.0, np.eye(3), 4)
    for n_loops in (1, 2, 60):
        q = luts.luts_algorithm_4(D, y, 1e8, 0.01, 0.01, *imputation, n_loops=n_loops)
        mu, Sigma, B_q, bounds = luts_algorithm_2(np.ones((40, 1)), D, y, 1e8, 0.01, 0.01, n_loops=n_loops)
        assert_allclose(q.mu, mu, rtol=1e-9)
        assert_allclose(q.Sigma, Sigma, rtol=1e-9)
        assert_allclose(q.B_q, B_q, rtol=1e-9)
        own = luts.imputation_bound(q.mean_mu, q.Sigma_mu, q.Psi_q, 40, *imputation)
        assert_allclose(q.bounds[-1] - bounds[-1], own, rtol=1e-9)
    assert_allclose(q.mean_d, D)
    assert not q.Sigma_d.any()


def test_imputation_model_bounds_the_density_of_its_rows(rng):
    """With one column, ``log p(D)`` is an integral over two numbers: the prior's draws, weighted."""
    D = rng.normal(1.0, 0.8, size=(6, 1))
    sigma2_mu, Psi, nu = 2.0, np.eye(1), 4
    q = luts.luts_algorithm_4(D, np.ones(6), 1.0, 1.0, 1.0, sigma2_mu, Psi, nu, n_loops=200)
    mu = rng.normal(0, sigma2_mu**0.5, size=400_000)
    variance = invwishart.rvs(nu, Psi, size=400_000, random_state=rng)
    density = np.exp(np.sum(norm.logpdf(D[:, 0], mu[:, None], np.sqrt(variance)[:, None]), axis=1))
    log_p, error = np.log(density.mean()), density.std() / density.mean() / np.sqrt(len(density))
    own = luts.imputation_bound(q.mean_mu, q.Sigma_mu, q.Psi_q, 6, sigma2_mu, Psi, nu)
    assert error < 0.01
    # A product of two factors for a mean and a variance of six rows loses little.
    assert log_p - 0.2 < own < log_p + ERRORS * error


# Samplers ------------------------------------------------------------------------------------------


def importance(functions, log_weight):
    """Means of ``functions`` (rows are draws) under weights, and their standard errors."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ functions
    assert 1 / np.sum(weight**2) > 200  # or its own errors could not be trusted
    return mean, np.sqrt((weight**2) @ (functions - mean) ** 2)


def chain_moments(functions, n_batches=40):
    """Means of a chain, and standard errors from the means of long batches, which are nearly independent."""
    batches = (
        functions[: len(functions) // n_batches * n_batches].reshape(n_batches, -1, functions.shape[1]).mean(axis=1)
    )
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(n_batches)


def agree(chain, prior_draws, log_weight):
    """The first two moments of each quantity by either way."""
    both = [np.concatenate([part, part**2], axis=1) for part in (chain, prior_draws)]
    (mean, error), (true_mean, true_error) = chain_moments(both[0]), importance(both[1], log_weight)
    apart, error = np.abs(mean - true_mean), np.hypot(error, true_error)
    assert np.all(apart < ERRORS * error)
    # Guards against errors so large that anything would agree; squares of heavy tails scatter most.
    of_means, of_squares = np.split(error, 2)
    square = np.maximum(true_mean[len(of_means) :], 0.01)
    assert np.all(of_means < 0.07 * np.sqrt(square))
    assert np.all(of_squares < 0.25 * square)


def hinge(y, f):
    """The log pseudo-likelihood of labels, for latent values a row for each draw."""
    return -2 * np.sum(np.maximum(0, 1 - y * f), axis=1)


def columns(*parts):
    """Parts side by side, a row for each draw."""
    return np.column_stack([np.reshape(part, (len(part), -1)) for part in parts])


def few_rows(n, d, seed=3):
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(n, d))
    return D, np.where(D[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def prior_weights(n_draws, m, rng):
    """Intercept, variance, and ``m`` weights of that variance."""
    sigma2_u = B_U / rng.gamma(A_U, size=n_draws)
    beta = rng.normal(0, SIGMA2_BETA**0.5, size=(n_draws, 1))
    return beta, sigma2_u, np.sqrt(sigma2_u)[:, None] * rng.normal(size=(n_draws, m))


def prior_selected(n_draws, m, rng):
    """Intercept, variance, inclusion, and weights: Laplace or zero."""
    beta, sigma2_u, _ = prior_weights(n_draws, m, rng)
    gamma = (rng.random((n_draws, m)) < RHO).astype(float)
    v = laplace.rvs(scale=np.sqrt(sigma2_u)[:, None], size=(n_draws, m), random_state=rng)
    return beta, sigma2_u, gamma, v


def proposed_rows(D, n_draws, rng):
    """``Sigma`` and ``mu`` by an inverse Wishart and a normal not far from their posterior, and missing entries given
    those and the observed ones; and the logarithm of the density of it all over that of what was proposed."""
    n, d = D.shape
    filled = np.where(np.isnan(D), 0, D)
    scale, nu, center, width = PSI + filled.T @ filled, NU + n - 2, np.nanmean(D, axis=0) / 2, 0.8
    Sigma = invwishart.rvs(nu, scale, size=n_draws, random_state=rng)
    mu = center + width * rng.normal(size=(n_draws, d))
    # Inverse Wishart densities are as |Sigma|^-(nu + d + 1)/2 exp(-tr(scale Sigma^-1)/2).
    log_ratio = (nu - NU) / 2 * np.linalg.slogdet(Sigma)[1]
    log_ratio -= np.sum((PSI - scale) * np.linalg.inv(Sigma), axis=(1, 2)) / 2
    log_ratio += np.sum(norm.logpdf(mu, scale=SIGMA2_MU**0.5) - norm.logpdf(mu, center, width), axis=1)
    rows = np.tile(D, (n_draws, 1, 1))
    for i in range(len(D)):
        gone, seen = np.flatnonzero(np.isnan(D[i])), np.flatnonzero(~np.isnan(D[i]))
        if len(seen) > 0:
            within = Sigma[:, seen[:, None], seen]
            log_ratio += log_normals(rows[:, i, seen], mu[:, seen], within)
        if len(gone) > 0:
            mean, covariance = mu[:, gone], Sigma[:, gone[:, None], gone]
            if len(seen) > 0:
                slope = np.linalg.solve(within, Sigma[:, seen[:, None], gone]).transpose(0, 2, 1)
                mean = mean + (slope @ (D[i, seen] - mu[:, seen])[:, :, None])[:, :, 0]
                covariance = covariance - slope @ Sigma[:, seen[:, None], gone]
            noise = rng.normal(size=(n_draws, len(gone), 1))
            rows[:, i, gone] = mean + (np.linalg.cholesky(covariance) @ noise)[:, :, 0]
    return mu, Sigma, rows, log_ratio


@pytest.fixture
def holed():
    """Five rows of two columns: one without its first entry, one without its second, one without both."""
    D, y = few_rows(5, 2)
    D[1, 0] = D[3, 1] = np.nan
    D[4] = np.nan
    return D, y


def bent(u):
    """Without the heavy tails that weights of an inferred variance have."""
    return np.arctan(u)


def test_appendix_a_draws_from_the_posterior(rng):
    D, y = few_rows(8, 2)
    chain = luts.gibbs_a(np.ones((8, 1)), D, y, SIGMA2_BETA, A_U, B_U, 7_000, rng)
    beta, sigma2_u, u = prior_weights(400_000, 2, rng)
    found = columns(chain["beta"], bent(chain["u"]), np.log(chain["sigma2_u"]))
    agree(found, columns(beta, bent(u), np.log(sigma2_u)), hinge(y, beta + u @ D.T))


def test_appendix_b_draws_from_the_posterior(rng):
    D, y = few_rows(8, 2)
    chain = luts.gibbs_b(np.ones((8, 1)), D, y, SIGMA2_BETA, A_U, B_U, RHO, 8_000, rng)
    beta, sigma2_u, gamma, v = prior_selected(400_000, 2, rng)
    found = columns(chain["beta"], chain["gamma"], bent(chain["u"]), np.log(chain["sigma2_u"]))
    agree(found, columns(beta, gamma, bent(gamma * v), np.log(sigma2_u)), hinge(y, beta + (gamma * v) @ D.T))


def test_appendix_c_draws_from_the_posterior(holed, rng):
    D, y = holed
    chain = luts.gibbs_c(D, y, SIGMA2_BETA, A_U, B_U, SIGMA2_MU, PSI, NU, 5_000, rng)
    beta, sigma2_u, u = prior_weights(400_000, 2, rng)
    mu, Sigma, rows, log_ratio = proposed_rows(D, 400_000, rng)
    found = columns(
        chain["beta"],
        bent(chain["u"]),
        np.log(chain["sigma2_u"]),
        chain["missing"],
        chain["mu"],
        log_spread(chain["Sigma"]),
    )
    true = columns(beta, bent(u), np.log(sigma2_u), rows[:, np.isnan(D)], mu, log_spread(Sigma))
    f = beta + np.einsum("kij,kj->ki", rows, u)
    agree(found, true, log_ratio + hinge(y, f))


def log_spread(Sigma):
    """Logarithms of the variances, and the correlation: an inverse Wishart's own tails are heavy."""
    variances = np.diagonal(Sigma, axis1=1, axis2=2)
    return columns(np.log(variances), Sigma[:, 0, 1] / np.sqrt(variances.prod(axis=1)))


def test_selection_with_missing_entries_draws_from_the_posterior(holed, rng):
    D, y = holed
    priors = (SIGMA2_BETA, A_U, B_U, RHO, SIGMA2_MU, PSI, NU)
    chain = luts.gibbs_selection_missing(D, y, *priors, 6_000, rng)
    beta, sigma2_u, gamma, v = prior_selected(400_000, 2, rng)
    _, _, rows, log_ratio = proposed_rows(D, 400_000, rng)
    found = columns(chain["beta"], chain["gamma"], bent(chain["u"]), np.log(chain["sigma2_u"]), chain["missing"])
    true = columns(beta, gamma, bent(gamma * v), np.log(sigma2_u), rows[:, np.isnan(D)])
    agree(found, true, log_ratio + hinge(y, beta + np.einsum("kij,kj->ki", rows, gamma * v)))


def test_random_intercepts_with_missing_entries_draw_from_the_posterior(holed, rng):
    D, y = holed
    group = np.array([0, 0, 1, 1, 1])
    priors = (SIGMA2_BETA, A_U, B_U, SIGMA2_MU, PSI, NU)
    chain = luts.gibbs_intercept_missing(D, group, y, *priors, 6_000, rng)
    intercept, sigma2_u, u = prior_weights(400_000, 2, rng)
    slopes = rng.normal(0, SIGMA2_BETA**0.5, size=(400_000, 2))
    _, _, rows, log_ratio = proposed_rows(D, 400_000, rng)
    found = columns(chain["beta"], bent(chain["u"]), np.log(chain["sigma2_u"]), chain["missing"])
    true = columns(intercept, slopes, bent(u), np.log(sigma2_u), rows[:, np.isnan(D)])
    f = intercept + u[:, group] + np.einsum("kij,kj->ki", rows, slopes)
    agree(found, true, log_ratio + hinge(y, f))
