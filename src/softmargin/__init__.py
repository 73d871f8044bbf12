"""Kernel classifiers that know how sure they are, behind the scikit-learn API."""

from . import active, adversarial, kernels, prior_shift, uncertainty
from .estimators import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from .features import FourierFeatures

__all__ = [
    "BayesianGPC",
    "BayesianKernelMachine",
    "BayesianLinearSVC",
    "BayesianMixedSVC",
    "BayesianSVC",
    "FourierFeatures",
    "__version__",
    "active",
    "adversarial",
    "kernels",
    "prior_shift",
    "uncertainty",
]
__version__ = "0.1.0.dev0"
