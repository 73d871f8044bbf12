"""Pictures of fitted classifiers, in the manner of scikit-learn's Display objects.

==========================  ==================================================================================
`DecisionSurfaceDisplay`    probabilities over two columns, and where the model knows nothing
`ReliabilityDisplay`        whether probabilities come true as often as they say
`BoundHistoryDisplay`       how a fit went
`RelevanceDisplay`          which columns a kernel looks at: length-scales
`InclusionDisplay`          how likely each column has a say at all, where variables are selected
`CoefficientDisplay`        coefficients with intervals
`RandomEffectsDisplay`      the groups of a mixed model
`LearningCurveDisplay`      what each label was worth to an active learner
`DetectionDisplay`          how well attacked or unknown rows are noticed
==========================  ==================================================================================

Each has ``from_estimator``, ``from_predictions`` or a maker named for what it takes; the numbers that are shown are
its attributes; ``plot(ax=...)`` draws them again elsewhere; ``ax_`` and ``figure_`` say where.  Several displays can
share axes.  The ROC curve of a classifier is `sklearn.metrics.RocCurveDisplay`.

Needs matplotlib: ``pip install "softmargin[cli]"``.
"""

from .coefficients import CoefficientDisplay, InclusionDisplay
from .detection import DetectionDisplay
from .effects import RandomEffectsDisplay
from .history import BoundHistoryDisplay
from .learning import LearningCurveDisplay
from .relevance import RelevanceDisplay
from .reliability import ReliabilityDisplay
from .surface import DecisionSurfaceDisplay

__all__ = [
    "BoundHistoryDisplay",
    "CoefficientDisplay",
    "DecisionSurfaceDisplay",
    "DetectionDisplay",
    "InclusionDisplay",
    "LearningCurveDisplay",
    "RandomEffectsDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
]
