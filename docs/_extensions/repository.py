"""Lets pages be read on a code host and on the site alike.

Files of the repository link to each other by relative paths.  Where such a path leaves ``docs/``, the site has a page
of its own for what it leads to (``_PAGES``, the reference of a module, the section of a benchmark), or shows the text
without a link.  Pictures that are SVG become part of the page, so that they follow its colours.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_PAGES = {
    "GLOSSARY.md": "/glossary.md",
    "CHANGELOG.md": "/changelog.md",
    "CONTRIBUTING.md": "/contributing.md",
    "README.md": "/index.md",
    "benchmarks": "/benchmarks.md",
    "benchmarks/README.md": "/benchmarks.md",
    "benchmarks/results": "/benchmarks.md",
    "examples": "/gallery/index.rst",
    "src/softmargin/likelihoods": "/likelihood.md",
}
#: A link or picture whose address is neither elsewhere nor on the same page.
_LINK = re.compile(
    r"""(?P<mark>!?) \[ (?P<text> (?: [^\]\[] | \[[^\]]*\] )* ) \]
    \( (?P<path> (?![a-z]+:|[\#/]) [^)\s\#]+ ) (?P<anchor> \#[^)\s]* )? \)""",
    re.VERBOSE,
)
_BLOCK = re.compile(r"(^```.*?^```|``[^`]+``|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def on_site(text: str, folder: str) -> str:
    """Markdown of a file in ``folder`` (from the root of the repository), with links for the site."""

    def moved(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match["path"]))
        if path.startswith("docs/"):
            page = f"/{path.removeprefix('docs/')}"
        elif match["mark"]:
            page = f"/../{path}"
        else:
            page = _page_of(path)
        return f"{match['mark']}[{match['text']}]({page}{match['anchor'] or ''})" if page else match["text"]

    pieces = _BLOCK.split(text)
    # Text within a link may be code, so that a piece of text does not hold a link that a piece of code interrupts.
    whole = "".join(f"\0{index}\0" if index % 2 else piece for index, piece in enumerate(pieces))
    # Doctests end with an empty line, for the fence not to be taken for output; readers need not see it.
    codes = [re.sub(r"\n+```$", "\n```", piece) for piece in pieces]
    return re.sub(r"\0(\d+)\0", lambda match: codes[int(match[1])], _LINK.sub(moved, whole))


def _page_of(path: str) -> str | None:
    """Where the site has what the repository has at ``path``."""
    if path in _PAGES:
        return _PAGES[path]
    if match := re.fullmatch(r"benchmarks/(?:results/)?(\w+)\.(?:py|txt)", path):
        known = (ROOT / "benchmarks" / "results" / f"{match[1]}.txt").exists()
        return f"#benchmark-{match[1]}" if known else None
    if match := re.fullmatch(r"examples/plot_(\w+)\.py", path):
        return f"/gallery/plot_{match[1]}.rst"
    if match := re.fullmatch(r"src/softmargin/(\w+)(?:\.py)?", path):
        return f"/api/{match[1]}.rst" if (DOCS / "api" / f"{match[1]}.rst").exists() else None
    return None


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    if Path(app.env.doc2path(docname)).suffix == ".md":
        source[0] = on_site(source[0], posixpath.join("docs", posixpath.dirname(docname)))


def _included(app: Sphinx, path: Path, docname: str, source: list[str]) -> None:
    source[0] = on_site(source[0], posixpath.normpath(posixpath.join("docs", posixpath.dirname(Path(path).as_posix()))))


class _InlinePictures(SphinxPostTransform):
    """Puts the markup of an SVG where the picture is."""

    default_priority = 5
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for image in list(self.document.findall(nodes.image)):
            path = DOCS / image["uri"].lstrip("/")
            if path.suffix == ".svg" and path.is_file():
                markup = path.read_text(encoding="utf-8")
                image.replace_self(nodes.raw("", f'<div class="drawing">{markup}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects to pages as they are read."""
    app.connect("source-read", _read)
    app.connect("include-read", _included)
    app.add_post_transform(_InlinePictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
