"""Kernels through quadratics: vi-JJ, vi-JJ-hybrid, vi-JJ-full and vi-Taylor of Izmailov and Kropotov (2017)."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_expit

import references
import references_izmailov as paper
from softmargin.columns import describe
from softmargin.estimators.gpc import BayesianGPC
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import JaakkolaJordan, OneVersusRest, Taylor
from softmargin.monitor import InterruptedFitWarning
from softmargin.tune import (
    QUADRATIC_TUNINGS,
    Evidence,
    Judges,
    LabelledRows,
    Space,
    choose_kernel,
    evidence,
    maximise,
    typical,
)
from softmargin.tune import quadratic as module
from softmargin.tune import search as searching
from softmargin.tune.quadratic import FixedQuadratics, Newton, by_joint_ascent, by_rounds

KERNEL = 3.0 * RBF((0.8, 2.0, 1.5)) + Constant(0.5)
OTHER = KERNEL.with_theta(KERNEL.theta + np.array([0.3, -0.4, 0.2, 0.5, -0.3]))
WAYS = {"alternate": by_rounds(5), "hybrid": by_rounds(5, joint=True), "full": by_joint_ascent}


@pytest.fixture
def table(rng):
    """The first column decides, the second bends the border, the third is noise."""
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1 + 0.4 * rng.normal(size=150) > 0, 1.0, -1.0)
    return X, y, rng.choice([0.5, 1.0, 2.0], size=150)


@pytest.fixture
def exactly(monkeypatch):
    """Beliefs as settled as they can be."""
    monkeypatch.setattr(evidence, "_SETTLED", 1e-11)
    monkeypatch.setattr(evidence, "_SETTLED_SHARE", 0.0)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(evidence, "_BLOCK_ROWS", 40)


def matrices(kernel, X, Z):
    return kernel(Z, Z), kernel(X, Z), kernel.diagonal(X)


def holding(table, likelihood=None, n_updates=3, kernel=KERNEL):
    """An evidence, what it says of a kernel, and the quadratics that touch there."""
    X, y, weight = table
    judge = Evidence(X, y, weight, X[:20], JaakkolaJordan() if likelihood is None else likelihood, n_updates)
    judge = judge if judge._likelihood.is_bound else Newton.like(judge)
    judged = judge.at(kernel)
    return judge, judged, FixedQuadratics.touching(judge, judged)


# Quadratics --------------------------------------------------------------------------------------


def test_quadratics_lie_below_their_rows_and_touch(rng):
    y = np.repeat([-1.0, 1.0], 50)
    xi, f = np.exp(rng.normal(size=100)), np.linspace(-12, 12, 481)
    held = holding((rng.normal(size=(100, 3)), y, np.ones(100)))[2]
    held.hold_xi(xi)
    (_, w, b), c = held._sites[0], held._constants[0]

    def quadratic(f):
        return c[:, None] + b[:, None] * f - w[:, None] * f**2 / 2

    assert_allclose(quadratic(f), paper.jj_bound(y[:, None] * f, xi[:, None]), atol=1e-12)
    assert np.all(quadratic(f) <= log_expit(y[:, None] * f) + 1e-12)
    for touching in (xi, -xi):
        assert_allclose(np.diag(quadratic(touching)), log_expit(y * touching), atol=1e-12)


def test_the_expansion_is_that_of_the_paper(table, rng):
    held = holding(table, Taylor())[2]
    y, f, xi = table[1], np.linspace(-3, 3, 7), rng.normal(size=150)
    held._hold([(xi, np.exp(xi))])
    (_, w, b), c = held._sites[0], held._constants[0]
    expected = paper.taylor_expansion(y[:, None], f, xi[:, None])
    assert_allclose(c[:, None] + b[:, None] * f - w[:, None] * f**2 / 2, expected, atol=1e-12)


def test_the_objective_is_the_compact_bound_of_the_paper(table, rng, small_blocks):
    X, y, weight = table
    held = holding(table)[2]
    for kernel in (KERNEL, OTHER):
        xi = np.exp(rng.normal(size=150))
        held.hold_xi(xi)
        assert_allclose(held.at(kernel).value, paper.jj_objective(*matrices(kernel, X, X[:20]), y, weight, xi))


def test_the_objective_of_taylor_is_that_of_the_paper(table, small_blocks):
    X, y, weight = table
    _, judged, held = holding(table, Taylor(), n_updates=50)
    mu = judged.rows.lift(X).moments(judged.belief).mu
    for kernel in (KERNEL, OTHER):
        assert_allclose(held.at(kernel).value, paper.taylor_objective(*matrices(kernel, X, X[:20]), y, weight, mu))


def test_held_quadratics_touch_where_they_were_found_and_lie_below_elsewhere(table, exactly):
    judge, judged, held = holding(table, n_updates=3000)
    assert_allclose(held.at(KERNEL).value, judged.value, atol=1e-8)
    assert_allclose(held.at(KERNEL).slopes, judged.slopes, atol=1e-4)
    assert held.at(OTHER).value < judge.at(OTHER).value - 0.1
    # Before the belief has settled, a kernel's best belief under the quadratics is better than that which made them.
    _, early, held = holding(table, n_updates=2)
    assert early.value < held.at(KERNEL).value < judged.value


@pytest.mark.parametrize("n_upd", [1, 2, 5])
def test_the_first_stage_is_that_of_algorithm_1(table, exactly, n_upd):
    X, y, weight = table
    _, judged, held = holding(table, n_updates=n_upd)
    mu, Sigma, xi = paper.first_stage(*matrices(KERNEL, X, X[:20]), y, weight, np.ones(150), n_upd)
    L = np.linalg.inv(judged.rows.whitener)
    assert_allclose(L @ judged.belief.mean, mu, rtol=1e-6)
    assert_allclose(L @ judged.belief.covariance @ L.T, Sigma, rtol=1e-6, atol=1e-9)
    assert_allclose(held.best_xi, xi, rtol=1e-6)


# Slopes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [JaakkolaJordan(), Taylor()], ids=repr)
def test_slopes_in_the_kernel(table, likelihood, small_blocks):
    held = holding(table, likelihood)[2]
    by_differences = references.gradient(lambda theta: held.at(OTHER.with_theta(theta)).value, OTHER.theta, 1e-3)
    assert_allclose(held.at(OTHER).slopes, by_differences, rtol=1e-7, atol=1e-7)


def test_slopes_in_xi(table, rng, small_blocks):
    held = holding(table)[2]
    log_xi = rng.normal(size=150)

    def value(log_xi):
        held.hold_xi(np.exp(log_xi))
        return held.at(OTHER).value

    by_differences = references.gradient(value, log_xi, 1e-3)
    value(log_xi)
    assert_allclose(held.slopes_in_log_xi(np.exp(log_xi)), by_differences, rtol=1e-6, atol=1e-8)
    lam, squares = paper.jj_lambda, np.concatenate(held._squares)
    slope = references.derivative(lam, np.exp(log_xi), 1e-4)
    in_xi = -table[2] * slope * (squares - np.exp(2 * log_xi))
    assert_allclose(held.slopes_in_log_xi(np.exp(log_xi)), in_xi * np.exp(log_xi), rtol=1e-6)


def test_slopes_in_kernel_and_xi_together(table, rng):
    judge, _, held = holding(table)
    space = Space.around(KERNEL)
    loss = module._Joint(searching.Search(judge, space), space, held, is_candidate=True)
    both = loss.start(0.3 * rng.normal(size=6)) + 0.2 * rng.normal(size=156)
    some = rng.choice(156, size=12, replace=False)
    some[:6] = range(6)
    away = np.eye(156)[some]
    by_differences = references.gradient(lambda t: loss(both + t @ away)[0], np.zeros(12), 1e-3)
    assert_allclose(loss(both)[1][some], by_differences, rtol=1e-6, atol=1e-6)


def test_held_quadratics_need_one_update(table, monkeypatch):
    held, update, calls = holding(table)[2], Evidence._update, []
    monkeypatch.setattr(Evidence, "_update", lambda *args: calls.append(0) or update(*args))
    held.at(OTHER)
    assert len(calls) == 1


def test_xi_has_no_slope_where_quadratics_touch(table):
    held = holding(table)[2]
    held.hold_xi(held.best_xi)
    for _ in range(400):  # updates of belief and xi in turn: a fixed point is stationary
        held.at(KERNEL)
        held.hold_xi(held.best_xi)
    held.at(KERNEL)
    assert np.abs(held.slopes_in_log_xi(np.concatenate([np.sqrt(part) for part in held._squares]))).max() < 1e-12


def test_each_class_against_the_rest_is_a_sum_of_models_of_two_classes(table, rng):
    X, _, weight = table
    codes, xi = rng.integers(3, size=150).astype(float), np.exp(rng.normal(size=(150, 3)))
    together = Evidence(X, codes, weight, X[:20], OneVersusRest(JaakkolaJordan()), n_classes=3)
    held = FixedQuadratics.touching(together, together.at(KERNEL))
    held.hold_xi(xi)
    value, slopes, *_ = held.at(OTHER)
    in_xi = held.slopes_in_log_xi(xi)
    for label in range(3):
        apart = holding((X, np.where(codes == label, 1.0, -1.0), weight))[2]
        apart.hold_xi(xi[:, label])
        one = apart.at(OTHER)
        value, slopes = value - one.value, slopes - one.slopes
        assert_allclose(in_xi[:, label], apart.slopes_in_log_xi(xi[:, label]), atol=1e-10)
    assert_allclose(value, 0, atol=1e-9)
    assert_allclose(slopes, 0, atol=1e-9)


# Ways up -----------------------------------------------------------------------------------------


def judging(X, y, weight):
    return Judges.of(LabelledRows(X, y, weight, np.minimum(weight, 1)))


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("n_upd", [1, 3])
def test_no_round_lowers_the_bound(table, joint, n_upd):
    rows = judging(*table)
    space = Space.around(typical(KERNEL, describe(rows.X, rows.weight)))
    choice = maximise(rows.evidence(JaakkolaJordan(), n_upd), space, by_rounds(5, joint))
    values = [entry["objective"] for entry in choice.history]
    assert len(values) > 4
    assert np.diff(values).min() > -1e-9
    assert choice.value == values[-1] > values[0] + 5


def test_all_ways_end_at_the_same_kernel(table):
    rows = judging(*table)
    space = Space.around(typical(KERNEL, describe(rows.X, rows.weight)))
    settled = maximise(rows.evidence(JaakkolaJordan(), 500), space)
    for way in WAYS.values():
        choice = maximise(rows.evidence(JaakkolaJordan(), 3), space, way)
        assert abs(choice.value - settled.value) < 0.1
        # The top is flat: a tenth of a nat is about half a deviation of a parameter's own uncertainty.
        assert_allclose(choice.kernel.theta, settled.kernel.theta, atol=0.3)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("n_fun", [2, 5])
def test_a_round_has_no_more_evaluations_than_allowed(table, joint, n_fun, monkeypatch):
    rows, calls = judging(*table), []
    at, touching = FixedQuadratics.at, FixedQuadratics.touching.__func__

    def counted(self, kernel):
        calls[-1] += 1
        return at(self, kernel)

    monkeypatch.setattr(FixedQuadratics, "at", counted)
    monkeypatch.setattr(FixedQuadratics, "touching", classmethod(lambda *args: calls.append(0) or touching(*args)))
    choice = maximise(rows.evidence(JaakkolaJordan(), 3), Space.around(KERNEL), by_rounds(n_fun, joint))
    assert max(calls) == n_fun
    assert len(choice.history) == len(calls) + 1


def test_quadratics_that_moved_are_where_the_next_round_begins(table, monkeypatch):
    rows, weighed, losses = judging(*table), searching.Search.weighed, []

    def noted(self, x, at, is_candidate=True):
        found = weighed(self, x, at, is_candidate)
        losses.append((is_candidate, found[0]))
        return found

    monkeypatch.setattr(searching.Search, "weighed", noted)
    maximise(rows.evidence(JaakkolaJordan(), 1), Space.around(KERNEL), by_rounds(8, joint=True))
    rounds = [index for index, (is_candidate, _) in enumerate(losses) if is_candidate]
    assert len(rounds) > 4
    for first, last in pairwise(rounds):
        assert losses[last][1] <= min(loss for _, loss in losses[first:last]) + 1e-9


def test_a_joint_ascent_ends_with_updates_at_the_best(table):
    rows = judging(*table)
    *before, end = maximise(rows.evidence(JaakkolaJordan(), 3), Space.around(KERNEL), by_joint_ascent).history
    best = max(before, key=lambda entry: entry["objective"])
    assert_allclose(end["kernel"].theta, best["kernel"].theta, rtol=1e-12)
    assert end["objective"] >= best["objective"] - 1e-9


def test_evaluations_that_lead_down_are_not_the_result():
    def steep(x):
        return 50 * float(x @ x), 100 * x

    assert_allclose(module._raised(steep, np.array([0.2]), np.ones(1), 1), 0.2)
    assert_allclose(module._raised(steep, np.array([0.2]), np.ones(1), 2), 0.2)  # the first step goes to -0.8
    assert abs(module._raised(steep, np.array([0.2]), np.ones(1), 9)[0]) < 1e-6


def test_taylor_ends_where_it_rests_whatever_the_values_on_the_way(table, monkeypatch):
    rows, at, calls = judging(*table), Newton.at, []

    def sinking(self, kernel):
        calls.append(kernel)
        judged = at(self, kernel)
        return judged._replace(value=judged.value - 10 * len(calls))

    monkeypatch.setattr(Newton, "at", sinking)
    space = Space.around(typical(KERNEL, describe(rows.X, rows.weight)))
    choice = maximise(Newton.like(rows.evidence(Taylor(), 3)), space, by_rounds(5))
    assert len(calls) > 4
    assert_allclose(choice.kernel.theta, calls[-1].theta, atol=2e-3)
    assert np.abs(choice.kernel.theta - calls[0].theta).max() > 0.1


def test_taylor_comes_to_rest_wherever_it_begins(table):
    X, y, weight = table
    columns = describe(X, weight)
    found = [
        choose_kernel([judging(X, y, weight)], 3.0 * RBF(scale), columns, "alternate", Taylor()).kernel.theta
        for scale in (0.02, 2.0, 200.0)
    ]
    assert_allclose(found[0], found[1], atol=0.1)
    assert_allclose(found[2], found[1], atol=0.1)


def test_updates_of_taylor_find_the_mode_though_full_steps_overshoot(table, exactly):
    X, y, weight = table
    kernel, weight = 100.0 * RBF(1.0), 20 * weight
    judge = Newton.like(Evidence(X, y, weight, X[:30], Taylor(), n_updates=100))
    judge._sites = (Taylor().sites(y, -6 * y, 0 * y),)  # sure of the wrong labels: the next step goes much too far
    judged = judge.at(kernel)
    phi, m = judged.rows.lift(X).phi, judged.belief.mean
    assert_allclose(phi.T @ (weight * y / (1 + np.exp(y * (phi @ m)))), m, atol=1e-6)
    features, sites, heights = [judged.rows.lift(X)], (Taylor().sites(y, -6 * y, 0 * y),), []
    for _ in range(20):
        settling, height = judge._visit(features, sites)
        sites, heights = settling.asked, [*heights, height]
    assert min(np.diff(heights)) < -1e3


@pytest.mark.parametrize("how", QUADRATIC_TUNINGS)
def test_kernels_that_cannot_be_factored_are_passed_over(table, how, monkeypatch):
    rows, at = judging(*table), Evidence.at

    def at_short_scales_only(self, kernel):
        if kernel.theta[1] > KERNEL.theta[1] + 0.1:
            raise searching.NotPositiveDefiniteError("made up")
        return at(self, kernel)

    monkeypatch.setattr(Evidence, "at", at_short_scales_only)
    choice = maximise(rows.evidence(JaakkolaJordan(), 3), Space.around(KERNEL), WAYS[how])
    assert choice.kernel.theta[1] <= KERNEL.theta[1] + 0.101
    assert np.isfinite(choice.value)
    monkeypatch.setattr(Evidence, "at", lambda *args: (_ for _ in ()).throw(searching.NotPositiveDefiniteError()))
    assert maximise(rows.evidence(JaakkolaJordan(), 3), Space.around(KERNEL), WAYS[how]).history == []


# In the estimator --------------------------------------------------------------------------------

METHODS = [*(("jj", how) for how in QUADRATIC_TUNINGS), ("taylor", "alternate")]


@pytest.mark.parametrize(("loss", "how"), METHODS)
def test_columns_that_say_nothing_get_long_length_scales(table, loss, how):
    X, y, weight = table
    model = BayesianGPC(loss=loss, tune=how).fit(X, y, sample_weight=weight)
    first, second, noise = np.exp(model.kernel_.theta[1:4])
    assert noise > 1.5 * max(first, second)
    assert model.score(X, y) > 0.85
    assert {"objective", "kernel"} == set(model.tune_history_[0])


@pytest.mark.parametrize(("loss", "how"), METHODS)
def test_units_order_and_copies_of_rows_do_not_change_the_kernel(table, rng, loss, how):
    X, y, _ = table
    weight, model = rng.integers(1, 4, size=len(y)), BayesianGPC(loss=loss, tune=how)
    theta = model.fit(X, y, sample_weight=weight).kernel_.theta
    order = rng.permutation(np.repeat(np.arange(len(y)), weight))
    assert_allclose(model.fit(X[order], y[order]).kernel_.theta, theta, atol=1e-12)
    stretched = model.fit(X * [1e-8, 1.0, 1e8] + [1, -1, 1e8], y, sample_weight=weight).kernel_.theta
    assert_allclose(stretched - theta, [0, np.log(1e-8), 0, np.log(1e8), 0], atol=0.01)  # three digits are kept


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize(("loss", "how"), METHODS)
def test_a_time_budget_ends_the_tuning_too(table, loss, how):
    X, y, _ = table
    model = BayesianGPC(loss=loss, tune=how, max_time=1e-9).fit(X, y)
    assert len(model.tune_history_) == 1
    assert model.stop_reason_ == "time"


@pytest.mark.parametrize(("loss", "how"), METHODS)
def test_interrupting_the_tuning_keeps_the_best_kernel(table, loss, how, monkeypatch):
    X, y, _ = table
    at, calls = FixedQuadratics.at, iter(range(100))

    def interrupted(self, kernel):
        if next(calls) == 7:
            raise KeyboardInterrupt
        return at(self, kernel)

    monkeypatch.setattr(FixedQuadratics, "at", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianGPC(loss=loss, tune=how).fit(X, y)
    assert len(model.tune_history_) == (8 if how == "full" else 2)
    assert model.stop_reason_ == "interrupt"
    assert model.score(X, y) > 0.7
