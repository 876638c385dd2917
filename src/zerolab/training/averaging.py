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


class WeightAverage:
    """The average of a network over the steps of its training [Polyak1992], [Wu2019].

    After step t, mean <- mean + (weights - mean) * max(1 - decay, 1 / t). That is the plain mean of
    the first 1 / (1 - decay) steps and an exponential moving average from there, so that untrained
    weights have no share in it. Parameters and the statistics of batch norms are averaged; whole
    numbers are copied. The memory reaches back over about 1 / (1 - decay) steps.
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
        weight = max(1 - self._decay, 1 / self._steps)
        for name, latest in self._network.state_dict().items():
            if latest.is_floating_point():
                self._mean[name].lerp_(latest, weight)
            else:
                self._mean[name].copy_(latest)

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
