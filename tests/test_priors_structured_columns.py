"""Priors of several kinds beside a model of the columns, and what they promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references_structured as naive
from softmargin.arrays import combined
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.imputation import Sums
from softmargin.likelihoods import Hinge, Logistic, Quadrature
from softmargin.priors import (
    Covariance,
    Imputing,
    Ridge,
    Structured,
    VarianceComponents,
    structured,
)
from softmargin.rows import Factor, GroupedRows, LinearRows
from softmargin.steps import _MOST_PROMISED, ascend, promised
from test_priors_structured import COLUMNS, FIXED, Twins, column_sums, twins_of

twins = pytest.fixture(twins_of, params=FIXED)


def test_both_models_are_updated_each_from_its_own_sums(twins, rng):
    (G, h), _ = twins.sums(rng)
    prior, own = Imputing(twins.arrow, COLUMNS, 30.0), twins.arrow
    belief = weights = columns = None
    for _ in range(3):
        sums = column_sums(rng)
        belief = prior.update((G, sums), h, belief)
        weights, columns = own.update(G, h, weights), COLUMNS.updated(Sums(*sums), columns)
        assert_allclose(belief.mean, weights.mean, rtol=1e-10)
        assert_allclose(naive.flattened(belief.hyper.weights), naive.flattened(weights.hyper), rtol=1e-10)
        assert_allclose(naive.flattened(belief.hyper.columns), naive.flattened(columns), rtol=1e-10)
        assert_allclose(float(prior.kl(belief)), float(own.kl(weights)) + COLUMNS.kl(columns), rtol=1e-10)
        seen = prior.effective(belief)
        assert_allclose(seen.mean, own.effective(weights).mean)
        assert seen.hyper is belief.hyper.columns
    assert belief is not None
    given = prior.given((G, column_sums(rng)), h, belief.hyper)
    assert_allclose(given.mean, own.given(G, h, belief.hyper.weights).mean)
    assert given.hyper is belief.hyper
    sums = column_sums(rng)
    (settled, kept), same = prior.settled((G, sums), given)
    again = prior.given((settled, kept), h, same.hyper)
    assert_allclose(again.mean, given.mean, rtol=1e-8, atol=1e-10)
    assert_allclose(again.covariance, given.covariance, rtol=1e-7, atol=1e-10)
    assert kept is sums
    assert_allclose(
        naive.flattened(same.hyper.columns), naive.flattened(COLUMNS.updated(Sums(*sums), given.hyper.columns))
    )


def test_start_draws_and_easier_priors_beside_columns(twins, rng):
    prior = Imputing(twins.arrow, COLUMNS, 30.0)
    belief = prior.update(*prior.start(np.zeros(1)))
    assert np.isfinite(float(prior.kl(belief)))
    assert belief.hyper.columns.covariance.dof == 4 + 30
    (G, h), _ = twins.sums(rng)
    sums = column_sums(rng)
    given = prior.given((G, sums), h, prior.update((G, sums), h).hyper)
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    weights, hyper = prior.drawn((G, sums), h, given, one)
    wanted, own = twins.arrow.drawn(G, h, given._replace(hyper=given.hyper.weights), other)
    assert_allclose(weights, wanted)
    assert_allclose(naive.flattened(hyper.weights), naive.flattened(own))
    assert_allclose(
        naive.flattened(hyper.columns), naive.flattened(COLUMNS.drawn(Sums(*sums), given.hyper.columns, other))
    )
    assert_allclose(prior.seen_weights(weights, hyper), twins.arrow.seen_weights(wanted, own))
    easier = prior.rough()
    if twins.arrow.rough() is None:
        assert easier is None
    else:
        assert easier is not None
        assert easier.prior.fixed.held
        assert easier.columns is COLUMNS


def test_changes_of_columns_are_felt_in_units_of_their_scatter(rng):
    prior = Imputing(Ridge(np.ones(2)), COLUMNS, 30.0)
    G, h, sums = np.eye(2), np.ones(2), column_sums(rng)
    belief = prior.update((G, sums), h)
    change = rng.normal(size=(3, 3))
    change = change + change.T
    felt = prior.felt(belief, (0.1 * G, (np.zeros(3), change, 0.0)), h)
    own = felt[: -3 * 3]
    assert_allclose(own, prior.prior.felt(belief._replace(hyper=None), 0.1 * G, h))
    precision = belief.hyper.columns.precision
    wanted = np.trace(precision @ change @ precision @ change) / (2 * 30)
    assert_allclose(felt @ felt - own @ own, wanted, rtol=1e-9)


@pytest.mark.parametrize("likelihood", [Hinge(), Quadrature(Logistic())], ids=repr)
def test_groups_promise_what_is_still_to_gain(likelihood, rng):
    group = np.sort(rng.integers(12, size=240)).astype(float)
    X = np.column_stack([rng.normal(size=(240, 2)), group])
    y = np.where(X[:, 0] + rng.normal(size=12)[group.astype(int)] + rng.logistic(size=240) > 0, 1.0, -1.0)
    rows = GroupedRows(LinearRows(np.zeros(2), np.ones(2)), 2, (Factor((), True, 2),), (12,))
    prior = Structured(Ridge(np.array([1.0, 1.0, 1e-8])), (), (Covariance(1),), rows.layout)
    problem = Problem(Table.of(X, y, np.ones(240), 5), rows, likelihood, prior)
    best = ascend(problem, tol=1e-12, max_passes=500).point
    for tol in (1e-2, 1e-3, 1e-4):
        point = ascend(problem, tol=tol, max_passes=500).point
        still = best.objective - point.objective
        assert -1e-9 <= still <= 1.1 * _MOST_PROMISED * promised(point, prior) + 1e-9
        assert still <= tol * abs(best.objective)


@pytest.mark.parametrize("fixed", ["ridge", "matrix", "variances"])
def test_a_shift_promises_half_its_square_under_the_covariance(fixed, rng):
    twins = Twins(FIXED[fixed])
    (G, h), (G_dense, h_dense) = twins.sums(rng)
    belief = twins.arrow.update(G, h)
    S = twins.dense.given(G_dense, h_dense, twins.dense.update(G_dense, h_dense).hyper).covariance
    dh = rng.normal(size=len(h))
    wanted = 0.5 * dh @ S[np.ix_(twins.order, twins.order)] @ dh
    assert_allclose(twins.arrow.promised(G, combined(G, -1, G), dh, belief), wanted, rtol=1e-6)
    beside = Imputing(twins.arrow, COLUMNS, 30.0)
    sums = column_sums(rng)
    both = beside.update((G, sums), h)
    nothing = combined((G, sums), -1, (G, sums))
    assert_allclose(beside.promised((G, sums), nothing, dh, both), wanted, rtol=1e-6)


@pytest.mark.parametrize("fixed", ["ridge", "variances"])
def test_turns_go_on_until_nothing_changes(fixed, monkeypatch, rng):
    monkeypatch.setattr(structured, "_INNER_UPDATES", 500)
    monkeypatch.setattr(structured, "_INNER_TOLERANCE", 1e-10)
    twins = Twins(FIXED[fixed])
    G, h = twins.sums(rng)[0]
    belief = twins.arrow.update(G, h)
    again = twins.arrow.update(G, h, belief)
    assert_allclose(naive.flattened(again.hyper), naive.flattened(belief.hyper), rtol=1e-5)


def test_turns_go_on_while_all_precisions_change(monkeypatch):
    monkeypatch.setattr(structured, "_INNER_UPDATES", 100)
    prior = Structured(VarianceComponents(np.array([0, 0, 1, 1]), 0.5, 0.3))
    G, h = np.diag([0.5, 2.0, 1.0, 0.2]), np.array([0.3, -2.0, 1.0, 0.5])
    belief = prior.update(G, h)
    again = prior.update(G, h, belief)
    # To a few times the tolerance of a turn.
    assert_allclose(naive.flattened(again.hyper), naive.flattened(belief.hyper), rtol=1e-3)
