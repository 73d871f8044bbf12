"""The support vector machine with random effects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from ..design import Design, Nesting
from ..extras import needed
from ..gaussian import ClassBelief, class_parts
from ..likelihoods import Loss
from ..monitor import Monitor
from ..parameters import one_of, positive_number, share
from ..priors import Classwise, Covariance, Imputing, Part, Standard, Structured, Variances
from ..rows import CurvedRows, Factor, GroupedRows, InducingRows, LinearRows, beneath, with_beneath
from ..validation import refuse_empty_columns
from .base import LINKS, Data, Found, Parts
from .designed import DesignedClassifier
from .fixed_effects import FixedEffectsMixin, check_fixed_effects, fixed_effects, loss_of, with_gaps
from .kernel_effects import check_kernel_effects, kernel_effects, refuse_gaps

VARIANCE_PRIORS = ("inverse-gamma", "half-cauchy")
#: Shape and rate of the inverse gamma prior of a single variance (Luts 2014), and scale of the inverse Wishart prior of
#: a covariance: with a hundredth of that scale, it would hold the covariance of a few groups near zero.
_SHAPE, _RATE, _SCALE = 0.01, 0.01, 0.2
#: The largest number of weights of crossed factors and splines: their covariance matrix is stored densely.
_MOST_DENSE = 12_000
#: Fitted attributes of a kernel.
_OF_KERNEL = ("kernel_", "inducing_points_", "jitter_", "tune_history_")
_EFFECT_COLUMNS = ("factor", "group", "effect", "mean", "sd", "low", "high")


class BayesianMixedSVC(FixedEffectsMixin, DesignedClassifier):
    r"""Bayesian linear support vector machine with random effects, and optionally a kernel.

    Intercepts and slopes vary from group to group; a kernel adds a smooth function of the columns to the linear terms.

    Parameters
    ----------
    formula : str, optional
        ``"infected ~ month*treatment + (1 + month | patient)"``, for ``fit(frame)``; without a left-hand side, pass
        labels as usual.  ``(a || g)`` has independent effects, ``(1 | school/class)`` nested ones, and ``s(x)`` is a
        smooth curve.  Needs ``pip install "softmargin[formula]"``.
    groups : column, list of columns, or dict from column to a list of columns, optional
        Without a formula: the columns of X that hold the group of each row; a dict also lists the columns whose slopes
        vary by group.  All other columns are fixed effects.
    splines : list of columns, or dict from column to number of functions
        Without a formula: columns whose effect is a smooth curve.
    kernel : {"rbf", "matern"}, or a kernel of `softmargin.kernels` or scikit-learn, optional
        For a Gaussian process of all columns with fixed effects, in addition to these: curvature and interactions.
        ``"rbf"`` is ``0.3 * RBF()`` and ``"matern"`` is ``0.3 * Matern()``, with length-scales as in `BayesianSVC`.
    tune : {"logistic"} or None
        The criterion for the kernel: the bound of the logistic loss, with fixed and random effects in the model.  None
        keeps the kernel as given.
    n_inducing : int or "auto"
        Number of inducing points of the kernel, as in `BayesianSVC`.
    loss, multi_class, inference, prior, shape, rate, rho
        As in `BayesianLinearSVC`, but with ``inference`` in {"auto", "cavi", "gibbs"}; ``prior`` is that of the fixed
        effects, and ``loss="logistic"`` makes this a generalised linear mixed model.
    standardize : bool
        Whether the priors of fixed effects and of the variances of slopes are in units of each column's spread;
        otherwise they are in the columns' own units.
    variance_prior : {"inverse-gamma", "half-cauchy"}
        For a single variance: of an intercept, of independent slopes, of a curve.  Several effects of one factor have a
        full covariance, with an inverse Wishart prior.
    variance_scale : float
        The scale of the half-Cauchy.
    fit_intercept : bool
        Without a formula: whether to add an unpenalised intercept.
    link : {"auto", "loo", "probit", "logistic"}
        As in `BayesianSVC`; ``"auto"`` is the link of the likelihood, ``"logistic"`` or ``"probit"``, if the loss is
        one and there are two classes, and ``"loo"`` otherwise.  Rows left out one by one belong to known groups: how
        they weigh variances does not carry over to rows to come, nor to new groups.
    n_draws, n_chains, warm_up, thin, class_weight, tol, max_iter, max_time, n_jobs, checkpoint, verbose, random_state
        As in `BayesianSVC`.

    Attributes
    ----------
    classes_ : array of the class labels
    coef_, coef_std_, intercept_, intercept_std_ : of the fixed effects, as in `BayesianLinearSVC`
    fixed_names_ : tuple of the names of the columns of ``coef_``, which are also the inputs of a kernel
    kernel_, tune_history_, inducing_points_, jitter_ : with a kernel, as in `BayesianSVC`
    variance_components_ : dict from factor or curve to the mean covariance of its effects, in the columns' own units;
        with more than two classes, to an array of shape (n_classes, n_effects, n_effects)
    effect_names_ : dict from factor or curve to the names of those effects
    feature_names_in_ : array of the names of the columns used, if they have names
    inclusion_probability_, positive_probability_ : with ``prior="laplace-zero"``
    bound_, history_, n_iter_, stop_reason_, link_, loo_log_loss_, draws_, loss_, rows_, belief_
        As in `BayesianSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from softmargin import BayesianMixedSVC
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(np.arange(40), 10)
    >>> effect = rng.normal(size=40)
    >>> x = rng.normal(size=400)
    >>> y = x + 2 * effect[group] + rng.logistic(size=400) > 0
    >>> model = BayesianMixedSVC(groups=1).fit(np.column_stack([x, group]), y)
    >>> model.variance_components_["x1"].shape, bool(model.coef_[0, 0] > 0)
    ((1, 1), True)

    The same by a formula:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": x, "group": group, "y": y})
    >>> model = BayesianMixedSVC("y ~ x + (1 | group)").fit(frame)
    >>> model.effect_names_, bool(model.score(frame) > 0.75)
    ({'group': ('Intercept',)}, True)

    An effect of ``x`` that is no line, by a kernel:

    >>> frame["y"] = np.sin(2 * x) + effect[group] + 0.5 * rng.logistic(size=400) > 0
    >>> curved = BayesianMixedSVC("y ~ x + (1 | group)", kernel="rbf").fit(frame)
    >>> line = BayesianMixedSVC("y ~ x + (1 | group)").fit(frame)
    >>> bool(curved.loo_log_loss_ < line.loo_log_loss_)
    True
    """

    _INFERENCES = ("auto", "cavi", "gibbs")
    _LINKS = ("auto", *LINKS)

    @property
    def _MISSING(self) -> bool:  # type: ignore[override]  # noqa: N802
        """Whether entries may be missing: a kernel needs complete rows."""
        return self.kernel is None

    @property
    def _GAPS_NEED(self) -> str:  # type: ignore[override]  # noqa: N802
        return "without a kernel, not with kernel= as here" if self.kernel is not None else ""

    def __init__(
        self,
        formula: str | None = None,
        *,
        groups: Any = None,
        splines: Any = (),
        kernel: Any = None,
        tune: str | None = "logistic",
        n_inducing: int | str = "auto",
        loss: Loss = "auto",
        multi_class: str = "auto",
        inference: str = "auto",
        prior: Any = "ridge",
        shape: float | None = None,
        rate: float | None = None,
        rho: float | str = 0.2,
        variance_prior: str = "inverse-gamma",
        variance_scale: float = 2.5,
        fit_intercept: bool = True,
        standardize: bool = True,
        n_draws: int = 1000,
        n_chains: int = 4,
        warm_up: int | str = "auto",
        thin: int = 1,
        link: str = "auto",
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 200,
        max_time: float | None = None,
        n_jobs: int | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.formula = formula
        self.groups = groups
        self.splines = splines
        self.kernel = kernel
        self.tune = tune
        self.n_inducing = n_inducing
        self.loss = loss
        self.multi_class = multi_class
        self.inference = inference
        self.prior = prior
        self.shape = shape
        self.rate = rate
        self.rho = rho
        self.variance_prior = variance_prior
        self.variance_scale = variance_scale
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.warm_up = warm_up
        self.thin = thin
        self.link = link
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesianMixedSVC:
        """Fit the classifier.

        Parameters
        ----------
        X : frame, or array of shape (n_rows, n_columns) if there is no formula
            Training rows.
        y : sequence of n_rows labels, or the name of a column of the frame, optional
            Two classes or more; taken from the frame if the formula names them.
        sample_weight : sequence of n_rows weights, or the name of a column of the frame, optional
            A row of weight k counts as k copies of it; rows of weight 0 are ignored.

        Returns
        -------
        self
            The fitted classifier.
        """
        return super().fit(X, y, sample_weight)

    def random_effects(self, level: float = 0.9) -> Any:
        """Effect of every group, as a frame: mean, standard deviation, and an interval of the given level.

        Effects are in the columns' own units, like ``coef_``.  With more than two classes each has its own, and the
        first column says which.  Needs pandas.

        Examples
        --------
        >>> import numpy as np
        >>> from softmargin import BayesianMixedSVC
        >>> X = np.column_stack([np.tile([-1.0, 1.0], 20), np.repeat([3, 5], 20)])
        >>> y = X[:, 1] == 3
        >>> y[[0, 39]] = ~y[[0, 39]]
        >>> effects = BayesianMixedSVC(groups=1).fit(X, y).random_effects()
        >>> effects["group"].tolist(), (effects["mean"] > 0).tolist()
        ([3, 5], [True, False])
        """
        check_is_fitted(self)
        pandas = needed("pandas", "formula", "random_effects()")
        share("level", level)
        factors = [*self._chain, *self._crossed]
        many = isinstance(self._seen_belief, ClassBelief)
        classes = [{"class": label} for label in self.classes_.tolist()] if many else [{}]
        frames = [
            pandas.DataFrame(name | self._effects_of(index, factor, part, level))
            for index, factor in enumerate(factors)
            for name, part in zip(classes, class_parts(self._seen_belief), strict=True)
        ]
        columns = [*classes[0], *_EFFECT_COLUMNS]
        return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame(columns=columns)

    def _effects_of(self, index: int, factor: Any, seen: Any, level: float) -> dict[str, Any]:
        where, units = self._grouped.weights_of(index), self._units_of(factor)
        mean, sd = seen.mean[where] / units, np.sqrt(seen.variances[where]) / units
        half = ndtri((1 + level) / 2) * sd
        low, high = mean - half, mean + half
        if self.draws_ is not None:
            tails = [(1 - level) / 2, (1 + level) / 2]
            low, high = np.quantile(self.draws_.seen_weights[:, where], tails, axis=0) / units
        groups = [label for label in factor.levels.tolist() for _ in factor.columns]
        names = factor.name, groups, list(factor.columns) * len(where)
        return dict(zip(_EFFECT_COLUMNS, (*names, *(part.ravel() for part in (mean, sd, low, high))), strict=True))

    # From a table to parts ------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_fixed_effects(self)
        check_kernel_effects(self)
        one_of("variance_prior", self.variance_prior, VARIANCE_PRIORS)
        positive_number("variance_scale", self.variance_scale)

    def _parts(self, data: Data, rng: np.random.RandomState, monitor: Monitor, jobs: int = 1) -> Parts:
        design: Design | None = self.design_
        n_fixed = data.X.shape[1] if design is None else design.n_fixed
        intercept = bool(self.fit_intercept) if design is None else design.intercept
        X = data.X[:, :n_fixed]
        missing = data.is_missing(n_fixed)
        if missing and data.whole is None:
            refuse_empty_columns(X, getattr(self, "feature_names_in_", None) if design is None else design.fixed_names)
        lines, prior, columns = fixed_effects(self, data, X, intercept)
        loss = loss_of(self, missing)
        if self.kernel is not None:

            def around(curves: InducingRows) -> tuple[GroupedRows, Structured]:
                return self._around(CurvedRows(lines, curves), prior, n_fixed)

            refuse_gaps(data, self._fixed_names(n_fixed))
            finest = next((factor.code for factor in [*self._chain, *self._crossed]), None)
            curves, judged = kernel_effects(self, data, n_fixed, finest, around, rng, monitor, jobs)
            return Parts(*around(curves), loss, judged, columns)
        rows, structured = self._around(lines, prior, n_fixed)
        if not missing:
            return Parts(rows, structured, loss, columns=columns)
        return Parts(*with_gaps(self, rows, structured, columns, data), loss)

    def _around(self, fixed: LinearRows | CurvedRows, prior: Any, n_fixed: int) -> tuple[GroupedRows, Structured]:
        """Adds the groups to fixed effects, and their priors to that of the fixed effects."""
        design: Design | None = self.design_
        rows = GroupedRows(fixed, n_fixed, (), ()) if design is None else _grouped(fixed, design, self._nesting)
        if rows.layout.n_core > _MOST_DENSE:
            raise ValueError(
                f"Crossed factors and splines have {rows.layout.n_core:,} effects, too many to store the covariance of "
                f"all pairs (at most {_MOST_DENSE:,}). Nest the factors, or leave the smaller one out."
            )
        levels = tuple(map(self._group_prior, self._chain))
        return rows, Structured(prior, self._dense_parts(rows), levels, rows.layout)

    def _group_prior(self, factor: Any) -> Covariance | Variances:
        size = len(factor.columns)
        return Covariance(size, _SCALE) if factor.correlated and size > 1 else self._variances(size)

    def _variances(self, size: int) -> Variances:
        return Variances(size, _SHAPE, _RATE, self.variance_scale if self.variance_prior == "half-cauchy" else None)

    def _dense_parts(self, rows: GroupedRows) -> tuple[Part, ...]:
        parts, start = [], rows.fixed.n_weights
        if isinstance(rows.fixed, CurvedRows):
            parts.append(Part(rows.fixed.lines.n_weights, rows.fixed.curves.n_weights, Standard()))
        for curve in self._curves:
            size = curve.columns.stop - curve.columns.start
            parts.append(Part(start, size, self._variances(1)))
            start += size
        for factor in self._crossed:
            parts.append(Part(start, factor.n_groups, self._group_prior(factor)))
            start += factor.n_groups * len(factor.columns)
        return tuple(parts)

    # What is kept ---------------------------------------------------------------------------------------------------

    def _keep(self, found: Found) -> None:
        prior, hyper = found.problem.prior, found.inferred.ascent.point.belief.hyper
        if isinstance(prior, Imputing):
            prior, hyper = prior.prior, hyper.weights
        of_levels, of_parts = _population(prior, hyper, drawn=found.inferred.draws is not None)
        if isinstance(beneath(found.problem.rows).fixed, CurvedRows):
            of_parts = of_parts[1:]  # the kernel's variances are known
        curves = len(self._curves)
        population = (*of_levels, *of_parts[curves:])
        rows = with_beneath(found.problem.rows, population=population)
        super()._keep(found._replace(problem=replace(found.problem, rows=rows)))
        factors = [*self._chain, *self._crossed]
        self.effect_names_ = {factor.name: factor.columns for factor in factors}
        self.effect_names_ |= {curve.name: (curve.name,) for curve in self._curves}
        units = map(self._units_of, factors)
        with np.errstate(over="ignore"):  # variances overflow in units of columns that hardly vary
            in_units = [covariance / unit / unit[:, None] for covariance, unit in zip(population, units, strict=True)]
        self.variance_components_ = dict(zip(self.effect_names_, (*in_units, *of_parts[:curves]), strict=True))
        self.fixed_names_ = self._fixed_names(self._grouped.n_fixed)
        self._keep_fixed(found, hyper)
        self._keep_kernel(found)

    def _keep_kernel(self, found: Found) -> None:
        for name in _OF_KERNEL:  # clears those of an earlier fit
            vars(self).pop(name, None)
        fixed = self._grouped.fixed
        if isinstance(fixed, CurvedRows):
            curves, self.tune_history_ = fixed.curves, found.parts.judged
            self.kernel_, self.inducing_points_, self.jitter_ = curves.kernel, curves.points, curves.jitter

    def _rows_for(self, missing: bool) -> Any:
        if missing and self.kernel is not None:
            raise ValueError("X has missing values, and a kernel needs complete rows: impute them first.")
        return super()._rows_for(missing)

    @property
    def _grouped(self) -> GroupedRows:
        rows = beneath(self.rows_)
        assert isinstance(rows, GroupedRows)
        return rows


def _population(prior: Any, hyper: Any, drawn: bool) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The covariances of effects, for each level and each part; with many classes, stacked class by class."""
    if not isinstance(prior, Classwise):
        return prior.population(hyper, drawn)
    every = [own.population(known, drawn) for own, known in zip(prior.priors, hyper, strict=True)]
    levels, parts = (tuple(map(np.stack, zip(*kind, strict=True))) for kind in zip(*every, strict=True))
    return levels, parts


def _grouped(fixed: LinearRows | CurvedRows, design: Design, nesting: Nesting) -> GroupedRows:
    """The rows of a design: its chain of nested factors added to the other terms."""
    chain = [design.factors[index] for index in nesting.chain]
    crossed = [design.factors[index] for index in nesting.crossed]
    plain = [column for term in design.spline_terms for column in range(term.columns.start, term.columns.stop)]
    return GroupedRows(
        fixed,
        design.n_fixed,
        tuple(Factor(factor.slopes, factor.intercept, factor.code) for factor in chain),
        tuple(factor.n_groups for factor in chain),
        nesting.parents,
        tuple(plain),
        tuple(Factor(factor.slopes, factor.intercept, factor.code) for factor in crossed),
        tuple(factor.n_groups for factor in crossed),
    )
