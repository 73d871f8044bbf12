"""Fits that are cut off anywhere end where they would have ended."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, chunks, inference, steps
from softmargin import stochastic as walks
from softmargin.checkpoint import Checkpoint
from softmargin.chunks import passes, survey
from softmargin.engine import Problem
from softmargin.gaussian import class_parts
from softmargin.kernels import RBF, Constant
from softmargin.store import archive, read

KERNEL = 4.0 * RBF(1.0) + Constant(1.0)
PLAIN = {"kernel": KERNEL, "tune": None, "n_inducing": 12, "random_state": 0}
#: A fit of some dozen passes.
LONG = PLAIN | {"inference": "cavi", "loss": "hinge-augmented", "tol": 1e-9}
N_ROWS = 240


def without_a_disk(monkeypatch):
    """Nothing here depends on what reaches a disk, which takes longer than all else."""
    monkeypatch.setattr(archive.os, "fsync", lambda handle: None)


quick_disk = pytest.fixture(without_a_disk, autouse=True)


class Crash(BaseException):
    """What no code catches."""


def rows(n=N_ROWS, n_classes=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    score = np.stack([np.sin(2 * X[:, 0]), X[:, 1], X[:, 2] ** 2 - 1][:n_classes], axis=1)
    return X, (score + 0.3 * rng.gumbel(size=score.shape)).argmax(axis=1)


def gaps():
    X, y = rows()
    X[::4, 1] = np.nan
    X[::6, 0] = np.nan
    return X, y


def groups():
    X, y = rows()
    X[:, 2] = np.arange(len(y)) % 7
    return X, y


def few():
    X, y = rows(60)
    noise = np.random.default_rng(1).normal(size=(60, 3))
    return np.column_stack([X, noise]), y


def apart():
    """Classes that are steps of a sum, without noise: Newton's steps are far too long."""
    X = np.random.default_rng(1).integers(0, 4, (200, 4)).astype(float)
    return X, np.digitize(X.sum(axis=1), [4, 6, 8])


def some_points():
    rng = np.random.default_rng(1)
    points = np.unique(rng.integers(0, 4, (200, 4)).astype(float), axis=0)
    return points[rng.permutation(len(points))[:20]]


#: Models, their rows, settings that make small tables go the ways of large ones, and every how many passes to crash.
CASES = {
    "kernel": (BayesianSVC(**LONG), rows, {}, 1),
    "kernel tuned": (BayesianSVC(n_inducing=10, random_state=0, loss="hinge-augmented"), rows, {}, 9),
    "three classes": (BayesianSVC(**PLAIN), lambda: rows(n_classes=3), {}, 1),
    "classes that part": (BayesianSVC(1e4 * RBF(3.0), tune=None, inducing=some_points()), apart, {}, 4),
    "no bound": (BayesianSVC(**PLAIN, multi_class="crammer-singer"), lambda: rows(n_classes=3), {}, 7),
    "pilot": (BayesianSVC(**PLAIN, tol=1e-6), rows, {(inference, "_ROWS_FOR_A_PILOT"): 99}, 1),
    "single precision": (BayesianSVC(**PLAIN), rows, {(inference, "_ROWS_FOR_A_PILOT"): 99}, 1),
    "large": (BayesianSVC(**PLAIN), rows, {(inference, "LARGE"): 99, (walks, "_MOST_ROWS"): 64}, 1),
    "large and far": (
        BayesianSVC(**PLAIN),
        rows,
        {(inference, "LARGE"): 99, (walks, "_MOST_ROWS"): 64, (inference, "_SHORT"): 0.0},
        1,
    ),
    "linear": (BayesianLinearSVC(), rows, {}, 1),
    "one variance each": (BayesianLinearSVC(prior="ard"), lambda: rows(n_classes=3), {}, 5),
    "selection": (BayesianLinearSVC(prior="laplace-zero"), few, {}, 11),
    "gaps": (BayesianLinearSVC(), gaps, {}, 3),
    "selection and gaps": (BayesianLinearSVC(prior="laplace-zero", tol=1e-4), gaps, {}, 17),
    "groups": (BayesianMixedSVC(groups=2), groups, {}, 3),
    "point masses": (BayesianLinearSVC(inference="ecm"), rows, {}, 23),
}


def found(model):
    """All that must be the same."""
    arrays = [array for part in class_parts(model.belief_) for array in (part.mean, part.variances)]
    return [model.bound_, *arrays, *(entry["objective"] for entry in model.history_), repr(model.link_)]


def assert_same(one, other):
    assert (one.stop_reason_, one.n_iter_) == (other.stop_reason_, other.n_iter_)
    for a, b in zip(found(one), found(other), strict=True):
        assert_array_equal(a, b)


def counting(monkeypatch):
    """Passes over at least so many rows are counted; the one of a given number crashes."""

    class Counter:
        n, crash_at, least = 0, 0, 0

        def see(self, n_rows):
            if n_rows >= self.least:
                self.n += 1
                if self.n == self.crash_at:
                    raise Crash

        def fit(self, model, *data, crash_at=0):
            self.n, self.crash_at = 0, crash_at
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(*data)

    counter = Counter()
    for name in ("stats", "stats_and_answer"):
        whole = getattr(Problem, name)

        def watched(problem, belief, whole=whole):
            counter.see(problem.n_rows)
            return whole(problem, belief)

        monkeypatch.setattr(Problem, name, watched)
    return counter


counted = pytest.fixture(counting)


def crashed(counted, model, *data, crash_at):
    with pytest.raises(Crash):
        counted.fit(clone(model), *data, crash_at=crash_at)


@pytest.mark.parametrize("case", CASES)
def test_a_crash_in_any_pass_changes_nothing(case, counted, tmp_path, monkeypatch):
    plain, make, settings, every = CASES[case]
    for (module, name), value in settings.items():
        monkeypatch.setattr(module, name, value)
    data, path = make(), tmp_path / "fit"
    counted.least = len(data[1]) if "large" in case else 0  # minibatches of a walk may be repeated
    parted, part = [], steps._AscentState.part
    monkeypatch.setattr(steps._AscentState, "part", lambda state, *args: (parted.append(state), part(state, *args)))
    whole, n_passes = counted.fit(clone(plain), *data), counted.n
    model = clone(plain).set_params(checkpoint=Checkpoint(path, passes=1))
    assert_same(counted.fit(clone(model), *data), whole)
    assert n_passes == counted.n
    assert bool(parted) is ("part" in case)
    for crash_at in range(1, n_passes + 1, every):
        crashed(counted, model, *data, crash_at=crash_at)
        assert_same(counted.fit(clone(model), *data), whole)
        assert counted.n == n_passes - (crash_at - 1)
        assert not list(tmp_path.iterdir())
    if every > 1:  # with one crash after the other
        crash_at = max(2, n_passes // 4)
        for done in range(0, n_passes - crash_at + 1, crash_at - 1):
            crashed(counted, model, *data, crash_at=crash_at)
            assert counted.n == crash_at, done
        assert_same(counted.fit(clone(model), *data), whole)


def test_minibatches_go_on_after_the_last_pass_that_was_written(counted, tmp_path):
    data, path = rows(), tmp_path / "fit"
    plain = BayesianSVC(**PLAIN, inference="svi", batch_size=60, tol=0.0, max_iter=6)
    whole, n_steps = counted.fit(clone(plain), *data), counted.n
    model = clone(plain).set_params(checkpoint=Checkpoint(path, passes=1))
    for crash_at in range(1, n_steps + 1, 2):
        crashed(counted, model, *data, crash_at=crash_at)
        assert_same(counted.fit(clone(model), *data), whole)
    assert counted.n <= 4 + 1  # of four minibatches a pass


@pytest.mark.parametrize(
    "settings", [{"inference": "adam", "batch_size": 60, "max_iter": 3}, {"inference": "gibbs", "n_draws": 20}]
)
def test_draws_and_gradients_begin_anew_and_end_alike(settings, counted, tmp_path):
    data = rows()
    plain = BayesianSVC(**PLAIN, **settings)
    whole, n_passes = counted.fit(clone(plain), *data), counted.n
    model = clone(plain).set_params(checkpoint=Checkpoint(tmp_path / "fit", passes=1))
    crashed(counted, model, *data, crash_at=n_passes - 1)
    assert_same(counted.fit(clone(model), *data), whole)


def test_random_numbers_are_in_the_file(counted, tmp_path):
    data, rng = rows(), np.random.RandomState(3)
    settings = LONG | {"inducing": "random"}
    whole, after = counted.fit(BayesianSVC(**settings | {"random_state": rng}), *data), rng.randint(1000)
    settings["checkpoint"] = Checkpoint(tmp_path / "fit", passes=1)
    rng = np.random.RandomState(3)
    with pytest.raises(Crash):
        counted.fit(BayesianSVC(**settings | {"random_state": rng}), *data, crash_at=3)
    rng = np.random.RandomState(4)
    assert_same(counted.fit(BayesianSVC(**settings | {"random_state": rng}), *data), whole)
    assert rng.randint(1000) == after
    # Without a seed the numbers of the first call are those of the second.
    with pytest.raises(Crash):
        counted.fit(BayesianSVC(**settings | {"random_state": None}), *data, crash_at=3)
    points = read(tmp_path / "fit", "checkpoint")["pages"]["parts"][0].rows.points
    model = counted.fit(BayesianSVC(**settings | {"random_state": None}), *data)
    assert_array_equal(model.inducing_points_, points)


# Sources -----------------------------------------------------------------------------------------


@pytest.fixture
def items(monkeypatch):
    """A counter of the items that passes over a source have added up."""

    class Counter:
        n, crash_at = 0, 0

    counter, add_up = Counter(), passes.ItemSum.__call__

    def watched(task, item):
        counter.n += 1
        if counter.n == counter.crash_at:
            raise Crash
        return add_up(task, item)

    monkeypatch.setattr(passes.ItemSum, "__call__", watched)
    monkeypatch.setattr(survey, "MOST_ROWS", 300)
    monkeypatch.setattr(survey, "_LEAST_ROWS", 10)
    return counter


@pytest.mark.parametrize(
    ("plain", "n_classes", "every"),
    [
        (BayesianSVC(**PLAIN), 2, 1),
        (BayesianSVC(**PLAIN), 3, 5),
        (BayesianLinearSVC(prior="laplace-zero", tol=1e-3), 2, 101),
    ],
)
def test_a_pass_over_a_source_goes_on_where_it_was(plain, n_classes, every, items, tmp_path, monkeypatch):
    monkeypatch.setattr(inference, "_MOST_WAYS", 2)
    X, y = rows(900, n_classes)
    data = [(X[start : start + 200], y[start : start + 200]) for start in range(0, 900, 200)]
    data.insert(2, (X[:3], y[:3], np.zeros(3)))  # an item without rows
    whole, n_items = clone(plain).fit(data), items.n
    assert n_items > 6 * 3
    model = clone(plain).set_params(checkpoint=Checkpoint(tmp_path / "fit", seconds=1e-9))
    for crash_at in range(2, n_items + 1, every):
        items.n, items.crash_at = 0, crash_at
        with pytest.raises(Crash):
            clone(model).fit(data)
        items.n, items.crash_at = 0, 0
        assert_same(clone(model).fit(chunks.Batches(lambda: iter(data))), whole)
        assert items.n == n_items - (crash_at - 1)
    # Without seconds, passes are whole or not there.
    items.n, items.crash_at = 0, 6 * 2 + 4
    model.set_params(checkpoint=Checkpoint(tmp_path / "fit", passes=1))
    with pytest.raises(Crash):
        clone(model).fit(data)
    items.n, items.crash_at = 0, 0
    assert_same(clone(model).fit(data), whole)
    assert items.n == n_items - 6 * 2


def test_other_rows_of_a_source_are_refused(items, tmp_path):
    X, y = rows(900)
    model = BayesianSVC(**PLAIN, checkpoint=Checkpoint(tmp_path / "fit", passes=1))
    items.crash_at = 9
    with pytest.raises(Crash):
        clone(model).fit(chunks.Arrays(X, y, batch_rows=200))
    with pytest.raises(ValueError, match=r"another fit \(which differs in number of rows, rows, labels or weights\)"):
        clone(model).fit(chunks.Arrays(X[:-1], y[:-1], batch_rows=200))
