"""Properties of rows that a wrong sign, factor or index in `softmargin.rows` would break."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmargin.kernels import RBF
from softmargin.rows import FourierRows


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_waves_have_a_slope_for_each_length_scale(n_columns, rng):
    rows = FourierRows.of(RBF(tuple(np.linspace(0.5, 2, n_columns))), n_columns, 6, "plain", np.random.RandomState(0))
    X, theta = rng.normal(size=(5, n_columns)), rows.kernel.theta
    dphi = rng.normal(size=rows.lift(X).phi.shape)

    def value(theta):
        return np.sum(dphi * rows._replace(kernel=rows.kernel.with_theta(theta)).lift(X).phi)

    steps = 1e-5 * np.eye(n_columns)
    wanted = [(value(theta + step) - value(theta - step)) / 2e-5 for step in steps]
    assert_allclose(rows.pullback(X, dphi), wanted, rtol=1e-6, atol=1e-8)
