"""What every likelihood is: one function, and what it says of itself."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..arrays import Array


class Sites(NamedTuple):
    """What each row contributes: expected log-likelihood, precision and linear term."""

    l: Array  # noqa: E741 - the letter of GLOSSARY.md
    w: Array
    b: Array


class Likelihood(Protocol):
    """The protocol of this module; see its docstring."""

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
    """For likelihoods whose site bends just as ``l`` does."""

    site_is_curvature = True

    def curvature(self: Likelihood, y: Array, mu: Array, v: Array) -> Array:
        return self.sites(y, mu, v).w
