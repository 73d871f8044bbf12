"""Claim: all tests pass, in under ten minutes on two cores.

They run as contributors run them, by ``pytest`` and nothing else: tests, doctests, the code of README and docs, in two
processes.  Processor minutes, which other work on the machine lengthens less, are shown beside the elapsed minutes.
The seconds of a file are the sum over its tests, whichever process ran them.

    python benchmarks/suite.py                   # needs no data
    python benchmarks/suite.py --shuffle SEED    # files, and tests in them, in an order of their own
    python benchmarks/suite.py --quick           # a handful of files
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

from common import arguments, n_cores, print_table, report, timed

ROOT = Path(__file__).resolve().parent.parent
QUICK = ["tests/test_arrays.py", "tests/test_gaussian.py", "tests/test_links.py", "docs/which.md"]
#: Files that are shown, and how long the whole may take.
SLOWEST, MOST_MINUTES = 15, 10.0


class Test(NamedTuple):
    """One test of the report that pytest writes."""

    file: str
    seconds: float
    outcome: str


def tests_of(path: Path) -> list[Test]:
    """What the report says; a test that failed and then broke in its clean-up counts once."""
    found = {}
    for case in ET.parse(path).iter("testcase"):
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcome = "skipped" if kinds == ["skipped"] else "failed" if kinds else "passed"
        file = case.get("file") or case.get("classname", "").replace(".", "/")
        key = (file, case.get("classname"), case.get("name"))
        before = found.get(key)
        seconds = float(case.get("time", 0)) + (before.seconds if before else 0)
        found[key] = Test(file, seconds, "failed" if before and before.outcome == "failed" else outcome)
    return list(found.values())


def run(files: list[str], order: list[str]) -> tuple[list[Test], int]:
    """All tests of some files, or of the project, and the status that pytest ends with."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={path}", "-o", "junit_family=xunit1"]
        ended = subprocess.run([sys.executable, "-m", "pytest", *options, *order, *files], cwd=ROOT, stdout=sys.stderr)
        return (tests_of(path) if path.exists() else []), ended.returncode


def processor_minutes() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / 60


def main() -> None:
    args = arguments(__doc__, lambda parser: parser.add_argument("--shuffle", help="the seed of an order"))
    order = [] if args.shuffle is None else ["--shuffle", args.shuffle]
    seconds, (tests, status) = timed(lambda: run(QUICK if args.quick else [], order))
    outcomes = Counter(test.outcome for test in tests)
    files: dict[str, list[float]] = defaultdict(list)
    for test in tests:
        files[test.file].append(test.seconds)
    slowest = sorted(files, key=lambda file: -sum(files[file]))[:SLOWEST]
    print_table(
        ["slowest files", "tests", "seconds", "slowest test"],
        [[file, len(files[file]), f"{sum(files[file]):.0f}", f"{max(files[file]):.1f}"] for file in slowest],
    )
    value = {
        "passed": outcomes["passed"],
        "skipped": outcomes["skipped"],
        "failed": outcomes["failed"],
        "minutes": round(seconds / 60, 2),
        "processor minutes": round(processor_minutes(), 2),
        "cores": n_cores(),
    }
    print(f"\n{len(tests)} tests in {len(files)} files")
    ok = status == 0 and value["minutes"] < MOST_MINUTES
    report("suite", value, {"failed": 0, "minutes": MOST_MINUTES}, ok)


if __name__ == "__main__":
    main()
