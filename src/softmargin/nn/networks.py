"""Small networks for use with a head: the two of Wistuba and Rawat (2018) for images, and one for tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

#: Widths of the layers in the network for tables.
_TABLE_WIDTHS = (256, 128, 64)


class Standardised(nn.Module):
    """Standardises inputs: each column of a table, each channel of images."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, X: Tensor) -> None:
        super().__init__()
        axes = (0, *range(2, X.ndim))
        mean, deviation = X.mean(dim=axes, keepdim=True), X.std(dim=axes, keepdim=True, correction=0)
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, X: Tensor) -> Tensor:
        return (X - self.mean) / self.deviation


def mnist_network(shape: Sequence[int] = (1, 28, 28)) -> nn.Sequential:
    """conv(32, 5, 5), conv(64, 3, 3), max_pool, fc(1024), fc(100), with rectified units: the paper's for MNIST.

    >>> network = mnist_network()
    >>> network(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 100])
    """
    return _convolutional(shape, [(32, 5), (64, 3), None], 1024)


def cifar_network(shape: Sequence[int] = (3, 32, 32)) -> nn.Sequential:
    """conv(128, 3, 3) twice, max_pool, conv(128, 3, 3), max_pool, fc(256), fc(100): the paper's for CIFAR-10.

    >>> cifar_network()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 100])
    """
    return _convolutional(shape, [(128, 3), (128, 3), None, (128, 3), None], 256)


def table_network(shape: Sequence[int]) -> nn.Sequential:
    """Three layers of rectified units with layer normalisation, for a table with ``shape[0]`` columns.

    >>> table_network((7,))(torch.zeros(2, 7)).shape
    torch.Size([2, 64])
    """
    layers: list[nn.Module] = []
    widths = (*shape, *_TABLE_WIDTHS)
    for before, width in itertools.pairwise(widths):
        layers += [nn.Linear(before, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _convolutional(shape: Sequence[int], plan: Sequence[tuple[int, int] | None], width: int) -> nn.Sequential:
    """Convolutions, given as (channels, size), with max-pooling for None; then two fully connected layers."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for entry in plan:
        if entry is None:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, *entry), nn.ReLU()]
            channels = entry[0]
    with torch.no_grad():
        try:
            n_inputs = nn.Sequential(*layers)(torch.zeros(1, *shape)).numel()
        except RuntimeError as error:
            raise ValueError(f"Images of shape {tuple(shape)} are too small for this network.") from error
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(n_inputs, width), nn.ReLU(), nn.Linear(width, 100), nn.ReLU())


#: Predefined networks, by name.
NETWORKS: dict[str, Callable[[Sequence[int]], nn.Sequential]] = {
    "mnist": mnist_network,
    "cifar": cifar_network,
    "table": table_network,
}
