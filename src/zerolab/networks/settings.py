"""What every architecture's settings have in common.

Settings load no torch, so that a command's help and mistakes in a run's settings show at once:
only `network` imports what it builds with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerolab.core.config import Choice
from zerolab.core.registry import Registry
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from zerolab.networks.heads import Network

POLICY = "policy"
"""The name of the head that gives logits of all actions."""
VALUE = "value"
"""The name of the head that gives the expected outcome for the mover."""


class NetworkSettings(Choice):
    """The settings of one architecture; `name` says which."""

    def network(self, game: Game) -> Network:
        """Return a new network for a game, its weights drawn from torch's generator."""
        raise NotImplementedError


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")
