"""Variances that are inferred beside the weights: when their turns end, and what a step that is cut short leaves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from softmargin.priors import VarianceComponents, variance


class Watched(VarianceComponents):
    """Remembers what was believed of the variances whenever weights were asked for."""

    def given(self, G, h, hyper):
        self.__dict__.setdefault("asked", []).append(hyper)
        return super().given(G, h, hyper)


def sums(effects, seed=0, n_rows=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, len(effects)))
    return X.T @ X, X.T @ (X @ effects + rng.normal(size=n_rows))


SIZES = {"alike": (1.0, 1.0), "large": (1e3, 1e3), "small": (1e-3, 1e-3), "both": (1e-2, 1e3)}


@pytest.mark.parametrize("n_updates", [1, 2, 10])
@pytest.mark.parametrize("sizes", SIZES)
def test_turns_end_once_all_variances_are_at_rest(sizes, n_updates):
    one, other = SIZES[sizes]
    G, h = sums(np.append(one * np.arange(1, 5), other * np.arange(1, 5)))
    prior, belief = Watched(np.repeat([0, 1], 4)), None
    for _ in range(n_updates):
        prior.__dict__["asked"] = []
        belief = prior.update(G, h, belief)
    ends = []
    for hyper in prior.__dict__["asked"]:
        weights = VarianceComponents.given(prior, G, h, hyper)
        after = prior.learned(weights.mean, weights.variances, hyper, leap=True)
        moved = np.abs(after.mean_precision / hyper.mean_precision - 1)
        ends.append(bool(moved.max() <= variance._INNER_TOLERANCE))
    assert ends[:-1] == [False] * (len(ends) - 1)
    assert ends[-1] or len(ends) == variance._INNER_UPDATES
    assert len(ends) > 1 or n_updates > 1
    assert len(ends) == 1 or n_updates < 10


def test_groups_that_never_meet_are_inferred_as_if_each_were_alone():
    of_one, of_other = sums([1.0, -2.0, 3.0], 0), sums([0.1, -0.1, 0.2, 0.1], 1)
    G = np.zeros((7, 7))
    G[:3, :3], G[3:, 3:] = of_one[0], of_other[0]
    both = VarianceComponents(np.array([0, 0, 0, 1, 1, 1, 1])).update(G, np.append(of_one[1], of_other[1]))
    apart = [VarianceComponents(np.zeros(len(h), int)).update(G, h) for G, h in (of_one, of_other)]
    assert_allclose(both.mean, np.concatenate([part.mean for part in apart]), rtol=1e-4)
    assert_allclose(both.hyper.rate, np.concatenate([part.hyper.rate for part in apart]), rtol=1e-4)


def test_what_is_settled_implies_the_same_weights():
    prior = VarianceComponents(np.array([0, 0, 1, 1, -1]))
    G, h = sums([1.0, -1.0, 5.0, 3.0, 1.0])
    belief = prior.given(G, h, prior.begin())
    settled, same = prior.settled(G, belief)
    assert_allclose(same.hyper.rate, prior.learned(belief.mean, belief.variances).rate)
    assert np.all(np.abs(same.hyper.mean_precision / belief.hyper.mean_precision - 1) > 0.1)
    again = prior.given(settled, h, same.hyper)
    assert_allclose(again.mean, belief.mean, rtol=1e-10)
    assert_allclose(again.covariance, belief.covariance, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("group", "n"), [([-1, -1], 0), ([0, 0, -1], 1), ([0, 1, 1], 2)])
def test_there_are_as_many_variances_as_groups(group, n):
    assert VarianceComponents(np.array(group)).n_components == n
