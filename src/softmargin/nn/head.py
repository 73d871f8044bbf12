"""A Bayesian last layer: a Gaussian process on the features of a network, with a support vector machine's loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from ..arrays import combined, replayed, to_numpy
from ..estimators import BayesianSVC
from ..gaussian import Belief
from ..kernels import RBF, Constant
from ..likelihoods import Loss, named_likelihood
from ..links import probabilities, settled
from ..parameters import one_of, positive_integer, positive_number
from ..priors import Ridge
from ..rows import Features, InducingRows
from ..streaming import Record
from ..uncertainty import mutual_information_of, normal_draws, variation_ratio_of
from .closed import checked, checked_loss, known_to
from .objective import BatchResult, Moments, Terms, expected_log_likelihood, units_of, with_slopes
from .state import HeadState

MEASURES = ("variation_ratio", "entropy", "mutual_information")
#: Variances of the function and of an offset in the initial kernel, which tuning may change.
_VARIANCE, _OFFSET = 4.0, 1.0
#: The weight of a minibatch in the running mean and spread of the features.
_MOMENTUM = 0.1


class _AllAtOnce(BayesianSVC):
    """The classifier of all features at hand: a first batch, so that classes may be absent, and the only one."""

    def _warn_of_first_batch(self, y: np.ndarray) -> None:
        return


class MarginHead(HeadState):
    r"""Bayesian support vector machine (or Gaussian process classifier) on the features of any network.

    Latent functions are Gaussian processes of the features, approximated with inducing points: with
    :math:`\phi = L^{-1} k(Z, x)` and a belief :math:`N(m_k, S_k)` for each class,
    :math:`\mu_k = \phi^T m_k` and :math:`v_k = k(x, x) - \phi^T \phi + \phi^T S_k \phi`.  The objective is that of
    every model of this package,

    .. math:: \sum_i E \log p(y_i \mid f_i) - \sum_k KL(N(m_k, S_k) \,\|\, N(0, I)).

    **Two ways to fit.**  `fit` finds points, kernel, belief and link for fixed features, in closed form.  `loss` is for
    training the network: gradients flow to the features, while the belief follows the minibatches by itself, like the
    statistics of batch normalisation: in training mode each call blends the sums over its rows into those of earlier
    ones, :math:`(G, h) \leftarrow (1 - \rho) (G, h) + \rho\, (N / b) \sum (w \phi \phi^T, b \phi)`,
    a step along the natural gradient, from ``every`` few minibatches at once.  The head has no parameters for the
    optimiser, and no learning rate can destabilise it.  Points and kernel stay where `fit` put them; as features
    change, call it again from time to time, on some rows.

    **Units.**  Features are standardised: by their minibatch in training mode, and otherwise by earlier statistics.
    Features of an untrained network hardly vary, and a first step of the optimiser would move them far from all
    points, where gradients vanish.

    Parameters
    ----------
    n_features : int
        Number of features.
    n_classes : int
        Two or more; labels are codes from 0, as for `torch.nn.CrossEntropyLoss`.
    n_inducing : int
        Number of inducing points, shared by all classes.
    loss : {"hinge", "hinge-augmented", "logistic", "logistic-jj"}
        As in `softmargin.BayesianSVC`; or a likelihood that is a bound and accepts tensors.
    multi_class : {"auto", "weston-watkins", "ovr", "softmax"}
        As in `softmargin.BayesianSVC`.
    length_scale : float, optional
        Of the kernel, for standardised features; by default the square root of their number.  With shorter ones, the
        head becomes uncertain closer to the rows it knows.
    rate : float
        Weight of new sums when they are blended into earlier ones, :math:`\rho`.
    every : int
        Number of minibatches whose sums make one such step.

    Attributes
    ----------
    points, center, spread : tensors
        Inducing points, in units of the features in `fit`: minus their mean, divided by their standard deviation.
    means, roots : tensors
        The belief about the weights of each class, :math:`S = R^T R`.
    kl_weight : float
        The weight of the divergence, 1 except during warm-up: below 1, rows count as if there were more of them.

    Examples
    --------
    A network is trained, its head first:

    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from softmargin.nn import MarginHead
    >>> digits = load_digits()
    >>> X, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
    >>> head = MarginHead(16, 10, n_inducing=50)
    >>> _ = head.fit(network(X[:1000]).detach(), y[:1000])
    >>> optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    >>> for batch in torch.randperm(1000).repeat(10).split(100):
    ...     optimiser.zero_grad()
    ...     head.loss(network(X[batch]), y[batch], n_total=1000).backward()
    ...     optimiser.step()
    >>> _ = head.eval().fit(network(X[:1000]).detach(), y[:1000])
    >>> proba = head.predict_proba(network(X[1000:]))
    >>> bool((proba.argmax(1) == y[1000:]).double().mean() > 0.9)
    True
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        n_inducing: int = 100,
        *,
        loss: Loss = "hinge",
        multi_class: str = "auto",
        length_scale: float | None = None,
        rate: float = 0.05,
        every: int = 4,
    ) -> None:
        for name, value in {
            "n_features": n_features,
            "n_classes": n_classes,
            "n_inducing": n_inducing,
            "every": every,
        }.items():
            positive_integer(name, value)
        if n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {n_classes}.")
        super().__init__(n_features, n_classes)
        given = checked_loss(loss, multi_class)
        positive_number("rate", rate)
        positive_number("length_scale", length_scale, none=True)
        self.length_scale = math.sqrt(n_features) if length_scale is None else float(length_scale)
        self.n_inducing, self.rate, self.every = n_inducing, rate, every
        self.loss_name, self.multi_class = loss, multi_class
        self.likelihood = named_likelihood(given, multi_class, n_classes)
        self.kl_weight = 1.0
        #: Likelihood and divergence in the last loss, per row; they stay on the device until ``terms`` is read.
        self.last_terms = torch.full((2,), math.nan, dtype=torch.float64)

    @property
    def terms(self) -> Terms:
        """The terms of the last loss, per row."""
        return Terms(*self.last_terms.tolist())

    # In closed form ------------------------------------------------------------------------------

    def fit(
        self,
        features: Any,
        y: Any,
        *,
        tune: bool = False,
        n_total: int | None = None,
        tol: float = 1e-3,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> Any:
        """Fit points, kernel, belief and link to fixed features.

        Parameters
        ----------
        features : tensor or array of shape (n_rows, n_features)
            As computed by the network; a few thousand rows are plenty.
        y : n_rows codes
            From 0; all classes should occur.
        tune : bool
            Whether to tune the kernel.  Features of a trained network are so well separated that it hardly matters,
            and tuning takes longest for them.
        n_total : int, optional
            The number of rows that these represent, if they are a sample; the belief is as certain as with all of them.
        tol : float
            Relative gain of the objective at which to stop.
        random_state : int, RandomState or None
            Seeds the choice of points.
        n_jobs : int, optional
            Number of threads.

        Returns
        -------
        self
            The fitted head.
        """
        X, codes = checked(features, y, self.n_features, self.n_classes)
        center, spread = (to_numpy(part) for part in units_of(torch.as_tensor(X)))
        start = _VARIANCE * RBF(self.length_scale) + Constant(_OFFSET)
        model = _AllAtOnce(
            start,
            loss=self.loss_name,
            multi_class=self.multi_class,
            tune="logistic" if tune else None,
            n_inducing=min(self.n_inducing, len(X)),
            tol=tol,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        model.partial_fit((X - center) / spread, codes, classes=np.arange(self.n_classes))
        self._take({"center": center, "spread": spread} | known_to(model))
        self._keep_link(model.link_)
        if n_total is not None and n_total != len(X):
            self.G *= n_total / len(X)
            self.h *= n_total / len(X)
            self._believe()
        return self

    def calibrate(self, features: Any, y: Any) -> Any:
        """Refit the link, on rows that neither the network nor the head was trained on; returns the head."""
        X, codes = checked(features, y, self.n_features, self.n_classes)
        with torch.no_grad():
            mean, variance = (to_numpy(part) for part in self(torch.as_tensor(X, device=self.points.device)))
        labels = 2.0 * codes - 1 if self.n_functions == 1 else codes.astype(float)
        self._keep_link(Record(mean, variance, labels, np.ones(len(codes))).link())
        return self

    # With the network ----------------------------------------------------------------------------

    def forward(self, features: Tensor) -> Moments:
        """Mean and variance of the latent values of rows; gradients flow to the features."""
        X = _wide(features)
        return self._moments(self._lifted(X, *self._units(X)))

    def loss(self, features: Tensor, y: Tensor, n_total: int) -> Tensor:
        """Negative objective for a table of ``n_total`` rows, per row, estimated from a minibatch.

        In training mode this also updates the belief.  With several processes (`torch.distributed`), sums are shared,
        so that all have the same belief.
        """
        X = _wide(features)
        result = self._batch_result(X.detach(), y)
        if self._kl is None:
            self._kl = self.divergence()
        divergence, likelihood = self._kl / n_total, with_slopes(X, result.likelihood, result.slopes)
        self.last_terms = torch.stack([result.likelihood, divergence])
        if self.training:
            with torch.no_grad():
                self._step(result, len(y), n_total)
        return -likelihood + self.kl_weight * divergence

    def divergence(self) -> Tensor:
        """Divergence of the belief from the prior, summed over classes."""
        prior = Ridge.isotropic(self.points.shape[0])

        def of_class(mean: Tensor, root: Tensor, log_det: Tensor) -> Tensor:
            return prior.kl(Belief(mean, root, log_det))

        return torch.vmap(of_class)(self.means, self.roots, self.log_dets).sum()

    def _batch_result(self, X: Tensor, y: Tensor) -> BatchResult:
        """Terms, gradient and sums of a minibatch; on a GPU, the work is recorded once and then replayed."""
        # Labels as likelihoods expect them: -1 and +1, or codes.
        labels = (2 * y - 1 if self.n_functions == 1 else y).to(torch.float64)
        key = (X.shape, X.dtype, X.device, self.training, self.means.data_ptr(), id(self.kernel))
        if key not in self._recorded:
            self._recorded[key] = replayed(self._compute, X, labels)
        result = self._recorded[key](X, labels)
        # A replay overwrites its results, and these may be needed after the next minibatch.
        return result._replace(likelihood=result.likelihood.clone(), slopes=result.slopes.clone())

    def _compute(self, X: Tensor, labels: Tensor) -> BatchResult:
        with torch.enable_grad():
            X = X.detach().requires_grad_(True)
            center, spread = self._units(X)
            lifted = self._lifted(X, center, spread)
            expected, sites = expected_log_likelihood(*self._moments(lifted), labels, self.likelihood)
            likelihood = expected.mean()
            (slopes,) = torch.autograd.grad(likelihood, X)
        w, b = (part.reshape(len(part), -1) for part in (sites.w, sites.b))
        phi = lifted.phi.detach()
        G, h = torch.vmap(lambda w, b: Features(phi, phi[:, 0]).gather(w, b), in_dims=1)(w, b)
        return BatchResult(likelihood.detach(), slopes, center.detach(), spread.detach(), G, h)

    def _units(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the features: of these rows in training, if several; else the running ones."""
        if self.training and len(X) > 1:
            return units_of(X)
        return self.center.to(X.dtype), self.spread.to(X.dtype)

    def _lifted(self, X: Tensor, center: Tensor, spread: Tensor) -> Features:
        if not self.is_fitted:
            raise RuntimeError("The head has no inducing points yet: call fit with the features of some rows first.")
        with torch.autocast(X.device.type, enabled=False):  # half precision is too coarse for differences
            return self._rows().lift((X - center) / spread)

    def _rows(self) -> InducingRows:
        return InducingRows(self.kernel, self.points, self.whitener, 0.0)

    def _moments(self, lifted: Features) -> Moments:
        means, roots = (part.to(lifted.phi.dtype) for part in (self.means, self.roots))

        def of_class(mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
            latent = lifted.moments(Belief(mean, root, 0.0))
            return latent.mu, latent.v

        with torch.autocast(lifted.phi.device.type, enabled=False):
            mu, v = torch.vmap(of_class, out_dims=1)(means, roots)
        return Moments(mu[:, 0], v[:, 0]) if self.n_functions == 1 else Moments(mu, v)

    def _step(self, result: BatchResult, n_rows: int, n_total: int) -> None:
        """Updates the running units; after every few minibatches, blends their sums into ``G`` and ``h``, and updates
        the belief."""
        self.center.lerp_(result.center.to(self.center.dtype), _MOMENTUM)
        self.spread.lerp_(result.spread.to(self.spread.dtype), _MOMENTUM)
        sums = result.G, result.h, torch.full((1,), float(n_rows), dtype=torch.float64, device=result.G.device)
        sums = sums if self._pending is None else combined(self._pending, 1, sums)
        self._n_pending += 1
        if self._n_pending < self.every:
            self._pending = tuple(part.clone() for part in sums) if self._pending is None else sums
            return
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for part in sums:
                torch.distributed.all_reduce(part)
        G, h, rows = sums
        self.G.lerp_(n_total / rows * G, self.rate)
        self.h.lerp_(n_total / rows * h, self.rate)
        self._pending, self._n_pending = None, 0
        self._believe()

    def _believe(self) -> None:
        """Updates the belief from the sums, in place, since recorded work reads it from the same memory."""
        prior = Ridge.isotropic(self.points.shape[0])

        def of_class(G: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return tuple(prior.given(G / self.kl_weight, h / self.kl_weight)[:3])  # type: ignore[return-value]

        for own, new in zip((self.means, self.roots, self.log_dets), torch.vmap(of_class)(self.G, self.h), strict=True):
            own.copy_(new)
        self._kl = None

    # Predictions ---------------------------------------------------------------------------------

    @torch.no_grad()
    def predict_proba(self, features: Tensor) -> Tensor:
        """Probability of each class for each row."""
        mean, variance = (to_numpy(part) for part in self(features))
        return torch.as_tensor(probabilities(settled(self.link.score(mean, variance))), device=features.device)

    @torch.no_grad()
    def uncertainty(self, features: Tensor, measure: str = "variation_ratio") -> Tensor:
        """Uncertainty of each row, by one of the measures of `softmargin.uncertainty`."""
        one_of("measure", measure, MEASURES)
        if measure == "entropy":
            p = self.predict_proba(features)
            return torch.special.entr(p).sum(dim=1)
        mean, variance = (to_numpy(part) for part in self(features))
        if measure == "variation_ratio":
            found = variation_ratio_of(mean, variance, self.link)
        else:
            draws = None if mean.ndim == 1 else normal_draws(256, mean.shape[1], 0)
            found = mutual_information_of(mean, variance, self.link, draws)
        return torch.as_tensor(found, device=features.device)

    @torch.no_grad()
    def sample(self, features: Tensor, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values of rows, the last axis; before it classes, if more than two.

        Draws are functions of the features, so this takes a matrix over all pairs of rows.
        """
        rng, X = check_random_state(random_state), _wide(features)
        X = ((X - self.center.to(X.dtype)) / self.spread.to(X.dtype)).double()
        rows = self._rows()
        phi, root = to_numpy(rows.lift(X).phi), to_numpy(rows.leftover_root(X))
        beliefs = (Belief(mean, factor, 0.0) for mean, factor in zip(self.means, self.roots, strict=True))
        draws = np.stack([phi @ belief.sample(n_samples, rng).T for belief in beliefs], axis=1)
        draws += np.tensordot(root, rng.standard_normal((root.shape[1], *draws.shape[1:])), axes=1)
        return draws[:, 0] if self.n_functions == 1 else draws

    def extra_repr(self) -> str:
        return f"{self.n_features}, {self.n_classes}, n_inducing={self.n_inducing}, loss={self.loss_name!r}"


def _wide(features: Tensor) -> Tensor:
    return features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
