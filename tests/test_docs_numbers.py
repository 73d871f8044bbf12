"""Numbers that the documents quote from a benchmark are numbers that the benchmark printed.

A paragraph, an item of a list or a row of a table that names a script of ``benchmarks`` speaks of its results, and so
does a table right after such a paragraph.  Decimals there are looked for in what was kept of the script's output,
rounded to as many digits; those before a percent sign as shares, too.  Whole numbers are not: there are too many.
"""

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
    + [page for folder in ("", "tutorials", "derivations") for page in (ROOT / "docs" / folder).glob("*.md")]
)
SCRIPT = re.compile(r"benchmarks/(\w+)\.py|results/(\w+)\.txt|^\| `(\w+)\.py`")
#: What is not prose: addresses of links, code, formulas; sections of papers and versions of packages.
ASIDE = re.compile(r"\]\([^)]*\)|`[^`]*`|\$[^$]*\$|section \d\.\d|scikit-learn \d\.\d|goes away in \d\.\d+")
DECIMAL = re.compile(r"(?<![\w.])\d*\.\d+(?![\w.]*\w)(?P<percent> ?%)?")
PRINTED = re.compile(r"(?<![\w.])\d+\.?\d*(?:e[-+]?\d+)?")
#: Numbers that follow from what was printed, or that are known without it.
DERIVED = {
    "docs/honest.md": {
        ".32": "wistuba_images: images a second of the hybrid over those of the softmax, 61469 / 194405",
        ".022": "streaming: spam, .1948 - .1731",
    },
    "docs/particles.md": {"49.9": "the share of poker's largest class"},
    "docs/structured.md": {"2.5": "mixed_kernel: .0077 / .0031", "3.4": "mixed_kernel: .0099 / .0029"},
    "README.md": {".022": "as in docs/honest.md"},
    "benchmarks/README.md": {
        ".32": "as in docs/honest.md",
        "3.4": "as in docs/structured.md",
        ".0033": "wistuba_images: .9925 - .9892, in the first run",
    },
}
DERIVED["docs/status.md"] = DERIVED["benchmarks/README.md"]  # of which it quotes rows


@cache
def printed(name):
    """All numbers in the outputs of a script, without their signs."""
    outputs = [path.read_text() for path in RESULTS.glob("*.txt") if path.stem in (name, f"{name}_cuda")]
    return [float(number) for number in PRINTED.findall("\n".join(outputs))]


def statements(text):
    """Paragraphs, items and rows, each with the scripts it speaks of."""
    before = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        is_table = paragraph.lstrip().startswith("|")
        parts = paragraph.split("\n") if is_table else re.split(r"\n(?=\s*[-*] )", paragraph)
        for part in parts:
            own = [name for name in chain(*SCRIPT.findall(part)) if name]
            yield part, own or (before if is_table else [])
        before = [] if is_table else [name for name in chain(*SCRIPT.findall(paragraph)) if name]


def is_printed(quoted, is_share, numbers):
    digits = len(quoted.split(".")[1])
    units = (1.0, 100.0) if is_share else (1.0,)
    return any(abs(unit * number - float(quoted)) <= 0.5001 * 10**-digits for number in numbers for unit in units)


def unknown_numbers(text, derived=()):
    """The decimals of a text that no script it names has printed, with some of what is around them."""
    found = []
    for statement, names in statements(text):
        numbers = [number for name in names for number in printed(name)]
        if numbers:
            prose = ASIDE.sub("]", statement)
            for match in DECIMAL.finditer(prose):
                quoted = match.group().rstrip(" %")
                if quoted not in derived and not is_printed(quoted, match["percent"], numbers):
                    around = prose[max(0, match.start() - 40) : match.end() + 10]
                    found.append(f"{quoted} of {', '.join(sorted(set(names)))}: ...{around}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_numbers_are_those_of_the_results(page):
    derived = DERIVED.get(str(page.relative_to(ROOT)), {})
    assert unknown_numbers(page.read_text(), derived) == []


def test_numbers_that_nobody_printed_are_found(monkeypatch):
    monkeypatch.setattr("test_docs_numbers.printed", {"speed": [0.1234, 5.0, 0.25]}.get)
    link = "([speed.py](../benchmarks/speed.py))"
    assert unknown_numbers(f"It takes .123 s, 5.0 at most, in 25.0 % {link}.") == []
    (found,) = unknown_numbers(f"It takes .124 s, and .1 of it {link}.")
    assert found.startswith(".124 of speed")
    assert unknown_numbers("It takes .124 s.") == []
    assert len(unknown_numbers(f"It takes {link}:\n\n| .25 |\n| .26 |\n\nand .27 elsewhere.")) == 1
    assert unknown_numbers(f"A product of `.7` and $.8$, as in section 4.2 {link}.") == []
    assert unknown_numbers(f"It takes .124 s {link}.", {".124": "half of it"}) == []
