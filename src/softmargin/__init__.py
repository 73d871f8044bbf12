"""Kernel classifiers that know how sure they are, behind the scikit-learn API."""

from . import active, adversarial, chunks, kernels, prior_shift, uncertainty
from .checkpoint import Checkpoint
from .estimators import (
    BayesianGPC,
    BayesianKernelMachine,
    BayesianLinearSVC,
    BayesianMixedSVC,
    BayesianOneClassSVM,
    BayesianSVC,
)
from .fourier_features import FourierFeatures
from .store import StoreError, load

__all__ = [
    "BayesianGPC",
    "BayesianKernelMachine",
    "BayesianLinearSVC",
    "BayesianMixedSVC",
    "BayesianOneClassSVM",
    "BayesianSVC",
    "Checkpoint",
    "FourierFeatures",
    "StoreError",
    "__version__",
    "active",
    "adversarial",
    "chunks",
    "kernels",
    "load",
    "prior_shift",
    "uncertainty",
]
__version__ = "0.1.0.dev0"
