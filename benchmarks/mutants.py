"""Claim: each wrong sign, factor and index in the mathematics either fails a test or has a documented reason not to.

Each mutant is one change to the likelihoods, priors, kernels, rows, links, leave-one-out moments, engine, steps,
Gaussian beliefs or the coupling of classes in streams: a sign flipped, a product turned into a quotient, a constant
raised, a term dropped, an index or a slice moved by one, an axis, a comparison, a branch or a choice of two swapped.
Left alone are texts, hints and errors, what is set by a name (tolerances, limits) or by a default, and numbers so tiny
or huge that they only guard.

All tests of these parts are collected once, and run once to see which lines each of them reaches.  For each mutant the
process forks and the function's code is replaced in memory (nothing on disk is touched).  Then the tests that reach the
line run, quickest first, until one fails or they have run for six seconds.  A test that no longer ends counts as
failed.  For each surviving mutant, `JUSTIFIED` says why it is correct as well.

With ``--keep FILE`` a later run tries only mutants that are new or that survived without a reason; so do runs of parts
(``--module``, ``--only``) on several machines, whose files are merged.

    python benchmarks/mutants.py [--module loo.py] [--sample 800] [--keep FILE] [--quick]
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
import types
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from common import arguments, print_table, report
from mutants_justified import JUSTIFIED
from mutants_made import PACKAGE, Mutant, left_alone, mutants_of, mutated_code, source

ROOT = Path(__file__).resolve().parent.parent

CLASSWISE = ["classwise", "classwise_ascent", "classwise_routes"]
#: The tests of each part, those that matter most first; those of `EVERYWHERE` concern all of them.
TESTS = {
    "likelihoods/": [
        "likelihoods",
        "likelihoods_classes",
        "likelihoods_meeting",
        "likelihoods_rows",
        "own_likelihood",
        "ecm",
    ],
    "kernels/": ["kernels", "kernels_rounding", "kernel_gaps", "kernel_parameters"],
    "links.py": ["links", "links_classes", "links_search", "predict"],
    "loo.py": ["loo", "particle_links", *CLASSWISE],
    "engine.py": ["engine", *CLASSWISE, "rows_incomplete", "rows_incomplete_bound"],
    "gaussian.py": ["gaussian", "mutants_gaussian", *CLASSWISE, "steps", "steps_parts"],
    "priors/": [
        "priors",
        "priors_held",
        "priors_random_effects",
        "priors_selection",
        "priors_selection_parts",
        "priors_structured",
        "priors_structured_columns",
        "priors_structured_turns",
        "priors_variance",
        *CLASSWISE,
    ],
    "steps.py": ["steps", "steps_rules", "steps_parts", *CLASSWISE],
    "coupling.py": ["streaming_classes"],
    "rows/": [
        "rows",
        "rows_grouped",
        "rows_incomplete",
        "rows_incomplete_bound",
        "rows_reduced",
        "rows_curved",
        "rows_filled",
        "rows_leftover",
        "rows_views",
        "fourier",
        "particles",
        "particle_links",
        "mutants_rows",
        "predict",
        "kernel_gaps",
        *CLASSWISE,
    ],
}
EVERYWHERE = ["equivalence"]
#: Of the tests of classes, those that climb all the way take a minute in all: not for every mutant.
CLIMBS = (
    "never_falls",
    "ends_where",
    "end_at_the_same",
    "fixed_point",
    "settle",
    "wander",
    "as_many_models",
    "change_nothing",
    "weight_k",
    "another_order",
    "torch_equals",
)
#: Texts for people.
LEFT_OUT = {"kernels/shown.py"}

QUICK = 40
#: A mutant has so many seconds, and so many times those of the tests that it has to pass.
PATIENCE, TIMES = 10.0, 4.0
#: Tests run, quickest first, while those before them take so many seconds where nothing is wrong.
ENOUGH = 6.0
MOST_BYTES = 8 << 30
KILLED, SURVIVED, ENDLESS, UNREACHED, UNMADE = "killed", "survived", "timed out", "not reached", "not made"


# How it is judged -----------------------------------------------------------------------------------------------------


class Loaded:
    """The functions of the package as they lie in memory."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, int, str], list[types.FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        for each in gc.get_objects():
            if type(each) is types.FunctionType and each.__code__.co_filename.startswith(str(PACKAGE)):
                self._functions[self._place(each.__code__)].append(each)
            elif type(each) is functools._lru_cache_wrapper and str(each.__module__).startswith("softmargin"):
                self._caches.append(each)

    @staticmethod
    def _place(code: types.CodeType) -> tuple[str, int, str]:
        return code.co_filename, code.co_firstlineno, code.co_name

    def put(self, mutant: Mutant) -> None:
        """The changed code into every function that has the old one; nothing is left of what was kept of calls."""
        code = mutated_code(mutant)
        old = self._functions[self._place(code)]
        if not old:
            raise LookupError(f"Nothing in memory has the code of {mutant.key}.")
        for each in old:
            each.__code__ = code
        self.forget()

    def forget(self) -> None:
        for each in self._caches:
            each.cache_clear()


def forked(work: Callable[[], Any], seconds: float | None = None) -> Any:
    """What ``work`` returns in a process of its own; None where its time was up, or the process itself broke."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, seconds)  # not handled, it ends the process wherever that is
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise RuntimeError("The fork itself failed, as it says above.")
    return pickle.loads(answer) if answer else None


class Seen(NamedTuple):
    """What a test does where nothing is wrong: how long it takes, and which lines it reaches."""

    seconds: float
    lines: frozenset[tuple[str, int]]


class Kept:
    """What is known of tests, and of mutants whose fate is settled, while the files in question stay as they are."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.sources = path, {file: source(file) for file in files_in_order()}
        self.seen: dict[str, Seen] = {}
        self.verdicts: dict[str, tuple[str, str]] = {}
        if path is None or not path.exists():
            return
        sources, seen, verdicts = pickle.loads(path.read_bytes())
        same = {file for file, text in self.sources.items() if sources.get(file) == text}
        self.seen = {test: its for test, its in seen.items() if all(file in same for file, _ in its.lines)}
        self.verdicts = {key: verdict for key, verdict in verdicts.items() if key.split(" ")[0] in same}

    def keep(self, mutant: Mutant, verdict: tuple[str, str]) -> None:
        """Tests are added, and what was killed stays so; what was not, without a reason, may yet be."""
        settled = verdict[0] in (KILLED, ENDLESS) or (verdict[0] == SURVIVED and mutant.key in JUSTIFIED)
        if settled and mutant.key not in self.verdicts:
            self.verdicts[mutant.key] = verdict
            if len(self.verdicts) % 20 == 0:
                self.save()

    def save(self) -> None:
        if self.path is not None:
            self.path.write_bytes(pickle.dumps((self.sources, self.seen, self.verdicts)))


class Judge:
    """A pytest session that collects once, and runs for each mutant the tests that reach it."""

    def __init__(self, mutants: list[Mutant], kept: Kept) -> None:
        self.mutants, self.kept = mutants, kept
        self.verdicts: dict[Mutant, tuple[str, str]] = {}
        self._failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: Any) -> None:
        """Counter-examples need not be the smallest."""
        from hypothesis import Phase, settings  # pytest wants to be the first to import it

        profile = settings.get_profile("softmargin")
        settings.register_profile("mutants", parent=profile, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if "classwise" not in item.nodeid or not any(c in item.name for c in CLIMBS)]

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        items, self._loaded = session.items, Loaded()
        of_all = sum(len(mutants_of(file)) for file in files_in_order())
        print(f"{len(self.mutants)} of {of_all} mutants, {len(items)} tests\n", flush=True)
        self._survey_all(items)
        gc.freeze()
        for number, mutant in enumerate(self.mutants):
            self.verdicts[mutant] = self.kept.verdicts.get(mutant.key) or self._judged(
                mutant, self._near(mutant, items)
            )
            print(number, *self.verdicts[mutant], mutant.kind, mutant.key, file=sys.stderr)
            self.kept.keep(mutant, self.verdicts[mutant])
        return True

    def _survey_all(self, items: list[Any]) -> None:
        """Which lines each test reaches, and how long it takes, of all tests of which that is not known."""
        seen, failed = forked(lambda: self._survey([item for item in items if item.nodeid not in self.kept.seen]))
        self.kept.seen.update({test: its for test, its in seen.items() if test not in failed})
        self.kept.save()
        items[:] = [item for item in items if item.nodeid not in failed]
        for test in failed:
            print(f"left out, as it fails without any mutant: {test}")

    def _near(self, mutant: Mutant, items: list[Any]) -> list[Any]:
        """The tests that reach a mutant, quickest first, as many as there is time for."""
        lines = {(mutant.file, line) for line in range(mutant.line, mutant.last_line + 1)}
        near = [item for item in items if not lines.isdisjoint(self.kept.seen[item.nodeid].lines)]
        near.sort(key=self._seconds)
        spent = itertools.accumulate(map(self._seconds, near), initial=0.0)
        return [item for item, before in zip(near, spent, strict=False) if before < ENOUGH]

    def _seconds(self, item: Any) -> float:
        return self.kept.seen[item.nodeid].seconds

    def _survey(self, items: list[Any]) -> tuple[dict[str, Seen], list[str]]:
        paths, seen, lines = {str(PACKAGE / file): file for file in files_in_order()}, {}, set()

        def line(frame: Any, event: str, arg: Any) -> Any:
            lines.add((paths[frame.f_code.co_filename], frame.f_lineno))
            return line

        def call(frame: Any, event: str, arg: Any) -> Any:
            return line if frame.f_code.co_filename in paths else None

        threading.settrace(call)
        for item, following in itertools.zip_longest(items, items[1:]):
            self._loaded.forget()
            lines.clear()
            start = time.perf_counter()
            sys.settrace(call)
            self._run(item, following)
            sys.settrace(None)
            seen[item.nodeid] = Seen(time.perf_counter() - start, frozenset(lines))
        return seen, self._failed

    def _run(self, item: Any, following: Any) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)

    def _judged(self, mutant: Mutant, near: list[Any]) -> tuple[str, str]:
        if not near:
            return UNREACHED, ""

        def attempt() -> tuple[str, str]:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            try:
                self._loaded.put(mutant)
            except ValueError:  # the change leaves out a variable that the function shares with its class
                return UNMADE, ""
            for item, following in zip(near, [*near[1:], None], strict=True):
                self._run(item, following)
                if self._failed:
                    return KILLED, self._failed[0]
            return SURVIVED, ""

        return forked(attempt, PATIENCE + TIMES * sum(map(self._seconds, near))) or (ENDLESS, "")


def test_files(files: list[str]) -> list[str]:
    """The tests that concern some files."""
    names = [name for part, names in TESTS.items() if any(f.startswith(part) for f in files) for name in names]
    return [str(ROOT / "tests" / f"test_{name}.py") for name in dict.fromkeys([*names, *EVERYWHERE])]


# ----------------------------------------------------------------------------------------------------------------------


def files_in_order() -> list[str]:
    paths = [
        path
        for part in TESTS
        for path in sorted([PACKAGE / part] if part.endswith(".py") else (PACKAGE / part).glob("*.py"))
    ]
    return [file for path in paths if (file := str(path.relative_to(PACKAGE))) not in LEFT_OUT]


def chosen(args: argparse.Namespace) -> list[Mutant]:
    """A sample is one of all mutants, whatever part of it runs, and the same while the mutants are."""
    found = [mutant for file in files_in_order() for mutant in mutants_of(file)]
    sample = QUICK if args.quick else args.sample
    if sample is not None:
        by_lot = sorted(found, key=lambda mutant: zlib.crc32(f"{args.seed} {mutant.key}".encode()))
        found = sorted(by_lot[:sample], key=found.index)
    if args.only:
        keys = set(args.only.read_text().splitlines())
        found = [mutant for mutant in found if mutant.key in keys]
    return [mutant for mutant in found if mutant.file.startswith(tuple(args.module.split(",")))]


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--module", default="", help="beginnings of files below src/softmargin, with commas between them"
    )
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of that choice")
    parser.add_argument("--keep", type=Path, help="a file to keep what is known, for later runs")
    parser.add_argument("--only", type=Path, help="a file with the keys of mutants, one in each line")


def tell(verdicts: dict[Mutant, tuple[str, str]]) -> None:
    """The table, the reasons of those that survive with one, and those that have none."""
    rows, total, open_cases = [], Counter[str](), []
    for part in TESTS:
        own = {mutant: verdict for mutant, (verdict, _) in verdicts.items() if mutant.file.startswith(part)}
        count = Counter("justified" if m.key in JUSTIFIED and v == SURVIVED else v for m, v in own.items())
        total += count
        rows += [_row(part, count)] if own else []
        open_cases += [m for m, v in own.items() if v in (SURVIVED, UNREACHED) and m.key not in JUSTIFIED]
    print_table(
        ["part", "mutants", KILLED, ENDLESS, "justified", SURVIVED, UNREACHED, "share killed"],
        [*rows, _row("all", total)],
    )
    named, guards = left_alone(sorted({mutant.file for mutant in verdicts}))
    print(f"\nleft alone: {named} numbers that have a name or are a default, {guards} that guard")
    print("\nsurvived, and are right as well:")
    for mutant, (verdict, _) in verdicts.items():
        if verdict == SURVIVED and mutant.key in JUSTIFIED:
            print(f"  {mutant.key}\n    {JUSTIFIED[mutant.key]}")
    print("\nsurvived without a reason:" if open_cases else "\nno other survived")
    for mutant in open_cases:
        print(f"  {mutant.kind}, line {mutant.line}, {verdicts[mutant][0]}: {mutant.key}")
    value = {"mutants": total.total(), "killed": round(_share(total), 3), "without a reason": len(open_cases)}
    report("mutants", value, {"without a reason": 0}, not open_cases)


def _share(count: Counter[str]) -> float:
    return (count[KILLED] + count[ENDLESS]) / count.total()


def _row(name: str, count: Counter[str]) -> list[Any]:
    kinds = [count[kind] for kind in (KILLED, ENDLESS, "justified", SURVIVED, UNREACHED)]
    return [name, count.total(), *kinds, round(_share(count), 3)]


def main() -> None:
    args = arguments(__doc__, extend)
    judge = Judge(chosen(args), Kept(args.keep))
    where = test_files(sorted({mutant.file for mutant in judge.mutants}))
    plain = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:terminal", "-s", "-o", "addopts="]
    pytest.main([*plain, f"--rootdir={ROOT}", *where], plugins=[judge])
    judge.kept.save()
    tell({mutant: verdict for mutant, verdict in judge.verdicts.items() if verdict[0] != UNMADE})


if __name__ == "__main__":
    main()
