"""Labels that come in parts: checks that all of them can be sorted together."""

from __future__ import annotations

from numbers import Real

import numpy as np


class LabelTypes:
    """The types of labels, and the part of a table in which each occurred first.

    Integers and floats may be mixed.  Booleans, numbers and strings cannot be sorted together; NumPy would convert them
    all to strings.

    >>> types = LabelTypes("batch")
    >>> types.meet(np.array([0, 1]), 0)
    >>> types.meet(np.array(["1"]), 4)
    Traceback (most recent call last):
    ValueError: Labels are of several types: int64 in batch 0, str in batch 4 (counted from 0). Use a single type.
    """

    def __init__(self, part: str) -> None:
        self._part, self._found = part, {}

    def meet(self, labels: np.ndarray, number: int) -> None:
        """Registers the labels of one more part, all of one type; raises an error if the types of parts differ."""
        if not len(labels):
            return
        kind, name = _type_of(labels)
        self._found.setdefault(kind, f"{name} in {self._part} {number}")
        if len(self._found) > 1:
            raise ValueError(
                f"Labels are of several types: {', '.join(self._found.values())} (counted from 0). Use a single type."
            )


def _type_of(labels: np.ndarray) -> tuple[str, str]:
    """The kind of the labels, where equal kinds can be sorted together, and the name of their type."""
    label = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
    number = isinstance(label, Real) and not isinstance(label, bool)
    kind = type(label).__name__
    return ("number" if number else kind), (labels.dtype.name if number and labels.dtype.kind != "O" else kind)
