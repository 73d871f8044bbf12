"""The command, on tables of users: what it prints, writes, and refuses."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from softmargin import __version__, cli, evaluation, load


def invoke(*arguments):
    return CliRunner().invoke(cli.build(), [str(argument) for argument in arguments])


def python(*arguments, cwd=None):
    """A process that finds this very package, from any folder."""
    env = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=env)


def test_version_and_help():
    assert invoke("--version").stdout == f"softmargin {__version__}\n"
    assert "demo" in invoke("--help").stdout
    assert invoke("demo", "--nonsense").exit_code == 2


@pytest.mark.parametrize("absent", ["typer", "rich", "matplotlib", "pandas"])
def test_absent_extras_are_answered_in_one_line(absent):
    code = f"import sys; sys.modules[{absent!r}] = None; from softmargin.cli import main; main()"
    done = python("-c", code)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.endswith('pip install "softmargin[cli]"')


# Tables of users


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A table with strings, dates and holes, in a folder of its own."""
    rng = np.random.default_rng(0)
    n = 160
    frame = pd.DataFrame({
        "age": rng.normal(50, 10, n).round(1),
        "city": rng.choice(["Rome", "Oslo", "Cairo"], n),
        "seen": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")).strftime("%Y-%m-%d"),
        "clinic": rng.choice(list("uvwxyz"), n),
        "copies": rng.integers(0, 3, n),
    })  # fmt: skip
    latent = (frame["age"] - 50) / 4 + 2.0 * (frame["city"] == "Oslo") - 1
    frame["ill"] = np.where(latent + rng.logistic(size=n) > 0, "yes", "no")
    frame.loc[:15, "age"] = None
    frame.loc[10:25, "city"] = None
    frame.loc[30:32, "ill"] = None
    folder = tmp_path_factory.mktemp("visits")
    frame.to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv"


@pytest.fixture(scope="module")
def model(visits):
    """A model of that table, and rows that it has not seen."""
    out, held = visits.with_name("model.sm"), visits.with_name("held.csv")
    done = invoke(
        "fit", visits, "--target", "ill", "--drop", "copies", "--out", out, "--hold-out", held, "--model", "linear"
    )
    assert done.exit_code == 0, done.output
    return out, held


def test_fit_shows_what_became_of_columns_and_saves_it(visits, tmp_path):
    done = invoke("fit", visits, "--target", "ill", "--out", tmp_path / "m.sm", "--drop", "copies")
    assert done.exit_code == 0, done.output
    assert "3 rows without a value in 'ill' are left out." in done.stderr
    for text in ("category", "days since 2024-01", "missing", "BayesianSVC: 157 rows", "Leave-one-out log loss: "):
        assert text in done.stdout
    table = load(tmp_path / "m.sm")
    assert table.target_ == "ill"
    assert table.encoder_.describe()["column"].tolist() == ["age", "city", "seen", "clinic"]
    assert f"log loss: {table.classifier_.loo_log_loss_:.3f}" in done.stdout


def test_one_row_is_counted_in_the_singular(visits, model, tmp_path):
    rows = pd.read_csv(visits).drop(columns="copies").dropna(subset="ill")
    rows.assign(ill=rows["ill"].where(np.arange(len(rows)) != 5)).to_csv(tmp_path / "gap.csv", index=False)
    done = invoke("fit", tmp_path / "gap.csv", "--target", "ill", "--model", "linear", "--out", tmp_path / "m.sm")
    assert "1 row without a value in 'ill' is left out." in done.stderr
    rows[:1].to_csv(tmp_path / "one.csv", index=False)
    assert "1 row; intervals" in invoke("evaluate", model[0], tmp_path / "one.csv").stdout
    assert "1 prediction: " in invoke("predict", model[0], tmp_path / "one.csv", "--out", tmp_path / "p.csv").stdout


def test_rows_held_out_are_those_that_the_fit_has_not_seen(visits, model):
    out, held = model
    rows, whole = pd.read_csv(held), pd.read_csv(visits).dropna(subset="ill").drop(columns="copies")
    table = load(out)
    assert len(rows) == 40  # a quarter of 157
    assert rows.columns.tolist() == whole.columns.tolist()
    assert rows.merge(whole, how="left", indicator=True)["_merge"].eq("both").all()
    assert rows["ill"].value_counts(normalize=True)["yes"] == pytest.approx(whole["ill"].eq("yes").mean(), abs=0.02)
    alone = table.classifier_
    assert alone.n_features_in_ == len(table.encoder_.get_feature_names_out())
    rest = whole[~whole.index.isin(whole.reset_index().merge(rows)["index"])]
    again = type(table)(type(alone)(random_state=0)).fit(rest, "ill")
    np.testing.assert_allclose(again.predict_proba(rows), table.predict_proba(rows), atol=1e-8)


def test_predictions_are_those_of_the_model(model, tmp_path):
    out, held = model
    rows, table = pd.read_csv(held), load(out)
    printed = invoke("predict", out, held)
    frame = pd.read_csv(io.StringIO(printed.stdout))
    assert frame.columns.tolist() == ["predicted", "probability of no", "probability of yes"]
    np.testing.assert_allclose(frame.iloc[:, 1:], table.predict_proba(rows), rtol=1e-12)
    assert frame["predicted"].tolist() == table.predict(rows).tolist()
    written = tmp_path / "p.parquet"
    done = invoke("predict", out, held, "--out", written, "--keep", "age, city", "--latent")
    assert "40 predictions" in done.stdout
    frame = pd.read_parquet(written)
    assert frame.columns.tolist()[:3] == ["age", "city", "predicted"]
    mean, variance = table.latent_mean_and_variance(rows)
    np.testing.assert_allclose(frame["latent mean"], mean)
    np.testing.assert_allclose(frame["latent sd"], np.sqrt(variance))
    records = json.loads(invoke("predict", out, held, "--json", "--keep", "city").stdout)
    assert len(records) == 40
    assert {record["city"] for record in records} >= {"Rome", None}


def test_columns_may_come_in_any_order_and_among_others(model, tmp_path):
    out, held = model
    rows = pd.read_csv(held)
    rows[["extra", *rows.columns[::-1]]] = rows.assign(extra=1)[["extra", *rows.columns[::-1]]]
    rows.sample(axis=1, frac=1, random_state=0).to_csv(tmp_path / "mixed.csv", index=False)
    assert invoke("predict", out, tmp_path / "mixed.csv").stdout == invoke("predict", out, held).stdout


def test_evaluation_is_that_of_the_library(model):
    out, held = model
    table, rows = load(out), pd.read_csv(held)
    facts = json.loads(invoke("evaluate", out, held, "--json", "--bootstrap", 50, "--seed", 3).stdout)
    own = evaluation.evaluate(
        rows["ill"], table.predict_proba(rows), classes=table.classes_, n_bootstrap=50, random_state=3
    )
    assert facts == own.as_dict()
    shown = invoke("evaluate", out, held, "--bootstrap", 50).stdout
    assert "balanced error" in shown
    assert f"{own['log_loss'].value:.4f}" in shown


def test_weights_are_a_column(visits, tmp_path):
    done = invoke(
        "fit",
        visits,
        "--target",
        "ill",
        "--weight",
        "copies",
        "--model",
        "linear",
        "--out",
        tmp_path / "m.sm",
        "--json",
    )
    facts = json.loads(done.stdout)
    assert facts["classes"] == ["no", "yes"]
    assert [column["column"] for column in facts["columns"]] == ["age", "city", "seen", "clinic"]
    weighted = invoke("evaluate", tmp_path / "m.sm", visits, "--weight", "copies", "--json", "--bootstrap", 2)
    plain = invoke("evaluate", tmp_path / "m.sm", visits, "--json", "--bootstrap", 2)
    assert (
        json.loads(weighted.stdout)["measures"]["error"]["value"]
        != json.loads(plain.stdout)["measures"]["error"]["value"]
    )


def test_mixed_models_have_formulas_or_groups(visits, tmp_path):
    for options in (
        ["--formula", "ill ~ age + city + (1 | clinic)"],
        ["--groups", "clinic", "--target", "ill", "--drop", "seen"],
    ):
        done = invoke("fit", visits, "--model", "mixed", *options, "--out", tmp_path / "m.sm", "--quiet")
        assert done.exit_code == 0, done.output
        table = load(tmp_path / "m.sm")
        assert set(table.classifier_.variance_components_) == {"clinic"}
        assert invoke("evaluate", tmp_path / "m.sm", visits, "--bootstrap", 2).exit_code == 0


def test_labels_that_are_numbers_survive_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60)}).assign(y=lambda table: (table["x"] > 0).astype(int) + 1)
    frame.loc[3, "y"] = None  # so that they are read as floats
    frame.to_csv(tmp_path / "t.csv", index=False)
    invoke("fit", tmp_path / "t.csv", "--target", "y", "--model", "linear", "--out", tmp_path / "m.sm")
    assert load(tmp_path / "m.sm").classes_.tolist() == [1, 2]
    facts = json.loads(invoke("evaluate", tmp_path / "m.sm", tmp_path / "t.csv", "--json", "--bootstrap", 2).stdout)
    assert facts["measures"]["error"]["value"] < 0.1


def test_report_is_written(model, tmp_path):
    out, held = model
    done = invoke("report", out, held, "--out", tmp_path / "r.html", "--title", "Visits <2024>")
    assert done.exit_code == 0, done.output
    assert "Visits &lt;2024&gt;" in (tmp_path / "r.html").read_text()


def test_compare_prints_all_models_on_one_table(visits):
    options = ["--target", "ill", "--models", "BayesianLinearSVC,logistic regression", "--folds", 2, "--rows", 100]
    shown = invoke("compare", visits, *options)
    assert shown.exit_code == 0, shown.output
    assert "visits.csv (100 x 5)" in shown.stdout
    assert "…" not in shown.stdout  # every number fits into 80 columns
    facts = json.loads(invoke("compare", visits, *options, "--json").stdout)
    assert {one["model"]: one["ours"] for one in facts["models"]} == {
        "BayesianLinearSVC": True,
        "logistic regression": False,
    }
    assert facts["models"][0]["log_loss_behind"] == 0
    assert facts["models"][0]["first"]
    assert facts["rows"] == 100


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "{data}", "--target", "il"], 1, "no column 'il' (--target); did you mean 'ill'?"),
        (["fit", "{data}", "--target", "ILL"], 1, "did you mean 'ill'?"),
        (["fit", "{data}", "--target", "ill", "--drop", "cty"], 1, "did you mean 'city'?"),
        (["fit", "{data}", "--target", "ill", "--weight", "copy"], 1, "did you mean 'copies'?"),
        (["fit", "{data}", "--target", "age"], 1, "that is a quantity, not a class"),
        (["fit", "{data}"], 2, "which column holds the labels?"),
        (["fit", "{data}", "--target", "ill", "--model", "svm"], 2, "'svm' is not one of svc, linear"),
        (["fit", "{data}", "--target", "ill", "--formula", "ill ~ age"], 2, "only --model mixed has groups"),
        (["fit", "{data}", "--target", "ill", "--model", "mixed"], 2, "needs --formula or --groups"),
        (["fit", "{data}", "--target", "ill", "--model", "linear", "--n-inducing", "5"], 2, "has no such option"),
        (["fit", "{data}", "--target", "ill", "--out", "nowhere/m.sm"], 2, "does not exist"),
        (["fit", "visit.csv", "--target", "ill"], 1, "There is no file 'visit.csv'"),
        (["predict", "{data}", "{data}"], 1, "Cannot read"),
        (["predict", "modl.sm", "{data}"], 1, "There is no model 'modl.sm'"),
        (["predict", "{model}", "{data}", "--keep", "agee"], 1, "did you mean 'age'?"),
        (["predict", "{model}", "{data}", "--out", "a.docx"], 2, "must end in"),
        (["evaluate", "{model}", "{data}", "--target", "sick"], 1, "no column 'sick'"),
        (["evaluate", "{model}", "{data}", "--target", "copies"], 1, "classes that the probabilities do not know"),
        (["fit", "{data}", "--target", "ill", "--out", "{data}"], 2, "suffix of a table: model files end in .sm"),
        (["fit", "{data}", "--target", "ill", "--hold-out", "{data}"], 2, "is an input of this command"),
        (["predict", "{model}", "{data}", "--out", "{data}"], 2, "is an input of this command"),
        (["compare", "{data}"], 2, "which column holds the labels?"),
        (["compare", "{data}", "--target", "ill", "--models", "magic"], 2, "'magic' is not one of"),
        (["compare", "{data}", "--target", "ill", "--folds", "90"], 1, "fewer than there are folds"),
        (["report", "{model}", "{data}", "--out", "r.pdf"], 2, "must end in .html"),
    ],
)  # fmt: skip
def test_what_will_not_do_is_told_in_a_sentence(arguments, code, message, visits, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    known = {"data": visits, "model": model[0]}
    done = invoke(*(argument.format(**known) for argument in arguments))
    assert done.exit_code == code, done.output
    assert message in done.output
    assert "Traceback" not in done.output


def test_a_table_without_a_known_column_names_the_nearest(model, tmp_path):
    out, held = model
    pd.read_csv(held).rename(columns={"age": "Age"}).to_csv(tmp_path / "t.csv", index=False)
    done = invoke("predict", out, tmp_path / "t.csv")
    assert done.exit_code == 1
    assert "no column 'age', but the model was fitted on it; did you mean 'Age'?" in done.output


@pytest.mark.filterwarnings("default:Time was up")
def test_warnings_are_told_without_their_source(visits, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    done = invoke("fit", visits, "--target", "ill", "--max-time", 1e-9, "--out", tmp_path / "m.sm")
    assert done.exit_code == 0, done.output
    told = "Warning: Time was up after max_time=1e-09 seconds before the fit converged; this is the best model so far."
    assert done.stderr.splitlines().count(told) == 1
    assert "ConvergenceWarning" not in done.stderr
    assert ".py" not in done.stderr


def test_a_reader_who_has_had_enough_is_no_error(model):
    out, held = model
    command = f"{sys.executable} -m softmargin.cli predict {out} {held} | head -n 1"
    env = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=env)
    assert done.stdout.startswith("predicted,")
    assert "Broken pipe" not in done.stderr


def test_classes_that_a_model_knows_are_no_quantity(tmp_path):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(12), 30)
    pd.DataFrame({"x": codes + 0.1 * rng.normal(size=360), "y": codes}).to_csv(tmp_path / "t.csv", index=False)
    held = tmp_path / "h.csv"
    done = invoke(
        "fit", tmp_path / "t.csv", "--target", "y", "--model", "linear", "--hold-out", held, "--out", tmp_path / "m.sm"
    )
    assert done.exit_code == 0, done.output
    done = invoke("evaluate", tmp_path / "m.sm", held, "--bootstrap", 2)
    assert done.exit_code == 0, done.output


def test_truth_values_beside_gaps_are_labels(tmp_path):
    frame = pd.DataFrame({"x": np.arange(40) % 7 + 0.5, "y": np.arange(40) % 7 > 3}).astype({"y": object})
    frame.loc[3, "y"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = invoke("fit", tmp_path / "t.csv", "--target", "y", "--model", "linear", "--out", tmp_path / "m.sm")
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "m.sm").classes_.tolist() == [False, True]


def test_nothing_is_written_where_a_fit_fails(visits, tmp_path):
    options = ["--hold-out", tmp_path / "h.csv", "--out", tmp_path / "m.sm", "--device", "nowhere"]
    assert invoke("fit", visits, "--target", "ill", *options).exit_code == 1
    assert list(tmp_path.iterdir()) == []
