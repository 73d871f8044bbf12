"""Rows: how a row of data turns a belief about weights into a belief about its latent value."""

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

    The features of a block then answer two questions, and hide all structure from the engine:
    ``moments(belief)``, the latent mean and variance of each row, and ``gather(w, b)``, the sums ``G`` and
    ``h`` that the prior turns into the next belief.
    """

    @property
    def n_weights(self) -> int:
        """How many weights the features multiply."""
        ...

    @property
    def width(self) -> int:
        """How many numbers the features of a row are."""
        ...

    @property
    def least_rows(self) -> int:
        """Rows that make a block worth its sums."""
        ...

    def lift(self, X: Array) -> Features:
        """The features of a block of rows."""
        ...

    def leftover_root(self, X: Array) -> Array | None:
        """A square root of the joint covariance that the weights leave over at a few rows; None for none."""
        ...

    def view(self, belief: Belief, reference: Array) -> View:
        """The quickest way to the moments of new rows under a belief, for blocks such as ``reference``."""
        ...
