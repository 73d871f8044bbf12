"""The result of a sampler."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..diagnostics import ess_bulk, r_hat
from ..loo import LeftOut
from ..priors import Prior
from .chain import Turn
from .left_out import Weighted
from .moments import Mixture

#: The most quantities of each kind whose mixing is checked.
_WATCHED = 64


class Draws(NamedTuple):
    """Draws of the weights and of what the prior infers besides them, chain by chain, and their moments.

    ``chains`` and ``seen_chains`` have the shape (chain, draw, weight).  The second has weights as rows see them: those
    that are not included are zero.  ``hypers`` is a ``hyper`` of the prior whose arrays have (chain, draw) as their
    first axes, or None.  ``belief`` has the moments of the weights (averages of conditional moments, which vary less
    than those of the draws) and the average of the rest; ``seen`` has the moments that rows see.  ``left_out`` has the
    leave-one-out moments of every row.  ``r_hat`` and ``n_effective`` are the worst values over many quantities: how
    far chains are from agreeing, and how many independent draws they are worth.  ``reason`` is draws, time or
    interrupt.
    """

    chains: np.ndarray
    seen_chains: np.ndarray
    hypers: Any
    log_likelihood: np.ndarray
    belief: Any
    seen: Any
    left_out: LeftOut
    r_hat: float
    n_effective: float
    reason: str

    @property
    def weights(self) -> np.ndarray:
        """Draws of the weights, one per row, chain after chain."""
        return self.chains.reshape(-1, self.chains.shape[2])

    @property
    def seen_weights(self) -> np.ndarray:
        """Draws of the weights as rows see them, one per row, chain after chain."""
        return self.seen_chains.reshape(-1, self.seen_chains.shape[2])

    def hyper(self, index: int) -> Any:
        """What was drawn besides the weights in the draw with this index."""
        return _mapped(lambda part: part.reshape(-1, *part.shape[2:])[index], self.hypers)


class Kept:
    """The draws of all chains so far, and running moments."""

    def __init__(self, prior: Prior, n_rows: int) -> None:
        self._prior = prior
        self._turns: list[list[Turn]] = []
        self._moments, self._seen_moments = Mixture(), Mixture()
        self._left_out = Weighted.nothing(n_rows)

    @property
    def n_draws(self) -> int:
        return len(self._turns)

    def leave_out(self, turns: list[Turn]) -> None:
        """Adds the leave-one-out moments of rows."""
        for turn in turns:
            if turn.without is not None:
                self._left_out = self._left_out.plus(turn.without)

    def add(self, turns: list[Turn]) -> None:
        """Adds one draw of every chain."""
        for turn in turns:
            self._moments.add(turn.given_scales)
            if turn.seen is not turn.weights:
                self._seen_moments.add(self._prior.effective(turn.given_scales))
        # Beliefs are large, and are already part of the running moments.
        self._turns.append([turn._replace(given_scales=None, without=None) for turn in turns])

    def draws(self, reason: str) -> Draws:
        by_chain = list(zip(*self._turns, strict=True))
        chains = np.array([[turn.weights for turn in chain] for chain in by_chain])
        same = self._turns[0][0].seen is self._turns[0][0].weights
        seen_chains = chains if same else np.array([[turn.seen for turn in chain] for chain in by_chain])
        hypers = _stacked([_stacked([turn.hyper for turn in chain]) for chain in by_chain])
        belief = self._moments.belief(_mapped(lambda part: part.mean(axis=(0, 1)), hypers))
        seen = self._prior.effective(belief)
        return Draws(
            chains,
            seen_chains,
            hypers,
            np.array([[turn.log_likelihood for turn in chain] for chain in by_chain]),
            belief,
            seen if same else self._seen_moments.belief(seen.hyper),
            self._left_out.left_out(),
            *_mixing(chains, hypers),
            reason,
        )


def _mixing(chains: np.ndarray, hypers: Any) -> tuple[float, float]:
    """The largest R-hat and the smallest effective sample size over a subset of each kind of quantity."""
    worst, least = [np.nan], [np.nan]
    for part in (chains, *_leaves(hypers)):
        flat = part.reshape(*part.shape[:2], -1)
        watched = flat[:, :, :: -(-flat.shape[2] // _WATCHED)] if flat.shape[2] else flat
        worst, least = [*worst, *r_hat(watched)], [*least, *ess_bulk(watched)]
    return float(np.fmax.reduce(worst)), float(np.fmin.reduce(least))


# Nested tuples of arrays, as priors draw them ------------------------------------------------------------------------


def _stacked(hypers: list[Any]) -> Any:
    """Many ``hyper`` stacked into one, along a new first axis."""
    first = hypers[0]
    if isinstance(first, tuple):
        return _like(first, (_stacked(list(parts)) for parts in zip(*hypers, strict=True)))
    return None if first is None else np.array(hypers)


def _mapped(function: Any, hyper: Any) -> Any:
    """Applies a function to each array."""
    if isinstance(hyper, tuple):
        return _like(hyper, (_mapped(function, part) for part in hyper))
    return None if hyper is None else function(hyper)


def _leaves(hyper: Any) -> list[np.ndarray]:
    if isinstance(hyper, tuple):
        return [leaf for part in hyper for leaf in _leaves(part)]
    return [] if hyper is None else [hyper]


def _like(example: tuple, parts: Any) -> tuple:
    return type(example)(*parts) if hasattr(example, "_fields") else tuple(parts)
