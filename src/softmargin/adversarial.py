r"""Rows that were changed to be misread: how they are made, and how they are noticed.

The latent mean and variance of a row are smooth in its numbers.  Their slopes say which small change does most harm
(`fgsm`, and `art_classifier` for other attacks), and a model that knows how sure it is may notice that something was
done (`AdversarialDetector`).  All of it works with the kernel and linear classifiers of this package, and with models
that have ``latent_mean_and_variance``, ``link_``, ``classes_`` and ``_latent_pullback(X, d_mu, d_v)``: the slopes in
``X``, whatever the shape of its rows, of :math:`\sum_{ik} (\bar\mu_{ik} \mu_{ik} + \bar v_{ik} v_{ik})`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp, softmax
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d

from . import uncertainty
from .chunks import dense, n_threads, rows_in_block, sweep
from .extras import needed
from .gaussian import class_parts
from .links import Link, ProbitLink, probabilities
from .rows import FourierRows, InducingRows, LinearRows, ParticleRows, ReducedRows, beneath
from .validation import codes_of, has_missing, one_of
from .winning import pieces

__all__ = ["AdversarialDetector", "art_classifier", "detection_roc", "fgsm", "input_gradients", "log_loss_gradients"]

#: Nodes over a Gaussian, in its deviations, for the slopes of the probit link of many classes.
_NODES = np.linspace(-8.0, 8.0, 129)


def input_gradients(model: Any, X: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Slopes of the latent mean, and of the latent variance, of each row in its own numbers.

    Two arrays of the shape of ``X``; for more than two classes with an axis for these after that of rows.
    With features :math:`\phi(x)`, weights :math:`N(m, S)` and what these leave over, :math:`\ell(x)`,

    .. math:: \mu = \phi^T m, \quad v = \phi^T S \phi + \ell, \qquad
              \partial \mu = \partial\phi^T m, \quad \partial v = 2\, \partial\phi^T S \phi + \partial \ell.

    For inducing points :math:`\phi = L^{-1} k(Z, x)` and :math:`\ell = k(x, x) - \phi^T \phi`; for linear models
    :math:`\phi = ((x - c) / s, 1)`; for waves cosine and sine are each other's slopes; and for particles
    :math:`\partial v` is twice the covariance of :math:`f` and :math:`\partial f` over particles.

    Parameters
    ----------
    model : a fitted classifier of this package, or one with ``_latent_pullback``
        No pipeline, and no mixed model.
    X : array, CSR matrix or frame of shape (n_rows, n_columns), or images if the model takes such
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
    """Slopes of the log loss of ``predict_proba`` in the numbers of each row, if its label were ``y``.

    They go through the link, and so through mean and variance.  Models and rows are as in `input_gradients`.

    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> downhill = X - 0.01 * log_loss_gradients(model, X, y)
    >>> bool((model.predict_proba(downhill) >= model.predict_proba(X))[np.arange(200), y].all())
    True
    """
    _, slopes, miss = _slopes(model, X, y)
    return np.einsum("i,i...->i...", miss, slopes)


def fgsm(model: Any, X: Any, y: Any = None, *, eps: Any, clip: tuple[float, float] | None = None) -> np.ndarray:
    r"""The fast gradient sign method of Goodfellow et al. (2014): :math:`x + \epsilon\, \mathrm{sign}\, \nabla_x` loss.

    Each number of a row moves by the same amount, in the direction that makes the label less likely.  The slopes of a
    row are scaled before they could vanish: a row that is classified beyond all doubt is attacked like any other.

    Parameters
    ----------
    model, X
        As in `input_gradients`.
    y : sequence of n_rows labels, optional
        What is to become less likely: the true labels, or by default the predicted ones.
    eps : float, or an array that goes with ``X`` (one for each column, say)
        How far each number moves.
    clip : pair of numbers, optional
        The result is held between these: ``(0, 1)`` for images.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> [round(model.score(fgsm(model, X, y, eps=eps), y), 1) for eps in (0.0, 0.5)]
    [1.0, 0.5]
    """
    if not np.all(np.isfinite(eps) & (np.asarray(eps) >= 0)):
        raise ValueError(f"eps must be a number >= 0, or an array of such, got {eps!r}.")
    rows, slopes, _ = _slopes(model, X, y)
    moved = (rows + eps * np.sign(slopes)).astype(rows.dtype)
    return moved if clip is None else np.clip(moved, *clip)


class AdversarialDetector(BaseEstimator):
    """Finds rows of which a model is less sure than of ordinary ones.

    The threshold is a quantile of ordinary rows, such that a new row that is as ordinary gives a false alarm with a
    probability of at most ``false_alarm_rate``, whatever the model and the measure: of n + 1 exchangeable rows, each is
    as likely to be the new one.  Rows that reach ``threshold_`` without exceeding it give no alarm: ties do no harm.

    Parameters
    ----------
    model : a fitted classifier
    false_alarm_rate : float
        Between 0 and 1; a rate of 1 / n takes n - 1 rows or more.
    measure : {"variation_ratio", "entropy", "mutual_information"} or callable
        Of `softmargin.uncertainty`, or a function of model and rows whose values are larger where it is less sure.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X[:200], y[:200])
    >>> AdversarialDetector(model).fit(X[200:]).predict([[-1.0, 0.5], [9.0, 9.0]])
    array([False,  True])
    """

    def __init__(self, model: Any, false_alarm_rate: float = 0.05, measure: Any = "variation_ratio") -> None:
        self.model = model
        self.false_alarm_rate = false_alarm_rate
        self.measure = measure

    def fit(self, X: Any, y: Any = None) -> AdversarialDetector:
        """Chooses the threshold by ordinary rows that the model was not fitted on; ``y`` is ignored."""
        rate = self.false_alarm_rate
        if not 0 < rate < 1:
            raise ValueError(f"false_alarm_rate must lie between 0 and 1, got {rate!r}.")
        scores = np.sort(self.score_samples(X))
        # As many of these rows and a new one may give alarms; rounded, for 0.05 is not quite a twentieth.
        alarms = math.floor(round((len(scores) + 1) * rate, 9))
        if alarms == 0:
            least = math.ceil(round(1 / rate, 9)) - 1
            raise ValueError(f"false_alarm_rate={rate} takes at least {least} ordinary rows, got {len(scores)}.")
        self.threshold_ = float(scores[-alarms])
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """The measure of each row: the larger, the more suspicious."""
        if callable(self.measure):
            return np.asarray(self.measure(self.model, X))
        one_of("measure", self.measure, uncertainty.__all__)
        return getattr(uncertainty, self.measure)(self.model, X)

    def predict(self, X: Any) -> np.ndarray:
        """True where a row is suspicious."""
        check_is_fitted(self)
        return self.score_samples(X) > self.threshold_


def detection_roc(clean_scores: Any, attacked_scores: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """How well scores tell attacked rows, which should have the larger ones, from clean rows.

    Returns the rates of false and of true alarms at each threshold, and the area under the second by the first: the
    probability that an attacked row has a larger score than a clean one, ties counting half.

    >>> fpr, tpr, auc = detection_roc([0.1, 0.2, 0.3], [0.3, 0.4])
    >>> round(auc, 3)
    0.917
    """
    scores = np.concatenate([column_or_1d(clean_scores), column_or_1d(attacked_scores)])
    attacked = np.arange(len(scores)) >= len(clean_scores)
    fpr, tpr, _ = roc_curve(attacked, scores)
    return fpr, tpr, float(roc_auc_score(attacked, scores))


def art_classifier(model: Any, clip_values: tuple[float, float] | None = None) -> Any:
    """The model as the Adversarial Robustness Toolbox sees it, for its evasion attacks.

    Classes are numbered in the order of ``model.classes_``, and outputs are probabilities.  Slopes of the loss are
    scaled row by row as in `fgsm`: attacks go by their direction.  Needs ``pip install "softmargin[art]"``.

    >>> from art.attacks.evasion import FastGradientMethod
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> attacked = FastGradientMethod(art_classifier(model), eps=0.5).generate(X)
    >>> bool(model.score(attacked, y) < model.score(X, y))
    True
    """
    art = needed("art.estimators", "art", "art_classifier")
    of_classes = art.classification.ClassGradientsMixin, art.classification.ClassifierMixin
    made: Any = type("SoftmarginClassifier", (_ForART, *of_classes, art.LossGradientsMixin, art.BaseEstimator), {})
    classifier = made(model=model, clip_values=clip_values)
    classifier.nb_classes = len(model.classes_)
    return classifier


class _ForART:
    """What the toolbox asks of a classifier, in its words; its own classes are mixed in once it is there."""

    model: Any

    @property
    def input_shape(self) -> tuple[int, ...]:
        return getattr(self.model, "_shape", (self.model.n_features_in_,))

    def predict(self, x: np.ndarray, batch_size: int = 128, **options: Any) -> np.ndarray:
        return self.model.predict_proba(x)

    def fit(self, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
        self.model.fit(x, self._labels(y))

    def loss_gradient(self, x: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
        return _slopes(self.model, x, self._labels(y))[1]

    def class_gradient(self, x: np.ndarray, label: Any = None, **options: Any) -> np.ndarray:
        """Slopes of the probabilities of all classes, or of one class for each row."""
        rows, proba = np.arange(len(x)), self.model.predict_proba(x)
        wanted = np.arange(proba.shape[1])[:, None] if label is None else np.reshape(label, (1, -1))
        of_loss = [
            np.einsum("i,i...->i...", proba[rows, own], log_loss_gradients(self.model, x, self.model.classes_[own]))
            for own in np.broadcast_to(wanted, (len(wanted), len(x)))
        ]
        return -np.stack(of_loss, axis=1)

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """From numbers of classes, or from rows of zeros and a one."""
        return self.model.classes_[y.argmax(axis=1) if np.ndim(y) == 2 and y.shape[1] > 1 else np.ravel(y).astype(int)]


def _slopes(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows as numbers, the slopes of their log loss but for a factor of each row, and this factor."""
    rows = _numbers(model, X)
    mu, v = (np.asarray(part, dtype=float) for part in model.latent_mean_and_variance(X))
    if y is None:
        y = model.classes_[probabilities(model.link_.score(mu, v)).argmax(axis=1)]
    d_mu, d_v, miss = loss_slopes(mu, v, codes_of(column_or_1d(y), model.classes_), model.link_)
    return rows, _pulled_back(model, rows, d_mu, d_v), miss


def loss_slopes(mu: np.ndarray, v: np.ndarray, y: np.ndarray, link: Link) -> tuple[np.ndarray, ...]:
    r"""Slopes of the log loss of coded labels in latent means and variances, but for a factor of each row, and this.

    In the score of class k the loss of label y has the slope :math:`p_k - 1_{k = y} = (1 - p_y) (q_k - 1_{k = y})`,
    with :math:`q` the softmax of all scores but that of y.  The factor :math:`1 - p_y` may underflow; the rest is of
    size one.  With two classes and one score :math:`g`, it is :math:`\sigma(-y g)` and :math:`-y`.  Then

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
    return pull * in_mu, pull * in_v, np.exp(logsumexp(rivals, axis=1) - logsumexp(g, axis=1))


def _probit_slopes(mu: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the score of two classes, the logit of the normal distribution function at its argument t."""
    r = 1 / np.sqrt(1 + v)
    t = mu * r
    log_density = -0.5 * (t * t + math.log(2 * math.pi))
    in_t = np.exp(log_density - log_ndtr(t)) + np.exp(log_density - log_ndtr(-t))
    return in_t * r, -0.5 * in_t * t * r * r


def _winning_slopes(mu: np.ndarray, v: np.ndarray, y: np.ndarray, link: Link) -> tuple[np.ndarray, ...]:
    r"""`loss_slopes` where a class is as likely as its value, with noise, is to be the largest.

    With :math:`N_k` the density of class k, :math:`w_k = 1 + v_k`, and :math:`T_j = \int N_y N_j \prod_{l \neq y, j}
    \Phi_l`, the probability of y has slopes :math:`-T_j` in the mean of a rival, :math:`\sum_j T_j` in its own,
    :math:`-T_j E_j (f - \mu_j) / 2 w_j` in the variance of a rival, and :math:`-\sum_j T_j E_j (\mu_y - f) / 2 w_y` in
    its own, where :math:`E_j` averages over the integrand of :math:`T_j`.  As :math:`N_y N_j` is a Gaussian in f times
    one in :math:`\mu_y - \mu_j`, the logarithm of :math:`T_j` is at hand however small it is.
    """
    own, w = np.arange(mu.shape[1]) == y[:, None], 1 + v
    mu_y, w_y = (part[own][:, None] for part in (mu, w))
    both = w_y + w
    f = ((mu_y * w + mu * w_y) / both)[:, :, None] + np.sqrt(w_y * w / both)[:, :, None] * _NODES
    x = (f[:, :, None, :] - mu[:, None, :, None]) / np.sqrt(w)[:, None, :, None]
    others = ~(np.eye(mu.shape[1], dtype=bool) | own[:, None, :])  # by row, j and l
    weight = np.where(others[..., None], log_ndtr(x), 0.0).sum(axis=2) - 0.5 * _NODES**2
    mean_f = (softmax(weight, axis=2) * f).sum(axis=2)
    log_T = logsumexp(weight, axis=2) + math.log((_NODES[1] - _NODES[0]) / (2 * math.pi))
    log_T = np.where(own, -np.inf, log_T - 0.5 * ((mu_y - mu) ** 2 / both + np.log(both)))
    q = softmax(log_T, axis=1)
    d_v = q * (mean_f - mu) / (2 * w)
    d_v[own] = (q * (mu_y - mean_f)).sum(axis=1) / (2 * w_y[:, 0])
    return q - own, d_v, np.exp(logsumexp(log_T, axis=1) - link.score(mu, v)[own])


def _numbers(model: Any, X: Any) -> np.ndarray:
    """Rows as numbers, if the model has slopes in them."""
    if isinstance(model, Pipeline):
        raise TypeError("Steps of a pipeline need not have slopes: pass model[-1] and model[:-1].transform(X) instead.")
    check_is_fitted(model)
    if hasattr(model, "_latent_pullback"):
        return np.asarray(X, dtype=np.result_type(np.asarray(X), np.float32))
    smooth = InducingRows, LinearRows, ReducedRows, FourierRows, ParticleRows
    if not isinstance(beneath(getattr(model, "rows_", None)), smooth):
        known = "BayesianSVC, BayesianGPC, BayesianLinearSVC and BayesianKernelMachine"
        raise TypeError(f"Slopes are known for {known}, and a {type(model).__name__} is none of these.")
    X = dense(model._numbers(X))
    if has_missing(X):
        raise ValueError("X has missing values, and there are no slopes in these: fill them in first.")
    return X


def _pulled_back(model: Any, X: np.ndarray, d_mu: np.ndarray, d_v: np.ndarray) -> np.ndarray:
    """Slopes in rows, given those in latent means and variances; in double precision, for their signs matter."""
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
    # Directions of no row vary as the prior does.
    V, r = rows.basis, rows.basis.shape[1]
    outside = rows.columns.lift(X).phi[:, :d] - phi[:, :r] @ V.T
    felt = 2 * d_v @ np.broadcast_to(rows.variance, d_v.shape[1])
    return (dphi[:, :r] @ V.T + felt[:, None] * outside) / rows.columns.scale


def _through_waves(rows: FourierRows, phi: np.ndarray, dphi: np.ndarray) -> np.ndarray:
    """A wave (c, s) with slopes (dc, ds) has the slope c ds - s dc in its angle."""
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
    """A particle's values count in the mean, and by their distance from it in the variance."""
    f, rows, (weights, theta) = view.values(X), view.rows.rows, view.cloud
    df = (d_mu + 2 * d_v * (f - f.mean(axis=0))) / len(f)
    slopes = np.zeros_like(X)
    for own, u, its in zip(df, weights, np.broadcast_to(theta, (len(f), theta.shape[1])), strict=True):
        seen = rows.with_kernel(rows.kernel.with_theta(its))
        slopes += _through_waves(seen, seen.lift(X).phi, own @ u.T)
    return slopes
