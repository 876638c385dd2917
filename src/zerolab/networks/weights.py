"""Weights as named arrays, for files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.core.errors import UserError, one_line
from zerolab.networks.settings import NetworkSettings
from zerolab.rules.interface import Game


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
    _require_kinds({name: _kind(tensor) for name, tensor in network.state_dict().items()}, arrays)
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in arrays})


def require_weights(
    settings: NetworkSettings, game: Game, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Raise UserError unless arrays are the weights of a network with some settings.

    The network is built without memory for its weights, however many the settings ask for.
    """
    try:
        with torch.device("meta"):
            tensors = settings.network(game).state_dict()
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"no network has these settings: {one_line(error)}") from None
    _require_kinds({name: _kind(tensor) for name, tensor in tensors.items()}, arrays)


def _require_kinds(own: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise UserError, naming the first one, for arrays of other names or kinds than a network's.

    `own` are the kinds of the network's arrays, by name.
    """
    unmatched = sorted(set(own) ^ set(arrays))
    if unmatched:
        raise UserError(f"these weights are of another network: {unmatched[0]} is on one side only")
    for name, expected in own.items():
        found = _kind(arrays[name])
        if found != expected:
            raise UserError(
                f"these weights are of another network: {name} is {found}, expected {expected}"
            )


def _kind(array: NDArray[Any] | torch.Tensor) -> str:
    """Return the type and shape of an array or tensor as users see them."""
    return f"{str(array.dtype).removeprefix('torch.')}{list(array.shape)}"
