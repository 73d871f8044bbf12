"""Rows: how a row of data turns a belief about weights into a belief about its latent value.

A kind of rows is an object with a number of weights, ``n_weights``, and one function,
``lift(X) -> Features``.  The features of a block then answer two questions, and hide all structure
from the engine: ``moments(belief)``, the latent mean and variance of each row, and ``gather(w, b)``,
the sums ``G`` and ``h`` that the prior turns into the next belief.
"""

from .features import Features, Latent
from .inducing import InducingRows
from .linear import LinearRows

__all__ = ["Features", "InducingRows", "Latent", "LinearRows"]
