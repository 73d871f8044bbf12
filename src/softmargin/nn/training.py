"""Training a network together with its head."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..arrays import to_numpy
from ..monitor import Monitor
from .head import MarginHead
from .objective import Terms

#: Rows processed at once where no gradients are needed.
_ROWS_AT_ONCE = 1024
#: Rows to which the head is refitted between epochs and at the end: the fewest, and the rows per inducing point.
_FEWEST_ROWS, _ROWS_PER_POINT, _ROWS_PER_POINT_AT_LAST = 2000, 20, 100
#: All rows are moved to the device at once if they take at most this many bytes.
_MOST_BYTES = 2**32
#: Tolerances of fits of the head, between epochs and at the end.
_ROUGH, _FINE = 3e-3, 1e-3
#: The weight of the divergence at the beginning of the warm-up.
_FIRST_KL_WEIGHT = 0.1


class Labelled(NamedTuple):
    """Inputs and codes of classes."""

    X: Tensor
    y: Tensor

    def on(self, device: torch.device) -> Labelled:
        """The same rows on a device, unless they are too large."""
        small = self.X.numel() * self.X.itemsize <= _MOST_BYTES
        return Labelled(self.X.to(device), self.y.to(device)) if small else self

    def some(self, size: int, generator: torch.Generator) -> Labelled:
        """Up to ``size`` random rows."""
        if size >= len(self.y):
            return self
        rows = torch.randperm(len(self.y), generator=generator)[:size].to(self.X.device)
        return Labelled(self.X[rows], self.y[rows])

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Labelled]:
        """All rows in random order, in batches of nearly equal size."""
        rows = torch.randperm(len(self.y), generator=generator).to(self.X.device)
        for batch in rows.tensor_split(max(1, round(len(rows) / size))):
            yield Labelled(self.X[batch], self.y[batch])


class Plan(NamedTuple):
    """Settings for training."""

    epochs: int
    batch_size: int
    warm_up: float
    patience: int


class Score(NamedTuple):
    """Performance on held-out rows, to which the link has been fitted."""

    log_loss: float
    accuracy: float


@contextmanager
def evaluated(*modules: nn.Module) -> Iterator[None]:
    """A context with modules in evaluation mode; every part then returns to its own, as parts may differ."""
    modes = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def dtype_of(network: nn.Module) -> torch.dtype:
    """The dtype in which a network computes: that of its first parameter or buffer with decimals.

    >>> dtype_of(nn.Linear(3, 2).double())
    torch.float64
    """
    states = (*network.parameters(), *network.buffers())
    return next((state.dtype for state in states if state.is_floating_point()), torch.float32)


def features_of(network: nn.Module, X: Tensor, device: Any = None) -> Tensor:
    """The features that a network computes from inputs, on the host and without gradients; its mode is restored.

    >>> features_of(nn.Linear(3, 2), torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    with evaluated(network), torch.inference_mode():
        parts = [network(part.to(device)).float().cpu() for part in X.split(_ROWS_AT_ONCE)]
    return torch.cat(parts).clone()


class Trainer:
    """Trains a network and its head; keeps the best state, by the log loss on held-out rows if there are any."""

    def __init__(
        self,
        network: nn.Module,
        head: MarginHead,
        optimiser: torch.optim.Optimizer,
        train: Labelled,
        held_out: Labelled | None,
        plan: Plan,
        device: torch.device,
        seed: int,
        monitor: Monitor,
        n_jobs: int | None = None,
        history: list[dict[str, Any]] | None = None,
    ) -> None:
        self.network, self.head, self.optimiser = network, head, optimiser
        self.train, self.held_out = train.on(device), None if held_out is None else held_out.on(device)
        self.plan, self.device = plan, device
        self.generator = torch.Generator().manual_seed(seed)
        self.seed, self.monitor, self.n_jobs = seed, monitor, n_jobs
        self.history: list[dict[str, Any]] = [] if history is None else history
        self.best: tuple[float, dict[str, Any]] = (math.inf, {})
        self.n_steps = len(self.history) * self._n_batches

    @property
    def _n_batches(self) -> int:
        return max(1, round(len(self.train.y) / self.plan.batch_size))

    def run(self) -> str:
        """Runs the epochs, then refits the head.  Returns why it stopped: epochs, patience, time or interrupt."""
        reason = "epochs"
        try:
            if not self.head.is_fitted:
                self.place_head()
            for _ in range(self.plan.epochs):
                self.one_epoch()
                if self._is_calm():
                    reason = "patience"
                elif self.monitor.out_of_time:
                    reason = "time"
                if reason != "epochs":
                    break
        except KeyboardInterrupt:
            if not self.best[1]:
                raise
            reason = "interrupt"
        finally:
            self.monitor.close()
        self._finish()
        return reason

    def place_head(self) -> None:
        """Refits points and belief, in closed form, to the present features."""
        size = max(_FEWEST_ROWS, _ROWS_PER_POINT * self.head.n_inducing)
        self._fit_head(self.train.some(size, self.generator), _ROUGH)

    def one_epoch(self, refresh: bool = True) -> None:
        """A pass over all rows and an evaluation; the head may be refitted before."""
        if refresh and _is_power_of_two(len(self.history)):  # features change most in the beginning
            self.place_head()
        self._look(self.learn())

    def learn(self) -> Terms:
        """A pass over all rows in minibatches; returns the mean terms of the objective."""
        self.network.train()
        self.head.train()
        total: Any = 0.0
        for batch in self.train.batches(self.plan.batch_size, self.generator):
            self._warm_up()
            self.optimiser.zero_grad(set_to_none=True)
            features = self.network(batch.X.to(self.device))
            loss = self.head.loss(features, batch.y.to(self.device), len(self.train.y))
            loss.backward()
            self.optimiser.step()
            self.n_steps += 1
            total = total + self.head.last_terms
            self.monitor.note(f"epoch {len(self.history) + 1}  step {self.n_steps}")
        return Terms(*(total / self._n_batches).tolist())

    def _warm_up(self) -> None:
        done = self.n_steps / max(1.0, self.plan.warm_up * self._n_batches)
        self.head.kl_weight = min(1.0, _FIRST_KL_WEIGHT + (1 - _FIRST_KL_WEIGHT) * done)

    def _look(self, terms: Terms) -> None:
        """Records the performance of the model, and keeps its state if it is the best."""
        entry = {"objective": terms.objective} | terms._asdict()
        value = -entry["objective"]
        if self.held_out is not None:
            score = self.score()
            value, entry = score.log_loss, entry | score._asdict()
        self.history.append(entry)
        self.monitor.record(len(self.train.y) * entry["objective"], accepted=True)
        entry["seconds"] = self.monitor.history[-1]["seconds"]
        if value < self.best[0] or not math.isfinite(self.best[0]):
            self.best = value, self.state()

    def state(self) -> dict[str, Any]:
        return copy.deepcopy({"network": self.network.state_dict(), "head": self.head.state_dict()})

    def load(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        self.head.load_state_dict(state["head"])

    def score(self) -> Score:
        """Performance on the held-out rows, after fitting the link to them."""
        assert self.held_out is not None
        features = self.features(self.held_out.X)
        self.head.eval().calibrate(features, self.held_out.y)
        with torch.no_grad():
            p = to_numpy(self.head.predict_proba(features.to(self.device)))
        own = p[np.arange(len(p)), to_numpy(self.held_out.y)]
        return Score(float(-np.log(np.maximum(own, 1e-15)).mean()), float(np.mean(own == p.max(axis=1))))

    def _is_calm(self) -> bool:
        """Whether nothing has improved for more than ``patience`` epochs."""
        if self.held_out is None or len(self.history) <= self.plan.patience:
            return False
        losses = [entry["log_loss"] for entry in self.history]
        return int(np.argmin(losses)) < len(losses) - self.plan.patience

    def _finish(self) -> None:
        """Restores the best network, with the better of two heads: its own, and one refitted to more rows."""
        self.load(self.best[1])
        self.network.eval()
        self.head.eval()
        self.head.kl_weight = 1.0
        before, own = self.best[0], self.state()
        size = max(_FEWEST_ROWS, _ROWS_PER_POINT_AT_LAST * self.head.n_inducing)
        self._fit_head(self.train.some(size, self.generator), _FINE)
        if self.held_out is not None and self.score().log_loss > before:
            self.load(own)

    def features(self, X: Tensor) -> Tensor:
        return features_of(self.network, X, self.device)

    def _fit_head(self, rows: Labelled, tol: float) -> None:
        self.head.fit(
            self.features(rows.X),
            rows.y,
            n_total=len(self.train.y),
            tol=tol,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        )


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
