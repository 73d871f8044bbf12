"""HTML building blocks: elements that escape their content, tables, figures, and the page around them."""

from __future__ import annotations

import base64
import hashlib
import html
import unicodedata
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, NamedTuple

#: Elements that have no end tag.
_VOID = frozenset({"meta", "br"})
#: Maximum length of texts from the data.
LONGEST = 60
#: Joiners that scripts and emojis need; all other invisible characters are escaped.
_KEPT = "\u200c\u200d"
_SPACES = str.maketrans(dict.fromkeys("\t\n\r", " "))
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Markup(str):
    """A string that is already HTML."""

    __slots__ = ()


def element(tag: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element.  Children that are not markup are escaped; None is skipped, and lists are flattened.

    Underscores in attribute names become dashes, except for one at the end, which avoids Python keywords.  Attributes
    that are None or False are left out.

    >>> element("p", "1 < 2 ", element("b", "&"), class_="note", aria_label='"')
    '<p class="note" aria-label="&quot;">1 &lt; 2 <b>&amp;</b></p>'
    """
    words = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{words}>")
    return Markup(f"<{tag}{words}>{joined(*children)}</{tag}>")


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(_plain(value))}"'


def joined(*children: Any) -> Markup:
    """Concatenated children.

    >>> joined("a<", [element("br"), None, 3])
    'a&lt;<br>3'
    """
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, Iterable) and not isinstance(child, str):
            parts.append(joined(*child))
        else:
            parts.append(html.escape(_plain(child), quote=False))
    return Markup("".join(parts))


def _plain(value: Any) -> str:
    """An attribute as text, with floats, which are coordinates, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def shown(value: Any, longest: int = LONGEST) -> str:
    r"""A value from the data as text for display: shortened, and without invisible characters.

    Characters that change the direction of the text, end a line or cannot be encoded are escaped.

    >>> shown("a\u202eb\x00"), shown("x" * 100, 9)
    ('a\\u202eb\\x00', 'xxxxx…xxx')
    """
    text = str(value)
    if len(text) > longest:
        tail = longest // 3
        text = f"{text[: longest - tail - 1]}…{text[-tail:]}"
    text = text.translate(_SPACES)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(letter) for letter in text)


def _visible(letter: str) -> str:
    hidden = unicodedata.category(letter) in _INVISIBLE and letter not in _KEPT
    return letter.encode("unicode_escape").decode() if hidden else letter


class Column(NamedTuple):
    """The header of a table column; numbers are aligned to the right."""

    name: str
    numeric: bool = False


class Cell(NamedTuple):
    """The content of a table cell, the number by which it is sorted, if any, and its CSS class."""

    content: Any
    value: Any = None
    class_: str | None = None


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]], sortable: bool = False) -> Markup:
    """A table in its own box, which scrolls on narrow pages; the first cell of each row is its header."""
    head = element("tr", [element("th", c.name, scope="col", class_="number" if c.numeric else None) for c in columns])
    body = [
        element("tr", [_cell(*pair, first=not k) for k, pair in enumerate(zip(columns, row, strict=True))])
        for row in rows
    ]
    made = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", body),
        class_="sortable" if sortable else None,
    )
    return scrolling(made, caption)


def scrolling(wide: Markup, name: str) -> Markup:
    """A box that scrolls horizontally, also by keyboard."""
    return element("div", wide, class_="scroll", role="region", tabindex="0", aria_label=name)


def _cell(column: Column, given: Any, first: bool) -> Markup:
    cell = given if isinstance(given, Cell) else Cell(given)
    words = [*(["number"] if column.numeric else []), *([cell.class_] if cell.class_ else [])]
    value = None if cell.value is None else f"{cell.value:.12g}"
    class_ = " ".join(words) or None
    if first:
        return element("th", cell.content, scope="row", class_=class_, data_value=value)
    return element("td", cell.content, class_=class_, data_value=value)


def figure(drawing: Any, caption: Any, legend: Any = None, numbers: Markup | None = None, wide: bool = False) -> Markup:
    """A drawing with its caption, and the numbers behind it, also for readers who cannot see it."""
    return element(
        "figure",
        drawing,
        legend,
        element("figcaption", caption),
        None if numbers is None else element("details", element("summary", "Numbers"), numbers),
        class_="wide" if wide else None,
    )


def paragraph(*words: Any, class_: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", *words, class_=class_)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names as a list within a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"] * 9, most=2)
    ('a, b and c', 'a, a and 7 more')
    """
    kept = list(names[:most]) + ([f"{len(names) - most:,} more"] if len(names) > most else [])
    return kept[0] if len(kept) == 1 else f"{', '.join(kept[:-1])} and {kept[-1]}" if kept else "none"


class Section(NamedTuple):
    """One tab: a short name for use in URL fragments, a title, and the content."""

    name: str
    title: str
    content: Markup


def document(title: str, head: Markup, sections: Sequence[Section], foot: Markup) -> str:
    """The whole page, as one file that needs no network and runs only the package's own script."""
    style, script = _packaged("style.css"), _packaged("script.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    tabs = [element("a", section.title, href=f"#{section.name}", id=f"tab-{section.name}") for section in sections]
    panels = [
        element(
            "section",
            element("h2", section.title),
            section.content,
            id=section.name,
            aria_labelledby=f"tab-{section.name}",
        )
        for section in sections
    ]
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", title),
            element("style", Markup(style)),
        ),
        element(
            "body",
            element("header", element("button", "Dark", type="button", id="theme", hidden=True), head),
            element("nav", tabs, id="tabs", aria_label="Parts of the report"),
            element("main", panels),
            element("footer", foot),
            element("script", Markup(script)),
        ),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def _packaged(name: str) -> str:
    return resources.files("softmargin.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
