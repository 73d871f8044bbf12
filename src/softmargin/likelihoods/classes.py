r"""Likelihoods of more than two classes: a latent value :math:`f_k` for each, independent given the row.

Labels are 0, 1, 2 ...; means, variances and sites have a column for each class. All likelihoods here are built from
those of two classes, except `Softmax`.

**Steps.** A row's log-likelihood depends on differences :math:`f_k - f_j`, so its curvature is the Laplacian of a
graph over the classes. Sites contain only the diagonal, the degrees. A Laplacian is at most twice its
degrees, so if all classes are updated at once, half a step never overshoots because off-diagonal entries are missing.

**Curvature.** Likelihoods that couple classes know the whole negative Hessian of ``l`` in the means of each row:
``hessian`` returns arrays of rows by classes from which ``hessian_times`` multiplies by it, and ``curvature`` is its
diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from array_api_compat import device

from ..arrays import Array, namespace, precision_of
from .hinge import AugmentedHinge, Hinge
from .protocol import Likelihood, Sites


def membership(y: Array, n_classes: int) -> Array:
    """A boolean matrix: which row belongs to which class."""
    xp = namespace(y)
    return xp.astype(y, xp.int64)[:, None] == xp.arange(n_classes, device=device(y))[None, :]


def _flat_sites(base: Likelihood, y: Array, mu: Array, v: Array) -> Sites:
    """The sites of a likelihood of one latent value, for every entry of a matrix."""
    xp = namespace(mu)
    parts = base.sites(*(xp.reshape(part, (-1,)) for part in (y, mu, v)))
    return Sites(*(xp.reshape(part, mu.shape) for part in parts))


def _flat_curvature(base: Likelihood, y: Array, mu: Array, v: Array) -> Array:
    xp = namespace(mu)
    return xp.reshape(base.curvature(*(xp.reshape(part, (-1,)) for part in (y, mu, v))), mu.shape)


class _Pairs:
    """Moments of :math:`f_y - f_t`, the own class of a row against all others; `rivals_only` masks the own class."""

    def __init__(self, y: Array, mu: Array, v: Array) -> None:
        xp = namespace(mu)
        self.own = membership(y, mu.shape[1])
        mu_y, v_y = (xp.sum(xp.where(self.own, part, xp.zeros_like(part)), axis=1, keepdims=True) for part in (mu, v))
        self.mu, self.v, self.ones = mu_y - mu, v_y + v, xp.ones_like(mu)

    def rivals_only(self, values: Array) -> Array:
        return namespace(values).where(self.own, namespace(values).zeros_like(values), values)

    def to_classes(self, of_rivals: Array, sign: float) -> Array:
        """Adds the part of each pair to the rival, with a sign, and to the row's own class."""
        xp = namespace(of_rivals)
        return xp.where(self.own, xp.sum(of_rivals, axis=1, keepdims=True), sign * of_rivals)


@dataclass(frozen=True)
class Rivals:
    r"""The sum over rivals: every other class loses to the row's own, each by itself (Weston and Watkins 1999).

    .. math:: \log p = \sum_{t \ne y} \log p_{base}(+1 \mid f_y - f_t),

    which for Gaussian :math:`f_k` is the base's own expectation at :math:`\mu_y - \mu_t` and :math:`v_y + v_t`: closed
    form for the hinge.  As :math:`\prod_t (1 + a_t) \ge 1 + \sum_t a_t`, with the logistic base it is a lower
    bound of the softmax likelihood (one-vs-each, Titsias 2016); as a sum exceeds the largest of its terms, with the
    hinge it is one of Crammer and Singer's.

    >>> import numpy as np
    >>> l, w, b = Rivals().sites(np.array([0.0]), np.zeros((1, 3)), np.zeros((1, 3)))
    >>> float(l[0]), b[0].tolist()
    (-4.0, [4.0, -2.0, -2.0])
    """

    base: Likelihood = field(default_factory=Hinge)
    couples = True
    longest_step = 0.5
    two_moment = False  # the variance of a difference is the sum of variances only if classes are independent

    needs_guard = True  # because all classes are updated at once

    @property
    def is_bound(self) -> bool:
        return self.base.is_bound

    @property
    def site_is_curvature(self) -> bool:
        return self.base.site_is_curvature

    def log_density(self, y: Array, f: Array) -> Array:
        pairs = _Pairs(y, f, f)
        return namespace(f).sum(pairs.rivals_only(self.base.log_density(pairs.ones, pairs.mu)), axis=1)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        pairs = _Pairs(y, mu, v)
        return _from_pairs(pairs, mu, _flat_sites(self.base, pairs.ones, pairs.mu, pairs.v), pairs.ones)

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        return _degrees(y, *self.hessian(y, mu, v))

    def hessian(self, y: Array, mu: Array, v: Array) -> tuple[Array]:
        """The curvature of the pair with each rival.

        The entry of the own class does not matter: it is multiplied by a difference of zero.
        """
        pairs = _Pairs(y, mu, v)
        return (_flat_curvature(self.base, pairs.ones, pairs.mu, pairs.v),)

    def hessian_times(self, y: Array, hessian: tuple[Array], x: Array) -> Array:
        return _laplacian_of_pairs(y, *hessian, x)

    def ties(self, y: Array, mu: Array, v: Array, sites: Sites) -> tuple[Array, Array]:
        """What `answer` needs: the sites of the rows, and the curvature of the pair with each rival."""
        return sites.w, *((sites.w,) if self.base.site_is_curvature else self.hessian(y, mu, v))

    def answer(self, y: Array, ties: tuple[Array, Array], x: Array) -> Array:
        """The coupling of each row, sites minus curvature, times ``x`` (rows by classes)."""
        return ties[0] * x - _laplacian_of_pairs(y, ties[1], x)


def _degrees(y: Array, of_rivals: Array) -> Array:
    """The diagonal of the curvature of each row, from the curvature of the pair with each rival."""
    xp = namespace(of_rivals)
    own = membership(y, of_rivals.shape[1])
    rivals = xp.where(own, xp.zeros_like(of_rivals), of_rivals)
    return xp.where(own, xp.sum(rivals, axis=1, keepdims=True), rivals)


def _laplacian_of_pairs(y: Array, of_rivals: Array, x: Array) -> Array:
    """The curvature of each row, times ``x``, from the curvature of the pair with each rival."""
    xp = namespace(x)
    own = membership(y, x.shape[1])
    away = of_rivals * (x - xp.sum(xp.where(own, x, xp.zeros_like(x)), axis=1, keepdims=True))
    return xp.where(own, -xp.sum(away, axis=1, keepdims=True), away)


def _from_pairs(pairs: _Pairs, mu: Array, of_pairs: Sites, share: Array) -> Sites:
    """Sites of classes from those of pairs, with rivals weighted by their shares."""
    l, w, b = (pairs.rivals_only(share * part) for part in of_pairs)  # noqa: E741
    slope = pairs.to_classes(b - w * pairs.mu, -1.0)
    w = pairs.to_classes(w, 1.0)
    return Sites(namespace(mu).sum(l, axis=1), w, slope + w * mu)


@dataclass(frozen=True)
class CrammerSinger:
    r"""The strongest rival alone (Crammer and Singer 2001; Wistuba and Rawat 2018).

    .. math:: \log p = -2 \max(0, 1 + \max_{t \ne y} f_t - f_y)

    Which rival is the strongest is not known for sure: each counts by the share
    :math:`r_t \propto \exp(2 \mu_t)`, held while sites are formed.  An average over rivals lies above the
    expectation of the strongest, so this is no bound; steps are half steps, and end when means converge.

    >>> import numpy as np
    >>> l, w, b = CrammerSinger(Hinge()).sites(np.array([0.0]), np.array([[0.0, 0.0, -50.0]]), np.zeros((1, 3)))
    >>> float(l[0]), (b[0].round(3) + 0.0).tolist()
    (-2.0, [2.0, -2.0, 0.0])
    """

    base: Likelihood = field(default_factory=AugmentedHinge)
    #: The weight of the sites, with more curvature than the loss, in steps: with 0 some diverge, with 1 all are slow.
    _CAUTION: ClassVar[float] = 0.1
    is_bound = False
    needs_guard = True
    couples = True
    longest_step = 0.5
    two_moment = False
    site_is_curvature = False  # shares move with the means

    def log_density(self, y: Array, f: Array) -> Array:
        xp = namespace(f)
        pairs = _Pairs(y, f, f)
        least = xp.min(xp.where(pairs.own, xp.full_like(f, float("inf")), pairs.mu), axis=1)
        return self.base.log_density(xp.ones_like(least), least)

    def shares(self, y: Array, mu: Array) -> Array:
        """The share of each rival of a row; 0 for its own class."""
        xp = namespace(mu)
        own = membership(y, mu.shape[1])
        score = xp.where(own, xp.full_like(mu, -float("inf")), 2 * mu)
        share = xp.exp(score - xp.max(score, axis=1, keepdims=True))
        return share / xp.sum(share, axis=1, keepdims=True)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        pairs = _Pairs(y, mu, v)
        return _from_pairs(pairs, mu, _flat_sites(self.base, pairs.ones, pairs.mu, pairs.v), self.shares(y, mu))

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        of_pairs, share, pull = self.hessian(y, mu, v)
        return _degrees(y, of_pairs) + pull * share * (1 - share)

    def hessian(self, y: Array, mu: Array, v: Array) -> tuple[Array, Array, Array]:
        r"""The curvature of the pair with each rival, the shares ``r``, and twice the mean slope of the pairs.

        Slopes are :math:`-r_t s_t` for a rival and :math:`\sum_t r_t s_t` for the own class, where :math:`s_t` is the
        slope of a pair. As rivals move, so do their shares: :math:`\partial r_t / \partial \mu_u =
        2 r_t ([t = u] - r_u)`. With all :math:`s_t` at their mean, which keeps it symmetric, this adds
        :math:`2 \bar s\, (diag(r) - r r^T)`.
        """
        pairs, share = _Pairs(y, mu, v), self.shares(y, mu)
        _, w, b = _flat_sites(self.base, pairs.ones, pairs.mu, pairs.v)
        of_pairs = w if self.base.site_is_curvature else _flat_curvature(self.base, pairs.ones, pairs.mu, pairs.v)
        pull = 2 * namespace(mu).sum(share * (b - w * pairs.mu), axis=1, keepdims=True)
        return share * of_pairs, share, pull

    def hessian_times(self, y: Array, hessian: tuple[Array, Array, Array], x: Array) -> Array:
        of_pairs, share, pull = hessian
        mean = namespace(x).sum(share * x, axis=1, keepdims=True)
        return _laplacian_of_pairs(y, of_pairs, x) + pull * share * (x - mean)

    def ties(self, y: Array, mu: Array, v: Array, sites: Sites) -> tuple[Array, Array]:
        """As for `Rivals`, but with curvature moved a little towards the sites, because steps are not checked here."""
        if self.base.site_is_curvature:
            return sites.w, sites.w
        pairs = _Pairs(y, mu, v)
        curvature = self.shares(y, mu) * _flat_curvature(self.base, pairs.ones, pairs.mu, pairs.v)
        return sites.w, self._CAUTION * sites.w + (1 - self._CAUTION) * curvature

    def answer(self, y: Array, ties: tuple[Array, Array], x: Array) -> Array:
        return ties[0] * x - _laplacian_of_pairs(y, ties[1], x)


@dataclass(frozen=True)
class OneVersusRest:
    r"""Each class against all others together: :math:`\log p = \sum_k \log p_{base}(\pm 1 \mid f_k)`, + for its own.

    Classes do not interact, and the bound is the sum of those of K models of two classes.

    >>> import numpy as np
    >>> OneVersusRest(Hinge()).sites(np.array([0.0]), np.zeros((1, 3)), np.zeros((1, 3))).b[0].tolist()
    [2.0, -2.0, -2.0]
    """

    base: Likelihood = field(default_factory=Hinge)
    couples = False
    longest_step = 1.0

    @property
    def is_bound(self) -> bool:
        return self.base.is_bound

    @property
    def needs_guard(self) -> bool:
        return self.base.needs_guard

    @property
    def two_moment(self) -> bool:
        return self.base.two_moment

    @property
    def site_is_curvature(self) -> bool:
        return self.base.site_is_curvature

    def log_density(self, y: Array, f: Array) -> Array:
        return namespace(f).sum(self.base.log_density(_signs(y, f), f), axis=1)

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        l, w, b = _flat_sites(self.base, _signs(y, mu), mu, v)  # noqa: E741
        return Sites(namespace(mu).sum(l, axis=1), w, b)

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        return _flat_curvature(self.base, _signs(y, mu), mu, v)


def _signs(y: Array, mu: Array) -> Array:
    xp = namespace(mu)
    return xp.where(membership(y, mu.shape[1]), xp.ones_like(mu), -xp.ones_like(mu))


@dataclass(frozen=True)
class Softmax:
    r"""Softmax, :math:`\log p = f_y - \log \sum_k e^{f_k}`, under the tilted bound of Knowles and Minka (2011).

    For any shares ``a``,

    .. math:: E \log \sum_k e^{f_k} \le \tfrac12 \sum_k a_k^2 v_k + \log \sum_k \exp(\mu_k + (1 - 2 a_k) v_k / 2).

    The best of them solve

    .. math:: p_k \propto \exp(\mu_k + (1 - 2 p_k)\, v_k / 2),

    and there the slopes are those of a softmax whose probabilities are ``p``:

    .. math:: w_k = p_k (1 - p_k), \qquad b_k = [k = y] - p_k + w_k \mu_k.

    >>> import numpy as np
    >>> l, w, b = Softmax().sites(np.array([0.0]), np.zeros((1, 4)), np.zeros((1, 4)))
    >>> round(float(l[0]), 4), w[0].tolist(), b[0].tolist()
    (-1.3863, [0.1875, 0.1875, 0.1875, 0.1875], [0.75, -0.25, -0.25, -0.25])
    """

    is_bound = True
    needs_guard = True
    couples = True
    longest_step = 0.5
    two_moment = False
    site_is_curvature = False
    #: Newton steps for the optimal shares: their maximum number, and tolerances, absolute and in rounding units.
    _STEPS: ClassVar[int] = 40
    _NEAR: ClassVar[float] = 1e-9
    _ROUNDING: ClassVar[int] = 8

    def log_density(self, y: Array, f: Array) -> Array:
        xp = namespace(f)
        own = membership(y, f.shape[1])
        return xp.sum(xp.where(own, f, xp.zeros_like(f)), axis=1) - _log_sum_exp(f)[:, 0]

    def slope(self, y: Array, f: Array) -> Array:
        xp = namespace(f)
        return xp.astype(membership(y, f.shape[1]), f.dtype) - xp.exp(f - _log_sum_exp(f))

    def sites(self, y: Array, mu: Array, v: Array) -> Sites:
        xp = namespace(mu)
        own = xp.astype(membership(y, mu.shape[1]), mu.dtype)
        p = self.shares(mu, v)
        total = _log_sum_exp(mu + (0.5 - p) * v)[:, 0] + 0.5 * xp.sum(p * p * v, axis=1)
        w = p * (1 - p)
        return Sites(xp.sum(own * mu, axis=1) - total, w, own - p + w * mu)

    def curvature(self, y: Array, mu: Array, v: Array) -> Array:
        (D,) = self.hessian(y, mu, v)
        return D * (1 - D / namespace(D).sum(D, axis=1, keepdims=True))

    def hessian(self, y: Array, mu: Array, v: Array) -> tuple[Array]:
        r""":math:`D = p / (1 + p v)`, since :math:`\partial p/\partial \mu = D - D 1 1^T D / 1^T D 1`."""
        p = self.shares(mu, v)
        return (p / (1 + p * v),)

    def hessian_times(self, y: Array, hessian: tuple[Array], x: Array) -> Array:
        xp, (D,) = namespace(x), hessian
        return D * (x - xp.sum(D * x, axis=1, keepdims=True) / xp.sum(D, axis=1, keepdims=True))

    def ties(self, y: Array, mu: Array, v: Array, sites: Sites) -> tuple[Array, Array]:
        """Sites, and probabilities ``p``. The bound has less curvature than they imply, but only for short steps."""
        return sites.w, namespace(mu).astype(membership(y, mu.shape[1]), mu.dtype) - (sites.b - sites.w * mu)

    def answer(self, y: Array, ties: tuple[Array, Array], x: Array) -> Array:
        w, p = ties
        return w * x - p * (x - namespace(x).sum(p * x, axis=1, keepdims=True))

    def shares(self, mu: Array, v: Array) -> Array:
        r"""The optimal shares ``p`` of the class docstring.

        With :math:`x = \log p` they solve :math:`x_k + v_k e^{x_k} = c + t_k`, :math:`t_k = \mu_k + v_k / 2`, and
        :math:`\sum_k e^{x_k} = 1`. This is Newton's method for ``x`` and ``c`` jointly; the equations are diagonal but
        for one, and convex in ``x``. So from any start, ``x`` and ``c`` are too large after one step and
        decrease from then on, at first by one in each step where :math:`v_k` is large.
        """
        xp = namespace(mu)
        mu = mu - xp.max(mu, axis=1, keepdims=True)
        t, x = mu + v / 2, mu - _log_sum_exp(mu)
        p, near = xp.exp(x), max(self._NEAR, self._ROUNDING * precision_of(mu))
        for _ in range(self._STEPS):
            bend, at = 1 + v * p, x + v * p - t
            D, short = p / bend, 1 - xp.sum(p, axis=1, keepdims=True)
            c = (short + xp.sum(D * at, axis=1, keepdims=True)) / xp.sum(D, axis=1, keepdims=True)
            x = xp.minimum(x + (c - at) / bend, xp.zeros_like(x))  # no probability exceeds one
            p, before = xp.exp(x), p
            if float(xp.max(xp.abs(p - before))) < near:
                break
        return p / xp.sum(p, axis=1, keepdims=True)


def _log_sum_exp(x: Array) -> Array:
    """Log-sum-exp over classes, keeping their axis."""
    xp = namespace(x)
    top = xp.max(x, axis=1, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(x - top), axis=1, keepdims=True))
