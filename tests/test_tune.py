import io
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references
from softmargin import BayesianSVC
from softmargin import tune as tune_package
from softmargin.chunks import Table
from softmargin.columns import describe
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant, Linear, Matern
from softmargin.likelihoods import LOSSES, AugmentedHinge, Hinge, JaakkolaJordan, Quadrature
from softmargin.monitor import InterruptedFitWarning, Monitor
from softmargin.priors import Ridge
from softmargin.rows import InducingRows
from softmargin.steps import ascend
from softmargin.tune import (
    TUNINGS,
    Choice,
    Evidence,
    Judges,
    LabelledRows,
    Space,
    choose_kernel,
    evidence,
    judges,
    maximise,
    typical,
)
from softmargin.tune import search as searching

KERNEL = 3.0 * RBF((0.8, 2.0, 1.5)) + Constant(0.5)
BOUNDS = [Hinge(), AugmentedHinge(), JaakkolaJordan(), Quadrature()]


@pytest.fixture
def table(rng):
    """The first column decides, the second bends the border, the third is noise."""
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 - 1 + 0.4 * rng.normal(size=150) > 0, 1.0, -1.0)
    return X, y, rng.choice([0.5, 1.0, 2.0], size=150)


def judging(X, y, weight):
    return Judges.of(LabelledRows(X, y, weight, np.minimum(weight, 1)))


# The objective and its slopes --------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_the_objective_is_that_of_a_fit(table, likelihood):
    X, y, weight = table
    judged = Evidence(X, y, weight, X[:40], likelihood).at(KERNEL)
    rows = InducingRows.at(KERNEL, X[:40])
    problem = Problem(Table(X, y, weight, 64), rows, likelihood, Ridge.isotropic(40))
    # Beliefs are settled to a hundredth of a nat, and no belief lies above the optimum.
    assert -0.1 < judged.value - ascend(problem, tol=1e-10, max_passes=500).point.objective < 1e-6


@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_slopes_are_those_of_the_settled_objective(table, likelihood, monkeypatch):
    monkeypatch.setattr(evidence, "_SETTLED", 1e-11)
    monkeypatch.setattr(evidence, "_SETTLED_SHARE", 0.0)
    X, y, weight = table
    judge = Evidence(X, y, weight, X[:30], likelihood, n_updates=2000)
    slopes = judge.at(KERNEL).slopes
    by_differences = references.gradient(lambda theta: judge.at(KERNEL.with_theta(theta)).value, KERNEL.theta, 1e-4)
    # Settling to 1e-11 nats leaves the belief about 1e-5 of a deviation off, and differences that much over 1e-4.
    assert_allclose(slopes, by_differences, rtol=1e-4, atol=2e-4)


def test_an_update_that_would_descend_is_shortened(table, monkeypatch):
    X, y, weight = table
    steep = 1e4 * RBF((0.8, 2.0, 1.5))
    values = []
    update = Evidence._update

    def watched(self, features, sites, belief=None):
        settling = update(self, features, sites, belief)
        values.append(settling.value)
        return settling

    monkeypatch.setattr(Evidence, "_update", watched)
    found = Evidence(X, y, weight, X[:40], Hinge(), n_updates=100).at(steep).value
    assert min(np.diff(values)) < -0.01  # full steps do overshoot here
    assert found >= max(values) - 0.02


# The space of kernels ----------------------------------------------------------------------------


def test_length_scales_move_together_and_apart():
    space = Space.around(KERNEL)
    assert len(space.deviation) == 6  # a variance, three scales together, each apart, and the offset
    x = np.array([0.1, 0.2, 0.0, 0.3, 0.0, -0.1])
    assert_allclose(space.at(x).theta - KERNEL.theta, [0.1, 0.2, 0.5, 0.2, -0.1])
    tied = Space.around(KERNEL, apart=False)
    assert_allclose(tied.at(np.array([0.0, 1.0, 0.0])).theta - KERNEL.theta, [0, 1, 1, 1, 0])
    assert len(Space.around(2.0 * RBF(1.0) + Linear()).deviation) == 3


def test_slopes_are_pulled_back_as_kernels_move(rng):
    space, slopes, x = Space.around(KERNEL), rng.normal(size=5), rng.normal(size=6)
    by_differences = references.gradient(lambda x: slopes @ space.at(x).theta, x, 1e-5)
    assert_allclose(space.pulled_back(slopes), by_differences, rtol=1e-8)


def test_the_prior_and_its_slopes(rng):
    space = Space.around(KERNEL)
    x = rng.normal(size=6)
    value, slopes = space.log_prior(x)
    assert_allclose(value, -0.5 * np.sum((x / space.deviation) ** 2))
    assert_allclose(slopes, references.gradient(lambda x: space.log_prior(x)[0], x, 1e-5), rtol=1e-7)


def test_the_nearest_coordinates_are_the_likeliest_of_their_kernel(rng):
    space = Space.around(KERNEL)
    moved = np.array([0.4, 1.0, 1.3, 0.2, -0.3])
    x = space.nearest(KERNEL.with_theta(KERNEL.theta + moved))
    assert_allclose(space.at(x).theta - KERNEL.theta, moved)
    idle = np.array([0.0, 1.0, -1.0, -1.0, -1.0, 0.0])  # together one up, each one down: the same kernel
    assert all(space.log_prior(x)[0] >= space.log_prior(x + step * idle)[0] for step in (-0.1, 0.1))
    far = space.nearest(KERNEL.with_theta(KERNEL.theta + 100))
    assert np.all(np.abs(far) <= space.farthest)


def test_typical_length_scales_are_in_units_of_the_columns(table):
    X = table[0] * [1.0, 1e-200, 1e200]
    columns = describe(X, np.ones(len(X)))
    given = 2.0 * RBF((1.0, 1.0, 1.0)) * Matern(7.0) + Constant(0.3)
    theta = typical(given, columns).theta
    assert_allclose(theta[1:4], np.log(np.sqrt(3) * columns.spread), atol=1e-6)
    assert_allclose(
        theta[4], np.log(columns.spread[2]), atol=1e-6
    )  # one for all columns: the greatest drowns the others
    assert_allclose(theta[[0, 5]], np.log([2.0, 0.3]))


# Ways up -----------------------------------------------------------------------------------------


def test_both_ways_up_end_at_the_same_kernel(table):
    rows = judging(*table)
    space = Space.around(typical(KERNEL, describe(rows.X, rows.weight)))
    one = maximise(rows.evidence(Quadrature()), space, searching.by_quasi_newton)
    other = maximise(rows.evidence(Quadrature()), space, searching.by_gradient_steps)
    start = rows.evidence(Quadrature()).at(space.kernel).value
    assert one.value > start + 5
    assert abs(one.value - other.value) < 0.3
    # The top is flat: a tenth of a nat is about half a deviation of a parameter's own uncertainty.
    assert_allclose(one.kernel.theta, other.kernel.theta, atol=0.5)
    assert one.value == max(entry["objective"] for entry in one.history)


@pytest.mark.parametrize("how", TUNINGS)
def test_columns_that_say_nothing_get_long_length_scales(table, how):
    X, y, weight = table
    kernel = choose_kernel([judging(X, y, weight)], KERNEL, describe(X, weight), how, Hinge()).kernel
    first, second, noise = np.exp(kernel.theta[1:4])
    assert noise > 1.5 * max(first, second)


def test_starts_a_hundred_times_apart_end_together(table):
    X, y, weight = table
    columns = describe(X, weight)
    found = [
        choose_kernel([judging(X, y, weight)], 3.0 * RBF(scale), columns, "bound", Hinge()).kernel.theta
        for scale in (0.02, 2.0, 200.0)
    ]
    # A search ends when a step gains 1e-4 of the bound: what is left is far below a parameter's own uncertainty.
    assert_allclose(found[0], found[1], atol=0.1)
    assert_allclose(found[2], found[1], atol=0.1)


def test_kernels_that_cannot_be_factored_are_passed_over(table, monkeypatch):
    rows = judging(*table)
    space = Space.around(KERNEL)
    at = Evidence.at

    def at_short_scales_only(self, kernel):
        if kernel.theta[1] > KERNEL.theta[1] + 0.1:
            raise searching.NotPositiveDefiniteError("made up")
        return at(self, kernel)

    monkeypatch.setattr(Evidence, "at", at_short_scales_only)
    choice = maximise(rows.evidence(Quadrature()), space)
    assert choice.kernel.theta[1] <= KERNEL.theta[1] + 0.101
    assert np.isfinite(choice.value)


# The rows that judge -----------------------------------------------------------------------------


def test_judges_are_distinct_rows_with_their_total_weight(rng):
    X = rng.integers(0, 3, size=(200, 2)).astype(np.float32)
    y, weight = rng.choice([-1.0, 1.0], size=200), rng.choice([0.5, 1.0, 3.0], size=200)
    rows = judging(X, y, weight)
    assert len(rows.X) == 18
    assert_allclose(rows.weight.sum(), weight.sum())
    for a, b, label in product(range(3), range(3), (-1.0, 1.0)):
        where = (rows.X[:, 0] == a) & (rows.X[:, 1] == b) & (rows.y == label)
        same = (X[:, 0] == a) & (X[:, 1] == b) & (y == label)
        assert_allclose(rows.weight[where], weight[same].sum())
        assert_allclose(rows.unit[where], np.minimum(weight[same], 1).max())
    assert len(rows.points) == 9


def test_large_tables_are_judged_by_some_of_their_rows(rng):
    n = judges._FIRST_ROWS
    X = rng.normal(size=(3 * n, 2))
    heavy = np.where(X[:, 0] > 0, 3.0, 1.0)
    rows = LabelledRows(X, np.sign(X[:, 1]), heavy, np.ones(len(X)))
    sample = rows.sample(n, np.random.RandomState(0))
    assert_allclose(sample.weight.sum(), n)
    assert abs(sample.weight[sample.X[:, 0] > 0].sum() / n - 0.75) < 0.02
    light = rows._replace(weight=heavy / 1e4).sample(n, np.random.RandomState(0))
    assert_allclose(light.weight.sum(), heavy.sum() / 1e4)
    first, second = Judges.panels(rows, np.random.RandomState(0))
    assert len(first.points) <= judges._MOST_POINTS
    assert len(second.y) > len(first.y)
    assert all(len(panel.points) <= 20 for panel in Judges.panels(rows, np.random.RandomState(0), 20)[1:])


def test_rare_classes_are_sampled_more_often_and_weigh_the_same(rng):
    y = np.where(np.arange(20_000) % 1000 == 0, 1.0, -1.0)
    sample = LabelledRows(rng.normal(size=(20_000, 1)), y, np.ones(20_000), np.ones(20_000)).sample(
        1000, np.random.RandomState(0)
    )
    assert np.sum(sample.y > 0) == 20
    assert_allclose(sample.weight[sample.y > 0].sum(), 1.0)


def test_copies_and_weights_are_judged_alike_beyond_one_panel(rng):
    X = rng.normal(size=(700, 2))
    y = X[:, 0] + 0.5 * rng.normal(size=700) > 0
    weighted = BayesianSVC(random_state=0).fit(X, y, sample_weight=np.full(700, 3.0))
    order = rng.permutation(2100)
    repeated = BayesianSVC(random_state=0).fit(np.repeat(X, 3, axis=0)[order], np.repeat(y, 3)[order])
    assert_allclose(repeated.kernel_.theta, weighted.kernel_.theta, atol=1e-12)
    assert_allclose(repeated.predict_proba(X), weighted.predict_proba(X), atol=1e-3)


def test_points_for_a_kernel_leave_no_level_of_a_factor_out():
    grid = np.linspace(0, 1, 1024)
    X = np.array([[value, level] for value in grid for level in (0.0, 1.0)])
    rows = Judges.of(LabelledRows(X, np.where(X[:, 0] > 0.5, 1.0, -1.0), np.ones(2048), np.ones(2048)), 256)
    few = rows.seen_through(4.0 * RBF((0.3, 0.3)), describe(X, np.ones(2048)), is_near=True).points
    assert len(few) < 64
    assert {0.0, 1.0} == set(few[:, 1])


def test_the_leave_one_out_loss_overrules_only_by_more_than_its_error(table, monkeypatch):
    rows = judging(*table)
    choice, rival = (Choice(RBF(scale), 0.0, []) for scale in (1.0, 2.0))
    noise = np.random.default_rng(0).normal(size=len(rows.y))

    def overruled(gain, scatter):
        losses = {RBF(1.0): np.ones(len(rows.y)), RBF(2.0): 1 - gain + scatter * noise}
        monkeypatch.setattr(Judges, "left_out_losses", lambda self, kernel, *others: losses[kernel])
        return tune_package._kept_by_left_out(rows, choice, [rival], Hinge()) is rival

    assert overruled(0.1, 0.1)
    assert not overruled(0.1, 3.0)
    assert not overruled(-0.1, 0.1)


def test_leave_one_out_losses_are_those_of_the_model(table):
    X, y, weight = table
    rows = judging(X, y, weight)
    model = BayesianSVC(KERNEL, tune=None, inducing=rows.points, tol=1e-4).fit(X, y, sample_weight=weight)
    losses = rows.left_out_losses(KERNEL, Hinge())
    assert_allclose(rows.weight @ losses / rows.weight.sum(), model.loo_log_loss_, rtol=1e-6)


# In the estimator --------------------------------------------------------------------------------


def test_tuning_can_be_turned_off_and_leaves_its_history(table):
    X, y, _ = table
    fixed, tuned = BayesianSVC(KERNEL, tune=None).fit(X, y), BayesianSVC(KERNEL, tune="bound").fit(X, y)
    assert fixed.kernel_ == KERNEL
    assert fixed.tune_history_ == []
    assert tuned.bound_ > fixed.bound_
    assert len(tuned.tune_history_) > 3
    assert {"objective", "kernel"} == set(tuned.tune_history_[0])
    assert isinstance(BayesianSVC(2.0 * RBF(1.0)).fit(X, y).kernel_.second.length_scale, float)


@pytest.mark.parametrize("how", TUNINGS)
@pytest.mark.parametrize("loss", ["hinge", "hinge-augmented", "logistic", "probit"])
def test_every_judge_serves_every_loss(table, how, loss):
    X, y, weight = table
    model = BayesianSVC(loss=loss, tune=how).fit(X, y, sample_weight=weight)
    assert model.score(X, y) > 0.85
    assert np.isfinite(model.predict_proba(X)).all()


def test_units_order_and_copies_of_rows_do_not_change_the_kernel(table, rng):
    X, y, _ = table
    weight = rng.integers(1, 4, size=len(y))
    theta = BayesianSVC().fit(X, y, sample_weight=weight).kernel_.theta
    order = rng.permutation(np.repeat(np.arange(len(y)), weight))
    assert_allclose(BayesianSVC().fit(X[order], y[order]).kernel_.theta, theta, atol=1e-12)
    stretched = BayesianSVC().fit(X * [1e-8, 1.0, 1e8] + [1, -1, 1e8], y, sample_weight=weight).kernel_.theta
    assert_allclose(stretched - theta, [0, np.log(1e-8), 0, np.log(1e8), 0], atol=5e-3)  # three digits are kept


@pytest.mark.filterwarnings("ignore:Time was up")
@pytest.mark.parametrize(("how", "n_judged"), [("logistic", 3), ("loo", 3), ("bound-steps", 1)])
def test_a_time_budget_ends_the_tuning_too(table, how, n_judged):
    X, y, _ = table
    model = BayesianSVC(max_time=1e-9, tune=how).fit(X, y)
    assert len(model.tune_history_) == n_judged
    assert model.stop_reason_ == "time"


def test_interrupting_the_tuning_keeps_the_best_kernel(table, monkeypatch):
    X, y, _ = table
    at, calls = Evidence.at, iter(range(100))

    def interrupted(self, kernel):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return at(self, kernel)

    monkeypatch.setattr(Evidence, "at", interrupted)
    with pytest.warns(InterruptedFitWarning):
        model = BayesianSVC().fit(X, y)
    assert len(model.tune_history_) == 3
    assert model.stop_reason_ == "interrupt"
    assert model.score(X, y) > 0.7
    calls = iter([3])
    with pytest.raises(KeyboardInterrupt):  # before the first kernel there is nothing to keep
        BayesianSVC().fit(X, y)


def test_progress_tells_of_the_kernels(table):
    X, y, weight = table
    stream = io.StringIO()
    monitor = Monitor("tuning", verbose=True, stream=stream)
    choose_kernel([judging(X, y, weight)], KERNEL, describe(X, weight), "logistic", LOSSES["hinge"], monitor)
    assert "tuning kernel" in stream.getvalue()


# Points ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, 2.0 * Matern((0.8, 2.0, 1.5), nu=2.5) + Linear(0.3)], ids=repr)
def test_slopes_in_the_points_are_those_of_the_settled_objective(table, kernel, monkeypatch):
    monkeypatch.setattr(evidence, "_SETTLED", 1e-11)
    monkeypatch.setattr(evidence, "_SETTLED_SHARE", 0.0)
    X, y, weight = table
    judge = Evidence(X, y, weight, X[:6], Quadrature(), n_updates=2000)
    slopes = judge.through(kernel, X[:6])[1]
    by_differences = references.gradient(lambda flat: judge.through(kernel, flat.reshape(6, 3))[0], X[:6].ravel(), 1e-4)
    assert_allclose(slopes.ravel(), by_differences, rtol=1e-4, atol=2e-4)


def test_moved_points_raise_the_bound(table):
    X, y, weight = table
    fixed, moved = (
        BayesianSVC(KERNEL, tune=None, n_inducing=5, inducing=how, random_state=0).fit(X, y, sample_weight=weight)
        for how in ("kmeans", "tuned")
    )
    assert moved.bound_ > fixed.bound_ + 1
    assert moved.inducing_points_.shape == (5, 3)
    single = BayesianSVC(KERNEL, tune=None, n_inducing=5, inducing="tuned", random_state=0)
    assert single.fit(X.astype(np.float32), y).inducing_points_.dtype == np.float32
    assert BayesianSVC(n_inducing=5, inducing="tuned", loss="logistic-taylor").fit(X, y).score(X, y) > 0.8
    everywhere = BayesianSVC(KERNEL, tune=None, inference="batch").fit(X, y, sample_weight=weight)
    assert moved.bound_ <= everywhere.bound_ + 1e-4 * abs(everywhere.bound_)  # a bound at any points
