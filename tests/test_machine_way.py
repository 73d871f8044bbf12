"""Where particles go."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

import references
from softmargin.chunks import Table
from softmargin.engine import Problem
from softmargin.kernels import RBF, Constant, Matern
from softmargin.likelihoods import (
    LOSSES,
)
from softmargin.machine import Frame, Journey, Machine, travel
from softmargin.monitor import Monitor
from softmargin.priors import Ridge
from softmargin.rows import FourierRows
from softmargin.stein import Adam, RBFStein, default_kernel
from softmargin.steps import ascend
from test_machine import IS_WIDTH, KERNEL, MOVES, REFERENCE, fourier_rows, labelled, particles_of, table


def posterior(n_classes, n_rows):
    """A Gaussian belief of the weights under the kernel as it is, and the machine of the same density."""
    X, y, weight = table(n_classes, n_rows)
    rows, likelihood = fourier_rows(), LOSSES["logistic"]
    problem = Problem(Table.of(X, y, weight, rows.width), rows, likelihood, Ridge.isotropic(rows.n_weights))
    belief = ascend(problem, tol=1e-9, max_passes=200).point.belief
    frame = Frame.of_prior(rows.n_weights, 1, KERNEL.theta, MOVES["weights"], REFERENCE)
    return rows, belief, Machine(rows, likelihood, frame, IS_WIDTH, float(weight.sum())), labelled(X, y, weight)


def in_frame_of(belief, machine):
    return replace(machine, frame=Frame.about(belief, KERNEL.theta, MOVES["weights"], REFERENCE))


def arrived(machine, rows, journey, n_particles=60, kernel=None, monitor=None, seed=0):
    rng = np.random.RandomState(seed)
    state = journey.begun(machine.frame.draws(n_particles, rng))
    kernel = default_kernel(*state.particles.shape) if kernel is None else kernel
    return travel(machine, rows, state, journey, kernel, rng, Monitor() if monitor is None else monitor)


@pytest.mark.parametrize(
    ("journey", "in_deviations", "of_variance"),
    [
        # The Gaussian is not quite the posterior, and particles are sixty: .02 and 14 % are what is seen.
        (Journey(100, 150, 0.05, whole=True, near=True), 0.1, 0.25),
        (Journey(600, 150, 0.1, whole=True), 0.1, 0.25),
        # Minibatches of a fifth of the rows leave a noise of some tenths of a deviation, which all particles share.
        (Journey(1500, 30, 0.1), 0.4, 0.5),
    ],
    ids=["near", "whole", "minibatches"],
)
def test_from_the_prior_particles_come_to_the_gaussian_belief(journey, in_deviations, of_variance):
    rows, belief, machine, data = posterior(2, 150)
    state, reason = arrived(machine, data, journey)
    assert reason == "steps"
    assert state.count == journey.n_steps
    f = machine.frame.cloud(state.particles).weights[:, :, 0] @ rows.lift(data.X).phi.T
    latent = rows.lift(data.X).moments(belief)
    assert_allclose((f.mean(axis=0) - latent.mu) / np.sqrt(latent.v), 0, atol=in_deviations)
    assert_allclose(f.var(axis=0) / latent.v, 1, atol=of_variance)


def test_from_the_belief_particles_have_little_to_do():
    _, belief, machine, data = posterior(2, 150)
    machine = in_frame_of(belief, machine)
    state, _ = arrived(machine, data, Journey(30, 150, 0.05, whole=True, near=True))
    # In coordinates of the belief the density is about standard normal.
    assert_allclose(state.particles.mean(axis=0), 0, atol=0.15)
    assert_allclose(state.particles.var(axis=0), 1, atol=0.25)


def test_widths_move_towards_those_of_the_rows():
    """Rows of a wave, and particles that begin with a length-scale too long for it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(200, 1))
    y = np.where(np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    kernel, likelihood, moves = 4.0 * RBF(1.0), LOSSES["logistic"], np.array([0.0, 1.0])
    rows = FourierRows.of(kernel, 1, 16, "orthogonal", np.random.RandomState(0))
    problem = Problem(Table.of(X, y, np.ones(200), rows.width), rows, likelihood, Ridge.isotropic(rows.n_weights))
    belief = ascend(problem, tol=1e-6, max_passes=50).point.belief
    machine = Machine(rows, likelihood, Frame.about(belief, kernel.theta, moves, REFERENCE), moves > 0, 200.0)
    state, _ = arrived(machine, labelled(X, y, np.ones(200)), Journey(60, 200, 0.05, whole=True, near=True), 16)
    moved = state.particles[:, -1]
    # By .2 in logarithms; sixteen particles whose spread is .05 have a standard error of .01.
    assert moved.mean() < -0.1


def test_the_same_seed_gives_the_same_bits():
    _, _, machine, data = posterior(2, 60)
    for journey in (Journey(10, 60, 0.05, whole=True), Journey(10, 20, 0.05), Journey(10, 20, 0.05, endless=True)):
        first, same, other = (arrived(machine, data, journey, 8, seed=seed).state.particles for seed in (0, 0, 1))
        assert_array_equal(first, same)
        assert not np.isclose(first, other).all()


def test_sparse_rows_are_the_same_rows():
    _, _, machine, data = posterior(2, 60)
    journey, sparse = Journey(10, 20, 0.05), data._replace(X=scipy.sparse.csr_array(data.X))
    one, other = (arrived(machine, rows, journey, 8).state.particles for rows in (data, sparse))
    assert_array_equal(one, other)


@pytest.mark.parametrize("whole", [True, False])
def test_an_interrupt_keeps_the_particles(monkeypatch, whole):
    _, _, machine, data = posterior(2, 60)
    journey = Journey(20, 60 if whole else 20, 0.05, whole, near=whole)
    calls, scores = itertools.count(), Machine.scores
    five = arrived(machine, data, journey._replace(n_steps=5) if whole else journey, 8).state.particles

    def interrupted(*args):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return scores(*args)

    monkeypatch.setattr(Machine, "scores", interrupted)
    state, reason = arrived(machine, data, journey, 8)
    assert reason == "interrupt"
    assert state.count == 5
    if whole:  # steps by minibatches become shorter by how many there are to be
        assert_array_equal(state.particles, five)


def test_when_time_is_up_particles_stay():
    _, _, machine, data = posterior(2, 60)
    journey = Journey(20, 60, 0.05, whole=True)
    state, reason = arrived(machine, data, journey, 8, monitor=Monitor(max_time=1e-9))
    assert (reason, state.count) == ("time", 0)
    assert_array_equal(state.particles, machine.frame.draws(8, np.random.RandomState(0)))


def test_the_history_tells_how_the_density_rises():
    _, _, machine, data = posterior(2, 150)
    monitor = Monitor()
    arrived(machine, data, Journey(100, 150, 0.05, whole=True), monitor=monitor)
    densities = [entry["objective"] for entry in monitor.history]
    assert len(densities) == 20
    assert densities[-1] > densities[0] + 50  # from the prior, on rows that weigh 300 in all


def test_steps_become_shorter_and_those_of_a_stream_do_not():
    falling = [Journey(10, 5, 0.5).rule(count).rate for count in range(10)]
    assert falling[0] == 0.5
    assert np.all(np.diff(falling) < 0)
    assert falling[-1] > 0
    assert Journey(10, 5, 0.5, endless=True).rule(9) == Adam(0.5)


def test_one_particle_climbs_to_the_mode():
    _, belief, machine, data = posterior(2, 60)
    machine = in_frame_of(belief, machine)
    state, _ = arrived(machine, data, Journey(300, 60, 0.05, whole=True), 1, RBFStein())
    slopes = machine.scores(state.particles, data.X, data.y, data.weight)
    # In these units slopes are distances from the mode; the last steps are a thousandth of .05.
    assert np.abs(slopes).max() < 0.01


def test_frequencies_of_several_terms_serve_particles():
    kernel = 1.0 * RBF(1.0) + 0.5 * Matern((0.5, 1.0)) + Constant(1.0)
    rows = fourier_rows(kernel)
    is_width = np.concatenate([np.full(size, role == "length_scale") for role, size in kernel.roles])
    frame = Frame.of_prior(rows.n_weights, 1, kernel.theta, is_width * 1.0, REFERENCE)
    machine = Machine(rows, LOSSES["logistic"], frame, is_width, 24.0)
    z, data = particles_of(machine), table(2)
    slopes = references.gradient(lambda at: machine.log_density(at, *data).sum(), z, 1e-3)
    assert_allclose(machine.scores(z, *data), slopes, rtol=1e-5, atol=1e-5)  # as above
