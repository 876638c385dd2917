"""One learning stage: steps of an optimiser over batches from the window of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.networks.heads.interface import Column, TargetOptions
from zerolab.networks.inference import best_precision
from zerolab.networks.losses import HeadErrors
from zerolab.networks.network import Network
from zerolab.networks.weights import load_weights, weights_to_arrays
from zerolab.replay.window import Batch, Window
from zerolab.training.averaging import WeightAverage
from zerolab.training.learning_log import Learned, LearningLog
from zerolab.training.schedules import Moment
from zerolab.training.settings import LearnSettings

Arrays = dict[str, NDArray[Any]]


class DivergedError(UserError):
    """The settings make learning diverge: a loss is not finite any more."""


class Learner:
    """A network and its optimiser, whose state is kept and saved along with the weights.

    Where weights are averaged, the average is the network that others see and save; the weights of
    the latest step are saved with the state of the optimiser.

    Weights and losses are float32. Where the device multiplies bfloat16 natively the layers
    between compute in it (autocast), about twice as fast.
    """

    def __init__(
        self,
        network: Network,
        settings: LearnSettings,
        targets: TargetOptions,
        device: torch.device,
    ) -> None:
        self.network = network.to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.settings = settings
        self.targets = targets
        self.device = device
        self.precision = best_precision(device)
        self._autocast = self.precision == torch.bfloat16
        self._is_frozen = settings.frozen == "trunk"
        self.network.trunk.requires_grad_(not self._is_frozen)
        parameters = [each for each in self.network.parameters() if each.requires_grad]
        self.optimizer = settings.optimizer.optimizer(parameters, settings.learning_rate)
        self._average = WeightAverage(network, settings.average) if settings.average else None

    @property
    def parameters(self) -> int:
        """The number of weights and biases that are learnt."""
        parameters = self.network.parameters()
        return sum(each.numel() for each in parameters if each.requires_grad)

    @property
    def columns(self) -> frozenset[Column]:
        """The facts of many numbers that the targets of the network's heads depend on."""
        needed = (head.columns(self.targets) for head in self.network.kinds.values())
        return frozenset[Column]().union(*needed)

    def learn(
        self,
        window: Window,
        seed: int,
        iteration: int,
        report: Callable[[int], None] = lambda _: None,
        *,
        iterations: int = 0,
    ) -> Learned:
        """Train for `steps` batches; the result depends on (seed, iteration) and the data.

        `report` is called with the number of batches done. `iterations` are those of the run, for
        schedules that depend on them: by default, those so far. Raises DivergedError where a loss
        is not finite any more.
        """
        settings = self.settings
        torch.manual_seed(int(streams.stream(seed, iteration, 0, 1, streams.LEARNING)) >> 1)
        random = streams.generator(seed, iteration, streams.LEARNING)
        steps, log = self.steps(window), LearningLog(self._steps_per_epoch(window))
        self.network.train()
        if self._is_frozen:
            self.network.trunk.eval()  # or batch norms would learn from what they see
        batches = window.batches(random, settings.batch_size, steps, settings.symmetries)
        for number, batch in enumerate(batches):
            rate = self._set_rates(Moment(iteration, number / steps, iterations or iteration))
            errors, norm = self._step(batch)
            with torch.no_grad():
                log.add(errors.logged(), len(batch.planes), rate, norm)
            report(number + 1)
        learned = log.learned()
        if not learned.is_finite:
            raise DivergedError(
                f"learning diverged in iteration {iteration}: a loss is not finite; start another"
                f" run with a learn.learning_rate under {settings.learning_rate}"
            )
        return learned

    def steps(self, window: Window) -> int:
        """Return how many batches `learn` takes from the window as it is."""
        return self.settings.steps(self._steps_per_epoch(window), window.fresh)

    def _steps_per_epoch(self, window: Window) -> int:
        return window.batches_per_epoch(self.settings.batch_size, self.settings.symmetries)

    def _set_rates(self, moment: Moment) -> float:
        """Set learning rate and momentum of the next step; return the learning rate."""
        rates = self.settings.schedule.rates(moment)
        learning_rate: float = self.settings.learning_rate * rates.factor
        options = {"lr": learning_rate}
        if rates.momentum is not None:
            options |= self.settings.optimizer.momentum_option(rates.momentum)
        for group in self.optimizer.param_groups:
            group.update(options)
        return learning_rate

    def _step(self, batch: Batch) -> tuple[HeadErrors, torch.Tensor | None]:
        """Take one step; return its errors, and the gradient's norm where it is clipped."""
        heads = self.network.kinds
        targets = {
            name: self._tensor(head.target(batch.facts, self.targets))
            for name, head in heads.items()
        }
        planes = self._tensor(batch.planes)
        with torch.autocast(self.device.type, self.precision, enabled=self._autocast):
            predictions = self.network(planes.contiguous(memory_format=torch.channels_last))
        each = {name: head.error(predictions[name], targets[name]) for name, head in heads.items()}
        errors = HeadErrors(self.settings.loss, list(heads.values()), each)
        self.optimizer.zero_grad(set_to_none=True)
        errors.total().backward()  # type: ignore[no-untyped-call]
        norm = self._clip()
        self.optimizer.step()
        if self._average:
            self._average.update()
        return errors, norm

    def _clip(self) -> torch.Tensor | None:
        """Scale the gradients of all parameters down together; return their norm before."""
        limit = self.settings.clip_norm
        return nn.utils.clip_grad_norm_(self.network.parameters(), limit) if limit else None

    def _tensor(self, array: NDArray[np.float32]) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if self.device.type == "cuda":
            return tensor.pin_memory().to(self.device, non_blocking=True)
        return tensor

    def optimizer_arrays(self) -> Arrays:
        """Return the optimiser's state as arrays named PARAMETER/QUANTITY.

        Also what else learning goes on with; empty before the first step.
        """
        arrays: Arrays = self._average.state() if self._average else {}
        for name, parameter in self.network.named_parameters():
            for quantity, value in self.optimizer.state.get(parameter, {}).items():
                if value is not None:
                    arrays[f"{name}/{quantity}"] = value.cpu().numpy()
        return arrays

    def load(self, weights: Arrays, optimizer: Arrays) -> None:
        """Restore weights and the optimiser's state; raise UserError where they do not fit."""
        if self._average:
            self._average.load(weights, optimizer)
        else:
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
        """Return the network's weights as arrays: their average where they are averaged."""
        return self._average.arrays() if self._average else weights_to_arrays(self.network)


def _like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """Return a value in the memory layout of its parameter, so that sums round equally."""
    return value if value.ndim == 0 else torch.empty_like(parameter).copy_(value)
