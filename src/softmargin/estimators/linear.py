"""The linear support vector machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from ..arrays import NotPositiveDefiniteError, cholesky, to_numpy
from ..chunks import dense
from ..columns import describe
from ..imputation import ColumnModel, Imputation, column_sums
from ..monitor import Monitor
from ..priors import Imputing, Known, LaplaceZero, Ridge, Selection, Structured, VarianceComponents
from ..rows import IncompleteRows, LinearRows
from ..validation import check_rows, has_missing, inclusion_share, one_of, positive_number, refuse_empty_columns
from .base import BayesianClassifier, Data, Found, Parts

PRIORS = ("ridge", "ard", "laplace-zero")
#: Shape and rate of an inferred variance's prior (benchmarks/defaults.py), and as published with the augmented bound.
_PUBLISHED = (0.01, 0.01)
_VARIANCE_PRIORS = {"ridge": (5.0, 1.0), "ard": (2.0, 0.2), "laplace-zero": _PUBLISHED}
#: Prior variance of the intercept, in effect flat (Luts 2014).
_INTERCEPT_VARIANCE = 1e8
#: Tables of more columns do not learn what these say of each other unless entries are missing.
_MOST_FORETOLD = 500


class BayesianLinearSVC(BayesianClassifier):
    r"""A linear support vector machine that infers its own penalty and knows how sure it is of each coefficient.

    Columns are centred and put in units of their spread, so that the prior does not depend on the user's units;
    ``coef_`` and ``coef_std_`` are reported for the columns as they came.

    Parameters
    ----------
    loss : {"hinge", "hinge-augmented", "logistic", "logistic-jj", "logistic-taylor", "probit", "probit-taylor"}
        ``"hinge"`` takes the expectation of the hinge loss exactly; ``"hinge-augmented"`` is Luts and Ormerod (2014),
        whose standard deviations are too small.
    inference : {"auto", "cavi", "svi", "gibbs", "ecm"}
        As in `BayesianSVC`.
    prior : {"ridge", "ard"}, float, or array of shape (n_columns,) or (n_columns, n_columns)
        ``"ridge"`` infers one variance for all coefficients, ``"ard"`` one for each, from an inverse gamma
        prior; numbers are the coefficients' prior variance, variances or covariance themselves.
        The penalty ``alpha`` of the papers is a quarter of the inverse variance.
    shape, rate : float, optional
        Of the inverse gamma prior of an inferred variance.  By default 5 and 1 (``"ridge"``) or 2 and 0.2
        (``"ard"``), a variance of about a fifth in units of the columns' spread; for the model of Luts and Ormerod
        (``"ridge"`` with ``loss="hinge-augmented"``) the 0.01 and 0.01 of their paper.  With a prior as vague as theirs
        the exact losses let the variance of a table that a plane separates grow almost without end.
    fit_intercept : bool
        Whether to add an intercept, unpenalised.
    standardize : bool
        Whether the prior is meant in units of each column's spread; otherwise in the columns' own.
    batch_size, learning_rate, n_draws, forgetting
        As in `BayesianSVC`.
    link, class_weight, tol, max_iter, max_time, n_jobs, verbose, random_state
        As in `BayesianSVC`; passes are cheap here, and ``tol`` is smaller.  Only minibatches and draws are random.

    Attributes
    ----------
    classes_ : array of the two classes
    coef_, coef_std_ : arrays of shape (1, n_columns), posterior means and standard deviations
    intercept_, intercept_std_ : arrays of shape (1,)
    prior_variance_ : float or array, the coefficients' prior variance, given or inferred, in the units of the prior
    bound_, history_, n_iter_, stop_reason_, link_, loo_log_loss_, draws_, rows_, belief_
        As in `BayesianSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from softmargin import BayesianLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> bool(model.score(X, y) > 0.97), model.coef_std_.shape
    (True, (1, 30))
    """

    _MISSING = True

    def __init__(
        self,
        *,
        loss: str = "auto",
        inference: str = "auto",
        prior: Any = "ridge",
        shape: float | None = None,
        rate: float | None = None,
        rho: float | str = 0.5,
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
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
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
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.prior, str):
            one_of("prior", self.prior, PRIORS)
        positive_number("shape", self.shape, none=True)
        positive_number("rate", self.rate, none=True)
        inclusion_share(self.rho)

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        missing, n_columns = has_missing(data.X), data.X.shape[1]
        if missing:
            refuse_empty_columns(self, data.X)
        columns = describe(data.X, data.weight)
        center = columns.center if self.fit_intercept else np.zeros_like(columns.center)
        scale = columns.spread if self.standardize else np.ones_like(columns.spread)
        rows, prior = LinearRows(center, scale, bool(self.fit_intercept)), self._prior(n_columns)
        loss = self._loss_for(gaussian=not (missing or self._selects))
        if not missing:
            return Parts(rows, prior, loss)
        model = ColumnModel((columns.center - center) / scale, columns.spread / scale)
        return Parts(IncompleteRows(rows, n_columns), Imputing(prior, model, float(data.weight.sum())), loss)

    @property
    def _selects(self) -> bool:
        return isinstance(self.prior, str) and self.prior == "laplace-zero"

    def _prior(self, n_columns: int) -> Any:
        if isinstance(self.prior, str):
            published = self.loss == "hinge-augmented" and self.prior == "ridge"
            shape, rate = _PUBLISHED if published else _VARIANCE_PRIORS[self.prior]
            shape = shape if self.shape is None else self.shape
            rate = rate if self.rate is None else self.rate
            if self._selects:
                rho = None if isinstance(self.rho, str) else float(self.rho)
                loose = int(bool(self.fit_intercept))
                return Structured(LaplaceZero(n_columns, loose, rho, shape, rate, 1 / _INTERCEPT_VARIANCE))
            group = np.arange(n_columns) if self.prior == "ard" else np.zeros(n_columns, dtype=int)
            group = np.append(group, -1) if self.fit_intercept else group
            return VarianceComponents(group, shape, rate, 1 / _INTERCEPT_VARIANCE)
        precision = _precision(self.prior, n_columns)
        if not self.fit_intercept:
            return Ridge(precision)
        if precision.ndim == 1:
            return Ridge(np.append(precision, 1 / _INTERCEPT_VARIANCE))
        return Ridge(np.block([[precision, np.zeros((n_columns, 1))], [np.zeros(n_columns), 1 / _INTERCEPT_VARIANCE]]))

    def _keep(self, found: Found) -> None:
        super()._keep(found)
        seen, hyper, columns = self._seen_belief, self.belief_.hyper, self._columns
        coef, intercept = columns.to_user_units(seen.mean)
        self.coef_, self.intercept_ = coef[None, :], np.atleast_1d(intercept)
        self.coef_std_ = (np.sqrt(seen.variances[: len(columns.scale)]) / columns.scale)[None, :]
        # The intercept's shift by the centre correlates it with the coefficients: the root carries that along.
        _, intercept_root = columns.to_user_units(seen.root)
        self.intercept_std_ = np.atleast_1d(np.linalg.norm(intercept_root))
        if isinstance(hyper, Known):
            hyper = hyper.weights
        else:
            self._foretell(found)
        if self._selects:
            self._keep_selection(hyper.fixed)
        else:
            self.prior_variance_ = self.prior if hyper is None else _one_or_all(1 / hyper.mean_precision)

    def _keep_selection(self, hyper: Selection) -> None:
        """What was chosen, and on which side of zero its coefficient lies."""
        n = len(hyper.included)
        self.inclusion_probability_, self.prior_variance_ = hyper.included, float(1 / hyper.variance.mean_precision[0])
        if self.draws_ is None:
            v = self.belief_
            self.positive_probability_ = ndtr(v.mean[:n] / np.sqrt(v.variances[:n]))
        else:
            self.positive_probability_ = (self.draws_.weights[:, :n] > 0).mean(axis=0)

    def _foretell(self, found: Found) -> None:
        """Learns what columns say of each other, for rows to come that have missing entries."""
        table = found.problem.table
        if scipy.sparse.issparse(found.data.X) or found.data.X.shape[1] > _MOST_FORETOLD:
            return
        sums = column_sums(table, found.problem.rows)
        n_columns = found.data.X.shape[1]
        self._seen_belief = self._seen_belief._replace(hyper=ColumnModel.standard(n_columns).updated(sums))

    @property
    def _columns(self) -> LinearRows:
        rows = self.rows_.rows if isinstance(self.rows_, IncompleteRows) else self.rows_
        assert isinstance(rows, LinearRows)
        return rows

    def _rows_for(self, missing: bool) -> Any:
        if not missing or isinstance(self.rows_, IncompleteRows):
            return self.rows_
        if not isinstance(self._seen_belief.hyper, Imputation):
            raise ValueError(
                f"X has missing values, but what its columns say of each other was not learned: the fit saw a sparse "
                f"matrix or more than {_MOST_FORETOLD} columns. Impute them first."
            )
        return IncompleteRows(self.rows_, len(self._columns.scale))

    def impute(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The missing entries of rows, as the others foretell them.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_columns)
            Rows with missing entries, as NaN.

        Returns
        -------
        means, sds : arrays of shape (n_rows, n_columns)
            Every entry's mean and standard deviation; an entry that is there is its own mean, with deviation 0.

        Examples
        --------
        >>> import numpy as np
        >>> from softmargin import BayesianLinearSVC
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1)) + 0.1 * rng.normal(size=(200, 2))
        >>> model = BayesianLinearSVC().fit(X, X[:, 0] > 0)
        >>> means, sds = model.impute([[2.0, np.nan]])
        >>> means.round(1), sds.round(1)
        (array([[2., 2.]]), array([[0. , 0.1]]))
        """
        check_is_fitted(self)
        X = dense(check_rows(self, X, reset=False, missing=True)).astype(np.float64)
        if not has_missing(X):
            return X, np.zeros_like(X)
        filled = self._rows_for(missing=True).lift(X).foreseen(self._seen_belief)
        columns, missing = self._columns, np.isnan(X)
        return np.where(missing, columns.center + columns.scale * filled.values, X), columns.scale * filled.deviations


def _precision(prior: Any, n_columns: int) -> np.ndarray:
    """The precision of a prior given as a variance, variances or a covariance matrix."""
    try:
        given = np.asarray(prior, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior must be one of {', '.join(map(repr, PRIORS))} or numbers, got {prior!r}.") from error
    if given.shape not in ((), (n_columns,), (n_columns, n_columns)):
        raise ValueError(
            f"prior must be a variance, {n_columns} variances or a covariance of shape ({n_columns}, {n_columns}) to "
            f"match the columns of X, got shape {given.shape}."
        )
    if given.ndim < 2:
        if not np.all(np.isfinite(given) & (given > 0)):
            raise ValueError(f"The variances in prior must be positive and finite, got {prior!r}.")
        return np.broadcast_to(1 / given, (n_columns,)).copy()
    try:
        if not np.allclose(given, given.T):
            raise NotPositiveDefiniteError("not symmetric")
        cholesky(given)
    except NotPositiveDefiniteError as error:
        raise ValueError("The covariance in prior must be symmetric and positive definite.") from error
    return np.linalg.inv(given)


def _one_or_all(values: np.ndarray) -> float | np.ndarray:
    return float(values[0]) if len(values) == 1 else to_numpy(values)
