"""The progress line of active learning."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..monitor import Monitor

_BAR = 24


class Progress(Monitor):
    """A monitor of rounds: it records scores in place of objectives, and rounds, from 0, in place of passes."""

    def __init__(self, verbose: bool | int, max_time: float | None, n_rounds: int, stream: Any = None) -> None:
        super().__init__("ActiveLearner", verbose, max_time, n_rounds, stream)
        self._words = f" of {n_rounds}" if n_rounds else ""

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    def _draw(self, seconds: float) -> None:
        last = self.history[-1]
        rounds = last["pass"] - 1
        done = min(1.0, rounds / self._max_passes) if self._max_passes else 0.0
        bar = ("=" * round(done * _BAR)).ljust(_BAR)
        score = "" if np.isnan(last["objective"]) else f"  score {last['objective']:.4g}"
        self._stream.write(f"\r{self._label} [{bar}] round {rounds}{self._words}{score}  {seconds:.1f} s ")
        self._stream.flush()
        self._drawn = seconds
