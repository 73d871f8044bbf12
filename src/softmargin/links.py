r"""From latent to probability: the only place where one is made.

A link turns a row's latent mean and variance into its *score*, the logit of the probability of the second
class.  Everything else follows, so nothing can contradict anything: ``predict_proba`` is the logistic function of
the score, ``decision_function`` the score itself, ``predict`` its sign.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr

from .rows import Latent

#: A Gaussian seen through the logistic function: its variance counts by this much (MacKay's approximation).
_MACKAY = math.pi / 8
#: The prior of the slope, ``log s ~ N(log 1.7, 0.5^2)``, and of the offset, ``c ~ N(0, 0.5^2)``.
_LOG_SLOPE, _LOG_SLOPE_SD, _OFFSET_SD = math.log(1.7), 0.5, 0.5
#: Scores this near zero are ties: their two probabilities round to the same number.
_TIE = 1e-15
#: A row may take this share of its own spread with it when it is left out, and no more.
_LARGEST_SHARE = 0.99


class LogisticLink(NamedTuple):
    r"""The score :math:`(s \mu + c) / \sqrt{1 + \pi s^2 v / 8}`.

    >>> LogisticLink(slope=1.0).score(np.array([2.0]), np.array([0.0]))
    array([2.])
    """

    slope: float = 1.0
    offset: float = 0.0

    def score(self, mu: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (self.slope * mu + self.offset) / np.sqrt(1 + _MACKAY * self.slope**2 * v)


class ProbitLink(NamedTuple):
    r"""The paper's own: the probability :math:`\Phi(\mu / \sqrt{1 + v})`, as a score.

    >>> ProbitLink().score(np.array([0.0]), np.array([1.0]))
    array([0.])
    """

    def score(self, mu: np.ndarray, v: np.ndarray) -> np.ndarray:
        t = mu / np.sqrt(1 + v)
        return log_ndtr(t) - log_ndtr(-t)


Link = LogisticLink | ProbitLink


def settled(score: np.ndarray) -> np.ndarray:
    """Scores with ties made exact, so that the sign of a score and the larger probability always agree."""
    return np.where(np.abs(score) < _TIE, 0.0, score)


def probabilities(score: np.ndarray) -> np.ndarray:
    """The probabilities of both classes, a row each."""
    return np.stack([expit(-score), expit(score)], axis=1)


class LeftOut(NamedTuple):
    """Latent moments of each row under a belief that has not seen it.

    Rows that are not ``usable`` make up nearly all of their own spread, or more of it than the belief contains
    (after a step cut short): there is nothing left to divide.
    """

    mu: np.ndarray
    v: np.ndarray
    usable: np.ndarray


def leave_one_out(latent: Latent, w: np.ndarray, b: np.ndarray, unit: np.ndarray) -> LeftOut:
    r"""Divides each row's own site out of the belief, in the space of the weights.

    With :math:`a = \phi^T S \phi` the spread,

    .. math:: a_{-i} = a / (1 - w a), \quad \mu_{-i} = (\mu - a b) / (1 - w a), \quad v_{-i} = leftover + a_{-i}.

    The sites are those of weight one; ``unit`` is the weight to leave out of each row.  A row of sample weight k
    stands for k copies and loses one of them.
    """
    w, b = unit * w, unit * b
    share = w * latent.spread
    usable = share <= _LARGEST_SHARE
    kept = np.where(usable, 1 - share, 1.0)
    return LeftOut((latent.mu - latent.spread * b) / kept, latent.leftover + latent.spread / kept, usable)


def fit_logistic_link(mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LogisticLink:
    r"""The slope and offset of least weighted log loss, held by their priors.

    Fisher scoring in :math:`(\log s, c)` with step halving; the loss has one minimum in all but contrived cases.
    """
    x = np.array([_LOG_SLOPE, 0.0])
    loss, gradient, curvature = _link_loss(x, mu, v, y, weight)
    for _ in range(100):
        step = np.linalg.solve(curvature, gradient)
        step = step / max(1.0, np.abs(step).max())  # far from the minimum the curvature may be next to none
        for _ in range(30):
            trial = _link_loss(x - step, mu, v, y, weight)
            if trial[0] <= loss:
                break
            step = step / 2
        else:
            break
        x = x - step
        loss, gradient, curvature = trial
        if np.abs(step).max() < 1e-12:
            break
    return LogisticLink(float(np.exp(x[0])), float(x[1]))


def _link_loss(
    x: np.ndarray, mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The penalised loss at ``(log s, c)``, its gradient and its expected curvature."""
    s, c = math.exp(x[0]), x[1]
    shrink = 1 / np.sqrt(1 + _MACKAY * s * s * v)
    score = (s * mu + c) * shrink
    slopes = np.stack([s * mu * shrink - score * _MACKAY * s * s * v * shrink**2, shrink])
    miss = expit(-y * score)
    prior_precision = np.array([_LOG_SLOPE_SD, _OFFSET_SD]) ** -2
    away = x - np.array([_LOG_SLOPE, 0.0])
    loss = weight @ np.logaddexp(0, -y * score) + 0.5 * away @ (prior_precision * away)
    gradient = slopes @ (-weight * y * miss) + prior_precision * away
    curvature = (slopes * (weight * miss * (1 - miss))) @ slopes.T + np.diag(prior_precision)
    return float(loss), gradient, curvature
