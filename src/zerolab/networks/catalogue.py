"""Network architectures, extra input planes, construction of networks, and operation counts.

Architectures are convolutional, residual and, for any board size, fully convolutional.

torch counts the matrix products and convolutions of the modules used for play and training. A
multiply-add counts as two operations, and padding cells count like other cells. Elementwise work is
not counted: activations, batch norm, skip connections, losses and optimiser steps. Networks are
traced on the meta device, so nothing is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from zerolab.core import streams
from zerolab.core.config import validate
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.registry import load_plugins
from zerolab.networks.network_settings import (
    GROWTHS,
    INPUT_PLANES,
    NETWORKS,
    InputPlane,
    NetworkSettings,
    enlarge_residual_weights,
)
from zerolab.networks.objectives import HEADS, LOSSES, EvaluatorOutputName
from zerolab.rules import encoding, rules
from zerolab.rules.encoding import action_layout
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from torch import Tensor, nn

    from zerolab.networks.network import Network
    from zerolab.networks.objectives import Head


__all__ = [
    "GROWTHS",
    "HEADS",
    "INPUT_PLANES",
    "LOSSES",
    "NETWORKS",
    "NetworkSettings",
    "build_network",
    "require_matching_weights",
]


class ResidualSettings(NetworkSettings):
    """A stem and residual blocks, optionally with squeeze-and-excite gates [Hu2018]."""

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. [Clausen2021]: 5, 10 and 20. [Hongcharoen2018]: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. [Clausen2021]: 128; growing network: 16 at first.
    [Hongcharoen2018]: 256."""

    stem_filters: int | None = Field(default=None, ge=1, le=4096)
    """Filters of the stem. An adapter, a 1x1 convolution without batch norm or ReLU, converts them
    to the block width. If unset, the stem has the same width as the blocks and there is no adapter.
    [Clausen2021]: 64, with blocks of 128. [ClausenCode], the small network for auxiliary features:
    128, with blocks of 32."""

    squeeze_excite: int = Field(default=0, ge=0)
    """Squeeze ratio of the gates; 0 disables them. [Clausen2021], extended: 16."""

    def grown_settings(self, factor: int, blocks: int = 0) -> Self:
        sizes = {"filters": self.filters * factor, "blocks": self.blocks + blocks}
        return validate(type(self), {**self.model_dump(), **sizes})

    def enlarged_weights(
        self,
        new_weights: Mapping[str, NDArray[Any]],
        old_weights: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        return enlarge_residual_weights(new_weights, old_weights, random)

    def _trunk(self, game: Game) -> nn.Sequential:
        """Return a new trunk from [N, planes, rows, columns] to [N, filters, rows, columns]."""
        from torch import nn

        from zerolab.networks.network import NormedConv, ResidualBlock

        stem: list[nn.Module] = [
            NormedConv(self.input_count(game), self.stem_filters or self.filters),
            nn.ReLU(),
        ]
        if self.stem_filters:
            stem.append(nn.Conv2d(self.stem_filters, self.filters, kernel_size=1))
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        return nn.Sequential(*stem, *blocks)


class ConvSettings(NetworkSettings):
    """Four 3x3 convolutions, two of them unpadded, followed by two fully connected layers.

    This is the network of [Wang2019], [Wang2020a] and [Wang2020b], taken from [AZG].
    """

    name: Literal["conv"] = "conv"

    channels: int = Field(default=512, ge=1, le=4096)
    """Filters of each convolution. [WangCode]: 256. [AZG]: 512."""

    hidden: tuple[PositiveInt, PositiveInt] = (1024, 512)
    """Units of the fully connected layers. [Wang2019], [Wang2020a], [Wang2020b]: 1024 and 512."""

    dropout: float = Field(default=0.3, ge=0, lt=1)
    """d: fraction of hidden units dropped during training. [Wang2019], [Wang2020a], [Wang2020b]:
    0.3 ([Wang2020a] sweeps 0.2 to 0.4)."""

    def new_network(self, game: Game) -> Network:
        from zerolab.networks.network import ConvTrunk, Network, OutputLayer

        actions = rules.action_count(game)
        heads = [(head, OutputLayer(head, self.hidden[1], actions)) for head in self.heads]
        planes, (rows, columns) = self.input_count(game), game[:2]
        trunk = ConvTrunk(planes, rows, columns, self.channels, self.hidden, self.dropout)
        return Network(trunk, heads, self.planes)


NETWORKS.add("conv", ConvSettings)


class FullyConvolutionalSettings(ResidualSettings):
    """A stem, residual blocks, and heads that read planes of any size [Soemers2023]."""

    name: Literal["fully_convolutional"] = "fully_convolutional"

    fits_any_board: ClassVar[bool] = True

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. The default is that of ``resnet``."""

    head_kernel: Literal[1, 3] = 1
    """Kernel size of the heads' convolutions."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Hidden units in heads with one output per position, such as value; 0 for no hidden layer."""

    def new_network(self, game: Game) -> Network:
        """Return a new network for a game.

        Raises UserError for a game whose actions have no layout on the board, and for a head with
        more than one output per action.
        """
        from zerolab.networks.network import FullyConvolutionalHead, Network

        trunk = self._trunk(game)
        heads = [
            (
                head,
                FullyConvolutionalHead(
                    self.filters,
                    self.head_filters,
                    self.head_kernel,
                    self._output_layers(head, game),
                ),
            )
            for head in self.heads
        ]
        return Network(trunk, heads, self.planes)

    def _output_layers(self, head: Head, game: Game) -> nn.Module:
        """Return the layers after a head's convolution."""
        from torch import nn

        from zerolab.networks.network import (
            POOL_OUTPUTS_PER_FILTER,
            BoardOutputLayer,
            GlobalPool,
            OutputLayer,
        )

        actions = rules.action_count(game)
        if head.is_per_action:
            if head.output_size(actions) != actions:
                raise UserError(
                    f"network = {quoted(self.name)} has one output per action, but the"
                    f" {quoted(head.name)} head needs more: expected a different network"
                )
            return BoardOutputLayer(head, self.head_filters, action_layout(game))
        pooled = POOL_OUTPUTS_PER_FILTER * self.head_filters
        if not self.hidden:
            return nn.Sequential(GlobalPool(), OutputLayer(head, pooled, actions))
        hidden = nn.Linear(pooled, self.hidden), nn.ReLU()
        return nn.Sequential(GlobalPool(), *hidden, OutputLayer(head, self.hidden, actions))


NETWORKS.add("fully_convolutional", FullyConvolutionalSettings)


class ResnetSettings(ResidualSettings):
    """A stem, residual blocks [He2016], and a convolution before each head [Silver2017]."""

    name: Literal["resnet"] = "resnet"

    head_filters: int = Field(default=8, ge=1, le=4096)
    """Filters of the heads' convolutions. [Clausen2021]: 32."""

    head_kernel: Literal[1, 3] = 1
    """Kernel size of the heads' convolutions. [Silver2017]: 1; [Clausen2021]: 3."""

    hidden: int = Field(default=64, ge=0, le=65536)
    """Hidden units in heads with one output per position, such as value; 0 for no hidden layer.
    [Silver2017]: 256; [Clausen2021]: 0."""

    def new_network(self, game: Game) -> Network:
        from zerolab.networks.network import ConvHead, Network

        # Layers draw their weights when built; a different order would change existing runs.
        trunk = self._trunk(game)
        output_layers = [self._output_layers(head, game) for head in reversed(self.heads)]
        heads = [
            (head, ConvHead(self.filters, self.head_filters, self.head_kernel, layers))
            for head, layers in zip(self.heads, reversed(output_layers), strict=True)
        ]
        return Network(trunk, heads, self.planes)

    def _output_layers(self, head: Head, game: Game) -> nn.Module:
        """Return the layers after a head's convolution."""
        from torch import nn

        from zerolab.networks.network import OutputLayer

        features, actions = self.head_filters * game[0] * game[1], rules.action_count(game)
        if head.is_per_action or not self.hidden:
            return OutputLayer(head, features, actions)
        return nn.Sequential(
            nn.Linear(features, self.hidden), nn.ReLU(), OutputLayer(head, self.hidden, actions)
        )


NETWORKS.add("resnet", ResnetSettings)


class OnesPlane(InputPlane):
    """1 on every cell, which shows zero-padded convolutions where the board ends."""

    name: Literal["ones"] = "ones"

    def compute(self, pieces: Tensor) -> Tensor:
        return pieces.new_ones(pieces.shape)


class LandingPlane(InputPlane):
    """1 on empty cells in the bottom row or above a piece; in Connect Four, the legal moves."""

    name: Literal["landing"] = "landing"

    def compute(self, pieces: Tensor) -> Tensor:
        from torch.nn.functional import pad

        occupied = pieces.abs()
        below = pad(occupied[:, :, 1:], (0, 0, 0, 1), value=1.0)
        return below * (1 - occupied)


class RowParityPlane(InputPlane):
    """1 in odd rows and -1 in even rows, counted from 1 at the bottom of the board.

    Zugzwang, which decides many games of Connect Four, depends on the parity of the rows that
    contain threats [Allis1988].
    """

    name: Literal["row_parity"] = "row_parity"

    def compute(self, pieces: Tensor) -> Tensor:
        rows_above = pieces.new_ones(pieces.shape).cumsum(dim=2)
        rows_from_below = pieces.shape[2] + 1 - rows_above
        return 2 * (rows_from_below % 2) - 1


for _plane in (OnesPlane, LandingPlane, RowParityPlane):
    INPUT_PLANES.add(_plane.model_fields["name"].default, _plane)


def build_network(settings: NetworkSettings, game: Game, seed: int, iteration: int = 0) -> Network:
    """Return a network with random weights; torch's global generators are unaffected.

    `iteration` is the iteration that introduces the network. It selects an independent random
    stream of `seed`, so that no two networks of a run start with the same weights. Raises UserError
    if the architecture cannot add the planes in its settings.
    """
    import torch

    key = int(streams.stream_key(seed, iteration, 0, 0, streams.INITIAL_WEIGHTS))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key >> 1)  # torch.manual_seed also reseeds GPUs
        network = settings.new_network(game)
    if network.extra_planes != settings.planes:
        raise UserError(f"network = {quoted(settings.name)} cannot add planes: expected no planes")
    return network


def require_matching_weights(
    settings: NetworkSettings, game: Game, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise UserError unless `arrays` fit a network with these settings.

    The network is built on the meta device, without allocating its weights.
    """
    import torch

    from zerolab.networks.network import require_matching_arrays

    try:
        with torch.device("meta"):
            tensors = settings.new_network(game).state_dict()
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"no network can be built from these settings: {one_line(error)}") from None
    require_matching_arrays(tensors, arrays)


_BATCH = 2  # batch norm cannot train on a single position


@cache
def evaluation_flops(
    settings: NetworkSettings,
    game: Game,
    outputs: Sequence[EvaluatorOutputName] = ("priors", "values"),
) -> int:
    """Return the number of operations needed to evaluate one position.

    As in inference, only the heads needed for `outputs` are computed. Raises UserError if an output
    has no head.
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


load_plugins("networks")
