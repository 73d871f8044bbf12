"""Frames in memory whose columns hold the labels and weights, by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC


@pytest.fixture
def frame(rng):
    n = 60
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "copies": rng.integers(1, 4, n)})
    frame["group"] = np.arange(n) % 5
    return frame.assign(label=np.where(frame["a"] + 0.3 * rng.normal(size=n) > 0, "yes", "no"))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "model",
    [BayesianSVC(random_state=0), BayesianLinearSVC(), BayesianMixedSVC(groups="group"), BayesianMixedSVC("label ~ a")],
    ids=["kernel", "linear", "groups", "formula"],
)
def test_labels_and_weights_are_columns_by_name(model, kind, frame):
    rows, y, weight = frame.drop(columns=["label", "copies"]), frame["label"], frame["copies"]
    expected = model.fit(rows, y, weight)
    proba, score = expected.predict_proba(rows), expected.score(rows, y, weight)
    given = kind(frame.to_dict("list"))
    found = model.fit(given, "label", sample_weight="copies")
    assert "label" not in found.feature_names_in_
    assert_array_equal(found.predict_proba(kind(rows.to_dict("list"))), proba)
    assert found.score(given, "label", "copies") == score
    assert "label" in given.columns  # what was given is unchanged


def test_batches_name_their_labels_too(frame):
    rows, y = frame.drop(columns="label"), frame["label"]
    expected = BayesianLinearSVC().partial_fit(rows, y, classes=["no", "yes"]).predict_proba(rows)
    found = BayesianLinearSVC().partial_fit(frame, "label", classes=["no", "yes"])
    assert_array_equal(found.predict_proba(rows), expected)


def test_names_of_no_column_are_refused(frame):
    with pytest.raises(ValueError, match="y='labl' names no column of X; did you mean 'label'"):
        BayesianSVC().fit(frame, "labl")
    with pytest.raises(ValueError, match="sample_weight='copy' names no column of X; did you mean 'copies'"):
        BayesianSVC().fit(frame, "label", sample_weight="copy")
    for rows in (frame[["a", "b"]].to_numpy(), frame[["a", "b"]].to_numpy().tolist()):
        with pytest.raises(ValueError, match="y='label' is a string, but X is no frame"):
            BayesianSVC().fit(rows, "label")
    with pytest.raises(ValueError, match="y contains NaN, infinity or None in row 3"):
        BayesianSVC().fit(frame.assign(label=frame["label"].where(np.arange(60) != 3, None)), "label")
    with pytest.raises(TypeError, match="LazyFrame"):
        BayesianSVC().fit(pl.DataFrame(frame.to_dict("list")).lazy(), "label")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_labels_left_in_the_frame_for_predictions_are_named_as_a_column_too_many(kind, frame):
    given = kind(frame.to_dict("list"))
    model = BayesianLinearSVC().fit(given, "label")
    with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- label"):
        model.predict(given)


@pytest.mark.parametrize(
    ("labels", "dtype", "plain"),
    [
        ([2**53, 2**53 + 1], "Int64", np.int64),  # as floats these two would be equal
        ([2**53, 2**53 + 1], "int64[pyarrow]", np.int64),
        ([False, True], "boolean", bool),
        ([False, True], "bool[pyarrow]", bool),
        ([False, True], "category", bool),
        (["no", "yes"], "category", object),
    ],
)
def test_labels_of_pandas_keep_their_type(labels, dtype, plain, frame):
    y = frame["label"].map({"no": labels[0], "yes": labels[1]}).astype(dtype)
    model = BayesianLinearSVC().fit(frame[["a", "b"]], y)
    assert model.classes_.tolist() == labels
    assert [type(label) for label in model.classes_.tolist()] == [type(label) for label in labels]
    assert model.predict(frame[["a", "b"]]).dtype == plain
    assert model.score(frame[["a", "b"]], y) > 0.8
