"""The command ``softmargin demo``."""

import json
import os

import pytest
from PIL import Image

from softmargin import demo
from softmargin.cli import demo as shown_demo
from softmargin.cli import showing
from test_cli import invoke, python


@pytest.fixture
def one_small_table(monkeypatch):
    """The command without the wait."""
    iris = next(table for table in demo.tables() if table.name.startswith("iris"))
    monkeypatch.setattr(demo, "tables", lambda: [iris])
    monkeypatch.setattr(demo, "N_SPLITS_QUICK", 2)


def test_whole_command_in_a_process_of_its_own(tmp_path):
    done = python("-m", "softmargin.cli", "demo", "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for table in demo.tables():
        assert table.name in done.stdout
    assert "mean over tables" in done.stdout
    assert "disagrees" in done.stdout
    assert "…" not in done.stdout  # every number fits into 80 columns
    written = tmp_path / "softmargin-demo.png"
    assert f"Picture: {written.resolve()}" in done.stdout
    with Image.open(written) as picture:
        assert (picture.format, picture.size) == ("PNG", (1200, 500))


@pytest.mark.usefixtures("one_small_table")
def test_json_is_one_line_that_parses():
    result = invoke("demo", "--quick", "--json", "--no-picture", "--seed", 3)
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    facts = json.loads(line)
    assert (facts["seed"], facts["n_splits"], facts["picture"]) == (3, 2, None)
    assert [row["model"] for row in facts["results"]] == list(demo.MODELS) * 2
    assert {row["table"] for row in facts["results"]} == {"iris, class 1 or 2", "mean"}
    assert all(row[name] >= 0 for row in facts["results"] for name in demo.MEASURES)


@pytest.mark.usefixtures("one_small_table")
def test_no_picture_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("demo", "--quick", "--no-picture")
    assert result.exit_code == 0
    assert "Picture" not in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("one_small_table")
def test_the_same_seed_gives_the_same_numbers():
    def numbers(seed):
        rows = json.loads(invoke("demo", "--quick", "--json", "--no-picture", "--seed", seed).stdout)["results"]
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    assert numbers(1) == numbers(1) != numbers(2)


def test_the_best_of_each_column_is_bold_and_ties_all_are():
    class Rows(list):
        def add_row(self, *texts, style=None):
            self.append(texts)

        def add_section(self):
            pass

    one = demo.Result("a", "m", 0.1, 0.30001, 0.1, 0.1, 0.01, 0, 9)
    rows = Rows()
    shown_demo.add_block(rows, "title", [one, one._replace(error=0.2, log_loss=0.30002)])
    assert rows[0] == ("title",)
    assert [text.startswith("[bold]") for text in rows[1][1:]] == [True] * 5
    assert [text.startswith("[bold]") for text in rows[2][1:]] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("name", "message"), [("missing/a.png", "does not exist"), ("folder.png", "is a folder"), ("a.xyz", "must end in")]
)
def test_bad_out_is_refused_before_the_work(name, message, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "compare", lambda *_, **__: pytest.fail("the work began"))
    monkeypatch.setenv("COLUMNS", "400")  # typer breaks lines to fit
    (tmp_path / "folder.png").mkdir()
    result = invoke("demo", "--out", tmp_path / name)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_out_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert "permission denied" in (showing.refuse_out(tmp_path / "a.png") or "")


def test_permission_is_asked_of_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(showing.os, "access", lambda *_: False)
    assert "permission denied" in (showing.refuse_out(tmp_path / "a.png") or "")


def test_ctrl_c_ends_with_130_and_a_short_message(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "compare", interrupted)
    result = invoke("demo", "--no-picture")
    assert result.exit_code == 130
    assert result.stderr.strip().endswith("Interrupted.")
