"""How a model is refitted as labels are added."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .pool import last_step, taken

#: The words that ``refit=`` accepts.
REFITS = ("full", "partial")


class Refits(NamedTuple):
    """The model as given, the fitted one (None while there is a single class), and the rounds since it was tuned."""

    model: Any
    how: str
    tune_every: int | None
    fitted: Any = None
    rounds: int = 0

    @classmethod
    def of(cls, model: Any, how: str, tune_every: int | None, rng: np.random.RandomState) -> Refits:
        """The state before the first round; draws every seed that the model leaves as None."""
        model = _copy(model)
        unset = {
            name: int(rng.randint(2**31 - 1))
            for name, value in sorted(model.get_params().items())
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        }
        if how == "partial" and not hasattr(_last(model), "partial_fit"):
            raise ValueError(f"refit='partial' needs partial_fit, which {type(_last(model)).__name__} does not have.")
        return cls(model.set_params(**unset), how, tune_every)

    def after(self, X: Any, y: np.ndarray, n_new: int) -> tuple[Refits, bool]:
        """Refits to all labelled rows, of which the last ``n_new`` are new; also returns whether it was tuned."""
        if len(np.unique(y)) < 2:
            return self, False
        due = self.fitted is None or (self.tune_every is not None and self.rounds + 1 >= self.tune_every)
        if due:
            return self._replace(fitted=_copy(self.model).fit(X, y), rounds=0), True
        if self.how == "partial" and np.isin(y[-n_new:], _last(self.fitted).classes_).all():
            fitted = self._added(taken(X, slice(len(y) - n_new, len(y))), y[-n_new:])
        else:
            fitted = self._held().fit(X, y)
        return self._replace(fitted=fitted, rounds=self.rounds + 1), False

    def _held(self) -> Any:
        """A copy with the kernel of the last fit, and inducing points tuned with it, held fixed."""
        model, last = _copy(self.model), _last(self.fitted)
        held, own = {}, _last(model)
        if getattr(own, "tune", None) is not None and hasattr(last, "kernel_"):
            held = {"kernel": last.kernel_, "tune": None}
        if isinstance(getattr(own, "inducing", None), str) and own.inducing == "tuned":
            held["inducing"] = last.inducing_points_
        prefix = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
        return model.set_params(**{prefix + name: value for name, value in held.items()})

    def _added(self, X: Any, y: np.ndarray) -> Any:
        last, X = last_step(self.fitted, X)
        last.partial_fit(X, y)
        return self.fitted


def _copy(model: Any) -> Any:
    return clone(model)


def _last(model: Any) -> Any:
    return model[-1] if isinstance(model, Pipeline) else model


def was_interrupted(model: Any) -> bool:
    """Whether the user interrupted the fit of a model."""
    return getattr(_last(model), "stop_reason_", None) == "interrupt"
