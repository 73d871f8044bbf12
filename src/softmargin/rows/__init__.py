"""Rows: maps from data to features, through which a belief about weights implies one about latent values."""

from typing import Protocol

from ..arrays import Array
from ..gaussian import Belief
from .classwise import ClasswiseFeatures, ClasswiseRows
from .curved import CurvedRows
from .features import Features, Latent, LiftedView, View
from .fourier import FourierRows
from .grouped import Factor, GroupedRows
from .incomplete import FilledFeatures, IncompleteFeatures, IncompleteRows, beneath, with_beneath
from .inducing import InducingRows
from .linear import LinearRows
from .particles import Cloud, ParticleRows, ParticleView
from .reduced import ReducedRows

__all__ = [
    "ClasswiseFeatures",
    "ClasswiseRows",
    "Cloud",
    "CurvedRows",
    "Factor",
    "Features",
    "FilledFeatures",
    "FourierRows",
    "GroupedRows",
    "IncompleteFeatures",
    "IncompleteRows",
    "InducingRows",
    "Latent",
    "LiftedView",
    "LinearRows",
    "ParticleRows",
    "ParticleView",
    "ReducedRows",
    "Rows",
    "View",
    "beneath",
    "with_beneath",
]


class Rows(Protocol):
    """A kind of rows.

    The features of a block hide all structure from the engine behind two methods: ``moments(belief)`` returns the
    latent mean and variance of each row, and ``gather(w, b)`` the sums ``G`` and ``h``, from which the prior computes
    the next belief.
    """

    @property
    def n_weights(self) -> int:
        """The number of weights that the features multiply."""
        ...

    @property
    def width(self) -> int:
        """The number of values that the features of a row take up."""
        ...

    @property
    def least_rows(self) -> int:
        """The least number of rows for which a block is worth the cost of its sums."""
        ...

    def lift(self, X: Array) -> Features:
        """The features of a block of rows."""
        ...

    def leftover_root(self, X: Array) -> Array | None:
        """A square root of the joint covariance of a few rows that the weights leave unexplained, or None."""
        ...

    def view(self, belief: Belief, reference: Array) -> View:
        """The fastest way to compute the moments of new rows under a belief, for blocks such as ``reference``."""
        ...
