"""Posterior draws by name, in the user's units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..priors import Inferred, Known, Selection
from ..rows import CurvedRows, GroupedRows, IncompleteRows, LinearRows


class Named(NamedTuple):
    """Draws by name, as arrays (chain, draw, ...), the names of their further axes, and the coordinates along these."""

    draws: dict[str, np.ndarray]
    dims: dict[str, list[str]]
    coords: dict[str, Any]

    def add(self, name: str, values: np.ndarray, **axes: Any) -> None:
        """Adds the draws of one quantity; ``axes`` gives the coordinates of each further axis."""
        self.draws[name], self.dims[name] = values, list(axes)
        self.coords.update(axes)


def named_draws(model: Any) -> Named:
    """All draws of a fitted model."""
    named, chains, rows = Named({}, {}, {}), model.draws_.seen_chains, model.rows_
    rows = rows.rows if isinstance(rows, IncompleteRows) else rows
    if isinstance(rows, GroupedRows):
        start = rows.layout.core.start
        own, fixed = chains[..., start : start + rows.fixed.n_weights], rows.fixed
        lines = fixed.lines if isinstance(fixed, CurvedRows) else fixed
        _add_fixed(named, model, lines, own[..., : lines.n_weights])
        if isinstance(fixed, CurvedRows):
            named.add("weight", own[..., lines.n_weights :], weight_index=np.arange(fixed.curves.n_weights))
        _add_groups(named, model, rows, chains)
    elif isinstance(rows, LinearRows):
        _add_fixed(named, model, rows, chains)
    else:
        named.add("weight", chains, weight_index=np.arange(chains.shape[-1]))
    return named


def _add_fixed(named: Named, model: Any, rows: LinearRows, chains: np.ndarray) -> None:
    """Adds coefficients, the intercept and the inclusion of columns."""
    coef, intercept = rows.to_user_units(chains)
    n_columns = coef.shape[-1]
    names = getattr(model, "fixed_names_", getattr(model, "feature_names_in_", None))
    columns = [f"x{index}" for index in range(n_columns)] if names is None else list(names)
    if n_columns:
        named.add("coef", coef, column=columns)
    if rows.intercept:
        named.add("intercept", intercept)
    hyper = model.draws_.hypers
    hyper = hyper.weights if isinstance(hyper, Known) else hyper
    hyper = hyper.fixed if isinstance(hyper, Inferred) else hyper
    if isinstance(hyper, Selection):
        named.add("included", hyper.included, column=columns)
    if hyper is not None and n_columns:
        precision = (hyper.variance if isinstance(hyper, Selection) else hyper).mean_precision
        named.add("prior_variance", 1 / precision, variance=np.arange(precision.shape[-1]))


def _add_groups(named: Named, model: Any, rows: GroupedRows, chains: np.ndarray) -> None:
    """Adds the effects of every group."""
    for index, factor in enumerate([*model._chain, *model._crossed]):
        where = rows.weights_of(index)
        labels = [str(label) for label in factor.levels.tolist()]
        axes = {f"{factor.name}_group": labels, f"{factor.name}_effect": list(factor.columns)}
        named.add(factor.name, chains[..., where] / model._units_of(factor), **axes)
