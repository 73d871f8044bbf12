"""Tables of anything: what becomes of their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from softmargin.tables import TableEncoder
from softmargin.tables.tidier import TableTidier

#: Many of these tables have an identifier; where the warning is tested, it is awaited.
pytestmark = pytest.mark.filterwarnings("ignore:Columns left out")


def column_of(values, **options):
    """What becomes of one column beside another that varies."""
    frame = pd.DataFrame({"x": values, "beside": np.arange(len(values)) % 7 + 0.5})
    encoder = TableEncoder(**options).fit(frame)
    names = [name for name in encoder.get_feature_names_out() if name != "beside"]
    return names, encoder.transform(frame)[:, : len(names)], encoder.describe().iloc[0]


# Numbers


@pytest.mark.parametrize(
    "values",
    [
        [1.5, -2.0, 7.0],
        [1, 5, 2],
        [True, False, True],
        pd.array([1, 5, 2], dtype="Int64"),
        pd.array([1.5, 2.5, 0], dtype="Float32"),
        ["1.5", "2", "-7e3"],
        np.array([1, 2.5, "3"], dtype=object),
    ],
)
def test_numbers_stay_what_they_are(values):
    names, found, described = column_of(values)
    assert names == ["x"]
    assert_array_equal(found[:, 0], [float(value) for value in values])
    assert (described["kind"], described["becomes"]) == ("number", "itself")


def test_lengths_of_time_are_days():
    assert_array_equal(column_of(pd.to_timedelta([12, 24, 60], unit="h"))[1][:, 0], [0.5, 1.0, 2.5])


def test_gaps_are_filled_with_the_median_and_many_are_flagged():
    values = np.r_[np.full(10, np.nan), 1.0, 2.0, 9.0]
    names, found, described = column_of(values)
    assert names == ["x", "x=(missing)"]
    assert_array_equal(found, np.column_stack([np.r_[np.full(10, 2.0), 1.0, 2.0, 9.0], np.r_[np.ones(10), 0, 0, 0]]))
    assert described["note"] == "10 of 13 missing, replaced by the median"
    assert column_of(values[1:])[0] == ["x"]  # nine are too few to learn from


def test_gaps_are_kept_on_request():
    names, found, described = column_of([1.0, np.nan, 3.0], gaps="keep")
    assert names == ["x"]
    assert_array_equal(found[:, 0], [1.0, np.nan, 3.0])
    assert described["note"] == "1 of 3 missing, modelled"


def test_gaps_that_fit_did_not_see_are_filled_as_well():
    encoder = TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0, 6.0], "c": ["a", "b", "c"]}))
    assert_array_equal(encoder.transform(pd.DataFrame({"x": [None], "c": [None]})), [[2.0, 0.0, 0.0, 0.0]])


def arrow_backed(frame):
    return frame.convert_dtypes(dtype_backend="pyarrow")


def as_arrow(frame):
    import pyarrow as pa

    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.mark.parametrize("convert", [pd.DataFrame.convert_dtypes, arrow_backed, as_arrow, pl.from_pandas])
def test_tables_of_other_types_give_the_same_numbers(convert):
    zoned = pd.to_datetime(["2024-01-01T00:00+02:00", None, "2024-02-01T12:00+02:00", "2024-05-01T00:00+02:00"])
    frame = pd.DataFrame(
        {
            "text": ["u", "v", None, "w"],
            "level": pd.Categorical(["a", "b", "a", None]),
            "whole": [1, 2, None, 7],
            "part": [0.5, 2.5, None, 1.0],
            "truth": [True, False, None, True],
            "date": pd.to_datetime(["2024-01-01", None, "2024-02-01", "2024-05-01"]),
            "day": pd.to_datetime(["2024-01-01", None, "2024-02-01", "2024-05-01"]).date,
            "zoned": zoned,
            "length": pd.to_timedelta([1, 2, None, 36], unit="h"),
            "number as text": ["1.5", "2", None, "7"],
        },
        index=[3, 5, 7, 9],
    )
    plain, other = TableEncoder(gaps="keep").fit(frame), TableEncoder(gaps="keep").fit(convert(frame))
    assert plain.describe()["kind"].tolist() == ["category"] * 2 + ["number"] * 3 + ["date"] * 3 + ["number"] * 2
    assert other.describe().equals(plain.describe())
    assert_array_equal(other.transform(convert(frame)), plain.transform(frame))
    assert_array_equal(plain.transform(convert(frame)), plain.transform(frame))


# Names


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_levels_become_columns(dtype):
    names, found, described = column_of(pd.Series(["b", "a", "c", "a"], dtype=dtype))
    assert names == ["x=a", "x=b", "x=c"]
    assert_array_equal(found, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    assert (described["kind"], described["becomes"]) == ("category", "3 columns of 0 and 1: a, b, c")


def test_two_levels_need_one_column():
    names, found, _ = column_of(["yes", "no", "yes"])
    assert names == ["x=yes"]
    assert_array_equal(found[:, 0], [1, 0, 1])


def test_gaps_among_names():
    values = ["a"] * 3 + ["b"] * 3 + [None]
    assert_array_equal(column_of(values)[1][-1], [0.5])  # between the two
    assert_array_equal(column_of(values, gaps="keep")[1][-1], [np.nan])
    many = [*values, *[None] * 9]
    names, found, described = column_of(many)
    assert names == ["x=a", "x=b", "x=(missing)"]
    assert_array_equal(found[-1], [0, 0, 1])
    assert described["note"].endswith("as a separate level")


def test_rare_levels_are_pooled_with_those_never_seen():
    frame = pd.DataFrame({"x": list("aaabbbccde")})
    encoder = TableEncoder(max_levels=2).fit(frame)
    assert encoder.get_feature_names_out().tolist() == ["x=a", "x=b", "x=(other)"]
    assert_array_equal(
        encoder.transform(pd.DataFrame({"x": ["a", "c", "never seen"]})), [[1, 0, 0], [0, 0, 1], [0, 0, 1]]
    )
    assert encoder.describe()["note"][0] == "3 rarer levels pooled"


def test_a_level_that_fit_did_not_see_is_a_gap():
    frame = pd.DataFrame({"x": ["a", "b", "c"]})
    unknown = pd.DataFrame({"x": ["z"]})
    message = "Column 'x': 100% of the rows that are not missing hold values never seen in fit, such as 'z'.*as 'a'"
    with pytest.warns(UserWarning, match=message):
        assert_array_equal(TableEncoder().fit(frame).transform(unknown), [[0, 0, 0]])
    with pytest.warns(UserWarning, match=message):
        assert_array_equal(TableEncoder(gaps="keep").fit(frame).transform(unknown), [[np.nan] * 3])


def test_numbers_that_are_names():
    names, _, _ = column_of([10, 20, 10, 30], categorical=["x"])
    assert names == ["x=10", "x=20", "x=30"]
    encoder = TableEncoder(categorical=["x"]).fit(pd.DataFrame({"x": [10, 20, 30]}))
    # Beside a gap, whole numbers are read as floats.
    assert_array_equal(encoder.transform(pd.DataFrame({"x": [20.0, np.nan]})), [[0, 1, 0], [0, 0, 0]])


# Dates


def test_dates_become_days_and_circles():
    days = pd.date_range("2023-11-15", periods=200, freq="36h")
    names, found, described = column_of(days)
    assert names == [
        "x days",
        *(f"x {circle} {part}" for circle in ("year", "week", "day") for part in ("sine", "cosine")),
    ]
    assert described["becomes"] == "days since 2023-11-15 and time of year, week, day"
    assert_allclose(found[:, 0], 1.5 * np.arange(200))
    for place, circle in ((1, "year"), (3, "week"), (5, "day")):
        assert_allclose(found[:, place] ** 2 + found[:, place + 1] ** 2, 1, err_msg=circle)
    midnight = days.hour == 0
    assert_allclose(found[midnight, 5:7], [[0.0, 1.0]] * midnight.sum(), atol=1e-12)
    mondays = found[days.day_of_week == 0, 3:5]
    assert_allclose(mondays, mondays[:1].repeat(len(mondays), axis=0), atol=1e-12)


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])
def test_texts_of_dates_are_dates(form):
    days = pd.Series(pd.date_range("2024-01-01", periods=5, freq="D"))
    names, found, described = column_of(days.dt.strftime(form))
    assert described["kind"] == "date"
    assert names == ["x days"]  # five days are no part of a year, nor all of a week
    assert_array_equal(found[:, 0], np.arange(5))


def test_zones_and_gaps_of_dates():
    stamps = pd.Series(pd.to_datetime(["2024-01-01T00:00+02:00", None, "2024-01-03T00:00+02:00"]))
    assert_allclose(column_of(stamps)[1][:, 0] % 1, 22 / 24)
    assert np.isnan(column_of(stamps, gaps="keep")[1][1, 0])


def test_the_same_dates_are_the_same_numbers_in_other_tables():
    encoder = TableEncoder().fit(pd.DataFrame({"x": pd.date_range("2024-01-01", periods=50, freq="7D")}))
    late = pd.DataFrame({"x": ["2025-01-01"]})
    assert encoder.transform(late)[0, 0] == 366


@pytest.mark.skipif(
    int(pd.__version__.split(".")[0]) < 3, reason="pandas 2 reads no texts of years that nanoseconds do not reach"
)
def test_dates_of_all_years():
    names, found, _ = column_of(["1600-01-01", "2000-01-01", "9999-12-31"])
    assert names[0] == "x days"
    day = np.timedelta64(1, "D")
    assert_array_equal(
        found[:, 0], (np.array(["1600-01-01", "2000-01-01", "9999-12-31"], "M8[D]") - np.datetime64("1600-01-01")) / day
    )
    # Units that are coarser than those of nanoseconds reach as far.
    stamps = pd.Series(np.array(["1600-01-01", "2000-01-01", "9999-12-31"], "M8[s]"))
    assert_array_equal(column_of(stamps)[1], found)


# Columns that say nothing


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([3.0] * 30, "always 3.0"),
        (["a"] * 30, "always a"),
        ([None] * 30, "empty"),
        (["a"] * 29 + [None], "always a, or missing"),
        (np.arange(100, 130), "looks like row numbers; use keep='x' to include it"),
        (
            [f"patient {i}" for i in range(31)],
            "31 distinct texts in 31 rows: an identifier or free text; use keep='x' to include it",
        ),
    ],
)
def test_columns_that_say_nothing_are_left_out(values, note):
    names, _, described = column_of(values)
    assert names == []
    assert (described["kind"], described["note"]) == ("left out", note)


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_numbers_of_rows_are_known_in_parts_of_a_table(share):
    rng = np.random.default_rng(0)
    some = np.sort(rng.permutation(1000)[: int(1000 * share)])
    for numbers in (some, some[::-1]):
        assert column_of(numbers + 1)[2]["note"].startswith("looks like row numbers")
        assert column_of(np.r_[numbers + 1.0, np.nan])[2]["note"].startswith("looks like row numbers")


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).integers(18, 90, 200),  # ages repeat
        np.arange(60) * 3,  # too far apart
        np.sort(np.random.default_rng(0).permutation(np.arange(1880, 2020))[:100]),  # years
        np.delete(np.arange(60) + 0.5, 7),
        np.delete(np.arange(41), 7),  # too few to tell
        np.random.default_rng(0).permutation(1000),  # ranks
        np.r_[1, 0, np.arange(2, 100)],
    ],
)
def test_whole_numbers_that_say_something_stay(values):
    assert column_of(values)[0] == ["x"]


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda i: f"1,{i:03d},000", "looks like numbers written with commas, spaces or %: write plain numbers"),
        (lambda i: f"{i}.5 %", "looks like numbers written with commas, spaces or %: write plain numbers"),
        (lambda i: f"{i % 28 + 1:02d}.{i % 12 + 1:02d}.2024", "looks like dates: write YYYY-MM-DD"),
        (lambda i: f"{i % 12 + 1}/{i % 28 + 1}/{2000 + i}", "looks like dates: write YYYY-MM-DD"),
        (lambda i: f"{i}.5" if i else "unknown", "numbers except for entries such as 'unknown': leave those empty"),
    ],
)
def test_numbers_and_dates_in_other_forms_are_told_of(write, hint):
    _, _, described = column_of([write(i) for i in range(60)])
    assert described["note"] == f"60 distinct texts in 60 rows: {hint}"


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda i: f"{i % 25}.5 %", "looks like numbers written with commas, spaces or %: write plain numbers"),
        (lambda i: f"{i % 25 + 1:02d}.06.2024", "looks like dates: write YYYY-MM-DD"),
        (lambda i: str(i % 25) if i else "unknown", "numbers except for entries such as 'unknown': leave those empty"),
    ],
)
def test_categories_that_look_like_numbers_and_dates_are_told_of(write, hint):
    texts = [write(i) for i in range(100)]
    assert column_of(texts)[2]["kind"] == "category"
    assert column_of(texts)[2]["note"] == hint
    assert column_of(texts, categorical=["x"])[2]["note"] == ""
    assert column_of([f"{i % 3} %" for i in range(60)])[2]["note"] == ""  # a few levels are categories


def test_columns_are_left_out_on_request():
    assert column_of([1.0, 2.0, 5.0], drop=["x"])[0] == []


def test_nothing_left_is_an_error_that_says_why():
    with pytest.raises(ValueError, match=r"No usable column is left \('a': always 1; 'b': empty\)"):
        TableEncoder().fit(pd.DataFrame({"a": [1, 1], "b": [None, None]}))


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, "Column 'age' holds 'old' where numbers were expected"),
        ({"age": np.inf}, "Column 'age' holds infinity"),
        ({"age": pd.Timestamp("2024-01-01")}, "Column 'age' holds dates, such as 2024-01-01.*numbers were expected"),
        ({"seen": 2024}, "Column 'seen' holds 2024 where dates were expected; write them as YYYY-MM-DD"),
        ({"seen": [2024, "2024-01-02"]}, "Column 'seen' holds 2024 where dates were expected"),
        ({"seen": True}, "Column 'seen' holds True where dates were expected"),
        ({"seen": [[1, 2], [3]]}, r"Column 'seen' holds lists, such as \[1, 2\]"),
        ({"seen": "yesterday"}, "Column 'seen' holds 'yesterday' where dates were expected; write them as YYYY-MM-DD"),
    ],
)
def test_values_that_do_not_belong_are_named(change, message):
    frame = pd.DataFrame({"age": [31.0, 40.0], "seen": ["2024-01-01", "2024-01-02"]})
    encoder = TableEncoder().fit(frame)
    with pytest.raises(ValueError, match=message):
        encoder.transform(frame.astype(object).assign(**change))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: TableEncoder(categorical=["citty"]),
            "categorical names 'citty', which is not a column .* did you mean 'city'",
        ),
        (lambda: TableEncoder(drop=["CITY"]), "drop names 'CITY'.* did you mean 'city'"),
        (lambda: TableEncoder(gaps="ignore"), "gaps must be one of"),
        (lambda: TableEncoder(max_levels=0), "max_levels"),
        (lambda: TableTidier(categorical=["citty"]), "did you mean 'city'"),
    ],
)
def test_bad_wishes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make().fit(pd.DataFrame({"city": ["a", "b"], "age": [1, 3]}))


def test_twice_the_same_name():
    with pytest.raises(ValueError, match="Two columns are called 'a'"):
        TableEncoder().fit(pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]))


def test_columns_that_would_have_one_name():
    with pytest.raises(ValueError, match="Columns 'c' and 'c=a' would both become 'c=a'"):
        TableEncoder().fit(pd.DataFrame({"c": ["a", "b", "d"], "c=a": [1, 2, 4]}))
    rare = pd.DataFrame({"c": ["(other)", "(other)", "b", "d"]})
    with pytest.raises(ValueError, match=r"Column 'c' has a level that becomes 'c=\(other\)', as its rare levels do"):
        TableEncoder(max_levels=2).fit(rare)
    gaps = pd.DataFrame({"c": ["(missing)", "b", "d"] * 10 + [None] * 10})
    with pytest.raises(ValueError, match=r"Column 'c' has a level that becomes 'c=\(missing\)', as its gaps do"):
        TableEncoder().fit(gaps)


# The encoder as a transformer


def test_output_as_a_frame():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}, index=[7, 8])
    out = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert out.columns.tolist() == ["a", "b=v"]
    assert out.index.tolist() == [7, 8]


def test_polars_gives_the_same_numbers():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["u", "v", None], "t": pd.date_range("2024-01-01", periods=3)})
    there = pl.DataFrame({"a": [1.0, None, 3.0], "b": ["u", "v", None], "t": [t.to_pydatetime() for t in frame["t"]]})
    assert_array_equal(TableEncoder().fit_transform(there), TableEncoder().fit_transform(frame))


def test_tidy_tables_keep_their_names():
    frame = pd.DataFrame({"who": ["u", None, "u"], "n": ["1", "2", None], "code": [1.0, 2.0, None]})
    tidy = TableTidier(categorical=["code"]).fit(frame)
    found = tidy.transform(frame)
    assert found["who"].tolist() == ["u", "(missing)", "u"]
    assert_array_equal(found["n"], [1.0, 2.0, np.nan])
    assert found["code"].tolist() == ["1", "2", "(missing)"]
    assert tidy.describe()["kind"].tolist() == ["name", "number", "name"]


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame])
def test_numbers_in_another_order_of_bytes(kind, rng):
    X = rng.normal(size=(40, 2))
    expected = TableEncoder().fit(kind(X)).transform(kind(X))
    foreign = kind(X.astype(">f8"))
    assert_array_equal(TableEncoder().fit(foreign).transform(foreign), expected)
