"""Optional dependencies, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any


def needed(package: str, extra: str, what: str) -> Any:
    """Imports a package, or raises an error that says which extra installs it.

    >>> needed("math", "cli", "This").pi > 3
    True
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f'{what} needs the package {package}: pip install "softmargin[{extra}]".') from error
