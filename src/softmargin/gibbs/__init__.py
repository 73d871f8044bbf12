r"""Gibbs sampling, which draws the augmentation that other inference methods average over.

Given its scale, each row is a Gaussian site (`augmentation`); given its latent value, the scale has a known
distribution.  The sampler alternates between the two.  With :math:`f = \phi^T u + e`, :math:`e \sim N(0, leftover)`,
an iteration draws

1. the weights ``u`` given the scales, with ``e`` integrated out: the sites :math:`w / (1 + w\, leftover)` and
   :math:`b / (1 + w\, leftover)` go through the same sums and the same prior as any others;
2. what the prior infers besides the weights, given them;
3. missing entries of rows given weights and sites, and then ``e`` from
   :math:`N\big(v_e (b - w\, \phi^T u),\; v_e\big)` with :math:`v_e = leftover / (1 + w\, leftover)`;
4. the scales given ``f``.

The leftovers ``e`` of different rows are drawn independently.  With inducing points at all rows there are none, and the
draws are from the posterior of the Gaussian process itself; with fewer points, they are from that of a process with
independent leftovers.  A row of weight ``c`` has a single leftover, because its copies are at the same location.

`left_out` averages the leave-one-out moments of rows over the same draws, `moments` averages the Gaussians from which
the weights were drawn, and `diagnostics` measures whether chains agree.
"""

from .augmentation import Augmentation, HingeScales, PolyaGamma, augmentation_of
from .draws import Draws
from .sampler import sample

__all__ = ["Augmentation", "Draws", "HingeScales", "PolyaGamma", "augmentation_of", "sample"]
