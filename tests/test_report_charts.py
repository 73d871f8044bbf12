import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from references_report import Page
from softmargin.report.charts import HEIGHT, WIDTH, Axis, Chart, interval, legend, nice_ticks, rows_chart, thinned

finite = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(finite, st.floats(1e-6, 1e9), st.integers(3, 8))
def test_ticks_are_round_even_and_within(low, width, about):
    high = low + width
    if high - low < 1e-9 * max(abs(low), abs(high)):  # no axis is as short as the rounding of its ends
        return
    ticks = nice_ticks(low, high, about)
    assert 1 <= len(ticks) <= about + 1
    slack = 1e-6 * (high - low)
    assert low - slack <= ticks[0]
    assert ticks[-1] <= high + slack
    steps = np.diff(ticks)
    if len(steps):
        first = f"{steps[0]:.3e}"
        assert first[0] in "125"
        assert first[1:5] == ".000"
        np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


@given(st.floats(1e-12, 1e6), st.floats(1.01, 1e12))
def test_ticks_of_a_logarithmic_axis_are_within(low, factor):
    axis = Axis(low, low * factor, log=True)
    ticks = axis.ticks()
    assert len(ticks) <= 6
    shares = axis.share(ticks)
    assert np.all((shares > -1e-6) & (shares < 1 + 1e-6))
    assert np.all(np.diff(shares) > 0)


@given(st.lists(finite, min_size=1, max_size=5))
def test_an_axis_holds_its_values(values):
    axis = Axis.around(values, include=[0.0])
    shares = axis.share([*values, 0.0])
    assert axis.low < axis.high
    assert np.all((shares >= 0) & (shares <= 1))


def test_an_axis_of_nothing_and_of_one_value():
    assert Axis.around([np.nan, np.inf]).ticks()
    assert Axis.around([3.0, 3.0]).share(3.0) == 0.5


def numbers(text):
    return [float(part) for part in re.findall(r"-?[\d.]+", text)]


def test_lines_go_where_the_data_are():
    chart = Chart(Axis(0, 10), Axis(0, 1))
    chart.line([0, 5, 10], [0, 0.5, 1])
    path = next(a["d"] for _, a in Page(chart.svg("c", "t", "d")).elements if a.get("class", "").startswith("line"))
    x0, y0, x1, y1, x2, y2 = numbers(path)
    assert x0 < x1 < x2
    assert y0 > y1 > y2  # up is less
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert x0 > 0
    assert x2 < WIDTH
    assert y2 > 0
    assert y0 < HEIGHT


def test_bars_begin_at_their_base_and_point_both_ways():
    chart = Chart(Axis(0, 1), Axis(-1, 1))
    chart.bars(
        np.array([0.1, 0.5, 0.7]), np.array([0.2, 0.6, 0.8]), np.array([0.5, -0.5, 0.0]), tips=["up", "down", "none"]
    )
    page = Page(chart.svg("c", "t", "d"))
    up, down = [{k: float(v) for k, v in a.items() if k != "class"} for tag, a in page.elements if tag == "rect"]
    base = float(chart.at_y(0.0))
    assert up["y"] + up["height"] == pytest.approx(base, abs=0.1)
    assert down["y"] == pytest.approx(base, abs=0.1)
    assert up["height"] == pytest.approx(down["height"], abs=0.1)
    assert "none" not in page.text  # a bar of no height is not drawn


def test_boxes_enclose():
    chart = Chart(Axis(0, 1), Axis(0, 1))
    chart.boxes([0.0], [1.0], [0.2], [0.6])
    (box,) = [a for _, a in Page(chart.svg("c", "t", "d")).elements if a.get("class", "").startswith("band")]
    corner = float(chart.at_x(0.0)), float(chart.at_y(0.6))
    assert (float(box["x"]), float(box["y"])) == pytest.approx(corner, abs=0.1)
    assert float(box["width"]) == pytest.approx(float(chart.at_x(1.0)) - corner[0], abs=0.1)
    assert float(box["height"]) == pytest.approx(float(chart.at_y(0.2)) - corner[1], abs=0.1)


def test_named_rows_are_in_order_and_beside_their_marks():
    chart = rows_chart(3, Axis(0, 1))
    chart.lying_bars(np.array([0.9, 0.5, 0.1]), np.arange(3), 10.0)
    chart.names(["first", "second", "x" * 50])
    text = chart.svg("c", "t", "d")
    bars = [float(a["y"]) + 5 for tag, a in Page(text).elements if tag == "rect"]
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end">(?:first|second|x)', text)]
    assert heights == sorted(heights)
    np.testing.assert_allclose(np.array(heights) - 4, bars, atol=0.2)
    assert "x" * 21 not in text


def test_a_drawing_names_itself():
    page = Page(Chart(Axis(0, 1, "<x>"), Axis(0, 1, "&")).svg("roc", "Title <1>", "What & why."))
    assert page.by_id == {"roc-title": "Title <1>", "roc-desc": "What & why."}
    assert page.elements[0][1]["aria-labelledby"] == "roc-title roc-desc"
    assert "<x>" in page.text


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=400))
def test_a_thinned_curve_is_nowhere_far_from_the_curve(steps):
    x, y = (np.concatenate([[0.0], np.cumsum(part) / max(sum(part), 1e-9)]) for part in zip(*steps, strict=True))
    few_x, few_y = thinned(x, y)
    assert (few_x[0], few_y[0], few_x[-1], few_y[-1]) == (x[0], y[0], x[-1], y[-1])
    # At the same place along the way, x + y, the two are apart by less than a cell.
    way, few = x + y, few_x + few_y
    assert np.max(np.abs(np.interp(way, few, few_x) - x)) <= 1 / 150 + 1e-9


def test_small_drawings_and_legends():
    drawn = interval(0.2, 0.4, 0.3, np.nan, Axis(0, 1))
    assert "guide" not in drawn
    assert "guide" in interval(0.2, 0.4, 0.3, 0.5, Axis(0, 1))
    page = Page(legend(["<a>", "b"], ["c0", "c1"], solid=True))
    assert page.text == "<a>b"
    assert page.tags.count("rect") == 2
