"""Likelihoods that are expanded, or summed at nodes: what a row says does not depend on the rows it comes with."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references
from softmargin.likelihoods import Logistic, Probit, Quadrature, Taylor

MODELS = [Logistic(), Probit()]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_row_has_the_same_sites_whatever_rows_it_comes_with(model):
    # Just below and above the variances from where on there are more nodes.
    edges = [edge for edge, _ in Quadrature._FEW_NODES]
    v = np.array([0.0, *(edge * share for edge in edges for share in (0.99, 1.01)), 5.0])
    mu, y = np.linspace(-3, 2, len(v)), np.where(np.arange(len(v)) % 2, 1.0, -1.0)
    likelihood = Quadrature(model)
    together = likelihood.sites(y, mu, v)
    alone = [likelihood.sites(y[i : i + 1], mu[i : i + 1], v[i : i + 1]) for i in range(len(v))]
    for part, of_each in zip(together, zip(*alone, strict=True), strict=True):
        # To rounding: with other nodes the sites of the widest rows of their kind are off by 1e-11 and more.
        assert_allclose(part, np.concatenate(of_each), rtol=1e-14, atol=1e-15)
    assert all(len(part) == 0 for part in likelihood.sites(y[:0], mu[:0], v[:0]))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_an_expansion_is_the_expectation_of_a_parabola(model):
    y, mu, v = (part.ravel() for part in np.meshgrid([-1.0, 1.0], [-2.0, 0.3, 4.0], [0.0, 0.5, 9.0]))
    found = Taylor(model).sites(y, mu, v).l
    value, slope, curvature = model.derivatives(y, mu)
    for i, (center, variance) in enumerate(zip(mu, v, strict=True)):

        def parabola(f, i=i, center=center):
            return value[i] + slope[i] * (f - center) + curvature[i] * (f - center) ** 2 / 2

        wanted = references.normal_expectation(parabola, center, variance, ()) if variance else value[i]
        assert_allclose(found[i], wanted, rtol=1e-8)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_an_expansion_is_right_to_first_order_in_the_variance(model):
    y, mu = np.array([1.0, -1.0, 1.0]), np.array([0.5, 1.0, -2.0])
    errors = []
    for size in (0.02, 0.01):
        v = np.full(3, size)
        errors.append(Taylor(model).sites(y, mu, v).l - Quadrature(model).sites(y, mu, v).l)
    # What is left is of second order: half the variance, a quarter of the error.
    assert_allclose(errors[1], errors[0] / 4, rtol=0.05)
    assert np.all(np.abs(errors[0]) < 1e-4)
