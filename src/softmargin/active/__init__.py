"""Active learning: which rows of a pool to have labelled next.

`query` looks through a pool of any size for the rows whose labels would teach a fitted model most; `scores` shows by
what measure.  `ActiveLearner` does so in rounds, with whoever knows the labels.  `for_skactiveml` takes the classifiers
of this package to scikit-activeml.
"""

from .adapter import for_skactiveml
from .learner import ActiveLearner
from .strategies import STRATEGIES, query, scores

__all__ = ["STRATEGIES", "ActiveLearner", "for_skactiveml", "query", "scores"]
