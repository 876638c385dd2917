"""Residual networks [He2016] whose heads are fully connected, as those of [Silver2017]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from zerolab.networks.residual import ResidualSettings
from zerolab.networks.settings import NETWORKS
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from torch import nn

    from zerolab.networks.heads.interface import Head
    from zerolab.networks.network import Network


class ResnetSettings(ResidualSettings):
    """A stem, residual blocks, and a convolution before each head."""

    name: Literal["resnet"] = "resnet"

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. [Clausen2021]: 32."""

    head_kernel: Literal[1, 3] = 1
    """Cells on a side of the heads' convolutions. [Silver2017]: 1; [Clausen2021]: 3."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Units of the hidden layer of heads that say one thing about a position, such as value; 0 for
    none. [Silver2017]: 256; [Clausen2021]: 0."""

    def network(self, game: Game) -> Network:
        """See `NetworkSettings.network`."""
        from zerolab.networks.network import Network, PlaneReader

        # What is made first gets the first random weights: the order is part of every run.
        trunk = self._trunk(game)
        last = [self._last_layers(head, game) for head in reversed(self.heads)]
        readers = [
            (head, PlaneReader(self.filters, self.head_filters, self.head_kernel, layers))
            for head, layers in zip(self.heads, reversed(last), strict=True)
        ]
        return Network(trunk, readers)

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
