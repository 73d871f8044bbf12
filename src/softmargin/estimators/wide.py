"""Tables with more columns than rows, under a prior with a single variance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..gaussian import ClassBelief
from ..priors import Ridge, VarianceComponents
from ..rows import LinearRows, ReducedRows, beneath, with_beneath
from ..validation import has_missing
from .base import Data, Found

#: Fewer columns are not worth the detour.
_FEWEST_COLUMNS = 500


def is_wide(model: Any, data: Data) -> bool:
    """Whether the space spanned by the rows is smaller than that of the columns, and all that the model needs."""
    n_rows, n_columns = data.X.shape
    one_variance = model.prior == "ridge" if isinstance(model.prior, str) else np.ndim(model.prior) == 0
    return (
        not data.more
        and data.whole is None
        and one_variance
        and n_columns > max(n_rows, _FEWEST_COLUMNS)
        and not has_missing(data.X)
    )


def reduced(rows: LinearRows, prior: Any, X: np.ndarray) -> tuple[ReducedRows, Ridge | VarianceComponents]:
    """Rows and prior in the space spanned by the rows."""
    few = ReducedRows.of(rows, X)
    n = few.basis.shape[1]
    kept = [*range(n), *([len(rows.scale)] if rows.intercept else [])]
    if isinstance(prior, VarianceComponents):
        return few, prior._replace(group=prior.group[kept])
    return few, Ridge(prior.precision[kept])


def with_variance(found: Found, given: Any) -> Found:
    """The same, with the prior variance of directions outside the span of the rows stored in its rows."""
    rows, belief = found.problem.rows, found.inferred.ascent.point.belief
    if not isinstance(beneath(rows), ReducedRows):
        return found

    def variance(hyper: Any) -> float:
        return float(given) if hyper is None else float(1 / hyper.mean_precision[0])

    known = np.array([*map(variance, belief.hyper)]) if isinstance(belief, ClassBelief) else variance(belief.hyper)
    return found._replace(problem=replace(found.problem, rows=with_beneath(rows, variance=known)))
