"""Networks with a trunk and heads, their layers, and their weights as named arrays.

Two kinds of heads begin with a convolution. `ConvHead` flattens the activations of the convolution,
so its weights depend on the board size. The weights of `FullyConvolutionalHead` do not: an output
for a cell or line of the board is computed from the activations there, and an output for the whole
position from the mean, standard deviation and maximum over the board. This resembles the pooling of
[Wu2019, Section 3.3], which scales the mean by the board size instead of using the standard
deviation. The operations were chosen for fast forward and backward passes in channels-last memory
format (docs/decisions/0047).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import adaptive_max_pool2d
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from zerolab.core.errors import UserError, quoted
from zerolab.networks.network_settings import InputPlane
from zerolab.networks.objectives import EvaluatorOutputName, Head, missing_output_message
from zerolab.rules.encoding import ActionLayout, PlaceKind


def rectify(tensor: Tensor) -> Tensor:
    """Apply ReLU in place; return the tensor.

    A bfloat16 is negative if its bits are a negative integer, and torch compares integers several
    times as fast (docs/decisions/0002), but has no gradients for them. A negative NaN becomes 0.
    """
    if tensor.dtype == torch.bfloat16 and tensor.is_cpu and torch.is_inference_mode_enabled():
        tensor.view(torch.int16).clamp_min_(0)
        return tensor
    return torch.relu_(tensor)


class OutputLayer(nn.Module):
    """Output layer of a head, from features [N, inputs] to predictions [N, ...]."""

    def __init__(self, head: Head, inputs: int, actions: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, head.output_size(actions))
        self._activation: Callable[[Tensor], Tensor] = head.apply_activation

    def forward(self, features: Tensor) -> Tensor:
        return self._activation(self.output(features))


class ConvHead(nn.Module):
    """A head that reads the planes of a residual trunk with a convolution.

    `head` contains the layers after the convolution; their input is [N, filters * cells].
    [Silver2017, Methods] uses 1x1 convolutions.
    """

    def __init__(self, inputs: int, filters: int, kernel: int, head: nn.Module) -> None:
        super().__init__()
        self.reduce = NormedConv(inputs, filters, size=kernel)
        self.head = head

    def forward(self, planes: Tensor) -> Tensor:
        return self.head(self.features(planes))  # type: ignore[no-any-return]

    def features(self, planes: Tensor) -> Tensor:
        """Return the head's input, the activations of the convolution, [N, filters * cells]."""
        return self.conv_activations(planes).flatten(1)

    def conv_activations(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters, rows, columns]."""
        return rectify(self.reduce(planes))


class Network(nn.Module):
    """A trunk and heads; calling the network returns the predictions by head name.

    Its input is a float tensor [N, planes, rows, columns]; the trunk also reads `extra_planes`.
    """

    def __init__(
        self,
        trunk: nn.Module,
        heads: Sequence[tuple[Head, nn.Module]],
        extra_planes: Sequence[InputPlane] = (),
    ) -> None:
        super().__init__()
        self.trunk, self.extra_planes = trunk, tuple(extra_planes)
        self.heads = nn.ModuleDict({head.name: module for head, module in heads})
        self.head_settings = {head.name: head for head, _ in heads}
        """Settings of the heads by name, in the order of `network.heads`."""

    def forward(self, planes: Tensor, head_names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return the predictions of all heads, or only of the heads in `head_names`."""
        features = self.trunk(self.with_extra_planes(planes))
        return {name: self.heads[name](features) for name in head_names or self.heads}

    def with_extra_planes(self, planes: Tensor) -> Tensor:
        """Return the input of the trunk, [N, planes + extra planes, rows, columns]."""
        extra = [plane.compute(planes[:, :1]) for plane in self.extra_planes]
        if not extra:
            return planes
        return torch.cat((planes, *extra), dim=1).contiguous(memory_format=torch.channels_last)

    def extra_repr(self) -> str:
        return ", ".join(map(repr, self.extra_planes))

    def features(self, planes: Tensor, head_names: Collection[str] = ()) -> Tensor:
        """Return the activations of the heads' convolutions, [N, features], head by head.

        `head_names` selects some of the heads. Raises UserError if no head, or not every head in
        `head_names`, has a convolution.
        """
        conv_heads = {name: each for name, each in self.heads.items() if isinstance(each, ConvHead)}
        if not conv_heads:
            raise UserError(
                'no head of the network has a convolution: expected a network such as "resnet"'
            )
        if unknown := [name for name in head_names if name not in conv_heads]:
            expected = ", ".join(map(quoted, conv_heads))
            raise UserError(
                f"the network has no head {quoted(unknown[0])} with a convolution: expected one of"
                f" {expected}"
            )
        trunk = self.trunk(self.with_extra_planes(planes))
        chosen = [head for name, head in conv_heads.items() if not head_names or name in head_names]
        return torch.cat([head.features(trunk) for head in chosen], dim=1)

    def head_name_for(self, output: EvaluatorOutputName) -> str:
        """Return the name of the first head with this output; raise UserError if none has it."""
        for name, head in self.head_settings.items():
            if output in head.evaluator_outputs:
                return name
        raise UserError(missing_output_message(output, self.head_settings.values()))


POOL_OUTPUTS_PER_FILTER = 3
"""Number of outputs of `GlobalPool` per filter."""

_MIN_VARIANCE = 1e-5  # bounds the gradient of the square root


class FullyConvolutionalHead(ConvHead):
    """A head with a convolution whose later layers read unflattened planes of any size."""

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the layers after the convolution in the precision of their weights.

        These layers are so small that autocast's conversions would take longer than the layers.
        """
        reduced = self.conv_activations(planes)
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


class BoardOutputLayer(nn.Module):
    """Output layer of a head with one output per action, from [N, F, R, C] to [N, actions].

    The same weights apply to every cell, or to the mean and maximum of every column or row. Other
    actions, such as passing, use the mean and maximum of the whole board.
    """

    def __init__(self, head: Head, filters: int, layout: ActionLayout) -> None:
        super().__init__()
        self._read_places, pools = _READERS[layout.places]
        self.output = nn.Linear(pools * filters, 1)
        count = layout.placeless_count
        self.others = nn.Linear(2 * filters, count) if count else None
        self._activation: Callable[[Tensor], Tensor] = head.apply_activation

    def forward(self, planes: Tensor) -> Tensor:
        outputs = self.output(self._read_places(planes)).squeeze(2)
        if self.others is not None:
            outputs = torch.cat((outputs, self.others(_board(planes))), dim=1)
        return self._activation(outputs)


def _cells(planes: Tensor) -> Tensor:
    """Return the activations of each cell, [N, cells, F]."""
    return _filters_last(planes).flatten(1, 2)


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


_READERS: dict[PlaceKind, tuple[Callable[[Tensor], Tensor], int]] = {
    "cells": (_cells, 1),
    "columns": (partial(_lines, over=2), 2),
    "rows": (partial(_lines, over=3), 2),
}
"""For each kind of place, the function that reads places, and its number of values per filter."""


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
    require_matching_arrays(network.state_dict(), arrays)
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in arrays})


def require_matching_arrays(
    tensors: Mapping[str, Tensor], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise UserError for the first array that is missing, unexpected or unlike its tensor."""
    if unmatched := sorted(set(tensors) ^ set(arrays)):
        problem = "missing" if unmatched[0] in tensors else "unexpected"
        raise UserError(f"these weights belong to a different network: {unmatched[0]} is {problem}")
    for name, tensor in tensors.items():
        form, expected = _type_and_shape(arrays[name]), _type_and_shape(tensor)
        if form != expected:
            raise UserError(
                f"these weights belong to a different network: {name} is {form}, not {expected}"
            )


def _type_and_shape(array: NDArray[Any] | Tensor) -> str:
    """Return the type and shape for messages, such as ``float32[2, 3]``."""
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"


_Network = TypeVar("_Network", bound=nn.Module)


class NormedConv(nn.Module):
    """A square convolution with batch norm, from [N, in, R, C] to [N, out, R', C']."""

    def __init__(
        self, inputs: int, outputs: int, size: int = 3, padding: int | None = None
    ) -> None:
        super().__init__()
        same = size // 2 if padding is None else padding
        self.conv = nn.Conv2d(inputs, outputs, size, padding=same, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs)

    def forward(self, planes: Tensor) -> Tensor:
        return self.norm(self.conv(planes))  # type: ignore[no-any-return]

    def fold_batch_norm(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        _fold_into(self.conv, self.norm, fuse_conv_bn_weights)
        self.norm = nn.Identity()


class NormedLinear(nn.Module):
    """A linear layer with batch norm, from [N, in] to [N, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm: nn.Module = nn.BatchNorm1d(outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(self.linear(features))  # type: ignore[no-any-return]

    def fold_batch_norm(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        _fold_into(self.linear, self.norm, fuse_linear_bn_weights)
        self.norm = nn.Identity()


def _fold_into(layer: Any, norm: Any, fuse: Callable[..., tuple[nn.Parameter, ...]]) -> None:
    """Fold a batch norm into the weights of the preceding layer, using `fuse`."""
    statistics = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    layer.weight, layer.bias = fuse(layer.weight, layer.bias, *statistics)


def fold_batch_norms(network: _Network) -> _Network:
    """Return the network with folded batch norms and no gradients; it can no longer be trained."""
    network.eval().requires_grad_(False)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, NormedConv | NormedLinear):
                module.fold_batch_norm()
    return network


def folded_copy(network: _Network) -> _Network:
    """Return a copy of a network for inference; see `fold_batch_norms`."""
    return fold_batch_norms(copy.deepcopy(network))


_MIN_UNPADDED_SIDE = 5


class ConvTrunk(nn.Module):
    """Four convolutions and two fully connected layers, [N, planes, rows, columns] to [N, hidden].

    The last two convolutions are unpadded, which removes two cells at each edge of the board. On
    boards with a side shorter than 5, they are padded, since otherwise no cell would remain.
    """

    def __init__(
        self,
        planes: int,
        rows: int,
        columns: int,
        channels: int,
        hidden: tuple[int, int],
        dropout: float,
    ) -> None:
        super().__init__()
        unpadded = min(rows, columns) >= _MIN_UNPADDED_SIDE
        last = 0 if unpadded else 1
        cells = (rows - 4) * (columns - 4) if unpadded else rows * columns
        inputs = (planes, channels, channels, channels)
        paddings = (1, 1, last, last)
        self.convolutions = nn.ModuleList(
            NormedConv(count, channels, padding=padding)
            for count, padding in zip(inputs, paddings, strict=True)
        )
        sizes = (channels * cells, *hidden)
        self.hidden = nn.ModuleList(map(NormedLinear, sizes[:-1], sizes[1:]))
        self.dropout = nn.Dropout(dropout)

    def forward(self, planes: Tensor) -> Tensor:
        for convolution in self.convolutions:
            planes = rectify(convolution(planes))
        features = planes.flatten(1)
        for layer in self.hidden:
            features = self.dropout(rectify(layer(features)))
        return features


class ResidualBlock(nn.Module):
    """Two convolutions with a skip connection around them [He2016]."""

    def __init__(self, filters: int, squeeze_excite: int) -> None:
        super().__init__()
        self.first = NormedConv(filters, filters)
        self.second = NormedConv(filters, filters)
        self.gate = SqueezeExcite(filters, squeeze_excite) if squeeze_excite else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        change = self.gate(self.second(rectify(self.first(planes))))
        return rectify(change.add_(planes))


class SqueezeExcite(nn.Module):
    """Scaling of every filter by a gate in (0, 1) computed from the whole board [Hu2018].

    The fully connected layers have no bias [Clausen2021, Table 2]. The gate is applied before the
    skip connection is added [ClausenCode].
    """

    def __init__(self, filters: int, ratio: int) -> None:
        super().__init__()
        squeezed = max(1, filters // ratio)
        self.squeeze = nn.Linear(filters, squeezed, bias=False)
        self.excite = nn.Linear(squeezed, filters, bias=False)

    def forward(self, planes: Tensor) -> Tensor:
        squeezed = torch.relu(self.squeeze(planes.mean(dim=(2, 3))))
        return planes * torch.sigmoid(self.excite(squeezed))[:, :, None, None]
