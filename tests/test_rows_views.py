"""Rows of a kernel under one belief, for prediction: straight from the kernel where that is safe, and the same."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
from softmargin.gaussian import Belief, ClassBelief, from_natural
from softmargin.kernels import RBF, Linear
from softmargin.rows import ClasswiseRows, InducingRows, LiftedView
from softmargin.rows.classwise import KernelViews
from softmargin.rows.inducing import KernelView


@pytest.fixture
def rows(rng) -> InducingRows:
    return InducingRows.at(1.5 * RBF(0.7), rng.normal(size=(4, 2)))


def narrow(seed: int) -> Belief:
    """Nowhere wider than the prior."""
    return contracts.random_belief(4, seed)


def wide() -> Belief:
    """Wider than the prior in some direction, as draws may be."""
    return from_natural(np.diag([0.5, 2.0, 2.0, 2.0]), np.arange(4.0))


def test_a_belief_that_is_the_prior_has_its_variances(rows, rng):
    """Rounding may not take the view from what lies on the border: a belief that no row has narrowed."""
    X = rng.normal(size=(6, 2))
    view = rows.view(from_natural(np.eye(4), np.zeros(4)), X)
    assert isinstance(view, KernelView)
    mu, v = view.moments(X)
    assert_allclose(mu, 0)
    # What rounding is allowed, a share of 1e-10, is all that is taken from them.
    assert_allclose(v, rows.kernel.diagonal(X), rtol=2e-10)


def test_views_of_classes_are_those_of_each_class(rows, rng):
    X = rng.normal(size=(6, 2))
    for parts, kind in (((narrow(0), narrow(1), narrow(2)), KernelViews), ((narrow(0), wide()), LiftedView)):
        view = ClasswiseRows(rows, len(parts)).view(ClassBelief(parts), X)
        assert isinstance(view, kind)
        mu, v = view.moments(X)
        for k, part in enumerate(parts):
            latent = rows.lift(X).moments(part)
            assert_allclose(mu[:, k], latent.mu, rtol=1e-9)
            assert_allclose(v[:, k], latent.v, rtol=1e-7)


def test_one_far_point_is_enough_for_the_careful_way(rng):
    """Rounding takes a share of the largest variance: where that is large, features come first."""
    near, X = rng.uniform(-1, 1, size=(3, 3)), rng.normal(size=(6, 3))
    far = np.vstack([near[:2], 1e5 * near[2]])
    for points, kind in ((near, KernelView), (far, LiftedView)):
        rows, belief = InducingRows.at(Linear(1.0), points), contracts.random_belief(3)
        view = rows.view(belief, X)
        assert isinstance(view, kind)
        latent = rows.lift(X).moments(belief)
        assert_allclose(view.moments(X), (latent.mu, latent.v), rtol=1e-6)


def test_arrays_lie_in_memory_as_after_they_were_stored(rows, rng):
    """Of matrices in reverse BLAS may round products otherwise, and a stored model would not be quite the same."""
    view = rows.view(narrow(0), rng.normal(size=(6, 2)))
    twin = pickle.loads(pickle.dumps(view))
    for own, stored in zip(
        (view.points, view.coefficients, view.gained), (twin.points, twin.coefficients, twin.gained), strict=True
    ):
        assert own.strides == stored.strides
