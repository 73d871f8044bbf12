"""The state of a head, in buffers that move with the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..arrays import to_numpy
from ..kernels import RBF, Constant, Kernel
from ..links import Link, LogisticLink, SoftmaxLink


class HeadState(nn.Module):
    """Units of features, kernel, points, belief, sums and link, all in double precision; no points before a fit."""

    center: Tensor
    spread: Tensor
    log_kernel: Tensor
    points: Tensor
    whitener: Tensor
    means: Tensor
    roots: Tensor
    log_dets: Tensor
    G: Tensor
    h: Tensor
    link_parameters: Tensor

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.n_features, self.n_classes = n_features, n_classes
        self._forget()
        C, m = self.n_functions, 0
        shapes = {"center": (n_features,), "spread": (n_features,), "log_kernel": (3,), "points": (m, n_features)}
        shapes |= {"whitener": (m, m), "means": (C, m), "roots": (C, m, m), "log_dets": (C,), "G": (C, m, m)}
        shapes |= {"h": (C, m), "link_parameters": (2 + C,)}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    def _forget(self) -> None:
        """Drops what was computed from the state, which is new."""
        #: Sums of minibatches that are not yet part of ``G`` and ``h``, and the number of these minibatches.
        self._pending: tuple[Tensor, ...] | None = None
        self._n_pending = 0
        #: The kernel, by the identity and version of its parameters, and the divergence of the belief.
        self._known: tuple[tuple[int, int], Kernel] = (0, 0), Constant(1.0)
        self._kl: Tensor | None = None
        #: Recorded work, by the shape of the minibatch and the identity of the kernel.
        self._recorded: dict[Any, Callable[..., Any]] = {}

    @property
    def n_functions(self) -> int:
        """The number of latent functions: one for two classes, otherwise one for each."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def is_fitted(self) -> bool:
        return self.points.shape[0] > 0

    @property
    def kernel(self) -> Kernel:
        """The kernel over standardised features."""
        state = id(self.log_kernel), self.log_kernel._version
        if self._known[0] != state:  # reads from the device only after changes
            variance, length_scale, offset = self.log_kernel.exp().tolist()
            self._known = state, variance * RBF(length_scale) + Constant(offset)
        return self._known[1]

    @property
    def link(self) -> Link:
        """The link from latent values to probabilities."""
        slope, damping, *offset = to_numpy(self.link_parameters).tolist()
        if self.n_functions == 1:
            return LogisticLink(slope, offset[0], damping)
        return SoftmaxLink(slope, np.array(offset), damping)

    def _take(self, known: dict[str, np.ndarray]) -> None:
        """Takes over the state of a fitted model."""
        for name, value in known.items():
            setattr(self, name, torch.as_tensor(value, dtype=torch.float64, device=self.points.device))
        self._forget()

    def _keep_link(self, link: Any) -> None:
        numbers = [link.slope, link.damping, *np.atleast_1d(link.offset)]
        self.link_parameters = torch.as_tensor(numbers, dtype=torch.float64, device=self.points.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Loads a state; buffers first take its shapes, since a head that is not fitted has no points."""
        for name, own in list(self.named_buffers(recurse=False)):
            given = state_dict.get(prefix + name)
            if given is not None and given.shape != own.shape and given.ndim == own.ndim:
                setattr(self, name, torch.zeros_like(given, device=own.device))
        self._forget()
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_recorded": {}}  # recorded work cannot be copied
