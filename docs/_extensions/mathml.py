r"""Formulas as MathML, which browsers draw by themselves: no script, no fonts from elsewhere.

The converter is the one that comes with docutils.  It knows most of LaTeX's mathematics; environments of several
lines that it knows by other names are handed to it under those.  What it does not know is a warning with its place, and
so an error where warnings are errors.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)
#: Environments of lines, numbered or not, are one kind here: pages have no equation numbers.
_LINES = re.compile(r"\\(begin|end)\{(?:align|gather|split|equation|multline)\*?\}")
_SYNONYMS = {r"\iff": r"\Longleftrightarrow ", r"\stackrel": r"\overset", r"\bm": r"\boldsymbol"}


def mathml(latex: str, block: bool) -> str:
    """The markup of a formula."""
    latex = _LINES.sub(r"\\\1{aligned}", latex)
    for name, known in _SYNONYMS.items():
        latex = re.sub(re.escape(name) + r"(?![A-Za-z])", lambda _, known=known: known, latex)
    return tex2mathml(latex, as_block=block)


def _visit(self: Any, node: nodes.Element) -> None:
    latex, block = node.astext(), isinstance(node, nodes.math_block)
    try:
        markup = mathml(latex, block)
    except MathError as error:
        _LOGGER.warning("cannot typeset %r: %s", latex, error, location=node)
        markup = f"<code>{self.encode(latex)}</code>"
    self.body.append(f'<div class="math">{markup}</div>\n' if block else markup)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", inline_renderers=(_visit, None), block_renderers=(_visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
