"""Trunks: what turns a board's planes into the features that heads read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerolab.networks.layers import NormedConv, NormedLinear

_MIN_UNPADDED_SIDE = 5


class ConvTrunk(nn.Module):
    """Four convolutions and two fully connected layers: [N, planes, rows, columns] to [N, hidden].

    The last two convolutions take two cells off each side. On boards with a side under 5 they
    are padded instead, because nothing would be left.
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
        """Return the features that the heads read."""
        for convolution in self.convolutions:
            planes = torch.relu_(convolution(planes))
        features = planes.flatten(1)
        for layer in self.hidden:
            features = self.dropout(torch.relu_(layer(features)))
        return features


class ResidualBlock(nn.Module):
    """Two convolutions and a skip connection around them [He2016]."""

    def __init__(self, filters: int, squeeze_excite: int) -> None:
        super().__init__()
        self.first = NormedConv(filters, filters)
        self.second = NormedConv(filters, filters)
        self.gate = SqueezeExcite(filters, squeeze_excite) if squeeze_excite else nn.Identity()

    def forward(self, planes: Tensor) -> Tensor:
        """Return planes of the same shape."""
        change = self.gate(self.second(torch.relu_(self.first(planes))))
        return torch.relu_(change + planes)


class SqueezeExcite(nn.Module):
    """Scales every filter by a gate in (0, 1) computed from the whole board [Hu2018].

    The gate multiplies, before the skip connection is added [ClausenCode].
    """

    def __init__(self, filters: int, ratio: int) -> None:
        super().__init__()
        squeezed = max(1, filters // ratio)
        self.squeeze = nn.Linear(filters, squeezed)
        self.excite = nn.Linear(squeezed, filters)

    def forward(self, planes: Tensor) -> Tensor:
        """Return planes of the same shape."""
        squeezed = torch.relu(self.squeeze(planes.mean(dim=(2, 3))))
        return planes * torch.sigmoid(self.excite(squeezed))[:, :, None, None]
