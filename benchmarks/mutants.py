"""Claim: a wrong sign, factor or index anywhere in the mathematics breaks a test, or a reason says why none can.

Each mutant is one change to the likelihoods, priors, kernels, rows, links, leave-one-out moments, engine, steps or
Gaussian beliefs: a sign turned, a product made a quotient, a constant raised, a term dropped, an index or a slice moved
by one, an axis, a comparison, a branch, a choice of two turned round.  Texts, hints, errors and what is set by a name (tolerances, limits) or by
a default are left alone, and so are numbers that are tiny or huge, which guard.

All tests of these parts are collected once, and run once to see which lines each of them reaches.  For each mutant the
process forks, the function's code is replaced in memory (nothing on disk is touched), and the tests that reach the
line run, quickest first, until one fails.  A test that no longer ends has noticed too.  `JUSTIFIED` says of those that
survive why they are right as well.

    python benchmarks/mutants.py [--module loo.py] [--sample 500] [--quick]
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import gc
import importlib
import itertools
import os
import pickle
import random
import resource
import signal
import sys
import threading
import time
import traceback
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

from common import arguments, print_table, report
from mutants_justified import JUSTIFIED

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "softmargin"

#: The tests of each part; those of `EVERYWHERE` concern all of them.
TESTS = {
    "likelihoods/": ["likelihoods", "likelihoods_classes", "mutants_likelihoods"],
    "priors/": ["priors", "priors_covariance", "priors_selection", "priors_structured", "mutants_priors"],
    "kernels/": ["kernels", "mutants_kernels"],
    "priors/classwise.py": ["classwise"],
    "rows/classwise.py": ["classwise"],
    "rows/": ["rows", "rows_grouped", "rows_incomplete", "rows_reduced", "fourier", "particles", "mutants_rows"],
    "links.py": ["links", "links_classes", "mutants_links"],
    "loo.py": ["loo", "mutants_loo"],
    "engine.py": ["engine", "mutants_engine"],
    "steps.py": ["steps", "mutants_steps"],
    "gaussian.py": ["gaussian", "mutants_gaussian"],
}
EVERYWHERE = ["equivalence"]
#: Texts for people.
LEFT_OUT = {"kernels/shown.py"}

QUICK = 40
#: A mutant has so many seconds, and so many times those of the tests that it has to pass.
PATIENCE, TIMES = 10.0, 4.0
#: Tests run, quickest first, while those before them take so many seconds where nothing is wrong.
ENOUGH = 6.0
MOST_BYTES = 8 << 30
#: Numbers outside of this range keep something away from zero or infinity.
TINY, HUGE = 1e-5, 1e5
KILLED, SURVIVED, ENDLESS, UNREACHED = "killed", "survived", "timed out", "not reached"


class Mutant(NamedTuple):
    """One change: where, of what kind, what it reads like, and the module's code with it."""

    file: str
    function: str
    line: int
    last_line: int
    kind: str
    change: str
    place: int
    option: int

    @property
    def key(self) -> str:
        return f"{self.file} {self.function}: {self.change}"


# What is changed ------------------------------------------------------------------------------------------------------

_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
_TURNED = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_PAIRS = [("min", "max"), ("minimum", "maximum"), ("any", "all"), ("argmin", "argmax"), ("zeros_like", "ones_like")]
_OTHER = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}


def _changed(node: ast.AST, change: Callable[[Any], Any]) -> ast.AST:
    """A copy with a change made to it, or what the change returns in its place."""
    new = copy.deepcopy(node)
    return change(new) or new


def _raised(value: float) -> float:
    return value + 1 if isinstance(value, int) else 2 * value


def _shifted(bound: ast.expr) -> ast.expr:
    """A bound of a slice, or an index, moved by one."""
    if isinstance(bound, ast.Constant):
        return ast.Constant(bound.value + 1)
    return ast.BinOp(bound, ast.Add(), ast.Constant(1))


def variants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The kinds of change that a node allows, and what it becomes."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub() as op):
            yield "sign", _changed(node, lambda new: setattr(new, "op", _ARITHMETIC[type(op)]()))
            yield "term", copy.deepcopy(node.left)
        case ast.BinOp(op=ast.Mult() | ast.Div() as op):
            yield "factor", _changed(node, lambda new: setattr(new, "op", _ARITHMETIC[type(op)]()))
        case ast.AugAssign(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op):
            kind = "sign" if isinstance(op, ast.Add | ast.Sub) else "factor"
            yield kind, _changed(node, lambda new: setattr(new, "op", _ARITHMETIC[type(op)]()))
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", copy.deepcopy(node.operand)
        case ast.UnaryOp(op=ast.Not()):
            yield "branch", copy.deepcopy(node.operand)
        case ast.Constant(value=bool(value)):
            yield "branch", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)) if value == 0 or TINY < abs(value) < HUGE:
            yield "constant", ast.Constant(_raised(value) if value else 1)
        case ast.Compare(ops=[op]) if type(op) in _TURNED:
            yield "comparison", _changed(node, lambda new: setattr(new, "ops", [_TURNED[type(op)]()]))
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "branch", _changed(node, lambda new: setattr(new, "op", other))
        case ast.IfExp():
            swapped = {"body": node.orelse, "orelse": node.body}
            yield "branch", _changed(node, lambda new: [setattr(new, k, part) for k, part in swapped.items()] and None)
        case ast.Slice():
            for name in ("lower", "upper"):
                bound = getattr(node, name)
                if bound is not None and not (name == "lower" and isinstance(bound, ast.Constant)):
                    yield "index", _changed(node, lambda new, n=name, b=bound: setattr(new, n, _shifted(b)))
        case ast.Attribute(attr="T"):
            yield "index", copy.deepcopy(node.value)
        case ast.Attribute(attr=name) if name in _OTHER:
            yield "choice", _changed(node, lambda new: setattr(new, "attr", _OTHER[name]))
        case ast.Name(id=name) if name in _OTHER:
            yield "choice", _changed(node, lambda new: setattr(new, "id", _OTHER[name]))
        case ast.Call(func=ast.Attribute(attr="where"), args=[condition, first, second]):
            yield "choice", _changed(node, lambda new: setattr(new, "args", [condition, second, first]))
        case ast.keyword(arg="axis", value=ast.Constant(value=int(axis))):
            yield "axis", _changed(node, lambda new: setattr(new, "value", ast.Constant(0 if axis else 1)))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that compute something."""
    skipped: list[Any] = []
    match node:
        case ast.FunctionDef():
            skipped = [node.args, node.returns, *node.decorator_list]
        case ast.AnnAssign():
            skipped = [node.annotation]
        case ast.keyword(arg="axis"):
            skipped = [node.value]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            skipped = [node.operand]
        case ast.Slice(lower=lower, upper=upper):
            skipped = [part for part in (lower, upper) if isinstance(part, ast.Constant | ast.UnaryOp)]
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            if all(child is not part for part in skipped):
                yield child


def functions(node: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a module, those inside of others left to these."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from functions(child, f"{name}{child.name}.")
        elif isinstance(child, ast.FunctionDef) and child.name not in ("__repr__", "_repr_html_"):
            yield f"{name}{child.name}", child


def inside(function: ast.AST) -> list[ast.AST]:
    """All nodes of a function that compute something, in a fixed order."""
    return [node for child in _children(function) for node in (child, *inside(child))]


def mutants_of(file: str) -> list[Mutant]:
    found, seen = [], Counter[str]()
    for name, function in functions(ast.parse((PACKAGE / file).read_text())):
        statement: Any = function
        for place, node in enumerate(inside(function)):
            statement = node if isinstance(node, ast.stmt) else statement
            for option, (kind, new) in enumerate(variants(node)):
                change = f"{ast.unparse(node)} -> {ast.unparse(ast.fix_missing_locations(new))}"
                seen[f"{name} {change}"] += 1
                again = seen[f"{name} {change}"]
                change = f"{change} (#{again})" if again > 1 else change
                found.append(Mutant(file, name, *_span(statement), kind, change, place, option))
    return found


def _span(statement: Any) -> tuple[int, int]:
    """The first and the last line of a statement, without those that it governs."""
    body = getattr(statement, "body", None)
    return statement.lineno, body[0].lineno - 1 if body else statement.end_lineno


def mutated_code(mutant: Mutant) -> types.CodeType:
    """The code of the function with the change in it."""
    tree = ast.parse((PACKAGE / mutant.file).read_text())
    function = dict(functions(tree))[mutant.function]
    target = inside(function)[mutant.place]
    _, new = list(variants(target))[mutant.option]

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return ast.copy_location(new, node) if node is target else self.generic_visit(node)

    code: Any = compile(ast.fix_missing_locations(Put().visit(tree)), str(PACKAGE / mutant.file), "exec")
    for part in mutant.function.split("."):
        code = next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == part)
    return code


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
        for each in self._functions[self._place(code)]:
            each.__code__ = code
        self.forget()

    def forget(self) -> None:
        for each in self._caches:
            each.cache_clear()


# How it is judged -----------------------------------------------------------------------------------------------------


def forked(work: Callable[[], Any], seconds: float | None = None) -> Any:
    """What ``work`` returns in a process of its own; None where it did not come to an end."""
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
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(answer) if answer else None


class Judge:
    """A pytest session that collects once, and runs for each mutant the tests that reach it."""

    def __init__(self, mutants: list[Mutant]) -> None:
        self.mutants = mutants
        self.verdicts: dict[Mutant, tuple[str, str]] = {}
        self._failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: Any) -> None:
        """Counter-examples need not be the smallest."""
        from hypothesis import Phase, settings  # pytest wants to be the first to import it

        profile = settings.get_profile("softmargin")
        settings.register_profile("mutants", parent=profile, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        items, self._loaded = session.items, Loaded()
        print(f"{len(self.mutants)} mutants, {len(items)} tests", flush=True)
        reached, seconds, failed = forked(lambda: self._survey(items))
        if failed:
            raise SystemExit(f"These tests fail without any mutant: {failed}")
        gc.freeze()
        for number, mutant in enumerate(self.mutants):
            lines = range(mutant.line, mutant.last_line + 1)
            near = sorted(set().union(*(reached.get((mutant.file, line), ()) for line in lines)), key=seconds.__getitem__)
            spent = list(itertools.accumulate((seconds[place] for place in near), initial=0.0))
            near = [place for place, before in zip(near, spent, strict=False) if before < ENOUGH]
            verdict = self._judged(mutant, [items[place] for place in near], sum(seconds[place] for place in near))
            self.verdicts[mutant] = verdict
            print(number, verdict[0], mutant.kind, f"{mutant.file}:{mutant.line}", mutant.key, file=sys.stderr)
        return True

    def _survey(self, items: list[Any]) -> tuple[dict[tuple[str, int], set[int]], list[float], list[str]]:
        """Which tests reach each line, how long they take, and which of them fail."""
        reached: dict[tuple[str, int], set[int]] = defaultdict(set)
        files = {str(PACKAGE / mutant.file): mutant.file for mutant in self.mutants}
        seconds, place = [], 0

        def line(frame: Any, event: str, arg: Any) -> Any:
            reached[files[frame.f_code.co_filename], frame.f_lineno].add(place)
            return line

        def call(frame: Any, event: str, arg: Any) -> Any:
            return line if frame.f_code.co_filename in files else None

        threading.settrace(call)
        for place, item in enumerate(items):  # noqa: B007
            self._loaded.forget()
            start = time.perf_counter()
            sys.settrace(call)
            self._run(item, items[place + 1] if place + 1 < len(items) else None)
            sys.settrace(None)
            seconds.append(time.perf_counter() - start)
        return dict(reached), seconds, self._failed

    def _run(self, item: Any, following: Any) -> None:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)

    def _judged(self, mutant: Mutant, near: list[Any], seconds: float) -> tuple[str, str]:
        if not near:
            return UNREACHED, ""

        def attempt() -> tuple[str, str]:
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
            self._loaded.put(mutant)
            for item, following in zip(near, [*near[1:], None], strict=True):
                self._run(item, following)
                if self._failed:
                    return KILLED, self._failed[0]
            return SURVIVED, ""

        return forked(attempt, PATIENCE + TIMES * seconds) or (ENDLESS, "")


def test_files(files: list[str]) -> list[str]:
    names = [name for part, names in TESTS.items() if any(f.startswith(part) for f in files) for name in names]
    paths = [ROOT / "tests" / f"test_{name}.py" for name in [*names, *EVERYWHERE]]
    return [str(path) for path in paths if path.exists()]


def XX(file: str) -> int:
    """Numbers that are named, or are defaults: not changed here."""
    tree, inner = ast.parse((PACKAGE / file).read_text()), 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            inner += 1
    changed = sum(isinstance(n, ast.Constant) for _, f in functions(tree) for n in inside(f))
    return inner - changed


# ----------------------------------------------------------------------------------------------------------------------


def chosen(args: argparse.Namespace) -> list[Mutant]:
    files = sorted(
        str(path.relative_to(PACKAGE))
        for part in TESTS
        for path in ([PACKAGE / part] if part.endswith(".py") else (PACKAGE / part).glob("*.py"))
    )
    wanted = args.module.split(",") if args.module else [""]
    found = [m for f in files if f not in LEFT_OUT and f.startswith(tuple(wanted)) for m in mutants_of(f)]
    if args.only:
        keys = set(Path(args.only).read_text().splitlines())
        return [mutant for mutant in found if mutant.key in keys]
    sample = QUICK if args.quick else args.sample
    if sample and sample < len(found):
        found = [found[place] for place in sorted(random.Random(args.seed).sample(range(len(found)), sample))]
    return found


def extend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--module", help="beginnings of files below src/softmargin, with commas between them")
    parser.add_argument("--sample", type=int, help="so many mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of that choice")
    parser.add_argument("--only", help="a file with the keys of mutants, one in each line")


def main() -> None:
    args = arguments(__doc__, extend)
    judge = Judge(chosen(args))
    importlib.import_module("torch")
    where = test_files(sorted({mutant.file for mutant in judge.mutants}))
    plain = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:terminal", "-s", "-o", "addopts=", f"--rootdir={ROOT}"]
    pytest.main([*plain, *where], plugins=[judge])

    survivors = [m for m, (verdict, _) in judge.verdicts.items() if verdict in (SURVIVED, UNREACHED)]
    open_cases = [mutant for mutant in survivors if mutant.key not in JUSTIFIED]
    for mutant in open_cases:
        print(f"{judge.verdicts[mutant][0]}: {mutant.kind} {mutant.file}:{mutant.line}\n    {mutant.key}")


if __name__ == "__main__":
    main()
