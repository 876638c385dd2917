"""Networks with a trunk and heads, and their weights as named arrays.

Two kinds of heads begin with a convolution. `ConvHead` flattens the activations of the convolution,
so its weights depend on the board size. The weights of `FullyConvHead` do not: an output for a cell
or line of the board is computed from the activations there, and an output for the whole position
from the mean, standard deviation and maximum over the board. This resembles the pooling of [Wu2019,
Section 3.3], which scales the mean by the board size instead of using the standard deviation. The
operations were chosen for speed, forward and backward, with filters last in memory
(docs/decisions/0047).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d

from zerolab.core.errors import UserError, quoted
from zerolab.networks.head import Head, SearchOutput, missing_output_message
from zerolab.networks.layers import NormedConv
from zerolab.rules.encoding import ActionLayout, Places


class LastLayer(nn.Module):
    """The last layer of a head, from features [N, inputs] to predictions [N, ...]."""

    def __init__(self, head: Head, inputs: int, actions: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, head.output_size(actions))
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, features: Tensor) -> Tensor:
        return self._activation(self.output(features))


class ConvHead(nn.Module):
    """A head that reads the planes of a residual trunk with a convolution.

    `head` has the layers after the convolution; their input is [N, filters * cells]. [Silver2017,
    Methods] uses 1x1 convolutions.
    """

    def __init__(self, inputs: int, filters: int, kernel: int, head: nn.Module) -> None:
        super().__init__()
        self.reduce = NormedConv(inputs, filters, size=kernel)
        self.head = head

    def forward(self, planes: Tensor) -> Tensor:
        return self.head(self.features(planes))  # type: ignore[no-any-return]

    def features(self, planes: Tensor) -> Tensor:
        """Return the head's input, the activations of the convolution, [N, filters * cells]."""
        return self.reduced_planes(planes).flatten(1)

    def reduced_planes(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters, rows, columns]."""
        return torch.relu(self.reduce(planes))


class Network(nn.Module):
    """A trunk and heads; calling the network returns the predictions by head name.

    Its input is a float tensor [N, planes, rows, columns].
    """

    def __init__(self, trunk: nn.Module, heads: Sequence[tuple[Head, nn.Module]]) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict({head.name: module for head, module in heads})
        self.head_settings = {head.name: head for head, _ in heads}
        """Settings of the heads by name, in the order of `network.heads`."""

    def forward(self, planes: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return the predictions of all heads, or only of the heads in `names`."""
        features = self.trunk(planes)
        return {name: self.heads[name](features) for name in names or self.heads}

    def features(self, planes: Tensor, names: Collection[str] = ()) -> Tensor:
        """Return the activations of the convolutions before the heads, [N, features], in order.

        `names` selects some of the heads. Raises UserError if these have no convolutions.
        """
        conv_heads = {
            name: module for name, module in self.heads.items() if isinstance(module, ConvHead)
        }
        if not conv_heads:
            raise UserError(
                "the network has no convolutions before its heads: expected another architecture,"
                ' such as "resnet"'
            )
        if unknown := [name for name in names if name not in conv_heads]:
            expected = ", ".join(map(quoted, conv_heads))
            raise UserError(
                f"the network has no head {quoted(unknown[0])} with a convolution: expected one of"
                f" {expected}"
            )
        trunk = self.trunk(planes)
        chosen = [head for name, head in conv_heads.items() if not names or name in names]
        return torch.cat([head.features(trunk) for head in chosen], dim=1)

    def head_name_for(self, output: SearchOutput) -> str:
        """Return the name of the first head with an output; raise UserError if there is none."""
        name = next(
            (name for name, head in self.head_settings.items() if output in head.search_outputs),
            None,
        )
        if name is None:
            raise UserError(missing_output_message(output, self.head_settings.values()))
        return name


POOLS = 3
"""Number of outputs of `GlobalPool` per filter."""

_MIN_VARIANCE = 1e-5  # bounds the gradient of the square root


class FullyConvHead(ConvHead):
    """A head with a convolution whose other layers read planes of any size, not features."""

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the layers after the convolution in the precision of their weights.

        These layers are so small that autocast's conversions would take longer than the layers.
        """
        reduced = self.reduced_planes(planes)
        precision = self.reduce.conv.weight.dtype
        if reduced.dtype == precision:  # always true on the meta device, which has no autocast
            return self.head(reduced)  # type: ignore[no-any-return]
        with torch.autocast(planes.device.type, enabled=False):
            return self.head(reduced.to(precision))  # type: ignore[no-any-return]


class GlobalPool(nn.Module):
    """Mean, standard deviation and maximum of every filter, from [N, F, R, C] to [N, 3 * F]."""

    def forward(self, planes: Tensor) -> Tensor:
        precise = planes.float()
        mean = precise.mean(dim=(2, 3))
        variance = torch.addcmul(precise.square().mean(dim=(2, 3)), mean, mean, value=-1)
        deviation = torch.sqrt(variance.clamp(min=0) + _MIN_VARIANCE)
        maximum = adaptive_max_pool2d(precise, 1).flatten(1)
        return torch.cat((mean, deviation, maximum), dim=1).to(planes.dtype)


class PlacewiseLayer(nn.Module):
    """The last layer of a head with one output per action, from [N, F, R, C] to [N, actions].

    The same weights apply to every cell, or to the mean and maximum of every column or row. Other
    actions, such as passing, use the mean and maximum of the whole board.
    """

    def __init__(self, head: Head, filters: int, layout: ActionLayout) -> None:
        super().__init__()
        self._read_places, pools = _READERS[layout.places]
        self.output = nn.Linear(pools * filters, 1)
        self.others = (
            nn.Linear(2 * filters, layout.placeless_count) if layout.placeless_count else None
        )
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, planes: Tensor) -> Tensor:
        outputs = self.output(self._read_places(planes)).squeeze(2)
        if self.others is not None:
            outputs = torch.cat((outputs, self.others(_board(planes))), dim=1)
        return self._activation(outputs)


def _cells(planes: Tensor) -> Tensor:
    """Return the filters of each cell, [N, cells, F]."""
    return _filters_last(planes).flatten(1, 2)


def _columns(planes: Tensor) -> Tensor:
    """Return the mean and maximum over each column, [N, columns, 2 * F]."""
    return _lines(planes, over=2)


def _rows(planes: Tensor) -> Tensor:
    """Return the mean and maximum over each row, [N, rows, 2 * F]."""
    return _lines(planes, over=3)


def _lines(planes: Tensor, over: int) -> Tensor:
    """Return the mean and maximum over one dimension of the board, [N, lines, 2 * F]."""
    precise = planes.float()
    lines = [1 if dimension == over else planes.shape[dimension] for dimension in (2, 3)]
    maximum = adaptive_max_pool2d(precise, lines).flatten(2).transpose(1, 2)
    return torch.cat((_filters_last(precise).mean(dim=over - 1), maximum), dim=2).to(planes.dtype)


def _board(planes: Tensor) -> Tensor:
    """Return the mean and maximum over the board, [N, 2 * F]."""
    precise = planes.float()
    maximum = adaptive_max_pool2d(precise, 1).flatten(1)
    return torch.cat((precise.mean(dim=(2, 3)), maximum), dim=1).to(planes.dtype)


def _filters_last(planes: Tensor) -> Tensor:
    """Return planes as [N, R, C, F], their order in memory, so that layers need not copy them."""
    return planes.permute(0, 2, 3, 1)


_READERS: dict[Places, tuple[Callable[[Tensor], Tensor], int]] = {
    "cells": (_cells, 1),
    "columns": (_columns, 2),
    "rows": (_rows, 2),
}
"""Function that reads the places, and number of values per filter, for each kind of place."""


def weights_to_arrays(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return copies of all parameters and buffers, by name."""
    return {
        name: np.array(tensor.detach().cpu().contiguous().numpy())
        for name, tensor in network.state_dict().items()
    }


def set_weights(network: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy weights by name into a network; raise UserError if any name, shape or type differs.

    The network is left unchanged unless all arrays fit.
    """
    require_matching_arrays(
        {name: array_form(tensor) for name, tensor in network.state_dict().items()}, arrays
    )
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in arrays})


def require_matching_arrays(
    expected_forms: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise UserError, naming the first mismatch, unless `arrays` have the expected forms.

    `expected_forms` maps the names of a network's arrays to their types and shapes.
    """
    unmatched = sorted(set(expected_forms) ^ set(arrays))
    if unmatched:
        problem = "missing" if unmatched[0] in expected_forms else "unexpected"
        raise UserError(f"these weights belong to another network: {unmatched[0]} is {problem}")
    for name, expected in expected_forms.items():
        form = array_form(arrays[name])
        if form != expected:
            raise UserError(
                f"these weights belong to another network: {name} is {form}, expected {expected}"
            )


def array_form(array: NDArray[Any] | torch.Tensor) -> str:
    """Return the type and shape of an array or tensor for messages, such as ``float32[2, 3]``."""
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"
