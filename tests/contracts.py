"""What every likelihood, kernel, kind of rows and prior must do.

A new one is tested by describing it in a case; ``pytest.mark.parametrize`` runs the list of checks over it:

    @pytest.mark.parametrize("check", contracts.LIKELIHOOD, ids=contracts.name)
    def test_contract(check):
        check(contracts.LikelihoodCase(MyLikelihood()))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

import references
from softmargin.arrays import to_numpy
from softmargin.engine import add, block_stats
from softmargin.gaussian import Belief, from_natural
from softmargin.kernels import as_kernel
from softmargin.likelihoods import Hinge


def name(thing: Any) -> str:
    """The name of a check or a case, for pytest's ids."""
    subject = getattr(thing, "likelihood", None) or getattr(thing, "kernel", None)
    return repr(subject) if subject else getattr(thing, "label", None) or thing.__name__


def random_belief(n_weights: int, seed: int = 0) -> Belief:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_weights, n_weights))
    return from_natural(A @ A.T + np.eye(n_weights), 2 * rng.normal(size=n_weights))


# Likelihoods -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LikelihoodCase:
    """``exact``: up to what variance ``l`` is the expectation itself (to ``tolerance``), infinity for a closed form.

    ``expanded``: ``w`` and ``b`` come from derivatives of the log-density at the mean, not from slopes of ``l``.
    """

    likelihood: Any
    exact: float = 0.0
    tolerance: float = 1e-9
    expanded: bool = False


def _site_grid(variances=(1e-3, 0.05, 1.0, 7.0, 100.0, 1e4)) -> tuple[np.ndarray, ...]:
    means = [-30.0, -3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 2.5, 30.0]
    grid = np.meshgrid([-1.0, 1.0], means, list(variances), indexing="ij")
    return tuple(part.ravel() for part in grid)


def slopes_are_finite_differences(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid()
    sites = case.likelihood.sites
    if case.expanded:
        in_mu = references.derivative(lambda f: case.likelihood.log_density(y, f), mu, 1e-3)
        step = 1e-2
        values = [case.likelihood.log_density(y, mu + k * step) for k in (-2, -1, 0, 1, 2)]
        minus_w = np.tensordot([-1, 16, -30, 16, -1], values, axes=1) / (12 * step**2)
    else:
        # The hinge turns within a standard deviation, the logistic function within one unit.
        in_mu = references.derivative(lambda t: sites(y, t, v).l, mu, 1e-2 * np.minimum(1, np.sqrt(v)))
        minus_w = 2 * references.derivative(lambda t: sites(y, mu, t).l, v, 1e-2 * v)
    _, w, b = sites(y, mu, v)
    # Truncation is of order step^4 = 1e-8 of the fifth derivatives; rounding 1e-15 |l| / step is below it.
    scale = 1e-6 + 1e-11 * np.abs(sites(y, mu, v).l) / np.minimum(1, v)
    assert np.all(np.abs(b - w * mu - in_mu) < 1e-6 * np.abs(in_mu) + scale)
    assert np.all(np.abs(w + minus_w) < 1e-6 * np.abs(w) + scale)


def bound_lies_below_the_expectation(case: LikelihoodCase) -> None:
    if not case.likelihood.is_bound:
        return
    for y, mu, v in zip(*_site_grid((0.01, 1.0, 7.0, 100.0, 1e8)), strict=True):
        l = float(case.likelihood.sites(np.array([y]), np.array([mu]), np.array([v])).l[0])  # noqa: E741
        truth = references.normal_expectation(lambda f, y=y: case.likelihood.log_density(y, f), mu, v, (0.0, y))
        if case.exact >= v:
            assert_allclose(l, truth, rtol=case.tolerance, atol=case.tolerance)
        elif case.exact > 0:  # a rule of finitely many nodes: near, but neither above nor below
            assert_allclose(l, truth, rtol=0.03, atol=1e-3)
        else:
            assert l <= truth + 1e-9 * abs(truth)


def bound_touches_where_nothing_is_uncertain(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.0,))
    assert_allclose(case.likelihood.sites(y, mu, v).l, case.likelihood.log_density(y, mu), rtol=1e-9, atol=2e-6)


def sites_are_finite_and_precisions_not_negative(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.0, 1e-300, 1e-12, 1.0, 1e8))
    mu = np.concatenate([mu, y, 1e8 * mu])  # mu = y is z = 0, the kink of the hinge
    y, v = np.tile(y, 3), np.tile(v, 3)
    parts = case.likelihood.sites(y, mu, v)
    assert all(np.isfinite(part).all() for part in parts)
    assert np.all(parts.w >= 0)


def curvature_is_the_slope_of_the_slope(case: LikelihoodCase) -> None:
    if case.expanded:
        return
    y, mu, v = _site_grid((0.05, 1.0, 7.0) if case.exact in (0.0, np.inf) else (0.05, 1.0))

    def slope(t):
        _, w, b = case.likelihood.sites(y, t, v)
        return b - w * t

    k = case.likelihood.curvature(y, mu, v)
    assert_allclose(k, -references.derivative(slope, mu, 1e-2 * np.minimum(1, np.sqrt(v))), rtol=2e-5, atol=1e-6)
    assert np.all(k >= 0)
    if case.likelihood.site_is_curvature:
        assert_allclose(k, case.likelihood.sites(y, mu, v).w)


def labels_are_symmetric(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid()
    one, other = case.likelihood.sites(y, mu, v), case.likelihood.sites(-y, -mu, v)
    assert_allclose(other.l, one.l, rtol=1e-12, atol=1e-12)
    assert_allclose(other.w, one.w, rtol=1e-9, atol=1e-12)
    assert_allclose(other.b, -one.b, rtol=1e-9, atol=1e-9)


def sites_agree_in_torch_and_in_single_precision(case: LikelihoodCase) -> None:
    y, mu, v = _site_grid((0.05, 1.0, 7.0))
    near = np.abs(mu) <= 3
    arrays = y[near], mu[near], v[near]
    exact = case.likelihood.sites(*arrays)
    for torch_dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        for ours in (
            case.likelihood.sites(*(torch.as_tensor(a, dtype=torch_dtype) for a in arrays)),
            case.likelihood.sites(*(a.astype(str(torch_dtype).removeprefix("torch.")) for a in arrays)),
        ):
            for got, wanted in zip(ours, exact, strict=True):
                assert str(got.dtype).endswith(str(torch_dtype).removeprefix("torch."))
                assert_allclose(to_numpy(got), wanted, rtol=tolerance, atol=tolerance)


LIKELIHOOD: list[Callable[[LikelihoodCase], None]] = [
    slopes_are_finite_differences,
    bound_lies_below_the_expectation,
    bound_touches_where_nothing_is_uncertain,
    sites_are_finite_and_precisions_not_negative,
    curvature_is_the_slope_of_the_slope,
    labels_are_symmetric,
    sites_agree_in_torch_and_in_single_precision,
]


# Kernels -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelCase:
    """``own``: the variance of rows that no covariance between rows has (White). ``sk``: scikit-learn's kernel."""

    kernel: Any
    sk: Any = None
    own: float = 0.0


def _two_tables() -> tuple[np.ndarray, np.ndarray]:
    """Rows and points; one of the points is one of the rows."""
    rng = np.random.default_rng(5)
    X, Z = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    Z[2] = X[4]
    return X, Z


def gram_is_a_covariance(case: KernelCase) -> None:
    X = np.vstack(_two_tables())
    K = case.kernel(X, X)
    assert K.shape == (16, 16)
    assert_allclose(K, K.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() >= -1e-9 * np.trace(K) / 16
    assert_allclose(case.kernel.diagonal(X), np.diag(K) + case.own, rtol=1e-9)


def theta_makes_a_round_trip(case: KernelCase) -> None:
    X, Z = _two_tables()
    theta = case.kernel.theta
    assert theta.ndim == 1
    same = case.kernel.with_theta(theta)
    assert type(same) is type(case.kernel)
    assert_allclose(same(X, Z), case.kernel(X, Z), rtol=1e-12)
    for unit in np.eye(len(theta)):
        other = case.kernel.with_theta(theta + 0.3 * unit)
        assert_allclose(other.theta, theta + 0.3 * unit, rtol=1e-12, atol=1e-14)
        assert not np.allclose(np.append(other(X, Z), other.diagonal(X)), np.append(same(X, Z), same.diagonal(X)))


def pullbacks_are_finite_differences(case: KernelCase) -> None:
    X, Z = _two_tables()
    dK, dk = np.random.default_rng(6).normal(size=(9, 7)), np.linspace(-1, 2, 9)
    kernel = case.kernel

    def value(theta):
        return np.sum(dK * kernel.with_theta(theta)(X, Z))

    def on_diagonal(theta):
        return dk @ kernel.with_theta(theta).diagonal(X)

    assert_allclose(kernel.pullback(X, Z, dK), references.gradient(value, kernel.theta, 1e-3), rtol=1e-7, atol=1e-7)
    assert_allclose(
        kernel.pullback_diagonal(X, dk), references.gradient(on_diagonal, kernel.theta, 1e-3), rtol=1e-7, atol=1e-9
    )
    in_inputs = references.gradient(lambda X: np.sum(dK * kernel(X, Z)), X, 1e-3)
    assert_allclose(kernel.pullback_inputs(X, Z, dK), in_inputs, rtol=1e-6, atol=1e-6)


def equals_the_kernel_of_scikit_learn(case: KernelCase) -> None:
    if case.sk is None:
        return
    X, Z = _two_tables()
    assert repr(as_kernel(case.sk)) == repr(case.kernel)
    assert_allclose(case.kernel(X, Z), case.sk(X, Z), rtol=1e-9, atol=1e-14)
    assert_allclose(case.kernel.diagonal(X), case.sk.diag(X), rtol=1e-12)


def kernel_agrees_in_torch_and_in_single_precision(case: KernelCase) -> None:
    X, Z = _two_tables()
    dK, dk = np.random.default_rng(6).normal(size=(9, 7)), np.linspace(-1, 2, 9)

    kernel = case.kernel

    def everything(X, Z, dK, dk):
        parts = kernel(X, Z), kernel.diagonal(X), kernel.pullback_inputs(X, Z, dK)
        assert all(part.dtype == X.dtype for part in parts)
        slopes = kernel.pullback(X, Z, dK), kernel.pullback_diagonal(X, dk)
        return [to_numpy(part) for part in parts + slopes]

    exact = everything(X, Z, dK, dk)
    for convert, tolerance in (
        (torch.from_numpy, 1e-11),
        (lambda a: a.astype(np.float32), 3e-4),
        (lambda a: torch.from_numpy(a.astype(np.float32)), 3e-4),
    ):
        for got, wanted in zip(everything(*map(convert, (X, Z, dK, dk))), exact, strict=True):
            assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max(initial=0)))


KERNEL: list[Callable[[KernelCase], None]] = [
    gram_is_a_covariance,
    theta_makes_a_round_trip,
    pullbacks_are_finite_differences,
    equals_the_kernel_of_scikit_learn,
    kernel_agrees_in_torch_and_in_single_precision,
]


# Rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowsCase:
    """``make(dtype)`` builds the rows; ``features(X)`` are their features and leftover variance, found naively."""

    label: str
    make: Callable[[Any], Any]
    features: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    n_columns: int = 3

    def data(self) -> np.ndarray:
        return np.random.default_rng(8).normal(size=(23, self.n_columns))


def moments_equal_loops(case: RowsCase) -> None:
    rows, X = case.make(np.float64), case.data()
    belief = random_belief(rows.n_weights)
    phi, leftover = case.features(X)
    wanted = references.moments_by_loops(phi, leftover, belief.mean, belief.covariance)
    latent = rows.lift(X).moments(belief)
    for got, part in zip(latent, wanted, strict=True):
        assert_allclose(got, part, rtol=1e-8, atol=1e-10)
    assert_allclose(latent.v, wanted[1] + wanted[2], rtol=1e-8, atol=1e-10)


def gather_equals_loops(case: RowsCase) -> None:
    rows, X = case.make(np.float64), case.data()
    w, b = np.linspace(0, 2, len(X)), np.linspace(-1, 3, len(X))
    wanted = references.gather_by_loops(case.features(X)[0], w, b)
    for got, part in zip(rows.lift(X).gather(w, b), wanted, strict=True):
        assert_allclose(got, part, rtol=1e-8, atol=1e-9)


def parts_add_up_to_the_whole(case: RowsCase) -> None:
    rows, X = case.make(np.float64), case.data()
    belief, y, weight = random_belief(rows.n_weights), np.sign(X[:, 0]), np.linspace(0, 3, len(X))

    def stats(part):
        return block_stats(rows.lift(X[part]), Hinge(), belief, y[part], weight[part])

    whole, parts = stats(slice(None)), add(stats(slice(0, 9)), stats(slice(9, None)))
    for got, wanted in zip(parts, whole, strict=True):
        assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


def rows_agree_in_torch_and_in_single_precision(case: RowsCase) -> None:
    X, w = case.data(), np.linspace(0, 2, 23)
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 2e-3)):
        rows = case.make(dtype)
        belief = random_belief(rows.n_weights)
        one = rows.lift(X)
        wanted = [*one.moments(belief), *one.gather(w, w)]
        for block in (X.astype(dtype), torch.from_numpy(X.astype(dtype))):
            features = rows.lift(block)
            same_w = w if isinstance(block, np.ndarray) else torch.from_numpy(w)
            got = [*features.moments(belief.seen_by(block)), *features.gather(same_w, same_w)]
            assert features.phi.dtype == block.dtype
            for part, exact in zip(got, wanted, strict=True):
                assert str(part.dtype).endswith("float64")
                assert_allclose(to_numpy(part), exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())


ROWS: list[Callable[[RowsCase], None]] = [
    moments_equal_loops,
    gather_equals_loops,
    parts_add_up_to_the_whole,
    rows_agree_in_torch_and_in_single_precision,
]


# Priors ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PriorCase:
    """``kl(belief)`` is the divergence found naively."""

    label: str
    prior: Any
    n_weights: int
    kl: Callable[[Belief], float]


def _sums(n_weights: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    phi = rng.normal(size=(2 * n_weights, n_weights))
    return phi.T @ phi, 3 * rng.normal(size=n_weights)


def _ascended(case: PriorCase) -> Belief:
    G, h = _sums(case.n_weights)
    belief, step = case.prior.update(G, h, None), 1.0
    while step > 1e-14:
        before, belief = belief, case.prior.update(G, h, belief)
        step = np.abs(belief.mean - before.mean).max() + np.abs(belief.covariance - before.covariance).max()
    return belief


def _fixed_site_objective(case: PriorCase, belief: Belief) -> float:
    """``E[h'u - u'Gu/2]`` as the rows see the weights, less the divergence."""
    (G, h), (m, *_) = _sums(case.n_weights), case.prior.effective(belief)
    second = case.prior.effective(belief).covariance + np.outer(m, m)
    return float(h @ m - 0.5 * np.sum(G * second) - case.prior.kl(belief))


def start_is_a_finite_belief(case: PriorCase) -> None:
    for reference in (np.zeros((1, 2), dtype=np.float32), torch.zeros((1, 2))):
        G, h = case.prior.start(reference)
        belief = case.prior.update(G, h, None)
        assert type(belief.mean) is type(reference)
        assert len(belief.mean) == case.n_weights
        assert np.abs(to_numpy(belief.covariance)).max() < 2
        assert np.isfinite(float(case.prior.kl(belief)))


def divergence_equals_the_naive_one(case: PriorCase) -> None:
    rng = np.random.default_rng(4)
    for size in (0.0, 0.01, 0.1, 0.3):
        belief = references.perturbed(_ascended(case), size, rng)
        divergence = float(case.prior.kl(belief))
        assert divergence >= 0
        assert_allclose(divergence, case.kl(belief), rtol=1e-9)


def update_maximises_the_objective_of_fixed_sites(case: PriorCase) -> None:
    rng = np.random.default_rng(4)
    best = _ascended(case)
    top = _fixed_site_objective(case, best)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            assert _fixed_site_objective(case, references.perturbed(best, size, rng)) < top


def update_never_descends(case: PriorCase) -> None:
    G, h = _sums(case.n_weights)
    belief = case.prior.update(0 * G + np.eye(len(h)), -h, None)
    for _ in range(5):
        after = case.prior.update(G, h, belief)
        assert _fixed_site_objective(case, after) >= _fixed_site_objective(case, belief) - 1e-10
        belief = after


def prior_agrees_in_torch(case: PriorCase) -> None:
    G, h = _sums(case.n_weights)
    ours, theirs = case.prior.update(G, h, None), case.prior.update(torch.from_numpy(G), torch.from_numpy(h), None)
    assert isinstance(theirs.mean, torch.Tensor)
    assert_allclose(to_numpy(theirs.mean), ours.mean, rtol=1e-9)
    assert_allclose(to_numpy(theirs.covariance), ours.covariance, rtol=1e-9, atol=1e-12)
    assert_allclose(float(case.prior.kl(theirs)), float(case.prior.kl(ours)), rtol=1e-10)


PRIOR: list[Callable[[PriorCase], None]] = [
    start_is_a_finite_belief,
    divergence_equals_the_naive_one,
    update_maximises_the_objective_of_fixed_sites,
    update_never_descends,
    prior_agrees_in_torch,
]
