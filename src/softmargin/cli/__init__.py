"""The command ``softmargin``.  It needs the ``cli`` extra, and says so when that is missing.

A file for each command; `app` puts them together, `asking` reads what users name, `showing` is what they see.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

__all__ = ["build", "main"]

_EXTRA = ("typer", "rich", "matplotlib", "pandas")
_INSTALL = 'The softmargin command needs additional packages: pip install "softmargin[cli]"'


def main() -> None:
    """Runs the command line."""
    if any(importlib.util.find_spec(name) is None for name in _EXTRA):  # which costs less than to import them
        print(_INSTALL, file=sys.stderr)
        raise SystemExit(1)
    build()()


def build() -> Any:
    """The typer application.

    Examples
    --------
    >>> from typer.testing import CliRunner
    >>> CliRunner().invoke(build(), ["--version"]).exit_code
    0
    """
    from .app import application

    return application()
