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
    """Copy arrays into a network; raise UserError if any name, shape or type differs.

    The network stays as it was unless all of them fit.
    """
    own = weights_to_arrays(network)
    unmatched = sorted(set(own) ^ set(arrays))
    if unmatched:
        raise UserError(f"these weights are of another network: {unmatched[0]} is on one side only")
    for name, array in own.items():
        found, expected = _kind(arrays[name]), _kind(array)
        if found != expected:
            raise UserError(
                f"these weights are of another network: {name} is {found}, expected {expected}"
            )
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in own})


def _kind(array: NDArray[Any]) -> str:
    """Return an array's type and shape as users see them."""
    return f"{array.dtype}{list(array.shape)}"
