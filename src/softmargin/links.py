r"""From latent values to probabilities; no other module computes any.

A link turns a row's latent mean and variance into its *score*, the logit of the probability of the second
class. All predictions derive from it, so they are always consistent: ``predict_proba`` is the logistic function of
the score, ``decision_function`` the score itself, ``predict`` its sign. With more than two classes each has a score,
``predict_proba`` is their softmax, and ``predict`` the class with the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_ndtr, log_softmax, logsumexp, softmax

from .winning import winning

#: The factor of the variance when a Gaussian passes through the logistic function (MacKay's approximation).
_MACKAY = math.pi / 8
#: The prior of (log slope, offset, log damping): means, with MacKay's damping at that slope, and standard deviations.
_PRIOR_MEAN = np.array([math.log(1.7), 0.0, math.log(1.7**2 * _MACKAY)])
_PRIOR_SD = np.array([0.5, 0.5, 1.0])
#: Latent values larger than this may be scaled down to it at the start of a search.
_HUGE = 100.0
#: A link has converged when its next step is shorter than this; and the most steps until then.
_LAST_STEP, _MOST_STEPS = 1e-6, 50
#: Plain Newton steps may be no longer than this, and have to bring at least this share of the predicted gain.
_TRUSTED, _KEPT_PROMISE = 1.0, 0.25
#: The least probability of a class under the probit link: its quadrature cannot resolve smaller ones.
_LEAST_PROBABILITY = 1e-15
#: Scores this close to zero are ties: the two probabilities round to the same number.
_TIE = 1e-15
#: Sides closer to zero than this many standard deviations may have the score of a tie, with any damping.
_NEAR_TIE = 1e-6


class LogisticLink(NamedTuple):
    r"""The score :math:`(s \mu + c) / \sqrt{1 + \kappa v}`: slope, offset, and how much the variance damps.

    With the defaults its logistic function is MacKay's approximation of :math:`E\,\sigma(f)`.

    >>> LogisticLink().score(np.array([2.0]), np.array([0.0]))
    array([2.])
    """

    slope: float = 1.0
    offset: float = 0.0
    damping: float = _MACKAY

    def score(self, mu: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.side(mu) / np.sqrt(1 + self.damping * v)

    def side(self, mu: np.ndarray) -> np.ndarray:
        """A value with the sign of the score, whatever the variance."""
        return self.slope * mu + self.offset


class ProbitLink(NamedTuple):
    r"""The paper's own: the probability :math:`\Phi(\mu / \sqrt{1 + v})`, as a score.

    With ``many`` classes, each is as likely as its latent value is to be the largest under noise of variance one.

    >>> ProbitLink().score(np.array([0.0]), np.array([1.0]))
    array([0.])
    """

    many: bool = False

    def score(self, mu: np.ndarray, v: np.ndarray) -> np.ndarray:
        if self.many:
            return np.log(np.maximum(winning(mu, 1 + v), _LEAST_PROBABILITY))
        t = mu / np.sqrt(1 + v)
        return log_ndtr(t) - log_ndtr(-t)

    def side(self, mu: np.ndarray) -> np.ndarray:
        """A value with the sign of the score of two classes, whatever the variance."""
        return mu


class SoftmaxLink(NamedTuple):
    r"""The score :math:`(s \mu_k + c_k) / \sqrt{1 + \kappa v_k}` of each class: one slope and one damping for all.

    >>> SoftmaxLink().score(np.array([[2.0, 0.0, 0.0]]), np.zeros((1, 3)))
    array([[2., 0., 0.]])
    """

    slope: float = 1.0
    offset: Any = 0.0
    damping: float = _MACKAY

    def score(self, mu: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (self.slope * mu + self.offset) / np.sqrt(1 + self.damping * v)


Link = LogisticLink | ProbitLink | SoftmaxLink


def word_of(loss: Any, n_classes: int) -> str:
    """What ``link="auto"`` stands for: of two classes, a likelihood has a link of its own; all else needs a fitted one.

    So does a loss for which there is no word.

    >>> word_of("logistic-jj", 2), word_of("hinge", 2)
    ('logistic', 'loo')
    """
    family = loss.split("-")[0] if isinstance(loss, str) else ""
    return family if n_classes == 2 and family in ("logistic", "probit") else "loo"


def settled(score: np.ndarray) -> np.ndarray:
    """Scores with ties set to zero, so that the sign of a score always agrees with the larger probability."""
    if score.ndim == 2:
        return score
    return np.where(np.abs(score) < _TIE, 0.0, score)


def is_decided(side: np.ndarray, v: np.ndarray) -> bool:
    """Whether the ``side`` of every row is far enough from zero to be that of its probabilities, rounding included, for
    any variance up to ``v``."""
    return bool(np.all(np.abs(side) > _NEAR_TIE * np.sqrt(1 + v)))


def probabilities(score: np.ndarray) -> np.ndarray:
    """The probabilities of all classes, one column each."""
    return softmax(score, axis=1) if score.ndim == 2 else np.stack([expit(-score), expit(score)], axis=1)


def log_probabilities(score: np.ndarray) -> np.ndarray:
    """Their logarithms, finite even where a probability underflows."""
    if score.ndim == 2:
        return log_softmax(score, axis=1)
    return np.stack([log_expit(-score), log_expit(score)], axis=1)


def log_losses(score: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The log loss of each row; labels are -1 and +1, or 0, 1, 2 ... if scores have a column for each class."""
    if score.ndim == 1:
        return np.logaddexp(0, -y * score)
    return logsumexp(score, axis=1) - score[np.arange(len(y)), y.astype(int)]


def fit_logistic_link(
    mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray, near: LogisticLink | None = None
) -> LogisticLink:
    r"""The link with the least weighted log loss, regularised by a weak prior on its three parameters.

    The damping is a separate parameter: tied to the slope as :math:`\kappa = \pi s^2 / 8`, scores could never exceed
    :math:`\mu / \sqrt{\pi v / 8}`, and the hinge leaves ``v`` large wherever rows lie beyond the margin.

    The loss is averaged, so that the tolerance means the same for ten rows and ten million. The search starts from the
    link ``near`` if that is better than the prior mean.
    """
    rows = (mu, v, y, weight / (1 + weight.sum()), 1 / (1 + weight.sum()))
    starts = [_PRIOR_MEAN]
    if near is not None:
        starts.append(np.array([math.log(near.slope), near.offset, math.log(near.damping)]))
    best = _least(lambda x: _link_loss(x, *rows), *starts)
    return LogisticLink(float(np.exp(best[0])), float(best[1]), float(np.exp(best[2])))


def fit_softmax_link(
    mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray, near: SoftmaxLink | None = None
) -> SoftmaxLink:
    """The same for more than two classes, with an offset for each class."""
    rows = (mu, v, y, weight / (1 + weight.sum()), 1 / (1 + weight.sum()))
    start = np.concatenate([_PRIOR_MEAN[[0, 2]], np.zeros(mu.shape[1])])
    # Rows that are wrong by huge scores carry no information about offsets: start from a smaller slope if it is better.
    away = rows[3] @ np.abs(mu - mu.mean(axis=1, keepdims=True)).mean(axis=1)
    common = start - math.log(max(1.0, away / _HUGE)) * (np.arange(len(start)) == 0)
    starts = [start, common]
    if near is not None:
        offset = np.broadcast_to(near.offset, mu.shape[1])
        starts.append(np.array([math.log(near.slope), math.log(near.damping), *offset]))
    best = _least(lambda x: _softmax_link_loss(x, *rows), *starts)
    return SoftmaxLink(float(np.exp(best[0])), best[2:], float(np.exp(best[1])))


Derivatives = tuple[float, np.ndarray, np.ndarray]
Loss = Callable[[np.ndarray], Derivatives]


def _least(loss: Loss, *starts: np.ndarray) -> np.ndarray:
    """The minimum of a loss with first and second derivatives, searched from the best of some starting points."""
    begun = [(x, loss(x)) for x in starts]
    start, at_start = min(begun, key=lambda place: place[1][0])
    best = _newton(loss, start, at_start)
    return _trusted(loss, start) if best is None else best


def _newton(loss: Loss, x: np.ndarray, at_x: Derivatives) -> np.ndarray | None:
    """The limit of Newton's method, or None as soon as a step is too long or gains too little.

    Until then a trust-region method would take the same steps, with more overhead.
    """
    for _ in range(_MOST_STEPS):
        value, slope, curvature = at_x
        try:
            step = scipy.linalg.cho_solve(scipy.linalg.cho_factor(curvature), slope)
        except (np.linalg.LinAlgError, ValueError):  # not convex here, or not finite
            return None
        # Within 1e-8 of its minimum the loss is constant up to rounding, but its gradient is not: take one more step.
        if np.max(np.abs(step)) < _LAST_STEP:
            return x - step
        if not np.linalg.norm(step) <= _TRUSTED:  # with little curvature, a step may overflow the loss
            return None
        x = x - step
        at_x = loss(x)
        if not value - at_x[0] >= _KEPT_PROMISE * (slope @ step) / 2:
            return None
    return None


def _trusted(loss: Loss, start: np.ndarray) -> np.ndarray:
    """The minimum of a loss, by a trust-region method."""
    latest: dict[bytes, Derivatives] = {}

    def at(x: np.ndarray) -> Derivatives:
        if x.tobytes() not in latest:  # SciPy requests value, gradient and curvature separately
            latest.clear()
            latest[x.tobytes()] = _or_infinite(loss, x)
        return latest[x.tobytes()]

    def value(x: np.ndarray) -> float:
        return at(x)[0]

    def gradient(x: np.ndarray) -> np.ndarray:
        return at(x)[1]

    options = {"gtol": 1e-12, "maxiter": _MOST_STEPS}
    try:
        best = minimize(value, start, jac=gradient, hess=lambda x: at(x)[2], method="trust-exact", options=options).x
    except UnboundLocalError:  # SciPy fails where the curvature is nearly zero
        best = minimize(value, start, jac=gradient, method="L-BFGS-B").x
    _, slope, curvature = loss(best)
    step = np.linalg.solve(curvature, slope)
    return best - step if np.max(np.abs(step)) < _LAST_STEP else best


def _or_infinite(loss: Loss, x: np.ndarray) -> Derivatives:
    """The loss, or infinity where its exponentials overflow, so that a step to there is rejected."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            found = loss(x)
    except OverflowError:
        found = math.nan, x, x
    return found if math.isfinite(found[0]) else (math.inf, np.zeros_like(x), np.eye(len(x)))


def _link_loss(
    x: np.ndarray, mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray, prior_weight: float = 1.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """The penalised loss at ``(log s, c, log kappa)``, its gradient and its second derivatives."""
    s, c, kappa = math.exp(x[0]), x[1], math.exp(x[2])
    shrink = 1 / np.sqrt(1 + kappa * v)
    share = kappa * v * shrink**2
    signal, score = s * mu * shrink, (s * mu + c) * shrink
    slopes = np.stack([signal, shrink, -0.5 * score * share])
    margin = y * score
    tail = np.exp(-np.abs(margin))  # one exponential for the loss and its derivative
    miss = np.where(margin > 0, tail, 1.0) / (1 + tail)
    away = (x - _PRIOR_MEAN) / _PRIOR_SD
    loss = weight @ (np.log1p(tail) - np.minimum(margin, 0.0)) + prior_weight * 0.5 * away @ away
    pull = -weight * y * miss
    gradient = slopes @ pull + prior_weight * away / _PRIOR_SD
    bend = np.zeros((3, 3))  # second derivatives of the scores, weighted by the derivatives of the loss
    bend[0, 0] = pull @ signal
    bend[0, 2] = bend[2, 0] = pull @ (-0.5 * signal * share)
    bend[1, 2] = bend[2, 1] = pull @ (-0.5 * shrink * share)
    bend[2, 2] = pull @ (score * share * (0.75 * share - 0.5))
    curvature = (slopes * (weight * miss * (1 - miss))) @ slopes.T + bend + prior_weight * np.diag(_PRIOR_SD**-2)
    return float(loss), gradient, curvature


def _softmax_link_loss(
    x: np.ndarray, mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray, prior_weight: float = 1.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """The penalised loss at ``(log s, log kappa, c)``, its gradient and its second derivatives.

    With probabilities ``p``, the Hessian of the loss in the scores of a row is :math:`diag(p) - p p^T`. An offset
    affects only the score of its own class, so no array of rows x classes x parameters is needed.
    """
    s, kappa, c = math.exp(x[0]), math.exp(x[1]), x[2:]
    shrink = 1 / np.sqrt(1 + kappa * v)
    share, signal, score = kappa * v * shrink**2, s * mu * shrink, (s * mu + c) * shrink
    p, own = softmax(score, axis=1), y.astype(int)
    away = np.concatenate([(x[:2] - _PRIOR_MEAN[[0, 2]]) / _PRIOR_SD[[0, 2]], c / _PRIOR_SD[1]])
    sd = np.concatenate([_PRIOR_SD[[0, 2]], np.full(len(c), _PRIOR_SD[1])])
    loss = weight @ log_losses(score, y) + prior_weight * 0.5 * away @ away
    pull = weight[:, None] * p
    pull[np.arange(len(y)), own] -= weight
    common = np.stack([signal, -0.5 * score * share])  # derivatives of all scores in the two shared parameters
    gradient = np.concatenate([np.einsum("jik,ik->j", common, pull), np.einsum("ik,ik->k", shrink, pull)])
    bend = np.diag(prior_weight / sd**2)
    felt = np.einsum("ik,jik->ji", p, common)
    bend[:2, :2] += np.einsum("i,ik,jik,lik->jl", weight, p, common, common) - (weight * felt) @ felt.T
    of_offsets = p * shrink
    weighted = weight[:, None] * of_offsets
    cross = np.einsum("ik,jik->jk", weighted, common) - felt @ weighted
    cross[1] += np.einsum("ik,ik->k", pull, -0.5 * shrink * share)
    bend[:2, 2:] += cross
    bend[2:, :2] += cross.T
    bend[2:, 2:] += np.diag(np.einsum("ik,ik->k", weighted, shrink)) - weighted.T @ of_offsets
    bend[0, 0] += np.sum(pull * signal)
    bend[0, 1] += np.sum(pull * -0.5 * signal * share)
    bend[1, 0] += np.sum(pull * -0.5 * signal * share)
    bend[1, 1] += np.sum(pull * score * share * (0.75 * share - 0.5))
    return float(loss), gradient + prior_weight * away / sd, bend
