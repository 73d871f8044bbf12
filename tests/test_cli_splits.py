"""The command: columns that are kept, rows that belong together, rows that were seen, codes as they are written."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from softmargin import cli, load


def invoke(*arguments):
    return CliRunner().invoke(cli.build(), [str(argument) for argument in arguments])


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """Visits of patients with a row number, in a folder of its own."""
    monkeypatch.setenv("COLUMNS", "400")
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(30), 5)
    frame = pd.DataFrame({"row": np.arange(1, 151), "patient": [f"p{i}" for i in who], "dose": rng.normal(size=150)})
    frame["ill"] = np.where(frame["dose"] + rng.normal(size=30)[who] + rng.logistic(size=150) > 0, "yes", "no")
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def fit(visits, *options):
    done = invoke("fit", visits, "--target", "ill", "--model", "linear", "--out", visits.with_name("m.sm"), *options)
    assert done.exit_code == 0, done.output
    return done


def test_columns_that_look_like_identifiers_are_had_back(visits):
    done = fit(visits)
    assert "looks like row numbers; use --keep row to include it" in done.output
    assert "row" not in load(visits.with_name("m.sm")).encoder_.get_feature_names_out()
    fit(visits, "--keep", "row")
    assert "row" in load(visits.with_name("m.sm")).encoder_.get_feature_names_out()
    assert "did you mean 'row'" in invoke("fit", visits, "--target", "ill", "--keep", "rows").output


def test_what_is_left_out_is_told_once(visits):
    assert "left out" not in fit(visits).stderr  # as standard output says it
    chosen = ["--target", "ill", "--models", "BayesianLinearSVC,logistic regression", "--folds", 3, "--json"]
    done = invoke("compare", visits, *chosen)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("Columns left out") == 1
    assert "Columns left out: 'row' (looks like row numbers; use --keep row to include it)." in done.stderr
    assert "left out" not in invoke("compare", visits, *chosen, "--keep", "row").stderr


def test_whole_groups_are_held_out(visits, tmp_path):
    held = tmp_path / "held.csv"
    done = fit(visits, "--hold-out", held, "--split-by", "patient")
    assert "Warning" not in done.output
    whole, unseen = pd.read_csv(visits), pd.read_csv(held)
    times = whole["patient"].value_counts()
    assert all(times[who] == count for who, count in unseen["patient"].value_counts().items())
    model = load(tmp_path / "m.sm")
    assert model.feature_names_in_.tolist() == ["row", "dose"]
    by_groups = invoke("evaluate", tmp_path / "m.sm", held, "--groups", "patient")
    assert f"{len(unseen)} rows of {unseen['patient'].nunique()} groups" in by_groups.output
    facts = [
        json.loads(invoke("evaluate", tmp_path / "m.sm", held, "--json", *more).stdout)["measures"]["log_loss"]
        for more in ([], ["--groups", "patient"])
    ]
    assert facts[0]["value"] == facts[1]["value"]
    assert facts[0]["low"] != facts[1]["low"]


def test_mixed_models_learn_from_the_groups_that_are_held_out(visits, tmp_path):
    formula = ["--model", "mixed", "--formula", "ill ~ dose + (1 | patient)"]
    options = ["--hold-out", tmp_path / "h.csv", "--split-by", "patient", "--out", tmp_path / "m.sm"]
    done = invoke("fit", visits, *formula, *options)
    assert done.exit_code == 0, done.output
    assert "patient" in load(tmp_path / "m.sm").feature_names_in_


def test_reports_by_groups(visits, tmp_path):
    fit(visits, "--hold-out", tmp_path / "h.csv", "--split-by", "patient")
    n_groups = pd.read_csv(tmp_path / "h.csv")["patient"].nunique()
    for options, whom in ([], "the rows"), (["--groups", "patient"], f"{n_groups} groups of rows"):
        done = invoke("report", tmp_path / "m.sm", tmp_path / "h.csv", "--out", tmp_path / "r.html", *options)
        assert done.exit_code == 0, done.output
        assert f"bootstrap samples of {whom}." in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "patent" in invoke("report", tmp_path / "m.sm", tmp_path / "h.csv", "--groups", "patent").output


def test_rows_that_were_seen_are_told_of(visits, tmp_path):
    fit(visits)
    for command in ("evaluate", "report"):
        out = ["--out", tmp_path / "r.html"] if command == "report" else []
        done = invoke(command, tmp_path / "m.sm", visits, *out)
        assert done.exit_code == 0, done.output
        assert "Warning: 150 of 150 evaluation rows are equal to training rows" in done.stderr


@pytest.mark.filterwarnings("always")
def test_copies_on_both_sides_are_told_of(visits, tmp_path):
    whole = pd.read_csv(visits)
    pd.concat([whole, whole.assign(row=whole["row"] + 150)]).to_csv(visits, index=False)
    done = fit(visits, "--hold-out", tmp_path / "h.csv")
    assert "if these are copies, all measures are too optimistic. --split-by COLUMN keeps rows" in done.stderr
    options = ["--target", "ill", "--models", "logistic regression", "--folds", "3"]
    assert "Warning: " in invoke("compare", visits, *options).stderr
    assert "Warning: " not in invoke("compare", visits, *options, "--groups", "patient").stderr


def test_comparisons_by_groups(visits):
    options = [
        "--target",
        "ill",
        "--models",
        "logistic regression,BayesianLinearSVC",
        "--folds",
        "3",
        "--groups",
        "patient",
    ]
    done = invoke("compare", visits, *options)
    assert done.exit_code == 0, done.output
    assert "3-fold cross-validation by 'patient'" in done.output
    assert "visits.csv (150 x 2)" in done.output  # nobody learns from the column of groups
    assert "AUC is the mean over folds." in done.output
    assert json.loads(invoke("compare", visits, *options, "--json", "--rows", "100").stdout)["groups"] == "patient"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--split-by", "patient"], 2, "requires --hold-out"),
        (["--hold-out", "h.csv", "--split-by", "patent"], 1, "did you mean 'patient'"),
        (["--groups", "patient"], 2, "only --model mixed has groups; to hold out whole groups, use --split-by"),
        (["--hold-out", "h.csv", "--split-by", "gaps"], 1, "Column 'gaps' (--split-by) is missing in 150 rows"),
    ],
)
def test_groups_that_will_not_do(arguments, code, message, visits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.read_csv(visits).assign(gaps=None).to_csv(visits, index=False)
    done = invoke("fit", visits, "--target", "ill", *arguments)
    assert (done.exit_code, "Traceback" in done.output) == (code, False)
    assert message in done.output


def test_codes_and_labels_are_read_as_in_the_fit(tmp_path):
    rng = np.random.default_rng(0)
    code = rng.choice(["007", "012", "A12"], 200)
    frame = pd.DataFrame({"code": code, "x": rng.normal(size=200), "said": np.where(code == "007", "x1", "x2")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    invoke("fit", tmp_path / "t.csv", "--target", "said", "--model", "linear", "--out", tmp_path / "m.sm")
    frame[frame["code"] != "A12"].to_csv(tmp_path / "new.csv", index=False)
    done = invoke("evaluate", tmp_path / "m.sm", tmp_path / "new.csv", "--json", "--bootstrap", "2")
    assert json.loads(done.stdout)["measures"]["error"]["value"] == 0


@pytest.mark.filterwarnings("default::UserWarning")
def test_codes_that_stand_for_categories_keep_their_leading_zeros(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    rng = np.random.default_rng(0)
    code = rng.choice(["007", "012", "020"], 200)
    frame = pd.DataFrame({"code": code, "x": rng.normal(size=200), "said": np.where(code == "007", "x1", "x2")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "texts.parquet", index=False)
    frame.assign(code=frame["code"].astype(int)).to_parquet(tmp_path / "numbers.parquet", index=False)
    chosen = ["--target", "said", "--categorical", "code"]
    done = invoke("fit", tmp_path / "t.csv", *chosen, "--model", "linear", "--out", tmp_path / "m.sm")
    assert "3 columns of 0 and 1: 007, 012, 020" in done.stdout
    for name, error, told in (("t.csv", 0, 0), ("texts.parquet", 0, 0), ("numbers.parquet", None, 1)):
        done = invoke("evaluate", tmp_path / "m.sm", tmp_path / name, "--json", "--bootstrap", "2")
        assert done.stderr.count("Warning: Column 'code': 100% of the rows that are not missing") == told
        assert error is None or json.loads(done.stdout)["measures"]["error"]["value"] == error
    done = invoke("compare", tmp_path / "t.csv", *chosen, "--models", "BayesianLinearSVC", "--folds", 2, "--json")
    assert done.exit_code == 0, done.output


def test_columns_to_choose_from_are_named(visits):
    for command in ("fit", "compare"):
        done = invoke(command, visits)
        assert done.exit_code == 2
        assert "which column holds the labels? The table has 'row', 'patient', 'dose', 'ill'." in done.output


def test_few_fractions_are_a_quantity_too(visits):
    pd.read_csv(visits).assign(price=[1.5, 2.25, 3.0] * 50).to_csv(visits, index=False)
    assert "that is a quantity, not a class" in invoke("fit", visits, "--target", "price").output
