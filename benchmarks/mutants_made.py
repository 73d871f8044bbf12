"""The mutants of a file of the package: what `mutants` changes, one change at a time."""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "softmargin"
#: Numbers outside of this range keep something away from zero or infinity.
TINY, HUGE = 1e-5, 1e5


@functools.cache
def source(file: str) -> str:
    """The text of a file, once and for all: it may be edited while mutants run."""
    return (PACKAGE / file).read_text()


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: float) -> bool:
    """Whether a number says how much, rather than keeping something away from zero or infinity."""
    return value == 0 or TINY < abs(value) < HUGE


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
        case ast.Constant(value=int(value) | float(value)) if _plain(value):
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
        case ast.keyword(arg="axis" | "strict"):
            skipped = [node.value]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):
            skipped = [node.operand]
        case ast.Slice(lower=lower, upper=upper):
            skipped = [part for part in (lower, upper) if isinstance(part, ast.Constant | ast.UnaryOp)]
    for child in ast.iter_child_nodes(node):
        silent = isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)
        if not silent and all(child is not part for part in skipped):
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
    for name, function in functions(ast.parse(source(file))):
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
    tree = ast.parse(source(mutant.file))
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


def left_alone(files: list[str]) -> tuple[int, int]:
    """Numbers that have a name or are a default, and numbers inside of formulas that guard: not changed."""
    named = guards = 0
    for file in files:
        tree = ast.parse(source(file))
        numbers = {id(node) for node in ast.walk(tree) if isinstance(node, ast.Constant) and _is_number(node.value)}
        computed = {id(node): node for _, function in functions(tree) for node in ast.walk(function)}
        defaults = {id(n) for _, f in functions(tree) for part in (f.args, *f.decorator_list) for n in ast.walk(part)}
        guards += sum(not _plain(computed[i].value) for i in numbers & set(computed) - defaults)
        named += len(numbers - set(computed) | numbers & defaults)
    return named, guards
