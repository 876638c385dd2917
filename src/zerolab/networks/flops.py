"""Floating-point operation counts of networks.

torch counts the matrix products and convolutions of the modules used for play and training. A
multiply-add counts as two operations, and padding cells count like other cells. Elementwise work is
not counted: activations, batch norm, skip connections, losses and optimiser steps. Networks are
traced on the meta device, so nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from zerolab.networks.head import SearchOutput
from zerolab.networks.network import Network
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules import encoding
from zerolab.rules.rules import Game

_BATCH = 2  # batch norm cannot train on a single position


@cache
def evaluation_flops(
    settings: NetworkSettings, game: Game, outputs: Sequence[SearchOutput] = ("priors", "values")
) -> int:
    """Return the number of operations needed to evaluate one position.

    As in inference, only the heads needed for `outputs` are computed. Raises UserError if no head
    has one of the outputs.
    """
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


def _meta_network(settings: NetworkSettings, game: Game) -> tuple[Network, torch.Tensor]:
    """Return a network and a batch of input planes on the meta device, without data."""
    with torch.device("meta"):
        planes = torch.empty((_BATCH, encoding.plane_count(game), *game[:2]))
        return settings.new_network(game), planes
