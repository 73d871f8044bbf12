"""What a fitted classifier can do: latent moments, draws, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..chunks import dense, gather_rows, n_threads, one_blas_thread, rows_in_block, source_of, sweep
from ..devices import Place, moments_there, on_host
from ..diagnostics import to_arviz
from ..links import SoftmaxLink, is_decided, settled
from ..parameters import positive_integer
from ..rows import Rows, View
from ..validation import has_missing, refuse_sources
from .posterior import named_draws
from .predictions import LatentPredictions, anywhere
from .reading import moments_of

T = TypeVar("T")


class FittedClassifier(LatentPredictions):
    """A belief about the weights, and its predictions for other rows."""

    device: Any
    precision: str
    n_jobs: int | None
    rows_: Any
    draws_: Any
    _seen_belief: Any
    _dtype: Any
    _view: View
    _numbers: Any

    @anywhere
    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent value of each row, before the link; a column for each of many classes."""
        return self._latent(X)

    def _latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        place, X = Place.of(self.device, self.precision, X), on_host(X)
        source = source_of(X)
        return self._moments(self._numbers(X), place) if source is None else moments_of(self, source, place)

    def _moments(self, X: Any, place: Place | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent values of rows that have been checked."""
        missing = has_missing(X)
        if place is not None and not missing:  # missing entries are predicted on the host
            reference = place.put(np.empty(0))
            with place.at_work():
                view = self.rows_.view(self._seen_belief, reference)
                return moments_there(view, X, place, self.rows_.width)
        mu, v = gather_rows(self._by_block(lambda view, block: view.moments(block), X, missing))
        return mu, v

    def _by_block(self, function: Callable[[View, np.ndarray], T], X: Any, missing: bool) -> Iterable[T]:
        """The values of a function of the view and a block of rows, for all blocks."""
        # Rows of lower precision than in the fit are converted: its factors were computed in that precision.
        dtype = np.result_type(X.dtype, self._dtype)
        size = rows_in_block(max(X.shape[1], self.rows_.width), dtype.itemsize)
        view = self._view if dtype == self._dtype and not missing else self._view_of(dtype, missing)

        def one_block(index: int) -> T:
            return function(view, dense(X[index * size : (index + 1) * size]).astype(dtype, copy=False))

        return sweep(one_block, -(-X.shape[0] // size), n_threads(self.n_jobs))

    def _sides(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if Place.of(self.device, self.precision, X) is not None or source_of(X) is not None:
            return self._score(X)
        return self._sides_of(self._numbers(X))

    def _sides_of(self, X: Any) -> np.ndarray:
        """The same for rows that have been checked: of two classes means decide, except in blocks with a near tie."""
        if isinstance(self.link_, SoftmaxLink) or len(self.classes_) > 2 or has_missing(X):
            return settled(self.link_.score(*self._moments(X)))
        link = self.link_

        def sides(view: View, block: np.ndarray) -> np.ndarray:
            mu, limit = view.means(block)
            side = link.side(mu)
            return side if is_decided(side, limit) else settled(link.score(*view.moments(block)))

        return np.concatenate(list(self._by_block(sides, X, False)))

    def _view_of(self, dtype: Any, missing: bool = False) -> View:
        """The fastest way to latent moments, for rows with or without missing entries."""
        with one_blas_thread:
            return self._rows_for(missing).view(self._seen_belief, np.empty(0, dtype=dtype))

    def _rows_for(self, missing: bool) -> Rows:
        """The rows object for a table with or without missing entries; subclasses have one for each."""
        return self.rows_

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values at the rows of ``X``, the last axis; before it classes, if more than two.

        Draws are functions: values at nearby rows are correlated.  For a kernel model this takes a matrix over all
        pairs of rows of ``X``.
        """
        check_is_fitted(self)
        refuse_sources(X, "sample_latent", "Joint draws would not fit in memory: draw for one batch at a time")
        positive_integer("n_samples", n_samples)
        rng = check_random_state(random_state)
        X = dense(self._numbers(X)).astype(np.float64, copy=False)
        rows, nothing = self._rows_for(has_missing(X)), np.zeros(X.shape[0])
        features, weights = rows.lift(X), self._draw_weights(n_samples, rng)
        # Each draw of the weights comes with new draws of the missing entries, given the observed ones.
        filled = (features.drawn(u, self._seen_belief.hyper, (nothing, nothing), nothing, rng) for u in weights)
        draws = np.stack([part.at(u) for part, u in zip(filled, weights, strict=True)], axis=-1)
        root = rows.leftover_root(X)
        if root is None:
            return draws
        noise = rng.standard_normal((root.shape[1], *draws.shape[1:]))
        return draws + (np.tensordot(root, noise, axes=1) if root.ndim == 2 else np.einsum("irk,rks->iks", root, noise))

    def _draw_weights(self, n_samples: int, rng: np.random.RandomState) -> Any:
        """A list or array with one entry for each draw: the weights, or a tuple of those of each class."""
        if self.draws_ is None:
            draws = self._seen_belief.sample(n_samples, rng)
            return list(zip(*draws, strict=True)) if isinstance(draws, tuple) else draws
        return self.draws_.seen_weights[rng.randint(len(self.draws_.weights), size=n_samples)]

    def save(self, path: Any) -> None:
        """Save the model to a file of arrays and JSON, which `softmargin.load` reads; nothing in it is ever executed.

        The file is written under another name and then renamed, so that it is always complete.

        Examples
        --------
        >>> import tempfile
        >>> import softmargin
        >>> model = softmargin.BayesianLinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.sm")
        ...     again = softmargin.load(f"{folder}/model.sm")
        >>> again.predict([[0.0], [3.0]])
        array([0, 1])
        """
        from ..store import save  # here, since `store` imports all estimators

        save(self, path)

    def to_arviz(self) -> Any:
        """The draws of ``inference="gibbs"`` by name and in the user's units, for ArviZ.

        Returns an InferenceData, or a DataTree from ArviZ 1.0 on.  Needs ``pip install "softmargin[arviz]"``.
        """
        check_is_fitted(self)
        if self.draws_ is None:
            raise ValueError("There are no draws to export: fit with inference='gibbs'.")
        named = named_draws(self)
        likelihood = {"lp": self.draws_.log_likelihood}
        return to_arviz(named.draws, dims=named.dims, coords=named.coords, sample_stats=likelihood)
