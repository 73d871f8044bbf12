import subprocess
import sys
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import softmargin.plot
from softmargin.plot.style import DASHES, FILLS, MARKERS, MARKS, label_of, new_axes, next_look, plain

matplotlib.use("Agg")
#: How linear RGB looks to eyes that lack a kind of cone (Machado, Oliveira and Fernandes 2009, full severity).
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def lab(colour, vision):
    """CIE L*a*b* of a colour as it is seen."""
    c = np.array(to_rgb(colour))
    linear = np.clip(np.array(vision) @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ linear / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_by_all_eyes(vision):
    seen = [lab(colour, VISIONS[vision]) for colour in FILLS]
    # A distance of 2.3 is just noticeable side by side; curves and marks are small and apart.
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 15


def test_colours_differ_in_grey():
    lightness = [lab(colour, np.eye(3))[0] for colour in FILLS]
    assert min(abs(one - other) for one, other in combinations(lightness, 2)) > 5


def test_marks_are_darker_than_their_fills():
    for fill, mark in zip(FILLS, MARKS, strict=True):
        assert lab(mark, np.eye(3))[0] < lab(fill, np.eye(3))[0] - 10


def test_every_curve_has_a_marker_and_dashes_of_its_own():
    assert len({*MARKERS}) == len({*DASHES}) == len({*FILLS}) == len(FILLS)
    ax = Figure().subplots()
    looks = []
    for _ in range(len(FILLS) + 1):
        looks.append(next_look(ax))
        ax.plot([0, 1], [0, 1], **looks[-1])
    assert len({look["color"] for look in looks[:-1]}) == len(FILLS)
    assert looks[-1] == looks[0]


@pytest.mark.parametrize("text", ["US$ per $", r"$x^2$", "a_b", "50 %", "long " * 20])
def test_words_are_drawn_as_they_are_written(text):
    figure = Figure()
    drawn = figure.text(0.5, 0.5, plain(text))
    figure.draw_without_rendering()
    assert drawn._preprocess_math(drawn.get_text())[1] in (False, "TeX")
    shown = drawn._preprocess_math(drawn.get_text())[0].replace(r"\$", "$")
    assert shown == text or (len(shown) <= 40 and shown.endswith("…") and text.startswith(shown[:-1]))


def test_legends_show_names_with_underscores():
    ax = Figure().subplots()
    ax.plot([0, 1], [0, 1], label=label_of("_hidden"))
    assert ax.get_legend_handles_labels()[1] == [" _hidden"]


def test_new_axes_are_those_of_a_figure():
    ax = new_axes(figsize=(3.0, 2.0))
    assert tuple(ax.figure.get_size_inches()) == (3.0, 2.0)
    matplotlib.pyplot.close(ax.figure)


def test_all_displays_are_public_and_documented():
    for name in softmargin.plot.__all__:
        display = getattr(softmargin.plot, name)
        assert name.endswith("Display")
        assert all(word in display.__doc__ for word in ("Parameters", "Attributes", "Examples", "ax_"))
        assert callable(display.plot)


def test_absent_matplotlib_is_named():
    code = """
import sys
sys.modules["matplotlib"] = None
from softmargin.plot import ReliabilityDisplay
try:
    ReliabilityDisplay.from_predictions([0, 1], [0.1, 0.9])
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == 'softmargin.plot needs matplotlib: pip install "softmargin[cli]"\n'
