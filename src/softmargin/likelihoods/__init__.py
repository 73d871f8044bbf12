r"""Likelihoods: the information that one row contains about its latent value ``f``.

A likelihood is one function, ``sites(y, mu, v)``. For ``f ~ N(mu, v)`` it returns, row by row,

* ``l``, the expected log-likelihood :math:`E \log p(y \mid f)` or a lower bound of it;
* the Gaussian :math:`\exp(b f - w f^2 / 2)` that stands in for the row, from the derivatives of ``l``:
  :math:`w = -2\, \partial l / \partial v` and :math:`b = \partial l / \partial \mu + w \mu`.

All of these are finite at ``v = 0``. A likelihood also has attributes:

* ``is_bound``: ``l`` is the expected log-likelihood or lies below it (up to the error of a quadrature rule), and
  ``w`` and ``b`` come from its derivatives, so that there is an objective by which steps can be checked;
* ``needs_guard``: a full step may overshoot and must be checked against the objective;
* ``longest_step``: how far towards the new sites a step should go, 1 being all the way. It is less than 1 where
  classes are coupled and all updated at once;
* ``two_moment``: ``l`` depends on ``f`` only through its first two moments, so that the bound
  holds for latent values that are not Gaussian;
* ``site_is_curvature``: ``w`` is also the curvature :math:`-\partial^2 l / \partial \mu^2`, which
  ``curvature(y, mu, v)`` returns in any case;
* ``couples``: classes interact in ``l``, and ``ties`` and ``answer`` describe how (`classes`).

Labels ``y`` are -1 or +1, except for `Gaussian`. For more than two classes (`classes`) they are 0, 1, 2 ..., ``mu``,
``v``, ``w`` and ``b`` have a column for each class, and ``l`` is still one number for each row.
"""

from collections.abc import Callable
from typing import Any

from .classes import CrammerSinger, OneVersusRest, Rivals, Softmax
from .gaussian import Gaussian
from .given import given_likelihood
from .hinge import AugmentedHinge, Hinge, PointHinge
from .protocol import Likelihood, Sites, score
from .smooth import Derivatives, JaakkolaJordan, Logistic, Probit, Quadrature, SmoothModel, Taylor

#: The words for ``loss=``, and the likelihoods that they stand for.
LOSSES: dict[str, Likelihood] = {
    "hinge": Hinge(),
    "hinge-augmented": AugmentedHinge(),
    "logistic": Quadrature(Logistic()),
    "logistic-jj": JaakkolaJordan(),
    "logistic-taylor": Taylor(Logistic()),
    "probit": Quadrature(Probit()),
    "probit-taylor": Taylor(Probit()),
}


#: The words for ``multi_class=``, and how each extends a likelihood of one latent value to more than two classes.
MULTI_CLASS: dict[str, Callable[[Likelihood], Likelihood]] = {
    "weston-watkins": Rivals,
    "one-vs-each": Rivals,
    "crammer-singer": CrammerSinger,
    "ovr": OneVersusRest,
    "softmax": lambda base: Softmax(),
}


#: What ``loss=`` may be: a word, a likelihood, or a log-likelihood with derivatives.
Loss = str | Likelihood | SmoothModel


def known_loss(loss: Any) -> str | Likelihood:
    """The word for an object that was given as a loss, or its likelihood if there is no word for it.

    >>> known_loss(AugmentedHinge())
    'hinge-augmented'
    >>> known_loss(Quadrature(Logistic(), n_nodes=48))
    Quadrature(model=Logistic(), n_nodes=48)
    """
    given = given_likelihood(loss)
    return next((word for word, named in LOSSES.items() if type(given) is type(named) and given == named), given)


def likelihood_of(loss: str | Likelihood) -> Likelihood:
    """The likelihood that a word stands for; likelihoods are returned as they are."""
    return LOSSES[loss] if isinstance(loss, str) else loss


def named_likelihood(loss: str | Likelihood, multi_class: str, n_classes: int) -> Likelihood:
    """The likelihood of a loss for this number of classes; ``"auto"`` is the softmax if the loss is logistic.

    >>> named_likelihood("hinge", "auto", 3)
    Rivals(base=Hinge())
    """
    if n_classes == 2:
        return likelihood_of(loss)
    if multi_class == "auto":
        logistic = isinstance(loss, str) and loss == "logistic"
        multi_class = "softmax" if logistic else "weston-watkins"
    return MULTI_CLASS[multi_class](likelihood_of(loss))
