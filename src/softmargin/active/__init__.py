"""Active learning: which rows of a pool to label next.

`query` searches a pool of any size for the rows whose labels would be most informative for a fitted model; `scores`
returns the criterion.  `ActiveLearner` repeats this in rounds, with an oracle that knows the labels.  `for_skactiveml`
adapts the classifiers of this package for scikit-activeml.
"""

from .adapter import for_skactiveml
from .learner import ActiveLearner
from .strategies import STRATEGIES, query, scores

__all__ = ["STRATEGIES", "ActiveLearner", "for_skactiveml", "query", "scores"]
