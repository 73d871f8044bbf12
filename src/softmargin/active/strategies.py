r"""Query strategies: which rows of a pool to label.

A strategy gives every row a score, and the rows with the largest scores are queried.  With ``p`` the probabilities of
a row, and ``f`` its latent values, whose posterior is Gaussian with mean ``mu`` and variance ``v``:

======================  ==========================================================================================
strategy                score
======================  ==========================================================================================
``variation_ratio``     :math:`1 - \max_k P(\text{class } k \text{ wins under } f)` (Wistuba and Rawat 2018)
``mutual_information``  :math:`H[E\, p(f)] - E\, H[p(f)]` (Houlsby et al. 2011)
``entropy``             :math:`H[p]`
``margin``              :math:`p_{(2)} - p_{(1)}`: minus the lead of the most probable class
``entropy_of_mean``     :math:`H[\mathrm{softmax}(\mu)]`: a point estimate that ignores the variances
``random``              the same for all rows
======================  ==========================================================================================

The first two target uncertainty about the function; ``entropy`` and ``margin`` also select rows where classes overlap,
whose labels would not help.

**Ties.**  Scores that agree to nine decimals are ties (quadratures are no more accurate, and blocks of rows may differ
in their last digits); ties are broken at random, seeded by ``random_state``.  For a model that is certain of
everything, and for ``"random"``, all rows tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, ndtr
from sklearn.utils import check_random_state

from ..links import probabilities
from ..parameters import one_of, positive_integer
from ..uncertainty import by_rows, entropy, latent_of, mutual_information, shift_of, variation_ratio, variation_ratio_of
from .diverse import MOST_AT_ONCE, n_candidates, spread
from .pool import allowed_rows, as_pool, block_of, blocks, taken

#: Decimals to which scores are compared.
_DECIMALS = 9
#: Rows whose scores are bounded this far below the best ones are not evaluated exactly.
_SLACK = 2 * 10.0**-_DECIMALS
#: Floors on standard deviations, absolute and relative to that of the widest class: no smaller than in `winning`.
_LEAST_WIDTH, _LEAST_SHARE = 1e-140, 1e-9
#: Number of rows that are evaluated exactly at first.
_FIRST_LOOK = 512


class Draws(NamedTuple):
    """Settings for estimates of the mutual information with many classes."""

    n_samples: int
    seed: int


def _random(model: Any, X: Any, draws: Draws) -> np.ndarray:
    return np.zeros(X.shape[0])


def _entropy_of_mean(model: Any, X: Any, draws: Draws) -> np.ndarray:
    return entr(probabilities(latent_of(model, X)[0])).sum(axis=1)


def _margin(model: Any, X: Any, draws: Draws) -> np.ndarray:
    p = np.partition(model.predict_proba(X), -2, axis=1)
    return p[:, -2] - p[:, -1]


_MEASURES: dict[str, Callable[[Any, Any, Draws], np.ndarray]] = {
    "variation_ratio": lambda model, X, draws: variation_ratio(model, X),
    "mutual_information": lambda model, X, draws: mutual_information(model, X, *draws),
    "entropy": lambda model, X, draws: entropy(model, X),
    "margin": _margin,
    "entropy_of_mean": _entropy_of_mean,
    "random": _random,
}
#: The words that ``strategy=`` accepts.
STRATEGIES: tuple[str, ...] = tuple(_MEASURES)


# Public functions ----------------------------------------------------------------------------------


def scores(
    model: Any, X_pool: Any, strategy: str = "variation_ratio", *, n_samples: int = 256, random_state: Any = 0
) -> np.ndarray:
    """Query score of each row of a pool; the table above defines the strategies.

    Rows are read in blocks: pools may be memmaps, and memory beyond the result does not grow with their size.

    Parameters
    ----------
    model : a fitted classifier of this package, or a pipeline that ends in one
        For ``"entropy"`` and ``"margin"`` any that has ``predict_proba``.
    X_pool : array, CSR matrix or frame of shape (n_rows, n_columns)
        The pool.
    strategy : {"variation_ratio", "mutual_information", "entropy", "margin", "entropy_of_mean", "random"}
        The query criterion.
    n_samples : int
        Number of draws for the mutual information with more than two classes.
    random_state : int, RandomState or None
        Seeds the draws.

    Returns
    -------
    array of n_rows numbers
        Rows with larger scores are queried first.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.active import scores
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> scores(model, [[-1.0, 0.5], [9.0, 9.0]]).argmax()
    np.int64(1)
    """
    one_of("strategy", strategy, STRATEGIES)
    X_pool, draws = as_pool(X_pool), _draws(n_samples, random_state)
    return _scored(model, X_pool, strategy, draws, np.arange(X_pool.shape[0]))


def query(
    model: Any,
    X_pool: Any,
    n: int = 1,
    strategy: str = "variation_ratio",
    *,
    diverse: bool = False,
    exclude: Any = None,
    n_samples: int = 256,
    random_state: Any = None,
) -> np.ndarray:
    """The rows of a pool to label next, best first.

    Pools are read in blocks and may be memmaps of millions of rows; apart from one number per row, memory does not
    grow with them.  For ``"variation_ratio"`` with more than two classes, most rows are ruled out by a cheap bound,
    and only the rest are integrated.

    Parameters
    ----------
    model : a fitted classifier of this package, or a pipeline that ends in one
        For ``"entropy"`` and ``"margin"`` any that has ``predict_proba``; for ``"random"`` anything.
    X_pool : array, CSR matrix or frame of shape (n_rows, n_columns)
        The pool.
    n : int
        Number of rows to choose.
    strategy : {"variation_ratio", "mutual_information", "entropy", "margin", "entropy_of_mean", "random"}
        The query criterion; the top of this module has the formulas, and the rule for ties.
    diverse : bool
        Whether rows should differ from each other: rows with high scores are chosen one by one, each where the latent
        function is still uncertain given those before it (`softmargin.active.diverse`).  Otherwise, several rows are
        often neighbours whose labels tell the same.
    exclude : sequence of row numbers or mask of n_rows, optional
        Rows that must not be chosen, such as those already labelled.
    n_samples : int
        Number of draws for the mutual information with more than two classes.
    random_state : int, RandomState or None
        Seeds ties and draws.

    Returns
    -------
    array of n row numbers
        In the order in which they should be labelled.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> from softmargin.active import query
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X[:20], y[:20])
    >>> query(model, X, n=3, exclude=range(20), diverse=True, random_state=0).shape
    (3,)
    >>> query(model, [[-1.0, 0.5], [9.0, 9.0], [1.0, -0.5]], random_state=0)
    array([1])
    """
    return chosen(model, X_pool, n, strategy, diverse, exclude, n_samples, random_state)[0]


def chosen(
    model: Any,
    X_pool: Any,
    n: int,
    strategy: str,
    diverse: bool = False,
    exclude: Any = None,
    n_samples: int = 256,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that `query` returns, and their scores."""
    one_of("strategy", strategy, STRATEGIES)
    positive_integer("n", n)
    X_pool = as_pool(X_pool)
    rows = allowed_rows(exclude, X_pool.shape[0])
    _refuse_number(n, len(rows), X_pool.shape[0], diverse)
    rng = check_random_state(random_state)
    wanted = min(n_candidates(n), len(rows)) if diverse and n > 1 else n
    draws = _draws(n_samples, rng)
    score = _scored(model, X_pool, strategy, draws, rows, wanted)
    best = best_of(score, wanted, rng)
    if wanted > n:
        best = best[spread(model, taken(X_pool, rows[best]), uncertainty_in(score[best], strategy), n, rng)]
    return rows[best], score[best]


def uncertainty_in(score: np.ndarray, strategy: str) -> np.ndarray:
    """Scores shifted so that zero means certainty; 1 for all rows with ``"random"``.

    >>> uncertainty_in(np.array([-1.0, -0.2]), "margin")
    array([0. , 0.8])
    """
    return score + 1 if strategy in ("margin", "random") else score


def best_of(score: np.ndarray, n: int, rng: np.random.RandomState) -> np.ndarray:
    """The indices of the n largest scores, the largest first, with ties in random order.

    >>> best_of(np.array([0.1, 0.5, 0.1 + 1e-12, 0.3]), 2, np.random.RandomState(0))
    array([1, 3])
    """
    rounded = np.round(score, _DECIMALS)
    least = np.partition(rounded, len(rounded) - n)[len(rounded) - n]
    running = np.flatnonzero(rounded >= least)
    return running[np.lexsort((rng.permutation(len(running)), -rounded[running]))[:n]]


# Block by block ------------------------------------------------------------------------------------


def _draws(n_samples: int, random_state: Any) -> Draws:
    positive_integer("n_samples", n_samples)
    return Draws(n_samples, int(check_random_state(random_state).randint(2**31 - 1)))


def _scored(model: Any, X: Any, strategy: str, draws: Draws, rows: np.ndarray, n_best: int | None = None) -> np.ndarray:
    """The scores of rows; if only the ``n_best`` of them matter, others may be minus infinity."""
    found: list[np.ndarray] = []
    best = np.empty(0)
    for block in blocks(X, rows, len(getattr(model, "classes_", ()))):
        part = block_of(X, block)
        if strategy == "variation_ratio" and n_best is not None:
            least = -np.inf if len(best) < n_best else best.min()
            score = _largest_ratios(model, part, n_best, least)
            best = _largest(np.append(best, score[np.isfinite(score)]), n_best)
        else:
            score = _MEASURES[strategy](model, part, draws)
        found.append(score)
    return np.concatenate(found)


def _largest(values: np.ndarray, n: int) -> np.ndarray:
    return values if len(values) <= n else np.partition(values, len(values) - n)[len(values) - n :]


def _largest_ratios(model: Any, X: Any, n: int, least: float) -> np.ndarray:
    r"""Variation ratios of rows that may be among the n largest of the block and reach ``least``.

    The ratio is at most the probability that the class with the largest mean, ``k``, does not win.  Its leads over its
    rivals share ``f_k`` and are positively correlated, so that it wins at least as often as if they were independent
    (Slepian's inequality).  Hence the ratio is at most
    :math:`1 - \prod_{j \neq k} \Phi((g_k - g_j) / \sqrt{v_k + v_j})`, which is cheap to compute.  Rows are integrated
    in the order of this bound, until no other row can reach the n-th largest ratio so far.
    """
    mu, v, link, jobs = latent_of(model, X)
    if mu.ndim == 1:
        return variation_ratio_of(mu, v, link)
    bound = _beaten(mu + shift_of(link), v)
    order = np.argsort(-bound, kind="stable")
    score, best, start, size = np.full(len(mu), -np.inf), np.empty(0), 0, max(_FIRST_LOOK, 2 * n)
    while start < len(order) and bound[order[start]] >= least - _SLACK:
        rows = order[start : start + size]
        rows = rows[bound[rows] >= least - _SLACK]
        score[rows] = by_rows(lambda mu, v: variation_ratio_of(mu, v, link), mu[rows], v[rows], jobs)
        best = _largest(np.append(best, score[rows]), n)
        least = max(least, best.min() if len(best) == n else -np.inf)
        start, size = start + size, 2 * size
    return score


def _beaten(g: np.ndarray, v: np.ndarray) -> np.ndarray:
    """An upper bound on the variation ratio: the probability that the largest mean loses, under independent leads."""
    rows, k = np.arange(len(g)), g.argmax(axis=1)
    v = np.maximum(v, _LEAST_SHARE**2 * v.max(axis=1, keepdims=True))
    lead, width = g[rows, k][:, None] - g, np.sqrt(v + v[rows, k][:, None])
    with np.errstate(over="ignore"):
        wins = ndtr(lead / np.maximum(width, _LEAST_WIDTH))
    wins[rows, k] = 1
    return np.minimum(1 - wins.prod(axis=1), 1 - 1 / g.shape[1])


# Errors --------------------------------------------------------------------------------------------


def _refuse_number(n: int, n_allowed: int, n_rows: int, diverse: bool) -> None:
    if n_allowed == 0:
        raise ValueError(f"exclude leaves none of the {n_rows} rows of X_pool to choose from.")
    if n > n_allowed:
        left = "" if n_allowed == n_rows else f", of which exclude leaves {n_allowed}"
        raise ValueError(f"n={n} rows were requested, but X_pool has {n_rows}{left}.")
    if diverse and n > MOST_AT_ONCE:
        raise ValueError(f"diverse=True compares rows in pairs, for n up to {MOST_AT_ONCE}; got n={n}.")
