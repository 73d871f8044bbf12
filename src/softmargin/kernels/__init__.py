r"""Covariance functions with their gradients.

A kernel is an immutable object.  ``kernel(X, Z)`` is the matrix :math:`k(x_i, z_j)` and ``kernel.diagonal(X)`` the
vector :math:`k(x_i, x_i)`.  For tuning, its positive parameters are one flat vector of logarithms, ``kernel.theta``;
``kernel.with_theta(theta)`` is the same kernel with other parameters.  Given the gradient of any objective with
respect to the entries of those matrices, the pullbacks return its gradient with respect to ``theta`` or the rows of
``X``, using only matrix products: nothing of size rows x points x columns is formed.

Kernels add and multiply, also with plain numbers:

>>> import numpy as np
>>> kernel = 2.0 * RBF(length_scale=0.5) + Constant(0.1)
>>> kernel
2.0 * RBF(length_scale=0.5) + Constant(variance=0.1)
>>> X = np.array([[0.0], [1.0]])
>>> np.round(kernel(X, X), 4)
array([[2.1   , 0.3707],
       [0.3707, 2.1   ]])

With ``length_scale=None`` the estimator uses its heuristic, in units of each column's spread.
Kernels of `sklearn.gaussian_process.kernels` are accepted wherever these are: `as_kernel` converts them.
"""

from .base import Kernel
from .combine import Product, Sum, as_kernel
from .stationary import RBF, Matern
from .variance import Constant, Linear, White

__all__ = ["RBF", "Constant", "Kernel", "Linear", "Matern", "Product", "Sum", "White", "as_kernel"]
