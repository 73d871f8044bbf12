"""Monitoring of a fit while it runs: history, a progress line, a time budget."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, TextIO

from sklearn.exceptions import ConvergenceWarning

from .checkpoint import Journal

_BAR, _WIDTH = 24, 80
_REFRESH_SECONDS = 0.1


class InterruptedFitWarning(ConvergenceWarning):
    """Warning that a fit was interrupted, and returns the best model found so far."""


class Monitor:
    """Records every pass, shows a progress line, and reports when time is up.

    ``history`` holds a dict for each pass: its number, seconds since the start, the objective, whether the step was
    accepted, and the phase of the fit: ``"passes"``, ``"minibatches"``, ``"particles"``, ``"warm-up"`` or ``"draws"``.
    If sums over rows overflow, the objective of a pass is minus infinity.
    """

    def __init__(
        self,
        label: str = "",
        verbose: bool | int = False,
        max_time: float | None = None,
        max_passes: int = 0,
        stream: TextIO | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.history: list[dict[str, Any]] = []
        self._label, self._verbose, self._max_time, self._max_passes = label, verbose, max_time, max_passes
        self._stream = stream if stream is not None else sys.stderr
        self._start = time.perf_counter()
        self._before, self._drawn = 0.0, -1.0
        #: Whether the user interrupted a stage of the fit; those that follow then take short cuts.
        self.interrupted = False
        #: The results of the fit so far, from which it can resume after a crash.
        self.journal = Journal() if journal is None else journal

    def record(self, objective: float, accepted: bool, phase: str = "passes") -> None:
        """Records one more pass."""
        seconds, number = self.seconds, len(self.history) + 1
        facts = {"pass": number, "seconds": seconds, "objective": objective, "accepted": accepted, "phase": phase}
        self.history.append(facts)
        if self._verbose and seconds - self._drawn >= _REFRESH_SECONDS:
            self._show(self._progress(), seconds)

    def note(self, text: str) -> None:
        """Shows what is done before the first pass."""
        seconds = self.seconds
        if self._verbose and seconds - self._drawn >= _REFRESH_SECONDS:
            self._show(text, seconds)

    @property
    def seconds(self) -> float:
        """Seconds since the start, plus those of the fit that is resumed, if any."""
        return self._before + time.perf_counter() - self._start

    def resume(self, history: list[dict[str, Any]], seconds: float) -> None:
        """Continues the history of an earlier fit; a time budget applies to each call separately."""
        self.history, self._before = history, seconds

    @property
    def out_of_time(self) -> bool:
        return self.spent(1.0)

    @property
    def time_left(self) -> float:
        """Seconds left of the time budget, at least zero; infinitely many without one."""
        if self._max_time is None:
            return math.inf
        return max(0.0, self._start + self._max_time - time.perf_counter())

    def silent(self) -> Monitor:
        """A monitor with the same time budget that shows nothing and has no journal."""
        other = Monitor(max_time=self._max_time)
        other._start = self._start
        return other

    def spent(self, share: float) -> bool:
        """Whether this share of the time budget is spent."""
        return self._max_time is not None and time.perf_counter() - self._start >= share * self._max_time

    def close(self) -> None:
        """Shows the last state and ends the line."""
        if self._verbose and self.history:
            self._show(self._progress(), self.history[-1]["seconds"])
            self._stream.write("\n")
            self._stream.flush()

    def _progress(self) -> str:
        """How far the fit has got, in words."""
        last = self.history[-1]
        return f"{self._bar(last['pass'])} pass {last['pass']}/{self._max_passes}  bound {last['objective']:.6g}"

    def _bar(self, n_done: int) -> str:
        done = min(1.0, n_done / self._max_passes) if self._max_passes else 0.0
        return f"[{'=' * round(done * _BAR):{_BAR}}]"

    def _show(self, text: str, seconds: float) -> None:
        """Overwrites the progress line; spaces cover what is left of a longer one."""
        self._stream.write(f"\r{self._label} {text}  {seconds:.1f} s ".ljust(_WIDTH))
        self._stream.flush()
        self._drawn = seconds
