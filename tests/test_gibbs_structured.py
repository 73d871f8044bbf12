"""The sampler over rows and priors with a structure of their own."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references
import references_grouped as dense
from references_gibbs import ERRORS, agrees, linear_problem, true_moments, two_columns
from softmargin import gaussian
from softmargin.chunks import Table
from softmargin.diagnostics import ess
from softmargin.engine import Problem
from softmargin.gibbs import HingeScales, sample
from softmargin.gibbs.chain import Chain, ChainData
from softmargin.gibbs.left_out import without_rows
from softmargin.gibbs.moments import Mixture
from softmargin.likelihoods import Hinge
from softmargin.priors import Ridge, Structured, VarianceComponents
from softmargin.priors.random_effects import Variances
from softmargin.rows import Features, Latent, LinearRows
from softmargin.rows.grouped import Factor, GroupedRows
from test_arrow import LAYOUTS, beliefs
from test_gibbs_copies import one_column

# Moments of many beliefs ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.n_core])
def test_moments_of_a_mixture_are_those_of_its_dense_form(name, rng):
    layout = LAYOUTS[name]
    pairs = [beliefs(layout, rng) for _ in range(5)]
    arrows, plain = Mixture(), Mixture()
    for one, other in pairs:
        arrows.add(one)
        plain.add(other)
    means = np.array([other.mean for _, other in pairs])
    covariance = np.mean([other.covariance for _, other in pairs], axis=0) + np.cov(means.T, bias=True)
    whole = plain.belief("inferred")
    assert_allclose(whole.mean, means.mean(axis=0), atol=1e-12)
    assert_allclose(whole.covariance, covariance, atol=1e-12)
    assert_allclose(whole.root, np.tril(whole.root))
    assert_allclose(float(whole.log_det), np.linalg.slogdet(covariance)[1], rtol=1e-9)
    arrow = arrows.belief("inferred")
    assert arrow.hyper == whole.hyper == "inferred"
    assert_allclose(arrow.mean, whole.mean, atol=1e-12)
    assert_allclose(arrow.variances, whole.variances, atol=1e-12)
    levels, core = dense.arrow_from_dense(covariance, layout)
    for got, wanted in zip(arrow.blocks, levels, strict=True):
        assert_allclose(got[0], wanted[0], atol=1e-12)
        assert_allclose(got[1], wanted[1], atol=1e-12)
    assert_allclose(arrow.core_root.T @ arrow.core_root, core, atol=1e-12)


# Groups --------------------------------------------------------------------------------------------


def test_groups_are_drawn_as_their_dummies_are():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(60, 1)), rng.integers(4, size=60)
    y = np.where(X[:, 0] + np.array([1.0, -1.0, 0.5, 0.0])[codes] + 0.5 * rng.normal(size=60) > 0, 1.0, -1.0)
    fixed = LinearRows(np.zeros(1), np.ones(1))
    rows = GroupedRows(fixed, 1, (Factor((), True, 1),), (4,))
    table = Table(np.column_stack([X, codes]), y, np.ones(60), 25)
    of_fixed = VarianceComponents(np.array([0, -1]), 3.0, 2.0, 0.1)
    prior = Structured(of_fixed, levels=(Variances(1, 3.0, 2.0),), layout=rows.layout)
    grouped = Problem(table, rows, Hinge(), prior)
    dummies = np.column_stack([np.eye(4)[codes], X])
    plain = Problem(
        Table(dummies, y, np.ones(60), 25),
        LinearRows(np.zeros(5), np.ones(5)),
        Hinge(),
        VarianceComponents(np.array([0, 0, 0, 0, 1, -1]), 3.0, 2.0, 0.1),
    )
    one, other = (
        sample(problem, rng=np.random.default_rng(1), n_draws=2000, warm_up=200, n_chains=2)
        for problem in (grouped, plain)
    )
    assert one.chains.shape == other.chains.shape == (2, 2000, 6)
    sd = np.sqrt(other.belief.variances)
    error = sd * np.sqrt(1 / ess(one.chains) + 1 / ess(other.chains))
    assert np.all(np.abs(one.belief.mean - other.belief.mean) < ERRORS * error)
    # Variances of nearly Gaussian numbers scatter by sqrt(2 / n).
    assert np.all(np.abs(one.belief.variances / sd**2 - 1) < ERRORS * np.sqrt(2) * error / sd)
    assert_allclose(one.belief.variances, one.weights.var(axis=0), rtol=0.2)
    # What the prior drew keeps its form, with chains and draws first.
    assert one.hypers.levels[0].variance.mean_precision.shape == (2, 2000, 1)
    assert one.hypers.levels[0].rate is None
    assert one.hyper(5).fixed.mean_precision.shape == (1,)
    logs = [np.log(part.mean_precision) for part in (one.hypers.levels[0].variance, one.hypers.fixed)]
    there = np.log(other.hypers.mean_precision)
    for index, part in enumerate(logs):
        gap = part.mean() - there[..., index].mean()
        assert abs(gap) < ERRORS * part.std() * np.sqrt(2 / min(ess(part[..., 0]), ess(there[..., index])))
    # Rows are left out as well.
    assert one.left_out.usable.all()
    assert np.corrcoef(one.left_out.mu, other.left_out.mu)[0, 1] > 0.99


# Weights that rows see otherwise -------------------------------------------------------------------


class Halved(NamedTuple):
    """Rows see half of the weights."""

    ridge: Ridge

    def start(self, reference):
        return self.ridge.start(reference)

    def update(self, G, h, belief=None):
        return self.given(G, h, None)

    def given(self, G, h, hyper):
        return self.ridge.given(G / 4, h / 2)

    def effective(self, belief):
        return belief._replace(mean=belief.mean / 2, root=belief.root / 2, log_det=belief.log_det)

    def drawn(self, G, h, belief, rng):
        return belief.sample(1, rng)[0], None

    def seen_weights(self, weights, hyper):
        return weights / 2


def test_moments_are_kept_of_the_weights_that_rows_see():
    X, y = two_columns(10)
    halved = linear_problem(X, y, np.ones(10), Halved(Ridge(np.array([0.5, 2.0]))))
    plain = linear_problem(X, y, np.ones(10), Ridge(4 * np.array([0.5, 2.0])))
    draws = sample(halved, rng=np.random.default_rng(0), n_draws=3000, warm_up=100, n_chains=2)
    mean, covariance = true_moments(plain)
    agrees(draws.seen_chains, mean, covariance, draws.seen)
    agrees(draws.chains, 2 * mean, 4 * covariance, draws.belief)
    assert_array_equal(draws.seen_weights, draws.weights / 2)
    same = sample(plain, rng=np.random.default_rng(0), n_draws=3000, warm_up=100, n_chains=2)
    assert_allclose(draws.left_out.mu, same.left_out.mu, atol=0.2)


# Rows that are drawn too ---------------------------------------------------------------------------


class Wobbling(NamedTuple):
    """Features that are drawn anew each time, and remember what they were asked."""

    base: Features
    asked: list[Any]

    @property
    def leftover(self):
        return self.base.leftover

    def drawn(self, weights, hyper, site, weight, rng):
        drawn = self.base._replace(phi=self.base.phi + 0.1 * rng.standard_normal(self.base.phi.shape))
        self.asked.append((weights, hyper, site, weight, drawn))
        return drawn


def test_rows_are_drawn_by_their_last_sites_and_left_out_as_they_entered():
    X, y = two_columns(6)
    weight = np.array([1.0, 2.0, 1.0, 0.5, 1.0, 1.0])
    problem = linear_problem(X, y, weight)
    features = Wobbling(Features(X, np.full(6, 0.3)), [])
    start = gaussian.from_natural(np.eye(2), np.zeros(2))
    chain = Chain(ChainData.of(problem, None), start, np.random.default_rng(0))
    blocks, turns = [], []
    for _ in range(3):
        chain.begin(leave_out=True)
        blocks.append(chain.visit(0, features))
        chain.hear(blocks[-1])
        turns.append(chain.conclude())
    assert_array_equal(features.asked[0][2], HingeScales().start(y, weight))
    for before, turn, entered, asked in zip(blocks, turns, features.asked, features.asked[1:], strict=False):
        assert_array_equal(asked[0], turn.seen)
        assert asked[1] is turn.hyper
        assert_array_equal(asked[2], before.site.spared(np.full(6, 0.3)))
        assert_array_equal(asked[3], weight)
        assert before.features is entered[4]
    # The sums are those of the drawn rows, and rows leave as they came.
    assert_allclose(blocks[1].natural[0], features.asked[1][4].gather(*blocks[1].spared)[0])
    made_with, site = features.asked[0][4], blocks[0].site
    latent = Latent(*made_with.moments(turns[0].given_scales))
    wanted = without_rows(HingeScales(), latent, site, y, weight, np.minimum(weight, 1), 2.2e-16)
    assert blocks[0].without is None
    assert_allclose(blocks[1].without, wanted)


def test_missing_entries_equal_brute_force():
    problem = one_column(np.ones(8), block_rows=5)
    x, y = problem.table.X[:, 0], problem.table.y
    draws = sample(problem, rng=np.random.default_rng(0), n_draws=4000, warm_up=200, n_chains=2)
    seen = ~np.isnan(x)

    def log_density(points):  # (u, mu, log Sigma), Sigma ~ IW(1, 2), with the Jacobian of the logarithm
        u, mu, log_variance = points.T
        variance = np.exp(log_variance)
        total = -0.25 * u**2 - mu**2 / 8 - log_variance - 0.5 / variance
        for value, label in zip(x[seen], y[seen], strict=True):
            total += -2 * np.maximum(1 - label * u * value, 0) - 0.5 * (log_variance + (value - mu) ** 2 / variance)
        for label in y[~seen]:  # a row of which nothing is known: f ~ N(u mu, u^2 Sigma)
            total += HingeScales().tilted(label, u * mu, u**2 * variance, 1.0).log_total
        return total

    mean, covariance = references.grid_moments(log_density, [(-3, 8), (-3, 4), (-3, 4)], 81)
    columns = draws.hypers.columns
    log_variances = -np.log(columns.precision[..., 0])
    agrees(np.concatenate([draws.chains, columns.mean, log_variances], axis=2), mean, covariance)
