"""Writes status.md: where the project stands, from its own files and from what was kept of its benchmarks.

python docs/status.py
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE / "_extensions"))

from kept import Benchmark, Result, benchmark, names, text  # noqa: E402

SOURCE, TESTS, PAGE = HERE.parent / "src" / "softmargin", HERE.parent / "tests", HERE / "status.md"
#: Longest text of a figure in a table, and files of more lines than this are named.
_LONGEST, _MANY_LINES = 240, 330

HEAD = """# Where it stands

This page is made by `docs/status.py` from the files of the project and from what was kept of its benchmarks: every
promise that a script makes, the missed ones first, then how well the tests guard the mathematics, and how large the
rooms of the house are.

"""

LEAST_SURE = """## What its authors are least sure of

1. **Kernels that a sample judges.** At most 8,192 rows choose the length-scales, and on letter and digits, where
   classes are many and rows are images, the kernels they choose are too smooth: a point or so behind
   an SVC with a grid. More judges helped a little; what the judge should be there is not known.
2. **Leave-one-out losses after tuning.** Links are calibrated by rows that have tuned the kernel. From four hundred
   rows on nothing of it can be measured; below, `loo_log_loss_` is too good, and probabilities may be somewhat too
   sure.
3. **The hinge where classes overlap.** It is a pseudo-likelihood and leaves rows beyond the margin alone. On noisy,
   unequal classes the logistic loss has the better probabilities almost everywhere, with a kernel as well as without;
   the default is still the hinge, because that is what a support vector machine is.
4. **Particles.** `BayesianKernelMachine` reaches the accuracies of its paper and more, and its particles do not
   spread as a posterior of so many weights should: on two of five large tables their log loss is worse than that of
   one Gaussian.
5. **Scale beyond one machine.** Sums are the same wherever they are made, and tests say so for threads, devices and
   partitions. But nothing has been run on a real cluster or on several graphics processors, and what is said of 1e9
   rows and more is arithmetic.
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
    return "\n".join([*parts, LEAST_SURE, *_sizes(), ""])


def _row(one: Benchmark, result: Result) -> str:
    name = f"[{one.name}](../benchmarks/{one.name}.py)" + (f", {result.where}" if result.where else "")
    return f"| {name} | {_cell(one.claim)} | {_cell(text(result.target))} | {_cell(text(result.value))} |"


def _cell(words: str) -> str:
    """A text that may stand in a table."""
    plain = words.replace("|", "\\|").replace("``", "`")
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST].rsplit(' ', 1)[0]} ..."


def _sizes() -> Iterator[str]:
    """How large the rooms are."""
    rooms, files = Counter(), {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE)
        n = len(path.read_text(encoding="utf-8").splitlines())
        rooms[name.parts[0] if len(name.parts) > 1 else "single files"] += n
        files[name.as_posix()] = n
    tests = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS.glob("*.py"))
    yield "## Sizes\n"
    yield f"{sum(files.values()):,} lines in {len(files)} files, and {tests:,} lines of tests. Rooms:\n"
    yield "| room | lines |\n|---|---|"
    yield from (f"| {room} | {n:,} |" for room, n in rooms.most_common())
    large = sorted(((n, name) for name, n in files.items() if n > _MANY_LINES), reverse=True)
    yield f"\nFiles of more than {_MANY_LINES} lines:\n\n| file | lines |\n|---|---|"
    yield from (f"| {name} | {n} |" for n, name in large)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
