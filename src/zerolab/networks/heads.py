"""Heads: what a network predicts about a position, each a module on top of the trunk."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zerolab.networks.layers import NormedConv


class PolicyHead(nn.Module):
    """Logits of all actions, float [N, actions], from features float [N, inputs]."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, actions)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits, of illegal actions too: the search masks them."""
        return self.output(features)  # type: ignore[no-any-return]


class ScalarValueHead(nn.Module):
    """The expected outcome for the mover, float32[N] in [-1, 1], from features [N, inputs]."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Return values; tanh is float32, since bfloat16 is coarse next to 1 and -1."""
        return torch.tanh(self.output(features).float()).squeeze(1)


class PlaneReader(nn.Module):
    """Turns the planes of a residual trunk into features: a 1x1 convolution, then a head.

    `head` takes [N, filters * cells], as the heads of [Silver2017, Methods] do.
    """

    def __init__(self, inputs: int, filters: int, head: nn.Module) -> None:
        super().__init__()
        self.reduce = NormedConv(inputs, filters, size=1)
        self.head = head

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the head to the reduced planes."""
        return self.head(torch.relu(self.reduce(planes)).flatten(1))  # type: ignore[no-any-return]


class Network(nn.Module):
    """A trunk and named heads; calling it gives each head's output by name.

    Planes are float [N, planes, rows, columns].
    """

    def __init__(self, trunk: nn.Module, heads: dict[str, nn.Module]) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict(heads)

    def forward(self, planes: Tensor) -> dict[str, Tensor]:
        """Return the outputs of all heads."""
        features = self.trunk(planes)
        return {name: head(features) for name, head in self.heads.items()}
