"""How weights and all else take turns inside one update of a structured prior, and what it says of steps."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import sqrtm

import references_grouped as dense
import references_structured as naive
from softmargin.arrays import NotPositiveDefiniteError, combined
from softmargin.arrow import Layout
from softmargin.gaussian import kl
from softmargin.priors import (
    Covariance,
    LaplaceZero,
    Part,
    Ridge,
    Standard,
    Structured,
    VarianceComponents,
    Variances,
    structured,
)


class Watched(Structured):
    """Remembers what was inferred beside the weights whenever these were asked for."""

    def given(self, G, h, hyper):
        self.__dict__.setdefault("asked", []).append(hyper)
        return super().given(G, h, hyper)


def sums(effects, seed, n_rows=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, len(effects)))
    return X.T @ X, X.T @ (X @ effects + rng.normal(size=n_rows))


def slopes(size, n_fixed=2, n_others=8):
    return np.append(np.ones(n_fixed), size * np.random.default_rng(1).normal(size=n_others))


FEW_MATTER = np.append([2.0, -2.0], np.zeros(10))
CASES = {
    "variances": (Structured(Ridge(np.ones(2)), (Part(2, 8, Variances(1, 0.1, 0.1)),)), slopes(3.0)),
    "of large weights": (Structured(Ridge(np.full(2, 1e-9)), (Part(2, 4, Covariance(2, 0.1)),)), slopes(1e3)),
    "of few rows": (Structured(VarianceComponents(np.array([0, 1])), (Part(2, 4, Covariance(2, 0.1)),)), slopes(0.1)),
    "columns that leave": (Structured(LaplaceZero(12, 0, 0.3)), FEW_MATTER),
    "columns that are held": (Structured(LaplaceZero(12, 0, 0.3, held=True)), FEW_MATTER),
    "columns and weights that never leave": (Structured(LaplaceZero(11, 1, 0.3, loose=1e-3)), FEW_MATTER[::-1]),
}


def at_rest(prior, before, after):
    """No precision and no inclusion probability moves by more than the tolerance, as a share of the largest."""
    pairs = [(prior._precision(hyper)[1] for hyper in (before, after))]
    if isinstance(prior.fixed, LaplaceZero):
        pairs.append(1 + hyper.fixed.included for hyper in (before, after))
    return all(np.abs(new - old).max() <= structured._INNER_TOLERANCE * np.abs(old).max() for old, new in pairs)


def columns(hyper):
    return hyper.fixed.included > 0.5 if hasattr(hyper.fixed, "included") else np.empty(0)


@pytest.mark.parametrize("n_updates", [1, 2, 15])
@pytest.mark.parametrize("case", CASES)
def test_turns_end_at_rest_or_after_a_few_in_the_first_that_moves_no_column(case, n_updates):
    plain, effects = CASES[case]
    G, h = sums(effects, seed=2, n_rows=14 if case == "of few rows" else 60)
    prior, belief = Watched(*plain), None
    for _ in range(n_updates):
        prior.__dict__["asked"] = []
        belief = prior.update(G, h, belief)
    asked = prior.__dict__["asked"]
    turns = list(itertools.pairwise(asked))
    most = structured._INNER_UPDATES

    def ends(turn):
        before, after = turns[turn]
        return at_rest(plain, before, after) or (turn + 1 >= most and np.array_equal(columns(before), columns(after)))

    assert [ends(turn) for turn in range(len(turns))] == [False] * (len(turns) - 1) + [True]
    if n_updates == 15:
        assert len(turns) == 1
    elif n_updates == 1:
        assert len(turns) > 1
        assert (len(turns) > most) == (case.startswith("columns") and "held" not in case)


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_one_update_comes_near_to_where_many_end_also_where_rows_tell_little(size):
    prior = Structured(Ridge(np.ones(2)), (Part(2, 4, Covariance(2, 0.1)),))
    G, h = sums(slopes(3.0), seed=2, n_rows=14)
    first = belief = prior.update(size**2 * G, size * h)
    for _ in range(6):
        belief = prior.update(size**2 * G, size * h, belief)
    # The updates of weights and of their covariance by turns alone would have gone half of the way.
    assert_allclose(first.hyper.parts[0].mean_precision, belief.hyper.parts[0].mean_precision, rtol=1e-2, atol=1e-3)


# Around a core ---------------------------------------------------------------------------------------------------

LAYOUT = Layout(((6, 1),), (), 4)


def arrow_sums(effects, seed):
    """Of rows in six groups, whose means differ from zero by the first six effects."""
    rng = np.random.default_rng(seed)
    group, X = rng.integers(6, size=80), rng.normal(size=(80, 4))
    X += 0.5 * (group[:, None] - 2.5)
    phi = np.concatenate([np.eye(6)[group], X], axis=1)
    return phi.T @ phi, phi.T @ (phi @ effects + 0.5 * rng.normal(size=80))


def test_what_groups_explain_does_not_speak_for_a_column():
    prior = Structured(LaplaceZero(4, 0, 0.5), (), (Variances(1, 1.0, 1.0),), LAYOUT)
    for seed in range(5):
        G, h = arrow_sums(np.append(2 * (np.arange(6) - 2.5), [1.0, 0.0, 0.0, 0.0]), seed)
        arrow = dense.arrow_from_dense(G, LAYOUT)
        hyper = prior.update(arrow, h).hyper
        hyper = hyper._replace(fixed=hyper.fixed._replace(included=np.full(4, 1e-12)))
        belief = prior.given(arrow, h, hyper)
        found = prior.alternatives(arrow, h, belief)
        # All are out: what is left of each column's pull is that of rows less the means of their groups.
        left = h[6:] - G[6:, :6] @ belief.mean[:6]
        odds = prior.fixed.odds_alone(hyper.fixed, G[6:, 6:], left, np.zeros(4))
        wanted = [column for column in np.argsort(-odds) if odds[column] > structured._LEAST_ODDS]
        assert [int(np.argmax(other.hyper.fixed.included)) for other in found] == wanted


def test_a_shift_is_what_is_left_of_the_change_at_the_mean(rng):
    prior = Structured(Ridge(np.ones(4)), (), (Variances(1, 1.0, 1.0),), LAYOUT)
    G, h = arrow_sums(rng.normal(size=10), 0)
    arrow = dense.arrow_from_dense(G, LAYOUT)
    belief = prior.update(arrow, h)
    shift = rng.normal(size=10)
    # A change of G at the mean moves the mean by nothing: with it a shift promises what it does alone.
    dG, along = dense.arrow_from_dense(0.1 * G, LAYOUT), 0.1 * G @ belief.mean
    covariances_alone = prior.promised(arrow, dG, along, belief)
    both = prior.promised(arrow, dG, along + shift, belief)
    alone = prior.promised(arrow, combined(dG, -1, dG), shift, belief)
    assert_allclose(both, covariances_alone + alone, rtol=1e-9)
    assert covariances_alone < both / 2


# Parts -----------------------------------------------------------------------------------------------------------


def test_weights_of_known_variance_are_weights_under_a_ridge(rng):
    """However they are called: fixed effects, or a part of variance one."""
    prior = Structured(Ridge(np.array([0.5, 2.0])), (Part(2, 3, Standard(2)),))
    whole = Ridge(np.append([0.5, 2.0], np.ones(6)))
    G, h = sums(rng.normal(size=8), seed=2)
    for belief in (prior.update(G, h), prior.update(*prior.start(np.zeros(1)))):
        assert_allclose(float(prior.kl(belief)), float(whole.kl(belief)), rtol=1e-12)
        assert_allclose(float(prior.kl(belief)), float(kl(belief, whole.precision, np.log(whole.precision).sum())))
    assert_allclose(prior.update(G, h).mean, whole.update(G, h).mean)


@pytest.mark.parametrize("leap", [False, True])
def test_what_is_learned_of_covariances_is_exactly_symmetric(leap, rng):
    prior, roots = Covariance(5), rng.normal(size=(40, 5, 5))
    blocks, means = roots @ roots.swapaxes(1, 2) / 50, rng.normal(size=(40, 5))
    scale = prior.learned(means, blocks, prior.begin(), leap).scale
    assert np.array_equal(scale, scale.T)


def test_a_leap_solves_its_equation(rng):
    prior, roots = Covariance(3, 0.5), rng.normal(size=(10, 3, 3))
    blocks, means = roots @ roots.swapaxes(1, 2) / 50, rng.normal(size=(10, 3)) @ np.diag([1.0, 2.0, 0.5])
    before = prior.learned(means[::-1] + 0.3, blocks, prior.begin())
    after = prior.learned(means, blocks, before, leap=True)
    at_first, X = (sqrtm(np.linalg.inv(hyper.mean_precision)).real for hyper in (before, after))
    undetermined = np.linalg.solve(at_first, np.linalg.solve(at_first, blocks.sum(axis=0)).T)
    explained = 0.5 * np.eye(3) + means.T @ means
    assert_allclose(after.dof * X @ X, explained + X @ undetermined @ X, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("fixed", [Ridge(np.ones(3)), VarianceComponents(np.array([0, 0, 1]))], ids=type)
def test_what_was_believed_before_does_not_count_where_nothing_leaps(fixed, rng):
    mean, variances = rng.normal(size=3), rng.uniform(size=3)
    before = fixed.learned(10 * mean, variances)
    assert_allclose(
        naive.flattened(fixed.learned(mean, variances, before)), naive.flattened(fixed.learned(mean, variances))
    )


def test_weights_that_vary_as_one_have_a_root():
    """Their correlations are one to the last digit."""
    sd = np.array([1.0, 2.0, 1e-9, 0.0, 3.0])
    root = structured._root(np.outer(sd, sd))
    assert_allclose(root.T @ root, np.outer(sd, sd), rtol=1e-12, atol=1e-290)
    assert np.array_equal(root, np.tril(root))
    with pytest.raises(NotPositiveDefiniteError):
        structured._root(np.array([[1.0, 2.0], [2.0, 1.0]]))
