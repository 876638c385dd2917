"""Layers with batch norm [Ioffe2015] that can be folded into their weights for inference."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

_Network = TypeVar("_Network", bound=nn.Module)


class NormedConv(nn.Module):
    """A square convolution and batch norm: [N, in, R, C] to [N, out, R', C']."""

    def __init__(
        self, inputs: int, outputs: int, size: int = 3, padding: int | None = None
    ) -> None:
        super().__init__()
        same = size // 2 if padding is None else padding
        self.conv = nn.Conv2d(inputs, outputs, size, padding=same, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs)

    def forward(self, planes: Tensor) -> Tensor:
        """Convolve and normalise."""
        return self.norm(self.conv(planes))  # type: ignore[no-any-return]

    def fold(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        assert isinstance(self.norm, nn.BatchNorm2d)
        self.conv = fuse_conv_bn_eval(self.conv, self.norm)
        self.norm = nn.Identity()


class NormedLinear(nn.Module):
    """A linear layer and batch norm: [N, in] to [N, out]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.norm: nn.Module = nn.BatchNorm1d(outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Map and normalise."""
        return self.norm(self.linear(features))  # type: ignore[no-any-return]

    def fold(self) -> None:
        """Move the normalisation into the weights; for evaluation only."""
        assert isinstance(self.norm, nn.BatchNorm1d)
        self.linear = fuse_linear_bn_eval(self.linear, self.norm)
        self.norm = nn.Identity()


def folded_copy(network: _Network) -> _Network:
    """Return a copy for inference: evaluation mode, batch norms folded, no gradients."""
    folded = copy.deepcopy(network).eval().requires_grad_(False)
    with torch.no_grad():
        for module in folded.modules():
            if isinstance(module, NormedConv | NormedLinear):
                module.fold()
    return folded
