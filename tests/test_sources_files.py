"""Files of rows: which are meant, of which kind they are, and what they must agree on."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softmargin import BayesianLinearSVC, chunks


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, size=600), rng.normal(size=600)
    return pd.DataFrame({"a": a, "b": b, "y": a + 5 * b + rng.logistic(size=600) > 0})


def write(frame, path):
    """A frame in a file of the kind that its suffix says."""
    if path.name.endswith(".csv.gz"):
        with gzip.open(path, "wt") as file:
            frame.to_csv(file, index=False)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix in (".feather", ".arrow", ".ipc"):
        feather.write_feather(frame, path)
    else:
        frame.to_parquet(path)
    return path


# Kinds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".feather", ".arrow", ".ipc", ".parquet", ".pq", ""])
def test_suffixes_tell_the_kind_of_files(suffix, frame, tmp_path):
    path = write(frame, tmp_path / f"rows{suffix}")
    expected = BayesianLinearSVC().fit(frame[["a", "b"]], frame["y"])
    for form in (path, str(path), tmp_path, f"{tmp_path}/rows*"):
        assert_allclose(BayesianLinearSVC().fit(form, "y").coef_, expected.coef_, rtol=1e-9)
    assert_array_equal(expected.predict(path), expected.predict(frame[["a", "b"]]))
    assert chunks.Parquet([path, path], target="y").columns == ("a", "b")


def test_a_format_that_is_named_counts_more_than_a_suffix(frame, tmp_path):
    write(frame, tmp_path / "rows.csv").rename(tmp_path / "rows.txt")
    assert chunks.Parquet(tmp_path / "rows.txt", target="y", format="csv").columns == ("a", "b")
    (tmp_path / "rows.txt").rename(tmp_path / "ROWS.CSV")
    assert chunks.Parquet(tmp_path, target="y").columns == ("a", "b")


def test_files_of_several_kinds_are_not_one_table(frame, tmp_path):
    write(frame, tmp_path / "1.csv")
    write(frame, tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"several types \(.csv, .parquet\).*'folder/\*.csv'"):
        chunks.Parquet(tmp_path, target="y")
    (tmp_path / "2.parquet").rename(tmp_path / "_2.parquet")  # which is hidden
    assert chunks.Parquet(tmp_path, target="y").columns == ("a", "b")


# Paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rows.parqet", "no file or folder '.*rows.parqet'. Looked in '.*': did you mean 'rows.parquet'"),
        ("plants", "Looked in '.*': there are 'rows.parquet'"),
        ("plants/1.parquet", "there is no folder 'plants' in '.*': there are 'rows.parquet'"),
        ("*.feather", "No file matches '.*feather'. Looked in '.*': there are 'rows.parquet'"),
    ],
)
def test_paths_that_lead_nowhere_say_what_is_there(path, words, frame, tmp_path):
    write(frame, tmp_path / "rows.parquet")
    with pytest.raises(FileNotFoundError, match=words):
        BayesianLinearSVC().fit(tmp_path / path, "y")
    model = BayesianLinearSVC().fit(tmp_path / "rows.parquet", "y")
    with pytest.raises(FileNotFoundError, match=words):
        model.predict(str(tmp_path / path))


# Columns -----------------------------------------------------------------------------------------


def two_files(folder, frame, **changes):
    """A table in two files, the second of them changed."""
    write(frame[:300], folder / "1.parquet")
    return write(frame[300:].assign(**changes), folder / "2.parquet")


def test_columns_that_are_not_there_are_named_with_near_ones(frame, tmp_path):
    write(frame, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="no column 'Y ': did you mean 'y'"):
        chunks.Parquet(tmp_path, target="Y ")
    with pytest.raises(ValueError, match="no column 'colour': there are 'a', 'b', 'y'"):
        chunks.Parquet(tmp_path, target="y", columns=["a", "colour"])


@pytest.mark.parametrize("form", [lambda path: path, ds.dataset])
def test_a_file_that_lacks_a_column_is_named(form, frame, tmp_path):
    path = two_files(tmp_path, frame)
    write(frame[300:].rename(columns={"b": "B2"}), path)
    with pytest.raises(ValueError, match=r"2.parquet' has no column 'b', unlike other files: did you mean 'B2'"):
        BayesianLinearSVC().fit(form(tmp_path), "y")
    assert chunks.Parquet(form(tmp_path), target="y", columns=["a"]).columns == ("a",)
    model = BayesianLinearSVC().fit(frame[["a", "b"]], frame["y"])
    with pytest.raises(ValueError, match=r"2.parquet' has no column 'b'"):
        model.predict(form(tmp_path))


@pytest.mark.parametrize("form", [lambda path: path, ds.dataset], ids=["path", "dataset"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".feather"])
def test_integers_and_floats_are_one_column(form, suffix, frame, tmp_path):
    changed = frame.assign(a=np.where(frame.index < 300, frame["a"], frame["a"] + 0.5), y=frame["y"].astype(int))
    first = changed[:300].assign(a=frame["a"][:300].astype(np.int64))
    write(first, tmp_path / f"1{suffix}")
    write(changed[300:].assign(y=changed["y"][300:].astype(float)), tmp_path / f"2{suffix}")
    rows = tmp_path if form is not ds.dataset else ds.dataset(tmp_path, format=suffix[1:])
    model = BayesianLinearSVC().fit(rows, "y")
    expected = BayesianLinearSVC().fit(changed[["a", "b"]], changed["y"])
    assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert_array_equal(model.predict(rows), expected.predict(changed[["a", "b"]]))


def test_dictionaries_of_words_are_words(frame, tmp_path):
    frame = frame.assign(y=np.where(frame["y"], "yes", "no"))
    two_files(tmp_path, frame.assign(y=frame["y"].astype("category")))
    write(frame[300:], tmp_path / "2.parquet")
    assert BayesianLinearSVC().fit(tmp_path, "y").classes_.tolist() == ["no", "yes"]


def test_types_that_have_nothing_in_common_are_named(frame, tmp_path):
    two_files(tmp_path, frame, y=["yes"] * 300)
    with pytest.raises(ValueError, match=r"'y' is of type bool in '.*1.parquet', and of type .*string in '.*2.parquet"):
        BayesianLinearSVC().fit(tmp_path, "y")


def test_a_column_of_text_that_changes_its_type_on_the_way_is_named(frame, tmp_path):
    many = pd.concat([frame] * 100)  # Arrow looks at the first megabyte
    write(many.assign(a=[*many["a"].astype(str)[:-1], "0.5"]), tmp_path / "rows.csv")
    with pytest.raises(ValueError, match=r"Column 'a' of '.*rows.csv' cannot be read as int64.*invalid value '0.5'"):
        BayesianLinearSVC().fit(tmp_path / "rows.csv", "y")
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("y", pa.bool_())])
    told = ds.dataset(tmp_path / "rows.csv", format="csv", schema=schema)
    assert sum(item.num_rows for item in chunks.Parquet(told, target="y").items()) == len(many)


def test_columns_in_the_names_of_folders_are_there(frame, tmp_path):
    for sign, part in frame.groupby(frame["a"] > 0):
        ds.write_dataset(
            pa.Table.from_pandas(part.assign(part=int(sign)), preserve_index=False),
            tmp_path,
            format="parquet",
            partitioning=ds.partitioning(pa.schema([("part", pa.int32())]), flavor="hive"),
            basename_template=f"{sign}-{{i}}.parquet",
            existing_data_behavior="overwrite_or_ignore",
        )
    rows = chunks.Parquet(ds.dataset(tmp_path, partitioning="hive"), target="y")
    assert rows.columns == ("a", "b", "part")
    found = np.concatenate([rows.unpack(item).X for item in rows.items()])
    assert_array_equal(found[:, 2], found[:, 0] > 0)


def test_a_filtered_dataset_stays_filtered(frame, tmp_path):
    two_files(tmp_path, frame)
    rows = chunks.Parquet(ds.dataset(tmp_path).filter(ds.field("a") > 0), target="y")
    assert sum(item.num_rows for item in rows.items()) == (frame["a"] > 0).sum()


def test_truth_values_may_be_missing(frame, tmp_path):
    table = pa.table({"a": [True, None, False], "y": [0, 1, 1]})
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = chunks.Parquet(tmp_path, target="y")
    assert_array_equal(rows.unpack(next(rows.items())).X[:, 0], [1.0, np.nan, 0.0])


# Empty entries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["y", "weight"])
def test_empty_labels_and_weights_are_counted_and_placed(column, frame, tmp_path):
    full = frame.assign(weight=1.0, y=frame["y"].map({True: "yes", False: "no"}))
    write(full[:300], tmp_path / "1.parquet")
    holed = full[300:].reset_index(drop=True)
    holed.loc[[7, 200], column] = None
    write(holed, tmp_path / "2.parquet")
    what = "labels" if column == "y" else "weights"
    words = (
        rf"'{column}' holds the {what}, but has 2 empty entries, the first in row 7 of '.*2.parquet', counted from 0"
    )
    with pytest.raises(ValueError, match=words):
        BayesianLinearSVC().fit(chunks.Parquet(tmp_path, target="y", weight="weight"))


def test_the_index_of_a_frame_is_no_column(frame, tmp_path):
    numbered, named = frame.sample(frac=1, random_state=0), frame.set_index(frame["b"].rename("who"))
    for index, one in enumerate((numbered, named)):
        one.to_parquet(tmp_path / f"{index}.parquet")
        model = BayesianLinearSVC().fit(tmp_path / f"{index}.parquet", "y")
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert_allclose(model.predict_proba(tmp_path / f"{index}.parquet"), model.predict_proba(one[["a", "b"]]))
    asked = chunks.Parquet(tmp_path / "1.parquet", "y", columns=["a", "who"])
    assert BayesianLinearSVC().fit(asked).feature_names_in_.tolist() == ["a", "who"]
