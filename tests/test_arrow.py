import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import references_grouped as dense
from softmargin import arrow, gaussian
from softmargin.arrays import NotPositiveDefiniteError, combined
from softmargin.arrow import Layout

LAYOUTS = {
    "intercepts": Layout(((7, 1),), (), 4),
    "slopes": Layout(((5, 3),), (), 4),
    "one group": Layout(((1, 2),), (), 1),
    "two levels": Layout(((9, 2), (4, 1)), (np.array([0, 0, 1, 3, 1, 0, 3, 3, 1]),), 3),  # group 2 has no children
    "three levels": Layout(
        ((8, 1), (5, 3), (2, 2)), (np.array([4, 0, 0, 1, 1, 2, 3, 3]), np.array([0, 1, 1, 0, 1])), 3
    ),
    "no levels": Layout((), (), 5),
    "no core": Layout(((6, 2), (3, 1)), (np.array([0, 2, 2, 1, 0, 1]),), 0),
}


@pytest.fixture(params=LAYOUTS, ids=str)
def layout(request):
    return LAYOUTS[request.param]


def random_arrow(layout, rng, n_rows=60, ridge=0.3):
    """Sums over random rows, each in one group of every level: positive definite, and an arrow by construction."""
    n, phi = layout.n_weights, []
    for _ in range(n_rows):
        row = np.zeros(n)
        row[n - layout.n_core :] = rng.normal(size=layout.n_core)
        if layout.sizes:
            for pair in dense.ancestors(layout, 0, rng.integers(layout.sizes[0][0])):
                places = dense.places(layout, *pair)
                row[places] = rng.normal(size=len(places))
        phi.append(row)
    matrix = np.array(phi).T @ np.array(phi) + ridge * np.eye(n)
    return dense.arrow_from_dense(matrix, layout), matrix


def beliefs(layout, rng):
    """One Gaussian as an arrow and densely."""
    G, matrix = random_arrow(layout, rng)
    h = rng.normal(size=layout.n_weights)
    return arrow.from_natural(G, h, layout, hyper="kept"), gaussian.from_natural(matrix, h)


def assert_arrows_equal(got, wanted, **tolerance):
    for one, other in zip(got[0], wanted[0], strict=True):
        assert_allclose(one[0], other[0], **tolerance)
        assert_allclose(one[1], other[1], **tolerance)
    assert_allclose(got[1], wanted[1], **tolerance)


def test_the_reference_and_the_layout_agree_on_places(layout, rng):
    G, matrix = random_arrow(layout, rng)
    assert_allclose(dense.dense_from_arrow(G, layout), matrix)
    places = np.arange(layout.n_weights)
    levels, core = layout.split(places)
    for level, (J, q) in enumerate(layout.sizes):
        assert levels[level].shape == (J, q)
        assert levels[level].ravel().tolist() == places[layout.of_level(level)].tolist()
        assert levels[level][J - 1].tolist() == dense.places(layout, level, J - 1)
        assert layout.width(level) == len(dense.path_places(layout, level, 0))
        path = layout.on_path(level, levels, core)
        assert path.tolist() == [dense.path_places(layout, level, group) for group in range(J)]
    assert core.tolist() == places[layout.core].tolist()
    assert layout.joined(levels, core).tolist() == places.tolist()
    draws = rng.normal(size=(3, layout.n_weights))
    assert_allclose(layout.joined(*layout.split(draws)), draws)


def test_moments_are_those_of_the_dense_gaussian(layout, rng):
    belief, wanted = beliefs(layout, rng)
    assert_allclose(belief.mean, wanted.mean, rtol=1e-9, atol=1e-10)
    assert_allclose(belief.log_det, wanted.log_det, rtol=1e-10)
    assert_allclose(belief.variances, wanted.variances, rtol=1e-9)
    assert_allclose(belief.covariance, wanted.covariance, rtol=1e-8, atol=1e-11)
    blocks = belief.blocks, belief.core_covariance
    assert_arrows_equal(blocks, dense.arrow_from_dense(wanted.covariance, layout), rtol=1e-8, atol=1e-11)
    assert_allclose(belief.core_root.T @ belief.core_root, belief.core_covariance, rtol=1e-10, atol=1e-12)
    assert_allclose(belief.core_root, np.tril(belief.core_root))
    assert belief.hyper == "kept"


def test_accessors_name_parts_of_the_same_moments(layout, rng):
    belief, wanted = beliefs(layout, rng)
    for level in range(layout.n_levels):
        means, covariances = belief.level(level)
        for group in range(layout.sizes[level][0]):
            own = dense.places(layout, level, group)
            assert_allclose(means[group], wanted.mean[own], rtol=1e-9, atol=1e-10)
            assert_allclose(covariances[group], wanted.covariance[np.ix_(own, own)], rtol=1e-8, atol=1e-11)
    assert_allclose(belief.core_mean, wanted.mean[layout.core], rtol=1e-9, atol=1e-10)
    assert_allclose(belief.core_covariance, wanted.covariance[layout.core, layout.core], rtol=1e-8, atol=1e-11)


def test_inputs_are_left_alone(layout, rng):
    G, _ = random_arrow(layout, rng)
    h = rng.normal(size=layout.n_weights)
    kept = copy.deepcopy((G, h))
    belief = arrow.from_natural(G, h, layout)
    arrow.times(G, belief.mean, layout)
    belief.felt(G, h)
    assert_arrows_equal(G, kept[0], rtol=0)
    assert_array_equal(h, kept[1])


def test_changes_are_felt_as_by_the_dense_belief(layout, rng):
    belief, wanted = beliefs(layout, rng)
    (G, dense_G), (other, dense_other) = random_arrow(layout, rng), random_arrow(layout, rng)
    h, other_h = rng.normal(size=(2, layout.n_weights))
    one, two = belief.felt(G, h), belief.felt(other, other_h)
    dense_one, dense_two = wanted.felt(dense_G, h), wanted.felt(dense_other, other_h)
    assert one.ndim == 1
    assert_allclose([one @ one, one @ two], [dense_one @ dense_one, dense_one @ dense_two], rtol=1e-8)
    assert_allclose(belief.felt(*combined((G, h), -1, (G, h))), 0, atol=1e-12)


def test_distance_of_means_is_that_of_the_dense_belief(layout, rng):
    (belief, wanted), (other, wanted_other) = beliefs(layout, rng), beliefs(layout, rng)
    assert_allclose(belief.moved_from(other), wanted.moved_from(wanted_other), rtol=1e-8)


def test_product_with_a_vector(layout, rng):
    G, matrix = random_arrow(layout, rng)
    x = rng.normal(size=layout.n_weights)
    assert_allclose(arrow.times(G, x, layout), matrix @ x, rtol=1e-10, atol=1e-10)


def random_prior(layout, rng):
    """A precision for each level's columns and a diagonal for the core, and both as one matrix."""
    levels = [np.cov(rng.normal(size=(q, 9))).reshape(q, q) for _, q in layout.sizes]
    core, whole = rng.uniform(size=layout.n_core), np.zeros((layout.n_weights,) * 2)
    for level, (J, _) in enumerate(layout.sizes):
        for group in range(J):
            own = dense.places(layout, level, group)
            whole[np.ix_(own, own)] = levels[level]
    whole[layout.core, layout.core] = np.diag(core)
    return levels, core, whole


def test_prior_precisions_are_added_to_every_group(layout, rng):
    G, matrix = random_arrow(layout, rng)
    levels, core, whole = random_prior(layout, rng)
    for precision in (core, np.diag(core)):
        got = arrow.with_precision(G, levels, precision)
        assert_allclose(dense.dense_from_arrow(got, layout), matrix + whole, rtol=1e-12)


def test_energy_is_that_of_the_dense_belief(layout, rng):
    belief, wanted = beliefs(layout, rng)
    levels, core, whole = random_prior(layout, rng)
    energy = np.trace(whole @ wanted.covariance) + wanted.mean @ whole @ wanted.mean
    for precision in (core, np.diag(core)):
        assert_allclose(belief.energy((levels, precision)), energy, rtol=1e-9)


def test_no_rows_add_nothing(layout, rng):
    some, matrix = random_arrow(layout, rng)
    G, h = arrow.zeros(layout)
    assert_allclose(dense.dense_from_arrow(combined(some, 1, G), layout), matrix)
    assert h.shape == (layout.n_weights,)
    assert not h.any()


def test_core_weights_may_be_chosen(layout, rng):
    """Everything that rows see of the core times independent 0/1 variables, against sums over their values."""
    (G, matrix), (belief, wanted) = random_arrow(layout, rng), beliefs(layout, rng)
    inclusion = rng.uniform(size=layout.n_core)
    all_inclusion = np.append(np.ones(layout.n_weights - layout.n_core), inclusion)
    second = np.outer(all_inclusion, all_inclusion)
    second[np.diag_indices_from(second)] = all_inclusion
    core = layout.core
    scaled = arrow.scaled_core(G, second[core, core], inclusion)
    assert_allclose(dense.dense_from_arrow(scaled, layout), matrix * second, rtol=1e-12)
    seen_mean = all_inclusion * wanted.mean
    moments = wanted.covariance + np.outer(wanted.mean, wanted.mean)
    seen_covariance = second * moments - np.outer(seen_mean, seen_mean)
    root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(seen_covariance[core, core])))  # lower triangular
    seen = arrow.through_core(belief, inclusion, root)
    assert_allclose(seen.mean, seen_mean, rtol=1e-9, atol=1e-10)
    blocks = dense.arrow_from_dense(seen_covariance, layout)
    assert_arrows_equal((seen.blocks, seen.core_covariance), blocks, rtol=1e-7, atol=1e-10)
    outside = slice(0, core.start)
    coupling = np.sum((matrix * moments)[outside, core], axis=0)
    assert_allclose(arrow.coupling(G, belief), coupling, rtol=1e-8, atol=1e-9)
    pulled = wanted.mean[outside] @ matrix[outside, core]
    assert_allclose(arrow.pulled_from_core(G, belief.mean, layout), pulled, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seeded", [np.random.RandomState, np.random.default_rng])
def test_draws_have_the_moments_of_the_belief(layout, seeded, rng):
    belief, wanted = beliefs(layout, rng)
    draws = belief.sample(200_000, seeded(1))
    sd = np.sqrt(wanted.variances)
    # Means of 2e5 draws have a standard error of .0022 sd, covariances at most .0032 sd sd: six of them.
    assert_allclose((draws.mean(axis=0) - wanted.mean) / sd, 0, atol=0.013)
    assert_allclose((np.cov(draws.T) - wanted.covariance) / np.outer(sd, sd), 0, atol=0.019)


def test_rows_see_it_in_their_own_dtype(layout, rng):
    belief, _ = beliefs(layout, rng)
    seen = belief.seen_by(np.zeros(1, dtype=np.float32))
    parts = [seen.mean, seen.core_root, seen.core_covariance, *(part for pair in seen.blocks for part in pair)]
    assert all(part.dtype == np.float32 for part in parts)
    assert_allclose(seen.variances, belief.variances, rtol=1e-5)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("name", ["intercepts", "slopes", "two levels", "three levels"])
def test_what_is_no_precision_is_refused_by_name_wherever_it_is(name, bad, rng):
    layout = LAYOUTS[name]
    for where in range(layout.n_levels + 1):
        levels, core = random_arrow(layout, rng)[0]
        block = core if where == layout.n_levels else levels[where][0][-1]
        block[-1, -1] = bad
        with pytest.raises(NotPositiveDefiniteError):
            arrow.from_natural((levels, core), np.zeros(layout.n_weights), layout)


def test_couplings_stronger_than_the_blocks_are_refused(rng):
    layout = LAYOUTS["two levels"]
    (levels, core), _ = random_arrow(layout, rng)
    for level in range(layout.n_levels):
        strong = tuple((A, C * 30 if k == level else C) for k, (A, C) in enumerate(levels))
        with pytest.raises(NotPositiveDefiniteError):
            arrow.from_natural((strong, core), np.zeros(layout.n_weights), layout)
