"""The state of particles between one batch of rows and the next, and the kernels that suit them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..arrays import precision_of, to_numpy
from ..checkpoint import CUT_SHORT
from ..chunks import gather_rows, sweep
from ..kernels.combine import heed_bounds
from ..loo import MOST_ROWS, ROWS_IN_HASTE, left_out_of, thinned
from ..machine import Machine
from ..rows import FourierRows, ParticleRows, beneath, with_beneath
from ..single_precision import in_single
from ..stein import Adam, State, init
from ..streaming import NOTHING, Record
from .found import Data, Found


class ParticleStream(NamedTuple):
    """The state after some batches: the density of all rows so far, the particles and their optimiser, the predictions
    for each batch before it was learned, the labels so far, and the number of rows in the first batch."""

    machine: Machine
    state: State
    record: Record
    labels: np.ndarray
    first_rows: float

    @classmethod
    def begun(cls, machine: Machine, state: State, found: Found) -> ParticleStream:
        """The stream that starts with a fit as its first batch."""
        labels, before = np.unique(found.data.y), found.stream
        record = NOTHING if before is None else before.record
        labels = labels if before is None else np.union1d(labels, before.labels)
        state = init(state.particles, Adam()) if len(state.moments) == 0 else state
        return cls(machine, state, record, labels, machine.n_rows)

    def after(
        self, data: Data, mu: np.ndarray, v: np.ndarray, keep: float, total: float, temperature: float
    ) -> ParticleStream:
        """The stream with one more batch, for which moments have been predicted, before the particles move."""
        record = self.record.followed_by(Record(mu, v, data.y, data.weight).of(self.labels), keep)
        machine = replace(self.machine, n_rows=total, temperature=temperature)
        return self._replace(machine=machine, record=record, labels=np.union1d(self.labels, data.y))


def without_each(start: Found, settled: Found, temperature: float) -> Record:
    """Leave-one-out moments of the rows under the particles; of some rows only, if there are very many.

    The effect of leaving a row out is computed with the kernel at the mean of the particles' parameters.  A temperature
    divides the weights of the rows.  In haste, features are in the precision of the particles, half as many bytes, and
    their cosines take a tenth of the time.
    """
    in_haste = settled.reason in CUT_SHORT
    at_most = ROWS_IN_HASTE if in_haste else MOST_ROWS
    problem, copies = thinned(start.problem, np.stack([start.data.unit, start.data.weight], axis=1), at_most)
    unit, own = copies.T / temperature
    table, cloud = problem.table, cast(Any, settled.inferred.ascent.point.belief)
    view = settled.problem.rows.view(cloud, cloud.weights if in_haste else table.reference)
    moments = gather_rows(sweep(lambda index: view.moments(table.block(index)[0]), table.n_blocks, problem.n_jobs))
    kernel = beneath(problem.rows).kernel.with_theta(np.mean(cloud.theta, axis=0, dtype=np.float64))
    problem = replace(problem, rows=with_beneath(problem.rows, kernel=kernel)).over(
        table._replace(weight=table.weight / temperature)
    )
    if in_haste and precision_of(cloud.weights) > precision_of(table.reference):
        problem = in_single(problem)
    belief = start.inferred.ascent.point.belief
    mu, v, usable = left_out_of(moments, problem, belief, unit, own)
    return Record(*map(to_numpy, (mu, v, table.y, table.weight * usable)))


def refuse_kernel(model: Any, n_columns: int, moves: bool) -> None:
    """Refuses, before tuning, kernels without random features, and if it ``moves`` particles, those that they cannot
    have or may not change."""
    kernel = model._kernel_as_given().with_length_scale(1.0)
    rows = FourierRows.of(kernel, n_columns, 1, "plain", np.random.RandomState(0))
    if moves:
        ParticleRows(rows, np.empty(0))
        if model.learn != "weights":
            heed_bounds(model.kernel, "learn='weights'", "length_scale" if model.learn == "widths" else "")
