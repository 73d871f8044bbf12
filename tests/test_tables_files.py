"""Tables from files, and back: separators, encodings, gaps, what is wrong with them."""

import gzip

import numpy as np
import pandas as pd
import pytest

from softmargin.tables import read_table, write_table

# Files


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather"])
def test_files_come_back_as_they_were(suffix, tmp_path):
    frame = pd.DataFrame({"a": [1.5, np.nan], "b": ["u", "v; w"]})
    write_table(frame, tmp_path / f"t{suffix}")
    pd.testing.assert_frame_equal(read_table(tmp_path / f"t{suffix}"), frame, check_dtype=False)


def test_arrow_streams_are_read_too(tmp_path):
    import pyarrow as pa

    table = pa.table({"a": [1, 2]})
    with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as stream:
        stream.write_table(table)
    assert read_table(tmp_path / "t.arrow")["a"].tolist() == [1, 2]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(separator, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        separator.join(["a ", "b"]) + "\n" + separator.join(["1", "?"]) + "\n" + separator.join(["2", "x"]) + "\n"
    )
    frame = read_table(path)
    assert frame.columns.tolist() == ["a", "b"]
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [True, False]


def test_a_single_column_has_no_separator(tmp_path):
    (tmp_path / "t.csv").write_text("abc\n1\n2\n")
    assert read_table(tmp_path / "t.csv")["abc"].tolist() == [1, 2]


def test_gaps_and_spaces_in_texts(tmp_path):
    entries = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?", " ? ", '" "', "None", "n/a", " no", "no ", "True"]
    (tmp_path / "t.csv").write_text("a, b\n" + "".join(f"{i},{entry}\n" for i, entry in enumerate(entries)))
    frame = read_table(tmp_path / "t.csv")
    assert frame["b"].isna().tolist() == [True] * 10 + [False] * 5
    assert frame["b"][10:].tolist() == ["None", "n/a", "no", "no", "True"]


def test_truth_values_beside_gaps_are_read_as_such(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,True\n2,\n3,False\n")
    assert read_table(tmp_path / "t.csv")["b"].dropna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n1,5;x\n-0,25;y\n", [1.5, -0.25]),
        ("a;b\n1,500;x\n2,250;y\n", ["1,500", "2,250"]),  # which may be thousands
        ("a;b\n1.5;1,5\n2.5;1,7\n", [1.5, 2.5]),  # points it is
    ],
)
def test_commas_within_numbers(text, values, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    assert read_table(tmp_path / "t.csv")["a"].tolist() == values


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_that_are_marked(encoding, tmp_path):
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    (tmp_path / "t.csv").write_bytes((mark + "a;b\n1;é\n2;ü\n").encode(encoding))
    frame = read_table(tmp_path / "t.csv")
    assert frame.columns.tolist() == ["a", "b"]
    assert frame["b"].tolist() == ["é", "ü"]


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("tabel.csv", None, FileNotFoundError, "There is no file .*tabel.csv.*; did you mean 'table.csv'"),
        ("t.xlsx", b"", ValueError, "must end in one of .csv"),
        ("empty.csv", b"", ValueError, "is empty"),
        ("header.csv", b"a,b\n", ValueError, "holds no rows"),
        ("latin.csv", "a,b\n1,é\n".encode("latin-1"), ValueError, "is not in UTF-8: save it as UTF-8"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", ValueError, "cannot be read as a CSV table"),
    ],
)
def test_bad_files_are_named(name, content, error, message, tmp_path):
    (tmp_path / "table.csv").write_text("a\n1\n")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        read_table(tmp_path / name)


def test_packed_texts_are_looked_into_for_their_separator(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("a;b\n1;2\n3;4\n")
    assert read_table(tmp_path / "t.csv.gz").columns.tolist() == ["a", "b"]
