"""Registries of networks, and construction of a network from its settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.errors import UserError, one_line
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

__all__ = [
    "GROWTHS",
    "HEADS",
    "LOSSES",
    "NETWORKS",
    "NetworkSettings",
    "build_network",
    "require_matching_weights",
]


def build_network(settings: NetworkSettings, game: Game, seed: int, iteration: int = 0) -> Network:
    """Return a network with random weights; torch's global generators are unaffected.

    `iteration` is the iteration that introduces the network. It selects an independent random
    stream of `seed`, so that no two networks of a run start with the same weights.
    """
    import torch

    key = int(streams.stream_key(seed, iteration, 0, 0, streams.INITIAL_WEIGHTS))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key >> 1)  # torch.manual_seed also reseeds GPUs
        return settings.new_network(game)


def require_matching_weights(
    settings: NetworkSettings, game: Game, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise UserError unless `arrays` fit a network with these settings.

    The network is built on the meta device, without allocating its weights.
    """
    import torch

    from zerolab.networks.network import array_form, require_matching_arrays

    try:
        with torch.device("meta"):
            tensors = settings.new_network(game).state_dict()
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"no network can be built from these settings: {one_line(error)}") from None
    require_matching_arrays({name: array_form(tensor) for name, tensor in tensors.items()}, arrays)
