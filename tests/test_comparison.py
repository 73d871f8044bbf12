import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from softmargin.comparison import OURS, RIVALS, compare, trials
from softmargin.evaluation import log_losses

X, y = load_iris(return_X_y=True)


class Prior(ClassifierMixin, BaseEstimator):
    """Knows nothing but the shares of classes; ``tilt`` makes it worse by a known amount."""

    def __init__(self, tilt=0.0):
        self.tilt = tilt

    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.share_ = counts / counts.sum()
        return self

    def predict_proba(self, X):
        tilted = self.share_ * np.exp(self.tilt * np.arange(len(self.share_)))
        return np.tile(tilted / tilted.sum(), (len(X), 1))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def test_every_row_is_tested_once_by_models_that_have_not_seen_it():
    seen = []

    class Spy(Prior):
        def fit(self, X, y):
            self.rows_ = {tuple(row) for row in X}
            return super().fit(X, y)

        def predict_proba(self, X):
            seen.extend(tuple(row) in self.rows_ for row in X)
            return super().predict_proba(X)

    rows = np.unique(X, axis=0)  # iris has twins
    labels = np.arange(len(rows)) % 3
    (found,) = compare({"spy": Spy}, rows, labels, n_splits=4)
    assert found.evaluation.n_rows == len(rows)
    assert not any(seen)


def test_the_best_comes_first_and_differences_are_those_of_rows():
    models = {"prior": Prior, "tilted": lambda: Prior(1.0), "logistic": lambda: LogisticRegression(max_iter=1000)}
    found = compare(models, X, y, n_splits=3)
    assert [one.model for one in found] == ["logistic", "prior", "tilted"]
    assert [one.is_first for one in found] == [True, False, False]
    assert (found[0].behind, found[0].behind_se) == (0.0, 0.0)
    values = [one.evaluation["log_loss"].value for one in found]
    assert values == sorted(values)
    assert [one.behind for one in found] == pytest.approx([value - values[0] for value in values])


def test_standard_errors_are_those_of_pairs():
    from sklearn.model_selection import StratifiedKFold

    models = {"prior": Prior, "tilted": lambda: Prior(0.5)}
    _, tilted = compare(models, X, y, n_splits=3, random_state=4)
    splits = StratifiedKFold(3, shuffle=True, random_state=4).split(X, y)
    one, two = trials(models, X, y, splits, lambda: None).values()
    gap = log_losses(two.y, two.proba, two.classes) - log_losses(one.y, one.proba, one.classes)
    assert tilted.behind_se == pytest.approx(gap.std(ddof=1) / np.sqrt(len(gap)))
    assert tilted.behind == pytest.approx(gap.mean())


@pytest.mark.parametrize("name", [*OURS, *RIVALS])
def test_every_model_of_the_comparison_fits(name):
    few = np.r_[0:40, 60:100] if name == "BayesianKernelMachine" else slice(None)  # particles take their time
    (found,) = compare({name: (OURS | RIVALS)[name]}, X[few], y[few], n_splits=2, n_bootstrap=5)
    assert found.evaluation["log_loss"].value < 0.7
    assert found.ours == (name in OURS)
    if found.ours:
        assert found.contradictions == 0


def test_progress_is_told_after_each_fit():
    told = []
    compare({"a": Prior, "b": Prior}, X, y, n_splits=3, progress=lambda: told.append(1))
    assert len(told) == 6
