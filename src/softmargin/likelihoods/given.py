"""Losses given as objects rather than words: likelihoods of this library, or of the user."""

from __future__ import annotations

from typing import Any

import numpy as np

from .classes import CrammerSinger, OneVersusRest, Rivals, Softmax
from .protocol import Likelihood
from .smooth import Quadrature, Taylor

#: What a likelihood has besides ``sites``.
PARTS = (
    "log_density", "curvature", "is_bound", "needs_guard", "couples", "longest_step", "two_moment", "site_is_curvature",
)  # fmt: skip
#: Latent means and variances at which likelihoods are tried out.
_MEANS, _VARIANCES = np.array([-30.0, -1.0, -0.5, 0.0, 0.5, 1.0, 30.0]), np.array([0.0, 1e-3, 1.0, 100.0])


def given_likelihood(loss: Any) -> Likelihood:
    """The likelihood for an object given as ``loss=``: itself, or quadrature over it if it has ``derivatives``.

    Raises a ValueError that says what it lacks, or which result is invalid for a likelihood.

    >>> from softmargin.likelihoods import Hinge, Logistic
    >>> given_likelihood(Hinge())
    Hinge()
    >>> given_likelihood(Logistic())
    Quadrature(model=Logistic(), n_nodes=24)
    """
    shown = _shown(loss)
    if isinstance(loss, type):
        raise ValueError(f"loss must be a likelihood instance, not its class: write {loss.__name__}(), got {shown}.")
    if isinstance(loss, (Rivals, CrammerSinger, OneVersusRest, Softmax)) or getattr(loss, "couples", False):
        raise ValueError(
            f"loss must be the likelihood of one latent value, but {shown} takes many: use multi_class instead."
        )
    if hasattr(loss, "sites"):
        lacking = [name for name in PARTS if not hasattr(loss, name)]
        if lacking:
            raise ValueError(
                f"loss={shown} has sites, but lacks {', '.join(lacking)} (see softmargin.likelihoods); a "
                f"log-likelihood without its own expectation can have derivatives(y, f) instead."
            )
        likelihood = loss
    elif hasattr(loss, "derivatives"):
        likelihood = Quadrature(loss)
    else:
        raise ValueError(
            f"loss must be a name, a likelihood with sites(y, mu, v), or a log-likelihood with derivatives(y, f) that "
            f"returns its value, slope and curvature; got {shown}."
        )
    _try_out(likelihood, shown)
    return likelihood


def _try_out(likelihood: Any, shown: str) -> None:
    """Computes a few sites, so that errors in them are reported before the fit."""
    if isinstance(likelihood, (Quadrature, Taylor)):
        _try_derivatives(likelihood.model, shown)
    mu, v = (part.ravel() for part in np.meshgrid(_MEANS, _VARIANCES))
    for label in (-1.0, 1.0):
        y = np.full_like(mu, label)
        answer = likelihood.sites(y, mu, v)
        sites = _three(answer, "sites(y, mu, v)", "l, w, b", mu.shape, shown)
        if not hasattr(answer, "w"):
            raise ValueError(f"loss={shown}: sites(y, mu, v) must return softmargin.likelihoods.Sites(l, w, b).")
        if not np.all(sites[1] >= 0):
            raise ValueError(
                f"loss={shown}: sites have a negative precision w at {_where(sites[1] >= 0, label, mu, v)}; a row "
                f"cannot remove information, so clip w at zero."
            )


def _try_derivatives(model: Any, shown: str) -> None:
    """Computes derivatives for several nodes of each row at once, as quadrature does."""
    if not hasattr(model, "derivatives"):
        raise ValueError(f"loss={shown}: {_shown(model)} has no derivatives(y, f), which quadrature needs.")
    y, f = np.array([-1.0, 1.0]), np.repeat(_MEANS[:, None], 2, axis=1)
    _three(model.derivatives(y, f), "derivatives(y, f)", "value, slope, curvature", f.shape, shown)


def _three(answer: Any, question: str, names: str, shape: tuple[int, ...], shown: str) -> list[np.ndarray]:
    """The three arrays of an answer, or an error that says what was returned instead."""
    parts = [np.asarray(part) for part in answer] if isinstance(answer, (tuple, list)) else []
    if len(parts) != 3 or any(part.shape != shape for part in parts):
        found = [part.shape for part in parts] if parts else type(answer).__name__
        raise ValueError(f"loss={shown}: {question} must return {names}, each of shape {shape}, got {found}.")
    for name, part in zip(names.split(", "), parts, strict=True):
        if not np.isfinite(part).all():
            raise ValueError(f"loss={shown}: {name} of {question} must be finite, even for variances of zero.")
    return parts


def _where(right: np.ndarray, label: float, mu: np.ndarray, v: np.ndarray) -> str:
    at = int(np.argmin(right))
    return f"y={label:g}, mu={mu[at]:g}, v={v[at]:g}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
