"""Reports of every model and of every kind of table, and what is refused."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softmargin.report.facts as facts_module
from references_report import CONFUSION, MEASURES, Page, Told, fitted_svc, number, some_tumours
from softmargin import (
    BayesianGPC,
    BayesianKernelMachine,
    BayesianLinearSVC,
    BayesianMixedSVC,
    BayesianSVC,
    load,
    report,
)
from softmargin.inference import INFERENCES
from softmargin.likelihoods import LOSSES
from softmargin.report import words
from softmargin.report.page import shown
from softmargin.tables import TableClassifier


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals are tested where they are made."""
    monkeypatch.setattr(facts_module, "_DRAWS", (20, 20))


@pytest.fixture(scope="module")
def tumours():
    return some_tumours()


@pytest.fixture(scope="module")
def svc(tumours):
    return fitted_svc(tumours)


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(40), 8)
    table = pd.DataFrame({"patient": patient, "clinic": patient % 5, "month": np.tile(np.arange(8.0), 40)})
    table["dose"] = rng.normal(size=320)
    latent = table["dose"] - 0.5 * table["month"] + 2 * rng.normal(size=40)[patient] + rng.logistic(size=320)
    table["ill"] = np.where(latent > -1, "yes", "no")
    table.loc[rng.random(320) < 0.2, "dose"] = np.nan
    return table


# Models --------------------------------------------------------------------------------------------------------------

MODELS = {
    "svc": BayesianSVC(random_state=0, n_inducing=30),
    "matern": BayesianSVC("matern", loss="probit", random_state=0, n_inducing=20, link="probit"),
    "held": BayesianSVC(tune=None, random_state=0, n_inducing=20, class_weight="balanced"),
    "gpc": BayesianGPC(random_state=0, n_inducing=30),
    "linear": BayesianLinearSVC(),
    "selected": BayesianLinearSVC(prior="laplace-zero"),
    "machine": BayesianKernelMachine(random_state=0, inference="stein", n_frequencies=32, n_particles=4, n_steps=40),
    "waves": BayesianKernelMachine(random_state=0, inference="cavi", n_frequencies=32),
    "svi": BayesianSVC(inference="svi", random_state=0, n_inducing=20),
    "pipeline": make_pipeline(StandardScaler(), BayesianSVC(random_state=0, n_inducing=20)),
    "one step": make_pipeline(BayesianSVC(random_state=0, n_inducing=20)),
    "other": LogisticRegression(max_iter=5000),
}
LEARNED = {
    "linear": ["Coefficients, towards malignant"],
    "selected": ["Selected columns", "Coefficients, towards malignant"],
    "other": None,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_report(name, tumours):
    model = MODELS[name].fit(*tumours[:2])
    text = report.html(model, *tumours[2:])
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    learned = LEARNED.get(name, ["Relevance of columns"])
    assert ("learned" in page.by_id) == (learned is not None)
    for caption in learned or ():
        assert set(page.column(caption, "Column")) == set(tumours[0].columns)
    assert type(model[-1] if name in ("pipeline", "one step") else model).__name__ in page.by_id["model"]
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+", "", page.text.lower())


def test_relevance_is_spread_over_length_scale(svc, tumours):
    X = tumours[2]
    page = Page(report.html(svc, *tumours[2:]))
    scale = np.array(svc.kernel_.first.second.length_scale)
    expected = dict(zip(X.columns, X.std(ddof=0) / scale, strict=True))
    told = dict(zip(*(page.column("Relevance of columns", name) for name in ("Column", "Relevance")), strict=True))
    for name, value in expected.items():
        assert number(told[name]) == pytest.approx(value, rel=5e-3)  # three digits are written
    assert list(told) == sorted(expected, key=expected.__getitem__, reverse=True)


def test_many_classes_have_coefficients_each():
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
    model = BayesianLinearSVC(prior="laplace-zero").fit(X[::2], y[::2])
    page = Page(report.html(model, X[1::2], y[1::2]))
    for k, name in enumerate(model.classes_):
        told = page.tables[f"Coefficients, towards {name}"][1:]
        places = [X.columns.get_loc(row[0]) for row in told]
        np.testing.assert_allclose([number(row[1]) for row in told], model.coef_[k, places], rtol=5e-3, atol=1e-4)
        assert f"Selected columns, {name}" in page.tables


@pytest.mark.parametrize(
    "formula", ["ill ~ month + dose + (1 + month | patient) + (1 | clinic)", "ill ~ dose + (1 | patient)"]
)
def test_mixed_models_show_their_groups(formula, visits):
    model = BayesianMixedSVC(formula).fit(visits[::2])
    page = Page(report.html(model, visits[1::2]))  # labels are those that the formula names
    effects = model.random_effects(level=0.95)
    told = page.tables["Intercept by patient"][1:]
    expected = effects[(effects["factor"] == "patient") & (effects["effect"] == "Intercept")].set_index("group")
    assert len(told) == 40
    for group, *numbers in told:
        wanted = expected.loc[int(group), ["mean", "low", "high"]].astype(float)  # pandas 2 has it as objects
        np.testing.assert_allclose(list(map(number, numbers)), wanted, rtol=6e-3)
    sd = np.sqrt(model.variance_components_["patient"][0, 0])
    assert number(page.tables["Variance components"][1][2]) == pytest.approx(sd, rel=5e-3)
    assert shown(formula, 200) in page.text
    assert "ill" not in page.column("Columns", "Column")
    assert page.tables["Columns"][4][2].startswith(str(visits["dose"][1::2].isna().sum()))


def test_mixed_models_of_many_classes(visits):
    table = visits.assign(ill=np.where(visits["month"] > 6, "late", visits["ill"]))
    model = BayesianMixedSVC("ill ~ month + (1 | clinic)").fit(table)
    page = Page(report.html(model, table))
    assert {f"Intercept by clinic, towards {name}" for name in ("late", "no", "yes")} <= set(page.tables)


def test_draws_and_particles_have_traces(tumours):
    with pytest.warns(Warning, match="mixed"):
        drawn = BayesianLinearSVC(inference="gibbs", n_draws=30, n_chains=2, random_state=0).fit(*tumours[:2])
    assert "draws-title" in Page(report.html(drawn, *tumours[2:])).by_id
    machine = MODELS["machine"].fit(*tumours[:2])
    page = Page(report.html(machine, *tumours[2:]))
    assert {"bound-title", "particles-title"} <= set(page.by_id)


def test_a_model_from_a_file_has_the_same_report(svc, tumours, tmp_path):
    svc.save(tmp_path / "model.sm")
    assert report.html(load(tmp_path / "model.sm"), *tumours[2:]) == report.html(svc, *tumours[2:])


def test_every_word_of_the_library_is_known():
    assert set(LOSSES) <= set(words._LOSSES)
    assert set(INFERENCES) <= set(words._INFERENCES)
    assert set(BayesianGPC._TUNINGS) | set(BayesianSVC._TUNINGS) <= set(words._TUNINGS)


# Tables --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop():
    rng = np.random.default_rng(1)
    age, city = rng.integers(18, 90, 200).astype(float), rng.choice(["Rome", "Oslo", "Lima"], 200).astype(object)
    bought = np.where(age + 30 * (city == "Rome") + 20 * rng.logistic(size=200) > 60, "yes", "no")
    age[::9], city[::7] = np.nan, None
    seen = pd.date_range("2024-01-01", periods=200, freq="D").to_numpy()
    return pd.DataFrame({"age": age, "city": city, "seen": seen, "member": age > 50, "bought": bought})


@pytest.mark.parametrize("classifier", [BayesianSVC(random_state=0), BayesianLinearSVC()])
def test_tables_are_shown_as_they_came(shop, classifier):
    model = TableClassifier(classifier).fit(shop[::2], "bought")
    rows = shop[1::2]
    page = Page(report.html(model, rows))
    assert page.column("Columns", "Column") == ["age", "city", "seen", "member"]
    described = model.encoder_.describe()
    assert page.column("Columns", "Kind") == described["kind"].tolist()
    assert page.column("Columns", "Note") == described["note"].tolist()
    gaps = [int(re.match(r"\d+", cell)[0]) for cell in page.column("Columns", "Missing")]
    assert gaps == rows.drop(columns="bought").isna().sum().tolist()
    assert "Rome" in page.column("Columns", "Entries")[1]
    assert page.column("Columns", "Entries")[2].startswith("2024-01-02")
    cities = (
        rows["city"]
        .where(rows["city"].notna(), "\N{EN DASH}")
        .loc[list(map(int, page.column("Most uncertain rows", "Row")))]
    )
    assert page.column("Most uncertain rows", "city") == cities.tolist()


def test_labels_may_come_in_any_way(shop):
    model = TableClassifier(BayesianLinearSVC()).fit(shop, "bought")
    apart = report.html(model, shop.drop(columns="bought"), shop["bought"])
    assert apart == report.html(model, shop) == report.html(model, shop, "bought")
    assert apart == report.html(model, shop, shop["bought"].tolist())


def test_polars_is_pandas(shop):
    model = TableClassifier(BayesianLinearSVC()).fit(shop, "bought")
    text = report.html(model, pl.from_pandas(shop))
    assert Page(text).tables == Page(report.html(model, shop)).tables


def test_arrays_and_sparse_matrices(tumours, rng):
    X, y = rng.poisson(0.5, size=(120, 30)).astype(float), rng.random(120) < 0.5
    model = BayesianLinearSVC().fit(X, y)
    page = Page(report.html(model, X, y))
    assert page.column("Columns", "Column") == [f"x{k}" for k in range(30)]
    assert len(page.tables["Most certain rows"][0]) == 5 + 12  # of many columns those that matter most
    largest = int(np.argmax(np.abs(model.coef_[0]) * X.std(axis=0)))
    assert f"x{largest}" in page.tables["Most certain rows"][0]
    sparse = BayesianLinearSVC().fit(scipy.sparse.csr_matrix(X), y)
    assert Page(report.html(sparse, scipy.sparse.csr_matrix(X), y)).tables[CONFUSION] == page.tables[CONFUSION]


def test_nullable_and_odd_columns(rng):
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3, 4], dtype="Int64"),
            "truth": pd.array([True, None, False, True], dtype="boolean"),
            "kind": pd.Categorical(["a", None, "b", "b"]),
            "empty": [None] * 4,
            "when": pd.to_datetime(["2024-01-01", None, "2024-03-01", "2024-05-05"]),
            "zone": pd.to_datetime(["2024-01-01", None, "2024-03-01", "2024-05-05"]).tz_localize("UTC"),
            "mixed": [1, "one", None, 2.5],
        }
    )
    model = Told([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], ["a", "b"]).fit()
    page = Page(report.html(model, frame, ["a", "b", "b", "a"]))
    gaps = [int(re.match(r"\d+", cell)[0]) for cell in page.column("Columns", "Missing")]
    assert gaps == frame.isna().sum().tolist()
    assert page.column("Columns", "Entries")[3] == "all missing"


def test_classes_that_do_not_occur(rng):
    proba = rng.dirichlet(np.ones(3), size=30)
    page = Page(report.html(Told(proba, ["a", "b", "c"]).fit(), np.zeros((30, 1)), ["a", "b"] * 15))
    assert page.column("Areas under the ROC curves", "Area")[2] == "\N{EN DASH}"
    alone = Page(report.html(Told(proba, ["a", "b", "c"]).fit(), np.zeros((30, 1)), ["b"] * 30))
    assert "nothing to rank" in alone.by_id["ranking"]
    two = Page(report.html(Told(rng.dirichlet(np.ones(2), size=30), ["a", "b"]).fit(), np.zeros((30, 1)), ["b"] * 30))
    assert "nothing to rank" in two.by_id["ranking"]


def test_one_row():
    page = Page(report.html(Told([[0.25, 0.75]], [0, 1]).fit(), [[1.0]], [0]))
    assert page.column(MEASURES, "Value")[::3] == ["1.000", "1.386"]
    assert page.column("Most confident mistakes", "P(predicted)") == ["0.750"]


# Mistakes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": None}, "needs the labels"),
        ({"y": ["no such class"] * 4}, "does not know, such as 'no such class'"),
        ({"y": "no such column"}, "is not a column of X"),
        ({"y": ["a"] * 3}, "inconsistent numbers of samples"),
        ({"sample_weight": [0.0] * 4}, "All weights are zero"),
        ({"reference": np.ones((4, 3)) / 3}, r"shape \(4, 2\), got \(4, 3\)"),
        ({"X": np.zeros((0, 2)), "y": []}, "no rows"),
        ({"X": np.zeros(4)}, "table of rows and columns"),
    ],
)
def test_mistakes_are_named(options, message):
    given = {"X": np.zeros((4, 2)), "y": ["a", "b", "a", "b"]} | options
    with pytest.raises(ValueError, match=message):
        report.html(Told(np.tile([0.5, 0.5], (4, 1)), ["a", "b"]).fit(), **given)


def test_classifiers_without_probabilities_are_refused(tumours):
    from sklearn.svm import LinearSVC

    with pytest.raises(ValueError, match="predict_proba"):
        report.html(LinearSVC().fit(*tumours[:2]), *tumours[2:])
