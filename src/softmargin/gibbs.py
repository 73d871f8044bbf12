r"""Gibbs sampling of the hinge: the augmentation is drawn where the other inferences average it.

A row of weight :math:`c` has the pseudo-likelihood :math:`\exp(-2 c \max(0, z))`, :math:`z = 1 - y f`, which is a
mixture of Gaussians over a scale :math:`\lambda` of its own (Polson and Scott 2011; at :math:`c = 1` Wenzel 2017, (3)):

.. math:: e^{-2 c \max(0, z)} = \int_0^\infty \sqrt{\frac{c}{2 \pi \lambda}}
          \exp\Big(-\frac{c\, (z + \lambda)^2}{2 \lambda}\Big) d\lambda.

So given the scales, a row is a measurement :math:`y (1 + \lambda)` of ``f`` with noise :math:`\lambda / c`; and given
``f``, :math:`t = 1 / \lambda` is inverse Gaussian, with mean :math:`1 / |z|` and shape :math:`c`.  The sampler turns
between the two: with :math:`f = \phi^T u + e`, :math:`e \sim N(0, leftover)`,

1. the weights ``u`` given the scales, ``e`` integrated out: the sites :math:`w = 1 / (\lambda / c + leftover)` and
   :math:`b = w\, y (1 + \lambda)` go through the same sums and the same prior as any others;
2. what the prior infers beside the weights, given them;
3. ``e`` given weights and scales, :math:`N\big(w\, leftover\, (y (1 + \lambda) - \phi^T u),\; (1 - w\, leftover)\,
   leftover\big)`;
4. the scales given ``f``.

The leftovers of different rows are drawn independently.  With points at all rows there are none, and this is the
posterior of the Gaussian process itself; with fewer points it is that of a process whose leftovers are independent.
A row of weight ``c`` has one leftover: its copies lie at one place.

Leaving a row out is an average over the same draws.  Given all scales but its own, the row's ``f`` without the row is
Gaussian: the belief with the row's site divided out.  A draw then counts as one over the row's likelihood under that
Gaussian, because it was made with the row.  Both are integrals over ``f`` in closed form, and scatter far less than
the ratios :math:`1 / p(y \mid f)` of the draws themselves, whose scatter grows as :math:`e^{4 v}`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import log_ndtr

from .arrays import Array, as_float64, cholesky, combined, like, namespace, precision_of, to_numpy
from .chunks import gather_rows, one_blas_thread, sweep
from .engine import Problem
from .gaussian import Belief
from .likelihoods import AugmentedHinge, Hinge, PointHinge
from .loo import LeftOut
from .monitor import Monitor
from .rows import Features, Latent

#: A row this near its margin is at it: its scale is then some chi-squared number, whatever the distance.
_NEAREST = 1e-10
#: The largest precision of a site: nothing is left of the others in a sum with more, and no draw is wider for it.
_LARGEST_PRECISION = 1e10
#: Draws that even a sampler stopped at once returns.
_LEAST_DRAWS = 2
#: Weights whose autocorrelation is looked at.
_WATCHED = 64
#: Draws from one that rows are left out of to the next: neighbours resemble each other, and it takes a second pass.
_LEAVE_OUT_EVERY = 4
#: A row can be left out if its importance weights are worth this many draws, and this share of all.
_LEAST_WORTH, _LEAST_SHARE = 20.0, 0.01


class Draws(NamedTuple):
    """What a sampler leaves: draws of the weights, one a row, and of what the prior infers beside them, as it is drawn.

    ``belief`` has the moments of the weights (averages of the conditional moments, which scatter less than those of
    the draws) and the average of the rest; ``left_out`` the moments of every row without itself; ``n_effective``
    says how many independent draws the worst of the weights is worth; ``reason`` is draws, time or interrupt.
    """

    weights: np.ndarray
    hypers: list[Any]
    belief: Belief
    left_out: LeftOut
    n_effective: float
    reason: str


def sample(
    problem: Problem,
    *,
    rng: np.random.RandomState | np.random.Generator,
    n_draws: int,
    burn_in: int,
    monitor: Monitor | None = None,
    start: Belief | None = None,
    unit: Array | None = None,
) -> Draws:
    """Draws from the posterior of a problem whose likelihood is a hinge.

    The chain begins with a draw from ``start``, which a variational belief makes short of burn-in, or from where the
    prior would begin an ascent.  ``unit`` is the weight to leave out of each row, by default that of one copy.  Each
    draw is one pass over the rows; the monitor is told the log-likelihood of its latent values.
    """
    if not isinstance(problem.likelihood, (Hinge, AugmentedHinge, PointHinge)):
        raise TypeError(f"Only the hinge can be drawn by its augmentation, got {problem.likelihood!r}.")
    if n_draws < 1 or burn_in < 0:
        raise ValueError(f"n_draws must be positive and burn_in not negative, got {n_draws} and {burn_in}.")
    monitor = monitor if monitor is not None else Monitor()
    chain, kept, reason = _Chain(problem, start, rng, unit), _Kept(problem.table.n_rows), "draws"
    with one_blas_thread:
        try:
            for step in range(burn_in + n_draws):
                if monitor.out_of_time:
                    reason = "time"
                    break
                draw = chain.draw(leave_out=step >= burn_in and (step - burn_in) % _LEAVE_OUT_EVERY == 0)
                monitor.record(draw.log_likelihood, accepted=True)
                if step >= burn_in:
                    kept.add(draw)
        except KeyboardInterrupt:
            reason = "interrupt"
        finally:
            monitor.close()
        while kept.n_draws < min(_LEAST_DRAWS, n_draws):  # stopped while burning in: better a rough answer than none
            kept.add(chain.draw(leave_out=True))
    return kept.draws(reason)


# The chain ----------------------------------------------------------------------------------------------------------


class Without(NamedTuple):
    """Each row's ``f`` without the row, given all other scales; and ``log r``, what that counts."""

    log_r: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class _Draw(NamedTuple):
    """One turn of the sampler; ``given_scales`` is the belief that the weights were drawn from."""

    log_likelihood: float
    without: Without | None
    given_scales: Belief
    weights: np.ndarray
    hyper: Any


class _Turn(NamedTuple):
    """What one block of rows has to say in a turn: ``natural`` are its sums ``(G, h)``."""

    natural: tuple[Any, Array]
    log_likelihood: float
    t: np.ndarray
    without: Without | None


class _Chain:
    """Where a sampler stands: weights, the belief they came from, what the prior infers beside them, and
    ``t = 1/lambda`` of each block's rows."""

    def __init__(self, problem: Problem, start: Belief | None, rng: Any, unit: Array | None) -> None:
        self._problem, table = problem, problem.table
        # A stream for each block and one for the weights: draws do not depend on the number of threads.
        seed = np.random.default_rng(rng).integers(2**63, size=4)
        streams: list[Any] = np.random.default_rng(seed).spawn(1 + table.n_blocks)
        self._rng, self._rngs = streams[0], streams[1:]
        y, weight = to_numpy(table.y), to_numpy(table.weight)
        unit = np.minimum(weight, 1) if unit is None else to_numpy(unit)
        cuts = np.arange(table.block_rows, table.n_rows, table.block_rows)
        self._y, self._weight, self._unit = (np.split(part, cuts) for part in (y, weight, unit))
        self._reference, self._rounding = table.reference, precision_of(table.reference)
        self._t = [np.ones(len(part)) for part in self._y]
        belief = problem.prior.update(*problem.prior.start(table.reference)) if start is None else start
        self._weights = belief.sample(1, self._rng)[0]
        self._hyper = problem.prior.drawn(self._weights, self._rng)
        self._given_scales: Belief | None = None

    def draw(self, leave_out: bool) -> _Draw:
        """One turn: leftovers and scales in a pass over the rows, then the weights, then all else."""
        problem, rng = self._problem, self._rng
        turns = sweep(lambda index: self._turn(index, leave_out), problem.table.n_blocks, problem.n_jobs)
        natural, log_likelihood, t, without = None, 0.0, [], []
        for turn in turns:  # sums are added as they come: many blocks of them need not fit in memory
            natural = turn.natural if natural is None else combined(natural, 1, turn.natural)
            log_likelihood += turn.log_likelihood
            t.append(turn.t)
            without += [turn.without] if turn.without is not None else []
        assert natural is not None
        G, h = natural
        belief = problem.prior.given(G, h, self._hyper)
        weights = belief.sample(1, rng)[0]
        self._t, self._given_scales, self._weights = t, belief, weights
        self._hyper = problem.prior.drawn(weights, rng)
        rows = Without(*gather_rows(without)) if without else None
        return _Draw(log_likelihood, rows, belief, weights, self._hyper)

    def _turn(self, index: int, leave_out: bool) -> _Turn:
        """New leftovers and scales for one block, with the features in hand that leaving out by the old ones needs."""
        y, c, t, rng = self._y[index], self._weight[index], self._t[index], self._rngs[index]
        features = self._problem.features(index)
        leftover = to_numpy(features.leftover)
        without = self._without(index, features) if leave_out and self._given_scales is not None else None
        f = to_numpy(as_float64(features.phi @ like(self._weights, self._reference)))
        f = f + draw_leftover(y, f, leftover, c, t, rng)
        t = draw_inverse_scale(y, f, c, min(_LARGEST_PRECISION, 0.01 / self._rounding), rng)
        w, b = (like(part, features.leftover) for part in sites_given_scale(y, leftover, c, t))
        log_likelihood = float(c @ self._problem.likelihood.log_density(y, f))
        return _Turn(features.gather(w, b), log_likelihood, t, without)

    def _without(self, index: int, features: Features) -> Without:
        assert self._given_scales is not None
        latent = Latent(*map(to_numpy, features.moments(self._given_scales.seen_by(self._reference))))
        rows = self._y[index], self._weight[index], self._t[index], self._unit[index]
        return without_rows(latent, *rows, self._rounding)


# The conditionals, row by row: finite for weights c = 0, scales without end (t = 0), and no leftover ----------------


def draw_inverse_scale(
    y: np.ndarray, f: np.ndarray, c: np.ndarray, largest: float, rng: np.random.Generator
) -> np.ndarray:
    r""":math:`t = 1/\lambda` given ``f``: inverse Gaussian, mean :math:`1/|1 - y f|` and shape ``c``."""
    shape = np.where(c > 0, c, 1.0)
    return np.minimum(rng.wald(1 / np.maximum(np.abs(1 - y * f), _NEAREST), shape), largest / shape)


def sites_given_scale(
    y: np.ndarray, leftover: np.ndarray, c: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r""":math:`w = c t / (1 + c t\, leftover)` and :math:`b = c (1 + t) y / (1 + c t\, leftover)`."""
    kept = 1 / (1 + c * t * leftover)
    return c * t * kept, c * (1 + t) * kept * y


def draw_leftover(
    y: np.ndarray, explained: np.ndarray, leftover: np.ndarray, c: np.ndarray, t: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    r"""``e`` given :math:`\phi^T u` and the scale: variance :math:`v_e = leftover / (1 + c t\, leftover)`, mean
    :math:`v_e\, c\, (y (1 + t) - t\, \phi^T u)`."""
    if not leftover.any():
        return np.zeros_like(explained)
    v = leftover / (1 + c * t * leftover)
    return v * c * (y * (1 + t) - t * explained) + np.sqrt(v) * rng.standard_normal(len(v))


class Hinged(NamedTuple):
    r"""A Gaussian of ``f`` times :math:`\exp(-2 k \max(0, 1 - y f))`: logarithm of its integral, mean and variance."""

    log_total: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def hinged(y: np.ndarray, mu: np.ndarray, v: np.ndarray, k: np.ndarray) -> Hinged:
    r"""For :math:`f \sim N(\mu, v)`, :math:`z = 1 - y \mu`, :math:`s = \sqrt v`, ``N`` the normal density:

    .. math:: Z = \Phi(-z/s) + e^{2 k (k v - z)} \Phi(z/s - 2 k s), \quad
              E z = z - 2 k v p, \quad Var = v + (2 k v)^2 p (1 - p) - 2 k v^2 N(z/s) / (s Z),

    ``p`` being the share of the second term: from :math:`\partial \log Z / \partial z = -2 k p`, since the slopes
    of the two :math:`\Phi` cancel.
    """
    v = np.maximum(v, 1e-24)
    z, s = 1 - y * mu, np.sqrt(v)
    beyond, within = log_ndtr(-z / s), 2 * k * (k * v - z) + log_ndtr(z / s - 2 * k * s)
    log_total = np.logaddexp(beyond, within)
    p = np.exp(within - log_total)
    density = np.exp(-(z**2) / (2 * v) - log_total) / np.sqrt(2 * np.pi * v)
    variance = v + (2 * k * v) ** 2 * p * (1 - p) - 2 * k * v**2 * density
    return Hinged(log_total, mu + 2 * k * v * p * y, np.maximum(variance, 0.0))


def without_rows(
    latent: Latent, y: np.ndarray, c: np.ndarray, t: np.ndarray, unit: np.ndarray, rounding: float
) -> Without:
    """The row's whole site is divided out; what is left of its weight, ``c - unit``, is put back as it is."""
    w, b = sites_given_scale(y, latent.leftover, c, t)
    kept = 1 - w * latent.spread
    # A draw that pins a row to its margin leaves only rounding to divide by, and is passed over: one in 1/rounding^.5.
    sound = kept > rounding**0.5
    kept = np.where(sound, kept, 1.0)
    mu, v = (latent.mu - latent.spread * b) / kept, latent.leftover + latent.spread / kept
    rest = hinged(y, mu, v, c - unit)
    return Without(np.where(sound, rest.log_total - hinged(y, mu, v, c).log_total, -1e300), rest.mean, rest.variance)


# What is kept of the draws ------------------------------------------------------------------------------------------


class _Tilted(NamedTuple):
    """Running moments of each row's ``f`` under importance weights ``r``, of which only ratios matter.

    ``top`` is the largest ``log r`` so far; sums of ``r`` and of its square are kept relative to it.
    """

    top: np.ndarray
    total: np.ndarray
    total_square: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def nothing(cls, n_rows: int) -> _Tilted:
        zero = np.zeros(n_rows)
        return cls(np.full(n_rows, -1e300), zero, zero, zero, zero)

    def plus(self, rows: Without) -> _Tilted:
        top = np.maximum(self.top, rows.log_r)
        fade, r = np.exp(self.top - top), np.exp(rows.log_r - top)
        total = fade * self.total + r
        away = rows.mean - self.mean
        mean = self.mean + r / total * away
        scatter = fade * self.scatter + r * (rows.variance + away * (rows.mean - mean))
        return _Tilted(top, total, fade**2 * self.total_square + r * r, mean, scatter)

    def left_out(self, n_draws: int) -> LeftOut:
        total = np.where(self.total > 0, self.total, 1.0)
        worth = total**2 / np.where(self.total > 0, self.total_square, np.inf)
        return LeftOut(self.mean, self.scatter / total, worth >= max(_LEAST_WORTH, _LEAST_SHARE * n_draws))


class _Kept:
    """Draws, and running moments."""

    def __init__(self, n_rows: int) -> None:
        self._weights: list[np.ndarray] = []
        self._means: list[np.ndarray] = []
        self._hypers: list[Any] = []
        self._covariances: Array = 0.0
        self._tilted, self._n_left_out = _Tilted.nothing(n_rows), 0

    @property
    def n_draws(self) -> int:
        return len(self._hypers)

    def add(self, draw: _Draw) -> None:
        if draw.without is not None:
            self._tilted, self._n_left_out = self._tilted.plus(draw.without), self._n_left_out + 1
        self._covariances = self._covariances + draw.given_scales.covariance
        self._weights.append(draw.weights)
        self._means.append(to_numpy(draw.given_scales.mean))
        self._hypers.append(draw.hyper)

    def draws(self, reason: str) -> Draws:
        n, weights, means = self.n_draws, np.array(self._weights), np.array(self._means)
        # The law of total variance: the covariance within a belief given scales, and that of their means.
        about = means - means.mean(axis=0)
        covariance = self._covariances / n + like(about.T @ about / n, self._covariances)
        belief = _matched(like(means.mean(axis=0), covariance), covariance, _average(self._hypers))
        watched = weights[:, :: -(-weights.shape[1] // _WATCHED)]
        worth = float(effective_draws(watched).min())
        return Draws(weights, self._hypers, belief, self._tilted.left_out(self._n_left_out), worth, reason)


def _matched(mean: Array, covariance: Array, hyper: Any) -> Belief:
    """The Gaussian of these moments: ``S = R'R`` with ``R`` lower triangular is a Cholesky factor from the far end."""
    xp = namespace(covariance)
    R = xp.flip(cholesky(xp.flip(covariance))).T
    return Belief(mean, R, 2 * xp.sum(xp.log(xp.linalg.diagonal(R))), hyper)


def _average(hypers: list[Any]) -> Any:
    """The average, array by array, of what a prior drew."""
    if hypers[0] is None:
        return None
    return type(hypers[0])(*(np.mean(parts, axis=0) for parts in zip(*hypers, strict=True)))


def effective_draws(chain: np.ndarray) -> np.ndarray:
    r"""How many independent draws each column of a chain is worth: :math:`n / (1 + 2 \sum_k \rho_k)`, at most ``n``.

    Autocorrelations are summed in pairs while the pairs stay positive, and no pair counts more than the one before
    it: they are positive and decreasing for any reversible chain, and what breaks that is noise (Geyer 1992).

    >>> n = effective_draws(np.random.default_rng(0).standard_normal((1000, 1)))
    >>> bool(900 <= n[0] <= 1000)
    True
    """
    n = len(chain)
    about = chain - chain.mean(axis=0)
    length = next_fast_len(2 * n)  # padded, or the end would correlate with the beginning
    power = np.abs(np.fft.rfft(about, length, axis=0)) ** 2
    covariance = np.fft.irfft(power, length, axis=0)[: n + n % 2]
    still = np.ptp(chain, axis=0) == 0  # a column that never moves is worth one draw
    rho = covariance / np.where(still, 1.0, covariance[0])
    pairs = rho[::2] + rho[1::2]
    pairs = np.minimum.accumulate(np.where(np.logical_and.accumulate(pairs > 0, axis=0), pairs, 0.0), axis=0)
    return np.where(still, 1.0, n / np.maximum(2 * pairs.sum(axis=0) - 1, 1.0))
