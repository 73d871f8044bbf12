r"""Stein variational gradient descent: particles that move until they represent a density (Liu and Wang 2016).

Of the density, only the scores :math:`g(x) = \nabla \log p(x)` are needed.  Particle ``j`` of ``S`` moves along

.. math:: \varphi_j = \frac1S \sum_s \bigl[ k(x_s, x_j)\, g(x_s) + \nabla_{x_s} k(x_s, x_j) \bigr],

the steepest descent of the divergence from ``p`` among the smooth fields of a Stein kernel ``k``.  The first term moves
particles uphill, the second keeps them apart.  A single particle climbs to the mode.

**What the kernel determines.**  At convergence, :math:`E[g(x) k(x, x_j) + \nabla_x k(x, x_j)] = 0` holds for averages
over the particles at every ``x_j``: only these properties of the density are reproduced.  With ``S`` particles in ``p``
coordinates,

* `RBFStein` captures shapes (though not the weights of well separated modes), but variances collapse unless there are
  very few coordinates.  With many, all distances between particles are similar; with the median as the width, kernel
  values are then all ``1 / (S + 1)``, and only the share :math:`\log(S + 1) / p` of each variance remains.
* `LinearStein` enforces :math:`E g = 0` and :math:`E[g (x - \bar x)^T] = -I`: for a Gaussian the exact mean and
  covariance (with divisor ``S``), once ``S > p``.  Fewer particles can only fill ``S - 1`` directions, and on average
  the share :math:`(S - 1) / p` of the variance remains.  This kernel only moves, stretches and rotates the cloud as a
  whole.  So for other densities, normal particles find the best Gaussian that they can represent, and with few
  particles and few rows the variances of a linear model are too large by about :math:`p / 2S`.
* `CoordinateStein` enforces only the diagonal of that, so two particles suffice for any number of coordinates.
  It is exact for independent coordinates; otherwise variances are about those of a mean-field Gaussian.
* `MixedStein` averages the first two: shapes count, and variances of a Gaussian are too small by at most the share
  :math:`1 / (S + 1)`, or :math:`(1 - w) / w` times that with another share ``w`` of the linear kernel.  This needs
  ``S > p``.  Averaged with `CoordinateStein` instead, an RBF rotates the cloud: particles leave the directions in which
  the density is steep, coordinates regain their spread in the others, and in the end they are far too wide there.

**Units.**  `Whitened` lets any of them work in other coordinates, by default those in which the particles have unit
covariance.  The flow then does not depend on scaling or rotation of the coordinates, and plain steps of a fixed size
converge for a Gaussian of any condition number in about 20 steps.

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
