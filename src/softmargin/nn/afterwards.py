"""A Bayesian head for a classifier that is already trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..chunks import n_threads
from ..parameters import positive_integer
from .closed import HOW_TO_CODE
from .head import MarginHead
from .hybrid import HybridClassifier
from .training import dtype_of, evaluated


class UpTo(nn.Module):
    """The part of a model up to the input of one of its layers; the model itself is unchanged.

    >>> model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    >>> UpTo(model, model[2])(torch.zeros(4, 3)).shape
    torch.Size([4, 5])
    """

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._layer = [layer]  # in a list, so that it is not registered as a second submodule

    def forward(self, X: Tensor) -> Tensor:
        seen: list[Tensor] = []
        handle = self._layer[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            self.model(X)
        finally:
            handle.remove()
        if not seen:
            raise RuntimeError("The layer whose inputs are the features was not used by the model.")
        return seen[-1].flatten(start_dim=1)


def bayesianise(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    layer: nn.Module | str | None = None,
    held_out: Iterable[Any] | None = None,
    n_inducing: int = 200,
    max_rows: int = 10_000,
    tune: bool = False,
    classes: Any = None,
    device: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> HybridClassifier:
    """Add a Bayesian head to a trained classifier, leaving its features and all its weights unchanged.

    The head replaces the last layer: it is fitted in closed form to the features of some rows.

    Which rows matters more than how many.  A network is more certain about its training rows than about others, and a
    head fitted to these alone takes all rows to be as easy.  So use rows it was not trained on, such as its validation
    set, or give such rows as ``held_out``, for the link alone.

    Parameters
    ----------
    model : module
        A classifier: inputs in, scores of classes out.
    loader : iterable of pairs
        Batches of inputs and labels (codes from 0), such as a `torch.utils.data.DataLoader`: tensors or arrays, of
        any precision.
    layer : module or its name, optional
        The layer that the head replaces: its inputs are the features.  By default the last `torch.nn.Linear`.
    held_out : iterable of pairs, optional
        Rows on which the link to probabilities is fitted.
    n_inducing : int
        Number of inducing points.
    max_rows : int
        Maximum number of rows to take from the loader.
    tune : bool
        Whether to tune the kernel, which hardly matters for features of a trained network, and takes longest.
    classes : sequence, optional
        The label of each code.
    device : optional
        Where the model runs; by default where it is.
    n_jobs : int, optional
        Number of threads.
    random_state : int, RandomState or None
        Seeds the choice of points.

    Returns
    -------
    HybridClassifier
        Fitted: ``predict_proba``, ``latent_mean_and_variance``, and all of `softmargin.uncertainty`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> rows = [(torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y))]
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    >>> optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    >>> for _ in range(50):
    ...     optimiser.zero_grad()
    ...     nn.functional.cross_entropy(model(rows[0][0][:1000]), rows[0][1][:1000]).backward()
    ...     optimiser.step()
    >>> hybrid = bayesianise(model, rows, n_inducing=50)
    >>> bool(hybrid.score(X / 16, y) > 0.9)
    True
    """
    positive_integer("n_inducing", n_inducing)
    positive_integer("max_rows", max_rows)
    device = _where(model) if device is None else torch.device(device)
    network = UpTo(model, _layer_of(model, layer)).to(device)
    with evaluated(model):
        features, y, shape = _gathered(network, loader, max_rows, device)
        n_classes = int(y.max()) + 1 if classes is None else len(classes)
        head = MarginHead(features.shape[1], n_classes, n_inducing).to(device).eval()
        head.fit(features, y, tune=tune, random_state=random_state, n_jobs=n_threads(n_jobs))
        if held_out is not None:
            head.calibrate(*_gathered(network, held_out, max_rows, device)[:2])
    labels = np.arange(n_classes) if classes is None else np.asarray(classes)
    return HybridClassifier(model, n_inducing, device=str(device), n_jobs=n_jobs)._made_of(network, head, labels, shape)


def _where(model: nn.Module) -> torch.device:
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def _layer_of(model: nn.Module, layer: nn.Module | str | None) -> nn.Module:
    if isinstance(layer, str):
        named = dict(model.named_modules())
        if layer not in named:
            raise ValueError(f"The model has no layer {layer!r}; it has {', '.join(map(repr, filter(None, named)))}.")
        return named[layer]
    if layer is not None:
        return layer
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError("The model has no Linear layer to replace: name the layer with layer=.")
    return linear[-1]


def _gathered(
    network: nn.Module, loader: Iterable[Any], max_rows: int, device: torch.device
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Features and labels of at most ``max_rows`` rows, and the shape of an input."""

    def parts() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        n_rows, dtype = 0, dtype_of(network)
        for batch in loader:
            X, y = _pair(batch)
            X, codes = torch.as_tensor(X), _codes(y)
            yield network(X.to(device, dtype)).float().cpu(), codes, X
            n_rows += len(y)
            if n_rows >= max_rows:
                return

    with torch.inference_mode():
        found = list(parts())
    if not found:
        raise ValueError("The loader has no rows to fit the head to.")
    features, labels, inputs = zip(*found, strict=True)
    return torch.cat(features)[:max_rows].clone(), torch.cat(labels)[:max_rows].clone(), tuple(inputs[0].shape[1:])


def _pair(batch: Any) -> tuple[Any, Any]:
    """Inputs and labels; a tensor would come apart into its first rows without a word."""
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise ValueError(
            f"Batches must be pairs of inputs and labels, got {type(batch).__name__}. Rows in memory are a single "
            f"batch: pass them in a list, as [(X, y)]."
        )
    return batch[0], batch[1]


def _codes(y: Any) -> Tensor:
    """The labels of a batch as codes of classes, on the host."""
    try:
        labels = torch.as_tensor(y).cpu()
    except (TypeError, ValueError):  # texts
        labels = torch.tensor([torch.nan])
    codes = labels.long()
    wrong = (codes != labels) | (codes < 0)
    if wrong.any():
        found = np.ravel(y)[:1].tolist()[0] if labels.isnan().any() else labels[wrong][0].item()
        raise ValueError(f"Labels must be codes from 0 to K - 1 for K classes, got {found!r}. {HOW_TO_CODE}")
    return codes
