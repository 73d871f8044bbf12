"""The classifiers: thin scikit-learn classes that pick their parts and leave the work to the engine."""

from .gpc import BayesianGPC
from .linear import BayesianLinearSVC
from .machine import BayesianKernelMachine
from .mixed import BayesianMixedSVC
from .one_class import BayesianOneClassSVM
from .svc import BayesianSVC

__all__ = [
    "BayesianGPC",
    "BayesianKernelMachine",
    "BayesianLinearSVC",
    "BayesianMixedSVC",
    "BayesianOneClassSVM",
    "BayesianSVC",
]
