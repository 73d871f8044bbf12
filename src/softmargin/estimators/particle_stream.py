"""What particles know between one batch of rows and the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..arrays import to_numpy
from ..chunks import gather_rows, sweep
from ..loo import left_out_of, thinned
from ..machine import Machine
from ..rows import beneath, with_beneath
from ..stein import Adam, State, init
from ..streaming import NOTHING, Record
from .found import Data, Found


class ParticleStream(NamedTuple):
    """All that is known after some batches: the density of all rows so far, particles on their way, how batches were
    foretold, their labels, and how many rows the first had."""

    machine: Machine
    state: State
    record: Record
    labels: np.ndarray
    first_rows: float

    @classmethod
    def begun(cls, machine: Machine, state: State, found: Found) -> ParticleStream:
        """The stream of which a fit was the first batch."""
        labels, before = np.unique(found.data.y), found.stream
        record = NOTHING if before is None else before.record
        labels = labels if before is None else np.union1d(labels, before.labels)
        state = init(state.particles, Adam()) if len(state.moments) == 0 else state
        return cls(machine, state, record, labels, machine.n_rows)

    def after(
        self, data: Data, mu: np.ndarray, v: np.ndarray, keep: float, total: float, temperature: float
    ) -> ParticleStream:
        """With rows that have been foretold, before particles move."""
        record = self.record.followed_by(Record(mu, v, data.y, data.weight).of(self.labels), keep)
        machine = replace(self.machine, n_rows=total, temperature=temperature)
        return self._replace(machine=machine, record=record, labels=np.union1d(self.labels, data.y))


def without_each(start: Found, settled: Found, temperature: float) -> Record:
    """Each row as particles would see it without that row; of very many rows, some.

    How they answer to its absence is found with the kernel at the mean of theirs.  Under a temperature rows count by so
    much less.
    """
    problem, unit = thinned(start.problem, start.data.unit)
    table, cloud = problem.table, cast(Any, settled.inferred.ascent.point.belief)
    view = settled.problem.rows.view(cloud, table.reference)
    moments = gather_rows(sweep(lambda index: view.moments(table.block(index)[0]), table.n_blocks, problem.n_jobs))
    kernel = beneath(problem.rows).kernel.with_theta(np.mean(cloud.theta, axis=0, dtype=np.float64))
    problem = replace(problem, rows=with_beneath(problem.rows, kernel=kernel)).over(
        table._replace(weight=table.weight / temperature)
    )
    belief = start.inferred.ascent.point.belief
    mu, v, usable = left_out_of(moments, problem, belief, unit / temperature)
    return Record(*map(to_numpy, (mu, v, table.y, table.weight * usable)))
