"""Sources that end early, have gaps where no one looked, or are interrupted."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianLinearSVC, BayesianMixedSVC, chunks, load
from softmargin.chunks import survey
from softmargin.chunks.survey import keys
from softmargin.monitor import InterruptedFitWarning
from test_sources import in_batches, rows


def test_a_mixed_model_of_a_table_predicts_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.array([30, 10, 20])[rng.integers(0, 3, 600)], "x": rng.normal(size=600)})
    y = frame["x"] + (frame["g"] == 30) + rng.logistic(size=600) > 0
    frame.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    for model in (BayesianMixedSVC(groups=["g"]), BayesianMixedSVC("~ I(x**2) + x + (1 | g)")):
        model.fit(frame, y)
        assert_allclose(model.predict_proba(tmp_path / "rows.parquet"), model.predict_proba(frame))
    from_file = BayesianMixedSVC(groups=["g"]).fit(tmp_path / "rows.parquet", "y")
    from_file.save(tmp_path / "model.sm")
    assert_array_equal(load(tmp_path / "model.sm").predict_proba(frame), from_file.predict_proba(frame))


def test_functions_of_few_rows_know_all_of_them(tmp_path, small_samples, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=900), "k": rng.integers(0, 9, 900), "g": rng.integers(0, 8, 900)})
    y = np.sin(2 * frame["x"]) + frame["k"] / 9 + rng.logistic(size=900) > 0
    frame.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    formula = "y ~ bs(x, df=6) + C(k) + (1 | g)"
    one, other = (BayesianMixedSVC(formula).fit(rows) for rows in (frame.assign(y=y), tmp_path / "rows.parquet"))
    assert_allclose(one.predict_proba(frame), other.predict_proba(frame), rtol=1e-9)
    monkeypatch.setattr(survey, "MOST_ROWS", 500)
    with pytest.raises(ValueError, match="C, bs would need all rows in memory"):
        BayesianMixedSVC(formula).fit(tmp_path / "rows.parquet")


@pytest.mark.usefixtures("small_samples")
def test_gaps_outside_the_sample_are_gaps():
    X, y = rows()
    last = np.argsort(keys(np.arange(len(y))))[-1]
    X[last, 2] = np.nan
    model = BayesianLinearSVC(tol=1e-8).fit(chunks.Arrays(X, y))
    assert_allclose(model.bound_, BayesianLinearSVC(tol=1e-8).fit(X, y).bound_, rtol=1e-6)


@pytest.mark.usefixtures("small_samples")
def test_units_of_columns_are_those_of_the_classes_that_count():
    X, y = rows(n_classes=3)
    X[y == 2] *= 1000
    settings = {"class_weight": {2: 0.0}, "link": "probit"}
    one, other = (BayesianLinearSVC(**settings).fit(*table) for table in ((X, y), (chunks.Arrays(X, y),)))
    # A sample of 1,000 rows knows the spread of a column to a few per cent, and the prior hardly matters.
    assert_allclose(one.coef_, other.coef_, rtol=0.02, atol=0.02)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("left", [0, 3])
def test_a_source_that_is_used_up_is_noticed(left):
    X, y = rows()
    readings = []

    def batches():
        readings.append(1)
        return iter(in_batches(X, y, 1000)[: None if len(readings) == 1 else left])

    with pytest.raises(ValueError, match="must start from the beginning"):
        BayesianLinearSVC().fit(chunks.Batches(batches))


@pytest.mark.usefixtures("small_samples")
def test_an_interrupt_in_the_pass_over_all_rows_keeps_the_model(monkeypatch):
    monkeypatch.setattr("softmargin.inference.LARGE", 5000)
    X, y = rows()
    readings = []

    def batches():
        readings.append(1)
        if len(readings) == 2:
            raise KeyboardInterrupt
        return iter(in_batches(X, y, 1000))

    with pytest.warns(InterruptedFitWarning):
        model = BayesianLinearSVC().fit(chunks.Batches(batches))
    assert model.score(X, y) > 0.75


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("prior", ["ridge", "ard"])
@pytest.mark.parametrize("reading", [2, 3])
def test_an_interrupt_in_any_pass_of_an_ascent_keeps_what_was_found(prior, reading, monkeypatch):
    monkeypatch.setattr("softmargin.inference._ROWS_FOR_A_PILOT", 500)  # the sample has 1,000
    X, y = rows()
    readings = []

    def batches():
        readings.append(1)
        if len(readings) == reading:
            raise KeyboardInterrupt
        return iter(in_batches(X, y, 1000))

    with pytest.warns(InterruptedFitWarning):
        model = BayesianLinearSVC(prior=prior, inference="cavi", tol=1e-12).fit(chunks.Batches(batches))
    assert len(readings) == reading
    whole = BayesianLinearSVC(prior=prior, inference="cavi").fit(chunks.Arrays(X, y))
    # The sample is a sixth of the rows: its coefficients are off by some of their deviations, and labels hardly change.
    assert np.mean(model.predict(X) == whole.predict(X)) > 0.95
    assert np.isfinite(model.loo_log_loss_)


def test_empty_batches_are_nothing(tmp_path):
    X, y = rows(600)
    nothing = X[:0], y[:0]
    model = BayesianLinearSVC().fit([nothing, (X[:300], y[:300]), nothing, (X[300:], y[300:])])
    assert_allclose(model.coef_, BayesianLinearSVC().fit(X, y).coef_, rtol=1e-9)
    assert_allclose(model.predict_proba([nothing, (X, y)]), model.predict_proba(X))
    assert model.predict_proba(chunks.Batches([])).shape == (0, 2)
    with pytest.raises(ValueError, match="no rows"):
        BayesianMixedSVC(groups=[0]).fit(chunks.Batches([]))


def test_one_weight_serves_all_rows_of_a_memory_map(tmp_path):
    X, y = rows(300)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    assert_allclose(BayesianLinearSVC().fit(mapped, y, 2.0).coef_, BayesianLinearSVC().fit(X, y, 2.0).coef_, rtol=1e-9)
