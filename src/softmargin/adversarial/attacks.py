"""Adversarial changes of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..extras import needed
from .slopes import log_loss_gradients, scaled_slopes


def fgsm(model: Any, X: Any, y: Any = None, *, eps: Any, clip: tuple[float, float] | None = None) -> np.ndarray:
    r"""Fast gradient sign method of Goodfellow et al. (2014): :math:`x + \epsilon\, \mathrm{sign}\, \nabla_x` loss.

    Each entry of a row moves by the same amount, in the direction that makes the label less likely.  The gradient of
    each row is scaled so that it cannot vanish: rows that are classified with certainty are attacked like any other.

    Parameters
    ----------
    model, X
        As in `input_gradients`.
    y : sequence of n_rows labels, optional
        The labels to make less likely: the true labels, or by default the predicted ones.
    eps : float, or an array that broadcasts with ``X`` (such as one per column)
        How far each entry moves.
    clip : pair of numbers, optional
        The result is clipped to this range, from the lower to the upper end: ``(0, 1)`` for images.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> [round(model.score(fgsm(model, X, y, eps=eps), y), 1) for eps in (0.0, 0.5)]
    [1.0, 0.5]
    """
    far, ends = _numbers(eps), None if clip is None else _numbers(clip)
    if not np.all(np.isfinite(far) & (far >= 0)):
        raise ValueError(f"eps must be a number >= 0, or an array of such numbers, got {eps!r}.")
    if ends is not None and not (ends.ndim and len(ends) == 2 and np.all(ends[0] <= ends[1])):
        raise ValueError(f"clip must be None or a pair of numbers, the lower one first, as (0, 1), got {clip!r}.")
    rows, slopes, _ = scaled_slopes(model, X, y)
    try:
        np.broadcast_to(far, rows.shape)
    except ValueError as error:
        raise ValueError(
            f"eps must be a number, or an array that broadcasts with the rows of shape {rows.shape}, such as one "
            f"number per column, got an array of shape {far.shape}."
        ) from error
    moved = rows + far * np.sign(slopes)
    return (moved if ends is None else np.clip(moved, *ends)).astype(rows.dtype)


def _numbers(value: Any) -> np.ndarray:
    """Numbers as an array; NaN if they are none."""
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return np.array(np.nan)


def art_classifier(model: Any, clip_values: tuple[float, float] | None = None) -> Any:
    """Wrap a model for the evasion attacks of the Adversarial Robustness Toolbox.

    Classes are numbered in the order of ``model.classes_``, and outputs are probabilities.  Gradients of the loss are
    scaled row by row as in `fgsm`: attacks use their direction.  Needs ``pip install "softmargin[art]"``.

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
    """The toolbox's interface of a classifier; the toolbox's own base classes are mixed in when it is installed."""

    model: Any

    @property
    def input_shape(self) -> tuple[int, ...]:
        return getattr(self.model, "_shape", (self.model.n_features_in_,))

    def predict(self, x: np.ndarray, batch_size: int = 128, **options: Any) -> np.ndarray:
        return self.model.predict_proba(x)

    def fit(self, x: np.ndarray, y: np.ndarray, **options: Any) -> None:
        self.model.fit(x, self._labels(y))

    def loss_gradient(self, x: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray:
        return scaled_slopes(self.model, x, self._labels(y))[1]

    def class_gradient(self, x: np.ndarray, label: Any = None, **options: Any) -> np.ndarray:
        """Gradients of the probabilities of all classes, or of one class for each row."""
        rows, proba = np.arange(len(x)), self.model.predict_proba(x)
        wanted = np.arange(proba.shape[1])[:, None] if label is None else np.reshape(label, (1, -1))
        of_loss = [
            np.einsum("i,i...->i...", proba[rows, own], log_loss_gradients(self.model, x, self.model.classes_[own]))
            for own in np.broadcast_to(wanted, (len(wanted), len(x)))
        ]
        return -np.stack(of_loss, axis=1)

    def _labels(self, y: np.ndarray) -> np.ndarray:
        """Labels from class numbers or from one-hot rows."""
        return self.model.classes_[y.argmax(axis=1) if np.ndim(y) == 2 and y.shape[1] > 1 else np.ravel(y).astype(int)]
