"""Tables of anything: what becomes of columns, and models that take them."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import softmargin
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.store import StoreError
from softmargin.tables import TableClassifier, TableEncoder, read_table, write_table
from softmargin.tables.tidier import TableTidier
from softmargin.uncertainty import entropy, mutual_information, variation_ratio


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
    assert described["note"] == "10 of 13 missing, the median instead"
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
    assert described["note"].endswith("a level of their own")


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
    assert_array_equal(TableEncoder().fit(frame).transform(unknown), [[0, 0, 0]])
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


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads no texts of years that nanoseconds do not reach")
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
        (np.arange(100, 130), "counts the rows; keep='x' brings it back"),
        (
            [f"patient {i}" for i in range(31)],
            "31 different texts in 31 rows: an identifier, or free text; keep='x' brings it back",
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
    some = rng.permutation(1000)[: int(1000 * share)]
    assert column_of(some + 1)[2]["note"].startswith("counts the rows")
    assert column_of(np.r_[some + 1.0, np.nan])[2]["note"].startswith("counts the rows")


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).integers(18, 90, 200),  # ages repeat
        np.arange(60) * 3,  # too far apart
        np.random.default_rng(0).permutation(np.arange(1880, 2020))[:100],  # years
        np.arange(60) + 0.5,
        np.random.default_rng(0).permutation(40),  # too few to tell
    ],
)
def test_whole_numbers_that_say_something_stay(values):
    if np.all(np.diff(values) == 1):
        values = values[::-1]
    assert column_of(values)[0] == ["x"]


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda i: f"1,{i:03d},000", "looks like numbers written with commas, spaces or %: write plain numbers"),
        (lambda i: f"{i}.5 %", "looks like numbers written with commas, spaces or %: write plain numbers"),
        (lambda i: f"{i % 28 + 1:02d}.{i % 12 + 1:02d}.2024", "looks like dates: write YYYY-MM-DD"),
        (lambda i: f"{i % 12 + 1}/{i % 28 + 1}/{2000 + i}", "looks like dates: write YYYY-MM-DD"),
        (lambda i: f"{i}.5" if i else "unknown", "numbers but for entries such as 'unknown': leave those empty"),
    ],
)
def test_numbers_and_dates_in_other_forms_are_told_of(write, hint):
    _, _, described = column_of([write(i) for i in range(60)])
    assert described["note"] == f"60 different texts in 60 rows: {hint}"


def test_columns_are_left_out_on_request():
    assert column_of([1.0, 2.0, 5.0], drop=["x"])[0] == []


def test_nothing_left_is_an_error_that_says_why():
    with pytest.raises(ValueError, match=r"No column is left to learn from \('a': always 1; 'b': empty\)"):
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
            "categorical names 'citty', which is no column .* did you mean 'city'",
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


# The classifier


@pytest.fixture(scope="module")
def visits():
    """Strings, dates, gaps and groups; what matters is known."""
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame({
        "age": rng.normal(50, 10, n),
        "city": rng.choice(["Rome", "Oslo", "Cairo"], n),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        "clinic": rng.choice(list("uvwxyz"), n),
        "id": [f"id-{i}" for i in range(n)],
    })  # fmt: skip
    latent = (frame["age"] - 50) / 5 + 2.0 * (frame["city"] == "Oslo") - 1
    frame["ill"] = np.where(latent + rng.logistic(size=n) > 0, "yes", "no")
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    return frame


MODELS = {
    "svc": BayesianSVC(random_state=0),
    "linear": BayesianLinearSVC(),
    "mixed": BayesianMixedSVC("~ age + city + (1 | clinic)"),
    "other": LogisticRegression(max_iter=1000),
}


@pytest.mark.parametrize("name", MODELS)
def test_frames_go_in_and_probabilities_come_out(name, visits):
    model = TableClassifier(clone(MODELS[name])).fit(visits[:200], "ill")
    assert model.target_ == "ill"
    assert model.feature_names_in_.tolist() == ["age", "city", "seen", "clinic", "id"]
    proba = model.predict_proba(visits[200:])  # the column of labels is passed by
    assert_array_equal(model.predict(visits[200:].drop(columns="ill")), model.classes_[proba.argmax(axis=1)])
    assert np.mean(model.predict(visits[200:]) == visits["ill"][200:]) > 0.65
    inner = model.classifier_.predict_proba(model.encode(visits[200:]))
    assert_array_equal(proba, inner)


def test_each_model_gets_the_gaps_it_is_best_served_with(visits):
    def encoded(name):
        return TableClassifier(clone(MODELS[name])).fit(visits, "ill").encode(visits)

    assert np.isnan(encoded("linear")["age"]).any()
    assert not np.isnan(encoded("svc")).any(axis=None)
    assert encoded("svc")["age=(missing)"].sum() == visits["age"].isna().sum()
    assert encoded("mixed")["clinic"].tolist() == visits["clinic"].tolist()


@pytest.mark.parametrize("name", ["svc", "linear", "mixed"])
def test_files_hold_encoder_and_model(name, visits, tmp_path):
    model = TableClassifier(clone(MODELS[name])).fit(visits, "ill")
    model.save(tmp_path / "model.sm")
    again = softmargin.load(tmp_path / "model.sm")
    assert_array_equal(again.predict_proba(visits), model.predict_proba(visits))
    assert again.encoder_.describe().equals(model.encoder_.describe())
    assert again.target_ == "ill"


def test_a_file_whose_parts_do_not_belong_together_is_refused(visits, tmp_path):
    model = TableClassifier(clone(MODELS["linear"])).fit(visits, "ill")
    model.encoder_.plans_ = model.encoder_.plans_[1:]
    model.save(tmp_path / "model.sm")
    with pytest.raises(StoreError, match="encoder is not that of its model"):
        softmargin.load(tmp_path / "model.sm")


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("age", {"fill": "abc"}),
        ("age", {"fill": 1e308}),
        ("age", {"fill": np.inf}),
        ("seen", {"origin": "xx"}),
        ("seen", {"origin": None}),
        ("seen", {"fill": [0.0, 1.0]}),
    ],
)
def test_a_file_whose_plans_make_no_numbers_is_refused(column, change, visits, tmp_path):
    model = TableClassifier(BayesianSVC(random_state=0)).fit(visits, "ill")
    plans = model.encoder_.plans_
    model.encoder_.plans_ = tuple(replace(plan, **change) if plan.name == column else plan for plan in plans)
    model.save(tmp_path / "model.sm")
    with pytest.raises(StoreError, match="its encoder makes no numbers of a column"):
        softmargin.load(tmp_path / "model.sm")


def test_weights_reach_the_model(visits):
    known = visits.dropna()
    times = np.arange(len(known)) % 3
    weighted = TableClassifier(BayesianLinearSVC()).fit(known, "ill", sample_weight=times)
    repeated = TableClassifier(BayesianLinearSVC()).fit(known.iloc[np.repeat(np.arange(len(known)), times)], "ill")
    assert_allclose(weighted.predict_proba(known), repeated.predict_proba(known), atol=1e-6)


def test_weights_by_the_name_of_their_column(visits):
    times = np.arange(len(visits)) % 3
    by_name = TableClassifier(BayesianLinearSVC()).fit(visits.assign(times=times), "ill", sample_weight="times")
    given = TableClassifier(BayesianLinearSVC()).fit(visits, "ill", sample_weight=times)
    assert (by_name.weight_, given.weight_) == ("times", None)
    assert_array_equal(by_name.predict_proba(visits.assign(times=0)), given.predict_proba(visits))
    assert_array_equal(by_name.predict_proba(visits), given.predict_proba(visits))
    with pytest.raises(ValueError, match="no column 'time'; did you mean"):
        TableClassifier().fit(visits.assign(times=times), "ill", sample_weight="time")


def test_rows_without_weight_decide_nothing(visits, tmp_path):
    strange = visits.assign(city="Atlantis", age=1e6)
    both, counts = pd.concat([visits, strange], ignore_index=True), np.repeat([1.0, 0.0], len(visits))
    plain = TableClassifier(BayesianLinearSVC()).fit(visits, "ill")
    weighted = TableClassifier(BayesianLinearSVC()).fit(both, "ill", sample_weight=counts)
    assert weighted.encoder_.describe().equals(plain.encoder_.describe())
    both.assign(counts=counts).to_parquet(tmp_path / "both.parquet", index=False)
    from_file = TableClassifier(BayesianLinearSVC()).fit(tmp_path / "both.parquet", "ill", sample_weight="counts")
    assert from_file.encoder_.describe().equals(plain.encoder_.describe())
    assert from_file.weight_ == "counts"


def test_labels_may_be_those_of_the_formula(visits):
    named = TableClassifier(BayesianMixedSVC("ill ~ age + city + (1 | clinic)")).fit(visits)
    given = TableClassifier(clone(MODELS["mixed"])).fit(visits, "ill")
    assert named.target_ == "ill"
    assert_allclose(named.predict_proba(visits.drop(columns="ill")), given.predict_proba(visits), atol=1e-12)


def test_truth_values_beside_gaps_that_were_left_out(visits):
    labels = pd.Series([*(visits["ill"][1:] == "yes"), None], dtype=object)
    frame = visits.assign(ill=labels)[:-1]
    assert TableClassifier(BayesianLinearSVC()).fit(frame, "ill").classes_.dtype == bool


def test_what_the_model_knows_can_be_asked_of_the_table_s(visits):
    model = TableClassifier(BayesianSVC(random_state=0, n_jobs=1))
    assert not any(hasattr(model, name) for name in ("link_", "loo_log_loss_"))
    model.fit(visits, "ill")
    rows = model.encode(visits)
    assert model.link_ is model.classifier_.link_
    assert model.loo_log_loss_ == model.classifier_.loo_log_loss_
    for measure in (mutual_information, variation_ratio, entropy):
        assert_array_equal(measure(model, visits), measure(model.classifier_, rows))
    draws = model.sample_latent(visits[:3], 5, random_state=0)
    assert_array_equal(draws, model.classifier_.sample_latent(rows[:3], 5, random_state=0))
    other = TableClassifier(clone(MODELS["other"])).fit(visits, "ill")
    assert not any(hasattr(other, name) for name in ("link_", "loo_log_loss_", "sample_latent"))


def test_labels_that_are_missing_or_not_there(visits):
    with pytest.raises(ValueError, match="no column 'il'; did you mean 'ill'"):
        TableClassifier().fit(visits, "il")
    with pytest.raises(ValueError, match="Column 'age' is missing in"):
        TableClassifier().fit(visits, "age")
    with pytest.raises(ValueError, match="X is no frame"):
        TableClassifier().fit(np.zeros((3, 2)), "ill")


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
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", ValueError, "cannot be read as a table"),
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


# Tables that are not in memory


@pytest.fixture
def parts(visits, tmp_path):
    """The same table in three files."""
    for number, places in enumerate((slice(0, 100), slice(100, 110), slice(110, None))):
        visits.iloc[places].assign(copies=2.0).to_parquet(tmp_path / f"part-{number}.parquet", index=False)
    return f"{tmp_path}/*.parquet"


@pytest.mark.parametrize("name", ["svc", "linear", "mixed"])
def test_files_are_fitted_as_the_table_they_hold(name, visits, parts):
    from_files = TableClassifier(clone(MODELS[name]))
    source = softmargin.chunks.Parquet(parts, "ill", columns=["age", "city", "seen", "clinic", "id"], weight="copies")
    from_files.fit(source)
    in_memory = TableClassifier(clone(MODELS[name])).fit(visits, "ill", sample_weight=np.full(len(visits), 2.0))
    assert from_files.encoder_.describe().equals(in_memory.encoder_.describe())
    assert from_files.target_ == "ill"
    assert_allclose(from_files.predict_proba(visits), in_memory.predict_proba(visits), atol=1e-6)
    assert_allclose(from_files.predict_proba(parts), from_files.predict_proba(visits), atol=1e-12)
    assert from_files.predict(parts).tolist() == from_files.predict(visits).tolist()


@pytest.mark.parametrize(
    ("suffix", "separator", "decimal"),
    [(".csv", ",", "."), (".csv", ";", ","), (".tsv", "\t", "."), (".txt", "|", ".")],
)
def test_texts_are_the_same_table_read_at_once_or_in_batches(suffix, separator, decimal, visits, tmp_path):
    path = tmp_path / f"t{suffix}"
    text = visits.assign(seen=visits["seen"].dt.strftime("%Y-%m-%d"))
    text.to_csv(path, sep=separator, decimal=decimal, index=False, na_rep="?")
    in_memory = TableClassifier(BayesianLinearSVC()).fit(read_table(path), "ill")
    from_file = TableClassifier(BayesianLinearSVC()).fit(path, "ill")
    assert in_memory.encoder_.describe()["kind"].tolist() == ["number", "category", "date", "category", "left out"]
    assert from_file.encoder_.describe().equals(in_memory.encoder_.describe())
    assert_allclose(from_file.predict_proba(path), in_memory.predict_proba(read_table(path)), atol=1e-6)


def test_lists_in_files_are_named(visits, tmp_path):
    visits.assign(many=[[1, 2]] * len(visits)).to_parquet(tmp_path / "t.parquet")
    for table in (read_table(tmp_path / "t.parquet"), tmp_path / "t.parquet"):
        with pytest.raises(ValueError, match=r"Column 'many' holds lists"):
            TableClassifier().fit(table, "ill")


def test_many_rows_decide_by_some_of_them(visits, parts):
    from softmargin.tables.streams import representative

    source = softmargin.chunks.Parquet(parts, "ill")
    some, weight = representative(source, 50)
    assert (len(some), weight) == (50, None)
    assert some.merge(visits.assign(copies=2.0)).shape[0] == 50
    other = softmargin.chunks.Parquet(parts, "ill", batch_rows=7)
    pd.testing.assert_frame_equal(representative(other, 50)[0], some)


def test_arrays_are_no_tables():
    with pytest.raises(ValueError, match="columns with names"):
        TableClassifier().fit(softmargin.chunks.Batches([(np.zeros((3, 2)), [0, 1, 1])]))
