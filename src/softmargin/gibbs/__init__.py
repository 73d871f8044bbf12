r"""Gibbs sampling: the augmentation is drawn where the other inferences average it.

Given a scale of its own, each row is a Gaussian site (`augmentation`); given its latent value, the scale has a known
distribution.  The sampler turns between the two.  With :math:`f = \phi^T u + e`, :math:`e \sim N(0, leftover)`,

1. the weights ``u`` given the scales, ``e`` integrated out: the sites :math:`w / (1 + w\, leftover)` and
   :math:`b / (1 + w\, leftover)` go through the same sums and the same prior as any others;
2. what the prior infers beside the weights, given them;
3. missing entries of rows given weights and sites, ``e`` given these,
   :math:`N\big(v_e (b - w\, \phi^T u),\; v_e\big)` with :math:`v_e = leftover / (1 + w\, leftover)`;
4. the scales given ``f``.

The leftovers of different rows are drawn independently.  With points at all rows there are none, and this is the
posterior of the Gaussian process itself; with fewer points it is that of a process whose leftovers are independent.
A row of weight ``c`` has one leftover: its copies lie at one place.

`left_out` averages over the same draws what each row would be without itself, `moments` the Gaussians that the weights
were drawn from, and `diagnostics` tells whether chains agree.
"""

from .augmentation import Augmentation, HingeScales, PolyaGamma, augmentation_of
from .draws import Draws
from .sampler import sample

__all__ = ["Augmentation", "Draws", "HingeScales", "PolyaGamma", "augmentation_of", "sample"]
