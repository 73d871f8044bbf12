"""The machine of one class: strange rows, thresholds that hold, and the manners of every other model."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy import stats

import softmargin
from softmargin import BayesianOneClassSVM
from softmargin.kernels import RBF


def ring(n, seed=0):
    """Rows about a circle, inside of which there are none."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * rng.normal(size=(n, 2))


@pytest.fixture(scope="module")
def model():
    return BayesianOneClassSVM(random_state=0).fit(ring(400))


def test_rows_inside_and_far_away_are_strange_and_others_usual(model):
    assert model.predict([[0.0, 0.0], [5.0, 5.0], [0.0, 1e200]]).tolist() == [-1, -1, -1]
    assert model.predict([[1.0, 0.0], [0.0, -1.0]]).tolist() == [1, 1]


def test_far_away_nothing_is_known_but_the_prior(model):
    mu, v = model.latent_mean_and_variance([[1e6, 0.0]])
    np.testing.assert_allclose(mu, 0, atol=1e-9)
    np.testing.assert_allclose(v, 4.0, rtol=1e-6)
    np.testing.assert_allclose(model.p_value([[1e6, 0.0]]), 1 / 401)


def test_p_values_of_new_rows_are_uniform(model):
    p = model.p_value(ring(2000, seed=1))
    # 400 rows make the threshold: its own chance is 1 / sqrt(400) at most in the distribution of p, twice here.
    assert stats.kstest(p, "uniform").statistic < 0.1


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_new_rows_give_as_many_alarms_as_were_asked_for(rate):
    n = 400
    model = BayesianOneClassSVM(false_alarm_rate=rate, random_state=0).fit(ring(n))
    alarms = np.mean(model.predict(ring(4000, seed=2)) < 0)
    assert abs(alarms - rate) < 3 * np.sqrt(rate * (1 - rate) / n)  # by the chance of the rows that set the threshold


def test_scores_threshold_and_p_values_say_the_same(model):
    X = np.vstack([ring(200, seed=3), np.random.default_rng(0).normal(size=(200, 2))])
    score, p = model.score_samples(X), model.p_value(X)
    np.testing.assert_allclose(model.decision_function(X), score - model.offset_)
    assert ((p <= model.false_alarm_rate) == (model.predict(X) < 0)).all()
    order = np.argsort(score)
    assert (np.diff(p[order]) >= 0).all()


def test_rows_left_out_are_those_of_a_fit_without_them():
    """Within what a step of Newton can predict of the sites of the others."""
    X = ring(60)
    model = BayesianOneClassSVM(0.7 * RBF(length_scale=0.5), inducing=X, tol=1e-8, random_state=0).fit(X)
    without = np.array([
        BayesianOneClassSVM(0.7 * RBF(length_scale=0.5), inducing=X, tol=1e-8, random_state=0)
        .fit(np.delete(X, row, axis=0)).score_samples(X[[row]])[0]
        for row in range(60)
    ])  # fmt: skip
    left_out = -np.sqrt(model.machine_.record_.v)
    of_fit = model.score_samples(X)
    assert np.abs(left_out - without).max() < 0.5 * np.abs(of_fit - without).max()
    assert np.corrcoef(left_out, without)[0, 1] > 0.99


def test_with_few_rows_only_those_stranger_than_all_are_strange():
    model = BayesianOneClassSVM(false_alarm_rate=0.01, random_state=0).fit(ring(20))
    assert (model.predict(ring(20)) == 1).all()
    assert model.predict([[9.0, 9.0]]) == -1


def test_weights_are_copies_and_zero_is_absent():
    X, weight = ring(80), np.r_[np.zeros(20), np.full(30, 1), np.full(30, 3)]
    weighed = BayesianOneClassSVM(random_state=0).fit(X, sample_weight=weight)
    copied = BayesianOneClassSVM(random_state=0).fit(np.repeat(X, weight.astype(int), axis=0))
    new = ring(50, seed=1)
    np.testing.assert_allclose(weighed.score_samples(new), copied.score_samples(new), rtol=1e-6)
    np.testing.assert_allclose(weighed.p_value(new), copied.p_value(new), rtol=1e-6)


def test_units_and_kinds_of_tables_do_not_matter(model):
    new = ring(50, seed=1)
    scaled = BayesianOneClassSVM(random_state=0).fit(ring(400) * [1e3, 1e-3])
    np.testing.assert_allclose(scaled.p_value(new * [1e3, 1e-3]), model.p_value(new), atol=1e-3)
    sparse = BayesianOneClassSVM(random_state=0).fit(scipy.sparse.csr_matrix(ring(400)))
    np.testing.assert_allclose(sparse.score_samples(scipy.sparse.csr_matrix(new)), model.score_samples(new), rtol=1e-6)
    framed = BayesianOneClassSVM(random_state=0).fit(pd.DataFrame(ring(400), columns=["a", "b"]))
    np.testing.assert_array_equal(framed.score_samples(pd.DataFrame(new, columns=["a", "b"])), model.score_samples(new))
    with pytest.raises(ValueError, match="feature names"):
        framed.predict(pd.DataFrame(new, columns=["a", "c"]))


def test_files_hold_all_of_it(model, tmp_path):
    model.save(tmp_path / "model.sm")
    again = softmargin.load(tmp_path / "model.sm")
    new = ring(50, seed=1)
    np.testing.assert_array_equal(again.p_value(new), model.p_value(new))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_errors_name_their_cause():
    X = ring(30)
    with pytest.raises(ValueError, match=r"false_alarm_rate must lie between 0 and 1, got 0"):
        BayesianOneClassSVM(false_alarm_rate=0).fit(X)
    with pytest.raises(ValueError, match="sample_weight of zero"):
        BayesianOneClassSVM().fit(X, sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="BayesianOneClassSVM does not accept missing values"):
        BayesianOneClassSVM().fit(np.where(X > 1, np.nan, X))
    with pytest.raises(ValueError, match="kernel"):
        BayesianOneClassSVM(kernel="radial").fit(X)
    model = BayesianOneClassSVM(random_state=0).fit(X)
    with pytest.raises(ValueError, match="3 features, but BayesianOneClassSVM is expecting 2"):
        model.predict(np.ones((5, 3)))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(X > 1, np.inf, X))
    assert model.predict(X).shape == (30,)  # it is as it was
