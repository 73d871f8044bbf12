"""What all contracts share."""

from typing import Any

import numpy as np

from softmargin.gaussian import Belief, from_natural


def name(thing: Any) -> str:
    """The name of a check or a case, for pytest's ids."""
    subject = getattr(thing, "likelihood", None) or getattr(thing, "kernel", None)
    return repr(subject) if subject else getattr(thing, "label", None) or thing.__name__


def random_belief(n_weights: int, seed: int = 0) -> Belief:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_weights, n_weights))
    return from_natural(A @ A.T + np.eye(n_weights), 2 * rng.normal(size=n_weights))
