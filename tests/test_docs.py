"""That documentation hangs together: links, pages, code blocks, the reference, and pages made from kept results.

The site itself is built elsewhere, with warnings as errors; everything here needs no more than the files.
"""

import importlib
import inspect
import pkgutil
import re
import runpy
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

import softmargin

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Folders that are made when the site is built.
BUILT = ("_build", "gallery")


def _sources(pattern: str) -> list[Path]:
    found = sorted(path for path in DOCS.rglob(pattern) if path.relative_to(DOCS).parts[0] not in BUILT)
    return [path for path in found if "_extensions" not in path.parts]


ON_HOSTS = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md", "benchmarks/README.md")
]
PAGES = [*_sources("*.md"), *_sources("*.rst")]
MARKDOWN = [*ON_HOSTS, *_sources("*.md")]
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<body>.*?)^(?P=indent)``` *$", re.DOTALL | re.MULTILINE)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _prose(path: Path) -> str:
    """A page without its code."""
    return re.sub(r"`+[^`\n]*`+", "", FENCE.sub("", path.read_text(encoding="utf-8")))


def _links(path: Path) -> list[str]:
    return re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", _prose(path))


def _anchors(path: Path) -> set[str]:
    """What code hosts and the site call the headings of a page."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


# Links ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MARKDOWN, ids=_name)
def test_links_lead_somewhere(path):
    for link in _links(path):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", link
            assert re.fullmatch(r"[\w\-]+(\.[\w\-]+)+", parts.netloc), link
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        built = target.is_relative_to(DOCS) and target.relative_to(DOCS).parts[:1] == ("gallery",)
        assert built or target.exists(), f"{link} is not there"
        if parts.fragment and target.suffix == ".md":
            assert parts.fragment in _anchors(target), f"{link}: no such heading"


def test_pictures_have_words():
    for path in MARKDOWN:
        for words, picture in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
            assert len(words.split()) >= 3, f"{_name(path)}: {picture} says nothing to those who cannot see it"


# Code ----------------------------------------------------------------------------------------------

#: Blocks that are run: doctests by pytest, commands by the tests of the command line.  Others say what they are.
RUN, SHOWN = {"python", "sh"}, {"text", "toml", "json"}


@pytest.mark.parametrize("path", MARKDOWN, ids=_name)
def test_code_is_run_or_says_that_it_is_not(path):
    doctested = path.is_relative_to(DOCS) or path.name == "README.md"
    for fence in FENCE.finditer(path.read_text(encoding="utf-8")):
        kind, body = fence["kind"].strip(), fence["body"]
        if kind.startswith("{"):
            continue  # a directive of the site
        assert kind in RUN | SHOWN, f"a block of {kind or 'no kind'}: {body[:60]!r}"
        if kind == "python":
            assert doctested, f"nobody runs {body[:60]!r}"
            assert ">>> " in body, f"no doctest: {body[:60]!r}"
            assert re.search(r"\n\s*\n$", body) or body.rstrip("\n").split("\n")[-1].startswith((">>>", "...")), (
                f"the fence would be taken for output: {body[-60:]!r}"
            )


# Pages ---------------------------------------------------------------------------------------------


def _entries(path: Path) -> list[str]:
    """The pages that a page lists, from the folder of documentation."""
    text, folder = path.read_text(encoding="utf-8"), PurePosixPath(path.relative_to(DOCS).as_posix()).parent
    bodies = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    bodies += re.findall(r"^\.\. toctree::\n((?: +.*\n|\n)*)", text, re.MULTILINE)
    lines = [line.strip() for body in bodies for line in body.splitlines()]
    named = [re.sub(r"^.*<(.+)>$", r"\1", line) for line in lines if line and not line.startswith(":")]
    return [entry for name in named for entry in _matching(folder, name)]


def _matching(folder: PurePosixPath, name: str) -> list[str]:
    wanted = str(folder / name).removesuffix(".md").removesuffix(".rst")
    pages = [page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES]
    return [page for page in pages if PurePosixPath(page).match(wanted)] if "*" in name else [wanted]


def test_every_page_is_reached_from_the_first():
    files = {page.relative_to(DOCS).with_suffix("").as_posix(): page for page in PAGES}
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.startswith("gallery/"):
            continue
        assert page in files, f"a table of contents names {page}, which is not there"
        reached.add(page)
        waiting += _entries(files[page])
    assert set(files) - reached == set()


# Reference -----------------------------------------------------------------------------------------

#: Public, and not for users: parts that the architecture explains.
INNER = {
    *("adam", "arrays", "arrow", "checkpoint", "cli", "columns", "comparison", "coupling", "demo", "design"),
    *("devices", "engine", "entries"),
    *("estimators", "extras", "fourier_features", "frequencies", "gaussian", "gibbs", "imputation", "inducing"),
    *(
        "inference",
        "inside",
        "links",
        "loo",
        "machine",
        "minibatches",
        "monitor",
        "parameters",
        "priors",
        "rows",
        "sampling",
        "single_precision",
        "splits",
        "steps",
        "stochastic",
        "store",
    ),
    *("stochastic", "store", "streaming", "together", "tune", "validation", "winning", "wishart"),
}


def _referred() -> dict[str, set[str]]:
    """The names that the reference has of each module."""
    found: dict[str, set[str]] = {}
    for page in _sources("api/*.rst"):
        text = page.read_text(encoding="utf-8")
        for module, options in re.findall(r"^\.\. public:: (\S+)\n((?: {3,}.*\n?)*)", text, re.MULTILINE):
            chosen = re.search(r":names:((?:.|\n {4,})*)", options)
            names = chosen[1].split() if chosen else importlib.import_module(module).__all__
            found.setdefault(module, set()).update(names)
    return found


def test_every_module_is_in_the_reference_or_an_inner_part():
    modules = {module.name for module in pkgutil.iter_modules(softmargin.__path__) if not module.name.startswith("_")}
    outer = {name.removeprefix("softmargin.") for name in _referred() if name != "softmargin"}
    assert modules - outer == INNER
    assert not outer & INNER


@pytest.mark.parametrize("module", sorted(_referred()))
def test_every_public_name_is_in_the_reference(module):
    loaded, names = importlib.import_module(module), _referred()[module]
    missing = [name for name in names if not hasattr(loaded, name)]
    assert missing == []
    public = set(getattr(loaded, "__all__", names)) - {"__version__"}
    modules = {name for name in public if inspect.ismodule(getattr(loaded, name))}
    assert {name for name in modules if not (DOCS / "api" / f"{name}.rst").exists()} == set()
    assert public - modules - names == set()
    undocumented = [name for name in names if callable(thing := getattr(loaded, name)) and not thing.__doc__]
    assert undocumented == []


def test_every_room_is_on_the_plan_of_the_house():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [room for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for room in re.findall("`(.+?)`", row)]
    paths = [
        path
        for path in (ROOT / "src" / "softmargin").iterdir()
        if not path.name.startswith("_") and path.name != "py.typed"
    ]
    assert sorted(rooms) == sorted(path.name + "/" * path.is_dir() for path in paths)


#: Beneath what users call: shown in the examples of what is made of them.
PARTS = {
    "softmargin.chunks": "dense gather_rows kind_of_source n_threads of_each rows_in_block source_of summed surveyed "
    "sweep swept",
    "softmargin.diagnostics": "to_arviz warn_unless_mixed",
    "softmargin.evaluation": "Evaluation",
    "softmargin.kernels": "Kernel",
}


@pytest.mark.parametrize("module", sorted(_referred()))
def test_every_public_name_has_an_example(module):
    """Records, protocols and errors have none of their own; that examples run is for the doctests to say."""
    loaded, without = importlib.import_module(module), set()
    for name in _referred()[module]:
        thing = getattr(loaded, name)
        kinds = (tuple, BaseException) if inspect.isclass(thing) else ()
        plain = any(issubclass(thing, kind) for kind in kinds) or getattr(thing, "_is_protocol", False)
        if callable(thing) and not plain and ">>> " not in (thing.__doc__ or ""):
            without.add(name)
    assert without == set(PARTS.get(module, "").split())


# What is made from elsewhere -----------------------------------------------------------------------


def test_every_kept_result_has_its_place():
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    kept = {path.stem for path in (ROOT / "benchmarks" / "results").glob("*.txt")} & scripts
    pages = [path.read_text(encoding="utf-8") for path in _sources("benchmarks/*.md")]
    shown = [name for page in pages for name in re.findall(r"^```\{benchmark\} (\w+)$", page, re.MULTILINE)]
    assert sorted(shown) == sorted(kept)


def test_the_drawing_is_what_its_script_draws():
    path = DOCS / "pictures" / "which.py"
    assert path.with_suffix(".svg").read_text(encoding="utf-8") == runpy.run_path(str(path))["drawing"]()


def test_the_status_is_what_kept_results_say():
    """But for the sizes of files, which change with every line."""
    path = DOCS / "status.py"
    spec = importlib.util.spec_from_file_location("status", path)
    status = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(status)
    kept, made = (text.partition("## Sizes")[0] for text in (status.PAGE.read_text(encoding="utf-8"), status.page()))
    assert kept == made, "run python docs/status.py"
