"""Fewer particles than coordinates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmargin.machine import travelling_kernel
from softmargin.stein import Adam, CoordinateStein, MixedStein, Whitened, default_kernel, sample_density


@pytest.mark.parametrize(("S", "n_sets", "wide"), [(4, 12, 0.7), (32, 3, 0.2)])
def test_an_rbf_beside_coordinates_turns_few_particles(S, n_sets, wide):
    """They leave steep directions for flat ones; without it they stay about as wide as the density in both."""
    p, flat = 40, np.arange(40) < 5
    values = np.where(flat, 0.1, 1.0)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(p, p)))[0]
    precision = axes * values @ axes.T
    # Along the axes: equal eigenvalues leave other generators free to choose directions, as each processor likes.
    sets = np.random.default_rng(1).normal(size=(n_sets, S, p)) / np.sqrt(values) @ axes.T

    def kept(kernel, draws):
        sample = sample_density(
            lambda x: (-0.5 * np.sum(x @ precision * x, axis=1), -x @ precision),
            draws,
            kernel=kernel,
            rule=Adam(0.01),
            n_steps=1000,
            tolerance=0.0,
        )
        variances = (sample.particles @ axes).var(axis=0)
        return 0.1 * variances[flat].mean(), variances[~flat].mean()

    too_wide, too_narrow = kept(Whitened(MixedStein(linear=CoordinateStein()), "spread"), sets[0])
    assert too_wide > 3
    assert too_narrow < 0.4
    # One set of four has three directions, and varies by a third from set to set: hence means over sets.
    assert_allclose(np.mean([kept(default_kernel(S, p), draws) for draws in sets], axis=0), 1, atol=wide)


def test_the_machine_has_an_rbf_among_few_all_the_same():
    assert repr(travelling_kernel(50, 50)) == repr(Whitened(MixedStein(linear=CoordinateStein()), "spread"))
    assert repr(travelling_kernel(51, 50)) == repr(default_kernel(51, 50))
