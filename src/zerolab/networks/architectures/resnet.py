"""Residual networks [He2016], with squeeze-and-excite gates [Hu2018] if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zerolab.networks.settings import NETWORKS, POLICY, VALUE, NetworkSettings
from zerolab.rules import encoding
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from zerolab.networks.heads import Network


class ResnetSettings(NetworkSettings):
    """A stem, residual blocks, and a 1x1 convolution before each head."""

    name: Literal["resnet"] = "resnet"

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. [Clausen2021]: 5, 10 and 20. [Hongcharoen2018]: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. [Clausen2021]: 128. [Hongcharoen2018]: 256."""

    squeeze_excite: int = Field(default=0, ge=0)
    """Ratio by which gates squeeze the filters; 0 builds none. [Clausen2021], extended: 16."""

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. [Clausen2021]: 32."""

    hidden: int = Field(default=64, ge=1, le=65536)
    """Units of the value head's hidden layer. [Silver2017]: 256."""

    def network(self, game: Game) -> Network:
        """See `NetworkSettings.network`."""
        from torch import nn

        from zerolab.networks import heads
        from zerolab.networks.layers import NormedConv
        from zerolab.networks.trunks import ResidualBlock

        stem = NormedConv(encoding.planes(game), self.filters)
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        features = self.head_filters * game[0] * game[1]
        value = nn.Sequential(
            nn.Linear(features, self.hidden), nn.ReLU(), heads.ScalarValueHead(self.hidden)
        )
        policy = heads.PolicyHead(features, rules.actions(game))
        readers: dict[str, nn.Module] = {
            POLICY: heads.PlaneReader(self.filters, self.head_filters, policy),
            VALUE: heads.PlaneReader(self.filters, self.head_filters, value),
        }
        return heads.Network(nn.Sequential(stem, nn.ReLU(), *blocks), readers)


NETWORKS.add("resnet", ResnetSettings)
