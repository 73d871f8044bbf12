"""Directives for the reference: everything that a module makes public, and the command line as it explains itself."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: Classes of other packages whose methods are explained there.
_ELSEWHERE = "BaseEstimator, ClassifierMixin, TransformerMixin, ClassNamePrefixFeaturesOutMixin, _MetadataRequester"
_ELSEWHERE += ", _SetOutputMixin, Module, tuple, Exception"


class Public(SphinxDirective):
    """A module: what it says of itself, a table of its public names, and each of them.

    ``:names:`` picks some of them, in that order; ``:plain:`` leaves the module's own text out.
    """

    required_arguments = 1
    option_spec = {"names": directives.unchanged, "plain": directives.flag}

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(str(module.__file__))
        names = self.options.get("names", "").split() or list(module.__all__)
        lines = [] if "plain" in self.options else [f".. automodule:: {module.__name__}", ""]
        lines += [f".. currentmodule:: {module.__name__}", ""]
        if len(names) > 1:
            lines += [".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
        for name in names:
            lines += _entry(name, getattr(module, name))
        return self.parse_text_to_nodes("\n".join(lines))


def _entry(name: str, thing: Any) -> list[str]:
    """The directive that documents something public."""
    if inspect.isclass(thing):
        kind = "autoexception" if issubclass(thing, Exception) else "autoclass"
        return [f".. {kind}:: {name}", "   :members:", f"   :inherited-members: {_ELSEWHERE}", ""]
    return [f".. {'autofunction' if callable(thing) else 'autodata'}:: {name}", ""]


def _command_line() -> str:
    """Markdown of the command and its subcommands, from the help that they print."""
    import typer
    from typer.cli import get_docs_for_click

    from softmargin import cli

    command = typer.main.get_command(cli.build())
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="softmargin")
    # The page has a title already, and the prompt of the examples is not to be copied.
    return text.split("\n", 1)[1].replace("```console\n$ ", "```text\n")


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Sections cannot come from a directive, so the text of the command takes the place of its mark."""
    mark = "```{command-line}\n```"
    if mark in source[0]:
        source[0] = source[0].replace(mark, _command_line())


def _skip(app: Sphinx, kind: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out what scikit-learn writes into every estimator, to route metadata."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive, and what is connected to pages."""
    app.add_directive("public", Public)
    app.connect("source-read", _read)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
