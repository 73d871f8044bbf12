r"""The kernel's parameters, as the data prefer them.

The judge is the objective of every fit, :math:`F = bound - KL`, at its optimum over beliefs: a function of the kernel's
log-parameters :math:`\theta` alone (the type-II maximum of Wenzel et al. 2017, section 4.3).  At that optimum ``F`` has
no slope in the belief, so its slope in :math:`\theta` is that of the rows with the belief held, and by the whitening
the divergence has none: one more sum over rows.

From one kernel to the next it is not the belief that is carried over but the rows' sites ``(w, b)``: the belief that
they imply under the *new* features is nearly the best there, and two or three updates settle it.

The hinge is no normalised likelihood, and its bound judges length-scales poorly on small tables.  The logistic bound is
a true one, and the default judge whatever the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from .arrays import NotPositiveDefiniteError, combined, to_numpy
from .chunks import Table, dense
from .columns import Columns
from .engine import Problem
from .gaussian import Belief
from .inducing import drawn_by_weight, scattered_points
from .kernels import Kernel
from .likelihoods import Likelihood, Logistic, Quadrature, Sites
from .links import fit_logistic_link
from .loo import left_out
from .monitor import Monitor
from .priors import Ridge
from .rows import Features, InducingRows
from .rows.inducing import bound_slopes, through_whitener
from .steps import ascend

TUNINGS = ("logistic", "bound", "bound-steps", "loo")
#: Rows that judge kernels, and the points they are seen through: one for so many rows, within limits.
_JUDGING_ROWS, _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS = 2048, 8, 64, 128

#: Prior deviations of the logarithms: of all length-scales together, of each from the others, and of variances.
TOGETHER, APART, VARIANCES = 1.0, 0.7, 1.0
#: No parameter goes further than this many deviations from where its prior has it.
_FARTHEST = 6.0
#: Nats within which a belief is at its optimum, and most updates on the way.
_SETTLED, _MOST_UPDATES = 1e-2, 20
#: L-BFGS ends when an iteration gains less than this share of the objective.
_TOLERANCE, _MOST_ITERATIONS = 1e-4, 30
_DIGITS = 3
#: Plain gradient steps: the variational updates before each, and its first and least length in the logarithms.
_UPDATES_PER_STEP, _FIRST_STEP, _LEAST_STEP, _MOST_STEPS = 10, 0.5, 0.02, 60
#: Factors of the variances that the leave-one-out loss may prefer, and how far the fits that it judges go.
_FACTORS, _LOO_TOLERANCE = (0.25, 4.0), 1e-4
#: The logistic likelihood with as many nodes as a judge needs.
LOGISTIC_JUDGE = Quadrature(Logistic(), n_nodes=12)


class Space(NamedTuple):
    r"""Kernels to choose from: :math:`\theta = center + basis\, x`, with a prior :math:`x_j \sim N(0, deviation_j^2)`.

    The length-scales of one kernel share a coordinate, and with ``apart`` have one each beside it: a normal prior
    of their logarithms about a common value that is itself uncertain.
    """

    kernel: Kernel
    basis: np.ndarray
    deviation: np.ndarray

    @classmethod
    def around(cls, center: Kernel, apart: bool = True) -> Space:
        """The space about a kernel: one coordinate for each variance, and for length-scales as above."""
        columns, deviation, first = [], [], 0
        unit = np.eye(len(center.theta))
        for role, size in center.roles:
            own = unit[:, first : first + size]
            first += size
            columns.append(own.sum(axis=1))
            deviation.append(TOGETHER if role == "length_scale" else VARIANCES)
            if apart and size > 1:
                columns.extend(own.T)
                deviation.extend([APART] * size)
        return cls(center, np.stack(columns, axis=1), np.array(deviation))

    def at(self, x: np.ndarray) -> Kernel:
        return self.kernel.with_theta(self.kernel.theta + self.basis @ x)

    def nearest(self, kernel: Kernel) -> np.ndarray:
        """The likeliest coordinates of a kernel, within the limits of the space."""
        scaled = self.basis * self.deviation
        x = self.deviation * (np.linalg.pinv(scaled) @ (kernel.theta - self.kernel.theta))
        return np.clip(x, -self.farthest, self.farthest)

    @property
    def farthest(self) -> np.ndarray:
        return _FARTHEST * self.deviation

    def log_prior(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        away = x / self.deviation
        return -0.5 * float(away @ away), -away / self.deviation


class Judged(NamedTuple):
    """A kernel's objective, its slopes in ``theta``, and the belief at which they were found."""

    value: float
    slopes: np.ndarray
    rows: InducingRows
    belief: Belief


class _Settling(NamedTuple):
    """A belief on its way to the optimum: the sites it came from, and those that it asks for."""

    value: float
    belief: Belief
    sites: Sites
    asked: Sites


class Evidence:
    """The objective at a kernel with the belief at its optimum, on rows that fit in memory.

    The sites of the last kernel are kept as the start for the next.  ``n_updates`` limits the updates of the belief
    before the slopes are taken; the paper takes ten.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        weight: np.ndarray,
        points: np.ndarray,
        likelihood: Likelihood = LOGISTIC_JUDGE,
        n_updates: int = _MOST_UPDATES,
    ) -> None:
        self._X, self._y, self._weight, self._points = X, y, weight, points
        self._likelihood, self._n_updates = likelihood, n_updates
        self._prior = Ridge.isotropic(len(points))
        self._sites = likelihood.sites(y, np.zeros(len(y)), np.ones(len(y)))
        self._tolerance = max(_SETTLED, 1e-5 * weight.sum())

    def at(self, kernel: Kernel) -> Judged:
        """The objective and its slopes at a kernel."""
        rows = InducingRows.at(kernel, self._points)
        features = rows.lift(self._X)
        value, belief, _, sites = self._settle(features)
        self._sites = sites
        w, b = self._weight * sites.w, self._weight * sites.b
        slopes = through_whitener(rows, bound_slopes(rows, self._X, features.phi, belief, w, b))
        return Judged(value, slopes, rows, belief)

    def _settle(self, features: Features) -> _Settling:
        """Updates of the belief, shortened where a full one descends, until they gain nothing more."""
        best = self._update(features, self._sites)
        rate = 1.0
        for _ in range(self._n_updates - 1):
            sites = combined(best.sites, rate, combined(best.asked, -1, best.sites)) if rate < 1 else best.asked
            tried = self._update(features, sites)
            gain = tried.value - best.value
            if gain < -self._tolerance:
                rate /= 2
                continue
            best = tried
            if gain < self._tolerance:
                break
        return best

    def _update(self, features: Features, sites: Sites) -> _Settling:
        belief = self._prior.given(*features.gather(self._weight * sites.w, self._weight * sites.b))
        latent = features.moments(belief)
        asked = self._likelihood.sites(self._y, latent.mu, latent.v)
        return _Settling(float(self._weight @ asked.l) - float(self._prior.kl(belief)), belief, sites, asked)


class Choice(NamedTuple):
    """The kernel that was chosen, its objective with the prior of the logarithms, and the kernels on the way."""

    kernel: Kernel
    value: float
    history: list[dict[str, Any]]


class _Search:
    """The negative of objective and prior as a function of coordinates, as minimisers want it; it remembers the best.

    A kernel that cannot be judged (its covariance cannot be factored) is worse than all others.
    """

    def __init__(self, evidence: Evidence, space: Space, monitor: Monitor | None = None) -> None:
        self._evidence, self._space, self._monitor = evidence, space, monitor
        self.best, self._least, self._worst = np.zeros(len(space.deviation)), np.inf, 0.0
        self.history: list[dict[str, Any]] = []

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        if self._monitor is not None and self.history and self._monitor.out_of_time:
            raise _EnoughError
        prior, prior_slopes = self._space.log_prior(x)
        kernel = self._space.at(x)
        try:
            judged = self._evidence.at(kernel)
        except NotPositiveDefiniteError:
            return self._worst + 1e3, -prior_slopes
        loss = -judged.value - prior
        self.history.append({"objective": -loss, "kernel": kernel})
        if self._monitor is not None:
            self._monitor.note(f"kernel {len(self.history)}  bound {-loss:.6g}")
        self._worst = max(self._worst, loss)
        if loss < self._least:
            self.best, self._least = x.copy(), loss
        return loss, -(self._space.basis.T @ judged.slopes) - prior_slopes

    def begin(self, start: Kernel) -> np.ndarray:
        """Coordinates to begin from: those of ``start``, or the centre where that is better.

        A start out of sight of the data has no slope to follow.
        """
        centre, x = self.best, self._space.nearest(start)
        if np.any(x != centre):
            self(centre), self(x)
        return self.best

    @property
    def choice(self) -> Choice:
        # Nobody knows more of these digits, and so tables that differ by rounding alone get the same kernel.
        return Choice(self._space.at(np.round(self.best, _DIGITS)), -self._least, self.history)


class _EnoughError(Exception):
    """Time is up."""


Optimiser = Callable[[_Search, Space, np.ndarray], None]


def by_quasi_newton(search: _Search, space: Space, x: np.ndarray) -> None:
    """L-BFGS, each kernel judged with its belief settled."""
    options = {"ftol": _TOLERANCE, "maxiter": _MOST_ITERATIONS}
    bounds = [(-far, far) for far in space.farthest]
    minimize(search, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def by_gradient_steps(search: _Search, space: Space, x: np.ndarray) -> None:
    r"""The paper's own way: a few updates of the belief, one step up the gradient, and again (Wenzel 2017, eq. 12).

    A step that ascends makes the next a third longer; one that does not is taken back, and the next is half as long.
    """
    loss, slopes = search(x)
    length = _FIRST_STEP
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
    start: Kernel | None = None,
    monitor: Monitor | None = None,
) -> Choice:
    """The kernel of greatest objective; the best so far if time runs out or the user interrupts."""
    search = _Search(evidence, space, monitor)
    try:
        optimiser(search, space, search.begin(start if start is not None else space.kernel))
    except _EnoughError:
        pass
    except KeyboardInterrupt:
        if monitor is None or not search.history:
            raise
        monitor.interrupted = True
    return search.choice


# From a table to its kernel ----------------------------------------------------------------------


class Judges(NamedTuple):
    """The rows that judge kernels, distinct and with their weights, the weight of one copy, and points to see them."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    unit: np.ndarray
    points: np.ndarray

    @classmethod
    def of(cls, X: Any, y: np.ndarray, weight: np.ndarray, unit: np.ndarray, rng: np.random.RandomState) -> Judges:
        """All rows of a small table; of a large one as many as are enough, drawn in proportion to weight."""
        if X.shape[0] > _JUDGING_ROWS:
            chosen = drawn_by_weight(weight, _JUDGING_ROWS, rng)
            X, y = X[chosen], y[chosen]
            weight = unit = np.full(_JUDGING_ROWS, min(1.0, weight.sum() / _JUDGING_ROWS))
        both, first, which = np.unique(
            np.column_stack([dense(X).astype(np.float64, copy=False), y]),
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        total = np.bincount(which.ravel(), weights=weight)
        wanted = int(np.clip(len(both) // _ROWS_PER_POINT, _FEWEST_POINTS, _MOST_POINTS))
        points = scattered_points(both[:, :-1], total, wanted)
        return cls(both[:, :-1], both[:, -1], total, unit[first], points)

    def evidence(self, likelihood: Likelihood, n_updates: int = _MOST_UPDATES) -> Evidence:
        return Evidence(self.X, self.y, self.weight, self.points, likelihood, n_updates)

    def left_out_losses(self, kernel: Kernel, likelihood: Likelihood) -> np.ndarray:
        """The leave-one-out log loss of each row under a kernel, the link fitted to all of them; NaN if unknown."""
        rows = InducingRows.at(kernel, self.points)
        table = Table.of(self.X, self.y, self.weight, rows.n_weights)
        problem = Problem(table, rows, likelihood, Ridge.isotropic(rows.n_weights))
        belief = ascend(problem, tol=_LOO_TOLERANCE, max_passes=50).point.belief
        without = left_out(problem, belief, self.unit)
        link = fit_logistic_link(without.mu, without.v, self.y, self.weight * without.usable)
        losses = np.logaddexp(0, -self.y * link.score(without.mu, without.v))
        return np.where(to_numpy(without.usable), losses, np.nan)


def choose_kernel(
    judges: Judges, kernel: Kernel, columns: Columns, how: str, likelihood: Likelihood, monitor: Monitor | None = None
) -> Choice:
    """The kernel that the rows prefer, near a given one, by one of `TUNINGS`.

    Length-scales have their prior about the columns' spread, wherever the given ones are; variances about the given.
    """
    center = kernel.with_theta(_typical(kernel, columns))
    judge = likelihood if how in ("bound", "bound-steps") else LOGISTIC_JUDGE
    optimiser = by_gradient_steps if how == "bound-steps" else by_quasi_newton
    evidence = judges.evidence(judge, _UPDATES_PER_STEP if how == "bound-steps" else _MOST_UPDATES)
    choice = maximise(evidence, Space.around(center), optimiser, kernel, monitor)
    if how != "loo":
        return choice
    tied = maximise(judges.evidence(judge), Space.around(center, apart=False), optimiser, kernel, monitor)
    return _kept_by_left_out(judges, choice, list(_rivals(choice, tied)), likelihood)


def _rivals(choice: Choice, tied: Choice) -> Iterator[Choice]:
    """The alternatives to a choice: its length-scales tied, and either's variances greater and smaller."""
    yield tied
    for base in (choice, tied):
        variance = np.concatenate([np.full(size, role == "variance") for role, size in base.kernel.roles])
        for factor in _FACTORS:
            yield base._replace(kernel=base.kernel.with_theta(base.kernel.theta + np.log(factor) * variance))


def _kept_by_left_out(judges: Judges, choice: Choice, rivals: list[Choice], likelihood: Likelihood) -> Choice:
    """The choice, unless a rival's leave-one-out loss is less by more than a standard error of the difference."""
    own, best, least = judges.left_out_losses(choice.kernel, likelihood), choice, 0.0
    for rival in rivals:
        gain = judges.left_out_losses(rival.kernel, likelihood) - own
        known = np.isfinite(gain)
        if not known.any():
            continue
        share = judges.weight[known] / judges.weight[known].sum()
        mean = float(share @ gain[known])
        error = float(np.sqrt(share**2 @ (gain[known] - mean) ** 2))
        if mean + error < least:
            best, least = rival, mean + error
    return best


def _typical(kernel: Kernel, columns: Columns) -> np.ndarray:
    """The log-parameters of a kernel, its length-scales at the columns' spread times the root of their number."""
    spread = np.log(columns.spread) + 0.5 * np.log(len(columns.spread))
    together = 0.5 * logsumexp(2 * np.log(columns.spread))
    theta, first = kernel.theta.copy(), 0
    for role, size in kernel.roles:
        if role == "length_scale":
            theta[first : first + size] = spread if size == len(spread) else together
        first += size
    return theta
