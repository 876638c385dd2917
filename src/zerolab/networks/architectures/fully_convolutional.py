"""Residual networks whose heads know no size of board, so that one network plays on any."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from zerolab.core.errors import UserError, quoted
from zerolab.networks.residual import ResidualSettings
from zerolab.networks.settings import NETWORKS
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.rules.layouts import action_layout

if TYPE_CHECKING:
    from torch import nn

    from zerolab.networks.heads.interface import Head
    from zerolab.networks.network import Network


class FullyConvolutionalSettings(ResidualSettings):
    """A stem, residual blocks, and heads that read planes of any size [Soemers2023]."""

    name: Literal["fully_convolutional"] = "fully_convolutional"

    any_size: ClassVar[bool] = True

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions; as many as those of ``resnet`` by default."""

    head_kernel: Literal[1, 3] = 1
    """Cells on a side of the heads' convolutions."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Units of the hidden layer of heads that say one thing about a position, such as value; 0 for
    none."""

    def network(self, game: Game) -> Network:
        """See `NetworkSettings.network`.

        Raises UserError for a game that does not say where on the board its actions take place.
        """
        from zerolab.networks.network import Network
        from zerolab.networks.pooling import BoardReader

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
        """Return what follows a head's convolution."""
        from torch import nn

        from zerolab.networks.network import LastLayer
        from zerolab.networks.pooling import POOLS, GlobalPool, PlacesLayer

        actions = rules.actions(game)
        if head.per_action:
            if head.outputs(actions) != actions:
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
