"""An adapter of the classifiers of this package for scikit-activeml."""

from __future__ import annotations

import importlib.util
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..extras import needed
from ..links import probabilities
from ..parameters import positive_integer
from .pool import last_step

#: Rows drawn jointly, which takes a matrix over all their pairs.
_ROWS_AT_ONCE = 1024


def for_skactiveml(
    model: Any,
    classes: Any = None,
    *,
    missing_label: Any = np.nan,
    cost_matrix: Any = None,
    random_state: Any = None,
) -> Any:
    r"""Adapt a classifier of this package, or a pipeline that ends in one, for scikit-activeml.

    Its ``fit`` accepts missing labels and learns from the others, and its probabilities have a column for each of the
    declared classes, seen or not.  It is scikit-activeml's ``SklearnClassifier`` with three differences.  While all
    labels are of one class, or there are none, it predicts from their counts without a warning.  If a fit fails for
    any other reason, the error is raised, where ``SklearnClassifier`` falls back on counts.  And it has
    ``sample_proba``, probabilities under draws of the latent function, so that the committees of
    ``QueryByCommittee``, ``GreedyBALD`` and ``BatchBALD`` are posterior draws.

    Needs ``pip install "softmargin[active]"``.

    Parameters
    ----------
    model : a classifier of this package
        Or a pipeline that ends in one.
    classes : sequence of labels, optional
        All classes; by default those among the labels of each fit.
    missing_label : scalar
        The value of a missing label: NaN by default, as in scikit-activeml.
    cost_matrix : array of shape (n_classes, n_classes), optional
        The cost of predicting the class of the column for a row of the class of the row.
    random_state : int, RandomState or None
        Seeds predictions made without any labels.

    Returns
    -------
    a classifier for the query strategies of scikit-activeml
        ``estimator_`` is the fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from skactiveml.pool import GreedyBALD, UncertaintySampling
    >>> from softmargin import BayesianSVC
    >>> from softmargin.active import for_skactiveml
    >>> X, known = make_moons(100, noise=0.2, random_state=0)
    >>> y = np.where(np.arange(100) < 10, known, np.nan)
    >>> model = for_skactiveml(BayesianSVC(random_state=0), classes=[0, 1])
    >>> UncertaintySampling(random_state=0).query(X, y, clf=model).shape
    (1,)
    >>> bald = GreedyBALD(sample_predictions_method_name="sample_proba", random_state=0)
    >>> bald.query(X, y, ensemble=model, batch_size=2).shape
    (2,)
    """
    needed("skactiveml", "active", "for_skactiveml")
    return adapter_class()(
        estimator=model,
        classes=classes,
        missing_label=missing_label,
        cost_matrix=cost_matrix,
        random_state=random_state,
    )


@lru_cache(maxsize=1)
def adapter_class() -> type:
    """The class behind `for_skactiveml`; created on first use, since its base class may not be installed."""
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.utils import is_labeled

    class PosteriorClassifier(SklearnClassifier):
        """A classifier of softmargin for scikit-activeml."""

        def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_kwargs: Any) -> Any:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The 'base_estimator' could not be fitted")
                super().fit(X, y, sample_weight=sample_weight, **fit_kwargs)
            if not self.is_fitted_ and np.count_nonzero(self._label_counts) > 1:
                rows = is_labeled(np.asarray(y), missing_label=self.missing_label)
                weight = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[rows]}
                # The base class turns errors into warnings: fit again to raise the error itself.
                self.estimator_.fit(np.asarray(X)[rows], np.asarray(y)[rows], **weight, **fit_kwargs)
                self.is_fitted_ = True
            return self

        def predict_proba(self, X: Any) -> np.ndarray:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Since the 'base_estimator' could not be fitted")
                return super().predict_proba(X)

        def sample_proba(self, X: Any, n_samples: int = 100, random_state: Any = 0) -> np.ndarray:
            """Probabilities under draws of the latent function, of shape (n_samples, n_rows, n_classes).

            Each draw is one function, so that nearby rows vary together; draws are exactly joint within blocks of 1,024
            rows.
            """
            positive_integer("n_samples", n_samples)
            if not self.is_fitted_:
                return np.repeat(self.predict_proba(X)[None], n_samples, axis=0)
            X, every, seen = np.asarray(X), np.asarray(self.classes_), self.estimator_.classes_
            seed = int(check_random_state(random_state).randint(2**31 - 1))
            p = np.zeros((n_samples, len(X), len(every)))
            p[:, :, np.searchsorted(every, seen)] = drawn_probabilities(self.estimator_, X, n_samples, seed)
            return p

    # Pickle looks up a class by this name.
    PosteriorClassifier.__qualname__ = "PosteriorClassifier"
    return PosteriorClassifier


def drawn_probabilities(model: Any, X: Any, n_samples: int, seed: int) -> np.ndarray:
    """Class probabilities under draws of the latent function, of shape (n_samples, n_rows, n_classes).

    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> drawn_probabilities(BayesianSVC(random_state=0).fit(X, y), X, 5, seed=0).shape
    (5, 60, 2)
    """
    model, X = last_step(model, X)
    parts = []
    for start in range(0, len(X), _ROWS_AT_ONCE):
        # With the same seed, the weights of the drawn functions are the same for all blocks of rows.
        f = model.sample_latent(X[start : start + _ROWS_AT_ONCE], n_samples, random_state=seed)
        parts.append(np.moveaxis(_at(model.link_, np.moveaxis(f, -1, 0)), 0, 1))
    return np.concatenate(parts).swapaxes(0, 1)


def _at(link: Any, f: np.ndarray) -> np.ndarray:
    """Class probabilities at known latent values; with more than two classes, the last axis of ``f`` is for these."""
    flat = f.reshape(-1, f.shape[-1]) if f.ndim == 3 else f.ravel()
    return probabilities(link.score(flat, np.zeros_like(flat))).reshape(*f.shape[:2], -1)


def __getattr__(name: str) -> Any:
    """The adapter class by its name, so that pickles of it can be loaded."""
    if name == "PosteriorClassifier" and importlib.util.find_spec("skactiveml") is not None:
        return adapter_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
