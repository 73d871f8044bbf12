"""What benchmark scripts claim, and what was kept of their output; no part of this needs the site."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FOLDER", "Benchmark", "Result", "benchmark", "kept_of", "names", "text"]

FOLDER = Path(__file__).parents[2] / "benchmarks"
RESULTS = FOLDER / "results"


class Result(NamedTuple):
    """A kept output: where it was run (if that is in its name), what it printed, and its last line."""

    where: str
    lines: list[str]
    value: Any
    target: Any
    ok: bool


class Benchmark(NamedTuple):
    """A script: its claim, how that is measured, its kept results, and what the list of benchmarks says of them."""

    name: str
    claim: str
    method: str
    results: list[Result]
    summary: str = ""


def benchmark(name: str) -> Benchmark:
    """What there is of a script."""
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    claim, _, method = docstring.partition("\n\n")
    claim = re.sub(r"^Claim: *", "", " ".join(claim.split()))
    results = [_result(path, name) for path in kept_of(name)]
    return Benchmark(name, claim[:1].upper() + claim[1:], method, results, _summary(name))


def _summary(name: str) -> str:
    """The row of a script in ``benchmarks/README.md``, between its name and the links to its results."""
    row = re.search(rf"^\| `{name}\.py` \| (.*) \| [^|]* \|$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE)
    return "" if row is None else row[1]


def names() -> list[str]:
    """The scripts that have a kept result."""
    return sorted(path.stem for path in RESULTS.glob("*.txt") if (FOLDER / f"{path.stem}.py").exists())


def kept_of(name: str) -> list[Path]:
    """``NAME.txt``, and ``NAME_WHERE.txt`` if no script has that name."""
    others = [path for path in sorted(RESULTS.glob(f"{name}_*.txt")) if not (FOLDER / f"{path.stem}.py").exists()]
    return [RESULTS / f"{name}.txt", *others]


def _result(path: Path, name: str) -> Result:
    *lines, last = path.read_text(encoding="utf-8").strip().splitlines()
    report = json.loads(last)
    return Result(path.stem[len(name) + 1 :], lines, report["value"], report["target"], report["ok"])


def text(value: Any) -> str:
    """A figure as a reader expects it."""
    if value is None:
        return "never"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(text, value)) or "none"
    return ", ".join(f"{key}: {text(inner)}" for key, inner in value.items()) if isinstance(value, dict) else str(value)
