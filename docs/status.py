"""Writes status.md: where the project stands, from its own files and from what was kept of its benchmarks.

python docs/status.py
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE / "_extensions"))

from kept import Benchmark, Result, benchmark, names, text  # noqa: E402

SOURCE, TESTS, PAGE = HERE.parent / "src" / "softmargin", HERE.parent / "tests", HERE / "status.md"
#: Longest text of a figure in a table, and files of more lines than this are named.
_LONGEST, _MANY_LINES = 240, 360

HEAD = """# Where it stands

This page is made by `docs/status.py` from the files of the project and from what was kept of its benchmarks: every
promise that a script makes, the missed ones first, then what its authors are least sure of, how it is guarded, and how
large the rooms of the house are.

"""

LEAST_SURE = """## What its authors are least sure of

1. **Kernels that a sample judges.** At most 8,192 rows choose the length-scales. Evidence prefers kernels that few rows
   learn soonest, which are too smooth for images of many classes. Half of the rows now foretell the other half and
   decide whether the variance may grow; that is right for digits, but of a large table such as letter it asks
   2,048 rows, which cannot say what all of them will prefer. Columns that matter in pairs only are looked for;
   those that matter in threes are not found.
2. **Leave-one-out losses after tuning.** Links are calibrated by rows that have tuned the kernel. From eight
   hundred rows on nothing of it can be measured; below, `loo_log_loss_` is too good, and probabilities may be
   somewhat too sure.
3. **Defaults that barely won.** Missing entries under a kernel are modelled because that was ahead by two standard
   errors over all judging tables, but on those whose gaps are real it was level. The logistic loss where entries are
   missing, and a fifth as the share of columns to expect, were chosen on a handful of tables each.
4. **The hinge where classes overlap.** It is a pseudo-likelihood and leaves rows beyond the margin alone. On noisy,
   unequal classes the logistic loss has the better probabilities almost everywhere, with a kernel as well as without;
   the default is still the hinge, because that is what a support vector machine is.
5. **What was not run.** Few particles in many dimensions do not spread as a posterior should: an RBF between them turns
   them to where rows know little. Their probabilities rest on a link that is fitted to this, their variances do not.
   Sums are the same wherever they are made, and tests say so for threads, devices and partitions; but nothing has been
   run on a real cluster or on several graphics processors, and what is said of 1e9 rows and more is arithmetic.
"""


def page() -> str:
    """The page as it should be."""
    found = [(one, result) for one in map(benchmark, names()) for result in one.results]
    met = sum(result.ok for _, result in found)
    parts = [HEAD, "## Promises\n", f"{met} of {len(found)} kept results meet all that was promised.\n"]
    for heading, ok in (("Missed", False), ("Met", True)):
        parts += [f"### {heading}\n", "| benchmark | promise | target | reached |", "|---|---|---|---|"]
        parts += [_row(one, result) for one, result in found if result.ok is ok]
        parts.append("")
    return "\n".join([*parts, LEAST_SURE, *_guards(), "", *_sizes(), ""])


def _row(one: Benchmark, result: Result) -> str:
    name = f"[{one.name}](../benchmarks/{one.name}.py)" + (f", {result.where}" if result.where else "")
    return f"| {name} | {_cell(one.claim)} | {_cell(text(result.target))} | {_cell(text(result.value))} |"


def _cell(words: str) -> str:
    """A text that may stand in a table."""
    plain = words.replace("|", "\\|").replace("``", "`")
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST].rsplit(' ', 1)[0]} ..."


def _guards() -> Iterator[str]:
    """What the tests would notice, how many there are, and how long they take."""
    mutants, suite = _kept("mutants"), _kept("suite")
    yield "## How it is guarded\n\n| what | found |\n|---|---|"
    if mutants is not None:
        yield f"| mutation score | {mutants['killed']:.1%} of {mutants['mutants']:,} mutants break a test |"
        yield f"| mutants that live without a reason | {mutants['without a reason']} |"
    if suite is not None:
        yield f"| tests | {suite['passed']:,} pass, {suite['skipped']:,} are skipped, {suite['failed']:,} fail |"
        taken = f"{suite['minutes']:.1f} minutes, {suite['processor minutes']:.1f} of the processors"
        yield f"| time of all tests | {taken}, on {suite['cores']} cores |"


def _kept(name: str) -> Any:
    """The figures of a script, where a result of it was kept."""
    return benchmark(name).results[0].value if name in names() else None


def _sizes() -> Iterator[str]:
    """How large the rooms are."""
    files, tests = _lines(SOURCE), _lines(TESTS)
    rooms: Counter[str] = Counter()
    for name, n in files.items():
        room, slash, _ = name.partition("/")
        rooms[room if slash else "single files"] += n
    yield "## Sizes\n\n| | files | lines | median file | longest file |\n|---|---|---|---|---|"
    for what, found in (("package", files), ("tests", tests)):
        longest = max(found, key=lambda name: found[name])
        counts = f"{len(found)} | {sum(found.values()):,} | {median(found.values()):.0f} | {found[longest]}"
        yield f"| {what} | {counts} (`{longest}`) |"
    yield "\nRooms:\n\n| room | lines |\n|---|---|"
    yield from (f"| {room} | {n:,} |" for room, n in rooms.most_common())
    yield f"\nFiles of more than {_MANY_LINES} lines:\n\n| file | lines |\n|---|---|"
    large = [(n, name) for folder in (files, tests) for name, n in folder.items() if n > _MANY_LINES]
    yield from (f"| {name} | {n} |" for n, name in sorted(large, reverse=True))


def _lines(folder: Path) -> dict[str, int]:
    """Lines of every file of Python below a folder."""
    paths = sorted(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
