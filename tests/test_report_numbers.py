"""The numbers of a report: measures, thresholds, mistakes, and what they are measured against."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softmargin.report.facts as facts_module
from references_report import CONFUSION, MEASURES, Page, Told, fitted_svc, number, some_tumours
from softmargin import BayesianLinearSVC, report
from softmargin.evaluation import evaluate, log_losses
from softmargin.metrics import expected_calibration_error, reliability_curve


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals are tested where they are made."""
    monkeypatch.setattr(facts_module, "_DRAWS", (20, 20))


@pytest.fixture(scope="module")
def tumours():
    return some_tumours()


@pytest.fixture(scope="module")
def svc(tumours):
    return fitted_svc(tumours)


def values(page):
    return dict(zip(page.column(MEASURES, "Measure"), map(number, page.column(MEASURES, "Value")), strict=True))


def measured(page, name):
    return next(value for word, value in values(page).items() if word.startswith(name))


def test_measures_are_those_of_sklearn(svc, tumours):
    X, y = tumours[2:]
    page, proba = Page(report.html(svc, X, y)), svc.predict_proba(X)
    expected = {
        "error": 1 - accuracy_score(y, svc.predict(X)),
        "balanced error": 1 - balanced_accuracy_score(y, svc.predict(X)),
        "AUC": roc_auc_score(y, proba[:, 1]),
        "log loss": log_loss(y, proba, labels=svc.classes_),
        "Brier": brier_score_loss(y, proba[:, 1], pos_label="malignant"),
        "ECE": expected_calibration_error(y, proba, pos_label="malignant"),
    }
    assert len(values(page)) == len(expected)
    for name, value in expected.items():
        assert measured(page, name) == pytest.approx(value, abs=5.1e-4), name  # three places are written


def test_a_guess_by_shares_is_the_constant_classifier(svc, tumours):
    X, y = tumours[2:]
    page = Page(report.html(svc, X, y))
    share = np.mean(y == "malignant")
    guesses = list(map(number, page.column(MEASURES, "Class shares")))
    shares = np.tile([1 - share, share], (len(y), 1))
    expected = [min(share, 1 - share), 0.5, 0.5, log_loss(y, shares), share * (1 - share), 0.0]
    np.testing.assert_allclose(guesses, expected, atol=5.1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_confusion_matrix_is_that_of_sklearn(n_classes, rng):
    classes = np.array(["a", "b", "c", "d"])[:n_classes]
    proba, y = rng.dirichlet(np.ones(n_classes), size=60), rng.choice(classes, 60)
    text = report.html(Told(proba, classes).fit(), np.zeros((60, 1)), y)
    expected = confusion_matrix(y, classes[proba.argmax(axis=1)])
    # A cell holds the count, and in an element of its own the share of the class.
    cells = re.findall(r'<td class="number shade-\d (?:right|wrong)">(\d+)', text)
    np.testing.assert_array_equal(np.reshape(cells, (n_classes, n_classes)).astype(int), expected)
    found = [number(cell) for cell in Page(text).column(CONFUSION, "recall")[:-1]]
    recall = recall_score(y, classes[proba.argmax(axis=1)], average=None)
    np.testing.assert_allclose(found, 100 * recall, atol=0.051)


def test_many_classes_have_a_list_of_mistakes(rng):
    classes = np.arange(40)
    proba, y = rng.dirichlet(np.ones(40), size=200), rng.integers(0, 40, 200)
    page = Page(report.html(Told(proba, classes).fit(), np.zeros((200, 2)), y))
    matrix = confusion_matrix(y, proba.argmax(axis=1), labels=classes) * (1 - np.eye(40))
    rows = page.tables["Most common mistakes among 40 classes"][1:]
    assert number(rows[0][2]) == matrix.max()
    assert all(matrix[int(row[0]), int(row[1])] == number(row[2]) for row in rows)


def test_thresholds_are_those_of_sklearn(svc, tumours):
    X, y = tumours[2:]
    page, p = Page(report.html(svc, X, y)), svc.predict_proba(X)[:, 1]
    for row in page.tables["Thresholds"][1:]:
        said = np.where(p > float(row[0]), "malignant", "benign")
        assert number(row[2]) == pytest.approx(100 * recall_score(y, said, pos_label="malignant"), abs=0.051)
        assert number(row[3]) == pytest.approx(100 - 100 * recall_score(y, said, pos_label="benign"), abs=0.051)
        assert number(row[4]) == pytest.approx(100 * precision_score(y, said, pos_label="malignant"), abs=0.051)


def test_reliability_is_that_of_metrics(svc, tumours):
    X, y = tumours[2:]
    page = Page(report.html(svc, X, y))
    curve = reliability_curve(y, svc.predict_proba(X), pos_label="malignant")
    title = "Reliability of the probability of malignant"
    np.testing.assert_allclose(
        list(map(number, page.column(title, "Mean probability"))), curve.probability, atol=5.1e-4
    )
    np.testing.assert_allclose(list(map(number, page.column(title, "Observed"))), curve.frequency, atol=5.1e-4)
    assert list(map(number, page.column(title, "Rows"))) == curve.weight.tolist()


def test_areas_are_those_of_sklearn():
    X, y = load_iris(return_X_y=True)
    model = BayesianLinearSVC().fit(X[::2], y[::2])
    page, proba = Page(report.html(model, X[1::2], y[1::2])), model.predict_proba(X[1::2])
    expected = [roc_auc_score(y[1::2] == k, proba[:, k]) for k in range(3)]
    areas = list(map(number, page.column("Areas under the ROC curves", "Area")))
    np.testing.assert_allclose(areas, expected, atol=5.1e-4)


def test_weights_are_repeats(svc, tumours, rng):
    X, y = tumours[2:]
    weight = rng.integers(0, 4, size=len(y))
    weighted = Page(report.html(svc, X, y, sample_weight=weight))
    repeated = Page(report.html(svc, X.loc[X.index.repeat(weight)], y.loc[y.index.repeat(weight)]))
    assert values(weighted) == values(repeated)
    same = ("Thresholds", "Probabilities of malignant")
    assert all(weighted.tables[name] == repeated.tables[name] for name in same)
    for name in ("Mean probability", "Observed"):  # their intervals differ: copies of a row say no more than the row
        curve = "Reliability of the probability of malignant"
        assert weighted.column(curve, name) == repeated.column(curve, name)
    assert weighted.tables[f"{CONFUSION}, by weight of rows"] == repeated.tables[CONFUSION]
    assert set(weighted.column("Most uncertain rows", "Row")) <= set(map(str, X.index[weight > 0]))


def test_intervals_are_those_of_groups(svc, tumours):
    X, y = tumours[2:]
    groups = np.arange(len(y)) // 20
    proba, other = svc.predict_proba(X), np.tile([0.4, 0.6], (len(y), 1))
    page = Page(report.html(svc, X, y, groups=groups, reference=other))
    found = evaluate(y, proba, classes=svc.classes_, groups=groups, n_bootstrap=20)["log_loss"]
    ends = dict(zip(page.column(MEASURES, "Measure"), page.column(MEASURES, "95 % interval"), strict=True))
    assert next(e for name, e in ends.items() if name.startswith("log loss")) == f"{found.low:.3f} to {found.high:.3f}"
    assert "bootstrap samples of 15 groups of rows" in page.text
    gap = log_losses(y, proba, svc.classes_) - log_losses(y, other, svc.classes_)
    sums = pd.Series(gap - gap.mean()).groupby(groups).sum()
    half = 1.96 * np.sqrt(15 / 14 * np.sum(sums**2)) / len(y)
    said = re.search(r"Group by group, the log loss .*: a difference of (\S+) \((\S+) to (\S+)\)", page.text)
    assert_allclose([number(part) for part in said.groups()], gap.mean() + half * np.array([0, -1, 1]), rtol=5e-3)


def test_one_group_shows_nothing(svc, tumours):
    page = Page(report.html(svc, *tumours[2:], groups=np.zeros(len(tumours[3]))))
    assert "not demonstrably better" in page.text


def test_surest_mistakes_come_first_with_their_entries(svc, tumours):
    X, y = tumours[2:]
    page, proba = Page(report.html(svc, X, y)), pd.DataFrame(svc.predict_proba(X), index=X.index)
    wrong = proba[svc.predict(X) != y].max(axis=1).sort_values(ascending=False, kind="stable")
    assert page.column("Most confident mistakes", "Row") == list(map(str, wrong.index[:15]))
    first = X.loc[wrong.index[0]]
    told = [number(page.column("Most confident mistakes", name)[0]) for name in X.columns]
    np.testing.assert_allclose(told, first, rtol=5e-4)  # four digits are written
    least = proba.max(axis=1).sort_values(kind="stable").index[:15]
    assert page.column("Most uncertain rows", "Row") == list(map(str, least))


def test_what_the_model_expected_stands_beside_what_was_found(svc, tumours):
    X, y = tumours[2:]
    assert (
        f"leave-one-out log loss on the training rows was {svc.loo_log_loss_:.3f}" in Page(report.html(svc, X, y)).text
    )
    lucky = Told(np.tile([0.999, 0.001], (50, 1)), ["benign", "malignant"]).fit()
    lucky.loo_log_loss_ = 0.5
    assert "the model may have been trained on these rows" in Page(report.html(lucky, X[:50], ["benign"] * 50)).text
    lucky.loo_log_loss_ = 1e-6
    assert "these rows may come from another population" in Page(report.html(lucky, X[:50], ["benign"] * 50)).text


def test_a_reference_stands_beside(svc, tumours):
    X, y = tumours[2:]
    other = make_pipeline(StandardScaler(), LogisticRegression()).fit(*tumours[:2])
    page = Page(report.html(svc, X, y, reference=other))
    assert page.tables == Page(report.html(svc, X, y, reference=other.predict_proba(X))).tables
    told = dict(zip(values(page), map(number, page.column(MEASURES, "Reference")), strict=True))
    loss = next(value for name, value in told.items() if name.startswith("log loss"))
    assert loss == pytest.approx(log_loss(y, other.predict_proba(X)), abs=5.1e-4)
    assert "not demonstrably different" in Page(report.html(svc, X, y, reference=svc)).text
    bad = np.tile([0.01, 0.99], (len(y), 1))
    assert "lower than that of the reference" in Page(report.html(svc, X, y, reference=bad)).text
