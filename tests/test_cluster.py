"""Rows in the partitions of Dask: sums are made where they are, and count once."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianGPC, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC, chunks
from softmargin.chunks.cluster import Partitions
from test_sources import rows, same_model

N_ROWS = 6000


@pytest.fixture(autouse=True)
def nothing_in_parallel(small_samples):
    with dask.config.set(scheduler="synchronous"):
        yield


def of_dask(X, y, size):
    return da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)


def frame_of(X, y):
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)


@pytest.mark.parametrize("size", [700, 6000])
@pytest.mark.parametrize(
    "model",
    [BayesianSVC(n_inducing=20, random_state=0), BayesianGPC(n_inducing=20, random_state=0), BayesianLinearSVC()],
    ids=lambda model: type(model).__name__,
)
def test_partitions_lead_to_the_model_of_the_same_rows(model, size):
    X, y = rows()
    expected = type(model)(**model.get_params()).fit(chunks.Arrays(X, y))
    same_model(expected, model.fit(*of_dask(X, y, size)))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_frames_keep_the_names_of_their_columns(n_classes):
    X, y = rows(n_classes=n_classes)
    frame = dd.from_pandas(frame_of(X, y), npartitions=7)
    model = BayesianLinearSVC().fit(frame, "y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    plain = BayesianLinearSVC().fit(chunks.Arrays(X, y))
    assert_allclose(model.coef_, plain.coef_, rtol=1e-6)
    assert_allclose(
        model.predict_proba(frame[["a", "b", "c"]]).compute(), model.predict_proba(frame_of(X, y)[["a", "b", "c"]])
    )


def test_mixed_models_know_the_groups_of_all_partitions():
    rng = np.random.default_rng(0)
    group, x = np.sort(rng.integers(0, 30, N_ROWS)), rng.normal(size=N_ROWS)
    y = x + rng.normal(size=30)[group] + rng.logistic(size=N_ROWS) > 0
    frame = pd.DataFrame({"x": x, "group": group, "y": y})
    one = BayesianMixedSVC("y ~ x + (1 | group)", tol=1e-10).fit(frame)
    other = BayesianMixedSVC("y ~ x + (1 | group)", tol=1e-10).fit(dd.from_pandas(frame, npartitions=5))
    assert_allclose(one.bound_, other.bound_, rtol=1e-8)
    assert len(other.random_effects()) == 30
    array = frame[["x", "group"]].to_numpy()
    by_position = BayesianMixedSVC(groups=1, tol=1e-10).fit(*of_dask(array, y, 900))
    assert_allclose(one.bound_, by_position.bound_, rtol=1e-8)


def test_weights_and_labels_are_cut_like_the_rows():
    X, y = rows()
    weight = 0.5 + np.random.default_rng(1).uniform(size=len(y))
    model = BayesianLinearSVC().fit(
        da.from_array(X, chunks=(1000, 2)), da.from_array(y, chunks=777), da.from_array(weight, chunks=6000)
    )
    expected = BayesianLinearSVC().fit(chunks.Arrays(X, y, weight))
    assert_allclose(model.coef_, expected.coef_, rtol=1e-8)


def test_predictions_are_not_computed_before_they_are_asked_for():
    X, y = rows(n_classes=3)
    model = BayesianSVC(n_inducing=20, random_state=0).fit(X[:500], y[:500])
    there, _ = of_dask(X, y, 900)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function", "latent_mean_and_variance"):
        answers, expected = getattr(model, method)(there), getattr(model, method)(X)
        for answer, wanted in zip(
            *((part if isinstance(part, tuple) else (part,)) for part in (answers, expected)), strict=True
        ):
            assert isinstance(answer, da.Array)
            assert answer.shape == wanted.shape
            assert answer.dtype == wanted.dtype
            assert_allclose(answer.compute(), wanted, rtol=1e-9)


def test_errors_reach_the_user():
    X, y = rows(200)
    with pytest.raises(TypeError, match="y is a ndarray"):
        BayesianSVC().fit(da.from_array(X, chunks=(50, -1)), y)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 has missing values"):
        BayesianSVC(kernel="matern").fit(*of_dask(X, y, 50))
    frame = dd.from_pandas(frame_of(*rows(200)), npartitions=2)
    with pytest.raises(ValueError, match="2 partitions, but y has 4"):
        BayesianSVC().fit(frame[["a"]], frame["y"].repartition(npartitions=4))


def test_shapes_that_do_not_match_are_told_before_anything_is_computed():
    X, y = rows(200)
    there, labels = of_dask(X, y, 50)
    with pytest.raises(ValueError, match=r"X has 200 rows, but y has shape \(150,\)"):
        BayesianLinearSVC().fit(there, labels[:150])
    with pytest.raises(ValueError, match=r"X has 200 rows, but sample_weight has shape \(10,\)"):
        BayesianLinearSVC().fit(there, labels, da.ones(10))
    with pytest.raises(ValueError, match=r"X has 200 rows, but y has shape \(200, 3\)"):
        BayesianLinearSVC().fit(there, there)
    with pytest.raises(ValueError, match="X is a Dask Array, not a table"):
        BayesianLinearSVC().fit(labels, labels)
    frame = dd.from_pandas(frame_of(X, y), npartitions=2)
    with pytest.raises(ValueError, match="no column 'Y': did you mean 'y'"):
        BayesianLinearSVC().fit(frame, "Y")


def test_labels_of_unknown_number_are_counted_by_workers():
    X, y = rows(200)
    there, labels = of_dask(X, y, 50)
    some = labels[labels == 1]
    with pytest.raises(ValueError, match=r"A batch of 50 rows has \d+ labels"):
        BayesianLinearSVC().fit(there, some)
    expected = BayesianLinearSVC().fit(X, y).coef_
    assert_allclose(BayesianLinearSVC().fit(there[there[:, 0] > -99], labels).coef_, expected, rtol=1e-9)


def test_labels_in_a_column_and_one_weight_for_all_are_fine():
    X, y = rows(200)
    there, labels = of_dask(X, y, 50)
    frame = dd.from_pandas(frame_of(X, y), npartitions=3)
    expected = BayesianLinearSVC().fit(X, y, 2.0).coef_
    for table, own in ((there, labels[:, None]), (frame[["a", "b", "c"]], frame[["y"]])):
        assert_allclose(BayesianLinearSVC().fit(table, own, 2.0).coef_, expected, rtol=1e-9)


def test_labels_of_several_types_are_named_with_their_partitions():
    X, y = rows(200)
    parts = [frame_of(X[:100], y[:100]), frame_of(X[100:], y[100:].astype(str))]
    frame = dd.from_delayed(list(map(dask.delayed, parts)), meta=parts[0], verify_meta=False)
    with pytest.raises(ValueError, match="int64 in partition 0, str in partition 1"):
        BayesianLinearSVC().fit(frame, "y")


def test_scores_are_those_of_the_rows():
    X, y = rows(300)
    frame = frame_of(X, y)
    there = dd.from_pandas(frame, npartitions=4)
    model = BayesianLinearSVC().fit(there, "y")
    assert model.score(there, "y") == model.score(frame[["a", "b", "c"]], y)


def test_a_tree_adds_every_part_once():
    parts = tuple(dask.delayed(np.full)(1, float(2**k)) for k in range(20))
    source = Partitions(parts, parts, (None,) * 20)
    assert source.total(lambda item: (item[0],))[0] == 2.0**20 - 1


def test_a_killed_worker_changes_nothing():
    X, y = rows(40_000)
    model = BayesianSVC(n_inducing=20, random_state=0)
    expected = type(model)(**model.get_params()).fit(chunks.Arrays(X, y))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler=client),
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=lambda: (time.sleep(1.0), os.kill(victim, signal.SIGKILL)))
        killer.start()
        found = model.fit(*of_dask(X, y, 4000))
        killer.join()
    same_model(expected, found)
    assert_array_equal(expected.classes_, found.classes_)


def test_labels_among_the_columns_and_empty_partitions_do_no_harm():
    X, y = rows(600)
    frame = frame_of(X, y)
    there = dd.from_pandas(frame, npartitions=4)
    model = BayesianLinearSVC().fit(there, "y")
    assert_allclose(model.predict_proba(there).compute(), model.predict_proba(frame[["a", "b", "c"]]))
    assert model.predict(there[there["a"] > 10]).compute().shape == (0,)
    assert model.predict_proba(there[there["a"] > 10]).compute().shape == (0, 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Dask's own reader under new pandas
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_many_small_files_are_cut_alike_for_rows_and_labels(tmp_path):
    """Dask puts small files together where it reads few of their columns, such as that of the labels."""
    X, y = rows(600)
    frame = frame_of(X, y)
    for part in range(6):
        frame[100 * part : 100 * (part + 1)].to_parquet(tmp_path / f"{part}.parquet", index=False)
    there = dd.read_parquet(tmp_path)
    expected = BayesianLinearSVC().fit(dd.from_pandas(frame, npartitions=6), "y")
    for model in (
        BayesianLinearSVC().fit(there, "y"),
        BayesianLinearSVC().fit(there[["a", "b", "c"]], there["y"]),
        BayesianLinearSVC().fit(there[["a"]].assign(b=there["b"], c=there["c"]), there["y"], there["a"] * 0 + 1),
    ):
        assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
