r"""Choosing kernels with quadratics in place of the rows' log-likelihoods (Izmailov and Kropotov 2017).

If every row's log-likelihood is a quadratic, :math:`c + b f - w f^2 / 2`, the optimal mean and covariance follow in one
update, and the objective is a function of the kernel and the quadratics,

.. math:: \hat J(\theta, \xi) = \max_{m, S} \sum_i E[c_i + b_i f_i - w_i f_i^2 / 2] - KL.

Under Jaakkola and Jordan's bound, each quadratic is a lower bound with one parameter, :math:`\xi`, and
:math:`\xi^2 = \mu^2 + v` is optimal.  There are three ways to maximise :math:`\hat J`:

* ``"alternate"`` (vi-JJ, Algorithm 1): alternates a few updates of belief and :math:`\xi` with a few evaluations of
  L-BFGS over the kernel at fixed :math:`\xi`.  Neither stage can lower the bound;
* ``"hybrid"``: the same, but L-BFGS moves :math:`\xi` along with the kernel;
* ``"full"``: L-BFGS over both, and nothing else.

A Taylor expansion around the mean gives quadratics too (vi-Taylor), but no bound.  Its rounds are damped, and end when
the kernel has converged.  The objective is always computed by `Evidence`, here with the quadratics held fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.optimize import minimize

from ..arrays import Array, combined
from ..engine import objective
from ..gaussian import Belief, ClassBelief
from ..likelihoods import JaakkolaJordan, Sites
from ..rows import Features
from .evidence import Evidence, Judged, _Settling
from .search import Optimiser, Search
from .space import Space

Kind = TypeVar("Kind", bound=Evidence)

#: Values of ``tune=`` that use quadratics, and those that also optimise ``xi``, which Taylor's expansion lacks.
QUADRATIC_TUNINGS, JOINT_TUNINGS = ("alternate", "hybrid", "full"), ("hybrid", "full")
#: Rounds end when this many in a row gain less than this share of the objective, or, without a bound to monitor, move
#: the kernel by less than this many prior standard deviations.
_CALM, _TOLERANCE, _MOVED = 2, 1e-4, 1e-2
_MOST_ROUNDS, _ROUNDS_WHEN_NEAR = 40, 6
#: The shortest damped steps, as shares of full ones: in the kernel, from round to round, and towards the mode.
_LEAST_RATE, _SHORTEST = 0.1, 2.0**-10
#: L-BFGS over kernel and ``xi`` stops when an iteration gains less than this share of the objective.
_JOINT_TOLERANCE, _JOINT_ITERATIONS, _JOINT_ITERATIONS_WHEN_NEAR = 1e-6, 300, 60
#: The least ``xi``, below which all quadratics are alike; the inverse is the largest.
_LEAST_XI = 1e-3


class Rounds(NamedTuple):
    """Parameters of Algorithm 1: updates of the belief, and evaluations of the kernel, in each round."""

    n_updates: int = 3
    n_evaluations: int = 5


#: As in the paper.
PUBLISHED = Rounds()


def _like(kind: type[Kind], evidence: Evidence) -> Kind:
    """Another kind of evidence with the same rows, points and sites."""
    other = kind.__new__(kind)
    vars(other).update(vars(evidence))
    return other


class Newton(Evidence):
    r"""The objective under Taylor's expansion, which is no bound; its updates are Newton steps towards the mode.

    They ascend the log posterior density at the mean, :math:`\sum_i \log p(y_i \mid \mu_i) - |m|^2 / 2`.  Blending
    sites moves the mean in an ascent direction, so that sufficiently short steps never descend.
    """

    _log_density: float

    @classmethod
    def like(cls, evidence: Evidence) -> Newton:
        """This kind of evidence with the same rows, points and sites."""
        return _like(cls, evidence)

    def _settle(self, features: Sequence[Features]) -> _Settling:
        """Updates the belief until it converges, with shorter steps where a full one descends."""
        best, height = self._visit(features, self._sites)
        rate, left = 1.0, self._n_updates - 1
        while left > 0 and rate > _SHORTEST:
            sites = combined(best.sites, rate, combined(best.asked, -1, best.sites))
            tried, there = self._visit(features, sites)
            gain = there - height
            if gain < 0:
                rate /= 2
                continue
            best, height, rate, left = tried, there, min(1.0, 2 * rate), left - 1
            if gain < self._tolerance:
                break
        return best

    def _visit(self, features: Sequence[Features], sites: tuple[Sites, ...]) -> tuple[_Settling, float]:
        settling = self._update(features, sites)
        return settling, objective(self._log_density, self._prior, _at_its_mean(settling.belief))

    def _asked(self, features: Sequence[Features], belief: Belief) -> tuple[Sites, ...]:
        def one_block(index: int) -> tuple[Sites, float]:
            (_, y, weight) = self._blocks[index]
            latent = self._latent[index] = features[index].moments(belief)
            sites = self._likelihood.sites(y, latent.mu, latent.v)
            return sites, float(weight @ self._likelihood.log_density(y, latent.mu))

        sites, log_densities = zip(*self._each(one_block), strict=True)
        self._log_density = sum(log_densities)
        return sites


def _at_its_mean(belief: Any) -> Any:
    """The belief with the covariance of the prior, so that the divergence is that of its mean alone."""
    if isinstance(belief, ClassBelief):
        return ClassBelief(tuple(map(_at_its_mean, belief.parts)))
    return belief._replace(root=np.eye(len(belief.mean)), log_det=0.0)


class FixedQuadratics(Evidence):
    """The objective with fixed quadratics, at its optimum over beliefs, which is one update away."""

    _constants: list[np.ndarray]
    _squares: list[np.ndarray]

    @classmethod
    def touching(cls, evidence: Evidence, judged: Judged) -> FixedQuadratics:
        """The rows of an evidence, with quadratics that are tangent at a belief."""
        held = _like(cls, evidence)
        held._n_updates = 1
        latent = held._each(lambda index: held._lifted(judged.rows, held._blocks[index][0]).moments(judged.belief))
        held._hold([(part.mu, part.v) for part in latent])
        return held

    def _hold(self, moments: Sequence[tuple[Array, Array]]) -> None:
        r"""Fixes quadratics that are tangent at given moments: :math:`c = l - b \mu + w (\mu^2 + v) / 2`."""
        sites, self._constants, self._squares = [], [], []
        for (_, y, _), (mu, v) in zip(self._blocks, moments, strict=True):
            l, w, b = self._likelihood.sites(y, mu, v)  # noqa: E741
            square = mu * mu + v
            sites.append(Sites(l, w, b))
            self._constants.append(l - _over_classes(b * mu - w * square / 2))
            self._squares.append(square)
        self._sites = tuple(sites)

    def _asked(self, features: Sequence[Features], belief: Belief) -> tuple[Sites, ...]:
        r"""The same quadratics, whatever the belief; their expectation is :math:`c + b \mu - w (\mu^2 + v) / 2`."""

        def one_block(index: int) -> tuple[Sites, np.ndarray]:
            latent, (_, w, b) = features[index].moments(belief), self._sites[index]
            square = latent.mu * latent.mu + latent.v
            return Sites(self._constants[index] + _over_classes(b * latent.mu - w * square / 2), w, b), square

        sites, squares = zip(*self._each(one_block), strict=True)
        self._squares = list(squares)
        return sites

    @property
    def best_xi(self) -> np.ndarray:
        r""":math:`\sqrt{\mu^2 + v}` of every row at the last belief, the optimum for Jaakkola and Jordan's bound."""
        return np.clip(np.sqrt(np.concatenate(self._squares)), _LEAST_XI, 1 / _LEAST_XI)

    def hold_xi(self, xi: np.ndarray) -> None:
        """Fixes Jaakkola and Jordan's quadratics for given ``xi``."""
        ends = np.cumsum([len(y) for _, y, _ in self._blocks])[:-1]
        self._hold([(np.zeros_like(part), part * part) for part in np.split(xi, ends)])

    def slopes_in_log_xi(self, xi: np.ndarray) -> np.ndarray:
        r"""The gradient of :math:`\hat J` in :math:`\log\xi` at the last belief.

        With :math:`\lambda = w/2`, :math:`\partial\hat J/\partial\xi = -\lambda'(\xi) (\mu^2 + v - \xi^2)`; and
        :math:`w + \xi w' = \sigma(\xi) \sigma(-\xi)` is the bound's curvature at :math:`\mu = \xi, v = 0`.
        """
        bound, any_label = JaakkolaJordan(), np.ones_like(xi)
        w, curvature = bound.sites(any_label, 0 * xi, xi * xi).w, bound.curvature(any_label, xi, 0 * xi)
        weight = np.concatenate([weight for _, _, weight in self._blocks])
        weight = weight if xi.ndim == 1 else weight[:, None]
        return weight * (w - curvature) / 2 * (np.concatenate(self._squares) - xi * xi)

    def pass_on(self, evidence: Evidence) -> None:
        """Makes the quadratics the sites from which an evidence continues."""
        evidence._sites = self._sites


def _over_classes(values: Array) -> Array:
    """Sums values over classes, if there is one for each class."""
    return values if values.ndim == 1 else values.sum(axis=1)


class _Joint(NamedTuple):
    """The negative of objective and log-prior as a function of the kernel's coordinates, followed by ``log xi``."""

    search: Search
    space: Space
    held: FixedQuadratics
    is_candidate: bool

    def start(self, x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.log(self.held.best_xi).ravel()])

    @property
    def farthest(self) -> np.ndarray:
        return np.concatenate([self.space.farthest, np.full(self.held.best_xi.size, -np.log(_LEAST_XI))])

    def parted(self, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Splits a vector into coordinates and ``xi``."""
        x, log_xi = np.split(both, [len(self.space.deviation)])
        return x, np.exp(log_xi).reshape(self.held.best_xi.shape)

    def __call__(self, both: np.ndarray) -> tuple[float, np.ndarray]:
        x, xi = self.parted(both)
        self.held.hold_xi(xi)
        loss, slopes = self.search.weighed(x, self.held.at, self.is_candidate)
        return loss, np.concatenate([slopes, -self.held.slopes_in_log_xi(xi).ravel()])


def by_rounds(n_evaluations: int, joint: bool = False) -> Optimiser:
    """Algorithm 1: alternates updates of the belief with a few evaluations of the kernel until convergence."""

    def second_stage(search: Search, space: Space, held: FixedQuadratics, x: np.ndarray) -> np.ndarray:
        if not joint:
            return _raised(lambda x: search.weighed(x, held.at, is_candidate=False), x, space.farthest, n_evaluations)
        loss = _Joint(search, space, held, is_candidate=False)
        x, xi = loss.parted(_raised(loss, loss.start(x), loss.farthest, n_evaluations))
        held.hold_xi(xi)
        held.pass_on(search.evidence)
        return x

    def climb(search: Search, space: Space, x: np.ndarray, near: bool = False) -> None:
        is_bound = not isinstance(search.evidence, Newton)
        (loss, _), way, rate, calm = search(x), np.inf, 1.0, 0
        for _ in range(_ROUNDS_WHEN_NEAR if near else _MOST_ROUNDS):
            if search.last is None or calm == _CALM:
                break
            step = second_stage(search, space, FixedQuadratics.touching(search.evidence, search.last), x) - x
            loss_before, way_before, x = loss, way, x + rate * step
            (loss, _), way = search(x), float(np.max(np.abs(step) / space.deviation))
            if is_bound:
                quiet = loss_before - loss < _TOLERANCE * abs(loss)
            else:  # without a bound, only a growing step shows that steps overshoot
                quiet, rate = way < _MOVED, max(_LEAST_RATE, rate / 2) if way > way_before else min(1.0, 2 * rate)
            calm = calm + 1 if quiet else 0
        if not is_bound:  # values with different quadratics cannot be compared, so the last kernel is chosen
            search.choose(x, loss, search.last)

    return climb


def by_joint_ascent(search: Search, space: Space, x: np.ndarray, near: bool = False) -> None:
    """L-BFGS over kernel and ``xi`` jointly, with the belief maximised out and updated at start and end only."""
    search(x)
    if search.last is None:
        return
    loss = _Joint(search, space, FixedQuadratics.touching(search.evidence, search.last), is_candidate=True)
    options = {"ftol": _JOINT_TOLERANCE, "maxiter": _JOINT_ITERATIONS_WHEN_NEAR if near else _JOINT_ITERATIONS}
    minimize(loss, loss.start(x), jac=True, method="L-BFGS-B", bounds=_within(loss.farthest), options=options)
    loss.held.pass_on(search.evidence)
    search(search.best)


def _raised(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]], x: np.ndarray, farthest: np.ndarray, n_evaluations: int
) -> np.ndarray:
    """The best of ``n_evaluations`` evaluations of L-BFGS, of which the start is the first."""
    best, least, left = x, np.inf, n_evaluations

    def counted(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least, left
        if left == 0:
            raise _DoneError
        left, (value, slopes) = left - 1, loss(x)
        if value < least:
            best, least = x.copy(), value
        return value, slopes

    # SciPy checks its own limit between line searches only.
    with suppress(_DoneError):
        minimize(counted, x, jac=True, method="L-BFGS-B", bounds=_within(farthest))
    return best


def _within(farthest: np.ndarray) -> list[tuple[float, float]]:
    return list(zip(-farthest, farthest, strict=True))


class _DoneError(Exception):
    """All evaluations have been used."""
