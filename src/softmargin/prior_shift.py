r"""Probabilities for a population with other class shares than the training data.

``class_weight`` and resampling change how often each class occurs in the training data, so the probabilities of a
model are those of a population with the weighted shares.  If rows of a class have the same distribution in both
populations, the likelihood ratios are the same too, and only the shares need to be exchanged:

.. math:: p_k \propto p_k^{fitted} \, \pi_k^{wanted} / \pi_k^{fitted}.

The most probable class may change as well.  Returning to the shares of the data undoes the change in decisions caused
by ``class_weight``, and leaves a model that has given more weight to the rows of heavy classes.  If the aim is to
change decisions, because errors differ in cost, leave ``class_weight`` alone and move the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .inside import fitted_inside

__all__ = ["at_prior", "proba_at_prior"]

#: The tolerance for sums of probabilities, which allows single precision and rounded numbers.
_SLACK = 1e-3


def at_prior(probabilities: Any, fitted: Any, wanted: Any) -> np.ndarray:
    r"""Convert probabilities from a population with class shares ``fitted`` to one with shares ``wanted``.

    .. math:: p_k \propto p_k \, \pi_k^{wanted} / \pi_k^{fitted}

    Parameters
    ----------
    probabilities : array of shape (n_rows, n_classes)
        As returned by ``predict_proba``.
    fitted, wanted : sequences of n_classes numbers
        How common each class was in the training data, and in the population of interest, in the order of the columns:
        shares, counts or total weights, as only their ratios matter.

    Returns
    -------
    array of shape (n_rows, n_classes)
        Rows sum to one.  A probability of 0 stays 0.  If all classes that are possible for a row have a wanted share
        of 0, the row carries no information on the others, and the result is the wanted shares.

    Examples
    --------
    In a balanced sample a finding has made the illness likely.  One in a hundred of all people has it:

    >>> at_prior([[0.1, 0.9]], fitted=[1, 1], wanted=[99, 1]).round(3)
    array([[0.917, 0.083]])
    """
    p = _checked(probabilities)
    old, new = _shares("fitted", fitted, p.shape[1]), _shares("wanted", wanted, p.shape[1])
    if not old.all():
        k = int(np.flatnonzero(old == 0)[0])
        raise ValueError(
            f"fitted must be positive, got 0 for class {k}: a model says nothing about a class it has never seen."
        )
    # In logarithms, because ratios of shares may be as extreme as probabilities.
    with np.errstate(divide="ignore"):
        log_p = np.log(p) + (np.log(new) - np.log(old))
    largest = log_p.max(axis=1, keepdims=True)
    odds = np.where(np.isfinite(largest), np.exp(log_p - np.where(np.isfinite(largest), largest, 0)), new)
    return odds / odds.sum(axis=1, keepdims=True)


def proba_at_prior(model: Any, X: Any, prior: Any = "data") -> np.ndarray:
    """Probabilities of a fitted model, for a population with the class shares of the data, or with other shares.

    Parameters
    ----------
    model : a fitted classifier of this package
        Or a pipeline, search or table classifier around one.  It stores the shares with ``class_weight``
        (``fitted_prior_``) and without (``data_prior_``).
    X : array, CSR matrix or frame of shape (n_rows, n_columns)
        Rows to predict.
    prior : "data", a dict from label to share, or a sequence with a share for each of ``classes_``
        The class shares of the population that the rows come from.  ``"data"``: those of the training rows, weighted
        by ``sample_weight``, which undoes ``class_weight``.

    Returns
    -------
    array of shape (n_rows, n_classes)
        Columns are in the order of ``classes_``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from softmargin import BayesianLinearSVC
    >>> from softmargin.prior_shift import proba_at_prior
    >>> X, y = make_classification(2000, weights=[0.9], class_sep=0.5, random_state=0)
    >>> model = BayesianLinearSVC(class_weight="balanced").fit(X, y)
    >>> weighted, corrected = model.predict_proba(X)[:, 1], proba_at_prior(model, X)[:, 1]
    >>> bool(weighted.mean() > 2 * y.mean()), bool(abs(corrected.mean() - y.mean()) < 0.02)
    (True, True)
    >>> where_it_is_rare = proba_at_prior(model, X, {0: 999, 1: 1})[:, 1]
    >>> bool((where_it_is_rare < corrected).all())
    True
    """
    if isinstance(prior, str) and prior != "data":
        raise ValueError(f"prior must be 'data', a dict from label to share, or a sequence of shares, got {prior!r}.")
    inside = model if hasattr(model, "fitted_prior_") else fitted_inside(model)
    if not hasattr(inside, "fitted_prior_"):
        raise TypeError(
            f"{type(inside).__name__} does not store the class shares of its training rows: give a fitted classifier "
            f"of softmargin that has fitted_prior_, or convert probabilities with at_prior."
        )
    p = model.predict_proba(X)
    if isinstance(prior, str):
        prior = inside.data_prior_
    if isinstance(prior, Mapping):
        prior = _by_label(prior, inside.classes_.tolist())
    return at_prior(p, inside.fitted_prior_, prior)


def _by_label(shares: Mapping[Any, Any], labels: list[Any]) -> list[Any]:
    """The shares of a dict, in the order of the labels."""
    unknown = [label for label in shares if label not in labels]
    lacking = [label for label in labels if label not in shares]
    if unknown or lacking:
        wrong = f"has a share for {unknown}" if unknown else f"has no share for {lacking}"
        raise ValueError(f"prior {wrong}, but the classes are {labels}.")
    return [shares[label] for label in labels]


def _checked(probabilities: Any) -> np.ndarray:
    """Probabilities as an array, checked."""
    p = np.asarray(probabilities, dtype=float)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"probabilities must have a column for each class, as of predict_proba, got shape {p.shape}.")
    bad = np.argwhere(~((p >= 0) & (p <= 1)))  # also NaN
    if len(bad):
        row, column = bad[0].tolist()
        raise ValueError(
            f"probabilities must lie between 0 and 1, got {p[row, column]} in row {row}, column {column}"
            f"{f' and {len(bad) - 1} more such entries' if len(bad) > 1 else ''}."
        )
    total = p.sum(axis=1)
    row = int(np.argmax(np.abs(total - 1))) if len(p) else 0
    if len(p) and abs(total[row] - 1) > _SLACK:
        raise ValueError(f"The probabilities of a row must sum to 1, got {total[row]:.6g} in row {row}.")
    return p


def _shares(name: str, values: Any, n_classes: int) -> np.ndarray:
    """Class shares, checked and normalised to sum to one."""
    shares = np.asarray(values, dtype=float)
    if shares.shape != (n_classes,):
        raise ValueError(f"{name} must have a number for each of the {n_classes} classes, got shape {shares.shape}.")
    bad = np.flatnonzero(~(np.isfinite(shares) & (shares >= 0)))
    if len(bad):
        raise ValueError(f"{name} must be finite and non-negative, got {shares[bad[0]]} for class {bad[0]}.")
    largest = shares.max()
    if largest == 0:
        raise ValueError(f"{name} must be positive for some class, got {shares.tolist()}.")
    shares = shares / largest  # their sum might overflow
    return shares / shares.sum()
