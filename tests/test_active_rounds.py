"""Rounds of questions: what is learnt, how they begin and how they end."""

import io

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.active import ActiveLearner, query
from softmargin.active.progress import Progress
from softmargin.monitor import InterruptedFitWarning
from test_active import QUICK, fitted_moons, numbered

moons = pytest.fixture(fitted_moons, scope="module")


def test_a_loop_learns_and_keeps_notes(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(n_jobs=1), random_state=0, n_per_query=3, tune_every=4)
    assert learner.learn(X[:200], y[:200], n_queries=20, X_test=X[200:], y_test=y[200:]) is learner
    assert learner.stop_reason_ == "queries"
    assert len(learner.labelled_) == len(set(learner.labelled_.tolist())) == 22
    assert_array_equal(learner.labels_, y[learner.labelled_])
    assert [note["n_labelled"] for note in learner.history_] == [2, 5, 8, 11, 14, 17, 20, 22]
    assert_array_equal(np.concatenate([note["queried"] for note in learner.history_]), learner.labelled_)
    assert [note["tuned"] for note in learner.history_] == [True, False, False, False, True, False, False, False]
    assert learner.history_[-1]["score"] == learner.model_.score(X[200:], y[200:]) > 0.8
    seconds = [note["seconds"] for note in learner.history_]
    assert sorted(seconds) == seconds
    assert learner.history_[0]["uncertainty"] is None
    assert 0 < learner.history_[1]["uncertainty"] <= 0.5


def test_the_seed_settles_everything(moons):
    _, X, y = moons
    runs = [
        ActiveLearner(BayesianSVC(n_jobs=1, n_inducing=4), random_state=seed).learn(X, y, n_queries=6)
        for seed in (1, 1, 2)
    ]
    assert_array_equal(runs[0].labelled_, runs[1].labelled_)
    assert not np.array_equal(runs[0].labelled_, runs[2].labelled_)
    assert_array_equal(runs[0].model_.predict_proba(X), runs[1].model_.predict_proba(X))
    given = ActiveLearner(make_pipeline(StandardScaler(), BayesianSVC(**QUICK)), random_state=5).learn(
        X, y, n_queries=1
    )
    assert given.model_[-1].random_state == 0
    assert isinstance(runs[0].model_.random_state, int)


def test_the_last_model_is_the_fit_of_all_labels(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(**QUICK), "margin", random_state=0).learn(X, y, n_queries=5)
    again = BayesianSVC(**QUICK).fit(X[learner.labelled_], y[learner.labelled_])
    assert_array_equal(learner.model_.predict_proba(X), again.predict_proba(X))
    next_row = query(again, X, strategy="margin", exclude=learner.labelled_, random_state=0)
    longer = ActiveLearner(BayesianSVC(**QUICK), "margin", random_state=0).learn(X, y, n_queries=6)
    assert_array_equal(longer.labelled_, [*learner.labelled_, *next_row])


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(n_inducing=4, n_jobs=1),
        BayesianLinearSVC(n_jobs=1),
        BayesianGPC(n_inducing=4, n_jobs=1),
        make_pipeline(StandardScaler(), BayesianSVC(n_inducing=4, n_jobs=1)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("refit", ["full", "partial"])
def test_every_model_follows_in_both_ways(model, refit):
    X, y = load_iris(return_X_y=True)
    learner = ActiveLearner(model, refit=refit, tune_every=3, random_state=0, n_per_query=2)
    learner.learn(X, y, n_queries=10, X_test=X, y_test=y)
    assert len(learner.labels_) == 13
    assert learner.history_[-1]["score"] > 0.6
    assert [note["tuned"] for note in learner.history_] == [True, False, False, True, False, False]


def test_partial_refits_add_the_new_rows_alone(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(**QUICK), "random", refit="partial", n_per_query=3, random_state=0)
    rows = learner.learn(X, y, start=20, n_queries=6).labelled_
    assert not np.array_equal(y[rows[:3]], y[rows[20:23]])
    by_hand = BayesianSVC(**QUICK).fit(X[rows[:20]], y[rows[:20]])
    for new in (rows[20:23], rows[23:]):
        by_hand.partial_fit(X[new], y[new])
    assert_array_equal(learner.model_.predict_proba(X), by_hand.predict_proba(X))


def test_kernels_are_held_between_tunings(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(n_inducing=4, n_jobs=1), tune_every=None, random_state=0)
    kernel = learner.learn(X, y, start=20, n_queries=1).model_.kernel_
    assert learner.learn(X, y, start=20, n_queries=4).model_.kernel_ == kernel
    every = ActiveLearner(BayesianSVC(n_inducing=4, n_jobs=1), tune_every=1, random_state=0)
    every.learn(X, y, start=20, n_queries=4)
    assert every.model_.kernel_ != kernel
    assert every.model_.tune == "logistic"
    assert all(note["tuned"] for note in every.history_)
    assert learner.model.tune == "logistic"  # what was given is not changed
    moved = ActiveLearner(BayesianSVC(n_inducing=4, inducing="tuned", n_jobs=1), tune_every=None, random_state=0)
    points = moved.learn(X, y, start=20, n_queries=1).model_.inducing_points_
    assert_array_equal(moved.learn(X, y, start=20, n_queries=3).model_.inducing_points_, points)


def test_kernel_machines_and_frames_with_groups(rng):
    X, y = make_moons(60, noise=0.2, random_state=0)
    learner = ActiveLearner(BayesianKernelMachine(n_frequencies=16, n_steps=20, n_jobs=1), tune_every=2, random_state=0)
    assert learner.learn(X, y, n_queries=2, start=10).model_ is not None
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abc"), 20)})
    known = np.where(frame["x"] > 0, "yes", "no")
    mixed = ActiveLearner(BayesianMixedSVC("~ x + (1 | g)"), diverse=True, n_per_query=3, random_state=0)
    mixed.learn(frame, known, n_queries=6, start=range(0, 60, 4))
    assert_array_equal(mixed.labels_, known[mixed.labelled_])
    with pytest.raises(ValueError, match="refit='partial' needs partial_fit, which BayesianMixedSVC does not have"):
        clone(mixed).set_params(refit="partial").learn(frame, known, n_queries=1)


def test_one_class_is_left_by_chance():
    X, y = numbered(40), np.array([0] * 39 + [1])
    learner = ActiveLearner(BayesianLinearSVC(n_jobs=1), random_state=0).learn(X, lambda rows: y[rows], start=[0, 1])
    assert learner.stop_reason_ in ("pool", "certain")
    without = [note["uncertainty"] is None for note in learner.history_]
    met = int(np.flatnonzero(learner.labels_ == 1)[0]) - 1  # two rows in the first round
    assert all(without[: met + 1])
    assert not any(without[met + 1 :])
    only = ActiveLearner(BayesianLinearSVC(n_jobs=1), random_state=0).learn(X[:5], np.zeros(5))
    assert only.model_ is None
    assert only.stop_reason_ == "pool"
    assert len(only.labelled_) == 5
    assert only.history_[-1]["score"] is None


def test_a_new_class_is_welcome_in_every_way():
    X, y = load_iris(return_X_y=True)
    first = np.flatnonzero(y < 2)[::9]
    for refit in ("full", "partial"):
        learner = ActiveLearner(BayesianSVC(**QUICK), "random", refit=refit, tune_every=50, random_state=1)
        learner.learn(X, y, start=first, n_queries=8)
        assert len(learner.model_.classes_) == 3


# Beginnings and ends -----------------------------------------------------------------------------


def test_beginnings(moons):
    _, X, y = moons
    names = np.array(["left", "right"])[y]
    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    assert sorted(learner.learn(X, names, n_queries=1).labels_[:2]) == ["left", "right"]
    assert len(learner.learn(X, names, start=12, n_queries=1).labels_) == 13
    assert learner.learn(X, names, start=[3, 150, 7], n_queries=1).labelled_[:3].tolist() == [3, 150, 7]
    assert learner.learn(X, lambda rows: names[rows], n_queries=4).history_[0]["n_labelled"] == 2
    asked = []

    def oracle(rows):
        asked.extend(rows.tolist())
        return names[rows]

    half = learner.learn(X, oracle, start=10, n_queries=3)
    asked.clear()
    rest = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    rest.learn(X, oracle, start=(half.labelled_, half.labels_), n_queries=2)
    assert asked == rest.labelled_[13:].tolist()


def test_ends(moons):
    _, X, y = moons
    test = {"X_test": X, "y_test": y}

    def ended(n_rows=60, strategy="variation_ratio", **limits):
        return ActiveLearner(BayesianSVC(**QUICK), strategy, random_state=0).learn(X[:n_rows], y[:n_rows], **limits)

    assert ended(n_queries=2).stop_reason_ == "queries"
    met = ended(target_score=0.85, **test)
    assert met.stop_reason_ == "score"
    assert met.history_[-1]["score"] >= 0.85 > met.history_[-2]["score"]
    late = ended(max_time=1e-9)
    assert late.stop_reason_ == "time"
    assert len(late.labelled_) == 2  # the first rows, and a model of them
    assert late.model_ is not None
    assert ended(least_uncertainty=0.5).stop_reason_ == "certain"
    assert ended(12, "random").stop_reason_ == "pool"
    assert ended(12, least_uncertainty=None).labelled_.shape == (12,)
    scored = ended(n_queries=2, scoring=lambda model, X, y: -1.0, **test)
    assert [note["score"] for note in scored.history_] == [-1.0] * 3


def test_nothing_left_to_learn_is_an_end():
    X = np.repeat([[-30.0], [30.0]], 20, axis=0)
    y = (X[:, 0] > 0).astype(int)
    learner = ActiveLearner(BayesianSVC(kernel="rbf", random_state=0, tune=None), random_state=0).learn(
        X, y, start=[0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25], least_uncertainty=0.2
    )
    assert learner.stop_reason_ == "certain"
    assert len(learner.labelled_) == 12


def test_ctrl_c_keeps_all_labels(moons):
    _, X, y = moons
    calls = []

    def tired(rows):
        calls.append(rows)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return y[rows]

    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.warns(InterruptedFitWarning, match="all labels so far"):
        learner.learn(X, tired, start=10, n_queries=50)
    assert learner.stop_reason_ == "interrupt"
    assert_array_equal(learner.labels_, y[learner.labelled_])
    assert len(learner.labels_) == 12
    assert_array_equal(
        learner.model_.predict(X), BayesianSVC(**QUICK).fit(X[learner.labelled_], learner.labels_).predict(X)
    )


def test_ctrl_c_during_a_fit_ends_the_rounds_too(moons, monkeypatch):
    _, X, y = moons
    whole = BayesianSVC.fit

    def interrupted(model, X, y, sample_weight=None):
        whole(model, X, y)
        if len(y) == 13:
            model.stop_reason_ = "interrupt"  # as a fit that keeps the best it had
        return model

    monkeypatch.setattr(BayesianSVC, "fit", interrupted)
    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.warns(InterruptedFitWarning):
        learner.learn(X, y, start=10, n_queries=50)
    assert len(learner.labels_) == 13


def test_other_errors_of_the_oracle_are_raised_and_keep_the_labels(moons):
    _, X, y = moons

    def broken(rows):
        if len(rows) == 1:
            raise OSError("no line to the laboratory")
        return y[rows]

    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.raises(OSError, match="laboratory"):
        learner.learn(X, broken, start=10)
    assert len(learner.labels_) == 10


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("name", [int, "class {}".format])
def test_rows_without_a_label_are_named(moons, nothing, name):
    _, X, y = moons
    asked = []

    def oracle(rows):
        asked.append(rows)
        labels = [name(label) for label in y[rows]]
        return labels if len(rows) == 10 else [nothing, *labels[1:]]

    learner = ActiveLearner(BayesianSVC(**QUICK), n_per_query=3, random_state=0)
    with pytest.raises(ValueError, match="The oracle gave no label for row") as raised:
        learner.learn(X, oracle, start=10)
    assert f"row {asked[1][0]} of the pool: it must" in str(raised.value)
    assert len(learner.labels_) == 10
    with pytest.raises(ValueError, match=r"no label for row \d+ of the pool and 9 more of those it was asked for"):
        learner.learn(X, lambda rows: None, start=10)
    with pytest.raises(ValueError, match="oracle has missing labels"):
        learner.learn(X, [nothing, *map(name, y[1:])])
    with pytest.raises(ValueError, match="start has no label for row 7 of the pool"):
        learner.learn(X, y, start=([5, 7], [name(1), nothing]))


@pytest.mark.parametrize(
    ("settings", "how", "message"),
    [
        ({"strategy": "guess"}, {}, "strategy must be one of"),
        ({"refit": "never"}, {}, "refit must be one of 'full', 'partial', got 'never'"),
        ({"n_per_query": 0}, {}, "n_per_query must be an integer"),
        ({"tune_every": 0}, {}, "tune_every must be an integer"),
        ({}, {"n_queries": 0}, "n_queries must be an integer"),
        ({}, {"max_time": -1}, "max_time must be a positive number"),
        ({}, {"least_uncertainty": -1}, "least_uncertainty must be a number >= 0"),
        ({}, {"target_score": 0.9}, "target_score=0.9 needs test rows"),
        ({}, {"X_test": np.zeros((3, 2))}, "Give both X_test and y_test, or neither"),
        ({}, {"start": "first"}, "start must be one of 'auto', 'classes', got 'first'"),
        ({}, {"start": 301}, "start=301 rows were requested, but X_pool has 300"),
        ({}, {"start": 0}, "start must be an integer"),
        ({}, {"start": [1, 1]}, "start must hold at least one row, and none twice"),
        ({}, {"start": [300]}, "start has row 300"),
        ({}, {"start": ([1, 2], [0])}, "start has 2 rows and labels of shape"),
        ({}, {"oracle": [0, 1]}, "oracle must be callable, or hold a label for each of the 300 rows"),
        ({}, {"oracle": np.full(300, np.nan)}, "oracle has missing labels"),
        ({}, {"oracle": lambda rows: [0]}, "asked for the labels of 2 rows, and returned an array of shape"),
        ({}, {"oracle": lambda rows: rows, "start": "classes"}, "start='classes' needs an oracle of known labels"),
    ],
)
def test_bad_loops_are_refused(settings, how, message, moons):
    _, X, y = moons
    how = {"oracle": y, **how}
    with pytest.raises(ValueError, match=message):
        ActiveLearner(BayesianSVC(**QUICK), random_state=0, **settings).learn(X, **how)


def test_progress_is_drawn():
    stream = io.StringIO()
    progress = Progress(True, None, 4, stream)
    for score in (np.nan, 0.5):
        progress._drawn = -1.0
        progress.record(score, True)
    progress.close()
    assert "ActiveLearner [      " in stream.getvalue()
    assert "] round 1 of 4  score 0.5" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_progress_goes_to_the_terminal(moons, capsys):
    _, X, y = moons
    ActiveLearner(BayesianSVC(**QUICK), verbose=True, random_state=0).learn(X, y, n_queries=2)
    assert "round 2 of 2" in capsys.readouterr().err
