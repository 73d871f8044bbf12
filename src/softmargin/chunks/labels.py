"""Labels that come in parts: whether they can be put in order together."""

from __future__ import annotations

from numbers import Real

import numpy as np


class LabelTypes:
    """Of which types labels are, and in which of several parts of a table each was found first.

    Numbers may be integers here and floats there.  Truth values, numbers and words cannot be put in order together;
    NumPy would make words of them all.

    >>> types = LabelTypes("batch")
    >>> types.meet(np.array([0, 1]), 0)
    >>> types.meet(np.array(["1"]), 4)
    Traceback (most recent call last):
    ValueError: Labels are of several types: int64 in batch 0, str in batch 4 (counted from 0). Use a single type.
    """

    def __init__(self, part: str) -> None:
        self._part, self._found = part, {}

    def meet(self, labels: np.ndarray, number: int) -> None:
        """The labels of one more part; of the several labels of a part there is one type."""
        if not len(labels):
            return
        kind, name = _type_of(labels)
        self._found.setdefault(kind, f"{name} in {self._part} {number}")
        if len(self._found) > 1:
            raise ValueError(
                f"Labels are of several types: {', '.join(self._found.values())} (counted from 0). Use a single type."
            )


def _type_of(labels: np.ndarray) -> tuple[str, str]:
    """What labels can be compared with, and what they are called."""
    label = labels[0].item() if isinstance(labels[0], np.generic) else labels[0]
    number = isinstance(label, Real) and not isinstance(label, bool)
    kind = type(label).__name__
    return ("number" if number else kind), (labels.dtype.name if number and labels.dtype.kind != "O" else kind)
