"""Residual networks, with squeeze-and-excite gates if wanted (FACTS 4, 5)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from zerolab.networks.heads import POLICY, VALUE, Network, PlaneReader, PolicyHead, ScalarValueHead
from zerolab.networks.layers import NormedConv
from zerolab.networks.settings import NETWORKS, NetworkSettings
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game


class ResnetSettings(NetworkSettings):
    """A stem, residual blocks, and a 1x1 convolution before each head."""

    name: Literal["resnet"] = "resnet"

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. C: 5, 10 and 20; T: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. C: 128; T: 256."""

    squeeze_excite: int = Field(default=0, ge=0)
    """By how much gates squeeze the filters; 0 builds none. C: 16 in its extended version."""

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. C: 32."""

    hidden: int = Field(default=64, ge=1, le=65536)
    """Units of the value head's hidden layer."""

    def network(self, game: Game) -> Network:
        """Return the network for a game."""
        stem = NormedConv(rules.planes(game), self.filters)
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        features = self.head_filters * game[0] * game[1]
        value = nn.Sequential(
            nn.Linear(features, self.hidden), nn.ReLU(), ScalarValueHead(self.hidden)
        )
        policy = PolicyHead(features, rules.actions(game))
        heads: dict[str, nn.Module] = {
            POLICY: PlaneReader(self.filters, self.head_filters, policy),
            VALUE: PlaneReader(self.filters, self.head_filters, value),
        }
        return Network(nn.Sequential(stem, nn.ReLU(), *blocks), heads)


class ResidualBlock(nn.Module):
    """Two convolutions around which the input is carried (He et al. 2016)."""

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
    """Scales every filter by a gate in (0, 1) read off the whole board (Hu et al. 2018).

    The gate multiplies, before the skip connection is added (FACTS 4).
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


NETWORKS.add("resnet", ResnetSettings)
