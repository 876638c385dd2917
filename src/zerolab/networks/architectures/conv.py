"""The papers' network: four convolutional and two fully connected layers (FACTS 1)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from zerolab.networks.heads import POLICY, VALUE, Network, PolicyHead, ScalarValueHead
from zerolab.networks.layers import NormedConv, NormedLinear
from zerolab.networks.settings import NETWORKS, NetworkSettings
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

_MIN_UNPADDED_SIDE = 5


class ConvSettings(NetworkSettings):
    """Four 3x3 convolutions, two of them unpadded, two hidden layers, policy and value."""

    name: Literal["conv"] = "conv"

    channels: int = Field(default=512, ge=1, le=4096)
    """Filters of each convolution. L: 256 in its code; the framework it grew from: 512."""

    hidden: tuple[PositiveInt, PositiveInt] = (1024, 512)
    """Units of the fully connected layers. W, H, L: 1024 and 512."""

    dropout: float = Field(default=0.3, ge=0, lt=1)
    """d: share of hidden units dropped in training. W, H, L: 0.3 (H sweeps 0.2 to 0.4)."""

    def network(self, game: Game) -> Network:
        """Return the network for a game."""
        heads = {
            POLICY: PolicyHead(self.hidden[1], rules.actions(game)),
            VALUE: ScalarValueHead(self.hidden[1]),
        }
        return Network(_ConvTrunk(self, game), heads)


class _ConvTrunk(nn.Module):
    """[N, planes, rows, columns] to [N, hidden].

    The last two convolutions take two cells off each side. On boards with a side under 5 they
    are padded instead, because nothing would be left.
    """

    def __init__(self, settings: ConvSettings, game: Game) -> None:
        super().__init__()
        rows, columns = game[:2]
        channels = settings.channels
        unpadded = min(rows, columns) >= _MIN_UNPADDED_SIDE
        last = 0 if unpadded else 1
        cells = (rows - 4) * (columns - 4) if unpadded else rows * columns
        inputs = (rules.planes(game), channels, channels, channels)
        paddings = (1, 1, last, last)
        self.convolutions = nn.ModuleList(
            NormedConv(planes, channels, padding=padding)
            for planes, padding in zip(inputs, paddings, strict=True)
        )
        sizes = (channels * cells, *settings.hidden)
        self.hidden = nn.ModuleList(map(NormedLinear, sizes[:-1], sizes[1:]))
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, planes: Tensor) -> Tensor:
        """Return the features that the heads read."""
        for convolution in self.convolutions:
            planes = torch.relu_(convolution(planes))
        features = planes.flatten(1)
        for layer in self.hidden:
            features = self.dropout(torch.relu_(layer(features)))
        return features


NETWORKS.add("conv", ConvSettings)
