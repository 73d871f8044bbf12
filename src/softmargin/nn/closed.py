"""The head in closed form: checks of its inputs, and the state of a classifier fitted to the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import inverse_lower, to_numpy
from ..gaussian import class_parts
from ..likelihoods import Likelihood, known_loss
from ..parameters import one_of
from ..rows import ClasswiseRows

#: Losses whose expectations are bounds, as minibatches require, and the ways to combine classes in them.
LOSSES = ("hinge", "hinge-augmented", "logistic", "logistic-jj")
MULTI_CLASS = ("auto", "weston-watkins", "ovr", "softmax")
#: What messages about labels say.
HOW_TO_CODE = "Any labels become codes by: classes, codes = numpy.unique(labels, return_inverse=True)."


def checked_loss(loss: Any, multi_class: str) -> str | Likelihood:
    """The loss, a word or a likelihood, after checks of ``loss`` and ``multi_class``."""
    given = known_loss(loss) if not isinstance(loss, str) else loss
    if isinstance(given, str):
        one_of("loss", given, LOSSES)
    elif not given.is_bound:
        raise ValueError(f"loss={loss!r} is not a bound, which minibatches require.")
    one_of("multi_class", multi_class, MULTI_CLASS)
    if multi_class == "softmax" and not (isinstance(given, str) and given == "logistic"):
        raise ValueError(f"multi_class='softmax' requires loss='logistic', got {loss!r}.")
    return given


def checked(features: Any, y: Any, n_features: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features in double precision and codes of classes, both on the host, after checks."""
    X, codes = to_numpy(features).astype(np.float64), to_numpy(y)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"features must have shape (n_rows, {n_features}), got {X.shape}.")
    if len(codes) != len(X):
        raise ValueError(f"There are {len(X)} rows of features, but {len(codes)} labels.")
    bad = np.flatnonzero(~np.isfinite(X).all(axis=0))
    if len(bad):
        raise ValueError(
            f"Feature {bad[0]} (of {len(bad)} such) is not finite in some rows: the network has diverged. Lower its "
            f"learning rate, or clip its gradients."
        )
    if len(codes) and not (codes.min() >= 0 and codes.max() < n_classes):
        seen = f"{codes.min()} to {codes.max()}"
        raise ValueError(f"Labels must be codes from 0 to {n_classes - 1}, got {seen}. {HOW_TO_CODE}")
    return X, codes


def known_to(model: Any) -> dict[str, np.ndarray]:
    """Kernel, points, belief and natural parameters of a fitted classifier, under the names of the head's buffers."""
    rows = model.rows_.rows if isinstance(model.rows_, ClasswiseRows) else model.rows_
    beliefs = class_parts(model.belief_)
    precisions = [inverse @ inverse.T for inverse in (inverse_lower(part.root) for part in beliefs)]
    return {
        "log_kernel": rows.kernel.theta,
        "points": rows.points,
        "whitener": rows.whitener,
        "means": np.stack([part.mean for part in beliefs]),
        "roots": np.stack([part.root for part in beliefs]),
        "log_dets": np.array([float(part.log_det) for part in beliefs]),
        "G": np.stack(precisions) - np.eye(rows.n_weights),
        "h": np.stack([precision @ part.mean for precision, part in zip(precisions, beliefs, strict=True)]),
    }
