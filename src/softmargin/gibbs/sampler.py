"""Draws from the posterior with several chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import Array
from ..chunks import one_blas_thread
from ..engine import Problem
from ..monitor import Monitor
from .chain import Chain, ChainData, take_turns
from .draws import Draws, Kept

#: The least number of draws of each chain, even if the sampler is stopped immediately.
_LEAST_DRAWS = 2
#: Rows are left out once in this many iterations: successive ones are similar, and it takes a second pass.
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

    Each of ``n_chains`` chains makes ``warm_up`` iterations that are discarded, and then keeps ``n_draws`` draws, each
    the last of ``thin`` iterations.  Chains start at draws from ``starts``, a belief or a list with one for each chain,
    moved twice as far from its mean.  With a variational belief, a short warm-up is enough; the default is where the
    prior would start an ascent.  ``unit`` is the weight to leave out of each row, by default that of one copy.

    An iteration is one pass over the rows.  All chains take it together, so that they have equally many draws whenever
    the sampler is stopped.  The monitor records the log-likelihood of the latent values, averaged over chains.
    """
    if min(n_draws, thin, n_chains) < 1 or warm_up < 0:
        raise ValueError(
            f"n_draws, thin and n_chains must be positive and warm_up not negative, got {n_draws}, {thin}, {n_chains} "
            f"and {warm_up}."
        )
    data, monitor = ChainData.of(problem, unit), monitor if monitor is not None else Monitor()
    kept, reason = Kept(problem.prior, problem.table.n_rows), "draws"
    with one_blas_thread:
        chains = _begun(data, _beliefs(problem, starts, n_chains), rng)
        try:
            for turn in range(-warm_up, thin * n_draws):
                if monitor.out_of_time:
                    reason = "time"
                    break
                leave_out = turn >= 0 and turn % _LEAVE_OUT_EVERY == 0
                turns = take_turns(chains, data, leave_out)
                phase = "warm-up" if turn < 0 else "draws"
                monitor.record(float(np.mean([one.log_likelihood for one in turns])), accepted=True, phase=phase)
                kept.leave_out(turns)
                if turn >= 0 and (turn + 1) % thin == 0:
                    kept.add(turns)
        except KeyboardInterrupt:
            reason = "interrupt"
        finally:
            monitor.close()
        while kept.n_draws < min(_LEAST_DRAWS, n_draws):  # stopped during warm-up: a rough answer is better than none
            kept.add(take_turns(chains, data, leave_out=False))
        return kept.draws(reason)


def _beliefs(problem: Problem, starts: Any, n_chains: int) -> Sequence[Any]:
    """The belief from which each chain starts."""
    if isinstance(starts, list):
        if len(starts) != n_chains:
            raise ValueError(f"starts must be one belief for each of {n_chains} chains, got {len(starts)}.")
        return starts
    if starts is None:
        starts = problem.prior.update(*problem.prior.start(problem.table.reference))
    return [starts] * n_chains


def _begun(data: ChainData, starts: Sequence[Any], rng: Any) -> list[Chain]:
    """Chains at their starts, each with its own random stream, so that none depends on the number of chains."""
    seed = np.random.default_rng(rng).integers(2**63, size=4)
    streams = np.random.default_rng(seed).spawn(len(starts))
    return [Chain(data, start, stream) for start, stream in zip(starts, streams, strict=True)]
