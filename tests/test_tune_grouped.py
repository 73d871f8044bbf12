"""Kernels judged beside random effects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references
from softmargin.columns import describe
from softmargin.kernels import RBF, Constant
from softmargin.priors import Covariance, LaplaceZero, Part, Ridge, Standard, Structured, Variances
from softmargin.rows import CurvedRows, Factor, GroupedRows, LinearRows
from softmargin.tune import Evidence, LabelledRows, grouped
from softmargin.tune.evidence import logistic_judge
from softmargin.tune.grouped import GroupedEvidence, GroupedJudges, choose_kernel_within

KERNEL = 2.0 * RBF((0.9, 2.5)) + Constant(0.7)
N, J = 180, 12


@pytest.fixture
def rows(rng):
    """Two columns of the kernel, a column with slopes, and groups within others; the first column acts by a sine."""
    group = rng.integers(J, size=N)
    X = np.column_stack([rng.normal(size=(N, 3)), group, group // 4])
    f = 2 * np.sin(2 * X[:, 0]) + 1.5 * rng.normal(size=J)[group]
    weight = rng.choice([1.0, 2.0], size=N)
    return LabelledRows(X, np.where(f + rng.logistic(size=N) > 0, 1.0, -1.0), weight, np.ones(N))


def intercepts(fixed, variance=(0.01, 0.01)):
    made = GroupedRows(fixed, 2, (Factor((), True, 3),), (J,))
    return made, Structured(Ridge.isotropic(fixed.n_weights), (), (Variances(1, *variance),), made.layout)


def slopes_within(fixed):
    parents = (np.arange(J) // 4,)
    made = GroupedRows(fixed, 2, (Factor((2,), True, 3), Factor((), True, 4)), (J, 3), parents)
    return made, Structured(Ridge.isotropic(fixed.n_weights), (), (Covariance(2, 0.2), Variances(1)), made.layout)


def crossed(fixed):
    made = GroupedRows(fixed, 2, (Factor((), True, 3),), (J,), crossed=(Factor((), True, 4),), crossed_sizes=(3,))
    part = Part(fixed.n_weights, 3, Variances(1))
    return made, Structured(Ridge.isotropic(fixed.n_weights), (part,), (Variances(1),), made.layout)


def beside_lines(fixed):
    both = CurvedRows(LinearRows(np.zeros(2), np.ones(2)), fixed)
    made = GroupedRows(both, 2, (Factor((), True, 3),), (J,))
    parts = (Part(3, fixed.n_weights, Standard()),)
    return made, Structured(Ridge(np.full(3, 0.2)), parts, (Variances(1),), made.layout)


def beside_chosen_lines(fixed):
    made, prior = beside_lines(fixed)
    return made, prior._replace(fixed=LaplaceZero(2, 1, 0.5, 2.0, 0.2, 1e-3))


def judging(rows, n_classes=2):
    return GroupedJudges.of(rows, 2, 3, KERNEL, describe(rows.X[:, :2], rows.weight), n_classes)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("around", [intercepts, slopes_within, crossed, beside_lines, beside_chosen_lines])
def test_slopes_are_those_of_the_settled_objective(around, n_classes, rows, monkeypatch):
    monkeypatch.setattr(grouped, "_TOLERANCE", 1e-11)
    monkeypatch.setattr(grouped, "_MOST_PASSES", 1000)
    if n_classes == 3:
        rows = rows._replace(y=np.digitize(rows.X[:, 0] + rows.X[:, 3] / J, [0.0, 1.0]).astype(float))
    judge = GroupedEvidence(judging(rows, n_classes), around)
    slopes = judge.at(KERNEL).slopes
    by_differences = references.gradient(lambda theta: judge.at(KERNEL.with_theta(theta)).value, KERNEL.theta, 1e-3)
    # Of beliefs settled to 1e-11 of a hundred nats; differences err by the third slope times 1e-6.
    assert_allclose(slopes, by_differences, rtol=1e-3, atol=1e-3)


def test_groups_without_effects_leave_the_judgement_as_it_was(rows):
    def hardly(fixed):
        return intercepts(fixed, (1e9, 1.0))  # a variance of 1e-9, and sure of it

    judges = judging(rows)
    (X, y, weight, _), points = judges.rows, judges.points
    plain = Evidence(X[:, :2], y, weight, points, logistic_judge(2)).at(KERNEL)
    beside = GroupedEvidence(judges, hardly).at(KERNEL)
    # Beliefs without groups are settled to a hundredth of a nat or a ten-thousandth of the rows.
    assert abs(beside.value - plain.value) < 0.05
    assert_allclose(beside.slopes, plain.slopes, atol=0.1)


def length_scale(kernel):
    return np.exp(kernel.theta[kernel.has_role("length_scale")])


def test_a_kernel_leaves_to_groups_what_is_theirs(rng):
    """A column that tells groups apart looks wiggly to those who do not know groups."""
    group = np.repeat(np.arange(60), 20)
    place = np.sort(rng.uniform(-3, 3, size=60))[group] + 1e-3 * rng.normal(size=1200)
    f = place + 2 * rng.normal(size=60)[group]
    y = np.where(f + rng.logistic(size=1200) > 0, 1.0, -1.0)
    X, one = np.column_stack([place, group]), np.ones(1200)
    kernel, columns = 4.0 * RBF((1.8,)) + Constant(1.0), describe(place[:, None], one)

    def around(fixed, variance=(0.01, 0.01)):
        made = GroupedRows(fixed, 1, (Factor((), True, 1),), (60,))
        return made, Structured(Ridge.isotropic(fixed.n_weights), (), (Variances(1, *variance),), made.layout)

    judges = GroupedJudges.of(LabelledRows(X, y, one, one), 1, 1, kernel, columns)
    beside = choose_kernel_within(judges, around, kernel, columns)
    alone = choose_kernel_within(judges, lambda fixed: around(fixed, (1e9, 1.0)), kernel, columns)
    assert length_scale(beside.kernel) > 3 * length_scale(alone.kernel)
    assert beside.value > alone.value + 5


def test_order_and_copies_of_rows_do_not_matter(rows, rng):
    order = rng.permutation(np.repeat(np.arange(N), rows.weight.astype(int)))
    copies = LabelledRows(rows.X[order], rows.y[order], np.ones(len(order)), np.ones(len(order)))
    for one, other in zip(judging(rows).rows, judging(copies).rows, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("n_groups", [3, 40, 1000])
def test_of_many_rows_some_of_each_group_judge(n_groups, rng):
    n = 10_000
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(n_groups, size=n)])
    every = LabelledRows(X, rng.choice([-1.0, 1.0], size=n), np.ones(n), np.ones(n))
    codes = grouped._some(every, 2).X[:, 2].astype(int)
    counts = np.bincount(codes, minlength=n_groups)
    assert 4000 < len(codes) <= 4096
    if n_groups <= 40:  # all groups come, each with as many rows as others
        assert counts.min() > 0.9 * 4096 / n_groups
    else:  # groups that come bring all of their ten rows or so, but for the last
        whole = np.bincount(X[:, 2].astype(int), minlength=n_groups)
        assert np.sum((counts > 0) & (counts < np.minimum(whole, 16))) <= 1
