"""Registries of networks, construction of a network from its settings, and operation counts.

torch counts the matrix products and convolutions of the modules used for play and training. A
multiply-add counts as two operations, and padding cells count like other cells. Elementwise work is
not counted: activations, batch norm, skip connections, losses and optimiser steps. Networks are
traced on the meta device, so nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.errors import UserError, one_line
from zerolab.core.registry import load_plugins
from zerolab.networks.network_settings import GROWTHS, NETWORKS, NetworkSettings
from zerolab.networks.objectives import HEADS, LOSSES, SearchOutput
from zerolab.rules import encoding
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from torch import Tensor

    from zerolab.networks.network import Network

__all__ = [
    "GROWTHS",
    "HEADS",
    "LOSSES",
    "NETWORKS",
    "NetworkSettings",
    "build_network",
    "require_matching_weights",
]

import_module("zerolab.networks.architectures")
import_module("zerolab.networks.network_settings")
load_plugins("networks")


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


_BATCH = 2  # batch norm cannot train on a single position


@cache
def evaluation_flops(
    settings: NetworkSettings, game: Game, outputs: Sequence[SearchOutput] = ("priors", "values")
) -> int:
    """Return the number of operations needed to evaluate one position.

    As in inference, only the heads needed for `outputs` are computed. Raises UserError if no head
    has one of the outputs.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    network, planes = _meta_network(settings, game)
    heads = dict.fromkeys(map(network.head_name_for, outputs))
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        network.eval()(planes, heads)
    return int(counter.get_total_flops()) // _BATCH


@cache
def training_flops(settings: NetworkSettings, game: Game, *, is_trunk_frozen: bool = False) -> int:
    """Return the number of operations per training example, forward and backward, with all heads.

    There is no backward pass through a frozen trunk.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    network, planes = _meta_network(settings, game)
    network.trunk.requires_grad_(not is_trunk_frozen)
    counter = FlopCounterMode(display=False)
    with counter:
        outputs = network.train()(planes).values()
        total = torch.stack([output.sum() for output in outputs]).sum()
        torch.autograd.backward(total)
    return int(counter.get_total_flops()) // _BATCH


@cache
def count_parameters(settings: NetworkSettings, game: Game) -> int:
    """Return the number of trainable weights and biases of a network."""
    network, _ = _meta_network(settings, game)
    return sum(parameter.numel() for parameter in network.parameters())


def _meta_network(settings: NetworkSettings, game: Game) -> tuple[Network, Tensor]:
    """Return a network and a batch of input planes on the meta device, without data."""
    import torch

    with torch.device("meta"):
        planes = torch.empty((_BATCH, encoding.plane_count(game), *game[:2]))
        return settings.new_network(game), planes
