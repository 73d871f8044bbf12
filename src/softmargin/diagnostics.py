r"""Convergence diagnostics of chains: R-hat and effective sample size (Vehtari et al. 2021).

Draws are arrays (chain, draw, ...), and each quantity in the trailing axes is assessed separately. Chains are split
into halves, so that drift shows as disagreement, and draws are replaced by normal scores of their ranks, so that
heavy tails do no harm.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning

from .extras import needed

#: The largest R-hat of chains that have mixed.
LARGEST_R_HAT = 1.05
#: The fewest draws of a chain for diagnostics.
_LEAST_DRAWS = 4
#: The quantiles of the tail effective sample size.
_TAILS = 0.05, 0.95


class MixingWarning(ConvergenceWarning):
    """Warning that chains disagree: they have not all explored the whole posterior."""


def r_hat(draws: np.ndarray) -> np.ndarray:
    r"""Potential scale reduction factor of the draws: near 1 if chains agree.

    .. math:: \hat R = \sqrt{\frac{N - 1}{N} + \frac{B}{N W}},

    with ``N`` draws in each half of a chain, ``W`` the mean of the variances within halves and ``B / N`` the variance
    of their means; the larger of that of the ranks and that of the ranks of distances from the median.

    It is 1 for quantities that are constant, infinity for halves that are constant at different values, and NaN for
    fewer than four draws, or draws with NaN.

    >>> chains = np.random.default_rng(0).standard_normal((4, 500))
    >>> bool(r_hat(chains) < 1.01), bool(r_hat(chains + np.arange(4)[:, None]) > 1.5)
    (True, True)
    """
    draws = np.asarray(draws, dtype=float)
    if draws.shape[1] < _LEAST_DRAWS or draws.size == 0:
        return np.full(draws.shape[2:], np.nan)
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_r_hat(_scores(halves)), _r_hat(_scores(folded)))


def ess_bulk(draws: np.ndarray) -> np.ndarray:
    """Bulk effective sample size: the number of independent draws that would be as informative about the centre.

    >>> chains = np.random.default_rng(0).standard_normal((4, 500))
    >>> bool(1600 < ess_bulk(chains) < 2400)
    True
    """
    draws = np.asarray(draws, dtype=float)
    if draws.shape[1] < _LEAST_DRAWS or draws.size == 0:
        return np.full(draws.shape[2:], np.nan)
    return ess(_scores(_halves(draws)))


def ess_tail(draws: np.ndarray) -> np.ndarray:
    """Tail effective sample size: the smaller of those of the 5% and the 95% quantile.

    >>> chains = np.random.default_rng(0).standard_normal((4, 500))
    >>> bool(1400 < ess_tail(chains) < 2400)
    True
    """
    draws = np.asarray(draws, dtype=float)
    if draws.shape[1] < _LEAST_DRAWS or draws.size == 0:
        return np.full(draws.shape[2:], np.nan)
    below = [draws <= np.quantile(draws, share, axis=(0, 1)) for share in _TAILS]
    worth = np.minimum(*(ess(_halves(part.astype(float))) for part in below))
    return np.where(np.isnan(draws).any(axis=(0, 1)), np.nan, worth)


def ess(draws: np.ndarray) -> np.ndarray:
    r"""Effective sample size for the mean, :math:`M N / (1 + 2 \sum_k \rho_k)` for ``M`` chains.

    Autocovariances :math:`c_k` are averaged over chains, and disagreement between chains counts as correlation:
    :math:`\rho_k = 1 - (W - c_k) / V`, :math:`V = (N - 1) W / N + B / N`.  They are summed in pairs while the pairs
    stay positive, and no pair counts more than the one before it: they are positive and decreasing for any reversible
    chain, and deviations from that are noise (Geyer 1992).  For constant quantities it is the number of draws.

    Repeating every draw halves the effective share of the draws:

    >>> chains = np.random.default_rng(0).standard_normal((4, 500))
    >>> bool(0.4 < ess(np.repeat(chains, 2, axis=1)) / 4000 < 0.6)
    True
    """
    draws = np.asarray(draws, dtype=float)
    n_chains, n = draws.shape[:2]
    covariance = _autocovariance(draws)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + (draws.mean(axis=1).var(axis=0, ddof=1) if n_chains > 1 else 0.0)
    still = np.ptp(draws, axis=(0, 1)) < np.finfo(float).resolution
    rho = 1 - (within - covariance) / np.where(still, 1.0, total)
    rho[0] = 1
    # Sums of pairs up to the last that is considered, and how many of them count in full.
    last = max(0, (n - 3) // 2)
    even, pairs = rho[: 2 * last + 2 : 2], rho[: 2 * last + 2 : 2] + rho[1 : 2 * last + 2 : 2]
    positive = np.logical_and.accumulate(pairs[:last] > 0, axis=0)
    count = positive.sum(axis=0)
    summed = np.sum(np.where(positive, np.minimum.accumulate(pairs[:last], axis=0), 0), axis=0)
    end, end_pair = (np.take_along_axis(part, count[None], axis=0)[0] for part in (even, pairs))
    tau = 2 * summed - 1 + np.where(end_pair >= 0, end, np.maximum(end, 0))
    # Antithetic draws are worth more than independent ones, but only up to this limit.
    worth = n_chains * n / np.maximum(tau, 1 / np.log10(n_chains * n))
    return np.where(np.isnan(total), np.nan, np.where(still, float(n_chains * n), worth))


def summary(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Mean, standard deviation, effective sample sizes and R-hat of every quantity in the draws.

    >>> found = summary(np.random.default_rng(0).standard_normal((4, 500, 3)))
    >>> list(found), found["mean"].shape
    (['mean', 'sd', 'ess_bulk', 'ess_tail', 'r_hat'], (3,))
    """
    flat = draws.reshape(-1, *draws.shape[2:])
    of_chains = {"ess_bulk": ess_bulk(draws), "ess_tail": ess_tail(draws), "r_hat": r_hat(draws)}
    return {"mean": flat.mean(axis=0), "sd": flat.std(axis=0, ddof=1)} | of_chains


def warn_unless_mixed(largest_r_hat: float, n_effective: float, stacklevel: int = 2) -> None:
    """Issues a `MixingWarning` if chains disagree, located at the caller."""
    if largest_r_hat > LARGEST_R_HAT:
        warnings.warn(
            f"The chains have not mixed: the largest R-hat is {largest_r_hat:.3f}, above {LARGEST_R_HAT}, and the "
            f"effective sample size is {n_effective:.0f}. Raise n_draws, warm_up or thin.",
            MixingWarning,
            stacklevel=stacklevel + 1,
        )


def to_arviz(
    posterior: Mapping[str, np.ndarray],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, list[str]] | None = None,
    **groups: Mapping[str, np.ndarray],
) -> Any:
    """Convert named draws, arrays (chain, draw, ...), for ArviZ: an InferenceData, or a DataTree from 1.0 on.

    ``dims`` names the trailing axes of each array and ``coords`` their coordinates; further groups, such as
    ``sample_stats``, are given by name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # announcements of the next version
        arviz = needed("arviz", "arviz", "What ArviZ makes of draws")
    every = {"posterior": posterior, **groups}
    every = {group: {name: np.asarray(values) for name, values in named.items()} for group, named in every.items()}
    axes = {"coords": dict(coords or {}), "dims": {name: list(axis) for name, axis in (dims or {}).items()}}
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.from_dict(**every, **axes)
    return arviz.from_dict(every, **axes)


def _halves(draws: np.ndarray) -> np.ndarray:
    """Each chain split into two; with an odd number of draws, the middle one is dropped."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _scores(draws: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks among all draws of a quantity (Blom)."""
    flat = draws.reshape(-1, *draws.shape[2:])
    return ndtri((rankdata(flat, axis=0) - 3 / 8) / (len(flat) + 1 / 4)).reshape(draws.shape)


def _r_hat(halves: np.ndarray) -> np.ndarray:
    n = halves.shape[1]
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    # If halves are constant, rounding may still make the means of equal halves differ.
    still = np.ptp(halves, axis=1).max(axis=0) == 0
    apart = still & (np.ptp(halves, axis=(0, 1)) > 0)
    ratio = np.where(still, 0.0, between) / np.where(still, 1.0, within)
    return np.where(apart, np.inf, np.where(still, 1.0, np.sqrt((n - 1) / n + ratio)))


def _autocovariance(draws: np.ndarray) -> np.ndarray:
    """The autocovariances of each lag, averaged over chains."""
    n = draws.shape[1]
    length = next_fast_len(2 * n, real=True)  # padded, so that the end does not correlate with the beginning
    transformed = np.asarray(rfft(draws - draws.mean(axis=1, keepdims=True), length, axis=1))
    power = np.abs(transformed) ** 2
    return np.asarray(irfft(power.mean(axis=0), length, axis=0))[:n] / n
