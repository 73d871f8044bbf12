"""Neural networks with a Bayesian head, behind the scikit-learn API."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from ..arrays import to_numpy
from ..chunks import n_threads
from ..estimators.partial import warn_of_first_batch
from ..estimators.predictions import LatentPredictions, kept_on_failure
from ..likelihoods import Loss
from ..monitor import InterruptedFitWarning, Monitor
from ..parameters import number_of_jobs, one_of, positive_integer, positive_number, verbosity
from ..validation import check_labels, check_rows, codes_of, declared_classes, present_classes, refuse_infinite
from .closed import checked_loss
from .head import MarginHead
from .networks import NETWORKS, Standardised
from .training import Labelled, Plan, Trainer, dtype_of, evaluated

#: Rows are held out only if this many of each class would be among them.
_FEWEST_HELD_OUT = 2
#: Rows processed at once, with and without gradients.
_ROWS_WITH_SLOPES, _ROWS_AT_ONCE = 256, 1024


class HybridClassifier(LatentPredictions, ClassifierMixin, BaseEstimator):
    """Neural network with a Bayesian support vector machine as its last layer.

    The head is first fitted to the features of the initial network, in closed form; then both are trained together:
    the network by an optimiser, the head by its own natural-gradient steps (`MarginHead`).  After one, two, four, eight
    epochs its points are placed again; at the end it is fitted on more rows, and the link to probabilities on held-out
    rows.

    Parameters
    ----------
    network : {"auto", "mnist", "cifar", "table"}, module, or a function from the shape of a row to a module
        Maps inputs to features.  The names are networks of Wistuba and Rawat (2018) for images, and one for tables;
        "auto" chooses by the shape of ``X``.  A module is copied, and trained from its current weights.  All receive
        standardised inputs, and compute in single precision.
    n_inducing : int
        Number of inducing points of the head.
    loss, multi_class
        As in `MarginHead`.
    length_scale : float, optional
        Of the head's kernel, as in `MarginHead`.
    epochs, batch_size : int
        Number of passes over the rows, and of rows in a minibatch.
    learning_rate : float
        Of Adam.
    optimizer : callable, optional
        Takes parameters and returns a torch optimiser, in place of Adam.
    warm_up : float
        Number of epochs over which the divergence is raised to its full weight.
    validation_fraction : float
        Share of rows held out to choose the best epoch and to fit the link; 0 for none.
    patience : int
        Stop after this many epochs without a better log loss on the held-out rows.
    device : str, optional
        Where to run; by default on a GPU if there is one.
    max_time : float, optional
        Seconds after which no further epoch begins.
    n_jobs : int, optional
        Number of threads for fitting the head in closed form.
    verbose : bool
        Whether to show a progress line.
    random_state : int, RandomState or None
        Seeds the network's weights, the order of rows, and the held-out rows.

    Attributes
    ----------
    network_, head_ : modules
        The trained network, including standardisation of its inputs, and the head.
    classes_ : array
        The class labels.
    history_ : list of dicts
        For each epoch the objective and its two terms, per row, and log loss and accuracy on the held-out rows.
    n_iter_ : int
        Number of epochs.
    stop_reason_ : str
        Why training ended: epochs, patience, time or interrupt.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from softmargin.nn import HybridClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = HybridClassifier(epochs=8, n_inducing=50, device="cpu", random_state=0).fit(X[:1200], y[:1200])
    >>> bool(model.score(X[1200:], y[1200:]) > 0.9)
    True
    """

    def __init__(
        self,
        network: Any = "auto",
        n_inducing: int = 100,
        *,
        loss: Loss = "hinge",
        multi_class: str = "auto",
        length_scale: float | None = None,
        epochs: int = 20,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        optimizer: Callable[..., torch.optim.Optimizer] | None = None,
        warm_up: float = 1.0,
        validation_fraction: float = 0.1,
        patience: int = 5,
        device: str | None = None,
        max_time: float | None = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.n_inducing = n_inducing
        self.loss = loss
        self.multi_class = multi_class
        self.length_scale = length_scale
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.warm_up = warm_up
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.device = device
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Any:
        """Train the network and the head.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns) or (n_rows, channels, height, width)
            Rows of a table, or images.
        y : sequence of n_rows labels
            Two classes or more.

        Returns
        -------
        self
            The fitted classifier.
        """
        self._check_parameters()
        with kept_on_failure(self):
            X = self._check(X, reset=True)
            y = check_labels(X, y)
            self.classes_ = present_classes(y, np.ones(len(y)))[0]
            rng = check_random_state(self.random_state)
            rows, held_out = self._split(X, np.searchsorted(self.classes_, y), rng)
            trainer = self._trainer(rows, held_out, rng.randint(2**31 - 1))
            reason = trainer.run()
        self._keep(trainer, reason)
        if reason == "interrupt":
            warnings.warn("Interrupted: this is the best model found so far.", InterruptedFitWarning, stacklevel=2)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """Train for one more epoch, on these rows only; the first call needs all ``classes``.

        The link is fitted on these rows before they are used for training.  Inducing points, and the scales of inputs
        and features, are those of the first call: begin with a representative batch.  Fewer than 20 rows, or a single
        class, give a warning.
        """
        self._check_parameters()
        first = not hasattr(self, "head_")
        with kept_on_failure(self):
            X = self._check(X, reset=first)
            y = check_labels(X, y)
            self.classes_ = declared_classes(classes, None if first else self.classes_)
            codes_of(y, self.classes_)  # refuses other labels
            rows = Labelled(torch.as_tensor(X), torch.as_tensor(np.searchsorted(self.classes_, y)))
            trainer = self._trainer(rows, None, check_random_state(self.random_state).randint(2**31 - 1), first)
            with closing(trainer.monitor):
                if first:
                    trainer.place_head()
                else:
                    trainer.head.calibrate(trainer.features(rows.X), rows.y)
                trainer.one_epoch(refresh=False)
        self._keep(trainer, "epochs")
        if first:
            self._warn_of_first_batch(y)
        return self

    def _warn_of_first_batch(self, y: np.ndarray) -> None:
        warn_of_first_batch(y, ["inducing points", "scales of inputs and features"])

    def latent_mean_and_variance(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent value of each row, before the link; a column for each of many classes."""
        parts = self._through(X, lambda features: self.head_(features))
        mean, variance = (np.concatenate([to_numpy(part) for part in side]) for side in zip(*parts, strict=True))
        return mean, variance

    def sample_latent(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the latent values at the rows of ``X``, the last axis; before it classes, if more than two."""
        positive_integer("n_samples", n_samples)
        features = torch.cat(self._through(X, lambda features: features))
        return self.head_.sample(features, n_samples, random_state)

    def _through(self, X: Any, then: Callable[[torch.Tensor], Any]) -> list[Any]:
        """The results of ``then`` for the features of rows, part by part."""
        check_is_fitted(self)
        rows, network = torch.as_tensor(self._check(X, reset=False)), self.network_
        if self._is_table_network():
            # In double precision, which such small networks allow, results do not depend on which rows are batched.
            network = copy.deepcopy(network).double()
        place = self._device(), dtype_of(network)
        with evaluated(network, self.head_), torch.inference_mode():
            return [then(network(part.to(*place))) for part in rows.split(_ROWS_AT_ONCE)]

    def _latent_pullback(self, X: Any, d_mu: np.ndarray, d_v: np.ndarray) -> np.ndarray:
        """Gradient in ``X``, already checked, of the sum of latent moments weighted by ``d_mu`` and ``d_v``."""
        rows = torch.as_tensor(np.asarray(X, dtype=np.float32))
        parts = zip(*(torch.as_tensor(part).split(_ROWS_WITH_SLOPES) for part in (rows, d_mu, d_v)), strict=True)
        with evaluated(self.network_, self.head_):
            return np.concatenate([to_numpy(self._slopes(*part)) for part in parts])

    def _slopes(self, X: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        inputs = X.to(self._device(), dtype_of(self.network_)).requires_grad_(True)
        moments = self.head_(self.network_(inputs))
        return torch.autograd.grad(moments, inputs, [w.to(inputs.device, torch.float64) for w in weights])[0]

    # Steps of the fit ----------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        if isinstance(self.network, str):
            one_of("network", self.network, ("auto", *NETWORKS))
        checked_loss(self.loss, self.multi_class)
        try:
            self._device()
        except RuntimeError as error:
            raise ValueError(f"device={self.device!r} is not known to PyTorch: {error}") from error
        for name in ("n_inducing", "epochs", "batch_size", "patience"):
            positive_integer(name, getattr(self, name))
        positive_number("learning_rate", self.learning_rate)
        positive_number("warm_up", self.warm_up, zero=True)
        positive_number("max_time", self.max_time, none=True)
        verbosity(self.verbose)
        number_of_jobs(self.n_jobs)
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}.")

    def _check(self, X: Any, reset: bool = False) -> np.ndarray:
        """Numbers in single precision, for networks: rows of a table, or inputs of any shape."""
        rows: Any
        if len(getattr(X, "shape", ())) > 2:
            rows = validate_data(self, X, reset=reset, dtype=np.float32, allow_nd=True)
        else:
            with np.errstate(over="ignore"):
                rows = check_rows(self, X, reset=reset, sparse=False).astype(np.float32)
            refuse_infinite(rows, getattr(self, "feature_names_in_", None), type(self).__name__, missing=False)
        shape = rows.shape[1:]
        if reset:
            self._shape = shape
        elif shape != self._shape:
            raise ValueError(f"Rows have shape {shape}, but the model was fitted to rows of shape {self._shape}.")
        return rows

    def _split(self, X: np.ndarray, codes: np.ndarray, rng: np.random.RandomState) -> tuple[Labelled, Labelled | None]:
        """Rows for training and rows held out; None instead of the latter if they would be too few."""
        inputs, labels = torch.as_tensor(X), torch.as_tensor(codes)
        counts, size = np.bincount(codes), round(self.validation_fraction * len(codes))
        if self.validation_fraction == 0 or counts.min() * self.validation_fraction < _FEWEST_HELD_OUT:
            return Labelled(inputs, labels), None
        parts = StratifiedShuffleSplit(1, test_size=size, random_state=rng)
        train, test = next(parts.split(codes, codes))
        return Labelled(inputs[train], labels[train]), Labelled(inputs[test], labels[test])

    def _trainer(self, rows: Labelled, held_out: Labelled | None, seed: int, anew: bool = True) -> Trainer:
        """A trainer for a new network and head, or for the present ones."""
        device = self._device()
        if anew:
            network, head = self._made(rows, seed, device)
            optimiser, history = (self.optimizer or torch.optim.Adam)(network.parameters(), lr=self.learning_rate), []
        else:
            network, head, optimiser, history = self.network_, self.head_, self._optimiser, list(self.history_)
        plan = Plan(self.epochs, self.batch_size, self.warm_up, self.patience)
        monitor = Monitor(type(self).__name__, self.verbose, self.max_time, self.epochs)
        jobs = n_threads(self.n_jobs)
        return Trainer(network, head, optimiser, rows, held_out, plan, device, seed, monitor, jobs, history)

    def _made(self, rows: Labelled, seed: int, device: torch.device) -> tuple[nn.Module, MarginHead]:
        """A network with initial weights, and a head of matching size."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = nn.Sequential(Standardised(rows.X), self._network(tuple(rows.X.shape[1:])))
            network = network.to(device, rows.X.dtype)
        with torch.no_grad():
            features = network.eval()(rows.X[:2].to(device))
        if features.ndim != 2:
            raise ValueError(
                f"The network must return a row of features for each input, got shape {tuple(features.shape)}."
            )
        sizes = features.shape[1], len(self.classes_), self.n_inducing
        words: Any = {"loss": self.loss, "multi_class": self.multi_class, "length_scale": self.length_scale}
        return network, MarginHead(*sizes, **words).to(device)

    def _network(self, shape: tuple[int, ...]) -> nn.Module:
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network)
        if not isinstance(self.network, str):
            return self.network(shape)
        word = self.network
        if word == "auto":
            word = "table" if len(shape) == 1 else "mnist" if shape[0] == 1 else "cifar"
        if len(shape) != (1 if word == "table" else 3):
            raise ValueError(f"network={word!r} does not accept rows of shape {shape}; give a module that does.")
        return NETWORKS[word](shape)

    def _is_table_network(self) -> bool:
        return isinstance(self.network, str) and self.network in ("auto", "table") and len(self._shape) == 1

    def _device(self) -> torch.device:
        if self.device is not None:
            return torch.device(self.device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def _keep(self, trainer: Trainer, reason: str) -> None:
        self.network_, self.head_ = trainer.network.eval(), trainer.head.eval()
        self._optimiser = trainer.optimiser
        self.link_, self.history_ = trainer.head.link, trainer.history
        self.n_iter_, self.stop_reason_ = len(trainer.history), reason

    def _made_of(self, network: nn.Module, head: MarginHead, classes: np.ndarray, shape: tuple[int, ...]) -> Any:
        """Sets the fitted attributes from parts that were trained elsewhere."""
        self.network_, self.head_, self.link_ = network, head, head.link
        self.classes_, self._shape = classes, shape
        self.history_, self.n_iter_, self.stop_reason_ = [], 0, "given"
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "head_")
