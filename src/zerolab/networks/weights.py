"""Weights as named arrays, for files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.core.errors import UserError


def weights_to_arrays(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return copies of all parameters and buffers, by name."""
    return {
        name: np.array(tensor.detach().cpu().contiguous().numpy())
        for name, tensor in network.state_dict().items()
    }


def load_weights(network: nn.Module, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Copy arrays into a network; raise UserError if any name or shape differs."""
    own = network.state_dict()
    unmatched = sorted(set(own) ^ set(arrays))
    if unmatched:
        raise UserError(f"these weights are of another network: {unmatched[0]} is on one side only")
    for name, tensor in own.items():
        if tuple(tensor.shape) != arrays[name].shape:
            raise UserError(
                f"these weights are of another network: {name} has the shape"
                f" {arrays[name].shape}, expected {tuple(tensor.shape)}"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.array(arrays[name])))
