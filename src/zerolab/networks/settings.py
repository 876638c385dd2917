"""What every architecture's settings have in common."""

from __future__ import annotations

from zerolab.core.config import Choice
from zerolab.core.registry import Registry
from zerolab.networks.heads import Network
from zerolab.rules.interface import Game


class NetworkSettings(Choice):
    """The settings of one architecture; `name` says which."""

    def network(self, game: Game) -> Network:
        """Return a new network for a game, its weights drawn from torch's generator."""
        raise NotImplementedError


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")
