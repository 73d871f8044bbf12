"""Searches for the kernel with the highest objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..arrays import NotPositiveDefiniteError
from ..kernels import Kernel
from ..monitor import Monitor
from .evidence import Evidence, Judged
from .space import Space

#: L-BFGS stops when an iteration gains less than this share of the objective; the most iterations, and from nearby.
_TOLERANCE, _MOST_ITERATIONS, _ITERATIONS_WHEN_NEAR = 1e-4, 30, 4
#: Plain gradient steps: the first and the least length in log-parameters, and the most steps.
_FIRST_STEP, _LEAST_STEP, _MOST_STEPS = 0.5, 0.02, 60
#: Another start is followed if it is no more nats than this behind a choice, and wins if it ends this many ahead.
_FAR_BEHIND, _BETTER = 5.0, 2.0
#: The share of a time budget that may be spent before the ascent starts.
_SHARE_OF_TIME = 0.5
#: The number of kernels evaluated however little time there is: the start, the first step, and a step that uses the
#: curvature seen on it.
_FEWEST_KERNELS = 3
#: Decimals to which the chosen coordinates are rounded.
_DIGITS = 3


class Choice(NamedTuple):
    """The chosen kernel, its objective including the prior of the log-parameters, and the kernels tried on the way.

    ``judged`` is the evaluation of the kernel before rounding.
    """

    kernel: Kernel
    value: float
    history: list[dict[str, Any]]
    judged: Judged | None = None


class Search:
    """The negative of objective and log-prior as a function of coordinates, for minimisers; it remembers the best.

    A kernel whose covariance cannot be factored counts as worse than all others.  At least ``fewest`` kernels are
    evaluated, however little time there is.
    """

    def __init__(self, evidence: Evidence, space: Space, monitor: Monitor | None = None, fewest: int = 1) -> None:
        self.evidence, self._space, self._monitor, self._fewest = evidence, space, monitor, fewest
        self.best, self._least, self._worst = np.zeros(len(space.deviation)), np.inf, 0.0
        self.history: list[dict[str, Any]] = []
        self._judged: Judged | None = None
        #: The evaluation of the last candidate.
        self.last: Judged | None = None

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        return self.weighed(x, self.evidence.at)

    def weighed(
        self, x: np.ndarray, at: Callable[[Kernel], Judged], is_candidate: bool = True
    ) -> tuple[float, np.ndarray]:
        """The loss and gradient of a kernel evaluated by ``at``, with the prior; only candidates are remembered."""
        enough = len(self.history) >= self._fewest
        if enough and is_over(self._monitor):
            raise _EnoughError
        prior, prior_slopes = self._space.log_prior(x)
        kernel = self._space.at(x)
        try:
            judged = at(kernel)
        except NotPositiveDefiniteError:
            return self._worst + 1e3, -prior_slopes
        loss = -judged.value - prior
        self._worst = max(self._worst, loss)
        if is_candidate:
            self.history.append({"objective": -loss, "kernel": kernel})
            self.last = judged
            if loss < self._least:
                self.choose(x, loss, judged)
        if self._monitor is not None:
            self._monitor.note(f"kernel {len(self.history)}  bound {-loss:.6g}")
        return loss, -self._space.pulled_back(judged.slopes) - prior_slopes

    def choose(self, x: np.ndarray, loss: float, judged: Judged | None) -> None:
        """Records a kernel as the best."""
        self.best, self._least, self._judged = x.copy(), loss, judged

    def better_of_centre_and(self, x: np.ndarray) -> np.ndarray:
        """The better of two starting points: one far from the data's scale may have a vanishing gradient."""
        centre = self.best
        if np.any(np.abs(x - centre) > 10.0**-_DIGITS):
            for where in (centre, x):
                self(where)
        return self.best

    @property
    def choice(self) -> Choice:
        # Rounded to the accuracy of the search, so that tables that differ by rounding errors get the same kernel.
        return Choice(self._space.at(np.round(self.best, _DIGITS)), -self._least, self.history, self._judged)


def is_over(monitor: Monitor | None) -> bool:
    """Whether tuning has used its share of the time, or the user has interrupted it."""
    return monitor is not None and (monitor.interrupted or monitor.spent(_SHARE_OF_TIME))


class _EnoughError(Exception):
    """Time is up."""


Optimiser = Callable[[Search, Space, np.ndarray, bool], None]


def by_quasi_newton(search: Search, space: Space, x: np.ndarray, near: bool = False) -> None:
    """L-BFGS, with a converged belief at each kernel; only a few iterations if the start is ``near`` the optimum."""
    options = {"ftol": _TOLERANCE, "maxiter": _ITERATIONS_WHEN_NEAR if near else _MOST_ITERATIONS}
    bounds = [(-far, far) for far in space.farthest]
    minimize(search, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def by_gradient_steps(search: Search, space: Space, x: np.ndarray, near: bool = False) -> None:
    r"""The paper's method: alternates a few updates of the belief and one gradient step (Wenzel 2017, eq. 12).

    After a step that ascends, the next is a third longer; one that does not is rejected, and the next is half as long.
    """
    loss, slopes = search(x)
    length = _FIRST_STEP / 4 if near else _FIRST_STEP
    for _ in range(_MOST_STEPS):
        step = length * slopes / max(float(np.linalg.norm(slopes)), 1e-12)
        tried = np.clip(x - step, -space.farthest, space.farthest)
        loss_there, slopes_there = search(tried)
        if loss_there < loss:
            x, loss, slopes, length = tried, loss_there, slopes_there, length * 4 / 3
        else:
            length /= 2
        if length < _LEAST_STEP:
            break


def maximise(
    evidence: Evidence,
    space: Space,
    optimiser: Optimiser = by_quasi_newton,
    start: Kernel | Choice | None = None,
    monitor: Monitor | None = None,
) -> Choice:
    """The kernel with the highest objective; the best so far if time runs out or the user interrupts the tuning.

    ``start`` is a kernel to start from, or the choice of another panel, which is taken to be near the optimum.
    """
    near = isinstance(start, Choice)
    search = Search(evidence, space, monitor, 1 if near or optimiser is not by_quasi_newton else _FEWEST_KERNELS)
    if isinstance(start, Choice):
        start, judged = start.kernel, start.judged
        if judged is not None:
            evidence.begin_from(judged)
    with _until_enough(search, monitor):
        x = space.nearest(space.kernel if start is None else start)
        optimiser(search, space, x if near else search.better_of_centre_and(x), near)
    return search.choice


def maximise_again(
    evidence: Evidence,
    space: Space,
    optimiser: Optimiser,
    choice: Choice,
    start: Kernel,
    monitor: Monitor | None = None,
) -> Choice:
    """The best kernel reached from another start, if it is better than a choice; otherwise the choice.

    A start that is far behind the choice is not followed: it would lead back to about the same optimum, at the cost of
    another full search.
    """
    search = Search(evidence, space, monitor)
    if choice.judged is not None:
        evidence.begin_from(choice.judged)
    with _until_enough(search, monitor):
        x = space.nearest(start)
        if -search(x)[0] > choice.value - _FAR_BEHIND:
            optimiser(search, space, x, False)
    best = search.choice if search.choice.value > choice.value + _BETTER else choice
    return best._replace(history=choice.history + search.history)


@contextmanager
def _until_enough(search: Search, monitor: Monitor | None) -> Iterator[None]:
    """Ends a search when time is up or the user interrupts it."""
    try:
        yield
    except _EnoughError:
        pass
    except KeyboardInterrupt:
        if monitor is None or not search.history:
            raise
        monitor.interrupted = True
