"""The report in a browser: what it asks for, what keys and clicks do, how it looks in the dark, on phones, on paper."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_iris

from references_report import HOSTILE, Told, frame_of
from softmargin import BayesianLinearSVC, report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
#: WCAG 2.2, level AA: text, and marks that carry meaning.
TEXT_CONTRAST, MARK_CONTRAST = 4.5, 3.0


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A report of three classes, one of two with a reference, and one whose every word is hostile."""
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
    report.write(folder / "three.html", BayesianLinearSVC().fit(X[::2], y[::2]), X[1::2], y[1::2])
    X, y = X[y != "setosa"], y[y != "setosa"]
    model, narrow = BayesianLinearSVC().fit(X[::2], y[::2]), BayesianLinearSVC().fit(X.iloc[::2, :1], y[::2])
    other = narrow.predict_proba(X.iloc[1::2, :1])
    report.write(folder / "two.html", model, X[1::2], y[1::2], reference=other)
    rng = np.random.default_rng(0)
    frame = frame_of(HOSTILE, [[HOSTILE[k] for k in rng.permutation(len(HOSTILE))] for _ in HOSTILE])
    labels = np.array(HOSTILE[:6], dtype=object)
    told = Told(rng.dirichlet(np.ones(6), size=len(frame)), labels).fit()
    report.write(folder / "hostile.html", told, frame, labels[rng.integers(0, 6, len(frame))], title=HOSTILE[0])
    return folder


@pytest.fixture
def opened(browser, files):
    """``opened(name, ...)``: a page, which fails the test if it complains or asks the network for anything."""
    contexts, complaints = [], []

    def go(name="three", viewport=DESKTOP, fragment="", **options):
        contexts.append(browser.new_context(viewport=viewport, **options))
        page = contexts[-1].new_page()
        address = (files / f"{name}.html").as_uri()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on(
            "request", lambda asked: complaints.append(asked.url) if asked.url.partition("#")[0] != address else None
        )
        page.goto(address + fragment)
        return page

    yield go
    for context in contexts:
        context.close()
    assert not complaints


def shown_panels(page):
    return page.eval_on_selector_all("main > section", "all => all.filter(e => !e.hidden).map(e => e.id)")


def test_one_tab_is_shown_and_clicks_choose_another(opened):
    page = opened()
    tabs = page.get_by_role("tab")
    assert tabs.count() == 7
    assert shown_panels(page) == ["measures"]
    for tab in tabs.all():
        tab.click()
        assert shown_panels(page) == [tab.get_attribute("aria-controls")]
        assert page.locator('[aria-selected="true"]').all_inner_texts() == [tab.inner_text()]
        panel = page.get_by_role("tabpanel")
        assert panel.get_attribute("aria-labelledby") == tab.get_attribute("id")
        assert panel.is_visible()


def test_keys_go_through_tabs(opened):
    page = opened()
    names = [tab.get_attribute("aria-controls") for tab in page.get_by_role("tab").all()]
    page.get_by_role("tab").first.focus()
    for key, place in [
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", -1),
        ("ArrowRight", 0),
        ("ArrowLeft", -1),
        ("Home", 0),
    ]:
        page.keyboard.press(key)
        assert shown_panels(page) == [names[place]]
        assert page.evaluate("document.activeElement.getAttribute('aria-controls')") == names[place]
    # One stop for all tabs: the next is what the panel holds.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == names[0]


def test_addresses_lead_to_tabs(opened):
    assert shown_panels(opened(fragment="#model")) == ["model"]
    assert shown_panels(opened(fragment="#nowhere")) == ["measures"]


def sorted_column(page, table, column):
    rows = page.locator(table).locator("tbody tr").all()
    return [row.locator("th, td").nth(column).get_attribute("data-value") for row in rows]


@pytest.mark.parametrize("by_key", [False, True])
def test_tables_sort(opened, by_key):
    page = opened(fragment="#rows")
    table = "#rows table:has(caption:text-is('Most uncertain rows'))"
    head = page.locator(table).locator("thead th")
    names = [name.partition("\N{NO-BREAK SPACE}")[0] for name in head.all_inner_texts()]
    where = names.index("P(class)")

    def press(column):
        button = head.nth(column).get_by_role("button")
        if by_key:
            button.focus()
            page.keyboard.press("Enter")
        else:
            button.click()

    before = sorted(map(float, sorted_column(page, table, where)))
    press(where)
    assert head.nth(where).get_attribute("aria-sort") == "descending"  # numbers begin with the largest
    assert list(map(float, sorted_column(page, table, where))) == before[::-1]
    press(where)
    assert head.nth(where).get_attribute("aria-sort") == "ascending"
    assert list(map(float, sorted_column(page, table, where))) == before
    press(names.index("Class"))
    assert head.nth(where).get_attribute("aria-sort") is None
    assert head.nth(names.index("Class")).get_attribute("aria-sort") == "ascending"
    labels = page.locator(table).locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert labels == sorted(labels)


def test_without_scripts_all_is_shown(opened):
    page = opened(java_script_enabled=False)
    sections = page.locator("main > section")
    assert sections.count() == 7
    assert all(section.is_visible() for section in sections.all())
    assert page.get_by_role("button").count() == 0  # none that would do nothing
    page.get_by_role("link", name="Data").click()
    assert page.url.endswith("#data")


def test_paper_shows_all_in_light_colours(opened):
    page = opened(viewport={"width": 720, "height": 1000}, color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert all(section.is_visible() for section in page.locator("main > section").all())
    assert not page.locator("nav").is_visible()
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert max(map(int, ink.strip("rgb()").split(","))) < 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 720  # a sheet of A4 with its margins


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_turns_the_colours(opened, scheme):
    page = opened(color_scheme=scheme)
    background = "getComputedStyle(document.body).backgroundColor"
    first = page.evaluate(background)
    assert (sum(map(int, first.strip("rgb()").split(","))) > 384) == (scheme == "light")
    button = page.locator("#theme")
    assert button.inner_text() == {"light": "Dark", "dark": "Light"}[scheme]
    button.click()
    assert page.evaluate(background) != first
    button.click()
    assert page.evaluate(background) == first


@pytest.mark.parametrize("name", ["three", "two", "hostile"])
@pytest.mark.parametrize("width", [320, 360, 800])
def test_a_narrow_page_does_not_scroll_sideways(opened, name, width):
    page = opened(name, {"width": width, "height": 740})
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        beyond = page.eval_on_selector_all(
            "section:not([hidden]) :is(p, figure, figcaption, h2, .chart, dl, .scroll)",
            f"all => all.filter(e => e.getBoundingClientRect().right > {width + 0.5}).map(e => e.outerHTML)",
        )
        assert beyond == []


def test_text_on_a_phone_is_not_too_small(opened):
    page = opened(viewport=PHONE, fragment="#calibration")
    heights = page.eval_on_selector_all(
        "section:not([hidden]) .chart",
        "all => all.map(e => 12.5 * e.getBoundingClientRect().width / e.viewBox.baseVal.width)",
    )
    assert len(heights) == 7
    assert min(heights) > 10


def test_hostile_words_do_nothing(opened):
    page = opened("hostile")
    for tab in page.get_by_role("tab").all():
        tab.click()
    assert page.title() == HOSTILE[0]
    assert page.evaluate("document.scripts.length") == 1
    assert page.locator("img, iframe, object, embed, form, input").count() == 0
    handlers = "all => all.flatMap(e => e.getAttributeNames()).filter(name => name.startsWith('on'))"
    assert page.eval_on_selector_all("*", handlers) == []


CONTRASTS = """() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  // Mixed colours come as color(srgb r g b), with channels from 0 to 1.
  const rgba = (colour) => {
    const n = numbers(colour.replace('color(srgb', ''));
    const unit = colour.startsWith('color(') ? 1 : 255;
    return [n[0] / unit, n[1] / unit, n[2] / unit, n[3] === undefined ? 1 : n[3]];
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgba(getComputedStyle(e).backgroundColor);
      if (c[3] > 0) return c;
    }
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (!e.checkVisibility() || e.matches('script, style')) continue;
    const style = getComputedStyle(e);
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const name = `${e.tagName}.${e.getAttribute('class') || ''}`;
    if (e.matches('svg text') && own) found.push(['text', name, ratio(rgba(style.fill), ground(e))]);
    else if (own && !e.closest('svg')) found.push(['text', name, ratio(rgba(style.color), ground(e))]);
    else if (e.matches('.bar, .dot')) found.push(['mark', name, ratio(rgba(style.fill), ground(e))]);
    else if (e.matches('.line, .guide')) found.push(['mark', name, ratio(rgba(style.stroke), ground(e))]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["three", "two", "hostile"])
def test_contrast(opened, scheme, name):
    page = opened(name, color_scheme=scheme)
    least = {"text": TEXT_CONTRAST, "mark": MARK_CONTRAST}
    seen = set()
    for tab in page.get_by_role("tab").all():
        tab.click()
        for kind, element, contrast in page.evaluate(CONTRASTS):
            seen.add(kind)
            assert contrast >= least[kind], (element, contrast)
    assert seen == {"text", "mark"}
