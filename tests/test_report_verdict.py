"""The first sentence of a report: what it says of chance."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import log_loss

from softmargin import BayesianLinearSVC, report
from softmargin.tables import TableClassifier


class Given(ClassifierMixin, BaseEstimator):
    """A classifier that says what its only column does."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = np.asarray(X)[:, 0]
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def verdict(p, y):
    page = report.html(Given().fit(p[:, None], y), p[:, None], y)
    return page.split('class="verdict">', 1)[1].split("</p>", 1)[0].replace("\N{MINUS SIGN}", "-")


def test_better_and_worse_are_said_only_if_chance_does_not_explain_them():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 400)
    assert "probabilities are better than the class shares" in verdict(p, rng.random(400) < p)
    assert "probabilities are worse than the class shares" in verdict(p, rng.random(400) < 1 - p)


def test_a_little_luck_is_not_called_better():
    """Probabilities that have nothing to do with the labels: half of them are lucky, and one in forty by that much."""
    said, lucky = [], 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.random(60) < 0.5
        p = np.clip(y.mean() + 0.05 * rng.normal(size=60), 0.01, 0.99)
        lucky += log_loss(y, p) < log_loss(y, np.full(60, y.mean()))
        said.append(verdict(p, y))
    assert lucky > 5
    # One is expected; that there are more than four has a chance of less than one in two hundred.
    assert sum("probabilities are better" in one for one in said) <= 4
    assert sum("not demonstrably better than the class shares" in one for one in said) > 30


def test_the_interval_is_that_of_pairs():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 200)
    y = rng.random(200) < p
    share = y.mean()
    gap = np.log(np.where(y, share, 1 - share)) - np.log(np.where(y, p, 1 - p))
    half = 1.96 * gap.std() / np.sqrt(200)
    assert f"a difference of {gap.mean():.3f} ({gap.mean() - half:.3f} to {gap.mean() + half:.3f})" in verdict(p, y)


def test_rows_that_the_model_has_learned_from_are_told_of():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=80), "z": rng.normal(size=80)})
    frame["y"] = np.where(frame["x"] + rng.logistic(size=80) > 0, "yes", "no")
    model = TableClassifier(BayesianLinearSVC()).fit(frame[:60], "y")
    assert "60 of 60 evaluation rows are equal to training rows" in report.html(model, frame[:60])
    assert "Measures on training rows are too optimistic; use held-out rows" in report.html(model, frame[60:])
