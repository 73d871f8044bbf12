"""Priors of weights of several kinds, around a core or in it, and beside a model of the columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import references_grouped as dense
import references_structured as naive
from softmargin.arrays import NotPositiveDefiniteError, combined
from softmargin.arrow import Layout
from softmargin.imputation import ColumnModel
from softmargin.priors import (
    Covariance,
    Imputing,
    LaplaceZero,
    Part,
    Ridge,
    Structured,
    VarianceComponents,
    Variances,
)

LAYOUT = Layout(((9, 2), (4, 1)), (np.array([0, 0, 1, 3, 1, 0, 3, 3, 1]),), 4 + 5 * 2)
FIXED = {
    "ridge": Ridge(np.array([0.5, 1.0, 2.0, 1e-3])),
    "matrix": Ridge(np.eye(4) + 0.2),
    "variances": VarianceComponents(np.array([0, 0, 1, -1]), 0.5, 0.3, 1e-3),
    "chosen": LaplaceZero(3, 1, 0.4, 0.5, 0.3, 1e-3),
    "chosen, share inferred": LaplaceZero(3, 1, None, 0.5, 0.3, 1e-3),
}
COLUMNS = ColumnModel(np.array([0.2, -0.1, 0.0]), np.array([1.0, 0.8, 1.2]), 3.0, 0.5)


def column_sums(rng, n=30):
    values = rng.normal(size=(n, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.2], [0, 0, 1]])
    return values.sum(axis=0), values.T @ values, float(n)


class Twins:
    """One prior of two levels of groups and a crossed factor: around a core, and all of it in the core."""

    def __init__(self, fixed):
        levels, crossed = (Covariance(2, 0.1), Variances(1, half_cauchy=1.0)), Variances(2, 0.3, 0.2)
        part = Part(4, 5, crossed)
        self.arrow = Structured(fixed, (part,), levels, LAYOUT)
        self.dense = Structured(fixed, (part, Part(14, 9, levels[0]), Part(14 + 18, 4, levels[1])))
        #: The place of each weight of the arrow among the dense ones.
        self.order = np.concatenate([np.arange(14, 36), np.arange(14)])

    def sums(self, rng, n_rows=40):
        """Of rows with a group in each factor: as an arrow, densely, and in the order of the dense prior."""
        phi = np.zeros((n_rows, LAYOUT.n_weights))
        for row in phi:
            row[22:26] = rng.normal(size=4)
            crossed = rng.integers(5)
            row[26 + 2 * crossed : 28 + 2 * crossed] = 1, rng.normal()
            for pair in dense.ancestors(LAYOUT, 0, rng.integers(9)):
                places = dense.places(LAYOUT, *pair)
                row[places] = rng.normal(size=len(places))
        w = rng.uniform(0.3, 2, size=n_rows)
        G, h = (phi.T * w) @ phi, phi.T @ (w * (phi @ rng.normal(size=36)) + rng.normal(size=n_rows))
        back = np.argsort(self.order)
        return (dense.arrow_from_dense(G, LAYOUT), h), naive.permuted(G, h, back)


def twins_of(request) -> Twins:
    return Twins(FIXED[request.param])


twins = pytest.fixture(twins_of, params=FIXED)


def assert_same_beliefs(twins, one, other, rtol=1e-8):
    """An arrow and a dense belief say the same of every weight, and of all else."""
    order = twins.order
    assert_allclose(one.mean, other.mean[order], rtol=rtol, atol=1e-9)
    covariance = other.covariance[np.ix_(order, order)]
    levels, core = dense.arrow_from_dense(covariance, LAYOUT)
    for got, wanted in zip(one.blocks, levels, strict=True):
        assert_allclose(got[0], wanted[0], rtol=rtol, atol=1e-10)
        assert_allclose(got[1], wanted[1], rtol=rtol, atol=1e-10)
    assert_allclose(one.core_covariance, core, rtol=rtol, atol=1e-10)
    assert_allclose(one.core_root.T @ one.core_root, core, rtol=rtol, atol=1e-10)
    flat, other_flat = naive.flattened(one.hyper), naive.flattened(other.hyper._replace(parts=other.hyper.parts[:1]))
    levels = naive.flattened(other.hyper.parts[1:])
    assert_allclose(flat, np.concatenate([other_flat, levels]), rtol=1e-6, atol=1e-9)


def test_arrows_and_dummies_lead_to_the_same_beliefs(twins, rng):
    (G, h), (full, full_h) = twins.sums(rng)
    one = other = None
    for _ in range(4):
        one, other = twins.arrow.update(G, h, one), twins.dense.update(full, full_h, other)
        assert_same_beliefs(twins, one, other)
        assert_same_beliefs(twins, twins.arrow.effective(one), twins.dense.effective(other))
        assert_allclose(float(twins.arrow.kl(one)), float(twins.dense.kl(other)), rtol=1e-9)
    settled, same = twins.arrow.settled(G, one)
    other_settled, other_same = twins.dense.settled(full, other)
    assert_same_beliefs(twins, same, other_same)
    matrix = dense.dense_from_arrow(settled, LAYOUT)
    assert_allclose(matrix, other_settled[np.ix_(twins.order, twins.order)], rtol=1e-7, atol=1e-7)


def test_changes_are_felt_alike(twins, rng):
    changes = [twins.sums(rng) for _ in range(2)]
    (G, h), (full, full_h) = twins.sums(rng)
    one, other = twins.arrow.update(G, h), twins.dense.update(full, full_h)
    felt = [(twins.arrow.felt(one, *c[0]), twins.dense.felt(other, *c[1])) for c in changes]
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert_allclose(felt[i][0] @ felt[j][0], felt[i][1] @ felt[j][1], rtol=1e-8)


def naive_objective(prior, belief, G, h):
    """`fixed_site_objective` of an arrow, by its dense form."""
    seen = prior.effective(belief)
    linear, matrix = h @ seen.mean, dense.dense_from_arrow(G, LAYOUT)
    S = dense.dense_from_arrow((seen.blocks, seen.core_covariance), LAYOUT)
    return float(linear - 0.5 * np.sum(matrix * (S + np.outer(seen.mean, seen.mean))) - prior.kl(belief))


def test_updates_never_lower_the_objective_of_fixed_sums(twins, rng):
    for scale in (0.05, 1.0, 30.0):
        (G, h), _ = twins.sums(rng)
        G, h = combined(G, scale - 1, G), scale**0.5 * h
        belief = twins.arrow.update(*twins.sums(rng)[0])
        for _ in range(8):
            before, belief = belief, twins.arrow.update(G, h, belief)
            gain = naive_objective(twins.arrow, belief, G, h) - naive_objective(twins.arrow, before, G, h)
            assert gain > -1e-8


def test_parts_of_one_turn_never_lower_it_either(twins, rng):
    (G, h), _ = twins.sums(rng)
    prior = twins.arrow
    belief = prior.given(G, h, prior._begin())
    for _ in range(6):
        value = naive_objective(prior, belief, G, h)
        moments = prior._moments(belief)
        belief = belief._replace(hyper=prior._learned(moments, belief.hyper))
        learned = naive_objective(prior, belief, G, h)
        belief = belief._replace(hyper=prior._chosen(belief.hyper, G, h, belief, moments))
        chosen = naive_objective(prior, belief, G, h)
        belief = prior.given(G, h, belief.hyper)
        assert value - 1e-9 <= learned <= chosen + 1e-9
        assert naive_objective(prior, belief, G, h) >= chosen - 1e-9


def test_updates_end_at_a_top(twins, rng):
    """Nearby beliefs about weights and variances are worse."""
    (_, _), (G, h) = twins.sums(rng)
    prior = twins.dense
    belief = prior.update(G, h)
    for _ in range(60):
        belief = prior.update(G, h, belief)
    top = naive.fixed_site_objective(prior, belief, G, h)
    for size in (1e-3, 1e-2):
        for _ in range(5):
            root = belief.root * np.exp(size * rng.normal(size=belief.root.shape))
            log_det = 2 * np.sum(np.log(np.diag(root)))
            others = [
                belief._replace(mean=belief.mean + size * rng.normal(size=36)),
                belief._replace(root=root, log_det=log_det),
            ]
            for index, of_part in enumerate(belief.hyper.parts):
                for bent in naive.neighbours(of_part, size, rng):
                    parts = list(belief.hyper.parts)
                    parts[index] = bent
                    others.append(belief._replace(hyper=belief.hyper._replace(parts=tuple(parts))))
            for other in others:
                assert naive.fixed_site_objective(prior, other, G, h) < top + 1e-9


@pytest.mark.parametrize("updates", [0, 1, 3])
def test_what_is_settled_implies_the_same_weights(twins, updates, rng):
    (G, h), (full, full_h) = twins.sums(rng)
    for prior, sums, linear in ((twins.arrow, G, h), (twins.dense, full, full_h)):
        hyper = prior._begin()
        for _ in range(updates):
            hyper = prior.update(sums, linear, None if hyper is None else prior.given(sums, linear, hyper)).hyper
        belief = prior.given(sums, linear, hyper)
        settled, same = prior.settled(sums, belief)
        again = prior.given(settled, linear, same.hyper)
        assert_allclose(again.mean, belief.mean, rtol=1e-8, atol=1e-10)
        assert_allclose(again.covariance, belief.covariance, rtol=1e-7, atol=1e-10)
        assert_allclose(same.mean, belief.mean, rtol=0)
        moments = prior._moments(belief)
        for part, of_part, old in zip(prior.parts, same.hyper.parts, hyper.parts, strict=True):
            means, S = moments.mean[part.where], moments.covariance
            blocks = np.array([S[np.ix_(row, row)] for row in part.where])
            wanted = part.prior.learned(means, blocks, old)
            assert_allclose(naive.flattened(of_part), naive.flattened(wanted), rtol=1e-10)


def test_starts_are_finite_beliefs_about_nothing(twins):
    for prior in (twins.arrow, twins.dense):
        G, h = prior.start(np.zeros((1, 2), dtype=np.float32))
        belief = prior.update(G, h)
        assert not belief.mean.any()
        assert np.all(np.isfinite(belief.variances) & (belief.variances > 0))
        assert np.isfinite(float(prior.kl(belief)))
        first = prior.given(G, h, prior._begin())
        assert first.variances.max() <= 1 + 1e-9
        assert np.linalg.eigvalsh(first.covariance).min() > 0


def test_sums_that_no_rows_have_are_refused_or_end_finite(twins, rng):
    """Extrapolated sums may leave groups with more variance than their prior: a belief, or an error that says so."""
    (G, h), (full, full_h) = twins.sums(rng)
    for prior, sums, linear in ((twins.arrow, G, h), (twins.dense, full, full_h)):
        belief = prior.update(sums, linear)
        for rate in (-1.02, -1.2, -2.0, -20.0):
            try:
                found = prior.update(combined(sums, rate, sums), linear, belief)
            except NotPositiveDefiniteError:
                continue
            assert np.isfinite(found.mean).all()


def test_draws_given_sums(twins, rng):
    """Weights from the belief, then covariances given the weights: moments of the first turn."""
    (G, h), _ = twins.sums(rng, n_rows=60)
    prior = twins.arrow
    if isinstance(prior.fixed, LaplaceZero):
        return  # drawn with their inclusion variables, above
    belief = prior.given(G, h, prior.update(G, h).hyper)
    weights, hypers = zip(*(prior.drawn(G, h, belief, rng) for _ in range(1500)), strict=True)
    weights = np.array(weights)
    naive.agrees(weights, belief.mean)
    naive.agrees((weights - belief.mean) ** 2, belief.variances)
    assert prior.seen_weights(weights, hypers[0]) is weights
    # E (E tau | u) = (a + J/2) / (b + sum u^2 / 2), averaged over the draws.
    u = weights[:, 26:].reshape(-1, 5, 2)
    precision = np.array([hyper.parts[0].variance.mean_precision for hyper in hypers])
    naive.agrees(precision * (0.2 + 0.5 * np.sum(u**2, axis=1)), 0.3 + 5 / 2)
    of_level = np.array([hyper.levels[0].mean_precision for hyper in hypers])
    slopes = weights[:, :18].reshape(-1, 9, 2)
    scales = 0.1 * np.eye(2) + np.einsum("nja,njb->nab", slopes, slopes)
    naive.agrees(of_level @ scales, (3 + 9) * np.eye(2))


def test_inclusion_variables_are_drawn_alike(twins, rng):
    """Given the same weights and the same random numbers."""
    if not isinstance(twins.arrow.fixed, LaplaceZero):
        return
    (G, h), (full, full_h) = twins.sums(rng, n_rows=12)
    hyper, other_hyper = twins.arrow._begin(), twins.dense._begin()
    for seed in range(20):
        weights = rng.normal(size=36)
        found, drawn = twins.arrow._rechosen(hyper, G, h, weights, np.random.default_rng(seed))
        dense_weights = weights[np.argsort(twins.order)]
        wanted, other = twins.dense._rechosen(other_hyper, full, full_h, dense_weights, np.random.default_rng(seed))
        assert_allclose(found, wanted[twins.order], rtol=1e-8, atol=1e-10)
        assert_allclose(drawn.fixed.included, other.fixed.included)
        assert_allclose(found[:22], weights[:22])
        assert_allclose(twins.arrow.seen_weights(found, drawn)[22:25], found[22:25] * drawn.fixed.included)


def test_alternatives_are_alike(twins, rng):
    (G, h), (full, full_h) = twins.sums(rng)
    one, other = twins.arrow.update(G, h), twins.dense.update(full, full_h)
    found, wanted = twins.arrow.alternatives(G, h, one), twins.dense.alternatives(full, full_h, other)
    assert len(found) == len(wanted)
    assert bool(found) == isinstance(twins.arrow.fixed, LaplaceZero)
    for belief, same in zip(found, wanted, strict=True):
        assert_allclose(belief.hyper.fixed.included, same.hyper.fixed.included, atol=1e-8)
    beside = Imputing(twins.arrow, COLUMNS, 30.0)
    belief = beside.update((G, column_sums(rng)), h)
    for got, belief_alone in zip(beside.alternatives((G, None), h, belief), found, strict=True):
        assert_allclose(got.hyper.weights.fixed.included, belief_alone.hyper.fixed.included, atol=1e-8)
        assert got.hyper.columns is belief.hyper.columns


def test_population_of_levels_and_parts(twins, rng):
    belief = twins.arrow.update(*twins.sums(rng)[0])
    levels, parts = twins.arrow.population(belief.hyper)
    assert_allclose(levels[0], belief.hyper.levels[0].mean)
    assert_allclose(levels[1], np.diag(belief.hyper.levels[1].variance.mean))
    assert_allclose(parts[0], np.diag(belief.hyper.parts[0].variance.mean))
