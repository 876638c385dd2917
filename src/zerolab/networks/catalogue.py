"""What is registered for networks, and how one is built from its settings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from zerolab.core import streams
from zerolab.core.registry import load_plugins
from zerolab.networks.growth import GROWTHS
from zerolab.networks.head import HEADS
from zerolab.networks.losses import LOSSES
from zerolab.networks.network_settings import NETWORKS, NetworkSettings
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from zerolab.networks.network import Network

import_module("zerolab.networks.architectures")
import_module("zerolab.networks.growth")
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
