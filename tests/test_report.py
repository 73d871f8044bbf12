import base64
import hashlib
import os
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import softmargin.report.facts as facts_module
from references_report import HOSTILE, Page, Told, frame_of, number
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
from softmargin.metrics import expected_calibration_error, reliability_curve
from softmargin.report import words
from softmargin.report.page import element, joined, shown
from softmargin.tables import TableClassifier

MEASURES, CONFUSION = "Measures of the probabilities", "Confusion matrix"


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals are tested where they are made."""
    monkeypatch.setattr(facts_module, "_DRAWS", (20, 20))


@pytest.fixture(scope="module")
def tumours():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:, [0, 1, 6, 20]], y.map({0: "malignant", 1: "benign"})
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def svc(tumours):
    return BayesianSVC(random_state=0, n_inducing=30).fit(*tumours[:2])


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


# Numbers -------------------------------------------------------------------------------------------------------------


def values(page):
    return dict(zip(page.column(MEASURES, "Measure"), map(number, page.column(MEASURES, "Value")), strict=True))


def measured(page, name):
    return next(value for word, value in values(page).items() if word.startswith(name))


def test_measures_are_those_of_sklearn(svc, tumours):
    X, y = tumours[2:]
    page, proba = Page(report.html(svc, X, y)), svc.predict_proba(X)
    expected = {
        "error": 1 - accuracy_score(y, svc.predict(X)),
        "balanced error": 1 - balanced_accuracy_score(y, svc.predict(X)),
        "AUC": roc_auc_score(y, proba[:, 1]),
        "log loss": log_loss(y, proba, labels=svc.classes_),
        "Brier": brier_score_loss(y, proba[:, 1], pos_label="malignant"),
        "ECE": expected_calibration_error(y, proba, pos_label="malignant"),
    }
    assert len(values(page)) == len(expected)
    for name, value in expected.items():
        assert measured(page, name) == pytest.approx(value, abs=5.1e-4), name  # three places are written


def test_a_guess_by_shares_is_the_constant_classifier(svc, tumours):
    X, y = tumours[2:]
    page = Page(report.html(svc, X, y))
    share = np.mean(y == "malignant")
    guesses = list(map(number, page.column(MEASURES, "Shares alone")))
    shares = np.tile([1 - share, share], (len(y), 1))
    expected = [min(share, 1 - share), 0.5, 0.5, log_loss(y, shares), share * (1 - share), 0.0]
    np.testing.assert_allclose(guesses, expected, atol=5.1e-4)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_confusion_matrix_is_that_of_sklearn(n_classes, rng):
    classes = np.array(["a", "b", "c", "d"])[:n_classes]
    proba, y = rng.dirichlet(np.ones(n_classes), size=60), rng.choice(classes, 60)
    text = report.html(Told(proba, classes).fit(), np.zeros((60, 1)), y)
    expected = confusion_matrix(y, classes[proba.argmax(axis=1)])
    # A cell holds the count, and in an element of its own the share of the class.
    cells = re.findall(r'<td class="number shade-\d (?:right|wrong)">(\d+)', text)
    np.testing.assert_array_equal(np.reshape(cells, (n_classes, n_classes)).astype(int), expected)
    found = [number(cell) for cell in Page(text).column(CONFUSION, "found")[:-1]]
    recall = recall_score(y, classes[proba.argmax(axis=1)], average=None)
    np.testing.assert_allclose(found, 100 * recall, atol=0.051)


def test_many_classes_have_a_list_of_mistakes(rng):
    classes = np.arange(40)
    proba, y = rng.dirichlet(np.ones(40), size=200), rng.integers(0, 40, 200)
    page = Page(report.html(Told(proba, classes).fit(), np.zeros((200, 2)), y))
    matrix = confusion_matrix(y, proba.argmax(axis=1), labels=classes) * (1 - np.eye(40))
    rows = page.tables["Most common mistakes among 40 classes"][1:]
    assert number(rows[0][2]) == matrix.max()
    assert all(matrix[int(row[0]), int(row[1])] == number(row[2]) for row in rows)


def test_thresholds_are_those_of_sklearn(svc, tumours):
    X, y = tumours[2:]
    page, p = Page(report.html(svc, X, y)), svc.predict_proba(X)[:, 1]
    for row in page.tables["Thresholds"][1:]:
        said = np.where(p > float(row[0]), "malignant", "benign")
        assert number(row[2]) == pytest.approx(100 * recall_score(y, said, pos_label="malignant"), abs=0.051)
        assert number(row[3]) == pytest.approx(100 - 100 * recall_score(y, said, pos_label="benign"), abs=0.051)
        assert number(row[4]) == pytest.approx(100 * precision_score(y, said, pos_label="malignant"), abs=0.051)


def test_reliability_is_that_of_metrics(svc, tumours):
    X, y = tumours[2:]
    page = Page(report.html(svc, X, y))
    curve = reliability_curve(y, svc.predict_proba(X), pos_label="malignant")
    title = "Reliability of the probability of malignant"
    np.testing.assert_allclose(
        list(map(number, page.column(title, "Mean probability"))), curve.probability, atol=5.1e-4
    )
    np.testing.assert_allclose(list(map(number, page.column(title, "Came true"))), curve.frequency, atol=5.1e-4)
    assert list(map(number, page.column(title, "Rows"))) == curve.weight.tolist()


def test_areas_are_those_of_sklearn():
    X, y = load_iris(return_X_y=True)
    model = BayesianLinearSVC().fit(X[::2], y[::2])
    page, proba = Page(report.html(model, X[1::2], y[1::2])), model.predict_proba(X[1::2])
    expected = [roc_auc_score(y[1::2] == k, proba[:, k]) for k in range(3)]
    areas = list(map(number, page.column("Areas under the ROC curves", "Area")))
    np.testing.assert_allclose(areas, expected, atol=5.1e-4)


def test_weights_are_repeats(svc, tumours, rng):
    X, y = tumours[2:]
    weight = rng.integers(0, 4, size=len(y))
    weighted = Page(report.html(svc, X, y, sample_weight=weight))
    repeated = Page(report.html(svc, X.loc[X.index.repeat(weight)], y.loc[y.index.repeat(weight)]))
    assert values(weighted) == values(repeated)
    same = ("Thresholds", "Probabilities of malignant")
    assert all(weighted.tables[name] == repeated.tables[name] for name in same)
    for name in ("Mean probability", "Came true"):  # their intervals differ: copies of a row say no more than the row
        curve = "Reliability of the probability of malignant"
        assert weighted.column(curve, name) == repeated.column(curve, name)
    assert weighted.tables[f"{CONFUSION}, by weight of rows"] == repeated.tables[CONFUSION]
    assert set(weighted.column("Most open rows", "Row")) <= set(map(str, X.index[weight > 0]))


def test_surest_mistakes_come_first_with_their_entries(svc, tumours):
    X, y = tumours[2:]
    page, proba = Page(report.html(svc, X, y)), pd.DataFrame(svc.predict_proba(X), index=X.index)
    wrong = proba[svc.predict(X) != y].max(axis=1).sort_values(ascending=False, kind="stable")
    assert page.column("Surest mistakes", "Row") == list(map(str, wrong.index[:15]))
    first = X.loc[wrong.index[0]]
    told = [number(page.column("Surest mistakes", name)[0]) for name in X.columns]
    np.testing.assert_allclose(told, first, rtol=5e-4)  # four digits are written
    least = proba.max(axis=1).sort_values(kind="stable").index[:15]
    assert page.column("Most open rows", "Row") == list(map(str, least))


def test_what_the_model_expected_stands_beside_what_was_found(svc, tumours):
    X, y = tumours[2:]
    assert f"expected a log loss of {svc.loo_log_loss_:.3f}" in Page(report.html(svc, X, y)).text
    lucky = Told(np.tile([0.999, 0.001], (50, 1)), ["benign", "malignant"]).fit()
    lucky.loo_log_loss_ = 0.5
    assert "perhaps the model learned from these rows" in Page(report.html(lucky, X[:50], ["benign"] * 50)).text
    lucky.loo_log_loss_ = 1e-6
    assert "perhaps these rows are of another population" in Page(report.html(lucky, X[:50], ["benign"] * 50)).text


def test_a_reference_stands_beside(svc, tumours):
    X, y = tumours[2:]
    other = make_pipeline(StandardScaler(), LogisticRegression()).fit(*tumours[:2])
    page = Page(report.html(svc, X, y, reference=other))
    assert page.tables == Page(report.html(svc, X, y, reference=other.predict_proba(X))).tables
    told = dict(zip(values(page), map(number, page.column(MEASURES, "Reference")), strict=True))
    loss = next(value for name, value in told.items() if name.startswith("log loss"))
    assert loss == pytest.approx(log_loss(y, other.predict_proba(X)), abs=5.1e-4)
    assert "not told apart by these rows" in Page(report.html(svc, X, y, reference=svc)).text
    bad = np.tile([0.01, 0.99], (len(y), 1))
    assert "lower than that of the reference" in Page(report.html(svc, X, y, reference=bad)).text


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
    assert type(model[-1] if name == "pipeline" else model).__name__ in page.by_id["model"]
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
        np.testing.assert_allclose(
            list(map(number, numbers)), expected.loc[int(group), ["mean", "low", "high"]], rtol=6e-3
        )
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
    gaps = [int(re.match(r"\d+", cell)[0]) for cell in page.column("Columns", "Gaps")]
    assert gaps == rows.drop(columns="bought").isna().sum().tolist()
    assert "Rome" in page.column("Columns", "Entries")[1]
    assert page.column("Columns", "Entries")[2].startswith("2024-01-02")
    cities = (
        rows["city"]
        .where(rows["city"].notna(), "\N{EN DASH}")
        .loc[list(map(int, page.column("Most open rows", "Row")))]
    )
    assert page.column("Most open rows", "city") == cities.tolist()


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
    assert len(page.tables["Surest rows"][0]) == 5 + 12  # of many columns those that matter most
    largest = int(np.argmax(np.abs(model.coef_[0]) * X.std(axis=0)))
    assert f"x{largest}" in page.tables["Surest rows"][0]
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
    gaps = [int(re.match(r"\d+", cell)[0]) for cell in page.column("Columns", "Gaps")]
    assert gaps == frame.isna().sum().tolist()
    assert page.column("Columns", "Entries")[3] == "nothing but gaps"


def test_classes_that_do_not_occur(rng):
    proba = rng.dirichlet(np.ones(3), size=30)
    page = Page(report.html(Told(proba, ["a", "b", "c"]).fit(), np.zeros((30, 1)), ["a", "b"] * 15))
    assert page.column("Areas under the ROC curves", "Area")[2] == "\N{EN DASH}"
    alone = Page(report.html(Told(proba, ["a", "b", "c"]).fit(), np.zeros((30, 1)), ["b"] * 30))
    assert "nothing to put in order" in alone.by_id["ranking"]
    two = Page(report.html(Told(rng.dirichlet(np.ones(2), size=30), ["a", "b"]).fit(), np.zeros((30, 1)), ["b"] * 30))
    assert "nothing to put in order" in two.by_id["ranking"]


def test_one_row():
    page = Page(report.html(Told([[0.25, 0.75]], [0, 1]).fit(), [[1.0]], [0]))
    assert page.column(MEASURES, "Value")[::3] == ["1.000", "1.386"]
    assert page.column("Surest mistakes", "P(said)") == ["0.750"]


# The page ------------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_of_the_network(svc, tumours):
    text = report.html(svc, *tumours[2:])
    page = Page(text)
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "url(" not in inner
        assert "@import" not in inner
    assert not re.search(r"https?:|//[a-z]", text.replace("</script>", ""))
    named = {name for _, attributes in page.elements for name in attributes}
    assert not named & {"src", "style", "action"}
    assert not any(name.startswith("on") for name in named)
    assert all(a["href"].startswith("#") for _, a in page.elements if "href" in a)


def test_drawings_have_names_and_descriptions(svc, tumours):
    page = Page(report.html(svc, *tumours[2:]))
    drawings = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) >= 5
    for attributes in drawings:
        title, description = (page.by_id[name] for name in attributes["aria-labelledby"].split())
        assert title
        assert description.endswith(".")
    hidden = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") != "img"]
    assert all(attributes["aria-hidden"] == "true" for attributes in hidden)


def test_the_same_rows_make_the_same_page(svc, tumours):
    first = report.html(svc, *tumours[2:], title="Twice")
    assert first == report.html(svc, *tumours[2:], title="Twice")
    assert first != report.html(svc, *tumours[2:], title="Twice", random_state=1)


def test_many_rows_make_a_small_page(rng):
    n = 100_000
    p = rng.beta(0.5, 0.5, size=n)
    frame = pd.DataFrame({"number": rng.normal(size=n), "text": rng.integers(0, 10**9, n).astype(str)})
    text = report.html(
        Told(np.column_stack([1 - p, p]), ["no", "yes"]).fit(), frame, np.where(rng.random(n) < p, "yes", "no")
    )
    assert len(text.encode()) < 100_000


def test_text_is_escaped_and_nothing_else_is():
    assert element("p", "<b>", element("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert element("a", data_x="\"<>&'", hidden=True, id=None) == '<a data-x="&quot;&lt;&gt;&amp;&#x27;" hidden></a>'
    assert joined(["<", ["<"]], None, 1.25) == "&lt;&lt;1.2"


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_shown_text_is_short_visible_and_encodable(text):
    safe = shown(text)
    safe.encode()
    # A character that is written out takes ten at most.
    assert len(safe) <= 600
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", safe)


def hostile_page(names, classes, entries, title):
    rng = np.random.default_rng(0)
    proba = np.round(rng.dirichlet([1, 1], size=12), 3)
    frame = frame_of(names, [list(entries) * 4 for _ in names])
    model = Told(proba, np.array(classes, dtype=object)).fit()
    labels = np.array([classes[k] for k in rng.integers(0, 2, 12)], dtype=object)
    return report.html(model, frame, labels, title=title)


texts = st.sampled_from(HOSTILE) | st.text(max_size=60)


@example(HOSTILE[:2], HOSTILE[2:4], HOSTILE[4:7], HOSTILE[7])
@example(HOSTILE[7:9], HOSTILE[9:11], [HOSTILE[11], HOSTILE[12], HOSTILE[9]], HOSTILE[8])
@example(HOSTILE[9:11], HOSTILE[11:13], HOSTILE[:3], HOSTILE[9])
@settings(max_examples=40)
@given(
    st.lists(texts, min_size=2, max_size=2, unique=True),
    st.lists(texts, min_size=2, max_size=2, unique=True),
    st.lists(texts, min_size=3, max_size=3, unique=True),
    texts,
)
def test_no_element_comes_from_data(names, classes, entries, title):
    hostile = hostile_page(names, classes, entries, title)
    hostile.encode()
    benign = Page(hostile_page(["one", "two"], ["a", "b"], ["x", "y", "z"], "title"))
    page = Page(hostile)
    assert page.tags == benign.tags
    assert [set(a) for _, a in page.elements] == [set(a) for _, a in benign.elements]
    # What a reader is told is what was given.
    assert page.by_id["data"].count(shown(names[0])) >= 1


def test_long_names_are_shortened():
    text = hostile_page(["x" * 10_000, "y"], ["a" * 10_000, "b"], ["c" * 10_000, "d", "e"], "t" * 10_000)
    assert len(text) < 100_000
    assert "x" * 100 not in text


# Files and mistakes --------------------------------------------------------------------------------------------------


def test_write_replaces_what_was_there(svc, tumours, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    assert report.write(path, svc, *tumours[2:], title="After") == path
    assert path.read_text(encoding="utf-8") == report.html(svc, *tumours[2:], title="After")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_failed_write_leaves_what_was_there(svc, tumours, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        report.write(path, svc, *tumours[2:])
    assert os.listdir(tmp_path) == ["report.html"]
    assert path.read_text() == "before"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": None}, "needs the labels"),
        ({"y": ["no such class"] * 4}, "does not know, such as 'no such class'"),
        ({"y": "no such column"}, "names a column that X does not have"),
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
