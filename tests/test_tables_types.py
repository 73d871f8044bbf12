"""Tables in texts are read in one way, at once or in batches, and in the types of the fit."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import softmargin
from softmargin import BayesianLinearSVC, BayesianMixedSVC, chunks
from softmargin.tables import TableClassifier, TableEncoder, read_table
from softmargin.tables.plans import holds_texts

UNTIDY = " age , city,when \n 31 , Rome ,2024-01-31\n ? ,Oslo, 2024-02-29\n44,  ? ,\n 28,\tCairo,2024-07-01\n"


def in_batches(path, **options):
    """What a source reads, as one frame."""
    source = chunks.Parquet(path, batch_rows=2, **options)
    return pd.concat([source.unpack(item, frames=True).X for item in source.items()], ignore_index=True)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_texts_are_read_alike_at_once_and_in_batches(encoding, separator, tmp_path):
    mark = "\ufeff" if encoding in ("utf-16-le", "utf-16-be") else ""
    (tmp_path / "t.csv").write_bytes((mark + UNTIDY.replace(",", separator)).encode(encoding))
    at_once, batches = read_table(tmp_path / "t.csv"), in_batches(tmp_path / "t.csv")
    assert at_once.columns.tolist() == batches.columns.tolist() == ["age", "city", "when"]
    assert at_once.isna().equals(batches.isna())
    assert at_once["city"].dropna().tolist() == batches["city"].dropna().tolist() == ["Rome", "Oslo", "Cairo"]
    one, two = (TableEncoder(gaps="keep").fit(frame) for frame in (at_once, batches))
    assert one.describe().equals(two.describe())
    assert_array_equal(one.transform(at_once), two.transform(batches))


def test_packed_texts_of_two_bytes_are_read_in_batches(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(UNTIDY.encode("utf-16"))
    assert in_batches(tmp_path / "t.csv.gz")["city"].dropna().tolist() == ["Rome", "Oslo", "Cairo"]


def test_labels_have_no_spaces_around_them(tmp_path):
    rows = "".join(f"{i % 7},{' yes ' if i % 7 > 3 else 'no'}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("x, y \n" + rows)
    assert BayesianLinearSVC().fit(tmp_path / "t.csv", "y").classes_.tolist() == ["no", "yes"]
    (tmp_path / "t.csv").write_text("x,y\n" + rows + "1,   \n")
    with pytest.raises(ValueError, match=r"'y' holds the labels, but has .*empty entr"):
        BayesianLinearSVC().fit(tmp_path / "t.csv", "y")


def test_numbers_beside_gaps_with_spaces_are_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1.5,0\n   ?,1\n2.5,1\n")
    source = chunks.Parquet(tmp_path / "t.csv", target="y")
    assert_array_equal(source.unpack(next(source.items())).X[:, 0], [1.5, np.nan, 2.5])
    (tmp_path / "t.csv").write_text("x,y\n1.5,0\nmany,1\n")
    source = chunks.Parquet(tmp_path / "t.csv", target="y")
    with pytest.raises(ValueError, match="column 'x' is not numeric"):
        source.unpack(next(source.items()))


def test_names_of_parquet_columns_have_no_spaces_around_them(tmp_path):
    pd.DataFrame({" a ": [1.0, 2.0], "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    assert chunks.Parquet(tmp_path / "t.parquet", "y").columns == ("a",)
    assert in_batches(tmp_path / "t.parquet")["a"].tolist() == read_table(tmp_path / "t.parquet")["a"].tolist()


def test_other_encodings_are_refused_alike(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    for read in (read_table, in_batches):
        with pytest.raises(ValueError, match="is not in UTF-8"):
            read(tmp_path / "t.csv")


# The types of the fit


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["007", "A12", None], True),
        (pd.Series(["a", "b"], dtype="string"), True),
        (pd.Categorical(["a", None]), True),
        (pd.Categorical([1, 2]), False),
        ([1, "x", 2.5], True),
        ([1.5, None], False),
        ([True, None], False),
        (pd.to_datetime(["2024-01-01"]), False),
    ],
)
def test_columns_that_hold_texts(values, expected):
    assert holds_texts(values) == expected


@pytest.fixture
def codes():
    """Codes that say all: beside A12 they are texts, without it they look like numbers."""
    rng = np.random.default_rng(0)
    code = rng.choice(["007", "012", "A12"], 200)
    said = np.where((code == "007") ^ (rng.random(200) < 0.05), "01", "02")
    return pd.DataFrame({"code": code, "x": rng.normal(size=200), "said": said})


MODELS = {"linear": BayesianLinearSVC(), "mixed": BayesianMixedSVC("~ x + (1 | code)")}


@pytest.mark.parametrize("name", MODELS)
def test_codes_keep_their_leading_zeros_in_other_files(name, codes, tmp_path):
    model = TableClassifier(MODELS[name]).fit(codes, "said")
    assert model.encoder_.texts_ == ("code",)
    model.save(tmp_path / "m.sm")
    model = softmargin.load(tmp_path / "m.sm")
    asked = pd.DataFrame({"code": ["007", "012"], "x": [0.0, 0.0]})
    asked.rename(columns={"code": " code "}).to_csv(tmp_path / "new.csv", index=False)
    expected = model.predict_proba(asked)
    assert expected[0, 0] > 0.8
    assert expected[1, 0] < 0.2
    assert read_table(tmp_path / "new.csv")["code"].tolist() == [7, 12]  # as it looks
    frame = read_table(tmp_path / "new.csv", like=model)
    assert frame["code"].tolist() == ["007", "012"]
    assert_array_equal(model.predict_proba(frame), expected)
    assert_array_equal(model.predict_proba(tmp_path / "new.csv"), expected)


def test_labels_are_read_as_the_classes_are(codes, tmp_path):
    model = TableClassifier(BayesianLinearSVC()).fit(codes, "said")
    codes.to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv", like=model)["said"].tolist() == codes["said"].tolist()
    assert read_table(tmp_path / "t.csv", like=model.encoder_)["code"].tolist() == codes["code"].tolist()


def test_numbers_that_are_names_stay_numbers(tmp_path):
    frame = pd.DataFrame({"zone": [1, 2, 3] * 10, "x": np.arange(30) % 7})
    encoder = TableEncoder(categorical=["zone"]).fit(frame)
    assert encoder.texts_ == ()
    (tmp_path / "t.csv").write_text("zone,x\n1.0,2\n,3\n")  # as pandas writes whole numbers beside gaps
    assert_array_equal(encoder.transform(read_table(tmp_path / "t.csv", like=encoder))[0], [1, 0, 0, 2])


# Codes with leading zeros


@pytest.fixture
def zips():
    """Codes without letters, of which only texts keep the zeros, and what they say."""
    rng = np.random.default_rng(0)
    place = rng.choice(["00004", "00017", "00123"], 200)
    said = np.where((place == "00004") ^ (rng.random(200) < 0.05), "yes", "no")
    return pd.DataFrame({"zip": place, "x": rng.normal(size=200), "said": said})


def test_columns_are_read_as_texts_on_request(zips, tmp_path):
    zips.rename(columns={"zip": " zip"}).to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv")["zip"].isin([4, 17, 123]).all()
    for texts in ("zip", ["zip", "absent"]):
        assert read_table(tmp_path / "t.csv", texts=texts)["zip"].tolist() == zips["zip"].tolist()


def test_classifiers_read_categories_of_text_files_as_texts(zips, tmp_path):
    zips.to_csv(tmp_path / "t.csv", index=False)
    for wished in ("zip", ["zip"]):
        model = TableClassifier(BayesianLinearSVC(), TableEncoder(gaps="keep", categorical=wished))
        model.fit(tmp_path / "t.csv", "said")
        assert model.encoder_.get_feature_names_out().tolist() == ["zip=00004", "zip=00017", "zip=00123", "x"]
        assert model.score(zips) > 0.9


def test_codes_that_are_written_in_another_way_are_told_of_once(zips, tmp_path):
    model = TableClassifier(BayesianLinearSVC(), TableEncoder(categorical=["zip"])).fit(zips, "said")
    numbers = zips.assign(zip=zips["zip"].astype(int))
    message = "Column 'zip': 100% of the rows .* such as '123'; those seen are such as '00004'"
    for ask in (model.predict, model.score):
        with pytest.warns(UserWarning, match=message) as told:
            ask(numbers)
        assert len(told) == 1
    assert model.n_seen(numbers) == 0  # without a warning
    numbers.drop(columns="said").to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.warns(UserWarning, match=message) as told:
        model.predict(chunks.Parquet(tmp_path / "t.parquet", batch_rows=30))
    assert len(told) == 1


def test_whole_numbers_beside_gaps_are_the_same_texts(tmp_path):
    (tmp_path / "t.csv").write_text("zone,x\n1,2\n2,3\n1,5\n")
    encoder = TableEncoder(categorical=["zone"]).fit(read_table(tmp_path / "t.csv", texts="zone"))
    (tmp_path / "new.csv").write_text("zone,x\n2.0,2\n,3\n")
    assert_array_equal(encoder.transform(read_table(tmp_path / "new.csv", like=encoder)), [[1, 2], [0.5, 3]])


def test_numbers_that_pandas_holds_as_categories_may_be_identifiers():
    frame = pd.DataFrame({"x": pd.Categorical(np.arange(60)), "y": pd.Categorical(np.arange(60) % 25)})
    with pytest.warns(UserWarning, match="Columns left out: 'x'"):
        notes = TableEncoder().fit(frame).describe()["note"]
    assert notes[0].startswith("60 distinct texts in 60 rows: an identifier")
    assert notes[1] == ""


@pytest.mark.parametrize("largest", [10**400, -(10**400)], ids=["positive", "negative"])
def test_whole_numbers_too_large_for_a_float_are_named(largest):
    with pytest.raises(ValueError, match="Column 'x' holds infinity or a number too large"):
        TableEncoder().fit(pd.DataFrame({"x": pd.Series([largest, *range(30)], dtype=object)}))
