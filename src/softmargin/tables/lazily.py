"""pandas, imported only when it is needed."""

from __future__ import annotations

from typing import Any

from ..extras import needed

__all__ = ["pandas"]


def pandas() -> Any:
    """pandas, or an error that says how to install it."""
    return needed("pandas", "cli", "softmargin.tables")
