"""Networks: a trunk, and heads on top of it that say what they predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from zerolab.core.errors import UserError
from zerolab.networks.heads.interface import Answer, Head, missing_answer
from zerolab.networks.layers import NormedConv


class LastLayer(nn.Module):
    """The last layer of a head: features [N, inputs] to what the head predicts, [N, ...]."""

    def __init__(self, head: Head, inputs: int, actions: int) -> None:
        super().__init__()
        self.output = nn.Linear(inputs, head.outputs(actions))
        self._activation: Callable[[Tensor], Tensor] = head.activation

    def forward(self, features: Tensor) -> Tensor:
        """Return the predictions."""
        return self._activation(self.output(features))


class PlaneReader(nn.Module):
    """Turns the planes of a residual trunk into features: a convolution, then a head.

    `head` takes [N, filters * cells]. The heads of [Silver2017, Methods] have 1x1 convolutions.
    """

    def __init__(self, inputs: int, filters: int, kernel: int, head: nn.Module) -> None:
        super().__init__()
        self.reduce = NormedConv(inputs, filters, size=kernel)
        self.head = head

    def forward(self, planes: Tensor) -> Tensor:
        """Apply the head to the reduced planes."""
        return self.head(self.features(planes))  # type: ignore[no-any-return]

    def features(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters * cells]: what the head reads."""
        return self.reduced(planes).flatten(1)

    def reduced(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolution, [N, filters, rows, columns]."""
        return torch.relu(self.reduce(planes))


class Network(nn.Module):
    """A trunk and heads; calling it gives what each head predicts, by the head's name.

    Planes are float [N, planes, rows, columns].
    """

    def __init__(self, trunk: nn.Module, heads: Sequence[tuple[Head, nn.Module]]) -> None:
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict({head.name: module for head, module in heads})
        self.kinds = {head.name: head for head, _ in heads}
        """The heads by name, in the order of the settings."""

    def forward(self, planes: Tensor, names: Iterable[str] | None = None) -> dict[str, Tensor]:
        """Return the predictions of all heads, or of those that are named."""
        features = self.trunk(planes)
        return {name: self.heads[name](features) for name in names or self.heads}

    def features(self, planes: Tensor) -> Tensor:
        """Return the activations of the convolutions before the heads, [N, features], in order.

        Raises UserError where the heads have no convolutions.
        """
        readers = [module for module in self.heads.values() if isinstance(module, PlaneReader)]
        if not readers:
            raise UserError(
                'its network has no convolutions before its heads: expected one such as "resnet"'
            )
        trunk = self.trunk(planes)
        return torch.cat([reader.features(trunk) for reader in readers], dim=1)

    def giver(self, answer: Answer) -> str:
        """Return the name of the head that a search reads an answer from: the first that has it.

        Raises UserError where there is none.
        """
        name = next((name for name, head in self.kinds.items() if answer in head.answers), None)
        if name is None:
            raise UserError(missing_answer(answer, self.kinds.values()))
        return name
