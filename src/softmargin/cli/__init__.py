"""The command ``softmargin``.  It needs the ``cli`` extra, and says so if that is not installed.

There is one file for each command; `app` assembles them, `asking` parses the names that users give, and `showing`
prints results.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

__all__ = ["build", "main"]

_EXTRA = ("typer", "rich", "matplotlib", "pandas")
_INSTALL = 'The softmargin command needs additional packages: pip install "softmargin[cli]"'


def main() -> None:
    """Runs the command line."""
    if any(importlib.util.find_spec(name) is None for name in _EXTRA):  # cheaper than importing them
        print(_INSTALL, file=sys.stderr)
        raise SystemExit(1)
    if sys.stdout is None:  # closed by whoever runs the command
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
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
