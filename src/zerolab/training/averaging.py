"""An exponential moving average of a network's weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.networks.weights import load_weights, weights_to_arrays

Arrays = dict[str, NDArray[Any]]

_LATEST = "average/latest/"
_STEPS = "average/steps"
_ETA = 3


class WeightAverage:
    """The average of a network over the latest steps of its training [Polyak1992], [Wu2019].

    After step t, counted over the whole run, mean <- mean + share * (weights - mean) with
    share = max(1 - decay, 4 / (t + 3)). At first that is the polynomial-decay averaging of
    [Shamir2013] with eta = 3, which covers about the last quarter of the steps, and it becomes an
    exponential moving average over about 1 / (1 - decay) steps. Untrained weights thus have no part
    in it (docs/decisions/0018). Parameters and the statistics of batch norms are averaged; whole
    numbers are copied.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network = network
        self._decay = decay
        self._steps = 0
        self._mean = _copies(network)

    @torch.no_grad()
    def update(self) -> None:
        """Take the network's weights, after a step, into the average."""
        self._steps += 1
        share = max(1 - self._decay, (_ETA + 1) / (self._steps + _ETA))
        means, latest = [], []
        for name, tensor in self._network.state_dict().items():
            if tensor.is_floating_point():
                means.append(self._mean[name])
                latest.append(tensor)
            else:
                self._mean[name].copy_(tensor)
        torch._foreach_lerp_(means, latest, share)

    def arrays(self) -> Arrays:
        """Return the average, as `networks.weights.weights_to_arrays` returns weights."""
        return {
            name: np.array(tensor.cpu().contiguous().numpy()) for name, tensor in self._mean.items()
        }

    def state(self) -> Arrays:
        """Return what continues learning beside the average; nothing before the first step."""
        if not self._steps:
            return {}
        latest = {f"{_LATEST}{name}": x for name, x in weights_to_arrays(self._network).items()}
        return {**latest, _STEPS: np.array(self._steps)}

    def load(self, average: Arrays, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the average and, into the network, the weights that learning goes on with.

        `state` may have arrays of others. Raises UserError where they do not fit the network.
        """
        load_weights(self._network, average)
        self._mean = _copies(self._network)
        self._steps = int(state.get(_STEPS, 0))
        if self._steps:
            latest = {k.removeprefix(_LATEST): x for k, x in state.items() if k.startswith(_LATEST)}
            load_weights(self._network, latest)


def _copies(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
