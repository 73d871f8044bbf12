"""Directives that make pages of what benchmark scripts claim and print: no figure on them is typed by hand.

``{benchmark} NAME`` shows the docstring of ``benchmarks/NAME.py``, the line of JSON that ends each of its kept results
(measured, target, and whether it was met), its pictures, and everything that it printed.  ``{benchmark-index}`` is a
table of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from docutils import nodes
from kept import FOLDER, Benchmark, Result, benchmark, kept_of, names, text
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PICTURES = FOLDER / "pictures"
#: As many lines of figures or output are shown at once; more are folded.
_MANY_FIGURES, _MANY_LINES = 12, 30


# Figures -------------------------------------------------------------------------------------------


def figures(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The numbers within nested dictionaries, each with its keys on the way."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from figures(inner, (*path, key))
    else:
        yield path, value


def promised(target: Any, path: tuple[str, ...]) -> Any:
    """The target of a figure: the one that shares most keys with it, of those that have no others."""
    fitting = [(len(keys), number) for keys, number in figures(target) if keys and set(keys) <= set(path)]
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


# Printed tables ------------------------------------------------------------------------------------


def blocks(lines: Sequence[str]) -> Iterator[str | list[list[str]]]:
    """Paragraphs, and tables as lists of rows (the header first), of what was printed."""
    for block in "\n".join(line for line in lines if not line.startswith("picture:")).split("\n\n"):
        rows = block.strip("\n").splitlines()
        if len(rows) > 1 and re.fullmatch(r"-+( +-+)+ *", rows[1]):
            spans = [match.span() for match in re.finditer(r"-+", rows[1])]
            yield [[row[start:end].strip() for start, end in spans] for row in [rows[0], *rows[2:]]]
        elif block.strip():
            yield block.strip("\n")


# Nodes ---------------------------------------------------------------------------------------------


def _verdict(ok: bool) -> nodes.inline:
    word = "met" if ok else "missed"
    return nodes.inline("", word, classes=["verdict", word])


def _table(rows: Sequence[Sequence[Any]], classes: Sequence[str]) -> nodes.container:
    """A table whose first row is its header; entries are texts or nodes."""
    group = nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    parts = [nodes.thead(), nodes.tbody()]
    for index, row in enumerate(rows):
        line = nodes.row()
        for cell in row:
            content = nodes.Text(cell) if isinstance(cell, str) else cell
            line += nodes.entry("", nodes.paragraph("", "", content))
        parts[min(index, 1)] += line
    group += parts
    table = nodes.table(classes=list(classes))
    table += group
    return nodes.container("", table, classes=["wide-table"])


def _folded(summary: str, content: Sequence[nodes.Node], fold: bool = True) -> list[nodes.Node]:
    if not fold:
        return list(content)
    opening = nodes.raw("", f"<details><summary>{summary}</summary>", format="html")
    return [opening, *content, nodes.raw("", "</details>", format="html")]


def _printed(result: Result) -> list[nodes.Node]:
    content: list[nodes.Node] = []
    for block in blocks(result.lines):
        if isinstance(block, list):
            content.append(_table(block, ["printed"]))
        elif "\n" in block:
            content.append(nodes.literal_block(block, block, language="none"))
        else:
            content.append(nodes.paragraph("", block))
    return _folded(f"Full output ({len(result.lines)} lines)", content, len(result.lines) > _MANY_LINES)


def _figures(result: Result) -> list[nodes.Node]:
    found = list(figures(result.value))
    targets = [promised(result.target, path) for path, _ in found]
    rows: list[list[Any]] = [["", "measured", "target"]]
    for (path, value), target in zip(found, targets, strict=True):
        measured = _verdict(value) if path[-1:] in {("ok",), ("met",)} else text(value)
        rows.append([" / ".join(path), measured, "" if target is None else text(target)])
    if all(target is None for target in targets):
        rows = [row[:2] for row in rows]
    return _folded(f"All figures ({len(found)})", [_table(rows, ["figures"])], len(found) > _MANY_FIGURES)


def _pictures(of: Benchmark) -> list[nodes.Node]:
    """Those that its results name, once each."""
    lines = [line for result in of.results for line in result.lines]
    named = dict.fromkeys(line.split(":", 1)[1].strip() for line in lines if line.startswith("picture:"))
    return [nodes.image(uri=f"/../benchmarks/{name}", alt=f"{of.claim}", classes=["benchmark"]) for name in named]


class BenchmarkDirective(SphinxDirective):
    """One script and its results."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        of = benchmark(self.arguments[0])
        for path in [FOLDER / f"{of.name}.py", *kept_of(of.name)]:
            self.env.note_dependency(str(path))
        label = f"benchmark-{of.name}"
        target = nodes.target("", "", ids=[label], names=[label])
        self.state.document.note_explicit_target(target)
        method = self.parse_text_to_nodes(of.method) if of.method else []
        content = [target, *self.parse_text_to_nodes(of.claim)]
        for result in of.results:
            content += self._shown(result)
        content += [*_pictures(of), *_folded(f"Method of <code>{of.name}.py</code>", method)]
        return [*content, *(node for result in of.results for node in _printed(result))]

    def _shown(self, result: Result) -> list[nodes.Node]:
        line = nodes.paragraph(classes=["verdict-line"])
        line += _verdict(result.ok)
        where = f"on {result.where.upper()}" if result.where else ""
        promise = "" if isinstance(result.target, dict) else f"target: {text(result.target)}"
        line += nodes.Text("; ".join(filter(None, [where, promise])))
        return [line, *_figures(result)]


class BenchmarkIndex(SphinxDirective):
    """A table of all scripts: claim, and whether it held."""

    def run(self) -> list[nodes.Node]:
        everything = [benchmark(name) for name in names()]
        results = [result for of in everything for result in of.results]
        kept = sum(result.ok for result in results)
        summary = nodes.paragraph("", f"{kept} of {len(results)} saved results meet all their targets.")
        rows: list[list[Any]] = [["script", "claim", ""]]
        for of in everything:
            link = self.parse_inline(f"[{of.name}](#benchmark-{of.name})", lineno=self.lineno)[0]
            claim = self.parse_inline(of.claim, lineno=self.lineno)[0]
            verdicts = nodes.inline("", "", *(_verdict(result.ok) for result in of.results))
            rows.append([nodes.inline("", "", *link), nodes.inline("", "", *claim), verdicts])
        return [summary, _table(rows, ["claims"])]


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directives."""
    app.add_directive("benchmark", BenchmarkDirective)
    app.add_directive("benchmark-index", BenchmarkIndex)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
