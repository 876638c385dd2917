"""Residual networks [He2016], with squeeze-and-excite gates [Hu2018] if wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import validate
from zerolab.networks.settings import NETWORKS, NetworkSettings
from zerolab.networks.widening import widened_resnet
from zerolab.rules import encoding
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from torch import nn

    from zerolab.networks.heads.interface import Head
    from zerolab.networks.network import Network


class ResnetSettings(NetworkSettings):
    """A stem, residual blocks, and a convolution before each head."""

    name: Literal["resnet"] = "resnet"

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. [Clausen2021]: 5, 10 and 20. [Hongcharoen2018]: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. [Clausen2021]: 128; growing network: 16 at first.
    [Hongcharoen2018]: 256."""

    stem_filters: int | None = Field(default=None, ge=1, le=4096)
    """Filters of the stem, which an adapter, a 1x1 convolution, brings to those of the blocks;
    unset for a stem as wide as the blocks, without an adapter. [Clausen2021], the small network of
    auxiliary features: 128, with blocks of 32."""

    squeeze_excite: int = Field(default=0, ge=0)
    """Ratio by which gates squeeze the filters; 0 builds none. [Clausen2021], extended: 16."""

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. [Clausen2021]: 32."""

    head_kernel: Literal[1, 3] = 1
    """Cells on a side of the heads' convolutions. [Silver2017]: 1; [Clausen2021]: 3."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Units of the hidden layer of heads that say one thing about a position, such as value; 0 for
    none. [Silver2017]: 256; [Clausen2021]: 0."""

    def network(self, game: Game) -> Network:
        """See `NetworkSettings.network`."""
        from torch import nn

        from zerolab.networks.layers import NormedConv
        from zerolab.networks.network import Network, PlaneReader
        from zerolab.networks.trunks import ResidualBlock

        stem = [NormedConv(encoding.planes(game), self.stem_filters or self.filters), nn.ReLU()]
        if self.stem_filters:
            stem += [NormedConv(self.stem_filters, self.filters, size=1), nn.ReLU()]
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        # What is made first gets the first random weights: the order is part of every run.
        last = [self._last_layers(head, game) for head in reversed(self.heads)]
        readers = [
            (head, PlaneReader(self.filters, self.head_filters, self.head_kernel, layers))
            for head, layers in zip(self.heads, reversed(last), strict=True)
        ]
        return Network(nn.Sequential(*stem, *blocks), readers)

    def grown(self, factor: int) -> ResnetSettings:
        """See `NetworkSettings.grown`."""
        return validate(type(self), {**self.model_dump(), "filters": self.filters * factor})

    def widened(
        self,
        fresh: Mapping[str, NDArray[Any]],
        former: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """See `NetworkSettings.widened`."""
        return widened_resnet(fresh, former, random)

    def _last_layers(self, head: Head, game: Game) -> nn.Module:
        """Return what follows a head's convolution."""
        from torch import nn

        from zerolab.networks.network import LastLayer

        features, actions = self.head_filters * game[0] * game[1], rules.actions(game)
        if head.per_action or not self.hidden:
            return LastLayer(head, features, actions)
        return nn.Sequential(
            nn.Linear(features, self.hidden), nn.ReLU(), LastLayer(head, self.hidden, actions)
        )


NETWORKS.add("resnet", ResnetSettings)
