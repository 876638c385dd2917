"""Networks: a trunk and heads, and their weights as named arrays.

The layers in front of a head's output stand here, too: one kind reads a convolution's activations,
the other planes of any size. Heads of the second kind have no board size in their weights: an
output about a place on the board is read from that place, one about the whole position from the
board's mean, deviation and maximum, as [Wu2019, Section 3.3] pools: there the mean is also scaled
by the size of the board in place of the deviation. Their computations were chosen by time, forward
and backward, with filters last in memory (docs/decisions/0047).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from zerolab.core.errors import UserError
from zerolab.networks.head import Head, HeadOutput, missing_output
from zerolab.networks.layers import NormedConv
from zerolab.rules.encoding import ActionLayout, Places


class LastLayer(nn.Module):
    """The last layer of a head: features [N, inputs] to predictions [N, ...]."""

    def __init__(self, head: Head, inputs: int, actions: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, head.output_size(actions))
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, features: Tensor) -> Tensor:
        return self._activation(self.output(features))


class PlaneReader(nn.Module):
    """A convolution and a head: planes of a residual trunk to features or predictions.

    `head` takes [N, filters * cells]. The heads of [Silver2017, Methods] have 1x1 convolutions.
    """

    def __init__(self, inputs: int, filters: int, kernel: int, head: nn.Module) -> None:
        super().__init__()
        self.reduce = NormedConv(inputs, filters, size=kernel)
        self.head = head

    def forward(self, planes: Tensor) -> Tensor:
        return self.head(self.features(planes))  # type: ignore[no-any-return]

    def features(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters * cells]: the head's input."""
        return self.reduced(planes).flatten(1)

    def reduced(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters, rows, columns]."""
        return torch.relu(self.reduce(planes))


class Network(nn.Module):
    """A trunk and heads; calling it gives each head's predictions, by the head's name.

    Planes are float [N, planes, rows, columns].
    """

    def __init__(self, trunk: nn.Module, heads: Sequence[tuple[Head, nn.Module]]) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict({head.name: module for head, module in heads})
        self.kinds = {head.name: head for head, _ in heads}
        """The heads by name, in the order of the settings."""

    def forward(self, planes: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return the predictions of all heads, or of those that are named."""
        features = self.trunk(planes)
        return {name: self.heads[name](features) for name in names or self.heads}

    def features(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolutions before the heads, [N, features], in order.

        Raises UserError where the heads have no convolutions.
        """
        readers = [module for module in self.heads.values() if isinstance(module, PlaneReader)]
        if not readers:
            raise UserError(
                'its network has no convolutions before its heads: expected one such as "resnet"'
            )
        trunk = self.trunk(planes)
        return torch.cat([reader.features(trunk) for reader in readers], dim=1)

    def head_with(self, output: HeadOutput) -> str:
        """Return the name of the first head with an output; raise UserError where there is none."""
        name = next((name for name, head in self.kinds.items() if output in head.outputs), None)
        if name is None:
            raise UserError(missing_output(output, self.kinds.values()))
        return name


POOLS = 3
"""Number of values that `GlobalPool` makes of each filter."""

_LEAST_VARIANCE = 1e-5  # the root of a smaller one would have too steep a gradient


class BoardReader(PlaneReader):
    """A convolution and a head of planes, not features: for boards of any size."""

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the head to the reduced planes, in the precision of the weights.

        The head is small: that takes less time than autocast's conversions.
        """
        reduced = self.reduced(planes)
        precision = self.reduce.conv.weight.dtype
        if reduced.dtype == precision:  # so on the meta device, which has no autocast
            return self.head(reduced)  # type: ignore[no-any-return]
        with torch.autocast(planes.device.type, enabled=False):
            return self.head(reduced.to(precision))  # type: ignore[no-any-return]


class GlobalPool(nn.Module):
    """Mean, standard deviation and maximum of every filter: [N, F, R, C] to [N, 3 * F]."""

    def forward(self, planes: Tensor) -> Tensor:
        precise = planes.float()
        mean = precise.mean(dim=(2, 3))
        variance = torch.addcmul(precise.square().mean(dim=(2, 3)), mean, mean, value=-1)
        deviation = torch.sqrt(variance.clamp(min=0) + _LEAST_VARIANCE)
        most = adaptive_max_pool2d(precise, 1).flatten(1)
        return torch.cat((mean, deviation, most), dim=1).to(planes.dtype)


class PlacesLayer(nn.Module):
    """The last layer of a head with one output for every action: [N, F, R, C] to [N, actions].

    The same weights read every cell, or the mean and maximum of every column or row; actions beyond
    them, such as passing, are read from those of the whole board.
    """

    def __init__(self, head: Head, filters: int, layout: ActionLayout) -> None:
        super().__init__()
        self._read, pools = _READERS[layout.over]
        self.output = nn.Linear(pools * filters, 1)
        self.others = nn.Linear(2 * filters, layout.others) if layout.others else None
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, planes: Tensor) -> Tensor:
        outputs = self.output(self._read(planes)).squeeze(2)
        if self.others is not None:
            outputs = torch.cat((outputs, self.others(_board(planes))), dim=1)
        return self._activation(outputs)


def _cells(planes: Tensor) -> Tensor:
    """Return [N, cells, F]."""
    return _filters_last(planes).flatten(1, 2)


def _columns(planes: Tensor) -> Tensor:
    """Return [N, columns, 2 * F]: mean and maximum."""
    return _lines(planes, over=2)


def _rows(planes: Tensor) -> Tensor:
    """Return [N, rows, 2 * F]: mean and maximum."""
    return _lines(planes, over=3)


def _lines(planes: Tensor, over: int) -> Tensor:
    """Return mean and maximum over one dimension of the board, [N, lines, 2 * F]."""
    precise = planes.float()
    lines = [1 if dimension == over else planes.shape[dimension] for dimension in (2, 3)]
    most = adaptive_max_pool2d(precise, lines).flatten(2).transpose(1, 2)
    return torch.cat((_filters_last(precise).mean(dim=over - 1), most), dim=2).to(planes.dtype)


def _board(planes: Tensor) -> Tensor:
    """Return mean and maximum of the board, [N, 2 * F]."""
    precise = planes.float()
    most = adaptive_max_pool2d(precise, 1).flatten(1)
    return torch.cat((precise.mean(dim=(2, 3)), most), dim=1).to(planes.dtype)


def _filters_last(planes: Tensor) -> Tensor:
    """Return [N, R, C, F]: the order of planes in memory, so that no layer has to copy them."""
    return planes.permute(0, 2, 3, 1)


_READERS: dict[Places, tuple[Callable[[Tensor], Tensor], int]] = {
    "cells": (_cells, 1),
    "columns": (_columns, 2),
    "rows": (_rows, 2),
}
"""By kind of place, its reader and the number of values per filter."""


def weights_to_arrays(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return copies of all parameters and buffers, by name."""
    return {
        name: np.array(tensor.detach().cpu().contiguous().numpy())
        for name, tensor in network.state_dict().items()
    }


def load_weights(network: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy arrays into a network; raise UserError if any name, shape or type differs.

    The network stays unchanged unless all of them fit.
    """
    require_kinds(
        {name: array_kind(tensor) for name, tensor in network.state_dict().items()}, arrays
    )
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in arrays})


def require_kinds(own: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise UserError, naming the first array, unless names, types and shapes are a network's.

    `own` are the types and shapes of the network's arrays, by name.
    """
    unmatched = sorted(set(own) ^ set(arrays))
    if unmatched:
        raise UserError(f"these weights are of another network: {unmatched[0]} is on one side only")
    for name, expected in own.items():
        found = array_kind(arrays[name])
        if found != expected:
            raise UserError(
                f"these weights are of another network: {name} is {found}, expected {expected}"
            )


def array_kind(array: NDArray[Any] | torch.Tensor) -> str:
    """Return the type and shape of an array or tensor as shown to users."""
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"
