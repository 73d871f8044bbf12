"""Plots of fitted classifiers, in the style of scikit-learn's Display objects.

==========================  ==================================================================================
`DecisionSurfaceDisplay`    probabilities over two columns, and where the model has no information
`ReliabilityDisplay`        calibration: predicted probabilities and observed frequencies
`BoundHistoryDisplay`       convergence of a fit
`RelevanceDisplay`          relevance of columns to a kernel, from its length-scales
`InclusionDisplay`          inclusion probabilities of columns, with variable selection
`CoefficientDisplay`        coefficients with intervals
`RandomEffectsDisplay`      random effects of a mixed model
`LearningCurveDisplay`      scores of an active learner by number of labels
`DetectionDisplay`          ROC curves for detecting attacked or unknown rows
==========================  ==================================================================================

Each has ``from_estimator``, ``from_predictions`` or a similar constructor named after its input; the numbers shown are
its attributes; ``plot(ax=...)`` draws them again on other axes; ``ax_`` and ``figure_`` are where they were drawn.
Several displays can share axes.  The ROC curve of a classifier is `sklearn.metrics.RocCurveDisplay`.

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
