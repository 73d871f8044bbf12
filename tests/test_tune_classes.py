"""Choosing the kernel where there are more than two classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, load_wine

import references
from softmargin import BayesianSVC
from softmargin.chunks import Table
from softmargin.columns import describe
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant, Linear, Matern
from softmargin.likelihoods import (
    AugmentedHinge,
    CrammerSinger,
    Hinge,
    JaakkolaJordan,
    OneVersusRest,
    Quadrature,
    Rivals,
    Softmax,
)
from softmargin.priors import Classwise, Ridge
from softmargin.rows import ClasswiseRows, InducingRows
from softmargin.sampling import allotted, by_class
from softmargin.steps import ascend
from softmargin.tune import (
    _LONGEST,
    TUNINGS,
    Choice,
    Evidence,
    Judges,
    LabelledRows,
    _reopened,
    choose_kernel,
    evidence,
    judges,
    moved_points,
)
from softmargin.tune.evidence import LOGISTIC_JUDGE, logistic_judge

K = 3
KERNEL = 3.0 * RBF((0.8, 2.0, 1.5)) + Constant(0.5)
BOUNDS = [
    Softmax(),
    logistic_judge(K),
    Rivals(Hinge()),
    Rivals(JaakkolaJordan()),
    Rivals(Quadrature()),
    OneVersusRest(AugmentedHinge()),
]


@pytest.fixture
def table(rng):
    """The first column decides, the second bends the borders, the third is noise."""
    X = rng.normal(size=(120, 3))
    f = np.stack([X[:, 0], X[:, 1] ** 2 - 1, -X[:, 0]], axis=1) + 0.4 * rng.normal(size=(120, 3))
    return X, f.argmax(axis=1).astype(float), rng.choice([0.5, 1.0, 2.0], size=120)


def judging(X, y, weight):
    return Judges.of(LabelledRows(X, y, weight, np.minimum(weight, 1)), n_classes=K)


def settled(monkeypatch):
    """Beliefs are found to the last digits."""
    monkeypatch.setattr(evidence, "_SETTLED", 1e-11)
    monkeypatch.setattr(evidence, "_SETTLED_SHARE", 0.0)


# The objective and its slopes --------------------------------------------------------------------


def test_the_logistic_judge_of_classes_takes_each_against_the_rest():
    assert logistic_judge(2) is LOGISTIC_JUDGE
    assert logistic_judge(3) == logistic_judge(26) == OneVersusRest(LOGISTIC_JUDGE)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_the_objective_is_that_of_a_fit(table, likelihood, n_jobs, monkeypatch):
    monkeypatch.setattr(evidence, "_BLOCK_ROWS", 50)
    X, y, weight = table
    judged = Evidence(X, y, weight, X[:30], likelihood, n_jobs=n_jobs, n_classes=K).at(KERNEL)
    rows = ClasswiseRows(InducingRows.at(KERNEL, X[:30]), K)
    problem = Problem(Table(X, y, weight, 64), rows, likelihood, Classwise.alike(Ridge.isotropic(30), K))
    # Beliefs are settled to a hundredth of a nat an update, of which the augmented hinge takes many short ones, and no
    # belief lies above the optimum.
    assert -0.15 < judged.value - ascend(problem, tol=1e-10, max_passes=500).point.objective < 1e-6


@pytest.mark.parametrize("likelihood", BOUNDS, ids=repr)
def test_slopes_are_those_of_the_settled_objective(table, likelihood, monkeypatch):
    settled(monkeypatch)
    X, y, weight = table
    judge = Evidence(X, y, weight, X[:20], likelihood, n_updates=2000, n_classes=K)
    slopes = judge.at(KERNEL).slopes
    by_differences = references.gradient(lambda theta: judge.at(KERNEL.with_theta(theta)).value, KERNEL.theta, 1e-4)
    # Settling to 1e-11 nats leaves the belief about 1e-5 of a deviation off, and differences that much over 1e-4.
    assert_allclose(slopes, by_differences, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("likelihood", [Softmax(), Rivals(Hinge())], ids=repr)
def test_slopes_in_the_points_are_those_of_the_settled_objective(table, likelihood, monkeypatch):
    settled(monkeypatch)
    X, y, weight = table
    kernel = 2.0 * Matern((0.8, 2.0, 1.5), nu=2.5) + Linear(0.3)
    judge = Evidence(X, y, weight, X[:5], likelihood, n_updates=2000, n_classes=K)
    slopes = judge.through(kernel, X[:5])[1]
    by_differences = references.gradient(lambda flat: judge.through(kernel, flat.reshape(5, 3))[0], X[:5].ravel(), 1e-4)
    assert_allclose(slopes.ravel(), by_differences, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("likelihood", [Softmax(), Rivals(Hinge()), OneVersusRest(Hinge())], ids=repr)
def test_panels_in_single_precision_agree_with_double(table, likelihood, monkeypatch):
    X, y, weight = table
    wide = Evidence(X, y, weight, X[:30], likelihood, n_classes=K).at(KERNEL)
    monkeypatch.setattr(evidence, "_MANY_ROWS", 50)
    narrow = Evidence(X, y, weight, X[:30], likelihood, n_classes=K).at(KERNEL)
    assert abs(narrow.value - wide.value) < 0.02  # both are settled to a hundredth of a nat
    assert_allclose(narrow.slopes, wide.slopes, atol=0.2)


@pytest.mark.parametrize("likelihood", [Softmax(), Rivals(Hinge())], ids=repr)
def test_an_update_that_would_descend_is_shortened(table, likelihood, monkeypatch):
    X, y, weight = table
    values, update = [], Evidence._update

    def watched(self, features, sites, belief=None):
        settling = update(self, features, sites, belief)
        values.append(settling.value)
        return settling

    monkeypatch.setattr(Evidence, "_update", watched)
    steep = 1e3 * RBF((0.8, 2.0, 1.5))
    found = Evidence(X, y, weight, X[:30], likelihood, n_updates=200, n_classes=K).at(steep).value
    assert found >= max(values) - 0.02


def test_the_belief_of_another_panel_is_a_start(table):
    X, y, weight = table
    first = Evidence(X, y, weight, X[:30], Softmax(), n_classes=K).at(KERNEL)
    calls, update = [], Evidence._update

    class Counting(Evidence):
        def _update(self, *args):
            calls.append(args)
            return update(self, *args)

    fresh = Counting(X[:90], y[:90], weight[:90], X[:30], Softmax(), n_classes=K)
    value, cold = fresh.at(KERNEL).value, len(calls)
    begun = Counting(X[:90], y[:90], weight[:90], X[:30], Softmax(), n_classes=K)
    begun.begin_from(first)
    calls.clear()
    assert abs(begun.at(KERNEL).value - value) < 0.03
    assert len(calls) <= cold


def test_copies_and_weights_are_judged_alike(table):
    X, y, weight = table
    times = (2 * weight).astype(int)
    copies = np.repeat(np.arange(120), times)
    for likelihood in (Softmax(), Rivals(Hinge())):
        one = Evidence(X, y, times.astype(float), X[:30], likelihood, n_classes=K).at(KERNEL)
        other = Evidence(X[copies], y[copies], np.ones(len(copies)), X[:30], likelihood, n_classes=K).at(KERNEL)
        assert_allclose(one.value, other.value, rtol=1e-7)
        assert_allclose(one.slopes, other.slopes, rtol=1e-4, atol=1e-4)


# The rows that judge -----------------------------------------------------------------------------


def test_judges_are_distinct_rows_with_their_total_weight(rng):
    X = rng.integers(0, 3, size=(300, 2)).astype(float)
    y, weight = rng.integers(4, size=300).astype(float), rng.choice([0.5, 1.0, 3.0], size=300)
    rows = Judges.of(LabelledRows(X, y, weight, np.minimum(weight, 1)), n_classes=4)
    assert len(rows.X) == 36
    assert rows.n_classes == 4
    for k in range(4):
        assert_allclose(rows.weight[rows.y == k].sum(), weight[y == k].sum())


def test_rare_classes_are_sampled_more_often_and_weigh_the_same(rng):
    n = 4 * judges._FIRST_ROWS
    y = rng.choice(5, size=n, p=[0.6, 0.3, 0.08, 0.015, 0.005]).astype(float)
    X, weight = rng.normal(size=(n, 2)), rng.uniform(0.5, 2, size=n)
    rows = LabelledRows(X, y, weight, np.ones(n))
    sample = rows.sample(judges._FIRST_ROWS, np.random.RandomState(0))
    assert len(sample.y) == judges._FIRST_ROWS
    for k in range(5):
        there = np.sum(y == k)
        share = weight[y == k].sum() / weight.sum()
        assert np.sum(sample.y == k) >= min(there, judges._FIRST_ROWS // 10)
        assert_allclose(sample.weight[sample.y == k].sum() / sample.weight.sum(), share, rtol=1e-3)
    panels = Judges.panels(rows, np.random.RandomState(0), n_classes=5)
    assert len(panels) == 2
    assert all(panel.n_classes == 5 for panel in panels)


@pytest.mark.parametrize(
    "counts", [[9000, 1000], [300, 300, 300], [5000, 1, 1, 1], [0, 10, 20], [3] * 400, [10**6, 50, 10**5, 7]], ids=str
)
@pytest.mark.parametrize("size", [1, 100, 1000])
def test_samples_are_full_and_hold_enough_of_rarer_classes(counts, size):
    shares = allotted(counts, size)
    assert sum(shares) == min(size, sum(counts))
    assert all(0 <= share <= count for share, count in zip(shares, counts, strict=True))
    least = int(0.5 * size / len(counts))
    assert all(share >= min(count, least) for share, count in zip(shares, counts, strict=True))


def test_rows_by_class_are_those_that_are_there():
    found = by_class(np.array([2.0, 0.0, 2.0, 5.0]))
    assert [rows.tolist() for rows in found] == [[1], [0, 2], [3]]


def test_leave_one_out_losses_are_those_of_the_model(table):
    X, y, weight = table
    rows = judging(X, y, weight)
    for way, loss in (("weston-watkins", "hinge"), ("softmax", "logistic"), ("ovr", "hinge")):
        likelihood = {"weston-watkins": Rivals(), "softmax": Softmax(), "ovr": OneVersusRest()}[way]
        fixed = {"tune": None, "inducing": rows.points, "tol": 1e-4, "loss": loss, "multi_class": way}
        model = BayesianSVC(KERNEL, **fixed).fit(X, y, sample_weight=weight)
        losses = rows.left_out_losses(KERNEL, likelihood)
        assert_allclose(rows.weight @ losses / rows.weight.sum(), model.loo_log_loss_, rtol=1e-5)


# The kernel that is chosen -----------------------------------------------------------------------


@pytest.mark.parametrize("how", TUNINGS)
def test_columns_that_say_nothing_get_long_length_scales(table, how):
    X, y, weight = table
    kernel = choose_kernel([judging(X, y, weight)], KERNEL, describe(X, weight), how, Rivals()).kernel
    first, second, noise = np.exp(kernel.theta[1:4])
    assert noise > 1.5 * max(first, second)


def test_starts_a_hundred_times_apart_end_together(table):
    X, y, weight = table
    columns, panel = describe(X, weight), judging(X, y, weight)
    found = [
        choose_kernel([panel], 3.0 * RBF(scale), columns, "logistic", Rivals()).kernel.theta for scale in (0.02, 2.0)
    ]
    assert_allclose(found[0], found[1], atol=0.1)


@pytest.mark.parametrize(
    ("loss", "way", "how"),
    [
        ("hinge", "weston-watkins", "bound"),
        ("hinge", "crammer-singer", "logistic"),
        ("hinge-augmented", "ovr", "bound"),
        ("logistic", "softmax", "loo"),
        ("logistic-jj", "weston-watkins", "bound-steps"),
        ("logistic-taylor", "weston-watkins", "loo"),
        ("probit", "ovr", "logistic"),
    ],
)
def test_every_judge_serves_every_way(table, loss, way, how):
    X, y, weight = table
    model = BayesianSVC(loss=loss, multi_class=way, tune=how).fit(X, y, sample_weight=weight)
    assert model.score(X, y) > 0.75
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(model.tune_history_) > 3


def test_a_tuned_kernel_has_a_higher_bound(table):
    X, y, _ = table
    fixed = BayesianSVC(KERNEL, tune=None, loss="logistic").fit(X, y)
    tuned = BayesianSVC(KERNEL, tune="bound", loss="logistic").fit(X, y)
    assert tuned.bound_ > fixed.bound_ + 1
    assert fixed.tune_history_ == []


def test_units_order_names_and_copies_of_rows_do_not_change_the_kernel(table, rng):
    X, y, _ = table
    weight = rng.integers(1, 4, size=len(y))
    theta = BayesianSVC().fit(X, y, sample_weight=weight).kernel_.theta
    order = rng.permutation(np.repeat(np.arange(len(y)), weight))
    assert_allclose(BayesianSVC().fit(X[order], y[order]).kernel_.theta, theta, atol=1e-12)
    stretched = BayesianSVC().fit(X * [1e-6, 1.0, 1e6] + [1, -1, 1e6], y, sample_weight=weight).kernel_.theta
    assert_allclose(stretched - theta, [0, np.log(1e-6), 0, np.log(1e6), 0], atol=5e-3)  # three digits are kept
    renamed = BayesianSVC().fit(X, np.array([2, 0, 1])[y.astype(int)], sample_weight=weight).kernel_.theta
    assert_allclose(renamed, theta, atol=0.02)


def test_moved_points_raise_the_bound(table):
    X, y, weight = table
    rows = judging(X, y, weight)
    units = np.ones(3)
    for likelihood in (Softmax(), Rivals(Hinge()), CrammerSinger()):
        points = moved_points(rows, KERNEL, X[:5], likelihood, units)
        judge = likelihood if likelihood.is_bound else logistic_judge(K)
        before, after = (rows._replace(points=where).evidence(judge).at(KERNEL).value for where in (X[:5], points))
        assert after > before + 1


@pytest.mark.parametrize(("load", "most"), [(load_iris, 0.2), (load_wine, 0.15)])
def test_known_tables_are_told_apart(load, most):
    X, y = load(return_X_y=True)
    model = BayesianSVC(random_state=0).fit(X, y)
    assert model.loo_log_loss_ < most


# Columns that few rows switched off --------------------------------------------------------------


def test_length_scales_are_cut_where_more_rows_are_asked():
    center, chosen = 2.0 * RBF((1.0, 1.0)) + Constant(1.0), 9.0 * RBF((50.0, 1.5)) + Constant(8.0)
    opened = _reopened(Choice(chosen, -1.0, []), center)
    assert_allclose(np.exp(opened.theta), [9.0, np.exp(_LONGEST), 1.5, 8.0])


@pytest.mark.parametrize("start", [KERNEL, Choice(KERNEL, -1.0, [])])
def test_starts_and_short_length_scales_stay_as_they_are(start):
    assert _reopened(start, KERNEL) is start


def test_a_column_that_few_rows_switched_off_is_found_again(rng):
    """The first panel sees labels that do not depend on the second column, the second panel those that do."""
    X = rng.normal(size=(600, 2))
    few, many = X[:200], X[200:]
    first = Judges.of(LabelledRows(few, np.digitize(few[:, 0], [-0.5, 0.5]), *np.ones((2, 200))), 30, K)
    second = Judges.of(LabelledRows(many, np.digitize(many[:, 0] * many[:, 1], [-0.2, 0.2]), *np.ones((2, 400))), 60, K)
    columns = describe(X, np.ones(600))
    kernel = 4.0 * RBF((1.0, 1.0)) + Constant(1.0)
    alone = choose_kernel([first], kernel, columns, "logistic", Rivals(Hinge())).kernel
    both = choose_kernel([first, second], kernel, columns, "logistic", Rivals(Hinge())).kernel
    assert np.exp(alone.theta[2]) > 10
    assert np.exp(both.theta[2]) < 3
