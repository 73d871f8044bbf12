import io
import pickle
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
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import references_uncertainty as naive
from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.active import STRATEGIES, ActiveLearner, for_skactiveml, pool, query, scores, strategies
from softmargin.active.diverse import greedy, spread
from softmargin.active.progress import Progress
from softmargin.active.strategies import best_of, uncertainty_in
from softmargin.extras import needed
from softmargin.links import LogisticLink, SoftmaxLink, probabilities
from softmargin.monitor import InterruptedFitWarning

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


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.25, random_state=0)
    return BayesianSVC(random_state=0).fit(X[:40], y[:40]), X, y


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
    with pytest.raises(TypeError, match="diverse=True asks which rows vary together"):
        query(other, X, 4, "entropy", diverse=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: query(None, numbered(5), 6, "random"), r"n=6 rows are wanted, but X_pool has 5\."),
        (lambda: query(None, numbered(5), 4, "random", exclude=[0, 1]), "has 5, of which exclude leaves 3"),
        (lambda: query(None, numbered(5), 0, "random"), "n must be an integer >= 1, got 0"),
        (lambda: query(None, numbered(5), 1, "guess"), "strategy must be one of 'variation_ratio'.* got 'guess'"),
        (lambda: scores(None, numbered(5), "guess"), "strategy must be one of"),
        (lambda: query(None, np.empty((0, 3)), 1, "random"), "X_pool has no rows"),
        (lambda: query(None, np.arange(3.0), 1, "random"), r"X_pool must be a table.* shape \(3,\)"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[0, 1]), "leaves none of the 2 rows"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[2]), "exclude has row 2, but X_pool has 2 rows"),
        (lambda: query(None, numbered(2), 1, "random", exclude=[0.5]), "exclude must be numbers of rows"),
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


def test_a_loop_learns_and_keeps_notes(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(n_jobs=1), random_state=0, n_per_query=3, tune_every=4)
    assert learner.learn(X[:200], y[:200], n_queries=20, X_test=X[200:], y_test=y[200:]) is learner
    assert learner.stop_reason_ == "queries"
    assert len(learner.labelled_) == len(set(learner.labelled_.tolist())) == 22
    assert_array_equal(learner.labels_, y[learner.labelled_])
    assert [note["n_labelled"] for note in learner.history_] == [2, 5, 8, 11, 14, 17, 20, 22]
    assert_array_equal(np.concatenate([note["queried"] for note in learner.history_]), learner.labelled_)
    assert [note["tuned"] for note in learner.history_] == [True, False, False, False, True, False, False, False]
    assert learner.history_[-1]["score"] == learner.model_.score(X[200:], y[200:]) > 0.8
    seconds = [note["seconds"] for note in learner.history_]
    assert sorted(seconds) == seconds
    assert learner.history_[0]["uncertainty"] is None
    assert 0 < learner.history_[1]["uncertainty"] <= 0.5


def test_the_seed_settles_everything(moons):
    _, X, y = moons
    runs = [
        ActiveLearner(BayesianSVC(n_jobs=1, n_inducing=4), random_state=seed).learn(X, y, n_queries=6)
        for seed in (1, 1, 2)
    ]
    assert_array_equal(runs[0].labelled_, runs[1].labelled_)
    assert not np.array_equal(runs[0].labelled_, runs[2].labelled_)
    assert_array_equal(runs[0].model_.predict_proba(X), runs[1].model_.predict_proba(X))
    given = ActiveLearner(make_pipeline(StandardScaler(), BayesianSVC(**QUICK)), random_state=5).learn(
        X, y, n_queries=1
    )
    assert given.model_[-1].random_state == 0
    assert isinstance(runs[0].model_.random_state, int)


def test_the_last_model_is_the_fit_of_all_labels(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(**QUICK), "margin", random_state=0).learn(X, y, n_queries=5)
    again = BayesianSVC(**QUICK).fit(X[learner.labelled_], y[learner.labelled_])
    assert_array_equal(learner.model_.predict_proba(X), again.predict_proba(X))
    next_row = query(again, X, strategy="margin", exclude=learner.labelled_, random_state=0)
    longer = ActiveLearner(BayesianSVC(**QUICK), "margin", random_state=0).learn(X, y, n_queries=6)
    assert_array_equal(longer.labelled_, [*learner.labelled_, *next_row])


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(n_inducing=4, n_jobs=1),
        BayesianLinearSVC(n_jobs=1),
        BayesianGPC(n_inducing=4, n_jobs=1),
        make_pipeline(StandardScaler(), BayesianSVC(n_inducing=4, n_jobs=1)),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("refit", ["full", "partial"])
def test_every_model_follows_in_both_ways(model, refit):
    X, y = load_iris(return_X_y=True)
    learner = ActiveLearner(model, refit=refit, tune_every=3, random_state=0, n_per_query=2)
    learner.learn(X, y, n_queries=10, X_test=X, y_test=y)
    assert len(learner.labels_) == 13
    assert learner.history_[-1]["score"] > 0.6
    assert [note["tuned"] for note in learner.history_] == [True, False, False, True, False, False]


def test_partial_refits_add_the_new_rows_alone(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(**QUICK), "random", refit="partial", n_per_query=3, random_state=0)
    rows = learner.learn(X, y, start=20, n_queries=6).labelled_
    assert not np.array_equal(y[rows[:3]], y[rows[20:23]])
    by_hand = BayesianSVC(**QUICK).fit(X[rows[:20]], y[rows[:20]])
    for new in (rows[20:23], rows[23:]):
        by_hand.partial_fit(X[new], y[new])
    assert_array_equal(learner.model_.predict_proba(X), by_hand.predict_proba(X))


def test_kernels_are_held_between_tunings(moons):
    _, X, y = moons
    learner = ActiveLearner(BayesianSVC(n_inducing=4, n_jobs=1), tune_every=None, random_state=0)
    kernel = learner.learn(X, y, start=20, n_queries=1).model_.kernel_
    assert learner.learn(X, y, start=20, n_queries=4).model_.kernel_ == kernel
    every = ActiveLearner(BayesianSVC(n_inducing=4, n_jobs=1), tune_every=1, random_state=0)
    every.learn(X, y, start=20, n_queries=4)
    assert every.model_.kernel_ != kernel
    assert every.model_.tune == "logistic"
    assert all(note["tuned"] for note in every.history_)
    assert learner.model.tune == "logistic"  # what was given is not changed
    moved = ActiveLearner(BayesianSVC(n_inducing=4, inducing="tuned", n_jobs=1), tune_every=None, random_state=0)
    points = moved.learn(X, y, start=20, n_queries=1).model_.inducing_points_
    assert_array_equal(moved.learn(X, y, start=20, n_queries=3).model_.inducing_points_, points)


def test_kernel_machines_and_frames_with_groups(rng):
    X, y = make_moons(60, noise=0.2, random_state=0)
    learner = ActiveLearner(BayesianKernelMachine(n_frequencies=16, n_steps=20, n_jobs=1), tune_every=2, random_state=0)
    assert learner.learn(X, y, n_queries=2, start=10).model_ is not None
    frame = pd.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abc"), 20)})
    known = np.where(frame["x"] > 0, "yes", "no")
    mixed = ActiveLearner(BayesianMixedSVC("~ x + (1 | g)"), diverse=True, n_per_query=3, random_state=0)
    mixed.learn(frame, known, n_queries=6, start=range(0, 60, 4))
    assert_array_equal(mixed.labels_, known[mixed.labelled_])
    with pytest.raises(ValueError, match="refit='partial' needs partial_fit, which BayesianMixedSVC has not"):
        clone(mixed).set_params(refit="partial").learn(frame, known, n_queries=1)


def test_one_class_is_left_by_chance():
    X, y = numbered(40), np.array([0] * 39 + [1])
    learner = ActiveLearner(BayesianLinearSVC(n_jobs=1), random_state=0).learn(X, lambda rows: y[rows], start=[0, 1])
    assert learner.stop_reason_ in ("pool", "certain")
    without = [note["uncertainty"] is None for note in learner.history_]
    met = int(np.flatnonzero(learner.labels_ == 1)[0]) - 1  # two rows in the first round
    assert all(without[: met + 1])
    assert not any(without[met + 1 :])
    only = ActiveLearner(BayesianLinearSVC(n_jobs=1), random_state=0).learn(X[:5], np.zeros(5))
    assert only.model_ is None
    assert only.stop_reason_ == "pool"
    assert len(only.labelled_) == 5
    assert only.history_[-1]["score"] is None


def test_a_new_class_is_welcome_in_every_way():
    X, y = load_iris(return_X_y=True)
    first = np.flatnonzero(y < 2)[::9]
    for refit in ("full", "partial"):
        learner = ActiveLearner(BayesianSVC(**QUICK), "random", refit=refit, tune_every=50, random_state=1)
        learner.learn(X, y, start=first, n_queries=8)
        assert len(learner.model_.classes_) == 3


# Beginnings and ends -----------------------------------------------------------------------------


def test_beginnings(moons):
    _, X, y = moons
    names = np.array(["left", "right"])[y]
    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    assert sorted(learner.learn(X, names, n_queries=1).labels_[:2]) == ["left", "right"]
    assert len(learner.learn(X, names, start=12, n_queries=1).labels_) == 13
    assert learner.learn(X, names, start=[3, 150, 7], n_queries=1).labelled_[:3].tolist() == [3, 150, 7]
    assert learner.learn(X, lambda rows: names[rows], n_queries=4).history_[0]["n_labelled"] == 2
    asked = []

    def oracle(rows):
        asked.extend(rows.tolist())
        return names[rows]

    half = learner.learn(X, oracle, start=10, n_queries=3)
    asked.clear()
    rest = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    rest.learn(X, oracle, start=(half.labelled_, half.labels_), n_queries=2)
    assert asked == rest.labelled_[13:].tolist()


def test_ends(moons):
    _, X, y = moons
    test = {"X_test": X, "y_test": y}

    def ended(n_rows=60, strategy="variation_ratio", **limits):
        return ActiveLearner(BayesianSVC(**QUICK), strategy, random_state=0).learn(X[:n_rows], y[:n_rows], **limits)

    assert ended(n_queries=2).stop_reason_ == "queries"
    met = ended(target_score=0.85, **test)
    assert met.stop_reason_ == "score"
    assert met.history_[-1]["score"] >= 0.85 > met.history_[-2]["score"]
    late = ended(max_time=1e-9)
    assert late.stop_reason_ == "time"
    assert len(late.labelled_) == 2  # the first rows, and a model of them
    assert late.model_ is not None
    assert ended(least_uncertainty=0.5).stop_reason_ == "certain"
    assert ended(12, "random").stop_reason_ == "pool"
    assert ended(12, least_uncertainty=None).labelled_.shape == (12,)
    scored = ended(n_queries=2, scoring=lambda model, X, y: -1.0, **test)
    assert [note["score"] for note in scored.history_] == [-1.0] * 3


def test_nothing_left_to_learn_is_an_end():
    X = np.repeat([[-30.0], [30.0]], 20, axis=0)
    y = (X[:, 0] > 0).astype(int)
    learner = ActiveLearner(BayesianSVC(kernel="rbf", random_state=0, tune=None), random_state=0).learn(
        X, y, start=[0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25], least_uncertainty=0.2
    )
    assert learner.stop_reason_ == "certain"
    assert len(learner.labelled_) == 12


def test_ctrl_c_keeps_all_labels(moons):
    _, X, y = moons
    calls = []

    def tired(rows):
        calls.append(rows)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return y[rows]

    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.warns(InterruptedFitWarning, match="all labels so far"):
        learner.learn(X, tired, start=10, n_queries=50)
    assert learner.stop_reason_ == "interrupt"
    assert_array_equal(learner.labels_, y[learner.labelled_])
    assert len(learner.labels_) == 12
    assert_array_equal(
        learner.model_.predict(X), BayesianSVC(**QUICK).fit(X[learner.labelled_], learner.labels_).predict(X)
    )


def test_ctrl_c_during_a_fit_ends_the_rounds_too(moons, monkeypatch):
    _, X, y = moons
    whole = BayesianSVC.fit

    def interrupted(model, X, y, sample_weight=None):
        whole(model, X, y)
        if len(y) == 13:
            model.stop_reason_ = "interrupt"  # as a fit that keeps the best it had
        return model

    monkeypatch.setattr(BayesianSVC, "fit", interrupted)
    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.warns(InterruptedFitWarning):
        learner.learn(X, y, start=10, n_queries=50)
    assert len(learner.labels_) == 13


def test_other_errors_of_the_oracle_are_raised_and_keep_the_labels(moons):
    _, X, y = moons

    def broken(rows):
        if len(rows) == 1:
            raise OSError("no line to the laboratory")
        return y[rows]

    learner = ActiveLearner(BayesianSVC(**QUICK), random_state=0)
    with pytest.raises(OSError, match="laboratory"):
        learner.learn(X, broken, start=10)
    assert len(learner.labels_) == 10


@pytest.mark.parametrize(
    ("settings", "how", "message"),
    [
        ({"strategy": "guess"}, {}, "strategy must be one of"),
        ({"refit": "never"}, {}, "refit must be one of 'full', 'partial', got 'never'"),
        ({"n_per_query": 0}, {}, "n_per_query must be an integer"),
        ({"tune_every": 0}, {}, "tune_every must be an integer"),
        ({}, {"n_queries": 0}, "n_queries must be an integer"),
        ({}, {"max_time": -1}, "max_time must be a positive number"),
        ({}, {"least_uncertainty": -1}, "least_uncertainty must be a number >= 0"),
        ({}, {"target_score": 0.9}, "target_score=0.9 needs test rows"),
        ({}, {"X_test": np.zeros((3, 2))}, "X_test and y_test go together"),
        ({}, {"start": "first"}, "start must be one of 'auto', 'classes', got 'first'"),
        ({}, {"start": 301}, "start=301 rows are wanted, but X_pool has 300"),
        ({}, {"start": 0}, "start must be an integer"),
        ({}, {"start": [1, 1]}, "start must hold each row once"),
        ({}, {"start": [300]}, "start has row 300"),
        ({}, {"start": ([1, 2], [0])}, "start has 2 rows and labels of shape"),
        ({}, {"oracle": [0, 1]}, "oracle must be callable, or hold a label for each of the 300 rows"),
        ({}, {"oracle": np.full(300, np.nan)}, "oracle holds missing labels"),
        ({}, {"oracle": lambda rows: [0]}, "asked for the labels of 2 rows, and gave an array of shape"),
        ({}, {"oracle": lambda rows: rows, "start": "classes"}, "start='classes' needs an oracle of known labels"),
    ],
)
def test_bad_loops_are_refused(settings, how, message, moons):
    _, X, y = moons
    how = {"oracle": y, **how}
    with pytest.raises(ValueError, match=message):
        ActiveLearner(BayesianSVC(**QUICK), random_state=0, **settings).learn(X, **how)


def test_progress_is_drawn():
    stream = io.StringIO()
    progress = Progress(True, None, 4, stream)
    for score in (np.nan, 0.5):
        progress._drawn = -1.0
        progress.record(score, True)
    progress.close()
    assert "ActiveLearner [      " in stream.getvalue()
    assert "] round 1 of 4  score 0.5" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_progress_goes_to_the_terminal(moons, capsys):
    _, X, y = moons
    ActiveLearner(BayesianSVC(**QUICK), verbose=True, random_state=0).learn(X, y, n_queries=2)
    assert "round 2 of 2" in capsys.readouterr().err


# scikit-activeml ---------------------------------------------------------------------------------


def test_the_extra_is_named_where_the_package_is_absent(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skactiveml", None)
    with pytest.raises(ImportError, match=r"softmargin\[active\]"):
        for_skactiveml(BayesianSVC())
    assert needed("math", "active", "This").pi > 3


@pytest.fixture
def activeml():
    return pytest.importorskip("skactiveml.pool", reason="scikit-activeml is not installed")


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(**QUICK),
        BayesianLinearSVC(n_jobs=1),
        BayesianGPC(**QUICK),
        BayesianMixedSVC(groups=[1], n_jobs=1),
        BayesianKernelMachine(n_frequencies=16, n_steps=20, tune=None, random_state=0, n_jobs=1),
        make_pipeline(StandardScaler(), BayesianLinearSVC(n_jobs=1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_classifier_loops_in_scikit_activeml(model, activeml, rng):
    X = np.column_stack([rng.normal(size=60), np.arange(60) % 3])
    known = np.where(X[:, 0] + 0.2 * rng.normal(size=60) > 0, 1.0, 0.0)
    y = np.full(60, np.nan)
    classifier, strategy = for_skactiveml(model, [0, 1], random_state=0), activeml.UncertaintySampling(random_state=0)
    for turn in range(6):  # from no label at all
        row = strategy.query(X, y, clf=classifier, batch_size=4)
        assert np.isnan(y[row]).all()
        y[row] = known[row]
        assert np.sum(~np.isnan(y)) == 4 * (turn + 1)
    classifier.fit(X, y)
    assert classifier.predict_proba(X).shape == (60, 2)
    assert np.mean(classifier.predict(X) == known) > 0.8


def test_committees_are_draws_of_the_posterior(activeml, moons):
    model, X, known = moons
    y = np.where(np.arange(300) < 40, known, np.nan)
    classifier = for_skactiveml(BayesianSVC(random_state=0), [0, 1])
    draws = classifier.fit(X, y).sample_proba(X, 3000, random_state=0)
    assert draws.shape == (3000, 300, 2)
    assert_allclose(draws.sum(axis=2), 1)
    mu, v = model.latent_mean_and_variance(X)
    score = model.link_.slope * mu + model.link_.offset
    # The median of a monotone function of a Gaussian is that of its mean; 3000 draws, steep links.
    assert_allclose(np.median(draws[..., 1], axis=0), 1 / (1 + np.exp(-score)), atol=0.12)
    assert_allclose(
        np.mean(draws[..., 1] > 0.5, axis=0),
        norm.cdf((mu + model.link_.offset / model.link_.slope) / np.sqrt(v)),
        atol=0.05,
    )
    for strategy in (activeml.GreedyBALD, activeml.BatchBALD, activeml.QueryByCommittee):
        asked = strategy(
            sample_predictions_method_name="sample_proba", sample_predictions_dict={"n_samples": 64}, random_state=0
        ).query(X, y, ensemble=classifier, fit_ensemble=False, batch_size=2)
        assert len(set(asked.tolist())) == 2
        assert np.isnan(y[asked]).all()


def test_draws_of_many_rows_are_the_same_functions(activeml, moons, monkeypatch):
    _, X, known = moons
    classifier = for_skactiveml(BayesianLinearSVC(), [0, 1]).fit(X, known.astype(float))
    whole = classifier.sample_proba(X, 4, random_state=1)
    monkeypatch.setattr("softmargin.active.adapter._ROWS_AT_ONCE", 64)
    assert_allclose(classifier.sample_proba(X, 4, random_state=1), whole, rtol=1e-9)


def test_declared_classes_that_were_not_seen_have_a_column(activeml):
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "c", "d"])[y].astype(object)
    names[60:] = None
    classifier = for_skactiveml(BayesianSVC(**QUICK), ["a", "b", "c", "d"], missing_label=None).fit(X, names)
    p, draws = classifier.predict_proba(X), classifier.sample_proba(X, 5)
    assert p.shape == (150, 4)
    assert_allclose(p.sum(axis=1), 1)
    assert np.all(p[:, [1, 3]] == 0)
    assert np.all(draws[..., [1, 3]] == 0)
    assert_allclose(draws.sum(axis=2), 1)


def test_one_class_or_none_is_no_reason_to_warn(activeml):
    X = numbered(6)
    classifier = for_skactiveml(BayesianSVC(**QUICK), [0, 1])
    none = classifier.fit(X, np.full(6, np.nan)).predict_proba(X)
    assert_allclose(none, 0.5)
    one = classifier.fit(X, np.array([1, 1, *[np.nan] * 4])).predict_proba(X)
    assert_allclose(one, [[0, 1]] * 6)
    assert classifier.sample_proba(X, 3).shape == (3, 6, 2)


def test_a_fit_that_fails_says_why(activeml):
    X, y = numbered(6), np.array([0, 1, 0, 1, np.nan, np.nan])
    with pytest.raises(ValueError, match="loss must be one of"):
        for_skactiveml(BayesianSVC(loss="square"), [0, 1]).fit(X, y)


def test_the_adapter_can_be_copied_and_pickled(activeml, moons):
    _, X, known = moons
    classifier = for_skactiveml(BayesianSVC(**QUICK), [0, 1], random_state=3).fit(X, known.astype(float))
    copy = pickle.loads(pickle.dumps(classifier))
    assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    assert clone(classifier).get_params()["estimator__n_inducing"] == 4
    # The posterior shines through: the measures of this package work on it.
    assert_array_equal(query(classifier, X, 3, random_state=0), query(classifier.estimator_, X, 3, random_state=0))
