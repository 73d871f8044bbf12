"""Splits by groups, and rows that are on both sides."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

from softmargin import BayesianLinearSVC, BayesianMixedSVC, load, splits
from softmargin.comparison import compare, trials
from softmargin.evaluation import MEASURES, evaluate
from softmargin.splits import TwinRowsWarning, fingerprints, folds, held_out, n_among, sketch, told_of_twins
from softmargin.store import StoreError
from softmargin.tables import TableClassifier
from softmargin.tables.classifier import told_of_seen

LOGISTIC = {"logistic": lambda: LogisticRegression(max_iter=1000)}


def patients(n=40, visits=6, seed=0):
    """Visits of patients, of whom a fifth are ill."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), visits)
    return rng.normal(size=(n * visits, 3)), (rng.random(n) < 0.3)[who], who


# Groups


def test_rows_of_a_group_are_tested_together():
    X, y, who = patients()
    made = folds(y, 5, 0, who)
    assert sorted(np.concatenate([test for _, test in made]).tolist()) == list(range(len(X)))
    for train, test in made:
        assert not set(who[train]) & set(who[test])


@pytest.mark.parametrize("share", [0.1, 0.25, 0.6])
def test_whole_groups_are_held_out_with_classes_as_in_the_whole(share):
    _, y, who = patients()
    kept, held = held_out(y, share, 0, who)
    assert sorted([*kept, *held]) == list(range(len(y)))
    assert not set(who[kept]) & set(who[held])
    assert abs(len(held) / len(y) - share) < 0.05
    assert abs(y[held].mean() - y.mean()) < 0.15
    assert all(np.array_equal(*pair) for pair in zip(held_out(y, share, 0, who), (kept, held), strict=True))


def test_groups_that_cannot_be_split_are_told_of():
    y = np.array([0, 1] * 10 + [2] * 6)
    groups = np.r_[np.repeat(np.arange(4), 5), np.full(6, 4)]
    with pytest.raises(ValueError, match="There are 5 groups, fewer than the 6 folds"):
        folds(y, 6, 0, groups)
    with pytest.raises(ValueError, match="Class 2 occurs in so few groups"):
        folds(y, 5, 0, groups)
    with pytest.raises(ValueError, match="All rows belong to one group"):
        held_out(y, 0.2, 0, np.zeros(len(y)))


def test_a_model_that_knows_patients_gains_nothing_from_them():
    X, y, who = patients(60)
    known = np.column_stack([X, np.eye(60)[who]])
    by_rows, by_groups = (compare(LOGISTIC, known, y, groups=groups, n_bootstrap=20)[0] for groups in (None, who))
    assert by_rows.evaluation["error"].value < 0.05  # the patient says all
    assert by_groups.evaluation["error"].value > 0.15  # and nothing of others


def test_intervals_of_groups_are_those_of_whole_groups():
    """Six copies of a row are one row: their interval is that of the rows alone, and wider than that of all."""
    rng = np.random.default_rng(0)
    p = rng.random(150)
    y, proba = rng.random(150) < p, np.column_stack([1 - p, p])
    alone = evaluate(y, proba, classes=[False, True], n_bootstrap=2000)
    six = np.repeat(np.arange(150), 6)
    copies = evaluate(y[six], proba[six], classes=[False, True], n_bootstrap=2000, groups=six)
    careless = evaluate(y[six], proba[six], classes=[False, True], n_bootstrap=2000)
    for name in MEASURES:
        width, own, too_narrow = (found[name].high - found[name].low for found in (alone, copies, careless))
        assert copies[name].value == pytest.approx(alone[name].value)
        # 2,000 draws know the ends of an interval to about 4 %; those of Wilson and of draws differ by less.
        assert own == pytest.approx(width, rel=0.15), name
        assert too_narrow < 0.6 * own, name
    named = evaluate(y[six], proba[six], classes=[False, True], n_bootstrap=20, groups=[f"p{i}" for i in six])
    assert named["error"].low <= named["error"].value <= named["error"].high
    with pytest.raises(ValueError, match="groups must have one entry for each of the 150 rows"):
        evaluate(y, proba, classes=[False, True], groups=[1, 2])


def test_perfect_groups_still_leave_a_doubt():
    proba = np.eye(2)[[0, 1] * 20]
    found = evaluate([0, 1] * 20, proba, classes=[0, 1], groups=np.repeat(np.arange(10), 4), n_bootstrap=20)
    alone = evaluate([0, 1] * 5, proba[:10], classes=[0, 1], n_bootstrap=20)
    assert found["error"] == alone["error"]  # ten groups are worth ten rows
    assert found["auc"].low < 1.0


def test_standard_errors_of_groups_count_groups():
    X, y, who = patients(60)
    six = np.repeat(np.arange(len(X)), 6)
    models = LOGISTIC | {"other": BayesianLinearSVC}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TwinRowsWarning)
        copies = compare(models, X[six], y[six], groups=who[six], n_bootstrap=5)
        careless = compare(models, X[six], y[six], n_bootstrap=5)
    assert copies[1].behind_se > 2 * careless[1].behind_se


# The AUC of folds


class Shifted(LogisticRegression):
    """Scores that suit a fold by themselves, and are shifted by as much as its rows say."""

    def predict_proba(self, X):
        found = super().predict_proba(X)
        shift = 5 * np.sin(1000 * float(np.sum(X)))
        odds = np.exp(np.log(found[:, 1] / found[:, 0]) + shift)
        return np.column_stack([1 / (1 + odds), odds / (1 + odds)])


def test_the_area_is_the_mean_over_folds():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X[:, :3] - X[:, :3].mean(axis=0)) / X[:, :3].std(axis=0)
    made = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    (found,) = compare({"shifted": Shifted}, X, y, n_bootstrap=50)
    each = [
        roc_auc_score(y[test], Shifted().fit(X[train], y[train]).predict_proba(X[test])[:, 1]) for train, test in made
    ]
    assert found.evaluation["auc"].value == pytest.approx(np.mean(each))
    assert found.evaluation["auc"].low < np.mean(each) < found.evaluation["auc"].high
    pooled = trials({"shifted": Shifted}, X, y, made)["shifted"]
    assert roc_auc_score(pooled.y, pooled.proba[:, 1]) < np.mean(each) - 0.05  # which no fit deserves
    assert pooled.fold.tolist() == np.repeat(np.arange(5), [len(test) for _, test in made]).tolist()


def test_areas_of_many_classes_and_of_folds_that_lack_one():
    rng = np.random.default_rng(0)
    y, proba, fold = rng.integers(0, 3, 90), rng.dirichlet(np.ones(3), 90), np.arange(90) // 30
    found = evaluate(y, proba, classes=range(3), folds=fold, n_bootstrap=2)["auc"].value
    each = [roc_auc_score(y[fold == k], proba[fold == k], multi_class="ovr") for k in range(3)]
    assert found == pytest.approx(np.mean(each))
    y[fold == 0] = 0  # there is nothing to put in order
    assert evaluate(y, proba, classes=range(3), folds=fold, n_bootstrap=2)["auc"].value == pytest.approx(
        np.mean(each[1:])
    )


# Twins


def test_rows_are_known_by_their_entries():
    frame = pd.DataFrame({"a": [1.0, 1.0, 2.0, np.nan, np.nan], "b": ["u", "u", "u", None, None]})
    one, two, three, four, five = fingerprints(frame)
    assert one == two
    assert four == five
    assert len({one, three, four}) == 3
    rng = np.random.default_rng(0)
    assert len(np.unique(fingerprints(rng.integers(0, 2, (2**14, 30))))) > 2**14 - 3
    assert np.array_equal(fingerprints(np.eye(3)), fingerprints(np.eye(3, dtype=int)))


def test_sketches_of_large_tables_estimate(monkeypatch):
    monkeypatch.setattr(splits, "_REMEMBERED", 500)
    rng = np.random.default_rng(0)
    rows = fingerprints(rng.normal(size=(8000, 2)))
    seen = sketch(rows[:4000])
    assert len(seen) == 500
    # 500 of 4,000 remembered: of 8,000 about 1,000 could be, of which half are.  Their share has a deviation of .016.
    assert abs(n_among(rows, seen) - 4000) < 3 * 0.016 * 8000
    assert abs(splits.n_sketched(seen) - 4000) < 3 * 4000 / np.sqrt(500)
    assert n_among(rows[4000:], seen) == 0


def test_copies_are_told_of_and_chance_is_not():
    rng = np.random.default_rng(0)
    some = rng.normal(size=(100, 3))
    assert "40 of 100 evaluation rows" in (told_of_twins(some, 40, 300) or "")
    assert told_of_twins(some, 1, 300) is None
    coarse = rng.integers(0, 3, (100, 3))  # of which everyone has a twin
    assert told_of_twins(coarse, 90, 300) is None


@pytest.mark.parametrize("as_frame", [False, True])
def test_a_comparison_tells_of_twins(as_frame):
    X, y, _ = patients()
    twice, labels = np.r_[X, X], np.r_[y, y]
    if as_frame:  # row numbers, by which copies differ
        twice = pd.DataFrame(twice, columns=list("abc"))
        with pytest.warns(TwinRowsWarning, match="if these are copies"):
            compare(LOGISTIC, twice.assign(row=np.arange(len(twice))), labels, n_bootstrap=2)
    with pytest.warns(TwinRowsWarning, match="of 480 evaluation rows are equal to training rows"):
        compare(LOGISTIC, twice, labels, n_bootstrap=2)
    compare(LOGISTIC, twice, labels, groups=np.tile(np.arange(len(X)), 2), n_bootstrap=2)  # no word


@pytest.mark.filterwarnings("ignore:Columns left out")
@pytest.mark.parametrize("model", [BayesianLinearSVC(), BayesianMixedSVC("~ a + b + (1 | who)")])
def test_models_of_tables_know_their_rows_again(model, tmp_path):
    X, y, who = patients()
    frame = pd.DataFrame(X, columns=list("abc")).assign(who=[f"p{i}" for i in who], y=y)
    frame["note"] = [f"visit {i}" for i in range(len(frame))]
    table = TableClassifier(model).fit(frame[:160], "y", sample_weight=np.r_[0.0, np.ones(159)])
    table.save(tmp_path / "m.sm")
    for known in (table, load(tmp_path / "m.sm")):
        assert known.n_seen(frame[:160]) == 159
        assert known.n_seen(frame[160:]) == 0
        assert "159 of 160 evaluation rows" in (told_of_seen(known, frame[:160]) or "")
        assert told_of_seen(known, frame[160:]) is None
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert table.n_seen(pd.read_csv(tmp_path / "t.csv")) == 159
    other = frame[:160].assign(note="another")  # equal but for who they are
    assert table.n_seen(other) == 0
    from_file = TableClassifier(model).fit(tmp_path / "t.csv", "y")
    assert from_file.n_seen(frame) == 0
    assert told_of_seen(LogisticRegression(), frame) is None


def test_sparse_rows_are_not_remembered():
    X, y = np.arange(60).reshape(-1, 1) % 5, np.arange(60) % 5 > 2
    table = TableClassifier(BayesianLinearSVC(), encoder=OneHotEncoder()).fit(X, y)
    assert table.score(X, y) == 1
    assert table.n_seen(X) == 0


@pytest.mark.parametrize("seen", ["rows", [1, 2], np.zeros((2, 2), dtype=np.uint64), np.zeros(3)])
def test_a_file_that_remembers_something_else_is_refused(seen, tmp_path):
    X, y, _ = patients()
    table = TableClassifier(BayesianLinearSVC()).fit(pd.DataFrame(X, columns=list("abc")), y)
    table.seen_ = seen
    table.save(tmp_path / "m.sm")
    with pytest.raises(StoreError, match="its record of training rows"):
        load(tmp_path / "m.sm")
