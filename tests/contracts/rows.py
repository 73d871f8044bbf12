"""What every kind of rows must do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.testing import assert_allclose

import references
from contracts.common import random_belief
from softmargin.arrays import to_numpy
from softmargin.engine import add, block_stats
from softmargin.likelihoods import Hinge


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
