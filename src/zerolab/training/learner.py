"""One learning stage: Adam over batches from the window of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.networks.inference import best_precision
from zerolab.networks.losses import Errors, cross_entropy, squared_error
from zerolab.networks.settings import POLICY, VALUE
from zerolab.networks.weights import load_weights, weights_to_arrays
from zerolab.replay.window import Batch, Window
from zerolab.training.settings import LearnSettings

Arrays = dict[str, NDArray[Any]]


class Learned(NamedTuple):
    """What a learning stage did."""

    losses: dict[str, float]
    """Means over the last epoch of what the loss logs (see `networks.losses.Loss.logged`)."""
    samples: int
    """Examples seen, repetitions included."""


class Learner:
    """A network and Adam [Kingma2015], whose state is kept and saved along with the weights.

    Weights and losses are float32. Where the device multiplies bfloat16 natively the layers
    between compute in it (autocast), about twice as fast.
    """

    def __init__(self, network: nn.Module, settings: LearnSettings, device: torch.device) -> None:
        self.network = network.to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.settings = settings
        self.device = device
        self.precision = best_precision(device)
        self._autocast = self.precision == torch.bfloat16
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=settings.learning_rate, foreach=True
        )

    def learn(
        self,
        window: Window,
        seed: int,
        iteration: int,
        report: Callable[[int], None] = lambda _: None,
    ) -> Learned:
        """Train for the configured epochs; the result depends on (seed, iteration) and the data.

        `report` is called with the number of batches done. Raises UserError where a loss is not
        finite any more.
        """
        settings = self.settings
        torch.manual_seed(int(streams.stream(seed, iteration, 0, 1, streams.LEARNING)) >> 1)
        random = streams.generator(seed, iteration, streams.LEARNING)
        last_epoch = window.batches_per_epoch(settings.batch_size, settings.symmetries)
        first_of_last = last_epoch * (settings.epochs - 1)
        totals: dict[str, torch.Tensor] = {}
        samples = 0
        self.network.train()
        batches = window.batches(random, settings.batch_size, settings.epochs, settings.symmetries)
        for number, batch in enumerate(batches):
            errors = self._step(batch)
            if number >= first_of_last:
                for name, value in settings.loss.logged(errors).items():
                    totals[name] = totals[name] + value if name in totals else value
            samples += len(batch.values)
            report(number + 1)
        means = {name: float(total / last_epoch) for name, total in totals.items()}
        if not np.isfinite(list(means.values())).all():
            raise UserError(
                f"learning diverged in iteration {iteration}: a loss is not finite; start another"
                f" run with a learn.learning_rate under {settings.learning_rate}"
            )
        return Learned(means, samples)

    def _step(self, batch: Batch) -> Errors:
        """Take one step; return the errors that it was computed from."""
        planes, policies, values = (self._tensor(array) for array in batch)
        with torch.autocast(self.device.type, self.precision, enabled=self._autocast):
            outputs = self.network(planes.contiguous(memory_format=torch.channels_last))
        errors = {
            POLICY: cross_entropy(outputs[POLICY].float(), policies),
            VALUE: squared_error(outputs[VALUE].float(), values),
        }
        self.optimizer.zero_grad(set_to_none=True)
        self.settings.loss(errors).backward()
        self.optimizer.step()
        return {name: error.detach() for name, error in errors.items()}

    def _tensor(self, array: NDArray[np.float32]) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor

    def optimizer_arrays(self) -> Arrays:
        """Return Adam's state as arrays named PARAMETER/QUANTITY; empty before the first step."""
        arrays: Arrays = {}
        for name, parameter in self.network.named_parameters():
            for quantity, value in self.optimizer.state.get(parameter, {}).items():
                arrays[f"{name}/{quantity}"] = value.cpu().numpy()
        return arrays

    def load(self, weights: Arrays, optimizer: Arrays) -> None:
        """Restore weights and Adam's state; raise UserError where they do not fit."""
        load_weights(self.network, weights)
        self.optimizer.state.clear()
        for name, parameter in self.network.named_parameters():
            state = {
                key.rpartition("/")[2]: torch.from_numpy(value.copy())
                for key, value in optimizer.items()
                if key.rpartition("/")[0] == name
            }
            for quantity, value in state.items():
                moment = value.to(parameter.device) if value.ndim else value
                self.optimizer.state[parameter][quantity] = _like(moment, parameter)

    def weight_arrays(self) -> Arrays:
        """Return the network's weights as arrays."""
        return weights_to_arrays(self.network)


def _like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Return a value in the memory layout of its parameter, so that sums round equally."""
    return value if value.ndim == 0 else torch.empty_like(parameter).copy_(value)
