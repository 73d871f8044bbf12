r"""How uncertain a model is about a row, and why.

The latent value of a row has a Gaussian posterior (one for each class if there are more than two), whose variance is
the model's uncertainty about the function (epistemic).  The link gives the probability of each class at a given latent
value: the noise that remains even if the function is known (aleatoric).  Predicted probabilities mix the two; the
functions here separate them:

* `variation_ratio`: the probability that the true function favours another class than the posterior does;
* `mutual_information`: how much the label of the row would tell about the function;
* `entropy`: how uncertain the label is, for either reason.

They accept any fitted classifier of this package, or a pipeline that ends in one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import entr, ndtr, ndtri
from scipy.stats import qmc
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from .chunks import n_threads, sweep
from .links import Link
from .parameters import positive_integer
from .winning import even, graded, pieces, winning

__all__ = ["entropy", "mutual_information", "variation_ratio"]

#: Cut-off, spacing and nodes for the information of two classes, a small difference, which is then exact to 1e-14.
_FULL_REACH, _FULL_STEP, _FULL_GRADES = 8.3, 0.6, (32, 64, 128)
#: The least standard deviation.
_LEAST = 1e-150
#: Scores of this size leave no uncertainty.
_DECIDED = 38.0
#: The factor of the argument with which the normal distribution function resembles the logistic function best.
_PROBIT_SLOPE = math.sqrt(math.pi / 8)
#: Quasi-random points lie this far from the ends of the unit interval, where normal draws are infinite.
_LEAST_POINT = 2.0**-31
#: Rows per block for a thread.
_ROWS_AT_ONCE = 4096


# Public functions ----------------------------------------------------------------------------------


def variation_ratio(model: Any, X: Any) -> np.ndarray:
    r"""Probability that the latent function favours another class than its most likely favourite, for each row.

    With :math:`g_k` the score of class k at latent values :math:`f` drawn from the posterior,

    .. math:: 1 - \max_k P(g_k > g_j \text{ for all } j \neq k).

    Wistuba and Rawat (2018) count how often draws of :math:`f` agree with each other; this is the limit of many draws,
    computed without drawing.  For two classes it is :math:`\Phi(-|\mu - f_0| / \sqrt v)`, where :math:`f_0` is the
    latent value at which the score changes its sign; for more, a quadrature with errors of about
    1e-11 for a few classes, and up to 1e-5 for 200.

    It ignores noise: where there are many rows of both classes at the same place, but more of one, the function and
    its favourite are known, and the ratio is 0.

    Parameters
    ----------
    model : a fitted classifier of this package
        Or a pipeline that ends in one.
    X : array, CSR matrix or frame of shape (n_rows, n_columns)
        Rows to evaluate.

    Returns
    -------
    array of n_rows numbers
        From 0 to :math:`1 - 1/K` for K classes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.uncertainty import variation_ratio
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> among_others, far_away = variation_ratio(model, [[-1.0, 0.5], [9.0, 9.0]])
    >>> bool(among_others < 0.01), bool(far_away > 0.3)
    (True, True)
    """
    mu, v, link, jobs = latent_of(model, X)
    return by_rows(lambda mu, v: variation_ratio_of(mu, v, link), mu, v, jobs)


def entropy(model: Any, X: Any) -> np.ndarray:
    r"""Entropy of ``predict_proba`` for each row, in nats: the total uncertainty about the label.

    .. math:: -\sum_k p_k \log p_k.

    It is large where classes overlap and also where the model has seen no data; it does not distinguish the two.

    Parameters
    ----------
    model : a fitted classifier
        Any that has ``predict_proba``.
    X : array, CSR matrix or frame of shape (n_rows, n_columns)
        Rows to evaluate.

    Returns
    -------
    array of n_rows numbers
        From 0 to :math:`\log K` for K classes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.uncertainty import entropy
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> among_others, between = entropy(model, [[-1.0, 0.5], [0.5, 0.25]])
    >>> bool(among_others < 0.1), bool(between > 0.4)
    (True, True)
    """
    if not hasattr(model, "predict_proba"):
        raise _without_classes(model)
    return entr(model.predict_proba(X)).sum(axis=1)


def mutual_information(model: Any, X: Any, n_samples: int = 256, random_state: Any = 0) -> np.ndarray:
    r"""Mutual information between the label of each row and the latent function, in nats.

    With :math:`p(f)` the probabilities at latent values :math:`f` drawn from the posterior and ``H`` the entropy,

    .. math:: H[E\, p(f)] - E\, H[p(f)].

    The first term is the uncertainty about the label, the second what would remain of it if the function were known;
    the difference can be learned (BALD in Houlsby et al. 2011).  Two classes need no draws.  More classes share one
    set of quasi-random draws, so that the result for a row does not depend on the other rows.

    Parameters
    ----------
    model : a fitted classifier of this package
        Or a pipeline that ends in one.
    X : array, CSR matrix or frame of shape (n_rows, n_columns)
        Rows to evaluate.
    n_samples : int
        Number of draws, for more than two classes; powers of two are best.  With 256, errors are about .003 for 3
        classes and .01 for 10.
    random_state : int, RandomState or None
        Seeds the draws.

    Returns
    -------
    array of n_rows numbers
        From 0 to :math:`\log K` for K classes.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.uncertainty import mutual_information
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> among_others, far_away = mutual_information(model, [[-1.0, 0.5], [9.0, 9.0]])
    >>> bool(among_others < 0.05), bool(far_away > 0.3)
    (True, True)
    """
    positive_integer("n_samples", n_samples)
    mu, v, link, jobs = latent_of(model, X)
    draws = None if mu.ndim == 1 else normal_draws(n_samples, mu.shape[1], random_state)
    return by_rows(lambda mu, v: mutual_information_of(mu, v, link, draws), mu, v, jobs)


def latent_of(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray, Link, int]:
    """Latent means and variances, the link of the model, and the number of threads to use."""
    if isinstance(model, Pipeline):
        X, model = (model[:-1].transform(X) if len(model) > 1 else X), model[-1]
    if not hasattr(model, "latent_mean_and_variance"):
        raise TypeError(
            f"{type(model).__name__} has no latent function; give a fitted classifier of softmargin, "
            f"or use entropy, which needs only probabilities."
        )
    mu, v = model.latent_mean_and_variance(X)
    if not hasattr(model, "link_"):
        raise _without_classes(model)
    return np.asarray(mu, dtype=float), np.asarray(v, dtype=float), model.link_, n_threads(model.n_jobs)


def _without_classes(model: Any) -> TypeError:
    """The error for models without probabilities of classes, such as `BayesianOneClassSVM`."""
    instead = "; its score_samples tells how unusual each row is" if hasattr(model, "score_samples") else ""
    return TypeError(
        f"{type(model).__name__} gives no probabilities of classes: give a fitted classifier with "
        f"predict_proba{instead}."
    )


def by_rows(function: Callable[..., np.ndarray], mu: np.ndarray, v: np.ndarray, jobs: int) -> np.ndarray:
    """Applies a function to the moments of rows, block by block."""

    def one_block(index: int) -> np.ndarray:
        rows = slice(index * _ROWS_AT_ONCE, (index + 1) * _ROWS_AT_ONCE)
        return function(mu[rows], v[rows])

    return np.concatenate(list(sweep(one_block, -(-len(mu) // _ROWS_AT_ONCE), jobs)))


# Which class wins ----------------------------------------------------------------------------------


def variation_ratio_of(mu: np.ndarray, v: np.ndarray, link: Link) -> np.ndarray:
    """`variation_ratio` from latent moments: of shape (n,) for two classes, of shape (n, K) for K.

    >>> from softmargin.links import LogisticLink
    >>> variation_ratio_of(np.array([1.0, 1.0]), np.array([1.0, 0.0]), LogisticLink(slope=2.0, offset=-2.0))
    array([0.5, 0.5])
    >>> variation_ratio_of(np.array([[1.0, 1.0, 1.0]]), np.array([[4.0, 4.0, 4.0]]), LogisticLink()).round(6)
    array([0.666667])
    """
    g = mu + shift_of(link)
    if g.ndim == 2:
        return 1 - winning(g, v).max(axis=1)
    # At v = 0 the favourite is certain, unless the score is exactly zero.
    with np.errstate(over="ignore"):
        return ndtr(-np.abs(g) / np.maximum(np.sqrt(v), _LEAST))


def shift_of(link: Link) -> Any:
    """The shift after which latent values have the sign, and the order over classes, of their scores."""
    return getattr(link, "offset", 0.0) / getattr(link, "slope", 1.0)


# Information in a label ----------------------------------------------------------------------------


def mutual_information_of(mu: np.ndarray, v: np.ndarray, link: Link, draws: np.ndarray | None = None) -> np.ndarray:
    """`mutual_information` from latent moments: of shape (n,) for two classes, else (n, K) with draws of shape (S, K).

    >>> from softmargin.links import LogisticLink
    >>> mutual_information_of(np.zeros(3), np.array([0.0, 1.0, 1e9]), LogisticLink()).round(4)
    array([0.    , 0.0937, 0.6931])
    """
    if draws is None:
        return _information_of_two(mu, v, link)
    parts = (_information_of_many(mu[rows], v[rows], link, draws) for rows in pieces(len(mu), draws.size))
    return np.concatenate(list(parts))


def _information_of_two(mu: np.ndarray, v: np.ndarray, link: Link) -> np.ndarray:
    r"""Mutual information of two classes, by sums over even grids where neither entropy nor density is negligible.

    In units of the link, :math:`t = s f + c \sim N(m, r^2)`, both integrands are smooth on a scale of 1, and
    :math:`H` vanishes beyond ``_DECIDED``. The probability does not, but its difference from a normal distribution
    function does, and :math:`E\, \Phi(a t) = \Phi(a m / \sqrt{1 + a^2 r^2})`.
    """
    slope = getattr(link, "slope", 1.0)
    m = slope * (mu + shift_of(link))
    r = np.maximum(slope * np.sqrt(v), 1e-12 * (_DECIDED + np.abs(m)))
    low, high = (np.clip((end - m) / r, -_FULL_REACH, _FULL_REACH) for end in (-_DECIDED, _DECIDED))
    information = np.empty_like(m)
    for n_nodes, i in graded((high - low) * np.maximum(r, 1) / _FULL_STEP, _FULL_GRADES, _FULL_GRADES[-1]):
        x, weights = even(low[i], high[i], n_nodes)
        weights = weights * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        t = m[i, None] + r[i, None] * x
        f = t / slope - shift_of(link)
        p, openness = _two_classes(link.score(f, np.zeros_like(f)))
        mean = ndtr(_PROBIT_SLOPE * m[i] / np.hypot(1, _PROBIT_SLOPE * r[i]))
        mean = np.clip(mean + (weights * (p - ndtr(_PROBIT_SLOPE * t))).sum(axis=1), 0, 1)
        information[i] = entr(mean) + entr(1 - mean) - (weights * openness).sum(axis=1)
    return np.maximum(information, 0)


def _two_classes(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability of the second class, of which ``score`` is the logit, and the entropy."""
    size = np.abs(score)
    odds = np.exp(-size)
    less = odds / (1 + odds)
    return np.where(score > 0, 1 - less, less), np.log1p(odds) + size * less


def _information_of_many(mu: np.ndarray, v: np.ndarray, link: Link, draws: np.ndarray) -> np.ndarray:
    # Classes are the first axis: sums over a short last axis would be slow.
    f = mu.T[:, :, None] + np.sqrt(v).T[:, :, None] * draws.T[:, None, :]
    flat = f.reshape(len(f), -1).T
    score = link.score(flat, np.zeros_like(flat)).T.reshape(f.shape)
    score = score - score.max(axis=0)
    odds = np.exp(score)
    total = odds.sum(axis=0)
    p = odds / total
    openness = np.log(total) - (p * score).sum(axis=0)
    # Negative only by rounding: as both terms use the same draws, this is a mean of KL divergences.
    return np.maximum(entr(p.mean(axis=2)).sum(axis=0) - openness.mean(axis=1), 0)


def normal_draws(n_samples: int, n_classes: int, random_state: Any) -> np.ndarray:
    """Quasi-random standard normal draws, one in each row, worth at least four times as many random ones.

    >>> normal_draws(256, 3, 0).shape
    (256, 3)
    """
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    # The first of a power of two, which are evenly distributed.
    points = qmc.Sobol(n_classes, rng=seed).random_base2(math.ceil(math.log2(n_samples)))[:n_samples]
    return ndtri(np.clip(points, _LEAST_POINT, 1 - _LEAST_POINT))
