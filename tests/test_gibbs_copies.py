"""Weights of rows whose missing entries are drawn: each copy of a row has entries of its own."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references
from references_gibbs import ERRORS, agrees
from softmargin import BayesianLinearSVC, BayesianMixedSVC
from softmargin.chunks import Table
from softmargin.diagnostics import ess
from softmargin.engine import Problem
from softmargin.gaussian import from_natural
from softmargin.gibbs import HingeScales, augmentation_of, sample
from softmargin.gibbs.augmentation import Site
from softmargin.gibbs.chain import ChainData
from softmargin.gibbs.copies import Copies, copies_of
from softmargin.gibbs.left_out import without_units
from softmargin.imputation import ColumnModel
from softmargin.likelihoods import LOSSES
from softmargin.loo import Predicted
from softmargin.priors import Imputing, Ridge
from softmargin.rows import Features, IncompleteRows, LinearRows

pytestmark = pytest.mark.filterwarnings("ignore::softmargin.diagnostics.MixingWarning")


def one_column(weight, loss="hinge", block_rows=3):
    rng = np.random.default_rng(2)
    x = rng.normal(0.5, 1.0, size=8)
    y = np.where(x + 0.3 * rng.normal(size=8) > 0, 1.0, -1.0)
    x[[1, 4, 6]] = np.nan
    rows = IncompleteRows(LinearRows(np.zeros(1), np.ones(1), intercept=False), 1)
    prior = Imputing(Ridge(np.array([0.5])), ColumnModel(np.zeros(1), np.ones(1), mean_variance=4.0, scale=1.0), 8.0)
    return Problem(Table(x[:, None], y, np.asarray(weight, dtype=float), block_rows), rows, LOSSES[loss], prior)


def true_moments(problem):
    """Moments of ``(u, mu, log Sigma)``, a row counted as often as its weight says, whatever is missing."""
    (X, y, weight, _), likelihood = problem.table, augmentation_of(problem.likelihood)

    def log_density(points):  # Sigma ~ IW(1, 2), with the Jacobian of the logarithm
        u, mu, log_variance = points.T
        variance = np.exp(log_variance)
        total = -0.25 * u**2 - mu**2 / 8 - log_variance - 0.5 / variance
        for x, label, c in zip(X[:, 0], y, weight, strict=True):
            if np.isnan(x):
                labels, one = np.full(len(u), label), np.ones(len(u))
                total += c * likelihood.tilted(labels, u * mu, u**2 * variance, one).log_total
            else:
                total += c * problem.likelihood.log_density(np.full(len(u), label), u * x)
                total -= 0.5 * c * (log_variance + (x - mu) ** 2 / variance)
        return total

    return references.grid_moments(log_density, [(-3, 9), (-2, 4), (-3, 3)], 45)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_weighted_rows_with_missing_entries_equal_brute_force(loss):
    if loss == "logistic":
        pytest.importorskip("polyagamma")
    problem = one_column([1, 6, 2, 1, 3, 0, 1, 1], loss)
    draws = sample(problem, rng=np.random.default_rng(0), n_draws=3000, warm_up=300, n_chains=2)
    columns = draws.hypers.columns
    log_variances = -np.log(columns.precision[..., 0])
    agrees(np.concatenate([draws.chains, columns.mean, log_variances], axis=2), *true_moments(problem))


def test_rows_without_copies_are_drawn_as_ever():
    rows = one_column(np.ones(8)).rows
    for weight in (np.ones(8), np.array([5.0, 1, 2, 9, 0.3, 1, 0, 1])):
        data = ChainData.of(one_column(weight), None)
        assert data.copies is None
        assert data.features(0) is data.problem.features(0)
    assert copies_of(one_column(np.full(8, 3.0)).table, rows.rows, np.full(8, 3.0), np.ones(8)) is None


def test_weights_are_shared_by_the_nearest_number_of_copies():
    # Rows 1, 4 and 6 have missing entries; the last two weigh 3 and 6 by two units of their class's weight.
    weight, unit = np.array([2.0, 2.6, 1, 1, 3, 1, 6, 1]), np.array([1.0, 1, 1, 1, 1.5, 1, 3, 1])
    data = ChainData.of(one_column(weight), unit)
    assert data.copies is not None
    assert [own.rows.tolist() for own in data.copies] == [[0, 1, 1, 1, 2], [0, 1, 1, 1, 1, 2], [0, 0, 0, 0, 0, 0, 1]]
    assert [own.of_unit.tolist() for own in data.copies] == [[1, 1, 1], [1, 2, 1], [3, 1]]
    assert_allclose(np.concatenate(data.weight), [2, 2.6 / 3, 2.6 / 3, 2.6 / 3, 1, 1, *[0.75] * 4, 1, *[1] * 7])
    for index, (own, y) in enumerate(zip(data.copies, data.y, strict=True)):
        X, labels, _ = data.problem.table.block(index)
        assert_array_equal(y, labels[own.rows])
        assert_array_equal(data.features(index).base.phi, np.nan_to_num(X[own.rows]))


def test_the_copies_of_a_unit_leave_together(rng):
    copies = Copies.of(np.array([1, 4, 3]), np.array([1, 2, 3]))
    rows, n = np.repeat(np.arange(3), [1, 4, 3]), 8
    observed, values, predicted = rng.normal(size=3)[rows], rng.normal(size=(n, 2)), rng.normal(size=(3, 2))[rows]
    phi, before = (np.column_stack([entries, observed]) for entries in (values, predicted))
    w, b, y = rng.random(n), rng.normal(size=n), np.where(rows == 1, 1.0, -1.0)
    w[1] = 0.0
    belief = from_natural(np.eye(3) + (phi.T * w) @ phi, phi.T @ b)
    features, foreseen = Features(phi, np.zeros(n)), Features(before, np.full(n, 0.3))
    latent, at = features.moments(belief), foreseen.moments(belief)
    predicted = Predicted(at, np.einsum("ij,jk,ik->i", before, belief.covariance, phi))
    columns, unit = (values, features.cross(belief)[:, :2]), np.array([0.5, 2.0, 3.0])
    c = np.where(rows == 0, 1.7, 1.0)
    got = without_units(HingeScales(), copies, latent, predicted, columns, Site(w, b), y, c, unit, 2.2e-16)
    for i, gone in enumerate(([0], [1, 2], [5, 6, 7])):
        kept = np.setdiff1d(np.arange(n), gone)
        rest = from_natural(np.eye(3) + (phi[kept].T * w[kept]) @ phi[kept], phi[kept].T @ b[kept])
        mu, _, _ = latent_without = Features(before[gone[:1]], np.full(1, 0.3)).moments(rest)
        left, all_of_it = 1.7 - 0.5 if i == 0 else 0.0, [1.7, 2.0, 3.0][i]
        one = y[gone[:1]], mu, latent_without.v
        tilted, whole = (HingeScales().tilted(*one, np.array([k])) for k in (left, all_of_it))
        wanted = tilted.log_total - whole.log_total, tilted.mean, tilted.variance
        assert_allclose([part[i] for part in got], np.ravel(wanted), rtol=1e-8)


def test_too_many_copies_are_refused():
    for weight in (np.full(8, 1001.0), np.array([1.0, 1e30, 1, 1, 1, 1, 1, 1])):
        with pytest.raises(ValueError, match=r"up to 1\d* copies of a row.* in place of 8. Divide the weights"):
            sample(one_column(weight), rng=np.random.default_rng(0), n_draws=2, warm_up=0)


# The estimators ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    """Sixty rows, of which half lack one of two correlated columns."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=60)
    y = np.where(X.sum(axis=1) + rng.logistic(size=60) > 0, 1, 0)
    X[rng.random(60) < 0.5, 1] = np.nan
    return X, y


def same_posterior(one, other):
    """Means of all weights agree to the Monte Carlo errors of the two chains."""
    chains = one.draws_.chains, other.draws_.chains
    (mean, error), (other_mean, other_error) = (
        (draws.mean(axis=(0, 1)), draws.std(axis=(0, 1)) / np.sqrt(ess(draws))) for draws in chains
    )
    assert np.all(np.abs(mean - other_mean) < ERRORS * np.hypot(error, other_error))
    # The weights' scatter, which entries that were counted too often would narrow.
    assert_allclose(chains[0].std(axis=(0, 1)), chains[1].std(axis=(0, 1)), rtol=0.2)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_weight_six_is_six_copies(loss, table):
    X, y = table
    settings = {"inference": "gibbs", "loss": loss, "n_draws": 400, "random_state": 0}
    weighted = BayesianLinearSVC(**settings).fit(X, y, sample_weight=np.full(60, 6.0))
    repeated = BayesianLinearSVC(**settings).fit(np.repeat(X, 6, axis=0), np.repeat(y, 6))
    same_posterior(weighted, repeated)
    assert abs(weighted.loo_log_loss_ - repeated.loo_log_loss_) < 0.02
    by_class = BayesianLinearSVC(class_weight={0: 2, 1: 3}, **settings).fit(X, y)
    k = np.where(y == 0, 2, 3)
    same_posterior(by_class, BayesianLinearSVC(**settings).fit(np.repeat(X, k, axis=0), np.repeat(y, k)))


def test_copies_belong_to_the_groups_of_their_row(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(clinic=np.arange(60) % 6)
    settings = {"inference": "gibbs", "n_draws": 400, "random_state": 0}
    k = 1 + np.arange(60) % 4
    weighted = BayesianMixedSVC("~ a + b + (1|clinic)", **settings).fit(frame, y, sample_weight=k)
    many = frame.loc[np.repeat(frame.index, k)].reset_index(drop=True)
    repeated = BayesianMixedSVC("~ a + b + (1|clinic)", **settings).fit(many, np.repeat(y, k))
    same_posterior(weighted, repeated)
    assert abs(weighted.loo_log_loss_ - repeated.loo_log_loss_) < 0.05
