"""Fits and predictions on rows that are not in memory."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, chunks
from softmargin.chunks import survey
from softmargin.chunks.survey import Checked
from softmargin.kernels import RBF

N_ROWS = 6000


def rows(n=N_ROWS, n_classes=2, seed=0, columns=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    score = np.stack([np.sin(2 * X[:, 0]), X[:, 1], X[:, 2] ** 2 - 1][:n_classes], axis=1)
    return X, (score + 0.3 * rng.gumbel(size=score.shape)).argmax(axis=1)


def in_batches(X, y, size, weight=None):
    cuts = [slice(start, start + size) for start in range(0, len(y), size)]
    return [(X[cut], y[cut]) if weight is None else (X[cut], y[cut], weight[cut]) for cut in cuts]


@pytest.fixture
def folder(tmp_path):
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where(y, "yes", "no"), copies=1 + y % 2, text="t")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table.slice(0, 2500), tmp_path / "1.parquet", row_group_size=700)
    pq.write_table(table.slice(2500), tmp_path / "2.parquet")
    return tmp_path


def same_model(one, other, tolerance=1e-9):
    assert_array_equal(one.classes_, other.classes_)
    assert_allclose(one.bound_, other.bound_, rtol=tolerance)
    X = np.random.default_rng(9).normal(size=(50, one.n_features_in_))
    assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-6)


# What counts as a source -------------------------------------------------------------------------


FORMS = ("memory map", "arrays", "list", "function", "frames", "path", "pathlib", "dataset", "parquet")


def every_source(X, y, tmp_path):
    """The same rows in every form."""
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    path = tmp_path / "rows.parquet"
    frame.assign(y=y).to_parquet(path)
    return {
        "memory map": (mapped, y),
        "arrays": (chunks.Arrays(X, y, batch_rows=999),),
        "list": (in_batches(X, y, 777),),
        "function": (chunks.Batches(lambda: iter(in_batches(X, y, 1234))),),
        "frames": (in_batches(frame, y, 501),),
        "path": (str(path), "y"),
        "pathlib": (path, "y"),
        "dataset": (ds.dataset(path), "y"),
        "parquet": (chunks.Parquet(path, target="y", batch_rows=333),),
    }


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("form", FORMS)
def test_few_rows_are_fitted_as_if_they_were_in_memory(form, tmp_path):
    X, y = rows(800)
    model = BayesianSVC(random_state=0).fit(*every_source(X, y, tmp_path)[form])
    same_model(BayesianSVC(random_state=0).fit(X, y), model, tolerance=0)
    names = {"frames", "path", "pathlib", "dataset", "parquet"}
    assert hasattr(model, "feature_names_in_") == (form in names)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("form", FORMS)
def test_many_rows_lead_to_the_same_model_in_whatever_form(form, tmp_path):
    X, y = rows()
    model = BayesianSVC(n_inducing=30, random_state=0).fit(*every_source(X, y, tmp_path)[form])
    same_model(BayesianSVC(n_inducing=30, random_state=0).fit(chunks.Arrays(X, y)), model)
    assert len(model.history_) > 1


# Passes over all rows ----------------------------------------------------------------------------

KERNEL = 3.0 * RBF((0.7, 1.0, 1.0))
POINTS = rows(40, seed=5)[0]
MODELS = {
    "svc": BayesianSVC(KERNEL, tune=None, inducing=POINTS, inference="cavi", tol=1e-10),
    "gpc": BayesianGPC(KERNEL, tune=None, inducing=POINTS, inference="cavi", tol=1e-10),
    "augmented": BayesianSVC(KERNEL, loss="hinge-augmented", tune=None, inducing=POINTS, inference="cavi", tol=1e-10),
    "ecm": BayesianSVC(KERNEL, tune=None, inducing=POINTS, inference="ecm", tol=1e-7),
    "linear": BayesianLinearSVC(inference="cavi", tol=1e-11),
    "ard": BayesianLinearSVC(prior="ard", inference="cavi", tol=1e-11),
    "mixed": BayesianMixedSVC(tol=1e-11),
}


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", list(MODELS))
def test_the_optimum_is_that_of_the_table_in_memory(name, n_classes):
    X, y = rows(n_classes=n_classes)
    model = MODELS[name]
    if n_classes > 2 and model.inference == "ecm":
        pytest.skip("ECM is for two classes")
    weight = 0.5 + np.random.default_rng(1).uniform(size=len(y))
    if n_classes > 2:
        model = clone(model).set_params(tol=1e-7)
    one = clone(model).fit(X, y, weight)
    other = clone(model).fit(in_batches(X, y, 1700, weight))
    # Both stop when little of the bound seems to come, from different starts.
    assert_allclose(one.bound_, other.bound_, rtol=1e-8 if model.tol < 1e-7 else 1e-6)
    means = (fit.latent_mean_and_variance(X[:50])[0] for fit in (one, other))
    if n_classes > 2:  # what classes have in common is told by the prior alone, and found late
        means = (mean - mean.mean(axis=1, keepdims=True) for mean in means)
    assert_allclose(*means, atol=2e-3 if model.tol < 1e-7 else 2e-2)


@pytest.mark.usefixtures("small_samples")
def test_threads_and_batches_make_no_difference():
    X, y = rows()
    fits = [
        BayesianSVC(n_inducing=20, n_jobs=n_jobs, random_state=0).fit(chunks.Arrays(X, y, batch_rows=size))
        for n_jobs, size in ((1, 500), (2, 500), (2, 1999), (1, 6000))
    ]
    assert fits[0].bound_ == fits[1].bound_
    assert_array_equal(fits[0].belief_.mean, fits[1].belief_.mean)
    for other in fits[2:]:
        same_model(fits[0], other)


@pytest.mark.usefixtures("small_samples")
def test_sorted_labels_do_no_harm():
    X, y = rows(n_classes=3)
    order = np.argsort(y, kind="stable")
    shuffled, in_order = (
        BayesianSVC(n_inducing=60, random_state=0).fit(chunks.Arrays(X[o], y[o], batch_rows=700))
        for o in (np.arange(len(y)), order)
    )
    new, labels = rows(3000, n_classes=3, seed=3)
    # Other samples of 1,000 rows choose other points and kernels; what they are worth is the same.
    assert abs(shuffled.score(new, labels) - in_order.score(new, labels)) < 0.02


@pytest.mark.usefixtures("small_samples")
def test_weights_of_classes_and_rows_count():
    X, y = rows()
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 2.0)
    settings = {"inference": "cavi", "tol": 1e-11, "class_weight": {0: 3.0, 1: 1.0}, "standardize": False}
    one = BayesianLinearSVC(**settings).fit(X, y, weight)
    other = BayesianLinearSVC(**settings).fit(in_batches(X, y, 800, weight))
    assert_allclose(one.bound_, other.bound_, rtol=1e-9)
    assert_allclose(one.coef_, other.coef_, rtol=1e-4)
    assert_allclose(one.fitted_prior_, other.fitted_prior_)
    assert_allclose(one.data_prior_, other.data_prior_)
    balanced = BayesianLinearSVC(class_weight="balanced").fit(in_batches(X, y, 800, weight))
    assert_allclose(balanced.fitted_prior_, 0.5)


@pytest.mark.usefixtures("small_samples")
def test_a_class_without_weight_is_not_there():
    X, y = rows(n_classes=3)
    model = BayesianLinearSVC(class_weight={2: 0.0}).fit(in_batches(X, y, 800))
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.usefixtures("small_samples")
def test_rare_classes_have_rows_enough_in_the_sample():
    X, y = rows()
    y = np.where((np.arange(len(y)) % 50 == 0) & (X[:, 0] > 0), 1, 0)
    found = survey.surveyed(
        chunks.Arrays(X, y, batch_rows=700), lambda item, first: Checked(X[item], y[item], np.ones(len(y[item]))), 1
    )
    rare = found.sample.y == 1
    assert rare.sum() == 1000 // 16  # in proportion it would be 11
    assert_allclose(found.growth[rare].sum(), y.sum())
    assert_allclose(found.growth.sum(), len(y))


@pytest.mark.usefixtures("small_samples")
def test_after_a_source_come_batches():
    X, y = rows()
    model = BayesianSVC(n_inducing=20, random_state=0).fit(chunks.Arrays(X, y))
    more, labels = rows(500, seed=4)
    model.partial_fit(more, labels)
    assert model.score(*rows(2000, seed=8)) > 0.8


def test_mixed_models_find_groups_in_files(tmp_path, small_samples):
    rng = np.random.default_rng(0)
    group, kind = rng.integers(0, 30, N_ROWS), rng.choice(["a", "b"], N_ROWS)
    x = rng.normal(size=N_ROWS)
    score = x + rng.normal(size=30)[group] + (kind == "a") + rng.logistic(size=N_ROWS)
    frame = pd.DataFrame({"x": x, "kind": kind, "group": [f"g{i}" for i in group], "y": score > 0}).sort_values("group")
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=900)
    formula = "y ~ x + kind + (1 + x | group)"
    one = BayesianMixedSVC(formula, tol=1e-10).fit(frame)
    other = BayesianMixedSVC(formula, tol=1e-10).fit(tmp_path / "rows.parquet")
    assert_allclose(one.bound_, other.bound_, rtol=1e-8)
    assert_allclose(one.coef_, other.coef_, atol=1e-4)
    assert_allclose(other.predict_proba(tmp_path / "rows.parquet"), other.predict_proba(frame), rtol=1e-12)
    assert other.random_effects()["group"].tolist() == one.random_effects()["group"].tolist()
    with pytest.raises(ValueError, match="s would need all rows in memory"):
        BayesianMixedSVC("y ~ s(x) + (1 | group)").fit(tmp_path / "rows.parquet")


@pytest.mark.usefixtures("small_samples")
def test_missing_entries_are_modelled_in_sources_too():
    X, y = rows()
    X[np.random.default_rng(2).uniform(size=X.shape) < 0.1] = np.nan
    one = BayesianLinearSVC(tol=1e-9).fit(X, y)
    other = BayesianLinearSVC(tol=1e-9).fit(chunks.Arrays(X, y, batch_rows=1000))
    assert_allclose(one.bound_, other.bound_, rtol=1e-6)


# Predictions -------------------------------------------------------------------------------------


def test_predictions_for_files_are_those_for_their_rows(folder):
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = BayesianSVC(n_inducing=20, random_state=0).fit(frame[:500], y[:500])
    for source in (folder, f"{folder}/*.parquet", chunks.Parquet(folder, columns=["c", "a"])):
        assert_allclose(model.predict_proba(source), model.predict_proba(frame), rtol=1e-9)
    assert_array_equal(model.predict(folder), model.predict(frame))


# Files -------------------------------------------------------------------------------------------


def test_columns_labels_and_weights_are_chosen_by_name(folder):
    source = chunks.Parquet(folder, target="label", columns=["b", "a"], weight="copies")
    model = BayesianLinearSVC().fit(source)
    assert model.feature_names_in_.tolist() == ["b", "a"]
    assert model.classes_.tolist() == ["no", "yes"]
    X, y = rows()
    table = pd.DataFrame(X[:, [1, 0]], columns=["b", "a"])
    assert_allclose(model.coef_, BayesianLinearSVC().fit(table, y, 1 + y % 2).coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (lambda f: chunks.Parquet(f, target="lable"), ValueError, "no column 'lable': did you mean 'label'"),
        (lambda f: chunks.Parquet(f, target="label"), ValueError, "'text' is not numeric"),
        (lambda f: chunks.Parquet(f, columns=["a"]), ValueError, "have no labels"),
        (lambda f: chunks.Parquet(f"{f}/*.csv", target="y"), FileNotFoundError, "No file matches"),
        (lambda f: chunks.Parquet(f, target=np.zeros(3)), TypeError, "name of a column"),
        (lambda f: (part for part in in_batches(*rows(10), 5)), TypeError, "only once"),
        (lambda f: [(np.ones((3, 2)), [0, 1, 0], None, 4)], ValueError, "y"),
        (lambda f: chunks.Arrays(np.ones((4, 2)), [0, 1]), ValueError, "X has 4 rows, but y has 2"),
        (lambda f: [(np.array([[1.0, np.nan]] * 4), [0, 1, 0, 1])], ValueError, "column 1 has no observed value"),
        (lambda f: [(np.ones((2, 2)), [0, 0]), (np.ones((2, 2)), [0, 0])], ValueError, "only one class"),
        (lambda f: [(np.ones((2, 2)), [0, 1]), (np.ones((2, 3)), [0, 1])], ValueError, "3 features"),
        (lambda f: [(np.ones((2, 2)), [0, 1], [0, 0])], ValueError, "no rows of positive weight"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(folder, source, error, words):
    with pytest.raises(error, match=words):
        BayesianSVC().fit(source(folder))


def test_rows_must_not_change_between_readings(monkeypatch, small_samples):
    X, y = rows()
    readings = []

    def batches():
        readings.append(1)
        return iter(in_batches(X, y if len(readings) == 1 else y + 5, 1000))

    with pytest.raises(ValueError, match="must not change"):
        BayesianLinearSVC().fit(chunks.Batches(batches))


def test_models_that_need_all_rows_say_so():
    with pytest.raises(ValueError, match="needs all rows in memory"):
        BayesianSVC(inference="gibbs").fit(chunks.Arrays(*rows(100)))
    with pytest.raises(ValueError, match="needs all rows in memory"):
        BayesianKernelMachine().fit(chunks.Arrays(*rows(100)))
    with pytest.raises(ValueError, match="already holds labels and weights"):
        BayesianSVC().fit(chunks.Arrays(*rows(100)), rows(100)[1])
