"""The other methods that benchmarks compare with, behind ``fit`` and ``predict_proba``.

Each gets what it is known to need: columns are standardised on the training rows.  Where a kernel is held fixed or a
search needs a starting point, it is the default kernel of `BayesianSVC`, so that the methods differ and not their
settings.  The support vector machines keep scikit-learn's defaults (``C=1``, ``gamma="scale"``).

`SVGP` and `SoftmaxSVGP` need ``pip install torch gpytorch``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

#: The default kernel of `BayesianSVC`, for columns of unit spread: 10 RBF(sqrt(d)) + 1.
VARIANCE, OFFSET = 10.0, 1.0


def calibrated_svc(**settings: Any) -> Pipeline:
    """What scikit-learn recommends in place of ``SVC(probability=True)``: five folds for a sigmoid, one last fit."""
    one_machine: Any = {"ensemble": False}
    return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(**settings), **one_machine))


def platt_svc(**settings: Any) -> Pipeline:
    """LIBSVM's own Platt scaling, as in Wenzel et al. (2017); scikit-learn 1.11 removes it."""
    return make_pipeline(StandardScaler(), _PlattSVC(random_state=0, **settings))


class _PlattSVC(SVC):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.probability = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return super().fit(X, y, sample_weight)


class CalibratedSVC(BaseEstimator):
    """scikit-learn's calibrated support vector machine for many classes, rare ones included; tuned first, with a grid.

    As `CalibratedClassifierCV` has it: the mean of five machines, each calibrated on the rows it has not seen, or with
    ``ensemble=False`` one machine of all rows.  A class with fewer than five rows makes for fewer folds (at least two:
    a single row counts twice), which scikit-learn leaves to its callers.

    ``C`` and ``gamma`` (in units of ``gamma="scale"``), where there are several of either, are chosen by the accuracy
    in three stratified folds, on at most ``most`` random rows; the machine chosen is then fitted to all, and with
    ``ensemble=False`` it is its own ``predict`` that answers, not the most probable class.
    """

    def __init__(
        self,
        ensemble: bool = True,
        C: tuple[float, ...] = (1.0,),
        gamma: tuple[float, ...] = (1.0,),
        most: int | None = None,
    ) -> None:
        self.ensemble = ensemble
        self.C = C
        self.gamma = gamma
        self.most = most

    @property
    def is_tuned(self) -> bool:
        return len(self.C) * len(self.gamma) > 1

    def fit(self, X: Any, y: Any) -> CalibratedSVC:
        X, y = np.asarray(X, dtype=float), np.asarray(y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # classes with fewer rows than folds
            self.best_ = self._search(X, y) if self.is_tuned else {}
            classes, counts = np.unique(y, return_counts=True)
            again = np.flatnonzero(np.isin(y, classes[counts == 1]))
            rows = np.concatenate([np.arange(len(y)), again])
            settings: Any = {"cv": int(np.clip(counts.min(), 2, 5)), "ensemble": self.ensemble}
            model: Any = CalibratedClassifierCV(SVC(cache_size=500, **self.best_), **settings)
            self.model_ = model.fit(X[rows], y[rows])
        self.classes_ = self.model_.classes_
        return self

    def _search(self, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        if self.most is not None and len(y) > self.most:
            some = np.random.default_rng(0).choice(len(y), self.most, replace=False)
            X, y = X[some], y[some]
        scale = 1 / (X.shape[1] * X.var())
        grid = {"C": list(self.C), "gamma": [factor * scale for factor in self.gamma]}
        return GridSearchCV(SVC(cache_size=500), grid, cv=3, refit=False).fit(X, y).best_params_

    def predict(self, X: Any) -> np.ndarray:
        own = self.is_tuned and not self.ensemble
        return (self.model_.calibrated_classifiers_[0].estimator if own else self.model_).predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(X)


class GPC(BaseEstimator):
    """scikit-learn's Gaussian process classifier (Laplace's approximation), of cost n^3.

    The kernel is held at the default of `BayesianSVC`, or tuned from there by the marginal likelihood with one
    length-scale for all columns.  With ``most``, that many random rows are used at most.
    """

    def __init__(
        self, tune: bool = False, most: int | None = None, length_scale: float | None = None, max_newton: int = 100
    ) -> None:
        self.tune = tune
        self.most = most
        self.length_scale = length_scale
        self.max_newton = max_newton

    def fit(self, X: Any, y: Any) -> GPC:
        if self.most is not None and len(y) > self.most:
            some = np.random.default_rng(0).choice(len(y), self.most, replace=False)
            X, y = X[some], y[some]
        length_scale = X.shape[1] ** 0.5 if self.length_scale is None else self.length_scale
        optimizer: Any = "fmin_l_bfgs_b" if self.tune else None
        model = GaussianProcessClassifier(
            ConstantKernel(VARIANCE) * RBF(length_scale) + ConstantKernel(OFFSET),
            optimizer=optimizer,
            max_iter_predict=self.max_newton,
            copy_X_train=False,
        )
        # A length-scale given is meant for the columns as they are.
        scaler = StandardScaler() if self.length_scale is None else "passthrough"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parameters at the edge of their range
            self.model_ = make_pipeline(scaler, model).fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(X)


class SVGP(BaseEstimator):
    """GPyTorch's stochastic variational Gaussian process classifier (Hensman et al. 2015), labels -1 and +1.

    Whitened, k-means points (on the sample that `BayesianSVC` would take), a constant mean, one length-scale for each
    column, Bernoulli likelihood; natural gradients for the variational parameters and Adam for the kernel and, as in
    GPyTorch's examples, the points.  Batches are slices of a shuffled tensor: a data loader would only be slower.
    Single precision, GPyTorch's default.

    `run` trains and yields the seconds of training so far after every ``every`` steps, and once per epoch if None:
    the caller may predict in between, off the clock, or stop.
    """

    def __init__(
        self,
        n_points: int,
        epochs: int = 10,
        batch_size: int = 1024,
        tune: bool = True,
        length_scale: float | None = None,
        natural_step: float = 0.05,
        adam_step: float = 0.01,
        every: int | None = None,
        seed: int = 0,
    ) -> None:
        self.n_points = n_points
        self.epochs = epochs
        self.batch_size = batch_size
        self.tune = tune
        self.length_scale = length_scale
        self.natural_step = natural_step
        self.adam_step = adam_step
        self.every = every
        self.seed = seed

    @staticmethod
    def prepare(threads: int) -> None:
        """Sets the threads of PyTorch, and takes one step: imports and first calls are slow, and nobody's time."""
        import torch

        torch.set_num_threads(threads)
        X = np.random.default_rng(0).standard_normal((64, 2))
        SVGP(8, epochs=1).fit(X, X[:, 0])

    def fit(self, X: Any, y: Any) -> SVGP:
        for _ in self.run(X, y):
            pass
        return self

    def run(self, X: Any, y: Any) -> Iterator[float]:
        import gpytorch
        import torch

        start, paused = time.perf_counter(), 0.0
        torch.manual_seed(self.seed)
        self.scaler_ = StandardScaler(with_mean=self.length_scale is None, with_std=self.length_scale is None).fit(X)
        rows = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        labels = torch.as_tensor(np.asarray(y) > 0, dtype=torch.float32)
        self.model_ = _svgp_model(torch.as_tensor(self._points(rows.numpy())), self.length_scale, self.tune)
        self.likelihood_ = gpytorch.likelihoods.BernoulliLikelihood()
        objective = gpytorch.mlls.VariationalELBO(self.likelihood_, self.model_, num_data=len(y))
        steps: list[Any] = [
            gpytorch.optim.NGD(self.model_.variational_parameters(), num_data=len(y), lr=self.natural_step)
        ]
        if self.tune:
            steps.append(torch.optim.Adam(self.model_.hyperparameters(), lr=self.adam_step))
        every, done = self.every or -(-len(y) // self.batch_size), 0
        for _ in range(self.epochs):
            for batch in torch.randperm(len(y)).split(self.batch_size):
                self.model_.train()
                for step in steps:
                    step.zero_grad()
                loss: Any = -objective(self.model_(rows[batch]), labels[batch])  # type: ignore[operator]
                loss.backward()
                for step in steps:
                    step.step()
                done += 1
                if done % every == 0:
                    stop = time.perf_counter()
                    yield stop - start - paused
                    paused += time.perf_counter() - stop

    def _points(self, rows: np.ndarray) -> np.ndarray:
        rng = np.random.RandomState(self.seed)
        size = min(len(rows), max(8192, 8 * self.n_points))
        sample = rows[rng.choice(len(rows), size, replace=False)]
        settings: Any = {"n_init": 1, "max_iter": 10, "random_state": rng}
        return KMeans(self.n_points, **settings).fit(sample).cluster_centers_

    def predict(self, X: Any) -> np.ndarray:
        return np.where(self.predict_proba(X)[:, 1] > 0.5, 1.0, -1.0)

    def predict_proba(self, X: Any) -> np.ndarray:
        import torch

        self.model_.eval()
        rows = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        with torch.no_grad():
            p = torch.cat([self.likelihood_(self.model_(block)).probs for block in rows.split(4096)])
        p = p.double().numpy()
        return np.column_stack([1 - p, p])


def _svgp_model(points: Any, length_scale: float | None, tune: bool) -> Any:
    import gpytorch
    from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy

    m, d = points.shape

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            belief = NaturalVariationalDistribution(m)
            super().__init__(VariationalStrategy(self, points, belief, learn_inducing_locations=tune))
            self.mean: Any = gpytorch.means.ConstantMean()
            self.kernel: Any = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))
            self.kernel.outputscale = VARIANCE
            self.kernel.base_kernel.lengthscale = d**0.5 if length_scale is None else length_scale

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    return Model()


class SoftmaxSVGP(BaseEstimator):
    """GPyTorch's stochastic variational Gaussian process classifier for K classes: K functions and a softmax.

    Whitened, k-means points, a constant mean for each class, one kernel with a length-scale for each column that the
    classes share (kernels of their own overfitted small tables, and took twice as long), no mixing, ten draws of the
    functions a row, as is GPyTorch's default.  Adam for everything: with draws for expectations, natural gradients
    left the positive definite matrices on some tables.  Steps shrink linearly to nothing over 600 of them, or 50
    epochs if those are more, on batches of at most 1,024 rows.  Of the step sizes tried (.02 to .2 for the variational
    parameters and the points, one to ten times that for the kernel) those kept here had the best bound after so many
    steps; twice as many still gain a little (.01 to .02 in log loss on vehicle).  Single precision.
    """

    #: Draws of the functions for a prediction.
    draws = 256

    def __init__(
        self,
        n_points: int = 64,
        least_steps: int = 600,
        epochs: int = 50,
        batch_size: int = 1024,
        step: float = 0.1,
        kernel_step: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.n_points = n_points
        self.least_steps = least_steps
        self.epochs = epochs
        self.batch_size = batch_size
        self.step = step
        self.kernel_step = kernel_step
        self.seed = seed

    def fit(self, X: Any, y: Any) -> SoftmaxSVGP:
        import gpytorch
        import torch

        torch.manual_seed(self.seed)
        self.scaler_ = StandardScaler().fit(X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        rows = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        labels = torch.as_tensor(codes)
        points = np.unique(SVGP(self.n_points, seed=self.seed)._points(rows.numpy()).round(4), axis=0)
        self.model_ = _softmax_model(torch.as_tensor(points), len(self.classes_))
        settings: Any = {"num_classes": len(self.classes_), "mixing_weights": False}
        self.likelihood_ = gpytorch.likelihoods.SoftmaxLikelihood(**settings)
        objective = gpytorch.mlls.VariationalELBO(self.likelihood_, self.model_, num_data=len(codes))
        kernel = [*self.model_.kernel.parameters(), *self.model_.mean.parameters()]
        others = [p for p in self.model_.parameters() if all(p is not one for one in kernel)]
        adam = torch.optim.Adam([{"params": kernel, "lr": self.kernel_step}, {"params": others, "lr": self.step}])
        batches = -(-len(codes) // self.batch_size)
        epochs = max(self.epochs, -(-self.least_steps // batches))
        shorter = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.02, total_iters=epochs * batches)
        self.model_.train()
        for _ in range(epochs):
            for batch in torch.randperm(len(codes)).tensor_split(batches):
                adam.zero_grad()
                loss: Any = -objective(self.model_(rows[batch]), labels[batch])  # type: ignore[operator]
                loss.backward()
                adam.step()
                shorter.step()
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        import gpytorch
        import torch

        self.model_.eval()
        torch.manual_seed(self.seed)
        rows = torch.as_tensor(self.scaler_.transform(X), dtype=torch.float32)
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(self.draws):
            drawn: Any = [self.likelihood_(self.model_(block)) for block in rows.split(1024)]
        p = torch.cat([each.probs.mean(dim=0) for each in drawn]).double().numpy()
        return p / p.sum(axis=1, keepdims=True)


def _softmax_model(points: Any, n_classes: int) -> Any:
    import gpytorch
    import torch
    from gpytorch.variational import (
        CholeskyVariationalDistribution,
        IndependentMultitaskVariationalStrategy,
        VariationalStrategy,
    )

    (m, d), batch = points.shape, torch.Size([n_classes])

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            belief = CholeskyVariationalDistribution(m, batch_shape=batch)
            each = VariationalStrategy(self, points, belief, learn_inducing_locations=True)
            super().__init__(IndependentMultitaskVariationalStrategy(each, num_tasks=n_classes))
            self.mean: Any = gpytorch.means.ConstantMean(batch_shape=batch)
            self.kernel: Any = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=d))
            self.kernel.outputscale = VARIANCE
            self.kernel.base_kernel.lengthscale = d**0.5

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    return Model()
