import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit

import references_stein as reference
from softmargin.arrays import to_numpy
from softmargin.stein import (
    Adagrad,
    Adam,
    CoordinateStein,
    Fixed,
    LinearStein,
    MixedStein,
    RBFStein,
    Whitened,
    default_kernel,
    direction,
    init,
    posterior_scores,
    sample_density,
    step,
)

PLAIN = [RBFStein(), RBFStein(0.7), LinearStein(), LinearStein(2.0), CoordinateStein(), MixedStein(0.3)]
KERNELS = [*PLAIN, *(Whitened(k, how) for k in PLAIN for how in ("covariance", "spread", np.array([0.5, 2.0, 1.0])))]
RULES = [Fixed(0.1), Fixed(0.5, longest=0.1, fall=3.0), Adagrad(), Adagrad(decay=0.9), Adam()]
QUICK = Fixed(0.5, longest=1.0)


@pytest.fixture
def cloud(rng):
    return rng.normal(size=(7, 3)) * [1.0, 3.0, 0.4] + 5, rng.normal(size=(7, 3))


def turned_gaussian(p, condition=100.0, seed=0):
    """A covariance whose axes are not the coordinates, and its log density and score."""
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(p, p)))[0]
    A = Q * np.geomspace(condition**-0.5, condition**0.5, p) @ Q.T
    P = np.linalg.inv(A)
    return A, lambda x: (-0.5 * np.sum(x @ P * x, axis=1), -x @ P)


def standard(x):
    return -0.5 * np.sum(x * x, axis=1), -x


def start(S, p, seed=1):
    return 1 + np.random.default_rng(seed).normal(size=(S, p))


# Directions --------------------------------------------------------------------------------------


def naive(kernel, x, g):
    center, variances = x.mean(axis=0), x.var(axis=0)
    match kernel:
        case RBFStein(width):
            return reference.direction(x, g, reference.rbf(reference.median_width(x) if width == "median" else width))
        case LinearStein(scale):
            return reference.direction(
                x, g, reference.linear(center, variances.mean() if scale == "variance" else scale)
            )
        case CoordinateStein():
            return reference.direction(x, g, reference.coordinates(center, variances))
        case MixedStein(share, rbf, linear):
            return share * naive(linear, x, g) + (1 - share) * naive(rbf, x, g)
        case Whitened(inner, str() as scale) if scale == "covariance":
            factor = np.linalg.cholesky(np.cov(x.T, ddof=0))  # as QR has it: for a kernel of coordinates axes matter
        case Whitened(inner, scale):
            factor = np.diag(np.sqrt(variances) if isinstance(scale, str) else scale)
    return reference.whitened(x, g, factor, lambda z, h: naive(inner, z, h))


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_direction_equals_the_definition(kernel, convert, cloud):
    x, g = cloud
    found = direction(convert(x), convert(g), kernel)
    assert type(found) is type(convert(x))
    assert_allclose(to_numpy(found), naive(kernel, x, g), rtol=1e-9, atol=1e-11)  # rounding of products and of a solve


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_single_precision_stays_and_comes_close(kernel, cloud):
    x, g = cloud
    found = direction(torch.from_numpy(x).float(), torch.from_numpy(g).float(), kernel)
    assert found.dtype == torch.float32
    exact = direction(x, g, kernel)
    assert_allclose(found.numpy(), exact, atol=2e-5 * np.abs(exact).max())  # a hundred times its rounding unit


@pytest.mark.parametrize(
    "kernel", [*PLAIN, Whitened(MixedStein(), "spread"), Whitened(RBFStein(), np.ones(3))], ids=repr
)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_one_particle_climbs_the_gradient(kernel, rule, rng):
    x, scores = rng.normal(size=(1, 3)), rng.normal(size=(1, 3))
    assert np.array_equal(direction(x, scores, kernel), scores)
    assert np.array_equal(step(init(x, rule), scores, rule, kernel)[0], rule.advance(init(x, rule), scores)[0])


def test_a_narrow_kernel_leaves_each_particle_alone(cloud):
    """Of its own score one part in ``S`` is left: gradient ascent at a smaller rate, and no repulsion."""
    x, g = cloud
    for width in (1e-3, 1e-12):  # the second below the rounding of distances
        assert_allclose(direction(x, g, RBFStein(width)), g / len(x), rtol=1e-15)


def test_a_wide_kernel_moves_all_alike(cloud):
    x, g = cloud
    # What is left of differences falls with the square of the width: 10^2 / 10^10 here.
    assert_allclose(direction(x, g, RBFStein(1e5)), np.broadcast_to(g.mean(axis=0), g.shape), atol=1e-7)


@pytest.mark.parametrize(
    "kernel", [RBFStein(), RBFStein(2.0), LinearStein(), CoordinateStein(), MixedStein()], ids=repr
)
def test_close_particles_move_apart(kernel):
    x = np.array([[0.0, 1.0], [1e-3, 1.001]])
    way = direction(x, np.zeros_like(x), kernel)
    assert np.all((way[1] - way[0]) * (x[1] - x[0]) > 0)
    assert_allclose(way.sum(axis=0), 0, atol=1e-9 * np.abs(way).max())


def test_coincident_particles_have_finite_directions():
    x = np.full((5, 2), 0.1)
    for kernel in [*PLAIN, Whitened(MixedStein()), Whitened(MixedStein(), "spread")]:
        assert np.all(np.isfinite(direction(x, -x, kernel)))


@pytest.mark.parametrize("inner", [RBFStein(), LinearStein(), MixedStein()], ids=repr)
def test_whitened_directions_do_not_depend_on_units_and_axes(inner, cloud, rng):
    x, g = cloud
    B = rng.normal(size=(3, 3))
    turned = direction(x @ B.T + 3, np.linalg.solve(B.T, g.T).T, Whitened(inner))
    assert_allclose(turned, direction(x, g, Whitened(inner)) @ B.T, rtol=1e-8, atol=1e-10)


def test_linear_directions_are_affine_in_the_particles(cloud):
    x, g = cloud
    design = np.column_stack([x, np.ones(len(x))])
    for kernel in (LinearStein(), Whitened(LinearStein())):
        assert np.linalg.lstsq(design, direction(x, g, kernel))[1] == pytest.approx(0, abs=1e-20)


# Steps -------------------------------------------------------------------------------------------


def test_rules_by_hand(rng):
    x, first, second = rng.normal(size=(3, 4, 2))

    def after(rule):
        return rule.advance(rule.advance(init(x, rule), first), second)

    assert_allclose(after(Fixed(0.1)).particles, x + 0.1 * (first + second))
    assert_allclose(after(Fixed(0.1, fall=2.0)).particles, x + 0.1 * first + 0.1 / 1.5 * second)
    r = first**2 + second**2
    expected = x + 0.1 * first / (1e-6 + np.abs(first)) + 0.1 * second / (1e-6 + np.sqrt(r))
    assert_allclose(after(Adagrad(0.1)).particles, expected)
    r = 0.9 * first**2 + 0.1 * second**2
    expected = x + 0.1 * first / (1e-6 + np.abs(first)) + 0.1 * second / (1e-6 + np.sqrt(r))
    assert_allclose(after(Adagrad(0.1, decay=0.9)).particles, expected)
    m, r = (0.09 * first + 0.1 * second) / 0.19, (0.0099 * first**2 + 0.01 * second**2) / 0.0199
    assert_allclose(after(Adam(0.1)).particles, x + 0.1 * np.sign(first) + 0.1 * m / np.sqrt(r), rtol=1e-6)
    assert after(Adam()).count == 2


def test_no_step_is_longer_than_asked(rng):
    x, way = rng.normal(size=(2, 9, 3))
    move = Fixed(100.0, longest=0.5).advance(init(x, Fixed(100.0)), way).particles - x
    assert np.max(np.abs(move) / x.std(axis=0)) == pytest.approx(0.5)
    assert_allclose(move / way, np.full_like(way, (move / way)[0, 0]))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_steps_agree_in_torch(rule, rng):
    A, density = turned_gaussian(3)
    P = torch.from_numpy(np.linalg.inv(A))
    state = init(start(12, 3), rule)
    tensors = init(torch.from_numpy(start(12, 3)), rule)
    for _ in range(5):
        state = step(state, density(state.particles)[1], rule, Whitened(MixedStein()))
        tensors = step(tensors, -tensors.particles @ P, rule, Whitened(MixedStein()))
    assert_allclose(tensors.particles.numpy(), state.particles, rtol=1e-9, atol=1e-10)


# Densities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "S"), [(2, 20), (10, 20), (10, 50), (50, 60), (50, 100)])
def test_a_whitened_linear_kernel_has_the_moments_of_gaussians(p, S):
    A, density = turned_gaussian(p)
    sample = sample_density(density, start(S, p), kernel=Whitened(LinearStein()), rule=QUICK, tolerance=1e-8)
    assert sample.converged
    assert sample.n_steps < 60  # whatever the condition: here 100
    x = sample.particles
    assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    assert_allclose(np.cov(x.T, ddof=0), A, atol=1e-6)
    assert_allclose(sample.log_density, density(x)[0])


def test_a_linear_kernel_has_them_in_any_units():
    A, density = turned_gaussian(5)
    sample = sample_density(density, start(20, 5), kernel=LinearStein(), rule=Adam(), tolerance=1e-4, n_steps=2000)
    assert_allclose(np.cov(sample.particles.T, ddof=0), A, atol=0.01)  # tolerance times the condition


@pytest.mark.parametrize(("p", "S"), [(2, 50), (10, 20), (10, 100), (50, 100)])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_mixed_kernels_lose_no_more_than_they_say(p, S, share):
    A, density = turned_gaussian(p)
    kernel = Whitened(MixedStein(share))
    sample = sample_density(density, start(S, p), kernel=kernel, n_steps=80)
    kept = np.diag(np.cov(sample.particles.T, ddof=0)) / np.diag(A)
    # particles are not quite equally far from each other, nor quite at rest: the tolerance of the size
    assert np.all(kept > 1 - (1 - share) / share / (S + 1) - 0.02)
    assert np.all(kept < 1.01)


@pytest.mark.parametrize(("p", "S"), [(50, 20), (100, 20), (100, 60)])
def test_rbf_variances_collapse_as_they_say(p, S):
    """``log(S + 1) / p``: derived for equal distances, which vary by a share of ``1 / sqrt(2p)``, 7 to 10 per cent."""
    sample = sample_density(standard, start(S, p), kernel=RBFStein(), rule=Fixed(0.3 * S), n_steps=200)
    assert sample.particles.var(axis=0).mean() == pytest.approx(np.log(S + 1) / p, rel=0.2)


def test_few_particles_in_many_coordinates():
    """A linear kernel fills the directions that it has; by coordinates there is no limit."""
    S, p = 20, 100
    rule = Fixed(0.05)  # in units of a mean variance that is a fifth of those it has
    linear = sample_density(standard, start(S, p), kernel=LinearStein(), rule=rule, tolerance=1e-4)
    assert linear.particles.var(axis=0).mean() == pytest.approx((S - 1) / p, rel=1e-3)
    single = sample_density(standard, start(S, p), kernel=CoordinateStein(), rule=QUICK, tolerance=1e-6)
    assert_allclose(single.particles.var(axis=0), 1, rtol=1e-5)
    default = sample_density(standard, start(S, p))
    assert_allclose(default.particles.var(axis=0), 1, atol=0.02)  # the tolerance of the size


def test_coordinates_alone_give_mean_field_variances():
    P = np.array([[2.0, 1.0], [1.0, 2.0]])
    x = start(400, 2)
    x = np.linalg.qr(x - x.mean(axis=0))[0] * 20  # without correlation, which this kernel would not undo
    sample = sample_density(lambda x: (x[:, 0], -x @ P), x, kernel=CoordinateStein(), rule=Fixed(0.2), tolerance=1e-6)
    assert_allclose(sample.particles.var(axis=0), 1 / np.diag(P), rtol=1e-4)


def mixture(half, deviation):
    """``.7 N(-half, deviation^2) + .3 N(half, deviation^2)``."""

    def log_density_and_score(x):
        away = (x - np.array([-half, half])) / deviation
        log_parts = np.log([0.7, 0.3]) - 0.5 * away**2
        log_density = np.logaddexp(*log_parts.T)
        share = np.exp(log_parts - log_density[:, None])
        return log_density, -np.sum(share * away / deviation, axis=1, keepdims=True)

    return log_density_and_score


@pytest.mark.parametrize("kernel", [RBFStein(), MixedStein()], ids=repr)
def test_a_mixture_is_found(kernel):
    x = np.random.default_rng(0).normal(size=(100, 1)) * 3
    x = sample_density(mixture(1.5, 0.8), x, kernel=kernel, rule=Adam(0.1), tolerance=0).particles[:, 0]
    # Of 100 draws the share would have a deviation of .046, the mean of .16 and the variance of .22 (a tenth).
    right = stats.norm.sf(0, [-1.5, 1.5], 0.8) @ [0.7, 0.3]
    assert np.mean(x > 0) == pytest.approx(right, abs=0.046)
    assert x.mean() == pytest.approx(-0.6, abs=0.16)
    assert x.var() == pytest.approx(0.64 + 9 * 0.21, rel=0.1)


@pytest.mark.parametrize("kernel", [RBFStein(), MixedStein()], ids=repr)
def test_modes_far_apart_are_found_each(kernel):
    """How much is in each is another matter: in a valley 8 deviations wide there are no particles to tell."""
    x = np.random.default_rng(0).normal(size=(100, 1)) * 3
    x = sample_density(mixture(2.0, 0.5), x, kernel=kernel, rule=Adam(0.1), tolerance=0).particles[:, 0]
    for side, mode in ((x < 0, -2.0), (x > 0, 2.0)):
        # at least a fifth of the particles: a mean of 20 draws would have a deviation of .11, their deviation of .08
        assert np.mean(side) > 0.2
        assert x[side].mean() == pytest.approx(mode, abs=0.11)
        assert x[side].std() == pytest.approx(0.5, abs=0.08)


def logistic(rng, n=400, d=10):
    X = rng.normal(size=(n, d))
    return np.where(rng.uniform(size=n) < expit(X @ rng.normal(size=d)), 1.0, -1.0)[:, None] * X


def test_a_linear_model_has_the_variances_of_importance_sampling(rng):
    Z = logistic(rng)

    def density(w):
        return -np.logaddexp(0, -w @ Z.T).sum(axis=1) - 0.5 * (w**2).sum(axis=1), expit(-w @ Z.T) @ Z - w

    sample = sample_density(density, rng.normal(size=(100, 10)))
    mean, S = sample.particles.mean(axis=0), np.cov(sample.particles.T) * 1.2
    draws = rng.multivariate_normal(mean, S, size=10_000)
    log_ratio = density(draws)[0] + 0.5 * np.sum((draws - mean) @ np.linalg.inv(S) * (draws - mean), axis=1)
    weight = np.exp(log_ratio - log_ratio.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 3000  # deviations of reference variances are then below .03
    truth = weight @ draws
    variance = weight @ (draws - truth) ** 2
    assert_allclose(sample.particles.var(axis=0), variance, rtol=0.15)  # those, p / 2S = .05, and the tolerance
    assert_allclose(mean, truth, atol=0.1 * np.sqrt(variance.max()))


# Scores ------------------------------------------------------------------------------------------


def test_minibatch_scores_are_unbiased(rng):
    Z, w = logistic(rng, n=12, d=3), rng.normal(size=(5, 3))

    def scores(rows):
        return posterior_scores(-w, expit(-w @ rows.T) @ rows, 12, len(rows), 2.0)

    batches = np.mean([scores(Z[i : i + 4]) for i in (0, 4, 8)], axis=0)  # every row once: the mean over all batches
    assert_allclose(batches, scores(Z), rtol=1e-12)
    assert_allclose(scores(Z), -w + expit(-w @ Z.T) @ Z / 2)
    for kernel in (RBFStein(), LinearStein()):  # and so are directions, which are linear in scores
        ways = [direction(w, scores(Z[i : i + 4]), kernel) for i in (0, 4, 8)]
        assert_allclose(np.mean(ways, axis=0), direction(w, scores(Z), kernel), rtol=1e-10, atol=1e-12)


def test_a_temperature_of_all_rows_is_the_mean_loss(rng):
    Z, w = logistic(rng, n=12, d=3), rng.normal(size=3)

    def objective(w):
        return 0.5 * w @ w + np.mean(np.logaddexp(0, -Z @ w))

    found = posterior_scores(-w, expit(-Z @ w) @ Z, 12, 12, 12)
    slopes = [(objective(w + h) - objective(w - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    assert_allclose(found, -np.array(slopes), atol=1e-8)  # rounding over the step


# Limits ------------------------------------------------------------------------------------------


def test_the_driver_says_how_it_ended():
    few = sample_density(standard, start(20, 2), n_steps=2)
    assert (few.n_steps, few.converged) == (2, False)
    assert few.size > 0.01
    again = sample_density(standard, start(20, 2), n_steps=2)
    assert np.array_equal(few.particles, again.particles)
    with pytest.raises(ValueError, match="not finite"):
        sample_density(lambda x: (x[:, 0], np.nan * x), start(20, 2))


def test_torch_particles_stay_tensors():
    sample = sample_density(lambda x: (-0.5 * (x * x).sum(1), -x), torch.from_numpy(start(50, 2)))
    assert sample.converged
    assert_allclose(sample.particles.var(dim=0, correction=0).numpy(), 1, atol=0.05)


def test_default_kernel_is_whitened_by_what_there_is():
    for S, scale in ((21, "covariance"), (20, "spread")):
        kernel = default_kernel(S, 20)
        assert isinstance(kernel, Whitened)
        assert kernel.scale == scale


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, np.nan, "mean"])
def test_bad_settings_are_refused(wrong):
    for make in (RBFStein, LinearStein):
        with pytest.raises(ValueError, match="positive number"):
            make(wrong)
    with pytest.raises(ValueError, match="share"):
        MixedStein(-0.1)
    with pytest.raises(ValueError, match="scale"):
        Whitened(RBFStein(), wrong if wrong == "mean" else np.array([1.0, 0.0]))


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        direction(np.zeros((4, 2)), np.zeros((4, 3)), RBFStein())
    with pytest.raises(ValueError, match="too few for a covariance"):
        direction(start(3, 3), start(3, 3), Whitened(RBFStein()))
