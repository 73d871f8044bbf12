"""The search for the best link: where it begins, and when its last step may be trusted."""

import numpy as np
import pytest
from scipy.optimize import minimize

from softmargin import links


def test_a_search_that_has_not_come_to_rest_ends_where_it_is():
    """Far out on a loss that grows more and more like a straight line, Newton's step goes the further beyond."""

    def loss(x):
        root = np.sqrt(1 + x[0] ** 2)
        return root + x[1] ** 2, np.array([x[0] / root, 2 * x[1]]), np.diag([root**-3, 2.0])

    start = np.array([1e7, 0.0])  # more than all steps together can go
    end = links._least(loss, start)
    assert 1e6 < end[0] < start[0]


@pytest.mark.parametrize("seed", [0, 4])
def test_huge_latent_values_with_much_in_common_have_the_best_link(seed):
    """There are two optima, which only a link from a good start tells apart."""
    rng = np.random.default_rng(seed)
    mu = 1e4 * (1 + rng.normal(size=(60, 4)))
    v, weight = rng.uniform(size=(60, 4)), np.ones(60)
    y = np.where(rng.random(60) < 0.6, mu.argmax(axis=1), rng.integers(4, size=60)).astype(float)
    found = links.fit_softmax_link(mu, v, y, weight)

    def loss(x):
        return links._softmax_link_loss(x, mu, v, y, weight)

    x = np.concatenate([[np.log(found.slope), np.log(found.damping)], found.offset])
    for log_slope in (0.0, -3.0, -6.0, -9.0, -12.0):
        start = np.concatenate([[log_slope, 0.0], np.zeros(4)])
        other = minimize(lambda t: loss(t)[:2], start, jac=True, hess=lambda t: loss(t)[2], method="trust-exact")
        assert loss(x)[0] <= other.fun + 1e-6
