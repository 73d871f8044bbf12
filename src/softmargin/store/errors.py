"""The error for files that cannot be written or read."""

from __future__ import annotations


class StoreError(ValueError):
    """Error for a file that cannot be written or read; the message says which, why, and what to do."""
