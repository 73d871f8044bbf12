"""Gradients of latent moments, and of the log loss, in the entries of a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp, softmax
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..chunks import dense, n_threads, rows_in_block, sweep
from ..gaussian import class_parts
from ..links import Link, ProbitLink, probabilities
from ..rows import FourierRows, InducingRows, LinearRows, ParticleRows, ReducedRows, beneath
from ..validation import codes_of, has_missing
from ..winning import pieces

#: Integration nodes for gradients under the probit link of many classes, in standard deviations of a Gaussian.
_NODES = np.linspace(-8.0, 8.0, 129)


def input_gradients(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Gradients of the latent mean and the latent variance of each row with respect to its entries.

    Two arrays of the shape of ``X``; with more than two classes, with an axis for these after that of rows.
    With features :math:`\phi(x)`, weights :math:`N(m, S)` and the leftover variance :math:`\ell(x)`,

    .. math:: \mu = \phi^T m, \quad v = \phi^T S \phi + \ell, \qquad
              \partial \mu = \partial\phi^T m, \quad \partial v = 2\, \partial\phi^T S \phi + \partial \ell.

    For inducing points :math:`\phi = L^{-1} k(Z, x)` and :math:`\ell = k(x, x) - \phi^T \phi`; for linear models
    :math:`\phi = ((x - c) / s, 1)`; for Fourier features, cosine and sine are each other's derivatives; and for
    particles :math:`\partial v` is twice the covariance of :math:`f` and :math:`\partial f` over particles.

    Parameters
    ----------
    model : a fitted classifier of this package, or one with ``_latent_pullback``
        Not a pipeline or a mixed model.
    X : array, CSR matrix or frame of shape (n_rows, n_columns), or images if the model accepts them
        Rows without missing values.

    Examples
    --------
    >>> from softmargin import BayesianLinearSVC
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> model = BayesianLinearSVC().fit(X, [0, 0, 1, 1])
    >>> mean, variance = input_gradients(model, X)
    >>> bool(np.allclose(mean, model.coef_)), variance.shape
    (True, (4, 2))
    """
    X = _numbers(model, X)
    n, K = len(X), len(model.classes_)
    ones = [np.ones(n)] if K == 2 else [np.tile(one, (n, 1)) for one in np.eye(K)]
    mean = np.stack([_pulled_back(model, X, one, 0 * one) for one in ones], axis=1)
    variance = np.stack([_pulled_back(model, X, 0 * one, one) for one in ones], axis=1)
    return (mean[:, 0], variance[:, 0]) if K == 2 else (mean, variance)


def log_loss_gradients(model: Any, X: Any, y: Any) -> np.ndarray:
    """Gradient of the log loss of ``predict_proba`` with respect to the entries of each row, for labels ``y``.

    It includes the link, and so both mean and variance.  Models and rows are as in `input_gradients`.

    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> downhill = X - 0.01 * log_loss_gradients(model, X, y)
    >>> bool((model.predict_proba(downhill) >= model.predict_proba(X))[np.arange(200), y].all())
    True
    """
    _, slopes, miss = scaled_slopes(model, X, y)
    return np.einsum("i,i...->i...", miss, slopes)


def scaled_slopes(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows as numbers, the gradients of their log loss up to a factor for each row, and this factor."""
    rows = _numbers(model, X)
    mu, v = (np.asarray(part, dtype=float) for part in model.latent_mean_and_variance(X))
    if y is None:
        y = model.classes_[probabilities(model.link_.score(mu, v)).argmax(axis=1)]
    d_mu, d_v, miss = loss_slopes(mu, v, codes_of(column_or_1d(y), model.classes_), model.link_)
    return rows, _pulled_back(model, rows, d_mu, d_v), miss


def loss_slopes(mu: np.ndarray, v: np.ndarray, y: np.ndarray, link: Link) -> tuple[np.ndarray, ...]:
    r"""Derivatives of the log loss of coded labels in latent means and variances, up to a factor for each row, and the
    factor.

    The derivative of the loss for label y in the score of class k is :math:`p_k - 1_{k = y} = (1 - p_y) (q_k -
    1_{k = y})`, with :math:`q` the softmax of all scores except that of y.  The factor :math:`1 - p_y` may underflow;
    the rest is of order one.  With two classes and one score :math:`g`, they are :math:`\sigma(-y g)` and :math:`-y`.
    Then

    .. math:: g = (s \mu + c)\, r, \quad r = (1 + \kappa v)^{-1/2}, \qquad
              \partial g / \partial\mu = s\, r, \quad \partial g / \partial v = -\tfrac12 \kappa\, g\, r^2.

    >>> from softmargin.links import LogisticLink
    >>> loss_slopes(np.array([0.0, 900.0]), np.zeros(2), np.array([1.0, 1.0]), LogisticLink(damping=0.0))
    (array([-1., -1.]), array([0., 0.]), array([0.5, 0. ]))
    """
    if isinstance(link, ProbitLink) and link.many:
        parts = [_winning_slopes(mu[i], v[i], y[i], link) for i in pieces(len(mu), mu.shape[1] ** 2 * len(_NODES))]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    g = link.score(mu, v)
    if isinstance(link, ProbitLink):
        in_mu, in_v = _probit_slopes(mu, v)
    else:
        r = 1 / np.sqrt(1 + link.damping * v)
        in_mu, in_v = link.slope * r, -0.5 * link.damping * g * r * r
    if g.ndim == 1:
        return -y * in_mu, -y * in_v + 0.0, expit(-y * g)
    own = np.arange(g.shape[1]) == y[:, None]
    rivals = np.where(own, -np.inf, g)
    pull = softmax(rivals, axis=1) - own
    return pull * in_mu, pull * in_v, np.exp(np.asarray(logsumexp(rivals, axis=1)) - np.asarray(logsumexp(g, axis=1)))


def _probit_slopes(mu: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the score of two classes, the logit of the normal distribution function at its argument t."""
    r = 1 / np.sqrt(1 + v)
    t = mu * r
    log_density = -0.5 * (t * t + math.log(2 * math.pi))
    in_t = np.exp(log_density - log_ndtr(t)) + np.exp(log_density - log_ndtr(-t))
    return in_t * r, -0.5 * in_t * t * r * r


def _winning_slopes(mu: np.ndarray, v: np.ndarray, y: np.ndarray, link: Link) -> tuple[np.ndarray, ...]:
    r"""`loss_slopes` if the probability of a class is that of its latent value, plus noise, being the largest.

    With :math:`N_k` the density of class k, :math:`w_k = 1 + v_k`, and :math:`T_j = \int N_y N_j \prod_{l \neq y, j}
    \Phi_l`, the probability of y has derivatives :math:`-T_j` in the mean of a rival, :math:`\sum_j T_j` in its own,
    :math:`-T_j E_j (f - \mu_j) / 2 w_j` in the variance of a rival, and :math:`-\sum_j T_j E_j (\mu_y - f) / 2 w_y` in
    its own, where :math:`E_j` averages over the integrand of :math:`T_j`.  As :math:`N_y N_j` is a Gaussian in f times
    one in :math:`\mu_y - \mu_j`, the logarithm of :math:`T_j` can be computed however small it is.
    """
    own, w = np.arange(mu.shape[1]) == y[:, None], 1 + v
    mu_y, w_y = (part[own][:, None] for part in (mu, w))
    both = w_y + w
    f = ((mu_y * w + mu * w_y) / both)[:, :, None] + np.sqrt(w_y * w / both)[:, :, None] * _NODES
    x = (f[:, :, None, :] - mu[:, None, :, None]) / np.sqrt(w)[:, None, :, None]
    others = ~(np.eye(mu.shape[1], dtype=bool) | own[:, None, :])  # by row, j and l
    weight = np.where(others[..., None], log_ndtr(x), 0.0).sum(axis=2) - 0.5 * _NODES**2
    mean_f = (softmax(weight, axis=2) * f).sum(axis=2)
    log_T = np.asarray(logsumexp(weight, axis=2)) + math.log((_NODES[1] - _NODES[0]) / (2 * math.pi))
    log_T = np.where(own, -np.inf, log_T - 0.5 * ((mu_y - mu) ** 2 / both + np.log(both)))
    q = softmax(log_T, axis=1)
    d_v = q * (mean_f - mu) / (2 * w)
    d_v[own] = (q * (mu_y - mean_f)).sum(axis=1) / (2 * w_y[:, 0])
    return q - own, d_v, np.exp(logsumexp(log_T, axis=1) - link.score(mu, v)[own])


def _numbers(model: Any, X: Any) -> np.ndarray:
    """Rows as numbers, after checking that the model is differentiable in them."""
    if isinstance(model, Pipeline):
        raise TypeError("Steps of a pipeline may have no slopes: pass model[-1] and model[:-1].transform(X) instead.")
    check_is_fitted(model)
    if hasattr(model, "_latent_pullback"):
        return np.asarray(X, dtype=np.result_type(np.asarray(X), np.float32))
    smooth = InducingRows, LinearRows, ReducedRows, FourierRows, ParticleRows
    if not isinstance(beneath(getattr(model, "rows_", None)), smooth):
        known = "BayesianSVC, BayesianGPC, BayesianLinearSVC and BayesianKernelMachine"
        raise TypeError(f"Slopes are available for {known}, got {type(model).__name__}.")
    X = dense(model._numbers(X))
    if has_missing(X):
        raise ValueError("X has missing values, for which slopes are not defined: impute them first.")
    return X


def _pulled_back(model: Any, X: np.ndarray, d_mu: np.ndarray, d_v: np.ndarray) -> np.ndarray:
    """Gradients in rows, given those in latent moments; in double precision, since their signs matter."""
    if hasattr(model, "_latent_pullback"):
        return np.asarray(model._latent_pullback(X, d_mu, d_v))
    d_mu, d_v = (part.reshape(len(X), -1) for part in (d_mu, d_v))
    size = rows_in_block(max(X.shape[1], model.rows_.width))

    def one_block(index: int) -> np.ndarray:
        i = slice(index * size, (index + 1) * size)
        return _through(beneath(model.rows_), model._seen_belief, X[i].astype(np.float64), d_mu[i], d_v[i])

    return np.concatenate(list(sweep(one_block, -(-len(X) // size), n_threads(model.n_jobs))))


def _through(rows: Any, belief: Any, X: np.ndarray, d_mu: np.ndarray, d_v: np.ndarray) -> np.ndarray:
    """The same for one block: the formulas of `input_gradients`."""
    if isinstance(rows, ParticleRows):
        return _through_particles(rows.view(belief, X), X, d_mu, d_v)
    phi, d = rows.lift(X).phi, X.shape[1]
    dphi = np.zeros_like(phi)
    for k, part in enumerate(class_parts(belief)):
        dphi += d_mu[:, [k]] * part.mean + 2 * d_v[:, [k]] * (phi @ part.root.T @ part.root)
    if isinstance(rows, FourierRows):
        return _through_waves(rows, phi, dphi)
    if isinstance(rows, InducingRows):
        dk = d_v.sum(axis=1)
        dK = (dphi - 2 * dk[:, None] * phi) @ rows.whitener
        in_k = rows.kernel.pullback_inputs(X, rows.points.astype(np.float64), dK)
        return in_k + rows.kernel.pullback_diagonal_inputs(X, dk)
    if isinstance(rows, LinearRows):
        return dphi[:, :d] / rows.scale
    # Outside the span of the training rows, weights have their prior variance.
    V, r = rows.basis, rows.basis.shape[1]
    outside = rows.columns.lift(X).phi[:, :d] - phi[:, :r] @ V.T
    felt = 2 * d_v @ np.broadcast_to(rows.variance, d_v.shape[1])
    return (dphi[:, :r] @ V.T + felt[:, None] * outside) / rows.columns.scale


def _through_waves(rows: FourierRows, phi: np.ndarray, dphi: np.ndarray) -> np.ndarray:
    """Gradients through waves: for a wave (c, s) with derivatives (dc, ds), that in its angle is c ds - s dc."""
    slopes, D = np.zeros((len(phi), rows.n_columns)), rows.n_frequencies
    for term, columns in rows.parts():
        part, dpart = phi[:, columns], dphi[:, columns]
        if term.linear:
            slopes += math.sqrt(term.variance) * dpart
        for factor, E in zip(term.waves, rows.frequencies[term.at], strict=True):
            turned = part[:, :D] * dpart[:, D:] - part[:, D:] * dpart[:, :D]
            slopes += turned @ E / np.asarray(factor.kernel.length_scale)
    return slopes


def _through_particles(view: Any, X: np.ndarray, d_mu: np.ndarray, d_v: np.ndarray) -> np.ndarray:
    """Gradients through particles: each one's values enter the mean, and their deviations from it the variance."""
    f, rows, (weights, theta) = view.values(X), view.rows.rows, view.cloud
    df = (d_mu + 2 * d_v * (f - f.mean(axis=0))) / len(f)
    slopes = np.zeros_like(X)
    for own, u, its in zip(df, weights, np.broadcast_to(theta, (len(f), theta.shape[1])), strict=True):
        seen = rows.with_kernel(rows.kernel.with_theta(its))
        slopes += _through_waves(seen, seen.lift(X).phi, own @ u.T)
    return slopes
