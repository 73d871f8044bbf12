"""What linear classifiers share: fixed effects, their priors, and coefficients in the user's units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from ..arrays import NotPositiveDefiniteError, cholesky, combined, to_numpy
from ..chunks import dense
from ..columns import describe
from ..gaussian import ClassBelief, class_parts, with_hyper
from ..imputation import MOST_MODELLED, NOT_LEARNED, SCALE_BY_COLUMN, ColumnModel, Imputation, column_sums
from ..parameters import flag, how_many, inclusion_share, one_of, positive_number
from ..priors import Classwise, Imputing, Inferred, LaplaceZero, Ridge, Selection, VarianceComponents
from ..rows import ClasswiseRows, CurvedRows, GroupedRows, IncompleteRows, LinearRows, ReducedRows, beneath
from ..validation import has_missing, refuse_sources
from .base import Data, Found

PRIORS = ("ridge", "ard", "laplace-zero")
#: Shape and rate of the prior of an inferred variance: those published with the augmented bound, and the defaults
#: (benchmarks/defaults.py).
_PUBLISHED = (0.01, 0.01)
_VARIANCE_PRIORS = {"ridge": (5.0, 1.0), "ard": (2.0, 0.2), "laplace-zero": (2.0, 0.2)}
#: Prior variance of the intercept, in effect flat (Luts 2014).  Where the likelihood couples classes it is smaller: the
#: data do not determine what all intercepts have in common, and since the softmax bound wants means half a variance
#: apart, the intercept of a class whose rows hardly count would otherwise grow with every pass.
_INTERCEPT_VARIANCE, _INTERCEPT_VARIANCE_OF_RIVALS = 1e8, 1e3
#: The same in batches, if the first batch has a single class: its rows do not determine how far away the other class
#: is, so only the prior limits the intercept.  A standard deviation of ten margins is flat next to rows of two classes.
_INTERCEPT_VARIANCE_OF_ONE = 1e2
#: Next to columns that reach further than this, in units of their prior, the prior is lost to rounding.
_FURTHEST = 1e12
#: Columns that reach further than this cannot be squared safely, whether they vary or not.
_SQUARED = 1e100


class FixedEffects(NamedTuple):
    """Columns in units of their spread, the prior of their weights, and the model of the columns themselves."""

    rows: LinearRows
    prior: Ridge | VarianceComponents | LaplaceZero
    columns: ColumnModel


def check_fixed_effects(model: Any) -> None:
    """Checks the parameters that `fixed_effects` reads."""
    if isinstance(model.prior, str):
        one_of("prior", model.prior, PRIORS)
    positive_number("shape", model.shape, none=True)
    positive_number("rate", model.rate, none=True)
    inclusion_share(model.rho)
    flag("fit_intercept", model.fit_intercept)
    flag("standardize", model.standardize)


def selects(model: Any) -> bool:
    """Whether a model selects columns."""
    return isinstance(model.prior, str) and model.prior == "laplace-zero"


def loss_of(model: Any, missing: bool) -> Any:
    """The loss to fit.  With variable selection, ``"auto"`` is the logistic loss.

    Including a column of noise gains about ``c / 2`` nats, where ``c`` is the sum of the rows' squared slopes over the
    sum of their curvatures.  For a likelihood ``c`` is at most about 1.  The hinge is not normalised: where classes
    overlap its ``c`` is about 2, more than the penalty on a column offsets (benchmarks/sparsity.py).  Gibbs sampling
    keeps the hinge, whose draws need only NumPy and average over selections.
    """
    if not isinstance(model.loss, str) or model.loss != "auto" or not selects(model):
        return model._loss_for(gaussian=not missing)
    if model.inference == "gibbs" or model.multi_class == "crammer-singer":
        return model._loss_for(gaussian=not missing)
    return "logistic-jj" if missing else "logistic"


def fixed_effects(model: Any, data: Data, X: Any, intercept: bool) -> FixedEffects:
    """The fixed effects of a linear model, from its parameters; ``X`` holds the columns that have them."""
    columns = describe(X, data.weight) if data.columns is None else data.columns.of(X.shape[1])
    center = columns.center if intercept else np.zeros_like(columns.center)
    scale = columns.spread if model.standardize else np.ones_like(columns.spread)
    varies = columns.spread != np.maximum(1.0, np.abs(columns.center))  # as `describe` reports constant columns
    varies |= columns.spread > _SQUARED
    _refuse_far(np.maximum(np.abs(columns.center - center), varies * columns.spread) / scale)
    prior_scale = SCALE_BY_COLUMN * (X.shape[1] + 1)
    of_columns = ColumnModel((columns.center - center) / scale, columns.spread / scale, scale=prior_scale)
    rivals = data.n_classes > 2 and model.multi_class != "ovr" and not data.is_missing(X.shape[1])
    loose = 1 / (_INTERCEPT_VARIANCE_OF_RIVALS if rivals else _INTERCEPT_VARIANCE)
    if data.more and not rivals and np.all(data.y == data.y[0]):
        loose = 1 / _INTERCEPT_VARIANCE_OF_ONE
    return FixedEffects(LinearRows(center, scale, intercept), _prior(model, X.shape[1], intercept, loose), of_columns)


def _refuse_far(extent: np.ndarray) -> None:
    """Refuses columns that lie very far from zero in units of their spread, or whose own units do not suit a prior."""
    far = np.flatnonzero(extent > _FURTHEST)
    if len(far):
        others = f" (and {how_many(len(far) - 1, 'more column')} {'is' if len(far) == 2 else 'are'} too large)"
        more = others if len(far) > 1 else ""
        raise ValueError(
            f"Column {far[0]} reaches {extent[far[0]]:g}{more} in the units of the prior, where fit_intercept=False "
            f"leaves it uncentred or standardize=False unscaled; beyond {_FURTHEST:g} the prior has no effect. Leave "
            f"both as True, or centre the column and express it in larger units."
        )


def _prior(model: Any, n_columns: int, intercept: bool, loose: float) -> Ridge | VarianceComponents | LaplaceZero:
    if isinstance(model.prior, str):
        published = model._loss_given() == "hinge-augmented" and model.prior != "ard"
        shape, rate = _PUBLISHED if published else _VARIANCE_PRIORS[model.prior]
        shape = shape if model.shape is None else model.shape
        rate = rate if model.rate is None else model.rate
        if selects(model):
            rho = None if isinstance(model.rho, str) else float(model.rho)
            return LaplaceZero(n_columns, int(intercept), rho, shape, rate, loose)
        group = np.arange(n_columns) if model.prior == "ard" else np.zeros(n_columns, dtype=int)
        return VarianceComponents(np.append(group, -1) if intercept else group, shape, rate, loose)
    precision = _precision(model.prior, n_columns)
    if not intercept:
        return Ridge(precision)
    if precision.ndim == 1:
        return Ridge(np.append(precision, loose))
    return Ridge(np.block([[precision, np.zeros((n_columns, 1))], [np.zeros(n_columns), loose]]))


def with_gaps(model: Any, rows: Any, prior: Any, columns: ColumnModel, data: Data) -> tuple[IncompleteRows, Imputing]:
    """Rows and prior for a table with missing entries: each class has its own weights, and all share the columns."""
    if data.n_classes > 2:
        if model.multi_class not in ("auto", "ovr"):
            raise ValueError(
                f"multi_class={model.multi_class!r} has no bound for rows with missing entries, because the latent "
                f"values of their classes are correlated; use 'ovr', which is 'auto' in this case, or impute the "
                f"missing values first."
            )
        rows, prior = ClasswiseRows(rows, data.n_classes), Classwise.alike(prior, data.n_classes)
    return IncompleteRows(rows, columns.n_columns), Imputing(prior, columns, float(data.weight.sum()))


class Coefficients(NamedTuple):
    """Means and standard deviations, in the original units of the columns; a row for each class."""

    mean: np.ndarray
    std: np.ndarray
    intercept: np.ndarray
    intercept_std: np.ndarray


def coefficients(rows: LinearRows, mean: np.ndarray, covariance: np.ndarray) -> Coefficients:
    """Coefficients from the moments of the weights; centring correlates the intercept with the coefficients."""
    coef, intercept = rows.to_user_units(mean)
    _, shift = rows.to_user_units(np.eye(len(mean)))
    std = np.sqrt(np.diagonal(covariance)[: len(rows.scale)]) / rows.scale
    far = np.abs(shift).max(initial=1.0)  # factored out, since its square may overflow
    of_intercept = far * np.sqrt((shift / far) @ covariance @ (shift / far))
    return Coefficients(coef[None, :], std[None, :], np.atleast_1d(intercept), np.atleast_1d(of_intercept))


def coefficients_of_many(rows: ReducedRows, mean: np.ndarray, covariance: np.ndarray) -> Coefficients:
    """The same with more columns than rows, without forming the covariance of all pairs of columns."""
    columns = rows.columns
    weights, variances = rows.weights_of_columns(mean, covariance)
    shift = np.append(-columns.center / columns.scale, np.ones(int(columns.intercept)))
    intercept, variance = rows.moments_in(mean, covariance, shift)
    std = np.sqrt(variances) / columns.scale
    return Coefficients((weights / columns.scale)[None], std[None], np.array([intercept]), np.sqrt([variance]))


class FixedEffectsMixin:
    """Coefficients of columns, which of them were selected, and how they predict each other's missing entries."""

    prior: Any
    rows_: Any
    belief_: Any
    draws_: Any
    forgetting: float
    _seen_belief: Any
    _numbers: Callable[..., Any]

    def _keep_fixed(self, found: Found, hyper: Any) -> None:
        """Stores the results for the fixed effects; ``hyper`` is what their prior inferred, or that of each class."""
        every = [self._coefficients(index, part) for index, part in enumerate(class_parts(self._seen_belief))]
        of_columns = Coefficients(*map(np.concatenate, zip(*every, strict=True)))
        self.coef_, self.coef_std_, self.intercept_, self.intercept_std_ = of_columns
        if not isinstance(self.rows_, IncompleteRows):
            self._learn_columns(found)
        many = isinstance(self.belief_, ClassBelief)
        hypers = [of.fixed if isinstance(of, Inferred) else of for of in (hyper if many else (hyper,))]
        for name in ("inclusion_probability_", "positive_probability_"):
            vars(self).pop(name, None)
        if hypers[0] is None:
            self.prior_variance_ = self.prior
            return
        chosen = isinstance(hypers[0], Selection)
        variances = [one_or_all(1 / (of.variance if chosen else of).mean_precision) for of in hypers]
        self.prior_variance_ = np.array(variances) if many else variances[0]
        if chosen:
            self._keep_selection([of.included for of in hypers], many)

    def _coefficients(self, index: int, seen: Any) -> Coefficients:
        """The coefficients of one class, from the belief about its weights that rows see."""
        rows, columns = beneath(self.rows_), self._columns
        if isinstance(rows, ReducedRows):
            return coefficients_of_many(rows.of_class(index), seen.mean, seen.covariance)
        n = columns.n_weights
        return coefficients(columns, seen.core_mean[:n], seen.core_covariance[:n, :n])

    def _keep_selection(self, included: list[np.ndarray], many: bool) -> None:
        """Stores the probabilities that columns are included, and that their coefficients are positive."""
        n, positive = len(included[0]), []
        for belief in class_parts(self.belief_):
            mean, variances = belief.core_mean[:n], np.diagonal(belief.core_covariance)[:n]
            positive.append(ndtr(mean / np.sqrt(variances)))
        if self.draws_ is not None:
            start = len(self.belief_.mean) - len(self.belief_.core_mean)
            positive = [(self.draws_.weights[:, start : start + n] > 0).mean(axis=0)]
        self.inclusion_probability_ = np.stack(included) if many else included[0]
        self.positive_probability_ = np.stack(positive) if many else positive[0]

    def _learn_columns(self, found: Found) -> None:
        """Learns to predict columns from each other, for missing entries in future rows.

        Of many batches, only the first comes with a model of the columns; later ones add to its sums.
        """
        model, before = (found.parts.columns, None) if found.parts.columns is not None else self._said
        if scipy.sparse.issparse(found.data.X) or not 0 < len(self._columns.scale) <= MOST_MODELLED:
            model = None
        sums = None if model is None else column_sums(found.problem.table, self._columns)
        if before is not None and sums is not None:
            sums = combined(sums, 1 - self.forgetting, before)
        self._said = model, sums
        if model is not None and sums is not None:
            try:
                self._seen_belief = with_hyper(self._seen_belief, model.updated(sums))
            except NotPositiveDefiniteError:  # without an intercept, columns far from zero look alike
                self._said = None, None

    def _draw_weights(self, n_samples: int, rng: np.random.RandomState) -> Any:
        """Draws the weights; if coefficients may be zero, `_seen_belief` has only their moments, so draw inclusions."""
        if self.draws_ is not None or not hasattr(self, "inclusion_probability_"):
            return super()._draw_weights(n_samples, rng)  # pyright: ignore[reportAttributeAccessIssue]
        draws = []
        for belief, included in zip(class_parts(self.belief_), np.atleast_2d(self.inclusion_probability_), strict=True):
            weights, start = belief.sample(n_samples, rng), len(belief.mean) - len(belief.core_mean)
            weights[:, start : start + len(included)] *= rng.random_sample((n_samples, len(included))) < included
            draws.append(weights)
        return list(zip(*draws, strict=True)) if isinstance(self.belief_, ClassBelief) else draws[0]

    @property
    def _columns(self) -> LinearRows:
        rows = beneath(self.rows_)
        if isinstance(rows, ReducedRows):
            return rows.columns
        fixed = rows.fixed if isinstance(rows, GroupedRows) else rows
        return fixed.lines if isinstance(fixed, CurvedRows) else fixed

    def _rows_for(self, missing: bool) -> Any:
        if not missing or isinstance(self.rows_, IncompleteRows):
            return self.rows_
        if not isinstance(self._seen_belief.hyper, Imputation):
            raise ValueError(NOT_LEARNED)
        return IncompleteRows(self.rows_, len(self._columns.scale))

    def impute(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of missing entries, given the other columns.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_columns)
            Rows with missing entries, as NaN.

        Returns
        -------
        means, sds : arrays of shape (n_rows, n_columns)
            Mean and standard deviation of every entry; an observed entry is its own mean, with standard deviation 0.
            For `BayesianMixedSVC` columns are those of ``fixed_names_``.

        Examples
        --------
        >>> import numpy as np
        >>> from softmargin import BayesianLinearSVC
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 1)) + 0.3 * rng.normal(size=(1000, 2))
        >>> model = BayesianLinearSVC().fit(X, X[:, 0] > 0)
        >>> means, sds = model.impute([[2.0, np.nan]])
        >>> means.round(1), sds.round(1)
        (array([[2. , 1.8]]), array([[0. , 0.4]]))
        """
        check_is_fitted(self)
        refuse_sources(X, "impute", "The result would be as large: impute one batch at a time")
        X, columns = dense(self._numbers(X)).astype(np.float64), self._columns
        values = X[:, : len(columns.scale)]
        if not has_missing(values):
            return values, np.zeros_like(values)
        filled = self._rows_for(missing=True).lift(X).foreseen(self._seen_belief)
        means = columns.center + columns.scale * filled.values
        return np.where(np.isnan(values), means, values), columns.scale * filled.deviations


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


def one_or_all(values: np.ndarray) -> float | np.ndarray:
    """A single value as a number, several as an array."""
    return float(values[0]) if len(values) == 1 else to_numpy(values)
