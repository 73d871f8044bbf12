"""The density of particles, its slopes, and where they lead."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import contracts
import references
import softmargin.machine as machine_module
from softmargin.arrays import like, to_numpy
from softmargin.gaussian import ClassBelief, from_natural
from softmargin.kernels import RBF, Constant
from softmargin.likelihoods import (
    LOSSES,
    MULTI_CLASS,
    AugmentedHinge,
    Gaussian,
    Hinge,
    PointHinge,
    Softmax,
    score,
)
from softmargin.machine import Frame, Machine
from softmargin.rows import FourierRows
from softmargin.tune import LabelledRows

KERNEL = 2.0 * RBF((0.7, 2.0)) + Constant(0.5)
#: Of its log-parameters: a variance, two length-scales, a variance.
IS_WIDTH = np.array([False, True, True, False])
MOVES = {"weights": np.zeros(4), "widths": IS_WIDTH * 1.0, "all": np.ones(4)}
N_ROWS = 24
REFERENCE = np.empty(0)


def table(n_classes, n_rows=N_ROWS):
    """Rows, labels and weights: two classes are -1 and +1."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 2))
    f = np.stack([X[:, 0], X[:, 1] * X[:, 0], -X[:, 0]], axis=1) + 0.5 * rng.normal(size=(n_rows, 3))
    y = f.argmax(axis=1).astype(float) if n_classes > 2 else np.where(f[:, 0] > f[:, 1], 1.0, -1.0)
    return X, y, rng.integers(1, 4, size=n_rows).astype(float)


def fourier_rows(kernel=KERNEL, n_frequencies=4):
    center = np.array([0.2, -0.1])
    return FourierRows.of(kernel, 2, n_frequencies, "orthogonal", np.random.RandomState(0), center)


def belief_of(n_weights, n_classes):
    return ClassBelief(tuple(contracts.random_belief(n_weights) for _ in range(n_classes)))


def machine_for(n_classes, learn="widths", roots=True, temperature=1.0, likelihood=None, reference=REFERENCE):
    rows, C = fourier_rows(), 1 if n_classes == 2 else n_classes
    if roots:
        frame = Frame.about(belief_of(rows.n_weights, C), KERNEL.theta, MOVES[learn], reference)
    else:
        frame = Frame.of_prior(rows.n_weights, C, KERNEL.theta, MOVES[learn], reference)
    if likelihood is None:
        likelihood = LOSSES["logistic"] if n_classes == 2 else Softmax()
    return Machine(rows, likelihood, frame, IS_WIDTH, 60.0, temperature)


def particles_of(machine, n=3, seed=1):
    z = np.random.default_rng(seed).normal(size=(n, machine.frame.n_coordinates))
    z[:, z.shape[1] - machine.frame.n_moving :] *= 0.3
    return z


def labelled(X, y, weight):
    return LabelledRows(X, y, weight, np.minimum(weight, 1))


every_shape = pytest.mark.parametrize("n_classes", [2, 3])
every_learn = pytest.mark.parametrize("learn", MOVES)


# The slope of a likelihood -----------------------------------------------------------------------

TWO = {**LOSSES, "point": PointHinge(1e-6), "gaussian": Gaussian()}
MANY = {f"{way}-{loss}": MULTI_CLASS[way](LOSSES[loss]) for way in ("weston-watkins", "ovr") for loss in LOSSES}
MANY |= {"softmax": Softmax()}


@pytest.mark.parametrize("name", TWO)
def test_the_score_is_the_slope_of_the_log_density(name):
    f = np.linspace(-6, 6, 38)  # no kink of a hinge among them
    for y in (np.ones(38), -np.ones(38)):
        slopes = references.gradient(lambda at, y=y: TWO[name].log_density(y, at).sum(), f, 1e-3)
        # Fourth-order differences of smooth functions, or straight lines.
        assert_allclose(score(TWO[name], y, f), slopes, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", MANY)
def test_the_score_of_classes_is_the_slope_of_the_log_density(name):
    rng = np.random.default_rng(0)
    f, y = 2 * rng.normal(size=(20, 4)), rng.integers(0, 4, size=20).astype(float)
    slopes = references.gradient(lambda at: MANY[name].log_density(y, at).sum(), f, 1e-4)
    # No margin of these rows is nearer to a kink than the steps of 2e-4; differences as above.
    assert_allclose(score(MANY[name], y, f), slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("base", [Hinge(), AugmentedHinge()], ids=repr)
def test_the_score_of_soft_rivals_is_the_slope_where_one_is_the_strongest(base):
    likelihood = MULTI_CLASS["crammer-singer"](base)
    f = np.array([[0.3, 9.0, -9.0], [5.0, 0.0, -12.0], [14.0, -1.5, 30.0]])
    y = np.array([0.0, 0.0, 1.0])
    slopes = references.gradient(lambda at: likelihood.log_density(y, at).sum(), f, 1e-3)
    # Of two rivals 12 apart, the weaker has a share of exp(-24).
    assert_allclose(score(likelihood, y, f), slopes, atol=1e-8)


@pytest.mark.parametrize("name", [*TWO, *MANY])
def test_the_score_agrees_in_torch_and_in_single_precision(name):
    likelihood, rng = (TWO | MANY)[name], np.random.default_rng(0)
    f = rng.normal(size=30) if name in TWO else rng.normal(size=(30, 4))
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0) if name in TWO else rng.integers(0, 4, size=30).astype(float)
    wanted = score(likelihood, y, f)
    # b - w f cancels what the site of a hinge has near its kink, w up to 1e3 here, of which single precision has 1e-7.
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-3)):
        assert_allclose(score(likelihood, y.astype(dtype), f.astype(dtype)), wanted, rtol=tolerance, atol=tolerance)
        got = score(likelihood, torch.from_numpy(y.astype(dtype)), torch.from_numpy(f.astype(dtype)))
        assert_allclose(to_numpy(got), wanted, rtol=tolerance, atol=tolerance)


def test_on_a_kink_the_score_lies_between_those_beside_it():
    at_kink = score(Hinge(), np.ones(1), np.ones(1))
    assert 0 <= at_kink[0] <= 2


# Coordinates -------------------------------------------------------------------------------------


@every_shape
@every_learn
def test_weights_and_kernels_can_be_found_back(n_classes, learn):
    frame = machine_for(n_classes, learn).frame
    z = particles_of(machine_for(n_classes, learn), 5)
    cloud = frame.cloud(z)
    m, C = frame.mean.shape
    back = [
        np.linalg.solve(frame.roots[k].T, (cloud.weights[:, :, k] - frame.mean[:, k]).T).T.reshape(5, m, 1)
        for k in range(C)
    ]
    assert_allclose(np.concatenate(back, axis=2).reshape(5, m * C), z[:, : m * C], rtol=1e-9, atol=1e-9)
    if learn == "weights":
        assert_array_equal(cloud.theta, frame.theta[None])
        assert z.shape[1] == m * C
    else:
        moves = MOVES[learn] > 0
        assert_allclose(cloud.theta[:, moves] - KERNEL.theta[moves], z[:, m * C :], rtol=1e-9, atol=1e-12)
        assert_array_equal(cloud.theta[:, ~moves], np.broadcast_to(KERNEL.theta[~moves], (5, (~moves).sum())))
    if C == 1:  # those of a belief, drawn with the same numbers
        belief = contracts.random_belief(m)
        assert_allclose(cloud.weights[..., 0], belief.mean + z[:, :m] @ belief.root, rtol=1e-12, atol=1e-12)


@every_shape
def test_in_the_frame_of_the_prior_weights_are_coordinates(n_classes):
    machine = machine_for(n_classes, roots=False)
    z = particles_of(machine)
    m, C = machine.frame.mean.shape
    assert_array_equal(machine.frame.cloud(z).weights.reshape(3, -1), z[:, : m * C])


@every_shape
@every_learn
@pytest.mark.parametrize("roots", [True, False])
def test_slopes_are_pulled_back_as_coordinates_are_pushed_forward(n_classes, learn, roots):
    """Coordinates are linear, so ``<slopes, J dz> = <J' slopes, dz>`` to the last digits."""
    frame, rng = machine_for(n_classes, learn, roots).frame, np.random.default_rng(5)
    z, dz = rng.normal(size=(2, 3, frame.n_coordinates))
    before, after = frame.cloud(z), frame.cloud(z + dz)
    in_weights, in_theta = rng.normal(size=before.weights.shape), rng.normal(size=before.theta.shape)
    forward = np.sum(in_weights * (after.weights - before.weights)) + np.sum(in_theta * (after.theta - before.theta))
    assert_allclose(np.sum(frame.pulled(in_weights, in_theta) * dz), forward, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("reference", [REFERENCE, torch.empty(0, dtype=torch.float64)], ids=["numpy", "torch"])
def test_large_roots_are_applied_panel_by_panel(n_classes, n_jobs, reference, monkeypatch):
    """To 75 weights: two panels of 32, and what is left."""
    monkeypatch.setattr(machine_module, "_SHARED", 0)
    rng, m = np.random.default_rng(7), 75
    mean, roots = rng.normal(size=(m, n_classes)), np.tril(rng.normal(size=(n_classes, m, m)))
    frame = Frame(*(like(part, reference) for part in (mean, roots, KERNEL.theta, np.eye(4)[:0])))
    z = rng.normal(size=(5, m, n_classes))
    forth, back = np.einsum("smk,kmn->snk", z, roots), np.einsum("smk,knm->snk", z, roots)
    weights = to_numpy(frame.cloud(like(z.reshape(5, -1), reference), n_jobs).weights)
    pulled = to_numpy(frame.pulled(like(z, reference), like(np.zeros((1, 4)), reference), n_jobs))
    # Sums of at most 75 products near one.
    assert_allclose(weights, mean + forth, rtol=1e-12, atol=1e-12)
    assert_allclose(pulled, back.reshape(5, -1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [1, 2])
def test_particles_begin_as_draws_of_the_belief(n_classes):
    belief, n = belief_of(4, n_classes), 20_000
    frame = Frame.about(belief, KERNEL.theta, MOVES["widths"], REFERENCE)
    cloud = frame.cloud(frame.draws(n, np.random.RandomState(0)))
    for k, part in enumerate(belief.parts):
        sd = np.sqrt(part.variances)
        # Five standard errors: sd / sqrt(n) of a mean, and at most sqrt(2 / n) in units of deviations of a covariance.
        assert_allclose(cloud.weights[:, :, k].mean(axis=0), part.mean, atol=5 * sd.max() / np.sqrt(n))
        excess = (np.cov(cloud.weights[:, :, k].T) - part.covariance) / np.outer(sd, sd)
        assert_allclose(excess, 0, atol=5 * np.sqrt(2 / n))
    moved = cloud.theta - KERNEL.theta
    assert_allclose(moved[:, IS_WIDTH].std(axis=0), 0.1, rtol=5 / np.sqrt(2 * n))
    assert_allclose(moved[:, IS_WIDTH].mean(axis=0), 0, atol=0.5 / np.sqrt(n))
    assert_array_equal(moved[:, ~IS_WIDTH], 0 * moved[:, ~IS_WIDTH])
    prior = Frame.of_prior(4, n_classes, KERNEL.theta, MOVES["weights"], REFERENCE)
    drawn = prior.cloud(prior.draws(n, np.random.RandomState(0))).weights
    assert_allclose(drawn.mean(axis=0), 0, atol=5 / np.sqrt(n))
    assert_allclose(drawn.std(axis=0), 1, rtol=5 / np.sqrt(2 * n))


@every_shape
@pytest.mark.parametrize("temperature", [0.25, 3.0])
def test_the_frame_of_a_temperature_is_that_of_rows_which_say_less(n_classes, temperature):
    """With Gaussian sums ``G`` and ``h``: those of the belief, divided by the temperature."""
    rng = np.random.default_rng(2)
    G, h = rng.normal(size=(2 * n_classes, 5, 8)), rng.normal(size=(2 * n_classes, 5))
    G = G @ np.swapaxes(G, 1, 2)
    belief = ClassBelief(tuple(from_natural(np.eye(5) + one, other) for one, other in zip(G, h, strict=True)))
    frame = Frame.about(belief, KERNEL.theta, MOVES["widths"], REFERENCE, temperature)
    for k, (one, other) in enumerate(zip(G / temperature, h / temperature, strict=True)):
        covariance = np.linalg.inv(np.eye(5) + one)
        assert_allclose(frame.roots[k].T @ frame.roots[k], covariance, rtol=1e-8, atol=1e-10)
        assert_allclose(frame.mean[:, k], covariance @ other, rtol=1e-8, atol=1e-10)


# The density -------------------------------------------------------------------------------------


def naive_log_density(machine, z, X, y, weight):
    """Particle by particle: rows of its own kernel, normal weights, a truncated normal of each ``1 / l^2``."""
    total = []
    cloud, moves = machine.frame.cloud(z), to_numpy(machine.frame.moves) > 0
    for weights, theta in zip(cloud.weights, np.broadcast_to(cloud.theta, (len(z), 4)), strict=True):
        f = machine.rows.with_kernel(KERNEL.with_theta(theta)).lift(X).phi @ weights
        likelihood = machine.likelihood.log_density(y, f[:, 0] if f.shape[1] == 1 else f)
        value = weight @ likelihood * machine.n_rows / weight.sum() / machine.temperature
        value += stats.norm.logpdf(weights).sum()
        for moving, is_width, at, first in zip(moves, IS_WIDTH, theta, KERNEL.theta, strict=True):
            if moving and is_width:
                gamma, scale = np.exp(-2 * at), np.exp(-2 * first)
                # The density of log gamma: that of gamma times gamma.  log l is a multiple of it.
                value += stats.truncnorm(0, np.inf, scale=scale).logpdf(gamma) + np.log(gamma)
            elif moving:
                value += stats.norm.logpdf(at, first)
        total.append(value)
    return np.array(total)


@every_shape
@every_learn
@pytest.mark.parametrize("roots", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 60.0])
def test_the_log_density_is_the_naive_one(n_classes, learn, roots, temperature):
    machine = machine_for(n_classes, learn, roots, temperature)
    z, rows = particles_of(machine, 4), table(n_classes)
    got, wanted = machine.log_density(z, *rows), naive_log_density(machine, z, *rows)
    # Up to a constant, which is that of the densities of the prior.
    assert_allclose(got - got[0], wanted - wanted[0], rtol=1e-9, atol=1e-9)


@every_shape
@every_learn
@pytest.mark.parametrize("roots", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 60.0])
def test_scores_are_finite_differences_of_the_log_density(n_classes, learn, roots, temperature):
    machine = machine_for(n_classes, learn, roots, temperature)
    z, rows = particles_of(machine, 2), table(n_classes)
    slopes = references.gradient(lambda at: machine.log_density(at, *rows).sum(), z, 1e-3)
    # Sums in the hundreds, of waves whose angles reach tens: fourth-order differences have about 1e-8 of them.
    assert_allclose(machine.scores(z, *rows), slopes, rtol=1e-5, atol=1e-5)


def test_scores_of_losses_that_are_not_the_default():
    z, rows = particles_of(machine_for(3)), table(3)
    for name in ("weston-watkins-probit", "ovr-hinge"):
        machine = machine_for(3, likelihood=MANY[name])
        slopes = references.gradient(lambda at, m=machine: m.log_density(at, *rows).sum(), z, 1e-5)
        # A kink is nowhere within 2e-5 of these; differences this short have 1e-6 of the sums left.
        assert_allclose(machine.scores(z, *rows), slopes, rtol=1e-4, atol=1e-4)


@every_shape
@every_learn
def test_scores_of_minibatches_average_to_those_of_all_rows(n_classes, learn):
    machine = machine_for(n_classes, learn)
    z, (X, y, weight) = particles_of(machine), table(n_classes)
    machine = replace(machine, n_rows=float(weight.sum()))
    whole, density = machine.scores(z, X, y, weight), machine.log_density(z, X, y, weight)
    cuts = np.split(np.random.default_rng(0).permutation(N_ROWS), [3, 11, 12])
    parts = [(weight[cut].sum() / weight.sum(), X[cut], y[cut], weight[cut]) for cut in cuts]
    # A batch is drawn as often as it weighs.
    assert_allclose(sum(share * machine.scores(z, *part) for share, *part in parts), whole, rtol=1e-9, atol=1e-9)
    assert_allclose(sum(share * machine.log_density(z, *part) for share, *part in parts), density, rtol=1e-9)
    # Single rows, each as often as it weighs, without weights: what `travel` draws.
    ones = [(w / weight.sum(), X[[i]], y[[i]], np.ones(1)) for i, w in enumerate(weight)]
    assert_allclose(sum(share * machine.scores(z, *one) for share, *one in ones), whole, rtol=1e-9, atol=1e-9)


@every_shape
def test_weights_are_copies(n_classes):
    machine = machine_for(n_classes)
    z, (X, y, weight) = particles_of(machine), table(n_classes)
    copies = np.repeat(np.arange(N_ROWS), weight.astype(int))
    repeated = machine.scores(z, X[copies], y[copies], np.ones(len(copies)))
    assert_allclose(repeated, machine.scores(z, X, y, weight), rtol=1e-9, atol=1e-9)


def test_the_mean_loss_is_a_temperature_of_all_rows():
    z, (X, y, weight) = particles_of(machine_for(2)), table(2)
    hot = machine_for(2, temperature=60.0)
    one_row = replace(hot, n_rows=1.0, temperature=1.0)
    assert_allclose(hot.scores(z, X, y, weight), one_row.scores(z, X, y, weight), rtol=1e-12)


@every_shape
@every_learn
def test_torch_single_precision_and_threads_agree(n_classes, learn):
    machine, rows = machine_for(n_classes, learn), table(n_classes)
    z = particles_of(machine)
    wanted = machine.log_density(z, *rows), machine.scores(z, *rows)
    assert_array_equal(replace(machine, n_jobs=2).scores(z, *rows), wanted[1])
    # Single precision: rounding of angles in the tens, in sums in the hundreds.
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 2e-3)):
        for make in (np.asarray, torch.from_numpy):
            reference = make(np.empty(0, dtype=dtype))
            other = machine_for(n_classes, learn, reference=reference)
            args = [make(part.astype(dtype)) for part in (z, *rows)]
            for got, exact in zip((other.log_density(*args), other.scores(*args)), wanted, strict=True):
                assert type(got) is type(reference)
                assert got.dtype == reference.dtype
                assert_allclose(to_numpy(got), exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())


def test_the_prior_of_a_width_is_highest_where_it_started():
    machine = machine_for(2, "all")
    theta = KERNEL.theta + np.linspace(-2, 2, 401)[:, None]
    for at in range(4):
        one = np.where(np.arange(4) == at, theta, KERNEL.theta)
        assert np.argmax(machine._log_prior(one)) == 200
