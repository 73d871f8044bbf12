from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import references_uncertainty as naive
from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.active import STRATEGIES, pool, query, scores, strategies
from softmargin.active.diverse import greedy, spread
from softmargin.active.strategies import best_of, uncertainty_in
from softmargin.links import LogisticLink, SoftmaxLink, probabilities

BAYESIAN = ("variation_ratio", "mutual_information", "entropy_of_mean")
QUICK = {"n_inducing": 4, "tune": None, "random_state": 0, "n_jobs": 1}


class Shown:
    """What a fitted classifier shows of itself: its rows are numbers of latent moments."""

    def __init__(self, mu, v, link, covariance=None):
        self.mu, self.v, self.link_, self.n_jobs, self.covariance = mu, v, link, 1, covariance
        self.classes_ = np.arange(2 if mu.ndim == 1 else mu.shape[1])
        self.rows_seen = []

    def latent_mean_and_variance(self, X):
        rows = np.asarray(X)[:, 0].astype(int)
        self.rows_seen.append(len(rows))
        return self.mu[rows], self.v[rows]

    def predict_proba(self, X):
        return probabilities(self.link_.score(*self.latent_mean_and_variance(X)))

    def sample_latent(self, X, n_samples, random_state=None):
        rows = np.asarray(X)[:, 0].astype(int)
        normal = np.random.RandomState(0).multivariate_normal(np.zeros(len(self.mu)), self.covariance, size=n_samples)
        return normal.T[rows]


def numbered(n):
    return np.arange(n, dtype=float)[:, None]


@pytest.fixture
def many(rng):
    mu, v = rng.normal(size=(300, 4)), np.exp(rng.normal(size=(300, 4)))
    return Shown(mu, v, SoftmaxLink(1.7, np.array([0.3, 0.0, -0.2, 0.0])))


def fitted_moons():
    X, y = make_moons(300, noise=0.25, random_state=0)
    return BayesianSVC(random_state=0).fit(X[:40], y[:40]), X, y


moons = pytest.fixture(fitted_moons, scope="module")


# Strategies --------------------------------------------------------------------------------------


def test_the_most_uncertain_row_is_the_one_that_is_known_to_be():
    # Scores of a known model: the sixth row lies on the edge, the fourth is the widest, the first is far from both.
    mu, v = np.array([4.0, -3.0, 2.0, 1.0, -2.0, 0.0]), np.array([0.1, 0.1, 0.1, 100.0, 0.1, 0.01])
    model = Shown(mu, v, LogisticLink())
    for strategy in ("variation_ratio", "entropy", "margin", "entropy_of_mean"):
        assert query(model, numbered(6), strategy=strategy).tolist() == [5]
    # At the edge the label is a matter of chance, and says nothing; the wide row's says much.
    assert query(model, numbered(6), strategy="mutual_information").tolist() == [3]
    assert query(model, numbered(6), 3, "variation_ratio").tolist()[:2] == [5, 3]


def test_point_estimates_do_not_see_the_variance():
    mu, v = np.array([[1.0, 0.0, 0.0], [0.9, 0.0, 0.0]]), np.array([[50.0, 50.0, 50.0], [0.01, 0.01, 0.01]])
    model = Shown(mu, v, SoftmaxLink())
    assert query(model, numbered(2), strategy="entropy_of_mean")[0] == 1
    assert query(model, numbered(2), strategy="variation_ratio")[0] == 0
    assert query(model, numbered(2), strategy="mutual_information")[0] == 0


def naive_scores(model, strategy, rows):
    mu, v, found = model.mu, model.v, []
    for i in rows:
        p = np.exp(model.link_.score(mu[i : i + 1], v[i : i + 1])[0])
        p = p / p.sum()
        if strategy == "variation_ratio":
            found.append(1 - naive.winning(mu[i] + model.link_.offset / model.link_.slope, v[i]).max())
        elif strategy == "mutual_information":
            draws = mu[i] + np.sqrt(v[i]) * np.random.default_rng(0).normal(size=(20_000, mu.shape[1]))
            found.append(naive.information_by_draws(model.link_.score(draws, np.zeros(draws.shape))))
        elif strategy == "entropy":
            found.append(-sum(q * np.log(q) for q in p))
        elif strategy == "margin":
            found.append(sorted(p)[-2] - sorted(p)[-1])
        elif strategy == "entropy_of_mean":
            q = np.exp(mu[i]) / np.exp(mu[i]).sum()
            found.append(-sum(q * np.log(q)))
        else:
            found.append(0.0)
    return np.array(found)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_scores_equal_naive_ones(strategy, many):
    rows = range(25)
    wanted = naive_scores(many, strategy, rows)
    # 256 quasi-random draws of four classes are good to a few thousandths, the reference too.
    atol = 0.02 if strategy == "mutual_information" else 1e-9
    found = scores(many, numbered(300), strategy)
    assert_allclose(found[:25], wanted, atol=atol)
    if strategy != "random":
        assert_array_equal(query(many, numbered(300), 7, strategy, random_state=0), np.argsort(-found)[:7])


def test_two_classes_have_the_same_measures(rng):
    mu, v, link = rng.normal(size=40), rng.uniform(0.1, 3, size=40), LogisticLink(1.3, 0.2)
    model, X = Shown(mu, v, link), numbered(40)
    assert_allclose(scores(model, X), norm.cdf(-np.abs(mu + 0.2 / 1.3) / np.sqrt(v)), rtol=1e-9)
    p = 1 / (1 + np.exp(-link.score(mu, v)))
    assert_allclose(scores(model, X, "margin"), -np.abs(2 * p - 1), atol=1e-12)
    q = 1 / (1 + np.exp(-mu))
    assert_allclose(scores(model, X, "entropy_of_mean"), -q * np.log(q) - (1 - q) * np.log(1 - q), rtol=1e-9)
    assert_array_equal(query(model, X, 5, "entropy_of_mean"), np.argsort(np.abs(mu))[:5])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blocks_choose_what_the_whole_does(strategy, many, monkeypatch):
    X = numbered(300)
    whole = query(many, X, 20, strategy, random_state=3, exclude=[5, 7, 100]), scores(many, X, strategy)
    monkeypatch.setattr(pool, "_LEAST_ROWS", 7)
    monkeypatch.setattr(pool, "_MOST_ROWS", 37)
    monkeypatch.setattr(strategies, "_FIRST_LOOK", 3)
    many.rows_seen.clear()
    assert_array_equal(query(many, X, 20, strategy, random_state=3, exclude=[5, 7, 100]), whole[0])
    assert max(many.rows_seen, default=0) <= 37
    assert_allclose(scores(many, X, strategy), whole[1], rtol=1e-12, atol=1e-15)


@given(
    seed=st.integers(0, 10**6), n_classes=st.integers(3, 6), unlike=st.floats(0, 3), n=st.integers(1, 40),
    size=st.floats(0, 20),
)  # fmt: skip
def test_a_glance_passes_by_no_row_that_matters(seed, n_classes, unlike, n, size):
    rng = np.random.default_rng(seed)
    mu, v = size * rng.normal(size=(60, n_classes)), np.exp(unlike * rng.normal(size=(60, n_classes)))
    mu[40:50], v[40:50] = mu[:10], v[:10]
    v[55:] = 0
    link = SoftmaxLink(1.7, 5 * rng.normal(size=n_classes))
    model = Shown(mu, v, link)
    exact = scores(model, numbered(60))
    assert np.all(strategies._beaten(mu + link.offset / link.slope, v) >= exact - 1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "_FIRST_LOOK", 2)
        found = query(model, numbered(60), n, random_state=0)
    assert len(set(found.tolist())) == n
    assert_allclose(exact[found], np.sort(exact)[::-1][:n], atol=2e-9)


def test_most_rows_are_passed_by_after_a_glance(rng, monkeypatch):
    looked, whole = [], strategies.variation_ratio_of

    def watched(mu, v, link):
        looked.append(len(mu))
        return whole(mu, v, link)

    monkeypatch.setattr(strategies, "variation_ratio_of", watched)
    model = Shown(3 * rng.normal(size=(20_000, 3)), np.full((20_000, 3), 0.3), SoftmaxLink())
    query(model, numbered(20_000), 5)
    assert sum(looked) < 2000


# Ties and seeds ----------------------------------------------------------------------------------


def test_ties_are_ordered_by_the_seed_alone():
    score = np.array([0.0, 0.3, 0.0, 0.3 + 1e-12, 0.0, 0.7, 0.0])
    first = best_of(score, 5, np.random.RandomState(1))
    assert_array_equal(first, best_of(score, 5, np.random.RandomState(1)))
    orders = {tuple(best_of(score, 5, np.random.RandomState(seed))) for seed in range(40)}
    assert len(orders) > 10
    for order in orders:
        assert order[0] == 5
        assert set(order[1:3]) == {1, 3}
        assert set(order[3:]) <= {0, 2, 4, 6}
    assert {order[1] for order in orders} == {1, 3}


def test_a_model_that_is_sure_of_everything_offers_any_row():
    model = Shown(np.full((50, 3), [9.0, 0.0, 0.0]), np.zeros((50, 3)), SoftmaxLink())
    asked = {int(query(model, numbered(50), random_state=seed)[0]) for seed in range(60)}
    assert len(asked) > 25
    assert_array_equal(query(model, numbered(50), 50, random_state=0), query(model, numbered(50), 50, random_state=0))


def test_random_rows_are_a_permutation_by_the_seed():
    X = numbered(30)
    assert sorted(query(None, X, 30, "random", random_state=0)) == list(range(30))
    assert_array_equal(query(None, X, 9, "random", random_state=4), query(None, X, 9, "random", random_state=4))
    counts = np.bincount([query(None, X[:3], 1, "random", random_state=seed)[0] for seed in range(300)])
    assert counts.min() > 60


@given(values=st.lists(st.integers(0, 3), min_size=1, max_size=30), seed=st.integers(0, 99), data=st.data())
def test_the_best_are_the_best(values, seed, data):
    score = np.array(values, dtype=float) / 7
    n = data.draw(st.integers(1, len(values)))
    found = best_of(score, n, np.random.RandomState(seed))
    assert len(set(found.tolist())) == n
    assert_array_equal(score[found], np.sort(score)[::-1][:n])


# Pools -------------------------------------------------------------------------------------------


def test_all_kinds_of_pools_say_the_same(moons, tmp_path):
    model, X, _ = moons
    wanted = query(model, X, 8, random_state=0, exclude=range(40))
    file = np.memmap(tmp_path / "pool.dat", dtype=float, mode="w+", shape=X.shape)
    file[:] = X
    frame = pd.DataFrame(X, index=np.arange(len(X))[::-1])
    kinds = [
        X.tolist(),
        file,
        frame.to_numpy(),
        scipy.sparse.csr_array(X),
        scipy.sparse.coo_matrix(X),
        np.asfortranarray(X),
    ]
    for kind in kinds:
        assert_array_equal(query(model, kind, 8, random_state=0, exclude=range(40)), wanted)
    named = BayesianSVC(random_state=0).fit(pd.DataFrame(X[:40], columns=["a", "b"]), moons[2][:40])
    for kind in (pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X))[::-1]), pl.DataFrame(X, ["a", "b"])):
        assert_array_equal(query(named, kind, 8, random_state=0, exclude=range(40)), wanted)


@pytest.mark.parametrize(
    "exclude", [[0, 3], np.array([0, 3]), range(0, 6, 3), np.isin(np.arange(6), [0, 3]), [-6, 3, 3]]
)
def test_excluded_rows_are_not_chosen(exclude):
    found = query(None, numbered(6), 4, "random", exclude=exclude, random_state=0)
    assert sorted(found) == [1, 2, 4, 5]


def test_pipelines_and_other_classifiers(moons):
    _, X, y = moons
    pipeline = make_pipeline(StandardScaler(), BayesianLinearSVC()).fit(X[:40], y[:40])
    inner, scaled = pipeline[-1], pipeline[0].transform(X)
    for strategy in STRATEGIES:
        assert_array_equal(
            query(pipeline, X, 4, strategy, random_state=0), query(inner, scaled, 4, strategy, random_state=0)
        )
    assert_array_equal(
        query(pipeline, X, 4, diverse=True, random_state=0), query(inner, scaled, 4, diverse=True, random_state=0)
    )
    other = LogisticRegression().fit(X, y)
    assert len(query(other, X, 4, "margin")) == len(query(other, X, 4, "entropy")) == 4
    for strategy in BAYESIAN:
        with pytest.raises(TypeError, match="LogisticRegression has no latent function"):
            query(other, X, 4, strategy)
    with pytest.raises(TypeError, match="diverse=True needs the latent covariance of rows"):
        query(other, X, 4, "entropy", diverse=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: query(None, numbered(5), 6, "random"), r"n=6 rows were requested, but X_pool has 5\."),
        (lambda: query(None, numbered(5), 4, "random", exclude=[0, 1]), "has 5, of which exclude leaves 3"),
        (lambda: query(None, numbered(5), 0, "random"), "n must be an integer >= 1, got 0"),
        (lambda: query(None, numbered(5), 1, "guess"), "strategy must be one of 'variation_ratio'.* got 'guess'"),
        (lambda: scores(None, numbered(5), "guess"), "strategy must be one of"),
        (lambda: query(None, np.empty((0, 3)), 1, "random"), "X_pool has no rows"),
        (lambda: query(None, np.arange(3.0), 1, "random"), r"X_pool must be a table.* shape \(3,\)"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[0, 1]), "leaves none of the 2 rows"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[2]), "exclude has row 2, but X_pool has 2 rows"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[0.5]), "exclude must be row numbers"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[True]), "exclude must have an entry for each of the 2"),
        (lambda: query(None, numbered(900), 600, "random", diverse=True), "for n up to 512; got n=600"),
        (lambda: query(None, numbered(9), 1, "random", n_samples=0), "n_samples must be an integer"),
    ],
)
def test_bad_questions_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Diverse batches ---------------------------------------------------------------------------------


def test_copies_of_a_row_are_asked_for_once():
    # Three questions, three rows each: within a question rows vary together, and the first has the best scores.
    covariance = np.kron(np.eye(3), np.full((3, 3), 0.999)) + 0.001 * np.eye(9)
    model = Shown(np.repeat([0.1, 0.3, 0.5], 3) + 0.001 * np.arange(9), np.ones(9), LogisticLink(), covariance)
    assert query(model, numbered(9), 3).tolist() == [0, 1, 2]
    assert query(model, numbered(9), 1, diverse=True).tolist() == [0]
    found = query(model, np.repeat(numbered(9), 70, axis=0), 3, diverse=True, random_state=0) // 70
    assert found[0] == 0
    assert sorted(found // 3) == [0, 1, 2]


def test_greedy_raises_the_determinant_most(rng):
    F = rng.normal(size=(12, 6))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    q = rng.uniform(0.2, 1, size=12)
    L = np.outer(q, q) * (F @ F.T)
    batch = []
    for _ in range(4):
        gains = {i: np.linalg.det(L[np.ix_([*batch, i], [*batch, i])]) for i in range(12) if i not in batch}
        batch.append(max(gains, key=lambda i: gains[i]))
    assert greedy(F, q, 4).tolist() == batch


def test_greedy_goes_on_where_nothing_is_left_open():
    F = np.zeros((4, 2))
    F[0, 0] = 1
    assert greedy(F, np.array([1.0, 0.3, 0.9, 0.2]), 4).tolist() == [0, 2, 1, 3]
    assert sorted(greedy(np.eye(3), np.zeros(3), 3)) == [0, 1, 2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_diverse_batches_are_spread_out(strategy, moons):
    model, X, _ = moons
    found = query(model, X, 10, strategy, diverse=True, random_state=0)
    assert len(set(found.tolist())) == 10
    assert_array_equal(found, query(model, X, 10, strategy, diverse=True, random_state=0))
    if strategy != "random":
        plain = query(model, X, 10, strategy, random_state=0)
        best = scores(model, X, strategy, random_state=np.random.RandomState(0))
        assert_allclose(best[found[0]], best.max(), atol=1e-9)
        nearest = [
            np.sort(np.linalg.norm(X[rows, None] - X[rows], axis=2), axis=1)[:, 1].mean() for rows in (found, plain)
        ]
        assert nearest[0] > nearest[1]


def test_many_classes_are_spread_by_their_differences():
    # What all classes have in common decides nothing: the third row differs from the first in that alone.
    common = np.random.default_rng(0).normal(size=(1, 4000))
    own = np.random.default_rng(1).normal(size=(3, 3, 4000))
    own[2] = own[0]
    model = SimpleNamespace(
        sample_latent=lambda X, n, random_state: own + 10 * common * np.array([[[0.0]], [[1.0]], [[1.0]]])
    )
    assert spread(model, numbered(3), np.array([1.0, 0.5, 0.9]), 2, np.random.RandomState(0)).tolist() == [0, 1]


def test_uncertainty_is_never_negative():
    assert_allclose(uncertainty_in(np.array([-1.0, 0.0]), "margin"), [0, 1])
    assert_allclose(uncertainty_in(np.zeros(2), "random"), [1, 1])
    assert_allclose(uncertainty_in(np.array([0.2]), "entropy"), [0.2])


# Rounds ------------------------------------------------------------------------------------------
