"""The rivals of the benchmarks, where they are easily wrong: slopes written by hand, merging, votes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).parents[1] / "benchmarks" / "kernel_rivals.py"


@pytest.fixture(scope="module")
def rivals() -> Any:
    if not PATH.exists():
        pytest.skip("without benchmarks")
    spec: Any = importlib.util.spec_from_file_location("kernel_rivals", PATH)
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["kernel_rivals"] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    yield module
    del sys.modules["kernel_rivals"]


def ring(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes by distance from the origin, which no line divides; the third column says nothing."""
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 3))
    return X, np.array(["in", "mid", "out"])[np.digitize(np.hypot(X[:, 0], X[:, 1]), [0.5, 0.9])]


@pytest.mark.parametrize("has_phases", [False, True])
def test_slopes_are_finite_differences(rivals: Any, has_phases: bool) -> None:
    rng = np.random.default_rng(0)
    frequencies = rng.standard_normal((3, 8 if has_phases else 4))
    phases = rng.uniform(0, 6, 8) if has_phases else None
    weights, offset, log_scales = rng.standard_normal((8, 3)), rng.standard_normal(3), rng.standard_normal(3)
    X, codes = rng.standard_normal((6, 3)), np.array([0, 1, 2, 0, 1, 1])
    model = rivals.Fourier(frequencies, phases, weights, offset, log_scales)
    found = model.slopes(X, codes, 0.1, True)
    for parameter, slopes in zip((weights, offset, log_scales), found, strict=True):
        expected = np.zeros_like(parameter)
        for index in np.ndindex(parameter.shape):
            kept = parameter[index]
            parameter[index] = kept + 1e-5
            above = model.objective(X, codes, 0.1)
            parameter[index] = kept - 1e-5
            expected[index] = (above - model.objective(X, codes, 0.1)) / 2e-5
            parameter[index] = kept
        # The size of features is a float32 number in both; differences in double precision have errors of 1e-10.
        np.testing.assert_allclose(slopes, expected, atol=1e-8)


@pytest.mark.parametrize("has_phases", [False, True])
def test_features_have_the_kernel(rivals: Any, has_phases: bool) -> None:
    # Errors are about D^-1/2 = .01 with 10,000 frequencies.
    name = "FKL" if has_phases else "RRF"
    model = getattr(rivals, name)(n_frequencies=10_000)._first(2, 2, 3.0, np.random.default_rng(0))
    X = np.random.default_rng(1).uniform(-1, 1, (5, 2))
    phi = model.features(*model.waves(X))
    np.testing.assert_allclose(phi @ phi.T, np.exp(rivals.log_kernel(X, X, 3.0)), atol=0.04)


def test_merging_is_the_best_point_between(rivals: Any) -> None:
    """Of three points the two that are near become one; by brute force no h and no coefficient loses less."""
    points = np.array([[0.0, 0.0], [0.6, 0.0], [5.0, 5.0]])
    coefficients = np.array([[0.5, -0.5], [0.9, -0.6], [2.0, -2.0]])
    merged = rivals.merged(rivals.Points(points, coefficients, 1.0), 2)
    assert sorted(merged.points[:, 0])[1] == 5.0
    new = int(merged.points[:, 0].argmin())
    z, c = merged.points[new], merged.coefficients[new]

    def lost(z: np.ndarray, c: np.ndarray) -> float:
        k = np.exp(rivals.log_kernel(*[np.vstack([points[:2], z])] * 2, 1.0))
        a = np.vstack([coefficients[:2], -c])
        return float(np.sum((k @ a) * a))

    shares = np.linspace(0, 1, 201)
    assert lost(z, c) <= min(lost(h * points[0] + (1 - h) * points[1], c) for h in shares) + 1e-6
    for change in 0.01 * np.vstack([np.eye(2), -np.eye(2)]):
        assert lost(z, c) < lost(z, c + change)


def test_merging_points_of_opposite_classes_keeps_the_greater(rivals: Any) -> None:
    points = np.array([[0.0], [3.0]])
    coefficients = np.array([[0.1, -0.1], [-2.0, 2.0]])
    merged = rivals.merged(rivals.Points(points, coefficients, 1.0), 1)
    np.testing.assert_allclose(merged.points, [[3.0]], atol=1e-3)  # golden section stops within .2 * .618^12
    np.testing.assert_allclose(merged.coefficients, [[-2.0, 2.0]], atol=1e-2)


@pytest.mark.parametrize("name", ["RKS", "FKL", "RRF", "BSGD", "MultiRRF"])
def test_rivals_learn_a_ring(rivals: Any, name: str) -> None:
    """The greatest class has 44 % of the rows, and lines do not divide them."""
    (X, y), (X_test, y_test) = ring(1200), ring(500, seed=1)
    settings: dict[str, Any] = {"gammas": (1.0, 8.0), "penalties": (2.0**-12,), "epochs": 6}
    settings |= {"budget": 60} if name == "BSGD" else {"n_frequencies": 64, "rates": (0.3,)}
    settings |= {"n_models": 3} if name == "MultiRRF" else {}
    one, two = (getattr(rivals, name)(**settings).fit(X, y) for _ in range(2))
    predicted = one.predict(X_test)
    assert np.mean(predicted == y_test) > 0.8  # they have .91 to .98
    np.testing.assert_array_equal(predicted, two.predict(X_test))
    assert one.search_seconds_ > 0
    assert one.fit_seconds_ > 0
    assert one.best_["gamma"] in settings["gammas"]


def test_votes_and_means_may_differ(rivals: Any) -> None:
    """Two models lean to the first class, a third is sure of the second."""

    class Fixed:
        def __init__(self, score: float) -> None:
            self.score = score

        def scores(self, X: np.ndarray) -> np.ndarray:
            return np.array([[self.score, 0.0]])

    models = [Fixed(0.1), Fixed(0.1), Fixed(-5.0)]
    assert rivals._Ensemble(models, True).scores(np.zeros((1, 1))).argmax() == 1
    assert rivals._Ensemble(models, False).scores(np.zeros((1, 1))).argmax() == 0
