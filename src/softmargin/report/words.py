"""A fitted classifier in words, from its parameters and fitted attributes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..links import word_of
from .numbers import number, percent, plural
from .page import LONGEST, listed, shown

_MODELS = {
    "BayesianSVC": "a kernel support vector machine: a Gaussian process with the hinge loss, on inducing points",
    "BayesianGPC": "a Gaussian process classifier with a logistic likelihood, on inducing points",
    "BayesianLinearSVC": "a linear support vector machine with a posterior over its coefficients",
    "BayesianMixedSVC": "a linear support vector machine with random effects",
    "BayesianKernelMachine": "a kernel machine on random Fourier features",
    "HybridClassifier": "a neural network with a Bayesian last layer",
}
#: The losses that two of the descriptions above imply: the prefix of their names, and how to refer to them.
_USUAL_LOSSES = {"BayesianSVC": ("hinge", "the hinge"), "BayesianGPC": ("logistic", "the logistic one")}
_LOSSES = {
    "hinge": "the hinge, with its exact expectation",
    "hinge-augmented": "the hinge, with the augmented bound, whose variances are too small",
    "logistic": "the logistic loss, with its expectation by quadrature",
    "logistic-jj": "the logistic loss, with the bound of Jaakkola and Jordan",
    "logistic-taylor": "the logistic loss, with a Taylor expansion about the mean",
    "probit": "the probit loss, with its expectation by quadrature",
    "probit-taylor": "the probit loss, with a Taylor expansion about the mean",
}
_INFERENCES = {
    "auto": "coordinate ascent, or minibatches if there are many rows",
    "cavi": "coordinate ascent over all rows",
    "svi": "natural-gradient steps on minibatches",
    "adam": "Adam on minibatches",
    "gibbs": "Gibbs sampling",
    "ecm": "a search for the posterior mode",
    "batch": "coordinate ascent with an inducing point at every distinct row",
    "stein": "Stein variational gradient descent with particles",
}
_STOPS = {
    "converged": "it converged",
    "polished": "it ended after one pass of stochastic steps and one full pass, without running to convergence",
    "passes": "it was stopped by max_iter, with the bound still rising",
    "time": "it was stopped by max_time",
    "interrupt": "it was interrupted, and kept the best model so far",
    "stalled": "the bound stopped increasing before it converged",
    "draws": "it ended with the last draw",
    "steps": "it ended with the last step of the particles",
}
_TUNINGS = {
    "logistic": "the bound of the logistic loss, a true likelihood",
    "bound": "the bound of the loss itself",
    "bound-steps": "the bound of the loss itself, by gradient steps",
    "loo": "the logistic bound and then the leave-one-out log loss",
    "alternate": "the bound of the loss itself, alternating with the posterior",
    "hybrid": "the bound of the loss itself, alternating with the posterior",
    "full": "the bound of the loss itself, jointly with the posterior",
}
_PRIORS = {
    "ridge": "one inferred variance for all coefficients",
    "ard": "an inferred variance for each coefficient",
    "laplace-zero": "each coefficient is either zero or not, with a prior share of those that are not",
}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def model_sentence(core: Any) -> str:
    """What kind of model this is.

    >>> from softmargin import BayesianSVC
    >>> model_sentence(BayesianSVC())
    'BayesianSVC: a kernel support vector machine: a Gaussian process with the hinge loss, on inducing points.'
    >>> from softmargin import BayesianMixedSVC
    >>> model_sentence(BayesianMixedSVC(groups=0, kernel="rbf")).endswith("plus a smooth function of the columns.")
    True
    """
    name = type(core).__name__
    usual, words = _USUAL_LOSSES.get(name, ("", ""))
    if usual not in str(getattr(core, "loss_", usual)):
        return f"{name}: a Gaussian process on inducing points, with a loss other than {words}."
    if name == "BayesianMixedSVC" and core.kernel is not None:
        return f"{name}: {_MODELS[name]}, plus a smooth function of the columns."
    return f"{name}: {_MODELS[name]}." if name in _MODELS else f"{name}, a classifier with probabilities."


def descriptions(core: Any) -> Iterator[tuple[str, str]]:
    """A description of a fitted classifier, point by point: a term and a sentence."""
    if hasattr(core, "loss_"):
        words = _LOSSES[core.loss_] if isinstance(core.loss_, str) else f"as given, {shown(_plain(core.loss_), 200)}"
        yield "Loss", f"{words}.{_meeting(core)}"
    yield from _kernel_words(core)
    yield from _linear_words(core)
    yield from _inference_words(core)
    if getattr(core, "link_", None) is not None:
        yield "Probabilities", _link_words(core)
    if getattr(core, "class_weight", None) is not None:
        yield "Class weights", _weight_words(core)


def _meeting(core: Any) -> str:
    """How the loss combines more than two classes."""
    if len(core.classes_) <= 2:
        return ""
    how = getattr(core, "multi_class", "auto")
    return " All classes share one loss." if how == "auto" else f" Classes are combined by multi_class={how!r}."


def _kernel_words(core: Any) -> Iterator[tuple[str, str]]:
    kernel = getattr(core, "kernel_", None)
    if kernel is not None:
        yield "Kernel", f"{kernel_words(kernel)}."
        judged = len(getattr(core, "tune_history_", None) or ())
        tune = getattr(core, "tune", None)
        if tune is None:
            yield "Tuning", "none: the kernel was kept as given."
        else:
            tried = f" {plural(judged, 'kernel was', 'kernels were')} evaluated." if judged else ""
            yield "Tuning", f"the kernel was chosen by {_TUNINGS.get(tune, tune)}.{tried}"
    if hasattr(core, "inducing_points_"):
        yield "Inducing points", f"{len(core.inducing_points_):,}, by which the covariance of rows is approximated."
    if hasattr(core, "n_frequencies_"):
        particles = core.n_particles_
        cloud = (
            f", with {plural(particles, 'particle')} over weights and kernels" if particles else ", without particles"
        )
        yield "Features", f"{plural(core.n_frequencies_, 'random frequency', 'random frequencies')}{cloud}."


def kernel_words(kernel: Any) -> str:
    """A kernel in words, without its length-scales, which a drawing shows.

    >>> from softmargin.kernels import RBF, Constant, Matern
    >>> kernel_words(2.0 * RBF((1.0, 3.0)) + Constant(0.5))
    '2 times a squared exponential with a length-scale for each column, plus a constant of variance 0.5'
    """
    name = type(kernel).__name__
    if name == "Sum":
        return f"{kernel_words(kernel.first)}, plus {kernel_words(kernel.second)}"
    if name == "Product":
        first, second = kernel.first, kernel.second
        left = number(first.variance) if type(first).__name__ == "Constant" else f"({kernel_words(first)})"
        return f"{left} times {kernel_words(second)}"
    if name in ("RBF", "Matern"):
        shape = "a squared exponential" if name == "RBF" else f"a Matérn kernel of smoothness {number(kernel.nu)}"
        one = isinstance(kernel.length_scale, float)
        return (
            f"{shape} with {f'length-scale {number(kernel.length_scale)}' if one else 'a length-scale for each column'}"
        )
    nouns = {"Constant": "a constant", "White": "noise", "Linear": "a linear kernel"}
    return f"{nouns.get(name, name)} of variance {number(kernel.variance)}" if name in nouns else shown(kernel)


def _linear_words(core: Any) -> Iterator[tuple[str, str]]:
    if not hasattr(core, "coef_") or not hasattr(core, "prior"):
        return
    if getattr(core, "formula", None):
        yield "Formula", shown(core.formula, 200)
    given = isinstance(core.prior, str)
    words = _PRIORS.get(core.prior, core.prior) if given else "as given"
    variance = np.ravel(np.asarray(getattr(core, "prior_variance_", np.nan), dtype=float)) if given else np.empty(0)
    found = f"; the inferred variance is {number(variance[0])}" if len(variance) == 1 else ""
    yield "Prior", f"{words}{found}."
    components = getattr(core, "variance_components_", None)
    if components:
        yield "Random effects", f"of {listed([shown(name) for name in components])}."


def _inference_words(core: Any) -> Iterator[tuple[str, str]]:
    history = getattr(core, "history_", None) or []
    particles = getattr(core, "n_particles_", 0)
    how = "stein" if particles else getattr(core, "inference", None)
    if how is None:
        return
    words = _INFERENCES.get(how, how)
    if how == "auto" and getattr(core, "stop_reason_", "") == "converged":
        words = _INFERENCES["cavi"]
    nouns = {
        "gibbs": ("iteration", "iterations (warm-up included)"),
        "stein": ("pass or check", "passes and checks"),
    }.get(how, ("pass", "passes"))
    passes = plural(len(history), *nouns)
    took = f" in {number(history[-1]['seconds'], 2)} s" if history else ""
    took += ", tuning included" if took and getattr(core, "tune_history_", None) else ""
    reason = _STOPS.get(getattr(core, "stop_reason_", ""), "")
    yield "Inference", f"{words}: {passes}{took}{f'; {reason}' if reason else ''}."


def _link_words(core: Any) -> str:
    link, how = core.link_, getattr(core, "link", "")
    how = word_of(core.loss_, len(core.classes_)) if how == "auto" else how
    slope = getattr(link, "slope", None)
    if how == "loo" and slope is not None:
        return (
            "calibrated on leave-one-out moments of the training rows: latent values are multiplied by "
            f"{number(slope)} and shrunk according to their variance."
        )
    return f"the plain {'probit' if 'Probit' in type(link).__name__ else 'logistic'} link."


def _weight_words(core: Any) -> str:
    words = f"class_weight={shown(core.class_weight)}: probabilities refer to that population"
    fitted, data = getattr(core, "fitted_prior_", None), getattr(core, "data_prior_", None)
    if fitted is None or data is None or len(fitted) > 5:
        return f"{words}."
    shares = [
        f"{shown(label, 20)} {percent(a)} (in the data {percent(b)})"
        for label, a, b in zip(core.classes_, fitted, data, strict=True)
    ]
    return f"{words}, in which classes have the shares {listed(shares)}. softmargin.prior_shift can undo this."


def parameters(core: Any) -> list[tuple[str, str, bool]]:
    """Each parameter with its value, and whether this is the default."""
    defaults = {name: known.default for name, known in inspect.signature(type(core).__init__).parameters.items()}
    rows = []
    for name, value in sorted(core.get_params(deep=False).items()):
        same = value is defaults.get(name) or (
            type(value) is type(defaults.get(name)) and repr(value) == repr(defaults.get(name))
        )
        rows.append((name, shown(_plain(value), 2 * LONGEST), bool(same)))
    return rows


def _plain(value: Any) -> str:
    """The representation of a value, without memory addresses."""
    return _ADDRESS.sub("", repr(value))


def sizes(core: Any) -> str:
    """The class proportions in the model's training data, if it knows them."""
    prior = getattr(core, "data_prior_", None)
    if prior is None or len(prior) > 10:
        return ""
    return listed(
        [f"{shown(label, 20)} {percent(share)}" for label, share in zip(core.classes_, prior, strict=True)], 10
    )
