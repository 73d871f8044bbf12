"""Draws ``which.svg``: questions that lead to a model, one below the other.

Run ``python docs/pictures/which.py``.  Colours are variables: the picture follows the reader's preference for light or
dark, and the site's own switch where it is part of a page.
"""

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape


class Rung(NamedTuple):
    """A question in a few lines, and where *yes* leads: the name, what to know about it, and its page."""

    question: list[str]
    model: str
    advice: list[str]
    page: str


RUNGS = [
    Rung(
        ["Images, text, or a network", "that is already trained?"],
        "softmargin.nn",
        ["MarginHead: trained with the network", "bayesianise: added afterwards, in seconds"],
        "networks.html",
    ),
    Rung(
        ["Are rows grouped by patient,", "school or machine?"],
        "BayesianMixedSVC",
        ["random effects by formula; models missing", 'values; loss="logistic" for intervals'],
        "structured.html",
    ),
    Rung(
        ["Interpret coefficients, select", "columns, or model missing", "values?"],
        "BayesianLinearSVC",
        ['loss="logistic" unless values are missing;', 'prior="laplace-zero" selects columns'],
        "structured.html",
    ),
    Rung(
        ["Is a likelihood needed, or", "may labels be wrong?"],
        "BayesianGPC",
        ["logistic loss with the same kernels;", "better than the hinge if labels are noisy"],
        "losses.html",
    ),
    Rung(
        ["Many rows, all of them needed", "to learn the kernel?"],
        "BayesianKernelMachine",
        ["random waves and particles over kernels;", "compare it with BayesianSVC"],
        "particles.html",
    ),
]
LAST = Rung([], "BayesianSVC", ["tunes its kernel; any number of rows and", "classes: try it first"], "from_svc.html")

WIDTH, LEFT, GAP, HEIGHT, STEP = 760, 300, 96, 92, 124
_STYLE = """
  .which { --ink: #1f2430; --soft: #5d6675; --line: #98a1b0; --ask: #f2f4f8; --edge: #d5dae3; --card: #e4eefb;
    --rim: #2f6fb2; --name: #174a75; font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", sans-serif; }
  @media (prefers-color-scheme: dark) { .which { --ink: #e3e6ec; --soft: #a6aebc; --line: #7b8494; --ask: #22262e;
    --edge: #3a4050; --card: #1b2f45; --rim: #5b9bd8; --name: #a9d0f5; } }
  .which .ask { fill: var(--ask); stroke: var(--edge); }
  .which .card { fill: var(--card); stroke: var(--rim); stroke-width: 1.5; }
  .which .line { stroke: var(--line); stroke-width: 1.8; fill: none; }
  .which .tip { fill: var(--line); }
  .which text { fill: var(--ink); font-size: 16px; }
  .which .name { fill: var(--name); font-size: 18px; font-weight: 650; }
  .which .advice { fill: var(--soft); font-size: 14.5px; }
  .which .word { fill: var(--soft); font-size: 14.5px; font-style: italic; }
  .which a:hover .card { stroke-width: 3; }
"""


def _lines(lines: list[str], x: float, y: float, leading: float, kind: str = "", anchor: str = "start") -> str:
    """Text whose lines are centred about ``y``."""
    first = y - leading * (len(lines) - 1) / 2 + 5
    spans = "".join(
        f'<tspan x="{x}" y="{first + leading * i:.0f}">{escape(line)}</tspan>' for i, line in enumerate(lines)
    )
    return f'<text class="{kind}" text-anchor="{anchor}">{spans}</text>'


def _card(rung: Rung, x: float, y: float, width: float) -> str:
    box = f'<rect class="card" x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="12"/>'
    name = f'<text class="name" x="{x + 18}" y="{y + 31}">{rung.model}</text>'
    advice = _lines(rung.advice, x + 18, y + 61, 20, "advice")
    return f'<a href="{rung.page}">{box}{name}{advice}</a>'


def _rung(rung: Rung, y: float) -> str:
    """A question, what it leads to on the right, and the way down."""
    middle, right = y + HEIGHT / 2, LEFT + GAP
    box = f'<rect class="ask" x="1" y="{y}" width="{LEFT - 2}" height="{HEIGHT}" rx="12"/>'
    across = f'<path class="line" d="M{LEFT} {middle}H{right - 8}"/>'
    across += f'<path class="tip" d="M{right - 2} {middle}l-11 -6v12z"/>'
    down = f'<path class="line" d="M{LEFT / 2} {y + HEIGHT}V{y + STEP - 8}"/>'
    down += f'<path class="tip" d="M{LEFT / 2} {y + STEP - 2}l-6 -11h12z"/>'
    words = _lines(["yes"], (LEFT + right) / 2 - 4, middle - 13, 0, "word", "middle")
    words += _lines(["no"], LEFT / 2 + 12, y + HEIGHT + 15, 0, "word")
    return (
        box
        + _lines(rung.question, LEFT / 2, middle, 22, "", "middle")
        + across
        + down
        + words
        + _card(rung, right, y, WIDTH - right - 1)
    )


def drawing() -> str:
    """The whole picture."""
    rungs = "\n".join(_rung(rung, 1 + STEP * index) for index, rung in enumerate(RUNGS))
    last = _card(LAST, 1, 1 + STEP * len(RUNGS), LEFT + 60)
    height = STEP * len(RUNGS) + HEIGHT + 2
    title = "Five questions, from top to bottom. Yes leads to a model; if every answer is no, use BayesianSVC."
    head = f'<svg class="which" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="group"'
    return f'{head} aria-label="{title}">\n<style>{_STYLE}</style>\n{rungs}\n{last}\n</svg>\n'


if __name__ == "__main__":
    path = Path(__file__).with_name("which.svg")
    path.write_text(drawing(), encoding="utf-8")
    print(path)
