import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.gaussian_process import kernels as sk
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

from softmargin import BayesianLinearSVC, BayesianSVC
from softmargin.inducing import AUTO_POINTS
from softmargin.kernels import RBF, Constant, Linear, Matern, White


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.25, random_state=0)


def test_the_default_kernel_is_in_units_of_each_column(moons):
    X, y = moons
    model = BayesianSVC(tune=None).fit(X, y)
    expected = 10.0 * RBF(tuple(2**0.5 * X.std(axis=0))) + Constant(1.0)
    assert_allclose(model.kernel_.theta, expected.theta, rtol=1e-9)
    stretched = BayesianSVC(tune=None).fit(X * [1e-6, 1e9] + [1.0, -1e9], y)
    assert_allclose(stretched.bound_, model.bound_, rtol=1e-6)


def test_names_of_kernels(moons):
    X, y = moons
    assert "Matern" in repr(BayesianSVC("matern").fit(X, y).kernel_)
    with pytest.raises(ValueError, match="'rbf', 'matern', got 'poly'"):
        BayesianSVC("poly").fit(X, y)


def test_kernels_of_scikit_learn_are_converted(moons):
    X, y = moons
    theirs = BayesianSVC(sk.ConstantKernel(3.0) * sk.Matern(0.7, nu=2.5) + sk.WhiteKernel(0.1), tune=None).fit(X, y)
    ours = BayesianSVC(3.0 * Matern(0.7, nu=2.5) + White(0.1), tune=None).fit(X, y)
    assert theirs.kernel_ == ours.kernel_
    assert_array_equal(theirs.predict_proba(X), ours.predict_proba(X))


def test_a_white_kernel_widens_every_row_and_shifts_none(moons):
    X, y = moons
    model = BayesianSVC(3.0 * RBF(0.7) + White(0.5), tune=None).fit(X, y)
    _, v = model.latent_mean_and_variance(X)
    assert v.min() > 0.5


@pytest.mark.filterwarnings("ignore:Time was up")
def test_as_many_points_as_the_kernel_needs(moons):
    X, y = moons
    rough, smooth = (BayesianSVC(3.0 * RBF(scale), tune=None).fit(X[:200], y[:200]) for scale in (1e-3, 1.0))
    assert_array_equal(rough.inducing_points_, np.unique(X[:200], axis=0))
    assert len(smooth.inducing_points_) < 40
    assert smooth.rows_.lift(X[:200]).leftover.mean() <= 0.01
    assert set(map(tuple, smooth.inducing_points_)) <= set(map(tuple, X))
    many = np.random.default_rng(0).normal(size=(2 * AUTO_POINTS, 2))
    rough = BayesianSVC(RBF(1e-3), tune=None, random_state=0, max_time=1e-9).fit(many, many[:, 0] > 0)
    assert rough.inducing_points_.shape == (AUTO_POINTS, 2)


@pytest.mark.parametrize("inducing", ["kmeans", "random", "mixture"])
def test_few_points_do_nearly_as_well_as_all_rows(moons, inducing):
    X, y = moons
    batch = BayesianSVC(inference="batch", tune=None, tol=1e-6).fit(X, y)
    few = BayesianSVC(n_inducing=40, tune=None, inducing=inducing, random_state=0).fit(X, y)
    assert few.inducing_points_.shape == (40, 2)
    assert few.bound_ <= batch.bound_ + 1e-6 * abs(batch.bound_)  # fewer points, a lower bound
    assert_allclose(few.predict_proba(X), batch.predict_proba(X), atol=0.1)


def test_given_points_are_used_as_they_are(moons):
    X, y = moons
    model = BayesianSVC(inducing=X[:9], random_state=0).fit(X, y)
    assert_array_equal(model.inducing_points_, np.unique(X[:9], axis=0))


def test_given_points_may_be_a_frame_whose_columns_are_checked(moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["east", "north"])
    expected = BayesianSVC(inducing=X[:9]).fit(frame, y).inducing_points_
    assert_array_equal(BayesianSVC(inducing=frame.iloc[:9]).fit(frame, y).inducing_points_, expected)
    with pytest.raises(ValueError, match="feature names"):
        BayesianSVC(inducing=frame.iloc[:9, ::-1]).fit(frame, y)
    with pytest.raises(ValueError, match="finite"):
        BayesianSVC(inducing=np.full((3, 2), np.nan)).fit(X, y)
    with pytest.raises(ValueError, match="'batch' uses the rows as inducing points"):
        BayesianSVC(inducing=X[:9], inference="batch").fit(X, y)


def test_points_of_repeated_rows_are_distinct():
    X = np.repeat([[0.0], [1.0], [2.0]], 50, axis=0)
    y = np.tile([0, 1], 75)
    assert_array_equal(BayesianSVC(inference="batch").fit(X, y).inducing_points_, [[0.0], [1.0], [2.0]])


def test_the_linear_kernel_is_the_linear_model():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = BayesianSVC(0.7 * Linear() + Constant(1e4), inference="batch", tune=None, tol=1e-9, max_iter=500).fit(X, y)
    linear = BayesianLinearSVC(prior=0.7, tol=1e-9, max_iter=500).fit(X, y)
    # The intercept's prior variance is 1e4 here and 1e8 there, and the Gram matrix has rank 31 but for its jitter.
    assert_allclose(*(model.latent_mean_and_variance(X)[0] for model in (kernel, linear)), atol=2e-3)
    assert_allclose(*(model.latent_mean_and_variance(X)[1] for model in (kernel, linear)), rtol=2e-3, atol=1e-3)


def test_a_vanishing_variance_leaves_the_support_vector_machine(moons):
    """At C = 2 x variance and the same kernel, the latent mean has the signs of SVC's own decision."""
    X, y = moons
    ours = BayesianSVC(1e3 * RBF(0.5), inference="batch", tune=None, loss="hinge", max_iter=500).fit(X, y)
    theirs = SVC(C=2e3, gamma=1 / (2 * 0.5**2)).fit(X, y)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.97


def test_far_from_the_data_nothing_is_known(moons):
    X, y = moons
    model = BayesianSVC(tune=None).fit(X, y)
    _mu, v = model.latent_mean_and_variance([[1e6, -1e6]])
    assert_allclose(v, 11, atol=0.7)  # the prior's variance, less what is learnt of the shared offset
    assert abs(model.predict_proba([[1e6, -1e6]])[0, 1] - 0.5) < 0.1


def test_leave_one_out_log_loss_predicts_cross_validation():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:300, :6], y[:300]
    model = BayesianSVC().fit(X, y)
    validated = log_loss(y, cross_val_predict(BayesianSVC(), X, y, cv=20, method="predict_proba"))
    # Both estimate one number from 300 rows; their difference is far below its standard error of about .02.
    assert abs(model.loo_log_loss_ - validated) < 0.02
