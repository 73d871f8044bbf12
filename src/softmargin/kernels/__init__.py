r"""Covariance functions: value, diagonal, and the way gradients flow back through them.

A kernel is an immutable object.  ``kernel(X, Z)`` is the matrix :math:`k(x_i, z_j)` and
``kernel.diagonal(X)`` the vector :math:`k(x_i, x_i)`.  Its positive parameters are seen by tuners as one
flat vector of logarithms, ``kernel.theta``; ``kernel.with_theta(theta)`` is the same kernel elsewhere.
Given the slopes of any objective in the entries of those matrices, the pullbacks return its slopes in
``theta`` or in the rows of ``X``, by matrix products alone: nothing of size rows x points x columns is formed.

Kernels add and multiply, also with plain numbers:

>>> import numpy as np
>>> kernel = 2.0 * RBF(length_scale=0.5) + Constant(0.1)
>>> kernel
2.0 * RBF(length_scale=0.5) + Constant(variance=0.1)
>>> X = np.array([[0.0], [1.0]])
>>> np.round(kernel(X, X), 4)
array([[2.1   , 0.3707],
       [0.3707, 2.1   ]])

``length_scale=None`` asks the estimator for its heuristic, in units of each column's spread.
Kernels of `sklearn.gaussian_process.kernels` are accepted wherever these are: `as_kernel` converts them.
"""

from .base import Kernel
from .combine import Product, Sum, as_kernel
from .stationary import RBF, Matern
from .variance import Constant, Linear, White

__all__ = ["RBF", "Constant", "Kernel", "Linear", "Matern", "Product", "Sum", "White", "as_kernel"]
