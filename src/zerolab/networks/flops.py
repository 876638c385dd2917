"""Floating-point operations of a network, counted while it runs.

torch counts the matrix products and convolutions of the very modules that play and learn, a
multiplication and an addition as two operations; cells of padding count like others. Elementwise
work is not counted: activations, batch norm, skip connections, losses, the optimiser's steps. While
they are counted, networks have shapes but no numbers, so nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from zerolab.networks.head import HeadOutput
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network
from zerolab.networks.network_settings import NetworkSettings
from zerolab.rules import encoding
from zerolab.rules.rules import Game

_BATCH = 2  # batch norm refuses to learn from a single position


@cache
def evaluation_flops(
    settings: NetworkSettings, game: Game, outputs: Sequence[HeadOutput] = ("priors", "values")
) -> int:
    """Return the operations in which a network evaluates one position.

    As in inference: batch norm folded into the weights, and only the heads needed for some outputs.
    Raises UserError where no head has one of them.
    """
    network, planes = _shapes(settings, game)
    heads = dict.fromkeys(map(network.head_with, outputs))
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), counter:
        folded_copy(network)(planes, heads)
    return int(counter.get_total_flops()) // _BATCH


@cache
def sample_flops(settings: NetworkSettings, game: Game, *, is_trunk_frozen: bool = False) -> int:
    """Return the operations in which a network learns one example: forward, backward, all heads.

    Nothing is propagated back through a frozen trunk.
    """
    network, planes = _shapes(settings, game)
    network.trunk.requires_grad_(not is_trunk_frozen)
    counter = FlopCounterMode(display=False)
    with counter:
        outputs = network.train()(planes).values()
        total = torch.stack([each.sum() for each in outputs]).sum()
        torch.autograd.backward(total)
    return int(counter.get_total_flops()) // _BATCH


@cache
def count_parameters(settings: NetworkSettings, game: Game) -> int:
    """Return the number of weights and biases that a network learns."""
    network, _ = _shapes(settings, game)
    return sum(parameter.numel() for parameter in network.parameters())


def _shapes(settings: NetworkSettings, game: Game) -> tuple[Network, torch.Tensor]:
    """Return a network and a batch of planes without any numbers."""
    with torch.device("meta"):
        planes = torch.empty((_BATCH, encoding.planes(game), *game[:2]))
        return settings.network(game), planes
