"""Priors: how the sums over rows become the next belief.

A prior is an object with

* ``start(reference)``: natural parameters ``(G, h)`` to begin from, in the library of ``reference``;
* ``update(G, h, belief) -> Belief``: the belief that those sums imply, and whatever the prior itself
  infers along with it (``belief.hyper``), starting from the previous belief where there is one;
* ``effective(belief) -> Belief``: the moments of the weights as the rows see them;
* ``kl(belief)``: the divergence of the belief from the prior, everything inferred included.
"""

from .ridge import Ridge
from .variance import VarianceComponents

__all__ = ["Ridge", "VarianceComponents"]
