"""Choosing the kernel where columns say something only in pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

from softmargin import BayesianSVC
from softmargin.columns import Columns, describe
from softmargin.kernels import RBF, Constant, Linear
from softmargin.tune import Choice, Evidence, Judges, LabelledRows, Space, maximise, pairs
from softmargin.tune.evidence import logistic_judge
from softmargin.tune.search import _FAR_BEHIND, by_quasi_newton, maximise_again


def among_noise(rng, n, d, noise=0.6):
    """The product of the first two of many columns, and labels that follow it."""
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] + noise * rng.logistic(size=n) > 0, 1.0, -1.0)


def plain(d):
    return Columns(np.zeros(d), np.ones(d))


# Scores ------------------------------------------------------------------------------------------


def test_scores_are_squared_slopes_over_their_variances(rng):
    X, g = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    found = pairs.pair_scores(X, g, slice(1, 4))
    for j in range(1, 4):
        for k in range(5):
            product = X[:, j] * X[:, k]
            naive = [(slopes @ product) ** 2 / np.sum((slopes * product) ** 2) for slopes in g.T]
            assert_allclose(found[j - 1, k], max(naive))


@pytest.mark.parametrize("kind", ["normal", "skewed", "rare levels", "far outliers"])
def test_columns_that_say_nothing_are_seldom_taken_for_pairs(rng, kind):
    alarms = 0
    for _ in range(100):
        X = {
            "normal": lambda: rng.normal(size=(200, 15)),
            "skewed": lambda: rng.exponential(size=(200, 15)),
            "rare levels": lambda: (rng.random(size=(200, 15)) < 0.05).astype(float),
            "far outliers": lambda: rng.standard_t(1.5, size=(200, 15)),
        }[kind]()
        weight = rng.choice([1.0, 5.0], size=200)
        alarms += bool(pairs.paired_columns(X, rng.normal(size=(200, 2)), weight, describe(X, weight)))
    assert alarms <= 5  # one is expected at most: six have a probability of 6e-4


def test_pairs_and_bends_are_found_best_first(rng):
    X = rng.normal(size=(800, 12))
    g = 0.6 * X[:, 7] * X[:, 2] + 0.35 * (X[:, 4] ** 2 - 1) + rng.normal(size=800)
    assert pairs.paired_columns(X, g, np.ones(800), plain(12)) == [2, 7, 4]
    assert pairs.paired_columns(X, np.stack([rng.normal(size=800), g], axis=1), np.ones(800), plain(12)) == [2, 7, 4]
    shifted = pairs.paired_columns(X * 1e6 + 1e9, g + 10, np.ones(800), Columns(np.full(12, 1e9), np.full(12, 1e6)))
    assert shifted == [2, 7, 4]


def test_wide_tables_are_scored_in_blocks_and_by_some_of_their_rows(rng, monkeypatch):
    X, y = among_noise(rng, 2000, 30)
    X = X[:, ::-1]
    monkeypatch.setattr(pairs, "_BLOCK", 8)
    assert pairs.paired_columns(X, y, np.ones(2000), plain(30)) == [28, 29]
    monkeypatch.setattr(pairs, "_MOST_WORK", 2000 * 30 * 30 / 4)
    assert pairs.paired_columns(X, y, np.ones(2000), plain(30)) == [28, 29]
    monkeypatch.setattr(pairs, "_MOST_WORK", 2000 * 30 * 30 / 40)  # fifty rows would be too few
    assert pairs.paired_columns(X, y, np.ones(2000), plain(30)) == []


def test_numbers_that_overflow_are_far_away_and_no_more(rng):
    X = rng.normal(size=(300, 4))
    X[0], X[1, 1] = 1e308, -1e308
    assert pairs.paired_columns(X, rng.normal(size=300), np.ones(300), plain(4)) == []


@pytest.mark.parametrize("n_classes", [2, 3])
def test_row_slopes_are_those_of_the_log_likelihood(rng, n_classes):
    X, (classes, kernel) = rng.normal(size=(80, 2)), (rng.integers(n_classes, size=80), 2.0 * RBF((1.0, 2.0)))
    y = 2.0 * classes - 1 if n_classes == 2 else classes.astype(float)
    likelihood = logistic_judge(n_classes)
    evidence = Evidence(X, y, np.ones(80), X[:20], likelihood, n_classes=n_classes)
    judged = evidence.at(kernel)
    latent = evidence._lifted(judged.rows, X).moments(judged.belief)

    def along(step, k):
        mu = latent.mu.copy()
        mu.reshape(80, -1)[:, k] += step
        return likelihood.sites(y, mu, latent.v).l

    found = evidence.row_slopes(judged).reshape(80, -1)
    for k in range(found.shape[1]):
        assert_allclose(found[:, k], (along(1e-5, k) - along(-1e-5, k)) / 2e-5, atol=1e-8)


# Another start -----------------------------------------------------------------------------------


def test_chosen_columns_begin_as_among_those_in_use():
    center = 4.0 * RBF((2.0,) * 4) + Constant(1.0)
    space = Space.around(center)
    choice = 0.5 * RBF((100.0, 100.0, 0.1, 100.0)) + Constant(3.0)
    found = pairs.opened(choice, space, [0, 2], 4)
    # Of four columns two and hardly any more are in use: length-scales are sqrt(1/2) of where they begin, or shorter.
    in_use = 2 + 2 * (2.0 / 100.0) ** 2
    assert_allclose(np.exp(found.theta), [4.0, 2.0 * np.sqrt(in_use / 4), 100.0, 0.1, 100.0, 3.0])
    assert pairs.opened(choice, space, [2], 4) is None
    assert pairs.opened(choice, space, [], 4) is None
    tied = 2.0 * RBF(3.0) + Linear(0.1)
    assert pairs.opened(tied, Space.around(tied), [0, 1], 4) is None
    assert pairs.opened(choice, Space.around(center, apart=False), [0], 4) is None


def test_another_start_is_followed_unless_it_is_far_behind(rng):
    X, y = among_noise(rng, 400, 12, noise=0.2)
    rows = Judges.of(LabelledRows(X, y, np.ones(400), np.ones(400)))
    space = Space.around(4.0 * RBF((12**0.5,) * 12) + Constant(1.0))
    evidence = rows.evidence(logistic_judge(2))
    off = maximise(evidence, space, lambda search, space, x, near: search(space.farthest) and None)
    good, bad = (pairs.opened(off.kernel, space, chosen, 12) for chosen in ([0, 1], [6]))
    better = maximise_again(evidence, space, by_quasi_newton, off, good)
    assert better.value > off.value + 10
    assert better.history[: len(off.history)] == off.history
    same = maximise_again(evidence, space, by_quasi_newton, better, bad)
    assert same.kernel is better.kernel
    assert len(same.history) == len(better.history) + 1  # one look, and no way
    assert same.history[-1]["objective"] < better.value - _FAR_BEHIND
    level = better._replace(value=better.value - 1.0)  # no better than what a search leaves open
    assert maximise_again(evidence, space, by_quasi_newton, level, better.kernel).kernel is level.kernel


def test_a_kernel_without_a_judgement_is_left_alone(rng):
    X, y = among_noise(rng, 100, 5)
    rows = Judges.of(LabelledRows(X, y, np.ones(100), np.ones(100)))
    choice = Choice(RBF((1.0,) * 5), 0.0, [])
    found = pairs.with_pairs(choice, rows, rows.evidence(logistic_judge(2)), Space.around(choice.kernel), plain(5))
    assert found is choice


# In the estimator --------------------------------------------------------------------------------


@pytest.mark.parametrize("tune", ["logistic", "bound", "loo"])
def test_a_pair_is_found_among_forty_columns(rng, tune):
    X, y = among_noise(rng, 1500, 40)
    model = BayesianSVC(tune=tune, random_state=0).fit(X[:500], y[:500])
    # A model that knows which columns matter has about .57, and one that finds nothing .693.
    assert log_loss(y[500:], model.predict_proba(X[500:])) < 0.64
    assert set(np.argsort(model.kernel_.theta[1:41])[:2]) == {0, 1}


def test_two_pairs_are_found_beside_columns_that_matter_alone(rng):
    X = rng.normal(size=(2500, 40))
    f = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] - X[:, 5]
    y = f + 0.6 * rng.logistic(size=2500) > 0
    alone, model = (BayesianSVC(random_state=0).fit(X[:1000, some], y[:1000]) for some in (slice(6), slice(40)))
    known, found = (log_loss(y[1000:], m.predict_proba(X[1000:, : m.n_features_in_])) for m in (alone, model))
    assert found < known + 0.04


def test_pairs_of_columns_tell_classes_apart(rng):
    X = rng.normal(size=(3000, 40))  # more than one panel of judges
    f = np.stack([X[:, 0] * X[:, 1], X[:, 2] * X[:, 3], np.zeros(3000)], axis=1)
    y = np.argmax(f + 0.6 * rng.gumbel(size=f.shape), axis=1)
    model = BayesianSVC(random_state=0).fit(X[:1500], y[:1500])
    assert log_loss(y[1500:], model.predict_proba(X[1500:])) < 0.95  # .90 if the columns are known, 1.10 if none is


def test_units_order_and_copies_of_rows_find_the_same_pair(rng):
    X, y = among_noise(rng, 400, 25)
    weight = rng.integers(1, 3, size=400)
    theta = BayesianSVC().fit(X, y, sample_weight=weight).kernel_.theta
    assert set(np.argsort(theta[1:26])[:2]) == {0, 1}
    order = rng.permutation(np.repeat(np.arange(400), weight))
    assert_allclose(BayesianSVC().fit(X[order], y[order]).kernel_.theta, theta, atol=1e-12)
    stretched = BayesianSVC().fit(X * 1e8 + 1e8, y, sample_weight=weight).kernel_.theta
    assert_allclose((stretched - theta)[1:26], np.log(1e8), atol=5e-3)  # three digits are kept
