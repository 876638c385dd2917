"""The network of [Wang2019], [Wang2020a] and [Wang2020b], from [AZG]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from zerolab.networks.settings import NETWORKS, NetworkSettings
from zerolab.rules import encoding
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from zerolab.networks.network import Network


class ConvSettings(NetworkSettings):
    """Four 3x3 convolutions, two of them unpadded, two fully connected layers."""

    name: Literal["conv"] = "conv"

    channels: int = Field(default=512, ge=1, le=4096)
    """Filters of each convolution. [WangCode]: 256. [AZG]: 512."""

    hidden: tuple[PositiveInt, PositiveInt] = (1024, 512)
    """Units of the fully connected layers. [Wang2019], [Wang2020a], [Wang2020b]: 1024 and 512."""

    dropout: float = Field(default=0.3, ge=0, lt=1)
    """d: share of hidden units dropped in training. [Wang2019], [Wang2020a], [Wang2020b]: 0.3
    ([Wang2020a] sweeps 0.2 to 0.4)."""

    def network(self, game: Game) -> Network:
        """See `NetworkSettings.network`."""
        from zerolab.networks.network import LastLayer, Network
        from zerolab.networks.trunks import ConvTrunk

        actions = rules.actions(game)
        heads = [(head, LastLayer(head, self.hidden[1], actions)) for head in self.heads]
        planes, (rows, columns) = encoding.planes(game), game[:2]
        trunk = ConvTrunk(planes, rows, columns, self.channels, self.hidden, self.dropout)
        return Network(trunk, heads)


NETWORKS.add("conv", ConvSettings)
