"""The progress line of active learning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..monitor import Monitor


class Progress(Monitor):
    """A monitor of rounds: it records scores in place of objectives, and rounds, from 0, in place of passes."""

    def __init__(self, verbose: bool | int, max_time: float | None, n_rounds: int, stream: Any = None) -> None:
        super().__init__("ActiveLearner", verbose, max_time, n_rounds, stream)
        self._words = f" of {n_rounds}" if n_rounds else ""

    def _progress(self) -> str:
        last = self.history[-1]
        rounds = last["pass"] - 1
        score = "" if np.isnan(last["objective"]) else f"  score {last['objective']:.4g}"
        return f"{self._bar(rounds)} round {rounds}{self._words}{score}"
