"""Parameters of kernels by name, in estimators and in scikit-learn's searches."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianMixedSVC, BayesianOneClassSVM, BayesianSVC
from softmargin.kernels import RBF, Constant, Linear, Matern, Sum, White
from test_kernels import CASES

KERNELS = [case.kernel for case in CASES]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_kernel_is_made_anew_from_its_parameters(kernel):
    assert kernel.with_params(**kernel.get_params(deep=False)) == kernel
    assert kernel.with_params(**kernel.get_params()) == kernel
    assert type(kernel)(**kernel.get_params(deep=False)) == kernel


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_number_of_a_kernel_can_be_set_by_its_name(kernel):
    names = [name for name in kernel.get_params() if name.rpartition("__")[2] in ("variance", "length_scale")]
    changed = kernel.with_params(**dict.fromkeys(names, 3.0))
    assert len(names) == len(kernel.roles)
    np.testing.assert_allclose(np.exp(changed.theta), 3.0)
    for name in names:
        alone = kernel.with_params(**{name: 7.0})
        assert alone.get_params()[name] == 7.0
        assert [key for key, value in alone.get_params().items() if value == 7.0] == [name]
    assert kernel == type(kernel)(**kernel.get_params(deep=False))  # it has not changed itself


def test_parts_and_their_parameters_can_be_set_at_once():
    kernel = (2.0 * RBF(0.5)).with_params(second=Matern(1.0), second__nu=2.5, first=3.0)
    assert kernel == 3.0 * Matern(1.0, nu=2.5)
    assert Sum(2.0, sk.RBF(1.5)) == Constant(2.0) + RBF(1.5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lenght_scale": 1.0}, "did you mean .second__length_scale"),
        ({"frst": 1.0}, "did you mean 'first'"),
        ({"second__frst__x": 1.0}, "RBF.*no parameter 'frst'"),
        ({"second__length_scale__x": 1.0}, "length_scale of RBF.* is not a kernel"),
        ({"second__length_scale": -1.0}, "length_scale must be positive"),
        ({"first": "rbf"}, "kernel must be a kernel of softmargin.kernels"),
    ],
)
def test_names_and_values_that_are_none_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        (2.0 * RBF(0.5)).with_params(**params)


def test_a_search_over_parameters_of_a_kernel_fits_each_of_them():
    X, y = make_moons(90, noise=0.3, random_state=0)
    model = BayesianSVC(4.0 * RBF(1.0) + White(0.01), tune=None, n_inducing=10, random_state=0)
    scales, variances = [0.1, 1.0, (1.0, 3.0)], [0.5, 20.0]
    name = "bayesiansvc__kernel__first__"
    grid = {f"{name}second__length_scale": scales, f"{name}first__variance": variances}
    search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, scoring="neg_log_loss", cv=3).fit(X, y)
    for params, mean in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        scale, variance = (params[f"{name}{key}"] for key in ("second__length_scale", "first__variance"))
        own = clone(model).set_params(kernel=variance * RBF(scale) + White(0.01))
        expected = cross_val_score(make_pipeline(StandardScaler(), own), X, y, scoring="neg_log_loss", cv=3).mean()
        assert mean == pytest.approx(expected, rel=1e-12)
    assert len(search.cv_results_["params"]) == len(list(product(scales, variances)))
    assert model.kernel == 4.0 * RBF(1.0) + White(0.01)


@pytest.mark.parametrize(
    "model",
    [
        BayesianSVC(RBF(1.0)),
        BayesianKernelMachine(RBF(1.0)),
        BayesianMixedSVC("y ~ x", kernel=RBF(1.0)),
        BayesianOneClassSVM(RBF(1.0)),
        BayesianSVC(sk.RBF(1.0)),
    ],
    ids=repr,
)
def test_every_estimator_with_a_kernel_reaches_its_parameters(model):
    changed = clone(model).set_params(kernel__length_scale=2.0, random_state=3)
    assert changed.kernel.length_scale == changed.get_params()["kernel__length_scale"] == 2.0
    assert changed.random_state == 3
    assert model.kernel.length_scale == 1.0
    assert clone(changed).kernel.length_scale == 2.0
    both = clone(model).set_params(kernel__variance=5.0, kernel=Linear())
    assert both.kernel == Linear(5.0)


TUNED = [BayesianSVC(n_inducing=5), BayesianGPC(n_inducing=5), BayesianMixedSVC(n_inducing=5), BayesianKernelMachine()]


@pytest.mark.parametrize("model", TUNED, ids=repr)
def test_fixed_parameters_of_scikit_learn_are_kept_or_refused(model, rng):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0
    model = clone(model).set_params(kernel=2.0 * sk.RBF(1.5, length_scale_bounds="fixed"), random_state=0)
    with pytest.raises(ValueError, match=r"k2__length_scale should stay fixed.*pass tune=None"):
        model.set_params(tune="logistic").fit(X, y)
    assert model.set_params(tune=None).fit(X, y).kernel_ == 2.0 * RBF(1.5)
    assert BayesianOneClassSVM(sk.RBF(1.5, "fixed"), n_inducing=5).fit(X).machine_.kernel_ == RBF(1.5)


def test_particles_move_no_fixed_length_scales(rng):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0
    few = {"inference": "stein", "n_particles": 2, "n_steps": 2, "n_frequencies": 8, "random_state": 0, "tune": None}
    fixed = sk.ConstantKernel(2.0, "fixed") * sk.RBF(1.5, length_scale_bounds="fixed")
    with pytest.raises(ValueError, match=r"In kernel=.*, k2__length_scale should stay fixed.*pass learn='weights'"):
        BayesianKernelMachine(fixed, **few).fit(X, y)
    with pytest.raises(ValueError, match="k1__constant_value and k2__length_scale should stay fixed"):
        BayesianKernelMachine(fixed, learn="all", **few).fit(X, y)
    kept = BayesianKernelMachine(fixed, learn="weights", **few).fit(X, y).kernel_
    assert_allclose(kept.theta, (2.0 * RBF(1.5)).theta, rtol=1e-6)


def test_other_bounds_of_scikit_learn_are_ignored_with_a_warning(rng):
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0
    model = BayesianSVC(sk.RBF([1.5, 2.0], (0.5, 2.0)), n_inducing=5, random_state=0)
    with pytest.warns(UserWarning, match=r"The bounds of length_scale in kernel=.* are ignored.*tune=None") as seen:
        bounded = model.fit(X, y)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert bounded.kernel_ == model.set_params(kernel=sk.RBF([1.5, 2.0])).fit(X, y).kernel_
    BayesianSVC(sk.RBF([1.5, 2.0], (0.5, 2.0)), n_inducing=5, tune=None).fit(X, y)


@pytest.mark.parametrize("bounds", [(0.5, 2.0), "fixed"])
def test_bounds_that_a_sum_or_product_with_ours_would_lose_are_named_in_a_warning(bounds):
    theirs = sk.WhiteKernel(0.1) + sk.DotProduct(1.0, bounds)
    for combine in (lambda: RBF() + theirs, lambda: RBF() * theirs, lambda: RBF().__radd__(theirs)):
        with pytest.warns(UserWarning, match=r"The bounds of k2__sigma_0 in .* are lost in a sum or product") as seen:
            combine()
        assert [(warning.filename, warning.lineno) for warning in seen] == [(__file__, combine.__code__.co_firstlineno)]
    (RBF() + sk.WhiteKernel(0.1)).with_theta(np.zeros(2))  # bounds that nobody has set: no warning


def test_kernels_of_scikit_learn_cannot_hold_ours(rng):
    X = rng.normal(size=(20, 2))
    for kernel in (sk.WhiteKernel() + RBF(), sk.ConstantKernel(2.0) * RBF()):
        with pytest.raises(ValueError, match=r"cannot hold RBF.*the kernel of softmargin first, as in RBF"):
            BayesianSVC(kernel).fit(X, X[:, 0] > 0)


def test_words_for_kernels_have_no_parameters():
    with pytest.raises(ValueError, match=r"kernel='rbf' has no parameters to set, but kernel__length_scale was given"):
        BayesianSVC().set_params(kernel__length_scale=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'krnel'"):
        BayesianSVC().set_params(krnel__length_scale=1.0)


# Kernels that cannot be used ---------------------------------------------------------------------


@pytest.fixture
def table(rng):
    X = rng.normal(size=(60, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


@pytest.mark.parametrize("tune", ["logistic", None])
@pytest.mark.parametrize("kernel", [RBF((1.0, 2.0)), 2.0 * Matern((1.0, 2.0)) + 1.0])
@pytest.mark.parametrize(
    "model", [BayesianSVC(), BayesianGPC(), BayesianMixedSVC(), BayesianKernelMachine(), BayesianOneClassSVM()]
)
def test_length_scales_are_counted_before_tuning(model, kernel, tune, table):
    model = clone(model).set_params(kernel=kernel, **({"tune": tune} if hasattr(model, "tune") else {}))
    with pytest.raises(ValueError, match=r"kernel has 2 length-scales, but the data has 3 columns: give one"):
        model.fit(*table)


@pytest.mark.parametrize(
    "model", [BayesianMixedSVC(kernel=2), BayesianOneClassSVM(2), BayesianKernelMachine(2.0), BayesianGPC(kernel=True)]
)
def test_numbers_are_no_kernels(model, table):
    with pytest.raises(ValueError, match="is a number, and would tell no row from another"):
        model.fit(*table)
