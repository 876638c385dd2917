"""What is registered for networks, and how one is built from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zerolab.core import streams
from zerolab.core.registry import import_modules, load_plugins
from zerolab.networks.growths.interface import GROWTHS
from zerolab.networks.heads.interface import HEADS
from zerolab.networks.losses import LOSSES
from zerolab.networks.settings import NETWORKS, NetworkSettings
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from zerolab.networks.network import Network

import_modules("zerolab.networks.architectures")
import_modules("zerolab.networks.growths")
load_plugins("networks")

__all__ = ["GROWTHS", "HEADS", "LOSSES", "NETWORKS", "NetworkSettings", "build_network"]


def build_network(settings: NetworkSettings, game: Game, seed: int, iteration: int = 0) -> Network:
    """Return a network with weights drawn from a seed; torch's own generators are left alone.

    `iteration` is the one that the network is new in: a run's networks are drawn independently.
    """
    import torch

    key = int(streams.stream(seed, iteration, 0, 0, streams.INITIAL_WEIGHTS))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key >> 1)  # torch.manual_seed would reseed GPUs, too
        return settings.network(game)
