"""Architectures: convolutional, residual, and fully convolutional for any board size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.networks.growth import widened_residual
from zerolab.networks.network_settings import NETWORKS, NetworkSettings
from zerolab.rules import encoding, rules
from zerolab.rules.encoding import action_layout
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from torch import nn

    from zerolab.networks.head import Head
    from zerolab.networks.network import Network


class ResidualSettings(NetworkSettings):
    """A stem and residual blocks, optionally with squeeze-and-excite gates [Hu2018]."""

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. [Clausen2021]: 5, 10 and 20. [Hongcharoen2018]: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. [Clausen2021]: 128; growing network: 16 at first.
    [Hongcharoen2018]: 256."""

    stem_filters: int | None = Field(default=None, ge=1, le=4096)
    """Filters of the stem, which an adapter, a 1x1 convolution, converts to those of the blocks;
    unset for a stem as wide as the blocks, without an adapter. [Clausen2021], the small network of
    auxiliary features: 128, with blocks of 32."""

    squeeze_excite: int = Field(default=0, ge=0)
    """Ratio by which gates squeeze the filters; 0 builds none. [Clausen2021], extended: 16."""

    def grown(self, factor: int) -> Self:
        return validate(type(self), {**self.model_dump(), "filters": self.filters * factor})

    def widened(
        self,
        fresh: Mapping[str, NDArray[Any]],
        former: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        return widened_residual(fresh, former, random)

    def _trunk(self, game: Game) -> nn.Sequential:
        """Return a new trunk: planes [N, planes, rows, columns] to [N, filters, rows, columns]."""
        from torch import nn

        from zerolab.networks.layers import NormedConv, ResidualBlock

        stem = [NormedConv(encoding.planes(game), self.stem_filters or self.filters), nn.ReLU()]
        if self.stem_filters:
            stem += [NormedConv(self.stem_filters, self.filters, size=1), nn.ReLU()]
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        return nn.Sequential(*stem, *blocks)


class ConvSettings(NetworkSettings):
    """Four 3x3 convolutions, two of them unpadded, two fully connected layers.

    The network of [Wang2019], [Wang2020a] and [Wang2020b], from [AZG].
    """

    name: Literal["conv"] = "conv"

    channels: int = Field(default=512, ge=1, le=4096)
    """Filters of each convolution. [WangCode]: 256. [AZG]: 512."""

    hidden: tuple[PositiveInt, PositiveInt] = (1024, 512)
    """Units of the fully connected layers. [Wang2019], [Wang2020a], [Wang2020b]: 1024 and 512."""

    dropout: float = Field(default=0.3, ge=0, lt=1)
    """d: share of hidden units dropped in training. [Wang2019], [Wang2020a], [Wang2020b]: 0.3
    ([Wang2020a] sweeps 0.2 to 0.4)."""

    def network(self, game: Game) -> Network:
        from zerolab.networks.layers import ConvTrunk
        from zerolab.networks.network import LastLayer, Network

        actions = rules.actions(game)
        heads = [(head, LastLayer(head, self.hidden[1], actions)) for head in self.heads]
        planes, (rows, columns) = encoding.planes(game), game[:2]
        trunk = ConvTrunk(planes, rows, columns, self.channels, self.hidden, self.dropout)
        return Network(trunk, heads)


NETWORKS.add("conv", ConvSettings)


class FullyConvolutionalSettings(ResidualSettings):
    """A stem, residual blocks, and heads that read planes of any size [Soemers2023]."""

    name: Literal["fully_convolutional"] = "fully_convolutional"

    any_size: ClassVar[bool] = True

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions; as many as those of ``resnet`` by default."""

    head_kernel: Literal[1, 3] = 1
    """Cells on a side of the heads' convolutions."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Units of the hidden layer of heads with one output per position, such as value; 0 for
    none."""

    def network(self, game: Game) -> Network:
        """Return a new network for a game.

        Raises UserError for a game without a layout of its actions on the board.
        """
        from zerolab.networks.network import BoardReader, Network

        trunk = self._trunk(game)
        readers = [
            (
                head,
                BoardReader(
                    self.filters, self.head_filters, self.head_kernel, self._last_layers(head, game)
                ),
            )
            for head in self.heads
        ]
        return Network(trunk, readers)

    def _last_layers(self, head: Head, game: Game) -> nn.Module:
        """Return the layers after a head's convolution."""
        from torch import nn

        from zerolab.networks.network import POOLS, GlobalPool, LastLayer, PlacesLayer

        actions = rules.actions(game)
        if head.per_action:
            if head.output_size(actions) != actions:
                raise UserError(
                    f"network = {quoted(self.name)} has one output for every action, and the head"
                    f" {quoted(head.name)} needs others: expected another network"
                )
            return PlacesLayer(head, self.head_filters, action_layout(game))
        pooled = POOLS * self.head_filters
        if not self.hidden:
            return nn.Sequential(GlobalPool(), LastLayer(head, pooled, actions))
        hidden = nn.Linear(pooled, self.hidden), nn.ReLU()
        return nn.Sequential(GlobalPool(), *hidden, LastLayer(head, self.hidden, actions))


NETWORKS.add("fully_convolutional", FullyConvolutionalSettings)


class ResnetSettings(ResidualSettings):
    """A stem, residual blocks [He2016], and a convolution before each head [Silver2017]."""

    name: Literal["resnet"] = "resnet"

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. [Clausen2021]: 32."""

    head_kernel: Literal[1, 3] = 1
    """Cells on a side of the heads' convolutions. [Silver2017]: 1; [Clausen2021]: 3."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Units of the hidden layer of heads with one output per position, such as value; 0 for none.
    [Silver2017]: 256; [Clausen2021]: 0."""

    def network(self, game: Game) -> Network:
        from zerolab.networks.network import Network, PlaneReader

        # The order of construction decides the random weights: it is part of every run.
        trunk = self._trunk(game)
        last = [self._last_layers(head, game) for head in reversed(self.heads)]
        readers = [
            (head, PlaneReader(self.filters, self.head_filters, self.head_kernel, layers))
            for head, layers in zip(self.heads, reversed(last), strict=True)
        ]
        return Network(trunk, readers)

    def _last_layers(self, head: Head, game: Game) -> nn.Module:
        """Return the layers after a head's convolution."""
        from torch import nn

        from zerolab.networks.network import LastLayer

        features, actions = self.head_filters * game[0] * game[1], rules.actions(game)
        if head.per_action or not self.hidden:
            return LastLayer(head, features, actions)
        return nn.Sequential(
            nn.Linear(features, self.hidden), nn.ReLU(), LastLayer(head, self.hidden, actions)
        )


NETWORKS.add("resnet", ResnetSettings)
