"""Every command that README and docs show is run as it stands, page by page, in a folder with the examples."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from softmargin import cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
#: Run by whoever installs and tests the project, with these very words.
ELSEWHERE = (
    "python3 -m venv ",
    ". .venv/bin/activate",
    "pip install ",
    "pytest",
    "sphinx-build ",
    "python benchmarks/",
    "python examples/",
)
#: Words that are left as they are, but for time.
QUICKER = {"demo": ["--quick"], "compare": ["--folds", "2", "--models", "BayesianLinearSVC,logistic regression"]}


def commands(page):
    """The lines of the blocks of commands on a page, those that a backslash breaks as one."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [part.strip() for line in lines for part in line.split("&&") if part.strip()]


def with_commands():
    return [page for page in PAGES if commands(page)]


def test_pages_have_commands():
    assert {"README.md", "start.md"} <= {page.name for page in with_commands()}


@pytest.mark.parametrize("page", with_commands(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_run(page, tmp_path, monkeypatch):
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "penguins.csv", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        if command.startswith(ELSEWHERE):
            continue
        program, *words = shlex.split(command, comments=True)
        assert program == "softmargin", f"nobody runs {command!r}"
        done = CliRunner().invoke(cli.build(), [*words, *QUICKER.get(words[0], [])])
        assert done.exit_code == 0, f"{command}\n{done.output}"
