"""Classifiers of whole tables: frames in, probabilities out, from memory and from files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import softmargin
from softmargin import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.store import StoreError
from softmargin.tables import TableClassifier, read_table
from softmargin.uncertainty import entropy, mutual_information, variation_ratio

#: Many of these tables have an identifier; where the warning is tested, it is awaited.
pytestmark = pytest.mark.filterwarnings("ignore:Columns left out")

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
    assert_allclose(model.predict_log_proba(visits[200:]), np.log(proba))
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
    with pytest.raises(StoreError, match="encoder does not match its model"):
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
    with pytest.raises(StoreError, match="its encoder does not make a column numeric"):
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
    with pytest.raises(ValueError, match="X is not a frame"):
        TableClassifier().fit(np.zeros((3, 2)), "ill")


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


def test_batches_of_polars_frames_are_as_good_as_those_of_pandas(visits):
    polars = pytest.importorskip("polars")
    labels, table = visits["ill"].to_numpy(), visits.drop(columns="ill")
    halves = slice(0, 60), slice(60, None)
    models = [
        TableClassifier().fit(softmargin.chunks.Batches([(kind(table.iloc[half]), labels[half]) for half in halves]))
        for kind in (lambda part: part, polars.from_pandas)
    ]
    ours, theirs = (model.predict_proba(table) for model in models)
    assert_allclose(ours, theirs, atol=1e-12)


def test_arrays_are_no_tables():
    with pytest.raises(ValueError, match="needs named columns"):
        TableClassifier().fit(softmargin.chunks.Batches([(np.zeros((3, 2)), [0, 1, 1])]))
