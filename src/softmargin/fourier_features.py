"""A transformer to random Fourier features, with which linear models become kernel models."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .chunks import dense, rows_in_block
from .columns import describe
from .estimators.kernel import KERNELS, usual_length_scales
from .frequencies import HOWS
from .kernels import Kernel
from .kernels.combine import given_kernel
from .parameters import one_of, positive_integer
from .rows import FourierRows
from .validation import check_rows, check_weights


class FourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Random Fourier features of a kernel: :math:`\phi(x)^T \phi(z)` equals ``kernel(x, z)`` in expectation.

    A stationary kernel becomes cosines and sines of ``n_frequencies`` frequencies drawn from its spectrum (Rahimi and
    Recht 2007), so that a linear model of the features is a kernel model, in time linear in the number of rows.
    Features of a sum are concatenated: a constant adds one column, and `softmargin.kernels.Linear` the columns of X.

    Parameters
    ----------
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn
        ``"rbf"`` is ``RBF()`` and ``"matern"`` is ``Matern()``, with variance 1.  Supported are these, their products
        with constants and each other, and sums of such with ``Constant`` and ``Linear``.  Length-scales of None are
        the spread of each column times the square root of the number of columns.
    n_frequencies : int
        For each stationary term, which then has twice as many features.  The error decreases with the inverse of the
        square root.
    frequencies : {"orthogonal", "plain", "quasi"}
        How frequencies are drawn: in orthogonal blocks (Yu et al. 2016), independently, or as scrambled Sobol points.
        All are unbiased; ``"plain"`` has the largest error, and ``"quasi"`` the smallest for few columns.
    random_state : int, RandomState or None
        Seeds the frequencies.

    Attributes
    ----------
    kernel_ : the kernel with all its parameters
    rows_ : `softmargin.rows.FourierRows`, which computes the features
    n_features_in_ : int
    feature_names_in_ : array of the names of the columns, if they have names

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import FourierFeatures
    >>> X = np.array([[0.0, 1.0], [1.0, 1.5], [2.0, -0.5]])
    >>> features = FourierFeatures(n_frequencies=1000, random_state=0).fit(X)
    >>> phi = features.transform(X)
    >>> phi.shape
    (3, 2000)
    >>> bool(np.abs(phi @ phi.T - features.kernel_(X, X)).max() < 0.05)
    True
    """

    kernel_: Kernel
    rows_: FourierRows

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        n_frequencies: int = 512,
        frequencies: str = "orthogonal",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_frequencies = n_frequencies
        self.frequencies = frequencies
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> FourierFeatures:
        """Set the kernel's length-scales from the (weighted) rows and draw frequencies; ``y`` is ignored."""
        positive_integer("n_frequencies", self.n_frequencies)
        one_of("frequencies", self.frequencies, HOWS)
        kernel = self._kernel_as_given()
        X = check_rows(self, X, reset=True)
        weight = check_weights(sample_weight, X.shape[0])
        if not weight.any():
            raise ValueError("All weights are zero: at least one row needs a positive weight.")
        columns, rng = describe(X, weight).rounded(), check_random_state(self.random_state)
        self.kernel_ = kernel.with_length_scale(usual_length_scales(columns))
        self.rows_ = FourierRows.of(
            self.kernel_, X.shape[1], self.n_frequencies, self.frequencies, rng, center=columns.center
        )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features of each row, in the precision of ``X``."""
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        phi = np.empty((X.shape[0], self.rows_.n_weights), dtype=X.dtype)
        rows = self.rows_.seen_by(phi)
        size = rows_in_block(max(phi.shape[1], X.shape[1]), X.dtype.itemsize)
        for start in range(0, X.shape[0], size):
            block = slice(start, start + size)
            phi[block] = rows.lift(dense(X[block])).phi
        return phi

    def _kernel_as_given(self) -> Kernel:
        if not isinstance(self.kernel, str):
            return given_kernel(self.kernel)
        one_of("kernel", self.kernel, KERNELS)
        return KERNELS[self.kernel]()

    @property
    def _n_features_out(self) -> int:
        """The number of names that the mixin generates."""
        return self.rows_.n_weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        assert tags.transformer_tags is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
