"""How the site is built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``, without any network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

from softmargin import __version__  # noqa: E402

project = "softmargin"
author = "The softmargin developers"
copyright = author  # noqa: A001
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "mathml",
]
exclude_patterns = ["_build"]

# Pages: Markdown that code hosts show as well, with formulas between dollars.
myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# What docstrings say.
autosummary_generate = True
napoleon_google_docstring = False
default_role = "code"

html_theme = "furo"
html_title = "softmargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
