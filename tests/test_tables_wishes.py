"""Tables: columns that are kept on request, and rows that count more than once."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import OneHotEncoder

from softmargin import BayesianLinearSVC, BayesianMixedSVC, chunks
from softmargin.tables import TableClassifier, TableEncoder
from softmargin.tables.looking import weighted_median
from softmargin.tables.tidier import TableTidier

#: Many of these tables have an identifier; where the warning is tested, it is awaited.
pytestmark = pytest.mark.filterwarnings("ignore:Columns left out")

N = 60


@pytest.fixture
def frame():
    """A row number that says something, an identifier, and a number."""
    rng = np.random.default_rng(0)
    number = np.arange(1, N + 1)
    frame = pd.DataFrame({"number": number, "name": [f"n{i}" for i in number], "x": rng.normal(size=N)})
    return frame.assign(late=np.where(number > N / 2, "yes", "no"))


# Columns that look like identifiers


def test_left_out_columns_say_how_they_are_had_back(frame):
    described = TableEncoder().fit(frame).describe().set_index("column")
    assert described["kind"].tolist() == ["left out", "left out", "number", "category"]
    assert described["note"]["number"] == "looks like row numbers; use keep='number' to include it"
    assert described["note"]["name"].endswith("an identifier or free text; use keep='name' to include it")


@pytest.mark.parametrize("keep", ["number", ["number"], ("number", "x")])
def test_columns_are_kept_on_request(keep, frame):
    encoder = TableEncoder(keep=keep).fit(frame)
    assert encoder.get_feature_names_out().tolist() == ["number", "x", "late=yes"]
    assert_array_equal(encoder.transform(frame)[:, 0], frame["number"])
    names = TableEncoder(keep=["name"], max_levels=5).fit(frame).get_feature_names_out()
    assert names.tolist()[:6] == [*(f"name=n{i}" for i in (1, 10, 11, 12, 13)), "name=(other)"]


def test_what_says_nothing_at_all_cannot_be_kept():
    frame = pd.DataFrame({"empty": [None] * 30, "same": [1] * 30, "x": np.arange(30) % 7})
    assert TableEncoder(keep=["empty", "same"]).fit(frame).get_feature_names_out().tolist() == ["x"]


def test_wishes_that_cannot_be_met_are_named(frame):
    message = "keep names 'nmber', which is not a column of the table; did you mean 'number'"
    with pytest.raises(ValueError, match=message):
        TableEncoder(keep=["nmber"]).fit(frame)
    with pytest.raises(ValueError, match="keep names 'nmber'"):
        TableTidier(keep=["nmber"]).fit(frame)
    with pytest.raises(ValueError, match="Column 'number' is in both drop and keep"):
        TableEncoder(keep=["number"], drop=["number"]).fit(frame)
    with pytest.raises(ValueError, match="set it on the encoder that you pass"):
        TableClassifier(encoder=TableEncoder(), keep=["number"]).fit(frame, "late")


def test_the_classifier_learns_from_what_is_kept(frame):
    kept = TableClassifier(BayesianLinearSVC(), keep=["number"]).fit(frame, "late")
    assert kept.encoder_.get_feature_names_out().tolist() == ["number", "x"]
    assert kept.score(frame.drop(columns="late"), frame["late"]) > 0.95
    mixed = TableClassifier(BayesianMixedSVC("~ x + (1 | name)"), keep="number").fit(frame, "late")
    assert mixed.encoder_.get_feature_names_out().tolist() == ["number", "name", "x"]  # which leaves out none


# Warnings


def test_a_warning_names_columns_that_may_say_something_after_all():
    n = 60
    frame = pd.DataFrame({"row": range(n), "name": [f"n{i}" for i in range(n)], "empty": None, "same": 1})
    frame = frame.assign(x=np.arange(n) % 7, secret=[f"s{i}" for i in range(n)])
    message = (
        r"^Columns left out: 'row' \(looks like row numbers; use keep='row' to include it\), 'name' \(60 [^)]*\)\.$"
    )
    for fit in (TableEncoder(drop="secret").fit, TableClassifier(encoder=TableEncoder(drop="secret")).fit):
        with pytest.warns(UserWarning, match=message) as told:
            fit(frame, np.arange(n) % 2)
        assert len(told) == 1
    several = pd.DataFrame({f"t{k}": frame["name"] for k in range(7)}).assign(x=frame["x"])
    with pytest.warns(UserWarning, match=r"'t4' .* and 2 more, as describe\(\) shows\.$"):
        TableEncoder().fit(several)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder(keep=["row", "name"], drop="secret").fit(frame)


def test_a_warning_names_columns_of_which_most_values_are_new():
    encoder = TableEncoder(max_levels=2).fit(pd.DataFrame({"x": list("aaabbbccde"), "y": list("uv") * 5}))
    for values in (["d", "e", "c", "z", "z"], [None, None, "a"], [None, "d"]):  # pooled levels were seen
        encoder.transform(pd.DataFrame({"x": values, "y": "u"}))
    with pytest.warns(UserWarning, match="Column 'x': 67% .* such as 'y'") as told:
        encoder.transform(pd.DataFrame({"x": ["y", None, "a", "z"], "y": "u"}))
    assert len(told) == 1


# Weights


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1).filter(lambda rows: any(k for _, k in rows))
)
def test_the_weighted_median_is_that_of_copies(rows):
    values, weight = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
    assert weighted_median(values, weight) == np.median(np.repeat(values, weight.astype(int)))


def test_the_weighted_median_passes_gaps_by():
    assert weighted_median(np.array([np.nan, 1.0, 2.0]), np.array([9.0, 0.5, 0.25])) == 1.0


def mixture(seed, n=70):
    """Numbers, names and dates with gaps, of which weights decide medians, levels and flags; and those weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": rng.normal(size=n).round(1),
        "city": rng.choice(list("abcdefg"), n, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05]),
        "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D"),
        "few": rng.normal(size=n),
    })  # fmt: skip
    frame = frame.mask(rng.random(frame.shape) < 0.12)
    frame.loc[5:, "few"] = frame.loc[5:, "few"].fillna(0.25)
    return frame, rng.integers(0, 4, n)


def copied(frame, times):
    return frame.iloc[np.repeat(np.arange(len(frame)), times)].reset_index(drop=True)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gaps", ["fill", "keep"])
def test_a_weight_of_k_is_k_copies(seed, gaps):
    frame, times = mixture(seed)
    weighted = TableEncoder(gaps=gaps, max_levels=4).fit(frame, sample_weight=times)
    copies = TableEncoder(gaps=gaps, max_levels=4).fit(copied(frame, times))
    assert weighted.plans_ == copies.plans_
    plain = TableEncoder(gaps=gaps, max_levels=4).fit(frame)
    assert weighted.plans_ != plain.plans_  # or nothing was tried
    tidy = TableTidier().fit(frame, sample_weight=times)
    assert tidy.plans_ == TableTidier().fit(copied(frame, times)).plans_


def test_weights_that_are_no_whole_numbers():
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 9.0]})
    encoder = TableEncoder().fit(frame, sample_weight=[0.5, 0.5, 0.25, 2.0])
    assert_array_equal(encoder.transform(frame)[2], [9.0])
    assert encoder.describe()["note"][0] == "0.2 of 3.2 missing, replaced by the median"


@pytest.mark.parametrize(
    ("weight", "message"),
    [(np.zeros(4), "All weights are zero"), ([1.0, 1.0], "one entry for each of the 4 rows"), ([-1, 1, 1, 1], "row 0")],
)
def test_bad_weights_are_told_of(weight, message):
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 9.0]})
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(frame, sample_weight=weight)


def test_weights_reach_the_encoder_of_a_classifier_and_of_files(tmp_path):
    frame, times = mixture(0)
    frame["ill"] = np.where(np.arange(len(frame)) % 3, "yes", "no")
    expected = TableClassifier(BayesianLinearSVC()).fit(copied(frame, times), "ill")
    weighted = TableClassifier(BayesianLinearSVC()).fit(frame, "ill", sample_weight=times)
    assert weighted.encoder_.plans_ == expected.encoder_.plans_
    rows = frame.drop(columns="ill")
    assert_allclose(weighted.predict_proba(rows), expected.predict_proba(rows), atol=1e-6)
    frame.assign(times=times).to_parquet(tmp_path / "rows.parquet", index=False)
    source = chunks.Parquet(tmp_path / "rows.parquet", "ill", weight="times", batch_rows=17)
    assert TableClassifier(BayesianLinearSVC()).fit(source).encoder_.plans_ == expected.encoder_.plans_


def test_an_encoder_that_knows_no_weights_sees_the_rows_that_count():
    frame = pd.DataFrame({"city": ["a", "b"] * 20 + ["c"], "ill": ["yes", "no"] * 20 + ["no"]})
    model = TableClassifier(BayesianLinearSVC(), encoder=OneHotEncoder(sparse_output=False, handle_unknown="ignore"))
    model.fit(frame, "ill", sample_weight=np.r_[np.ones(40), 0.0])
    assert model.encoder_.get_feature_names_out().tolist() == ["city_a", "city_b"]


# Arrays


def test_mixed_models_of_arrays_know_columns_by_their_places():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), np.repeat(np.arange(8), 10)])
    y = X[:, 0] + rng.normal(size=8)[X[:, 1].astype(int)] > 0
    table, plain = TableClassifier(BayesianMixedSVC(groups=1)).fit(X, y), BayesianMixedSVC(groups=1).fit(X, y)
    assert_array_equal(table.predict_proba(X), plain.predict_proba(X))
    named = X.astype(object)
    named[:, 1] = [f"group {int(group)}" for group in X[:, 1]]
    table = TableClassifier(BayesianMixedSVC(groups=1)).fit(named, y)
    assert_allclose(table.predict_proba(named), plain.predict_proba(X), atol=1e-10)
    with pytest.raises(ValueError, match="no column 1; did you mean"):
        TableClassifier(BayesianMixedSVC(groups=1)).fit(pd.DataFrame(X, columns=["x0", "x1"]), y)


# Scores


def test_labels_and_weights_of_a_score_may_be_named(frame):
    model = TableClassifier(BayesianLinearSVC(), keep="number").fit(frame, "late")
    rows, labels = frame.drop(columns="late"), frame["late"]
    plain = model.score(rows, labels)
    assert model.score(frame, "late") == model.score(frame) == plain
    heavy = np.where(labels == "yes", 3.0, 0.5)
    assert model.score(frame.assign(w=heavy), "late", sample_weight="w") == model.score(rows, labels, heavy)
    with pytest.raises(ValueError, match="no column 'lat'; did you mean 'late'"):
        model.score(frame, "lat")


def test_long_levels_are_cut_in_words_only():
    frame = pd.DataFrame({"x": ["a" * 40, "b"] * 5, "y": ["c" * 40, "d", "e", "f", "g"] * 2})
    described = TableEncoder().fit(frame).describe()
    assert described["becomes"][0] == f"1 for b, 0 for {'a' * 21}..."
    assert described["becomes"][1].startswith(f"5 columns of 0 and 1: {'c' * 21}..., d, e")
    assert TableEncoder().fit(frame).get_feature_names_out()[1] == "y=" + "c" * 40
