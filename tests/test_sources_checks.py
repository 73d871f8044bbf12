"""What batches may hold, what is said of them, and how often; and what takes rows from anywhere."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, chunks
from softmargin.chunks.survey import Checked, Reservoir, Totals
from softmargin.fourier_features import FourierFeatures
from softmargin.tables import TableClassifier
from test_sources import in_batches, rows

NAMES = ["a", "b", "c"]


def labelled(*kinds):
    """Batches of rows whose labels are of the given kinds."""
    X, y = rows(100 * len(kinds))
    return [(part, labels.astype(kind)) for (part, labels), kind in zip(in_batches(X, y, 100), kinds, strict=True)]


# Labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((int, str), "int64 in batch 0, str in batch 1"),
        ((bool, bool, int), "bool in batch 0, int64 in batch 2"),
        ((float, bool), "float64 in batch 0, bool in batch 1"),
        ((str, float), "str in batch 0, float64 in batch 1"),
    ],
)
@pytest.mark.parametrize("model", [BayesianLinearSVC(), BayesianMixedSVC(groups=[2])], ids=["linear", "mixed"])
def test_labels_of_several_types_are_named_with_their_batches(model, kinds, words):
    with pytest.raises(ValueError, match=f"Labels are of several types: {words}"):
        model.fit(labelled(*kinds))


@pytest.mark.parametrize(
    ("kinds", "classes"),
    [((int, float), [0.0, 1.0]), ((np.int8, np.uint64), [0, 1]), ((str, object), [0, 1]), (("U1", "U9"), ["0", "1"])],
)
def test_numbers_may_be_written_in_several_ways(kinds, classes):
    if object in kinds:
        (first, second), classes = labelled(str, str), ["0", "1"]
        batches = [first, (second[0], second[1].astype(object))]
    else:
        batches = labelled(*kinds)
    model = BayesianLinearSVC().fit(batches)
    assert model.classes_.tolist() == classes
    X, y = rows(200)
    assert_allclose(model.coef_, BayesianLinearSVC().fit(X, y).coef_, rtol=1e-9)


@pytest.mark.parametrize("empty", [None, np.nan, pd.NA])
def test_labels_that_are_not_there_are_counted_and_placed(empty):
    X, y = rows(200)
    words = np.where(y == 1, "yes", "no").astype(object)
    words[[130, 170]] = empty
    with pytest.raises(ValueError, match=r"None in 2 rows, the first of them 130 \(counted from 0\)"):
        BayesianLinearSVC().fit(X, words)
    with pytest.raises(ValueError, match=r"None in 2 rows, the first of them 30 \(counted from 0 in its batch\)"):
        BayesianLinearSVC().fit(in_batches(X, words, 100))


def test_a_batch_without_a_label_for_each_row_is_refused():
    X, y = rows(200)
    with pytest.raises(ValueError, match="A batch of 100 rows has 99 labels"):
        BayesianLinearSVC().fit([(X[:100], y[:99]), (X[100:], y[100:])])


# Warnings ----------------------------------------------------------------------------------------


def told(action):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [str(warning.message)[:40] for warning in found]


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_is_odd_about_batches_is_said_once(n_jobs):
    X, y = rows(3000)
    frame, model = pd.DataFrame(X, columns=NAMES), BayesianLinearSVC(n_jobs=n_jobs)
    batches = [(frame[:300], y[:300]), *in_batches(X[300:], y[300:, None], 300)]
    assert sorted(told(lambda: model.fit(batches))) == [
        "A column-vector y was passed when a 1d a",
        "X does not have valid feature names, but",
    ]
    assert told(lambda: model.predict(chunks.Batches(in_batches(X, y, 100)))) == [
        "X does not have valid feature names, but"
    ]
    plain = BayesianLinearSVC().fit(X, y)
    assert told(lambda: plain.predict(chunks.Batches(in_batches(frame, y, 100)))) == [
        "X has feature names, but BayesianLinearS"
    ]


def test_many_classes_in_a_small_batch_are_nothing_odd():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 20  # a batch of 30 rows holds 20 classes, which scikit-learn takes for numbers
    X = rng.normal(size=(300, 2)) + 3 * np.stack([y % 5, y // 5], axis=1)
    assert told(lambda: BayesianLinearSVC(max_iter=5, tol=1.0).fit(in_batches(X, y, 30))) == []
    with pytest.raises(ValueError, match="continuous"):
        BayesianLinearSVC().fit(in_batches(X, X[:, 0], 30))


def test_batches_of_other_columns_are_refused_though_their_names_were_mentioned():
    X, y = rows(300)
    model = BayesianLinearSVC().fit(pd.DataFrame(X, columns=NAMES), y)
    with (
        pytest.warns(UserWarning, match="valid feature names"),
        pytest.raises(ValueError, match="X has 2 features, but BayesianLinearSVC is expecting 3"),
    ):
        model.predict(chunks.Batches([(X[:100], y[:100]), (X[100:, :2], y[100:])]))


# Sparse batches ----------------------------------------------------------------------------------


def test_sparse_batches_are_made_dense_in_blocks():
    n, columns = 4000, 2000
    X = scipy.sparse.random(n, columns, density=0.001, format="csr", random_state=0)
    batch = Checked(X, np.arange(n) % 2, np.ones(n))
    tracemalloc.start()
    totals, reservoir = Totals.of(batch), Reservoir(200)
    reservoir.look_at(batch, 0)
    found = reservoir.survey(totals)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * columns * 8 / 2  # all of it would be 64 MB, and as much again for deviations
    assert_array_equal(found.sample.X, X.toarray()[found.sample.number])
    assert_allclose(totals.moments.mean, X.toarray().mean(axis=0))
    assert_allclose(totals.moments.spread, X.toarray().std(axis=0), atol=1e-12)


@pytest.mark.usefixtures("small_samples")
def test_sparse_batches_lead_to_the_model_of_dense_ones():
    X, y = rows()
    X[np.abs(X) < 0.5] = 0.0
    one, other = (
        BayesianLinearSVC(tol=1e-8).fit(in_batches(table, y, 1700)) for table in (X, scipy.sparse.csr_matrix(X))
    )
    assert_allclose(one.coef_, other.coef_, rtol=1e-6)


# Columns that hold no numbers --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.Timestamp("2024-05-01"), r"column 'odd' is not numeric \(such as 2024-05-01.*TableClassifier"),
        (pd.Timestamp("2024-05-01", tz="Europe/Rome"), r"column 'odd' is not numeric"),
        (pd.Timedelta("3h"), r"column 'odd' is not numeric"),
        ("many", r"column 'odd' is not numeric \(such as 'many'\).*TableClassifier"),
        (["1.5", "few"] * 50, r"column 'odd' is not numeric \(such as 'few'\)"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_columns_of_dates_and_words_are_named(column, words, alone):
    X, y = rows(100)
    frame = pd.DataFrame({} if alone else dict(zip(NAMES, X.T, strict=True)), index=range(100)).assign(odd=column)
    for model in (BayesianSVC(), BayesianLinearSVC()):
        with pytest.raises(ValueError, match=words):
            model.fit(frame, y)
        with pytest.raises(ValueError, match=words):
            model.fit(in_batches(frame, y, 50))


def test_arrays_of_dates_are_refused():
    with pytest.raises(ValueError, match="X holds dates or times"):
        BayesianLinearSVC().fit(np.array([["2024-01-01"], ["2024-01-02"]], dtype="datetime64[D]"), [0, 1])


# What takes rows from anywhere -------------------------------------------------------------------


def test_what_needs_rows_in_memory_says_so(tmp_path):
    X, y = rows(300)
    path = tmp_path / "rows.parquet"
    pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(path)
    model = BayesianLinearSVC().fit(path, "y")
    for source in (path, str(path), chunks.Parquet(path, target="y"), [(X, y)]):
        with pytest.raises(ValueError, match=r"sample_latent needs rows in memory.*draw for one batch at a time"):
            model.sample_latent(source)
        with pytest.raises(ValueError, match=r"impute needs rows in memory.*impute one batch at a time"):
            model.impute(source)
    for estimator in (BayesianLinearSVC(), BayesianSVC(), BayesianKernelMachine()):
        with pytest.raises(ValueError, match=r"partial_fit needs rows in memory, got the path.*one batch after"):
            estimator.partial_fit(path, "y", classes=[0, 1])
    with pytest.raises(ValueError, match="This needs rows in memory, got the path"):
        FourierFeatures().fit(str(path))
    quick = {"inference": "stein", "tune": None, "n_frequencies": 16, "n_particles": 4, "n_steps": 5}
    with pytest.raises(ValueError, match="sample_latent needs rows in memory"):
        BayesianKernelMachine(**quick, random_state=0).fit(X, y).sample_latent(path)


def test_batches_of_files_can_be_learnt_one_by_one(tmp_path):
    X, y = rows(600)
    pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(tmp_path / "rows.parquet")
    source, model = chunks.Parquet(tmp_path, target="y", batch_rows=200), BayesianLinearSVC()
    for item in source.items():
        batch = source.unpack(item)
        model.partial_fit(batch.X, batch.y, classes=[0, 1])
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_scores_of_sources_are_those_of_their_rows(n_jobs, tmp_path):
    X, y = rows(900)
    weight = 1.0 + np.arange(900) % 3
    frame = pd.DataFrame(X, columns=NAMES)
    frame.assign(y=y, weight=weight, more=1.0).to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    model = BayesianLinearSVC(n_jobs=n_jobs).fit(frame[:200], y[:200])
    expected = model.score(frame, y, weight)
    assert_allclose(model.score(tmp_path, "y", "weight"), expected)
    assert_allclose(model.score(in_batches(frame, y, 70, weight)), expected)
    assert expected != model.score(tmp_path, "y") == model.score(frame, y)
    assert np.isnan(model.score(chunks.Batches([])))
    with pytest.raises(ValueError, match="rows have no labels"):
        model.score(tmp_path / "rows.parquet")


def test_a_formula_names_the_labels_of_files_too(tmp_path):
    X, y = rows(400)
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y, group=np.arange(400) % 5)
    frame.to_parquet(tmp_path / "rows.parquet")
    model = BayesianMixedSVC("y ~ a + b + (1 | group)").fit(frame)
    assert model.score(tmp_path / "rows.parquet") == model.score(frame) > 0.7


# Batches without labels --------------------------------------------------------------------------


BARE = {
    "arrays": np.asarray,
    "frames": lambda part: pd.DataFrame(part, columns=NAMES),
    "sparse": scipy.sparse.csr_matrix,
    "pairs": lambda part: (part, None),
    "batches": chunks.Batch,
}


@pytest.mark.parametrize("around", [list, tuple, chunks.Batches, lambda parts: chunks.Batches(lambda: iter(parts))])
@pytest.mark.parametrize("kind", BARE)
def test_predictions_need_no_labels(kind, around):
    X, y = rows(300)
    model = BayesianLinearSVC().fit(pd.DataFrame(X, columns=NAMES) if kind == "frames" else X, y)
    table, batches = BARE["frames"](X) if kind == "frames" else X, [BARE[kind](X[:200]), BARE[kind](X[200:])]
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "latent_mean_and_variance"):
        method = getattr(model, name)
        assert_allclose(method(around(batches)), method(table), rtol=1e-9)


def test_a_fit_needs_labels_whatever_its_batches():
    X, y = rows(300)
    for batches in ([X[:200], X[200:]], chunks.Batches([X]), [X, y], [(X, None)]):
        with pytest.raises(ValueError, match=r"rows have no labels: .* or pass batches as \(X, y\)"):
            BayesianLinearSVC().fit(batches)
    with pytest.raises(ValueError, match="rows have no labels"):
        BayesianLinearSVC().fit(X, y).score([X])


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (lambda X, y: [X, y], r"or X alone for predictions, got ndarray of shape \(300,\)"),
        (lambda X, y: chunks.Batches(X), r"or X alone for predictions, got ndarray of shape \(3,\)"),
        (lambda X, y: chunks.Batches([{"a": 1}]), "or X alone for predictions, got dict"),
        (lambda X, y: [(X, X)], r"labels of a batch have 3 columns.*as a batch of their own"),
    ],
)
def test_batches_that_are_no_tables_are_refused(of, words):
    X, y = rows(300)
    with pytest.raises(ValueError, match=words):
        BayesianLinearSVC().fit(X, y).predict(of(X, y))


def test_a_table_classifier_reads_frames_without_labels():
    X, y = rows(300)
    frame = pd.DataFrame(X, columns=NAMES)
    model = TableClassifier(BayesianLinearSVC()).fit(frame, y)
    assert_allclose(model.predict_proba([frame[:100], frame[100:]]), model.predict_proba(frame), rtol=1e-9)
