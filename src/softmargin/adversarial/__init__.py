r"""Adversarial examples: how to create and how to detect them.

The latent mean and variance of a row are smooth functions of its entries.  Their gradients show which small change
does most harm (`fgsm`, and `art_classifier` for other attacks), and a model with uncertainty may detect such changes
(`AdversarialDetector`).  All of this works with the kernel and linear classifiers of this package, and with models
that have ``latent_mean_and_variance``, ``link_``, ``classes_`` and ``_latent_pullback(X, d_mu, d_v)``: the gradient in
``X``, whatever the shape of its rows, of :math:`\sum_{ik} (\bar\mu_{ik} \mu_{ik} + \bar v_{ik} v_{ik})`.
"""

from .attacks import art_classifier, fgsm
from .detection import AdversarialDetector, detection_roc
from .slopes import input_gradients, log_loss_gradients

__all__ = ["AdversarialDetector", "art_classifier", "detection_roc", "fgsm", "input_gradients", "log_loss_gradients"]
