"""The page of a report: one file that asks for nothing, whatever is in the data; and how it is written."""

import base64
import hashlib
import os
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import softmargin.report.facts as facts_module
from references_report import HOSTILE, Page, Told, fitted_svc, frame_of, some_tumours
from softmargin import report
from softmargin.report.page import element, joined, shown


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals are tested where they are made."""
    monkeypatch.setattr(facts_module, "_DRAWS", (20, 20))


@pytest.fixture(scope="module")
def tumours():
    return some_tumours()


@pytest.fixture(scope="module")
def svc(tumours):
    return fitted_svc(tumours)


# The page ------------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_of_the_network(svc, tumours):
    text = report.html(svc, *tumours[2:])
    page = Page(text)
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
        assert "url(" not in inner
        assert "@import" not in inner
    assert not re.search(r"https?:|//[a-z]", text.replace("</script>", ""))
    named = {name for _, attributes in page.elements for name in attributes}
    assert not named & {"src", "style", "action"}
    assert not any(name.startswith("on") for name in named)
    assert all(a["href"].startswith("#") for _, a in page.elements if "href" in a)


def test_drawings_have_names_and_descriptions(svc, tumours):
    page = Page(report.html(svc, *tumours[2:]))
    drawings = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") == "img"]
    assert len(drawings) >= 5
    for attributes in drawings:
        title, description = (page.by_id[name] for name in attributes["aria-labelledby"].split())
        assert title
        assert description.endswith(".")
    hidden = [attributes for tag, attributes in page.elements if tag == "svg" and attributes.get("role") != "img"]
    assert all(attributes["aria-hidden"] == "true" for attributes in hidden)


def test_the_same_rows_make_the_same_page(svc, tumours):
    first = report.html(svc, *tumours[2:], title="Twice")
    assert first == report.html(svc, *tumours[2:], title="Twice")
    assert first != report.html(svc, *tumours[2:], title="Twice", random_state=1)


def test_many_rows_make_a_small_page(rng):
    n = 100_000
    p = rng.beta(0.5, 0.5, size=n)
    frame = pd.DataFrame({"number": rng.normal(size=n), "text": rng.integers(0, 10**9, n).astype(str)})
    text = report.html(
        Told(np.column_stack([1 - p, p]), ["no", "yes"]).fit(), frame, np.where(rng.random(n) < p, "yes", "no")
    )
    assert len(text.encode()) < 100_000


def test_text_is_escaped_and_nothing_else_is():
    assert element("p", "<b>", element("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert element("a", data_x="\"<>&'", hidden=True, id=None) == '<a data-x="&quot;&lt;&gt;&amp;&#x27;" hidden></a>'
    assert joined(["<", ["<"]], None, 1.25) == "&lt;&lt;1.2"


@settings(max_examples=40)
@given(st.text(max_size=200))
def test_shown_text_is_short_visible_and_encodable(text):
    safe = shown(text)
    safe.encode()
    # A character that is written out takes ten at most.
    assert len(safe) <= 600
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", safe)


def hostile_page(names, classes, entries, title):
    rng = np.random.default_rng(0)
    proba = np.round(rng.dirichlet([1, 1], size=12), 3)
    frame = frame_of(names, [list(entries) * 4 for _ in names])
    model = Told(proba, np.array(classes, dtype=object)).fit()
    labels = np.array([classes[k] for k in rng.integers(0, 2, 12)], dtype=object)
    return report.html(model, frame, labels, title=title)


texts = st.sampled_from(HOSTILE) | st.text(max_size=60)


@example(HOSTILE[:2], HOSTILE[2:4], HOSTILE[4:7], HOSTILE[7])
@example(HOSTILE[7:9], HOSTILE[9:11], [HOSTILE[11], HOSTILE[12], HOSTILE[9]], HOSTILE[8])
@example(HOSTILE[9:11], HOSTILE[11:13], HOSTILE[:3], HOSTILE[9])
@settings(max_examples=40)
@given(
    st.lists(texts, min_size=2, max_size=2, unique=True),
    st.lists(texts, min_size=2, max_size=2, unique=True),
    st.lists(texts, min_size=3, max_size=3, unique=True),
    texts,
)
def test_no_element_comes_from_data(names, classes, entries, title):
    hostile = hostile_page(names, classes, entries, title)
    hostile.encode()
    benign = Page(hostile_page(["one", "two"], ["a", "b"], ["x", "y", "z"], "title"))
    page = Page(hostile)
    assert page.tags == benign.tags
    assert [set(a) for _, a in page.elements] == [set(a) for _, a in benign.elements]
    # What a reader is told is what was given.
    assert page.by_id["data"].count(shown(names[0])) >= 1


def test_long_names_are_shortened():
    text = hostile_page(["x" * 10_000, "y"], ["a" * 10_000, "b"], ["c" * 10_000, "d", "e"], "t" * 10_000)
    assert len(text) < 100_000
    assert "x" * 100 not in text


# Files and mistakes --------------------------------------------------------------------------------------------------


def test_write_replaces_what_was_there(svc, tumours, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    assert report.write(path, svc, *tumours[2:], title="After") == path
    assert path.read_text(encoding="utf-8") == report.html(svc, *tumours[2:], title="After")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_failed_write_leaves_what_was_there(svc, tumours, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        report.write(path, svc, *tumours[2:])
    assert os.listdir(tmp_path) == ["report.html"]
    assert path.read_text() == "before"
