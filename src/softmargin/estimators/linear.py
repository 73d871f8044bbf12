"""The linear support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chunks import dense
from ..likelihoods import Loss
from ..monitor import Monitor
from ..priors import Known, LaplaceZero, Structured
from ..validation import refuse_empty_columns
from .base import Data, Found, Parts
from .fixed_effects import FixedEffectsMixin, check_fixed_effects, fixed_effects, loss_of, with_gaps
from .partial import StreamingClassifier
from .wide import is_wide, reduced, with_variance

#: Models with more columns do not support batches: the first would take minutes and gigabytes.
_MOST_COLUMNS = 2000


class BayesianLinearSVC(FixedEffectsMixin, StreamingClassifier):
    r"""Bayesian linear support vector machine that infers its own penalty, with standard deviations of coefficients.

    Columns are centred and divided by their spread, so that the prior does not depend on their units; ``coef_`` and
    ``coef_std_`` are in the original units.  Missing entries of X (NaN) are inferred along with the coefficients, from
    the other columns and the label.  With more than two classes, each has its own coefficients.

    Parameters
    ----------
    loss : {"auto", "hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"}
        ``"hinge"`` takes the expectation of the hinge loss exactly; ``"hinge-augmented"`` is the bound of Luts and
        Ormerod (2014), whose standard deviations are too small.  ``"auto"`` is ``"hinge"``, with these exceptions:
        ``"logistic-jj"`` if entries are missing, since that bound needs only two moments of a latent value, and its
        likelihood keeps labels from filling gaps with whatever suits them; ``"hinge-augmented"`` with
        ``multi_class="crammer-singer"``; and ``"logistic"`` with ``prior="laplace-zero"``, because noise columns look
        useful to the hinge, which has no normaliser (``inference="gibbs"`` averages over choices and keeps the hinge).
        Or a likelihood, as in `BayesianSVC`.
    multi_class : {"auto", "weston-watkins", "crammer-singer", "ovr", "softmax"}
        As in `BayesianSVC`.  If entries are missing, the latent values of a row's classes are correlated, and only
        ``"ovr"``, which is ``"auto"`` in that case, is known to give a bound.
    inference : {"auto", "cavi", "svi", "adam", "gibbs", "ecm"}
        As in `BayesianSVC`; with ``prior="laplace-zero"`` or missing entries ``"auto"``, ``"cavi"`` or ``"gibbs"``.
        ``"gibbs"`` samples under the likelihood that ``loss`` bounds: with missing entries and ``loss="auto"``, the
        logistic one, which needs ``pip install "softmargin[gibbs]"``.
    prior : {"ridge", "ard", "laplace-zero"}, float, or array of shape (n_columns,) or (n_columns, n_columns)
        ``"ridge"`` infers one variance for all coefficients and ``"ard"`` one for each, with an inverse gamma prior;
        numbers are the prior variance, variances or covariance of the coefficients.  The papers' penalty ``alpha`` is
        a quarter of the inverse variance.  ``"laplace-zero"`` selects columns: a coefficient is either zero or drawn
        from a Laplace distribution whose variance is inferred.
    shape, rate : float, optional
        Of the inverse gamma prior of an inferred variance.  By default 5 and 1 (``"ridge"``) or 2 and 0.2
        (``"ard"``, ``"laplace-zero"``), a variance of about a fifth in units of the columns' spread; for the models of
        Luts and Ormerod (``"ridge"`` and ``"laplace-zero"`` with ``loss="hinge-augmented"``), the 0.01 and 0.01 of
        their paper.  With so vague a prior, the exact losses let the variance grow almost without end if the classes
        are linearly separable.
    rho : float or "learned"
        With ``prior="laplace-zero"``: the share of columns expected to matter.  ``"learned"`` puts a prior on it under
        which about one column does, however many there are.  Smaller shares keep fewer noise columns and lose more
        columns with small effects; one half keeps about a quarter of the noise, and more with the hinge.
    fit_intercept : bool
        Whether to add an unpenalised intercept.
    standardize : bool
        Whether the prior is in units of each column's spread; otherwise it is in the columns' own units.
    batch_size, learning_rate, n_draws, n_chains, warm_up, thin, forgetting
        As in `BayesianSVC`.
    link, class_weight, tol, max_iter, max_time, n_jobs, device, precision, checkpoint, verbose, random_state
        As in `BayesianSVC`; passes are cheap here, so ``tol`` is smaller.  Only minibatches and draws are random.

    Attributes
    ----------
    classes_ : array of the class labels
    coef_, coef_std_ : arrays of shape (1, n_columns), posterior means and standard deviations; with more than two
        classes, of shape (n_classes, n_columns)
    intercept_, intercept_std_ : arrays of shape (1,), or (n_classes,)
    prior_variance_ : float or array, the prior variance of the coefficients, given or inferred, in the units of the
        prior; if inferred with more than two classes, these are its first axis
    inclusion_probability_ : array of shape (n_columns,), the probability that each coefficient is not zero, with
        "laplace-zero"; with more than two classes, of shape (n_classes, n_columns)
    positive_probability_ : the same for the probability that it is positive, given that it is not zero
    loss_ : str, the loss that was fitted; or the likelihood, if one without a name was given
    bound_, history_, n_iter_, stop_reason_, link_, loo_log_loss_, draws_, rows_, belief_
        As in `BayesianSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from softmargin import BayesianLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.coef_std_.shape
    (True, (1, 30))

    Variable selection with missing values:

    >>> X = X[:, :6]
    >>> X[::3, 0] = np.nan
    >>> model = BayesianLinearSVC(prior="laplace-zero").fit(X, y)
    >>> bool(model.score(X, y) > 0.9), model.inclusion_probability_.shape
    (True, (6,))

    Three classes:

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.coef_.shape, model.predict_proba(X[:2]).shape
    (True, (3, 4), (2, 3))
    """

    _MISSING = True

    def __init__(
        self,
        *,
        loss: Loss = "auto",
        multi_class: str = "auto",
        inference: str = "auto",
        prior: Any = "ridge",
        shape: float | None = None,
        rate: float | None = None,
        rho: float | str = 0.2,
        fit_intercept: bool = True,
        standardize: bool = True,
        batch_size: int | str = "auto",
        learning_rate: Any = "adaptive",
        n_draws: int = 1000,
        n_chains: int = 4,
        warm_up: int | str = "auto",
        thin: int = 1,
        forgetting: float = 0.0,
        link: str = "loo",
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        max_time: float | None = None,
        n_jobs: int | None = None,
        device: Any = None,
        precision: str = "auto",
        checkpoint: Any = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.multi_class = multi_class
        self.inference = inference
        self.prior = prior
        self.shape = shape
        self.rate = rate
        self.rho = rho
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.warm_up = warm_up
        self.thin = thin
        self.forgetting = forgetting
        self.link = link
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_fixed_effects(self)

    @property
    def _chosen_from_first_batch(self) -> list[str]:
        return ["scales of the columns"] if self.standardize else []

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        missing = data.is_missing(data.X.shape[1])
        if missing and data.whole is None:
            refuse_empty_columns(data.X, getattr(self, "feature_names_in_", None))
        rows, prior, columns = fixed_effects(self, data, data.X, bool(self.fit_intercept))
        prior = Structured(prior) if isinstance(prior, LaplaceZero) else prior
        loss = loss_of(self, missing)
        if is_wide(self, data):
            return Parts(*reduced(rows, prior, dense(data.X)), loss, columns=columns)
        if not missing:
            return Parts(rows, prior, loss, columns=columns)
        return Parts(*with_gaps(self, rows, prior, columns, data), loss)

    def _refuse_stream(self, prior: Any, missing: bool = False) -> None:
        super()._refuse_stream(prior, missing)
        if self.n_features_in_ > _MOST_COLUMNS:
            raise ValueError(
                f"partial_fit stores the covariance of all pairs of columns, and {self.n_features_in_:,} columns are "
                f"too many for that (at most {_MOST_COLUMNS:,}). Reduce them first, for example with "
                f"sklearn.decomposition.TruncatedSVD, or fit all rows together."
            )

    def _keep(self, found: Found) -> None:
        super()._keep(with_variance(found, self.prior))
        hyper = self.belief_.hyper
        self._keep_fixed(found, hyper.weights if isinstance(hyper, Known) else hyper)
