"""Kernel classifiers that know how sure they are, behind the scikit-learn API."""

from . import kernels
from .estimators import BayesianLinearSVC, BayesianMixedSVC, BayesianSVC

__all__ = ["BayesianLinearSVC", "BayesianMixedSVC", "BayesianSVC", "__version__", "kernels"]
__version__ = "0.1.0.dev0"
