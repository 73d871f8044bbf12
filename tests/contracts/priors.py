"""What every prior must do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

import references
from softmargin.arrays import to_numpy
from softmargin.gaussian import Belief


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
