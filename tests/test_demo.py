import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from threadpoolctl import threadpool_info

from softmargin import demo
from softmargin.monitor import InterruptedFitWarning


@pytest.fixture(scope="module")
def iris():
    return next(table for table in demo.tables() if table.name.startswith("iris"))


def test_tables_are_real_and_of_two_classes():
    tables = demo.tables()
    assert len({table.name for table in tables}) == len(tables) == 5
    for table in tables:
        assert np.isfinite(table.X).all()
        assert set(table.y) == {0, 1}
        assert len(table.X) == len(table.y) >= 100


def test_measures_are_those_of_a_plain_loop(iris):
    told = []
    results = demo.compare([iris], n_splits=3, seed=5, progress=told.append)
    assert [result.model for result in results] == list(demo.MODELS)
    assert told == [iris.name] * 9
    for result in results:
        rows = []
        for train, test in StratifiedShuffleSplit(3, test_size=0.3, random_state=5).split(iris.X, iris.y):
            model = demo.MODELS[result.model]().fit(iris.X[train], iris.y[train])
            p, y = model.predict_proba(iris.X[test]), iris.y[test]
            rows.append([1 - model.score(iris.X[test], y), log_loss(y, p), brier_score_loss(y, p[:, 1])])
        np.testing.assert_allclose([result.error, result.log_loss, result.brier], np.mean(rows, axis=0), rtol=1e-6)
        assert result.seconds > 0
        assert result.n_tested == 90


def test_our_models_never_contradict_themselves(iris):
    results = demo.compare([iris], n_splits=2)
    assert [result.contradictions for result in results if result.model.startswith("Bayesian")] == [0, 0]


class Contrary:
    """Says one thing and means the other."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1))


def test_contradictions_are_counted(iris, monkeypatch):
    monkeypatch.setattr(demo, "MODELS", {"Contrary": Contrary})
    results = demo.compare([iris], n_splits=2)
    assert results[0].contradictions == results[0].n_tested == 60
    assert "Contrary in 60 of 60 test rows" in demo.contradictions(results)
    assert results[0].ece == pytest.approx(0.25)


class Interrupted(Contrary):
    """A fit that takes Ctrl-C as "enough"."""

    def fit(self, X, y):
        import warnings

        warnings.warn("Interrupted", InterruptedFitWarning, stacklevel=2)
        return self


def test_ctrl_c_inside_a_fit_ends_the_demo(iris, monkeypatch):
    monkeypatch.setattr(demo, "MODELS", {"Interrupted": Interrupted})
    with pytest.raises(KeyboardInterrupt):
        demo.compare([iris], n_splits=2)


def test_other_warnings_pass_through(iris, monkeypatch):
    def fit(self, X, y):
        raise ConvergenceWarning("The bound still rose")

    monkeypatch.setattr(demo, "MODELS", {"Contrary": Contrary})
    monkeypatch.setattr(Contrary, "fit", fit)
    with pytest.raises(ConvergenceWarning, match="still rose"):
        demo.compare([iris], n_splits=2)


def test_threads_are_put_back(iris):
    before = [pool["num_threads"] for pool in threadpool_info()]
    demo.compare([iris], n_splits=1)
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_picture_is_a_png_of_sane_size(tmp_path):
    path = demo.draw(tmp_path / "surface.png")
    assert path == (tmp_path / "surface.png").resolve()
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.size == (1200, 500)
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 100
