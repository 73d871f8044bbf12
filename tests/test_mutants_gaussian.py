"""Properties of Gaussian beliefs that a wrong sign, factor or index in `softmargin.gaussian` would break."""

import numpy as np
from numpy.testing import assert_allclose

import contracts
from softmargin.gaussian import Belief, ClassBelief, from_natural, kl


def change_of_natural_parameters(rng, n, size):
    dG = rng.normal(size=(n, n))
    return size * (dG + dG.T), size * rng.normal(size=n)


def test_products_are_those_with_the_covariance_and_with_its_inverse(rng):
    belief, x = contracts.random_belief(4), rng.normal(size=4)
    assert belief.n_weights == 4
    assert_allclose(belief.covariance_times(x), belief.covariance @ x, rtol=1e-10)
    assert_allclose(belief.precision_times(x), np.linalg.solve(belief.covariance, x), rtol=1e-9)


def test_the_length_of_a_change_is_twice_the_divergence_that_it_makes(rng):
    belief = contracts.random_belief(4)
    precision = np.linalg.inv(belief.covariance)
    dG, dh = change_of_natural_parameters(rng, 4, 1e-5)
    after = from_natural(precision + dG, precision @ belief.mean + dh)
    # The divergence of Gaussians about another mean is that of their differences from it.
    away = kl(after._replace(mean=after.mean - belief.mean), precision, np.linalg.slogdet(precision)[1])
    # To second order; what is left is of third, and rounding in numbers of size 1.
    assert_allclose(belief.squared_length(dG, dh), 2 * away, rtol=1e-2, atol=1e-13)
    assert belief.squared_length(dG, dh) > 1e-11


def test_changes_are_felt_as_long_as_they_are_where_weights_are_independent(rng):
    sd, mean = rng.uniform(0.2, 3.0, size=4), rng.normal(size=4)
    belief = Belief(mean, np.diag(sd), 2 * np.log(sd).sum())
    dG, dh = change_of_natural_parameters(rng, 4, 1.0)
    felt = belief.felt(dG, dh)
    assert_allclose(felt @ felt, belief.squared_length(dG, dh), rtol=1e-10)


def test_the_way_of_a_mean_is_in_units_of_deviations(rng):
    belief, other = contracts.random_belief(4, 1), contracts.random_belief(4, 2)
    wanted = sum((belief.mean - other.mean) ** 2 / np.diag(belief.covariance))
    assert_allclose(belief.moved_from(other), wanted, rtol=1e-10)


def test_roots_of_classes_are_stacked_where_all_are_dense():
    parts = tuple(contracts.random_belief(4, seed) for seed in range(3))
    assert_allclose(ClassBelief(parts).roots, [part.root for part in parts])
    assert ClassBelief((object(), object())).roots is None
