"""Draws from the posterior, by several chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..chunks import one_blas_thread
from ..engine import Problem
from ..monitor import Monitor
from .chain import Chain, Data, take_turns
from .draws import Draws, Kept

#: Draws that even a sampler stopped at once returns, of each chain.
_LEAST_DRAWS = 2
#: Turns from one that rows are left out of to the next: neighbours resemble each other, and it takes a second pass.
_LEAVE_OUT_EVERY = 4


def sample(
    problem: Problem,
    *,
    rng: np.random.RandomState | np.random.Generator,
    n_draws: int,
    warm_up: int,
    thin: int = 1,
    n_chains: int = 1,
    starts: Any = None,
    monitor: Monitor | None = None,
    unit: Array | None = None,
) -> Draws:
    """Draws from the posterior of a problem whose likelihood is a hinge or logistic.

    Every one of ``n_chains`` chains makes ``warm_up`` turns that are not kept, and then keeps ``n_draws`` draws, each
    the last of ``thin`` turns.  Chains begin with draws from ``starts``, a belief or a list of one for each chain, put
    twice as far from its mean: a variational belief is short of warm-up.  By default it is where the prior would begin
    an ascent.  ``unit`` is the weight to leave out of each row, by default that of one copy.

    A turn is one pass over the rows.  All chains take it together, so that however the sampler is stopped they have
    equally many draws; the monitor is told the log-likelihood of their latent values, averaged over chains.
    """
    if min(n_draws, thin, n_chains) < 1 or warm_up < 0:
        raise ValueError(
            f"n_draws, thin and n_chains must be positive and warm_up not negative, got {n_draws}, {thin}, {n_chains} "
            f"and {warm_up}."
        )
    data, monitor = Data.of(problem, unit), monitor if monitor is not None else Monitor()
    kept, reason = Kept(problem.prior, problem.table.n_rows), "draws"
    with one_blas_thread:
        chains = _begun(data, _beliefs(problem, starts, n_chains), rng)
        try:
            for turn in range(-warm_up, thin * n_draws):
                if monitor.out_of_time:
                    reason = "time"
                    break
                leave_out = turn >= 0 and turn % _LEAVE_OUT_EVERY == 0
                turns = take_turns(chains, problem, leave_out)
                phase = "warm-up" if turn < 0 else "draws"
                monitor.record(float(np.mean([one.log_likelihood for one in turns])), accepted=True, phase=phase)
                kept.leave_out(turns)
                if turn >= 0 and (turn + 1) % thin == 0:
                    kept.add(turns)
        except KeyboardInterrupt:
            reason = "interrupt"
        finally:
            monitor.close()
        while kept.n_draws < min(_LEAST_DRAWS, n_draws):  # stopped while warming up: better a rough answer than none
            kept.add(take_turns(chains, problem, leave_out=False))
        return kept.draws(reason)


def _beliefs(problem: Problem, starts: Any, n_chains: int) -> Sequence[Any]:
    """A belief for each chain to begin from."""
    if isinstance(starts, list):
        if len(starts) != n_chains:
            raise ValueError(f"starts must be one belief for each of {n_chains} chains, got {len(starts)}.")
        return starts
    if starts is None:
        starts = problem.prior.update(*problem.prior.start(problem.table.reference))
    return [starts] * n_chains


def _begun(data: Data, starts: Sequence[Any], rng: Any) -> list[Chain]:
    """Chains at their starts, each with a stream of its own: none depends on how many others there are."""
    seed = np.random.default_rng(rng).integers(2**63, size=4)
    streams = np.random.default_rng(seed).spawn(len(starts))
    return [Chain(data, start, stream) for start, stream in zip(starts, streams, strict=True)]
