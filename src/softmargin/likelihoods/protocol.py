"""The protocol of likelihoods: one function, and attributes that describe it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..arrays import Array, namespace


class Sites(NamedTuple):
    """What each row contributes: expected log-likelihood, precision and linear term."""

    l: Array  # noqa: E741 - the letter of GLOSSARY.md
    w: Array
    b: Array


class Likelihood(Protocol):
    """The protocol of likelihoods; `softmargin.likelihoods` describes its parts."""

    @property
    def is_bound(self) -> bool: ...

    @property
    def needs_guard(self) -> bool: ...

    @property
    def couples(self) -> bool: ...

    @property
    def longest_step(self) -> float: ...

    @property
    def two_moment(self) -> bool: ...

    @property
    def site_is_curvature(self) -> bool: ...

    def log_density(self, y: Array, f: Array) -> Array:
        """``log p(y | f)``, for the hinge without its normalising constant."""
        ...

    def sites(self, y: Array, mu: Array, v: Array) -> Sites: ...

    def curvature(self, y: Array, mu: Array, v: Array) -> Array: ...


class SiteIsCurvature:
    """For likelihoods whose ``w`` is also the curvature of ``l``."""

    site_is_curvature = True

    def curvature(self: Likelihood, y: Array, mu: Array, v: Array) -> Array:
        return self.sites(y, mu, v).w


def score(likelihood: Likelihood, y: Array, f: Array) -> Array:
    r"""The derivative of :math:`\log p(y \mid f)` in ``f``, which is all that particles need.

    A known latent value has no variance, and at ``v = 0`` this is :math:`\partial l / \partial \mu = b - w \mu`.
    At the kink of a hinge this is a subgradient; for `CrammerSinger` rivals are weighted softly.

    >>> import numpy as np
    >>> from softmargin.likelihoods import Softmax
    >>> score(Softmax(), np.array([0.0]), np.zeros((1, 4))).tolist()
    [[0.75, -0.25, -0.25, -0.25]]
    """
    direct = getattr(likelihood, "slope", None)  # a direct formula, if the likelihood has one
    if direct is not None:
        return direct(y, f)
    _, w, b = likelihood.sites(y, f, namespace(f).zeros_like(f))
    return b - w * f
