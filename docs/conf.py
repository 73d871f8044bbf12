"""How the site is built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``, without any network."""

import logging
import sys
from pathlib import Path

logging.basicConfig(level=logging.WARNING)  # or the theme's colours would let every library tell what it does
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
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "benchmarks",
    "mathml",
    "reference",
    "repository",
]
exclude_patterns = ["_build"]

# Pages: Markdown that code hosts show as well, with formulas between dollars.
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# Docstrings, in the manner of numpydoc; a name between backticks is a link where it leads somewhere.
default_role = "py:obj"
napoleon_google_docstring = False
napoleon_use_param = False  # types are words, in which no names are to be looked for
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
nitpicky = True
# Names of other packages and of inner parts lead nowhere here: all that is public must lead somewhere.
nitpick_ignore_regex = [("py:.*", r"(?!softmargin\.).*"), ("py:obj", r"softmargin\.(rows|active\.diverse)\b.*")]

# Examples: each is run when the site is built, and an error in one is an error of the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "ignore_pattern": r"^(?!plot_)",
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = "softmargin"
pygments_dark_style = "github-dark"
html_static_path = ["_static"]
html_favicon = "_static/mark.svg"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#174a75", "color-brand-content": "#2266a8"},
    "dark_css_variables": {"color-brand-primary": "#a9d0f5", "color-brand-content": "#6fb1ee"},
}
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
