r"""Formulas as MathML, which browsers draw by themselves: no script, and nothing from elsewhere.

The converter is the one that comes with docutils.  It knows most of LaTeX's mathematics; environments of several
lines that it knows by other names are handed to it under those.  What it does not know is a warning with its place, and
so an error where warnings are errors.

Few systems have a font with the tables that brackets and roots need to stretch.  So STIX Two Math, which the package
`ziamath` brings along, goes with the site: those of its characters that formulas are made of.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools import subset
from fontTools.pens.transformPen import TransformPen
from fontTools.pens.ttGlyphPen import TTGlyphPen
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)
#: What the converter knows under other names, or needs to see in full: patterns and what takes their place.
_REWRITTEN = [
    (r"\\(begin|end)\{(?:align|gather|split|equation|multline)\*?\}", r"\\\1{aligned}"),
    (r"\\([td]?frac)\s*([0-9a-zA-Z])\s*([0-9a-zA-Z])", r"\\\1{\2}{\3}"),
    (r"\\([bB]igg?)(?![a-zA-Z])", r"\\\1l"),
    (r"(?<=.)\\(?:text|display)style(?![a-zA-Z])", ""),
    (r"\\iff(?![a-zA-Z])", r"\\Longleftrightarrow "),
    (r"\\stackrel(?![a-zA-Z])", r"\\overset"),
    (r"\\bm(?![a-zA-Z])", r"\\boldsymbol"),
    (r"\\dots(?![a-zA-Z])", r"\\ldots "),
]
_BAR = re.compile(r'<mo(?: stretchy="false">(?=\|)| class="mathopen">|>(?=‖))([|‖])</mo>')
#: The size of the lowest radical sign, as a share of the font's own.
_LOW_ROOT = 0.75
_THIN_SPACE = '<mspace width="0.17em"/>'
#: First and last code point of: Latin, accents, Greek, punctuation and primes, letterlike signs, arrows, operators,
#: parts of brackets, angle brackets, long arrows, bold to script letters, double-struck ones, Greek ones.
_CHARACTERS = [(0x20, 0x7E), (0xA0, 0xFF), (0x2C6, 0x2DD), (0x300, 0x338), (0x370, 0x3FF), (0x2010, 0x2063)]
_CHARACTERS += [(0x20D0, 0x20EF), (0x2100, 0x214F), (0x2190, 0x21D5), (0x2200, 0x22FF), (0x2308, 0x23E1)]
_CHARACTERS += [(0x27E6, 0x27EF), (0x27F5, 0x27FF), (0x1D400, 0x1D4CF), (0x1D538, 0x1D56B), (0x1D6A8, 0x1D755)]


def mathml(latex: str, block: bool) -> str:
    """The markup of a formula."""
    latex = latex.strip()
    for pattern, known in _REWRITTEN:
        latex = re.sub(pattern, known, latex)
    markup = tex2mathml(latex, as_block=block)
    # Functions without brackets stand a little apart from their neighbours, and bars are no operators between them.
    markup = re.sub(r"(</m(?!o)\w+>\s*)(?=<mi[^>]*>\w+</mi>\s*<mo>&ApplyFunction;)", rf"\1{_THIN_SPACE}", markup)
    markup = re.sub(r"<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>[(\[])", _THIN_SPACE, markup)
    return _BAR.sub(r'<mo stretchy="false" lspace="0.06em" rspace="0.06em">\1</mo>', markup)


def _visit(self: Any, node: nodes.Element) -> None:
    latex, block = node.astext(), isinstance(node, nodes.math_block)
    try:
        markup = mathml(latex, block)
    except MathError as error:
        _LOGGER.warning("cannot typeset %r: %s", latex, error, location=node)
        markup = f"<code>{self.encode(latex)}</code>"
    if block:
        self.body.append(f'<div class="math" tabindex="0">{markup}</div>\n')
    else:
        self.body.append(f'<span class="formula">{markup}{self.encode(node.get("mark", ""))}</span>')
    raise nodes.SkipNode


class _Punctuation(SphinxPostTransform):
    """Keeps a formula and the mark behind it on one line."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for formula in list(self.document.findall(nodes.math)):
            after = formula.next_node(descend=False, siblings=True)
            if isinstance(after, nodes.Text) and (mark := re.match(r"[-.,;:!?)\]'\w\u2019]+", after)):
                formula["mark"] = mark[0]
                after.parent.replace(after, nodes.Text(after[mark.end() :]))


def _write_font(app: Sphinx, exception: Exception | None) -> None:
    """Puts the font where ``site.css`` looks for it."""
    path = Path(app.outdir) / "_static" / "formulas.woff"
    if exception or app.builder.format != "html" or path.exists():
        return
    spec = importlib.util.find_spec("ziamath")
    assert spec is not None, 'Formulas need pip install "softmargin[docs]".'
    options = subset.Options(flavor="woff", hinting=False, layout_features=["*"], notdef_outline=True)
    font = subset.load_font(str(Path(spec.origin or "").parent / "fonts" / "STIXTwoMath-Regular.ttf"), options)
    _slim_roots(font)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in _CHARACTERS for code in range(first, last + 1)])
    subsetter.subset(font)
    path.parent.mkdir(exist_ok=True)
    subset.save_font(font, str(path), options)


def _slim_roots(font: Any) -> None:
    """Makes radical signs of all heights equally wide, and adds a low one for roots of single letters.

    Some browsers leave room for the widest sign beside every root, and let one hang that is higher than its content.
    """
    variants, root = font["MATH"].table.MathVariants, font.getBestCmap()[0x221A]
    signs = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(root)]
    names, drawn = [record.VariantGlyph for record in signs.MathGlyphVariantRecord], font.getGlyphSet()
    widths = [font["hmtx"][name][0] for name in names]
    low = _LOW_ROOT * widths[0]
    # Each sign takes the shape of the next lower one; the lowest is its own, but smaller.
    shapes = [(names[0], _LOW_ROOT, _LOW_ROOT)]
    shapes += [(name, low / width, 1.0) for name, width in zip(names[:-1], widths[:-1], strict=True)]
    outlines = []
    for source, across, up in shapes:
        pen = TTGlyphPen(None)
        drawn[source].draw(TransformPen(pen, (across, 0, 0, up, 0, 0)))
        outlines.append(pen.glyph())
    for record, glyph in zip(signs.MathGlyphVariantRecord, outlines, strict=True):
        font["glyf"][record.VariantGlyph] = glyph
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][record.VariantGlyph] = (round(low), glyph.xMin)
        record.AdvanceMeasurement = glyph.yMax - glyph.yMin
    signs.GlyphAssembly = None


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", inline_renderers=(_visit, None), block_renderers=(_visit, None))
    app.add_post_transform(_Punctuation)
    app.connect("build-finished", _write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
