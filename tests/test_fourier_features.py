import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_circles
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from softmargin import FourierFeatures, fourier_features
from softmargin.kernels import RBF, Constant, Linear, Matern, White


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        FourierFeatures(n_frequencies=8),
        FourierFeatures("matern", n_frequencies=5, frequencies="quasi"),
        FourierFeatures(2.0 * RBF() + Linear() + Constant(), n_frequencies=3, frequencies="plain"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture(name="X")
def table(rng):
    return rng.normal(size=(12, 3)) * [1, 20, 0.3] + [5, -300, 0]


@pytest.mark.parametrize("frequencies", ["plain", "orthogonal", "quasi"])
@pytest.mark.parametrize("kernel", ["rbf", "matern", 2.0 * Matern(nu=2.5) + Constant(0.5), sk.RBF(2.0)], ids=repr)
def test_products_of_features_are_the_kernel(kernel, frequencies, X):
    fitted = FourierFeatures(kernel, n_frequencies=4096, frequencies=frequencies, random_state=0)
    phi = fitted.fit_transform(X)
    K = fitted.kernel_(X, X)
    # Errors of one wave are at most its variance; of 66 pairs the largest is within four standard errors.
    assert_allclose(phi @ phi.T, K, atol=4 * K.max() / 64)


def test_words_and_length_scales_are_those_of_the_classifiers(X):
    spread = np.sqrt(3) * X.std(axis=0)
    for word, kind in (("rbf", RBF), ("matern", Matern)):
        kernel = FourierFeatures(word, n_frequencies=2).fit(X).kernel_
        assert type(kernel) is kind
        assert_allclose(np.exp(kernel.theta), spread, rtol=1e-9)
    assert FourierFeatures(RBF(2.0), n_frequencies=2).fit(X).kernel_ == RBF(2.0)


@pytest.mark.parametrize("frequencies", ["plain", "orthogonal", "quasi"])
def test_weights_are_repeats_and_the_seed_decides(frequencies, X):
    weight = np.arange(12) % 3
    settings = {"n_frequencies": 4, "frequencies": frequencies}
    weighted = FourierFeatures(**settings, random_state=3).fit(X, sample_weight=weight)
    repeated = FourierFeatures(**settings, random_state=3).fit(np.repeat(X, weight, axis=0))
    assert_array_equal(weighted.transform(X), repeated.transform(X))
    assert weighted.kernel_ != FourierFeatures(**settings, random_state=3).fit(X).kernel_
    other = FourierFeatures(**settings, random_state=4).fit(X, sample_weight=weight)
    assert not np.isclose(weighted.transform(X), other.transform(X)).all()


def test_sparse_rows_are_rows(X):
    X[X < 0] = 0
    one, other = (FourierFeatures(n_frequencies=4, random_state=0) for _ in range(2))
    table = scipy.sparse.csr_array(X)
    assert_allclose(one.fit_transform(table), other.fit_transform(X), rtol=1e-12)
    assert_allclose(one.transform(X), one.transform(table), rtol=1e-12)


def test_single_precision_stays_so(X):
    fitted = FourierFeatures(n_frequencies=4, random_state=0).fit(X)
    phi = fitted.transform(X.astype(np.float32))
    assert phi.dtype == np.float32
    # Columns are given to 3e-5 at -300, in units of a length-scale of 35.
    assert_allclose(phi, fitted.transform(X), atol=1e-5)


def test_blocks_equal_the_whole(X, monkeypatch):
    fitted = FourierFeatures(n_frequencies=4, random_state=0).fit(X)
    whole = fitted.transform(X)
    monkeypatch.setattr(fourier_features, "rows_in_block", lambda *sizes: 5)
    assert_allclose(fitted.transform(X), whole, rtol=1e-12)


def test_frames_go_in_and_come_out(X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(12) + 7)
    fitted = FourierFeatures(RBF() + Constant(), n_frequencies=2, random_state=0).set_output(transform="pandas")
    out = fitted.fit_transform(frame)
    assert list(out.columns) == list(fitted.get_feature_names_out()) == [f"fourierfeatures{i}" for i in range(5)]
    assert_array_equal(out.index, frame.index)
    assert_allclose(out["fourierfeatures4"], 1)
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame.rename(columns={"a": "z"}))


def test_a_linear_model_of_the_features_bends():
    X, y = make_circles(200, noise=0.05, factor=0.5, random_state=0)
    bent = make_pipeline(FourierFeatures(n_frequencies=50, random_state=0), LogisticRegression(C=100))
    assert bent.fit(X, y).score(X, y) > 0.97
    assert LogisticRegression().fit(X, y).score(X, y) < 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_frequencies": 0}, "n_frequencies must be an integer >= 1, got 0"),
        ({"frequencies": "sobol"}, "frequencies must be one of 'plain', 'orthogonal', 'quasi', got 'sobol'"),
        ({"kernel": "linear"}, "kernel must be one of 'rbf', 'matern', got 'linear'"),
        ({"kernel": RBF() + White()}, r"has no Fourier features, because of White\(variance=1.0\)"),
        ({"kernel": sk.RationalQuadratic()}, "kernel must be a kernel of softmargin.kernels"),
    ],
)
def test_bad_parameters_are_named(settings, message, X):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(**settings).fit(X)


def test_weights_are_checked(X):
    with pytest.raises(ValueError, match="All weights are zero"):
        FourierFeatures().fit(X, sample_weight=np.zeros(12))
    with pytest.raises(ValueError, match="one entry for each of the 12 rows"):
        FourierFeatures().fit(X, sample_weight=np.ones(3))
