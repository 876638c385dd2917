"""Layers with foldable batch norm [Ioffe2015] and the trunks built from them."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

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

    def fold(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        assert isinstance(self.norm, nn.BatchNorm2d)
        self.conv = fuse_conv_bn_eval(self.conv, self.norm)
        self.norm = nn.Identity()


class NormedLinear(nn.Module):
    """A linear layer with batch norm, from [N, in] to [N, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm: nn.Module = nn.BatchNorm1d(outputs)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(self.linear(features))  # type: ignore[no-any-return]

    def fold(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        assert isinstance(self.norm, nn.BatchNorm1d)
        self.linear = fuse_linear_bn_eval(self.linear, self.norm)
        self.norm = nn.Identity()


def folded_copy(network: _Network) -> _Network:
    """Return a copy for inference, in evaluation mode, with folded batch norms and no gradients."""
    folded = copy.deepcopy(network).eval().requires_grad_(False)
    with torch.no_grad():
        for module in folded.modules():
            if isinstance(module, NormedConv | NormedLinear):
                module.fold()
    return folded


_MIN_UNPADDED_SIDE = 5


class ConvTrunk(nn.Module):
    """Four convolutions and two fully connected layers, [N, planes, rows, columns] to [N, hidden].

    The last two convolutions are unpadded, which removes two cells at each edge of the board. On
    boards with a side under 5 they are padded, since no cell would remain.
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
            planes = torch.relu_(convolution(planes))
        features = planes.flatten(1)
        for layer in self.hidden:
            features = self.dropout(torch.relu_(layer(features)))
        return features


class ResidualBlock(nn.Module):
    """Two convolutions with a skip connection around them [He2016]."""

    def __init__(self, filters: int, squeeze_excite: int) -> None:
        super().__init__()
        self.first = NormedConv(filters, filters)
        self.second = NormedConv(filters, filters)
        self.gate = SqueezeExcite(filters, squeeze_excite) if squeeze_excite else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        change = self.gate(self.second(torch.relu_(self.first(planes))))
        return torch.relu_(change + planes)


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
