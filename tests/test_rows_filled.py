"""Rows filled in one way and in another, in one class and in several."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
import references_grouped as dense
from softmargin import arrow
from softmargin.gaussian import ClassBelief
from softmargin.imputation import ColumnModel, Sums
from softmargin.likelihoods import AugmentedHinge, OneVersusRest
from softmargin.rows import ClasswiseRows, Factor, GroupedRows, IncompleteRows, LinearRows
from softmargin.rows.incomplete import _Gaps

N, D, K = 10, 4, 3
FIXED = LinearRows(np.array([0.3, -1.0, 0.0, 0.5]), np.array([2.0, 0.5, 1.0, 1.5]))
#: Four columns, then the codes of a factor with a slope and of a crossed one.
GROUPED = GroupedRows(FIXED, D, (Factor((0,), True, 4),), (3,), (), (), (Factor((), True, 5),), (2,))


class Case:
    """Rows of which some lack entries, and a belief about the weights of every class."""

    def __init__(self, rows: Any, n_classes: int, rng: np.random.Generator) -> None:
        self.rows, values = rows, rng.normal(size=(N, D)) @ (np.eye(D) + 0.4 * rng.normal(size=(D, D)))
        self.codes = rng.integers(3, size=N), rng.integers(2, size=N)
        X = np.column_stack([values, *self.codes])
        X[:, 1:D][rng.random((N, D - 1)) < 0.4] = np.nan  # groups have slopes in the first column
        self.X = X[:, :D] if rows is FIXED else X
        sums = Sums(values.sum(axis=0), values.T @ values, float(N))
        self.imputation = ColumnModel.standard(D).updated(sums)
        parts = tuple(self._belief(k) for k in range(n_classes))
        self.single = n_classes == 1
        self.belief = parts[0] if self.single else ClassBelief(parts, self.imputation)
        self.parts, self.y = parts, np.arange(N) % 3 * 1.0
        self.likelihood = AugmentedHinge() if self.single else OneVersusRest(AugmentedHinge())
        if self.single:
            self.y = np.where(self.y > 0, 1.0, -1.0)

    def _belief(self, seed):
        if self.rows is FIXED:
            return contracts.random_belief(FIXED.n_weights, seed)._replace(hyper=self.imputation)
        rng, layout = np.random.default_rng(seed), GROUPED.layout
        X = np.nan_to_num(self.X)
        G, h = GROUPED.lift(X).gather(rng.uniform(0.2, 2, size=N), rng.normal(size=N))
        precision = arrow.with_precision(G, [np.eye(2)], np.ones(layout.n_core))
        return arrow.from_natural(precision, h, layout, self.imputation)

    def lifted(self):
        rows = self.rows if self.single else ClasswiseRows(self.rows, len(self.parts))
        return IncompleteRows(rows, D).lift(self.X.copy())

    def with_dummies(self, filled):
        """The features of filled rows, one for each weight."""
        if self.rows is FIXED:
            return filled.phi
        one = np.ones((N, 1))
        of_level = np.column_stack([one, self.X[:, 0]]), self.codes[0], 3
        return dense.dense_features(filled.phi, [of_level], [(one, self.codes[1], 2)], GROUPED.layout)


@pytest.mark.parametrize("rows", [FIXED, GROUPED], ids=["linear", "groups"])
@pytest.mark.parametrize("n_classes", [1, K])
def test_a_row_varies_with_itself_filled_otherwise(rows, n_classes, rng):
    """``Cov(f, f') = phi' S phi'`` for two rows of features that are known."""
    case = Case(rows, n_classes, rng)
    features = case.lifted()
    before = features.foreseen(case.belief)
    after, _ = features.settled(case.belief, case.likelihood, case.y, np.ones(N))
    assert np.abs(after.phi - before.phi).max() > 0.01
    one, other = case.with_dummies(after), case.with_dummies(before)
    wanted = [np.einsum("ij,jk,ik->i", one, part.covariance, other) for part in case.parts]
    found = after.shared(before, case.belief)
    assert_allclose(found, wanted[0] if n_classes == 1 else np.column_stack(wanted), rtol=1e-8, atol=1e-10)
    assert_allclose(after.shared(after, case.belief), after.moments(case.belief).spread, rtol=1e-12)


@pytest.mark.parametrize("rows", [FIXED, GROUPED], ids=["linear", "groups"])
def test_rows_foreseen_are_the_same_for_every_class_by_itself(rows, rng):
    """No label has been seen, so entries do not depend on classes, and no class depends on another."""
    case = Case(rows, K, rng)
    latent = case.lifted().moments(case.belief)
    for k, part in enumerate(case.parts):
        alone = IncompleteRows(rows, D).lift(case.X.copy()).moments(part)
        for together, by_itself in zip(latent, alone, strict=True):
            assert_allclose(together[:, k], by_itself, rtol=1e-10)


@pytest.mark.parametrize("rows", [FIXED, GROUPED], ids=["linear", "groups"])
def test_classes_that_say_nothing_leave_entries_to_the_others(rows, rng):
    """With sites in one class alone, entries are those of a model of that class."""
    case = Case(rows, K, rng)
    w, b = np.zeros((N, K)), np.zeros((N, K))
    w[:, 1], b[:, 1] = rng.uniform(0.5, 2, size=N), rng.normal(size=N)
    together, alone = case.lifted(), IncompleteRows(rows, D).lift(case.X.copy())
    for batch in together.batches:
        ours = _Gaps.of(together._known(case.belief), batch).filled(w[batch.rows], b[batch.rows])
        theirs = _Gaps.of(alone._known(case.parts[1]), batch).filled(w[batch.rows, 1], b[batch.rows, 1])
        assert_allclose(ours.means, theirs.means, rtol=1e-9)
        assert_allclose(ours.covariances, theirs.covariances, rtol=1e-9)
        assert_allclose(ours.mu[:, 1], theirs.mu, rtol=1e-9)
        assert_allclose(ours.v[:, 1], theirs.v, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [1, K])
def test_rows_have_room_for_what_is_found_about_their_gaps(n_classes, rng):
    """Every other row lacks two of four columns: in the mean, an eighth of all pairs of columns in each class."""
    case = Case(FIXED, n_classes, rng)
    case.X = np.nan_to_num(case.X)
    case.X[::2, 1:3] = np.nan
    features = case.lifted()
    (batch,) = features.batches
    of_pairs = sum(u.second.size for u in _Gaps.of(features._known(case.belief), batch).weights)
    rows: Any = FIXED if n_classes == 1 else ClasswiseRows(FIXED, n_classes)
    assert features.base.phi.size + of_pairs == N * IncompleteRows(rows, D).width
