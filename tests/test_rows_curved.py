"""Rows of lines and of a kernel: the sum of both, in as many weights as both have."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
from softmargin.kernels import RBF
from softmargin.rows import CurvedRows, InducingRows, LinearRows

LINES = LinearRows(np.array([0.3, -1.0]), np.array([2.0, 0.5]))


@pytest.fixture
def rows(rng) -> CurvedRows:
    return CurvedRows(LINES, InducingRows.at(1.5 * RBF((0.7, 1.2)), rng.normal(size=(4, 2))))


def test_features_are_lines_and_then_the_features_of_the_kernel(rows, rng):
    X = rng.normal(size=(6, 2))
    phi, leftover = rows.lift(X)
    lines, curves = LINES.lift(X), rows.curves.lift(X)
    assert phi.shape == (6, rows.n_weights)
    assert rows.width == rows.n_weights == 3 + 4
    assert_allclose(phi[:, :3], lines.phi)
    assert_allclose(phi[:, 3:], curves.phi)
    assert_allclose(leftover, curves.leftover)


def test_functions_vary_a_priori_as_lines_and_kernel_together(rows, rng):
    """Weights of variance one: covariances are the sum of those of lines and of the kernel, at any rows."""
    X = rng.normal(size=(6, 2))
    phi, root = rows.lift(X).phi, rows.leftover_root(X)
    lines = np.column_stack([(X - LINES.center) / LINES.scale, np.ones(6)])
    assert_allclose(phi @ phi.T + root @ root.T, lines @ lines.T + rows.curves.kernel(X, X), rtol=1e-7, atol=1e-9)


def test_a_view_has_the_moments_of_features(rows, rng):
    X, belief = rng.normal(size=(6, 2)), contracts.random_belief(rows.n_weights)
    latent = rows.lift(X).moments(belief)
    mu, v = rows.view(belief, X).moments(X)
    assert_allclose(mu, latent.mu)
    assert_allclose(v, latent.spread + rows.curves.lift(X).leftover)
