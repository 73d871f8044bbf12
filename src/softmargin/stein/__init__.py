r"""Stein variational gradient descent: particles that move until they stand for a density (Liu and Wang 2016).

Of a density only the scores :math:`g(x) = \nabla \log p(x)` are needed.  Particle ``j`` of ``S`` moves along

.. math:: \varphi_j = \frac1S \sum_s \bigl[ k(x_s, x_j)\, g(x_s) + \nabla_{x_s} k(x_s, x_j) \bigr],

the steepest descent of the divergence from ``p`` among the smooth fields of a Stein kernel ``k``.  The first term leads
uphill, the second keeps particles apart.  One particle climbs to the mode.

**What the kernel can tell.**  Where particles rest, :math:`E[g(x) k(x, x_j) + \nabla_x k(x, x_j)] = 0` holds for
their averages at every ``x_j``: of all that is true of the density, just this much is true of them.  With ``S``
particles in ``p`` coordinates,

* `RBFStein` sees shapes (not how much is in modes with nothing between them), but variances collapse unless coordinates
  are very few.  In many, particles are all about as far from each other; with the median for a width kernel values are
  then all ``1 / (S + 1)``, and forces balance where of a variance the share :math:`\log(S + 1) / p` is left.
* `LinearStein` asks for :math:`E g = 0` and :math:`E[g (x - \bar x)^T] = -I`: of a Gaussian the mean and the covariance
  to the last digit (with the divisor ``S``), once ``S > p``.  Fewer can only fill ``S - 1`` directions, and of the
  variance the share :math:`(S - 1) / p` is left on average.  All that this kernel ever does is to move, stretch and
  turn the cloud as a whole.  So of other densities it finds, from normal particles, the best Gaussian they can see, and
  too few see too little: where rows are few, variances of a linear model come out too large by about :math:`p / 2S`.
* `CoordinateStein` asks for the diagonal of that alone, so two particles will do however many coordinates there are.
  It is exact where coordinates are independent; where they are not, variances are about those of a mean-field Gaussian.
* `MixedStein` averages the first two: shapes count, and variances of a Gaussian fall short by at most the share
  :math:`1 / (S + 1)`, or :math:`(1 - w) / w` times that with another share ``w`` of the linear kernel.  It takes
  ``S > p`` for that.  Averaged with `CoordinateStein`, an RBF turns the cloud: particles leave the directions in which
  the density is steep, coordinates regain their spread in the others, and after a long way they are far too wide there.

**Units.**  `Whitened` lets any of them work in other coordinates, by default those in which the particles have unit
covariance.  The flow then does not depend on how coordinates are scaled and turned, and plain steps of a fixed rate
settle a Gaussian of whatever condition in about 20.

With rows in minibatches, `posterior_scores` gives unbiased scores, and so unbiased directions.
"""

from .densities import Sample, posterior_scores, sample_density
from .kernels import (
    CoordinateStein,
    LinearStein,
    MixedStein,
    RBFStein,
    SteinKernel,
    Whitened,
    default_kernel,
    direction,
)
from .steps import Adagrad, Adam, Fixed, Rule, State, init, step

__all__ = [
    "Adagrad",
    "Adam",
    "CoordinateStein",
    "Fixed",
    "LinearStein",
    "MixedStein",
    "RBFStein",
    "Rule",
    "Sample",
    "State",
    "SteinKernel",
    "Whitened",
    "default_kernel",
    "direction",
    "init",
    "posterior_scores",
    "sample_density",
    "step",
]
