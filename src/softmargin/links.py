r"""From latent to probability: the only place where one is made.

A link turns a row's latent mean and variance into its *score*, the logit of the probability of the second
class.  Everything else follows, so nothing can contradict anything: ``predict_proba`` is the logistic function of
the score, ``decision_function`` the score itself, ``predict`` its sign.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr

#: A Gaussian seen through the logistic function: its variance counts by this much (MacKay's approximation).
_MACKAY = math.pi / 8
#: The prior of (log slope, offset, log damping): means, the last being MacKay's at that slope, and deviations.
_PRIOR_MEAN = np.array([math.log(1.7), 0.0, math.log(1.7**2 * _MACKAY)])
_PRIOR_SD = np.array([0.5, 0.5, 1.0])
#: The longest last step of a link that has come to rest.
_LAST_STEP = 1e-6
#: Scores this near zero are ties: their two probabilities round to the same number.
_TIE = 1e-15


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
        return (self.slope * mu + self.offset) / np.sqrt(1 + self.damping * v)


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


def fit_logistic_link(mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray) -> LogisticLink:
    r"""The link of least weighted log loss, held by a weak prior of its three parameters.

    The damping is fitted beside the slope: tied to it as :math:`\kappa = \pi s^2 / 8`, scores could never exceed
    :math:`\mu / \sqrt{\pi v / 8}`, and the hinge leaves ``v`` large wherever rows lie beyond the margin.

    The loss is averaged, so that the tolerance means the same for ten rows and ten million.
    """
    rows = (mu, v, y, weight / (1 + weight.sum()), 1 / (1 + weight.sum()))
    best = minimize(
        lambda x: _link_loss(x, *rows)[:2],
        _PRIOR_MEAN,
        jac=True,
        hess=lambda x: _link_loss(x, *rows)[2],
        method="trust-exact",
        options={"gtol": 1e-12, "maxiter": 50},
    ).x
    # The loss is flat to rounding within 1e-8 of its optimum, its slope is not: one more step tells the digits beyond.
    _, slope, curvature = _link_loss(best, *rows)
    step = np.linalg.solve(curvature, slope)
    if np.max(np.abs(step)) < _LAST_STEP:
        best = best - step
    return LogisticLink(float(np.exp(best[0])), float(best[1]), float(np.exp(best[2])))


def _link_loss(
    x: np.ndarray, mu: np.ndarray, v: np.ndarray, y: np.ndarray, weight: np.ndarray, prior_weight: float = 1.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """The penalised loss at ``(log s, c, log kappa)``, its gradient and its second derivatives."""
    s, c, kappa = math.exp(x[0]), x[1], math.exp(x[2])
    shrink = 1 / np.sqrt(1 + kappa * v)
    share = kappa * v * shrink**2
    signal, score = s * mu * shrink, (s * mu + c) * shrink
    slopes = np.stack([signal, shrink, -0.5 * score * share])
    miss = expit(-y * score)
    away = (x - _PRIOR_MEAN) / _PRIOR_SD
    loss = weight @ np.logaddexp(0, -y * score) + prior_weight * 0.5 * away @ away
    pull = -weight * y * miss
    gradient = slopes @ pull + prior_weight * away / _PRIOR_SD
    bend = np.zeros((3, 3))  # the score's own second derivatives, summed against the pull
    bend[0, 0] = pull @ signal
    bend[0, 2] = bend[2, 0] = pull @ (-0.5 * signal * share)
    bend[1, 2] = bend[2, 1] = pull @ (-0.5 * shrink * share)
    bend[2, 2] = pull @ (score * share * (0.75 * share - 0.5))
    curvature = (slopes * (weight * miss * (1 - miss))) @ slopes.T + bend + prior_weight * np.diag(_PRIOR_SD**-2)
    return float(loss), gradient, curvature
